//! The Southbound rows of remote nodes.
//!
//! A remote port needs the chassis of its node with `is-remote`. Without it, northd makes a port of this zone, and says nothing.

use std::net::IpAddr;

use ovn::ident::{marked_uuid, row_uuid};
use ovn::sb::{Chassis, Encap, EncapType};
use ovn::target::{Part, Row};
use ovn::text::Text;
use ovsdb::{Ref, Uuid};
use reconcile::ObjectId;

use super::map;
use crate::zone::ZoneNode;

/// The kind of object that a chassis is in reports.
const KIND: &str = "chassis";

/// The object of a row of ours in `Chassis` or `Encap`. Both name the chassis, so that a chassis and its tunnel ends go together:
/// the server refuses to leave a chassis without an end.
pub fn name_chassis(_: Uuid, row: &dyn Row) -> Option<ObjectId> {
    let row = row.as_any();
    let chassis = row.downcast_ref::<Chassis>().map(|row| &row.name);
    let chassis = chassis.or_else(|| row.downcast_ref::<Encap>().map(|row| &row.chassis_name));
    chassis.map(|name| ObjectId::new(KIND, name.as_str()))
}

/// The chassis of a remote node, reached through tunnels to its addresses.
pub fn compile_chassis(
    name: &str,
    node: &ZoneNode,
    encaps: impl IntoIterator<Item = IpAddr>,
    owner: &str,
) -> Part {
    let object = ObjectId::new(KIND, node.chassis.as_str());
    let mut part = Part::new();
    let mut ends = Vec::new();
    for ip in encaps {
        let uuid = marked_uuid(owner, "node", name, &format!("encap {ip}"));
        let row = Encap {
            kind: EncapType::Geneve,
            options: map([("csum", "true")]),
            ip: Text::from(ip),
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
