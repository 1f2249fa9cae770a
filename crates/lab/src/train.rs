//! Trains: continuous traffic during a change of the network, which measures how long it was interrupted.

use std::collections::BTreeSet;
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

/// The interval between packets or requests.
const PACE: Duration = Duration::from_millis(100);

/// Running traffic. Dropping it ends it.
#[derive(Debug)]
pub struct Train {
    what: String,
    /// Sender and destination, for the record of unanswered traffic.
    way: (String, String),
    failures: Arc<Failures>,
    engine: Engine,
    answers: Receiver<Arrival>,
    seen: Vec<Arrival>,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    /// The time of arrival, in seconds.
    at: f64,
    /// The number of the packet or request that it answers.
    number: u64,
}

#[derive(Debug)]
enum Engine {
    Ping(Child),
    Tcp(Arc<AtomicBool>),
}

impl Node {
    /// Sends a ping ten times a second until stopped.
    pub fn ping_train(&self, to: &str) -> Result<Train> {
        let mut command = Command::new("ping");
        command.args(["-n", "-D", "-i", &PACE.as_secs_f64().to_string(), "-W", "1", to]);
        let mut child =
            self.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let out = child.stdout.take().context("ping has an output")?;
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(|line| line.ok()) {
                if let Some(answer) = answer(&line)
                    && send.send(answer).is_err()
                {
                    return;
                }
            }
        });
        let what = format!("ping train {} to {to}", self.label());
        Ok(self.train(what, to, Engine::Ping(child), answers))
    }

    /// Sends a request to a server from [`Node::serve`] ten times a second, each over a new connection, until stopped.
    pub fn tcp_train(self: &Arc<Self>, server: &str) -> Train {
        let (send, answers) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let what = format!("TCP train {} to {server}", self.label());
        let target = server.to_owned();
        let (node, server, stopped) = (Arc::clone(self), server.to_owned(), Arc::clone(&stop));
        std::thread::spawn(move || {
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if node.asks(&server).is_ok() {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    let _ = send.send(Arrival { at: now.as_secs_f64(), number });
                }
                std::thread::sleep(PACE);
            }
        });
        self.train(what, &target, Engine::Tcp(stop), answers)
    }

    fn train(&self, what: String, to: &str, engine: Engine, answers: Receiver<Arrival>) -> Train {
        let way = (self.label().to_owned(), to.to_owned());
        Train { what, way, failures: Arc::clone(self.failures()), engine, answers, seen: Vec::new() }
    }
}

impl Train {
    /// Waits for this number of further answers. They prove that traffic flows, and mark the start of a measurement.
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

    /// Marks the answers so far as seen, so that only later ones count as new.
    pub fn now(&mut self) {
        self.seen.extend(self.answers.try_iter());
    }

    /// Ends the train; returns the longest time without an answer, and prints it.
    pub fn end(mut self) -> Result<Duration> {
        self.stop()?;
        Ok(longest_gap(&self.seen))
    }

    /// Ends the train; returns the number of unanswered packets or requests between the first and the last answer.
    pub fn losses(mut self) -> Result<u64> {
        self.stop()?;
        Ok(losses(&self.seen))
    }

    fn stop(&mut self) -> Result<()> {
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
        let (answers, lost, gap) =
            (self.seen.len(), losses(&self.seen), longest_gap(&self.seen).as_secs_f64());
        println!("{}: {answers} answers, {lost} lost, longest gap {gap:.2} s", self.what);
        Ok(())
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

/// The answer in a line of `ping -D`, if there is one.
fn answer(line: &str) -> Option<Arrival> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (_, number) = rest.split_once("bytes from")?.1.split_once("icmp_seq=")?;
    let number = number.split(' ').next()?.parse().ok()?;
    Some(Arrival { at: time.parse().ok()?, number })
}

fn longest_gap(answers: &[Arrival]) -> Duration {
    let gaps = answers.windows(2).map(|pair| pair[1].at - pair[0].at);
    Duration::try_from_secs_f64(gaps.fold(0.0, f64::max)).unwrap_or_default()
}

fn losses(answers: &[Arrival]) -> u64 {
    let numbers: BTreeSet<u64> = answers.iter().map(|answer| answer.number).collect();
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return 0 };
    last - first + 1 - numbers.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_other_lines() {
        let line = "[1700000000.250000] 64 bytes from 10.0.0.12: icmp_seq=3 ttl=64 time=3.1 ms";
        assert_eq!(answer(line), Some(Arrival { at: 1_700_000_000.25, number: 3 }));
        for line in [
            "",
            "[17",
            "PING 10.0.0.12",
            "[1.5] no answer yet for icmp_seq=1",
            "[x] 64 bytes from a: icmp_seq=1 ttl=64",
            "[1.5] 64 bytes from a",
        ] {
            assert_eq!(answer(line), None, "{line}");
        }
    }

    fn came(times: &[f64]) -> Vec<Arrival> {
        (1..).zip(times).map(|(number, at)| Arrival { at: *at, number }).collect()
    }

    #[test]
    fn the_longest_gap_is_between_neighbours() {
        assert_eq!(longest_gap(&came(&[1.0, 1.5, 4.5, 4.75])), Duration::from_secs(3));
        assert_eq!(longest_gap(&came(&[1.0])), Duration::ZERO);
        // A clock that was set back is no gap.
        assert_eq!(longest_gap(&came(&[2.0, 1.0])), Duration::ZERO);
    }

    #[test]
    fn what_has_no_answer_between_others_is_lost() {
        let answers =
            |numbers: &[u64]| numbers.iter().map(|&number| Arrival { at: 1.0, number }).collect::<Vec<_>>();
        assert_eq!(losses(&answers(&[3, 4, 5])), 0);
        // A late answer is not a loss, and a duplicate does not count twice.
        assert_eq!(losses(&answers(&[3, 5, 4, 4, 7])), 1);
        assert_eq!(losses(&answers(&[])), 0);
    }
}
