//! The Southbound rows of remote nodes.
//!
//! A remote port needs the chassis of its node with `is-remote`. Without it, northd makes a port of this zone, and reports nothing.
//! Beside ovn-kubernetes the rows may exist already: names of chassis and addresses of tunnels are unique in the Southbound, so a
//! second row would be refused for ever. A remote chassis of another program serves as well as one of ours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ovn::ident::{marked_uuid, row_uuid};
use ovn::sb::{Chassis, Encap, EncapType};
use ovn::target::{Part, Row};
use ovn::text::Text;
use ovn::text::neutron::key::OWNER;
use ovsdb::{Ref, Snapshot, Uuid};
use reconcile::{Class, ObjectId, Outcome, Problem};

use super::map;
use crate::zone::{ZoneNode, ZoneSnapshot};

/// The kind of object that a chassis is in reports.
const KIND: &str = "chassis";

/// The chassis in the Southbound, by the program that wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChassisSeen {
    /// The remote chassis of all programs. A remote port without its chassis would become a local one.
    pub remote: BTreeSet<String>,
    /// The chassis of other programs by name, and whether each is marked as remote.
    pub foreign: BTreeMap<String, bool>,
    /// The addresses of their tunnels, and the chassis of each.
    pub foreign_ends: BTreeMap<IpAddr, String>,
    /// Our chassis by the name of the node.
    pub own: BTreeMap<String, String>,
}

impl ChassisSeen {
    /// The chassis of a Southbound, with the name that marks our own.
    pub fn read(southbound: &Snapshot, owner: &str) -> ChassisSeen {
        let mut seen = ChassisSeen::default();
        for (_, row) in southbound.table::<Chassis>().iter() {
            let name = row.name.to_string();
            let is_own = row.external_ids.get(OWNER).is_some_and(|it| it == owner);
            if row.is_remote() {
                seen.remote.insert(name.clone());
            }
            if is_own {
                seen.own.insert(row.hostname.to_string(), name);
                continue;
            }
            seen.foreign.insert(name.clone(), row.is_remote());
            let ends = row.encaps.iter().filter_map(|end| southbound.get::<Encap>(end.uuid()));
            seen.foreign_ends.extend(ends.filter_map(|end| Some((end.ip.value().copied()?, name.clone()))));
        }
        seen
    }
}

/// The object of a row of ours in `Chassis` or `Encap`. Both name the chassis, so that a chassis and its tunnel ends go together:
/// the server refuses to leave a chassis without an end.
pub fn name_chassis(_: Uuid, row: &dyn Row) -> Option<ObjectId> {
    let row = row.as_any();
    let chassis = row.downcast_ref::<Chassis>().map(|row| &row.name);
    let chassis = chassis.or_else(|| row.downcast_ref::<Encap>().map(|row| &row.chassis_name));
    chassis.map(|name| ObjectId::new(KIND, name.as_str()))
}

/// The chassis of all remote nodes that no other program has written, one part each.
pub fn compile_chassis(
    snapshot: &ZoneSnapshot,
    seen: &ChassisSeen,
    owner: &str,
) -> Outcome<BTreeMap<String, Part>> {
    let mut out = Outcome::new(BTreeMap::new());
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut ends: BTreeMap<IpAddr, &str> = BTreeMap::new();
    let local = snapshot.nodes.get(&snapshot.local).map(|node| node.chassis.as_str());
    for (name, node) in snapshot.nodes.iter().filter(|(name, _)| **name != snapshot.local) {
        let chassis = node.chassis.as_str();
        let mut report = |code: &'static str, message: String| {
            let object = ObjectId::new("node", name.as_str());
            out.problems.push(Problem::error(object, Class::Refused, code, message));
        };
        if local == Some(chassis) || !names.insert(chassis) {
            let message =
                format!("node {name} has the chassis {chassis} of another node; correct its annotation");
            report("chassis-conflict", message);
            continue;
        }
        match seen.foreign.get(chassis) {
            Some(true) => continue,
            Some(false) => {
                let message = format!(
                    "the chassis {chassis} of node {name} belongs to this zone's Southbound; each node needs a database of its own"
                );
                report("chassis-of-this-zone", message);
                continue;
            }
            None => {}
        }
        let taken = node.encaps.iter().find_map(|ip| {
            let other = seen.foreign_ends.get(ip).map(|other| other.as_str());
            other.or_else(|| ends.get(ip).copied()).map(|other| (ip, other))
        });
        if let Some((ip, other)) = taken {
            let message = format!(
                "the tunnel address {ip} of node {name} belongs to chassis {other} already; remove that chassis if it is gone"
            );
            report("tunnel-address-conflict", message);
            continue;
        }
        if node.encaps.is_empty() {
            continue;
        }
        ends.extend(node.encaps.iter().map(|ip| (*ip, chassis)));
        out.value.insert(name.clone(), rows(name, node, owner));
    }
    // Rows of nodes whose annotations do not parse stay.
    let unreadable = snapshot.unreadable.iter().filter_map(|node| seen.own.get(node));
    out.keep.extend(unreadable.map(|chassis| ObjectId::new(KIND, chassis.as_str())));
    out
}

fn rows(name: &str, node: &ZoneNode, owner: &str) -> Part {
    let object = ObjectId::new(KIND, node.chassis.as_str());
    let mut part = Part::new();
    let mut ends = Vec::new();
    for ip in &node.encaps {
        let uuid = marked_uuid(owner, "node", name, &format!("encap {ip}"));
        let row = Encap {
            kind: EncapType::Geneve,
            options: map([("csum", "true")]),
            ip: Text::from(*ip),
            chassis_name: node.chassis.as_str().into(),
        };
        part.own(object.clone(), uuid, row);
        ends.push(Ref::new(uuid));
    }
    let row = Chassis {
        name: node.chassis.as_str().into(),
        hostname: name.into(),
        encaps: super::refs(ends),
        other_config: map([("is-remote", "true")]),
        ..Default::default()
    };
    part.own(object, row_uuid("node", name, "chassis"), row);
    part
}
