//! Running the program: the addresses where it may listen, the configured authentication, its end, and its metrics.

use std::net::TcpStream;
use std::path::Path;
use std::thread;

use serde_json::json;

use crate::cloud::{Cloud, eventually, raw};
use crate::plant::Plant;
use crate::site::internal;

/// The status of a request for the list of networks with these headers.
fn let_in(cloud: &Cloud, headers: &[(&str, &str)]) -> u16 {
    raw(cloud.url(), headers, "GET", "/v2.0/networks", None).status
}

#[test]
fn whoever_asks_for_no_credentials_listens_to_this_machine_alone() {
    let dir = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        for flag in ["--listen", "--lb-listen"] {
            let complaint = Cloud::refused(dir.path(), &[flag, address]);
            for part in [address.trim_end_matches(":0"), "--auth keystone", "allow_remote_noauth = true"] {
                assert!(complaint.contains(part), "{part}: {complaint}");
            }
        }
    }
    assert!(!Path::new(dir.path()).join("api.db").exists(), "before anything is made");
    // The server starts if the configuration allows it, or if it has credentials.
    let config = dir.path().join("meridian.toml");
    std::fs::write(&config, "[server]\nallow_remote_noauth = true\n").unwrap();
    let config = config.display().to_string();
    let cloud = Cloud::with(&["--listen", "0.0.0.0:0", "--config", &config]);
    assert_eq!(let_in(&cloud, &[("X-Auth-Token", "any")]), 200);
}

/// Every file and directory below a directory, with its mode.
fn modes(dir: &Path) -> Vec<(String, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        found.push((entry.file_name().to_string_lossy().into_owned(), mode));
    }
    found.sort();
    found
}

#[test]
fn nobody_else_may_read_what_a_server_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("state/meridian");
    let mut cloud = Cloud::within(dir, &["--data-dir", &data.display().to_string()]);
    internal_in(&cloud);
    for (name, mode) in modes(data.parent().unwrap()) {
        assert_eq!(mode, 0o700, "{name}");
    }
    let found = modes(&data);
    for wanted in ["admin.sock", "api.db", "api.db-shm", "api.db-wal", "ovn"] {
        assert!(found.iter().any(|(name, _)| name == wanted), "{wanted}: {found:?}");
    }
    for (name, mode) in found.iter().filter(|(name, _)| name != "ovn") {
        assert_eq!(mode & 0o077, 0, "{name} has {mode:o}");
    }
    // The server restricts a file of an earlier version that created it with a wider mode.
    assert!(cloud.stop());
    std::fs::set_permissions(data.join("api.db"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    cloud.again();
    assert!(modes(&data).contains(&("api.db".to_owned(), 0o600)), "{:?}", modes(&data));
}

/// Creates a network, so that the server writes to its files.
fn internal_in(cloud: &Cloud) {
    let made = raw(cloud.url(), &[], "POST", "/v2.0/networks", Some(&json!({"network": {}}).to_string()));
    assert_eq!(made.status, 201, "{made:?}");
}

#[test]
fn a_token_of_the_configuration_lets_in() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    let config = format!("[server]\nauth = \"token\"\ntoken_file = \"{}\"\n", file.display());
    let path = dir.path().join("meridian.toml");
    std::fs::write(&path, config).unwrap();
    let path = path.display().to_string();
    let refused = Cloud::refused(dir.path(), &["--config", &path]);
    assert!(refused.contains(&file.display().to_string()), "the file is not there: {refused}");
    std::fs::write(&file, "s3cret\n").unwrap();
    let cloud = Cloud::with(&["--listen", "0.0.0.0:0", "--config", &path]);
    assert_eq!(let_in(&cloud, &[("X-Auth-Token", "s3cret")]), 200);
    for headers in [&[][..], &[("X-Auth-Token", "s3cre")], &[("X-Auth-Token", "s3cret\u{20}x")]] {
        assert_eq!(let_in(&cloud, headers), 401, "{headers:?}");
    }
    // `openstack` with the same token.
    let env = [("OS_AUTH_TYPE", "admin_token"), ("OS_ENDPOINT", cloud.url()), ("OS_TOKEN", "s3cret")];
    assert_eq!(cloud.openstack_as(&env, "network list").unwrap(), json!([]));
}

#[test]
fn a_password_of_the_configuration_lets_in() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("htpasswd");
    std::fs::write(&users, format!("admin:{PASSWORD}\n")).unwrap();
    let path = dir.path().join("meridian.toml");
    std::fs::write(&path, "[server]\nauth = \"basic\"\n").unwrap();
    let path = path.display().to_string();
    let refused = Cloud::refused(dir.path(), &["--config", &path]);
    assert!(refused.contains("which needs server.htpasswd"), "{refused}");
    std::fs::write(&path, format!("[server]\nauth = \"basic\"\nhtpasswd = \"{}\"\n", users.display()))
        .unwrap();
    let cloud = Cloud::with(&["--config", &path]);
    // The credentials are admin:pw, admin:no and nobody:pw.
    assert_eq!(let_in(&cloud, &[("Authorization", "Basic YWRtaW46cHc=")]), 200);
    for wrong in ["Basic YWRtaW46bm8=", "Basic bm9ib2R5OnB3", "Basic ?", "Bearer YWRtaW46cHc="] {
        assert_eq!(let_in(&cloud, &[("Authorization", wrong)]), 401, "{wrong}");
    }
    assert_eq!(let_in(&cloud, &[("X-Auth-Token", "pw")]), 401);
    // The load-balancer API takes the same passwords.
    let balancers = |credentials: &str| {
        let headers = [("Authorization", credentials)];
        raw(cloud.load_balancer_url(), &headers, "GET", "/v2/lbaas/loadbalancers", None).status
    };
    assert_eq!(["YWRtaW46cHc=", "YWRtaW46bm8="].map(|it| balancers(&format!("Basic {it}"))), [200, 401]);
    let env = [
        ("OS_AUTH_TYPE", "http_basic"),
        ("OS_ENDPOINT", cloud.url()),
        ("OS_USERNAME", "admin"),
        ("OS_PASSWORD", "pw"),
    ];
    assert_eq!(cloud.openstack_as(&env, "network list").unwrap(), json!([]));
}

/// The bcrypt hash of `pw`.
const PASSWORD: &str = "$2b$04$.28FkFQLkDFPySBHWafRUOwjRx/7UVblME5U9yUsNQtEyzmztXLZO";

#[test]
fn a_server_that_is_told_to_end_answers_what_is_under_way() {
    let mut plant = Plant::start();
    let mut cloud = Cloud::on(plant.dir(), &[]);
    let (network, _) = internal(&cloud, "net", "10.0.0.0/24");
    cloud.converged();
    // The server answers when the Northbound has the port, and the Northbound does not respond.
    plant.freeze();
    let url = cloud.url().to_owned();
    let body = json!({"port": {"network_id": network, "name": "last"}}).to_string();
    let asking = thread::spawn(move || {
        raw(&url, &[("X-Auth-Token", "t")], "POST", "/v2.0/ports?wait=ovn", Some(&body))
    });
    eventually("the request is under way", || {
        (cloud.get("ports?name=last")["ports"].as_array()?.len() == 1).then_some(())
    });
    cloud.terminate();
    let address = cloud.url().trim_start_matches("http://").to_owned();
    eventually("nobody else is let in", || TcpStream::connect(&address).err());
    plant.thaw();
    let answer = asking.join().unwrap();
    assert_eq!((answer.status, answer.waited.as_deref()), (201, Some("nb")), "{answer:?}");
    assert!(cloud.ended(), "it ended well");
    let port = answer.body["port"]["id"].as_str().unwrap();
    assert!(cloud.rows("Logical_Switch_Port").iter().any(|row| row["name"] == port));
}

#[test]
fn the_metrics_of_a_server_count_what_it_does() {
    let cloud = Cloud::start();
    internal(&cloud, "net", "10.0.0.0/24");
    cloud.converged();
    let text = eventually("the rows are counted", || {
        let answer = raw(&cloud.metrics_url(), &[], "GET", "/metrics", None);
        assert_eq!(answer.status, 200);
        let text = answer.body.as_str().unwrap().to_owned();
        let want = value(&text, "meridian_reconcile_objects{component=\"northbound\",state=\"want\"}")?;
        let have = value(&text, "meridian_reconcile_objects{component=\"northbound\",state=\"have\"}")?;
        (want > 3.0 && want == have).then_some(text)
    });
    assert!(
        value(&text, "meridian_reconcile_runs_total{component=\"northbound\"}").unwrap() >= 1.0,
        "{text}"
    );
    let refused = "meridian_reconcile_problems{component=\"northbound\",class=\"refused\"}";
    assert_eq!(value(&text, refused), Some(0.0), "{text}");
    for database in ["OVN_Northbound", "OVN_Southbound"] {
        let of = |name: &str| value(&text, &format!("meridian_ovsdb_{name}{{database=\"{database}\"}}"));
        assert_eq!((of("synced"), of("connections_total")), (Some(1.0), Some(1.0)), "{database}: {text}");
        assert!(of("received_bytes_total").unwrap() > 0.0, "{database}: {text}");
    }
    let ended = |outcome: &str| {
        let labels = format!("{{database=\"OVN_Northbound\",outcome=\"{outcome}\"}}");
        value(&text, &format!("meridian_ovsdb_transactions_total{labels}"))
    };
    assert!(ended("committed").unwrap() >= 1.0, "the network was written: {text}");
    for outcome in ["refused", "conflict", "unknown", "unsent"] {
        assert!(ended(outcome).is_some(), "{outcome}: {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

/// The value of a metric's series.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}
