//! Background work whose panic or early end is never overlooked.
//!
//! A process whose writer, listener or follower has died keeps its sockets and says that it is healthy. So every long-running
//! task is started here, by name, and there are two outcomes of a panic only:
//!
//! * Inside [`contain`], the caller gets it as a value and decides: a request is answered 500, a loop retries.
//! * Anywhere else, the process ends with an error (see [`failed`]), and whoever started it starts it again.
//!
//! The panic hook decides by the thread that panics, so tasks and threads of other crates are covered, too.

pub mod contain;
mod supervise;

pub use supervise::{end_on_panic, failed, keep, spawn, spawn_thread, stopping};
