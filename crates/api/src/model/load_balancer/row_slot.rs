//! The Northbound rows of a load balancer.
//!
//! In OVN, protocol, hash and affinity belong to a row; in the API they belong to a pool. So a load balancer has one row for each
//! combination that its pools use. Connections depend on a row's UUID, so a row in use must never get another one.

use serde::{Deserialize, Serialize};

use super::LbProtocol;
use crate::model::{Algorithm, Listener, Pool};

/// The properties that all pools of one row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RowGroup {
    /// The protocol; none if there is neither a listener nor a pool.
    pub protocol: Option<LbProtocol>,
    /// The algorithm that chooses backends.
    pub algorithm: Algorithm,
    /// The seconds for which a client stays with its backend.
    pub affinity: Option<u16>,
}

/// One row: its number, which determines its UUID, and its pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSlot {
    /// Unique in the load balancer. Row 0 has the UUID of the load balancer.
    pub number: u32,
    /// The common properties of its pools.
    pub group: RowGroup,
}

impl RowGroup {
    /// The group of a load balancer without listeners and pools.
    pub const BLANK: RowGroup =
        RowGroup { protocol: None, algorithm: Algorithm::SourceIpPort, affinity: None };

    /// The group of a pool.
    pub fn of(pool: &Pool) -> Self {
        let affinity = pool.persistence.as_ref().map(|persistence| persistence.affinity());
        RowGroup { protocol: Some(pool.protocol), algorithm: pool.algorithm, affinity }
    }

    /// The groups that a load balancer needs, without duplicates: those of its pools, and one for each protocol that has listeners but no
    /// pool.
    pub fn needed<'a>(
        pools: impl IntoIterator<Item = &'a Pool>,
        listeners: impl IntoIterator<Item = &'a Listener>,
    ) -> Vec<RowGroup> {
        let mut groups: Vec<RowGroup> = Vec::new();
        for group in pools.into_iter().map(RowGroup::of) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        for listener in listeners.into_iter().filter(|listener| listener.default_pool_id.is_none()) {
            let protocol = Some(listener.protocol);
            if !groups.iter().any(|group| group.protocol == protocol) {
                groups.push(RowGroup { protocol, ..RowGroup::BLANK });
            }
        }
        groups
    }
}

impl RowSlot {
    /// The first row of a new load balancer.
    pub const FIRST: RowSlot = RowSlot { number: 0, group: RowGroup::BLANK };

    /// Assigns a row to each needed group. A group with a row keeps it. A new group takes over the row of a removed group, or else the
    /// lowest free number. If no group is needed, the last row stays, blank.
    pub fn assign(rows: &[RowSlot], needed: &[RowGroup]) -> Vec<RowSlot> {
        let mut slots: Vec<RowSlot> =
            rows.iter().copied().filter(|row| needed.contains(&row.group)).collect();
        let mut freed: Vec<u32> =
            rows.iter().filter(|row| !needed.contains(&row.group)).map(|row| row.number).collect();
        freed.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        for group in needed.iter().filter(|group| !rows.iter().any(|row| row.group == **group)) {
            let taken = |number: u32| slots.iter().any(|slot: &RowSlot| slot.number == number);
            let number = freed.pop().or_else(|| (0..).find(|number| !taken(*number)));
            slots.push(RowSlot { number: number.unwrap_or(u32::MAX), group: *group });
        }
        if slots.is_empty() {
            slots.push(RowSlot { number: freed.pop().unwrap_or(0), group: RowGroup::BLANK });
        }
        slots.sort_unstable_by_key(|slot| slot.number);
        slots
    }

    /// The row among `rows` that contains a listener: that of its pool, or else the first of its protocol.
    pub fn of_listener<'r>(
        rows: &'r [RowSlot],
        listener: &Listener,
        default_pool: Option<&Pool>,
    ) -> Option<&'r RowSlot> {
        match default_pool {
            Some(pool) => Self::of_pool(rows, pool),
            None => rows.iter().find(|row| row.group.protocol == Some(listener.protocol)),
        }
    }

    /// The row among `rows` that contains a pool.
    pub fn of_pool<'r>(rows: &'r [RowSlot], pool: &Pool) -> Option<&'r RowSlot> {
        let group = RowGroup::of(pool);
        rows.iter().find(|row| row.group == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: RowGroup = RowGroup { protocol: Some(LbProtocol::Tcp), ..RowGroup::BLANK };
    const UDP: RowGroup = RowGroup { protocol: Some(LbProtocol::Udp), ..RowGroup::BLANK };
    const HASHED: RowGroup = RowGroup { algorithm: Algorithm::SourceIp, ..TCP };

    #[test]
    fn a_row_in_use_keeps_its_number() {
        let slot = |number, group| RowSlot { number, group };
        for (rows, needed, expected) in [
            // The first pool takes the first row, which stays when the pool is removed.
            (vec![RowSlot::FIRST], vec![TCP], vec![slot(0, TCP)]),
            (vec![slot(0, TCP)], vec![], vec![RowSlot::FIRST]),
            // A second group gets a second row; the first one stays the same.
            (vec![slot(0, TCP)], vec![UDP, TCP], vec![slot(0, TCP), slot(1, UDP)]),
            // The first group is removed, the second keeps its row, and the next new one fills the gap.
            (vec![slot(0, TCP), slot(1, UDP)], vec![UDP], vec![slot(1, UDP)]),
            (vec![slot(1, UDP)], vec![UDP, TCP], vec![slot(0, TCP), slot(1, UDP)]),
            (vec![slot(1, UDP)], vec![], vec![slot(1, RowGroup::BLANK)]),
            // A pool with a changed hash keeps its row.
            (vec![slot(1, TCP)], vec![HASHED], vec![slot(1, HASHED)]),
            (vec![slot(0, UDP), slot(2, TCP)], vec![UDP, HASHED], vec![slot(0, UDP), slot(2, HASHED)]),
        ] {
            assert_eq!(RowSlot::assign(&rows, &needed), expected, "{rows:?} {needed:?}");
        }
    }
}
