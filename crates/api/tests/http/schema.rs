//! The API document, and schemathesis requests that it generates from it.

use std::fmt::Write;
use std::process::Command;

use api::auth::Auth;

use crate::server::Server;

#[tokio::test]
async fn the_api_document_is_served() {
    let server = Server::open().await;
    let document = server.get("/openapi.json").await;
    assert_eq!((document.status, document.body["openapi"].as_str()), (200, Some("3.1.0")));
    assert_eq!(document.body, api::http::openapi_document());
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_no_server_error() {
    loose(&Server::open().await, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_no_server_error_on_postgresql() {
    // Requests that only read do not depend on the engine.
    loose(&Server::on_postgres(Auth::open("p")).await, &["--exclude-method", "GET"]).await;
}

async fn loose(server: &Server, further: &'static [&str]) {
    // Random ids match no object. These match objects that the run does not delete.
    let mut config = String::new();
    for (path, id) in server.furnish().await {
        writeln!(config, "[[operations]]\ninclude-path-regex = '^/v2.0/{path}/'\nexclude-method = 'DELETE'")
            .unwrap();
        writeln!(config, "parameters = {{ id = '{id}' }}\n").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("schemathesis.toml"), config).unwrap();
    let (url, place) = (server.url.clone(), dir.path().to_owned());
    let run = tokio::task::spawn_blocking(move || {
        let environment = lab::python::openstack().unwrap();
        Command::new(environment.join("bin/schemathesis"))
            .args([
                "--config-file",
                "schemathesis.toml",
                "run",
                &format!("{url}/openapi.json"),
                "--url",
                &url,
            ])
            .args(["--checks", "not_a_server_error,content_type_conformance,status_code_conformance"])
            .args(["--max-examples", "5", "--seed", "7", "--phases", "examples,coverage,fuzzing"])
            // More than one worker triggers a bug of Python 3.11: its parser shares one depth between all threads.
            .args(["--workers", "1", "--no-color"])
            .args(further)
            .current_dir(place)
            .output()
            .unwrap()
    });
    let output = run.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.get("/v2.0/networks?limit=1").await.status, 200, "it goes on");
}
