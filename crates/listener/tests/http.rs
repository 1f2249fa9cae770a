//! An HTTP service on a real socket, and clients that misbehave.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response, Uri};
use listener::http::{Refusal, RequestBody, Site, serve};
use listener::{Client, Door, Limits, Listener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The time limit of waits on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Practically no limit.
const AGES: Duration = Duration::from_secs(3600);

/// Answers `/large` with a megabyte, `/slow` on a signal of the test, and all else with `ok`.
#[derive(Default)]
struct Sample {
    go_on: Notify,
    slow: AtomicUsize,
}

impl Site for Sample {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let body = match request.uri().path() {
            "/large" => Bytes::from(vec![b'x'; 1 << 20]),
            "/slow" => {
                self.slow.fetch_add(1, Ordering::Relaxed);
                self.go_on.notified().await;
                Bytes::from_static(b"at last")
            }
            "/panic" => panic!("a site that panics"),
            _ => Bytes::from_static(b"ok"),
        };
        Response::new(Full::new(body))
    }

    fn is_health(&self, uri: &Uri) -> bool {
        uri.path() == "/health"
    }

    fn refuse(&self, refusal: Refusal) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(refusal.text().as_bytes())));
        *response.status_mut() = refusal.status();
        response
    }
}

struct Served {
    address: SocketAddr,
    site: Arc<Sample>,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn patient() -> Limits {
    Limits { connections: 16, per_client: 16, first_request: AGES, head: AGES, idle: AGES, answer: AGES }
}

async fn start(limits: Limits) -> Served {
    start_until(limits, std::future::pending()).await
}

async fn start_until(limits: Limits, stop: impl Future<Output = ()> + Send + 'static) -> Served {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let site = Arc::new(Sample::default());
    let task = tokio::spawn(serve(listener, limits, Arc::clone(&site), stop));
    Served { address, site, task }
}

async fn connect(address: SocketAddr) -> TcpStream {
    tokio::time::timeout(LIMIT, TcpStream::connect(address)).await.expect("connect() does not hang").unwrap()
}

/// A connection from 127.0.0.`n`.
async fn connect_from(n: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, n), 0).into()).unwrap();
    tokio::time::timeout(LIMIT, socket.connect(address)).await.expect("connect() does not hang").unwrap()
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // The server may also close the connection with a reset.
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut text)).await.expect("the server hangs up");
    String::from_utf8_lossy(&text).into_owned()
}

/// Sends one request on a connection of its own; returns everything that the server answers.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    rest(&mut stream).await
}

async fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await
}

/// A request on a connection that stays.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
    let mut buffer = [0; 4096];
    let read = tokio::time::timeout(LIMIT, stream.read(&mut buffer)).await.expect("an answer").unwrap();
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !so() {
        assert!(begin.elapsed() < LIMIT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_from_everywhere_keep_nobody_out() {
    let served = start(Limits { per_client: 4, ..patient() }).await;
    let mut silent = Vec::new();
    for n in 0..100_u8 {
        silent.push(connect_from(2 + n % 50, served.address).await);
        if n % 10 == 0 {
            for path in ["/health", "/"] {
                assert!(get(served.address, path).await.starts_with("HTTP/1.1 200"), "after {n}: {path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_used_stays_while_the_silent_go() {
    let served = start(patient()).await;
    let mut used = connect(served.address).await;
    assert!(ask(&mut used, "/").await.ends_with("ok"));
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(connect(served.address).await);
        // New connections are not closed for half a second.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(ask(&mut used, "/").await.ends_with("ok"));
    }
    assert_eq!(rest(&mut silent[0]).await, "", "the first of the silent is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_loses_its_own_connections_and_no_other_s() {
    let served = start(Limits { per_client: 4, ..patient() }).await;
    let mut other = connect_from(9, served.address).await;
    assert!(ask(&mut other, "/").await.ends_with("ok"));
    let mut greedy = Vec::new();
    for _ in 0..12 {
        let mut stream = connect_from(8, served.address).await;
        assert!(ask(&mut stream, "/").await.ends_with("ok"));
        greedy.push(stream);
    }
    assert_eq!(rest(&mut greedy[0]).await, "");
    assert!(ask(greedy.last_mut().unwrap(), "/").await.ends_with("ok"));
    assert!(ask(&mut other, "/").await.ends_with("ok"), "the idle connection of another client stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_all_places_are_at_work_health_is_answered_and_others_are_told_to_come_back() {
    let served = start(patient()).await;
    let mut working = Vec::new();
    for _ in 0..14 {
        let mut stream = connect(served.address).await;
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        working.push(stream);
    }
    eventually("all are at work", || served.site.slow.load(Ordering::Relaxed) == 14).await;
    for _ in 0..5 {
        assert!(get(served.address, "/health").await.starts_with("HTTP/1.1 200"));
        let busy = get(served.address, "/").await;
        assert!(busy.starts_with("HTTP/1.1 503") && busy.ends_with(Refusal::Busy.text()), "{busy}");
        // Silent connections beside the working ones do not matter.
        working.push(connect(served.address).await);
    }
    served.site.go_on.notify_waiters();
    let mut buffer = [0; 4096];
    let read = working[0].read(&mut buffer).await.unwrap();
    assert!(buffer[..read].ends_with(b"at last"), "work that has begun was not disturbed");
    assert!(get(served.address, "/").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_come_hold_no_place_that_others_need() {
    struct Reader;
    impl Site for Reader {
        type Body = Full<Bytes>;
        async fn answer(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
            let _ = http_body_util::BodyExt::collect(request.into_body()).await;
            Response::new(Full::new(Bytes::from_static(b"ok")))
        }
        fn is_health(&self, uri: &Uri) -> bool {
            uri.path() == "/health"
        }
        fn refuse(&self, refusal: Refusal) -> Response<Full<Bytes>> {
            Response::new(Full::new(Bytes::from_static(refusal.text().as_bytes())))
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(serve(listener, patient(), Arc::new(Reader), std::future::pending()));
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(address).await;
        stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx").await.unwrap();
        slow.push(stream);
    }
    assert!(get(address, "/health").await.ends_with("ok"));
    task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_dropped() {
    let served = start(Limits { answer: Duration::from_millis(200), ..patient() }).await;
    let mut stream = connect(served.address).await;
    for _ in 0..64 {
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    }
    // The client never reads, so its writes end only when the server drops it.
    let dropped =
        async { while stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.is_ok() {} };
    tokio::time::timeout(LIMIT, dropped).await.expect("it is dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_head_is_not_waited_for() {
    let short = Duration::from_millis(200);
    let served = start(Limits { first_request: short, head: short, ..patient() }).await;
    assert_eq!(exchange(served.address, "").await, "");
    assert_eq!(exchange(served.address, "GET / HTTP/1.1\r\nHost:").await, "");
    let later = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo";
    assert!(exchange(served.address, later).await.ends_with("ok"));
    let idle = Duration::from_millis(200);
    let served = start(Limits { idle, ..patient() }).await;
    assert!(exchange(served.address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.ends_with("ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_two_parsers_read_differently_are_answered_400() {
    let served = start(patient()).await;
    for bad in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\nZ: 1\r\n\r\n",
        "\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    ] {
        let answer = exchange(served.address, bad).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
        // The same bad request after a good one.
        let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let answers = exchange(served.address, &format!("{good}{bad}")).await;
        assert!(
            answers.starts_with("HTTP/1.1 200") && answers.contains("HTTP/1.1 400"),
            "{bad:?}: {answers}"
        );
    }
    for good in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n",
    ] {
        let answer = exchange(served.address, good).await;
        assert!(answer.contains(" 200 OK"), "{good:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_and_bodies_are_answered_in_order() {
    let served = start(patient()).await;
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\n\r\n\n";
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answers = exchange(served.address, &format!("{post}{post}\r\n{last}")).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_costs_one_connection() {
    let served = start(patient()).await;
    assert_eq!(get(served.address, "/panic").await, "");
    assert!(get(served.address, "/").await.ends_with("ok"));
}

/// A socket whose every other `accept` fails for lack of file descriptors.
struct Poor {
    door: TcpListener,
    calls: AtomicUsize,
}

impl Door for Poor {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Client)> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            return Err(io::Error::from_raw_os_error(24));
        }
        Door::next(&self.door).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_file_descriptors_the_idlest_goes_and_accepting_goes_on() {
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = door.local_addr().unwrap();
    let poor = Poor { door, calls: AtomicUsize::new(0) };
    let listener = Listener::new(poor, patient());
    let task = tokio::spawn(async move {
        let converse = |mut connection: listener::Connection<TcpStream>| async move {
            let _ = tokio::io::copy(&mut connection.stream, &mut tokio::io::sink()).await;
        };
        listener.run(std::future::pending(), converse).await;
    });
    let mut all = Vec::new();
    for _ in 0..6 {
        all.push(connect(address).await);
    }
    assert_eq!(rest(&mut all[0]).await, "");
    task.abort();
}

/// Ends a server while a connection has had no request, and sends one then. Returns what the client reads.
async fn ask_an_ending_server() -> String {
    let stop = Arc::new(Notify::new());
    let signal = Arc::clone(&stop);
    let mut served = start_until(patient(), async move { signal.notified().await }).await;
    let mut new = connect(served.address).await;
    // The server accepts in order, so it has the new connection once a later one has an answer.
    assert!(get(served.address, "/").await.starts_with("HTTP/1.1 200"));
    stop.notify_one();
    eventually("no further client is accepted", || std::net::TcpStream::connect(served.address).is_err())
        .await;
    // A reset is no answer either.
    let sent = new.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let answer = if sent.is_ok() { rest(&mut new).await } else { String::new() };
    tokio::time::timeout(LIMIT, &mut served.task).await.expect("the server ends").unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_is_answered_while_the_server_ends() {
    // On a busy machine the test may be too late for the server's patience, but not each time.
    for _ in 0..20 {
        let answer = ask_an_ending_server().await;
        if !answer.is_empty() {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            return;
        }
    }
    panic!("an ending server answers no request");
}
