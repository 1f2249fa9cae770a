//! The import of load balancers from an Octavia whose provider is OVN.
//!
//! The store has their networks, subnets and ports already, from `import neutron`. A load balancer is imported with all its parts or
//! not at all: its rows describe all of them, and a row without one part would change traffic. Rows keep their UUIDs, so that
//! connections through them go on.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod order;
mod read;
mod shape;

use std::sync::Arc;

use jiff::Timestamp;
use ovn::nb::{LoadBalancer, LoadBalancerHealthCheck};
use ovn::target::SnapshotView;
use ovsdb::Table;
use reconcile::Desire;

use self::order::MemberOrder;
use super::{Document, Takeover, adopt_rows, matching, snapshot_of};
use crate::desired::Decider;
use crate::settings::Settings;
use crate::world::{Change, Outside, Row, Txn, World};

/// Decides which objects of a document and which rows of the Northbound are imported. Without a Northbound, no row is adopted.
pub(super) fn prepare(
    document: &Document,
    world: &World,
    northbound: Option<&SnapshotView>,
    settings: &Settings,
    now: Timestamp,
) -> Takeover {
    let outside = Arc::new(Outside { settings: settings.clone(), ..Outside::default() });
    // Objects of an import have no random ids, except a missing port for probes. The revision of the world is the seed, which gives the
    // same ids in the same store.
    let mut txn = Txn::new(world.clone(), now, world.revision().seq, outside);
    let mut takeover = Takeover::default();
    let order = northbound.map(|view| MemberOrder::of(view.snapshot())).unwrap_or_default();
    read::balancers(document, &order, &mut txn, &mut takeover);
    read::quotas(document, &mut txn, &mut takeover);
    let (after, changes) = txn.finish();
    takeover.rows = changes.into_iter().filter_map(stored).collect();
    if let Some(view) = northbound {
        let mut before = Decider::default();
        before.desire(&snapshot_of(after.clone(), view, settings));
        let wanted = before.parts().map(|compiled| &compiled.part);
        let matched = matching::matched(wanted, view.snapshot(), is_balancers);
        adopt_rows(&mut takeover, after, matched, view, settings);
    }
    takeover
}

/// The tables whose rows Octavia's provider owns.
fn is_balancers(table: &str) -> bool {
    [LoadBalancer::TABLE, LoadBalancerHealthCheck::TABLE].contains(&table)
}

/// The row that a change stores. An import removes no rows.
fn stored(change: Change) -> Option<Row> {
    match change {
        Change::Put(row) => Some(row),
        Change::Remove(..) => None,
    }
}

#[cfg(test)]
mod tests;
