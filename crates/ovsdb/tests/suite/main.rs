//! The client against real servers and against the fake with its faults.
//!
//! Every test starts its servers in a directory of its own and ends them; it touches nothing outside.

// A test binary has no readers from outside.
#![allow(unreachable_pub)]

mod backlog;
mod bad_input;
mod clustered;
mod conditions;
mod examples;
mod loading;
mod locks;
mod reading;
mod reconnecting;
mod replaying;
mod spans;
mod support;
mod tls;
mod unread;
mod versions;
mod writing;
