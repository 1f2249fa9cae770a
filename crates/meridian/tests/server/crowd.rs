//! Clients without credentials that hold idle connections or do not read. Other clients must not notice them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::cloud::{Cloud, PATIENCE, eventually, raw};
use crate::plant::Plant;
use crate::two_servers::postgres;

/// A server that requires the token `s3cret`.
fn guarded(server: &str) -> Cloud {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "s3cret\n").unwrap();
    let config = format!("[server]\nauth = \"token\"\ntoken_file = \"token\"\n{server}");
    std::fs::write(dir.path().join("meridian.toml"), config).unwrap();
    Cloud::within(dir, &["--config", "meridian.toml", "--data-dir", "."])
}

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().unwrap()
}

/// Raises the limit of open files of this process to the maximum.
fn many_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

/// Opens a connection from one of many local addresses. It fails instead of hanging if the server does not accept it.
fn from(n: usize, to: SocketAddr) -> TcpStream {
    let own = Ipv4Addr::new(127, 0, 1 + (n / 200 % 50) as u8, 1 + (n % 200) as u8);
    from_address(own, to).unwrap_or_else(|error| panic!("connection {n} to {to}: {error}"))
}

fn from_address(own: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((own, 0)).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// Asserts that requests with a token and health checks are answered.
#[track_caller]
fn serves(cloud: &Cloud, metrics: &str) {
    let health = raw(cloud.url(), &[], "GET", "/healthcheck", None);
    assert_eq!(health.status, 200, "{health:?}");
    let networks = raw(cloud.url(), &[("X-Auth-Token", "s3cret")], "GET", "/v2.0/networks", None);
    assert_eq!((networks.status, &networks.body), (200, &json!({"networks": []})));
    for path in ["/health", "/metrics"] {
        let answer = raw(metrics, &[], "GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

#[test]
fn idle_connections_keep_nobody_out_of_the_api_health_and_metrics() {
    stays_open(&guarded(""));
}

#[test]
fn idle_connections_keep_nobody_out_with_postgresql_and_databases_over_tls() {
    let (postgres, _dir) = postgres();
    let plant = Plant::encrypted();
    let token = plant.dir().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    plant.configure(&format!("[server]\nauth = \"token\"\ntoken_file = \"{}\"\n", token.display()));
    stays_open(&plant.cloud(&["--database", &postgres.url("meridian")]));
}

/// Holds idle connections from many addresses, more than the server admits, and keeps opening new ones.
fn stays_open(cloud: &Cloud) {
    many_files();
    let metrics = cloud.metrics_url();
    eventually("it is healthy", || (cloud.status()["healthy"] == true).then_some(()));
    let (api, other) = (address(cloud.url()), address(&metrics));
    let mut idle = Vec::new();
    // As many as the server admits, and more than the kernel queues for a server that does not accept.
    for n in 0..2_100 {
        idle.push(from(n, api));
        if n % 7 == 0 {
            idle.push(from(n, other));
        }
        if [899, 900, 1_028, 2_099].contains(&n) {
            serves(cloud, &metrics);
        }
    }
    // New connections arrive faster than the server closes idle ones.
    let begin = Instant::now();
    let mut n = idle.len();
    while begin.elapsed() < Duration::from_secs(4) {
        for _ in 0..5 {
            idle.push(from(n, api));
            idle.push(from(n, other));
            n += 1;
        }
        serves(cloud, &metrics);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(cloud.status()["healthy"], true);
}

#[test]
fn one_address_with_idle_connections_keeps_nobody_out() {
    many_files();
    let cloud = guarded("max_connections = 40\nmax_idle_per_client = 10\n");
    let metrics = cloud.metrics_url();
    eventually("it is healthy", || (cloud.status()["healthy"] == true).then_some(()));
    let address = address(cloud.url());
    let mut idle = Vec::new();
    for n in 0..200 {
        idle.push(TcpStream::connect(address).unwrap());
        // Some connections send half a request.
        if n % 2 == 0 {
            let _ =
                idle[n].write_all(b"POST /v2.0/networks HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{");
        }
        if n % 50 == 49 {
            serves(&cloud, &metrics);
        }
    }
}

#[test]
fn clients_that_do_not_read_block_neither_metrics_nor_health() {
    let cloud = guarded("");
    let metrics = cloud.metrics_url();
    eventually("it is healthy", || (cloud.status()["healthy"] == true).then_some(()));
    let to = address(&metrics);
    let requests = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2_000);
    let deaf: Vec<TcpStream> = (0..100)
        .map(|n| {
            let mut stream = from(n, to);
            stream.set_nonblocking(true).unwrap();
            // The write may be partial: the requests exceed the answers that the kernel buffers.
            let _ = stream.write(requests.as_bytes());
            stream
        })
        .collect();
    for _ in 0..5 {
        serves(&cloud, &metrics);
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(deaf);
}

#[test]
fn tools_that_hang_on_the_admin_socket_keep_nobody_out() {
    let cloud = guarded("");
    let socket = cloud.dir().join("admin.sock");
    let _hanging: Vec<UnixStream> = (0..40)
        .map(|n| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.set_nonblocking(true).unwrap();
            if n % 2 == 0 {
                let _ = stream.write("{\"request\":\"metrics\"}\n".repeat(1_000).as_bytes());
            }
            stream
        })
        .collect();
    eventually("it answers", || cloud.try_meridian(&["status"]).ok());
}

/// Clients without credentials send half a body each. The first ones fill all places; each further one takes the place of another.
#[test]
fn half_sent_bodies_of_refused_clients_hold_no_places() {
    many_files();
    let cloud = guarded("max_connections = 40\nmax_idle_per_client = 10\n");
    let metrics = cloud.metrics_url();
    eventually("it is healthy", || (cloud.status()["healthy"] == true).then_some(()));
    let address = address(cloud.url());
    let mut half = Vec::new();
    for n in 0..200 {
        let mut stream = from(n, address);
        let _ = stream.write_all(
            b"POST /v2.0/networks HTTP/1.1\r\nHost: x\r\nX-Auth-Token: guess\r\nContent-Length: 9\r\n\r\n{",
        );
        half.push(stream);
        // If rejected clients held places, the first of them would by now hold all places for requests.
        if n > 30 && n % 10 == 0 {
            serves(&cloud, &metrics);
        }
    }
}

/// A rejected client that sends its body receives the error, and can reuse the connection.
#[test]
fn a_refused_client_sees_the_answer_after_its_body() {
    let cloud = guarded("");
    let mut stream = TcpStream::connect(address(cloud.url())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..2 {
        let body = "x".repeat(3 << 20);
        let head = format!(
            "POST /v2.0/networks HTTP/1.1\r\nHost: x\r\nX-Auth-Token: guess\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        assert_eq!(status(&mut stream).unwrap(), 401);
    }
}

/// Reads one answer; returns its status.
fn status(stream: &mut TcpStream) -> std::io::Result<u16> {
    let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(cut());
        }
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().map_err(|_| cut())?,
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(status)
}

/// The bcrypt hash of `pw` at a low cost.
const PASSWORD: &str = "$2b$04$.28FkFQLkDFPySBHWafRUOwjRx/7UVblME5U9yUsNQtEyzmztXLZO";
/// A hash that no password matches, at the cost that guesses have to pay.
const COSTLY: &str = "$2b$09$abcdefghijklmnopqrstuu...............................";

#[test]
fn a_flood_of_passwords_from_one_address_keeps_users_of_others_out_of_nothing() {
    many_files();
    let dir = tempfile::tempdir().unwrap();
    let users: String = (0..8).map(|n| format!("user{n}:{PASSWORD}\n")).collect();
    std::fs::write(dir.path().join("htpasswd"), format!("{users}costly:{COSTLY}\n")).unwrap();
    let config = "[server]\nauth = \"basic\"\nhtpasswd = \"htpasswd\"\n";
    std::fs::write(dir.path().join("meridian.toml"), config).unwrap();
    let cloud = Cloud::within(dir, &["--config", "meridian.toml", "--data-dir", "."]);
    let to = address(cloud.url());
    let log_in = |own: u8, user: &str, password: &str| -> std::io::Result<u16> {
        let mut stream = from_address(Ipv4Addr::new(127, 0, 0, own), to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let credentials = STANDARD.encode(format!("{user}:{password}"));
        let head =
            format!("GET /v2.0/networks HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credentials}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        status(&mut stream)
    };
    let over = AtomicBool::new(false);
    let (guessed, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..80 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    match log_in(2, "nobody", "guess") {
                        Ok(503) => refused.fetch_add(1, Ordering::Relaxed),
                        _ => guessed.fetch_add(1, Ordering::Relaxed),
                    };
                }
            });
        }
        // The flood has taken all places that it can get.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("guesses are turned away", || (refused.load(Ordering::Relaxed) > 100).then_some(()));
            (0..8).map(|n| log_in(3, &format!("user{n}"), "pw").unwrap()).collect::<Vec<u16>>()
        }));
        over.store(true, Ordering::Relaxed);
        assert_eq!(outcome.unwrap(), [200; 8]);
    });
    assert!(guessed.load(Ordering::Relaxed) > 0, "none of the guesses was checked");
}
