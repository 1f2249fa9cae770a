//! TLS of the server's own listeners, tested with the real `openstack` and OpenSSL.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::cloud::{Cloud, PATIENCE, eventually};
use crate::two_servers::certificates;

/// The configuration of a server with the certificates that `certificates` created in its directory.
const CONFIG: &str = "[server]\ntls_cert = \"pg.pem\"\ntls_key = \"pg.key\"\n\
                      metrics_tls_cert = \"pg.pem\"\nmetrics_tls_key = \"pg.key\"\n";

/// Sends a request over TLS as a client that trusts one CA; returns the answer.
fn ask(url: &str, ca: &Path, path: &str) -> String {
    let (_, address) = url.split_once("://").unwrap();
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
            "-connect",
            address,
        ])
        .arg("-CAfile")
        .arg(ca)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    // A client that does not trust the server has already closed the connection.
    let _ = client.stdin.as_mut().unwrap().write_all(request.as_bytes());
    let out = client.wait_with_output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn encrypted() -> Cloud {
    encrypted_with("")
}

/// Starts a server with further keys in `[server]`.
fn encrypted_with(keys: &str) -> Cloud {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), "localhost");
    fs::write(dir.path().join("meridian.toml"), format!("{CONFIG}{keys}")).unwrap();
    Cloud::within(dir, &["--config", "meridian.toml", "--data-dir", "."])
}

#[test]
fn all_listeners_speak_tls() {
    let cloud = encrypted();
    let ca = cloud.dir().join("ca.pem");
    assert!(cloud.url().starts_with("https://"), "{}", cloud.url());
    let versions = ask(cloud.url(), &ca, "/");
    assert!(
        versions.starts_with("HTTP/1.1 200") && versions.contains("https://localhost/v2.0/"),
        "{versions}"
    );
    assert!(cloud.load_balancer_url().starts_with("https://"), "{}", cloud.load_balancer_url());
    let balancers = ask(cloud.load_balancer_url(), &ca, "/");
    assert!(balancers.starts_with("HTTP/1.1 200") && balancers.contains("https://localhost"), "{balancers}");
    let health = ask(&cloud.metrics_url(), &ca, "/metrics");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    // A client without TLS receives no HTTP response.
    let mut plain = TcpStream::connect(cloud.url().trim_start_matches("https://")).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "answered in clear text");
    // OpenStack's client checks the name in the certificate.
    let port = cloud.url().rsplit(':').next().unwrap();
    let endpoint = format!("https://localhost:{port}");
    let ca = ca.display().to_string();
    let env = [("OS_AUTH_TYPE", "none"), ("OS_ENDPOINT", endpoint.as_str()), ("OS_CACERT", ca.as_str())];
    cloud.openstack_as(&env, "network create secret").unwrap();
    assert_eq!(cloud.openstack_as(&env, "network list").unwrap()[0]["Name"], json!("secret"));
}

#[test]
fn a_client_that_does_not_finish_its_handshake_is_dropped() {
    let cloud = encrypted_with("first_request_timeout = \"1s\"\n");
    // One client sends nothing, another only the start of a TLS record of 512 bytes.
    for begin in [&b""[..], &[22, 3, 1, 2, 0, 1, 0]] {
        let mut client = TcpStream::connect(cloud.url().trim_start_matches("https://")).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(begin).unwrap();
        let ended = client.read(&mut [0; 64]).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)), "{begin:?}: {ended:?}");
    }
    assert!(ask(cloud.url(), &cloud.dir().join("ca.pem"), "/").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_renewed_certificate_is_taken_without_a_restart() {
    let cloud = encrypted();
    let old = cloud.dir().join("ca.pem");
    let renewed = tempfile::tempdir().unwrap();
    certificates(renewed.path(), "localhost");
    let new = renewed.path().join("ca.pem");
    assert_eq!(ask(cloud.url(), &new, "/"), "", "another CA");
    // A new key without its certificate changes nothing, because the files do not match.
    fs::copy(renewed.path().join("pg.key"), cloud.dir().join("pg.key")).unwrap();
    eventually("the server reports it", || {
        let log = fs::read_to_string(cloud.dir().join("server.log")).unwrap();
        log.contains("cannot use the new certificate").then_some(())
    });
    assert!(ask(cloud.url(), &old, "/").starts_with("HTTP/1.1 200"));
    fs::copy(renewed.path().join("pg.pem"), cloud.dir().join("pg.pem")).unwrap();
    for url in [cloud.url(), &cloud.metrics_url()] {
        eventually("the new certificate is shown", || {
            ask(url, &new, "/health").starts_with("HTTP/1.1").then_some(())
        });
        assert_eq!(ask(url, &old, "/"), "", "the old one is gone");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_keeps_the_server_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), "localhost");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let config = dir.path().join("meridian.toml");
    for (text, expected) in [
        (format!("tls_cert = \"{}\"\n", file("pg.pem")), "is set without server.tls_key"),
        (format!("metrics_tls_key = \"{}\"\n", file("pg.key")), "is set without server.metrics_tls_cert"),
        (
            format!("tls_cert = \"{}\"\ntls_key = \"{}\"\n", file("pg.pem"), file("ca.key")),
            "cannot use server.tls_cert",
        ),
        (
            format!("tls_cert = \"{}\"\ntls_key = \"{}\"\n", file("pg.key"), file("pg.key")),
            "contains no certificate",
        ),
        (
            format!("tls_cert = \"{}\"\ntls_key = \"{}\"\n", file("gone"), file("pg.key")),
            "cannot read a certificate from",
        ),
    ] {
        fs::write(&config, format!("[server]\n{text}")).unwrap();
        let complaint = Cloud::refused(dir.path(), &["--config", &config.display().to_string()]);
        assert!(complaint.contains(expected), "{expected}: {complaint}");
    }
}
