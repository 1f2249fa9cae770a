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
//! | [`gather`](mod@gather) | from the API's objects to these inputs |
//! | [`desired`] | the rows of one network in one zone |
//! | [`decider`] | the rows of all networks, and the chassis of remote nodes |
//! | [`doubt`](mod@doubt) | when rows stay although the API does not have their objects any more |
//! | `target` | the databases, without deletions in doubt |
//! | `announce` | the mark with which a node tells the others that its rows are there |
//! | [`run`] | the program |
//! | [`explain`](mod@explain) | the meaning of an address, for people |
//!
//! During a rolling upgrade some nodes still have the topology without transit routers; the rows of that time are here as well.

mod announce;
pub mod decider;
pub mod desired;
pub mod doubt;
pub mod explain;
pub mod gather;
pub mod migration;
pub mod names;
pub mod run;
pub mod snapshot;
mod target;

pub use gather::ZoneSettings;
pub use names::{NameProfile, RowNames};
pub use run::{RunningZone, ZoneParts};
pub use snapshot::{Topology, ZoneNetwork, ZoneNode, ZonePod, ZoneService, ZoneServicePort, ZoneSnapshot};
