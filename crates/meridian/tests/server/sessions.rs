//! Scenarios 41 and 42: BFD sessions that routers share, and next hops that change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};
use crate::journal::Kind;
use crate::world::{World, each, id, members};

const ROUTE: &str = "Logical_Router_Static_Route";

/// Creates another router with a gateway on N1 and with BFD.
fn second_router(world: &World) -> String {
    let router = world.create("routers", "router", json!({"name": "R2", "enable_default_route_bfd": true}));
    let path = format!("routers/{}/add_external_gateways", id(&router));
    world.put(&path, json!({"router": {"external_gateways": [{ "network_id": world.n1 }]}}));
    id(&router)
}

/// Two routers on one chassis that share one session, which is up.
fn sharing() -> (World, String) {
    let cloud = Cloud::configured("[network]\nbfd_session_sharing = \"chassis\"\n");
    let world = World::on(cloud, &["ch1"], json!({"name": "R", "enable_default_route_bfd": true}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let other = second_router(&world);
    let sessions = world.cloud.rows("BFD");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    // If the second router has the lower id, the first waits for its session.
    bring_up(&world, &sessions[0]["logical_port"]);
    eventually("both routes hang on it", || {
        let routes = world.cloud.rows(ROUTE);
        (routes.len() == 2 && routes.iter().all(|route| route["bfd"] == sessions[0]["_uuid"])).then_some(())
    });
    (world, other)
}

/// The default routes, without host routes that only start a session.
fn default_routes(world: &World) -> Vec<Value> {
    let mut routes = world.cloud.rows(ROUTE);
    routes.retain(|route| route["ip_prefix"] == "0.0.0.0/0");
    routes
}

/// Marks the session of a port as up in the Southbound, as a chassis would, and repeats that if needed.
fn bring_up(world: &World, port: &Value) {
    eventually("the session is up", || {
        let sessions = world.cloud.southbound("BFD");
        let session = sessions.iter().find(|row| row["logical_port"] == *port)?;
        if session["status"] != "up" {
            world.cloud.sbctl(&format!("set BFD {} status=up", session["_uuid"].as_str().unwrap()));
        }
        let rows = world.cloud.rows("BFD");
        rows.iter().find(|row| row["logical_port"] == *port && row["status"] == "up").map(drop)
    });
}

#[test]
fn scenario_41_normally_every_router_has_its_own_session() {
    let world = World::on(Cloud::start(), &["ch1"], json!({"name": "R", "enable_default_route_bfd": true}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    second_router(&world);
    let (sessions, routes) = (world.cloud.rows("BFD"), default_routes(&world));
    assert_eq!((sessions.len(), routes.len()), (2, 2));
    assert_eq!(each(&routes, "bfd"), each(&sessions, "_uuid"));
    assert_eq!(each(&sessions, "logical_port").len(), 2);
}

#[test]
fn scenario_41_routers_on_one_chassis_share_a_session() {
    let (world, _) = sharing();
    let (sessions, routes) = (world.cloud.rows("BFD"), default_routes(&world));
    assert_eq!((sessions.len(), routes.len()), (1, 2), "{sessions:?}");
    assert_eq!(each(&routes, "bfd"), each(&sessions, "_uuid"), "both hang on it");
    let southbound = world.cloud.southbound("BFD");
    assert_eq!(southbound.len(), 1, "and there is one session for chassis to run: {southbound:?}");
    assert_eq!(sessions[0]["dst_ip"], "192.0.2.1");
    let first: Vec<String> = world.gateway_ports().iter().map(|port| format!("lrp-{port}")).collect();
    let owner = sessions[0]["logical_port"].as_str().unwrap().to_owned();
    assert_eq!(
        vec![owner],
        first,
        "it is that of the port that had it before the other came, whatever their ids"
    );
    // Two gateways of one router need a session each, because they must fail independently.
    world.set(json!({"enable_default_route_ecmp": true}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let own: BTreeSet<String> = world.gateway_ports().iter().map(|port| format!("lrp-{port}")).collect();
    for port in each(&world.cloud.rows("BFD"), "logical_port") {
        bring_up(&world, &json!(port));
    }
    eventually("the router has a row for each of its gateways", || {
        let routes = default_routes(&world).into_iter();
        let watched = routes.filter(|route| own.contains(route["output_port"].as_str().unwrap()));
        let sessions: BTreeSet<String> =
            watched.filter_map(|route| Some(route["bfd"].as_str()?.into())).collect();
        (sessions.len() == 2).then_some(())
    });
    assert_eq!(world.cloud.rows("BFD").len(), 2, "of which the other router uses one");
}

/// Deletes the router that owns the session, and checks the route of the other router in the journal.
fn owner_leaves(come_up: bool) {
    let (world, other) = sharing();
    let owner = world.cloud.rows("BFD")[0]["logical_port"].clone();
    let own: BTreeSet<String> = world.gateway_ports().iter().map(|port| format!("lrp-{port}")).collect();
    let (leaves, stays) = if own.contains(owner.as_str().unwrap()) {
        (world.router.clone(), other)
    } else {
        (other, world.router.clone())
    };
    let route = default_routes(&world).into_iter().find(|route| route["output_port"] != owner).unwrap();
    let left = route["output_port"].clone();
    let mut journal = world.journal();
    world.delete(&format!("routers/{leaves}"));

    // The route stays, without a session. A host route starts the new session.
    let open = default_routes(&world);
    assert_eq!((open.len(), &open[0]["_uuid"]), (1, &route["_uuid"]));
    assert!(
        members(&open[0]["bfd"]).is_empty(),
        "it must not hang on a session that is only starting: {open:?}"
    );
    let sessions = world.cloud.rows("BFD");
    assert_eq!((sessions.len(), &sessions[0]["logical_port"]), (1, &left));
    let starter =
        world.cloud.rows(ROUTE).into_iter().find(|route| route["ip_prefix"] != "0.0.0.0/0").unwrap();
    assert_eq!(starter["ip_prefix"], "192.0.2.1/32");
    assert_eq!((&starter["output_port"], &starter["bfd"]), (&left, &sessions[0]["_uuid"]));

    if come_up {
        bring_up(&world, &left);
    }
    // The route gets its own session whether or not it came up, and the host route is removed.
    eventually("the route has its own session", || {
        let routes = world.cloud.rows(ROUTE);
        (routes.len() == 1 && routes[0]["bfd"] == sessions[0]["_uuid"]).then_some(())
    });
    let uuid = route["_uuid"].as_str().unwrap();
    let deleted = journal
        .next()
        .iter()
        .flat_map(|it| it.0.clone())
        .any(|it| it.uuid == uuid && it.kind == Kind::Delete);
    assert!(!deleted, "the route was never gone");
    assert_eq!(world.cloud.get(&format!("routers/{stays}"))["router"]["status"], "ACTIVE");
}

#[test]
fn scenario_41_the_owner_leaves_and_its_successor_comes_up() {
    owner_leaves(true);
}

#[test]
fn scenario_41_the_owner_leaves_and_its_successor_does_not_come_up() {
    owner_leaves(false);
}

#[test]
fn scenario_42_the_gateway_of_a_subnet_moves() {
    let world = World::new(json!({"name": "R", "enable_default_route_bfd": true}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    second_router(&world);
    let subnet = format!("subnets/{}", world.s1);
    let point = |gateway: Value| world.put(&subnet, json!({"subnet": {"gateway_ip": gateway}}));
    let check = |hop: &str| {
        let (routes, sessions) = (world.cloud.rows(ROUTE), world.cloud.rows("BFD"));
        assert_eq!((routes.len(), sessions.len()), (2, 2), "of both routers: {routes:?} {sessions:?}");
        assert_eq!(each(&routes, "nexthop"), BTreeSet::from([hop]));
        assert_eq!(each(&sessions, "dst_ip"), BTreeSet::from([hop]));
        for route in &routes {
            let session = sessions.iter().find(|row| row["_uuid"] == route["bfd"]).unwrap();
            assert_eq!(session["logical_port"], route["output_port"]);
        }
    };
    check("192.0.2.1");
    let pools = json!([{"start": "192.0.2.2", "end": "192.0.2.200"}]);
    world.put(&subnet, json!({"subnet": {"allocation_pools": pools}}));
    let mut journal = world.journal();
    point(json!("192.0.2.254"));
    check("192.0.2.254");
    assert_eq!(journal.next().len(), 1, "both routers in one transaction");
    point(Value::Null);
    assert_eq!((world.cloud.rows(ROUTE).len(), world.cloud.rows("BFD").len()), (0, 0));
    point(json!("192.0.2.1"));
    check("192.0.2.1");
    let written = journal.tally();
    assert!(
        written.keys().all(|what| !what.contains("Logical_Router_Port")),
        "no port is touched: {written:?}"
    );
}
