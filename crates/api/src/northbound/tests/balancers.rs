//! Load balancers in a real Northbound, with ovn-northd.

use super::*;
use crate::desired::tests::load_balancers::{balancer, change, listener, member, monitor, pool};
use crate::report::ProbeResult;

const LB: u128 = 0x100;
const POOL: u128 = 0x101;
const LISTENER: u128 = 0x102;
const MONITOR: u128 = 0x103;
const MEMBERS: [(u128, u128, &str); 2] = [(0x1a1, 0x51, "10.0.0.107"), (0x1a2, 0x52, "10.0.0.108")];

/// A load balancer behind a router, with two ports as members.
fn serving(scene: &mut Scene) {
    scene.router(R).interface(0x45, R, NET, SUB, "10.0.0.1");
    balancer(scene, LB, NET, SUB, "10.0.0.10");
    pool(scene, LB, POOL, LbProtocol::Tcp);
    for (n, vm, address) in MEMBERS {
        scene.port(vm, NET, SUB, address);
        member(scene, LB, POOL, n, SUB, address);
    }
    listener(scene, LB, LISTENER, LbProtocol::Tcp, 82, Some(POOL));
}

fn external_id(cloud: &Cloud, key: &str) -> String {
    let key = format!("external_ids:\"{key}\"");
    cloud.nbctl(&["--if-exists", "get", "Load_Balancer", &id(LB).to_string(), &key])
}

/// The backends among which northd spreads new connections of the VIP.
fn backends(cloud: &Cloud) -> Vec<String> {
    cloud.nbctl(&["--wait=sb", "sync"]);
    let flows = cloud.sbctl(&["lflow-list", &ovn::ident::name::switch(id(NET))]);
    let flow = flows.lines().find(|line| line.contains("ls_in_lb ") && line.contains("ip4.dst == 10.0.0.10"));
    let list = flow.and_then(|line| line.split("backends=").nth(1)?.split([';', ')']).next());
    list.into_iter().flat_map(|list| list.split(',')).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_44_45_northd_probes_the_members_and_their_results_come_back() {
    let mut cloud = Cloud::with_northd().await;
    cloud.set_up_chassis();
    serving(&mut cloud.scene);
    cloud.settle().await;
    assert_eq!(backends(&cloud), ["10.0.0.107:80", "10.0.0.108:80"]);
    monitor(&mut cloud.scene, LB, POOL, MONITOR, MonitorKind::Tcp);
    cloud.settle().await;
    assert_eq!(cloud.column("Load_Balancer_Health_Check", "vip"), ["10.0.0.10:82"]);
    cloud.nbctl(&["--wait=sb", "sync"]);
    let probes = cloud.sbctl(&["--bare", "--columns=ip,port,logical_port,src_ip", "list", "Service_Monitor"]);
    for (_, vm, address) in MEMBERS {
        assert!(probes.contains(address) && probes.contains(&id(vm).to_string()), "{probes}");
    }
    // The chassis has both ports and reports its results.
    for (_, vm, _) in MEMBERS {
        let vm = id(vm).to_string();
        cloud.sbctl(&["lsp-bind", &vm, "ch1", "--", "set", "Port_Binding", &vm, "up=true"]);
    }
    let report = |cloud: &Cloud, results: [&str; 2]| {
        for ((_, _, address), result) in MEMBERS.into_iter().zip(results) {
            let row = cloud.sbctl(&[
                "--bare",
                "--columns=_uuid",
                "find",
                "Service_Monitor",
                &format!("ip={address}"),
            ]);
            cloud.sbctl(&["set", "Service_Monitor", row.trim(), &format!("status={result}")]);
        }
    };
    eventually("both are up", async || {
        let report = cloud.ovn.report().borrow().clone();
        MEMBERS.iter().all(|(_, vm, _)| report.port_up(id(*vm)))
    })
    .await;
    for (results, words, serving) in [
        (["online", "online"], ["ONLINE", "ONLINE"], vec!["10.0.0.107:80", "10.0.0.108:80"]),
        (["online", "offline"], ["ONLINE", "ERROR"], vec!["10.0.0.107:80"]),
        (["online", "online"], ["ONLINE", "ONLINE"], vec!["10.0.0.107:80", "10.0.0.108:80"]),
    ] {
        report(&cloud, results);
        eventually(&format!("{words:?}"), async || {
            let text = external_id(&cloud, "neutron:member_status");
            MEMBERS
                .into_iter()
                .zip(words)
                .all(|((n, ..), word)| text.contains(&format!("{}\\\": \\\"{word}", id(n))))
        })
        .await;
        assert_eq!(backends(&cloud), serving);
    }
    // A member without a port gets no connections at once; no probe has to fail first.
    cloud.scene.edit(|txn| drop(txn.remove::<Port>(&id(0x52))));
    let seq = cloud.publish();
    assert!(cloud.writer().wait_applied(seq).await);
    assert_eq!(backends(&cloud), ["10.0.0.107:80"]);
    assert!(external_id(&cloud, "neutron:member_status").contains("ERROR"));
    // Without the health monitor, all its rows are gone.
    change(&mut cloud.scene, LB, |txn, _| drop(txn.remove::<HealthMonitor>(&id(MONITOR))));
    let seq = cloud.publish();
    assert!(cloud.writer().wait_applied(seq).await);
    assert_eq!(cloud.column("Load_Balancer_Health_Check", "vip"), [""; 0]);
    assert_eq!(backends(&cloud), ["10.0.0.107:80", "10.0.0.108:80"]);
    assert_eq!(cloud.sbctl(&["--bare", "list", "Service_Monitor"]).trim(), "");
    let report = cloud.ovn.report().borrow().clone();
    assert!(report.probes.values().all(|result| *result != ProbeResult::Online));
}

/// Puts ports into a security group that allows everything.
fn open(scene: &mut Scene, ports: [u128; 3]) {
    scene.put(group(0x60));
    for (n, direction, ethertype) in [
        (0x70, Direction::Ingress, Ethertype::IPv4),
        (0x71, Direction::Egress, Ethertype::IPv4),
        (0x72, Direction::Ingress, Ethertype::IPv6),
        (0x73, Direction::Egress, Ethertype::IPv6),
    ] {
        scene.put(SecurityGroupRule {
            id: id(n),
            project: "p".into(),
            security_group_id: id(0x60),
            direction,
            ethertype,
            protocol: None,
            port_range_min: None,
            port_range_max: None,
            remote_ip_prefix: None,
            remote_group_id: None,
            standard: standard(),
        });
    }
    for port in ports {
        scene.edit(|txn| drop(txn.edit::<Port>(&id(port), |port| port.security_groups = [id(0x60)].into())));
    }
}

/// The ports at which a first packet to the VIP leaves, or where it is dropped.
fn trace(cloud: &Cloud, from: (u128, &str), to: &str, router_mac: &str) -> String {
    let port: Port = copy(&cloud.scene, from.0);
    let flow = format!(
        "inport == \"{}\" && eth.src == {} && eth.dst == {router_mac} && ip4.src == {} && ip4.dst == {to} && ip.ttl == 64 && \
         tcp && tcp.src == 40000 && tcp.dst == 82",
        port.id, port.mac, from.1
    );
    cloud.trace(&[
        "--ct=new",
        "--ct=new",
        "--ct=new",
        "--minimal",
        "--no-friendly-names",
        &ovn::ident::name::switch(port.network_id),
        &flow,
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_43_clients_of_the_vips_own_subnet_reach_a_member_unless_refused() {
    let mut cloud = Cloud::with_northd().await;
    serving(&mut cloud.scene);
    cloud.scene.port(0x53, NET, SUB, "10.0.0.53");
    open(&mut cloud.scene, [MEMBERS[0].1, MEMBERS[1].1, 0x53]);
    cloud.settle().await;
    cloud.nbctl(&["--wait=sb", "sync"]);
    let mac = copy::<Port>(&cloud.scene, 0x45).mac.to_string();
    // No machine answers for the VIP, so the client sends its packet to the router.
    assert_eq!(
        cloud.nbctl(&["get", "Logical_Switch_Port", &id(LB + 0xf000).to_string(), "addresses"]).trim(),
        "[]"
    );
    let reached = trace(&cloud, (0x53, "10.0.0.53"), "10.0.0.10", &mac);
    let members = MEMBERS.map(|(_, vm, _)| id(vm).to_string());
    assert!(members.iter().any(|member| reached.contains(&format!("output(\"{member}"))), "{reached}");
    for (allowed, is_reached) in [("10.0.0.53/32", true), ("10.0.0.54/32", false)] {
        change(&mut cloud.scene, LB, |txn, _| {
            let cidrs = vec![allowed.parse().unwrap()];
            txn.edit::<Listener>(&id(LISTENER), |listener| listener.allowed_cidrs = cidrs);
        });
        cloud.settle().await;
        cloud.nbctl(&["--wait=sb", "sync"]);
        let traced = trace(&cloud, (0x53, "10.0.0.53"), "10.0.0.10", &mac);
        assert_eq!(traced.contains("output("), is_reached, "{allowed}: {traced}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_protocol_and_family_reaches_its_members() {
    let mut cloud = Cloud::with_northd().await;
    serving(&mut cloud.scene);
    cloud.scene.port(0x53, NET, SUB, "10.0.0.53");
    let mut v6 = crate::resource::fixture::subnet(0x37, NET, "fd00::/64");
    v6.gateway_ip = None;
    cloud.scene.put(v6);
    cloud.scene.interface(0x47, R, NET, 0x37, "fd00::1");
    for (n, protocol, listens) in [(0x110, LbProtocol::Udp, 82), (0x120, LbProtocol::Sctp, 82)] {
        pool(&mut cloud.scene, LB, n, protocol);
        member(&mut cloud.scene, LB, n, n + 1, SUB, "10.0.0.107");
        listener(&mut cloud.scene, LB, n + 2, protocol, listens, Some(n));
    }
    change(&mut cloud.scene, LB, |txn, _| {
        let address = "fd00::10".parse().unwrap();
        let further = Vip { subnet_id: id(0x37), address, port_id: id(0xf999), own_port: false };
        txn.edit::<LoadBalancer>(&id(LB), |it| it.vips.push(further));
    });
    let mut both = copy::<Port>(&cloud.scene, 0x51);
    both.fixed_ips.push(FixedIp { subnet_id: id(0x37), ip_address: "fd00::107".parse().unwrap() });
    cloud.scene.put(both);
    let mut client = copy::<Port>(&cloud.scene, 0x53);
    client.fixed_ips.push(FixedIp { subnet_id: id(0x37), ip_address: "fd00::53".parse().unwrap() });
    cloud.scene.put(client);
    member(&mut cloud.scene, LB, POOL, 0x1b1, 0x37, "fd00::107");
    open(&mut cloud.scene, [0x51, 0x52, 0x53]);
    cloud.settle().await;
    cloud.nbctl(&["--wait=sb", "sync"]);
    let (port, member) = (copy::<Port>(&cloud.scene, 0x53), id(0x51));
    let v4 = ("10.0.0.53", "10.0.0.10", "ip4", copy::<Port>(&cloud.scene, 0x45).mac);
    let v6 = ("fd00::53", "fd00::10", "ip6", copy::<Port>(&cloud.scene, 0x47).mac);
    for (protocol, (from, to, family, router)) in [("udp", v4), ("sctp", v4), ("tcp", v6)] {
        let flow = format!(
            "inport == \"{}\" && eth.src == {} && eth.dst == {router} && {family}.src == {from} && {family}.dst == {to} && \
             ip.ttl == 64 && {protocol} && {protocol}.src == 40000 && {protocol}.dst == 82",
            port.id, port.mac
        );
        let switch = ovn::ident::name::switch(port.network_id);
        let traced = cloud.trace(&[
            "--ct=new",
            "--ct=new",
            "--ct=new",
            "--minimal",
            "--no-friendly-names",
            &switch,
            &flow,
        ]);
        assert!(traced.contains(&format!("output(\"{member}")), "{protocol} to {to}: {traced}");
    }
}
