//! Scenarios 39 and 40: many clients that change one router at the same time.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::world::{World, addresses, each};

/// Sends requests about the router's gateways at the same time, each on a connection of its own; returns their statuses.
fn at_once(world: &World, method: &str, requests: &[Value]) -> Vec<u16> {
    let path = format!("/v2.0/{}/{method}_external_gateways", world.path());
    let start = Barrier::new(requests.len());
    thread::scope(|scope| {
        let ask = |elements: &Value| {
            let body = json!({"router": {"external_gateways": elements}});
            start.wait();
            world.cloud.ask("PUT", &path, Some(body)).status
        };
        let running: Vec<_> = requests.iter().map(|elements| scope.spawn(move || ask(elements))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn scenario_39_twenty_at_once_add_and_twenty_remove() {
    let world = World::new(json!({"enable_default_route_ecmp": true, "enable_default_route_bfd": true}));
    let one = json!([{ "network_id": world.n1 }]);
    assert_eq!(at_once(&world, "add", &vec![one; 20]), [200; 20]);
    let router = world.shown();
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    let distinct: BTreeSet<&str> = addresses(&router).into_iter().collect();
    assert_eq!((addresses(&router).len(), distinct.len()), (20, 20));
    let ports = world.cloud.get("ports?device_owner=network:router_gateway");
    assert_eq!(ports["ports"].as_array().unwrap().len(), 20);
    let routes = world.routes(20);
    let rows = world.cloud.rows("Logical_Router_Port");
    assert_eq!((rows.len(), each(&rows, "name").len(), each(&rows, "mac").len()), (20, 20, 20));
    assert_eq!(each(&routes, "output_port"), each(&rows, "name"));
    for table in ["HA_Chassis_Group", "BFD", "NAT"] {
        assert_eq!(world.cloud.rows(table).len(), 20, "{table}");
    }
    let gateways = router["external_gateways"].as_array().unwrap();
    let removals: Vec<Value> = gateways.iter().map(|gateway| json!([gateway])).collect();
    assert_eq!(at_once(&world, "remove", &removals), [200; 20]);
    let router = world.shown();
    assert_eq!((&router["external_gateway_info"], &router["external_gateways"]), (&Value::Null, &json!([])));
    world.set(json!({"description": "until OVN has it"}));
    world.assert_no_gateway_is_left();
    assert_eq!(world.cloud.get("ports?device_owner=network:router_gateway")["ports"], json!([]));
}

#[test]
fn scenario_40_two_networks_at_once_on_an_empty_router() {
    let world = World::new(json!({}));
    let (one, two) = (json!({ "network_id": world.n1 }), json!({ "network_id": world.n2 }));
    assert_eq!(at_once(&world, "add", &[json!([one]), json!([two])]), [200; 2]);
    let router = world.shown();
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    let networks = each(router["external_gateways"].as_array().unwrap(), "network_id");
    assert_eq!(networks, BTreeSet::from([world.n1.as_str(), &world.n2]));
    world.set(json!({"description": "until OVN has it"}));
    assert_eq!(world.cloud.rows("Logical_Router_Port").len(), 2);
    // Two clients set the same gateways at the same time: the result is the same, and no port exists twice.
    assert_eq!(at_once(&world, "update", &vec![json!([two, one]); 2]), [200; 2]);
    let router = world.shown();
    assert_eq!(router["external_gateway_info"]["network_id"], world.n2);
    assert_eq!(router["external_gateways"].as_array().unwrap().len(), 2);
}
