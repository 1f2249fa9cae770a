//! The indexes, tallies and SQL columns of a noun, declared beside its model.

use std::net::IpAddr;

use smol_str::SmolStr;
use uuid::Uuid;

use super::{Kind, Link};
use crate::store::SqlValue;

/// Declares how the world finds and counts objects of a noun, and how the store keeps them besides their JSON.
pub trait Record {
    /// Calls `_note` for each link that leads to an object, with its id.
    fn links(&self, _note: &mut dyn FnMut(Link, Uuid)) {}
    /// The addresses that the object uses: subnet, address, port.
    fn addresses(&self, _note: &mut dyn FnMut(Uuid, IpAddr, Uuid)) {}
    /// The gateway load that the object adds: physical network, chassis, rank (0 has the highest priority).
    fn loads(&self, _note: &mut dyn FnMut(&str, &str, u8)) {}
    /// The project whose quota the object counts in.
    fn counted_in(&self) -> Option<&str> {
        None
    }
    /// The SQL columns besides `id` and `body`, which the database checks on its own.
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        Vec::new()
    }
}

/// The links of an object by its project and its name.
pub fn link_by_name(kind: Kind, (id, project, name): (Uuid, &str, &str), note: &mut dyn FnMut(Link, Uuid)) {
    note(Link::OwnedBy(kind, project.into()), id);
    note(Link::Named(kind, SmolStr::new(name)), id);
}

/// The project, unless the object belongs to none and so counts in no quota.
pub fn quota_owner(project: &str) -> Option<&str> {
    (!project.is_empty()).then_some(project)
}
