//! What was announced before this process began, and is wanted by nothing that could be read since.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use imbl::OrdSet;

/// Which announcements are not to be withdrawn though nobody wants them: they may be of what cannot be read. Of a prefix it is the
/// first address that stands for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unclaimed {
    /// What may be of it; nothing where that cannot be told, and so all.
    pub may: Option<OrdSet<IpAddr>>,
    /// What was wanted since the beginning, and so is not unclaimed whatever becomes of it.
    pub known: OrdSet<IpAddr>,
}

impl Unclaimed {
    /// Whether an announcement has to stay.
    pub fn has(&self, ip: IpAddr) -> bool {
        !self.known.contains(&ip) && self.may.as_ref().is_none_or(|may| may.contains(&ip))
    }
}
