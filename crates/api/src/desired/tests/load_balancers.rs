//! Load balancers: their rows, and the switches and routers that use them.

mod access;
mod builder;
mod groups;
mod health;
mod vips;

use ovn::nb::{LogicalRouter, LogicalSwitch};

use super::scene::*;
use super::*;
use crate::model::*;
use crate::resource::fixture::{self, id};
use crate::snapshot::Ability;
pub(crate) use builder::{balancer, change, listener, member, monitor, pool};

const R: u128 = 0x40;
const LB1: u128 = 0x100;
const LB2: u128 = 0x200;
/// Further internal networks, and their subnets.
const NET2: u128 = 0x33;
const SUB2: u128 = 0x34;
const NET3: u128 = 0x35;
const SUB3: u128 = 0x36;
const POOL: u128 = 0x101;
const LISTENER: u128 = 0x102;

/// Three internal networks, 10.0.0.0/24, 20.0.0.0/24 and 30.0.0.0/24, and a router without ports.
fn internal() -> Scene {
    let mut scene = Scene::new();
    for (network, subnet, cidr) in [(NET2, SUB2, "20.0.0.0/24"), (NET3, SUB3, "30.0.0.0/24")] {
        scene.put(fixture::network(network, "p")).put(fixture::subnet(subnet, network, cidr));
    }
    scene.router(R);
    scene
}

/// The scene of `internal`, with the first two networks behind the router.
fn routed() -> Scene {
    let mut scene = internal();
    scene.interface(0x45, R, NET, SUB, "10.0.0.1").interface(0x46, R, NET2, SUB2, "20.0.0.1");
    scene
}

fn users(all: &Rows, switch: u128) -> Vec<Uuid> {
    all.members::<LogicalSwitch>(id(switch), LogicalSwitch::LOAD_BALANCER)
}

fn router_users(all: &Rows, router: u128) -> Vec<Uuid> {
    all.members::<LogicalRouter>(id(router), LogicalRouter::LOAD_BALANCER)
}

/// The one row of a load balancer.
fn row(all: &Rows, balancer: u128) -> &BTreeMap<&'static str, String> {
    let rows = all.table("Load_Balancer");
    let found: Vec<_> = rows.iter().filter(|(_, row)| row["name"] == id(balancer).to_string()).collect();
    assert_eq!(found.len(), 1, "{rows:#?}");
    found[0].1
}

/// The value of a key in the row's `external_ids`.
fn key(all: &Rows, balancer: u128, key: &str) -> Option<String> {
    let wanted = RowId::of::<ovn::nb::LoadBalancer>(id(balancer));
    all.external_id(&wanted, key)
}

fn ls_refs(all: &Rows, balancer: u128) -> Option<String> {
    key(all, balancer, "ls_refs")
}

#[test]
fn the_five_examples_of_the_design() {
    let mut scene = routed();
    let name = |n: u128| ovn::ident::name::switch(id(n));
    // The command; then protocol, references, listener, VIPs and the pool's members after it.
    type Example = (fn(&mut Scene), &'static str, String, &'static str, &'static str, Option<String>);
    let steps: [Example; 5] = [
        (|s| balancer(s, LB1, NET, SUB, "10.0.0.10"), "", format!("{{\"{}\": 1}}", name(NET)), "", "", None),
        (
            |s| pool(s, LB1, POOL, LbProtocol::Tcp),
            "tcp",
            format!("{{\"{}\": 1}}", name(NET)),
            "",
            "",
            Some(String::new()),
        ),
        (
            |s| member(s, LB1, POOL, 0x1a1, SUB, "10.0.0.107"),
            "tcp",
            format!("{{\"{}\": 2}}", name(NET)),
            "",
            "",
            Some(format!("member_{}_10.0.0.107:80_{}", id(0x1a1), id(SUB))),
        ),
        (
            |s| member(s, LB1, POOL, 0x1a2, SUB2, "20.0.0.107"),
            "tcp",
            format!("{{\"{}\": 2, \"{}\": 1}}", name(NET), name(NET2)),
            "",
            "",
            Some(format!(
                "member_{}_10.0.0.107:80_{},member_{}_20.0.0.107:80_{}",
                id(0x1a1),
                id(SUB),
                id(0x1a2),
                id(SUB2)
            )),
        ),
        (
            |s| listener(s, LB1, LISTENER, LbProtocol::Tcp, 82, Some(POOL)),
            "tcp",
            format!("{{\"{}\": 2, \"{}\": 1}}", name(NET), name(NET2)),
            "82:pool",
            "{10.0.0.10:82=10.0.0.107:80,20.0.0.107:80}",
            Some(format!(
                "member_{}_10.0.0.107:80_{},member_{}_20.0.0.107:80_{}",
                id(0x1a1),
                id(SUB),
                id(0x1a2),
                id(SUB2)
            )),
        ),
    ];
    for (n, (step, protocol, refs, listens, vips, members)) in steps.into_iter().enumerate() {
        step(&mut scene);
        let all = rows(&scene);
        let rows = all.table("Load_Balancer");
        assert_eq!(rows.len(), 1, "example {}", n + 1);
        assert_eq!(rows[0].0.uuid, id(LB1), "one row throughout");
        let row = rows[0].1;
        let column = |name: &str| row.get(name).cloned().unwrap_or_default();
        assert_eq!(column("name"), id(LB1).to_string());
        assert_eq!(column("protocol"), protocol);
        assert_eq!(column("vips"), vips);
        assert_eq!(column("selection_fields"), "[ip_dst, ip_src, tp_dst, tp_src]");
        assert_eq!(key(&all, LB1, "enabled").as_deref(), Some("True"));
        assert_eq!(key(&all, LB1, "lr_ref"), Some(ovn::ident::name::router(id(R))));
        assert_eq!(ls_refs(&all, LB1), Some(refs), "example {}", n + 1);
        assert_eq!(key(&all, LB1, "neutron:vip").as_deref(), Some("10.0.0.10"));
        assert_eq!(key(&all, LB1, "neutron:vip_port_id"), Some(id(LB1 + 0xf000).to_string()));
        assert_eq!(key(&all, LB1, &format!("pool_{}", id(POOL))), members, "example {}", n + 1);
        let listens = (!listens.is_empty()).then(|| format!("{listens}_{}", id(POOL)));
        assert_eq!(key(&all, LB1, &format!("listener_{}", id(LISTENER))), listens);
        let statuses = match n {
            0 | 1 => None,
            2 => Some(format!("{{\"{}\": \"NO_MONITOR\"}}", id(0x1a1))),
            _ => Some(format!("{{\"{}\": \"NO_MONITOR\", \"{}\": \"NO_MONITOR\"}}", id(0x1a1), id(0x1a2))),
        };
        assert_eq!(key(&all, LB1, "neutron:member_status"), statuses);
        assert_eq!(key(&all, LB1, "meridian:revision"), Some((n + 1).to_string()));
        assert_eq!(router_users(&all, R), [id(LB1)]);
        assert_eq!((users(&all, NET), users(&all, NET2)), (vec![id(LB1)], vec![id(LB1)]));
        assert_eq!((users(&all, NET3), users(&all, N1)), (vec![], vec![]));
    }
}

#[test]
fn networks_of_a_router_share_their_load_balancers() {
    let mut scene = internal();
    let refs = |network: u128| Some(format!("{{\"{}\": 1}}", ovn::ident::name::switch(id(network))));
    let (one, two) = (vec![id(LB1)], vec![id(LB2)]);
    let both = vec![id(LB1), id(LB2)];
    let router = Some(ovn::ident::name::router(id(R)));

    // Scenario 8: first without a router, then with one.
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    let all = rows(&scene);
    assert_eq!(
        (users(&all, NET), router_users(&all, R), key(&all, LB1, "lr_ref")),
        (one.clone(), vec![], None)
    );
    assert!(all.problems.iter().any(|problem| problem.contains("no router")), "{:?}", all.problems);
    let all = rows(scene.interface(0x45, R, NET, SUB, "10.0.0.1"));
    assert_eq!((router_users(&all, R), key(&all, LB1, "lr_ref")), (one.clone(), router.clone()));
    assert_eq!(ls_refs(&all, LB1), refs(NET));
    assert_eq!(all.problems, [""; 0]);

    // Scenario 9: a second network with a load balancer of its own.
    balancer(&mut scene, LB2, NET2, SUB2, "20.0.0.10");
    let all = rows(scene.interface(0x46, R, NET2, SUB2, "20.0.0.1"));
    assert_eq!(
        (router_users(&all, R), users(&all, NET), users(&all, NET2)),
        (both.clone(), both.clone(), both.clone())
    );
    assert_eq!((ls_refs(&all, LB1), ls_refs(&all, LB2)), (refs(NET), refs(NET2)));

    // Scenario 10: a third network without one.
    let all = rows(scene.interface(0x47, R, NET3, SUB3, "30.0.0.1"));
    assert_eq!(users(&all, NET3), both);

    // Scenario 15: a gateway; the external network gets no load balancer.
    let all = rows(scene.gateway(0x41, R, N1, S1, "192.0.2.100", &["ch1"]));
    assert_eq!((users(&all, N1), router_users(&all, R)), (vec![], both.clone()));

    // Scenario 11: the second network leaves the router.
    let all = rows(scene.edit(|txn| drop(txn.remove::<Port>(&id(0x46)))));
    assert_eq!((users(&all, NET2), users(&all, NET), users(&all, NET3)), (two, one.clone(), one.clone()));
    assert_eq!((router_users(&all, R), key(&all, LB2, "lr_ref")), (one.clone(), None));

    // Scenario 12: a member's network leaves the router. It keeps the load balancer because of the member.
    scene.interface(0x46, R, NET2, SUB2, "20.0.0.1");
    pool(&mut scene, LB1, POOL, LbProtocol::Tcp);
    member(&mut scene, LB1, POOL, 0x1a1, SUB2, "20.0.0.107");
    let counted = ls_refs(&rows(&scene), LB1);
    let all = rows(scene.edit(|txn| drop(txn.remove::<Port>(&id(0x46)))));
    assert_eq!((router_users(&all, R), users(&all, NET)), (one.clone(), one));
    assert_eq!((users(&all, NET2), ls_refs(&all, LB1)), (both, counted));
}

#[test]
fn scenario_13_a_vip_subnet_on_two_routers() {
    let mut scene = routed();
    scene
        .router(0x4a)
        .interface(0x4b, 0x4a, NET, SUB, "10.0.0.2")
        .interface(0x4c, 0x4a, NET3, SUB3, "30.0.0.1");
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    let all = rows(&scene);
    let name = |n: u128| ovn::ident::name::router(id(n));
    assert_eq!(key(&all, LB1, "lr_ref"), Some(format!("{},{}", name(R), name(0x4a))));
    for network in [NET, NET2, NET3] {
        assert_eq!(users(&all, network), [id(LB1)]);
    }
    let all = rows(scene.edit(|txn| drop(txn.remove::<Port>(&id(0x4b)))));
    assert_eq!((router_users(&all, R), router_users(&all, 0x4a)), (vec![id(LB1)], vec![]));
    assert_eq!((users(&all, NET2), users(&all, NET3)), (vec![id(LB1)], vec![]));
}

#[test]
fn scenario_14_a_vip_on_an_external_network() {
    let mut scene = routed();
    scene.gateway(0x41, R, N1, S1, "192.0.2.100", &["ch1"]);
    balancer(&mut scene, LB1, N1, S1, "192.0.2.10");
    let all = rows(&scene);
    assert_eq!((users(&all, N1), ls_refs(&all, LB1)), (vec![], None));
    assert_eq!((router_users(&all, R), users(&all, NET)), (vec![id(LB1)], vec![id(LB1)]));
}

#[test]
fn an_internal_vlan_network_has_its_load_balancer() {
    let mut scene = routed();
    let mut vlan: Network = copy(&scene, NET);
    vlan.segment.network_type = NetworkType::Vlan;
    vlan.segment.physical_network = Some("phy1".into());
    scene.put(vlan);
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    let all = rows(&scene);
    assert_eq!(users(&all, NET), [id(LB1)]);
    assert!(ls_refs(&all, LB1).is_some());
}

#[test]
fn scenario_16_an_interface_of_the_other_ip_version() {
    let mut scene = routed();
    scene.put(fixture::subnet(0x37, NET, "fd00::/64")).put(fixture::subnet(0x38, NET3, "fd03::/64"));
    scene.interface(0x48, R, NET, 0x37, "fd00::1").interface(0x49, R, NET3, 0x38, "fd03::1");
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    let all = rows(&scene);
    assert_eq!((users(&all, NET), users(&all, NET3)), (vec![id(LB1)], vec![]));
    let before = row(&all, LB1).clone();
    let all = rows(scene.edit(|txn| drop(txn.remove::<Port>(&id(0x48)))));
    assert_eq!(
        (row(&all, LB1), users(&all, NET), router_users(&all, R)),
        (&before, vec![id(LB1)], vec![id(LB1)])
    );
}

#[test]
fn scenario_17_networks_and_routers_vanish() {
    let mut scene = routed();
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    pool(&mut scene, LB1, POOL, LbProtocol::Tcp);
    member(&mut scene, LB1, POOL, 0x1a1, SUB2, "20.0.0.107");
    scene.edit(|txn| {
        txn.remove::<Router>(&id(R));
        txn.remove::<Subnet>(&id(SUB2));
    });
    let all = rows(&scene);
    assert_eq!((router_users(&all, R), users(&all, NET2)), (vec![], vec![]));
    assert_eq!(key(&all, LB1, "lr_ref"), None);
}

#[test]
fn scenario_18_the_last_member_of_a_network() {
    let mut scene = internal();
    scene.interface(0x45, R, NET, SUB, "10.0.0.1");
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    pool(&mut scene, LB1, POOL, LbProtocol::Tcp);
    member(&mut scene, LB1, POOL, 0x1a1, SUB2, "20.0.0.107");
    member(&mut scene, LB1, POOL, 0x1a2, SUB2, "20.0.0.108");
    let count = |all: &Rows| ls_refs(all, LB1).unwrap().contains(&id(NET2).to_string());
    for (gone, left) in [(0x1a1, true), (0x1a2, false)] {
        change(&mut scene, LB1, |txn, _| drop(txn.remove::<Member>(&id(gone))));
        let all = rows(&scene);
        assert_eq!((count(&all), !users(&all, NET2).is_empty()), (left, left));
    }
}

/// A load balancer with a pool of two members behind port 82.
fn serving() -> Scene {
    let mut scene = routed();
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    pool(&mut scene, LB1, POOL, LbProtocol::Tcp);
    member(&mut scene, LB1, POOL, 0x1a1, SUB, "10.0.0.107");
    member(&mut scene, LB1, POOL, 0x1a2, SUB2, "20.0.0.107");
    listener(&mut scene, LB1, LISTENER, LbProtocol::Tcp, 82, Some(POOL));
    scene
}

fn vips(scene: &Scene) -> String {
    row(&rows(scene), LB1).get("vips").cloned().unwrap_or_default()
}

#[test]
fn what_is_disabled_serves_nothing() {
    let (pool_id, listener_id) = (id(POOL), id(LISTENER));
    let both = "{10.0.0.10:82=10.0.0.107:80,20.0.0.107:80}";
    type Disable = fn(&mut crate::world::Txn, bool);
    let cases: [(Disable, &str, String); 4] = [
        (
            |txn, on| drop(txn.edit::<LoadBalancer>(&id(LB1), |it| it.admin_state_up = on)),
            "",
            "enabled".into(),
        ),
        (
            |txn, on| drop(txn.edit::<Listener>(&id(LISTENER), |it| it.admin_state_up = on)),
            "",
            format!("listener_{listener_id}:D"),
        ),
        (
            |txn, on| drop(txn.edit::<Pool>(&id(POOL), |it| it.admin_state_up = on)),
            "",
            format!("pool_{pool_id}:D"),
        ),
        (
            |txn, on| drop(txn.edit::<Member>(&id(0x1a1), |it| it.admin_state_up = on)),
            "{10.0.0.10:82=20.0.0.107:80}",
            "neutron:member_status".into(),
        ),
    ];
    for (disable, left, told) in cases {
        let mut scene = serving();
        assert_eq!(vips(&scene), both);
        change(&mut scene, LB1, |txn, _| disable(txn, false));
        assert_eq!(vips(&scene), left, "{told}");
        let value = key(&rows(&scene), LB1, &told).unwrap();
        match told.as_str() {
            "enabled" => assert_eq!(value, "False"),
            "neutron:member_status" => assert!(value.contains("OFFLINE"), "{value}"),
            _ => {}
        }
        change(&mut scene, LB1, |txn, _| disable(txn, true));
        assert_eq!(vips(&scene), both, "{told}");
    }
    // A listener without a pool.
    let mut scene = serving();
    change(&mut scene, LB1, |txn, _| {
        txn.edit::<Listener>(&id(LISTENER), |it| it.default_pool_id = None);
    });
    let all = rows(&scene);
    assert_eq!(key(&all, LB1, &format!("listener_{}", id(LISTENER))).as_deref(), Some("82:"));
    assert_eq!(vips(&scene), "");
}

#[test]
fn weights_repeat_and_backups_wait() {
    let weights = |first: u16, second: u16, backup: bool| {
        let mut scene = serving();
        change(&mut scene, LB1, |txn, _| {
            txn.edit::<Member>(&id(0x1a1), |it| it.weight = first);
            txn.edit::<Member>(&id(0x1a2), |it| (it.weight, it.backup) = (second, backup));
        });
        vips(&scene)
    };
    let (one, two) = ("10.0.0.107:80", "20.0.0.107:80");
    assert_eq!(weights(1, 3, false), format!("{{10.0.0.10:82={one},{two},{two},{two}}}"));
    assert_eq!(weights(10, 10, false), format!("{{10.0.0.10:82={one},{two}}}"));
    assert_eq!(weights(0, 1, false), format!("{{10.0.0.10:82={two}}}"));
    assert_eq!(weights(0, 0, false), "");
    assert_eq!(weights(1, 1, true), format!("{{10.0.0.10:82={one}}}"));
    assert_eq!(weights(0, 1, true), format!("{{10.0.0.10:82={two}}}"), "no other member can");
}

#[test]
fn each_combination_has_its_row() {
    let mut scene = serving();
    // Another protocol on the same port, and another hash with persistence.
    pool(&mut scene, LB1, 0x111, LbProtocol::Udp);
    member(&mut scene, LB1, 0x111, 0x1b1, SUB, "10.0.0.53");
    listener(&mut scene, LB1, 0x112, LbProtocol::Udp, 82, Some(0x111));
    change(&mut scene, LB1, |txn, generation| {
        txn.put(Pool {
            algorithm: Algorithm::SourceIp,
            persistence: Some(Persistence { timeout: None, granularity: None }),
            ..builder::new_pool(LB1, 0x121, LbProtocol::Tcp, generation)
        });
    });
    member(&mut scene, LB1, 0x121, 0x1c1, SUB, "10.0.0.21");
    listener(&mut scene, LB1, 0x122, LbProtocol::Tcp, 443, Some(0x121));
    let all = rows(&scene);
    let rows_of = all.table("Load_Balancer");
    let summary: Vec<(bool, &str, &str, &str, String)> = rows_of
        .iter()
        .map(|(uuid, row)| {
            let told = |name: &str| row.get(name).map_or("", String::as_str);
            let status = all.external_id(uuid, "neutron:member_status").unwrap();
            (uuid.uuid == id(LB1), told("protocol"), told("vips"), told("options"), status)
        })
        .collect();
    let none = |members: &[u128]| {
        let each: Vec<String> = members.iter().map(|n| format!("\"{}\": \"NO_MONITOR\"", id(*n))).collect();
        format!("{{{}}}", each.join(", "))
    };
    let first = (true, "tcp", "{10.0.0.10:82=10.0.0.107:80,20.0.0.107:80}", "", none(&[0x1a1, 0x1a2]));
    assert!(summary.contains(&first), "{summary:#?}");
    assert!(
        summary.contains(&(false, "udp", "{10.0.0.10:82=10.0.0.53:80}", "", none(&[0x1b1]))),
        "{summary:#?}"
    );
    let sticky = (false, "tcp", "{10.0.0.10:443=10.0.0.21:80}", "{affinity_timeout=360}", none(&[0x1c1]));
    assert!(summary.contains(&sticky) && summary.len() == 3, "{summary:#?}");
    for (uuid, row) in &rows_of {
        assert_eq!(row["name"], id(LB1).to_string());
        assert_eq!(
            all.external_id(uuid, "meridian:revision"),
            Some(copy::<LoadBalancer>(&scene, LB1).generation.to_string())
        );
        assert!(router_users(&all, R).contains(&uuid.uuid) && users(&all, NET).contains(&uuid.uuid));
    }
    // A deleted load balancer has no row, even if other rows refer to it.
    scene.edit(|txn| {
        txn.edit::<LoadBalancer>(&id(LB1), |it| it.deleted = true);
    });
    assert!(rows(&scene).table("Load_Balancer").is_empty());
}

#[test]
fn scenario_42_floating_ips_of_members_are_central() {
    let mut scene = serving();
    scene.settings(|settings| settings.enable_distributed_floating_ip = true);
    scene.port(0x51, NET, SUB, "10.0.0.107");
    scene.floating_ip(0x81, "192.0.2.201", Some((0x51, "10.0.0.107", R)));
    scene.snapshot.report.set_up(id(0x51), true);
    let is_distributed = |scene: &Scene| {
        let all = rows(scene);
        let nat = all.one("NAT", "external_ip", "192.0.2.201");
        assert_eq!(nat.contains_key("external_mac"), nat.contains_key("logical_port"));
        nat.contains_key("external_mac")
    };
    assert!(is_distributed(&scene), "the VIP has no floating IP");
    let vip = Some((LB1 + 0xf000, "10.0.0.10", R));
    assert!(!is_distributed(scene.floating_ip(0x80, "192.0.2.200", vip)));
    assert!(is_distributed(scene.floating_ip(0x80, "192.0.2.200", None)));
    scene.floating_ip(0x80, "192.0.2.200", vip);
    change(&mut scene, LB1, |txn, _| drop(txn.remove::<Member>(&id(0x1a1))));
    assert!(is_distributed(&scene), "it is no member any more");
}

#[test]
fn scenario_43_nobody_claims_a_vip() {
    let mut scene = serving();
    // The owner brought the port, so neither its name nor its device identifies it.
    scene.edit(|txn| {
        txn.edit::<Port>(&id(LB1 + 0xf000), |port| {
            (port.name, port.device_owner, port.device_id) = ("mine".into(), String::new(), String::new());
        });
    });
    let mut other = port(0x52, NET, SUB, "10.0.0.52");
    other.allowed_address_pairs =
        vec![AddressPair { ip_address: "10.0.0.10/32".parse().unwrap(), mac_address: None }];
    scene.put(other);
    let all = rows(&scene);
    let vip = all.one("Logical_Switch_Port", "name", &id(LB1 + 0xf000).to_string());
    assert!(!vip.contains_key("addresses") && !vip.contains_key("type"), "{vip:?}");
    let all = rows(scene.edit(|txn| drop(txn.remove::<LoadBalancer>(&id(LB1)))));
    let freed = all.one("Logical_Switch_Port", "name", &id(LB1 + 0xf000).to_string());
    assert_eq!(freed["type"], "virtual");
}

#[test]
fn tenants_cannot_put_load_balancers_on_networks_and_routers_of_others() {
    // The victim has a router with its own 10.0.0.0/24, a shared network behind it, and a gateway.
    let mut scene = Scene::new();
    let (victims, shared, of_shared) = (0x40, NET2, SUB2);
    let mut network = fixture::network(shared, "victim");
    network.external = false;
    scene.put(network).put(fixture::subnet(of_shared, shared, "20.0.0.0/24"));
    scene.put(fixture::network(0x38, "victim")).put(fixture::subnet(0x39, 0x38, "10.0.0.0/24"));
    scene.put(Router { project: "victim".into(), ..router(victims) });
    scene
        .interface(0x45, victims, shared, of_shared, "20.0.0.1")
        .interface(0x46, victims, 0x38, 0x39, "10.0.0.1");
    scene.gateway(0x41, victims, N1, S1, "192.0.2.100", &["ch1"]);
    // The attacker has a VIP with an address that the victim uses too, and a member in the shared network.
    balancer(&mut scene, LB1, NET, SUB, "10.0.0.10");
    pool(&mut scene, LB1, POOL, LbProtocol::Tcp);
    member(&mut scene, LB1, POOL, 0x1a1, of_shared, "20.0.0.107");
    listener(&mut scene, LB1, LISTENER, LbProtocol::Tcp, 80, Some(POOL));
    // The attacker has another VIP in the external network, where the victim's gateway is.
    balancer(&mut scene, LB2, N1, S1, "192.0.2.10");
    pool(&mut scene, LB2, 0x201, LbProtocol::Tcp);
    member(&mut scene, LB2, 0x201, 0x2a1, S1, "10.0.0.5");
    listener(&mut scene, LB2, 0x202, LbProtocol::Tcp, 22, Some(0x201));
    let all = rows(&scene);
    assert!(router_users(&all, victims).is_empty());
    for network in [shared, 0x38, N1] {
        assert!(users(&all, network).is_empty(), "{network:x}");
    }
    assert_eq!(users(&all, NET), [id(LB1)]);
    assert_eq!(ls_refs(&all, LB1), Some(format!("{{\"{}\": 1}}", ovn::ident::name::switch(id(NET)))));
    // A VIP in the shared network is an address of the victim's router, which answers for it there.
    balancer(&mut scene, 0x300, shared, of_shared, "20.0.0.10");
    let all = rows(&scene);
    assert_eq!((router_users(&all, victims), users(&all, shared)), (vec![id(0x300)], vec![id(0x300)]));
    // The attacker's own router serves its VIP in the external network.
    scene.router(0x4a).gateway(0x4b, 0x4a, N1, S1, "192.0.2.101", &["ch1"]);
    let all = rows(&scene);
    assert_eq!((router_users(&all, 0x4a), router_users(&all, victims)), (vec![id(LB2)], vec![id(0x300)]));
}

#[test]
fn a_router_with_several_gateways_translates_without_state() {
    let mut scene = serving();
    scene.gateway(0x41, R, N1, S1, "192.0.2.100", &["ch1"]);
    assert!(!row(&rows(&scene), LB1).contains_key("options"));
    scene.gateway(0x42, R, N2, S2, "198.51.100.100", &["ch2"]);
    let all = rows(&scene);
    assert_eq!(row(&all, LB1)["options"], "{use_stateless_nat=true}");
    let warned = |all: &Rows| all.problems.iter().any(|it| it.contains("balancer-with-several-gateways"));
    assert!(warned(&all), "{:?}", all.problems);
    scene.ability(Ability { stateless_balancers: true, ..Default::default() });
    assert!(!warned(&rows(&scene)));
}
