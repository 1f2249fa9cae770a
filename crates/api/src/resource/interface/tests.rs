//! Attaching and detaching, and the reasons for refusing both.

use serde_json::{Value, json};

use super::*;
use crate::model::Ipv6Mode;
use crate::resource::fixture::{id, ip, network, subnet};
use crate::resource::router::fixture::*;

fn add(cloud: &mut Cloud, router: Uuid, body: Value) -> Result<Value, Fault> {
    cloud.act("routers", router, "PUT add_router_interface", body)
}

fn remove(cloud: &mut Cloud, router: Uuid, body: Value) -> Result<Value, Fault> {
    cloud.act("routers", router, "PUT remove_router_interface", body)
}

fn port(cloud: &Cloud, answer: &Value) -> Port {
    let id: Uuid = answer["port_id"].as_str().unwrap().parse().unwrap();
    Port::clone(cloud.world.get::<Port>(&id).unwrap())
}

#[test]
fn scenario_10_by_subnet_the_router_takes_the_gateway_address() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let answer = add(&mut cloud, router, json!({"subnet_id": id(S4), "advertise_host": false})).unwrap();
    let port = port(&cloud, &answer);
    assert_eq!(
        answer,
        json!({
            "id": router, "tenant_id": "p", "project_id": "p", "port_id": port.id, "network_id": id(N4),
            "subnet_id": id(S4), "subnet_ids": [id(S4)],
        })
    );
    assert_eq!(port.fixed_ips, [FixedIp { subnet_id: id(S4), ip_address: ip("10.0.4.1") }]);
    assert_eq!(
        (port.device_id.as_str(), port.device_owner.as_str()),
        (router.to_string().as_str(), owner::ROUTER_INTERFACE)
    );
    assert_eq!(port.project, "p");
    let back = remove(&mut cloud, router, json!({"subnet_id": id(S4)})).unwrap();
    assert_eq!(back, answer);
    assert!(cloud.world.get::<Port>(&port.id).is_none());
}

#[test]
fn by_port_the_router_takes_the_port_as_it_is() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let free = cloud.port(N4, &["10.0.4.77"]);
    let answer = add(&mut cloud, router, json!({"port_id": free})).unwrap();
    assert_eq!((&answer["port_id"], &answer["subnet_ids"]), (&json!(free), &json!([id(S4)])));
    assert!(port(&cloud, &answer).is_router_interface());
    refused(add(&mut cloud, router, json!({"port_id": free})), 409, "PortInUse");
    let other = cloud.router();
    refused(add(&mut cloud, other, json!({"port_id": free})), 409, "PortInUse");
    remove(&mut cloud, router, json!({"port_id": free, "subnet_id": id(S4)})).unwrap();
    assert!(cloud.world.get::<Port>(&free).is_none());
}

#[test]
fn bodies_that_do_not_tell_what_to_attach() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    for body in [
        json!(null),
        json!({}),
        json!([]),
        json!({"subnet_id": null}),
        json!({"subnet_id": "x"}),
        json!({"port_id": 7}),
        json!({"subnet": id(S4)}),
    ] {
        assert_eq!(add(&mut cloud, router, body.clone()).unwrap_err().status, 400, "{body}");
        assert_eq!(remove(&mut cloud, router, body.clone()).unwrap_err().status, 400, "{body}");
    }
    let free = cloud.port(N4, &["10.0.4.77"]);
    refused(add(&mut cloud, router, json!({"subnet_id": id(S4), "port_id": free})), 400, "BadRequest");
    refused(add(&mut cloud, router, json!({"subnet_id": id(0x99)})), 404, "SubnetNotFound");
    refused(add(&mut cloud, router, json!({"port_id": id(0x99)})), 404, "PortNotFound");
}

#[test]
fn subnets_that_cannot_be_attached() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.attach(router, S4).unwrap();
    let text = refused(cloud.attach(router, S4), 400, "BadRequest");
    assert!(text.contains("Router already has a port on subnet"), "{text}");
    // The other router has the gateway address of the subnet now.
    let other = cloud.router();
    refused(cloud.attach(other, S4), 409, "IpAddressAlreadyAllocated");
    let mut without = subnet(0x31, N5, "10.0.6.0/24");
    without.gateway_ip = None;
    cloud.add_subnet(without);
    let text = refused(cloud.attach(router, 0x31), 400, "BadRequest");
    assert!(text.contains("must have a gateway IP"), "{text}");
    cloud.add_subnet(subnet(0x32, N5, "10.0.4.128/25"));
    let text = refused(cloud.attach(router, 0x32), 400, "BadRequest");
    assert!(text.contains("overlaps with cidr 10.0.4.0/24"), "{text}");
    let mut foreign_ra = subnet(0x33, N5, "2001:db8:9::/64");
    foreign_ra.ipv6_address_mode = Some(Ipv6Mode::Slaac);
    cloud.add_subnet(foreign_ra.clone());
    refused(cloud.attach(router, 0x33), 400, "BadRequest");
    foreign_ra.ipv6_ra_mode = Some(Ipv6Mode::Slaac);
    cloud.add_subnet(foreign_ra);
    cloud.attach(router, 0x33).unwrap();
}

#[test]
fn further_ipv6_subnets_of_a_network_share_a_port() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let v4 = cloud.attach(router, S5).unwrap();
    let first = cloud.attach(router, S6).unwrap();
    let second = cloud.attach(router, S7).unwrap();
    assert_ne!(v4["port_id"], first["port_id"]);
    assert_eq!(first["port_id"], second["port_id"]);
    assert_eq!(second["subnet_ids"], json!([id(S7)]));
    assert_eq!(port(&cloud, &first).fixed_ips.len(), 2);
    remove(&mut cloud, router, json!({"subnet_id": id(S6)})).unwrap();
    assert_eq!(
        port(&cloud, &second).fixed_ips,
        [FixedIp { subnet_id: id(S7), ip_address: ip("2001:db8:7::1") }]
    );
    let extra = cloud.port(N5, &["2001:db8:6::99"]);
    refused(add(&mut cloud, router, json!({"port_id": extra})), 400, "BadRequest");
    remove(&mut cloud, router, json!({"subnet_id": id(S7)})).unwrap();
    assert_eq!(reach::interfaces(&cloud.world, router).count(), 1);
}

#[test]
fn ports_that_cannot_be_attached() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let empty = cloud.port(N4, &[]);
    let text = refused(add(&mut cloud, router, json!({"port_id": empty})), 400, "BadRequest");
    assert!(text.contains("at least one fixed IP"), "{text}");
    cloud.add_subnet(subnet(0x31, N4, "10.0.6.0/24"));
    let two = cloud.port(N4, &["10.0.4.8", "10.0.6.8"]);
    let text = refused(add(&mut cloud, router, json!({"port_id": two})), 400, "BadRequest");
    assert!(text.contains("multiple IPv4 subnets"), "{text}");
    // The next hop of a route cannot become the router's own address.
    cloud.attach(router, S4).unwrap();
    let theirs = cloud.by(Caller::member("q"), |cloud| cloud.router());
    let free = cloud.port(N4, &["10.0.4.9"]);
    let foreign = cloud.by(Caller::member("q"), |cloud| add(cloud, theirs, json!({"port_id": free})));
    refused(foreign, 404, "PortNotFound");
}

#[test]
fn members_attach_what_they_may_use() {
    let mut cloud = Cloud::new();
    cloud.change(|txn| Ok(txn.put(network(0x40, "q")))).unwrap();
    cloud.add_subnet(subnet(0x41, 0x40, "10.0.9.0/24"));
    cloud.caller = Caller::member("p");
    let router = cloud.router();
    cloud.attach(router, S4).unwrap();
    refused(cloud.attach(router, 0x41), 404, "SubnetNotFound");
    // An external network is visible and allows gateways, but no interfaces.
    refused(cloud.attach(router, S1), 400, "BadRequest");
    cloud.caller = Caller::reader("p");
    refused(cloud.attach(router, S5), 403, "PolicyNotAuthorized");
}

/// Project `q` has a network that is shared with all: 0x40 with 0x41 10.0.9.0/24.
fn shared_with_all() -> Cloud {
    let mut cloud = Cloud::new();
    cloud.change(|txn| Ok(txn.put(network(0x40, "q")))).unwrap();
    cloud.add_subnet(Subnet { project: "q".into(), ..subnet(0x41, 0x40, "10.0.9.0/24") });
    cloud.update("networks", id(0x40), json!({"shared": true})).unwrap();
    cloud
}

#[test]
fn who_may_only_use_a_shared_network_does_not_become_its_gateway() {
    let mut cloud = shared_with_all();
    let member = || Caller::member("p");
    let router = cloud.by(member(), Cloud::router);
    let text = refused(cloud.by(member(), |cloud| cloud.attach(router, 0x41)), 400, "BadRequest");
    assert!(text.contains("is not owned by project making the request"), "{text}");
    // Attaching by port fails too: the caller cannot choose the address, and cannot attach a port that somebody else created for it.
    let gateway = json!([{"ip_address": "10.0.9.1"}]);
    let asked = json!({"network_id": id(0x40), "fixed_ips": gateway});
    refused(cloud.by(member(), |cloud| cloud.create("ports", asked)), 403, "PolicyNotAuthorized");
    let port = cloud.by(member(), |cloud| cloud.create("ports", json!({"network_id": id(0x40)}))).unwrap();
    let port = port["id"].as_str().unwrap().to_owned();
    for change in [
        json!({"fixed_ips": gateway}),
        json!({"fixed_ips": [{"subnet_id": id(0x41), "ip_address": "10.0.9.1"}]}),
        json!({"allowed_address_pairs": gateway}),
    ] {
        let moved = cloud.by(member(), |cloud| cloud.update("ports", &port, change.clone()));
        refused(moved, 403, "PolicyNotAuthorized");
    }
    let made = cloud.create(
        "ports",
        json!({"network_id": id(0x40), "project_id": "p", "fixed_ips": [{"ip_address": "10.0.9.1"}]}),
    );
    let made = made.unwrap()["id"].clone();
    let text =
        refused(cloud.by(member(), |cloud| add(cloud, router, json!({"port_id": made}))), 400, "BadRequest");
    assert!(text.contains("out of the allocation pool"), "{text}");
    // The router may be on the network without being its gateway. The network's owner and administrators may use any address.
    cloud.by(member(), |cloud| add(cloud, router, json!({"port_id": port}))).unwrap();
    cloud.delete("ports", made.as_str().unwrap()).unwrap();
    let theirs = cloud.by(Caller::member("q"), Cloud::router);
    cloud.by(Caller::member("q"), |cloud| cloud.attach(theirs, 0x41)).unwrap();
}

#[test]
fn a_policy_for_this_very_project_gives_the_gateway() {
    let mut cloud = shared_with_all();
    let router = cloud.by(Caller::member("p"), Cloud::router);
    let policy = json!({"object_type": "network", "object_id": id(0x40), "action": "access_as_shared",
                        "target_tenant": "r"});
    cloud.create("rbac-policies", policy.clone()).unwrap();
    refused(cloud.by(Caller::member("p"), |cloud| cloud.attach(router, 0x41)), 400, "BadRequest");
    let mut policy = policy;
    policy["target_tenant"] = json!("p");
    cloud.create("rbac-policies", policy).unwrap();
    let answer = cloud.by(Caller::member("p"), |cloud| cloud.attach(router, 0x41)).unwrap();
    assert_eq!(port(&cloud, &answer).fixed_ips[0].ip_address, ip("10.0.9.1"));
}

/// Makes a project the owner of a router.
fn own(cloud: &mut Cloud, router: Uuid, project: &str) {
    let give = |txn: &mut Txn| Ok(txn.edit::<Router>(&router, |router| router.project = project.into()));
    cloud.change(give).unwrap();
}

#[test]
fn floating_ips_do_not_go_through_a_router_that_a_stranger_attached() {
    let mut cloud = shared_with_all();
    let strangers = cloud.router_on(&[N1]);
    own(&mut cloud, strangers, "p");
    let beside =
        cloud.by(Caller::member("p"), |cloud| cloud.create("ports", json!({"network_id": id(0x40)})));
    let beside = beside.unwrap()["id"].clone();
    cloud.by(Caller::member("p"), |cloud| add(cloud, strangers, json!({"port_id": beside}))).unwrap();
    let victim = Caller::member("v");
    let inside = cloud.by(victim.clone(), |cloud| cloud.create("ports", json!({"network_id": id(0x40)})));
    let body = json!({"floating_network_id": id(N1), "port_id": inside.unwrap()["id"]});
    let answer = cloud.by(victim.clone(), |cloud| cloud.create("floatingips", body.clone()));
    refused(answer, 404, "ExternalGatewayForFloatingIPNotFound");
    // All hosts of the subnet send through its gateway.
    let gateway = cloud.router_on(&[N1]);
    own(&mut cloud, gateway, "q");
    cloud.by(Caller::member("q"), |cloud| cloud.attach(gateway, 0x41)).unwrap();
    let floating = cloud.by(victim, |cloud| cloud.create("floatingips", body)).unwrap();
    assert_eq!(floating["router_id"], json!(gateway));
}

#[test]
fn interfaces_in_use_stay() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    cloud.attach(router, S4).unwrap();
    cloud.attach(router, S5).unwrap();
    let inside = cloud.port(N4, &["10.0.4.9"]);
    let floating =
        cloud.create("floatingips", json!({"floating_network_id": id(N1), "port_id": inside})).unwrap();
    let routes = json!({"routes": [{"destination": "203.0.113.0/24", "nexthop": "10.0.5.9"}]});
    cloud.update("routers", router, routes).unwrap();
    refused(
        remove(&mut cloud, router, json!({"subnet_id": id(S4)})),
        409,
        "RouterInterfaceInUseByFloatingIP",
    );
    refused(remove(&mut cloud, router, json!({"subnet_id": id(S5)})), 409, "RouterInterfaceInUseByRoute");
    cloud.update("routers", router, json!({"routes": []})).unwrap();
    cloud.update("floatingips", floating["id"].as_str().unwrap(), json!({"port_id": null})).unwrap();
    remove(&mut cloud, router, json!({"subnet_id": id(S4)})).unwrap();
    remove(&mut cloud, router, json!({"subnet_id": id(S5)})).unwrap();
}

#[test]
fn removals_that_name_nothing_of_the_router() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    let answer = cloud.attach(router, S4).unwrap();
    refused(
        remove(&mut cloud, router, json!({"subnet_id": id(S5)})),
        404,
        "RouterInterfaceNotFoundForSubnet",
    );
    refused(remove(&mut cloud, router, json!({"port_id": id(0x99)})), 404, "RouterInterfaceNotFound");
    let gateway = cloud.gateway_ports(router)[0].id;
    refused(remove(&mut cloud, router, json!({"port_id": gateway})), 404, "RouterInterfaceNotFound");
    let mismatch = json!({"port_id": answer["port_id"], "subnet_id": id(S5)});
    refused(remove(&mut cloud, router, mismatch), 400, "SubnetMismatchForPort");
    let other = cloud.router();
    refused(remove(&mut cloud, other, json!({"subnet_id": id(S4)})), 404, "RouterInterfaceNotFoundForSubnet");
}

#[test]
fn router_ports_do_not_take_by_the_port_api_what_the_router_would_be_refused() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    let inside = cloud.attach(router, S4).unwrap()["port_id"].as_str().unwrap().to_owned();
    let routes = json!([
        {"destination": "172.16.0.0/16", "nexthop": "192.0.2.50"},
        {"destination": "172.17.0.0/16", "nexthop": "10.0.4.50"},
    ]);
    cloud.update("routers", router, json!({"routes": routes})).unwrap();
    let outside = cloud.gateway_ports(router)[0].id.to_string();
    for (port, address, answer) in [
        (&outside, "192.0.2.1", Some((400, "BadRequest"))),
        (&outside, "192.0.2.50", Some((400, "InvalidRoutes"))),
        (&outside, "192.0.2.51", None),
        (&inside, "10.0.4.50", Some((400, "InvalidRoutes"))),
        (&inside, "10.0.4.51", None),
        (&inside, "10.0.4.1", None),
    ] {
        let moved = cloud.update("ports", port, json!({"fixed_ips": [{"ip_address": address}]}));
        match answer {
            Some((status, kind)) => drop(refused(moved, status, kind)),
            None => assert_eq!(moved.unwrap()["fixed_ips"][0]["ip_address"], address),
        }
    }
}
