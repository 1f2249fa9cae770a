//! The source ports of health probes.

use super::*;

fn monitor(pool: &str) -> Value {
    json!({"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2})
}

/// The subnets with such a port, in order.
fn sources(cloud: &Cloud) -> Vec<Uuid> {
    let mut subnets: Vec<Uuid> = cloud
        .world
        .table::<Port>()
        .iter()
        .filter(|port| port.device_owner == "ovn-lb-hm:distributed")
        .map(|port| {
            let subnet = port.fixed_ips[0].subnet_id;
            assert_eq!((&port.name, &port.device_id), (&port.device_id, &format!("ovn-lb-hm-{subnet}")));
            subnet
        })
        .collect();
    subnets.sort();
    subnets
}

#[test]
fn scenario_49_a_port_lives_as_long_as_somebody_probes_from_it() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let other = cloud.make("loadbalancers", json!({"vip_subnet_id": id(5)}));
    let pools = [&whole, &other].map(|whole| cloud.make("pools", pool(whole)));
    let [one, two] = [0, 1].map(|n| format!("pools/{}/members", pools[n]));
    let member = |subnet: u128, address: &str| json!({"address": address, "protocol_port": 80, "subnet_id": id(subnet)});
    let here = cloud.make(&one, member(2, "10.0.0.7"));
    assert_eq!(sources(&cloud), Vec::<Uuid>::new());
    let monitors = [0, 1].map(|n| cloud.make("healthmonitors", monitor(&pools[n])));
    assert_eq!(sources(&cloud), [id(2)]);
    let far = cloud.make(&one, member(5, "10.1.0.7"));
    let shared = cloud.make(&two, member(5, "10.1.0.7"));
    assert_eq!(sources(&cloud), [id(2), id(5)], "one for both load balancers");
    cloud.update("healthmonitors", &monitors[0], json!({"admin_state_up": false})).unwrap();
    cloud.apply();
    assert_eq!(sources(&cloud), [id(2), id(5)], "a pause changes nothing");
    cloud.delete(&one, &far, "").unwrap();
    cloud.apply();
    assert_eq!(sources(&cloud), [id(2), id(5)], "the other load balancer needs it");
    cloud.delete(&two, &shared, "").unwrap();
    cloud.apply();
    assert_eq!(sources(&cloud), [id(2)]);
    cloud.replace(&one, "", json!({"members": [member(5, "10.1.0.8")]})).unwrap();
    cloud.apply();
    assert_eq!(sources(&cloud), [id(5)]);
    assert_eq!(cloud.show(&one, &here).unwrap_err().0, 404);
    cloud.delete("healthmonitors", &monitors[0], "").unwrap();
    cloud.apply();
    assert_eq!(sources(&cloud), Vec::<Uuid>::new());
    cloud.make("healthmonitors", monitor(&pools[0]));
    assert_eq!(sources(&cloud), [id(5)]);
    cloud.delete("loadbalancers", &whole, "cascade=true").unwrap();
    assert_eq!(sources(&cloud), Vec::<Uuid>::new());
}

#[test]
fn nobody_else_may_touch_the_port() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let members = format!("pools/{pool_id}/members");
    cloud.make(&members, json!({"address": "10.0.0.7", "protocol_port": 80}));
    let pose = json!({
        "network_id": id(1), "device_owner": "ovn-lb-hm:distributed", "device_id": format!("ovn-lb-hm-{}", id(2)),
    });
    let monitor_id = cloud.make("healthmonitors", monitor(&pool_id));
    let port = cloud.world.table::<Port>().iter().find(|port| port.name.starts_with("ovn-lb-hm")).unwrap().id;
    let mut desk = Desk::new();
    desk.world = cloud.world.clone();
    let admin = Caller::admin("p");
    assert_eq!(desk.delete("ports", &admin, &json!(port)).unwrap_err().kind, "ServicePortInUse");
    for body in [json!({"device_owner": ""}), json!({"fixed_ips": [{"ip_address": "10.0.0.10"}]})] {
        assert_eq!(desk.update("ports", &admin, &json!(port), body).unwrap_err().status, 409);
    }
    assert_eq!(desk.create("ports", &admin, pose).unwrap_err().status, 400);
    assert_eq!(desk.delete("subnets", &admin, &json!(id(2))).unwrap_err().kind, "SubnetInUse");
    cloud.delete("healthmonitors", &monitor_id, "").unwrap();
    assert!(cloud.world.get::<Port>(&port).is_none());
}

#[test]
fn a_full_subnet_refuses_the_health_monitor_without_a_trace() {
    let mut cloud = Cloud::new();
    cloud
        .run((None, ""), |txn, _| {
            txn.put(network(6, "p"));
            txn.put(subnet(7, 6, "10.2.0.0/30"));
            Ok(())
        })
        .unwrap();
    let whole = cloud.make("loadbalancers", json!({"vip_subnet_id": id(7)}));
    let pool_id = cloud.make("pools", pool(&whole));
    cloud.make(&format!("pools/{pool_id}/members"), json!({"address": "10.2.0.2", "protocol_port": 80}));
    let mut body = monitor(&pool_id);
    let (ports, generation) = (cloud.world.table::<Port>().len(), cloud.whole(&whole).generation);
    while cloud.world.table::<Port>().len() < ports + 4 {
        let new = json!({"port": {"network_id": id(6)}});
        if cloud.run((None, ""), |txn, by| of::<Ports>().create(txn, by, &new)).is_err() {
            break;
        }
    }
    let (status, text) = cloud.create("healthmonitors", body.take()).unwrap_err();
    assert_eq!((status, text.contains("No more IP addresses")), (409, true), "{text}");
    assert_eq!(cloud.whole(&whole).generation, generation);
    assert_eq!(cloud.world.table::<HealthMonitor>().len(), 0);
}

#[test]
fn scenario_47_a_member_without_a_port_is_shown_as_failed_at_once() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let members = format!("pools/{pool_id}/members");
    let member = cloud.make(&members, json!({"address": "10.0.0.7", "protocol_port": 80}));
    cloud.make("healthmonitors", monitor(&pool_id));
    assert_eq!(cloud.states(&members, &member), states("ACTIVE", "ERROR"));
    assert_eq!(cloud.states("pools", &pool_id).1, "ERROR");
    let backend = cloud.backend("10.0.0.7", 80);
    assert_eq!(cloud.states(&members, &member).1, "OFFLINE", "not probed yet");
    cloud.report.set_probe(backend, Some(ProbeResult::Online));
    assert_eq!(cloud.states(&members, &member).1, "ONLINE");
    let port = json!(backend.port_id).as_str().unwrap().to_owned();
    cloud.run((None, ""), |txn, by| of::<Ports>().delete(txn, by, &port)).unwrap();
    assert_eq!(cloud.states(&members, &member).1, "ERROR");
}
