//! The socket of the load-balancer API: it uses the same credentials and limits as that of the network API.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cloud::{Cloud, raw};

#[test]
fn versions_need_no_credentials_and_all_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let config = format!("[server]\nauth = \"token\"\ntoken_file = \"{}\"\n", token.display());
    let cloud = Cloud::configured(&config);
    let url = cloud.load_balancer_url();
    for path in ["/", "/load-balancer/", "/healthcheck", "/load-balancer/healthcheck"] {
        let answer = raw(url, &[], "GET", path, None);
        let versions = answer.body["versions"].as_array().unwrap_or_else(|| panic!("{path}: {answer:?}"));
        let current: Vec<_> = versions.iter().filter(|version| version["status"] == "CURRENT").collect();
        assert_eq!(current.len(), 1, "{path}");
        assert_eq!(current[0]["id"], "v2.30");
        let href = current[0]["links"][0]["href"].as_str().unwrap();
        assert!(href.starts_with(url) && href.ends_with("/v2"), "{href}");
    }
    assert_eq!(raw(url, &[], "GET", "/v2", None).body, json!("v2"));
    let mut lists = BTreeSet::new();
    for path in [
        "/v2/lbaas/loadbalancers",
        "/v2.0/lbaas/loadbalancers",
        "/v2/loadbalancers",
        "/v2/lbaas/loadbalancers.json",
        "/load-balancer/v2.0/lbaas/loadbalancers",
    ] {
        assert_eq!(raw(url, &[], "GET", path, None).status, 401, "{path}");
        let answer = raw(url, &[("X-Auth-Token", "s3cret")], "GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        lists.insert(answer.body.to_string());
    }
    assert_eq!(lists, [json!({"loadbalancers": [], "loadbalancers_links": []}).to_string()].into());
}

#[test]
fn the_load_balancer_api_can_be_turned_off() {
    let cloud = Cloud::with(&["--lb-listen", "none"]);
    assert_eq!(cloud.get("networks")["networks"], json!([]));
    let log = std::fs::read_to_string(cloud.dir().join("server.log")).unwrap();
    assert!(!log.contains("the load-balancer API listens"), "{log}");
}
