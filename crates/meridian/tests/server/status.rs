//! The operator's tools: status and health, removed agents, slow clients, options.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::cloud::{Cloud, PATIENCE, eventually, raw};
use crate::plant::Plant;
use crate::site::Site;

#[test]
fn the_status_shows_each_router_with_its_gateways_chassis_and_routes() {
    let site = Site::with_three(Cloud::start());
    let router = json!({"name": "edge", "enable_default_route_ecmp": true, "enable_default_route_bfd": true});
    let router = site.router(router, &[&site.n1, &site.n2]);
    site.router(json!({"name": "plain"}), &[]);
    let ports = site.gateway_ports(&router);
    let ids: Vec<_> = ports.iter().map(|port| port["id"].as_str().unwrap().to_owned()).collect();
    site.bind(&ids[0], "ch1");
    let status = eventually("the host is shown", || {
        let status = site.cloud.status();
        let routers = status["network"]["routers"].as_array()?.clone();
        let edge = routers.into_iter().find(|it| it["name"] == "edge")?;
        (edge["gateways"][0]["chassis"] == "ch1").then_some(edge)
    });
    assert_eq!(status["id"], router.as_str());
    let gateway = &status["gateways"][0];
    assert_eq!(gateway["port_id"], ids[0].as_str());
    assert_eq!((&gateway["network"], &gateway["host"]), (&json!("N1"), &json!("ch1.example")));
    assert_eq!(gateway["group"].as_array().unwrap().len(), 3);
    let route = &gateway["routes"][0];
    assert_eq!((&route["nexthop"], &route["installed"]), (&json!("192.0.2.1"), &json!(true)));
    assert!(route["bfd"].is_string(), "{route}");
    assert_eq!(status["gateways"][1]["chassis"], Value::Null);
    let chassis = site.cloud.status()["network"]["chassis"].clone();
    assert_eq!((&chassis[0]["name"], &chassis[0]["hosted"]), (&json!("ch1"), &json!(1)));

    let text = site.cloud.meridian(&["status"]);
    for part in [
        "healthy",
        // No process in this test answers BFD, and one gateway has no chassis.
        "network: 2 of 2 gateways carry no traffic",
        "OVN_Northbound: synced",
        "SQLite: synced",
        "northbound: converged",
        "chassis: 3",
        "plain",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let line = text.lines().find(|line| line.starts_with("edge ")).unwrap();
    for part in ["N1", "ch1", "0.0.0.0/0 via 192.0.2.1", "no: BFD is not up"] {
        assert!(line.contains(part), "{part} in: {line}");
    }
    assert!(text.contains("none yet of ch"), "{text}");
    let warnings: Vec<_> = text.lines().filter(|line| line.contains("translates source addresses")).collect();
    assert!(
        matches!(warnings[..], [only] if only.starts_with("warning: router edge (")),
        "shown once, with the router's name, and not as an error: {warnings:?}"
    );
    let one = site.cloud.meridian(&["status", "--router", "plain"]);
    assert!(one.contains("plain") && !one.contains("edge"), "{one}");
    let error = site.cloud.try_meridian(&["status", "--router", "nobody"]).unwrap_err();
    assert!(error.contains("no router has the name or id nobody"), "{error}");
    let coloured = site.cloud.meridian(&["status", "--color", "always"]);
    assert!(coloured.contains("\x1b[32mch1\x1b[0m"), "{coloured}");
}

#[test]
fn health_is_the_truth_about_the_databases() {
    let mut plant = Plant::start();
    let cloud = Cloud::on(plant.dir(), &[]);
    eventually("it is healthy", || (cloud.status()["healthy"] == true).then_some(()));
    let health = |path: &str| raw(&cloud.metrics_url(), &[], "GET", path, None);
    assert_eq!(health("/health").status, 200);
    plant.kill();
    let status = eventually("it is not healthy", || Some(cloud.status()).filter(|it| it["healthy"] == false));
    assert!(status["trouble"][0].as_str().unwrap().contains("OVN_Northbound is"), "{status:#}");
    let answer = health("/health");
    assert_eq!(answer.status, 503);
    assert!(answer.body.as_str().unwrap().contains("OVN_Northbound is"), "{answer:?}");
    // `/healthcheck` on the API's address only reports whether requests are answered.
    assert_eq!(raw(cloud.url(), &[], "GET", "/healthcheck", None).status, 200);
    assert!(cloud.meridian(&["status"]).contains("not healthy"));
    plant.revive();
    eventually("it is healthy again", || (health("/health").status == 200).then_some(()));
}

#[test]
fn a_dead_agent_that_is_deleted_leaves_the_southbound_and_a_living_one_cannot_be_deleted() {
    let site = Site::with_three(Cloud::start());
    let cloud = &site.cloud;
    for row in cloud.southbound("Chassis").iter().filter(|row| row["name"] != "ch3") {
        let (name, uuid) = (row["name"].as_str().unwrap(), row["_uuid"].as_str().unwrap());
        cloud.sbctl(&format!("create Chassis_Private name={name} chassis={uuid}"));
    }
    let agent = |name: &str| cloud.ask("GET", &format!("/v2.0/agents/{name}"), None);
    let alive = |name: &str| agent(name).body["agent"]["alive"].clone();
    eventually("both are alive", || (alive("ch1") == true && alive("ch2") == true).then_some(()));
    let refused = cloud.ask("DELETE", "/v2.0/agents/ch1", None);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body["NeutronError"]["message"].as_str().unwrap().contains("is alive"), "{refused:?}");

    // The number has advanced far beyond the agents' last reports. One of them catches up.
    cloud.nbctl("set NB_Global . nb_cfg=100");
    cloud.sbctl("set Chassis_Private ch2 nb_cfg=100");
    eventually("one is dead", || (alive("ch1") == false && alive("ch2") == true).then_some(()));
    cloud.delete("agents/ch1");
    assert_eq!(agent("ch1").status, 404);
    eventually("its rows are gone", || {
        let left = |table: &str| cloud.southbound(table).iter().any(|row| row["name"] == "ch1");
        (!left("Chassis") && !left("Chassis_Private")).then_some(())
    });
    let left: Vec<_> = cloud.southbound("Chassis").iter().map(|row| row["name"].clone()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(agent("ch2").status, 200);
}

#[test]
fn a_client_that_sends_half_a_header_is_not_waited_for() {
    let cloud = Cloud::configured("[server]\nclient_timeout = \"300ms\"\n");
    let mut stream = TcpStream::connect(cloud.url().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /v2.0/networks HTTP/1.1\r\nHost: x\r\nX-Auth-Tok").unwrap();
    let mut answer = Vec::new();
    // The server may also close the connection with a reset.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it was waited for");
    }
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    assert_eq!(cloud.ask("GET", "/v2.0/networks", None).status, 200);
}

#[test]
fn options_of_the_deployment_land_in_the_northbound() {
    let mut cloud = Cloud::configured("[network]\nha_failover_strategy = \"aggressive\"\n");
    let options = |cloud: &Cloud| {
        let options = cloud.rows("NB_Global")[0]["options"].clone();
        ["bfd-min-rx", "bfd-min-tx", "bfd-mult"].map(|name| options[name].clone())
    };
    eventually("the options are there", || (options(&cloud) == ["500", "50", "3"]).then_some(()));
    cloud.stop();
    let manual = "[network]\nha_failover_strategy = \"manual\"\nha_bfd_min_rx = 700\nha_bfd_mult = 5\n";
    cloud.configure(manual);
    cloud.again();
    eventually("the options follow", || (options(&cloud) == ["700", "100", "5"]).then_some(()));
    cloud.stop();
    cloud.configure("");
    cloud.again();
    eventually("the options are OVN's own", || (options(&cloud) == ["1000", "100", "3"]).then_some(()));
}
