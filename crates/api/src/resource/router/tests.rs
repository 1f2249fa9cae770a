//! Routers themselves: attributes, permissions, deletion.

use serde_json::{Value, json};

use super::fixture::*;
use super::*;
use crate::model::{Placement, Port};
use crate::resource::fixture::id;

#[test]
fn a_new_router_has_the_operators_defaults() {
    let mut cloud = Cloud::new();
    let shown = cloud.create("routers", json!({"name": "r", "description": "d"})).unwrap();
    let expected = json!({
        "name": "r", "description": "d", "admin_state_up": true, "status": "ACTIVE", "project_id": "p", "tenant_id": "p",
        "external_gateway_info": null, "external_gateways": [], "enable_snat": true, "routes": [],
        "enable_default_route_ecmp": false, "enable_default_route_bfd": false,
        "availability_zone_hints": [], "availability_zones": [], "distributed": false, "ha": true, "flavor_id": null,
        "tags": [], "revision_number": 0,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    assert!(shown.get("gw_port_id").is_none());
    cloud.outside.settings.enable_default_route_bfd = true;
    cloud.outside.settings.enable_default_route_ecmp = true;
    cloud.outside.settings.enable_distributed_floating_ip = true;
    let shown = cloud.create("routers", json!({"enable_default_route_ecmp": false})).unwrap();
    assert_eq!(shown["enable_default_route_bfd"], json!(true));
    assert_eq!(shown["enable_default_route_ecmp"], json!(false));
    assert_eq!(shown["distributed"], json!(true));
}

#[test]
fn scenario_16_the_list_of_gateways_is_read_only() {
    let mut cloud = Cloud::new();
    let list = json!({"external_gateways": [{"network_id": id(N1)}]});
    let text = refused(cloud.create("routers", list.clone()), 400, "HTTPBadRequest");
    assert!(text.contains("external_gateways"), "{text}");
    let router = cloud.router();
    let text = refused(cloud.update("routers", router, list), 400, "HTTPBadRequest");
    assert_eq!(text, "Cannot update read-only attribute external_gateways");
    for name in ["status", "gw_port_id", "enable_snat", "availability_zones", "flavor_id"] {
        refused(cloud.update("routers", router, json!({name: null})), 400, "HTTPBadRequest");
        refused(cloud.create("routers", json!({name: null})), 400, "HTTPBadRequest");
    }
    refused(cloud.create("routers", json!({"routes": []})), 400, "HTTPBadRequest");
    refused(cloud.update("routers", router, json!({"availability_zone_hints": []})), 400, "HTTPBadRequest");
}

#[test]
fn a_router_can_be_made_with_its_gateway() {
    let mut cloud = Cloud::new();
    let info = json!({"network_id": id(N1), "enable_snat": false});
    let shown = cloud.create("routers", json!({"external_gateway_info": info})).unwrap();
    assert_eq!(shown["external_gateway_info"]["enable_snat"], json!(false));
    assert_eq!(shown["external_gateways"].as_array().unwrap().len(), 1);
    for empty in [json!(null), json!({})] {
        let shown = cloud.create("routers", json!({"external_gateway_info": empty})).unwrap();
        assert_eq!(shown["external_gateway_info"], Value::Null);
    }
    for bad in
        [json!([]), json!("x"), json!({"network_id": 7}), json!({"enable_snat": true}), json!({"colour": 1})]
    {
        refused(cloud.create("routers", json!({"external_gateway_info": bad})), 400, "HTTPBadRequest");
    }
}

#[test]
fn what_only_administrators_may_say_and_see() {
    let mut cloud = Cloud::new();
    cloud.caller = Caller::member("p");
    for (name, value) in [
        ("enable_default_route_ecmp", true),
        ("enable_default_route_bfd", true),
        ("distributed", true),
        ("ha", true),
    ] {
        refused(cloud.create("routers", json!({name: value})), 403, "PolicyNotAuthorized");
    }
    let router = cloud.router();
    for name in ["enable_default_route_ecmp", "enable_default_route_bfd", "ha"] {
        refused(cloud.update("routers", router, json!({name: true})), 403, "PolicyNotAuthorized");
    }
    let shown = cloud.show("routers", router).unwrap();
    assert!(shown.get("ha").is_none() && shown.get("distributed").is_none());
    assert_eq!(shown["enable_default_route_ecmp"], json!(false));
    cloud.caller = Caller::member("q");
    refused(cloud.show("routers", router), 404, "RouterNotFound");
    refused(cloud.delete("routers", router), 404, "RouterNotFound");
    cloud.caller = Caller::admin("admin");
    assert_eq!(cloud.update("routers", router, json!({"ha": true})).unwrap()["ha"], json!(true));
    refused(cloud.update("routers", router, json!({"ha": false})), 400, "HTTPBadRequest");
    refused(cloud.create("routers", json!({"ha": false})), 400, "HTTPBadRequest");
    refused(cloud.update("routers", router, json!({"distributed": true})), 400, "HTTPBadRequest");
}

#[test]
fn distributed_is_the_operators_choice_for_all_routers() {
    let mut cloud = Cloud::new();
    for choice in [false, true] {
        cloud.outside.settings.enable_distributed_floating_ip = choice;
        let text = refused(cloud.create("routers", json!({"distributed": !choice})), 400, "HTTPBadRequest");
        assert!(text.contains("enable_distributed_floating_ip"), "{text}");
        for body in [json!({}), json!({"distributed": null}), json!({"distributed": choice})] {
            assert_eq!(cloud.create("routers", body).unwrap()["distributed"], choice);
        }
    }
    let first = cloud.world.table::<Router>().iter().next().unwrap().id;
    cloud.outside.settings.enable_distributed_floating_ip = false;
    assert_eq!(cloud.show("routers", first).unwrap()["distributed"], false, "older routers follow as well");
}

#[test]
fn scenario_48_unknown_zones_are_refused() {
    let mut cloud = Cloud::new();
    cloud.outside.fleet.chassis[0].zones.insert("az1".into());
    let shown = cloud.create("routers", json!({"availability_zone_hints": ["az1"]})).unwrap();
    assert_eq!(shown["availability_zones"], json!(["az1"]));
    let router: Uuid = shown["id"].as_str().unwrap().parse().unwrap();
    cloud.gateways("add", router, json!([{"network_id": id(N1)}])).unwrap();
    let placement = cloud.world.table::<Placement>().iter().next().unwrap().clone();
    assert_eq!(placement.chassis.iter().map(|it| it.chassis.as_str()).collect::<Vec<_>>(), ["ch1"]);
    refused(
        cloud.create("routers", json!({"availability_zone_hints": ["az1", "az9"]})),
        404,
        "AvailabilityZoneNotFound",
    );
}

#[test]
fn scenario_44_a_router_goes_with_its_gateways_but_not_with_an_interface() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N1, N2]);
    let attached = cloud.attach(router, S4).unwrap();
    let text = refused(cloud.delete("routers", router), 409, "RouterInUse");
    let port = attached["port_id"].as_str().unwrap();
    assert_eq!(text, format!("Router {router} has ports still attached: {port}"));
    assert_eq!(cloud.gateway_ports(router).len(), 3);
    cloud.act("routers", router, "PUT remove_router_interface", json!({"port_id": port})).unwrap();
    cloud.delete("routers", router).unwrap();
    assert_eq!((cloud.world.table::<Port>().len(), cloud.world.table::<Placement>().len()), (0, 0));
    refused(cloud.show("routers", router), 404, "RouterNotFound");
}

#[test]
fn scenario_63_router_quotas() {
    let mut cloud = Cloud::new();
    cloud.outside.settings.quotas.set("router", 1);
    cloud.outside.settings.quotas.set("router_route", 2);
    cloud.outside.settings.quotas.set("port", 1);
    let router = cloud.router_on(&[N1, N1, N2]);
    refused(cloud.create("routers", json!({})), 409, "OverQuota");
    cloud.attach(router, S4).unwrap();
    refused(cloud.attach(router, S5), 409, "OverQuota");
    let route = |n: u8| json!({"destination": format!("203.0.113.{n}/32"), "nexthop": "10.0.4.9"});
    cloud.update("routers", router, json!({"routes": [route(1), route(2)]})).unwrap();
    refused(
        cloud.update("routers", router, json!({"routes": [route(1), route(2), route(3)]})),
        409,
        "OverQuota",
    );
    // The limit applies to each router.
    cloud.outside.settings.quotas.set("router", 2);
    let other = cloud.router_on(&[N1]);
    let through = json!({"destination": "203.0.113.9/32", "nexthop": "192.0.2.99"});
    cloud.update("routers", other, json!({"routes": [through]})).unwrap();
}

#[test]
fn scenario_65_switching_off_changes_nothing_else() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    let before = cloud.world.clone();
    for state in [false, true] {
        let shown = cloud.update("routers", router, json!({"admin_state_up": state})).unwrap();
        assert_eq!(shown["admin_state_up"], json!(state));
        assert_eq!(cloud.world.table::<Port>().changes_since(before.table::<Port>()).count(), 0);
    }
}

#[test]
fn every_change_counts_once_and_no_change_not_at_all() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let revision =
        |cloud: &Cloud| cloud.show("routers", router).unwrap()["revision_number"].as_u64().unwrap();
    let mut last = revision(&cloud);
    let mut grows_by = |cloud: &Cloud, by: u64, about: &str| {
        let now = revision(cloud);
        assert_eq!(now, last + by, "{about}");
        last = now;
    };
    cloud.update("routers", router, json!({"name": "other"})).unwrap();
    grows_by(&cloud, 1, "rename");
    cloud.update("routers", router, json!({"name": "other"})).unwrap();
    grows_by(&cloud, 0, "rename to the same");
    cloud.gateways("add", router, json!([{"network_id": id(N1)}])).unwrap();
    grows_by(&cloud, 1, "first gateway");
    cloud.gateways("add", router, json!([{"network_id": id(N1)}])).unwrap();
    grows_by(&cloud, 1, "extra gateway");
    cloud.attach(router, S4).unwrap();
    grows_by(&cloud, 1, "interface");
    let info = json!({"external_gateway_info": {"network_id": id(N1)}, "name": "third"});
    cloud.update("routers", router, info).unwrap();
    grows_by(&cloud, 1, "name and the gateway it has");
    let route = json!({"router": {"routes": [{"destination": "203.0.113.0/24", "nexthop": "10.0.4.9"}]}});
    cloud.act("routers", router, "PUT add_extraroutes", route.clone()).unwrap();
    grows_by(&cloud, 1, "route");
    cloud.act("routers", router, "PUT add_extraroutes", route).unwrap();
    grows_by(&cloud, 0, "the same route");
}
