//! The path of a router's instances to the metadata service.

use super::scene::*;
use super::{Rows, rows};
use crate::model::{ExtraRoute, Network, NetworkType, Port, Router, owner};
use crate::resource::fixture::{id, network, subnet};

const R: u128 = 0x40;
const OTHER: u128 = 0x51;
const OTHER_SUB: u128 = 0x52;

/// The metadata port of a network.
fn metadata(scene: &mut Scene, n: u128, network: u128, subnet: u128, address: &str) {
    let mut port = port(n, network, subnet, address);
    port.device_owner = owner::DISTRIBUTED.into();
    port.device_id = format!("ovnmeta-{}", id(network));
    scene.put(port);
}

/// A router with interfaces on two networks, each with a metadata port.
fn two_networks() -> Scene {
    let mut scene = Scene::new();
    scene.put(network(OTHER, "p")).put(subnet(OTHER_SUB, OTHER, "10.9.0.0/24"));
    metadata(&mut scene, 0x61, NET, SUB, "10.0.0.2");
    metadata(&mut scene, 0x62, OTHER, OTHER_SUB, "10.9.0.2");
    scene.router(R).interface(0x45, R, NET, SUB, "10.0.0.1").interface(0x46, R, OTHER, OTHER_SUB, "10.9.0.1");
    scene
}

/// The priority, match, action and next hops of all policies.
fn policies(all: &Rows) -> Vec<[String; 4]> {
    let columns = ["priority", "match", "action", "nexthops"];
    let policies = all.table("Logical_Router_Policy").into_iter();
    let mut policies: Vec<_> =
        policies.map(|(_, row)| columns.map(|column| row.get(column).cloned().unwrap_or_default())).collect();
    policies.sort();
    policies
}

fn routes(all: &Rows) -> Vec<String> {
    let routes = all.table("Logical_Router_Static_Route").into_iter();
    routes.map(|(_, row)| format!("{} via {}", row["ip_prefix"], row["nexthop"])).collect()
}

#[test]
fn each_network_behind_a_router_has_its_own_service() {
    let all = rows(&two_networks());
    let lrp = |n: u128| format!("lrp-{}", id(n));
    let own = |n: u128| format!("inport == \"{}\" && ip4.dst == 169.254.169.254", lrp(n));
    let text = |words: [&str; 4]| words.map(str::to_owned);
    let drop = text(["999", "ip4.dst == 169.254.169.254", "drop", ""]);
    let found = policies(&all);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.contains(&text(["1000", &own(0x45), "reroute", "10.0.0.2"])), "{found:?}");
    assert!(found.contains(&text(["1000", &own(0x46), "reroute", "10.9.0.2"])), "{found:?}");
    assert!(found.iter().any(|policy| policy[..3] == drop[..3]), "{found:?}");
    assert_eq!(routes(&all), ["169.254.169.254/32 via 10.0.0.2"]);
    let route = all.one("Logical_Router_Static_Route", "nexthop", "10.0.0.2");
    assert_eq!(route["output_port"], lrp(0x45));
}

#[test]
fn there_are_no_rows_where_packets_would_have_to_cross_a_tunnel() {
    let none = |scene: &Scene| {
        let all = rows(scene);
        policies(&all).is_empty() && !routes(&all).iter().any(|route| route.starts_with("169.254"))
    };
    let mut off = two_networks();
    off.settings(|settings| settings.ovn_metadata_enabled = false);
    assert!(none(&off), "metadata is switched off");
    let mut without = two_networks();
    without.settings(|settings| settings.metadata_router_route = false);
    assert!(none(&without), "its path through routers is");

    let mut own_route = two_networks();
    own_route.edit(|txn| {
        let route = ExtraRoute {
            destination: "169.254.169.254/32".parse().unwrap(),
            nexthop: "10.0.0.99".parse().unwrap(),
        };
        txn.edit::<Router>(&id(R), |router| router.routes = vec![route]);
    });
    let all = rows(&own_route);
    assert_eq!(
        (policies(&all).len(), routes(&all)),
        (0, vec!["169.254.169.254/32 via 10.0.0.99".to_owned()])
    );

    let mut without = two_networks();
    without.edit(|txn| {
        txn.remove::<Port>(&id(0x61));
        txn.remove::<Port>(&id(0x62));
    });
    assert!(none(&without), "no network has a metadata port");

    // A VLAN network is routed on the gateway's chassis.
    let mut vlan = two_networks();
    vlan.gateway(0x41, R, N1, S1, "192.0.2.100", &["ch1"]);
    vlan.edit(|txn| {
        txn.edit::<Network>(&id(OTHER), |network| {
            network.segment.network_type = NetworkType::Vlan;
            network.segment.physical_network = Some("phy9".into());
            network.segment.segmentation_id = Some(9);
        });
    });
    let found = policies(&rows(&vlan));
    assert_eq!(found.len(), 2, "one network and the drop: {found:?}");
    assert!(!found.iter().any(|policy| policy[3].contains("10.9.0.2")), "{found:?}");
}
