//! Subnets: the source of the prefix, gateway and pools, consistency, and effects on other objects.

use serde_json::{Value, json};

use super::*;
use crate::resource::fixture::{Desk, fault, id};
use crate::resource::ipam::FixedIpRequest;
use crate::resource::port::{Internal, create_internal};

const SUBNETS: &str = "subnets";

fn member() -> Caller {
    Caller::member("p")
}

fn admin() -> Caller {
    Caller::admin("ops")
}

fn desk() -> (Desk, Value) {
    let mut desk = Desk::new();
    let network = desk.create("networks", &member(), json!({"name": "n"})).unwrap();
    (desk, network)
}

/// A subnet of a network, with more attributes.
fn body(network: &Value, more: Value) -> Value {
    let mut body = json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn uuid(of: &Value) -> Uuid {
    of["id"].as_str().unwrap().parse().unwrap()
}

/// Creates an internal port.
fn made(
    desk: &mut Desk,
    network: &Value,
    device_owner: &str,
    device_id: &str,
    address: Option<&str>,
) -> Uuid {
    let request =
        address.map(|it| vec![FixedIpRequest { subnet_id: None, ip_address: Some(it.parse().unwrap()) }]);
    let internal = Internal {
        device_owner: device_owner.into(),
        device_id: device_id.into(),
        fixed_ips: request,
        ..Internal::on(uuid(network))
    };
    desk.run(|txn| create_internal(txn, internal)).unwrap().id
}

fn addresses(desk: &Desk, port: Uuid) -> Vec<String> {
    desk.world
        .get::<Port>(&port)
        .unwrap()
        .fixed_ips
        .iter()
        .map(|fixed| fixed.ip_address.to_string())
        .collect()
}

#[test]
fn a_subnet_that_says_little() {
    let (mut desk, network) = desk();
    let subnet = desk.create(SUBNETS, &member(), body(&network, json!({"cidr": "10.0.0.7/24"}))).unwrap();
    for (key, want) in [
        ("cidr", json!("10.0.0.0/24")),
        ("gateway_ip", json!("10.0.0.1")),
        ("allocation_pools", json!([{"start": "10.0.0.2", "end": "10.0.0.254"}])),
        ("enable_dhcp", json!(true)),
        ("dns_nameservers", json!([])),
        ("host_routes", json!([])),
        ("ipv6_ra_mode", json!(null)),
        ("ipv6_address_mode", json!(null)),
        ("service_types", json!([])),
        ("subnetpool_id", json!(null)),
        ("ip_version", json!(4)),
        ("router:external", json!(false)),
        ("project_id", json!("p")),
        ("network_id", network["id"].clone()),
    ] {
        assert_eq!(subnet[key], want, "{key}");
    }
    assert!(subnet.get("prefixlen").is_none() && subnet.get("use_default_subnetpool").is_none());
    let shown = desk.show("networks", &member(), &network).unwrap();
    assert_eq!(shown["subnets"], json!([subnet["id"]]));
    assert!(shown["revision_number"].as_u64() > network["revision_number"].as_u64());
}

#[test]
fn what_is_refused() {
    let (mut desk, network) = desk();
    desk.create(SUBNETS, &member(), body(&network, json!({"cidr": "10.9.0.0/24"}))).unwrap();
    let resolvers: Vec<_> = (1..=6).map(|n| format!("192.0.2.{n}")).collect();
    let routes: Vec<_> =
        (1..=21).map(|n| json!({"destination": format!("10.{n}.0.0/16"), "nexthop": "10.0.0.9"})).collect();
    let route = |to: &str, via: &str| json!({"host_routes": [{"destination": to, "nexthop": via}]});
    let pool = |start: &str, end: &str| json!({"allocation_pools": [{"start": start, "end": end}]});
    for (more, want) in [
        (json!({"cidr": null}), (400, "BadRequest")),
        (json!({"cidr": "10.0.0.0"}), (400, "HTTPBadRequest")),
        (json!({"cidr": "10.0.0.0/40"}), (400, "HTTPBadRequest")),
        (json!({"cidr": "2001:db8::/64"}), (400, "InvalidInput")),
        (json!({"cidr": "0.0.0.0/0"}), (400, "InvalidInput")),
        (json!({"cidr": "0.0.0.0/8"}), (400, "InvalidInput")),
        (json!({"cidr": "127.0.0.0/8"}), (400, "InvalidInput")),
        (json!({"cidr": "224.0.0.0/8"}), (400, "InvalidInput")),
        (json!({"cidr": "fe80::/64", "ip_version": 6}), (400, "InvalidInput")),
        (json!({"cidr": "10.9.0.128/25"}), (400, "InvalidInput")),
        (json!({"cidr": "10.0.0.0/8"}), (400, "InvalidInput")),
        (json!({"ip_version": 5}), (400, "HTTPBadRequest")),
        (json!({"ip_version": null}), (400, "HTTPBadRequest")),
        (json!({"prefixlen": 24}), (400, "BadRequest")),
        (json!({"cidr": null, "use_default_subnetpool": true}), (400, "BadRequest")),
        (json!({"cidr": null, "subnetpool_id": "prefix_delegation"}), (400, "HTTPBadRequest")),
        (json!({"cidr": null, "subnetpool_id": id(9).to_string()}), (404, "SubnetPoolNotFound")),
        (json!({"gateway_ip": "10.0.0.0"}), (400, "InvalidInput")),
        (json!({"gateway_ip": "10.0.0.255"}), (400, "InvalidInput")),
        (json!({"gateway_ip": "2001:db8::1"}), (400, "InvalidInput")),
        (json!({"gateway_ip": "first"}), (400, "HTTPBadRequest")),
        (pool("10.0.0.9", "10.0.0.2"), (400, "InvalidAllocationPool")),
        (pool("10.0.0.9", "10.0.1.2"), (400, "OutOfBoundsAllocationPool")),
        (pool("10.0.0.1", "10.0.0.9"), (409, "GatewayConflictWithAllocationPools")),
        (json!({"allocation_pools": [{"start": "10.0.0.5"}]}), (400, "HTTPBadRequest")),
        (json!({"allocation_pools": {}}), (400, "HTTPBadRequest")),
        (json!({"dns_nameservers": resolvers}), (400, "DNSNameServersExhausted")),
        (json!({"dns_nameservers": ["192.0.2.1", "192.0.2.1"]}), (400, "HTTPBadRequest")),
        (json!({"dns_nameservers": ["2001:db8::1"]}), (400, "InvalidInput")),
        (json!({"host_routes": routes}), (400, "HostRoutesExhausted")),
        (route("10.1.0.0/16", "2001:db8::1"), (400, "InvalidInput")),
        (route("2001:db8::/32", "10.0.0.9"), (400, "InvalidInput")),
        (route("10.1.0.0/16", "224.0.0.1"), (400, "InvalidInput")),
        (route("10.1.0.0", "10.0.0.9"), (400, "HTTPBadRequest")),
        (
            json!({"host_routes": [{"destination": "10.1.0.0/16", "nexthop": "10.0.0.9"}, {"destination": "10.1.9.9/16", "nexthop": "10.0.0.9"}]}),
            (400, "InvalidInput"),
        ),
        (json!({"cidr": "10.0.0.0/31"}), (400, "InvalidInput")),
        (json!({"ipv6_ra_mode": "slaac"}), (400, "InvalidInput")),
        (json!({"ipv6_ra_mode": "magic"}), (400, "HTTPBadRequest")),
        (json!({"service_types": ["bogus:owner"]}), (400, "HTTPBadRequest")),
        (json!({"network_id": id(9).to_string()}), (404, "NetworkNotFound")),
        (json!({"router:external": true}), (400, "HTTPBadRequest")),
        (json!({"segment": "x"}), (400, "HTTPBadRequest")),
    ] {
        assert_eq!(fault(desk.create(SUBNETS, &member(), body(&network, more.clone()))), want, "{more}");
    }
    assert!(
        desk.create(SUBNETS, &member(), body(&network, json!({"cidr": "10.0.0.0/31", "enable_dhcp": false})))
            .is_ok()
    );
}

#[test]
fn ipv6_modes_go_together() {
    let (mut desk, network) = desk();
    let mut ask = |n: u16, length: u8, ra: Value, address: Value, dhcp: bool| {
        let cidr = format!("2001:db8:{n}::/{length}");
        let more = json!({
            "ip_version": 6, "cidr": cidr, "ipv6_ra_mode": ra, "ipv6_address_mode": address, "enable_dhcp": dhcp,
        });
        fault(desk.create(SUBNETS, &member(), body(&network, more)))
    };
    let fine = (200, "no fault");
    let refused = (400, "InvalidInput");
    assert_eq!(ask(1, 64, json!("slaac"), json!("slaac"), true), fine);
    assert_eq!(ask(2, 64, json!(null), json!("dhcpv6-stateless"), true), fine);
    assert_eq!(ask(3, 80, json!("dhcpv6-stateful"), json!("dhcpv6-stateful"), true), fine);
    assert_eq!(ask(4, 64, json!("slaac"), json!("dhcpv6-stateful"), true), refused);
    assert_eq!(ask(5, 80, json!("slaac"), json!("slaac"), true), refused);
    assert_eq!(ask(6, 64, json!("slaac"), json!("slaac"), false), refused);
    assert_eq!(ask(7, 64, json!(null), json!(null), false), fine);
}

#[test]
fn who_may() {
    let mut desk = Desk::new();
    let shared = desk.create("networks", &admin(), json!({"shared": true})).unwrap();
    let mine = desk.create("networks", &member(), json!({})).unwrap();
    let made = desk.create(SUBNETS, &admin(), body(&shared, json!({}))).unwrap();
    let own = desk.create(SUBNETS, &member(), body(&mine, json!({}))).unwrap();
    let other = Caller::member("q");
    for (answer, want) in [
        (
            desk.create(SUBNETS, &other, body(&shared, json!({"cidr": "10.1.0.0/24"}))).map(drop),
            (403, "PolicyNotAuthorized"),
        ),
        (
            desk.create(SUBNETS, &other, body(&mine, json!({"cidr": "10.1.0.0/24"}))).map(drop),
            (404, "NetworkNotFound"),
        ),
        (
            desk.create(SUBNETS, &Caller::reader("p"), body(&mine, json!({"cidr": "10.1.0.0/24"}))).map(drop),
            (403, "PolicyNotAuthorized"),
        ),
        (desk.update(SUBNETS, &other, &made, json!({"name": "x"})).map(drop), (403, "PolicyNotAuthorized")),
        (desk.update(SUBNETS, &other, &own, json!({"name": "x"})).map(drop), (404, "SubnetNotFound")),
        (desk.delete(SUBNETS, &other, &made), (403, "PolicyNotAuthorized")),
        (
            desk.update(SUBNETS, &member(), &own, json!({"cidr": "10.1.0.0/24"})).map(drop),
            (400, "HTTPBadRequest"),
        ),
        (
            desk.update(SUBNETS, &member(), &own, json!({"network_id": shared["id"]})).map(drop),
            (400, "HTTPBadRequest"),
        ),
    ] {
        assert_eq!(fault(answer), want);
    }
    assert!(desk.show(SUBNETS, &other, &made).is_ok(), "whoever sees the network sees its subnets");
}

#[test]
fn gateway_and_pools_change_together() {
    let (mut desk, network) = desk();
    let subnet = desk.create(SUBNETS, &member(), body(&network, json!({}))).unwrap();
    let mut change = |more: Value| desk.update(SUBNETS, &member(), &subnet, more);
    assert_eq!(fault(change(json!({"gateway_ip": "10.0.0.9"}))), (409, "GatewayConflictWithAllocationPools"));
    assert_eq!(fault(change(json!({"gateway_ip": "10.0.0.255"}))), (400, "InvalidInput"));
    let both =
        json!({"gateway_ip": "10.0.0.9", "allocation_pools": [{"start": "10.0.0.10", "end": "10.0.0.20"}]});
    assert_eq!(change(both).unwrap()["gateway_ip"], "10.0.0.9");
    let around = change(json!({"allocation_pools": null})).unwrap();
    assert_eq!(
        around["allocation_pools"],
        json!([{"start": "10.0.0.1", "end": "10.0.0.8"}, {"start": "10.0.0.10", "end": "10.0.0.254"}])
    );
    assert_eq!(change(json!({"gateway_ip": null})).unwrap()["gateway_ip"], Value::Null);
    assert_eq!(
        change(json!({"gateway_ip": "192.0.2.1"})).unwrap()["gateway_ip"],
        "192.0.2.1",
        "may lie outside"
    );
    let told = change(json!({"dns_nameservers": ["192.0.2.53"], "host_routes": [{"destination": "10.7.1.1/16", "nexthop": "10.0.0.3"}]})).unwrap();
    assert_eq!(told["host_routes"], json!([{"destination": "10.7.0.0/16", "nexthop": "10.0.0.3"}]));
    assert_eq!(change(json!({"dns_nameservers": null})).unwrap()["dns_nameservers"], json!([]));
    assert_eq!(change(json!({"enable_dhcp": false})).unwrap()["enable_dhcp"], false);
}

#[test]
fn a_gateway_that_a_router_holds_stays() {
    let (mut desk, network) = desk();
    let subnet = desk.create(SUBNETS, &member(), body(&network, json!({}))).unwrap();
    made(&mut desk, &network, owner::ROUTER_INTERFACE, &id(77).to_string(), Some("10.0.0.1"));
    for gateway in [json!(null), json!("192.0.2.1")] {
        let answer = desk.update(SUBNETS, &member(), &subnet, json!({"gateway_ip": gateway}));
        assert_eq!(fault(answer), (409, "GatewayIpInUse"));
    }
    assert!(desk.update(SUBNETS, &member(), &subnet, json!({"gateway_ip": "10.0.0.1", "name": "x"})).is_ok());
    assert_eq!(fault(desk.delete(SUBNETS, &member(), &subnet)), (409, "SubnetInUse"));
}

#[test]
fn a_subnet_in_use_stays() {
    let (mut desk, network) = desk();
    let subnet = desk.create(SUBNETS, &member(), body(&network, json!({}))).unwrap();
    let port = desk.create("ports", &member(), json!({"network_id": network["id"]})).unwrap();
    assert_eq!(fault(desk.delete(SUBNETS, &member(), &subnet)), (409, "SubnetInUse"));
    desk.delete("ports", &member(), &port).unwrap();
    desk.delete(SUBNETS, &member(), &subnet).unwrap();
    assert_eq!(fault(desk.show(SUBNETS, &member(), &subnet)), (404, "SubnetNotFound"));
}

#[test]
fn hosts_form_an_address_in_a_new_subnet_and_lose_it_with_the_subnet() {
    let (mut desk, network) = desk();
    let port = desk
        .create("ports", &member(), json!({"network_id": network["id"], "mac_address": "fa:16:3e:01:02:03"}))
        .unwrap();
    let router = made(&mut desk, &network, owner::ROUTER_INTERFACE, &id(77).to_string(), None);
    let more = json!({"ip_version": 6, "cidr": "2001:db8::/64", "ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"});
    let subnet = desk.create(SUBNETS, &member(), body(&network, more)).unwrap();
    assert_eq!(addresses(&desk, uuid(&port)), ["2001:db8::f816:3eff:fe01:203"]);
    assert!(addresses(&desk, router).is_empty(), "a router's interface is asked for");
    let shown = desk.show("ports", &member(), &port).unwrap();
    assert!(shown["revision_number"].as_u64() > port["revision_number"].as_u64());
    desk.delete(SUBNETS, &member(), &subnet).unwrap();
    assert!(addresses(&desk, uuid(&port)).is_empty());
}

#[test]
fn a_new_family_on_an_external_network_reaches_every_gateway() {
    let mut desk = Desk::new();
    let external = desk.create("networks", &admin(), json!({"router:external": true})).unwrap();
    desk.create(SUBNETS, &admin(), body(&external, json!({"cidr": "192.0.2.0/24"}))).unwrap();
    let gateways =
        [1, 2, 3].map(|n| made(&mut desk, &external, owner::ROUTER_GATEWAY, &id(n).to_string(), None));
    let v6 = json!({"ip_version": 6, "cidr": "2001:db8::/64"});
    desk.create(SUBNETS, &admin(), body(&external, v6)).unwrap();
    let mut found = gateways.map(|gateway| addresses(&desk, gateway)[1].clone());
    found.sort();
    assert_eq!(found, ["2001:db8::1", "2001:db8::2", "2001:db8::3"]);
    assert!(gateways.iter().all(|gateway| addresses(&desk, *gateway).len() == 2));
    // A second subnet of a family gives them no further address.
    desk.create(SUBNETS, &admin(), body(&external, json!({"cidr": "198.51.100.0/24"}))).unwrap();
    assert_eq!(addresses(&desk, gateways[0]).len(), 2);
}

#[test]
fn a_subnet_that_would_overlap_behind_a_router_is_refused() {
    let mut desk = Desk::new();
    let external = desk.create("networks", &admin(), json!({"router:external": true})).unwrap();
    let second = desk.create("networks", &admin(), json!({"router:external": true})).unwrap();
    let inside = desk.create("networks", &member(), json!({})).unwrap();
    desk.create(SUBNETS, &member(), body(&inside, json!({}))).unwrap();
    desk.create(SUBNETS, &admin(), body(&second, json!({"cidr": "198.51.100.0/24"}))).unwrap();
    let router = id(77).to_string();
    made(&mut desk, &external, owner::ROUTER_GATEWAY, &router, None);
    made(&mut desk, &second, owner::ROUTER_GATEWAY, &router, None);
    made(&mut desk, &inside, owner::ROUTER_INTERFACE, &router, Some("10.0.0.1"));
    for cidr in ["10.0.0.0/25", "10.0.0.0/8", "198.51.100.128/25"] {
        let answer = desk.create(SUBNETS, &admin(), body(&external, json!({"cidr": cidr})));
        let fault = answer.unwrap_err();
        assert_eq!((fault.status, fault.kind), (400, "BadRequest"));
        assert!(fault.message.contains(&format!("Cidr {cidr} of subnet ")), "{fault}");
    }
    assert!(desk.create(SUBNETS, &admin(), body(&external, json!({"cidr": "192.0.2.0/24"}))).is_ok());
}

#[test]
fn subnets_are_counted_and_listed() {
    let (mut desk, network) = desk();
    desk.outside.settings.quotas.set("subnet", 2);
    desk.create(SUBNETS, &member(), body(&network, json!({"name": "a"}))).unwrap();
    desk.create(SUBNETS, &member(), body(&network, json!({"cidr": "10.1.0.0/24", "name": "b"}))).unwrap();
    let third = desk.create(SUBNETS, &member(), body(&network, json!({"cidr": "10.2.0.0/24"})));
    assert_eq!(fault(third), (409, "OverQuota"));
    let of_network = format!("network_id={}&sort_key=cidr&sort_dir=desc", network["id"].as_str().unwrap());
    for (query, want) in [
        (of_network.as_str(), vec!["b", "a"]),
        ("cidr=10.1.0.0/24", vec!["b"]),
        ("gateway_ip=10.0.0.1", vec!["a"]),
        ("ip_version=6", vec![]),
        ("enable_dhcp=true&name=a", vec!["a"]),
        ("subnetpool_id=&name=a", vec!["a"]),
        ("router:external=false&name=a", vec!["a"]),
    ] {
        let names: Vec<_> =
            desk.list(SUBNETS, &member(), query).unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, want, "{query}");
    }
}
