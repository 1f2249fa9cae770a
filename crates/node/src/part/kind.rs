//! The kinds of objects of a node's data plane, and their counts.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// A kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A device.
    Link,
    /// An address by which a device speaks ARP or NDP.
    Address,
    /// A switch of a device.
    Sysctl,
    /// A route in the table of a bridge.
    Route,
    /// A rule that leads to such a table.
    Rule,
    /// A permanent neighbour.
    Neighbour,
    /// An NDP proxy entry.
    Proxy,
    /// A port of Open vSwitch that stands for a VLAN.
    Port,
    /// A flow.
    Flow,
    /// FRR's stanzas.
    Stanza,
    /// An address or a prefix that is announced.
    Announcement,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Kind; 11] = [
        Kind::Link,
        Kind::Address,
        Kind::Sysctl,
        Kind::Route,
        Kind::Rule,
        Kind::Neighbour,
        Kind::Proxy,
        Kind::Port,
        Kind::Flow,
        Kind::Stanza,
        Kind::Announcement,
    ];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Link => "link",
            Kind::Address => "address",
            Kind::Sysctl => "sysctl",
            Kind::Route => "route",
            Kind::Rule => "rule",
            Kind::Neighbour => "neighbour",
            Kind::Proxy => "proxy",
            Kind::Port => "port",
            Kind::Flow => "flow",
            Kind::Stanza => "stanza",
            Kind::Announcement => "announcement",
        }
    }
}

/// The counts of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Wanted.
    pub want: usize,
    /// Wanted, and there.
    pub have: usize,
    /// Changes that are to be made.
    pub pending: usize,
}

/// The counts of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([Count; Kind::ALL.len()]);

impl Counts {
    /// The counts of one kind.
    pub fn of(&self, kind: Kind) -> Count {
        self.0[kind as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, kind: Kind) -> &mut Count {
        &mut self.0[kind as usize]
    }

    /// Adds others.
    pub fn absorb(&mut self, others: &Counts) {
        for (count, other) in self.0.iter_mut().zip(&others.0) {
            count.want += other.want;
            count.have += other.have;
            count.pending += other.pending;
        }
    }

    /// The number of desired objects of all kinds.
    pub fn want(&self) -> usize {
        self.0.iter().map(|count| count.want).sum()
    }

    /// The number of them that are in place.
    pub fn have(&self) -> usize {
        self.0.iter().map(|count| count.have).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        let mut counts = Counts::default();
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            counts.of_mut(kind).want = n;
        }
        assert!(Kind::ALL.into_iter().enumerate().all(|(n, kind)| counts.of(kind).want == n));
        let words: std::collections::BTreeSet<&str> = Kind::ALL.into_iter().map(Kind::as_str).collect();
        assert_eq!(words.len(), Kind::ALL.len());
    }
}
