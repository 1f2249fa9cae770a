//! `Port_Group`: the ports of a security group, and the group of all ports with port security, whose other traffic is dropped.

use ovn::ident::{name, row_uuid};
use ovn::nb::{Acl, AclAction, Direction, PortGroup};
use ovn::target::Part;
use ovn::text::match_expr::{GroupName, Match, Predicate, Side};
use ovn::text::neutron::key;
use ovsdb::{Ref, Set};
use reconcile::ObjectId;
use uuid::Uuid;

use super::{Compiled, Look};
use super::{map, object, text};

/// Below all rules.
const DROP_PRIORITY: i64 = 1000;

/// The group's row.
pub(super) fn row(look: &Look<'_, '_>, group: Uuid) -> Uuid {
    look.row(group)
}

/// The row of the group whose traffic is dropped unless a rule allows it.
pub(super) fn drop_row(look: &Look<'_, '_>) -> Uuid {
    look.row(row_uuid("deployment", "", name::DROP_PORT_GROUP))
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let to = &mut to.part;
    if look.group(id).is_none() {
        return;
    }
    let group = PortGroup {
        name: text(name::port_group(id)),
        external_ids: map([(key::SECURITY_GROUP_ID, text(id))]),
        ..Default::default()
    };
    to.own(object("security_group", id), row(look, id), group);
}

pub(super) fn compile_drop(look: &Look<'_, '_>, to: &mut Part) {
    let of = ObjectId::new("deployment", look.settings().owner.as_str());
    let acls =
        [(Side::In, Direction::FromLport), (Side::Out, Direction::ToLport)].map(|(side, direction)| {
            let row = look.row(row_uuid("deployment", direction.as_str(), name::DROP_PORT_GROUP));
            let acl = Acl {
                priority: DROP_PRIORITY,
                direction,
                matches: text(in_group(side, name::DROP_PORT_GROUP).and(Match::Is(Predicate::Ip))),
                action: AclAction::Drop,
                ..Default::default()
            };
            to.own(of.clone(), row, acl);
            Ref::new(row)
        });
    let group = PortGroup { name: text(name::DROP_PORT_GROUP), acls: Set::from(acls), ..Default::default() };
    to.own(of, drop_row(look), group);
}

/// `inport == @group` or `outport == @group`.
pub(super) fn in_group(side: Side, group: &str) -> Match {
    match GroupName::new(group) {
        Ok(group) => Match::PortGroup(side, group),
        Err(error) => unreachable!("names of port groups are made for matches: {error}"),
    }
}
