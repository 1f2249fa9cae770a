//! Version documents, headers, extensions, and documents without credentials.

use serde_json::json;

use crate::server::Server;
use api::auth::Auth;

#[tokio::test]
async fn scenario_01_version_documents() {
    let server = Server::open().await;
    let link = json!([{"rel": "self", "href": format!("{}/v2.0/", server.url)}]);
    let root = server.get("/").await;
    assert_eq!(
        (root.status, &root.body),
        (200, &json!({"versions": [{"id": "v2.0", "status": "CURRENT", "links": link}]}))
    );
    let bare = server.get("/v2.0").await;
    assert_eq!(
        (bare.status, &bare.body),
        (200, &json!({"version": {"id": "v2.0", "status": "CURRENT", "links": link}}))
    );
    let resources = server.get("/v2.0/").await;
    let names: Vec<_> = resources.body["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["network", "subnet", "subnetpool", "port"]);
    assert_eq!(
        resources.body["resources"][0],
        json!({"name": "network", "collection": "networks",
               "links": [{"rel": "self", "href": format!("{}/v2.0/networks", server.url)}]})
    );
    let forwarded = server.send(server.request("GET", "/").header("X-Forwarded-Proto", "https")).await;
    assert_eq!(
        forwarded.body["versions"][0]["links"][0]["href"],
        format!("{}/v2.0/", server.url.replace("http:", "https:"))
    );
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_refused_with_those_it_has() {
    let server = Server::open().await;
    let id = server.network(json!({})).await["id"].as_str().unwrap().to_owned();
    for (method, path, allow) in [
        ("POST", "/".to_owned(), Some("GET")),
        ("DELETE", "/v2.0/".into(), Some("GET")),
        ("PUT", "/v2.0".into(), Some("GET")),
        ("PUT", "/v2.0/networks".into(), Some("GET, POST")),
        ("POST", format!("/v2.0/networks/{id}"), Some("GET, PUT, DELETE")),
        ("POST", "/v2.0/extensions".into(), Some("GET")),
        ("POST", "/v2.0/quotas/p".into(), Some("GET, PUT, DELETE")),
        ("PUT", "/v2.0/quotas/p/default".into(), Some("GET")),
        ("PATCH", "/v2.0/networks".into(), None),
        ("POST", format!("/v2.0/networks/{id}/tags/x"), None),
    ] {
        let got = server.send(server.request(method, &path)).await;
        assert_eq!(got.refusal().0, 405, "{method} {path}");
        assert_eq!(got.headers.get("allow").map(|it| it.to_str().unwrap()), allow, "{method} {path}");
    }
}

#[tokio::test]
async fn every_answer_has_an_id_and_a_type() {
    let server = Server::open().await;
    let mut seen = std::collections::BTreeSet::new();
    for path in ["/", "/v2.0/networks", "/nowhere", "/v2.0/nowhere", "/v2.0/networks/x"] {
        let got = server.get(path).await;
        let id = got.headers["x-openstack-request-id"].to_str().unwrap().to_owned();
        assert!(id.strip_prefix("req-").is_some_and(|id| uuid::Uuid::try_parse(id).is_ok()), "{id}");
        assert!(seen.insert(id));
        assert_eq!(got.headers["content-type"], "application/json", "{path}");
    }
    let health = server.get("/healthcheck").await;
    assert_eq!(
        (health.status, health.headers["content-type"].to_str().unwrap()),
        (200, "text/plain; charset=utf-8")
    );
}

#[tokio::test]
async fn scenario_02_extensions_are_found_by_alias_and_by_name() {
    let server = Server::open().await;
    let all = server.get("/v2.0/extensions").await.body["extensions"].as_array().unwrap().len();
    assert_eq!(all, api::http::extension::EXTENSIONS.len());
    let one = server.get("/v2.0/extensions/Availability%20Zone").await;
    assert_eq!((one.status, &one.body["extension"]["alias"]), (200, &json!("availability_zone")));
    assert_eq!(server.get("/v2.0/extensions/dvr").await.refusal().0, 404);
}

#[tokio::test]
async fn paths_that_lead_nowhere_and_suffixes() {
    let server = Server::open().await;
    for path in
        ["/v2.0/nowhere", "/v3", "/v2.0/networks/x/y", "/v2.0/networks/x/tags/y/z", "/v2.0/extensions/a/b"]
    {
        assert_eq!(server.get(path).await.refusal().0, 404, "{path}");
    }
    for path in
        ["/v2.0/networks.json", "/v2.0/networks/", "/v2.0/quotas/p/details.json", "/v2.0/quotas/p/default"]
    {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let head = server.send(server.request("HEAD", "/v2.0/networks")).await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn some_documents_need_no_credentials_and_the_rest_does() {
    let server = Server::with(Auth::token(&"s3cret".into(), "p")).await;
    for path in ["/", "/v2.0", "/healthcheck", "/openapi.json"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    for path in ["/v2.0/", "/v2.0/networks", "/v2.0/extensions", "/v2.0/nowhere"] {
        assert_eq!(server.get(path).await.status, 401, "{path}");
    }
}
