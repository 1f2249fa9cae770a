//! The BGP agent: what of an OVN cloud must be reachable from outside through this node, decided from OVN's Southbound database.
//!
//! [`config`] is what the agent is told, [`snapshot`] what it decides from, [`desired`] the decision.

pub mod config;
pub mod desired;
pub mod snapshot;
