//! Meridian's side of `cargo xtask bench ovsdb`: a separate process that holds a database and follows commands.
//!
//! Its arguments are REMOTE DATABASE SCHEMA-FILE (the last one is for peers that need it). It prints a line when it holds the whole
//! database, then reads commands as lines of JSON from its standard input; `xtask/src/bench/peer.rs` describes them. With `--floor` in
//! front it runs the lower bound of any client instead; see `floor`. With `--plan SCHEMA-FILE ROWS` it measures planning, without a server;
//! see `plan`.

mod floor;
mod link;
mod plan;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use ovn::nb::{LogicalSwitch, LogicalSwitchPort};
use ovn::sb::{DatapathBinding, PortBinding};
use ovn::text::Text;
use ovsdb::{Model, Ref, Set, Str, Table, Transaction, Uuid};
use serde::Deserialize;
use serde_json::json;

use self::floor::Floor;
use self::link::Link;

/// The key of `external_ids` whose value numbers the changes.
const SEQUENCE_KEY: &str = "bench_seq";

/// An order.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Order {
    Changes { count: usize },
    Report,
    Insert { switch: Str, per_transaction: usize, ports: Vec<Port> },
}

/// A port to insert.
#[derive(Deserialize)]
struct Port {
    name: Str,
    address: String,
    options: BTreeMap<Str, Str>,
    external_ids: BTreeMap<Str, Str>,
}

impl Port {
    fn row(self) -> Result<(Uuid, LogicalSwitchPort)> {
        let uuid = self.name.parse().context("the bench names ports by their UUID")?;
        let row = LogicalSwitchPort {
            name: self.name,
            addresses: Set::from([Text::new(&self.address)]),
            port_security: Set::from([Text::new(&self.address)]),
            options: self.options.into_iter().collect(),
            external_ids: self.external_ids.into_iter().collect(),
            enabled: Some(true),
            ..LogicalSwitchPort::default()
        };
        Ok((uuid, row))
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (remote, database) = match words[..] {
        ["--floor", remote, database, ..] => return floor(remote, database),
        ["--plan", schema, ports] => return say(&plan::measure(schema, ports.parse()?)?),
        [remote, database, ..] => (remote, database),
        _ => bail!("usage: [--floor] REMOTE DATABASE | --plan SCHEMA-FILE ROWS"),
    };
    let model = match database {
        PortBinding::DATABASE => {
            Model::new(PortBinding::DATABASE).table::<DatapathBinding>().table::<PortBinding>()
        }
        LogicalSwitch::DATABASE => {
            Model::new(LogicalSwitch::DATABASE).table::<LogicalSwitch>().table::<LogicalSwitchPort>()
        }
        other => bail!("no model of {other}"),
    };
    let southbound = database == PortBinding::DATABASE;
    // Everything runs as tasks on one thread, so a change costs one wake-up of the process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut link = runtime.block_on(runtime.spawn(Link::open(remote.parse()?, model)))??;
    let snapshot = link.snapshot();
    let rows = if southbound {
        snapshot.table::<PortBinding>().len() + snapshot.table::<DatapathBinding>().len()
    } else {
        snapshot.table::<LogicalSwitchPort>().len() + snapshot.table::<LogicalSwitch>().len()
    };
    // A retained snapshot would make every change copy the shared parts.
    drop(snapshot);
    say(&json!({ "loaded": rows, "note": "typed replica with the columns of crates/ovn" }))?;

    let mut seen: Vec<(usize, i64)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?).context("an order that is none")? {
            Order::Changes { count } => {
                say(&json!({ "ready": true }))?;
                (link, seen) = runtime.block_on(runtime.spawn(follow(link, count)))??;
                say(&json!({ "done": true }))?;
            }
            Order::Report => say(&json!({ "at": seen }))?,
            Order::Insert { switch, per_transaction, ports } => {
                let switch: Uuid = switch.parse().context("no UUID")?;
                let ports = ports.into_iter().map(Port::row).collect::<Result<_>>()?;
                link = runtime.block_on(runtime.spawn(insert(link, switch, per_transaction, ports)))??;
            }
        }
    }
    Ok(())
}

/// Reads commands to follow changes without a client.
fn floor(remote: &str, database: &str) -> Result<()> {
    let mut floor = Floor::open(remote, database)?;
    say(&json!({ "loaded": 0, "note": "epoll_wait and read, nothing decoded" }))?;
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?).context("an order that is none")? {
            Order::Changes { count } => {
                say(&json!({ "ready": true }))?;
                floor.changes(count)?;
                say(&json!({ "done": true }))?;
            }
            Order::Report => say(&json!({ "at": [] }))?,
            Order::Insert { .. } => bail!("nothing is inserted here"),
        }
    }
    Ok(())
}

/// Records when each change of a sequence key arrives, for this number of changes.
async fn follow(mut link: Link, count: usize) -> Result<(Link, Vec<(usize, i64)>)> {
    let mut seen = Vec::with_capacity(count);
    link.follow(|delta| {
        for change in delta.table::<PortBinding>() {
            let value = change.after.as_ref().and_then(|row| row.external_ids.get(SEQUENCE_KEY));
            if let Some(sequence) = value.and_then(|value| value.parse().ok()) {
                seen.push((sequence, clock_gettime(ClockId::CLOCK_MONOTONIC)?.num_nanoseconds()));
            }
        }
        Ok(seen.len() < count)
    })
    .await?;
    Ok((link, seen))
}

/// Inserts the ports once their switch exists, and reports how long it took.
async fn insert(
    mut link: Link,
    switch: Uuid,
    per_transaction: usize,
    ports: Vec<(Uuid, LogicalSwitchPort)>,
) -> Result<Link> {
    while !link.snapshot().table::<LogicalSwitch>().contains(Ref::new(switch)) {
        link.next_delta().await?;
    }
    say(&json!({ "ready": true }))?;
    let begin = Instant::now();
    for batch in ports.chunks(per_transaction.max(1)) {
        link.commit(&transaction(switch, batch)).await?;
    }
    say(&json!({ "seconds": begin.elapsed().as_secs_f64() }))?;
    Ok(link)
}

fn transaction(switch: Uuid, ports: &[(Uuid, LogicalSwitchPort)]) -> Transaction {
    let mut transaction = Transaction::new();
    for (uuid, row) in ports {
        transaction.insert(*uuid, row);
    }
    let members = ports.iter().map(|(uuid, _)| Ref::new(*uuid)).collect();
    transaction.put(Ref::<LogicalSwitch>::new(switch), LogicalSwitch::PORTS, &members);
    transaction
}

fn say(line: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("nobody listens")
}
