//! Clients without credentials that hold connections and say nothing, or do not read: nobody else may notice them.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::cloud::{Cloud, PATIENCE, eventually, raw};

/// A cloud that wants a token, which is `s3cret`.
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

/// As many files as the system lets this process have.
fn many_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

/// A connection from one of many addresses of this machine. A server that does not take it makes this fail, and not hang.
fn from(n: usize, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let own = Ipv4Addr::new(127, 0, 1 + (n / 200 % 50) as u8, 1 + (n % 200) as u8);
    socket.bind(&SocketAddr::from((own, 0)).into()).unwrap();
    socket
        .connect_timeout(&to.into(), PATIENCE)
        .unwrap_or_else(|error| panic!("connection {n} to {to}: {error}"));
    socket.into()
}

/// Whoever has a token, and whoever asks for health, is answered.
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
    many_files();
    let cloud = guarded("");
    let metrics = cloud.metrics_url();
    eventually("it is healthy", || (cloud.status()["healthy"] == true).then_some(()));
    let (api, other) = (address(cloud.url()), address(&metrics));
    let mut idle = Vec::new();
    // As many as are let in, and more than the kernel keeps for a server that does not accept.
    for n in 0..2_100 {
        idle.push(from(n, api));
        if n % 7 == 0 {
            idle.push(from(n, other));
        }
        if [899, 900, 1_028, 2_099].contains(&n) {
            serves(&cloud, &metrics);
        }
    }
    // They come back faster than they are dropped.
    let begin = Instant::now();
    let mut n = idle.len();
    while begin.elapsed() < Duration::from_secs(4) {
        for _ in 0..5 {
            idle.push(from(n, api));
            idle.push(from(n, other));
            n += 1;
        }
        serves(&cloud, &metrics);
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
        // Half a request, too.
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
            // Whatever is not taken need not be: it is more than the answers that the kernel keeps.
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
