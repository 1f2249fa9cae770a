//! The order of a pool's members, from the Northbound.
//!
//! OVN chooses a backend by its position in the list, so another order would move connections to other members. The API shows creation
//! times in whole seconds only, so members of one batch have the same time. The rows of Octavia's provider contain the order.

use std::collections::BTreeMap;

use ovn::nb::LoadBalancer;
use ovn::text::octavia::{Members, ObjectKey, ObjectKind};
use ovsdb::Snapshot;
use uuid::Uuid;

/// The position of each member in the list of its pool.
#[derive(Debug, Default)]
pub(super) struct MemberOrder(BTreeMap<Uuid, usize>);

impl MemberOrder {
    /// Reads the lists of all pools. If a list does not parse, the creation times decide.
    pub(super) fn of(northbound: &Snapshot) -> Self {
        let mut order = BTreeMap::new();
        for (_, row) in northbound.table::<LoadBalancer>().iter() {
            for (key, value) in row.external_ids.iter() {
                let is_pool = key.parse().is_ok_and(|key: ObjectKey| key.kind == ObjectKind::Pool);
                let members = is_pool.then(|| value.parse::<Members>().ok()).flatten().unwrap_or_default();
                order.extend(members.0.iter().enumerate().map(|(place, member)| (member.id, place)));
            }
        }
        MemberOrder(order)
    }

    /// The position of a member; members without a row come last.
    pub(super) fn place(&self, member: Uuid) -> usize {
        self.0.get(&member).copied().unwrap_or(usize::MAX)
    }
}
