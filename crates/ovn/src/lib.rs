//! OVN's databases, conventions and write target.
//!
//! # Tables
//! >
//! | module | database | documented upstream in | holds |
//! |---|---|---|---|
//! | [`nb`] | `OVN_Northbound` | ovn-nb(5) | the requested network: switches, routers, ports, routes, NAT, ACLs, load balancers, ... |
//! | [`sb`] | `OVN_Southbound` | ovn-sb(5) | its realisation: port bindings, chassis, datapaths, service monitors, ... |
//! | [`vswitch`] | `Open_vSwitch` | ovs-vswitchd.conf.db(5) | a node's own switch: bridges, ports, interfaces |
//!
//! String cells with an inner syntax have the type [`text::Text`]: a cell that does not parse keeps its string and loses only its own
//! meaning. Columns with a fixed set of keywords are enums with `Other(..)` for keywords of a newer OVN.
//!
//! # Identity
//!
//! A row for one API object has that object's id as its UUID, every other row a UUIDv5 of its purpose ([`ident::row_uuid`]). So a reference
//! can be written before its row exists, and the same intent always gives the same row. [`ident::name`] has the names that other programs
//! look up.
//!
//! # Writing
//!
//! [`target`] turns desired rows into one transaction that touches only our data: rows with our mark, keys that we wrote, and members that
//! refer to rows of ours. [`writer`] elects the process that writes, and records the newest state that it has written.
//!
//! # To add a table
//! >
//! 1. Read its chapter in the man page. Take only the columns that we use: the client monitors every column of a struct.
//! 2. Write `nb/<table>.rs` with a struct that derives [`ovsdb::Table`], each field with its meaning in one line; mark
//!    columns that OVN 23.03 lacks `optional`.
//! 3. List it in the module's `mod.rs`, in `model()` too: with [`TableSpec::of`], or [`TableSpec::newer`] if OVN 23.03 lacks
//!    the whole table. The tests of [`spec`] then compare it with the schemas of every supported version and report each
//!    mismatch.
//! 4. If we write it, list it in `target/tables.rs` with the columns that other programs fill in, and name the keys of its maps
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
pub mod writer;

pub use mac::MacAddr;
pub use port_type::PortType;
pub use spec::TableSpec;
