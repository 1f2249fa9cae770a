//! The events that Nova receives about the ports of its instances. A listener plays Nova: it records requests and returns prepared answers.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::access::Realm;
use crate::cloud::{Cloud, eventually};
use crate::site::internal;
use crate::world::id;

const VM: &str = "7e000000-0000-4000-8000-000000000001";

/// A listener that plays Nova.
struct Nova {
    url: String,
    shared: Arc<Mutex<Recorded>>,
}

#[derive(Default)]
struct Recorded {
    requests: Vec<Request>,
    /// The answers of the next requests. After them, the listener accepts everything.
    answers: VecDeque<(u16, Value)>,
}

#[derive(Clone, Debug)]
struct Request {
    line: String,
    token: Option<String>,
    body: Value,
}

impl Nova {
    fn start() -> Nova {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v2.1", listener.local_addr().unwrap());
        let shared = Arc::<Mutex<Recorded>>::default();
        let recorded = Arc::clone(&shared);
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || while serve(&stream, &recorded).is_some() {});
            }
        });
        Nova { url, shared }
    }

    fn answer_with(&self, status: u16, body: Value) {
        self.shared.lock().unwrap().answers.push_back((status, body));
    }

    fn requests(&self) -> Vec<Request> {
        self.shared.lock().unwrap().requests.clone()
    }

    /// The events of all requests, as name and port.
    fn events(&self) -> Vec<(String, String)> {
        let requests = self.requests();
        let events = requests.iter().flat_map(|request| request.body["events"].as_array().unwrap().clone());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        events.map(|event| (text(&event["name"]), text(&event["tag"]))).collect()
    }

    #[track_caller]
    fn hears(&self, expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, tag)| ((*name).to_owned(), (*tag).to_owned())).collect();
        eventually(&format!("Nova hears {expected:?}"), || {
            (self.events().len() >= expected.len()).then_some(())
        });
        assert_eq!(self.events(), expected);
    }
}

/// Serves one request; `None` if the client has closed the connection.
fn serve(stream: &TcpStream, recorded: &Mutex<Recorded>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let (mut length, mut token) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim_end().split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some((name, value)) if name.eq_ignore_ascii_case("x-auth-token") => {
                token = Some(value.to_owned())
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = Request {
        line: line.trim_end().to_owned(),
        token,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (status, answer) = {
        let mut recorded = recorded.lock().unwrap();
        recorded.requests.push(request.clone());
        recorded.answers.pop_front().unwrap_or((200, request.body))
    };
    let answer = answer.to_string();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} It\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    )
    .ok()
}

fn config(nova: &Nova) -> String {
    format!("[server]\nnova_url = \"{}\"\n[network]\nmetadata_ready_timeout = 3600\n", nova.url)
}

/// A port of the instance on a network.
fn vm_port(cloud: &Cloud, network: &str) -> String {
    let port = json!({
        "network_id": network, "device_owner": "compute:nova", "device_id": VM, "binding:host_id": "ch1.example",
    });
    id(&cloud.create("ports", "port", port))
}

/// Binds a port to a chassis as its ovn-controller would, or unbinds it.
fn bind(cloud: &Cloud, port: &str, chassis: Option<&str>) {
    eventually("northd has made the binding", || {
        cloud.southbound("Port_Binding").iter().any(|row| row["logical_port"] == *port).then_some(())
    });
    let row = cloud.southbound("Port_Binding").into_iter().find(|row| row["logical_port"] == *port).unwrap();
    let uuid = row["_uuid"].as_str().unwrap();
    match chassis {
        Some(chassis) => {
            cloud.sbctl(&format!("lsp-bind {port} {chassis} -- set Port_Binding {uuid} up=true"))
        }
        None => cloud.sbctl(&format!("lsp-unbind {port} -- set Port_Binding {uuid} up=false")),
    };
}

fn metric(cloud: &Cloud, name: &str) -> u64 {
    let text = ureq::get(format!("{}/metrics", cloud.metrics_url())).call().unwrap();
    let text = text.into_body().read_to_string().unwrap();
    let line = text.lines().find_map(|line| line.split_once(name).map(|(_, value)| value.trim().parse()));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).unwrap()
}

#[test]
fn nova_hears_of_ports_that_are_plugged_in_unplugged_and_deleted() {
    let nova = Nova::start();
    let mut cloud = Cloud::configured(&config(&nova));
    cloud.chassis("ch1", &[], "");
    let (network, _) = internal(&cloud, "net", "10.0.0.0/24");
    let port = vm_port(&cloud, &network);
    bind(&cloud, &port, Some("ch1"));
    nova.hears(&[("network-vif-plugged", &port)]);
    let request = nova.requests()[0].clone();
    assert_eq!(request.line, "POST /v2.1/os-server-external-events HTTP/1.1");
    assert_eq!(request.token, None);
    let event = &request.body["events"][0];
    assert_eq!((&event["server_uuid"], &event["status"]), (&json!(VM), &json!("completed")));

    // After a restart the server does not repeat an event, and does not report the port as unplugged.
    cloud.kill();
    cloud.again();
    cloud.converged();
    let second = vm_port(&cloud, &network);
    bind(&cloud, &second, Some("ch1"));
    nova.hears(&[("network-vif-plugged", &port), ("network-vif-plugged", &second)]);

    let before = nova.events().len();
    bind(&cloud, &second, None);
    eventually("Nova hears that the port is unplugged", || {
        nova.events()[before..].contains(&("network-vif-unplugged".to_owned(), second.clone())).then_some(())
    });
    cloud.delete(&format!("ports/{second}"));
    cloud.delete(&format!("ports/{port}"));
    eventually("Nova hears that the plugged port is deleted", || {
        nova.events()[before..].contains(&("network-vif-deleted".to_owned(), port.clone())).then_some(())
    });
    let deleted: Vec<_> =
        nova.events().into_iter().filter(|(name, _)| name == "network-vif-deleted").collect();
    assert_eq!(deleted.len(), 1, "the unplugged one was told already: {deleted:?}");
}

#[test]
fn nova_that_is_away_or_refuses_hears_it_later() {
    let nova = Nova::start();
    let cloud = Cloud::configured(&config(&nova));
    cloud.chassis("ch1", &[], "");
    let (network, _) = internal(&cloud, "net", "10.0.0.0/24");
    let port = vm_port(&cloud, &network);
    // Nova first fails, then reports that the instance has no host.
    nova.answer_with(503, json!({}));
    let event = json!({"name": "network-vif-plugged", "server_uuid": VM, "tag": port, "status": "completed", "code": 422});
    nova.answer_with(207, json!({"events": [event]}));
    bind(&cloud, &port, Some("ch1"));
    eventually("Nova was asked three times", || (nova.requests().len() >= 3).then_some(()));
    eventually("the loop has nothing left to do", || {
        (metric(&cloud, "nova_events_total{outcome=\"accepted\"}") == 1).then_some(())
    });
    assert_eq!(metric(&cloud, "nova_events_total{outcome=\"refused\"}"), 1);
    assert_eq!(metric(&cloud, "nova_events_total{outcome=\"failed\"}"), 1);
    // Nova does not know the instance, so the server does not retry.
    let other = vm_port(&cloud, &network);
    nova.answer_with(
        404,
        json!({"itemNotFound": {"code": 404, "message": "No instances found for any event"}}),
    );
    bind(&cloud, &other, Some("ch1"));
    eventually("the event was given up", || {
        (metric(&cloud, "nova_events_total{outcome=\"no-instance\"}") == 1).then_some(())
    });
    assert_eq!(nova.requests().len(), 4);
}

#[test]
fn a07_a_port_waits_for_the_metadata_of_all_networks_of_its_instance() {
    let nova = Nova::start();
    let cloud = Cloud::configured(&config(&nova));
    cloud.chassis("ch1", &[], "");
    // The Chassis_Private row, in which the metadata agent reports.
    let private = cloud.southbound("Chassis_Private");
    let row =
        private.iter().find(|row| row["name"] == "ch1").map(|row| row["_uuid"].as_str().unwrap().to_owned());
    let chassis = cloud.southbound("Chassis").iter().find(|row| row["name"] == "ch1").unwrap()["_uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    let row = row.unwrap_or_else(|| {
        cloud.sbctl(&format!("create Chassis_Private name=ch1 chassis={chassis}")).trim().to_owned()
    });
    cloud.sbctl(&format!(
        "set Chassis_Private {row} external_ids:neutron\\:ovn-metadata-id=902ae2af-c755-5c53-859c-c466137ed38c \
         external_ids:neutron\\:ovn-metadata-sb-cfg=1000000"
    ));
    eventually("the agent is alive", || {
        let agents = cloud.get("agents")["agents"].clone();
        let agents = agents.as_array().unwrap();
        agents.iter().any(|it| it["agent_type"] == "OVN Metadata agent" && it["alive"] == true).then_some(())
    });
    let (a, _) = internal(&cloud, "a", "10.0.0.0/24");
    let (b, _) = internal(&cloud, "b", "10.1.0.0/24");
    let ports = [vm_port(&cloud, &a), vm_port(&cloud, &b)];
    ports.iter().for_each(|port| bind(&cloud, port, Some("ch1")));
    let waiting = |cloud: &Cloud| {
        let status = cloud.status();
        let nova =
            status["components"].as_array().unwrap().iter().find(|it| it["component"] == "nova").unwrap();
        let problems = nova["problems"].as_array().unwrap();
        problems.iter().filter(|problem| problem["code"] == "metadata-not-ready").count()
    };
    eventually("both ports wait for both networks", || (waiting(&cloud) == 4).then_some(()));
    cloud.sbctl(&format!("set Chassis {chassis} external_ids:neutron-metadata-proxy-networks=\"{a}\""));
    eventually("one network is ready", || (waiting(&cloud) == 2).then_some(()));
    assert!(nova.requests().is_empty());
    // The server still sends nothing after it has checked several more times.
    thread::sleep(Duration::from_secs(2));
    assert!(nova.requests().is_empty());
    cloud.sbctl(&format!("set Chassis {chassis} external_ids:neutron-metadata-proxy-networks=\"{a},{b}\""));
    eventually("Nova hears of both ports", || (nova.events().len() == 2).then_some(()));
    assert_eq!(metric(&cloud, "nova_events_before_metadata_total"), 0);
}

#[test]
fn a08_a_blocked_agent_delays_nova_no_longer_than_configured() {
    let nova = Nova::start();
    let config = config(&nova).replace("3600", "2");
    let cloud = Cloud::configured(&config);
    cloud.chassis("ch1", &[], "");
    let chassis =
        cloud.southbound("Chassis").iter().find(|row| row["name"] == "ch1").unwrap()["_uuid"].clone();
    let chassis = chassis.as_str().unwrap();
    if !cloud.southbound("Chassis_Private").iter().any(|row| row["name"] == "ch1") {
        cloud.sbctl(&format!("create Chassis_Private name=ch1 chassis={chassis}"));
    }
    let private = cloud.southbound("Chassis_Private");
    let row = private.iter().find(|row| row["name"] == "ch1").unwrap()["_uuid"].as_str().unwrap();
    cloud.sbctl(&format!(
        "set Chassis_Private {row} external_ids:neutron\\:ovn-metadata-id=902ae2af-c755-5c53-859c-c466137ed38c \
         external_ids:neutron\\:ovn-metadata-sb-cfg=1000000"
    ));
    let (network, _) = internal(&cloud, "net", "10.0.0.0/24");
    let port = vm_port(&cloud, &network);
    bind(&cloud, &port, Some("ch1"));
    nova.hears(&[("network-vif-plugged", &port)]);
    eventually("it is counted", || (metric(&cloud, "nova_events_before_metadata_total") == 1).then_some(()));
}

#[test]
fn nova_is_found_in_keystones_catalog_and_asked_with_a_token() {
    let nova = Nova::start();
    let realm = Realm::with_account(Cloud::configured);
    let service = realm.keystone.service("compute", "nova").unwrap();
    realm.keystone.endpoint(&service, "public", &nova.url).unwrap();
    let cloud = &realm.cloud;
    cloud.chassis("ch1", &[], "");
    let network = realm.create(&realm.admin, "networks", "network", json!({"name": "net"}));
    let subnet = json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"});
    realm.create(&realm.admin, "subnets", "subnet", subnet);
    let port = json!({"network_id": network["id"], "device_owner": "compute:nova", "device_id": VM});
    let port = id(&realm.create(&realm.admin, "ports", "port", port));
    // The server replaces a revoked token.
    nova.answer_with(401, json!({}));
    bind(cloud, &port, Some("ch1"));
    eventually("Nova has taken it", || (nova.requests().len() == 2).then_some(()));
    let tokens: Vec<_> = nova.requests().into_iter().map(|request| request.token.unwrap()).collect();
    assert!(tokens[0] != tokens[1] && tokens.iter().all(|token| !token.is_empty()), "{tokens:?}");
}
