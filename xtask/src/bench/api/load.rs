//! The process that sends requests to the server. It is started here and controlled by lines of JSON on its standard input.
//!
//! - `{"do":"watch","remote":REMOTE}` answers `{"watching":true}` when it follows that Northbound;
//! - `{"do":"run","address":A,"clients":N,"rate":R,"see":B,"bodies":B,"requests":[[METHOD,PATH,BODY],...]}` answers
//!   `{"seconds":S,"answers":[...]}` when everything is answered and, with `see`, when all ports that were made are in the
//!   Northbound.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use ::lab::meter::percentile;

/// Method, path and body.
pub(super) type Request = (&'static str, String, Option<String>);

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The number of concurrent clients.
    pub(super) clients: usize,
    /// How many requests are begun in a second; as fast as they are answered if none.
    pub(super) rate: Option<f64>,
    /// Whether to record when created ports are in the Northbound.
    pub(super) see: bool,
}

impl Pace {
    /// A number of concurrent clients, each as fast as it gets answers.
    pub(super) fn clients(clients: usize) -> Pace {
        Pace { clients, rate: None, see: false }
    }
}

/// How one request went. Times are in nanoseconds of the clock that all processes share.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) status: u16,
    sent: i64,
    got: i64,
    #[serde(default)]
    pub(super) ids: Vec<String>,
    seen: Option<i64>,
    body: Option<Value>,
}

/// How all of them went.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Ran {
    pub(super) seconds: f64,
    pub(super) answers: Vec<Answer>,
}

impl Ran {
    /// The ids of all created objects, in order.
    pub(super) fn ids(&self) -> Vec<String> {
        self.answers.iter().flat_map(|answer| answer.ids.iter().cloned()).collect()
    }

    /// Milliseconds from request to answer: the median and the 99th percentile.
    pub(super) fn latency(&self) -> Result<(f64, f64)> {
        spread(self.answers.iter().map(|answer| answer.got - answer.sent))
    }

    /// Milliseconds from the answer to the row; nothing where the row was there first.
    pub(super) fn after_answer(&self) -> Result<(f64, f64)> {
        spread(self.answers.iter().filter_map(|answer| Some((answer.seen? - answer.got).max(0))))
    }

    /// Milliseconds from the request to the row.
    pub(super) fn after_request(&self) -> Result<(f64, f64)> {
        spread(self.answers.iter().filter_map(|answer| Some(answer.seen? - answer.sent)))
    }

    /// Itself, if every answer has a status of success.
    pub(super) fn all_well(self) -> Result<Ran> {
        match self.answers.iter().position(|answer| !(200..300).contains(&answer.status)) {
            Some(at) => {
                bail!("request {} of {} was answered {}", at + 1, self.answers.len(), self.answers[at].status)
            }
            None => Ok(self),
        }
    }
}

fn spread(nanoseconds: impl Iterator<Item = i64>) -> Result<(f64, f64)> {
    let mut milliseconds: Vec<f64> = nanoseconds.map(|ns| ns as f64 / 1e6).collect();
    let median = percentile(&mut milliseconds, 0.5).context("nothing was measured")?;
    Ok((median, percentile(&mut milliseconds, 0.99).context("nothing was measured")?))
}

/// The running process. It ends when its input is closed.
pub(super) struct Load {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Load {
    pub(super) fn start(program: &Path) -> Result<Load> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the load has no output")?);
        Ok(Load { child, orders, answers })
    }

    /// Follows a Northbound; the last one counts.
    pub(super) fn watch(&mut self, remote: &str) -> Result<()> {
        let answer = self.order(&json!({ "do": "watch", "remote": remote }))?;
        ensure!(answer["watching"] == true, "the load says {answer}");
        Ok(())
    }

    /// Asks everything.
    pub(super) fn run(&mut self, url: &str, pace: Pace, requests: &[Request]) -> Result<Ran> {
        let Pace { clients, rate, see } = pace;
        let order = json!({
            "do": "run", "address": address(url), "clients": clients, "rate": rate, "see": see, "requests": requests,
        });
        Ok(serde_json::from_value(self.order(&order)?)?)
    }

    /// Sends one request, which must succeed, and returns the body of the answer.
    pub(super) fn ask(&mut self, url: &str, request: Request) -> Result<Value> {
        let order = json!({
            "do": "run", "address": address(url), "clients": 1, "bodies": true, "requests": [&request],
        });
        let ran: Ran = serde_json::from_value(self.order(&order)?)?;
        let answer = ran.answers.into_iter().next().context("no answer")?;
        let body = answer.body.unwrap_or_default();
        let (method, path, _) = &request;
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {path} was answered {}: {body}",
            answer.status
        );
        Ok(body)
    }

    fn order(&mut self, order: &Value) -> Result<Value> {
        let mut text = serde_json::to_vec(order)?;
        text.push(b'\n');
        self.orders
            .as_mut()
            .context("the load has no input")?
            .write_all(&text)
            .context("the load does not listen")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("the load has ended")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// Where a URL leads.
fn address(url: &str) -> &str {
    url.strip_prefix("http://").unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(answers: &[(u16, i64, i64, Option<i64>)]) -> Ran {
        let answer = |&(status, sent, got, seen): &(u16, i64, i64, Option<i64>)| Answer {
            status,
            sent: sent * 1_000_000,
            got: got * 1_000_000,
            ids: vec![format!("id of {sent}")],
            seen: seen.map(|at| at * 1_000_000),
            body: None,
        };
        Ran { seconds: 1.0, answers: answers.iter().map(answer).collect() }
    }

    #[test]
    fn times_are_from_the_request_and_from_the_answer() {
        let ran = ran(&[(201, 10, 12, Some(15)), (201, 20, 24, Some(23)), (201, 30, 36, None)]);
        assert_eq!(ran.latency().unwrap(), (4.0, 6.0));
        assert_eq!(ran.after_answer().unwrap(), (3.0, 3.0));
        assert_eq!(ran.after_request().unwrap(), (5.0, 5.0));
        assert_eq!(ran.ids(), ["id of 10", "id of 20", "id of 30"]);
        assert!(ran.all_well().is_ok());
    }

    #[test]
    fn one_bad_answer_is_told() {
        let error = ran(&[(201, 1, 2, None), (409, 2, 3, None)]).all_well().unwrap_err().to_string();
        assert!(error.contains("request 2 of 2") && error.contains("409"), "{error}");
    }
}
