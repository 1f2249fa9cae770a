//! Floating IPs: the address, the port that it leads to, and the router in between.

use serde_json::json;

use super::*;
use crate::resource::at_path;
use crate::resource::fixture::{id, ip, subnet};
use crate::resource::router::fixture::*;

fn create(cloud: &mut Cloud, body: Value) -> Result<Value, Fault> {
    cloud.create("floatingips", body)
}

fn on(network: u128) -> Value {
    json!({"floating_network_id": id(network)})
}

/// A cloud with a router between N4 and N1, and a port on N4.
fn wired() -> (Cloud, Uuid, Uuid) {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    cloud.attach(router, S4).unwrap();
    let port = cloud.port(N4, &["10.0.4.9"]);
    (cloud, router, port)
}

#[test]
fn an_address_is_held_by_a_hidden_port() {
    let mut cloud = Cloud::new();
    let shown = create(&mut cloud, on(N1)).unwrap();
    assert_eq!(shown["floating_ip_address"], json!("192.0.2.2"));
    for name in ["port_id", "fixed_ip_address", "router_id", "port_details"] {
        assert_eq!(shown[name], Value::Null, "{name}");
    }
    assert_eq!(shown["status"], json!("DOWN"));
    assert!(shown.get("subnet_id").is_none(), "it can only be written");
    let port = cloud.world.table::<Port>().iter().next().unwrap().clone();
    assert_eq!((port.device_owner.as_str(), port.project.as_str()), (owner::FLOATING_IP, ""));
    assert_eq!(json!(port.device_id), shown["id"]);
    cloud.delete("floatingips", shown["id"].as_str().unwrap()).unwrap();
    assert_eq!((cloud.world.table::<Port>().len(), cloud.world.table::<FloatingIp>().len()), (0, 0));
}

#[test]
fn a_subnet_of_somebody_else_is_answered_as_one_that_is_not_there() {
    let mut cloud = Cloud::new();
    let answer = |cloud: &mut Cloud, subnet: u128, extra: Value| {
        let mut body = json!({"floating_network_id": id(N1), "subnet_id": id(subnet)});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let refused =
            cloud.by(Caller { manager: true, ..Caller::member("stranger") }, |cloud| create(cloud, body));
        let fault = refused.unwrap_err();
        (fault.status, fault.kind, fault.message.replace(&id(subnet).to_string(), "it"))
    };
    for extra in
        [json!({}), json!({"floating_ip_address": "10.0.4.9"}), json!({"floating_ip_address": "192.0.2.9"})]
    {
        // An IPv4 and an IPv6 subnet of project p, and one that does not exist.
        let [v4, v6, none] = [S4, S6, 0x99].map(|subnet| answer(&mut cloud, subnet, extra.clone()));
        assert_eq!(v4, none, "{extra}");
        assert_eq!(v6, none, "{extra}");
    }
}

#[test]
fn an_address_can_be_asked_for_by_administrators_and_managers() {
    let mut cloud = Cloud::new();
    cloud.add_subnet(subnet(0x31, N1, "203.0.113.0/24"));
    let with = |extra: Value| {
        let mut body = on(N1);
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let shown = create(&mut cloud, with(json!({"floating_ip_address": "192.0.2.50"}))).unwrap();
    assert_eq!(shown["floating_ip_address"], json!("192.0.2.50"));
    let shown = create(&mut cloud, with(json!({"subnet_id": id(0x31)}))).unwrap();
    assert_eq!(shown["floating_ip_address"], json!("203.0.113.2"));
    let table = [
        (json!({"floating_ip_address": "192.0.2.50"}), 409, "IpAddressAlreadyAllocated"),
        (json!({"floating_ip_address": "198.51.100.9"}), 400, "InvalidIpForNetwork"),
        (json!({"floating_ip_address": "192.0.2.60", "subnet_id": id(0x31)}), 400, "InvalidIpForSubnet"),
        (json!({"floating_ip_address": "192.0.2.1"}), 400, "BadRequest"),
        (json!({"floating_ip_address": "2001:db8::1"}), 400, "HTTPBadRequest"),
        (json!({"subnet_id": id(S2)}), 400, "BadRequest"),
        (json!({"subnet_id": id(0x99)}), 400, "BadRequest"),
    ];
    for (extra, status, kind) in table {
        refused(create(&mut cloud, with(extra)), status, kind);
    }
    cloud.caller = Caller::member("p");
    refused(
        create(&mut cloud, with(json!({"floating_ip_address": "192.0.2.70"}))),
        403,
        "PolicyNotAuthorized",
    );
    create(&mut cloud, with(json!({"subnet_id": id(0x31)}))).unwrap();
    cloud.caller.manager = true;
    create(&mut cloud, with(json!({"floating_ip_address": "192.0.2.70"}))).unwrap();
}

#[test]
fn networks_that_have_none_to_give() {
    let mut cloud = Cloud::new();
    refused(create(&mut cloud, on(0x99)), 404, "NetworkNotFound");
    refused(create(&mut cloud, json!({})), 400, "HTTPBadRequest");
    let text = refused(create(&mut cloud, on(N4)), 400, "BadRequest");
    assert!(text.contains("is not a valid external network"), "{text}");
    cloud.change(|txn| Ok(txn.put(external(0x50, "phy1")))).unwrap();
    let text = refused(create(&mut cloud, on(0x50)), 400, "BadRequest");
    assert!(text.contains("does not contain any IPv4 subnet"), "{text}");
    let mut small = subnet(0x51, 0x50, "203.0.113.0/30");
    small.gateway_ip = None;
    small.allocation_pools[0].start = ip("203.0.113.2");
    cloud.add_subnet(small);
    create(&mut cloud, on(0x50)).unwrap();
    refused(create(&mut cloud, on(0x50)), 400, "ExternalIpAddressExhausted");
}

#[test]
fn subnets_made_for_floating_ips_come_first() {
    let mut cloud = Cloud::new();
    let mut special = subnet(0x51, N1, "203.0.113.0/24");
    special.service_types = vec![owner::FLOATING_IP.into()];
    cloud.add_subnet(special);
    let mut others = subnet(0x52, N2, "203.0.113.0/24");
    others.service_types = vec![owner::ROUTER_GATEWAY.into()];
    cloud.add_subnet(others);
    assert_eq!(create(&mut cloud, on(N1)).unwrap()["floating_ip_address"], json!("203.0.113.2"));
    assert_eq!(create(&mut cloud, on(N2)).unwrap()["floating_ip_address"], json!("198.51.100.2"));
}

#[test]
fn scenario_13_association_and_its_end() {
    let (mut cloud, router, port) = wired();
    let shown = create(&mut cloud, on(N1)).unwrap();
    let floating = shown["id"].as_str().unwrap().to_owned();
    let shown = cloud.update("floatingips", &floating, json!({"port_id": port})).unwrap();
    assert_eq!(
        [&shown["port_id"], &shown["fixed_ip_address"], &shown["router_id"], &shown["status"]],
        [&json!(port), &json!("10.0.4.9"), &json!(router), &json!("DOWN")]
    );
    assert_eq!(shown["port_details"]["network_id"], json!(id(N4)));
    assert_eq!(shown["revision_number"], json!(1));
    cloud.report.set_nat(floating.parse().unwrap(), true);
    assert_eq!(cloud.show("floatingips", &floating).unwrap()["status"], json!("ACTIVE"));
    let kept = cloud.update("floatingips", &floating, json!({"description": "mine"})).unwrap();
    assert_eq!(kept["port_id"], json!(port), "what is not named stays");
    for end in [json!({"port_id": null}), json!({})] {
        cloud.update("floatingips", &floating, json!({"port_id": port})).unwrap();
        let shown = cloud.update("floatingips", &floating, end).unwrap();
        for name in ["port_id", "fixed_ip_address", "router_id"] {
            assert_eq!(shown[name], Value::Null, "{name}");
        }
        assert_eq!(shown["status"], json!("DOWN"));
    }
    let at_once = create(&mut cloud, json!({"floating_network_id": id(N1), "port_id": port})).unwrap();
    assert_eq!(at_once["router_id"], json!(router));
}

#[test]
fn which_address_of_the_port() {
    let (mut cloud, _, _) = wired();
    cloud.add_subnet(subnet(0x31, N4, "2001:db8:4::/64"));
    let two = cloud.port(N4, &["10.0.4.20", "10.0.4.21", "2001:db8:4::9"]);
    let six = cloud.port(N4, &["2001:db8:4::10"]);
    let body = |port: Uuid, fixed: Value| json!({"floating_network_id": id(N1), "port_id": port, "fixed_ip_address": fixed});
    let text = refused(create(&mut cloud, body(two, Value::Null)), 400, "BadRequest");
    assert!(text.contains("multiple fixed IPv4 addresses"), "{text}");
    refused(create(&mut cloud, body(two, json!("10.0.4.99"))), 400, "BadRequest");
    refused(create(&mut cloud, body(two, json!("2001:db8:4::9"))), 400, "BadRequest");
    let text = refused(create(&mut cloud, body(six, Value::Null)), 400, "BadRequest");
    assert!(text.contains("no fixed IPv4 addresses"), "{text}");
    let alone = json!({"floating_network_id": id(N1), "fixed_ip_address": "10.0.4.20"});
    refused(create(&mut cloud, alone), 400, "BadRequest");
    let shown = create(&mut cloud, body(two, json!("10.0.4.21"))).unwrap();
    assert_eq!(shown["fixed_ip_address"], json!("10.0.4.21"));
    refused(create(&mut cloud, body(two, json!("10.0.4.21"))), 409, "FloatingIPPortAlreadyAssociated");
    create(&mut cloud, body(two, json!("10.0.4.20"))).unwrap();
    // A change of the fixed address alone stays on the port.
    let floating = shown["id"].as_str().unwrap();
    refused(
        cloud.update("floatingips", floating, json!({"fixed_ip_address": "10.0.4.20"})),
        409,
        "FloatingIPPortAlreadyAssociated",
    );
    let free = create(&mut cloud, on(N1)).unwrap();
    let lone =
        cloud.update("floatingips", free["id"].as_str().unwrap(), json!({"fixed_ip_address": "10.0.4.20"}));
    refused(lone, 400, "BadRequest");
}

#[test]
fn the_router_must_lead_to_the_network() {
    let (mut cloud, first, port) = wired();
    let text = refused(
        create(&mut cloud, json!({"floating_network_id": id(N2), "port_id": port})),
        404,
        "ExternalGatewayForFloatingIPNotFound",
    );
    assert!(text.contains("is not reachable from subnet"), "{text}");
    // Any gateway will do, not only the compatibility gateway.
    cloud.gateways("add", first, json!([{"network_id": id(N2)}])).unwrap();
    let shown = create(&mut cloud, json!({"floating_network_id": id(N2), "port_id": port})).unwrap();
    assert_eq!(shown["router_id"], json!(first));
    // If several routers fit, the one that is the subnet's gateway is chosen.
    for address in ["10.0.4.201", "10.0.4.202", "10.0.4.203"] {
        let second = cloud.router_on(&[N1]);
        let side = cloud.port(N4, &[address]);
        cloud.act("routers", second, "PUT add_router_interface", json!({"port_id": side})).unwrap();
    }
    let shown = create(&mut cloud, json!({"floating_network_id": id(N1), "port_id": port})).unwrap();
    assert_eq!(shown["router_id"], json!(first));
    let isolated = cloud.port(N5, &["10.0.5.9"]);
    refused(
        create(&mut cloud, json!({"floating_network_id": id(N1), "port_id": isolated})),
        404,
        "ExternalGatewayForFloatingIPNotFound",
    );
}

#[test]
fn other_projects_ports_are_out_of_reach() {
    let (mut cloud, _, port) = wired();
    cloud.caller = Caller::member("q");
    let shown = create(&mut cloud, on(N1)).unwrap();
    assert_eq!(shown["project_id"], json!("q"));
    let floating = shown["id"].as_str().unwrap().to_owned();
    refused(cloud.update("floatingips", &floating, json!({"port_id": port})), 404, "PortNotFound");
    refused(cloud.update("floatingips", &floating, json!({"port_id": id(0x99)})), 404, "PortNotFound");
    cloud.caller = Caller::member("p");
    refused(cloud.show("floatingips", &floating), 404, "FloatingIPNotFound");
    refused(cloud.delete("floatingips", &floating), 404, "FloatingIPNotFound");
    cloud.caller = Caller::reader("p");
    refused(create(&mut cloud, on(N1)), 403, "PolicyNotAuthorized");
}

#[test]
fn quotas_count_floating_ips_and_not_their_ports() {
    let mut cloud = Cloud::new();
    cloud.outside.settings.quotas.set("floatingip", 1);
    cloud.outside.settings.quotas.set("port", 0);
    create(&mut cloud, on(N1)).unwrap();
    refused(create(&mut cloud, on(N1)), 409, "OverQuota");
}

#[test]
fn associations_end_with_the_port_and_hold_its_address() {
    let (mut cloud, _, port) = wired();
    let shown = create(&mut cloud, json!({"floating_network_id": id(N1), "port_id": port})).unwrap();
    let other = json!({"fixed_ips": [{"ip_address": "10.0.4.10"}]});
    refused(cloud.update("ports", port, other), 409, "IpAddressInUse");
    cloud.delete("ports", port).unwrap();
    let shown = cloud.show("floatingips", shown["id"].as_str().unwrap()).unwrap();
    assert_eq!((&shown["port_id"], &shown["router_id"]), (&Value::Null, &Value::Null));
    assert_eq!(shown["revision_number"], json!(1));
}

#[test]
fn pools_are_the_ipv4_subnets_of_external_networks() {
    let mut cloud = Cloud::new();
    cloud.add_subnet(subnet(0x31, N1, "2001:db8:1::/64"));
    cloud.caller = Caller::member("p");
    let scene = crate::resource::Scene {
        world: &cloud.world,
        report: &cloud.report,
        outside: &cloud.outside,
        caller: &cloud.caller,
        now: jiff::Timestamp::UNIX_EPOCH,
        parent: None,
    };
    let rows = <FloatingIpPools as crate::resource::Computed>::rows(&scene);
    let cidrs: Vec<_> = rows.iter().map(|row| row["cidr"].as_str().unwrap().to_owned()).collect();
    assert_eq!(cidrs, ["192.0.2.0/24", "198.51.100.0/24", "192.0.2.128/25"]);
    assert_eq!(rows[0]["network_id"], json!(id(N1)));
    assert!(at_path("floatingip_pools").is_some());
}

#[test]
fn the_address_of_a_floating_ip_does_not_move_with_its_port() {
    let mut cloud = Cloud::new();
    create(&mut cloud, on(N1)).unwrap();
    let port = cloud.world.table::<Port>().iter().next().unwrap().id;
    let to = |address: &str| json!({"fixed_ips": [{"subnet_id": id(S1), "ip_address": address}]});
    refused(cloud.update("ports", port, to("192.0.2.77")), 409, "ServicePortInUse");
    refused(cloud.update("ports", port, json!({"fixed_ips": []})), 409, "ServicePortInUse");
    assert!(cloud.update("ports", port, to("192.0.2.2")).is_ok(), "saying what is changes nothing");
}

#[test]
fn a_floating_ip_lets_go_of_a_router_port_that_goes_or_loses_the_address() {
    let (mut cloud, router, _) = wired();
    let floating = create(&mut cloud, on(N1)).unwrap()["id"].as_str().unwrap().to_owned();
    let lead = |cloud: &mut Cloud, port: &Value| {
        let shown = cloud.update("floatingips", &floating, json!({"port_id": port})).unwrap();
        assert_eq!(shown["router_id"], json!(router));
    };
    let released = |cloud: &Cloud| {
        let shown = cloud.show("floatingips", &floating).unwrap();
        let nothing = ["port_id", "fixed_ip_address", "router_id"].iter().all(|name| shown[name].is_null());
        assert!(nothing, "{shown}");
    };
    // The interface of another router on the same subnet.
    let other = cloud.router();
    let port = cloud.port(N4, &["10.0.4.77"]);
    cloud.act("routers", other, "PUT add_router_interface", json!({"port_id": port})).unwrap();
    lead(&mut cloud, &json!(port));
    cloud.act("routers", other, "PUT remove_router_interface", json!({"port_id": port})).unwrap();
    released(&cloud);
    // The gateway of another router on a network that this one is attached to.
    cloud.change(|txn| Ok(txn.put(external(N4, "phy4")))).unwrap();
    let other = cloud.router_on(&[N4]);
    let gateway_port = json!(cloud.gateway_ports(other)[0].id);
    lead(&mut cloud, &gateway_port);
    cloud.gateways("update", other, json!([gateway(N4, &["10.0.4.88"])])).unwrap();
    released(&cloud);
    lead(&mut cloud, &gateway_port);
    cloud.gateways("update", other, json!([])).unwrap();
    released(&cloud);
}
