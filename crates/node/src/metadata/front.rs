//! The front end of the metadata service: what listens in the namespaces.
//!
//! There are two. With `builtin`, the agent opens sockets there and passes them to the proxy ([`Sockets`](super::sockets::Sockets)).
//! With `haproxy`, a haproxy in each namespace listens, and forwards to the proxy
//! ([`HaproxyFrontEnd`](super::haproxy::HaproxyFrontEnd)). Whose data a request gets, and the request to Nova, are the proxy's in both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;

use metadata_proxy::control::ListenerId;
use ovsdb::Uuid;

use super::state::{ProxyState, SocketState};

/// The listening sockets, and the proxy behind them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenFrontEnd {
    /// The sockets.
    pub(super) sockets: BTreeMap<ListenerId, SocketState>,
    /// The proxy.
    pub(super) proxy: ProxyState,
}

/// What listens in the namespaces.
pub(super) trait FrontEnd: fmt::Debug + Send + Sync {
    /// The listening sockets, and the proxy behind them.
    fn observe(&self) -> SeenFrontEnd;

    /// Opens sockets of one network in its namespace. Blocks while a process starts.
    fn listen(&self, namespace: &File, sockets: &BTreeSet<ListenerId>) -> io::Result<()>;

    /// Closes a socket and its connections. It is [`SocketState::Closing`] until that is done.
    fn close(&self, socket: ListenerId);

    /// Removes the files of a network whose namespace is gone.
    fn forget(&self, network: Uuid);
}
