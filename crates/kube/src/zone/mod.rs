//! The node side: the rows of one node's zone, from one pure function.
//!
//! Each node is an OVN zone of its own. A layer-2 network has a switch, a transit router and the node's gateway router in every
//! zone, and remote ports that stand for the other nodes. Tunnel keys make one logical network of them: a port must have the same
//! key in every zone, or OVN delivers packets to the wrong port without an error.
//!
//! | file | holds |
//! |---|---|
//! | [`snapshot`] | the inputs: networks with their pods, nodes, the node whose zone it is |
//! | [`migration`] | live migrations of virtual machines |
//! | [`names`] | the names of rows, in the two dialects that clusters use |
//! | [`desired`] | the rows of one network in one zone |
//!
//! During a rolling upgrade some nodes still have the topology without transit routers; the rows of that time are here as well.
//! Services are not.

pub mod desired;
pub mod migration;
pub mod names;
pub mod snapshot;

pub use names::{NameProfile, RowNames};
pub use snapshot::{Topology, ZoneNetwork, ZoneNode, ZonePod, ZoneSnapshot};
