//! All networks of a chassis, and the loop that follows the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::uri::Scheme;
use listener::http::{Heads, Site};
use listener::{Door, Limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};
use uuid::Uuid;

use crate::answer::{Network, Shared, SourceCheck, lock};
use crate::control::{Channel, ControlSocket, Family, ListenerId, Message};
use crate::counts::Counts;
use crate::forwarded::{ForwardedDoor, ForwardedSite, Networks};
use crate::identity::{IdentityTable, PortIdentity};
use crate::neighbours::Neighbours;
use crate::nova::{NotAHost, Nova, NovaAddress, NovaTimeouts};
use crate::places::NamespaceDoor;
use crate::rate::RateLimits;
use crate::request::SharedSecret;

/// Maximum size of a request's head.
const HEAD: usize = 16 << 10;
/// How long requests in progress may take once the proxy is to end.
const DRAIN: Duration = Duration::from_secs(10);
/// How long an agent may take to read a message.
const SEND: Duration = Duration::from_secs(10);

/// The configuration of the proxy.
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket for the agent.
    pub control: PathBuf,
    /// Nova's metadata API.
    pub nova: NovaAddress,
    /// The key of signatures.
    pub secret: SharedSecret,
    /// Timeouts of Nova.
    pub timeouts: NovaTimeouts,
    /// Limits of each network's connections.
    pub limits: Limits,
    /// Maximum number of connections of all networks together.
    pub host_connections: usize,
    /// Limits of each source's requests.
    pub rate: Option<RateLimits>,
    /// What becomes of a request from another Ethernet address than the instance's.
    pub check: SourceCheck,
}

/// Why the proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The address of Nova is none.
    #[error("nova_metadata_host")]
    Nova(#[from] NotAHost),
    /// The files of TLS to Nova cannot be used.
    #[error("cannot set up TLS to Nova")]
    Tls(#[source] io::Error),
    /// The control socket cannot be bound.
    #[error("cannot listen on {}", path.display())]
    Control {
        /// The socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    control: ControlSocket,
    limits: Limits,
    networks: Networks,
    places: Arc<Semaphore>,
    host_connections: usize,
    listeners: BTreeMap<ListenerId, Serving>,
    /// Ports of networks whose last message has not come yet.
    partial: BTreeMap<Uuid, Vec<PortIdentity>>,
    /// Networks whose identities came from a former agent.
    inherited: BTreeSet<Uuid>,
    closed: (mpsc::UnboundedSender<ListenerId>, mpsc::UnboundedReceiver<ListenerId>),
}

/// A listening socket that is served.
#[derive(Debug)]
struct Serving {
    /// A copy of the socket, for an agent that asks for it.
    socket: OwnedFd,
    /// Dropped to stop.
    stop: Option<oneshot::Sender<()>>,
}

impl Proxy {
    /// Opens the control socket. Must be called within a tokio runtime.
    pub fn open(config: Config) -> Result<Self, ProxyError> {
        let nova = Nova::new(&config.nova, config.timeouts)?;
        // They are read again for each connection; what is wrong with them now is better told now.
        if let Some(tls) = &config.nova.tls {
            tls.load().map_err(ProxyError::Tls)?;
        }
        let control = ControlSocket::bind(&config.control)
            .map_err(|source| ProxyError::Control { path: config.control.clone(), source })?;
        if config.secret.is_empty() {
            warn!(
                "the shared secret is empty, so Nova refuses all requests unless its own is empty as well; set metadata_proxy_shared_secret"
            );
        }
        let shared = Shared::new(nova, config.secret, config.rate, config.limits.head, config.check);
        let shared = Arc::new(shared);
        Ok(Proxy {
            shared,
            control,
            limits: config.limits,
            networks: Networks::default(),
            places: Arc::new(Semaphore::new(config.host_connections.min(Semaphore::MAX_PERMITS))),
            host_connections: config.host_connections,
            listeners: BTreeMap::new(),
            partial: BTreeMap::new(),
            inherited: BTreeSet::new(),
            closed: mpsc::unbounded_channel(),
        })
    }

    /// Serves one agent after the other, until dropped. The newest agent is the one in charge: one that hangs is replaced.
    pub async fn run(self) {
        self.run_until(std::future::pending()).await;
    }

    /// The same until `stop`. Then it accepts nothing more, and finishes the requests in progress for a while. Clients that connect
    /// meanwhile wait in the queues of the sockets, which the agent keeps for the next proxy.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) {
        let mut agent: Option<Channel> = None;
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return self.drain().await,
                accepted = self.control.accept() => match accepted {
                    Ok(channel) => {
                        info!("an agent connected");
                        agent = self.greet(channel).await;
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept an agent");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                received = receive(agent.as_ref()) => match received {
                    Ok(Some((message, socket))) => {
                        let is_sign = matches!(message, Message::Valid { .. });
                        self.follow(message, socket);
                        if let Some(channel) = agent.as_ref().filter(|_| is_sign)
                            && !told(channel, &Message::Counts(self.counts()), None).await
                        {
                            agent = None;
                        }
                    }
                    end => {
                        info!(error = end.err().map(|error| error.to_string()), "the agent has gone; its identities stay for a while");
                        self.partial.clear();
                        agent = None;
                    }
                },
                Some(id) = self.closed.1.recv() => {
                    debug!(?id, "closed");
                    if let Some(channel) = &agent
                        && !told(channel, &Message::Closed(id), None).await
                    {
                        agent = None;
                    }
                },
            }
        }
    }

    /// Sends a new agent all sockets.
    async fn greet(&mut self, channel: Channel) -> Option<Channel> {
        self.partial.clear();
        self.inherited = self.networks.ids().into_iter().collect();
        for (id, serving) in &self.listeners {
            if !told(&channel, &Message::Listener(*id), Some(&serving.socket)).await {
                return None;
            }
        }
        told(&channel, &Message::Complete, None).await.then_some(channel)
    }

    fn follow(&mut self, message: Message, socket: Option<OwnedFd>) {
        match (message, socket) {
            (Message::Listener(id), Some(socket)) => {
                if let Err(error) = self.serve(id, socket) {
                    warn!(network = %id.network, %error, "cannot serve a socket");
                }
            }
            (Message::Close(id), _) => {
                match self.listeners.remove(&id) {
                    Some(serving) if id.family == Family::Neighbours => {
                        self.network(id.network).set_neighbours(None);
                        drop(serving);
                        let _ = self.closed.0.send(id);
                    }
                    // Its task says so when all connections are closed.
                    Some(serving) => drop(serving),
                    None => _ = self.closed.0.send(id),
                }
                self.forget_unused(id.network);
            }
            (Message::Ports { network, ports, last }, _) => {
                let mut all = self.partial.remove(&network).unwrap_or_default();
                all.extend(ports);
                if last {
                    self.inherited.remove(&network);
                    self.network(network).learn(Some(IdentityTable::new(all)));
                    self.forget_unused(network);
                } else {
                    self.partial.insert(network, all);
                }
            }
            (Message::Valid { milliseconds }, _) => {
                // The agent has sent all identities by now. Those of other networks were a former agent's, and nobody has them any more.
                let inherited =
                    if milliseconds > 0 { std::mem::take(&mut self.inherited) } else { BTreeSet::new() };
                for network in inherited {
                    self.network(network).learn(Some(IdentityTable::default()));
                    self.forget_unused(network);
                }
                let until = Instant::now().checked_add(Duration::from_millis(milliseconds));
                *lock(&self.shared.valid) = until.filter(|_| milliseconds > 0);
            }
            (
                message
                @ (Message::Listener(_) | Message::Closed(_) | Message::Complete | Message::Counts(_)),
                _,
            ) => {
                debug!(?message, "the agent sent a message without sense");
            }
        }
    }

    fn network(&self, id: Uuid) -> Arc<Network> {
        self.networks.obtain(id, &self.shared)
    }

    fn counts(&self) -> Counts {
        let open = self.host_connections.saturating_sub(self.places.available_permits());
        self.shared.counters.now(open as u64)
    }

    /// Forgets a network that has neither sockets nor instances any more.
    fn forget_unused(&self, network: Uuid) {
        if !self.listeners.keys().any(|id| id.network == network) {
            self.networks.forget_empty(network);
        }
    }

    /// Waits until all requests in progress are answered, but not for ever.
    async fn drain(&mut self) {
        let mut open = self.listeners.values().filter(|serving| serving.stop.is_some()).count();
        // The sockets themselves stay until the end: no connection in their queues may be refused.
        self.listeners.values_mut().for_each(|serving| drop(serving.stop.take()));
        let closed = async {
            while open > 0 && self.closed.1.recv().await.is_some() {
                open -= 1;
            }
        };
        if timeout(DRAIN, closed).await.is_err() {
            warn!("requests were in progress for longer than {} s and are broken off", DRAIN.as_secs());
        }
    }

    fn serve(&mut self, id: ListenerId, socket: OwnedFd) -> io::Result<()> {
        let copy = socket.try_clone()?;
        if id.family == Family::Neighbours {
            self.network(id.network).set_neighbours(Some(Neighbours::new(copy, id.device)));
            self.listeners.insert(id, Serving { socket, stop: None });
            return Ok(());
        }
        info!(network = %id.network, family = ?id.family, "serving");
        if id.family == Family::Forwarded {
            let door = StdUnixListener::from(copy);
            door.set_nonblocking(true)?;
            let door = ForwardedDoor(UnixListener::from_std(door)?);
            // All VMs' connections are those of their haproxy, which limits them.
            let all = self.host_connections;
            let limits = Limits { connections: all, per_client: all, ..self.limits };
            let site = ForwardedSite { networks: self.networks.clone() };
            self.start(id, socket, door, limits, Arc::new(site));
            return Ok(());
        }
        let door = StdListener::from(copy);
        door.set_nonblocking(true)?;
        let door = NamespaceDoor::new(TcpListener::from_std(door)?, Arc::clone(&self.places));
        let (limits, site) = (self.limits, self.network(id.network));
        self.start(id, socket, door, limits, site);
        Ok(())
    }

    fn start<D>(&mut self, id: ListenerId, socket: OwnedFd, door: D, limits: Limits, site: Arc<impl Site>)
    where
        D: Door<Stream: AsyncRead + AsyncWrite + Unpin> + Sync + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let closed = self.closed.0.clone();
        // A socket that is there already is replaced; its copies are the same socket.
        self.listeners.insert(id, Serving { socket, stop: Some(stop) });
        task::spawn("metadata", async move {
            let stopping = async move {
                let _ = stopped.await;
            };
            let heads = Heads { size: HEAD, scheme: Scheme::HTTP };
            // It ends when the last connection has: a socket that is left would keep the namespace alive.
            listener::http::serve_door(door, heads, limits, site, stopping).await;
            let _ = closed.send(id);
        });
    }
}

async fn receive(agent: Option<&Channel>) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
    match agent {
        Some(channel) => channel.receive().await,
        None => std::future::pending().await,
    }
}

/// Sends a message; whether the agent took it.
async fn told(channel: &Channel, message: &Message, socket: Option<&OwnedFd>) -> bool {
    match timeout(SEND, channel.send(message, socket.map(AsFd::as_fd))).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            warn!(%error, "cannot send to the agent");
            false
        }
        Err(_) => {
            warn!("the agent does not read");
            false
        }
    }
}
