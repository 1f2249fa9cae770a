//! Concurrent requests for gateways, and conditions on a router's revision.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::server::{Got, Server};

/// Two external networks and a router: their ids.
async fn set_up(server: &Server) -> (Vec<String>, String) {
    let mut networks = Vec::new();
    for (physical, cidr) in [("phy1", "192.0.2.0/24"), ("phy2", "198.51.100.0/24")] {
        let network = json!({
            "router:external": true, "provider:network_type": "flat", "provider:physical_network": physical,
        });
        let id = server.network(network).await["id"].as_str().unwrap().to_owned();
        let subnet = json!({"subnet": {"network_id": id, "ip_version": 4, "cidr": cidr}});
        assert_eq!(server.ask("POST", "/v2.0/subnets", subnet).await.status, 201);
        networks.push(id);
    }
    let router = server.ask("POST", "/v2.0/routers", json!({"router": {}})).await;
    (networks, router.body["router"]["id"].as_str().unwrap().to_owned())
}

/// Sends all requests at the same time. Returns their statuses.
async fn at_once(server: &Arc<Server>, requests: Vec<(String, Value)>) -> Vec<u16> {
    let mut running = JoinSet::new();
    for (path, body) in requests {
        let server = Arc::clone(server);
        running.spawn(async move { server.ask("PUT", &path, body).await.status });
    }
    running.join_all().await
}

fn about(gateways: Value) -> Value {
    json!({"router": {"external_gateways": gateways}})
}

async fn gateways(server: &Server, router: &str) -> (Value, Vec<Value>) {
    let got: Got = server.get(&format!("/v2.0/routers/{router}")).await;
    let shown = &got.body["router"];
    (shown["external_gateway_info"].clone(), shown["external_gateways"].as_array().unwrap().clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenario_39_twenty_at_once_add_and_twenty_remove() {
    let server = Arc::new(Server::open().await);
    let (networks, router) = set_up(&server).await;
    let add = format!("/v2.0/routers/{router}/add_external_gateways");
    let one = about(json!([{"network_id": networks[0]}]));
    let answers = at_once(&server, vec![(add, one); 20]).await;
    assert_eq!(answers, [200; 20]);
    let (info, all) = gateways(&server, &router).await;
    assert_eq!((all.len(), &all[0]), (20, &info));
    let addresses: BTreeSet<String> =
        all.iter().map(|it| it["external_fixed_ips"][0]["ip_address"].as_str().unwrap().to_owned()).collect();
    assert_eq!(addresses.len(), 20);
    let ports = server.get("/v2.0/ports?device_owner=network:router_gateway").await;
    assert_eq!(ports.body["ports"].as_array().unwrap().len(), 20);
    let remove = format!("/v2.0/routers/{router}/remove_external_gateways");
    let answers =
        at_once(&server, all.into_iter().map(|it| (remove.clone(), about(json!([it])))).collect()).await;
    assert_eq!(answers, [200; 20]);
    assert_eq!(gateways(&server, &router).await, (Value::Null, vec![]));
    let ports = server.get("/v2.0/ports").await;
    assert!(
        ports.body["ports"].as_array().unwrap().iter().all(|it| it["device_owner"] == "network:distributed")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenario_40_two_networks_at_once_on_an_empty_router() {
    let server = Arc::new(Server::open().await);
    let (networks, router) = set_up(&server).await;
    let add = format!("/v2.0/routers/{router}/add_external_gateways");
    let each = networks.iter().map(|id| (add.clone(), about(json!([{"network_id": id}])))).collect();
    assert_eq!(at_once(&server, each).await, [200; 2]);
    let (info, all) = gateways(&server, &router).await;
    let on: BTreeSet<&str> = all.iter().map(|it| it["network_id"].as_str().unwrap()).collect();
    assert_eq!(on, networks.iter().map(String::as_str).collect());
    assert_eq!(all[0], info);
    // The same update twice at once has one result and no duplicate port.
    let update = format!("/v2.0/routers/{router}/update_external_gateways");
    let both = about(json!([{"network_id": networks[1]}, {"network_id": networks[0]}]));
    assert_eq!(at_once(&server, vec![(update, both); 2]).await, [200; 2]);
    let (info, all) = gateways(&server, &router).await;
    assert_eq!((all.len(), &info["network_id"]), (2, &json!(networks[1])));
}

#[tokio::test]
async fn gateways_can_be_changed_on_condition_of_the_revision() {
    let server = Server::open().await;
    let (networks, router) = set_up(&server).await;
    let path = format!("/v2.0/routers/{router}/add_external_gateways");
    let one = about(json!([{"network_id": networks[0]}]));
    let when = |revision: u64| {
        let condition = format!("revision_number={revision}");
        server.request("PUT", &path).header("If-Match", condition).json(&one)
    };
    let first = server.send(when(0)).await;
    assert_eq!((first.status, &first.body["router"]["revision_number"]), (200, &json!(1)));
    assert_eq!(server.send(when(0)).await.refusal().1, "RevisionNumberConstraintFailed");
    assert_eq!(server.send(when(1)).await.status, 200);
}
