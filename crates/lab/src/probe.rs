//! Traffic: pings, trains of pings, and questions over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::eventually::eventually;
use crate::node::Node;

/// How long traffic may take to flow. The first packet to a neighbour of a router alone may take seconds.
const FLOWS: Duration = Duration::from_secs(60);
/// How long one attempt may take.
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
        eventually(FLOWS, &format!("{} reaches {to}", self.label()), || self.ping(to))
    }

    /// Pings from an address of its own until there is an answer.
    pub fn reaches_from(&self, from: &str, to: &str) -> Result<()> {
        eventually(FLOWS, &format!("{} reaches {to} from {from}", self.label()), || self.ping_from(from, to))
    }

    /// Pings several times and wants no answer at all.
    pub fn gets_no_answer(&self, to: &str) -> Result<()> {
        self.silence(to, &format!("ping -n -q -c 4 -i 0.3 -W 1 {to}"))
    }

    /// Pings several times from an address of its own and wants no answer at all.
    pub fn gets_no_answer_from(&self, from: &str, to: &str) -> Result<()> {
        self.silence(to, &format!("ping -n -q -c 4 -i 0.3 -W 1 -I {from} {to}"))
    }

    fn silence(&self, to: &str, line: &str) -> Result<()> {
        match self.run(line) {
            Ok(said) => bail!("{} reaches {to}, which it should not: {said}", self.label()),
            Err(_) => println!("{} does not reach {to}, as it should be", self.label()),
        }
        Ok(())
    }

    /// Sends a ping ten times a second until told to stop.
    pub fn ping_train(&self, to: &str) -> Result<Train> {
        let mut command = Command::new("ping");
        command.args(["-n", "-D", "-i", "0.1", "-W", "1", to]);
        let mut child =
            self.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let out = child.stdout.take().context("ping has an output")?;
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(|line| line.ok()) {
                if let Some(at) = answered_at(&line)
                    && send.send(at).is_err()
                {
                    return;
                }
            }
        });
        Ok(Train { what: format!("{} to {to}", self.label()), child, answers, seen: Vec::new() })
    }

    /// Serves TCP on a port: each client is told this node's name and the client's address as seen here.
    pub fn serve(&self, port: u16) -> Result<()> {
        let listener = self
            .enter(|| TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port)))?
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

    /// Asks a server made by [`Node::serve`].
    pub fn asks(&self, server: &str) -> Result<Answer> {
        let text = self.http_get(server, "/")?;
        let (by, seen_as) = text.trim().split_once(' ').with_context(|| format!("{server} said `{text}`"))?;
        Ok(Answer { by: by.to_owned(), seen_as: seen_as.to_owned() })
    }

    /// Asks until there is an answer.
    pub fn is_served_by(&self, server: &str) -> Result<Answer> {
        eventually(FLOWS, &format!("{} is served by {server}", self.label()), || self.asks(server))
    }

    /// Gets a document by HTTP; anything but success is an error.
    pub fn http_get(&self, server: &str, path: &str) -> Result<String> {
        let address: SocketAddr =
            server.parse().with_context(|| format!("{server} is no address with a port"))?;
        let asked = self.enter(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
            stream.set_read_timeout(Some(ATTEMPT))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", address.ip())?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        })?;
        let text = asked.with_context(|| format!("{} gets nothing from {server}", self.label()))?;
        let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{server} said `{text}`"))?;
        ensure!(head.split(' ').nth(1) == Some("200"), "{server} said `{head}`");
        Ok(body.to_owned())
    }
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The node that answered.
    pub by: String,
    /// The address it saw the client at.
    pub seen_as: String,
}

fn answer(mut stream: TcpStream, name: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(ATTEMPT))?;
    let mut asked = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while asked.read_line(&mut line)? > 0 && !line.trim().is_empty() {
        line.clear();
    }
    let body = format!("{name} {}\n", stream.peer_addr()?.ip());
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// When a line of `ping -D` says that there was an answer.
fn answered_at(line: &str) -> Option<f64> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    rest.contains("bytes from").then(|| time.parse().ok()).flatten()
}

/// Pings under way.
#[derive(Debug)]
pub struct Train {
    what: String,
    child: std::process::Child,
    answers: Receiver<f64>,
    seen: Vec<f64>,
}

impl Train {
    /// Waits for so many more answers: proof that traffic flows, and a beginning for what follows.
    pub fn rolls(&mut self, answers: usize) -> Result<()> {
        for _ in 0..answers {
            let at = self
                .answers
                .recv_timeout(FLOWS)
                .with_context(|| format!("ping train {}: no answer within {FLOWS:?}", self.what))?;
            self.seen.push(at);
        }
        Ok(())
    }

    /// Forgets answers that came before now, so that what rolls next is new.
    pub fn now(&mut self) {
        self.seen.extend(self.answers.try_iter());
    }

    /// Ends the train; gives the longest time without an answer, and prints it.
    pub fn end(mut self) -> Result<Duration> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).context("a pid is an i32")?);
        kill(pid, Signal::SIGINT).context("cannot stop ping")?;
        self.child.wait().context("cannot wait for ping")?;
        self.seen.extend(self.answers.iter());
        ensure!(self.seen.len() > 1, "ping train {}: no traffic", self.what);
        let gap = longest_gap(&self.seen);
        println!(
            "ping train {}: {} answers, longest gap {:.2} s",
            self.what,
            self.seen.len(),
            gap.as_secs_f64()
        );
        Ok(gap)
    }
}

impl Drop for Train {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn longest_gap(times: &[f64]) -> Duration {
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    Duration::try_from_secs_f64(gaps.fold(0.0, f64::max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_other_lines() {
        let line = "[1700000000.250000] 64 bytes from 10.0.0.12: icmp_seq=3 ttl=64 time=3.1 ms";
        assert_eq!(answered_at(line), Some(1_700_000_000.25));
        for line in ["", "[17", "PING 10.0.0.12", "[1.5] no answer yet for icmp_seq=1", "[x] 64 bytes from a"]
        {
            assert_eq!(answered_at(line), None, "{line}");
        }
    }

    #[test]
    fn the_longest_gap_is_between_neighbours() {
        assert_eq!(longest_gap(&[1.0, 1.5, 4.5, 4.75]), Duration::from_secs(3));
        assert_eq!(longest_gap(&[1.0]), Duration::ZERO);
        // A clock that was set back is no gap.
        assert_eq!(longest_gap(&[2.0, 1.0]), Duration::ZERO);
    }
}
