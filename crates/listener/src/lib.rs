//! Listening sockets: which connections are kept, for how long, and which are closed when there are too many.
//!
//! Anybody who reaches a socket can open connections, so no number of idle ones may keep others out:
//!
//! * Connections are always accepted. When there are too many, the idlest one is closed: first those that have not sent a
//!   request, then those that wait between two requests, then those that take nothing of their answer.
//! * One client address that has more than its share loses its own idlest connection. Connections whose request is being worked
//!   on are never closed, so a busy reverse proxy is not limited by this.
//! * Some connections are always left for health checks: other requests beyond the rest are answered 503.
//! * A client that does not finish its request's head, sends nothing, or does not read its answer is dropped after a while.
//! * A head that two HTTP parsers could read in two ways (bare LF, doubled `Host`, several lengths) is answered 400.
//!
//! [`http::serve`] is all of that for an HTTP service. [`Listener`] is the part that does not depend on HTTP; the admin socket
//! uses it as well. What is answered is the caller's business.

mod activity;
mod framing;
pub mod http;
mod limits;
mod listener;
mod stream;
mod table;

pub use activity::Activity;
pub use limits::Limits;
pub use listener::{Client, Connection, Door, Listener};
pub use stream::GuardedStream;
