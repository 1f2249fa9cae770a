//! Background tasks whose panic or early end is never overlooked.
//!
//! A process whose writer, listener or follower died would keep its sockets open and report healthy. So this crate starts every
//! long-running task, by name. A panic has one of two outcomes:
//!
//! * Inside [`contain`], the caller gets the panic as a value and decides: a request is answered with 500, a loop retries.
//! * Anywhere else, the process ends with an error (see [`failed`]), and its supervisor, such as systemd, restarts it.
//!
//! The panic hook decides by the panicking thread, so it covers tasks and threads of other crates, too.

pub mod contain;
mod supervise;

pub use supervise::{end_on_panic, failed, keep, lasting, spawn, spawn_thread, stopping};
