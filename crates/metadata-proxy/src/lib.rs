//! The HTTP proxy between VMs and Nova's metadata API.
//!
//! It runs without privileges and outside of every tenant's namespace. The agent of the chassis, which may enter namespaces,
//! opens the listening sockets there and passes them over a unix socket ([`control`]). So the process that parses tenants' bytes
//! can change nothing, and the process that can change the host parses none.
//!
//! | file | holds |
//! |---|---|
//! | [`control`] | the messages between agent and proxy, and the channel that carries sockets |
//! | [`counts`] | counts for the metrics of the agent |
//! | [`identity`] | the table of a network: which instance has which address |
//! | [`request`] | the request to Nova: its headers and its signature |
//! | [`nova`] | the client of Nova's metadata API |
//! | [`tls`] | TLS to Nova |
//! | [`forwarded`] | requests that come through a haproxy |
//! | `neighbours` | the Ethernet addresses that a network has for its addresses |
//! | `places` | the connections of all networks together |
//! | [`rate`] | limits of requests per source |
//! | `throttle` | log lines that a VM can cause |
//! | `answer` | one request of a VM, from its head to the answer |
//! | [`proxy`] | all networks, and the loop that follows the agent |
//!
//! The source of a request is its network, which is the socket's, and its TCP peer. No header names it. The network's neighbour table
//! tells whether the peer has the Ethernet address of the instance's port ([`SourceCheck`]). Where the operator chose
//! haproxy, a haproxy in each namespace knows both, and tells them over a socket that nobody else may open.

mod answer;
pub mod control;
pub mod counts;
pub mod forwarded;
pub mod identity;
mod neighbours;
pub mod nova;
mod places;
pub mod proxy;
pub mod rate;
pub mod request;
mod throttle;
pub mod tls;

pub use answer::SourceCheck;
pub use proxy::{Config, Proxy};
