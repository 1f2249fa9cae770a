//! Two servers, PostgreSQL and a three-member Northbound. All of them die, hang and lose connections while clients write.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lab::postgres::Postgres;
use lab::relay::Relay;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::cloud::{Cloud, eventually, try_raw};
use crate::clustered::Plant;
use crate::robustness::northbound_is_what_the_api_says;
use crate::two_servers::{postgres, waits_for};
use crate::world::id;

/// The number of faults, one after the other.
const FAULTS: usize = 14;
/// The duration of a fault: longer than the two seconds after which another server takes over.
const LASTS: Duration = Duration::from_millis(3500);

/// A fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL of a server, which is restarted.
    ServerDies(usize),
    /// SIGSTOP of a server.
    ServerHangs(usize),
    /// A server's path to PostgreSQL drops all data, or closes in the middle of a message.
    StoreUnreachable(usize),
    StoreCut(usize),
    /// The same for the server's path to the Northbound.
    NorthboundUnreachable(usize),
    NorthboundCut(usize),
    /// Both paths are slow.
    Slow(usize),
    /// SIGSTOP of PostgreSQL, for all servers.
    StoreHangs,
    /// SIGKILL or SIGSTOP of the Northbound's leader.
    LeaderDies,
    LeaderHangs,
}

impl Fault {
    /// A random schedule that contains every kind of fault.
    fn schedule(chance: &mut fastrand::Rng) -> Vec<Fault> {
        use Fault::*;
        let server = chance.usize(..2);
        let mut all = vec![
            ServerDies(0),
            ServerDies(1),
            ServerHangs(server),
            StoreUnreachable(0),
            StoreUnreachable(1),
            StoreCut(server),
            NorthboundUnreachable(0),
            NorthboundUnreachable(1),
            NorthboundCut(server),
            Slow(server),
            StoreHangs,
            LeaderDies,
            LeaderHangs,
            StoreHangs,
        ];
        assert_eq!(all.len(), FAULTS);
        chance.shuffle(&mut all);
        all
    }
}

/// A server, and the proxies on its paths to the databases.
struct Server {
    cloud: Cloud,
    store: Relay,
    northbound: Vec<Relay>,
}

impl Server {
    fn start(plant: &Plant, postgres: &Postgres) -> Server {
        let store = Relay::to(postgres.socket()).unwrap();
        let sockets = (0..3).map(|n| plant.dir.path().join(format!("nb-{n}.sock")));
        let northbound: Vec<Relay> = sockets.map(|socket| Relay::to(socket).unwrap()).collect();
        let database = format!("postgres://meridian@{}/meridian", store.address());
        let remotes: Vec<String> =
            northbound.iter().map(|relay| format!("tcp:{}", relay.address())).collect();
        let args = ["--database", &database, "--nb", &remotes.join(",")];
        Server { cloud: Cloud::on(plant.dir.path(), &args), store, northbound }
    }
}

/// Signals PostgreSQL with all its child processes, because the first process serves no client itself.
fn signal_postgres(postgres: &Postgres, signal: Signal) {
    let first = postgres.daemon().pid().expect("it runs").to_string();
    let parent_of = |process: &fs::DirEntry| {
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        // The fields after the name in brackets: state, parent.
        stat.rsplit_once(") ")?.1.split(' ').nth(1).map(str::to_owned)
    };
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<i32>() else { continue };
        if pid.to_string() == first || parent_of(&process).as_ref() == Some(&first) {
            // The process may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// The load of the clients: their requests and the answers.
#[derive(Default)]
struct Load {
    servers: Mutex<Vec<String>>,
    stop: AtomicBool,
    answered: AtomicUsize,
    asked: Mutex<BTreeSet<String>>,
    made: Mutex<Vec<String>>,
    deleted: Mutex<Vec<String>>,
}

impl Load {
    /// Creates ports through both servers in turn, and deletes every fourth. An answer must be a success or report trouble of the store.
    /// Without an answer the outcome is unknown.
    fn worker(&self, n: usize, network: &str) {
        for turn in n.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let url = self.servers.lock().unwrap()[turn % 2].clone();
            let ask = |method: &str, path: &str, body: Option<&str>| {
                let answer = try_raw(&url, &[("X-Auth-Token", "admin")], method, path, body).ok()?;
                assert!(
                    (200..300).contains(&answer.status) || answer.status == 503 || answer.status == 404,
                    "{method} {path}: {answer:?}"
                );
                (answer.status < 300).then_some(answer)
            };
            let name = format!("p{n}-{turn}");
            self.asked.lock().unwrap().insert(name.clone());
            let port = json!({"port": {"network_id": network, "name": name}}).to_string();
            if let Some(made) = ask("POST", "/v2.0/ports", Some(&port)) {
                self.answered.fetch_add(1, Ordering::Relaxed);
                let id = id(&made.body["port"]);
                if turn % 4 == 0 {
                    // Without an answer the outcome is unknown, so the port counts neither as kept nor as deleted.
                    if ask("DELETE", &format!("/v2.0/ports/{id}"), None).is_some() {
                        self.deleted.lock().unwrap().push(id);
                    }
                } else {
                    self.made.lock().unwrap().push(id);
                }
            }
            thread::sleep(Duration::from_millis(25));
        }
    }

    /// Waits until some more requests of the clients are answered.
    fn goes_on(&self, after: Fault) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually(&format!("requests are answered after {after:?}"), || {
            (self.answered.load(Ordering::Relaxed) > before + 6).then_some(())
        });
    }
}

/// Injects a fault and ends it.
fn suffer(fault: Fault, servers: &mut [Server; 2], plant: &mut Plant, postgres: &Postgres, load: &Load) {
    let lasts = || thread::sleep(LASTS);
    match fault {
        Fault::ServerDies(n) => {
            servers[n].cloud.crash();
            *load.servers.lock().unwrap() = servers.iter().map(|it| it.cloud.url().to_owned()).collect();
        }
        Fault::ServerHangs(n) => {
            servers[n].cloud.freeze();
            lasts();
            servers[n].cloud.thaw();
        }
        Fault::StoreUnreachable(n) => {
            servers[n].store.stall();
            lasts();
            servers[n].store.resume();
        }
        Fault::StoreCut(n) => servers[n].store.cut(),
        Fault::NorthboundUnreachable(n) => {
            servers[n].northbound.iter().for_each(Relay::stall);
            lasts();
            servers[n].northbound.iter().for_each(Relay::resume);
        }
        Fault::NorthboundCut(n) => servers[n].northbound.iter().for_each(Relay::cut),
        Fault::Slow(n) => {
            let paths = || servers[n].northbound.iter().chain([&servers[n].store]);
            paths().for_each(|path| path.delay(Duration::from_millis(150)));
            lasts();
            paths().for_each(|path| path.delay(Duration::ZERO));
        }
        Fault::StoreHangs => {
            signal_postgres(postgres, Signal::SIGSTOP);
            lasts();
            signal_postgres(postgres, Signal::SIGCONT);
        }
        Fault::LeaderDies => {
            let leader = plant.nb.leader();
            plant.nb.kill(leader);
            lasts();
            plant.nb.revive(leader);
        }
        Fault::LeaderHangs => {
            let leader = plant.nb.leader();
            plant.nb.signal(leader, Signal::SIGSTOP);
            lasts();
            plant.nb.signal(leader, Signal::SIGCONT);
        }
    }
}

fn survives(seed: u64) {
    let schedule = Fault::schedule(&mut fastrand::Rng::with_seed(seed));
    println!("seed {seed}: {schedule:?}");
    let (mut plant, (postgres, _dir)) = (Plant::start(), postgres());
    let mut servers = [Server::start(&plant, &postgres), Server::start(&plant, &postgres)];
    servers[0].cloud.put("quotas/fake_project_id", json!({"quota": {"port": -1}}));
    let network = id(&servers[0].cloud.create("networks", "network", json!({"name": "net"})));
    let load = Load {
        servers: Mutex::new(servers.iter().map(|it| it.cloud.url().to_owned()).collect()),
        ..Load::default()
    };
    thread::scope(|scope| {
        let (load, network) = (&load, network.as_str());
        let workers: Vec<_> = (0..3).map(|n| scope.spawn(move || load.worker(n, network))).collect();
        // If the test fails here, the workers still have to end.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for fault in schedule {
                suffer(fault, &mut servers, &mut plant, &postgres, load);
                load.goes_on(fault);
            }
        }));
        load.stop.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    });

    for Server { cloud, .. } in &servers {
        eventually("it is well again", || (cloud.status()["healthy"] == true).then_some(()));
        let ports = cloud.get(&format!("ports?network_id={network}&device_owner="))["ports"].clone();
        let ports = ports.as_array().unwrap();
        let stored: BTreeSet<String> = ports.iter().map(id).collect();
        let (made, deleted) = (load.made.lock().unwrap(), load.deleted.lock().unwrap());
        println!("{} ports, {} answered, {} deleted", stored.len(), made.len(), deleted.len());
        assert!(made.iter().all(|id| stored.contains(id)), "what was answered is lost");
        assert!(!deleted.iter().any(|id| stored.contains(id)), "what was deleted is there");
        let names: BTreeSet<&str> = ports.iter().map(|port| port["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), ports.len(), "a request was carried out twice");
        let asked = load.asked.lock().unwrap();
        assert!(names.iter().all(|name| asked.contains(*name)));
    }
    let writer = eventually("one of them writes", || {
        let writers: Vec<&Cloud> =
            servers.iter().map(|it| &it.cloud).filter(|it| waits_for(it).is_none()).collect();
        (writers.len() == 1).then(|| writers[0])
    });
    writer.converged();
    northbound_is_what_the_api_says(writer);
}

#[test]
fn nothing_is_lost_or_doubled_whatever_dies_hangs_or_is_cut_off() {
    survives(1);
}

#[test]
fn nothing_is_lost_or_doubled_in_another_order() {
    survives(2);
}
