//! Flows of the provider bridges: what comes from the overlay is handed to the kernel to be routed.
//!
//! | file | holds |
//! |---|---|
//! | [`state`] | what can be wanted, seen and changed; what marks a flow ours |
//! | [`plan`] | what to change |
//! | [`openflow`] | the protocol's encoding |
//! | [`PacketSender`] | sends single frames out of a port |
//! | [`Flows`] | reads and changes them, and notices what others change |

mod apply;
mod connection;
mod observe;
pub mod openflow;
mod packets;
pub mod plan;
pub mod state;

pub use connection::FlowError;
pub use observe::Flows;
pub use packets::{OutPort, PacketSender};
pub use state::{Bridge, BridgeFlows, Desired, Flow, NormalFlow, Observed, Op, Seen, SeenFlow};
