//! Scenario 59: several servers on one PostgreSQL and one Northbound; and their encrypted connections to PostgreSQL.

use std::process::Command;
use std::thread;
use std::time::Instant;

use lab::postgres::{Certificate, Postgres};
use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};
use crate::plant::Plant;
use crate::site::{Site, internal};
use crate::world::id;

/// The reason why the loop that writes the Northbound waits, if it does.
pub(crate) fn waits_for(cloud: &Cloud) -> Option<String> {
    let status = cloud.status();
    let components = status["components"].as_array().unwrap().clone();
    let northbound = components.iter().find(|it| it["component"] == "northbound").unwrap();
    northbound["waiting_for"].as_str().map(str::to_owned)
}

/// Two servers on the same databases: the writer first, then the other.
fn two(plant: &Plant, postgres: &Postgres) -> (Site, Cloud) {
    let url = postgres.url("meridian");
    let site = Site::with_three(Cloud::on(plant.dir(), &["--database", &url]));
    assert_eq!(waits_for(&site.cloud), None);
    let other = Cloud::on(plant.dir(), &["--database", &url]);
    eventually("the other waits for its turn", || waits_for(&other).filter(|what| what.contains("lock")));
    (site, other)
}

pub(crate) fn postgres() -> (Postgres, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(&dir.path().join("pg")).unwrap();
    postgres.create_database("meridian").unwrap();
    (postgres, dir)
}

/// One worker's share of the mixed requests, sent to both servers in turn. Each of them must succeed.
fn worker(n: usize, servers: [&Cloud; 2], network: &str, external: [&str; 2], shared: &str) {
    let mut turn = n;
    let mut ask = |method: &str, path: &str, body: Value| {
        turn += 1;
        let body = Some(body).filter(|body| !body.is_null());
        let answer = servers[turn % 2].ask(method, &format!("/v2.0/{path}"), body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.body
    };
    let router = id(&ask("POST", "routers", json!({"router": {"name": format!("r{n}")}}))["router"]);
    let element = |at: usize| json!({"router": {"external_gateways": [{"network_id": external[at % 2]}]}});
    for at in 0..4 {
        // The next request uses the other server, which must know the new port.
        let port = json!({"port": {"network_id": network, "name": format!("p{n}-{at}")}});
        let port = id(&ask("POST", "ports", port)["port"]);
        ask("GET", &format!("ports/{port}"), Value::Null);
        ask("PUT", &format!("ports/{port}"), json!({"port": {"description": "seen"}}));
        ask("PUT", &format!("routers/{router}/add_external_gateways"), element(at));
        // All workers change this router.
        ask("PUT", &format!("routers/{shared}/add_external_gateways"), element(at));
        if at == 3 {
            ask("DELETE", &format!("ports/{port}"), Value::Null);
        }
    }
    ask("PUT", &format!("routers/{router}"), json!({"router": {"enable_default_route_ecmp": true}}));
    ask("PUT", &format!("routers/{shared}"), json!({"router": {"name": format!("shared-{n}")}}));
    ask("GET", "routers", Value::Null);
}

#[test]
fn scenario_59_two_servers_serve_and_one_writes_and_the_other_takes_over() {
    let (plant, (postgres, _dir)) = (Plant::start(), postgres());
    let (mut site, other) = two(&plant, &postgres);
    let (network, _) = internal(&site.cloud, "net", "10.0.0.0/16");
    let shared = other.create("routers", "router", json!({"name": "shared"}));
    let project = shared["project_id"].as_str().unwrap();
    other.put(&format!("quotas/{project}"), json!({"quota": {"router_gateway": 32}}));
    let shared = id(&shared);
    let external = [site.n1.as_str(), site.n2.as_str()];
    // Eight times twenty-five requests.
    thread::scope(|scope| {
        for n in 0..8 {
            let (network, shared, servers) = (&network, &shared, [&site.cloud, &other]);
            scope.spawn(move || worker(n, servers, network, external, shared));
        }
    });
    for cloud in [&site.cloud, &other] {
        let routers = cloud.get("routers")["routers"].as_array().unwrap().clone();
        assert_eq!(routers.len(), 9);
        for router in &routers {
            let expected = if router["id"] == shared.as_str() { 32 } else { 4 };
            assert_eq!(router["external_gateways"].as_array().unwrap().len(), expected, "{router}");
        }
        let filter = format!("ports?network_id={network}&device_owner=");
        assert_eq!(cloud.get(&filter)["ports"].as_array().unwrap().len(), 24);
    }
    site.cloud.converged();
    assert_eq!(site.cloud.rows("Logical_Router_Port").len(), 8 * 4 + 32);
    assert_eq!((waits_for(&site.cloud), waits_for(&other).is_some()), (None, true), "one writes");

    // Kills the writer with SIGKILL.
    let begin = Instant::now();
    site.cloud.kill();
    let port = json!({"port": {"network_id": network, "name": "after"}});
    let answer = other.ask("POST", "/v2.0/ports?wait=ovn", Some(port));
    println!("the other server had written {:?} after the kill", begin.elapsed());
    assert_eq!((answer.status, answer.waited.as_deref()), (201, Some("nb")), "{answer:?}");
    assert_eq!(waits_for(&other), None, "it writes now");
    other.converged();
    let port = id(&answer.body["port"]);
    assert!(other.rows("Logical_Switch_Port").iter().any(|row| row["name"] == port.as_str()));
    // The killed server restarts as the second one.
    site.cloud.again();
    eventually("it waits for its turn", || waits_for(&site.cloud).filter(|what| what.contains("lock")));
}

#[test]
fn a_request_waits_for_the_northbound_through_a_server_that_does_not_write() {
    let (plant, (postgres, _dir)) = (Plant::start(), postgres());
    let (site, other) = two(&plant, &postgres);
    let (network, _) = internal(&site.cloud, "net", "10.0.0.0/16");
    for n in 0..3 {
        let port = json!({"port": {"network_id": network, "name": format!("p{n}")}});
        let answer = other.ask("POST", "/v2.0/ports?wait=ovn", Some(port));
        assert_eq!((answer.status, answer.waited.as_deref()), (201, Some("nb")), "{answer:?}");
        let port = id(&answer.body["port"]);
        assert!(site.cloud.rows("Logical_Switch_Port").iter().any(|row| row["name"] == port.as_str()));
    }
    // `wait=ovn` also works for a change without Northbound rows.
    let quota = json!({"quota": {"port": 77}});
    let answer = other.ask("PUT", "/v2.0/quotas/somebody?wait=ovn", Some(quota));
    assert_eq!((answer.status, answer.waited.as_deref()), (200, Some("nb")), "{answer:?}");
}

/// Creates a CA and a certificate for a name in a directory, with openssl.
pub(crate) fn certificates(dir: &std::path::Path, name: &str) {
    let openssl = |line: &str| {
        let out = Command::new("openssl").args(line.split(' ')).current_dir(dir).output().unwrap();
        assert!(out.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&out.stderr));
    };
    std::fs::write(dir.join("names"), format!("subjectAltName=DNS:{name}\n")).unwrap();
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
    );
    openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=postgres -keyout pg.key -out pg.csr",
    );
    openssl(
        "x509 -req -in pg.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out pg.pem",
    );
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=foreign -keyout x.key -out foreign.pem",
    );
}

#[test]
fn the_connection_to_postgresql_is_encrypted_and_checked_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), "localhost");
    let (certificate, key) = (dir.path().join("pg.pem"), dir.path().join("pg.key"));
    let identity = Certificate { certificate: &certificate, key: &key };
    let postgres = Postgres::start_encrypting(&dir.path().join("pg"), identity).unwrap();
    postgres.create_database("meridian").unwrap();
    let plant = Plant::start();
    let url =
        |host: &str, query: &str| format!("postgres://meridian@{host}:{}/meridian?{query}", postgres.port());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (ca, foreign) =
        (format!("sslrootcert={}", file("ca.pem")), format!("sslrootcert={}", file("foreign.pem")));
    let encrypted =
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'meridian'";
    for (host, query, shown) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), "f"),
        ("127.0.0.1", "sslmode=require".to_owned(), "t"),
        ("127.0.0.1", "sslmode=prefer".to_owned(), "t"),
        ("127.0.0.1", format!("sslmode=verify-ca&{ca}"), "t"),
        ("localhost", format!("sslmode=verify-full&{ca}"), "t"),
    ] {
        let cloud = Cloud::on(plant.dir(), &["--database", &url(host, &query)]);
        cloud.create("networks", "network", json!({"name": query}));
        assert_eq!(postgres.sql("meridian", encrypted).unwrap().trim(), shown, "{query}");
        drop(cloud);
        eventually("the connection is gone", || {
            postgres.sql("meridian", encrypted).unwrap().is_empty().then_some(())
        });
    }
    for (host, query, why) in [
        ("127.0.0.1", format!("sslmode=verify-full&{ca}"), "certificate"),
        ("localhost", format!("sslmode=verify-full&{foreign}"), "certificate"),
        ("localhost", format!("sslmode=require&{foreign}"), "certificate"),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={}", file("nothing.pem")), "nothing.pem"),
        ("localhost", "sslmode=verify-full".to_owned(), "sslrootcert"),
        ("localhost", "sslmode=perhaps".to_owned(), "perhaps"),
    ] {
        let complaint = Cloud::refused(plant.dir(), &["--database", &url(host, &query)]);
        assert!(complaint.contains(why), "{query}: {complaint}");
    }
}
