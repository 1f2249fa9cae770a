//! The sum of a project's addresses on networks of other projects, whatever objects have them.

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::details;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{FixedIp, Network, Port, QuotaSet};
use crate::report::Report;
use crate::resource::fixture::{fault, id, ip};
use crate::resource::router::fixture::*;
use crate::resource::{ChangeRequest, CreateAnswer, at_path};

const OVER: (u16, &str) = (409, "OverQuota");

/// N1 belongs to the administrator, is external and shared with all; `q` is a member without objects.
fn cloud() -> Cloud {
    let mut cloud = Cloud::new();
    cloud
        .by(Caller::admin("admin"), |cloud| cloud.update("networks", id(N1), json!({"shared": true})))
        .unwrap();
    cloud.caller = Caller::member("q");
    cloud
}

fn told(cloud: &Cloud, project: &str) -> (u64, i64) {
    let caller = Caller::member(project);
    let told = details(&cloud.world, &cloud.outside.settings, &caller, project).unwrap();
    let told = &told["quota"]["shared_address"];
    (told["used"].as_u64().unwrap(), told["limit"].as_i64().unwrap())
}

fn limit(cloud: &mut Cloud, limits: &[(&str, i64)]) {
    let limits = limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
    let set = QuotaSet { project: "q".into(), limits };
    cloud.change(|txn| Ok(txn.put(set))).unwrap();
}

/// The body of a port with so many addresses on the shared subnet.
fn port(count: usize) -> Value {
    let fixed: Value = std::iter::repeat_n(json!({"subnet_id": id(S1)}), count).collect();
    json!({"network_id": id(N1), "fixed_ips": fixed})
}

fn ports(cloud: &mut Cloud, ports: Vec<Value>) -> Result<usize, Fault> {
    let (caller, report) = (cloud.caller.clone(), Report::default());
    let body = json!({ "ports": ports });
    let noun = at_path("ports").unwrap();
    match cloud.change(|txn| noun.create(txn, &ChangeRequest::by(&caller, &report), &body))? {
        CreateAnswer::Many(made) => Ok(made.len()),
        CreateAnswer::One(_) => Ok(1),
    }
}

/// Changes the addresses of a port. On a foreign network only an administrator may do that; the limit is the project's.
fn readdress(cloud: &mut Cloud, port: Uuid, fixed_ips: &Value) -> Result<Value, Fault> {
    cloud.by(Caller::admin("admin"), |cloud| cloud.update("ports", port, json!({ "fixed_ips": fixed_ips })))
}

fn uuid(object: &Value) -> Uuid {
    object["id"].as_str().unwrap().parse().unwrap()
}

#[test]
fn one_bulk_request_does_not_empty_a_shared_subnet() {
    let mut cloud = cloud();
    assert_eq!(fault(ports(&mut cloud, vec![port(16); 16])), OVER);
    assert_eq!(told(&cloud, "q"), (0, 100), "all or nothing");
    assert_eq!(ports(&mut cloud, vec![port(16); 6]).unwrap(), 6);
    assert_eq!(told(&cloud, "q"), (96, 100));
    assert_eq!(fault(ports(&mut cloud, vec![port(1); 5])), OVER);
    assert_eq!(ports(&mut cloud, vec![port(1); 4]).unwrap(), 4);
    assert_eq!(told(&cloud, "q"), (100, 100));
}

#[test]
fn many_requests_take_no_more_than_one() {
    let mut cloud = cloud();
    for n in 0..100 {
        // An automatically chosen address counts too.
        let made = cloud.create("ports", json!({"network_id": id(N1)}));
        made.unwrap_or_else(|fault| panic!("port {n}: {fault}"));
    }
    assert_eq!(fault(cloud.create("ports", json!({"network_id": id(N1)}))), OVER);
    // Other projects have their own limits, and the network's owner has no such limit.
    cloud.by(Caller::member("r"), |cloud| cloud.create("ports", port(1))).unwrap();
    cloud.by(Caller::admin("admin"), |cloud| ports(cloud, vec![port(16); 8])).unwrap();
    assert_eq!((told(&cloud, "r"), told(&cloud, "admin")), ((1, 100), (0, 100)));
    // An administrator that creates for the project is under the project's limit.
    let mut body = port(1);
    body["project_id"] = json!("q");
    assert_eq!(fault(cloud.by(Caller::admin("admin"), |cloud| cloud.create("ports", body))), OVER);
}

#[test]
fn gateways_of_many_routers_and_floating_ips_are_in_the_sum() {
    let mut cloud = cloud();
    limit(&mut cloud, &[("shared_address", 30)]);
    let gateways = |count: usize| -> Value { vec![json!({"network_id": id(N1)}); count].into() };
    let routers: Vec<Uuid> = (0..4).map(|_| cloud.router()).collect();
    cloud.gateways("add", routers[0], gateways(12)).unwrap();
    cloud.gateways("update", routers[1], gateways(12)).unwrap();
    assert_eq!(told(&cloud, "q"), (24, 30));
    assert_eq!(fault(cloud.gateways("add", routers[2], gateways(7))), OVER);
    cloud.gateways("add", routers[2], gateways(3)).unwrap();
    let floating = json!({"floating_network_id": id(N1)});
    cloud.create("floatingips", floating.clone()).unwrap();
    let last = cloud.create("ports", port(2)).unwrap();
    assert_eq!(told(&cloud, "q"), (30, 30));
    let info = json!({"external_gateway_info": {"network_id": id(N1)}});
    assert_eq!(fault(cloud.create("floatingips", floating.clone())), OVER);
    assert_eq!(fault(cloud.create("routers", info.clone())), OVER);
    assert_eq!(fault(cloud.update("routers", routers[3], info.clone())), OVER);
    assert_eq!(fault(readdress(&mut cloud, uuid(&last), &port(3)["fixed_ips"])), OVER);
    // A further address of an existing gateway.
    let two = json!({"network_id": id(N1), "external_fixed_ips": port(2)["fixed_ips"]});
    let grown = json!([two, {"network_id": id(N1)}, {"network_id": id(N1)}]);
    assert_eq!(
        fault(cloud.by(Caller::admin("q"), |cloud| cloud.gateways("update", routers[2], grown))),
        OVER
    );
    // A gateway that replaces another uses no further address.
    cloud.gateways("update", routers[2], vec![json!({"network_id": id(N2)}); 3].into()).unwrap();
    cloud.delete("ports", uuid(&last)).unwrap();
    cloud.update("routers", routers[3], info).unwrap();
    cloud.create("floatingips", floating).unwrap();
    assert_eq!(told(&cloud, "q"), (30, 30));
}

#[test]
fn interfaces_on_networks_of_others_are_in_the_sum() {
    let mut cloud = cloud();
    limit(&mut cloud, &[("shared_address", 2)]);
    // The owner of N5 shares it with that very project, which may then attach its router.
    let policy = json!({"object_type": "network", "object_id": id(N5), "action": "access_as_shared", "target_tenant": "q"});
    cloud.by(Caller::admin("p"), |cloud| cloud.create("rbac-policies", policy)).unwrap();
    let router = cloud.router();
    cloud.attach(router, S6).unwrap();
    cloud.attach(router, S7).unwrap();
    assert_eq!(told(&cloud, "q"), (2, 2));
    assert_eq!(fault(cloud.attach(router, S5)), OVER);
    limit(&mut cloud, &[("shared_address", 1)]);
    let detach = json!({"subnet_id": id(S7)});
    cloud.act("routers", router, "PUT remove_router_interface", detach).unwrap();
    assert_eq!(fault(cloud.attach(router, S7)), OVER, "a further address of the same port");
}

#[test]
fn networks_of_the_project_itself_are_not_counted() {
    let mut cloud = cloud();
    limit(&mut cloud, &[("shared_address", 0)]);
    cloud.change(|txn| Ok(txn.edit::<Network>(&id(N4), |network| network.project = "q".into()))).unwrap();
    cloud.create("ports", json!({"network_id": id(N4)})).unwrap();
    assert_eq!(told(&cloud, "q"), (0, 0));
    assert_eq!(fault(cloud.create("ports", json!({"network_id": id(N1)}))), OVER);
    cloud.create("ports", json!({"network_id": id(N1), "fixed_ips": []})).unwrap();
}

#[test]
fn a_project_that_is_over_the_limit_keeps_its_addresses_and_may_give_some_back() {
    let mut cloud = cloud();
    let made = cloud.create("ports", port(2)).unwrap();
    let other = uuid(&cloud.create("ports", port(2)).unwrap());
    // An imported port with more addresses than a request may have.
    let one = |n: u8| FixedIp { subnet_id: id(S1), ip_address: ip(&format!("192.0.2.{}", 100 + n)) };
    let many: Vec<FixedIp> = (0..10).map(one).collect();
    cloud.change(|txn| Ok(txn.edit::<Port>(&uuid(&made), |port| port.fixed_ips = many))).unwrap();
    limit(&mut cloud, &[("shared_address", 3)]);
    assert_eq!(told(&cloud, "q"), (12, 3));
    cloud.update("ports", other, json!({"name": "renamed"})).unwrap();
    let moved = json!([{"ip_address": "192.0.2.77"}, {"ip_address": "192.0.2.78"}]);
    readdress(&mut cloud, other, &moved).unwrap();
    assert_eq!(fault(readdress(&mut cloud, other, &port(3)["fixed_ips"])), OVER);
    readdress(&mut cloud, other, &port(1)["fixed_ips"]).unwrap();
    assert_eq!(told(&cloud, "q"), (11, 3));
    assert_eq!(fault(cloud.create("ports", port(1))), OVER);
    // -1 means no limit.
    limit(&mut cloud, &[("shared_address", -1)]);
    cloud.create("ports", port(16)).unwrap();
    assert_eq!(told(&cloud, "q"), (27, -1));
}

#[test]
fn a_subnet_that_is_added_to_an_external_network_is_not_refused_for_the_sake_of_a_tenant() {
    let mut cloud = cloud();
    let router = cloud.router();
    cloud.gateways("add", router, json!([{"network_id": id(N1)}])).unwrap();
    limit(&mut cloud, &[("shared_address", 1)]);
    let mut subnet = crate::resource::fixture::subnet(0x31, N1, "2001:db8:9::/64");
    subnet.project = "admin".into();
    cloud.add_subnet(subnet);
    let used = told(&cloud, "q").0;
    assert_eq!(used, cloud.gateway_ports(router)[0].fixed_ips.len() as u64);
}
