//! The client against real servers and against the fake with its faults.
//!
//! Every test starts what it needs in a directory of its own and ends it; nothing outside is touched.

// A test binary has no readers from outside.
#![allow(unreachable_pub)]

mod bad_input;
mod clustered;
mod locks;
mod reading;
mod reconnecting;
mod replaying;
mod support;
mod tls;
mod writing;
