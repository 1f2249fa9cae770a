//! The cost of planning a Northbound with a given number of ports, two hundred per switch: all of them new, nothing to do, one port
//! changed, all of them deleted. It needs no server, because a plan is made from rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use ovn::nb::{LogicalSwitch, LogicalSwitchPort};
use ovn::target::{Desired, Op, Ownership, RowId, Rules, SnapshotView, Tables, plan};
use ovn::text::Text;
use ovsdb::replica::{Replica, UpdateVersion};
use ovsdb::wire::Atom;
use ovsdb::wire::DatabaseSchema;
use ovsdb::wire::Datum;
use ovsdb::{Ref, Set, Uuid};
use reconcile::{ObjectId, Plan};
use serde_json::{Value, json};

const PORTS_PER_SWITCH: usize = 200;

/// Measures the seconds of CPU for each kind of plan.
pub(crate) fn measure(schema: &str, ports: usize) -> Result<Value> {
    let text = std::fs::read_to_string(schema).with_context(|| format!("cannot read {schema}"))?;
    let schema = Arc::new(DatabaseSchema::parse(&text)?);
    let tables = Arc::new(Tables::northbound());
    let mut replica = Replica::new(tables.model(None));
    replica.fit(&schema).map_err(|misfits| anyhow::anyhow!("the schema does not fit: {misfits:?}"))?;
    let (ownership, rules, keep) = (Ownership::new("bench"), Rules::northbound(), BTreeSet::new());
    let timed = |replica: &Replica, want: &Desired| -> Result<(Plan<Op>, f64)> {
        let view = SnapshotView::new(replica.snapshot(), schema.clone(), tables.clone());
        let before = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
        let plan = plan(want, &keep, &view, &ownership, &rules);
        let spent = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)? - before;
        Ok((plan, spent.num_nanoseconds() as f64 / 1e9))
    };
    replica.reload(UpdateVersion::V2, "{}")?;
    let mut want = desired(ports, None);
    let (all, new) = timed(&replica, &want)?;
    replica.reload(UpdateVersion::V2, &content(&all)?)?;
    let (none, same) = timed(&replica, &want)?;
    ensure!(none.is_empty(), "a second plan has {} steps", none.steps.len());
    want = desired(ports, Some(ports / 2));
    let (one, changed) = timed(&replica, &want)?;
    ensure!(one.steps.len() == 1, "one changed row is {} steps", one.steps.len());
    let (rest, gone) = timed(&replica, &Desired::new())?;
    ensure!(rest.steps.len() >= ports, "{} steps delete {ports} ports", rest.steps.len());
    Ok(json!({ "new": new, "same": same, "one": changed, "gone": gone }))
}

fn id(kind: u64, n: usize) -> Uuid {
    Uuid::from_u64_pair((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), kind << 56 | n as u64)
}

/// Switches with their ports. The port `changed` has another address than in the other plans.
fn desired(ports: usize, changed: Option<usize>) -> Desired {
    let mut want = Desired::new();
    for first in (0..ports).step_by(PORTS_PER_SWITCH) {
        let members = first..(first + PORTS_PER_SWITCH).min(ports);
        let switch = id(1, first / PORTS_PER_SWITCH);
        let row = LogicalSwitch {
            name: format!("neutron-{switch}").into(),
            ports: members.clone().map(|n| Ref::new(id(2, n))).collect(),
            ..LogicalSwitch::default()
        };
        want.own(ObjectId::new("network", switch.to_string()), switch, row);
        for n in members {
            let port = id(2, n);
            let last = n % PORTS_PER_SWITCH + if changed == Some(n) { 1 } else { 0 };
            let address =
                format!("fa:16:3e:{:02x}:{:02x}:{:02x} 10.0.0.{last}", n >> 16 & 255, n >> 8 & 255, n & 255);
            let row = LogicalSwitchPort {
                name: port.to_string().into(),
                addresses: Set::from([Text::new(&address)]),
                enabled: Some(true),
                external_ids: [("neutron:device_id".into(), id(3, n).to_string().into())].into(),
                ..LogicalSwitchPort::default()
            };
            want.own(ObjectId::new("port", port.to_string()), port, row);
        }
    }
    want
}

/// The database after a plan that only inserts rows, in the form of a server's dump.
fn content(plan: &Plan<Op>) -> Result<String> {
    let mut rows: BTreeMap<RowId, BTreeMap<&str, Datum>> = BTreeMap::new();
    let mut members: BTreeMap<(RowId, &str), Vec<Atom>> = BTreeMap::new();
    for step in &plan.steps {
        match &step.op {
            Op::Insert { row, values } => drop(rows.insert(*row, values.iter().cloned().collect())),
            Op::Put { row, column, elements: Datum::Set(atoms) } => {
                members.entry((*row, column)).or_default().extend(atoms.iter().cloned());
            }
            other => anyhow::bail!("a new database needs no {other:?}"),
        }
    }
    for ((row, column), atoms) in members {
        rows.entry(row).or_default().insert(column, Datum::set(atoms));
    }
    let mut text = String::from("{");
    let mut table = "";
    for (id, values) in rows {
        if id.table == table {
            text.push(',');
        } else {
            let close = if table.is_empty() { "" } else { "}," };
            write!(text, r#"{close}"{}":{{"#, id.table)?;
            table = id.table;
        }
        write!(text, r#""{}":{{"initial":{}}}"#, id.uuid, serde_json::to_string(&values)?)?;
    }
    text.push_str(if table.is_empty() { "}" } else { "}}" });
    Ok(text)
}
