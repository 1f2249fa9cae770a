//! Single probes: pings, and TCP requests to a small server of our own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::eventually::eventually;
use crate::node::Node;

/// The timeout for traffic to flow. Only the first packet to a router's neighbour may already take seconds.
pub(crate) const FLOWS: Duration = Duration::from_secs(60);
/// Timeout of one attempt.
const ATTEMPT: Duration = Duration::from_secs(2);

impl Node {
    /// Pings an address once.
    pub fn ping(&self, to: &str) -> Result<()> {
        self.run(&format!("ping -n -q -c 1 -W 1 {to}")).map(|_| ())
    }

    /// Pings an address once, from an address of its own.
    pub fn ping_from(&self, from: &str, to: &str) -> Result<()> {
        self.run(&format!("ping -n -q -c 1 -W 1 -I {from} {to}")).map(|_| ())
    }

    /// Pings until there is an answer.
    pub fn reaches(&self, to: &str) -> Result<()> {
        self.reaches_within(FLOWS, to)
    }

    /// Pings until an answer arrives, with a given limit.
    pub fn reaches_within(&self, within: Duration, to: &str) -> Result<()> {
        let reached = eventually(within, &format!("{} reaches {to}", self.label()), || self.ping(to));
        reached.inspect_err(|_| self.failures().note(self.label(), to))
    }

    /// Pings from an address of its own until there is an answer.
    pub fn reaches_from(&self, from: &str, to: &str) -> Result<()> {
        let what = format!("{} reaches {to} from {from}", self.label());
        let reached = eventually(FLOWS, &what, || self.ping_from(from, to));
        reached.inspect_err(|_| self.failures().note(self.label(), to))
    }

    /// Pings several times and expects no answer.
    pub fn gets_no_answer(&self, to: &str) -> Result<()> {
        self.silence(to, &format!("ping -n -q -c 4 -i 0.2 -W 0.5 {to}"))
    }

    /// Pings several times from an address of its own and expects no answer.
    pub fn gets_no_answer_from(&self, from: &str, to: &str) -> Result<()> {
        self.silence(to, &format!("ping -n -q -c 4 -i 0.2 -W 0.5 -I {from} {to}"))
    }

    fn silence(&self, to: &str, line: &str) -> Result<()> {
        match self.run(line) {
            Ok(said) => bail!("{} reaches {to}, which it should not: {said}", self.label()),
            Err(_) => println!("{} does not reach {to}, as it should be", self.label()),
        }
        Ok(())
    }

    /// Serves TCP on a port, for both IP versions: each client receives this node's name and the client's own address as seen here.
    pub fn serve(&self, port: u16) -> Result<()> {
        let listener = self
            .enter(|| TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, port)))?
            .with_context(|| format!("{} cannot listen on {port}", self.label()))?;
        let name = self.label().to_owned();
        // Ends with the process, as the guest does.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.and_then(|stream| answer(stream, &name));
            }
        });
        Ok(())
    }

    /// Requests the answer of a server that [`Node::serve`] started.
    pub fn asks(&self, server: &str) -> Result<Answer> {
        Answer::parse(&self.http_get(server, "/")?).with_context(|| format!("{server} sent no answer"))
    }

    /// Repeats the request until there is an answer.
    pub fn is_served_by(&self, server: &str) -> Result<Answer> {
        let served =
            eventually(FLOWS, &format!("{} is served by {server}", self.label()), || self.asks(server));
        served.inspect_err(|_| self.failures().note(self.label(), server))
    }

    /// Gets a document by HTTP; anything but success is an error.
    pub fn http_get(&self, server: &str, path: &str) -> Result<String> {
        self.exchange(ATTEMPT, "GET", server, path, "")
    }

    /// Sends an HTTP request, with a JSON body unless that is empty, and waits for the server; returns the body of the answer.
    /// A status other than success is an error that contains the answer.
    pub fn http(&self, method: &str, server: &str, path: &str, body: &str) -> Result<String> {
        self.exchange(FLOWS, method, server, path, body)
    }

    fn exchange(
        &self,
        limit: Duration,
        method: &str,
        server: &str,
        path: &str,
        body: &str,
    ) -> Result<String> {
        let address: SocketAddr =
            server.parse().with_context(|| format!("{server} is no address with a port"))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", address.ip());
        if !body.is_empty() {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let asked = self.enter(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
            stream.set_read_timeout(Some(limit))?;
            write!(stream, "{head}\r\n{body}")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        })?;
        let text = asked.with_context(|| format!("{} gets nothing from {server}", self.label()))?;
        let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{server} said `{text}`"))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        ensure!(status.starts_with('2'), "{server} answered {method} {path} with `{head}`: {body}");
        Ok(body.to_owned())
    }
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The node that answered.
    pub by: String,
    /// The address it saw the client at.
    pub seen_as: String,
}

impl Answer {
    /// Parses the server's answer: its name and the client's address.
    pub(crate) fn parse(text: &str) -> Result<Answer> {
        let (by, seen_as) = text.trim().split_once(' ').with_context(|| format!("`{text}` is no answer"))?;
        Ok(Answer { by: by.to_owned(), seen_as: seen_as.to_owned() })
    }
}

fn answer(mut stream: TcpStream, name: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(ATTEMPT))?;
    let mut asked = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while asked.read_line(&mut line)? > 0 && !line.trim().is_empty() {
        line.clear();
    }
    let body = format!("{name} {}\n", stream.peer_addr()?.ip().to_canonical());
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}
