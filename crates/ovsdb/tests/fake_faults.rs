//! Each fault of the fake has its documented effect on a client.

use std::time::Duration;

use ovsdb::fake::{Fault, Model, Server, When};
use ovsdb::wire::FrameSplitter;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{"s":{"type":"string"}}}}}"#;

/// Long enough that only a hang exceeds it.
const LONG: Duration = Duration::from_secs(30);

/// A client that knows nothing but messages.
struct Peer<S> {
    stream: S,
    splitter: FrameSplitter,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    fn new(stream: S) -> Self {
        Self { stream, splitter: FrameSplitter::new(1 << 28) }
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let text = json!({"id": id, "method": method, "params": params}).to_string();
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next message, or `None` at the end of the stream. The rest of an incomplete message then stays in the buffer.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(text) = self.splitter.next_frame().unwrap() {
                return Some(serde_json::from_slice(text).unwrap());
            }
            let buffer = self.splitter.read_buffer();
            if timeout(LONG, self.stream.read_buf(buffer)).await.expect("an answer").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    async fn call(&mut self, id: u64, method: &str, params: Value) -> Option<Value> {
        self.send(id, method, params).await;
        self.next().await
    }
}

async fn server() -> Server {
    Server::builder().schema(SCHEMA).start().await.unwrap()
}

fn insert() -> Value {
    json!(["D", {"op": "insert", "table": "T", "row": {"s": "x"}}])
}

#[tokio::test]
async fn it_listens_on_unix_and_tcp_and_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let mut unix = Server::builder().schema(SCHEMA).listen_unix(&path).start().await.unwrap();
    assert_eq!(unix.remote(), format!("unix:{}", path.display()));
    let mut peer = Peer::new(UnixStream::connect(&path).await.unwrap());
    assert_eq!(peer.call(1, "list_dbs", json!([])).await.unwrap()["result"], json!(["D", "_Server"]));
    unix.transact(&json!([{"op": "insert", "table": "T", "row": {"s": "kept"}}]));
    unix.restart().await.unwrap();
    assert_eq!(peer.next().await, None);
    let mut peer = Peer::new(UnixStream::connect(&path).await.unwrap());
    let rows =
        peer.call(1, "transact", json!(["D", {"op": "select", "table": "T", "where": []}])).await.unwrap();
    assert_eq!(rows["result"][0]["rows"][0]["s"], "kept");
    unix.restart_empty().await.unwrap();
    assert_eq!(unix.rows("T"), Vec::<Value>::new());

    let mut tcp = Server::builder().schema(SCHEMA).listen_tcp_loopback().start().await.unwrap();
    let address = tcp.remote().strip_prefix("tcp:").unwrap().to_owned();
    let mut peer = Peer::new(TcpStream::connect(&address).await.unwrap());
    assert_eq!(peer.call(1, "echo", json!([7])).await.unwrap()["result"], json!([7]));
    tcp.stop().await;
    assert_eq!(peer.next().await, None);
    assert!(TcpStream::connect(&address).await.is_err());
    tcp.restart().await.unwrap();
    assert_eq!(tcp.remote(), format!("tcp:{address}"));
    let mut peer = Peer::new(TcpStream::connect(&address).await.unwrap());
    assert_eq!(peer.call(1, "echo", json!([8])).await.unwrap()["result"], json!([8]));
}

#[tokio::test]
async fn a_reply_gets_lost_before_and_after_the_commit() {
    let server = server().await;
    for (fault, rows) in
        [(Fault::CloseBeforeCommit, 0), (Fault::CloseAfterCommit, 1), (Fault::HalfMessage, 2)]
    {
        let planned = server.faults().on(When::method("transact"), fault);
        let mut peer = Peer::new(server.connect());
        assert!(peer.call(1, "echo", json!([])).await.is_some());
        assert_eq!(peer.call(2, "transact", insert()).await, None);
        assert_eq!(server.rows("T").len(), rows);
        assert_eq!(planned.struck(), 1);
    }
    server.faults().on(When::method("transact"), Fault::DropReply);
    let mut peer = Peer::new(server.connect());
    peer.send(1, "transact", insert()).await;
    assert_eq!(peer.call(2, "echo", json!([])).await.unwrap()["id"], 2);
    assert_eq!(server.rows("T").len(), 3);
    // Each strikes once, then all is well.
    assert_eq!(peer.call(3, "transact", insert()).await.unwrap()["id"], 3);
}

#[tokio::test]
async fn faults_are_counted_and_skipped() {
    let server = server().await;
    let refused = Fault::Refuse(json!("unknown method"));
    let planned = server.faults().on(When::method("monitor_cond_since"), refused).times(2).skip(1);
    let mut peer = Peer::new(server.connect());
    for (id, error) in [(1, false), (2, true), (3, true), (4, false)] {
        let params = json!(["D", id, {"T": {}}, "00000000-0000-0000-0000-000000000000"]);
        let reply = peer.call(id, "monitor_cond_since", params).await.unwrap();
        assert_eq!(reply["error"] == "unknown method", error, "{id}");
    }
    assert_eq!(planned.struck(), 2);
    server.faults().on(When::Message(2), Fault::CloseBeforeCommit).always();
    for _ in 0..2 {
        let mut peer = Peer::new(server.connect());
        assert!(peer.call(1, "echo", json!([])).await.is_some());
        assert!(peer.call(2, "echo", json!([])).await.is_none());
    }
    server.faults().clear();
    let mut peer = Peer::new(server.connect());
    assert!(peer.call(1, "echo", json!([])).await.is_some());
    assert!(peer.call(2, "echo", json!([])).await.is_some());
}

#[tokio::test]
async fn strange_things_come_before_the_reply() {
    let server = server().await;
    let mut peer = Peer::new(server.connect());
    server.faults().on(When::Any, Fault::Huge(3_000_000));
    let huge = peer.call(1, "echo", json!([])).await.unwrap();
    assert_eq!(huge["params"][0].as_str().unwrap().len(), 3_000_000);
    assert_eq!(peer.next().await.unwrap()["id"], 1);

    server.faults().on(When::Any, Fault::Echo(3));
    peer.send(2, "echo", json!([])).await;
    for _ in 0..3 {
        assert_eq!(peer.next().await.unwrap()["method"], "echo");
        peer.stream.write_all(br#"{"id":"echo","result":[],"error":null}"#).await.unwrap();
    }
    assert_eq!(peer.next().await.unwrap()["id"], 2);

    let ops = json!([{"op": "insert", "table": "T", "row": {"s": "early"}}]);
    server.faults().on(When::method("monitor_cond"), Fault::UpdateBeforeReply(ops));
    let early = peer.call(3, "monitor_cond", json!(["D", "m", {"T": {"columns": ["s"]}}])).await.unwrap();
    assert_eq!((&early["method"], &early["params"][0]), (&json!("update2"), &json!("m")));
    assert_eq!(peer.next().await.unwrap()["result"], json!({}), "what the monitor saw was still empty");

    server.faults().on(When::Any, Fault::rewrite(|text| text.replace("[]", "[1]")));
    assert_eq!(peer.call(4, "echo", json!([])).await.unwrap()["result"], json!([1]));
    server.faults().on(When::Any, Fault::Before(r#"{"id":null,"method":"?","params":[]}"#.into()));
    assert_eq!(peer.call(5, "echo", json!([])).await.unwrap()["method"], "?");
    assert_eq!(peer.next().await.unwrap()["id"], 5);

    server.faults().on(When::notification("update2"), Fault::DropReply);
    assert_eq!(peer.call(6, "transact", insert()).await.unwrap()["id"], 6);
    assert_eq!(peer.call(7, "transact", insert()).await.unwrap()["method"], "update2");
}

#[tokio::test]
async fn bytes_that_are_no_message() {
    let server = server().await;
    server.faults().on(When::Any, Fault::Garbage(b"HTTP/1.1 400".to_vec()));
    let mut peer = Peer::new(server.connect());
    peer.send(1, "echo", json!([])).await;
    let mut got = vec![0; 12];
    timeout(LONG, peer.stream.read_exact(&mut got)).await.unwrap().unwrap();
    assert_eq!(got, b"HTTP/1.1 400");
    server.faults().on(When::Connect, Fault::Garbage(b"SSH-2.0".to_vec()));
    let mut stream = server.connect();
    let mut got = vec![0; 7];
    timeout(LONG, stream.read_exact(&mut got)).await.unwrap().unwrap();
    assert_eq!(got, b"SSH-2.0");
    server.faults().on(When::Connect, Fault::CloseBeforeCommit);
    assert_eq!(Peer::new(server.connect()).next().await, None);
}

#[tokio::test(start_paused = true)]
async fn silence_lasts_and_a_delay_ends() {
    let server = server().await;
    let quiet = Duration::from_secs(3600);
    for fault in [Fault::Silence, Fault::HalfThenSilence] {
        server.faults().on(When::method("transact"), fault);
        let mut peer = Peer::new(server.connect());
        peer.send(1, "transact", insert()).await;
        peer.send(2, "echo", json!([])).await;
        // The rest of the half message never arrives.
        let rest = timeout(quiet, async {
            let mut bytes = [0; 1024];
            while peer.stream.read(&mut bytes).await.unwrap() > 0 {}
        });
        assert!(rest.await.is_err());
    }
    assert_eq!(server.connections(), 2, "a server that hangs does not see its clients go");
    server.disconnect_all();
    server.faults().on(When::method("echo"), Fault::Delay(quiet));
    let mut peer = Peer::new(server.connect());
    let start = Instant::now();
    peer.send(1, "echo", json!([])).await;
    let mut bytes = [0; 64];
    assert!(peer.stream.read(&mut bytes).await.unwrap() > 0);
    assert!(start.elapsed() >= quiet);
}

#[tokio::test]
async fn an_old_server_and_a_stale_one() {
    let old = Server::builder().schema(SCHEMA).without_server_database().start().await.unwrap();
    let mut peer = Peer::new(old.connect());
    assert_eq!(peer.call(1, "list_dbs", json!([])).await.unwrap()["result"], json!(["D"]));
    let refused = peer.call(2, "monitor_cond", json!(["_Server", "s", {"Database": {}}])).await.unwrap();
    assert_eq!(refused["error"]["error"], "unknown database");

    let relay = Server::builder().schema(SCHEMA).model(Model::Relay).start().await.unwrap();
    let mut peer = Peer::new(relay.connect());
    let requests = json!({"Database": {"columns": ["connected", "schema"], "where": [["name", "==", "D"]]}});
    assert!(peer.call(1, "monitor_cond", json!(["_Server", "s", requests])).await.is_some());
    relay.set_connected(false);
    let update = peer.next().await.unwrap();
    let row = update["params"][1]["Database"].as_object().unwrap().values().next().unwrap();
    assert_eq!(row["modify"], json!({"connected": false, "schema": ["set", []]}));
    peer.send(2, "transact", insert()).await;
    assert_eq!(peer.call(3, "echo", json!([])).await.unwrap()["id"], 3);
    relay.set_connected(true);
    assert_eq!(peer.next().await.unwrap()["method"], "update2");
    assert_eq!(peer.next().await.unwrap()["id"], 2);
    relay.disconnect_all();
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_lock_falls_to_the_next_when_its_owner_goes() {
    let server = server().await;
    let mut first = Peer::new(server.connect());
    let mut second = Peer::new(server.connect());
    assert_eq!(first.call(1, "lock", json!(["l"])).await.unwrap()["result"]["locked"], true);
    assert_eq!(second.call(1, "lock", json!(["l"])).await.unwrap()["result"]["locked"], false);
    drop(first);
    assert_eq!(second.next().await.unwrap()["method"], "locked");
    assert!(server.is_locked("l"));
}
