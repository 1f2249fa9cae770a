//! Requests and answers of all kinds, through both fronts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use metadata_proxy::Proxy;
use metadata_proxy::control::Message;
use metadata_proxy::counts::SourceResult;
use metadata_proxy::identity::PortIdentity;
use metadata_proxy::rate::{RateLimit, RateLimits};
use metadata_proxy::request::SharedSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::site::*;

const SELF: &str = "127.0.0.1";

#[tokio::test]
async fn a_connection_is_kept_and_every_method_is_forwarded() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    for front in &fronts.all {
        let mut stream = front.connect_from(SELF).await;
        for line in ["PUT /latest/api/token", "GET /openstack", "OPTIONS /", "DELETE /x", "POST /y"] {
            let request = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(front.request(SELF, &request).as_bytes()).await.unwrap();
            let (head, body) = read_answer(&mut stream).await;
            let seen = String::from_utf8(body).unwrap();
            assert_eq!(status(&head), "200", "{front:?}: {head}");
            assert!(seen.starts_with(&format!("{} http/1.1", line.to_lowercase())), "{seen}");
        }
    }
}

#[tokio::test]
async fn bodies_reach_nova_whole_however_they_come() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    let post = "POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\n";
    for front in &fronts.all {
        for (fields, pieces) in [
            ("Content-Length: 9\r\n\r\n", ["abc", "def", "ghi"]),
            ("Transfer-Encoding: chunked\r\n\r\n", ["3\r\nabc\r\n4", "\r\ndefg\r\n2\r\nh", "i\r\n0\r\n\r\n"]),
        ] {
            let mut stream = front.connect_from(SELF).await;
            stream.write_all(front.request(SELF, &format!("{post}{fields}")).as_bytes()).await.unwrap();
            for piece in pieces {
                // Each is a segment of its own.
                sleep(Duration::from_millis(20)).await;
                stream.write_all(piece.as_bytes()).await.unwrap();
            }
            let (head, seen) = read_answer(&mut stream).await;
            assert_eq!(status(&head), "200", "{front:?}: {head}");
            let seen = String::from_utf8(seen).unwrap();
            assert!(seen.contains("content-length: 9") && !seen.contains("chunked"), "{seen}");
            assert_eq!(nova.bodies.lock().unwrap().last().unwrap(), b"abcdefghi", "{front:?}: {fields}");
        }
        // A client that waits for leave to send its body gets it.
        let mut stream = front.connect_from(SELF).await;
        let request = format!("{post}Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
        stream.write_all(front.request(SELF, &request).as_bytes()).await.unwrap();
        let mut leave = [0; 25];
        timeout(WITHIN, stream.read_exact(&mut leave)).await.expect("an answer").unwrap();
        assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"body").await.unwrap();
        assert_eq!(status(&read_answer(&mut stream).await.0), "200");
        assert_eq!(nova.bodies.lock().unwrap().last().unwrap(), b"body");
    }
}

#[tokio::test]
async fn answers_are_passed_byte_for_byte() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    for front in &fronts.all {
        for length in [0, 48 << 10, 5 << 20] {
            let mut stream = front.connect_from(SELF).await;
            let request = format!("GET /bytes/{length} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(front.request(SELF, &request).as_bytes()).await.unwrap();
            let (head, body) = read_answer(&mut stream).await;
            assert!(head.contains("content-encoding: gzip"), "{head}");
            assert!(body == pattern(length), "{front:?}: {length} bytes are others");
        }
    }
}

#[tokio::test]
async fn requests_beyond_the_limit_get_429_and_nova_sees_none_of_them() {
    let limit = RateLimit { window: Duration::from_secs(3600), requests: 5 };
    for one in 0..2 {
        let nova = Nova::start().await;
        let rate = RateLimits { base: limit, burst: limit, ipv4: true, ipv6: true };
        let fronts = fronts(&nova, |config| config.rate = Some(rate)).await;
        let front = &fronts.all[one];
        for n in 0..20 {
            let (status, head) = front.get("/").await;
            assert_eq!(status, if n < 5 { 200 } else { 429 }, "request {n}");
            assert_eq!(head.contains("retry-after: "), n >= 5, "{head}");
        }
        assert_eq!(nova.bodies.lock().unwrap().len(), 5, "{front:?}");
        // Another source has a limit of its own; this one is nobody's address.
        assert_eq!(front.get_from("127.0.0.2", "/").await.0, 404);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |config| config.limits.answer = Duration::from_millis(500)).await;
    for (n, front) in fronts.all.iter().enumerate() {
        let mut stream = front.connect_from(SELF).await;
        // More than the kernel keeps for a connection.
        let request = format!("GET /bytes/{} HTTP/1.1\r\nHost: x\r\n\r\n", 64 << 20);
        stream.write_all(front.request(SELF, &request).as_bytes()).await.unwrap();
        let broken = async {
            while nova.broken.load(Ordering::SeqCst) <= n {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WITHIN, broken).await.expect("the proxy stops reading what nobody takes");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.len() < 64 << 20, "{front:?}: all of the answer was kept for the client");
    }
}

#[tokio::test]
async fn a_slow_instance_keeps_no_other_waiting() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    let slow =
        PortIdentity { instance: "slow".into(), addresses: ["127.0.0.2".parse().unwrap()].into(), ..port() };
    tell(&fronts.agent, Message::ports(NETWORK, &[port(), slow])).await;
    for front in &fronts.all {
        let mut waiting = Vec::new();
        for _ in 0..30 {
            let mut stream = front.connect_from("127.0.0.2").await;
            let request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
            stream.write_all(front.request("127.0.0.2", request).as_bytes()).await.unwrap();
            waiting.push(stream);
        }
        for _ in 0..20 {
            assert_eq!(front.get("/").await.0, 200, "{front:?}");
        }
        let mut one = waiting.pop().unwrap();
        assert!(timeout(Duration::from_millis(50), one.read_u8()).await.is_err(), "it is answered");
    }
}

#[tokio::test]
async fn a_wrong_secret_and_none_at_all_are_in_the_log() {
    let (log, _guard) = Log::start();
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    for _ in 0..20 {
        assert_eq!(fronts.all[0].get("/forbidden").await.0, 403);
    }
    assert_eq!(log.warnings("see that metadata_proxy_shared_secret is the same"), 1, "once for all of them");
    assert_eq!(log.warnings("the shared secret is empty"), 0);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir.path().join("control.sock"), nova.address);
    config.secret = SharedSecret::default();
    drop(Proxy::open(config).unwrap());
    assert_eq!(log.warnings("the shared secret is empty"), 1);
}

#[tokio::test]
async fn the_agent_gets_counts_of_requests_sources_and_nova() {
    let nova = Nova::start().await;
    let fronts = fronts(&nova, |_| {}).await;
    for front in &fronts.all {
        assert_eq!(front.get("/").await.0, 200);
        assert_eq!(front.get("/forbidden").await.0, 403);
        assert_eq!(front.get_from("127.0.0.2", "/").await.0, 404);
    }
    let counts = counts(&fronts.agent).await;
    assert_eq!(counts.answers, [(200, 2), (403, 2), (404, 2)]);
    assert_eq!(counts.sources, [(SourceResult::Known, 4), (SourceResult::Unknown, 2)]);
    assert_eq!((counts.nova_answers, counts.nova_failures), (4, 0));
}
