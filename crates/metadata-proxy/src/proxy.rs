//! All networks of a chassis, and the loop that follows the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::uri::Scheme;
use listener::http::Heads;
use listener::{Client, Door, Limits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};
use uuid::Uuid;

use crate::answer::{Network, Shared, lock};
use crate::control::{Channel, ControlSocket, ListenerId, Message};
use crate::identity::{IdentityTable, PortIdentity};
use crate::nova::{NotAHost, Nova, NovaAddress, NovaTimeouts};
use crate::rate::RateLimits;
use crate::request::SharedSecret;

/// Maximum size of a request's head.
const HEAD: usize = 16 << 10;
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
    /// Limits of each source's requests.
    pub rate: Option<RateLimits>,
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
    networks: BTreeMap<Uuid, Arc<Network>>,
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
    _stop: oneshot::Sender<()>,
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
        let shared = Arc::new(Shared::new(nova, config.secret, config.rate, config.limits.head));
        Ok(Proxy {
            shared,
            control,
            limits: config.limits,
            networks: BTreeMap::new(),
            listeners: BTreeMap::new(),
            partial: BTreeMap::new(),
            inherited: BTreeSet::new(),
            closed: mpsc::unbounded_channel(),
        })
    }

    /// Serves one agent after the other, until dropped. The newest agent is the one in charge: one that hangs is replaced.
    pub async fn run(mut self) {
        let mut agent: Option<Channel> = None;
        loop {
            tokio::select! {
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
                    Ok(Some((message, socket))) => self.follow(message, socket),
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
        self.inherited = self.networks.keys().copied().collect();
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
            (Message::Close(id), _) => match self.listeners.remove(&id) {
                // Its task says so when all connections are closed.
                Some(serving) => drop(serving),
                None => _ = self.closed.0.send(id),
            },
            (Message::Ports { network, ports, last }, _) => {
                let mut all = self.partial.remove(&network).unwrap_or_default();
                all.extend(ports);
                if last {
                    self.inherited.remove(&network);
                    self.network(network).learn(Some(IdentityTable::new(all)));
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
                }
                let until = Instant::now().checked_add(Duration::from_millis(milliseconds));
                *lock(&self.shared.valid) = until.filter(|_| milliseconds > 0);
            }
            (message @ (Message::Listener(_) | Message::Closed(_) | Message::Complete), _) => {
                debug!(?message, "the agent sent a message without sense");
            }
        }
    }

    fn network(&mut self, id: Uuid) -> &Arc<Network> {
        let shared = &self.shared;
        self.networks.entry(id).or_insert_with(|| Arc::new(Network::new(id, Arc::clone(shared))))
    }

    fn serve(&mut self, id: ListenerId, socket: OwnedFd) -> io::Result<()> {
        let door = StdListener::from(socket.try_clone()?);
        door.set_nonblocking(true)?;
        let door = NamespaceDoor(TcpListener::from_std(door)?);
        let (stop, stopped) = oneshot::channel::<()>();
        let (site, limits) = (Arc::clone(self.network(id.network)), self.limits);
        let closed = self.closed.0.clone();
        info!(network = %id.network, family = ?id.family, "serving");
        // A socket that is there already is replaced; its copies are the same socket.
        self.listeners.insert(id, Serving { socket, _stop: stop });
        task::spawn("metadata", async move {
            let stopping = async move {
                let _ = stopped.await;
            };
            let heads = Heads { size: HEAD, scheme: Scheme::HTTP };
            // It ends when the last connection has: a socket that is left would keep the namespace alive.
            listener::http::serve_door(door, heads, limits, site, stopping).await;
            let _ = closed.send(id);
        });
        Ok(())
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

/// A listening socket of a network. Its clients are single addresses: link-local ones are all in one prefix.
#[derive(Debug)]
struct NamespaceDoor(TcpListener);

impl Door for NamespaceDoor {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Client)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((stream, Client::Address(peer.ip().to_canonical())))
    }

    fn prepare(stream: &TcpStream, limits: &Limits) {
        <TcpListener as Door>::prepare(stream, limits);
    }
}
