//! Listening sockets with limits: maximum connections, timeouts, and a rule for which connection to close first.
//!
//! Every client that reaches a socket can open connections, so no number of idle ones may lock out others:
//!
//! * The listener always accepts. If there are too many connections, it closes the idlest: first one without any request, then
//!   one that waits between two requests, then one that does not read its answer.
//! * A client address with more than its share loses its own idlest connection. The listener never closes a connection whose
//!   request is in progress, so this does not limit a busy reverse proxy.
//! * Some connections are reserved for health checks. Beyond the rest, other requests get 503.
//! * The listener drops a client that does not finish a request's head, sends nothing, or does not read its answer within a
//!   time.
//! * A head that two HTTP parsers could read differently (bare LF, doubled `Host`, several lengths) gets 400.
//!
//! [`http::serve`] does all of this for an HTTP service. [`Listener`] is the part that does not depend on HTTP; the admin
//! socket uses it as well. The answers themselves come from the caller. With a [`TlsIdentity`], an HTTP socket speaks TLS.

mod activity;
mod framing;
pub mod http;
mod limits;
mod listener;
mod stream;
mod table;
mod tls;

pub use activity::Activity;
pub use limits::Limits;
pub use listener::{Client, Connection, Door, Listener};
pub use stream::GuardedStream;
pub use tls::{ClientStream, TlsError, TlsIdentity};
