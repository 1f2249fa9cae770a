//! Trains: traffic that goes on while something happens to the network, and tells for how long it did not.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::node::Node;
use crate::probe::FLOWS;
use crate::topology::trace::Failures;

/// How often a packet or a question is sent.
const PACE: Duration = Duration::from_millis(100);

/// Traffic under way; it ends with its value.
#[derive(Debug)]
pub struct Train {
    what: String,
    /// From where to where, and where to note that it does not come through.
    way: (String, String),
    failures: Arc<Failures>,
    engine: Engine,
    /// When answers came, in seconds.
    answers: Receiver<f64>,
    seen: Vec<f64>,
}

#[derive(Debug)]
enum Engine {
    Ping(Child),
    Tcp(Arc<AtomicBool>),
}

impl Node {
    /// Sends a ping ten times a second until told to stop.
    pub fn ping_train(&self, to: &str) -> Result<Train> {
        let mut command = Command::new("ping");
        command.args(["-n", "-D", "-i", &PACE.as_secs_f64().to_string(), "-W", "1", to]);
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
        let what = format!("ping train {} to {to}", self.label());
        Ok(self.train(what, to, Engine::Ping(child), answers))
    }

    /// Asks a server made by [`Node::serve`] ten times a second, by a new connection each, until told to stop.
    pub fn tcp_train(self: &Arc<Self>, server: &str) -> Train {
        let (send, answers) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let what = format!("TCP train {} to {server}", self.label());
        let target = server.to_owned();
        let (node, server, stopped) = (Arc::clone(self), server.to_owned(), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if node.asks(&server).is_ok() {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    let _ = send.send(now.as_secs_f64());
                }
                std::thread::sleep(PACE);
            }
        });
        self.train(what, &target, Engine::Tcp(stop), answers)
    }

    fn train(&self, what: String, to: &str, engine: Engine, answers: Receiver<f64>) -> Train {
        let way = (self.label().to_owned(), to.to_owned());
        Train { what, way, failures: Arc::clone(self.failures()), engine, answers, seen: Vec::new() }
    }
}

impl Train {
    /// Waits for so many more answers: proof that traffic flows, and a beginning for what follows.
    pub fn rolls(&mut self, answers: usize) -> Result<()> {
        for _ in 0..answers {
            let at = self
                .answers
                .recv_timeout(FLOWS)
                .inspect_err(|_| self.failures.note(&self.way.0, &self.way.1))
                .with_context(|| format!("{}: no answer within {FLOWS:?}", self.what))?;
            self.seen.push(at);
        }
        Ok(())
    }

    /// Counts the answers that came before now as seen, so that what rolls next is new.
    pub fn now(&mut self) {
        self.seen.extend(self.answers.try_iter());
    }

    /// Ends the train; gives the longest time without an answer, and prints it.
    pub fn end(mut self) -> Result<Duration> {
        match &mut self.engine {
            Engine::Ping(child) => {
                let pid = Pid::from_raw(i32::try_from(child.id()).context("a pid is an i32")?);
                kill(pid, Signal::SIGINT).context("cannot stop ping")?;
                child.wait().context("cannot wait for ping")?;
            }
            Engine::Tcp(stop) => stop.store(true, Ordering::Relaxed),
        }
        self.seen.extend(self.answers.iter());
        ensure!(self.seen.len() > 1, "{}: no traffic", self.what);
        let gap = longest_gap(&self.seen);
        println!("{}: {} answers, longest gap {:.2} s", self.what, self.seen.len(), gap.as_secs_f64());
        Ok(gap)
    }
}

impl Drop for Train {
    fn drop(&mut self) {
        match &mut self.engine {
            Engine::Ping(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Engine::Tcp(stop) => stop.store(true, Ordering::Relaxed),
        }
    }
}

/// When a line of `ping -D` says that there was an answer.
fn answered_at(line: &str) -> Option<f64> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    rest.contains("bytes from").then(|| time.parse().ok()).flatten()
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
