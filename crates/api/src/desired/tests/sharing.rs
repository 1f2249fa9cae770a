//! Scenario 41: BFD sessions that routers share, and the takeover of a session.

use std::net::IpAddr;

use ovn::ident::name;

use super::scene::*;
use super::*;
use crate::model::{Placement, Port, Router};
use crate::report::BfdState;
use crate::resource::fixture::id;
use crate::settings::BfdSharing;

const HOP: &str = "192.0.2.1";

fn hop() -> IpAddr {
    HOP.parse().unwrap()
}

/// Two routers with a gateway each on N1, on the same chassis.
fn two_routers() -> Scene {
    let mut scene = Scene::new();
    for (router, port, address) in [(0x40, 0x41, "192.0.2.100"), (0x48, 0x49, "192.0.2.101")] {
        scene.router(router).gateway(port, router, N1, S1, address, &["ch1", "ch2"]);
        scene.edit(|txn| {
            drop(txn.edit::<Router>(&id(router), |router| router.enable_default_route_bfd = true))
        });
    }
    scene
}

/// The session of each default route, by gateway port.
fn watched(rows: &Rows) -> BTreeMap<String, Option<String>> {
    let routes = rows.table("Logical_Router_Static_Route").into_iter();
    let default = routes.filter(|(_, row)| row["ip_prefix"] == "0.0.0.0/0");
    default.map(|(_, row)| (row["output_port"].clone(), row.get("bfd").cloned())).collect()
}

/// Updates the report as if the desired rows had been written.
fn written(scene: &mut Scene) {
    let all = rows(scene);
    let routes = all
        .table("Logical_Router_Static_Route")
        .into_iter()
        .filter(|(_, row)| row["ip_prefix"] == "0.0.0.0/0");
    scene.snapshot.report.routes =
        routes.map(|(id, row)| (id.uuid, row.get("bfd").and_then(|bfd| Uuid::try_parse(bfd).ok()))).collect();
    scene.refresh();
}

#[test]
fn scenario_41_normally_each_port_has_its_own() {
    let all = rows(&two_routers());
    assert_eq!(all.column("BFD", "logical_port"), [0x41, 0x49].map(|n| name::router_port(id(n))));
    assert_eq!(watched(&all).values().collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn scenario_41_ports_on_one_chassis_share() {
    let mut scene = two_routers();
    scene.settings(|settings| settings.bfd_session_sharing = BfdSharing::Chassis);
    let all = rows(&scene);
    let shared = bfd::row(id(0x41), hop()).to_string();
    assert_eq!(all.column("BFD", "logical_port"), [name::router_port(id(0x41))]);
    assert!(watched(&all).values().all(|bfd| *bfd == Some(shared.clone())));
    // A different primary needs a different session.
    scene.put(placement(0x49, &["ch2", "ch1"]));
    assert_eq!(rows(&scene).table("BFD").len(), 2);
}

#[test]
fn scenario_41_a_port_that_joins_takes_no_session_over() {
    let mut scene = two_routers();
    scene.settings(|settings| settings.bfd_session_sharing = BfdSharing::Chassis);
    scene.snapshot.report.set_bfd(name::router_port(id(0x41)), hop(), Some(BfdState::Up));
    written(&mut scene);
    // Its id is lower than the owner's.
    scene.router(0x38).gateway(0x39, 0x38, N1, S1, "192.0.2.103", &["ch1", "ch2"]);
    scene.edit(|txn| drop(txn.edit::<Router>(&id(0x38), |router| router.enable_default_route_bfd = true)));
    let all = rows(&scene);
    assert_eq!(all.column("BFD", "logical_port"), [name::router_port(id(0x41))]);
    let shared = bfd::row(id(0x41), hop()).to_string();
    assert_eq!(watched(&all).into_values().collect::<Vec<_>>(), vec![Some(shared.clone()); 3]);
    // It does not take over after all rows are written either, nor while the session is down.
    written(&mut scene);
    scene.snapshot.report.set_bfd(name::router_port(id(0x41)), hop(), Some(BfdState::Down));
    scene.refresh();
    assert_eq!(watched(&rows(&scene)).into_values().collect::<Vec<_>>(), vec![Some(shared); 3]);
}

#[test]
fn scenario_41_two_ports_of_one_router_never_share() {
    let mut scene = two_routers();
    scene.settings(|settings| settings.bfd_session_sharing = BfdSharing::Chassis);
    scene.gateway(0x42, 0x40, N1, S1, "192.0.2.102", &["ch1", "ch2"]);
    scene.edit(|txn| drop(txn.edit::<Router>(&id(0x40), |router| router.enable_default_route_ecmp = true)));
    let all = rows(&scene);
    assert_eq!(all.column("BFD", "logical_port"), [0x41, 0x42].map(|n| name::router_port(id(n))));
}

#[test]
fn scenario_41_the_owner_leaves() {
    let mut scene = two_routers();
    scene.settings(|settings| settings.bfd_session_sharing = BfdSharing::Chassis);
    scene.snapshot.report.set_bfd(name::router_port(id(0x41)), hop(), Some(BfdState::Up));
    written(&mut scene);
    // The owner's router is deleted.
    scene.edit(|txn| {
        txn.remove::<Port>(&id(0x41));
        txn.remove::<Placement>(&id(0x41));
        txn.remove::<Router>(&id(0x40));
    });
    let left = name::router_port(id(0x49));
    let session = bfd::row(id(0x49), hop());
    let all = rows(&scene);
    assert_eq!(watched(&all), BTreeMap::from([(left.clone(), None)]), "the route stays, watched by nobody");
    let starter = all.one("Logical_Router_Static_Route", "ip_prefix", "192.0.2.1/32");
    assert_eq!(starter["bfd"], session.to_string(), "a host route has the session started");
    written(&mut scene);
    assert_eq!(scene.snapshot.sessions.unsettled().collect::<Vec<_>>(), [session]);
    // The session comes up, and the route uses it.
    let mut up = scene.clone();
    up.snapshot.report.set_bfd(left.clone(), hop(), Some(BfdState::Up));
    up.refresh();
    let all = rows(&up);
    assert_eq!(watched(&all), BTreeMap::from([(left.clone(), Some(session.to_string()))]));
    assert!(all.table("Logical_Router_Static_Route").iter().all(|(_, row)| row["ip_prefix"] == "0.0.0.0/0"));
    // The session stays down until the wait is over.
    scene.snapshot.late.overdue.insert(session);
    scene.refresh();
    assert_eq!(watched(&rows(&scene)), BTreeMap::from([(left.clone(), Some(session.to_string()))]));
    written(&mut scene);
    assert_eq!(scene.snapshot.sessions.unsettled().count(), 0);
    // From then on the route uses the session, whatever its state.
    scene.snapshot.report.set_bfd(left.clone(), hop(), Some(BfdState::Down));
    scene.snapshot.late.overdue.remove(&session);
    scene.refresh();
    assert_eq!(watched(&rows(&scene)), BTreeMap::from([(left, Some(session.to_string()))]));
}
