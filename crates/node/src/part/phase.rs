//! The order of changes across targets.
//!
//! Adding: what carries packets is complete before an address is announced. Removing: the announcement goes first. All that
//! is added comes before anything that is removed, so that what moves is never without a way. Between a withdrawal and what
//! follows from it the fabric may be given time to forget the address; that is no phase, as nothing else waits for it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The phases of a plan, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Tables get their names, VRFs are made.
    Device,
    /// Devices that stand on others are made, and all set up.
    SubDevice,
    /// Devices get addresses and switches.
    Base,
    /// Routes through devices.
    Route,
    /// Routes through those.
    Via,
    /// Neighbours and NDP proxies.
    Neighbour,
    /// Rules that lead to the routes.
    Rule,
    /// Flows that lead back.
    Flow,
    /// FRR's stanzas.
    Stanza,
    /// Addresses are announced.
    Announce,
    /// Prefixes are announced.
    AnnouncePrefix,
    /// Prefixes are withdrawn.
    WithdrawPrefix,
    /// Addresses are withdrawn.
    Withdraw,
    /// Rules go.
    DropRule,
    /// Flows go.
    DropFlow,
    /// Neighbours go.
    DropNeighbour,
    /// Routes with a next hop go.
    DropVia,
    /// Other routes go.
    DropRoute,
    /// NDP proxies go.
    DropProxy,
    /// Addresses of devices go.
    DropBase,
    /// Devices go.
    DropDevice,
}

impl Phase {
    /// Whether something is withdrawn.
    pub fn withdraws(self) -> bool {
        matches!(self, Phase::WithdrawPrefix | Phase::Withdraw)
    }

    /// Whether something goes that may have carried what was withdrawn.
    pub fn removes(self) -> bool {
        self >= Phase::DropRule
    }
}
