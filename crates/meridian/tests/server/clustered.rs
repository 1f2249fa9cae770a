//! Scenario 59 on a three-member Northbound: its leader dies under load, and so does the writing server.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use central::{Daemon, Database, Server};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually, try_raw};
use crate::plant::northd;
use crate::raft::Raft;
use crate::robustness::northbound_is_what_the_api_says;
use crate::site::{Site, internal};
use crate::two_servers::{postgres, waits_for};
use crate::world::id;

/// OVN's databases, the Northbound of three members, and ovn-northd.
pub(crate) struct Plant {
    // The fields are dropped in this order, so that northd does not outlive its databases.
    _northd: Daemon,
    /// The Northbound.
    pub(crate) nb: Raft,
    _sb: Server,
    /// The directory with the sockets.
    pub(crate) dir: tempfile::TempDir,
}

impl Plant {
    pub(crate) fn start() -> Plant {
        let dir = tempfile::tempdir().unwrap();
        let nb = Raft::start(dir.path());
        let sb = Server::start(dir.path(), Database::Southbound).unwrap();
        let northd = northd(dir.path(), &nb.remotes(&[0, 1, 2]), &sb.remote());
        Plant { _northd: northd, nb, _sb: sb, dir }
    }
}

/// The most gateways that one worker adds to its router.
const GATEWAYS: usize = 12;

/// The load of clients that use both servers until it stops, with its results.
struct Load {
    /// The URLs of the servers. They change when a server restarts.
    servers: Mutex<[String; 2]>,
    stop: AtomicBool,
    /// Whether a server was stopped with SIGSTOP, and its transaction with it.
    slept: AtomicBool,
    answered: AtomicUsize,
    /// The names of the ports that clients requested.
    asked: Mutex<Vec<String>>,
    /// The ids of the ports whose creation was answered.
    made: Mutex<Vec<String>>,
}

impl Load {
    /// Sends one request to one of the servers in turn. `None` if the server ended meanwhile; then the outcome is unknown.
    fn ask(&self, turn: usize, method: &str, path: &str, body: &Value) -> Option<Value> {
        let url = self.servers.lock().unwrap()[turn % 2].clone();
        let headers = [("X-Auth-Token", "admin")];
        let answer =
            try_raw(&url, &headers, method, &format!("/v2.0/{path}"), Some(&body.to_string())).ok()?;
        if answer.status == 503 && self.slept.load(Ordering::Relaxed) {
            return None;
        }
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(answer.body)
    }

    /// Creates ports, and now and then a gateway for a router. Returns the number of confirmed gateways and the number of requested ones.
    fn worker(&self, n: usize, network: &str, router: &str, external: [&str; 2]) -> (usize, usize) {
        let (mut answered, mut asked) = (0, 0);
        for turn in n.. {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("p{n}-{turn}");
            self.asked.lock().unwrap().push(name.clone());
            let port = json!({"port": {"network_id": network, "name": name}});
            if let Some(made) = self.ask(turn, "POST", "ports", &port) {
                self.made.lock().unwrap().push(id(&made["port"]));
            }
            if turn % 8 == 0 && asked < GATEWAYS {
                let element = json!({"network_id": external[asked % 2]});
                let body = json!({"router": {"external_gateways": [element]}});
                let path = format!("routers/{router}/add_external_gateways");
                asked += 1;
                answered += usize::from(self.ask(turn / 8, "PUT", &path, &body).is_some());
            }
            thread::sleep(Duration::from_millis(40));
        }
        (answered, asked)
    }

    /// Waits until some more requests are answered.
    fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually("requests are answered", || {
            (self.answered.load(Ordering::Relaxed) > before + 20).then_some(())
        });
    }
}

/// Creates ports until an answer confirms that the Northbound has the port.
fn writes(cloud: &Cloud, network: &str) {
    eventually("what is asked for is in the Northbound", || {
        let port = json!({"port": {"network_id": network, "name": "sign"}});
        let answer = cloud.ask("POST", "/v2.0/ports?wait=ovn", Some(port));
        assert_eq!(answer.status, 201, "{answer:?}");
        (answer.waited.as_deref() == Some("nb")).then_some(())
    });
}

/// The generation of the writer, which every new writer raises.
fn generation(cloud: &Cloud) -> u64 {
    let global = cloud.rows("NB_Global");
    global[0]["external_ids"]["meridian:generation:meridian"].as_str().unwrap().parse().unwrap()
}

#[test]
fn scenario_59_the_leader_of_the_northbound_dies_and_then_the_server_that_writes() {
    let (mut plant, (postgres, _dir)) = (Plant::start(), postgres());
    let url = postgres.url("meridian");
    let start = |plant: &Plant| Cloud::on(plant.dir.path(), &["--database", &url]);
    let Site { cloud: mut first, n1, n2 } = Site::with_three(start(&plant));
    let mut second = start(&plant);
    let (network, _) = internal(&first, "net", "10.0.0.0/16");
    let routers: Vec<String> = (0..4)
        .map(|_| id(&first.create("routers", "router", json!({"enable_default_route_ecmp": true}))))
        .collect();
    let load = Load {
        servers: Mutex::new([first.url().to_owned(), second.url().to_owned()]),
        stop: AtomicBool::new(false),
        slept: AtomicBool::new(false),
        answered: AtomicUsize::new(0),
        asked: Mutex::default(),
        made: Mutex::default(),
    };
    let gateways: Vec<(usize, usize)> = thread::scope(|scope| {
        let (load, network) = (&load, network.as_str());
        let external = [n1.as_str(), n2.as_str()];
        let workers: Vec<_> = routers
            .iter()
            .enumerate()
            .map(|(n, router)| scope.spawn(move || load.worker(n, network, router, external)))
            .collect();
        // If the test fails here, the workers still have to end.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            load.goes_on();
            let leader = plant.nb.leader();
            let mut known = generation(&first);
            plant.nb.kill(leader);
            writes(&first, network);
            writes(&second, network);
            load.goes_on();
            assert!(generation(&first) > known, "there is a new leader, so somebody became the writer again");
            known = generation(&first);
            // Either server may be the writer now.
            if waits_for(&first).is_some() {
                std::mem::swap(&mut first, &mut second);
            }
            assert_eq!((waits_for(&first), waits_for(&second).is_some()), (None, true), "one writes");
            first.kill();
            writes(&second, network);
            load.goes_on();
            assert_eq!(waits_for(&second), None, "it writes now");
            assert!(generation(&second) > known);
            // The dead processes restart, and the leader dies once more.
            first.again();
            *load.servers.lock().unwrap() = [first.url().to_owned(), second.url().to_owned()];
            plant.nb.revive(leader);
            load.goes_on();
            let leader = plant.nb.leader();
            plant.nb.kill(leader);
            writes(&first, network);
            writes(&second, network);
            load.goes_on();
            // A writer that sleeps through a change of leaders is no longer the writer when it wakes up.
            if waits_for(&first).is_some() {
                std::mem::swap(&mut first, &mut second);
            }
            load.slept.store(true, Ordering::Relaxed);
            first.freeze();
            plant.nb.revive(leader);
            let leader = plant.nb.leader();
            plant.nb.kill(leader);
            writes(&second, network);
            let known = generation(&second);
            first.thaw();
            load.goes_on();
            eventually("it waits for its turn", || waits_for(&first).filter(|what| what.contains("lock")));
            assert_eq!((waits_for(&second), generation(&second)), (None, known), "the other went on writing");
        }));
        load.stop.store(true, Ordering::Relaxed);
        let gateways = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        gateways
    });

    // Both servers have every confirmed object exactly once.
    let (asked, made) = (load.asked.into_inner().unwrap(), load.made.into_inner().unwrap());
    println!("{} ports were asked for, {} answered", asked.len(), made.len());
    for cloud in [&first, &second] {
        let ports = cloud.get(&format!("ports?network_id={network}&device_owner="))["ports"].clone();
        let ports = ports.as_array().unwrap();
        let stored: BTreeSet<String> = ports.iter().map(id).collect();
        assert!(made.iter().all(|id| stored.contains(id)), "a port is lost");
        let mut names: Vec<&str> = ports.iter().map(|port| port["name"].as_str().unwrap()).collect();
        names.retain(|name| *name != "sign");
        let different: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len(), "a port is there twice");
        assert!(different.iter().all(|name| asked.iter().any(|asked| asked == name)));
        for (router, (answered, asked)) in routers.iter().zip(&gateways) {
            let router = cloud.get(&format!("routers/{router}"))["router"].clone();
            let count = router["external_gateways"].as_array().unwrap().len();
            assert!((*answered..=*asked).contains(&count), "{count} gateways of {answered} to {asked}");
        }
    }
    let writers = [&first, &second].map(|cloud| waits_for(cloud).is_none());
    assert_eq!(writers.iter().filter(|writes| **writes).count(), 1, "one writes");
    let writer = if writers[0] { &first } else { &second };
    writer.converged();
    northbound_is_what_the_api_says(writer);
    let count = writer.rows("HA_Chassis_Group").len();
    assert!(count >= gateways.iter().map(|(answered, _)| answered).sum());
    for table in ["NAT", "Logical_Router_Static_Route"] {
        assert_eq!(writer.rows(table).len(), count, "{table}: one of each gateway");
    }
}

#[test]
fn a_leader_of_the_northbound_that_hangs_is_left_for_another() {
    let (plant, (postgres, _dir)) = (Plant::start(), postgres());
    let cloud = Cloud::on(plant.dir.path(), &["--database", &postgres.url("meridian")]);
    let network = id(&cloud.create("networks", "network", json!({"name": "net"})));
    writes(&cloud, &network);
    let leader = plant.nb.leader();
    plant.nb.signal(leader, Signal::SIGSTOP);
    // The database server's own probes take a minute by default. The server does not wait for them.
    writes(&cloud, &network);
    plant.nb.signal(leader, Signal::SIGCONT);
    writes(&cloud, &network);
}
