//! Clients that take their time, on plain sockets.

use std::time::Duration;

use api::auth::Auth;
use api::http::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::Server;

/// How long the server may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap()
}

/// What comes until the server hangs up.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is a way to hang up, too.
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
    slow.write_all(b"GET /v2.0/networks HTTP/1.1\r\nHost: x\r\nX-Auth-To").await.unwrap();
    assert!(!rest(&mut slow).await.contains("200 OK"));
    assert_eq!(rest(&mut silent).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_hold_up_others_only_until_they_are_gone() {
    let server = Server::limited(Auth::open("p"), limits()).await;
    // As many as there is room for, and none of them says anything.
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
    for piece in ["GET /v2.0/net", "works HTTP/1.1\r\nHost: x\r\n", "Connection: close\r\n", "\r\n"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}
