//! TLS to Nova, against a server that wants a certificate of ours.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use metadata_proxy::nova::{Nova, NovaAddress, NovaFailure, NovaRequest, NovaTimeouts};
use metadata_proxy::tls::NovaTls;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const WITHIN: Duration = Duration::from_secs(30);

/// A CA with a certificate for `localhost`, and a foreign CA, by openssl.
fn certificates(dir: &Path) {
    let openssl = |line: &str| {
        let out = Command::new("openssl").args(line.split(' ')).current_dir(dir).output().unwrap();
        assert!(out.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    std::fs::write(dir.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=ca -keyout ca.key -out ca.pem"));
    openssl(&format!("req {key} -subj /CN=nova -keyout nova.key -out nova.csr"));
    openssl(
        "x509 -req -in nova.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out nova.pem",
    );
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=foreign -keyout foreign.key -out foreign.pem"));
    openssl("x509 -req -in nova.csr -CA ca.pem -CAkey ca.key -days -1 -extfile names -out expired.pem");
}

/// A server that wants a certificate that its CA has signed, and shows one of its own; returns its port.
async fn serve(dir: &Path, own: &str) -> u16 {
    let of = |name: &str| CertificateDer::from_pem_file(dir.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(of("ca.pem")).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![of(own)], PrivateKeyDer::from_pem_file(dir.join("nova.key")).unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnova";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

#[tokio::test]
async fn nova_is_asked_over_tls_and_both_sides_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let port = serve(dir.path(), "nova.pem").await;
    let at = |name: &str| dir.path().join(name);
    let own = Some((at("nova.pem"), at("nova.key")));
    let request = NovaRequest {
        method: Method::GET,
        target: "/".parse().unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
    };
    let timeouts = NovaTimeouts { connect: WITHIN, answer: WITHIN };
    let ask = |host: &str, ca: &str, identity| {
        let tls = Some(NovaTls { ca: Some(at(ca)), identity });
        Nova::new(&NovaAddress { host: host.into(), port, tls }, timeouts).unwrap()
    };
    let good = ask("localhost", "ca.pem", own.clone());
    assert_eq!(good.ask(&request).await.map(|answer| answer.status().as_u16()).ok(), Some(200));
    // A certificate of another authority, or for another name.
    for bad in [ask("localhost", "foreign.pem", own.clone()), ask("127.0.0.1", "ca.pem", own.clone())] {
        assert_eq!(bad.ask(&request).await.err(), Some(NovaFailure::Unreachable));
    }
    // Without a certificate of its own the proxy is not let in, nor with one that has expired.
    let expired = Some((at("expired.pem"), at("nova.key")));
    for identity in [None, expired] {
        assert!(ask("localhost", "ca.pem", identity).ask(&request).await.is_err());
    }
    // A renewed file is used by the next connection.
    let renewed = ask("localhost", "later.pem", own);
    assert_eq!(renewed.ask(&request).await.err(), Some(NovaFailure::Unreachable));
    std::fs::copy(at("ca.pem"), at("later.pem")).unwrap();
    assert!(renewed.ask(&request).await.is_ok());
    assert!(NovaTls { ca: Some(at("nowhere.pem")), identity: None }.load().is_err());
}

#[tokio::test]
async fn a_request_of_a_vm_goes_to_nova_over_tls_and_an_expired_certificate_is_a_503() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    for (own, expected) in [("nova.pem", 200), ("expired.pem", 503)] {
        let port = serve(dir.path(), own).await;
        let at = |name: &str| dir.path().join(name);
        let tls = Some(NovaTls { ca: Some(at("ca.pem")), identity: Some((at("nova.pem"), at("nova.key"))) });
        let nova = crate::site::Nova::start().await;
        let address = NovaAddress { host: "localhost".into(), port, tls };
        let fronts = crate::site::fronts(&nova, |config| config.nova = address).await;
        for front in &fronts.all {
            assert_eq!(front.get("/").await.0, expected, "{own} through {front:?}");
        }
    }
}
