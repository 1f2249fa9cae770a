//! A multi-node OVN with real packets on one machine, for tests and demos.
//!
//! Tests of a network need several machines, and kernels with features that the machine at hand may lack. This crate boots a
//! small guest per test, a User Mode Linux kernel that runs as an ordinary process of an ordinary user, and runs the test
//! inside it as root. Nothing has to be installed on the host but `mmdebstrap`, and nothing is left there.
//!
//! Reading order: [`harness`] (how a test is registered and run), [`guest`] (a job seen from the host), `inside` (the same job
//! seen from the guest), [`job`] (what the two tell each other), [`rootfs`] (what the guest is made of), [`kernel`] and
//! [`need`] (what a kernel offers and a test asks for).
//!
//! What a test does inside begins at [`topology`] (what is brought up) and goes on with [`node`] (what is done with its
//! machines), [`northbound`] (the network that OVN is to make) and [`mod@eventually`] (what comes true of it).
//!
//! [`meter`] and [`rpc`] are for benches: what processes cost, and a client that costs others little.
//!
//! [`postgres`], [`keystone`] and [`python`] serve ordinary tests as well, on the host and without a guest.

pub mod capture;
pub mod chaos;
pub mod db;
pub mod demo;
pub mod eventually;
pub mod guest;
pub mod harness;
pub mod home;
mod inside;
pub mod job;
pub mod kernel;
pub mod keystone;
pub mod link;
pub mod meter;
pub mod need;
pub mod netns;
pub mod node;
pub mod northbound;
pub mod picture;
pub mod postgres;
pub mod probe;
pub mod process;
mod progress;
pub mod python;
pub mod relay;
pub mod rootfs;
pub mod rpc;
pub mod topology;
pub mod train;

pub use eventually::eventually;
pub use harness::{Suite, Test};
pub use need::Need;
pub use node::chassis::chassis;
pub use topology::{Lab, Topology};
