//! A peer that sends requests and does not read the replies, over TCP and over TLS: the client drops it before the replies fill its memory,
//! and continues with another server. And error messages of megabytes: the client keeps only the beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ovsdb::client::TlsConfig;
use ovsdb::fake::{Fault, Model as Kind, When};
use ovsdb::session::CloseReason;
use ovsdb::{Client, ClientConfig, CommitError, Transaction};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::support::backend::{Fake, config, in_sync, model, synced};
use crate::support::pki::Pki;
use crate::support::soon;
use crate::support::stable::{horse, id};

/// Bytes of answers that may wait.
const LIMIT: usize = 256 << 10;
/// Bytes in each request of the peer.
const ECHO: usize = 16 << 10;

/// A peer that speaks first and never reads, on a port of its own.
struct Peer {
    port: u16,
    /// Bytes that the last connection could send; each is answered by as many.
    sent: Arc<AtomicUsize>,
}

impl Peer {
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, sent) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counter = sent.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.store(0, Ordering::Relaxed);
                match &tls {
                    None => flood(stream, &counter).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            flood(stream, &counter).await;
                        }
                    }
                }
            }
        });
        Self { port, sent }
    }
}

/// Sends echo requests until the peer closes the connection.
async fn flood(mut stream: impl AsyncWrite + Unpin, sent: &AtomicUsize) {
    let echo = format!(r#"{{"id":"e","method":"echo","params":["{}"]}}"#, "x".repeat(ECHO));
    while stream.write_all(echo.as_bytes()).await.is_ok() && stream.flush().await.is_ok() {
        sent.fetch_add(echo.len(), Ordering::Relaxed);
    }
}

fn narrow(remotes: &str) -> ClientConfig {
    let mut config = config(remotes);
    config.max_backlog = LIMIT;
    config.session.shuffle = false;
    config
}

/// The peer is dropped with a reason for people, nothing like its answers is kept, and the next remote serves.
async fn dropped(peer: &Peer, client: &Client) {
    let mut status = client.status();
    let told = status.wait_for(|status| status.last_close.is_some());
    let reason = soon("the peer is dropped", told).await.unwrap().last_close.clone().unwrap();
    let CloseReason::Unread(waiting) = reason else { panic!("{reason}") };
    assert!((LIMIT..=LIMIT + 2 * ECHO).contains(&waiting), "{waiting}");
    assert_eq!(reason.label(), "unread");
    assert!(reason.to_string().contains("does not read the answers"), "{reason}");
    // The kernels of both sides buffer some more.
    let sent = peer.sent.load(Ordering::Relaxed);
    assert!(sent < LIMIT + (64 << 20), "{sent} bytes were read of a peer that reads nothing");
    in_sync(client).await;
    let mut txn = Transaction::new();
    txn.insert(id(1), &horse("a", 1));
    client.commit(&txn).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_dropped() {
    let (peer, good) = (Peer::start(None).await, Fake::start(Kind::Standalone).await);
    let remotes = format!("tcp:127.0.0.1:{},{}", peer.port, good.server.remote());
    let client = Client::open(narrow(&remotes), model());
    dropped(&peer, &client).await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_dropped_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path(), "ca");
    let (certificate, key) = pki.sign("server");
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let peer = Peer::start(Some(TlsAcceptor::from(Arc::new(server)))).await;
    let good = Fake::start(Kind::Standalone).await;
    let remotes = format!("ssl:127.0.0.1:{},{}", peer.port, good.server.remote());
    let client = Client::open(narrow(&remotes).tls(TlsConfig::new(pki.ca())), model());
    dropped(&peer, &client).await;
}

/// With the default limit, which is more than kernels keep for two sides that read and write by turns.
#[tokio::test]
async fn a_peer_that_reads_may_ask_for_as_many_echoes_as_it_likes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = format!("tcp:{}", listener.local_addr().unwrap());
    let client = Client::open(config(&remote), model());
    let (stream, _) = soon("a connection", listener.accept()).await.unwrap();
    soon("the answers", answered(stream, 4 * (16 << 20))).await;
    assert_eq!(client.metrics().disconnections, 0);
}

/// Sends requests until this number of bytes of replies has arrived.
async fn answered(stream: TcpStream, mut wanted: usize) {
    let (mut read, mut write) = stream.into_split();
    let writer = tokio::spawn(async move { flood(&mut write, &AtomicUsize::new(0)).await });
    while wanted > 0 {
        wanted = wanted.saturating_sub(drain(&mut read).await);
    }
    writer.abort();
}

async fn drain(read: &mut (impl AsyncRead + Unpin)) -> usize {
    let count = read.read(&mut [0; 1 << 16]).await.unwrap();
    assert!(count > 0, "the client hung up");
    count
}

#[tokio::test]
async fn only_the_beginning_of_a_long_error_is_kept() {
    let long = "x".repeat(10 << 20);
    let fake = Fake::start(Kind::Standalone).await;
    let refused = |error: &str| Fault::Refuse(serde_json::json!({"error": error, "details": long}));
    // The server refuses the monitor, a transaction as a whole, or one of its operations.
    fake.server.faults().on(When::method("monitor_cond_since"), refused("no"));
    let client = synced(config(&fake.server.remote()), model()).await;
    let reason = client.status().borrow().last_close.clone().unwrap();
    assert!(matches!(reason, CloseReason::MonitorRefused(_)), "{}", reason.label());
    assert!(reason.to_string().len() < 3000, "{}", reason.to_string().len());
    assert!(reason.to_string().contains("more bytes)"), "{reason}");

    let mut txn = Transaction::new();
    txn.insert(id(1), &horse("a", 1));
    let named = format!("\"{long}\"");
    for fault in [
        refused("constraint violation"),
        refused(&long),
        Fault::rewrite(move |reply| {
            let reply: serde_json::Value = serde_json::from_str(reply).unwrap();
            format!(
                r#"{{"id":{},"error":null,"result":[{{"error":{named},"details":{named}}}]}}"#,
                reply["id"]
            )
        }),
    ] {
        fake.server.faults().on(When::method("transact"), fault);
        let error = client.commit(&txn).await.unwrap_err();
        assert!(matches!(error, CommitError::Refused { .. }));
        assert!(format!("{error} {error:?}").len() < 8000, "{}", error.to_string().len());
    }
}
