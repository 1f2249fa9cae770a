//! The life cycle of objects, lists with their links, quotas, tags, and waiting for the Northbound.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::Server;

#[tokio::test]
async fn an_object_lives_and_dies() {
    let server = Server::open().await;
    let made = server.network(json!({"name": "n"})).await;
    let path = format!("/v2.0/networks/{}", made["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.body["network"], made);
    assert_eq!(
        server.get(&format!("{path}?fields=name&fields=mtu")).await.body,
        json!({"network": {"name": "n", "mtu": 1442}})
    );
    let renamed = server.ask("PUT", &path, json!({"network": {"name": "m"}})).await;
    assert_eq!((renamed.status, &renamed.body["network"]["name"]), (200, &json!("m")));
    let stale = server
        .request("PUT", &path)
        .header("If-Match", "revision_number=0")
        .json(&json!({"network": {"name": "x"}}));
    assert_eq!(server.send(stale).await.refusal().0, 412);
    let body = server.ask("DELETE", &path, json!({})).await;
    assert_eq!(body.refusal().0, 400, "a body on DELETE");
    let right = server.request("DELETE", &path).header("If-Match", "revision_number=1");
    let gone = server.send(right).await;
    assert_eq!((gone.status, &gone.body), (204, &Value::Null));
    assert_eq!(server.get(&path).await.refusal().1, "NetworkNotFound");
}

#[tokio::test]
async fn bulk_requests_are_all_or_nothing() {
    let server = Server::open().await;
    let flat = json!({"provider:network_type": "flat", "provider:physical_network": "phy1"});
    let got = server.ask("POST", "/v2.0/networks", json!({"networks": [{"name": "a"}, flat, flat]})).await;
    assert_eq!(got.refusal().1, "FlatNetworkInUse");
    assert_eq!(server.get("/v2.0/networks").await.body, json!({"networks": []}));
    let got = server
        .ask("POST", "/v2.0/networks", json!({"networks": [{"name": "a"}, {"network": {"name": "b"}}]}))
        .await;
    assert_eq!((got.status, got.body["networks"].as_array().unwrap().len()), (201, 2));
}

#[tokio::test]
async fn scenario_06_pages_by_their_links() {
    let server = Server::open().await;
    for n in 0..5 {
        server.network(json!({"name": format!("n{n}")})).await;
    }
    let mut seen = Vec::new();
    let mut next = Some("/v2.0/networks?limit=2&sort_key=name&sort_dir=asc&fields=name".to_owned());
    while let Some(path) = next {
        let page = server.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.body);
        seen.extend(
            page.body["networks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["name"].as_str().unwrap().to_owned()),
        );
        let links = page.body["networks_links"].as_array().unwrap().clone();
        let href = links.iter().find(|link| link["rel"] == "next").map(|link| link["href"].as_str().unwrap());
        next = href.map(|href| href.strip_prefix(&server.url).unwrap().to_owned());
    }
    assert_eq!(seen, ["n0", "n1", "n2", "n3", "n4"]);
    assert!(server.get("/v2.0/networks").await.body.get("networks_links").is_none());
}

#[tokio::test]
async fn clients_look_for_a_name_by_id_first() {
    let server = Server::open().await;
    server.network(json!({"name": "net one"})).await;
    assert_eq!(server.get("/v2.0/networks/net%20one").await.refusal().0, 404);
    let found = server.get("/v2.0/networks?name=net%20one").await;
    assert_eq!(found.body["networks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn labels_over_http() {
    let server = Server::open().await;
    let made = server.network(json!({"tags": ["z"]})).await;
    let path = format!("/v2.0/networks/{}/tags", made["id"].as_str().unwrap());
    let got = server.ask("PUT", &path, json!({"tags": ["a", "b"]})).await;
    assert_eq!((got.status, got.body), (200, json!({"tags": ["a", "b"]})));
    assert_eq!(server.ask("POST", &path, json!({"tags": ["c"]})).await.status, 201);
    assert_eq!(server.send(server.request("PUT", &format!("{path}/d%20e"))).await.status, 201);
    assert_eq!(server.get(&format!("{path}/d%20e")).await.status, 204);
    assert_eq!(server.get(&format!("{path}/nope")).await.refusal().1, "TagNotFound");
    assert_eq!(server.send(server.request("DELETE", &format!("{path}/a"))).await.status, 204);
    assert_eq!(server.get(&path).await.body, json!({"tags": ["b", "c", "d e"]}));
    assert_eq!(server.get("/v2.0/networks?tags=b,c").await.body["networks"].as_array().unwrap().len(), 1);
    assert_eq!(server.send(server.request("DELETE", &path)).await.status, 204);
    assert_eq!(server.get(&path).await.body, json!({"tags": []}));
}

#[tokio::test]
async fn quotas_over_http() {
    let server = Server::open().await;
    let set = server.ask("PUT", "/v2.0/quotas/p", json!({"quota": {"network": 1}})).await;
    assert_eq!((set.status, &set.body["quota"]["network"]), (200, &json!(1)));
    server.network(json!({})).await;
    let over = server.ask("POST", "/v2.0/networks", json!({"network": {}})).await;
    assert_eq!(over.refusal(), (409, "OverQuota", "Quota exceeded for resources: ['network']."));
    let details = server.get("/v2.0/quotas/p/details.json").await;
    assert_eq!(details.body["quota"]["network"], json!({"used": 1, "limit": 1, "reserved": 0}));
    assert_eq!(server.get("/v2.0/quotas").await.body["quotas"][0]["project_id"], "p");
    assert_eq!(server.get("/v2.0/quotas/tenant").await.body, json!({"tenant": {"tenant_id": "p"}}));
    assert_eq!(server.send(server.request("DELETE", "/v2.0/quotas/p")).await.status, 204);
    assert_eq!(server.get("/v2.0/quotas/p").await.body["quota"]["network"], 100);
}

#[tokio::test]
async fn a_change_can_wait_for_the_northbound() {
    let server = Server::open().await;
    let body = json!({"network": {}});
    let at_once = server.ask("POST", "/v2.0/networks", body.clone()).await;
    assert!(at_once.headers.get("x-meridian-wait").is_none());
    for request in [
        server.request("POST", "/v2.0/networks").header("X-Meridian-Wait", "nb"),
        server.request("POST", "/v2.0/networks?wait=ovn"),
    ] {
        let waiting = tokio::spawn(request.json(&body).send());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished(), "nothing has it yet");
        server.applied.send_replace(server.store.world().seq());
        let got = waiting.await.unwrap().unwrap();
        assert_eq!((got.status().as_u16(), got.headers()["x-meridian-wait"].to_str().unwrap()), (201, "nb"));
    }
}

#[tokio::test]
async fn an_operator_can_choose_what_links_begin_with() {
    let server = Server::open().await;
    server.outside.send_modify(|outside| {
        let mut changed = (**outside).clone();
        changed.settings.network_link_prefix = Some("https://net.example/api/".into());
        *outside = std::sync::Arc::new(changed);
    });
    server.network(json!({})).await;
    let page = server.get("/v2.0/networks?limit=1").await;
    let href = page.body["networks_links"][0]["href"].as_str().unwrap().to_owned();
    assert!(href.starts_with("https://net.example/api/v2.0/networks?limit=1&marker="), "{href}");
}

#[tokio::test]
async fn providers_and_zones_are_listed() {
    let server = Server::open().await;
    let providers = server.get("/v2.0/service-providers").await;
    let router = json!({"service_type": "L3_ROUTER_NAT", "name": "ovn", "default": true});
    assert_eq!(providers.body, json!({"service_providers": [router]}));
    assert_eq!(server.get("/v2.0/availability_zones").await.body, json!({"availability_zones": []}));
    assert_eq!(server.get("/v2.0/availability_zones/az1").await.refusal().0, 404);
    assert_eq!(server.ask("POST", "/v2.0/availability_zones", json!({})).await.refusal().0, 405);
}

#[tokio::test]
async fn rebalancing_is_asked_for_by_administrators() {
    let server = Server::open().await;
    let got = server.send(server.request("POST", "/v2.0/meridian/rebalance")).await;
    assert_eq!((got.status, got.body), (200, json!({"moved": []})));
    assert_eq!(server.get("/v2.0/meridian/rebalance").await.refusal().0, 405);
    assert_eq!(server.get("/v2.0/meridian/nothing").await.refusal().0, 404);
}

#[tokio::test]
async fn every_noun_shows_all_that_its_table_names() {
    let server = Server::open().await;
    server.furnish().await;
    for noun in api::resource::NOUNS {
        let got = server.get(&format!("/v2.0/{}", noun.path())).await;
        assert_eq!(got.status, 200, "{}: {}", noun.path(), got.body);
        let listed = got.body[noun.collection()].as_array().unwrap().clone();
        // Zones and agents belong to chassis, and this server has none.
        if listed.is_empty() && ["agent", "availability_zone"].contains(&noun.name()) {
            continue;
        }
        for object in &listed {
            let shown: std::collections::BTreeSet<_> =
                object.as_object().unwrap().keys().map(String::as_str).collect();
            let named = noun
                .attributes()
                .iter()
                .filter(|it| it.shown != api::resource::Audience::Never)
                .map(|it| it.name);
            assert_eq!(shown, named.collect(), "{}", noun.name());
        }
        if noun.single() {
            let key = if noun.name() == "network_ip_availability" { "network_id" } else { "id" };
            let one =
                server.get(&format!("/v2.0/{}/{}", noun.path(), listed[0][key].as_str().unwrap())).await;
            assert_eq!((one.status, &one.body[noun.name()]), (200, &listed[0]), "{}", noun.name());
        }
    }
}
