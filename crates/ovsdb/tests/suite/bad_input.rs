//! What is wrong is said so that one knows what to do.

use std::time::Duration;

use ovsdb::client::{Dialer, Rpc};
use ovsdb::session::Remotes;

use crate::support::server::Standalone;
use crate::support::{PATIENCE, stable, whole};

fn remotes(text: &str) -> Remotes {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_plain_connection_answers_and_refuses() {
    let server = Standalone::start(stable::SCHEMA);
    let both = format!("unix:{}/nothing,{}", server.dir.path().display(), server.tcp());
    let mut rpc = Rpc::connect(&remotes(&both), &Dialer::default(), PATIENCE).await.unwrap();
    assert_eq!(rpc.remote().to_string(), server.tcp(), "the first that answers");
    assert_eq!(rpc.databases().await.unwrap(), ["Stable", "_Server"]);
    assert_eq!(rpc.schema("Stable").await.unwrap().version, "1.0.0");

    let wrong = rpc.schema("Unstable").await.unwrap_err();
    assert_eq!(
        whole(&wrong),
        "the server refused get_schema: unknown database: get_schema request specifies unknown database Unstable"
    );
    let wrong = rpc.call("dance", &[(); 0]).await.unwrap_err();
    assert_eq!(whole(&wrong), "the server refused dance: unknown method");
    let select = serde_json::json!({"op": "select", "table": "Horse", "where": []});
    assert_eq!(rpc.call("transact", &("Stable", select)).await.unwrap(), serde_json::json!([{"rows": []}]));

    assert_eq!(rpc.call("lock", &["gate"]).await.unwrap(), serde_json::json!({"locked": true}));
    let mut thief = server.rpc().await;
    thief.call("steal", &["gate"]).await.unwrap();
    let note = rpc.note(PATIENCE).await.unwrap().expect("the theft is told");
    assert_eq!((note.method.as_str(), note.params.get()), ("stolen", r#"["gate"]"#));
    assert!(rpc.note(Duration::from_millis(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn every_remote_that_failed_is_named_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let list = format!(
        "unix:{}/nothing,tcp:127.0.0.1:1,ssl:127.0.0.1:1,tcp:no.such.host.invalid:1",
        dir.path().display()
    );
    let error = Rpc::connect(&remotes(&list), &Dialer::default(), PATIENCE).await.unwrap_err();
    let text = whole(&error);
    for part in [
        "nothing: No such file or directory",
        "cannot connect to tcp:127.0.0.1:1: Connection refused",
        "ssl:127.0.0.1:1 needs certificates, and none are configured",
        "cannot find the address of no.such.host.invalid",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[tokio::test]
async fn a_frozen_server_is_not_waited_for_for_ever() {
    let server = Standalone::start(stable::SCHEMA);
    server.freeze();
    let mut rpc =
        Rpc::connect(&remotes(&server.unix()), &Dialer::default(), Duration::from_millis(300)).await.unwrap();
    let error = rpc.databases().await.unwrap_err();
    assert!(whole(&error).contains("did not answer list_dbs within 300ms"), "{}", whole(&error));
}
