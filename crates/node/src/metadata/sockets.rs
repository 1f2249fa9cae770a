//! Listening sockets in the namespaces, and the connection that brings them to the proxy.
//!
//! The agent keeps a copy of every socket. If the proxy restarts, it gets them again, and clients that connected meanwhile were
//! waiting in their queues. If the agent restarts, it gets its copies back from the proxy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metadata_proxy::control::{Channel, Family, ListenerId, Message};
use metadata_proxy::counts::Counts;
use ovsdb::Uuid;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

use super::desired::{IPV4, IPV6, Identities};
use super::front::{FrontEnd, SeenFrontEnd};
use super::haproxy::files::HaproxyDirectories;
use super::haproxy::process;
use super::state::{ProxyState, SocketState};
use crate::netns::inside::inside;

/// The port of the metadata service.
const PORT: u16 = 80;
/// `AF_NETLINK`.
const NETLINK: i32 = 16;
/// The queue of connections that nobody has accepted yet.
const BACKLOG: i32 = 1024;
/// Interval between two attempts to connect to the proxy.
const RETRY: Duration = Duration::from_millis(200);
/// Interval between two signs that identities are current.
const TICK: Duration = Duration::from_secs(2);
/// How long the proxy may be away before networks are no longer ready: a restart takes less.
const GRACE: Duration = Duration::from_secs(20);
/// How long the proxy may take to read or to send a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whose data a request may get.
#[derive(Debug, Clone)]
pub(super) enum Knowledge {
    /// The identities, which are current.
    Current(Arc<Identities>),
    /// They were, a moment ago; the proxy uses them for as long as it was told.
    Unknown,
    /// They are not: OVN does not know this chassis.
    Revoked,
}

/// Where the connection's task gets the current state from.
pub(super) struct Feed {
    /// The proxy's socket.
    pub(super) control: PathBuf,
    /// Changes when identities may have changed.
    pub(super) news: watch::Receiver<u64>,
    /// The identities at this moment.
    pub(super) knowledge: Box<dyn Fn() -> Knowledge + Send + Sync>,
    /// How long the proxy may use them without news.
    pub(super) stale: Duration,
    /// The unix socket for requests from haproxy, where there are any.
    pub(super) forward: Option<PathBuf>,
}

#[derive(Debug)]
struct Table {
    /// User and group of the proxy, while it is connected.
    peer: Option<(u32, u32)>,
    /// The time since when it has not been connected.
    away: Instant,
    held: BTreeMap<ListenerId, Arc<OwnedFd>>,
    served: BTreeSet<ListenerId>,
    closing: BTreeSet<ListenerId>,
    /// Those of which the proxy has to be told.
    close: BTreeSet<ListenerId>,
    /// The last counts of the proxy.
    counts: Option<Counts>,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            peer: None,
            away: Instant::now(),
            held: BTreeMap::new(),
            served: BTreeSet::new(),
            closing: BTreeSet::new(),
            close: BTreeSet::new(),
            counts: None,
        }
    }
}

/// All listening sockets.
#[derive(Debug, Clone, Default)]
pub(super) struct Sockets(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The files of haproxies, of which this front end takes the place.
    haproxies: HaproxyDirectories,
    table: Mutex<Table>,
    work: Notify,
    changed: watch::Sender<u64>,
}

impl Sockets {
    /// Sockets in the place of the haproxies that have their files in these directories.
    pub(super) fn new(haproxies: HaproxyDirectories) -> Self {
        Sockets(Arc::new(Inner { haproxies, ..Inner::default() }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes when a socket does.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Wakes the loop.
    pub(super) fn change(&self) {
        self.0.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// The proxy.
    pub(super) fn proxy(&self) -> ProxyState {
        let table = self.table();
        match table.peer {
            Some(_) => ProxyState::Connected,
            None if table.away.elapsed() < GRACE => ProxyState::Restarting,
            None => ProxyState::Away,
        }
    }

    /// User and group of the proxy, while it is connected.
    pub(super) fn peer(&self) -> Option<(u32, u32)> {
        self.table().peer
    }

    /// The last counts of the proxy, if there are any.
    pub(super) fn counts(&self) -> Option<Counts> {
        self.table().counts.clone()
    }

    /// Whether the proxy has a socket.
    pub(super) fn serves(&self, id: ListenerId) -> bool {
        self.table().served.contains(&id)
    }

    /// Closes all listening sockets of a network; whether there were any.
    pub(super) fn close_listeners(&self, network: Uuid) -> bool {
        let table = self.table();
        let held = table.held.keys().chain(&table.closing);
        let held = held.filter(|id| id.network == network && id.family != Family::Neighbours);
        let ids: BTreeSet<ListenerId> = held.copied().collect();
        drop(table);
        ids.iter().for_each(|id| self.shut(*id));
        !ids.is_empty()
    }

    /// The states of all sockets.
    pub(super) fn sockets(&self) -> BTreeMap<ListenerId, SocketState> {
        let table = self.table();
        let state = |id: &ListenerId| match table.served.contains(id) {
            true => SocketState::Served,
            false => SocketState::Held,
        };
        let mut sockets: BTreeMap<ListenerId, SocketState> =
            table.held.keys().map(|id| (*id, state(id))).collect();
        sockets.extend(table.closing.iter().map(|id| (*id, SocketState::Closing)));
        sockets.remove(&ListenerId::FORWARDED);
        sockets
    }

    /// Adds a socket.
    fn add(&self, id: ListenerId, socket: OwnedFd) {
        self.table().held.insert(id, Arc::new(socket));
        self.0.work.notify_one();
        self.change();
    }

    /// Closes our copy of a socket, and has the proxy close its own.
    fn shut(&self, id: ListenerId) {
        let mut table = self.table();
        table.held.remove(&id);
        if table.served.remove(&id) {
            table.closing.insert(id);
            table.close.insert(id);
        }
        drop(table);
        self.0.work.notify_one();
        self.change();
    }

    /// Keeps the proxy connected and up to date, for ever.
    pub(super) async fn follow(self, mut feed: Feed) {
        let (mut told, mut is_away) = (false, false);
        loop {
            let now_away = self.proxy() == ProxyState::Away;
            if std::mem::replace(&mut is_away, now_away) != now_away {
                self.change();
            }
            match Channel::connect(&feed.control) {
                Ok(channel) => {
                    told = false;
                    let ended = self.converse(&channel, &mut feed).await;
                    info!(error = ended.err().map(|error| error.to_string()), "the metadata proxy has gone");
                    let mut table = self.table();
                    table.peer = None;
                    table.away = Instant::now();
                    table.served.clear();
                    // A proxy that is gone has closed its sockets. One that is not tells of them when it is connected again.
                    table.closing.clear();
                    table.close.clear();
                    drop(table);
                    self.change();
                }
                Err(error) if !told => {
                    told = true;
                    warn!(%error, control = %feed.control.display(), "cannot connect to the metadata proxy");
                }
                Err(_) => {}
            }
            sleep(RETRY).await;
        }
    }

    async fn converse(&self, channel: &Channel, feed: &mut Feed) -> io::Result<()> {
        self.greet(channel, feed.forward.as_deref()).await?;
        info!("the metadata proxy is connected");
        let mut told = Arc::<Identities>::default();
        let (mut valid, mut due) = (None, true);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Identities come before sockets: a request that waits in a socket's queue is to be known.
            feed.news.mark_unchanged();
            let now = match (feed.knowledge)() {
                Knowledge::Current(now) => {
                    tell(channel, &told, &now).await?;
                    told = now;
                    Some(feed.stale)
                }
                Knowledge::Unknown => None,
                Knowledge::Revoked => Some(Duration::ZERO),
            };
            // Only for the identities that the proxy has by now.
            if let Some(now) = now.filter(|_| due || valid != now) {
                let milliseconds = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
                send(channel, &Message::Valid { milliseconds }, None).await?;
                (valid, due) = (Some(now), false);
            }
            self.hand_over(channel).await?;
            tokio::select! {
                changed = feed.news.changed() => if changed.is_err() { return Ok(()) },
                () = self.0.work.notified() => {}
                _ = ticks.tick() => due = true,
                received = channel.receive() => match received? {
                    Some((Message::Closed(id), _)) => {
                        self.table().closing.remove(&id);
                        self.change();
                    }
                    Some((Message::Counts(counts), _)) => self.table().counts = Some(counts),
                    Some(_) => {}
                    None => return Ok(()),
                },
            }
        }
    }

    /// Receives the sockets that the proxy has.
    async fn greet(&self, channel: &Channel, forward: Option<&Path>) -> io::Result<()> {
        let peer = channel.peer()?;
        let mut theirs = BTreeMap::new();
        loop {
            let received = timeout(PATIENCE, channel.receive()).await.map_err(|_| io::ErrorKind::TimedOut)?;
            match received?.ok_or(io::ErrorKind::UnexpectedEof)? {
                (Message::Listener(id), Some(socket)) => _ = theirs.insert(id, socket),
                (Message::Complete, _) => break,
                (message, _) => debug!(?message, "the proxy sent a message without sense"),
            }
        }
        let mut table = self.table();
        table.peer = Some(peer);
        table.served = theirs.keys().copied().collect();
        for (id, socket) in theirs {
            table.held.entry(id).or_insert_with(|| Arc::new(socket));
        }
        let lacks = !table.held.contains_key(&ListenerId::FORWARDED);
        drop(table);
        if let Some(path) = forward.filter(|_| lacks) {
            self.add(ListenerId::FORWARDED, bind_forwarded(path, peer)?);
        }
        self.change();
        Ok(())
    }

    /// Sends the sockets that the proxy lacks, and those that it is to close.
    async fn hand_over(&self, channel: &Channel) -> io::Result<()> {
        let (new, close) = {
            let mut table = self.table();
            let new = table.held.iter().filter(|(id, _)| !table.served.contains(id));
            let new: Vec<(ListenerId, Arc<OwnedFd>)> =
                new.map(|(id, socket)| (*id, Arc::clone(socket))).collect();
            (new, std::mem::take(&mut table.close))
        };
        for id in close {
            send(channel, &Message::Close(id), None).await?;
        }
        for (id, socket) in new {
            send(channel, &Message::Listener(id), Some(&socket)).await?;
            let mut table = self.table();
            match table.held.contains_key(&id) {
                true => _ = table.served.insert(id),
                // It was closed while it was being sent.
                false => _ = (table.closing.insert(id), table.close.insert(id)),
            }
            drop(table);
            self.change();
        }
        Ok(())
    }
}

/// Sends the ports of networks that have changed.
async fn tell(channel: &Channel, before: &Identities, now: &Identities) -> io::Result<()> {
    for (network, ports) in now.iter().filter(|(network, ports)| before.get(*network) != Some(ports)) {
        for message in Message::ports(*network, ports) {
            send(channel, &message, None).await?;
        }
    }
    // A network without VMs has an empty table, so that its namespace answers 404.
    for network in before.keys().filter(|network| !now.contains_key(*network)) {
        for message in Message::ports(*network, &[]) {
            send(channel, &message, None).await?;
        }
    }
    Ok(())
}

async fn send(channel: &Channel, message: &Message, socket: Option<&Arc<OwnedFd>>) -> io::Result<()> {
    let socket = socket.map(|socket| socket.as_fd());
    timeout(PATIENCE, channel.send(message, socket)).await.map_err(|_| io::ErrorKind::TimedOut)?
}

impl FrontEnd for Sockets {
    fn observe(&self) -> SeenFrontEnd {
        SeenFrontEnd { sockets: self.sockets(), proxy: self.proxy() }
    }

    fn listen(&self, namespace: &File, sockets: &BTreeSet<ListenerId>) -> io::Result<()> {
        let mut former = BTreeMap::new();
        for socket in sockets {
            let opened = match open(namespace, *socket, Sharing::Alone) {
                // A haproxy of neutron-ovn-metadata-agent, or of our other front end. Both listen for a moment, so that no client
                // is refused, and then the haproxy finishes its requests and ends.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let haproxies = process::haproxies(namespace.metadata()?.ino());
                    if haproxies.is_empty() {
                        return Err(error);
                    }
                    let opened = open(namespace, *socket, Sharing::WithHaproxy)?;
                    former.insert(socket.network, haproxies);
                    opened
                }
                opened => opened?,
            };
            self.add(*socket, opened);
        }
        // Not before all families have their sockets.
        for (network, haproxies) in former {
            info!(%network, ?haproxies, "taking over from haproxy");
            process::retire(&haproxies);
            self.forget(network);
        }
        Ok(())
    }

    fn close(&self, socket: ListenerId) {
        self.shut(socket);
    }

    fn forget(&self, network: Uuid) {
        self.0.haproxies.files(network).remove();
    }
}

/// Opens the unix socket for requests from haproxy, which belongs to the proxy's user alone.
fn bind_forwarded(path: &Path, (user, group): (u32, u32)) -> io::Result<OwnedFd> {
    // Bound under another name, so that nobody connects before owner and mode are right.
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(&fresh)?)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
    std::os::unix::fs::chown(&fresh, Some(user), Some(group))?;
    socket.listen(BACKLOG)?;
    fs::rename(&fresh, path)?;
    Ok(socket.into())
}

/// Whether another process may listen on the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Alone,
    WithHaproxy,
}

/// Opens a socket in a namespace.
fn open(namespace: &File, id: ListenerId, sharing: Sharing) -> io::Result<OwnedFd> {
    inside(namespace, || {
        if id.family == Family::Neighbours {
            let socket = Socket::new(Domain::from(NETLINK), Type::RAW, None)?;
            socket.set_nonblocking(true)?;
            return Ok(OwnedFd::from(socket));
        }
        let (domain, address) = match id.family {
            Family::Ipv4 => (Domain::IPV4, SocketAddr::from((IPV4, PORT))),
            Family::Ipv6 => (Domain::IPV6, SocketAddrV6::new(IPV6, PORT, 0, id.device).into()),
            Family::Neighbours | Family::Forwarded => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if sharing == Sharing::WithHaproxy {
            socket.set_reuse_port(true)?;
        }
        if id.family == Family::Ipv6 {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(OwnedFd::from(socket))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata_proxy::control::ControlSocket;
    use metadata_proxy::identity::PortIdentity;

    const NETWORK: Uuid = Uuid::from_u128(1);

    fn of(instance: &str) -> Knowledge {
        let addresses = ["10.0.1.5".parse().unwrap()].into();
        let port =
            PortIdentity { instance: instance.into(), project: "p".into(), addresses, macs: BTreeSet::new() };
        Knowledge::Current(Arc::new([(NETWORK, vec![port])].into()))
    }

    /// The next message that is no repetition: its instance, or the time that identities are valid for.
    async fn next(proxy: &Channel, last: &mut String) -> String {
        for _ in 0..20 {
            let text = match proxy.receive().await.unwrap().unwrap().0 {
                Message::Ports { ports, .. } => {
                    ports.first().map_or("none", |port| &port.instance).to_owned()
                }
                Message::Valid { milliseconds } => milliseconds.to_string(),
                other => panic!("{other:?}"),
            };
            if text != *last {
                last.clone_from(&text);
                return text;
            }
        }
        panic!("the proxy hears nothing but {last:?}");
    }

    #[tokio::test]
    async fn the_proxy_has_each_change_before_identities_are_called_current() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let control = ControlSocket::bind(&path).unwrap();
        let known = Arc::new(Mutex::new(of("vm1")));
        let news = watch::Sender::new(0);
        let feed = Feed {
            control: path,
            news: news.subscribe(),
            knowledge: {
                let known = Arc::clone(&known);
                Box::new(move || known.lock().unwrap().clone())
            },
            stale: Duration::from_secs(60),
            forward: None,
        };
        let following = tokio::spawn(Sockets::default().follow(feed));
        let proxy = control.accept().await.unwrap();
        proxy.send(&Message::Complete, None).await.unwrap();
        let mut last = String::new();
        assert_eq!(next(&proxy, &mut last).await, "vm1");
        assert_eq!(next(&proxy, &mut last).await, "60000");
        // A tick that comes without a word of the database brings the change nevertheless, and first.
        *known.lock().unwrap() = of("vm2");
        assert_eq!(next(&proxy, &mut last).await, "vm2");
        assert_eq!(next(&proxy, &mut last).await, "60000");
        // Doubt is told at once, and so is its end. A network without ports has an empty table.
        let empty = Knowledge::Current(Arc::default());
        for (now, expected) in [(Knowledge::Revoked, "0"), (of("vm2"), "60000"), (empty, "none")] {
            *known.lock().unwrap() = now;
            news.send_modify(|n| *n += 1);
            assert_eq!(next(&proxy, &mut last).await, expected);
        }
        following.abort();
    }
}
