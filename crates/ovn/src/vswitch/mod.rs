//! The local switch's database on each node.
//!
//! One file per table, one struct per file; documented upstream in ovs-vswitchd.conf.db(5).

mod bridge;
mod interface;
mod open_vswitch;
mod port;

pub use bridge::Bridge;
pub use interface::Interface;
pub use open_vswitch::OpenVSwitch;
pub use port::Port;

use crate::spec::TableSpec;

/// Every table of this module, with its requirements on a schema.
pub fn model() -> &'static [TableSpec] {
    const MODEL: &[TableSpec] = &[
        TableSpec::of::<OpenVSwitch>(),
        TableSpec::of::<Bridge>(),
        TableSpec::of::<Port>(),
        TableSpec::of::<Interface>(),
    ];
    MODEL
}
