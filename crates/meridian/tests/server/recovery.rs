//! Scenarios 53 and 56: a killed server, and other programs that write to the same database.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cloud::{eventually, raw};
use crate::journal::{Journal, counts};
use crate::world::{World, each, id};

#[test]
fn scenario_53_a_killed_server_goes_on_where_it_was() {
    let mut world = World::new(json!({"name": "R", "enable_default_route_ecmp": true}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let database: i32 =
        fs::read_to_string(world.cloud.dir().join("ovn/nb.pid")).unwrap().trim().parse().unwrap();
    let mut journal = Journal::of(&world.cloud);
    // The Northbound's server is stopped, so the server stores the request but cannot have written it.
    kill(Pid::from_raw(database), Signal::SIGSTOP).unwrap();
    let body = json!({"router": {"external_gateways": [{ "network_id": world.n2 }]}}).to_string();
    let path = format!("/v2.0/{}/add_external_gateways", world.path());
    let answer = raw(world.cloud.url(), &[("X-Auth-Token", "t")], "PUT", &path, Some(&body));
    assert_eq!(answer.status, 200, "{answer:?}");
    world.cloud.kill();
    assert_eq!(journal.tally(), counts([]), "killed between the two");
    kill(Pid::from_raw(database), Signal::SIGCONT).unwrap();
    world.cloud.again();
    assert_eq!(world.routes(2).len(), 2);
    // A few crashes at random moments.
    for _ in 0..3 {
        let answer = raw(world.cloud.url(), &[("X-Auth-Token", "t")], "PUT", &path, Some(&body));
        assert_eq!(answer.status, 200, "{answer:?}");
        world.cloud.crash();
    }
    let routes = world.routes(5);
    let ports = world.cloud.rows("Logical_Router_Port");
    assert_eq!(each(&routes, "output_port").len(), 5, "one route for each gateway");
    assert_eq!(each(&routes, "output_port"), each(&ports, "name"));
    assert_eq!(world.shown()["external_gateways"].as_array().unwrap().len(), 5);
    for (table, count) in [("Logical_Router", 1), ("HA_Chassis_Group", 5), ("HA_Chassis", 15), ("NAT", 5)] {
        assert_eq!(world.cloud.rows(table).len(), count, "one copy of each {table}");
    }
    assert!(world.cloud.stop(), "SIGTERM ends it well");
    world.cloud.again();
    world.routes(5);
    let mut journal = world.journal();
    world.set(json!({"name": "renamed"}));
    assert_eq!(journal.tally(), counts([("modify Logical_Router", 1)]), "there was nothing left to do");
}

#[test]
fn a_server_that_starts_knows_the_chassis_before_anybody_asks() {
    let mut world = World::new(json!({}));
    for _ in 0..3 {
        world.cloud.crash();
        // The first request of all needs the availability zones and a binding of the port.
        let router =
            json!({"availability_zone_hints": ["az-ch2"], "external_gateway_info": {"network_id": world.n1}});
        let router = id(&world.create("routers", "router", router));
        let ports = world.cloud.get(&format!("ports?device_id={router}"));
        let chassis = world.chassis_of(&id(&ports["ports"][0]));
        assert_eq!(chassis, [(1, "ch2".to_owned())]);
        world.delete(&format!("routers/{router}"));
    }
}

#[test]
fn scenario_56_what_others_break_is_mended_and_what_they_add_is_kept() {
    let world = World::new(json!({"name": "R"}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let route = world.routes(1)[0].clone();
    let port = world.cloud.rows("Logical_Router_Port")[0]["name"].as_str().unwrap().to_owned();
    let nbctl = |line: &str| world.cloud.nbctl(line);
    nbctl(&format!("set Logical_Router {} external_ids:junk=kept options:theirs=kept", world.router));
    nbctl(&format!("set Logical_Router_Port {port} external_ids:junk=kept"));
    nbctl("lb-add theirs 203.0.113.9:80 10.0.0.9:80");
    nbctl(&format!("add Logical_Router {} load_balancer {}", world.router, balancer(&world)));
    nbctl(&format!("set Logical_Router_Port {port} options:gateway_mtu=99"));
    let uuid = route["_uuid"].as_str().unwrap();
    nbctl(&format!("remove Logical_Router {} static_routes {uuid}", world.router));
    let begin = Instant::now();
    let again = eventually("the route is back", || {
        let routes = world.cloud.rows("Logical_Router_Static_Route");
        (routes.len() == 1).then(|| routes[0].clone())
    });
    assert_eq!(again, route, "the same row");
    eventually("the option is mended", || {
        let ports = world.cloud.rows("Logical_Router_Port");
        (ports[0]["options"]["gateway_mtu"] == "1500").then_some(())
    });
    println!("both were mended after {:?}", begin.elapsed());
    // Later writes of the router keep the foreign keys.
    world.set(json!({"name": "renamed"}));
    let router = &world.cloud.rows("Logical_Router")[0];
    assert_eq!(router["external_ids"]["neutron:router_name"], "renamed");
    assert_eq!(
        (&router["external_ids"]["junk"], &router["options"]["theirs"]),
        (&json!("kept"), &json!("kept"))
    );
    assert_eq!(router["load_balancer"], balancer(&world));
    assert_eq!(world.cloud.rows("Logical_Router_Port")[0]["external_ids"]["junk"], "kept");
}

/// The load balancer of another program.
fn balancer(world: &World) -> String {
    let rows: Vec<Value> = world.cloud.rows("Load_Balancer");
    let names: BTreeSet<&str> = each(&rows, "name");
    assert_eq!(names, BTreeSet::from(["theirs"]));
    rows[0]["_uuid"].as_str().unwrap().to_owned()
}
