//! The session with a clock and messages under the control of the test.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod conditions;
mod connection;
mod conversion;
mod handshake;
mod locks;
mod random;
mod real;
mod rig;
mod servers;
mod silence;
mod transactions;
