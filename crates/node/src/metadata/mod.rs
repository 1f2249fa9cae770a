//! The metadata role: every VM of this chassis reaches 169.254.169.254 through the namespace of its network.
//!
//! | file | holds |
//! |---|---|
//! | [`config`] | the options, those of a `neutron_ovn_metadata_agent.ini` |
//! | [`snapshot`] | the inputs: the rows of both databases at one instant |
//! | [`desired`] | which networks are served here, and which instance has which address |
//! | `explain` | whose data a request from an address would get, in sentences |
//! | [`state`] | the desired and observed state of the target |
//! | [`plan`] | the ops between them, in order |
//! | `target` | observes and applies |
//! | `front` | what listens in the namespaces: sockets of the proxy, or haproxy |
//! | `sockets` | listening sockets in the namespaces, and the connection to the proxy |
//! | `haproxy` | a haproxy in each namespace, which forwards to the proxy |
//! | `probe` | whether Open vSwitch has the flows of a new port |
//! | [`agent`] | connections and the loop |
//!
//! A network is ready when an observation finds all of it in place: namespace, port of the integration bridge, sockets in the
//! proxy, and an answer of OVN to a probe. Only then its id is in the `Chassis` row.

pub mod agent;
pub mod config;
pub mod desired;
mod explain;
mod front;
mod haproxy;
pub mod plan;
mod probe;
pub mod snapshot;
mod sockets;
pub mod state;
mod target;

pub use agent::Agent;
