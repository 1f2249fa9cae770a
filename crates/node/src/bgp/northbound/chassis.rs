//! The chassis of each port. Northbound rows name a chassis by its `system-id` or a host by its name; in the Southbound both are one row.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use ovn::ident::row_uuid;
use ovn::sb;
use ovsdb::{Str, Uuid, Weak};

/// The name for where a port is that is up, though nobody tells where.
const UNTOLD: &str = "that the port does not tell (it has neither requested-chassis nor neutron:host_id)";

/// This node's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// As a chassis.
    pub system_id: Str,
    /// As a host.
    pub hostname: Str,
}

impl Own {
    /// Our row.
    pub(super) fn row(&self) -> Uuid {
        row(&self.system_id)
    }

    pub(super) fn chassis(&self) -> sb::Chassis {
        sb::Chassis { name: self.system_id.clone(), hostname: self.hostname.clone(), ..Default::default() }
    }
}

fn row(name: &str) -> Uuid {
    row_uuid("Chassis", name, "")
}

/// The chassis that rows were met to name.
pub(super) struct Chassis<'a> {
    own: &'a Own,
    met: BTreeMap<Uuid, Option<sb::Chassis>>,
}

impl<'a> Chassis<'a> {
    pub(super) fn new(own: &'a Own) -> Self {
        Self { own, met: BTreeMap::new() }
    }

    /// The chassis of a name.
    pub(super) fn named(&mut self, name: &str) -> Weak<sb::Chassis> {
        let row = row(name);
        self.met.entry(row).or_insert_with(|| Some(sb::Chassis { name: name.into(), ..Default::default() }));
        Weak::new(row)
    }

    /// Whether the chassis of a name is this node.
    pub(super) fn is_us(&self, name: &str) -> bool {
        self.own.system_id == name
    }

    /// The chassis of a host; of none, one that nobody is.
    pub(super) fn of_host(&mut self, host: Option<&str>) -> Weak<sb::Chassis> {
        match host {
            Some(host) if host == self.own.hostname => self.named(&self.own.system_id),
            // OVN takes a chassis' name as well.
            Some(host) => self.named(host),
            None => self.named(UNTOLD),
        }
    }

    pub(super) fn met(self) -> BTreeMap<Uuid, Option<sb::Chassis>> {
        self.met
    }
}
