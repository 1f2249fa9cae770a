//! The import of a cloud that Neutron and Octavia run: its objects, and the rows that they wrote in the Northbound.
//!
//! ```text
//!  source (HTTP) ──▶ Document ──read──▶ Objects ─┐
//!                                                ├──prepare──▶ Takeover ──store──▶ Store
//!                   Northbound ──learn, match────┘
//! ```
//!
//! Objects come from Neutron's own API, which returns all of them with their ids; this module does not read Neutron's SQL tables. The
//! Northbound adds data that the API does not return: the chassis of gateways (`learn`), and the row of each object (`matching`). To find
//! those rows, the import decides what we would write for the objects and searches for existing rows with the same meaning. These rows keep
//! their UUIDs, so that the first pass of the server changes rows instead of creating them again.
//!
//! Load balancers come from Octavia's API in a second step (`balancer`), into the store that has their networks by then.
//!
//! Reading and matching are pure. If an object cannot be imported, the report has a [`Remark`] about it; nothing is guessed.

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

/// A remark about one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// The noun: `port`, `router`.
    pub noun: &'static str,
    /// The id of the object.
    pub id: String,
    /// The remark.
    pub text: String,
}

impl Remark {
    fn new(noun: &'static str, id: impl ToString, text: impl Into<String>) -> Self {
        Remark { noun, id: id.to_string(), text: text.into() }
    }
}

/// A row of the Northbound that belongs to no imported object. The server does not touch it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Stranger {
    /// Its table.
    pub table: &'static str,
    /// The UUID of the row.
    pub uuid: Uuid,
    /// The name of the row, if any.
    pub name: String,
    /// Whether Neutron wrote it, for an object that its API does not return.
    pub neutron: bool,
}

/// The rows to store, and the consequences for the Northbound.
#[derive(Clone, Debug, Default)]
pub struct Takeover {
    rows: Vec<Row>,
    /// The objects that cannot be imported, each with the reason.
    pub left_out: Vec<Remark>,
    /// Notes for the operator that do not prevent the import.
    pub notes: Vec<String>,
    /// The consequences for the Northbound; none if the import did not read it.
    pub northbound: Option<Outlook>,
}

/// The effects of the server's first pass on the Northbound.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outlook {
    /// The numbers of adopted rows, by table.
    pub kept: BTreeMap<&'static str, usize>,
    /// The numbers of new rows, by table.
    pub made: BTreeMap<&'static str, usize>,
    /// The numbers of rows that are removed because others replace them, by table.
    pub removed: BTreeMap<&'static str, usize>,
    /// The rows that the server does not touch.
    pub strangers: Vec<Stranger>,
}

impl Takeover {
    /// The number of objects to store, by noun.
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

    /// Stores all rows in one transaction, in an empty store.
    pub async fn store(self, store: &Store) -> Result<(), Fault> {
        let rows = self.rows;
        let stored = store.execute(move |txn| {
            if !txn.is_empty() {
                let text = "The database has objects already; an import needs an empty one.";
                return Err(Fault::conflict("DatabaseInUse", text));
            }
            rows.iter().for_each(|row| txn.put_row(row.clone()));
            Ok(())
        });
        stored.await.map(drop)
    }
}

/// Codes of problems about strings that Neutron accepted. They are stored but not written into rows.
const UNWRITTEN: [&str; 5] = ["dhcp-option", "dns-name", "dns-domain", "host-name", "binding-profile"];

/// Reads a document and, if given, the Northbound. Returns the objects to import. `now` replaces a missing creation time.
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
/// One transaction of that store decides and stores, so that no change of the networks comes in between. A dry run stores nothing, and
/// neither does an import that would have to omit objects without permission.
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
    /// Whether to report what would be stored, and store nothing.
    pub dry_run: bool,
    /// Whether to continue without the objects that cannot be imported.
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

/// Computes the effects of the first pass, with the same decision and plan as the server.
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

/// A snapshot of a world for the server's decider, without any report of OVN.
fn snapshot_of(world: World, view: &SnapshotView, settings: &Settings) -> Snapshot {
    let report = Report::default();
    let sessions = Sessions::of(&world, &report, settings, &imbl::OrdSet::new());
    let (settings, ability) = (Arc::new(settings.clone()), Ability::of(view.schema()));
    Snapshot { world, report, settings, ability, sessions, ..Snapshot::default() }
}

#[cfg(test)]
mod tests;
