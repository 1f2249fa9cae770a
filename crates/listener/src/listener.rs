//! Accepts connections, also after errors, and gives each a task of its own.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use task::contain;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::activity::Activity;
use crate::limits::Limits;
use crate::stream::GuardedStream;
use crate::table::Table;

/// Pause after the system failed to give us a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Minimum interval between two log lines about that.
const SAID: Duration = Duration::from_secs(10);
/// Size of the kernel's send buffer per connection. Further bytes of an answer stay with us, so the listener notices a client
/// that does not read.
const SEND_BUFFER: usize = 256 << 10;

/// The client of a connection, for counting connections per client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// An IPv4 address, or the /64 network of an IPv6 address, because a host may have any number of IPv6 addresses.
    Address(IpAddr),
    /// A process of this machine, on a unix socket.
    Local,
}

impl Client {
    /// The client behind an address.
    pub fn of(address: IpAddr) -> Self {
        Client::Address(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from(network))
            }
            other => other,
        })
    }
}

/// A socket that accepts connections.
pub trait Door: Send {
    /// A connection.
    type Stream: Send + 'static;

    /// Waits for the next connection. Dropping this future loses none.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Client)>> + Send;

    /// Prepares a connection; `limits` are those of the listener.
    fn prepare(_stream: &Self::Stream, _limits: &Limits) {}
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Client)> {
        self.accept().await.map(|(stream, peer)| (stream, Client::of(peer.ip())))
    }

    fn prepare(stream: &TcpStream, limits: &Limits) {
        let socket = SockRef::from(stream);
        let prepared = [
            // Answers are written as a whole, so Nagle's algorithm would only delay them.
            stream.set_nodelay(true),
            socket.set_send_buffer_size(SEND_BUFFER),
            // The kernel closes a connection whose client does not read the sent data for this long.
            socket.set_tcp_user_timeout(Some(limits.answer)),
        ];
        for error in prepared.into_iter().filter_map(Result::err) {
            debug!(%error, "cannot prepare a connection");
        }
    }
}

impl Door for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Client)> {
        self.accept().await.map(|(stream, _)| (stream, Client::Local))
    }
}

/// An accepted connection.
#[derive(Debug)]
pub struct Connection<S> {
    /// The stream of the connection.
    pub stream: GuardedStream<S>,
    /// The handle through which the connection's task reports whether the client or the server has to act.
    pub activity: Arc<Activity>,
}

/// A listening socket with its connections.
#[derive(Debug)]
pub struct Listener<D> {
    door: D,
    pub(crate) table: Arc<Table>,
}

impl<D: Door> Listener<D> {
    /// Wraps a listening socket.
    pub fn new(door: D, limits: Limits) -> Self {
        Listener { door, table: Arc::new(Table::new(limits)) }
    }

    /// Accepts until `stop`. Each connection gets a task that runs the future from `converse`. The listener drops that task to
    /// close the connection.
    pub async fn run<F>(
        &self,
        stop: impl Future<Output = ()> + Send,
        mut converse: impl FnMut(Connection<D::Stream>) -> F + Send,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut ticks = tokio::time::interval(self.table.limits.tick());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut said: Option<Instant> = None;
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.door.next() => accepted,
                _ = ticks.tick() => {
                    self.table.sweep();
                    continue;
                }
                () = &mut stop => return,
            };
            match accepted {
                Ok((stream, client)) => {
                    D::prepare(&stream, &self.table.limits);
                    match self.table.admit(client) {
                        Some(activity) => self.start(stream, activity, &mut converse),
                        None => debug!(?client, "closed a connection, because all others are busy"),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // The process is probably out of file descriptors. Closing the idlest connection frees one.
                    let closed = self.table.make_room();
                    if said.is_none_or(|said| said.elapsed() >= SAID) {
                        warn!(%error, closed_an_idle_one = closed, "cannot accept a connection");
                        said = Some(Instant::now());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits for `rest`, and keeps closing connections that time out.
    pub async fn drain(self, rest: impl Future<Output = ()>) {
        let Listener { door, table } = self;
        // Closes the socket, so that no further client is accepted.
        drop(door);
        let sweeping = async {
            loop {
                tokio::time::sleep(table.limits.tick()).await;
                table.sweep();
            }
        };
        tokio::select! {
            () = rest => {}
            () = sweeping => {}
        }
    }

    fn start<F>(
        &self,
        stream: D::Stream,
        activity: Arc<Activity>,
        converse: &mut impl FnMut(Connection<D::Stream>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let guarded = GuardedStream::new(stream, Arc::clone(&activity), Arc::clone(&self.table));
        let conversation = converse(Connection { stream: guarded, activity: Arc::clone(&activity) });
        let table = Arc::clone(&self.table);
        task::spawn("connection", async move {
            // A client whose bytes cause a panic loses its connection, and nothing else.
            let contained = contain::future(async {
                tokio::select! {
                    () = conversation => {}
                    reason = activity.closed() => debug!(client = ?activity.client, %reason, "a connection is closed"),
                }
            });
            if let Err(contain::Panicked(text)) = contained.await {
                tracing::error!(text, "the task of a connection panicked");
            }
            table.remove(&activity);
        });
    }
}
