//! Agents and proxies that come and go, identities that change, and answers of Nova of all kinds.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use metadata_proxy::Proxy;
use metadata_proxy::control::{Channel, ListenerId, Message};
use metadata_proxy::identity::PortIdentity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::site::*;

#[tokio::test]
async fn a_request_reaches_nova_with_the_identity_of_its_source_alone() {
    let (_site, nova, agent, _listener, address) = served().await;
    until(address, "503").await;
    tell(&agent, all()).await;
    until(address, "200").await;
    let evil = "GET /openstack?x=%2e HTTP/1.1\r\nHost: evil\r\nX-Forwarded-For: 10.9.9.9\r\nX-Instance-ID: evil\r\n\
                X_Instance_ID: evil\r\nX-Metadata-Provider: evil\r\nForwarded: for=evil\r\nCookie: evil\r\n\
                Accept: text/plain\r\nUser-Agent: cirros\r\nConnection: close\r\n\r\n";
    let answer = send(address, evil.as_bytes()).await;
    let (head, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && !head.to_lowercase().contains("cookie"), "{head}");
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable();
    let host = format!("host: {}", nova.address);
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "accept: text/plain",
            "get /openstack?x=%2e http/1.1",
            &host,
            "user-agent: cirros",
            "x-forwarded-for: 127.0.0.1",
            "x-instance-id-signature: 56d7bc0da598cc7c4880086f13bdd10725f2450d70823796dfb2b45d3fb6524a",
            &format!("x-instance-id: {INSTANCE}"),
            "x-tenant-id: p1",
        ]
    );
    let post = "POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\
                Connection: close\r\n\r\n4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n";
    assert_eq!(status(&send(address, post.as_bytes()).await), "200");
    assert_eq!(nova.bodies.lock().unwrap().last().unwrap(), b"abcdefg");
    assert!(get(address, "/gzip").await.contains("content-encoding: gzip"));
    assert_eq!(status(&get(address, "/redirect").await), "301", "passed on, not followed");
    let old = send(address, b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200") && !old.contains("chunked"), "{old}");
}

#[tokio::test]
async fn identity_goes_at_once_and_doubt_is_no_404() {
    let (_site, _nova, agent, _listener, address) = served().await;
    tell(&agent, all()).await;
    until(address, "200").await;
    tell(&agent, [Message::Valid { milliseconds: 0 }]).await;
    assert!(until(address, "503").await.contains("retry-after: 1"));
    tell(&agent, [Message::Valid { milliseconds: 60_000 }]).await;
    until(address, "200").await;
    tell(&agent, Message::ports(NETWORK, &[])).await;
    until(address, "404").await;
    // Two instances with one address are nobody's.
    let other = PortIdentity { instance: "other".into(), ..port() };
    tell(&agent, Message::ports(NETWORK, &[port(), other])).await;
    assert_eq!(status(&get(address, "/").await), "404");
}

#[tokio::test]
async fn heads_and_bodies_have_limits() {
    let (_site, nova, agent, _listener, address) = served().await;
    tell(&agent, all()).await;
    until(address, "200").await;
    let before = nova.bodies.lock().unwrap().len();
    let many: String = (0..150).map(|n| format!("X-{n}: x\r\n")).collect();
    for (request, expected) in [
        (format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(9 << 10)), "414"),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(20 << 10)), "431"),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), "431"),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\nConnection: close\r\n\r\n".into(), "413"),
        ("TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".into(), "405"),
        ("CONNECT a:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".into(), "400"),
        ("GET http://10.9.9.9/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".into(), "400"),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .into(),
            "400",
        ),
        ("GET / HTTP/1.1\nHost: x\n\n".into(), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), "400"),
    ] {
        let request: String = request;
        let close = request.replace("Host: x\r\n", "Host: x\r\nConnection: close\r\n");
        let answer = send(address, close.as_bytes()).await;
        assert_eq!(status(&answer), expected, "{:.80}: {answer}", request);
    }
    assert_eq!(nova.bodies.lock().unwrap().len(), before, "Nova saw none of them");
    until(address, "200").await;
}

#[tokio::test]
async fn a_new_agent_gets_the_sockets_back_and_requests_go_on() {
    let (site, _nova, agent, listener, address) = served().await;
    tell(&agent, all()).await;
    until(address, "200").await;
    drop((agent, listener));
    assert_eq!(status(&get(address, "/").await), "200", "without an agent");
    let next = site.agent();
    let sockets = greeted(&next).await;
    assert_eq!(sockets.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [LISTENER]);
    assert_eq!(status(&get(address, "/").await), "200");
    // Closing means that nobody answers any more, and the agent is told when.
    tell(&next, [Message::Close(LISTENER)]).await;
    assert_eq!(crate::site::next(&next).await, Message::Closed(LISTENER));
    drop(sockets);
    assert!(TcpStream::connect(address).await.is_err(), "a copy of the socket is left");
}

#[tokio::test]
async fn identities_that_a_new_agent_does_not_send_are_gone() {
    let (site, _nova, agent, _listener, address) = served().await;
    tell(&agent, all()).await;
    until(address, "200").await;
    drop(agent);
    let next = site.agent();
    drop(greeted(&next).await);
    assert_eq!(status(&get(address, "/").await), "200", "until the new agent knows more");
    // The network's last port went while no agent was there.
    tell(&next, [Message::Valid { milliseconds: 60_000 }]).await;
    until(address, "404").await;
}

#[tokio::test]
async fn clients_wait_while_the_proxy_restarts() {
    let (mut site, _nova, agent, listener, address) = served().await;
    tell(&agent, all()).await;
    until(address, "200").await;
    site.restart().await;
    let waiting = tokio::spawn(async move { get(address, "/").await });
    let agent = site.agent();
    assert!(greeted(&agent).await.is_empty());
    tell(&agent, all()).await;
    agent.send(&Message::Listener(LISTENER), Some(listener.as_fd())).await.unwrap();
    assert_eq!(status(&waiting.await.unwrap()), "200");
}

#[tokio::test]
async fn a_nova_that_is_away_is_a_503() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let site = Site::start(gone);
    let agent = site.agent();
    greeted(&agent).await;
    tell(&agent, all()).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    agent.send(&Message::Listener(LISTENER), Some(listener.as_fd())).await.unwrap();
    let answer = get(listener.local_addr().unwrap(), "/").await;
    assert!(status(&answer) == "503" && answer.contains("retry-after"), "{answer}");
}

/// A Nova that answers its first request when it is told to.
async fn slow_nova() -> (SocketAddr, Arc<Notify>, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, released) = (Arc::clone(&asked), Arc::clone(&release));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (told, released) = (Arc::clone(&told), Arc::clone(&released));
            tokio::spawn(async move {
                while read_head(&mut stream).await.is_some() {
                    told.notify_one();
                    released.notified().await;
                    released.notify_one();
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").await.unwrap();
                }
            });
        }
    });
    (address, asked, release)
}

#[tokio::test]
async fn a_proxy_that_ends_answers_what_it_has_begun_and_refuses_nobody() {
    let (nova, asked, release) = slow_nova().await;
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control.sock");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let proxy = Proxy::open(config(&control, nova)).unwrap();
    let running = tokio::spawn(proxy.run_until(async {
        let _ = stopped.await;
    }));
    let agent = Channel::connect(&control).unwrap();
    greeted(&agent).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    agent.send(&Message::Listener(LISTENER), Some(listener.as_fd())).await.unwrap();
    tell(&agent, all()).await;
    let begun = tokio::spawn(async move { get(address, "/").await });
    // Until the agent's messages have come, the answer is 503, and Nova is not asked.
    tokio::time::timeout(WITHIN, asked.notified()).await.expect("the request reaches Nova");
    stop.send(()).unwrap();
    tokio::task::yield_now().await;
    let waiting = tokio::spawn(async move { get(address, "/").await });
    release.notify_one();
    assert!(begun.await.unwrap().ends_with("done"), "what was begun is answered");
    tokio::time::timeout(WITHIN, running).await.expect("the proxy ends").unwrap();
    drop(agent);
    // The next proxy gets the socket from the agent, with the connection that waits in its queue.
    let _next = run(&control, nova);
    let agent = Channel::connect(&control).unwrap();
    greeted(&agent).await;
    tell(&agent, all()).await;
    agent.send(&Message::Listener(LISTENER), Some(listener.as_fd())).await.unwrap();
    assert!(waiting.await.unwrap().ends_with("done"), "and what came meanwhile");
}

#[tokio::test]
async fn requests_from_haproxy_have_the_identity_that_it_names() {
    let (_site, _nova, agent, _listener, _) = served().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("requests.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    agent.send(&Message::Listener(ListenerId::FORWARDED), Some(socket.as_fd())).await.unwrap();
    tell(&agent, all()).await;
    let ask = async |headers: &str| {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(WITHIN, stream.read_to_string(&mut answer)).await.expect("an answer").unwrap();
        answer
    };
    let named = format!("X-OVN-Network-ID: {NETWORK}\r\nX-Forwarded-For: 127.0.0.1\r\n");
    let answer = ask(&format!("{named}X-Instance-ID: evil\r\n")).await;
    assert!(status(&answer) == "200" && answer.contains(&format!("x-instance-id: {INSTANCE}")), "{answer}");
    assert!(!answer.contains("evil") && !answer.contains("ovn-network"), "{answer}");
    assert_eq!(status(&ask("").await), "400", "nobody is named");
    assert_eq!(status(&ask(&format!("{named}{named}")).await), "400", "two are");
    let other = named.replace("127.0.0.1", "10.9.9.9");
    assert_eq!(status(&ask(&other).await), "404", "an address of nobody");
    let elsewhere = named.replace(&NETWORK.to_string(), &Uuid::from_u128(9).to_string());
    assert_eq!(status(&ask(&elsewhere).await), "503", "a network that the agent has not told of");
}

/// A Nova that answers, hangs or breaks off, as the path says.
async fn odd_nova() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                while let Some(head) = read_head(&mut stream).await {
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    match path.strip_prefix("/status/") {
                        Some(status) => {
                            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 4\r\n\r\nnova");
                            stream.write_all(answer.as_bytes()).await.unwrap();
                        }
                        None if path == "/hang" => std::future::pending().await,
                        None if path == "/half" => {
                            let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
                            stream.write_all(half.as_bytes()).await.unwrap();
                            return;
                        }
                        // It is closed without an answer.
                        None => return,
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn answers_of_nova_pass_and_its_failures_have_a_status() {
    let nova = odd_nova().await;
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control.sock");
    let mut config = config(&control, nova);
    config.timeouts.answer = Duration::from_millis(500);
    tokio::spawn(Proxy::open(config).unwrap().run());
    let agent = Channel::connect(&control).unwrap();
    greeted(&agent).await;
    tell(&agent, all()).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    agent.send(&Message::Listener(LISTENER), Some(listener.as_fd())).await.unwrap();
    for code in ["200", "301", "400", "401", "403", "404", "409", "429", "500", "502", "503", "504"] {
        let answer = get(address, &format!("/status/{code}")).await;
        assert!(status(&answer) == code && answer.ends_with("nova"), "{code}: {answer}");
    }
    assert_eq!(status(&get(address, "/hang").await), "504");
    assert_eq!(status(&get(address, "/reset").await), "502");
    let half = get(address, "/half").await;
    assert!(
        half.contains("content-length: 100") && half.ends_with("half"),
        "it breaks off as Nova did: {half}"
    );
    assert_eq!(status(&get(address, "/status/200").await), "200", "and the next request is answered");
}
