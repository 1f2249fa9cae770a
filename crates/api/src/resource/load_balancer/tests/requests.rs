//! The effects of requests, and the order of their checks.

use super::*;

#[test]
fn the_vip_gets_a_port_that_nobody_else_may_touch() {
    let mut cloud = Cloud::new();
    let made = cloud
        .create(
            "loadbalancers",
            json!({
                "name": "lb1", "vip_subnet_id": id(2), "vip_address": "10.0.0.9", "tags": ["b", "a"],
                "additional_vips": [{"subnet_id": id(3), "ip_address": "fd00:0:0:0:0:0:0:9"}],
            }),
        )
        .unwrap();
    let whole = text(&made["id"]);
    assert_eq!(made["vip_network_id"], json!(id(1)));
    assert_eq!((&made["vip_address"], &made["tags"]), (&json!("10.0.0.9"), &json!(["a", "b"])));
    assert_eq!(made["additional_vips"][0]["ip_address"], "fd00:0:0:0:0:0:0:9", "as it was given");
    assert_eq!((&made["provider"], &made["project_id"]), (&json!("ovn"), &json!("p")));
    let port = text(&made["vip_port_id"]);
    let stored = cloud.world.get::<Port>(&port.parse().unwrap()).unwrap().clone();
    assert_eq!(stored.name, format!("ovn-lb-vip-{whole}"));
    assert_eq!((&*stored.device_id, &*stored.device_owner), (&*format!("lb-{whole}"), "ovn-lb:vip"));
    let names: Vec<_> = cloud.world.table::<Port>().iter().map(|port| port.name.clone()).collect();
    assert!(names.contains(&format!("ovn-lb-vip-additional-1-{whole}")), "{names:?}");

    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    let admin = Caller::admin("p");
    let fault = desk.delete("ports", &admin, &json!(port)).unwrap_err();
    assert_eq!((fault.status, fault.kind), (409, "ServicePortInUse"));
    for body in [json!({"device_owner": ""}), json!({"fixed_ips": [{"ip_address": "10.0.0.10"}]})] {
        assert_eq!(desk.update("ports", &admin, &json!(port), body).unwrap_err().status, 409);
    }
    desk.update("ports", &admin, &json!(port), json!({"name": "mine"})).unwrap();
    let pose = json!({"network_id": id(1), "device_owner": "ovn-lb:vip", "device_id": format!("lb-{whole}")});
    assert_eq!(desk.create("ports", &admin, pose).unwrap_err().status, 400);
    let other =
        json!({"network_id": id(1), "device_owner": "ovn-lb:vip", "device_id": format!("lb-{}", id(9))});
    desk.create("ports", &admin, other).unwrap();
    for subnet in [id(2), id(3)] {
        assert_eq!(desk.delete("subnets", &admin, &json!(subnet)).unwrap_err().kind, "SubnetInUse");
    }
}

#[test]
fn load_balancers_that_cannot_be_are_refused() {
    let (mut cloud, _) = Cloud::with_balancer();
    let before = cloud.world.table::<Port>().len();
    for (body, status, text) in [
        (
            json!({}),
            400,
            "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
        ),
        (json!({"vip_subnet_id": id(77)}), 400, &*format!("Subnet {} not found.", id(77))),
        (json!({"vip_network_id": id(77)}), 400, &format!("Network {} not found.", id(77))),
        (json!({"vip_port_id": id(77)}), 400, &format!("Port {} not found.", id(77))),
        (json!({"vip_subnet_id": id(2), "provider": "x"}), 400, "Provider 'x' is not enabled."),
        (json!({"vip_subnet_id": id(2), "flavor_id": id(1)}), 400, "Validation failure: Invalid flavor_id."),
        (
            json!({"vip_subnet_id": id(2), "vip_address": "10.0.0.2"}),
            409,
            "The VIP IP address is already in use: 10.0.0.2",
        ),
        (
            json!({"vip_subnet_id": id(2), "vip_address": "10.0.0.1"}),
            409,
            "The VIP IP address is already in use: 10.0.0.1",
        ),
        (
            json!({"vip_subnet_id": id(2), "vip_address": "10.9.0.2"}),
            400,
            &format!("Validation failure: VIP address 10.9.0.2 is not an address of subnet {}.", id(2)),
        ),
        (
            json!({"vip_subnet_id": id(2), "vip_address": "ten"}),
            400,
            "Invalid input for field/attribute vip_address. Value: 'ten'. Value should be IPv4 or IPv6 format",
        ),
        (
            json!({"vip_subnet_id": id(2), "additional_vips": [{"subnet_id": id(5)}]}),
            400,
            "Validation failure: All VIP subnets must belong to the same network.",
        ),
        (
            json!({"vip_subnet_id": id(2), "additional_vips": [{"subnet_id": id(2)}]}),
            400,
            "Validation failure: All VIP subnets must be unique.",
        ),
        (
            json!({"vip_subnet_id": id(2), "colour": "red"}),
            400,
            "Unknown attribute for argument loadbalancer: colour",
        ),
        (
            json!({"vip_subnet_id": id(2), "vip_sg_ids": [id(1)]}),
            501,
            "Provider 'ovn' does not support a requested option: OVN provider does not support vip_sg_ids option",
        ),
    ] {
        assert_eq!(cloud.create("loadbalancers", body.clone()), Err((status, text.to_owned())), "{body}");
    }
    assert_eq!(cloud.world.table::<Port>().len(), before, "a refused request leaves nothing");
    let by_network = cloud.create("loadbalancers", json!({"vip_network_id": id(1)})).unwrap();
    assert_eq!(by_network["vip_subnet_id"], json!(id(2)), "IPv4 comes first");
    cloud.caller = Caller::reader("p");
    assert_eq!(cloud.create("loadbalancers", json!({"vip_subnet_id": id(2)})).unwrap_err().0, 403);
    cloud.caller = Caller::member("q");
    assert_eq!(cloud.show("loadbalancers", &text(&by_network["id"])).unwrap_err().0, 403);
    assert!(cloud.names("loadbalancers", "").is_empty());
}

#[test]
fn an_owners_own_port_outlives_its_name() {
    let mut cloud = Cloud::new();
    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    let admin = Caller::admin("p");
    let addresses = json!([{"subnet_id": id(2)}]);
    let port =
        desk.create("ports", &admin, json!({"network_id": id(1), "name": "mine", "fixed_ips": addresses}));
    let port = text(&port.unwrap()["id"]);
    cloud.world = desk.world;
    let made = cloud.create("loadbalancers", json!({"vip_port_id": port})).unwrap();
    assert_eq!((&made["vip_port_id"], &made["vip_subnet_id"]), (&json!(port), &json!(id(2))));
    assert!(cloud.whole(&text(&made["id"])).primary_vip().own_port);
    let stored = cloud.world.get::<Port>(&port.parse().unwrap()).unwrap();
    assert_eq!((&*stored.name, &*stored.device_owner), ("mine", ""));
    assert_eq!(cloud.create("loadbalancers", json!({"vip_port_id": port})).unwrap_err().0, 400, "in use");
}

#[test]
fn listeners_are_refused_in_the_order_that_clients_rely_on() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let made = cloud
        .create("listeners", json!({"loadbalancer_id": whole, "protocol": "TCP", "protocol_port": "80"}));
    assert_eq!(made.unwrap()["timeout_client_data"], 50_000);
    cloud.apply();
    let udp = cloud
        .make("pools", json!({"loadbalancer_id": whole, "protocol": "UDP", "lb_algorithm": "SOURCE_IP"}));
    let of = |port: u16, more: Value| {
        let mut body = listener(&whole, port);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, status, text) in [
        (
            of(80, json!({"protocol": "HTTP"})),
            409,
            "Another Listener on this Load Balancer is already using protocol HTTP and protocol_port 80",
        ),
        (
            of(81, json!({"protocol": "HTTP"})),
            501,
            "Provider 'ovn' does not support a requested option: OVN provider does not support HTTP protocol",
        ),
        (
            of(80, json!({"protocol": "tcp"})),
            400,
            "Invalid input for field/attribute protocol. Value: 'tcp'. Value should be one of: HTTP, HTTPS, PROMETHEUS, \
             SCTP, TCP, TERMINATED_HTTPS, UDP",
        ),
        (
            of(81, json!({"protocol_port": 0})),
            400,
            "Invalid input for field/attribute protocol_port. Value: '0'. Value should be greater or equal to 1",
        ),
        (
            of(80, json!({"default_pool_id": udp})),
            400,
            "Validation failure: The pool protocol 'UDP' is invalid while the listener protocol is 'TCP'.",
        ),
        (of(81, json!({"default_pool_id": id(77)})), 404, &*format!("Pool {} not found.", id(77))),
        (of(81, json!({"loadbalancer_id": id(77)})), 404, &format!("Load Balancer {} not found.", id(77))),
        (
            of(81, json!({"allowed_cidrs": ["fd00::/64"]})),
            400,
            "Validation failure: CIDR fd00::/64 is of another IP version than every VIP of the load balancer.",
        ),
        (
            of(81, json!({"default_tls_container_ref": "x"})),
            400,
            "Validation failure: default_tls_container_ref is not allowed on TCP protocol listeners.",
        ),
    ] {
        assert_eq!(
            cloud.create("listeners", body.clone()).map(drop),
            Err((status, text.to_owned())),
            "{body}"
        );
        assert_eq!(cloud.states("loadbalancers", &whole).0, "ACTIVE", "a refused request leaves nothing");
    }
    cloud.caller = Caller::member("q");
    assert_eq!(cloud.create("listeners", listener(&whole, 82)).unwrap_err().0, 403);
    cloud.caller = Caller::admin("q");
    let made = cloud.create("listeners", listener(&whole, 82)).unwrap();
    assert_eq!(made["project_id"], "p", "a part belongs to whom the whole belongs to");
    cloud.apply();
    let id = text(&made["id"]);
    let change = json!({"allowed_cidrs": ["10.0.0.7/8"], "connection_limit": "10", "timeout_client_data": 1});
    let changed = cloud.update("listeners", &id, change).unwrap();
    assert_eq!(
        (&changed["allowed_cidrs"], &changed["connection_limit"]),
        (&json!(["10.0.0.7/8"]), &json!(10))
    );
    cloud.apply();
    let nothing =
        json!({"allowed_cidrs": null, "connection_limit": null, "timeout_client_data": null, "name": null});
    let changed = cloud.update("listeners", &id, nothing).unwrap();
    assert_eq!((&changed["allowed_cidrs"], &changed["connection_limit"]), (&Value::Null, &json!(-1)));
    assert_eq!((&changed["timeout_client_data"], &changed["name"]), (&json!(50_000), &json!("")));
}

#[test]
fn rows_keep_their_numbers_while_pools_come_and_go() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let rows = |cloud: &Cloud| {
        let rows = cloud.whole(&whole).rows;
        rows.iter().map(|row| (row.number, row.group.protocol)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&cloud), [(0, None)]);
    let tcp = cloud.make("pools", pool(&whole));
    assert_eq!(rows(&cloud), [(0, Some(LbProtocol::Tcp))]);
    cloud.make("pools", json!({"loadbalancer_id": whole, "protocol": "UDP", "lb_algorithm": "SOURCE_IP"}));
    assert_eq!(rows(&cloud), [(0, Some(LbProtocol::Tcp)), (1, Some(LbProtocol::Udp))]);
    cloud.delete("pools", &tcp, "").unwrap();
    assert_eq!(rows(&cloud), [(1, Some(LbProtocol::Udp))]);
    assert_eq!(cloud.whole(&whole).generation, 4, "one for each write");
}

#[test]
fn pools_are_refused_and_changed_as_octavia_does() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let of = |more: Value| {
        let mut body = pool(&whole);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let option = |text: &str| {
        format!("Provider 'ovn' does not support a requested option: OVN provider does not support {text}")
    };
    for (body, status, text) in [
        (of(json!({"lb_algorithm": "ROUND_ROBIN"})), 501, option("ROUND_ROBIN algorithm")),
        (of(json!({"protocol": "PROXY"})), 501, option("PROXY protocol")),
        (
            of(json!({"session_persistence": {"type": "HTTP_COOKIE"}})),
            501,
            option("HTTP_COOKIE session persistence. Only SOURCE_IP type is supported."),
        ),
        (
            json!({"protocol": "TCP", "lb_algorithm": "SOURCE_IP"}),
            400,
            "Validation failure: Must provide at least one of: loadbalancer_id, listener_id".into(),
        ),
        (
            json!({"loadbalancer_id": whole, "lb_algorithm": "SOURCE_IP"}),
            400,
            "Invalid input for field/attribute protocol. Value: 'None'. Mandatory field missing.".into(),
        ),
    ] {
        assert_eq!(cloud.create("pools", body.clone()).map(drop), Err((status, text)), "{body}");
    }
    let timed = json!({"type": "SOURCE_IP", "persistence_timeout": "600"});
    assert_eq!(cloud.create("pools", of(json!({"session_persistence": timed}))).unwrap_err().0, 400, "TCP");
    let udp = of(json!({"protocol": "UDP", "session_persistence": timed}));
    let made = cloud.create("pools", udp).unwrap();
    assert_eq!(made["session_persistence"]["persistence_timeout"], 600);
    cloud.apply();
    let id = text(&made["id"]);
    let changed = cloud
        .update("pools", &id, json!({"session_persistence": null, "lb_algorithm": "SOURCE_IP"}))
        .unwrap();
    assert_eq!(
        (&changed["session_persistence"], &changed["lb_algorithm"]),
        (&Value::Null, &json!("SOURCE_IP"))
    );
    cloud.apply();
    let front = cloud.make("listeners", listener(&whole, 80));
    let on_listener = json!({"listener_id": front, "protocol": "TCP", "lb_algorithm": "SOURCE_IP"});
    let first = cloud.make("pools", on_listener.clone());
    assert_eq!(cloud.show("listeners", &front).unwrap()["default_pool_id"], json!(first));
    let again = cloud.create("pools", on_listener).unwrap_err();
    assert_eq!(again, (409, "This listener already has a default pool".into()));
    cloud.delete("pools", &first, "").unwrap();
    assert_eq!(cloud.show("listeners", &front).unwrap()["default_pool_id"], Value::Null);
    assert_eq!(cloud.states("listeners", &front).0, "PENDING_UPDATE");
}

#[test]
fn members_are_refused_and_shown_as_they_were_given() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let path = format!("pools/{pool_id}/members");
    let of = |address: &str, more: Value| {
        let mut body = json!({"address": address, "protocol_port": 80});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let made = cloud.create(&path, of("10.0.0.7", json!({"weight": null}))).unwrap();
    assert_eq!((&made["subnet_id"], &made["weight"]), (&Value::Null, &json!(1)));
    cloud.apply();
    let elsewhere = cloud.create(&path, of("192.0.2.1", json!({"subnet_id": id(5)}))).unwrap();
    assert_eq!(
        elsewhere["subnet_id"],
        json!(id(5)),
        "an address outside of the subnet is the owner's business"
    );
    cloud.apply();
    let option = |text: &str| format!("Provider 'ovn' does not support a requested option: {text}");
    for (body, status, text) in [
        (
            of("not-an-ip", json!({})),
            400,
            "Invalid input for field/attribute address. Value: 'not-an-ip'. Value should be IPv4 or IPv6 format".into(),
        ),
        (of("169.254.169.254", json!({})), 400, "169.254.169.254 is not a valid option for member address".into()),
        (of("10.0.0.8", json!({"subnet_id": id(77)})), 400, format!("Subnet {} not found.", id(77))),
        (
            of("10.0.0.7", json!({})),
            409,
            "Another member on this pool is already using ip 10.0.0.7 on protocol_port 80".into(),
        ),
        (
            of("10.0.0.8", json!({"monitor_port": 81})),
            501,
            option("OVN Load Balancer does not support different member monitor address or port."),
        ),
        (
            of("fd00::7", json!({"subnet_id": id(3)})),
            501,
            option("OVN provider does not support mixing IPv4/IPv6 configuration within the same Load Balancer."),
        ),
        (
            of("10.7.0.8", json!({})),
            501,
            option("Subnet is required, since the address of the member is not in the subnet of the VIP."),
        ),
        (
            of("10.0.0.8", json!({"weight": 257})),
            400,
            "Invalid input for field/attribute weight. Value: '257'. Value should be lower or equal to 256".into(),
        ),
    ] {
        assert_eq!(cloud.create(&path, body.clone()).map(drop), Err((status, text)), "{body}");
    }
    let orphan = format!("pools/{}/members", id(77));
    let missing = cloud.create(&orphan, of("10.0.0.8", json!({}))).unwrap_err();
    assert_eq!(missing, (404, format!("Pool {} not found.", id(77))));
}

#[test]
fn a_batch_is_one_write_or_none() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let path = format!("pools/{pool_id}/members");
    let member = |last: u8, weight: u8| json!({"name": format!("m{last}"), "address": format!("10.0.0.{last}"), "protocol_port": 80, "weight": weight});
    cloud.make(&path, member(1, 5));
    let kept = cloud.make(&path, member(2, 5));
    let before = cloud.whole(&whole).generation;
    let body = json!({"members": [{"address": "10.0.0.2", "protocol_port": 80, "name": "m2"}, member(3, 1)]});
    cloud.replace(&path, "additive_only=True", body.clone()).unwrap();
    assert_eq!(cloud.whole(&whole).generation, before + 1);
    cloud.apply();
    assert_eq!(cloud.names(&path, "sort=name:asc"), ["m1", "m2", "m3"]);
    assert_eq!(cloud.show(&path, &kept).unwrap()["weight"], 1, "what is not named falls back to its default");
    cloud.replace(&path, "", body.clone()).unwrap();
    cloud.apply();
    assert_eq!(cloud.names(&path, "sort=name:desc"), ["m3", "m2"]);
    let after = cloud.whole(&whole);
    cloud.replace(&path, "", body).unwrap();
    assert_eq!(cloud.whole(&whole), after, "no difference is no write");
    for bad in [
        json!([member(4, 1), {"address": "x", "protocol_port": 80}]),
        json!([member(4, 1), {"address": "169.254.169.254", "protocol_port": 80}]),
        json!([member(2, 1), member(2, 2)]),
        json!([member(4, 1), {"address": "10.0.0.2", "protocol_port": 80, "monitor_port": 8}]),
    ] {
        assert!([400, 501].contains(&cloud.replace(&path, "", json!({"members": bad})).unwrap_err().0));
        assert_eq!(cloud.names(&path, "").len(), 2);
    }
    let limits = [("member".to_owned(), 2)].into();
    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    desk.run(|txn| Ok(txn.put(QuotaSet { project: "p".into(), limits }))).unwrap();
    cloud.world = desk.world;
    let more = json!({"members": [member(2, 1), member(3, 1), member(4, 1)]});
    let refused = (403, "Quota has been met for resources: Member".to_owned());
    assert_eq!(cloud.replace(&path, "", more), Err(refused));
    cloud.replace(&path, "", json!({"members": [member(5, 1), member(6, 1)]})).unwrap();
}

#[test]
fn health_monitors_are_one_for_a_pool_and_of_two_types() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let of =
        |kind: &str| json!({"pool_id": pool_id, "type": kind, "delay": "5", "timeout": 10, "max_retries": 2});
    for (body, status) in [(of("HTTP"), 501), (of("UDP-CONNECT"), 400), (json!({"pool_id": pool_id}), 400)] {
        assert_eq!(cloud.create("healthmonitors", body).unwrap_err().0, status);
    }
    let mut with_path = of("TCP");
    with_path["url_path"] = json!("/");
    assert_eq!(cloud.create("healthmonitors", with_path).unwrap_err().0, 400);
    for (protocol, kind, status) in
        [("UDP", "TCP", 501), ("SCTP", "UDP-CONNECT", 501), ("SCTP", "TCP", 501), ("UDP", "UDP-CONNECT", 201)]
    {
        let mut other = pool(&whole);
        other["protocol"] = json!(protocol);
        let other = cloud.make("pools", other);
        let mut body = of(kind);
        body["pool_id"] = json!(other);
        let refused = cloud.create("healthmonitors", body).err();
        assert_eq!(refused.map_or(201, |it| it.0), status, "{kind} on {protocol}");
        cloud.apply();
    }
    let monitor = cloud.make("healthmonitors", of("TCP"));
    assert_eq!(cloud.states("healthmonitors", &monitor), states("ACTIVE", "ONLINE"));
    assert_eq!(cloud.show("pools", &pool_id).unwrap()["healthmonitor_id"], json!(monitor));
    let again = cloud.create("healthmonitors", of("TCP")).unwrap_err();
    assert_eq!(again, (409, "This pool already has a health monitor".into()));
    for name in ["delay", "timeout", "max_retries"] {
        assert_eq!(
            cloud.update("healthmonitors", &monitor, json!({name: null})).unwrap_err().0,
            400,
            "{name}"
        );
    }
    cloud.update("healthmonitors", &monitor, json!({"delay": 7, "max_retries_down": null})).unwrap();
    cloud.apply();
    cloud.delete("healthmonitors", &monitor, "").unwrap();
    assert_eq!(cloud.states("pools", &pool_id).0, "PENDING_UPDATE");
}

#[test]
fn a_whole_tree_is_created_and_deleted_at_once() {
    let mut cloud = Cloud::new();
    let member = |last: u8| json!({"address": format!("10.0.0.{last}"), "protocol_port": 80});
    let front = |port: u16, default: Value| json!({"protocol": "TCP", "protocol_port": port, "default_pool": default});
    let full = |name: &str| {
        json!({
            "name": name, "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT", "members": [member(7), member(8)],
            "healthmonitor": {"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2},
        })
    };
    let tree = |listeners: Value, pools: Value| json!({"vip_subnet_id": id(2), "listeners": listeners, "pools": pools});
    let mut bad = full("a");
    bad["members"][1]["address"] = json!("169.254.169.254");
    let mut unnamed = full("a");
    unnamed.as_object_mut().unwrap().remove("name");
    for (listeners, pools, text) in [
        (json!([]), json!([unnamed]), "Pools must be named"),
        (json!([]), json!([full("a"), full("a")]), "Pool names must be unique"),
        (
            json!([front(80, json!({"name": "x"}))]),
            json!([full("a")]),
            "Pool 'x' was referenced but no full definition was found.",
        ),
        (json!([]), json!([{"name": "a", "protocol": "TCP"}]), "Value: 'None'. Mandatory field missing."),
        (json!([]), json!([bad]), "169.254.169.254"),
    ] {
        let (status, found) = cloud.create("loadbalancers", tree(listeners, pools)).unwrap_err();
        assert!(status == 400 && found.contains(text), "{status} {found}");
        assert!(cloud.world.table::<Port>().is_empty(), "nothing is left of it");
    }
    let listeners = json!([front(80, json!({"name": "a"})), front(81, full("b"))]);
    let made = cloud.create("loadbalancers", tree(listeners.clone(), json!([full("a")]))).unwrap();
    let whole = text(&made["id"]);
    assert_eq!((cloud.whole(&whole).generation, cloud.world.table::<Member>().len()), (1, 4));
    assert_eq!(cloud.states("loadbalancers", &whole).0, "PENDING_CREATE");
    let (fronts, pools) = cloud.look(None, |scene| tree::expanded(scene, whole.parse().unwrap()));
    assert_eq!((fronts.as_array().unwrap().len(), pools.as_array().unwrap().len()), (2, 2));
    assert_eq!(pools[0]["members"].as_array().unwrap().len(), 2);
    assert_eq!((&pools[0]["healthmonitor"]["type"], pools[0].get("loadbalancers")), (&json!("TCP"), None));
    cloud.apply();
    let kept = cloud.delete("loadbalancers", &whole, "").unwrap_err();
    assert_eq!(
        kept,
        (400, format!("Validation failure: Cannot delete Load Balancer {whole} - it has children"))
    );
    cloud.delete("loadbalancers", &whole, "cascade=True").unwrap();
    let world = &cloud.world;
    assert!(world.table::<Member>().is_empty() && world.table::<Pool>().is_empty());
    assert!(world.table::<Listener>().is_empty() && world.table::<HealthMonitor>().is_empty());
    let limits = [("listener".to_owned(), 1)].into();
    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    desk.run(|txn| Ok(txn.put(QuotaSet { project: "p".into(), limits }))).unwrap();
    cloud.world = desk.world;
    let refused = cloud.create("loadbalancers", tree(listeners, json!([full("a")]))).unwrap_err();
    assert_eq!(refused, (403, "Quota has been met for resources: Listener".into()));
}

#[test]
fn lists_are_filtered_sorted_and_paged() {
    let mut cloud = Cloud::new();
    for (name, tag) in [("b", "x"), ("a", "y"), ("c", "x")] {
        cloud.create("loadbalancers", json!({"vip_subnet_id": id(2), "name": name, "tags": [tag]})).unwrap();
        cloud.now += 1;
    }
    assert_eq!(cloud.names("loadbalancers", ""), ["b", "a", "c"], "in the order of their creation");
    for (query, expected) in [
        ("sort=name:desc", &["c", "b", "a"][..]),
        ("sort_key=name&sort_dir=asc", &["a", "b", "c"]),
        ("limit=infinite", &["b", "a", "c"]),
        ("limit=1", &["b"]),
        ("tags=x", &["b", "c"]),
        ("not-tags-any=x", &["a"]),
        ("name=a", &["a"]),
        ("provisioning_status=ACTIVE", &[]),
    ] {
        assert_eq!(cloud.names("loadbalancers", query), expected, "{query}");
    }
    let refused = of::<LoadBalancers>().query(vec![("colour".into(), "red".into())]).unwrap();
    let fault = cloud.look(None, |scene| of::<LoadBalancers>().list(scene, &refused)).unwrap_err();
    assert_eq!(fault.message, "One or more arguments are either duplicate or invalid");
}

#[test]
fn vips_on_networks_of_others_count_as_shared_addresses() {
    let mut cloud = Cloud::new();
    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    desk.run(|txn| {
        txn.put(network(8, "other"));
        txn.put(subnet(9, 8, "10.8.0.0/24"));
        let limits = [("shared_address".to_owned(), 2)].into_iter().collect();
        txn.put(QuotaSet { project: "p".into(), limits });
        Ok(())
    })
    .unwrap();
    desk.update("networks", &Caller::admin("admin"), &json!(id(8)), json!({"shared": true})).unwrap();
    cloud.world = desk.world;
    for _ in 0..2 {
        cloud.create("loadbalancers", json!({"vip_subnet_id": id(9)})).unwrap();
    }
    let ports = cloud.world.table::<Port>().len();
    let (status, text) = cloud.create("loadbalancers", json!({"vip_subnet_id": id(9)})).unwrap_err();
    assert_eq!(status, 409, "{text}");
    assert!(text.contains("shared_address"), "{text}");
    assert_eq!(cloud.world.table::<Port>().len(), ports, "nothing is left of it");
    cloud.create("loadbalancers", json!({"vip_subnet_id": id(2)})).unwrap();
}

#[test]
fn a_port_of_another_project_is_no_vip() {
    let mut cloud = Cloud::new();
    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    // The owner of network 1 sees foreign ports there.
    desk.update("networks", &Caller::admin("admin"), &json!(id(1)), json!({"shared": true})).unwrap();
    let foreign = desk.create("ports", &Caller::member("other"), json!({"network_id": id(1)})).unwrap();
    cloud.world = desk.world;
    let port = text(&foreign["id"]);
    let refused = (400, format!("Port {port} not found."));
    assert_eq!(cloud.create("loadbalancers", json!({"vip_port_id": port})), Err(refused));
}
