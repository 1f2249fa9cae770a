//! The prefixes from which clients of a listener may connect.

use super::*;
use ovn::nb::LogicalSwitch;

fn allow(scene: &mut Scene, cidrs: &[&str]) {
    change(scene, LB1, |txn, _| {
        let cidrs = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        txn.edit::<Listener>(&id(LISTENER), |listener| listener.allowed_cidrs = cidrs);
    });
}

/// The matches of a switch's rules, without those of security groups.
fn on(all: &Rows, network: u128) -> Vec<String> {
    let rules = all.members::<LogicalSwitch>(id(network), LogicalSwitch::ACLS);
    let mut matches: Vec<String> = rules
        .into_iter()
        .map(|rule| {
            let row = all.table("ACL").into_iter().find(|(row, _)| row.uuid == rule).unwrap().1;
            assert_eq!(
                (&*row["action"], &*row["direction"], &*row["priority"]),
                ("drop", "from-lport", "2000")
            );
            row["match"].clone()
        })
        .collect();
    matches.sort();
    matches
}

#[test]
fn clients_from_elsewhere_are_dropped_where_they_connect() {
    let mut scene = serving();
    let gateway = "192.0.2.100";
    scene.gateway(0x41, R, N1, S1, gateway, &["ch1"]);
    let mac = copy::<Port>(&scene, 0x41).mac;
    assert_eq!(on(&rows(&scene), NET), [""; 0]);
    allow(&mut scene, &["10.0.0.7/24", "203.0.113.9/32"]);
    let vip = "ip4.dst == 10.0.0.10 && tcp && tcp.dst == 82 && !(ip4.src == {10.0.0.0/24, 203.0.113.9})";
    let all = rows(&scene);
    assert_eq!((on(&all, NET), on(&all, NET2)), (vec![vip.to_owned()], vec![vip.to_owned()]));
    // Another tenant may use the same address, but the gateway port belongs to this router.
    assert_eq!(on(&all, N1), [format!("{vip} && eth.dst == {mac}")]);
    scene.floating_ip(0x80, "192.0.2.200", Some((LB1 + 0xf000, "10.0.0.10", R)));
    let floating = vip.replace("10.0.0.10", "192.0.2.200");
    let all = rows(&scene);
    assert_eq!(on(&all, NET), [vip.to_owned(), floating.clone()]);
    assert_eq!(on(&all, N1), [format!("{vip} && eth.dst == {mac}"), floating]);
    assert_eq!(on(&all, N2), [""; 0]);
    // Without a listener in service no rule is needed.
    change(&mut scene, LB1, |txn, _| {
        txn.edit::<Listener>(&id(LISTENER), |listener| listener.admin_state_up = false);
    });
    assert_eq!((on(&rows(&scene), NET), on(&rows(&scene), N1)), (vec![], vec![]));
    change(&mut scene, LB1, |txn, _| {
        txn.edit::<Listener>(&id(LISTENER), |listener| listener.admin_state_up = true);
    });
    allow(&mut scene, &[]);
    assert_eq!((on(&rows(&scene), NET), on(&rows(&scene), N1)), (vec![], vec![]));
}

#[test]
fn a_family_that_is_not_allowed_has_no_clients() {
    let mut scene = serving();
    scene.put(fixture::subnet(0x37, NET, "fd00::/64"));
    change(&mut scene, LB1, |txn, _| {
        let address = "fd00::10".parse().unwrap();
        let further = Vip { subnet_id: id(0x37), address, port_id: id(0xf999), own_port: false };
        txn.edit::<LoadBalancer>(&id(LB1), |it| it.vips.push(further));
    });
    member(&mut scene, LB1, POOL, 0x1a3, 0x37, "fd00::107");
    allow(&mut scene, &["10.0.0.0/8"]);
    let v4 = "ip4.dst == 10.0.0.10 && tcp && tcp.dst == 82 && !(ip4.src == 10.0.0.0/8)".to_owned();
    assert_eq!(on(&rows(&scene), NET), [v4.clone(), "ip6.dst == fd00::10 && tcp && tcp.dst == 82".into()]);
    allow(&mut scene, &["10.0.0.0/8", "fd00:0::/32"]);
    let v6 = "ip6.dst == fd00::10 && tcp && tcp.dst == 82 && !(ip6.src == fd00::/32)".into();
    assert_eq!(on(&rows(&scene), NET), [v4, v6]);
}
