//! Settings of the node in the local switch's database, in `external_ids` of the row in `Open_vSwitch`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovsdb::{Model, Snapshot, Str};

/// The key of the node's name as a chassis.
pub const SYSTEM_ID: &str = "system-id";

/// The tables of the local switch's database that roles read.
pub fn model() -> Model {
    Model::new("Open_vSwitch").table::<OpenVSwitch>().table::<Bridge>().table::<Port>().table::<Interface>()
}

/// A setting. One for this chassis alone, such as `ovn-remote-hv1`, outranks the general one.
pub fn setting<'s>(vswitch: &'s Snapshot, name: &str) -> Option<&'s Str> {
    let (_, row) = vswitch.table::<OpenVSwitch>().iter().next()?;
    let own = row.external_ids.get(SYSTEM_ID);
    let own = own.and_then(|id| row.external_ids.get(format!("{name}-{id}").as_str()));
    own.or_else(|| row.external_ids.get(name))
}

/// The node's name as a chassis.
pub fn system_id(vswitch: &Snapshot) -> Option<&Str> {
    let (_, row) = vswitch.table::<OpenVSwitch>().iter().next()?;
    row.external_ids.get(SYSTEM_ID).filter(|id| !id.is_empty())
}

/// The servers of a database, as one of the settings names them.
pub fn remote<'s>(vswitch: &'s Snapshot, name: &str) -> Option<&'s Str> {
    setting(vswitch, name).filter(|remote| !remote.is_empty())
}
