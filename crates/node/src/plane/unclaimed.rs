//! Announcements from before the start of this process that no row has which could be parsed since.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use imbl::OrdSet;

/// Announcements that stay although no row has them, because they may belong to rows that do not parse. A prefix is represented by its
/// first address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnclaimedAnnouncements {
    /// The addresses that may belong to such rows; `None` if that is unknown, so that all may.
    pub may: Option<OrdSet<IpAddr>>,
    /// The addresses that a row had since the start, so that they never count as unclaimed.
    pub known: OrdSet<IpAddr>,
}

impl UnclaimedAnnouncements {
    /// Whether an announcement has to stay.
    pub fn has(&self, ip: IpAddr) -> bool {
        !self.known.contains(&ip) && self.may.as_ref().is_none_or(|may| may.contains(&ip))
    }
}
