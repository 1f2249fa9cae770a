//! What a hostile VM sends, and what it tries to reach. Each attack runs against both front ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::Lab;
use lab::node::Node;

use super::site::{B, Backend, SERVICE, VMS, asked, gets_its_own, mac, on, send};

/// As many connections one VM opens; the limit of one address is 64.
const FLOOD: usize = 600;
/// Memory of the proxy in KiB that no flood may use up.
const MEMORY: u64 = 100 << 10;

/// Sends all attacks. Other VMs get their own data afterwards.
pub(super) fn all(lab: &Lab, backend: Backend) -> Result<()> {
    let vm = lab.find("vmb1")?;
    oversized(&vm)?;
    ambiguous(&vm, backend)?;
    framed(&vm, backend)?;
    paths(&vm)?;
    noise(&vm)?;
    flood(lab, &*lab.find("vma3")?)?;
    scan(lab, &vm)?;
    gets_its_own(&vm, &VMS[2])
}

/// Whether a client says that it sends nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Stays,
    Ends,
}

/// The status of an answer; nothing if the connection was closed without one.
fn status(vm: &Node, bytes: &[u8], sending: Sending) -> Result<Option<u16>> {
    let service: SocketAddr = SERVICE.parse()?;
    let sent = vm.enter(|| -> Result<Option<u16>> {
        let mut stream = TcpStream::connect_timeout(&service, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(45)))?;
        // The other side may close before it has read everything.
        let _ = stream.write_all(bytes);
        if sending == Sending::Ends {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let line = String::from_utf8_lossy(&answer).into_owned();
        Ok(line.split(' ').nth(1).and_then(|code| code.parse().ok()).filter(|_| line.starts_with("HTTP/1.")))
    })?;
    sent.with_context(|| format!("{} cannot send", vm.label()))
}

/// Sends a request that has to be refused, or, with 200, that somebody on the way may read in one way and pass on clean.
fn expect(vm: &Node, what: &str, request: &str, statuses: &[u16]) -> Result<()> {
    let before = asked();
    let status = status(vm, request.as_bytes(), Sending::Stays)?;
    let requests = asked() - before;
    println!("{what}: {status:?}");
    ensure!(
        status.is_some_and(|status| statuses.contains(&status)),
        "{what} got {status:?}, not {statuses:?}"
    );
    let allowed = usize::from(status == Some(200));
    ensure!(requests == allowed, "{what} got {status:?}, and Nova saw {requests} requests");
    Ok(())
}

/// X06: heads and bodies beyond the limits.
fn oversized(vm: &Node) -> Result<()> {
    let head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let long = "a".repeat(20 << 10);
    let many: String = (0..150).map(|n| format!("Y-{n}: x\r\n")).collect();
    expect(vm, "a header of 20 KiB", &format!("GET / {head}Y-Long: {long}\r\n\r\n"), &[431, 400])?;
    expect(vm, "150 headers", &format!("GET / {head}{many}\r\n"), &[431, 400])?;
    expect(vm, "a target of 9 KiB", &format!("GET /{} {head}\r\n", &long[..9 << 10]), &[414])?;
    let body = format!("POST / {head}Content-Length: 1048576\r\n\r\n{long}");
    expect(vm, "a body of 1 MiB", &body, &[413, 400])
}

/// X07: requests that two parsers could read differently.
fn ambiguous(vm: &Node, backend: Backend) -> Result<()> {
    // haproxy reads them in one way, drops the length where there are chunks, and forwards one clean request.
    let cleaned = if backend == Backend::Haproxy { 200 } else { 400 };
    let head = "Host: x\r\nConnection: close\r\n";
    for (what, fields) in [
        ("length and chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("two lengths", "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"),
        ("a blank before the colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        ("a strange coding", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        ("a chunk of no size", "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"),
        ("a folded header", "X-A: b\r\n Content-Length: 4\r\n\r\n"),
    ] {
        expect(vm, what, &format!("POST / HTTP/1.1\r\n{head}{fields}"), &[400, 501, cleaned])?;
    }
    expect(vm, "bare line ends", "GET / HTTP/1.1\nHost: x\nConnection: close\n\n", &[400, cleaned])
}

/// X07: bodies end where they say, and the next request begins there.
fn framed(vm: &Node, backend: Backend) -> Result<()> {
    let service = SERVICE.parse()?;
    let close = "Host: x\r\nConnection: close\r\n";
    let before = asked();
    let extension = format!(
        "POST / HTTP/1.1\r\n{close}Transfer-Encoding: chunked\r\n\r\n4;a=\"GET /evil\"\r\nabcd\r\n0\r\n\r\n"
    );
    let said = send(vm, service, &extension)?;
    ensure!(
        said.contains("body \"abcd\"") || said.starts_with("HTTP/1.1 400"),
        "a chunk's extension: {said}"
    );
    let pipelined = format!(
        "POST /one HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcdGET /two HTTP/1.1\r\n{close}\r\n"
    );
    let said = send(vm, service, &pipelined)?;
    let (one, two) = (said.find("| post /one http/1.1"), said.find("| get /two http/1.1"));
    ensure!(one.is_some() && one < two && said.matches("HTTP/1.1 200").count() == 2, "{said}");
    ensure!(said.contains("body \"abcd\"") && said.contains("body \"\""), "{said}");
    let requests = asked() - before;
    ensure!(requests == 2 || requests == 3, "Nova saw {requests} requests through {backend:?}");
    Ok(())
}

/// X08: targets that would lead elsewhere if anybody decoded them.
fn paths(vm: &Node) -> Result<()> {
    let service = SERVICE.parse()?;
    for path in ["/latest/../../x", "/%2e%2e/", "//a", "/a?b=%0d%0aX-Instance-ID:%20x"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        let said = send(vm, service, &request)?.to_lowercase();
        ensure!(said.contains(&format!("get {path} http/1.1").to_lowercase()), "{path} was changed: {said}");
        ensure!(!said.contains("evil.example"), "the host reached Nova: {said}");
    }
    for (what, line) in
        [("a proxy's target", "GET http://10.9.9.9/x"), ("no path", "GET *"), ("a tunnel", "CONNECT a:80")]
    {
        let request = format!("{line} HTTP/1.1\r\nHost: 10.9.9.9\r\nConnection: close\r\n\r\n");
        let said = send(vm, service, &request).unwrap_or_default();
        ensure!(!said.contains("instance "), "{what} was answered with data: {said}");
    }
    Ok(())
}

/// X09: other protocols, and bytes without sense.
fn noise(vm: &Node) -> Result<()> {
    expect(vm, "HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0", &[400, 405])?;
    let mut random = fastrand::Rng::with_seed(7);
    let mut hello = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    hello.extend(std::iter::repeat_with(|| random.u8(..)).take(500));
    for n in 0..40 {
        let length = random.usize(1..2000);
        let bytes: Vec<u8> = match n {
            0 => hello.clone(),
            _ => std::iter::repeat_with(|| random.u8(..)).take(length).collect(),
        };
        let status = status(vm, &bytes, Sending::Ends)?;
        ensure!(status.is_none_or(|status| (400..600).contains(&status)), "noise got {status:?}: {bytes:?}");
    }
    Ok(())
}

/// X04: one VM opens more connections than it may have, and sends no request on them. Others, of its network and of another one, are
/// served, and the proxy does not grow with them.
fn flood(lab: &Lab, vm: &Node) -> Result<()> {
    let service: SocketAddr = SERVICE.parse()?;
    let streams = vm.enter(|| {
        let mut streams = Vec::new();
        for _ in 0..FLOOD {
            if let Ok(mut stream) = TcpStream::connect_timeout(&service, Duration::from_secs(2)) {
                let _ = stream.write_all(b"G");
                streams.push(stream);
            }
        }
        streams
    })?;
    ensure!(streams.len() >= 64, "only {} connections came about", streams.len());
    gets_its_own(&*lab.find("vma1")?, &VMS[0])?;
    gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;
    let pid = lab.chassis("hv1")?.daemon("metadata-proxy")?.pid().context("the proxy does not run")?;
    let memory = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let memory = memory.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let memory: u64 = memory.context("no VmRSS")?.parse()?;
    ensure!(memory < MEMORY, "the proxy has {memory} KiB");
    let mut open = 0;
    for mut stream in streams {
        stream.set_read_timeout(Some(Duration::from_millis(20)))?;
        // A closed one has an end, an open one has nothing yet.
        if stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            open += 1;
        }
    }
    println!("{open} of {FLOOD} connections stayed open");
    ensure!(open <= 64, "{open} connections of one VM stayed open");
    Ok(())
}

/// X11 and X12: nothing else listens in the namespace, and it leads nowhere.
fn scan(lab: &Lab, vm: &Node) -> Result<()> {
    let hv = lab.chassis("hv1")?;
    for port in [1, 22, 79, 81, 443, 6642, 8775, 9476, 9697] {
        for ip in ["169.254.169.254", "10.0.0.2"] {
            let address: SocketAddr = format!("{ip}:{port}").parse()?;
            let open =
                vm.enter(|| TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok())?;
            ensure!(!open, "{address} is open");
        }
    }
    let index = vm.index("eth0")?;
    let own = format!("fe80::ff:fe{}:2", &mac(B, 2)[12..14]);
    for (ip, ports) in [("fe80::a9fe:a9fe", &[22, 8775][..]), (&own, &[22, 80, 8775])] {
        for port in ports {
            let address = SocketAddrV6::new(ip.parse()?, *port, 0, index).into();
            let open =
                vm.enter(|| TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok())?;
            ensure!(!open, "{address} is open");
        }
    }
    // A service in the chassis' own network: a VM that uses the namespace as its router does not get there.
    vm.run("ip route replace 192.0.2.0/24 via 10.0.0.2")?;
    on(hv, "ip addr add 192.0.2.9/32 dev lo")?;
    let beyond: SocketAddr = "192.0.2.9:8775".parse()?;
    let _service = hv.enter(|| TcpListener::bind(beyond))?.context("cannot listen on the chassis")?;
    let reaches = |limit| move || TcpStream::connect_timeout(&beyond, Duration::from_secs(limit)).is_ok();
    ensure!(hv.enter(reaches(5))?, "the chassis does not reach its own service");
    let open = vm.enter(reaches(1))?;
    on(hv, "ip addr del 192.0.2.9/32 dev lo")?;
    vm.run("ip route del 192.0.2.0/24")?;
    ensure!(!open, "a VM reached the host's network");
    for (switch, expected) in [("net/ipv4/ip_forward", "0"), ("net/ipv6/conf/all/forwarding", "0")] {
        let value = on(hv, &format!("ip netns exec ovnmeta-{B} cat /proc/sys/{switch}"))?;
        ensure!(value.trim() == expected, "{switch} of the namespace is {value}");
    }
    Ok(())
}
