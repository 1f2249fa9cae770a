//! Ports: defaults, valid attributes, permissions, and conditions for deletion.

use serde_json::{Value, json};

use super::*;
use crate::model::{FloatingIp, Router, owner};
use crate::resource::fixture::{Desk, fault, id};

const PORTS: &str = "ports";

fn member() -> Caller {
    Caller::member("p")
}

fn manager() -> Caller {
    Caller { manager: true, ..member() }
}

fn admin() -> Caller {
    Caller::admin("ops")
}

/// A network with a subnet, of a member.
fn desk() -> (Desk, Value) {
    let mut desk = Desk::new();
    let network = desk.create("networks", &member(), json!({"name": "n"})).unwrap();
    subnet(&mut desk, &network, "10.0.0.0/24");
    (desk, network)
}

fn subnet(desk: &mut Desk, network: &Value, cidr: &str) -> Value {
    let body = json!({"network_id": network["id"], "ip_version": 4, "cidr": cidr});
    desk.create("subnets", &admin(), body).unwrap()
}

fn body(network: &Value, more: Value) -> Value {
    let mut body = json!({"network_id": network["id"]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn uuid(of: &Value) -> Uuid {
    of["id"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_port_that_says_nothing() {
    let (mut desk, network) = desk();
    let port = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    let default = desk.list("security-groups", &member(), "name=default").unwrap().remove(0);
    for (key, want) in [
        ("name", json!("")),
        ("admin_state_up", json!(true)),
        ("status", json!("DOWN")),
        ("device_id", json!("")),
        ("device_owner", json!("")),
        ("security_groups", json!([default["id"]])),
        ("port_security_enabled", json!(true)),
        ("allowed_address_pairs", json!([])),
        ("extra_dhcp_opts", json!([])),
        ("binding:vnic_type", json!("normal")),
        ("dns_name", json!("")),
        ("ip_allocation", json!("immediate")),
        ("project_id", json!("p")),
        (
            "dns_assignment",
            json!([{"hostname": "host-10-0-0-2", "ip_address": "10.0.0.2", "fqdn": "host-10-0-0-2.openstacklocal."}]),
        ),
    ] {
        assert_eq!(port[key], want, "{key}");
    }
    assert_eq!(port["fixed_ips"][0]["ip_address"], "10.0.0.2");
    assert!(port["mac_address"].as_str().unwrap().starts_with("fa:16:3e:"));
    for hidden in ["binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details"] {
        assert!(port.get(hidden).is_none(), "{hidden} is for services");
    }
    let seen = desk.show(PORTS, &admin(), &port).unwrap();
    assert_eq!((&seen["binding:vif_type"], &seen["binding:host_id"]), (&json!("unbound"), &json!("")));
}

#[test]
fn what_is_refused() {
    let (mut desk, network) = desk();
    let taken = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    let pairs: Vec<_> = (1..=11).map(|n| json!({"ip_address": format!("192.0.2.{n}")})).collect();
    let address = |text: &str| json!({"fixed_ips": [{"ip_address": text}]});
    let pair = |ip: &str| json!({"allowed_address_pairs": [{"ip_address": ip}]});
    let option =
        |name: &str, value: &str| json!({"extra_dhcp_opts": [{"opt_name": name, "opt_value": value}]});
    let long = "x".repeat(256);
    let bad = (400, "HTTPBadRequest");
    for (more, want) in [
        (json!({"network_id": id(9).to_string()}), (404, "NetworkNotFound")),
        (json!({"network_id": "n"}), bad),
        (json!({"name": long}), bad),
        (json!({"device_id": long}), bad),
        (json!({"admin_state_up": "maybe"}), (400, "InvalidInput")),
        (json!({"mac_address": "aa:bb"}), bad),
        (json!({"mac_address": "01:00:5e:00:00:01"}), bad),
        (json!({"mac_address": "00:00:00:00:00:00"}), bad),
        (json!({"mac_address": taken["mac_address"]}), (409, "MacAddressInUse")),
        (address("10.0.0.2"), (409, "IpAddressAlreadyAllocated")),
        (address("10.0.7.2"), (400, "InvalidIpForNetwork")),
        (address("10.0.0"), bad),
        (json!({"fixed_ips": [{"subnet_id": id(9).to_string()}]}), (400, "InvalidInput")),
        (json!({"fixed_ips": [{}]}), (400, "InvalidInput")),
        (json!({"fixed_ips": [{"ip": "10.0.0.9"}]}), bad),
        (json!({"fixed_ips": "10.0.0.9"}), bad),
        (json!({"security_groups": [id(9).to_string()]}), (404, "SecurityGroupNotFound")),
        (json!({"security_groups": ["default"]}), bad),
        (
            json!({"port_security_enabled": false, "security_groups": [id(9).to_string()]}),
            (404, "SecurityGroupNotFound"),
        ),
        (json!({"allowed_address_pairs": pairs}), (400, "AddressPairsExhausted")),
        (pair("224.0.0.5"), bad),
        (pair("ff02::/16"), bad),
        (pair("10.0.0.0/40"), bad),
        (json!({"allowed_address_pairs": [{"mac_address": "fa:16:3e:00:00:01"}]}), bad),
        (
            json!({"allowed_address_pairs": [{"ip_address": "192.0.2.1", "mac_address": "01:00:5e:00:00:01"}]}),
            bad,
        ),
        (
            json!({"allowed_address_pairs": [{"ip_address": "192.0.2.1"}, {"ip_address": "192.0.2.1/32"}]}),
            (400, "DuplicateAddressPairInRequest"),
        ),
        (
            json!({"allowed_address_pairs": [{"ip_address": "192.0.2.1"}], "port_security_enabled": false}),
            (409, "AddressPairAndPortSecurityRequired"),
        ),
        (option("", "x"), bad),
        (option("a b", "x"), bad),
        (option("mtu", ""), bad),
        (option("mtu", &long), bad),
        (option("mtu", "1400); outport = \"x\"; output; reg0[3] = put_dhcp_opts(offerip = 1.2.3.4"), bad),
        (option("26", "70000"), bad),
        (option("router", "10.0.0.1; drop"), bad),
        (option("121", "{10.0.0.0/8,10.0.0.1}); drop; {"), bad),
        (option("67", "\"pxe.0\"); drop; x(y = \"\""), bad),
        (option("bootfile-name", &"ü".repeat(200)), bad),
        (option("domain-search", "a.example; b"), bad),
        (option("tag:ipxe,67", "\"a"), bad),
        (json!({"extra_dhcp_opts": [{"opt_name": "mtu"}]}), bad),
        (json!({"fixed_ips": null}), bad),
        (json!({"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1", "ip_version": 5}]}), bad),
        (
            json!({"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1"}, {"opt_name": "mtu", "opt_value": "2"}]}),
            bad,
        ),
        (json!({"binding:vnic_type": "quantum"}), bad),
        (json!({"binding:host_id": "h1"}), (403, "PolicyNotAuthorized")),
        (json!({"binding:profile": {"a": 1}}), (403, "PolicyNotAuthorized")),
        (json!({"binding:vif_type": "ovs"}), bad),
        (json!({"status": "ACTIVE"}), bad),
        (json!({"dns_name": "-x"}), bad),
        (json!({"dns_name": "a..b"}), bad),
        (json!({"tenant_id": "q"}), bad),
        (json!({"qos_policy_id": null}), bad),
    ] {
        assert_eq!(fault(desk.create(PORTS, &member(), body(&network, more.clone()))), want, "{more}");
    }
    assert_eq!(
        fault(desk.create(
            PORTS,
            &admin(),
            body(&network, json!({"binding:profile": {"a": "x".repeat(5000)}}))
        )),
        (400, "InvalidInput")
    );
    assert_eq!(desk.world.table::<Port>().len(), 1);
}

#[test]
fn scenario_05_a_bulk_request_is_all_or_nothing() {
    let (mut desk, network) = desk();
    let port = |address: &str| body(&network, json!({"fixed_ips": [{"ip_address": address}]}));
    let three = |last| json!({"ports": [port("10.0.0.5"), {"port": port("10.0.0.6")}, port(last)]});
    assert_eq!(fault(desk.post(PORTS, &member(), three("10.0.0.5"))), (409, "IpAddressAlreadyAllocated"));
    assert!(desk.world.table::<Port>().is_empty());
    let made = desk.post(PORTS, &member(), three("10.0.0.7")).unwrap();
    let addresses: Vec<_> = made.iter().map(|port| port["fixed_ips"][0]["ip_address"].clone()).collect();
    assert_eq!(addresses, ["10.0.0.5", "10.0.0.6", "10.0.0.7"]);
}

#[test]
fn scenario_08_what_holds_a_network_and_a_port() {
    let (mut desk, network) = desk();
    let port = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    assert_eq!(fault(desk.delete("networks", &member(), &network)), (409, "NetworkInUse"));
    desk.delete(PORTS, &member(), &port).unwrap();
    let router = router(&mut desk);
    for (device_owner, device_id) in [(owner::ROUTER_GATEWAY, router), (owner::ROUTER_INTERFACE, router)] {
        let internal = Internal {
            device_owner: device_owner.into(),
            device_id: device_id.to_string(),
            ..Internal::on(uuid(&network))
        };
        let made = desk.run(|txn| create_internal(txn, internal)).unwrap().id;
        let fault = desk.delete(PORTS, &admin(), &json!(made.to_string())).unwrap_err();
        assert_eq!((fault.status, fault.kind), (409, "ServicePortInUse"));
        assert!(fault.message.contains(&format!("has device owner {device_owner}")), "{fault}");
        let answer = desk.update(PORTS, &admin(), &json!(made.to_string()), json!({"fixed_ips": []}));
        assert_eq!(fault_of(answer), (409, "ServicePortInUse"), "it keeps its last address");
        let answer = desk.update(PORTS, &admin(), &json!(made.to_string()), json!({"device_owner": ""}));
        assert_eq!(fault_of(answer), (409, "PortInUse"));
        let moved = json!({"fixed_ips": [{"ip_address": "10.0.0.99"}], "name": "x"});
        assert!(desk.update(PORTS, &admin(), &json!(made.to_string()), moved).is_ok());
        desk.run(|txn| Ok(txn.remove::<Port>(&made))).unwrap();
    }
    desk.delete("networks", &member(), &network).unwrap();
}

fn fault_of(answer: Result<Value, Fault>) -> (u16, &'static str) {
    fault(answer)
}

fn router(desk: &mut Desk) -> Uuid {
    let router = Router {
        id: id(77),
        project: "p".into(),
        name: String::new(),
        admin_state_up: true,
        gw_port_id: None,
        enable_snat: true,
        enable_default_route_ecmp: false,
        enable_default_route_bfd: false,
        routes: Vec::new(),
        availability_zone_hints: Vec::new(),
        standard: Standard::new(jiff::Timestamp::UNIX_EPOCH, ""),
    };
    desk.run(|txn| Ok(txn.put(router))).unwrap();
    id(77)
}

#[test]
fn scenario_09_pairs_options_and_groups_are_kept_and_changed() {
    let (mut desk, network) = desk();
    let group = desk.create("security-groups", &member(), json!({"name": "web"})).unwrap();
    let more = json!({
        "mac_address": "FA:16:3E:0:0:1",
        "security_groups": [group["id"]],
        "allowed_address_pairs": [{"ip_address": "192.0.2.1"}, {"ip_address": "198.51.100.0/24", "mac_address": "fa:16:3e:00:00:09"}],
        "extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}, {"opt_name": "dns-server", "opt_value": "2001:db8::1", "ip_version": 6}],
        "dns_name": "Web1",
    });
    let port = desk.create(PORTS, &member(), body(&network, more)).unwrap();
    assert_eq!(port["mac_address"], "fa:16:3e:00:00:01");
    assert_eq!(port["security_groups"], json!([group["id"]]));
    assert_eq!(
        port["allowed_address_pairs"],
        json!([
            {"ip_address": "192.0.2.1", "mac_address": "fa:16:3e:00:00:01"},
            {"ip_address": "198.51.100.0/24", "mac_address": "fa:16:3e:00:00:09"},
        ])
    );
    assert_eq!(port["extra_dhcp_opts"][0], json!({"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}));
    assert_eq!(port["dns_assignment"][0]["fqdn"], "web1.openstacklocal.");
    let mut change = |more: Value| desk.update(PORTS, &member(), &port, more).unwrap();
    let options = json!({"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": null}, {"opt_name": "tftp-server", "opt_value": "192.0.2.3"}]});
    assert_eq!(
        change(options)["extra_dhcp_opts"],
        json!([
            {"opt_name": "dns-server", "opt_value": "2001:db8::1", "ip_version": 6},
            {"opt_name": "tftp-server", "opt_value": "192.0.2.3", "ip_version": 4},
        ])
    );
    assert_eq!(change(json!({"security_groups": []}))["security_groups"], json!([]));
    assert_eq!(change(json!({"allowed_address_pairs": null}))["allowed_address_pairs"], json!([]));
    let changed = change(
        json!({"fixed_ips": [{"ip_address": "10.0.0.50"}, {"ip_address": "10.0.0.51"}], "dns_name": ""}),
    );
    assert_eq!(changed["fixed_ips"].as_array().unwrap().len(), 2);
    let before = changed["revision_number"].as_u64();
    assert_eq!(change(json!({"dns_name": ""}))["revision_number"].as_u64(), before, "no change, no revision");
    assert_eq!(change(json!({"fixed_ips": []}))["ip_allocation"], "none");
}

#[test]
fn security_needs_port_security() {
    let (mut desk, network) = desk();
    let open =
        desk.create(PORTS, &member(), body(&network, json!({"port_security_enabled": false}))).unwrap();
    assert_eq!(open["security_groups"], json!([]));
    let default = desk.list("security-groups", &member(), "name=default").unwrap().remove(0);
    let group = json!({"security_groups": [default["id"]]});
    assert_eq!(
        fault(desk.update(PORTS, &member(), &open, group.clone())),
        (400, "PortSecurityAndIPRequiredForSecurityGroups")
    );
    let pair = json!({"allowed_address_pairs": [{"ip_address": "192.0.2.1"}]});
    assert_eq!(
        fault(desk.update(PORTS, &member(), &open, pair)),
        (409, "AddressPairAndPortSecurityRequired")
    );
    let safe = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    let off = json!({"port_security_enabled": false});
    assert_eq!(fault(desk.update(PORTS, &member(), &safe, off)), (409, "PortSecurityPortHasSecurityGroup"));
    let both = json!({"port_security_enabled": false, "security_groups": []});
    assert!(desk.update(PORTS, &member(), &safe, both).is_ok());
    let mut on = group;
    on["port_security_enabled"] = json!(true);
    assert!(desk.update(PORTS, &member(), &safe, on).is_ok());
    // Port security of the network, and a trusted port, which is never in a group.
    let lax = desk.create("networks", &member(), json!({"port_security_enabled": false})).unwrap();
    assert_eq!(desk.create(PORTS, &member(), body(&lax, json!({}))).unwrap()["port_security_enabled"], false);
    let trusted =
        desk.create(PORTS, &member(), body(&network, json!({"device_owner": "network:special"}))).unwrap();
    assert_eq!((&trusted["port_security_enabled"], &trusted["security_groups"]), (&json!(false), &json!([])));
}

#[test]
fn on_a_shared_network_its_owner_decides() {
    let mut desk = Desk::new();
    let network = desk.create("networks", &admin(), json!({"shared": true})).unwrap();
    let of = subnet(&mut desk, &network, "10.0.0.0/24");
    let external = desk.create("networks", &admin(), json!({"router:external": true})).unwrap();
    for more in [
        json!({"mac_address": "fa:16:3e:00:00:01"}),
        json!({"fixed_ips": [{"ip_address": "10.0.0.9"}]}),
        json!({"device_owner": "network:router_interface"}),
        json!({"port_security_enabled": false}),
        json!({"allowed_address_pairs": [{"ip_address": "192.0.2.1"}]}),
    ] {
        let fault = desk.create(PORTS, &member(), body(&network, more.clone())).unwrap_err();
        assert_eq!((fault.status, fault.kind), (403, "PolicyNotAuthorized"), "{more}");
        assert!(desk.create(PORTS, &admin(), body(&network, more.clone())).is_ok(), "{more}");
    }
    assert_eq!(
        fault(desk.create(PORTS, &member(), body(&external, json!({})))),
        (403, "PolicyNotAuthorized")
    );
    let more = json!({"fixed_ips": [{"subnet_id": of["id"]}], "allowed_address_pairs": [], "device_owner": "compute:nova"});
    let port = desk.create(PORTS, &member(), body(&network, more)).unwrap();
    for more in [
        json!({"mac_address": "fa:16:3e:00:00:07"}),
        json!({"device_owner": "network:dhcp"}),
        json!({"port_security_enabled": false, "security_groups": []}),
    ] {
        assert_eq!(
            fault(desk.update(PORTS, &member(), &port, more.clone())),
            (403, "PolicyNotAuthorized"),
            "{more}"
        );
    }
    let other = Caller::member("q");
    assert_eq!(fault(desk.show(PORTS, &other, &port)), (404, "PortNotFound"));
    assert_eq!(fault(desk.update(PORTS, &other, &port, json!({"name": "x"}))), (404, "PortNotFound"));
    assert_eq!(fault(desk.delete(PORTS, &Caller::reader("p"), &port)), (403, "PolicyNotAuthorized"));
    assert!(desk.delete(PORTS, &admin(), &port).is_ok());
}

#[test]
fn the_owner_of_a_network_sees_and_deletes_the_ports_of_others_and_changes_nothing_of_them() {
    let mut desk = Desk::new();
    let owner = Caller { manager: true, ..Caller::member("o") };
    let network = desk.create("networks", &owner, json!({})).unwrap();
    subnet(&mut desk, &network, "10.0.0.0/24");
    let policy = json!({"object_type": "network", "object_id": network["id"], "action": "access_as_shared", "target_tenant": "p"});
    desk.create("rbac-policies", &owner, policy).unwrap();
    let port = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    assert_eq!(desk.show(PORTS, &owner, &port).unwrap()["id"], port["id"]);
    for change in [
        json!({"name": "x"}),
        json!({"security_groups": []}),
        json!({"admin_state_up": false}),
        json!({"device_id": "x", "device_owner": "compute:x"}),
        json!({"fixed_ips": []}),
        json!({"port_security_enabled": false, "security_groups": []}),
        json!({"mac_address": "fa:16:3e:00:00:09"}),
    ] {
        let answer = fault(desk.update(PORTS, &owner, &port, change.clone()));
        assert_eq!(answer, (403, "PolicyNotAuthorized"), "{change}");
    }
    assert_eq!(desk.show(PORTS, &member(), &port).unwrap(), port);
    assert!(desk.delete(PORTS, &owner, &port).is_ok());
}

#[test]
fn a_port_cannot_pose_as_what_a_router_makes() {
    let (mut desk, network) = desk();
    let (router, nobody) = (router(&mut desk).to_string(), id(5).to_string());
    let owners = [owner::ROUTER_INTERFACE, owner::ROUTER_GATEWAY];
    for (device_owner, device) in owners.iter().flat_map(|owner| [(owner, &router), (owner, &nobody)]) {
        let more = json!({"device_owner": device_owner, "device_id": device});
        assert_eq!(fault(desk.create(PORTS, &admin(), body(&network, more.clone()))), (400, "BadRequest"));
        let port = desk.create(PORTS, &admin(), body(&network, json!({}))).unwrap();
        assert_eq!(fault(desk.update(PORTS, &admin(), &port, more)), (400, "BadRequest"));
    }
    let meta = json!({"device_owner": owner::DISTRIBUTED, "device_id": format!("ovnmeta-{}", network["id"].as_str().unwrap())});
    assert_eq!(fault(desk.create(PORTS, &admin(), body(&network, meta))), (400, "BadRequest"));
    // Without the id of a router, it is an ordinary port.
    let free = json!({"device_owner": owner::ROUTER_INTERFACE, "device_id": "mine"});
    let port = desk.create(PORTS, &admin(), body(&network, free)).unwrap();
    assert!(desk.delete(PORTS, &admin(), &port).is_ok());
}

#[test]
fn a_new_mac_and_what_hangs_on_it() {
    let (mut desk, network) = desk();
    let v6 = json!({"network_id": network["id"], "ip_version": 6, "cidr": "2001:db8::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"});
    desk.create("subnets", &member(), v6).unwrap();
    let port =
        desk.create(PORTS, &member(), body(&network, json!({"mac_address": "fa:16:3e:00:00:01"}))).unwrap();
    let other = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    let moved = desk.update(PORTS, &manager(), &port, json!({"mac_address": "fa:16:3e:00:00:02"})).unwrap();
    let plain = desk.update(PORTS, &member(), &port, json!({"mac_address": null}));
    assert_eq!(fault(plain), (403, "PolicyNotAuthorized"), "it takes a manager");
    assert_eq!(moved["fixed_ips"][1]["ip_address"], "2001:db8::f816:3eff:fe00:2");
    assert_eq!(moved["fixed_ips"][0], port["fixed_ips"][0]);
    assert_eq!(
        fault(desk.update(PORTS, &manager(), &port, json!({"mac_address": other["mac_address"]}))),
        (409, "MacAddressInUse")
    );
    let drawn = desk.update(PORTS, &manager(), &port, json!({"mac_address": null})).unwrap();
    assert!(
        drawn["mac_address"] != moved["mac_address"]
            && drawn["mac_address"].as_str().unwrap().starts_with("fa:16:3e")
    );
    // A running instance would not learn of a new MAC.
    desk.outside.fleet.chassis.push(crate::fleet::Chassis {
        name: "c1".into(),
        hostname: "h1".into(),
        alive: true,
        ..Default::default()
    });
    desk.update(PORTS, &admin(), &port, json!({"binding:host_id": "h1"})).unwrap();
    assert_eq!(
        fault(desk.update(PORTS, &manager(), &port, json!({"mac_address": null}))),
        (409, "PortBound")
    );
    assert!(desk.update(PORTS, &manager(), &port, json!({"mac_address": drawn["mac_address"]})).is_ok());
}

#[test]
fn floating_ips_let_go_of_a_port_that_goes_and_hold_its_address() {
    let (mut desk, network) = desk();
    let port = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    let floating = FloatingIp {
        id: id(88),
        project: "p".into(),
        floating_network_id: id(5),
        floating_ip_address: "192.0.2.9".parse().unwrap(),
        floating_port_id: id(6),
        port_id: Some(uuid(&port)),
        fixed_ip_address: Some("10.0.0.2".parse().unwrap()),
        router_id: Some(id(77)),
        dns_name: String::new(),
        dns_domain: String::new(),
        standard: Standard::new(jiff::Timestamp::UNIX_EPOCH, ""),
    };
    desk.run(|txn| Ok(txn.put(floating))).unwrap();
    let away = json!({"fixed_ips": [{"ip_address": "10.0.0.7"}]});
    assert_eq!(fault(desk.update(PORTS, &member(), &port, away)), (409, "IpAddressInUse"));
    let more = json!({"fixed_ips": [{"ip_address": "10.0.0.7"}, {"ip_address": "10.0.0.2"}]});
    assert!(desk.update(PORTS, &member(), &port, more).is_ok());
    desk.delete(PORTS, &member(), &port).unwrap();
    let floating = desk.world.get::<FloatingIp>(&id(88)).unwrap();
    assert_eq!((floating.port_id, floating.fixed_ip_address, floating.router_id), (None, None, None));
    assert_eq!(floating.standard.revision, 1);
}

#[test]
fn scenario_63_ports_are_counted_and_those_of_nobody_are_not() {
    let (mut desk, network) = desk();
    desk.outside.settings.quotas.set("port", 1);
    let gateway = Internal { device_owner: owner::ROUTER_GATEWAY.into(), ..Internal::on(uuid(&network)) };
    for _ in 0..3 {
        desk.run(|txn| create_internal(txn, gateway.clone())).unwrap();
    }
    desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    let second = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap_err();
    assert_eq!((second.status, second.kind), (409, "OverQuota"));
    assert!(second.message.contains("port"), "{second}");
}

#[test]
fn lists_find_ports_by_what_they_hang_on() {
    let (mut desk, network) = desk();
    let group = desk.create("security-groups", &member(), json!({"name": "web"})).unwrap();
    for (name, more) in [
        ("a", json!({"device_id": "vm1", "fixed_ips": [{"ip_address": "10.0.0.5"}]})),
        ("b", json!({"device_owner": "compute:nova", "fixed_ips": [{"ip_address": "10.0.0.55"}]})),
        ("c", json!({"security_groups": [group["id"]], "fixed_ips": []})),
    ] {
        let mut more = body(&network, more);
        more["name"] = json!(name);
        desk.create(PORTS, &member(), more).unwrap();
    }
    let subnet = desk.list("subnets", &member(), "").unwrap().remove(0);
    let text = |of: &Value| of["id"].as_str().unwrap().to_owned();
    for (query, want) in [
        (format!("network_id={}", text(&network)), "abc"),
        ("device_id=vm1".into(), "a"),
        ("device_id=".into(), "bc"),
        ("device_owner=".into(), "ac"),
        ("fixed_ips=ip_address=10.0.0.5".into(), "a"),
        ("fixed_ips=ip_address_substr=0.0.5".into(), "ab"),
        (format!("fixed_ips=subnet_id={}", text(&subnet)), "ab"),
        (format!("security_groups={}", text(&group)), "c"),
        ("status=DOWN&admin_state_up=true".into(), "abc"),
        ("name=a&name=c".into(), "ac"),
        ("mac_address=fa:16:3e:ff:ff:ff".into(), ""),
    ] {
        let query = format!("{query}&sort_key=name&sort_dir=asc");
        let found = desk.list(PORTS, &member(), &query).unwrap();
        let names: String = found.iter().map(|port| port["name"].as_str().unwrap()).collect();
        assert_eq!(names, want, "{query}");
    }
}

#[test]
fn the_report_says_whether_it_forwards() {
    let (mut desk, network) = desk();
    let port = desk.create(PORTS, &member(), body(&network, json!({}))).unwrap();
    desk.report.set_up(uuid(&port), true);
    assert_eq!(desk.show(PORTS, &member(), &port).unwrap()["status"], "ACTIVE");
    desk.update(PORTS, &member(), &port, json!({"admin_state_up": false})).unwrap();
    assert_eq!(desk.show(PORTS, &member(), &port).unwrap()["status"], "DOWN");
}
