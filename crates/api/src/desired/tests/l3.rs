//! Routers, gateways, routes, BFD sessions and NAT.

use ovn::ident::name;
use ovn::nb::LogicalRouter;

use super::scene::*;
use super::*;
use crate::model::*;
use crate::resource::fixture::id;
use crate::snapshot::Ability;

const R: u128 = 0x40;
const P1: u128 = 0x41;
const P2: u128 = 0x42;
const P3: u128 = 0x43;

fn lrp(n: u128) -> String {
    name::router_port(id(n))
}

/// A router with one gateway on N1.
fn single() -> Scene {
    let mut scene = Scene::new();
    scene.router(R).gateway(P1, R, N1, S1, "192.0.2.100", &["ch1", "ch2", "ch3"]);
    scene
}

/// A router with two gateways, on N1 and N2.
fn double() -> Scene {
    let mut scene = single();
    scene.gateway(P2, R, N2, S2, "198.51.100.100", &["ch2", "ch3", "ch1"]);
    scene
}

/// A router with three gateways on N1.
fn triple() -> Scene {
    let mut scene = single();
    scene.gateway(P2, R, N1, S1, "192.0.2.101", &["ch2", "ch3", "ch1"]);
    scene.gateway(P3, R, N1, S1, "192.0.2.102", &["ch3", "ch1", "ch2"]);
    scene
}

fn flags(scene: &mut Scene, ecmp: bool, bfd: bool) -> &mut Scene {
    scene.edit(|txn| {
        txn.edit::<Router>(&id(R), |router| {
            router.enable_default_route_ecmp = ecmp;
            router.enable_default_route_bfd = bfd;
        });
    })
}

/// The next hop and the port of every default route.
fn default_routes(rows: &Rows) -> Vec<(String, String)> {
    let routes = rows.table("Logical_Router_Static_Route");
    let default = routes.iter().filter(|(_, row)| ["0.0.0.0/0", "::/0"].contains(&row["ip_prefix"].as_str()));
    let mut found: Vec<_> = default
        .map(|(_, row)| (row["nexthop"].clone(), row.get("output_port").cloned().unwrap_or_default()))
        .collect();
    found.sort();
    found
}

fn route(hop: &str, n: u128) -> (String, String) {
    (hop.to_owned(), lrp(n))
}

#[test]
fn scenario_10_an_interface() {
    let mut scene = Scene::new();
    scene.router(R).interface(0x45, R, NET, SUB, "10.0.0.1");
    let all = rows(&scene);
    let port = all.one("Logical_Router_Port", "name", &lrp(0x45));
    assert_eq!(port["networks"], "10.0.0.1/24");
    assert_eq!(
        port["external_ids"],
        format!(
            "{{neutron:is_ext_gw=False, neutron:network_name=neutron-{}, neutron:revision_number=0, \
             neutron:router_name=neutron-{}, neutron:subnet_ids={}}}",
            id(NET),
            id(R),
            id(SUB)
        )
    );
    let peer = all.one("Logical_Switch_Port", "name", &id(0x45).to_string());
    assert_eq!((peer["type"].as_str(), peer["addresses"].as_str()), ("router", "router"));
    assert_eq!(peer["options"], format!("{{router-port={}}}", lrp(0x45)));
    assert!(!peer.contains_key("dhcpv4_options") && !peer.contains_key("port_security"));
    assert_eq!(all.members::<LogicalRouter>(id(R), LogicalRouter::PORTS), [id(0x45)]);
}

#[test]
fn scenario_11_a_gateway() {
    let mut scene = single();
    scene.interface(0x45, R, NET, SUB, "10.0.0.1");
    let all = rows(&scene);
    let peer = all.one("Logical_Switch_Port", "name", &id(P1).to_string());
    assert_eq!(
        peer["options"],
        format!("{{exclude-lb-vips-from-garp=true, nat-addresses=router, router-port={}}}", lrp(P1))
    );
    let port = all.one("Logical_Router_Port", "name", &lrp(P1));
    assert!(port["external_ids"].contains("neutron:is_ext_gw=True"));
    assert_eq!(port["options"], "{gateway_mtu=1442, reside-on-redirect-chassis=true}");
    let group = all.one("HA_Chassis_Group", "name", &format!("neutron-lrp-{}", id(P1)));
    assert!(port["ha_chassis_group"].len() == 36 && !port.contains_key("gateway_chassis"));
    assert!(group["external_ids"].contains(&format!("neutron:router_id={}", id(R))));
    for (chassis, priority) in [("ch1", "3"), ("ch2", "2"), ("ch3", "1")] {
        assert_eq!(all.one("HA_Chassis", "chassis_name", chassis)["priority"], priority);
    }
    assert_eq!(default_routes(&all), [route("192.0.2.1", P1)]);
    let default = all.one("Logical_Router_Static_Route", "nexthop", "192.0.2.1");
    assert_eq!(
        default["external_ids"],
        format!(
            "{{meridian:gw_port_id={}, neutron:is_ext_gw=true, neutron:is_static_route=true, neutron:subnet_id={}}}",
            id(P1),
            id(S1)
        )
    );
    let nat = all.one("NAT", "type", "snat");
    assert_eq!((nat["external_ip"].as_str(), nat["logical_ip"].as_str()), ("192.0.2.100", "0.0.0.0/0"));
    assert_eq!(nat["gateway_port"], id(P1).to_string());
    let router = all.one("Logical_Router", "name", &name::router(id(R)));
    assert!(
        !router["external_ids"].contains("gw_port_id") && !router["external_ids"].contains("gw_network_id")
    );
    assert_eq!(
        router["options"],
        "{always_learn_from_arp_request=false, dynamic_neigh_routers=true, mac_binding_age_threshold=300}"
    );
}

/// Common mistake 1: gateways that share a group share a chassis.
#[test]
fn each_gateway_port_has_a_chassis_group_of_its_own() {
    let all = rows(&double());
    let names = all.column("HA_Chassis_Group", "name");
    assert_eq!(names, [P1, P2].map(|n| format!("neutron-lrp-{}", id(n))));
    let groups = all.column("Logical_Router_Port", "ha_chassis_group");
    assert_eq!(groups.len(), 2);
    assert_ne!(groups[0], groups[1]);
    let primary: Vec<_> =
        all.table("HA_Chassis").into_iter().filter(|(_, row)| row["priority"] == "3").collect();
    assert_ne!(primary[0].1["chassis_name"], primary[1].1["chassis_name"]);
}

/// Common mistake 2: without these columns, all packets leave through the first gateway, or leave untranslated.
#[test]
fn every_route_names_its_port_and_every_translation_its_gateway() {
    let mut scene = triple();
    scene.port(0x51, NET, SUB, "10.0.0.5").interface(0x45, R, NET, SUB, "10.0.0.1");
    scene.floating_ip(0x81, "192.0.2.200", Some((0x51, "10.0.0.5", R)));
    let all = rows(flags(&mut scene, true, false));
    let [a, b, c] = [P1, P2, P3].map(|n| route("192.0.2.1", n));
    assert_eq!(default_routes(&all), [a, b, c]);
    assert_eq!(all.table("NAT").len(), 4);
    assert!(all.table("NAT").iter().all(|(_, row)| row.contains_key("gateway_port")));
}

/// Common mistake 4: writing columns that OVN 23.03 does not have.
#[test]
fn an_old_schema_gets_only_what_it_has() {
    let mut scene = single();
    scene.edit(|txn| drop(txn.edit::<Port>(&id(P1), |port| port.fixed_ips.clear())));
    assert_eq!(rows(&scene).table("Logical_Router_Port").len(), 0, "its router ports must have an address");
    scene.ability(Ability { bare_router_port: true, ..Default::default() });
    assert_eq!(rows(&scene).table("Logical_Router_Port").len(), 1);
    let schema = |text: &str| Ability::of(&ovsdb::wire::DatabaseSchema::parse(text).unwrap());
    let old = schema(include_str!("../../../../ovn/testdata/schema/ovn-nb-23.03.json"));
    assert_eq!(old, Ability::default());
    let new = schema(include_str!("../../../../ovn/testdata/schema/ovn-nb-26.03.json"));
    let all = Ability {
        bare_router_port: true,
        dns_options: true,
        vrrp: true,
        ipv6_selection: true,
        stateless_balancers: true,
    };
    assert_eq!(new, all);
}

#[test]
fn scenario_12_no_source_translation() {
    let mut scene = single();
    scene.edit(|txn| drop(txn.edit::<Router>(&id(R), |router| router.enable_snat = false)));
    assert_eq!(rows(&scene).table("NAT").len(), 0);
}

#[test]
fn source_translation_subnet_by_subnet() {
    let mut scene = single();
    scene.settings(|settings| settings.ovn_router_indirect_snat = false);
    assert_eq!(rows(&scene).table("NAT").len(), 0, "nothing is behind the router");
    scene.interface(0x45, R, NET, SUB, "10.0.0.1");
    assert_eq!(rows(&scene).column("NAT", "logical_ip"), ["10.0.0.0/24"]);
}

#[test]
fn scenario_13_a_floating_ip() {
    let mut scene = single();
    scene.port(0x51, NET, SUB, "10.0.0.5").interface(0x45, R, NET, SUB, "10.0.0.1");
    scene.floating_ip(0x81, "192.0.2.200", None);
    let before = rows(&scene);
    assert_eq!(before.table("NAT").len(), 1);
    assert!(before.table("Logical_Switch_Port").iter().all(|(row, _)| row.uuid != id(0x81 + 0xf000)));
    scene.floating_ip(0x81, "192.0.2.200", Some((0x51, "10.0.0.5", R)));
    let all = rows(&scene);
    let nat = all.one("NAT", "type", "dnat_and_snat");
    assert_eq!((nat["external_ip"].as_str(), nat["logical_ip"].as_str()), ("192.0.2.200", "10.0.0.5"));
    assert_eq!(
        (nat["logical_port"].clone(), nat["gateway_port"].clone()),
        (id(0x51).to_string(), id(P1).to_string())
    );
    assert_eq!(nat["options"], "{stateless=false}");
    assert!(!nat.contains_key("external_mac"));
    assert_eq!(all.members::<LogicalRouter>(id(R), LogicalRouter::NAT), [id(0x81)]);
    let port = all.one("Logical_Switch_Port", "name", &id(0x51).to_string());
    assert!(port["external_ids"].contains("neutron:port_fip=192.0.2.200"));
    // A distributed floating IP is translated on the instance's chassis, once the instance has one.
    scene.settings(|settings| settings.enable_distributed_floating_ip = true);
    assert!(!rows(&scene).one("NAT", "type", "dnat_and_snat").contains_key("external_mac"));
    scene.snapshot.report.set_up(id(0x51), true);
    let mac = scene.world().get::<Port>(&id(0x81 + 0xf000)).unwrap().mac;
    assert_eq!(rows(&scene).one("NAT", "type", "dnat_and_snat")["external_mac"], mac.to_string());
}

#[test]
fn scenario_37_a_floating_ip_moves_to_the_gateway_that_is_left() {
    let mut scene = triple();
    scene.port(0x51, NET, SUB, "10.0.0.5").interface(0x45, R, NET, SUB, "10.0.0.1");
    for n in 0..24 {
        scene.floating_ip(0x81 + n, &format!("192.0.2.{}", 110 + n), Some((0x51, "10.0.0.5", R)));
    }
    let homes = |scene: &Scene| -> BTreeMap<Uuid, String> {
        let all = rows(scene);
        let rows = all.table("NAT").into_iter().filter(|(_, row)| row["type"] == "dnat_and_snat");
        rows.map(|(id, row)| (id.uuid, row["gateway_port"].clone())).collect()
    };
    let before = homes(&scene);
    let used: BTreeSet<_> = before.values().cloned().collect();
    assert_eq!(used.len(), 3, "they spread");
    scene.edit(|txn| {
        txn.remove::<Port>(&id(P2));
        txn.remove::<Placement>(&id(P2));
    });
    let after = homes(&scene);
    for (fip, home) in before {
        match home == id(P2).to_string() {
            true => assert_ne!(after[&fip], home),
            false => assert_eq!(after[&fip], home, "only those of the gateway that went have moved"),
        }
    }
}

#[test]
fn scenario_15_the_documented_example() {
    let mut scene = double();
    scene.edit(|txn| drop(txn.edit::<Router>(&id(R), |router| router.enable_snat = false)));
    let all = rows(flags(&mut scene, true, true));
    assert_eq!(all.table("Logical_Router_Port").len(), 2);
    assert_eq!(all.table("HA_Chassis_Group").len(), 2);
    assert_eq!(default_routes(&all), [route("192.0.2.1", P1), route("198.51.100.1", P2)]);
    assert_eq!(all.table("NAT").len(), 0);
    assert_eq!(all.table("BFD").len(), 2);
    for (n, hop) in [(P1, "192.0.2.1"), (P2, "198.51.100.1")] {
        let session = all.one("BFD", "logical_port", &lrp(n));
        assert_eq!(session["dst_ip"], hop);
        assert!(!session.contains_key("min_tx"));
        let row = all.table("BFD").into_iter().find(|(_, row)| row["dst_ip"] == hop).unwrap().0.uuid;
        let default = all.one("Logical_Router_Static_Route", "nexthop", hop);
        assert_eq!(default["bfd"], row.to_string());
        // OVN honours these options only on routers with one gateway.
        let options = &all.one("Logical_Router_Port", "name", &lrp(n))["options"];
        assert_eq!(options, "{gateway_mtu=1500}");
    }
}

#[test]
fn scenario_17_18_19_20_three_gateways_on_one_network() {
    let mut scene = triple();
    let off = rows(&scene);
    assert_eq!(default_routes(&off), [route("192.0.2.1", P1)], "without ECMP the compatibility gateway's");
    let on = rows(flags(&mut scene, true, false));
    assert_eq!(default_routes(&on).len(), 3);
    // Only routes and the router's list of them differ.
    let others = |rows: &Rows| {
        let rows = rows
            .rows
            .iter()
            .filter(|(id, _)| !["Logical_Router_Static_Route", "Logical_Router", "BFD"].contains(&id.table));
        rows.map(|(id, row)| (*id, row.clone())).collect::<Vec<_>>()
    };
    assert_eq!(others(&on), others(&off));
    let watched = rows(flags(&mut scene, true, true));
    assert_eq!(watched.table("BFD").len(), 3);
    assert_eq!(others(&watched), others(&off));
    let rest = |rows: &Rows| -> Vec<_> {
        let routes = rows.table("Logical_Router_Static_Route");
        routes.iter().map(|(id, row)| (**id, row["nexthop"].clone(), row["output_port"].clone())).collect()
    };
    assert_eq!(rest(&watched), rest(&on), "the routes stay the same rows");
}

#[test]
fn scenario_28_the_successor_of_the_compatibility_gateway_has_the_route() {
    let mut scene = double();
    scene.edit(|txn| {
        txn.remove::<Port>(&id(P1));
        txn.remove::<Placement>(&id(P1));
        txn.edit::<Router>(&id(R), |router| router.gw_port_id = Some(id(P2)));
    });
    assert_eq!(default_routes(&rows(&scene)), [route("198.51.100.1", P2)]);
}

#[test]
fn scenario_34_an_address_changes_in_place() {
    let mut scene = single();
    let before = rows(&scene);
    scene.edit(|txn| {
        drop(txn.edit::<Port>(&id(P1), |port| port.fixed_ips[0].ip_address = "192.0.2.150".parse().unwrap()))
    });
    let after = rows(&scene);
    assert_eq!(
        before.rows.keys().collect::<Vec<_>>(),
        after.rows.keys().collect::<Vec<_>>(),
        "no row comes or goes"
    );
    assert_eq!(after.one("Logical_Router_Port", "name", &lrp(P1))["networks"], "192.0.2.150/24");
    assert_eq!(after.one("NAT", "type", "snat")["external_ip"], "192.0.2.150");
}

#[test]
fn scenario_42_routes_and_sessions_follow_the_subnets_gateway() {
    let mut scene = single();
    flags(&mut scene, false, true);
    let hop = |scene: &mut Scene, gateway: Option<&str>| {
        let gateway = gateway.map(|text| text.parse().unwrap());
        scene.edit(|txn| drop(txn.edit::<Subnet>(&id(S1), |subnet| subnet.gateway_ip = gateway)));
        let all = rows(scene);
        (
            default_routes(&all).into_iter().map(|(hop, _)| hop).collect::<Vec<_>>(),
            all.column("BFD", "dst_ip"),
        )
    };
    let is = |hop: &str| (vec![hop.to_owned()], vec![hop.to_owned()]);
    assert_eq!(hop(&mut scene, Some("192.0.2.254")), is("192.0.2.254"));
    assert_eq!(hop(&mut scene, None), (vec![], vec![]));
    // A gateway outside of the subnet works, because the route names its port.
    assert_eq!(hop(&mut scene, Some("203.0.113.1")), is("203.0.113.1"));
    assert_eq!(hop(&mut scene, Some("192.0.2.1")), is("192.0.2.1"));
}

#[test]
fn scenario_43_both_families() {
    let mut scene = double();
    scene.put(crate::resource::fixture::subnet(0x19, N1, "2001:db8::/64"));
    scene.edit(|txn| {
        txn.edit::<Port>(&id(P1), |port| {
            port.fixed_ips
                .push(FixedIp { subnet_id: id(0x19), ip_address: "2001:db8::100".parse().unwrap() });
        });
    });
    let all = rows(&scene);
    assert_eq!(default_routes(&all), [route("192.0.2.1", P1), route("2001:db8::1", P1)]);
    assert_eq!(all.table("NAT").len(), 2, "IPv6 is not translated");
    let port = all.one("Logical_Router_Port", "name", &lrp(P1));
    assert_eq!(port["networks"], "[192.0.2.100/24, 2001:db8::100/64]");
}

#[test]
fn scenario_44_nothing_is_left_of_a_router() {
    let mut scene = triple();
    flags(&mut scene, true, true);
    scene.edit(|txn| {
        for n in [P1, P2, P3] {
            txn.remove::<Port>(&id(n));
            txn.remove::<Placement>(&id(n));
        }
        txn.remove::<Router>(&id(R));
    });
    let mut before = Scene::new();
    before.refresh();
    assert_eq!(rows(&scene).rows, rows(&before).rows);
}

#[test]
fn scenario_51_without_chassis_there_is_no_group() {
    let mut scene = Scene::new();
    scene.router(R).gateway(P1, R, N1, S1, "192.0.2.100", &[]);
    let all = rows(&scene);
    assert_eq!(all.table("HA_Chassis_Group").len(), 0);
    assert!(!all.one("Logical_Router_Port", "name", &lrp(P1)).contains_key("ha_chassis_group"));
}

#[test]
fn scenario_52_each_gateway_port_says_where_it_is() {
    let mut scene = double();
    scene.hosted(P1, Some("ch1")).hosted(P2, Some("ch2"));
    let all = rows(&scene);
    for (n, host) in [(P1, "host-ch1"), (P2, "host-ch2")] {
        let ids = &all.one("Logical_Switch_Port", "name", &id(n).to_string())["external_ids"];
        assert!(ids.contains(&format!("neutron:host_id={host}")), "{ids}");
    }
}

#[test]
fn scenario_61_routes_of_the_owner() {
    let mut scene = double();
    flags(&mut scene, true, true);
    scene.interface(0x45, R, NET, SUB, "10.0.0.1");
    let extra = |destination: &str, nexthop: &str| ExtraRoute {
        destination: destination.parse().unwrap(),
        nexthop: nexthop.parse().unwrap(),
    };
    scene.edit(|txn| {
        txn.edit::<Router>(&id(R), |router| {
            router.routes = vec![
                extra("10.9.0.0/16", "10.0.0.7"),
                extra("10.9.0.0/16", "10.0.0.8"),
                extra("0.0.0.0/0", "10.0.0.9"),
            ];
        });
    });
    let all = rows(&scene);
    let routes = all.table("Logical_Router_Static_Route");
    let extra: Vec<_> = routes.iter().filter(|(_, row)| !row["external_ids"].contains("is_ext_gw")).collect();
    assert_eq!(extra.len(), 3);
    for (_, row) in &extra {
        assert_eq!(row["external_ids"], "{neutron:is_static_route=true}");
        assert!(!row.contains_key("bfd") && !row.contains_key("output_port"));
    }
    assert_eq!(
        all.one("Logical_Router", "name", &name::router(id(R)))["static_routes"].matches(", ").count(),
        4
    );
    // With two gateways on the next hop's subnet, the route names the compatibility gateway.
    let mut scene = triple();
    scene.edit(|txn| {
        txn.edit::<Router>(&id(R), |router| {
            router.routes = vec![ExtraRoute {
                destination: "10.9.0.0/16".parse().unwrap(),
                nexthop: "192.0.2.77".parse().unwrap(),
            }];
        });
    });
    assert_eq!(
        rows(&scene).one("Logical_Router_Static_Route", "nexthop", "192.0.2.77")["output_port"],
        lrp(P1)
    );
}

#[test]
fn scenario_62_the_operators_timers() {
    let mut scene = double();
    flags(&mut scene, true, true);
    scene.settings(|settings| {
        (settings.bfd_min_tx, settings.bfd_min_rx, settings.bfd_detect_mult) = (Some(300), Some(0), Some(3));
    });
    let mut decider = Decider::default();
    decider.desire(&scene.snapshot);
    let all = rows(&scene);
    assert_eq!(all.column("BFD", "min_tx"), ["300", "300"]);
    assert_eq!(all.column("BFD", "detect_mult"), ["3", "3"]);
    let before: Vec<_> = all.table("BFD").iter().map(|(row, _)| **row).collect();
    scene.settings(|settings| {
        (settings.bfd_min_tx, settings.bfd_min_rx, settings.bfd_detect_mult) = (None, None, None);
    });
    let all = rows(&scene);
    assert_eq!(all.table("BFD").iter().map(|(row, _)| **row).collect::<Vec<_>>(), before);
    assert_eq!(all.column("BFD", "min_tx"), ["", ""]);
}

#[test]
fn scenario_64_a_gateway_that_nobody_hosts_has_no_routes_while_another_works() {
    let mut scene = double();
    flags(&mut scene, true, true);
    let both = [route("192.0.2.1", P1), route("198.51.100.1", P2)];
    scene.hosted(P2, Some("ch2"));
    assert_eq!(default_routes(&rows(&scene)), both, "it has been so for a short time only");
    scene.snapshot.late.stranded.insert(id(P1));
    assert_eq!(default_routes(&rows(&scene)), [route("198.51.100.1", P2)]);
    scene.hosted(P2, None);
    assert_eq!(default_routes(&rows(&scene)), both, "no other works either");
    scene.hosted(P2, Some("ch2")).hosted(P1, Some("ch1"));
    assert_eq!(default_routes(&rows(&scene)), both, "it is hosted again");
    // Without ECMP there is no other route to use.
    scene.hosted(P1, None);
    flags(&mut scene, false, true);
    assert_eq!(default_routes(&rows(&scene)), [route("192.0.2.1", P1)]);
}

#[test]
fn scenario_65_a_router_that_is_down() {
    let mut scene = double();
    let before = rows(&scene);
    scene.edit(|txn| drop(txn.edit::<Router>(&id(R), |router| router.admin_state_up = false)));
    let after = rows(&scene);
    let differing: Vec<_> = after.rows.iter().filter(|(id, row)| before.rows.get(id) != Some(row)).collect();
    assert_eq!(differing.len(), 1);
    assert_eq!(differing[0].0.table, "Logical_Router");
}

#[test]
fn a_gateway_on_a_network_of_tunnels_binds_the_whole_router() {
    let mut scene = Scene::new();
    scene.edit(|txn| {
        txn.edit::<Network>(&id(N1), |network| {
            network.segment.network_type = NetworkType::Geneve;
            network.segment.physical_network = None;
        });
    });
    scene.router(R).gateway(P1, R, N1, S1, "192.0.2.100", &["ch2"]);
    let all = rows(&scene);
    assert!(all.one("Logical_Router", "name", &name::router(id(R)))["options"].contains("chassis=ch2"));
    assert_eq!(all.table("HA_Chassis_Group").len(), 0, "northd takes one or the other");
}

#[test]
fn router_advertisements() {
    let mut scene = Scene::new();
    let mut subnet = crate::resource::fixture::subnet(0x39, NET, "fd00::/64");
    (subnet.ipv6_ra_mode, subnet.ipv6_address_mode) = (Some(Ipv6Mode::Slaac), Some(Ipv6Mode::Slaac));
    scene.put(subnet).router(R).interface(0x45, R, NET, 0x39, "fd00::1");
    let ra = |scene: &Scene| {
        rows(scene).one("Logical_Router_Port", "name", &lrp(0x45)).get("ipv6_ra_configs").cloned()
    };
    assert_eq!(
        ra(&scene).unwrap(),
        "{address_mode=slaac, mtu=1442, route_info=MEDIUM-fe80::a9fe:a9fe/128, send_periodic=true}"
    );
    scene.settings(|settings| settings.ovn_metadata_enabled = false);
    assert_eq!(ra(&scene).unwrap(), "{address_mode=slaac, mtu=1442, send_periodic=true}");
    // On a shared network, a foreign router that is not the gateway would become the default router of every host.
    let gateway = |scene: &mut Scene, address: &str| {
        let address = address.parse().unwrap();
        scene.edit(|txn| {
            txn.edit::<Subnet>(&id(0x39), |subnet| subnet.gateway_ip = Some(address));
        });
    };
    scene.edit(|txn| {
        txn.edit::<Router>(&id(R), |router| router.project = "stranger".into());
    });
    gateway(&mut scene, "fd00::9");
    assert_eq!(ra(&scene), None);
    gateway(&mut scene, "fd00::1");
    assert!(ra(&scene).is_some(), "the gateway itself, whoever's router it is");
}

#[test]
fn rows_that_were_taken_over_keep_their_uuids() {
    let mut scene = single();
    let theirs = Uuid::from_u128(0xabc);
    scene.put(Adopted { ours: id(N1), table: "Logical_Switch".into(), theirs });
    let all = rows(&scene);
    assert!(all.table("Logical_Switch").iter().any(|(row, _)| row.uuid == theirs));
    assert!(all.table("Logical_Switch").iter().all(|(row, _)| row.uuid != id(N1)));
    use ovn::nb::LogicalSwitch;
    assert_eq!(
        all.members::<LogicalSwitch>(theirs, LogicalSwitch::PORTS).len(),
        2,
        "ports are put where it is"
    );
}
