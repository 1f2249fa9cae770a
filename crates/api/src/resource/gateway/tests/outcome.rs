//! Outcomes that changes of gateways must not have, and their effects elsewhere.

use super::*;

#[test]
fn scenario_14_a_gateway_that_a_floating_ip_needs_stays() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    cloud.attach(router, S4).unwrap();
    let port = cloud.port(N4, &["10.0.4.9"]);
    let floating =
        cloud.create("floatingips", json!({"floating_network_id": id(N1), "port_id": port})).unwrap();
    let clear = json!({"external_gateway_info": null});
    refused(cloud.update("routers", router, clear.clone()), 409, "RouterExternalGatewayInUseByFloatingIp");
    let elsewhere = json!({"external_gateway_info": {"network_id": id(N2)}});
    refused(cloud.update("routers", router, elsewhere), 409, "RouterExternalGatewayInUseByFloatingIp");
    cloud.update("floatingips", floating["id"].as_str().unwrap(), json!({"port_id": null})).unwrap();
    let shown = cloud.update("routers", router, clear).unwrap();
    assert_eq!((&shown["external_gateway_info"], &shown["external_gateways"]), (&Value::Null, &json!([])));
    assert_eq!(cloud.world.table::<Placement>().len(), 0);
}

#[test]
fn scenario_37_floating_ips_hold_the_last_gateway_to_their_network() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    cloud.attach(router, S4).unwrap();
    let port = cloud.port(N4, &["10.0.4.9"]);
    cloud.create("floatingips", json!({"floating_network_id": id(N2), "port_id": port})).unwrap();
    let n2 = json!([{"network_id": id(N2)}]);
    refused(cloud.gateways("remove", router, n2.clone()), 409, "RouterExternalGatewayInUseByFloatingIp");
    // The other network's gateway may be removed, compatibility gateway or not.
    let shown = cloud.gateways("remove", router, json!([{"network_id": id(N1)}])).unwrap();
    assert_eq!(networks(&shown), [id(N2)]);
    cloud.gateways("add", router, n2).unwrap();
    let first = cloud.show("routers", router).unwrap()["external_gateways"][0].clone();
    cloud.gateways("remove", router, json!([first])).unwrap();
    assert_eq!(port_ids(&cloud, router).len(), 1);
}

#[test]
fn scenario_38_routes_hold_the_gateway_of_their_next_hop() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    let routes = json!({"routes": [{"destination": "203.0.113.0/24", "nexthop": "198.51.100.50"}]});
    cloud.update("routers", router, routes).unwrap();
    let n2 = json!([{"network_id": id(N2)}]);
    let text = refused(cloud.gateways("remove", router, n2.clone()), 400, "InvalidRoutes");
    assert!(text.contains("the nexthop is not connected with router"), "{text}");
    refused(cloud.gateways("update", router, json!([{"network_id": id(N1)}])), 400, "InvalidRoutes");
    let own = json!([gateway(N2, &["198.51.100.50"])]);
    let text = refused(cloud.gateways("add", router, own), 400, "InvalidRoutes");
    assert!(text.contains("the nexthop is used by router"), "{text}");
    cloud.gateways("add", router, n2).unwrap();
    let first = cloud.show("routers", router).unwrap()["external_gateways"][1].clone();
    cloud.gateways("remove", router, json!([first])).unwrap();
}

#[test]
fn scenario_42_routes_follow_the_subnets_gateway() {
    let mut cloud = Cloud::new();
    let routers = [cloud.router_on(&[N1]), cloud.router_on(&[N2, N1])];
    cloud.update("routers", routers[1], json!({"enable_default_route_ecmp": true})).unwrap();
    for (gateway, routes) in [(Some("192.0.2.254"), [1, 2]), (None, [0, 1]), (Some("192.0.2.1"), [1, 2])] {
        cloud
            .change(|txn| Ok(txn.edit::<Subnet>(&id(S1), |subnet| subnet.gateway_ip = gateway.map(ip))))
            .unwrap();
        for (router, count) in routers.iter().zip(routes) {
            let found = default_routes(&cloud.world, cloud.world.get::<Router>(router).unwrap());
            assert_eq!(found.len(), count);
            let through_s1 = found.iter().find(|route| route.subnet == id(S1)).map(|route| route.nexthop);
            assert_eq!(through_s1, gateway.map(ip));
        }
    }
}

#[test]
fn scenario_43_a_new_subnet_reaches_every_gateway() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N1, N2]);
    let before = cloud.show("routers", router).unwrap()["revision_number"].as_u64().unwrap();
    cloud.add_subnet(subnet(0x41, N1, "2001:db8:1::/64"));
    let versions =
        |port: &Port| port.fixed_ips.iter().map(|fixed| fixed.ip_address.is_ipv6()).collect::<Vec<_>>();
    let all: Vec<_> = cloud.gateway_ports(router).iter().map(versions).collect();
    assert_eq!(all, [vec![false, true], vec![false, true], vec![false]]);
    assert!(cloud.show("routers", router).unwrap()["revision_number"].as_u64().unwrap() > before);
    let routes = default_routes(&cloud.world, cloud.world.get::<Router>(&router).unwrap());
    assert_eq!(
        routes.iter().map(|route| route.destination.to_string()).collect::<Vec<_>>(),
        ["0.0.0.0/0", "::/0"]
    );
    // A second subnet of a family gives no gateway a second address.
    cloud.add_subnet(subnet(0x42, N1, "203.0.113.0/24"));
    assert_eq!(cloud.gateway_ports(router).iter().map(versions).collect::<Vec<_>>(), all);
    // A subnet that overlaps with the router's other subnets is refused.
    refused(cloud.try_subnet(subnet(0x43, N1, "198.51.100.0/25")), 400, "BadRequest");
    cloud.attach(router, S4).unwrap();
    let text = refused(cloud.try_subnet(subnet(0x44, N1, "10.0.0.0/16")), 400, "BadRequest");
    assert!(text.contains("overlaps with cidr 10.0.4.0/24"), "{text}");
}

#[test]
fn a_subnet_for_others_or_too_small_leaves_gateways_as_they_are() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N1]);
    let mut reserved = subnet(0x41, N1, "2001:db8:1::/64");
    reserved.service_types = vec!["network:floatingip".into()];
    cloud.add_subnet(reserved);
    assert!(cloud.gateway_ports(router).iter().all(|port| port.fixed_ips.len() == 1));
    cloud.add_subnet(subnet(0x42, N1, "2001:db8:2::/126"));
    let counts: Vec<_> = cloud.gateway_ports(router).iter().map(|port| port.fixed_ips.len()).collect();
    assert_eq!(counts, [2, 2]);
}

#[test]
fn scenario_51_a_gateway_can_wait_for_its_chassis() {
    let mut cloud = Cloud::new();
    cloud.outside.fleet.chassis.clear();
    let router = cloud.router_on(&[N1]);
    assert_eq!(cloud.world.table::<Placement>().len(), 0);
    cloud.outside.fleet.chassis = vec![chassis("ch9")];
    let placements = crate::scheduler::reschedule(&cloud.world, &cloud.outside, 1);
    assert_eq!(placements.iter().map(|it| it.port_id).collect::<Vec<_>>(), port_ids(&cloud, router));
}

#[test]
fn status_tells_where_gateways_are_and_which_next_hops_answer() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    cloud.update("routers", router, json!({"enable_default_route_bfd": true})).unwrap();
    let ports = port_ids(&cloud, router);
    cloud.report.set_gateway(ports[0], Some(Place { chassis: "ch1".into(), host: "host-ch1".into() }));
    cloud.report.set_bfd(format!("lrp-{}", ports[0]), ip("192.0.2.1"), Some(BfdState::Up));
    let shown = cloud.act("routers", router, "GET gateway_status", Value::Null).unwrap();
    assert_eq!(
        shown["gateway_status"][0],
        json!({
            "port_id": ports[0], "network_id": id(N1), "chassis": "ch1", "host": "host-ch1",
            "routes": [{"destination": "0.0.0.0/0", "nexthop": "192.0.2.1", "bfd": "up", "installed": false}],
        })
    );
    assert_eq!(shown["gateway_status"][1]["chassis"], Value::Null);
    assert_eq!(shown["gateway_status"][1]["routes"][0]["bfd"], Value::Null);
    let text = shown["warnings"][0].as_str().unwrap();
    assert!(text.contains("translates source addresses on 2 gateways"), "{text}");
    let member = cloud
        .by(Caller::member("p"), |cloud| cloud.act("routers", router, "GET gateway_status", Value::Null));
    refused(member, 403, "PolicyNotAuthorized");
    let off = json!([{"network_id": id(N1), "enable_snat": false}, {"network_id": id(N2)}]);
    cloud.gateways("update", router, off).unwrap();
    let shown = cloud.act("routers", router, "GET gateway_status", Value::Null).unwrap();
    assert_eq!(shown["warnings"], json!([]));
}

#[test]
fn scenario_8_gateway_ports_go_through_the_router_only() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    cloud.attach(router, S4).unwrap();
    for port in cloud.world.table::<Port>().iter().map(|port| port.id).collect::<Vec<_>>() {
        let text = refused(cloud.delete("ports", port), 409, "ServicePortInUse");
        assert!(text.contains("has device owner network:router_"), "{text}");
    }
}

#[test]
fn scenario_43_through_the_api_of_subnets() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    let v6 = json!({"network_id": id(N1), "ip_version": 6, "cidr": "2001:db8:1::/64"});
    cloud.create("subnets", v6).unwrap();
    assert_eq!(cloud.gateway_ports(router)[0].fixed_ips.len(), 2);
    let overlapping = json!({"network_id": id(N1), "ip_version": 4, "cidr": "198.51.100.0/25"});
    cloud.gateways("add", router, json!([{"network_id": id(N2)}])).unwrap();
    refused(cloud.create("subnets", overlapping), 400, "BadRequest");
    // Scenario 42: the subnet's gateway changes, but not to an address that a router has.
    cloud.update("subnets", id(S1), json!({"gateway_ip": "192.0.2.254", "allocation_pools": [{"start": "192.0.2.2", "end": "192.0.2.200"}]})).unwrap();
    let routes = default_routes(&cloud.world, cloud.world.get::<Router>(&router).unwrap());
    assert!(routes.iter().any(|route| route.nexthop == ip("192.0.2.254")));
    let own = cloud.gateway_ports(router)[0].fixed_ips[0].ip_address;
    refused(
        cloud.update("subnets", id(S1), json!({"gateway_ip": own, "allocation_pools": []})),
        409,
        "GatewayIpInUse",
    );
    cloud.update("subnets", id(S1), json!({"gateway_ip": null})).unwrap();
    let routes = default_routes(&cloud.world, cloud.world.get::<Router>(&router).unwrap());
    assert_eq!(routes.iter().filter(|route| route.destination.addr().is_ipv4()).count(), 0);
}
