//! OVN's databases, conventions and write target.
//!
//! # Tables
//!
//! | module | database | documented upstream in | holds |
//! |---|---|---|---|
//! | [`nb`] | `OVN_Northbound` | ovn-nb(5) | what we want: switches, routers, ports, routes, NAT, ACLs, load balancers, ... |
//! | [`sb`] | `OVN_Southbound` | ovn-sb(5) | what became of it: port bindings, chassis, datapaths, service monitors, ... |
//! | [`vswitch`] | `Open_vSwitch` | ovs-vswitchd.conf.db(5) | a node's own switch: bridges, ports, interfaces |
//!
//! Cells that hold text with a meaning are [`text::Text`]: what does not parse is kept as it is and costs nothing but its own
//! meaning. Words a column may hold are enums with `Other(..)` for those of a newer OVN.
//!
//! # Identity
//!
//! A row that stands for one API object has that object's id as its UUID, every other row a UUIDv5 of what it is for
//! ([`ident::row_uuid`]). References can therefore be written before the row exists, and the same intent always meets the
//! same row. Names other programs look for are in [`ident::name`].
//!
//! # Writing
//!
//! [`target`] turns desired rows into one transaction that touches only what is ours: rows with our mark, keys we wrote,
//! members that refer to rows of ours.
//!
//! # To add a table
//!
//! 1. Read its chapter in the man page; take the columns we use, and no others: what a struct has is monitored.
//! 2. Write `nb/<table>.rs` with a struct that derives [`ovsdb::Table`], each field with its meaning in one line; mark
//!    columns that OVN 23.03 lacks `optional`.
//! 3. List it in the module's `mod.rs`, in `model()` too: with [`TableSpec::of`], or [`TableSpec::newer`] if OVN 23.03 lacks
//!    the whole table. The tests of [`spec`] then compare it with the schemas of every supported version and say what is
//!    wrong.
//! 4. If we write it, list it in `target/tables.rs` with the columns other programs fill in, and name the keys of its maps
//!    that are ours in [`target::Rules::northbound`].

pub mod ident;
pub mod mac;
pub mod nb;
pub mod port_type;
pub mod sb;
pub mod spec;
pub mod target;
pub mod text;
pub mod vswitch;

pub use mac::MacAddr;
pub use port_type::PortType;
pub use spec::TableSpec;
