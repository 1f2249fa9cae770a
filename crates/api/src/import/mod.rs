//! The import of a cloud that Neutron and Octavia run: its objects, and the rows that they wrote in the Northbound.
//!
//! ```text
//!  source (HTTP) ──▶ Document ──read──▶ Objects ─┐
//!                                                ├──prepare──▶ Takeover ──store──▶ Store
//!                   Northbound ──learn, match────┘
//! ```
//!
//! Objects come from Neutron's own API, which has all of them with their ids; nothing here knows Neutron's tables in SQL. The
//! Northbound adds what the API does not tell: where gateways are (`learn`), and which row stands for which object. The
//! latter is found by deciding what we would write for these objects and looking for rows that mean the same (`matching`):
//! those keep their UUIDs, so that the first pass of the server changes rows instead of making them anew.
//!
//! Load balancers come from Octavia's API in a second step (`balancer`), into the store that has their networks by then.
//!
//! Reading and matching are pure. What cannot be taken over is told object by object ([`Remark`]), never guessed.

mod balancer;
mod document;
mod learn;
mod matching;
mod read;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use ovn::target::{Op, Rules, SnapshotView, View, plan};
use reconcile::Desire;
use serde::Serialize;
use uuid::Uuid;

use crate::desired::{Decider, ownership};
use crate::fault::Fault;
use crate::model::{Adopted, Placement, PlugNotice};
use crate::report::Report;
use crate::settings::Settings;
use crate::snapshot::sessions::Sessions;
use crate::snapshot::{Ability, Snapshot};
use crate::store::Store;
use crate::world::{Change, Entity, Revision, Row, Txn, World};

pub use document::{Document, DocumentError};
pub use source::{Credentials, Source, SourceError};

/// One object and what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// Which noun: `port`, `router`.
    pub noun: &'static str,
    /// Which one.
    pub id: String,
    /// What about it.
    pub text: String,
}

impl Remark {
    fn new(noun: &'static str, id: impl ToString, text: impl Into<String>) -> Self {
        Remark { noun, id: id.to_string(), text: text.into() }
    }
}

/// A row of the Northbound that stands for no object that is taken over. It is left alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Stranger {
    /// Its table.
    pub table: &'static str,
    /// Which one.
    pub uuid: Uuid,
    /// What it is called, if anything.
    pub name: String,
    /// Whether Neutron wrote it, for an object that the API does not show.
    pub neutron: bool,
}

/// What would be stored, and what it means for the Northbound.
#[derive(Clone, Debug, Default)]
pub struct Takeover {
    rows: Vec<Row>,
    /// Objects that cannot be taken over, each with the reason.
    pub left_out: Vec<Remark>,
    /// What an operator should know, though nothing is in the way.
    pub notes: Vec<String>,
    /// What becomes of the Northbound; none if it was not looked at.
    pub northbound: Option<Outlook>,
}

/// What the first pass of the server does to the Northbound.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outlook {
    /// Rows that are taken over with their UUIDs, by table.
    pub kept: BTreeMap<&'static str, usize>,
    /// Rows that are made, by table.
    pub made: BTreeMap<&'static str, usize>,
    /// Rows that go because others take their place, by table.
    pub removed: BTreeMap<&'static str, usize>,
    /// Rows that are left alone.
    pub strangers: Vec<Stranger>,
}

impl Takeover {
    /// How many objects of each noun would be stored.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for row in &self.rows {
            *counts.entry(row.kind().table()).or_insert(0) += 1;
        }
        counts
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Stores all of it in one transaction, in a store that has nothing yet.
    pub async fn store(self, store: &Store) -> Result<(), Fault> {
        let rows = self.rows;
        let stored = store.execute(move |txn| {
            if !txn.is_empty() {
                let text = "The database has objects already. A cloud is taken over into an empty one.";
                return Err(Fault::conflict("DatabaseInUse", text));
            }
            rows.iter().for_each(|row| txn.put_row(row.clone()));
            Ok(())
        });
        stored.await.map(drop)
    }
}

/// Codes of problems with texts that Neutron took, and that are stored and not written into rows.
const UNWRITTEN: [&str; 5] = ["dhcp-option", "dns-name", "dns-domain", "host-name", "binding-profile"];

/// Reads a document and, if it is given, the Northbound; says what is taken over. `now` stands where an object does not tell
/// when it was made.
pub fn prepare(
    document: &Document,
    northbound: Option<&SnapshotView>,
    settings: &Settings,
    now: SystemTime,
) -> Takeover {
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut objects = read::objects(document, now);
    let mut takeover = Takeover {
        left_out: std::mem::take(&mut objects.left_out),
        notes: std::mem::take(&mut objects.notes),
        ..Takeover::default()
    };
    let (mut placements, mut notices) = (Vec::new(), Vec::new());
    if let Some(view) = northbound {
        learn::identities(&mut objects, view.snapshot(), settings);
        placements = learn::placements(&objects, view.snapshot());
        notices = learn::plug_notices(&objects, view.snapshot());
        takeover.notes.extend(learn::notes(view.snapshot(), settings));
    } else {
        learn::invent(&mut objects, settings);
    }
    takeover.rows = objects.rows();
    takeover.rows.extend(placements.into_iter().map(|it| Placement::row(Arc::new(it))));
    takeover.rows.extend(notices.into_iter().map(|it| PlugNotice::row(Arc::new(it))));
    if let Some(view) = northbound {
        let mut before = Decider::default();
        let world = world_of(&takeover.rows);
        let problems = before.desire(&snapshot_of(world.clone(), view, settings)).problems;
        let unwritten = problems.iter().filter(|problem| UNWRITTEN.contains(&problem.code.as_str()));
        takeover.notes.extend(unwritten.map(|problem| format!("{}: {}.", problem.object, problem.message)));
        let wanted = before.parts().map(|compiled| &compiled.part);
        let matched = matching::matched(wanted.clone(), view.snapshot(), |_| true);
        takeover.notes.extend(learn::dhcp_notes(wanted, &matched.found, view.snapshot()));
        adopt_rows(&mut takeover, world, matched, view, settings);
    }
    takeover
}

/// Imports the quotas, load balancers and parts of an Octavia into a store that has the networks already.
///
/// One transaction of that store decides and stores, so that no change of the networks comes between. A dry run stores nothing, and
/// neither does an import that would leave objects out without permission.
pub async fn take_over_balancers(
    store: &Store,
    document: Document,
    northbound: Option<SnapshotView>,
    settings: Settings,
    options: ImportOptions,
) -> Result<Takeover, Fault> {
    let run = move |txn: &mut Txn| {
        let world = World::clone(txn);
        let takeover = balancer::prepare(&document, &world, northbound.as_ref(), &settings, txn.now());
        let is_complete = takeover.left_out.is_empty() || options.leave_out;
        if is_complete && !options.dry_run {
            takeover.rows.iter().for_each(|row| txn.put_row(row.clone()));
        }
        Ok(takeover)
    };
    Ok(store.execute(run).await?.value)
}

/// Options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Report what would be stored, and store nothing.
    pub dry_run: bool,
    /// Go on without the objects that cannot be taken over.
    pub leave_out: bool,
}

/// Adds the matched rows to a world and its store, and computes the consequences for the Northbound.
fn adopt_rows(
    takeover: &mut Takeover,
    mut world: World,
    matched: matching::Matched,
    view: &SnapshotView,
    settings: &Settings,
) {
    let adopted: Vec<Row> = matched.adopted.into_iter().map(|it| Adopted::row(Arc::new(it))).collect();
    let changes: Vec<Change> = adopted.iter().cloned().map(Change::Put).collect();
    let revision = world.revision();
    world.advance(revision, &changes);
    takeover.rows.extend(adopted);
    takeover.northbound = Some(outlook(world, view, settings, matched.kept, matched.strangers));
}

/// What the first pass would do: the same decision and the same plan as the server's.
fn outlook(
    world: World,
    view: &SnapshotView,
    settings: &Settings,
    kept: BTreeMap<&'static str, usize>,
    strangers: Vec<Stranger>,
) -> Outlook {
    let wanted = Decider::default().desire(&snapshot_of(world, view, settings)).value;
    let plan =
        plan(&wanted.rows, &Default::default(), view, &ownership(&settings.owner), &Rules::northbound());
    let mut outlook = Outlook { kept, strangers, ..Outlook::default() };
    for step in plan.steps {
        let counts = match &step.op {
            Op::Insert { .. } => &mut outlook.made,
            Op::Delete(_) => &mut outlook.removed,
            _ => continue,
        };
        *counts.entry(step.op.row().table).or_insert(0) += 1;
    }
    outlook
}

fn world_of(rows: &[Row]) -> World {
    let mut world = World::default();
    let changes: Vec<Change> = rows.iter().cloned().map(Change::Put).collect();
    world.advance(Revision::default(), &changes);
    world
}

/// A world as the server's decider sees it, before OVN reports anything.
fn snapshot_of(world: World, view: &SnapshotView, settings: &Settings) -> Snapshot {
    let report = Report::default();
    let sessions = Sessions::of(&world, &report, settings, &imbl::OrdSet::new());
    let (settings, ability) = (Arc::new(settings.clone()), Ability::of(view.schema()));
    Snapshot { world, report, settings, ability, sessions, ..Snapshot::default() }
}

#[cfg(test)]
mod tests;
