//! What the world and the store have to know of a noun, written beside its model.

use std::net::IpAddr;

use smol_str::SmolStr;
use uuid::Uuid;

use super::{Kind, Link};
use crate::store::SqlValue;

/// How objects of a noun are found, counted and stored. Everything but the JSON in which an object is kept follows from here.
pub trait Record {
    /// Where it can be found from.
    fn links(&self, _note: &mut dyn FnMut(Link, Uuid)) {}
    /// The addresses it takes: subnet, address, port.
    fn addresses(&self, _note: &mut dyn FnMut(Uuid, IpAddr, Uuid)) {}
    /// The gateway load it is: physical network, chassis, rank from 0 for the highest priority.
    fn loads(&self, _note: &mut dyn FnMut(&str, &str, u8)) {}
    /// The project whose quota it counts in.
    fn counted_in(&self) -> Option<&str> {
        None
    }
    /// The SQL columns beside `id` and `body`: what the database checks on its own.
    fn columns(&self) -> Vec<(&'static str, SqlValue)> {
        Vec::new()
    }
}

/// The links of an object with an owner and a name.
pub fn link_by_name(kind: Kind, (id, project, name): (Uuid, &str, &str), note: &mut dyn FnMut(Link, Uuid)) {
    note(Link::OwnedBy(kind, project.into()), id);
    note(Link::Named(kind, SmolStr::new(name)), id);
}

/// The owner, unless the object belongs to nobody and uses up nobody's quota.
pub fn quota_owner(project: &str) -> Option<&str> {
    (!project.is_empty()).then_some(project)
}
