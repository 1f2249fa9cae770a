//! Slow clients, on plain sockets.

use std::time::Duration;

use api::auth::Auth;
use api::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::server::Server;

/// The time limit of the server on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap()
}

/// All bytes until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset closes the connection too.
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut text)).await.expect("the server hangs up");
    String::from_utf8(text).unwrap()
}

fn limits() -> Limits {
    let short = Duration::from_millis(300);
    Limits { connections: 2, per_client: 2, first_request: short, head: short, idle: short, answer: short }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_header_is_not_waited_for() {
    let server = Server::limited(Auth::open("p"), limits()).await;
    let mut silent = connect(&server).await;
    let mut slow = connect(&server).await;
    slow.write_all(b"GET /v2.0/networks HTTP/1.1\r\nHost: localhost\r\nX-Auth-To").await.unwrap();
    assert!(!rest(&mut slow).await.contains("200 OK"));
    assert_eq!(rest(&mut silent).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_hold_up_others_only_until_they_are_gone() {
    let server = Server::limited(Auth::open("p"), limits()).await;
    // As many silent clients as there are places.
    let _silent = [connect(&server).await, connect(&server).await];
    let answer =
        tokio::time::timeout(LIMIT, server.get("/v2.0/networks")).await.expect("there is room again");
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_in_pieces_is_taken_while_it_comes_in_time() {
    let limits = Limits { first_request: LIMIT, ..limits() };
    let server = Server::limited(Auth::open("p"), limits).await;
    let mut stream = connect(&server).await;
    for piece in ["GET /v2.0/net", "works HTTP/1.1\r\nHost: localhost\r\n", "Connection: close\r\n", "\r\n"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

/// Creates a list of half a megabyte.
async fn furnish(server: &Server) {
    let quota = serde_json::json!({"quota": {"network": -1}});
    assert_eq!(server.ask("PUT", "/v2.0/quotas/p", quota).await.status, 200);
    let networks: Vec<_> = (0..500)
        .map(|n| serde_json::json!({"name": format!("n{n}"), "description": "d".repeat(255)}))
        .collect();
    let made = server.ask("POST", "/v2.0/networks", serde_json::json!({"networks": networks})).await;
    assert_eq!(made.status, 201, "{}", made.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_nobody_reads_are_held_to_a_bound_and_not_for_long() {
    let limits = Limits { answer: Duration::from_secs(2), first_request: LIMIT, ..Limits::default() };
    let server = Server::limited(Auth::open("p"), limits).await;
    furnish(&server).await;
    let size = server.get("/v2.0/networks").await.body.to_string().len();
    assert!(size > 300 << 10, "{size}");
    let mut deaf = Vec::new();
    let request = "GET /v2.0/networks HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(8);
    for _ in 0..40 {
        // Bytes in the kernel's buffers do not count as held.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8 << 10).unwrap();
        let address = server.url.trim_start_matches("http://").parse().unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    let mut most = 0;
    for _ in 0..100 {
        most = most.max(server.lists.held_bytes());
        let health =
            tokio::time::timeout(LIMIT, server.get("/healthcheck")).await.expect("health is answered");
        assert_eq!(health.status, 200);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(most > 0 && most <= 1 << 20, "{most} bytes were held");
    let begin = std::time::Instant::now();
    while server.lists.held_bytes() > 0 {
        assert!(begin.elapsed() < LIMIT, "clients that do not read are kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.get("/v2.0/networks").await.status, 200);
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_a_web_page_may_have_made_are_refused_without_credentials() {
    let server = Server::open().await;
    let head = |lines: &str| format!("GET /v2.0/networks HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
    for (request, status) in [
        (head("Host: localhost\r\n"), "200 OK"),
        (head("Host: evil.example\r\n"), "403"),
        (head("Host: localhost\r\nOrigin: http://evil.example\r\n"), "403"),
        (head("Host: localhost\r\nHost: localhost\r\n"), "400"),
        (head(""), "400"),
        (head("Host: localhost\r\nX: y\n"), "400"),
        ("GET /healthcheck HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n".to_owned(), "200 OK"),
        (
            "POST /v2.0/networks HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\
             Connection: close\r\n\r\n{\"network\":{}}"
                .to_owned(),
            "415",
        ),
    ] {
        let mut stream = connect(&server).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    }
    assert_eq!(server.get("/v2.0/networks").await.body, serde_json::json!({"networks": []}));
    // A client with credentials is not a web page.
    let server = Server::with(Auth::token(&"s3cret".into(), "p")).await;
    let request = server.request("GET", "/v2.0/networks").header("X-Auth-Token", "s3cret");
    assert_eq!(server.send(request.header("Host", "api.example")).await.status, 200);
}
