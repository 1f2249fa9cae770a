//! The agents of a node: the targets that Meridian observes and changes there, and their deciders.
//!
//! # Targets
//!
//! | module | looks after | ours is |
//! |---|---|---|
//! | [`kernel`] | devices, addresses, rules, routes, neighbours, NDP proxies, sysctls | what [`kernel::own`] says |
//! | [`ports`] | internal ports of the provider bridges, for VLANs | ports with our mark in `external_ids` |
//! | [`flows`] | OpenFlow of the provider bridges | flows with cookie 999 |
//! | [`frr`] | what FRR redistributes and leaks | the lines of its two stanzas that [`frr::state`] names |
//! | [`plane`] | the four above in one order | |
//! | [`netns`] | network namespaces with a veth pair each, for metadata | namespaces `ovnmeta-<network>`, devices with our alias |
//!
//! [`connections`] are those to OVSDB servers, which all roles of a process share.
//!
//! [`part`] is what each of the four has to say, so that they can be planned together.
//!
//! The four are planned together, because safety is a matter of order across them: an address is announced when packets
//! for it have a way, and the way stays until the announcement is gone. [`plane::Plane`] is the one target that a decider
//! on a node writes to.

pub mod bgp;
mod cause;
pub mod connections;
pub mod flows;
pub mod frr;
pub mod ini;
pub mod kernel;
pub mod metadata;
mod netlink;
pub mod netns;
pub mod part;
pub mod plane;
pub mod ports;
mod problem_code;
pub mod sole;

pub use problem_code::ProblemCode;
