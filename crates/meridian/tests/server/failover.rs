//! Several servers on one PostgreSQL and one Northbound, with connections that break and processes that hang.

use std::time::Duration;

use lab::postgres::Postgres;
use lab::relay::Relay;
use serde_json::{Value, json};

use crate::cloud::{Answer, Cloud, eventually, raw, try_raw};
use crate::plant::Plant;
use crate::two_servers::{postgres, waits_for};
use crate::world::id;

/// A writing server behind a path that can break, and a second server beside it.
struct Pair {
    writer: Cloud,
    other: Cloud,
    network: String,
    _servers: (Plant, Postgres, tempfile::TempDir),
}

/// The connection of the writer that a relay can interrupt; `Whole` has no relay.
enum Path {
    Postgres,
    Northbound,
    Whole,
}

fn pair(path: Path) -> (Pair, Option<Relay>) {
    let (plant, (postgres, dir)) = (Plant::start(), postgres());
    let url = postgres.url("meridian");
    let (relay, args): (Option<Relay>, Vec<String>) = match path {
        Path::Whole => (None, vec!["--database".into(), url.clone()]),
        Path::Postgres => {
            let relay = Relay::to(postgres.socket()).unwrap();
            let through = format!("postgres://meridian@{}/meridian", relay.address());
            (Some(relay), vec!["--database".into(), through])
        }
        Path::Northbound => {
            let relay = Relay::to(plant.dir().join("nb.sock")).unwrap();
            let through = format!("tcp:{}", relay.address());
            (Some(relay), vec!["--database".into(), url.clone(), "--nb".into(), through])
        }
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let writer = Cloud::on(plant.dir(), &args);
    let network = id(&writer.create("networks", "network", json!({"name": "net"})));
    writer.converged();
    let other = Cloud::on(plant.dir(), &["--database", &url]);
    eventually("the other waits for its turn", || waits_for(&other).filter(|what| what.contains("lock")));
    (Pair { writer, other, network, _servers: (plant, postgres, dir) }, relay)
}

fn port(network: &str, name: &str) -> Value {
    json!({"port": {"network_id": network, "name": name}})
}

impl Pair {
    /// Asserts that the other server writes a new port to the Northbound.
    fn other_writes(&self) {
        let answer = self.other.ask("POST", "/v2.0/ports?wait=ovn", Some(port(&self.network, "after")));
        assert_eq!((answer.status, answer.waited.as_deref()), (201, Some("nb")), "{answer:?}");
        assert_eq!(waits_for(&self.other), None, "it writes now");
        let name = id(&answer.body["port"]);
        assert!(self.other.rows("Logical_Switch_Port").iter().any(|row| row["name"] == name.as_str()));
    }

    /// Asserts that the former writer is healthy again and leaves the writing to the other.
    fn first_is_back(&self) {
        eventually("it is well again", || (self.writer.status()["healthy"] == true).then_some(()));
        eventually("it waits for its turn", || waits_for(&self.writer).filter(|what| what.contains("lock")));
        let northbound = &self.writer.status()["components"][0];
        assert_eq!(northbound["state"], "standby", "{northbound}");
        self.other_writes();
    }
}

/// `ovsdb-server` does not probe clients on a unix socket, so it never takes the lock from the hanging server.
#[test]
fn a_writer_that_stands_still_is_replaced() {
    let (pair, _) = pair(Path::Whole);
    pair.writer.freeze();
    pair.other_writes();
    pair.writer.thaw();
    pair.first_is_back();
}

#[test]
fn a_writer_that_is_cut_off_from_the_northbound_is_replaced() {
    let (pair, relay) = pair(Path::Northbound);
    let relay = relay.unwrap();
    relay.stall();
    pair.other_writes();
    relay.resume();
    pair.first_is_back();
}

#[test]
fn a_writer_that_is_cut_off_from_its_store_is_replaced_and_says_so() {
    let (pair, relay) = pair(Path::Postgres);
    let relay = relay.unwrap();
    relay.stall();
    pair.other_writes();
    eventually("it is not healthy", || (pair.writer.status()["healthy"] == false).then_some(()));
    let health = |path: &str| raw(&pair.writer.metrics_url(), &[], "GET", path, None).status;
    assert_eq!(health("/health"), 503);
    assert_eq!(raw(pair.writer.url(), &[], "GET", "/healthcheck", None).status, 503);
    assert_eq!(raw(pair.other.url(), &[], "GET", "/healthcheck", None).status, 200);
    for (method, body) in [("GET", None), ("POST", Some(port(&pair.network, "lost")))] {
        let answer = pair.writer.ask(method, "/v2.0/ports", body);
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    relay.resume();
    pair.first_is_back();
    assert_eq!(raw(pair.writer.url(), &[], "GET", "/healthcheck", None).status, 200);
}

#[test]
fn a_connection_to_the_store_that_breaks_costs_no_answer() {
    let (pair, relay) = pair(Path::Postgres);
    let relay = relay.unwrap();
    for n in 0..5 {
        relay.cut();
        let read = pair.writer.ask("GET", "/v2.0/networks", None);
        assert_eq!(read.status, 200, "{read:?}");
        relay.cut();
        let written = pair.writer.ask("POST", "/v2.0/ports", Some(port(&pair.network, &format!("cut{n}"))));
        assert_eq!(written.status, 201, "{written:?}");
    }
}

#[test]
fn a_wait_for_a_northbound_that_hangs_has_an_end() {
    let mut plant = Plant::start();
    let cloud = Cloud::on(plant.dir(), &[]);
    let network = id(&cloud.create("networks", "network", json!({"name": "net"})));
    cloud.converged();
    plant.freeze();
    let answer = cloud.ask("POST", "/v2.0/ports?wait=ovn", Some(port(&network, "stored")));
    assert_eq!((answer.status, answer.waited.as_deref()), (201, Some("timeout")), "{answer:?}");
    plant.thaw();
    cloud.converged();
    let name = id(&answer.body["port"]);
    assert!(cloud.rows("Logical_Switch_Port").iter().any(|row| row["name"] == name.as_str()));
}

#[test]
fn a_request_whose_client_has_gone_is_not_carried_out_later() {
    let (pair, relay) = pair(Path::Postgres);
    let relay = relay.unwrap();
    relay.stall();
    let address = pair.writer.url().strip_prefix("http://").unwrap();
    for n in 0..5 {
        // The client sends a request and closes the connection without waiting for the answer.
        let body = port(&pair.network, &format!("gone{n}")).to_string();
        let head = format!(
            "POST /v2.0/ports HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut stream, format!("{head}{body}").as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // A waiting client receives an error within its time limit. Its request is behind the others in the queue.
    let waited = pair.writer.ask("POST", "/v2.0/ports", Some(port(&pair.network, "waited")));
    assert_eq!(waited.status, 503, "{waited:?}");
    relay.resume();
    pair.first_is_back();
    let names: Vec<Value> = pair.other.get("ports")["ports"].as_array().unwrap().clone();
    let gone: Vec<_> = names.iter().filter(|it| it["name"].as_str().unwrap().starts_with("gone")).collect();
    assert!(gone.is_empty(), "{gone:#?}");
}

#[test]
fn a_postgresql_that_becomes_read_only_is_trouble_of_the_store() {
    let (pair, _) = pair(Path::Whole);
    let read_only = |on: &str| {
        let postgres = &pair._servers.1;
        postgres
            .sql("postgres", &format!("ALTER DATABASE meridian SET default_transaction_read_only = {on}"))
            .unwrap();
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'meridian'";
        postgres.sql("postgres", end).unwrap();
    };
    read_only("on");
    let answer: Answer = eventually("writes are refused", || {
        let answer = pair.writer.ask("POST", "/v2.0/ports", Some(port(&pair.network, "refused")));
        Some(answer).filter(|answer| answer.status != 201)
    });
    assert_eq!(answer.status, 503, "{answer:?}");
    // Reads succeed meanwhile, but must not make the store look healthy.
    for _ in 0..30 {
        assert_eq!(pair.writer.ask("GET", "/v2.0/networks", None).status, 200);
        let health = raw(pair.writer.url(), &[], "GET", "/healthcheck", None);
        assert_eq!(health.status, 503, "{health:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    read_only("off");
    // The server becomes healthy without a write, because an HTTP load balancer sends none to an unhealthy server.
    eventually("the server is well again", || {
        let health = try_raw(pair.writer.url(), &[], "GET", "/healthcheck", None).ok()?;
        (health.status == 200).then_some(())
    });
    eventually("writes are taken again", || {
        let answer = try_raw(
            pair.writer.url(),
            &[("X-Auth-Token", "t")],
            "POST",
            "/v2.0/ports",
            Some(&port(&pair.network, "taken").to_string()),
        )
        .ok()?;
        (answer.status == 201).then_some(())
    });
}

#[test]
fn a_postgresql_restored_under_a_running_writer_costs_no_rows() {
    let (pair, _) = pair(Path::Whole);
    for n in 0..3 {
        pair.writer.create("networks", "network", json!({"name": format!("n{n}")}));
    }
    pair.writer.converged();
    let before = pair.writer.rows("Logical_Switch").len();
    // The backup lacks the newest networks, and its number of changes has grown differently since.
    let restore = "
        DELETE FROM ports WHERE network_id IN (SELECT id FROM networks WHERE body LIKE '%\"name\":\"n_\"%');
        DELETE FROM networks WHERE body LIKE '%\"name\":\"n_\"%';
        UPDATE changes SET batch = gen_random_uuid()::text WHERE seq > 1;";
    pair._servers.1.sql("meridian", restore).unwrap();
    let withheld = || {
        let status = pair.writer.status();
        let problems = status["components"][0]["problems"].as_array().cloned()?;
        problems.into_iter().find(|problem| problem["code"] == "deletions-withheld")
    };
    let told = eventually("it withholds the deletions", withheld);
    assert!(told["message"].as_str().unwrap().contains("restored from a backup"), "{told}");
    assert_eq!(pair.writer.rows("Logical_Switch").len(), before);
    // Both servers return the content of the database.
    for cloud in [&pair.writer, &pair.other] {
        assert_eq!(cloud.get("networks")["networks"].as_array().unwrap().len(), 1);
    }
}
