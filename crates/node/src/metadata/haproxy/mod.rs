//! A haproxy in each network's namespace, in the place of the built-in listener.
//!
//! haproxy parses what VMs send, and forwards it with network and address to the proxy's unix socket. It runs on while agent and
//! proxy restart: the agent finds it again by its files, and the socket's queue holds requests while the proxy is away.
//!
//! | file | holds |
//! |---|---|
//! | `config` | the configuration of one haproxy |
//! | `files` | its files, and those that nobody needs any more |
//! | `process` | its process |

mod config;
pub(super) mod files;
pub(super) mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use listener::Limits;
use metadata_proxy::control::{Family, ListenerId};
use ovsdb::Uuid;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use self::config::{HaproxyConfig, render};
use self::files::{HaproxyDirectories, HaproxyFiles};
use super::front::{FrontEnd, SeenFrontEnd};
use super::sockets::Sockets;
use super::state::SocketState;
use crate::kernel::Dev;
use crate::netlink::Requests;
use crate::netns::inside::inside;
use crate::netns::link_name;

/// Interval between two looks at the processes.
const WATCH: Duration = Duration::from_secs(1);
/// The beginning of the line that tells a later agent what a file is for.
const NOTE: &str = "# meridian: ";

/// The directories of haproxy's files, and what all of them have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HaproxySettings {
    /// The directories of files.
    pub(super) directories: HaproxyDirectories,
    /// The proxy's socket for requests.
    pub(super) requests: PathBuf,
    /// Limits and timeouts.
    pub(super) limits: Limits,
}

/// What a configuration was made from, in its first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    listeners: BTreeSet<ListenerId>,
    inner: Dev,
    user: (u32, u32),
}

/// A running haproxy.
#[derive(Debug)]
struct Running {
    note: Note,
    namespace: u64,
    pid: i32,
}

#[derive(Debug, Default)]
struct Haproxies {
    running: BTreeMap<Uuid, Running>,
    closing: BTreeSet<ListenerId>,
}

/// The haproxies of all networks.
#[derive(Debug, Clone)]
pub(super) struct HaproxyFrontEnd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: HaproxySettings,
    /// The connection to the proxy, which tells it identities and gives it the socket for requests.
    sockets: Sockets,
    haproxies: Mutex<Haproxies>,
}

impl HaproxyFrontEnd {
    /// Finds the haproxies that a former agent has started.
    pub(super) fn new(settings: HaproxySettings, sockets: Sockets) -> Self {
        let front = HaproxyFrontEnd(Arc::new(Inner { settings, sockets, haproxies: Mutex::default() }));
        for network in front.0.settings.directories.networks() {
            if let Some(running) = front.find(network) {
                front.haproxies().running.insert(network, running);
            }
        }
        front
    }

    fn haproxies(&self) -> MutexGuard<'_, Haproxies> {
        self.0.haproxies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self, network: Uuid) -> HaproxyFiles {
        self.0.settings.directories.files(network)
    }

    fn text(&self, network: Uuid, note: &Note) -> io::Result<String> {
        let families: Vec<Family> = note.listeners.iter().map(|listener| listener.family).collect();
        let config = HaproxyConfig {
            network,
            families: &families,
            inner: &note.inner,
            user: note.user,
            backend: &self.0.settings.requests,
            listeners: &self.files(network).listeners,
            limits: self.0.settings.limits,
        };
        Ok(format!("{NOTE}{}\n{}", serde_json::to_string(note)?, render(&config)))
    }

    /// The haproxy of a network, if it runs with the configuration that it would get now.
    fn find(&self, network: Uuid) -> Option<Running> {
        let files = self.files(network);
        let text = fs::read_to_string(&files.config).ok()?;
        let note: Note = serde_json::from_str(text.lines().next()?.strip_prefix(NOTE)?).ok()?;
        let namespace = note.listeners.first()?.namespace;
        let pid = files.process().filter(|pid| process::runs(*pid, namespace))?;
        (self.text(network, &note).ok()? == text).then_some(Running { note, namespace, pid })
    }

    /// Wakes the loop when a haproxy has ended.
    pub(super) async fn watch(self) {
        let mut ticks = interval(WATCH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let front = self.clone();
            let ended = spawn_blocking(move || {
                let before = front.haproxies().running.len();
                front.drop_ended() < before
            });
            if ended.await.unwrap_or(false) {
                self.0.sockets.change();
            }
        }
    }

    /// Forgets haproxies that have ended; returns the number of those that run.
    fn drop_ended(&self) -> usize {
        let mut haproxies = self.haproxies();
        haproxies.running.retain(|network, running| {
            let lives = process::runs(running.pid, running.namespace);
            if !lives {
                tracing::warn!(%network, pid = running.pid, "a haproxy has ended");
            }
            lives
        });
        haproxies.running.len()
    }
}

impl FrontEnd for HaproxyFrontEnd {
    fn observe(&self) -> SeenFrontEnd {
        let (proxy, is_served) = (self.0.sockets.proxy(), self.0.sockets.serves(ListenerId::FORWARDED));
        let state = if is_served { SocketState::Served } else { SocketState::Held };
        let haproxies = self.haproxies();
        let listeners = haproxies.running.values().flat_map(|running| &running.note.listeners);
        let mut sockets: BTreeMap<ListenerId, SocketState> =
            listeners.map(|listener| (*listener, state)).collect();
        sockets.extend(haproxies.closing.iter().map(|listener| (*listener, SocketState::Closing)));
        let neighbours = self.0.sockets.sockets();
        sockets.extend(neighbours.into_iter().filter(|(id, _)| id.family == Family::Neighbours));
        SeenFrontEnd { sockets, proxy }
    }

    fn listen(&self, namespace: &File, wanted: &BTreeSet<ListenerId>) -> io::Result<()> {
        // haproxy knows nothing of neighbours; the proxy behind it asks for them.
        let (neighbours, wanted): (BTreeSet<ListenerId>, BTreeSet<ListenerId>) =
            wanted.iter().partition(|id| id.family == Family::Neighbours);
        let sockets = &self.0.sockets;
        sockets.listen(namespace, &neighbours)?;
        let Some(network) = wanted.first().map(|id| id.network) else { return Ok(()) };
        if sockets.close_listeners(network) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the sockets of the built-in proxy are being closed first",
            ));
        }
        let user = sockets.peer().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotConnected, "the metadata proxy is not connected")
        })?;
        let inode = namespace.metadata()?.ino();
        let mut haproxies = self.haproxies();
        let before = haproxies.running.get(&network).filter(|running| running.namespace == inode);
        let mut note = Note { listeners: BTreeSet::new(), inner: Dev::default(), user };
        if let Some(running) = before {
            note.listeners = running.note.listeners.clone();
            note.inner = running.note.inner.clone();
        }
        for socket in wanted {
            // A device that was created anew has another index; its former listener is of no use.
            note.listeners.retain(|listener| listener.family != socket.family);
            note.listeners.insert(socket);
            if socket.family == Family::Ipv6 {
                note.inner = inside(namespace, || link_name(&mut Requests::open()?, socket.device))??;
            }
        }
        let files = self.files(network);
        self.0.settings.directories.create()?;
        fs::write(&files.fresh, self.text(network, &note)?)?;
        fs::rename(&files.fresh, &files.config)?;
        // Those of neutron-ovn-metadata-agent are among them: both listen until the new one does.
        let pid = files.start(namespace, &process::haproxies(inode))?;
        haproxies.running.insert(network, Running { note, namespace: inode, pid });
        drop(haproxies);
        sockets.change();
        Ok(())
    }

    fn forget(&self, network: Uuid) {
        self.files(network).remove();
    }

    fn close(&self, socket: ListenerId) {
        if socket.family == Family::Neighbours {
            return self.0.sockets.close(socket);
        }
        let mut haproxies = self.haproxies();
        let Some(running) = haproxies.running.get_mut(&socket.network) else { return };
        running.note.listeners.remove(&socket);
        if !running.note.listeners.is_empty() {
            return;
        }
        let namespace = running.namespace;
        haproxies.running.remove(&socket.network);
        haproxies.closing.insert(socket);
        drop(haproxies);
        let front = self.clone();
        task::spawn("haproxy", async move {
            let ended = spawn_blocking(move || {
                process::end(namespace);
                front.files(socket.network).remove();
                front
            });
            if let Ok(front) = ended.await {
                front.haproxies().closing.remove(&socket);
                front.0.sockets.change();
            }
        });
    }
}
