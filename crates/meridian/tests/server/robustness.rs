//! Scenarios 54, 55 and 57, and other faults: databases that are down, return, or are lost, and SIGKILL at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lab::postgres::Postgres;
use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually, raw, try_raw};
use crate::journal::{Journal, Kind};
use crate::plant::Plant;
use crate::site::{Site, internal};
use crate::world::id;

/// Asserts that the Northbound equals the API's objects, without relying on the server's own plan.
#[track_caller]
pub(crate) fn northbound_is_what_the_api_says(cloud: &Cloud) {
    let column = |table: &str, name: &str| -> Vec<String> {
        let mut all: Vec<_> =
            cloud.rows(table).iter().map(|row| row[name].as_str().unwrap().to_owned()).collect();
        all.sort();
        all
    };
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    let list = |path: &str| cloud.get(path)[path].as_array().unwrap().clone();
    let (ports, networks, routers) = (list("ports"), list("networks"), list("routers"));
    let switched = ports.iter().filter(|port| port["device_owner"] != "network:floatingip");
    let localnets = networks.iter().filter(|network| network["router:external"] == true).count();
    let names: Vec<_> = column("Logical_Switch_Port", "name")
        .into_iter()
        .filter(|name| !name.starts_with("provnet-"))
        .collect();
    assert_eq!(names, sorted(switched.map(id).collect()));
    assert_eq!(cloud.rows("Logical_Switch_Port").len() - names.len(), localnets);
    assert_eq!(column("Logical_Switch", "_uuid"), sorted(networks.iter().map(id).collect()));
    assert_eq!(column("Logical_Router", "_uuid"), sorted(routers.iter().map(id).collect()));
    let owned = |owner: &str| ports.iter().filter(|port| port["device_owner"] == owner).count();
    let (gateways, interfaces) = (owned("network:router_gateway"), owned("network:router_interface"));
    assert_eq!(cloud.rows("Logical_Router_Port").len(), gateways + interfaces);
    assert_eq!(cloud.rows("HA_Chassis_Group").len(), gateways);
}

/// Sends fifty requests of all kinds, all of which must succeed.
#[track_caller]
fn fifty(site: &Site, network: &str, round: &str) {
    let ask = |method: &str, path: &str, body: Value| {
        let body = Some(body).filter(|body| !body.is_null());
        let answer = site.cloud.ask(method, &format!("/v2.0/{path}"), body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.body
    };
    let ports: Vec<String> = (0..20)
        .map(|n| {
            let port = json!({"port": {"network_id": network, "name": format!("{round}-{n}")}});
            id(&ask("POST", "ports", port)["port"])
        })
        .collect();
    for port in &ports[..10] {
        ask("PUT", &format!("ports/{port}"), json!({"port": {"name": format!("{round} renamed")}}));
    }
    for port in &ports[15..] {
        ask("DELETE", &format!("ports/{port}"), Value::Null);
    }
    for n in 0..5 {
        let router =
            id(&ask("POST", "routers", json!({"router": {"name": format!("{round}-{n}")}}))["router"]);
        let gateways =
            json!({"router": {"external_gateways": [{"network_id": site.n1}, {"network_id": site.n2}]}});
        ask("PUT", &format!("routers/{router}/add_external_gateways"), gateways);
    }
    for _ in 0..5 {
        ask("GET", "ports", Value::Null);
    }
}

#[test]
fn scenario_54_requests_are_taken_while_the_northbound_is_away() {
    let mut plant = Plant::start();
    let site = Site::with_three(Cloud::on(plant.dir(), &[]));
    let (network, _) = internal(&site.cloud, "net", "10.0.0.0/16");
    site.cloud.converged();
    // The database server first hangs, then is gone.
    plant.freeze();
    fifty(&site, &network, "frozen");
    plant.thaw();
    site.cloud.converged();
    northbound_is_what_the_api_says(&site.cloud);
    plant.kill();
    fifty(&site, &network, "killed");
    plant.revive();
    site.cloud.converged();
    northbound_is_what_the_api_says(&site.cloud);
}

/// Tables whose rows do not change when ports are bound elsewhere.
const BASE: &[&str] = &[
    "ACL",
    "BFD",
    "DHCP_Options",
    "HA_Chassis",
    "HA_Chassis_Group",
    "Logical_Router",
    "Logical_Router_Port",
    "Logical_Router_Static_Route",
    "Logical_Switch_Port",
    "NAT",
];

/// The rows of tables by UUID, without the columns that northd writes.
fn rows(cloud: &Cloud, tables: &[&str]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for table in tables {
        for mut row in cloud.rows(table) {
            let columns = row.as_object_mut().unwrap();
            let uuid = columns.remove("_uuid").unwrap();
            for theirs in ["up", "tag", "dynamic_addresses", "status"] {
                columns.remove(theirs);
            }
            all.insert(format!("{table} {}", uuid.as_str().unwrap()), row);
        }
    }
    all
}

#[test]
fn scenario_55_a_lost_northbound_is_rebuilt_under_load_with_the_same_rows() {
    let mut plant = Plant::start();
    let site = Site::with_three(Cloud::on(plant.dir(), &[]));
    let cloud = &site.cloud;
    let (network, subnet) = internal(cloud, "net", "10.1.0.0/24");
    let router = json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    let router = site.router(router, &[&site.n1, &site.n1, &site.n2]);
    cloud.put(&format!("routers/{router}/add_router_interface"), json!({"subnet_id": subnet}));
    let port = cloud.create("ports", "port", json!({"network_id": network}));
    let floating = json!({"floating_network_id": site.n2, "port_id": port["id"]});
    let floating = cloud.create("floatingips", "floatingip", floating);
    let (busy, _) = internal(cloud, "busy", "10.2.0.0/16");
    cloud.converged();
    let shown = || cloud.nbctl(&format!("show {router}"));
    let (before, show) = (rows(cloud, BASE), shown());
    assert_eq!(cloud.rows("BFD").len(), 3);
    assert_eq!(cloud.rows("HA_Chassis_Group").len(), 3);
    assert!(before.contains_key(&format!("NAT {}", id(&floating))));

    let stop = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let load = |n: usize| {
            let (stop, busy) = (&stop, &busy);
            move || {
                let mut made = 0;
                while !stop.load(Ordering::Relaxed) {
                    let body = json!({"port": {"network_id": busy, "name": format!("load-{n}")}}).to_string();
                    let answer = raw(cloud.url(), &[], "POST", "/v2.0/ports", Some(&body));
                    assert_eq!(answer.status, 201, "{answer:?}");
                    made += 1;
                }
                made
            }
        };
        let workers: Vec<_> = (0..3).map(|n| scope.spawn(load(n))).collect();
        thread::sleep(Duration::from_millis(300));
        plant.kill();
        plant.lose();
        thread::sleep(Duration::from_millis(300));
        plant.revive();
        eventually("the router is back", || (shown() == show).then_some(()));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    });
    println!("{made} ports were made meanwhile");
    cloud.converged();
    let after = rows(cloud, BASE);
    for (row, columns) in &before {
        assert_eq!(after.get(row), Some(columns), "{row}");
    }
    assert_eq!(shown(), show);
    northbound_is_what_the_api_says(cloud);
}

#[test]
fn scenario_57_a_hundred_renames_touch_the_router_s_own_row_and_nothing_else() {
    let site = Site::with_three(Cloud::start());
    let router = json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    let router = site.router(router, &[&site.n1, &site.n2]);
    site.cloud.converged();
    let mut journal = Journal::of(&site.cloud);
    for n in 0..100 {
        let path = format!("routers/{router}?wait=ovn");
        site.cloud.put(&path, json!({"router": {"name": format!("R{n}")}}));
    }
    let written = journal.next();
    assert_eq!(written.len(), 100, "one transaction for each rename");
    for transaction in &written {
        let [change] = transaction.0.as_slice() else { panic!("one row: {transaction:?}") };
        assert_eq!(
            (change.kind, change.table.as_str(), &change.uuid),
            (Kind::Modify, "Logical_Router", &router)
        );
        assert_eq!(change.columns, ["external_ids".to_owned()].into());
    }
    let row = site.cloud.rows("Logical_Router").remove(0);
    assert_eq!(row["external_ids"]["neutron:router_name"], "R99");
}

#[test]
fn a_database_that_restarts_is_answered_for_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(&dir.path().join("pg")).unwrap();
    postgres.create_database("meridian").unwrap();
    let cloud = Cloud::with(&["--database", &postgres.url("meridian")]);
    let network = id(&cloud.create("networks", "network", json!({"name": "before"})));
    assert_eq!(cloud.status()["healthy"], true, "{:#}", cloud.status());

    postgres.daemon().kill().unwrap();
    for (method, path, body) in [
        ("GET", "/v2.0/networks", None),
        ("GET", &*format!("/v2.0/networks/{network}"), None),
        ("POST", "/v2.0/networks", Some(json!({"network": {"name": "meanwhile"}}))),
    ] {
        let answer = cloud.ask(method, path, body);
        assert_eq!(answer.status, 503, "{method} {path}: {answer:?}");
        assert_eq!(answer.body["NeutronError"]["type"], "ServiceUnavailable", "{answer:?}");
    }
    let status = cloud.status();
    assert_eq!(status["healthy"], false);
    assert!(status["trouble"].to_string().contains("PostgreSQL is disconnected"), "{status:#}");

    postgres.start_again().unwrap();
    eventually("requests work again", || {
        (cloud.ask("GET", "/v2.0/networks", None).status == 200).then_some(())
    });
    cloud.create("networks", "network", json!({"name": "after"}));
    let names: BTreeSet<String> = cloud.get("networks")["networks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|network| network["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["after".to_owned(), "before".to_owned()].into());
    eventually("it is healthy again", || (cloud.status()["healthy"] == true).then_some(()));
    cloud.converged();
    northbound_is_what_the_api_says(&cloud);
}

/// Creates a port with a unique name, through crashes of the server. The outcome of an unanswered request is unknown, so it checks for the
/// port before each retry.
fn make_surely(url: &Mutex<String>, network: &str, name: &str) {
    let body = json!({"port": {"network_id": network, "name": name}}).to_string();
    loop {
        let now = || url.lock().unwrap().clone();
        match try_raw(&now(), &[], "POST", "/v2.0/ports", Some(&body)) {
            Ok(answer) if answer.status == 201 => return,
            Ok(answer) => panic!("{name}: {answer:?}"),
            Err(_) => {}
        }
        loop {
            thread::sleep(Duration::from_millis(5));
            match try_raw(&now(), &[], "GET", &format!("/v2.0/ports?name={name}"), None) {
                Ok(answer) if answer.body["ports"] == json!([]) => break,
                Ok(answer) if answer.status == 200 => return,
                Ok(answer) => panic!("{name}: {answer:?}"),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn killed_twenty_times_under_load_nothing_is_doubled_or_lost() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let plant = Plant::start();
    let mut site = Site::with_three(Cloud::on(plant.dir(), &[]));
    let (network, _) = internal(&site.cloud, "net", "10.0.0.0/16");
    let router = site.router(json!({"name": "R"}), &[&site.n1, &site.n2]);
    let url = Arc::new(Mutex::new(site.cloud.url().to_owned()));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (url, stop, network) = (Arc::clone(&url), Arc::clone(&stop), network.clone());
            thread::spawn(move || {
                let mut names = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let name = format!("w{worker}-{}", names.len());
                    make_surely(&url, &network, &name);
                    names.push(name);
                }
                names
            })
        })
        .collect();
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(chance.u64(1..120)));
        site.cloud.kill();
        site.cloud.again();
        *url.lock().unwrap() = site.cloud.url().to_owned();
    }
    stop.store(true, Ordering::Relaxed);
    let wanted: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    wanted.sort_unstable();
    println!("{} ports over 20 kills", wanted.len());
    let ports = site.cloud.get(&format!("ports?network_id={network}"))["ports"].as_array().unwrap().clone();
    let mut made: Vec<&str> = ports
        .iter()
        .filter(|port| port["device_owner"] != "network:distributed")
        .map(|port| port["name"].as_str().unwrap())
        .collect();
    made.sort_unstable();
    assert_eq!(made, wanted, "seed {seed}");
    let addresses: BTreeSet<String> = ports.iter().map(|port| port["fixed_ips"].to_string()).collect();
    assert_eq!(addresses.len(), ports.len(), "seed {seed}: an address was given twice");
    site.cloud.converged();
    northbound_is_what_the_api_says(&site.cloud);
    assert_eq!(site.gateway_ports(&router).len(), 2);
}
