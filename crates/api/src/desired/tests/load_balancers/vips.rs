//! VIPs: several of them, their floating IPs, and those that no router answers for.

use super::*;

/// The port of the further VIP.
const FURTHER: u128 = 0xf999;

/// Adds a VIP in a further subnet of the first network.
fn further_vip(scene: &mut Scene, subnet: u128, cidr: &str, address: &str) {
    scene.put(fixture::subnet(subnet, NET, cidr));
    let further = Vip {
        subnet_id: id(subnet),
        address: address.parse().unwrap(),
        port_id: id(FURTHER),
        own_port: false,
    };
    change(scene, LB1, |txn, _| {
        txn.edit::<LoadBalancer>(&id(LB1), |it| it.vips.push(further));
    });
}

#[test]
fn each_vip_serves_its_family() {
    let mut scene = serving();
    further_vip(&mut scene, 0x37, "fd00::/64", "fd00:0::10");
    member(&mut scene, LB1, POOL, 0x1a3, 0x37, "fd00::107");
    scene.floating_ip(0x80, "192.0.2.200", Some((LB1 + 0xf000, "10.0.0.10", R)));
    let all = rows(&scene);
    let backends = "10.0.0.107:80,20.0.0.107:80";
    assert_eq!(
        row(&all, LB1)["vips"],
        format!("{{10.0.0.10:82={backends}, 192.0.2.200:82={backends}, [fd00::10]:82=[fd00::107]:80}}")
    );
    assert_eq!(key(&all, LB1, "neutron:vip_fip").as_deref(), Some("192.0.2.200"));
    assert_eq!(key(&all, LB1, "neutron:additional_vips").as_deref(), Some("fd00::10"));
    assert_eq!(key(&all, LB1, "neutron:additional_vip_port_ids"), Some(id(FURTHER).to_string()));
    assert_eq!(key(&all, LB1, "neutron:additional_vip_fips"), None);
    let refs = ls_refs(&all, LB1).unwrap();
    assert!(refs.contains(&format!("\"neutron-{}\": 4", id(NET))), "two VIPs and two members: {refs}");
    // The schema determines how IPv6 clients are spread.
    assert!(!row(&all, LB1).contains_key("selection_fields"));
    scene.ability(Ability { ipv6_selection: true, ..Default::default() });
    assert_eq!(
        row(&rows(&scene), LB1)["selection_fields"],
        "[ip_dst, ip_src, ipv6_dst, ipv6_src, tp_dst, tp_src]"
    );
    change(&mut scene, LB1, |txn, _| {
        txn.edit::<Pool>(&id(POOL), |it| it.algorithm = Algorithm::SourceIp);
    });
    assert_eq!(row(&rows(&scene), LB1)["selection_fields"], "[ip_dst, ip_src, ipv6_dst, ipv6_src]");
    // Without the floating IP, all its keys are gone.
    let all = rows(scene.floating_ip(0x80, "192.0.2.200", None));
    assert_eq!(key(&all, LB1, "neutron:vip_fip"), None);
    assert!(!row(&all, LB1)["vips"].contains("192.0.2.200"));
}

#[test]
fn floating_ips_of_further_vips_have_their_own_key_and_frontends() {
    let mut scene = serving();
    further_vip(&mut scene, 0x37, "10.7.0.0/24", "10.7.0.10");
    scene.put(port(FURTHER, NET, 0x37, "10.7.0.10"));
    scene.floating_ip(0x80, "192.0.2.200", Some((LB1 + 0xf000, "10.0.0.10", R)));
    scene.floating_ip(0x81, "192.0.2.201", Some((FURTHER, "10.7.0.10", R)));
    monitor(&mut scene, LB1, POOL, 0x103, MonitorKind::Tcp);
    let all = rows(&scene);
    assert_eq!(key(&all, LB1, "neutron:vip_fip").as_deref(), Some("192.0.2.200"));
    assert_eq!(key(&all, LB1, "neutron:additional_vip_fips").as_deref(), Some("192.0.2.201"));
    let addresses = ["10.0.0.10", "10.7.0.10", "192.0.2.200", "192.0.2.201"];
    let backends = "10.0.0.107:80,20.0.0.107:80";
    let vips = addresses.map(|address| format!("{address}:82={backends}"));
    assert_eq!(row(&all, LB1)["vips"], format!("{{{}}}", vips.join(", ")));
    let checks = all.table("Load_Balancer_Health_Check");
    let mut checked: Vec<&str> = checks.iter().map(|(_, row)| row["vip"].as_str()).collect();
    checked.sort_unstable();
    assert_eq!(checked, addresses.map(|address| format!("{address}:82")));
    // It leaves, and only it.
    let all = rows(scene.floating_ip(0x81, "192.0.2.201", None));
    assert_eq!(key(&all, LB1, "neutron:additional_vip_fips"), None);
    assert_eq!(key(&all, LB1, "neutron:vip_fip").as_deref(), Some("192.0.2.200"));
    assert!(!row(&all, LB1)["vips"].contains("192.0.2.201"));
}

#[test]
fn each_vip_without_a_router_is_reported() {
    let mut scene = internal();
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    let reported = |scene: &Scene| rows(scene).problems.join("\n");
    assert!(reported(&scene).contains("nobody answers for 10.0.0.10: no router"), "{}", reported(&scene));
    // A router of a member does not answer for the VIP.
    scene.interface(0x46, R, NET2, SUB2, "20.0.0.1");
    pool(&mut scene, LB1, POOL, LbProtocol::Tcp);
    member(&mut scene, LB1, POOL, 0x1a2, SUB2, "20.0.0.107");
    let all = rows(&scene);
    assert_eq!(router_users(&all, R), [id(LB1)]);
    assert!(
        all.problems.join("\n").contains("nobody answers for 10.0.0.10: no router"),
        "{:?}",
        all.problems
    );
    scene.interface(0x45, R, NET, SUB, "10.0.0.1");
    assert_eq!(reported(&scene), "");
    // The router has an interface on the network, but not in the subnet of the further VIP.
    further_vip(&mut scene, 0x37, "fd00::/64", "fd00::10");
    assert!(reported(&scene).contains("nobody answers for fd00::10: no router"), "{}", reported(&scene));
    scene.interface(0x48, R, NET, 0x37, "fd00::1");
    assert_eq!(reported(&scene), "");
    // A foreign router with a gateway in the subnet of the VIP does not answer for it.
    balancer(&mut scene, LB2, N1, S1, "192.0.2.10");
    let mut foreign: Router = copy(&scene, R);
    (foreign.id, foreign.project) = (id(0x4a), "q".into());
    scene.put(foreign).gateway(0x41, 0x4a, N1, S1, "192.0.2.100", &["ch1"]);
    assert!(reported(&scene).contains("nobody answers for 192.0.2.10: no router"), "{}", reported(&scene));
    scene.gateway(0x42, R, N1, S1, "192.0.2.101", &["ch1"]);
    assert!(!reported(&scene).contains("nobody answers"), "{}", reported(&scene));
}
