//! A server that ends when the test wants it to, connections that last, and datagrams.
//!
//! [`Node::serve`] answers one request per connection and never ends. Tests of load balancers also need a server that dies, and a
//! connection that stays open while its server is taken out of service.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::node::Node;
use crate::probe::Answer;

/// Timeout of one attempt.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The interval at which a server checks whether it should end.
const PACE: Duration = Duration::from_millis(20);

/// A server on TCP and UDP, for both IP versions. Dropping it ends it; open connections stay.
#[derive(Debug)]
pub struct EchoServer {
    ended: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// A connection to an [`EchoServer`].
#[derive(Debug)]
pub struct EchoConnection {
    stream: BufReader<TcpStream>,
}

impl Node {
    /// Answers each line on TCP and each datagram on UDP with this node's name and the client's address as seen here.
    pub fn echo_server(&self, port: u16) -> Result<EchoServer> {
        let any = (Ipv6Addr::UNSPECIFIED, port);
        let bound = self.enter(|| -> std::io::Result<(TcpListener, UdpSocket)> {
            let (tcp, udp) = (TcpListener::bind(any)?, UdpSocket::bind(any)?);
            tcp.set_nonblocking(true)?;
            udp.set_read_timeout(Some(PACE))?;
            Ok((tcp, udp))
        })?;
        let (tcp, udp) = bound.with_context(|| format!("{} cannot listen on {port}", self.label()))?;
        let ended = Arc::new(AtomicBool::new(false));
        let (name, until) = (self.label().to_owned(), Arc::clone(&ended));
        let lines = std::thread::spawn(move || accept(&tcp, &name, &until));
        let (name, until) = (self.label().to_owned(), Arc::clone(&ended));
        let datagrams = std::thread::spawn(move || echo_datagrams(&udp, &name, &until));
        Ok(EchoServer { ended, threads: vec![lines, datagrams] })
    }

    /// Connects to an [`EchoServer`].
    pub fn connect_echo(&self, server: &str) -> Result<EchoConnection> {
        let address = parse(server)?;
        let connected = self.enter(|| -> std::io::Result<TcpStream> {
            let stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
            stream.set_read_timeout(Some(ATTEMPT))?;
            Ok(stream)
        })?;
        let stream = connected.with_context(|| format!("{} cannot connect to {server}", self.label()))?;
        Ok(EchoConnection { stream: BufReader::new(stream) })
    }

    /// Sends a datagram to an [`EchoServer`] from a new port, and waits for the answer.
    pub fn ask_by_udp(&self, server: &str) -> Result<Answer> {
        let address = parse(server)?;
        let from: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let answered = self.enter(|| -> std::io::Result<String> {
            let socket = UdpSocket::bind((from, 0))?;
            socket.set_read_timeout(Some(ATTEMPT))?;
            socket.connect(address)?;
            socket.send(b"?")?;
            let mut bytes = [0; 256];
            let count = socket.recv(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
        })?;
        let text = answered.with_context(|| format!("{} gets no datagram from {server}", self.label()))?;
        Answer::parse(&text)
    }

    /// Opens a connection to an [`EchoServer`] for one request.
    pub fn ask_by_tcp(&self, server: &str) -> Result<Answer> {
        self.connect_echo(server)?.ask()
    }
}

impl EchoConnection {
    /// Sends a line and waits for the answer.
    pub fn ask(&mut self) -> Result<Answer> {
        self.stream.get_mut().write_all(b"?\n").context("cannot send on a connection")?;
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).context("no answer on a connection")?;
        ensure!(count > 0, "the server closed the connection");
        Answer::parse(&line)
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // The port is free when this returns, so that the next server can use it.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn parse(server: &str) -> Result<SocketAddr> {
    server.parse().with_context(|| format!("{server} is no address with a port"))
}

fn accept(listener: &TcpListener, name: &str, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let name = name.to_owned();
                std::thread::spawn(move || echo_lines(stream, &name));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PACE),
            Err(_) => {}
        }
    }
}

fn echo_lines(stream: TcpStream, name: &str) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let answer = format!("{name} {}\n", stream.peer_addr()?.ip().to_canonical());
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        reader.get_mut().write_all(answer.as_bytes())?;
        line.clear();
    }
    Ok(())
}

fn echo_datagrams(socket: &UdpSocket, name: &str, ended: &AtomicBool) {
    let mut bytes = [0; 256];
    while !ended.load(Ordering::Relaxed) {
        if let Ok((_, client)) = socket.recv_from(&mut bytes) {
            let answer = format!("{name} {}\n", client.ip().to_canonical());
            let _ = socket.send_to(answer.as_bytes(), client);
        }
    }
}
