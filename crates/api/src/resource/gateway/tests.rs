//! The acceptance scenarios of one and of many gateways, as seen through the API.

mod outcome;
mod replace;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::caller::Caller;
use crate::model::{Placement, Subnet};
use crate::report::{BfdState, Place};
use crate::resource::fixture::{id, ip, subnet};
use crate::resource::router::fixture::*;

/// The network of each gateway in `external_gateways`.
fn networks(router: &Value) -> Vec<Uuid> {
    let gateways = router["external_gateways"].as_array().unwrap();
    gateways.iter().map(|gateway| gateway["network_id"].as_str().unwrap().parse().unwrap()).collect()
}

fn addresses(router: &Value, at: usize) -> Vec<&str> {
    let fixed = router["external_gateways"][at]["external_fixed_ips"].as_array().unwrap();
    fixed.iter().map(|fixed| fixed["ip_address"].as_str().unwrap()).collect()
}

fn port_ids(cloud: &Cloud, router: Uuid) -> Vec<Uuid> {
    cloud.gateway_ports(router).iter().map(|port| port.id).collect()
}

#[test]
fn scenario_11_the_old_field_and_the_first_of_the_list_are_the_same() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let shown = cloud.gateways("update", router, json!([{"network_id": id(N1)}])).unwrap();
    assert_eq!(shown["external_gateway_info"], shown["external_gateways"][0]);
    assert_eq!(
        shown["external_gateway_info"],
        json!({"network_id": id(N1), "enable_snat": true, "external_fixed_ips": [{"subnet_id": id(S1), "ip_address": "192.0.2.2"}]})
    );
    let port = &cloud.gateway_ports(router)[0];
    let priorities: Vec<u16> = cloud
        .world
        .get::<Placement>(&port.id)
        .unwrap()
        .chassis
        .iter()
        .map(|placed| placed.priority)
        .collect();
    assert_eq!(priorities, [3, 2, 1]);
    assert_eq!(default_routes(&cloud.world, cloud.world.get::<Router>(&router).unwrap()).len(), 1);
}

#[test]
fn scenario_12_source_nat_can_be_switched() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    let off = json!({"external_gateway_info": {"network_id": id(N1), "enable_snat": false}});
    let shown = cloud.update("routers", router, off).unwrap();
    assert_eq!(
        (&shown["enable_snat"], &shown["external_gateways"][0]["enable_snat"]),
        (&json!(false), &json!(false))
    );
    let silent = json!({"external_gateway_info": {"network_id": id(N1)}});
    let shown = cloud.update("routers", router, silent).unwrap();
    assert_eq!(shown["enable_snat"], json!(true), "with one gateway, silence means the default");
}

#[test]
fn scenario_15_the_documented_example() {
    let mut cloud = Cloud::new();
    let router = cloud
        .create(
            "routers",
            json!({"name": "r", "enable_default_route_bfd": true, "enable_default_route_ecmp": true}),
        )
        .unwrap();
    let router: Uuid = router["id"].as_str().unwrap().parse().unwrap();
    let first = json!({"network_id": id(N1), "enable_snat": false, "external_fixed_ips": [{"subnet_id": id(S1), "ip_address": "192.0.2.100"}]});
    let second = json!({"network_id": id(N2), "enable_snat": false, "external_fixed_ips": [{"subnet_id": id(S2), "ip_address": "198.51.100.100"}]});
    let shown = cloud.gateways("update", router, json!([first, second])).unwrap();
    assert_eq!(shown["external_gateways"], json!([first, second]));
    assert_eq!(shown["external_gateway_info"], first);
    assert_eq!(
        ["enable_snat", "enable_default_route_ecmp", "enable_default_route_bfd"]
            .map(|name| shown[name].clone()),
        [json!(false), json!(true), json!(true)]
    );
    let primaries: BTreeSet<String> = port_ids(&cloud, router)
        .iter()
        .map(|port| cloud.world.get::<Placement>(port).unwrap().chassis[0].chassis.clone())
        .collect();
    assert_eq!(primaries.len(), 2, "on different chassis");
    let routes = default_routes(&cloud.world, cloud.world.get::<Router>(&router).unwrap());
    let ports = port_ids(&cloud, router);
    assert_eq!(
        routes.iter().map(|route| (route.port, route.nexthop)).collect::<Vec<_>>(),
        [(ports[0], ip("192.0.2.1")), (ports[1], ip("198.51.100.1"))]
    );
}

#[test]
fn scenario_17_three_gateways_on_one_network() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let element = json!({"network_id": id(N1)});
    let shown = cloud.gateways("add", router, json!([element, element, element])).unwrap();
    assert_eq!(networks(&shown), [id(N1); 3]);
    let distinct: BTreeSet<_> = (0..3).flat_map(|at| addresses(&shown, at)).collect();
    assert_eq!(distinct.len(), 3);
    assert_eq!(shown["external_gateway_info"], shown["external_gateways"][0]);
    let entity = cloud.world.get::<Router>(&router).unwrap();
    let routes = default_routes(&cloud.world, entity);
    assert_eq!(routes.len(), 1);
    assert_eq!(Some(routes[0].port), entity.gw_port_id);
    // Scenario 18: with ECMP, one route through each gateway.
    cloud.update("routers", router, json!({"enable_default_route_ecmp": true})).unwrap();
    let routes = default_routes(&cloud.world, cloud.world.get::<Router>(&router).unwrap());
    assert_eq!(routes.iter().map(|route| route.port).collect::<BTreeSet<_>>().len(), 3);
    assert!(routes.iter().all(|route| route.nexthop == ip("192.0.2.1")));
}

#[test]
fn scenario_19_20_switches_touch_nothing_but_the_router() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N1, N2]);
    let before = (cloud.gateway_ports(router), cloud.world.clone());
    for (name, value) in [
        ("enable_default_route_ecmp", true),
        ("enable_default_route_bfd", true),
        ("enable_default_route_bfd", false),
        ("enable_default_route_ecmp", false),
    ] {
        let shown = cloud.update("routers", router, json!({name: value})).unwrap();
        assert_eq!(shown[name], json!(value));
        assert_eq!(cloud.gateway_ports(router), before.0);
        let moved = cloud.world.table::<Placement>().changes_since(before.1.table::<Placement>()).count();
        assert_eq!(moved, 0);
    }
}

#[test]
fn scenario_21_a_further_gateway_is_an_extra_one() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    let compat = port_ids(&cloud, router)[0];
    let shown = cloud.gateways("add", router, json!([{"network_id": id(N1), "enable_snat": false}])).unwrap();
    assert_eq!(shown["enable_snat"], json!(true), "said for an extra gateway, it means nothing");
    assert_eq!(port_ids(&cloud, router).len(), 2);
    assert_eq!(port_ids(&cloud, router)[0], compat);
}

#[test]
fn scenario_22_addresses_in_use_are_refused_and_nothing_happens() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.gateways("add", router, json!([gateway(N1, &["192.0.2.100"])])).unwrap();
    let before = cloud.show("routers", router).unwrap();
    let again = json!([gateway(N1, &["192.0.2.100"])]);
    refused(cloud.gateways("add", router, again), 409, "IpAddressAlreadyAllocated");
    let twice = json!([gateway(N1, &["192.0.2.7"]), gateway(N1, &["192.0.2.7"])]);
    refused(cloud.gateways("add", router, twice.clone()), 409, "IpAddressAlreadyAllocated");
    refused(cloud.gateways("update", router, twice), 409, "IpAddressAlreadyAllocated");
    let twice = json!([gateway(N1, &["192.0.2.7", "192.0.2.7"])]);
    refused(cloud.gateways("add", router, twice), 409, "IpAddressAlreadyAllocated");
    assert_eq!(cloud.show("routers", router).unwrap(), before);
    // A gateway without a request for addresses does not get one that another requests.
    let free =
        cloud.gateways("add", router, json!([{"network_id": id(N1)}, gateway(N1, &["192.0.2.2"])])).unwrap();
    assert_eq!([addresses(&free, 1), addresses(&free, 2)], [["192.0.2.3"], ["192.0.2.2"]]);
}

#[test]
fn scenario_23_overlapping_external_networks_are_refused_and_none_is_added() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    let text = refused(
        cloud.gateways("add", router, json!([{"network_id": id(N2)}, {"network_id": id(N3)}])),
        400,
        "BadRequest",
    );
    assert!(text.contains("Cidr 192.0.2.128/25 of subnet"), "{text}");
    assert!(text.contains("overlaps with cidr 192.0.2.0/24 of subnet"), "{text}");
    assert_eq!(networks(&cloud.show("routers", router).unwrap()), [id(N1)]);
    // Both in one request, on an empty router.
    let empty = cloud.router();
    let both = json!([{"network_id": id(N1)}, {"network_id": id(N3)}]);
    refused(cloud.gateways("update", empty, both), 400, "BadRequest");
    // Replacing one by the other is fine, and so is another gateway on an attached network.
    cloud.gateways("update", router, json!([{"network_id": id(N3)}])).unwrap();
    cloud.gateways("add", router, json!([{"network_id": id(N3)}])).unwrap();
}

#[test]
fn scenario_24_interfaces_and_gateways_do_not_overlap_either() {
    let mut cloud = Cloud::new();
    cloud.add_subnet(subnet(0x31, N4, "192.0.2.64/26"));
    let router = cloud.router_on(&[N1]);
    refused(cloud.attach(router, 0x31), 400, "BadRequest");
    let other = cloud.router();
    cloud.attach(other, 0x31).unwrap();
    refused(cloud.gateways("add", other, json!([{"network_id": id(N1)}])), 400, "BadRequest");
    let info = json!({"external_gateway_info": {"network_id": id(N1)}});
    refused(cloud.update("routers", other, info), 400, "BadRequest");
}

#[test]
fn scenario_25_what_gateways_may_not_be() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let table = [
        (json!({"network_id": id(N4)}), 400, "BadRequest", "is not an external network"),
        (json!({"network_id": id(0x99)}), 404, "NetworkNotFound", ""),
        (
            gateway(N1, &["192.0.2.1"]),
            400,
            "BadRequest",
            "External IP 192.0.2.1 is the same as the gateway IP",
        ),
        (gateway(N1, &["203.0.113.1"]), 400, "InvalidIpForNetwork", ""),
        (gateway(N1, &["192.0.2.255"]), 400, "InvalidIpForNetwork", ""),
        (
            json!({"network_id": id(N1), "external_fixed_ips": [{"subnet_id": id(S1), "ip_address": "203.0.113.1"}]}),
            400,
            "InvalidIpForSubnet",
            "",
        ),
        (
            json!({"network_id": id(N1), "external_fixed_ips": [{"subnet_id": id(S2)}]}),
            400,
            "InvalidInput",
            "",
        ),
    ];
    for (element, status, kind, text) in table {
        for verb in ["add", "update"] {
            let message = refused(cloud.gateways(verb, router, json!([element])), status, kind);
            assert!(message.contains(text), "{message}");
        }
        let message =
            refused(cloud.update("routers", router, json!({"external_gateway_info": element})), status, kind);
        assert!(message.contains(text), "{message}");
        refused(cloud.create("routers", json!({"external_gateway_info": element})), status, kind);
    }
    assert_eq!(cloud.world.table::<Router>().len(), 1, "a router whose gateway is refused is not made");
}

#[test]
fn an_empty_pool_is_a_conflict() {
    let mut cloud = Cloud::new();
    cloud
        .change(|txn| {
            Ok(txn.edit::<Subnet>(&id(S1), |subnet| subnet.allocation_pools[0].end = ip("192.0.2.3")))
        })
        .unwrap();
    let router = cloud.router_on(&[N1, N1]);
    refused(
        cloud.gateways("add", router, json!([{"network_id": id(N1)}])),
        409,
        "IpAddressGenerationFailure",
    );
}

#[test]
fn scenario_39_40_twenty_adds_and_twenty_removes() {
    // The store runs requests one after another, so this loop stands for concurrent clients: none reads a result before its next request.
    let mut cloud = Cloud::new();
    let router = cloud.router();
    for _ in 0..20 {
        cloud.gateways("add", router, json!([{"network_id": id(N1)}])).unwrap();
    }
    let all: BTreeSet<_> =
        cloud.gateway_ports(router).iter().flat_map(|port| port.fixed_ips.clone()).collect();
    assert_eq!((port_ids(&cloud, router).len(), all.len()), (20, 20));
    for fixed in all {
        cloud.gateways("remove", router, json!([gateway(N1, &[&fixed.ip_address.to_string()])])).unwrap();
    }
    assert_eq!(cloud.show("routers", router).unwrap()["external_gateways"], json!([]));
    assert_eq!(cloud.world.table::<Placement>().len(), 0);
}

#[test]
fn members_may_choose_networks_only() {
    let mut cloud = Cloud::new();
    cloud.caller = Caller::member("p");
    let router = cloud.router_on(&[N1]);
    for element in [json!({"network_id": id(N2), "enable_snat": true}), gateway(N2, &["198.51.100.9"])] {
        refused(cloud.gateways("add", router, json!([element])), 403, "PolicyNotAuthorized");
        refused(cloud.gateways("update", router, json!([element])), 403, "PolicyNotAuthorized");
        let info = json!({"external_gateway_info": element});
        refused(cloud.update("routers", router, info.clone()), 403, "PolicyNotAuthorized");
        refused(cloud.create("routers", info), 403, "PolicyNotAuthorized");
    }
    cloud.gateways("add", router, json!([{"network_id": id(N2)}])).unwrap();
    let stranger = Caller::member("q");
    let theirs =
        cloud.by(stranger.clone(), |cloud| cloud.gateways("add", router, json!([{"network_id": id(N2)}])));
    refused(theirs, 404, "RouterNotFound");
    let reader = Caller::reader("p");
    let read_only = cloud.by(reader, |cloud| cloud.gateways("add", router, json!([{"network_id": id(N2)}])));
    refused(read_only, 403, "PolicyNotAuthorized");
}

/// A short form of a request: the verb, and networks with or without a last octet.
type SmallRequest = (&'static str, Vec<(bool, Option<u8>)>);

fn requests() -> impl Strategy<Value = Vec<SmallRequest>> {
    let verb = prop_oneof![Just("add"), Just("update"), Just("remove")];
    let element = (proptest::bool::ANY, proptest::option::of(10..14u8));
    proptest::collection::vec((verb, proptest::collection::vec(element, 0..4)), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// After any sequence of requests, a refusal has changed nothing, and an update leaves exactly what it lists.
    #[test]
    fn any_sequence_of_requests_keeps_the_router_sound(requests in requests()) {
        let mut cloud = Cloud::new();
        let router = cloud.router();
        for (verb, elements) in requests {
            let element = |(first, octet): &(bool, Option<u8>)| {
                let (network, prefix) = if *first { (N1, "192.0.2") } else { (N2, "198.51.100") };
                match octet {
                    Some(octet) => gateway(network, &[&format!("{prefix}.{octet}")]),
                    None => json!({"network_id": id(network)}),
                }
            };
            let body: Vec<Value> = elements.iter().map(element).collect();
            let before = cloud.show("routers", router).unwrap();
            match cloud.gateways(verb, router, json!(body)) {
                Err(fault) => {
                    prop_assert!(matches!(fault.status, 400 | 409), "{fault}");
                    prop_assert_eq!(cloud.show("routers", router).unwrap(), before);
                }
                Ok(shown) => {
                    let count = shown["external_gateways"].as_array().unwrap().len();
                    let was = before["external_gateways"].as_array().unwrap().len();
                    match verb {
                        "add" => prop_assert_eq!(count, was + body.len()),
                        "update" => {
                            prop_assert_eq!(count, body.len());
                            let mut asked: Vec<_> = elements.iter().map(|(first, _)| id(if *first { N1 } else { N2 })).collect();
                            if let Some(first) = asked.first() {
                                prop_assert_eq!(networks(&shown)[0], *first);
                            }
                            let mut found = networks(&shown);
                            asked.sort_unstable();
                            found.sort_unstable();
                            prop_assert_eq!(found, asked);
                        }
                        _ => prop_assert!(count <= was),
                    }
                }
            }
        }
    }
}
