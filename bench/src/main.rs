//! Our side of `cargo xtask bench ovsdb`: a process of its own that holds a database and does as it is told.
//!
//! Started with REMOTE DATABASE SCHEMA-FILE (the last is for peers that need one), it prints a line when it holds the
//! whole database, then takes orders as lines of JSON on its standard input; `xtask/src/bench/peer.rs` describes them.

mod link;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use ovn::nb::{LogicalSwitch, LogicalSwitchPort};
use ovn::sb::{DatapathBinding, PortBinding};
use ovn::text::Text;
use ovsdb::model::Mutation;
use ovsdb::wire::atom::Atom;
use ovsdb::wire::datum::Datum;
use ovsdb::{Model, Ref, Set, Str, Table, Transaction, Uuid};
use serde::Deserialize;
use serde_json::json;

use self::link::Link;

/// The key of `external_ids` whose value tells one change from the next.
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
    fn row(&self) -> LogicalSwitchPort {
        let pairs = |map: &BTreeMap<Str, Str>| map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        LogicalSwitchPort {
            name: self.name.clone(),
            addresses: Set::from([Text::new(&self.address)]),
            port_security: Set::from([Text::new(&self.address)]),
            options: pairs(&self.options),
            external_ids: pairs(&self.external_ids),
            enabled: Some(true),
            ..LogicalSwitchPort::default()
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [remote, database, ..] = &arguments[..] else { bail!("usage: REMOTE DATABASE") };
    let model = match database.as_str() {
        PortBinding::DATABASE => {
            Model::new(PortBinding::DATABASE).table::<DatapathBinding>().table::<PortBinding>()
        }
        LogicalSwitch::DATABASE => {
            Model::new(LogicalSwitch::DATABASE).table::<LogicalSwitch>().table::<LogicalSwitchPort>()
        }
        other => bail!("no model of {other}"),
    };
    let southbound = database == PortBinding::DATABASE;
    let mut link = Link::open(remote, model)?;
    let snapshot = link.snapshot();
    let rows = if southbound {
        snapshot.table::<PortBinding>().len() + snapshot.table::<DatapathBinding>().len()
    } else {
        snapshot.table::<LogicalSwitchPort>().len() + snapshot.table::<LogicalSwitch>().len()
    };
    // A snapshot that is kept would make every change copy what it shares.
    drop(snapshot);
    say(&json!({ "loaded": rows, "note": "typed replica with the columns of crates/ovn" }))?;

    let mut seen: Vec<(usize, i64)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?).context("an order that is none")? {
            Order::Changes { count } => {
                seen = Vec::with_capacity(count);
                say(&json!({ "ready": true }))?;
                follow(&mut link, &mut seen, count)?;
                say(&json!({ "done": true }))?;
            }
            Order::Report => say(&json!({ "at": seen }))?,
            Order::Insert { switch, per_transaction, ports } => {
                let switch: Uuid = switch.parse().context("no UUID")?;
                while !link.snapshot().table::<LogicalSwitch>().contains(Ref::new(switch)) {
                    link.next_delta()?;
                }
                say(&json!({ "ready": true }))?;
                let begin = Instant::now();
                for batch in ports.chunks(per_transaction.max(1)) {
                    insert(&mut link, switch, batch)?;
                }
                say(&json!({ "seconds": begin.elapsed().as_secs_f64() }))?;
            }
        }
    }
    Ok(())
}

/// Notes when each change of a sequence key is seen, until so many were.
fn follow(link: &mut Link, seen: &mut Vec<(usize, i64)>, count: usize) -> Result<()> {
    link.follow(|delta| {
        for change in delta.table::<PortBinding>() {
            let value = change.after.as_ref().and_then(|row| row.external_ids.get(SEQUENCE_KEY));
            if let Some(sequence) = value.and_then(|value| value.parse().ok()) {
                seen.push((sequence, clock_gettime(ClockId::CLOCK_MONOTONIC)?.num_nanoseconds()));
            }
        }
        Ok(seen.len() < count)
    })
}

fn insert(link: &mut Link, switch: Uuid, ports: &[Port]) -> Result<()> {
    let mut transaction = Transaction::new();
    let mut members = Vec::with_capacity(ports.len());
    for port in ports {
        let uuid: Uuid = port.name.parse().context("the bench names ports by their UUID")?;
        transaction.insert(Ref::<LogicalSwitchPort>::new(uuid), &port.row());
        members.push(Atom::Uuid(uuid));
    }
    let mutation = Mutation { delete: Datum::default(), insert: Datum::set(members) };
    transaction.mutate(Ref::<LogicalSwitch>::new(switch), LogicalSwitch::PORTS, mutation);
    link.commit(&transaction)
}

fn say(line: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("nobody listens")
}
