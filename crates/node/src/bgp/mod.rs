//! The BGP agent: what of an OVN cloud must be reachable from outside through this node, decided from OVN's Southbound database,
//! or from its Northbound.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what the agent is told |
//! | [`snapshot`] | what it decides from: rows, settings, the time |
//! | [`desired`] | the decision, rule by rule, and what the data plane must be for it |
//! | [`explain`] | the same rules, asked why an address is exposed or not |
//! | [`northbound`] | the Northbound database, read as if it were the Southbound |
//! | [`conditions`] | which rows the Southbound database is asked for |
//! | [`reserved`] | which prefixes are refused, as the node lives by them |
//! | [`rivals`] | processes of ovn-bgp-agent |
//! | [`trust`] | when the inputs are to be doubted |
//! | [`decider`], [`agent`] | the loop and its inputs |
//! | [`health`] | whether it does what it is for |
//! | [`announced`] | what it announces, and who hears it, for operators |
//! | [`peers`] | what FRR makes of an announced address |

pub mod agent;
pub mod announced;
pub mod conditions;
pub mod config;
pub mod decider;
pub mod desired;
pub mod explain;
pub mod health;
pub mod northbound;
pub mod peers;
pub mod reserved;
pub mod rivals;
pub mod snapshot;
pub mod trust;

pub use agent::Agent;

use crate::ports::PortMark;

/// The mark of the agent's ports for VLANs.
pub const PORT_MARK: PortMark = PortMark("bgp-vlan");
