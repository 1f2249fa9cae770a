//! A proxy with a real agent's channel, real sockets, and a Nova that answers with the head that it got.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use listener::Limits;
use metadata_proxy::control::{Channel, Family, ListenerId, Message};
use metadata_proxy::counts::Counts;
use metadata_proxy::identity::PortIdentity;
use metadata_proxy::nova::{NovaAddress, NovaTimeouts};
use metadata_proxy::request::SharedSecret;
use metadata_proxy::{Config, Proxy, SourceCheck};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(crate) const NETWORK: Uuid = Uuid::from_u128(1);
pub(crate) const INSTANCE: &str = "1c0e3b2a-1111-4222-8333-444455556666";
pub(crate) const LISTENER: ListenerId =
    ListenerId { network: NETWORK, family: Family::Ipv4, namespace: 9, device: 0 };
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// A Nova that answers with the head that it got, and keeps the bodies. `/bytes/N` is answered with N bytes, `/forbidden` with 403,
/// and the instance `slow` not at all.
pub(crate) struct Nova {
    pub(crate) address: SocketAddr,
    pub(crate) bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The answers that the proxy did not read to their end.
    pub(crate) broken: Arc<AtomicUsize>,
}

impl Nova {
    pub(crate) async fn start() -> Nova {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let nova = Nova { address, bodies: Arc::default(), broken: Arc::default() };
        let (bodies, broken) = (Arc::clone(&nova.bodies), Arc::clone(&nova.broken));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, Arc::clone(&bodies), Arc::clone(&broken)));
            }
        });
        nova
    }
}

/// The bytes of `/bytes/N`.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

async fn answer(
    mut stream: TcpStream,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    broken: Arc<AtomicUsize>,
) -> Option<()> {
    loop {
        let head = read_head(&mut stream).await?;
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        bodies.lock().unwrap().push(body);
        if head.contains("x-instance-id: slow") {
            std::future::pending::<()>().await;
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        if let Some(length) = path.strip_prefix("/bytes/").and_then(|length| length.parse().ok()) {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
            if stream.write_all(&pattern(length)).await.is_err() {
                broken.fetch_add(1, Ordering::SeqCst);
                return None;
            }
            continue;
        }
        let gzip = if head.contains("/gzip") { "Content-Encoding: gzip\r\n" } else { "" };
        let status = match path {
            "/redirect" => "301 Moved",
            "/forbidden" => "403 Forbidden",
            _ => "200 OK",
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\n{gzip}Set-Cookie: evil\r\nContent-Length: {}\r\n\r\n{head}",
            head.len()
        );
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

pub(crate) async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).to_lowercase().trim_end().to_owned())
}

pub(crate) struct Site {
    pub(crate) _dir: tempfile::TempDir,
    pub(crate) control: PathBuf,
    pub(crate) nova: SocketAddr,
    pub(crate) proxy: JoinHandle<()>,
}

impl Site {
    pub(crate) fn start(nova: SocketAddr) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("control.sock");
        let proxy = run(&control, nova);
        Site { _dir: dir, control, nova, proxy }
    }

    /// kill -9, as far as a task can be.
    pub(crate) async fn restart(&mut self) {
        self.proxy.abort();
        let _ = (&mut self.proxy).await;
        self.proxy = run(&self.control, self.nova);
    }

    pub(crate) fn agent(&self) -> Channel {
        Channel::connect(&self.control).unwrap()
    }
}

pub(crate) fn config(control: &Path, nova: SocketAddr) -> Config {
    Config {
        control: control.to_owned(),
        nova: NovaAddress { host: nova.ip().to_string(), port: nova.port(), tls: None },
        secret: SharedSecret::new("secret".into()),
        timeouts: NovaTimeouts { connect: WITHIN, answer: WITHIN },
        limits: Limits { connections: 128, per_client: 64, ..Limits::default() },
        host_connections: 128,
        rate: None,
        check: SourceCheck::Off,
    }
}

pub(crate) fn run(control: &Path, nova: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(Proxy::open(config(control, nova)).unwrap().run())
}

/// The sockets that a proxy sends to a new agent.
pub(crate) async fn greeted(agent: &Channel) -> Vec<(ListenerId, OwnedFd)> {
    let mut sockets = Vec::new();
    loop {
        match agent.receive().await.unwrap().unwrap() {
            (Message::Listener(id), Some(socket)) => sockets.push((id, socket)),
            (Message::Complete, None) => return sockets,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn port() -> PortIdentity {
    let addresses = ["127.0.0.1".parse().unwrap()].into();
    PortIdentity { instance: INSTANCE.into(), project: "p1".into(), addresses, macs: Default::default() }
}

pub(crate) async fn tell(agent: &Channel, messages: impl IntoIterator<Item = Message>) {
    for message in messages {
        agent.send(&message, None).await.unwrap();
    }
}

pub(crate) fn all() -> Vec<Message> {
    let mut messages = Message::ports(NETWORK, &[port()]);
    messages.push(Message::Valid { milliseconds: 60_000 });
    messages
}

/// A proxy behind both of its fronts: a listening socket in a namespace, and the unix socket of haproxies.
pub(crate) struct Fronts {
    _dir: tempfile::TempDir,
    _sockets: Vec<OwnedFd>,
    pub(crate) agent: Channel,
    pub(crate) all: [Front; 2],
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) enum Front {
    Namespace(SocketAddr),
    Haproxy(PathBuf),
}

/// A connection of a client, or of its haproxy.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Starts a proxy with another configuration, which knows one instance.
pub(crate) async fn fronts(nova: &Nova, change: impl FnOnce(&mut Config)) -> Fronts {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control.sock");
    let mut config = config(&control, nova.address);
    change(&mut config);
    tokio::spawn(Proxy::open(config).unwrap().run());
    let agent = Channel::connect(&control).unwrap();
    greeted(&agent).await;
    let requests = dir.path().join("requests.sock");
    let unix = std::os::unix::net::UnixListener::bind(&requests).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let all = [Front::Namespace(tcp.local_addr().unwrap()), Front::Haproxy(requests)];
    let sockets: Vec<(ListenerId, OwnedFd)> =
        vec![(ListenerId::FORWARDED, unix.into()), (LISTENER, tcp.into())];
    tell(&agent, self::all()).await;
    for (id, socket) in &sockets {
        agent.send(&Message::Listener(*id), Some(socket.as_fd())).await.unwrap();
    }
    Fronts { _dir: dir, _sockets: sockets.into_iter().map(|(_, socket)| socket).collect(), agent, all }
}

impl Front {
    /// Connects as the VM with an address.
    pub(crate) async fn connect_from(&self, source: &str) -> Box<dyn Stream> {
        match self {
            Front::Namespace(address) => {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
                Box::new(socket.connect(*address).await.unwrap())
            }
            Front::Haproxy(path) => Box::new(UnixStream::connect(path).await.unwrap()),
        }
    }

    /// The request of a VM as it arrives: haproxy names network and source.
    pub(crate) fn request(&self, source: &str, request: &str) -> String {
        match self {
            Front::Namespace(_) => request.to_owned(),
            Front::Haproxy(_) => {
                let names = format!("X-OVN-Network-ID: {NETWORK}\r\nX-Forwarded-For: {source}\r\n");
                let (line, rest) = request.split_once("\r\n").unwrap();
                format!("{line}\r\n{names}{rest}")
            }
        }
    }

    /// Gets a path as the VM with an address; the status and the head of the answer.
    pub(crate) async fn get_from(&self, source: &str, path: &str) -> (u16, String) {
        let mut stream = self.connect_from(source).await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(self.request(source, &request).as_bytes()).await.unwrap();
        let (head, _) = read_answer(&mut stream).await;
        (status(&head).parse().unwrap(), head)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        self.get_from("127.0.0.1", path).await
    }
}

/// Reads one answer, and leaves what follows it.
pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> (String, Vec<u8>) {
    let reading = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.expect("a body");
        (head, body)
    };
    tokio::time::timeout(WITHIN, reading).await.expect("an answer")
}

/// The log of this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts to log here until the guard is dropped.
    pub(crate) fn start() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The number of warnings with some words.
    pub(crate) fn warnings(&self, words: &str) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(" WARN ") && line.contains(words)).count()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The next message of the proxy that is no counts.
pub(crate) async fn next(agent: &Channel) -> Message {
    loop {
        match agent.receive().await.unwrap().unwrap().0 {
            Message::Counts(_) => {}
            message => return message,
        }
    }
}

/// The proxy's counts after a sign of the agent.
pub(crate) async fn counts(agent: &Channel) -> Counts {
    tell(agent, [Message::Valid { milliseconds: 60_000 }]).await;
    tell(agent, [Message::Close(ListenerId { namespace: 77, ..LISTENER })]).await;
    let mut last = Counts::default();
    loop {
        match agent.receive().await.unwrap().unwrap().0 {
            Message::Counts(counts) => last = counts,
            // The answer to the last message.
            Message::Closed(id) if id.namespace == 77 => return last,
            other => panic!("{other:?}"),
        }
    }
}

/// Sends bytes and returns all of the answer; the request must close the connection.
pub(crate) async fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(WITHIN, stream.read_to_end(&mut answer)).await.expect("an answer");
    // A proxy that closes before it has read everything resets the connection.
    drop(read);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> String {
    send(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

/// Waits until a path is answered with a status: messages to the proxy take a moment.
pub(crate) async fn until(address: SocketAddr, expected: &str) -> String {
    let mut last = String::new();
    for _ in 0..1000 {
        last = get(address, "/").await;
        if status(&last) == expected {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no {expected} but {last}");
}

/// A proxy with one served socket.
pub(crate) async fn served() -> (Site, Nova, Channel, std::net::TcpListener, SocketAddr) {
    let nova = Nova::start().await;
    let site = Site::start(nova.address);
    let agent = site.agent();
    assert!(greeted(&agent).await.is_empty());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    agent.send(&Message::Listener(LISTENER), Some(listener.as_fd())).await.unwrap();
    (site, nova, agent, listener, address)
}
