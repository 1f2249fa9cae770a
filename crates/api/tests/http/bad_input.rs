//! Broken, huge, deep, wrong and malicious requests: the server survives, and refuses all in the API's own format.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::server::{Got, Server};

async fn raw(server: &Server, body: Vec<u8>) -> Got {
    let request = server.request("POST", "/v2.0/networks").header("Content-Type", "application/json");
    server.send(request.body(body)).await
}

#[tokio::test]
async fn broken_json_is_refused() {
    let server = Server::open().await;
    for body in [
        &b"{"[..],
        b"{\"network\": {\"name\": }}",
        b"\xff\xfe\x00",
        b"{\"network\": {}} trailing",
        b"<network/>",
    ] {
        let got = raw(&server, body.to_vec()).await;
        assert_eq!((got.refusal().0, got.refusal().1), (400, "MalformedRequestBody"), "{body:?}");
    }
    for body in
        [&b""[..], b"null", b"[]", b"5", b"\"network\"", b"{\"network\": null}", b"{\"network\": [1]}"]
    {
        assert_eq!(raw(&server, body.to_vec()).await.refusal().0, 400, "{body:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_fifty_megabytes_is_refused() {
    let server = Server::open().await;
    let huge = format!("{{\"network\": {{\"name\": \"{}\"}}}}", "x".repeat(50 << 20)).into_bytes();
    let got = raw(&server, huge).await;
    assert_eq!((got.refusal().0, got.refusal().1), (413, "HTTPRequestEntityTooLarge"));
    // A body without an announced length.
    let mut request =
        b"POST /v2.0/networks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            .to_vec();
    for _ in 0..50 {
        request.extend_from_slice(b"100000\r\n");
        request.resize(request.len() + (1 << 20), b' ');
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let answer = exchange(&server, &request);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("HTTPRequestEntityTooLarge"), "{answer}");
    assert_eq!(server.get("/v2.0/networks").await.status, 200, "it goes on");
}

#[tokio::test]
async fn deep_nesting_is_refused() {
    let server = Server::open().await;
    for depth in [40, 10_000, 1_000_000] {
        let body = format!("{{\"network\": {{\"tags\": {}{}}}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(raw(&server, body.into_bytes()).await.refusal().0, 400, "{depth}");
    }
}

#[tokio::test]
async fn wrong_types_and_unknown_attributes_are_refused() {
    let server = Server::open().await;
    let names = [
        "name",
        "admin_state_up",
        "shared",
        "mtu",
        "availability_zone_hints",
        "dns_domain",
        "tags",
        "description",
    ];
    for name in names {
        for value in [json!({"a": 1}), json!([[]]), json!(1.5), json!("\u{0}"), json!(-1e308)] {
            let got = server.ask("POST", "/v2.0/networks", json!({"network": {name: value}})).await;
            let (status, _, message) = got.refusal();
            assert_eq!(status, 400, "{name}: {value}");
            assert!(message.starts_with(&format!("Invalid input for {name}. Reason: ")), "{message}");
        }
    }
    let got = server.ask("POST", "/v2.0/networks", json!({"network": {"colour": "red"}})).await;
    assert_eq!(got.refusal(), (400, "HTTPBadRequest", "Unrecognized attribute(s) 'colour'"));
    let got = server.ask("POST", "/v2.0/networks", json!({"network": {"id": "x"}})).await;
    assert_eq!(got.refusal().2, "Attribute 'id' not allowed in POST");
}

#[tokio::test]
async fn injections_are_text_and_nothing_else() {
    let server = Server::open().await;
    let evil = "x'; DROP TABLE networks; -- \" \\ \r\nX-Evil: 1 %00 {{7*7}} ../../etc/passwd";
    let made = server.network(json!({"name": evil, "description": evil})).await;
    assert_eq!((made["name"].as_str(), made["description"].as_str()), (Some(evil), Some(evil)));
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("name", evil).finish();
    let found = server.get(&format!("/v2.0/networks?{query}")).await;
    assert_eq!(found.body["networks"][0]["id"], made["id"]);
    for path in [
        "/v2.0/networks?name=%27%20OR%201=1--".to_owned(),
        format!("/v2.0/networks?{query}&limit=1"),
        "/v2.0/networks?sort_key=id%3BDROP%20TABLE%20networks".into(),
        "/v2.0/networks/%27%20OR%20%271%27=%271".into(),
        "/v2.0/networks/..%2f..%2fquotas".into(),
        "/v2.0/networks?limit=1%0d%0aX-Evil:%201".into(),
        "/v2.0/extensions/%0d%0aX-Evil:%201".into(),
    ] {
        let got = server.get(&path).await;
        assert!(got.status < 500, "{path}: {}", got.status);
        assert!(got.headers.get("x-evil").is_none(), "{path}");
    }
    assert_eq!(server.get("/v2.0/networks").await.body["networks"].as_array().unwrap().len(), 1);
}

/// Sends raw bytes. Returns the response.
fn exchange(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_request_end_their_connection_only() {
    let server = Server::open().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET /v2.0/networks\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Header\r\nConnection: close\r\n\r\n",
    ] {
        let answer = exchange(&server, bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{bytes:?}: {answer}");
    }
    let long =
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "a".repeat(200_000));
    let answer = exchange(&server, long.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let host = b"GET / HTTP/1.1\r\nHost: a\"><script>\r\nConnection: close\r\n\r\n";
    let answer = exchange(&server, host);
    assert!(!answer.contains("script"), "{answer}");
    assert_eq!(server.get("/").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_ends_early_is_refused() {
    let server = Server::open().await;
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream
        .write_all(b"POST /v2.0/networks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"network\"")
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(server.get("/v2.0/networks").await.body, json!({"networks": []}));
}
