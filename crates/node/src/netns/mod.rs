//! Network namespaces, one for each network that a chassis serves: `ovnmeta-<network>`, with one end of a veth pair inside.
//!
//! | file | holds |
//! |---|---|
//! | [`state`] | the desired and observed namespaces; the mark that makes a device ours |
//! | [`names`] | the names of namespaces and devices |
//! | [`plan`] | the ops of one network: build, correct, tear down |
//! | [`Namespaces`] | reads and changes them |
//!
//! No subprocess runs and no thread of the runtime ever changes its namespace: a short-lived thread enters, opens its sockets
//! and ends there (`inside.rs`). A thread that had to come back could fail to, and the whole process would go on in a tenant's
//! namespace.
//!
//! A namespace lives for as long as any socket in it does. The owner of listening sockets closes every copy before it asks for
//! [`Op::DeleteNamespace`](state::Op), or a nameless namespace goes on answering.

mod apply;
mod ethtool;
pub(crate) mod inside;
pub mod names;
mod observe;
pub mod plan;
pub mod state;

pub use apply::NetnsError;
pub use observe::Namespaces;
pub(crate) use observe::{link_index, link_name};
pub use state::{Desired, Namespace, Observed, Op, VethPair};
