//! Limits on one request for shared resources: gateways of a router, addresses of a port, objects of a bulk request.

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::details;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{FixedIp, Port, QuotaSet};
use crate::resource::fixture::{Desk, fault, id, ip};
use crate::resource::router::fixture::*;

const OVER: (u16, &str) = (409, "OverQuota");

fn told(cloud: &Cloud, project: &str, name: &str) -> Value {
    let caller = Caller::member(project);
    details(&cloud.world, &cloud.outside.settings, &caller, project).unwrap()["quota"][name].clone()
}

fn on(network: u128, count: usize) -> Value {
    std::iter::repeat_n(json!({"network_id": id(network)}), count).collect()
}

fn fixed(count: usize) -> Value {
    std::iter::repeat_n(json!({"subnet_id": id(S1)}), count).collect()
}

fn by_member<T>(cloud: &mut Cloud, ask: impl FnOnce(&mut Cloud) -> Result<T, Fault>) -> Result<T, Fault> {
    cloud.by(Caller::member("p"), ask)
}

#[test]
fn a_router_has_no_more_gateways_than_its_project_may() {
    let mut cloud = Cloud::new();
    let router = by_member(&mut cloud, |cloud| Ok(cloud.router())).unwrap();
    for verb in ["add", "update"] {
        let answer = by_member(&mut cloud, |cloud| cloud.gateways(verb, router, on(N1, 240)));
        assert_eq!(fault(answer), OVER, "{verb}");
    }
    assert_eq!(told(&cloud, "p", "router_gateway"), json!({"used": 0, "limit": 20, "reserved": 0}));
    by_member(&mut cloud, |cloud| cloud.gateways("add", router, on(N1, 19))).unwrap();
    assert_eq!(fault(by_member(&mut cloud, |cloud| cloud.gateways("add", router, on(N1, 2)))), OVER);
    by_member(&mut cloud, |cloud| cloud.gateways("add", router, on(N1, 1))).unwrap();
    assert_eq!(told(&cloud, "p", "router_gateway")["used"], 20);
    // The project's limit applies to administrators too; they can raise it.
    assert_eq!(fault(cloud.gateways("update", router, on(N1, 21))), OVER);
    limit(&mut cloud, "router_gateway", 21);
    cloud.gateways("add", router, on(N1, 1)).unwrap();
    // Objects over a lowered limit stay, may change, and may shrink.
    limit(&mut cloud, "router_gateway", 3);
    let mut gateways =
        cloud.show("routers", router).unwrap()["external_gateways"].as_array().unwrap().clone();
    gateways.push(json!({"network_id": id(N2)}));
    assert_eq!(fault(cloud.gateways("update", router, json!(gateways))), OVER);
    gateways.swap_remove(20);
    cloud.gateways("update", router, json!(gateways)).unwrap();
    cloud.update("routers", router, json!({"external_gateway_info": {"network_id": id(N1)}})).unwrap();
    gateways.truncate(5);
    cloud.gateways("update", router, json!(gateways)).unwrap();
    assert_eq!(told(&cloud, "p", "router_gateway"), json!({"used": 5, "limit": 3, "reserved": 0}));
}

fn limit(cloud: &mut Cloud, name: &str, limit: i64) {
    cloud
        .change(|txn| {
            txn.put(QuotaSet { project: "p".into(), limits: [(name.to_owned(), limit)].into() });
            Ok(())
        })
        .unwrap();
}

#[test]
fn no_gateway_and_no_port_has_more_addresses_than_its_project_may() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let info = |count| json!({"network_id": id(N1), "external_fixed_ips": fixed(count)});
    for verb in ["add", "update"] {
        assert_eq!(fault(cloud.gateways(verb, router, json!([info(240)]))), OVER, "{verb}");
    }
    let body = json!({"external_gateway_info": info(240)});
    assert_eq!(fault(cloud.create("routers", body.clone())), OVER);
    assert_eq!(fault(cloud.update("routers", router, body)), OVER);
    cloud.gateways("add", router, json!([info(16)])).unwrap();
    let gateway = cloud.gateway_ports(router)[0].id;
    assert_eq!(fault(cloud.update("ports", gateway, json!({"fixed_ips": fixed(17)}))), OVER);
    // A port on a shared network of another project.
    cloud.update("networks", id(N1), json!({"shared": true})).unwrap();
    let member = Caller::member("q");
    let asked = |count| json!({"network_id": id(N1), "fixed_ips": fixed(count)});
    assert_eq!(fault(cloud.by(member.clone(), |cloud| cloud.create("ports", asked(200)))), OVER);
    let port = cloud.by(member.clone(), |cloud| cloud.create("ports", asked(16))).unwrap();
    let port = port["id"].as_str().unwrap().to_owned();
    assert_eq!(told(&cloud, "q", "port_fixed_ip"), json!({"used": 16, "limit": 16, "reserved": 0}));
    assert_eq!(fault(cloud.update("ports", &port, json!({"fixed_ips": fixed(17)}))), OVER);
    // An imported port with more addresses keeps them and may release some.
    give(&mut cloud, &port, 20);
    assert_eq!(fault(cloud.update("ports", &port, json!({"fixed_ips": fixed(21)}))), OVER);
    cloud.update("ports", &port, json!({"fixed_ips": fixed(20), "name": "kept"})).unwrap();
    cloud.update("ports", &port, json!({"fixed_ips": fixed(18)})).unwrap();
    assert_eq!(told(&cloud, "q", "port_fixed_ip")["used"], 18);
}

/// Gives a port addresses as an import would.
fn give(cloud: &mut Cloud, port: &str, count: u8) {
    let port: Uuid = port.parse().unwrap();
    let one = |n: u8| FixedIp { subnet_id: id(S1), ip_address: ip(&format!("192.0.2.{}", 100 + n)) };
    let all: Vec<FixedIp> = (0..count).map(one).collect();
    cloud.change(|txn| Ok(txn.edit::<Port>(&port, |port| port.fixed_ips = all))).unwrap();
}

#[test]
fn an_interface_grows_no_further_than_a_port() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    limit(&mut cloud, "port_fixed_ip", 1);
    cloud.attach(router, S6).unwrap();
    assert_eq!(fault(cloud.attach(router, S7)), OVER);
    limit(&mut cloud, "port_fixed_ip", 2);
    cloud.attach(router, S7).unwrap();
}

#[test]
fn a_bulk_request_is_over_a_limit_before_its_first_object_is_made() {
    let mut desk = Desk::new();
    let member = Caller::member("p");
    let scopes = |count: usize| -> Value {
        let scope = json!({"name": "s", "ip_version": 4});
        json!({"address_scopes": std::iter::repeat_n(scope, count).collect::<Vec<_>>()})
    };
    let refused = desk.post("address-scopes", &member, scopes(20_000)).unwrap_err();
    assert_eq!((refused.status, refused.kind), (400, "HTTPBadRequest"), "{refused}");
    assert!(refused.message.contains("1000") && refused.message.contains("20000"), "{refused}");
    assert_eq!(fault(desk.post("address-scopes", &member, scopes(101))), OVER);
    assert_eq!(desk.post("address-scopes", &member, scopes(100)).unwrap().len(), 100);
    assert_eq!(fault(desk.post("address-scopes", &member, scopes(1))), OVER);
    // The size of a bulk request is checked before its first object: the network does not exist, and yet the limit is reported.
    let nowhere = json!({"name": "n", "network_id": id(0x99)});
    let ports: Vec<Value> = std::iter::repeat_n(nowhere, 501).collect();
    assert_eq!(fault(desk.post("ports", &member, json!({ "ports": ports }))), OVER);
    desk.outside.settings.max_bulk_size = 2;
    let networks = json!({"networks": [{}, {}, {}]});
    assert_eq!(fault(desk.post("networks", &member, networks)), (400, "HTTPBadRequest"));
}
