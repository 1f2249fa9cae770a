//! Reads a cloud through its API as an import does: completely, page by page, and refused without permission.

use std::time::SystemTime;

use api::auth::Auth;
use api::import::{Credentials, Source, SourceError, prepare};
use api::settings::Settings;
use serde_json::{Value, json};

use crate::server::Server;

#[tokio::test]
async fn every_page_is_read() {
    let server = Server::open().await;
    let unlimited = json!({"quota": {"network": -1}});
    assert_eq!(server.ask("PUT", "/v2.0/quotas/p", unlimited).await.status, 200);
    // More than two pages of networks.
    for batch in 0..3 {
        let networks: Vec<Value> = (0..350).map(|n| json!({"name": format!("{batch}-{n}")})).collect();
        let made = server.ask("POST", "/v2.0/networks", json!({"networks": networks})).await;
        assert_eq!(made.status, 201);
    }
    let source = Source::network(&server.url, Credentials::None, None).unwrap();
    let document = source.read_network().await.unwrap();
    let mut names: Vec<&str> =
        document.get("networks").iter().map(|network| network["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 1050);
    let takeover = prepare(&document, None, &Settings::default(), SystemTime::now());
    assert_eq!((takeover.counts()["networks"], takeover.left_out.len()), (1050, 0));
    let stored = takeover.store(&server.store).await.unwrap_err();
    assert!(stored.to_string().contains("has objects already"), "{stored}");
}

#[tokio::test]
async fn a_cloud_of_every_noun_is_the_same_afterwards() {
    let (old, new) = (Server::open().await, Server::open().await);
    let furnished = old.furnish().await;
    let document = Source::network(&old.url, Credentials::None, None).unwrap().read_network().await.unwrap();
    let takeover = prepare(&document, None, &Settings::default(), SystemTime::now());
    assert_eq!(takeover.left_out, []);
    takeover.store(&new.store).await.unwrap();
    for (path, _) in &furnished {
        let (before, after) =
            (old.get(&format!("/v2.0/{path}")).await, new.get(&format!("/v2.0/{path}")).await);
        assert_eq!(after.body, before.body, "{path}");
    }
    // The imported cloud works: a new gateway follows the imported ones.
    let (_, router) = furnished.iter().find(|(path, _)| *path == "routers").unwrap();
    let external = new.get(&format!("/v2.0/routers/{router}")).await.body["router"]["external_gateway_info"]
        ["network_id"]
        .clone();
    let more = json!({"router": {"external_gateways": [{"network_id": external}]}});
    let added = new.ask("PUT", &format!("/v2.0/routers/{router}/add_external_gateways"), more).await;
    assert_eq!(added.body["router"]["external_gateways"].as_array().unwrap().len(), 2, "{}", added.body);
    let first =
        old.get(&format!("/v2.0/routers/{router}")).await.body["router"]["external_gateway_info"].clone();
    assert_eq!(added.body["router"]["external_gateway_info"], first);
}

#[tokio::test]
async fn who_has_no_rights_is_told_so() {
    let server = Server::with(Auth::token(&"s3cret".into(), "p")).await;
    for (credentials, reads) in [
        (Credentials::None, false),
        (Credentials::Token("wrong".into()), false),
        (Credentials::Basic("a".into(), "b".into()), false),
        (Credentials::Token("s3cret".into()), true),
    ] {
        let read = Source::network(&server.url, credentials, None).unwrap().read_network().await;
        assert_eq!(read.is_ok(), reads);
        assert!(read.err().is_none_or(|error| error.is_refusal()));
    }
    let nobody = Source::network("http://127.0.0.1:1", Credentials::None, None).unwrap().read_network().await;
    assert!(matches!(nobody, Err(SourceError::Read(..))), "{nobody:?}");
}
