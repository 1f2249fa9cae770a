//! The real `openstack` command without Keystone: the four forms in which `clouds.yaml` can name a server.

use std::path::Path;
use std::process::Command;

use api::auth::Auth;
use api::auth::htpasswd::Htpasswd;
use serde_json::{Value, json};

use crate::server::Server;

/// Runs `openstack --os-cloud CLOUD ARGS` and parses its output as JSON.
async fn openstack(clouds: &Path, cloud: &str, args: &[&str]) -> Value {
    let mut arguments = vec!["--os-cloud".to_owned(), cloud.to_owned()];
    arguments.extend(args.iter().map(|arg| (*arg).to_owned()));
    arguments.extend(["-f", "json"].map(str::to_owned));
    let clouds = clouds.to_owned();
    let run = tokio::task::spawn_blocking(move || {
        let environment = lab::python::openstack().unwrap();
        Command::new(environment.join("bin/openstack"))
            .args(arguments)
            .env("OS_CLIENT_CONFIG_FILE", clouds)
            .output()
            .unwrap()
    });
    let output = run.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openstack {args:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn clouds(dir: &Path, clouds: Value) -> std::path::PathBuf {
    let path = dir.join("clouds.yaml");
    // JSON is valid YAML.
    std::fs::write(&path, json!({"clouds": clouds}).to_string()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_01_the_cli_works_with_the_endpoint_at_the_root_and_at_the_version() {
    let server = Server::open().await;
    let dir = tempfile::tempdir().unwrap();
    let versioned = format!("{}/v2.0", server.url);
    let path = clouds(
        dir.path(),
        json!({
            "none": {"auth_type": "none", "auth": {"endpoint": server.url}},
            "versioned": {"auth_type": "none", "auth": {"endpoint": versioned}},
            "override": {"auth_type": "none", "network_endpoint_override": server.url},
        }),
    );
    let made = openstack(&path, "none", &["network", "create", "n1"]).await;
    assert_eq!(made["name"], "n1");
    for cloud in ["none", "versioned", "override"] {
        let listed = openstack(&path, cloud, &["network", "list"]).await;
        assert_eq!(listed[0]["ID"], made["id"], "{cloud}");
    }
    let shown = openstack(&path, "none", &["network", "show", "n1"]).await;
    assert_eq!(shown["id"], made["id"], "found by its name");
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_02_the_cli_lists_extensions_and_zones() {
    let server = Server::open().await;
    let dir = tempfile::tempdir().unwrap();
    let path = clouds(dir.path(), json!({"none": {"auth_type": "none", "auth": {"endpoint": server.url}}}));
    let listed = openstack(&path, "none", &["extension", "list", "--network"]).await;
    let mut aliases: Vec<_> =
        listed.as_array().unwrap().iter().map(|it| it["Alias"].as_str().unwrap()).collect();
    aliases.sort_unstable();
    let mut expected: Vec<_> = api::http::extension::EXTENSIONS.iter().map(|(alias, _, _)| *alias).collect();
    expected.sort_unstable();
    assert_eq!(aliases, expected);
    assert_eq!(openstack(&path, "none", &["availability", "zone", "list", "--network"]).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_or_a_password_lets_the_cli_in() {
    let by_token = Server::with(Auth::token(&"s3cret".into(), "p")).await;
    let users = Htpasswd::parse(&format!("admin:{}", bcrypt::hash("pw", 4).unwrap())).unwrap();
    let by_password = Server::with(Auth::basic(users, "p")).await;
    let dir = tempfile::tempdir().unwrap();
    let path = clouds(
        dir.path(),
        json!({
            "token": {"auth_type": "admin_token", "auth": {"endpoint": by_token.url, "token": "s3cret"}},
            "basic": {"auth_type": "http_basic",
                      "auth": {"endpoint": by_password.url, "username": "admin", "password": "pw"}},
        }),
    );
    for cloud in ["token", "basic"] {
        assert_eq!(openstack(&path, cloud, &["network", "list"]).await, json!([]), "{cloud}");
    }
}
