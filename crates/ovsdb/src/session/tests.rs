//! The session with a hand-moved clock and hand-fed messages.

#![allow(clippy::disallowed_methods)]

mod handshake;
mod rig;
mod silence;
