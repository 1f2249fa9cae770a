//! The measured clients: ours and Python's are programs controlled by lines of JSON, C's is a tool in daemon mode controlled
//! through its control socket.
//!
//! A program peer is started with REMOTE DATABASE SCHEMA-FILE, prints `{"loaded":ROWS,"note":TEXT}` when it holds the
//! whole database, and then takes, one per line:
//!
//! - `{"do":"changes","count":N}`: answers `{"ready":true}`, notes the time of every change of a port binding's sequence
//!   key, and answers `{"done":true}` after N of them;
//! - `{"do":"report"}`: answers `{"at":[[SEQUENCE,NANOSECONDS],...]}` on the clock all processes share;
//! - `{"do":"insert","switch":UUID,"per_transaction":N,"ports":[...]}`: answers `{"ready":true}` when it has parsed the
//!   ports and sees the switch, inserts, and answers `{"seconds":S}`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::rows::{Kind, Port, SEQUENCE_KEY, change, uuid};
use crate::command::{output, shown};
use ::lab::meter::{cpu_seconds, monotonic, peak_mib, percentile};
use ::lab::rpc::Rpc;
use central::{Database, Server, end_leftover, find_program};

/// The time between two changes: long enough that no client handles two at once.
const PACE: Duration = Duration::from_millis(2);

/// The number of changes in one transaction, for separating the cost of a change from the cost of a wake-up.
pub(crate) const TOGETHER: usize = 100;

/// Cost of the initial load.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) cpu_seconds: f64,
    pub(crate) seconds: f64,
    pub(crate) peak_mib: f64,
    pub(crate) note: String,
}

/// Cost of one change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) cpu_us: f64,
    /// The same without callbacks, for a client that offers it: one that checks each change and reports only the last, and one
    /// that does not check.
    pub(crate) looked_us: Option<f64>,
    /// See `looked_us`.
    pub(crate) untold_us: Option<f64>,
    /// The same for changes with [`TOGETHER`] rows in one transaction.
    pub(crate) together_us: f64,
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
}

/// Cost of inserting.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) rows_per_second: f64,
    pub(crate) cpu_us_per_row: f64,
}

/// A client that holds one database.
pub(crate) enum Peer {
    Program(Program),
    Tool(Tool),
}

impl Peer {
    /// Follows the changes that `writer` makes to a database of `rows` port bindings. A sequence number is used once per
    /// server: writing the value that is already there is no change.
    pub(crate) fn changes(
        &mut self,
        writer: &mut Rpc,
        rows: usize,
        sequences: Range<usize>,
    ) -> Result<Change> {
        match self {
            Peer::Program(program) => program.changes(writer, rows, sequences),
            Peer::Tool(tool) => tool.changes(writer, rows, sequences),
        }
    }

    /// As [`Peer::changes`], for a program that only counts changes: microseconds of CPU for each.
    pub(crate) fn counts(&mut self, writer: &mut Rpc, rows: usize, sequences: Range<usize>) -> Result<f64> {
        match self {
            Peer::Program(program) => Ok(program.follow(writer, rows, halves(sequences).0, 1)?.0),
            Peer::Tool(_) => bail!("a tool does more than count"),
        }
    }

    /// Inserts these ports into an empty switch.
    pub(crate) fn insert(
        &mut self,
        switch: &str,
        ports: Range<usize>,
        per_transaction: usize,
    ) -> Result<Insert> {
        let rows = ports.len() as f64;
        let (seconds, cpu) = match self {
            Peer::Program(program) => program.insert(switch, ports, per_transaction)?,
            Peer::Tool(tool) => tool.insert(switch, ports, per_transaction)?,
        };
        Ok(Insert { rows_per_second: rows / seconds, cpu_us_per_row: cpu * 1e6 / rows })
    }
}

/// Sends changes at an even pace, a number of them in each transaction; returns when each transaction was sent.
fn make_changes(writer: &mut Rpc, rows: usize, sequences: Range<usize>, together: usize) -> Result<Vec<i64>> {
    let begin = Instant::now();
    let mut sent = Vec::with_capacity(sequences.len());
    for (n, first) in sequences.clone().step_by(together).enumerate() {
        let due = PACE * u32::try_from(n)?;
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        let last = (first + together).min(sequences.end);
        let changes = (first..last).map(|sequence| change(spread(sequence, rows), sequence)).collect();
        sent.push(monotonic()?);
        writer.transact(Database::Southbound.name(), changes)?;
    }
    Ok(sent)
}

/// The first half of the changes, which are sent one by one, and the second, which are sent together.
fn halves(sequences: Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = sequences.start + sequences.len() / 2;
    (sequences.start..middle, middle..sequences.end)
}

/// Changes hit rows all over the table.
fn spread(sequence: usize, rows: usize) -> usize {
    sequence * 7919 % rows
}

fn latency(mut us: Vec<f64>, cpu_us: f64, together_us: f64) -> Result<Change> {
    let median_us = percentile(&mut us, 0.5).context("no change was seen")?;
    let p99_us = percentile(&mut us, 0.99).context("no change was seen")?;
    Ok(Change { cpu_us, looked_us: None, untold_us: None, together_us, median_us, p99_us })
}

/// A client of its own process, steered through its standard input.
pub(crate) struct Program {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    name: String,
}

impl Program {
    /// Starts it and waits until it holds the database.
    pub(crate) fn start(mut command: Command, server: &Server, database: Database) -> Result<(Peer, Load)> {
        command.arg(server.remote()).arg(database.name()).arg(database.schema());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let begin = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot run `{}`", shown(&command)))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the peer has no output")?);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut program = Program { child, orders, answers, name };
        let answer = program.answer("loaded")?;
        let (seconds, pid) = (begin.elapsed().as_secs_f64(), program.child.id());
        let note = answer["note"].as_str().unwrap_or_default().to_owned();
        let load = Load { cpu_seconds: cpu_seconds(pid)?, seconds, peak_mib: peak_mib(pid)?, note };
        Ok((Peer::Program(program), load))
    }

    fn order(&mut self, order: &Value) -> Result<()> {
        let mut text = serde_json::to_vec(order)?;
        text.push(b'\n');
        let orders = self.orders.as_mut().context("the peer has no input")?;
        orders.write_all(&text).with_context(|| format!("`{}` does not listen", self.name))
    }

    fn answer(&mut self, key: &str) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if answer.get(key).is_some() => Ok(answer),
            _ => bail!("`{}` should say {key:?} and says {:?}", self.name, line.trim_end()),
        }
    }

    fn changes(&mut self, writer: &mut Rpc, rows: usize, sequences: Range<usize>) -> Result<Change> {
        let first = sequences.start;
        let (single, together) = halves(sequences);
        let (cpu_us, sent) = self.follow(writer, rows, single, 1)?;
        self.order(&json!({ "do": "report" }))?;
        let at: Vec<(usize, i64)> = serde_json::from_value(self.answer("at")?["at"].take())?;
        let us = at
            .iter()
            .filter_map(|(n, at)| sent.get(n.checked_sub(first)?).map(|sent| (at - sent) as f64 / 1e3))
            .collect();
        let (together_us, _) = self.follow(writer, rows, together, TOGETHER)?;
        latency(us, cpu_us, together_us)
    }

    /// The cost of one change, and the times when transactions were sent.
    fn follow(
        &mut self,
        writer: &mut Rpc,
        rows: usize,
        sequences: Range<usize>,
        together: usize,
    ) -> Result<(f64, Vec<i64>)> {
        let count = sequences.len();
        self.order(&json!({ "do": "changes", "count": count }))?;
        self.answer("ready")?;
        let before = cpu_seconds(self.child.id())?;
        let sent = make_changes(writer, rows, sequences, together)?;
        self.answer("done")?;
        Ok(((cpu_seconds(self.child.id())? - before) * 1e6 / count as f64, sent))
    }

    fn insert(&mut self, switch: &str, ports: Range<usize>, per_transaction: usize) -> Result<(f64, f64)> {
        let ports: Vec<Value> = ports
            .map(|n| {
                let port = Port(n);
                json!({
                    "name": port.uuid(),
                    "address": port.address(),
                    "options": { "requested-chassis": port.host() },
                    "external_ids": port.external_ids().into_iter().collect::<BTreeMap<_, _>>(),
                })
            })
            .collect();
        self.order(
            &json!({ "do": "insert", "switch": switch, "per_transaction": per_transaction, "ports": ports }),
        )?;
        self.answer("ready")?;
        let before = cpu_seconds(self.child.id())?;
        let seconds = self.answer("seconds")?["seconds"].as_f64().context("no seconds")?;
        Ok((seconds, cpu_seconds(self.child.id())? - before))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.orders.take());
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begin.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// `ovn-nbctl` or `ovn-sbctl` in daemon mode.
pub(crate) struct Tool {
    control: Rpc,
    pidfile: PathBuf,
    pid: u32,
}

impl Tool {
    /// Starts it and waits until it has answered from its replica.
    pub(crate) fn start(dir: &Path, server: &Server, database: Database) -> Result<(Peer, Load)> {
        let program = format!("ovn-{}ctl", database.short());
        let file = |suffix: &str| dir.join(format!("{program}.{suffix}"));
        let (pidfile, socket) = (file("pid"), file("ctl"));
        let mut command = Command::new(find_program(&program)?);
        command.arg(format!("--db={}", server.remote())).arg("--detach");
        command
            .arg(format!("--pidfile={}", pidfile.display()))
            .arg(format!("--unixctl={}", socket.display()));
        let begin = Instant::now();
        output(command.args(["--timeout=600", "-vconsole:off", "-vsyslog:off"]))?;
        let pid = std::fs::read_to_string(&pidfile)?.trim().parse().context("no process id")?;
        let mut tool = Tool { control: Rpc::connect(&socket)?, pidfile, pid };
        let table = match database {
            Database::Northbound => "Logical_Switch",
            Database::Southbound => "Datapath_Binding",
        };
        tool.run(["get", table, &uuid(Kind::Network, 0), "_uuid"].map(str::to_owned).into())?;
        let note = format!("{program} --detach");
        let load = Load {
            cpu_seconds: cpu_seconds(pid)?,
            seconds: begin.elapsed().as_secs_f64(),
            peak_mib: peak_mib(pid)?,
            note,
        };
        Ok((Peer::Tool(tool), load))
    }

    fn run(&mut self, words: Vec<String>) -> Result<()> {
        self.send(words)?;
        self.control.receive().map(drop).context("the C tool")
    }

    fn send(&mut self, words: Vec<String>) -> Result<()> {
        let params = std::iter::once("--".to_owned()).chain(words).map(Value::String).collect();
        self.control.send("run", Value::Array(params))
    }

    /// C's tool reports a change only through `wait-until`. So for a third of the changes there is one such command per change,
    /// and the cost counts from the change, with the command already waiting, until the daemon has answered and sleeps again.
    /// Another third runs while one command waits for the last change, so that the daemon checks each change and reports none.
    /// The last third runs without any command.
    fn changes(&mut self, writer: &mut Rpc, rows: usize, sequences: Range<usize>) -> Result<Change> {
        let (sequences, together) = halves(sequences);
        let third = sequences.len().div_ceil(3);
        let (looked, told) = (sequences.start + third, (sequences.start + 2 * third).min(sequences.end - 1));
        let before = cpu_seconds(self.pid)?;
        make_changes(writer, rows, sequences.start..looked, 1)?;
        self.run(wait_until(looked - 1, rows))?;
        let cpu_untold = cpu_seconds(self.pid)? - before;
        let cpu_looked = self.looks(writer, rows, looked..told, 1)?;
        let (mut us, mut cpu_told) = (Vec::new(), 0.0);
        for sequence in told..sequences.end {
            self.send(wait_until(sequence, rows))?;
            std::thread::sleep(PACE);
            let before = cpu_seconds(self.pid)?;
            let sent = make_changes(writer, rows, sequence..sequence + 1, 1)?;
            self.control.receive()?;
            us.push((monotonic()? - sent[0]) as f64 / 1e3);
            std::thread::sleep(PACE);
            cpu_told += cpu_seconds(self.pid)? - before;
        }
        let cpu_together = self.looks(writer, rows, together.clone(), TOGETHER)?;
        let each = |cpu: f64, count: usize| cpu * 1e6 / count as f64;
        let untold_us = Some(each(cpu_untold, looked - sequences.start));
        let looked_us = Some(each(cpu_looked, told - looked));
        let change = latency(us, each(cpu_told, sequences.end - told), each(cpu_together, together.len()))?;
        Ok(Change { looked_us, untold_us, ..change })
    }

    /// CPU seconds of changes while one command waits for the last of them.
    fn looks(
        &mut self,
        writer: &mut Rpc,
        rows: usize,
        sequences: Range<usize>,
        together: usize,
    ) -> Result<f64> {
        self.send(wait_until(sequences.end - 1, rows))?;
        std::thread::sleep(PACE);
        let before = cpu_seconds(self.pid)?;
        make_changes(writer, rows, sequences, together)?;
        self.control.receive()?;
        Ok(cpu_seconds(self.pid)? - before)
    }

    fn insert(&mut self, switch: &str, ports: Range<usize>, per_transaction: usize) -> Result<(f64, f64)> {
        let commands: Vec<_> = ports
            .clone()
            .step_by(per_transaction)
            .map(|first| create(switch, first..(first + per_transaction).min(ports.end)))
            .collect();
        self.run(vec!["wait-until".to_owned(), "Logical_Switch".to_owned(), switch.to_owned()])?;
        let before = cpu_seconds(self.pid)?;
        let begin = Instant::now();
        for command in commands {
            self.run(command)?;
        }
        Ok((begin.elapsed().as_secs_f64(), cpu_seconds(self.pid)? - before))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.control.call("exit", json!([]));
        let begin = Instant::now();
        while self.pidfile.exists() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // A daemon that hangs is ended by the same rule as one left by an earlier run.
        if let Err(error) = end_leftover(&self.pidfile) {
            eprintln!("{error:#}");
        }
    }
}

fn wait_until(sequence: usize, rows: usize) -> Vec<String> {
    let port = Port(spread(sequence, rows)).uuid();
    vec![
        "wait-until".to_owned(),
        "Port_Binding".to_owned(),
        port,
        format!("external_ids:{SEQUENCE_KEY}={sequence}"),
    ]
}

/// One command line that creates ports with the columns the others write, and puts them all on the switch at once.
fn create(switch: &str, ports: Range<usize>) -> Vec<String> {
    let mut words = Vec::new();
    for n in ports.clone() {
        let port = Port(n);
        words.extend([format!("--id=@p{n}"), "create".to_owned(), "Logical_Switch_Port".to_owned()]);
        words.push(format!("name=\"{}\"", port.uuid()));
        words.push(format!("addresses=\"{}\"", port.address()));
        words.push(format!("port_security=\"{}\"", port.address()));
        words.push("enabled=true".to_owned());
        words.push(format!("options:requested-chassis=\"{}\"", port.host()));
        words.extend(
            port.external_ids().iter().map(|(key, value)| format!("external_ids:\"{key}\"=\"{value}\"")),
        );
        words.push("--".to_owned());
    }
    words.extend(["add".to_owned(), "Logical_Switch".to_owned(), switch.to_owned(), "ports".to_owned()]);
    words.extend(ports.map(|n| format!("@p{n}")));
    words
}
