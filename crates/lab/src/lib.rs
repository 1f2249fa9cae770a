//! A multi-node OVN with real packets on one machine, for tests and demos.
//!
//! Network tests need several machines, and kernels with features that the host may lack. This crate boots a small guest per
//! test, a User Mode Linux kernel that runs as an ordinary process of an ordinary user, and runs the test inside it as root.
//! The host needs only `mmdebstrap`, and a test leaves nothing behind.
//!
//! Reading order: [`harness`] (how a test is registered and run), [`guest`] (a job seen from the host), `inside` (the same job
//! seen from the guest), [`job`] (the files that the two exchange), [`rootfs`] (the guest's root file system), [`kernel`] and
//! [`need`] (the features that a kernel offers and a test needs).
//!
//! A test's own code begins with [`topology`] (the machines), and continues with [`node`] (actions on them), [`northbound`]
//! (the logical network) and [`mod@eventually`] (checks).
//!
//! [`meter`] and [`rpc`] are for benchmarks: the cost of processes, and a client with little overhead of its own.
//!
//! [`postgres`], [`keystone`], [`kubernetes`] and [`python`] serve ordinary tests as well, on the host and without a guest.

pub mod capture;
pub mod chaos;
pub mod db;
pub mod demo;
pub mod echo;
pub mod eventually;
pub mod guest;
pub mod harness;
pub mod home;
mod inside;
pub mod job;
pub mod kernel;
pub mod keystone;
pub mod kubernetes;
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
