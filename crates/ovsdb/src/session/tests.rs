//! The session with a hand-moved clock and hand-fed messages.

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
