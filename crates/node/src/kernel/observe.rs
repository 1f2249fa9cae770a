//! Reads the kernel, and keeps what was read current.
//!
//! Everything is read once in full. After that the kernel's notifications are applied to it, and it is read again in full
//! when notifications were lost or when a look asks for it. Routes are read again when a device goes down or loses its last
//! address: the kernel removes IPv4 routes then without a word. Proxy entries have no notifications at all and are read every
//! second; there are few. So is the file of names.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use reconcile::Scope;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::neighbour::{NeighbourFlags, NeighbourMessage};
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::rule::RuleMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::decode::{Effect, Memory};
use super::observed::Observed;
use super::state::Family;
use super::tables::RtTables;
use crate::netlink::{Notifications, Raw, Requests};

/// Interval between reads of state that has no notifications.
const POLL: Duration = Duration::from_secs(1);

/// The reason why the kernel could not be read.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No socket.
    #[error("open a netlink socket")]
    Open(#[source] io::Error),
    /// No answer.
    #[error("read the kernel's {what}")]
    Dump {
        /// The request.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No notifications.
    #[error("follow the kernel's notifications")]
    Notifications(#[source] io::Error),
    /// The names of tables are not readable.
    #[error("read {}", path.display())]
    RtTables {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The kernel of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Kernel {
    shared: Arc<Mutex<Inner>>,
    pub(super) rt_tables: PathBuf,
    pub(super) changed: watch::Sender<u64>,
    task: JoinHandle<()>,
}

/// The state that the loop and the follower of notifications share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) memory: Memory,
    pub(super) requests: Requests,
    notifications: Notifications,
    /// The part of the memory that is out of date.
    stale: Effect,
    /// The last modification time of the file of names, and its length.
    named: Option<(SystemTime, u64)>,
    /// Whether the file of names is to be looked at again.
    pub(super) names_due: bool,
}

impl Kernel {
    /// Opens sockets in the namespace of the calling thread and begins to follow. `rt_tables` is iproute2's file of names.
    /// Must be called within a tokio runtime.
    pub fn open(rt_tables: impl Into<PathBuf>) -> Result<Self, KernelError> {
        let inner = Inner {
            memory: Memory::default(),
            requests: Requests::open().map_err(KernelError::Open)?,
            notifications: Notifications::open().map_err(KernelError::Open)?,
            stale: Effect::Lost,
            named: None,
            names_due: true,
        };
        let shared = Arc::new(Mutex::new(inner));
        let changed = watch::Sender::new(0);
        let rt_tables = rt_tables.into();
        let task = task::spawn("kernel", follow(shared.clone(), rt_tables.clone(), changed.clone()));
        Ok(Kernel { shared, rt_tables, changed, task })
    }

    /// Changes whenever something that is observed does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The present state.
    pub fn observe(&self, scope: Scope) -> Result<Arc<Observed>, KernelError> {
        let mut inner = self.lock();
        inner.drain().map_err(KernelError::Notifications)?;
        if scope == Scope::Full {
            inner.stale = Effect::Lost;
        }
        inner.refresh()?;
        if inner.names_due || scope == Scope::Full {
            inner.names(&self.rt_tables)?;
        }
        Ok(inner.memory.seen.clone())
    }

    /// The present state by the kernel's notifications. After a change of our own that is enough, because the kernel notifies before it
    /// acknowledges.
    pub fn glance(&self) -> Arc<Observed> {
        let mut inner = self.lock();
        match inner.drain() {
            // A look that is under way does not see it; another one has to.
            Ok(true) => self.changed.send_modify(|n| *n += 1),
            Ok(false) => {}
            Err(error) => {
                debug!(%error, "the kernel's notifications are not readable");
                inner.stale = Effect::Lost;
            }
        }
        inner.memory.seen.clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.shared)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(shared: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    // What was half done when a thread panicked is read again.
    shared.lock().unwrap_or_else(|poisoned| {
        shared.clear_poison();
        let mut inner = poisoned.into_inner();
        inner.stale = Effect::Lost;
        inner
    })
}

/// Applies notifications as they come, and tells that something changed.
async fn follow(shared: Arc<Mutex<Inner>>, rt_tables: PathBuf, changed: watch::Sender<u64>) {
    let mut tick = tokio::time::interval(POLL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let news = tokio::select! {
            news = poll_fn(|cx| lock(&shared).poll_notifications(cx)) => news,
            _ = tick.tick() => lock(&shared).poll_silent(&rt_tables),
        };
        match news {
            Ok(false) => {}
            Ok(true) => changed.send_modify(|n| *n += 1),
            Err(error) => {
                warn!(%error, "the kernel's notifications are not readable; trying again");
                lock(&shared).stale = Effect::Lost;
                changed.send_modify(|n| *n += 1);
                tokio::time::sleep(POLL).await;
            }
        }
    }
}

impl Inner {
    /// Applies the notifications that have come; whether anything changed.
    fn drain(&mut self) -> io::Result<bool> {
        let mut effect = Effect::None;
        let lost = self.notifications.drain(|raw| effect = effect.max(self.memory.apply(raw)))?;
        Ok(self.note(effect, lost))
    }

    /// The same when any come; whether anything changed.
    fn poll_notifications(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut effect = Effect::None;
        let polled = self.notifications.poll(cx, |raw| effect = effect.max(self.memory.apply(raw)));
        polled.map_ok(|lost| self.note(effect, lost))
    }

    fn note(&mut self, effect: Effect, lost: bool) -> bool {
        if lost {
            debug!("the kernel told more than was read in time; reading everything");
        }
        let effect = if lost { Effect::Lost } else { effect };
        self.stale = self.stale.max(effect);
        effect != Effect::None
    }

    /// Reads again what the memory is behind in.
    fn refresh(&mut self) -> Result<(), KernelError> {
        match self.stale {
            Effect::None | Effect::Changed => {}
            Effect::RoutesStale => self.routes()?,
            Effect::Lost => self.everything()?,
        }
        self.stale = Effect::None;
        Ok(())
    }

    fn everything(&mut self) -> Result<(), KernelError> {
        self.memory.forget();
        let mut links: Vec<(u16, Vec<u8>)> = Vec::new();
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let taken = std::cell::RefCell::new(&mut links);
        self.requests
            .dump(
                request,
                || taken.borrow_mut().clear(),
                |raw| taken.borrow_mut().push((raw.kind, raw.body.to_vec())),
            )
            .map_err(|source| KernelError::Dump { what: "devices", source })?;
        // Twice, as a device may be listed before the one it stands on.
        for _ in 0..2 {
            for (kind, body) in &links {
                self.memory.apply(Raw { kind: *kind, flags: 0, sequence: 0, body });
            }
        }
        self.dump("addresses", RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        self.dump("rules", RouteNetlinkMessage::GetRule(RuleMessage::default()))?;
        self.dump("neighbours", RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()))?;
        self.dump("proxy entries", proxies())?;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let memory = &mut self.memory;
            self.requests
                .dump_netconf(family.into(), |raw| {
                    memory.apply(raw);
                })
                .map_err(|source| KernelError::Dump { what: "switches", source })?;
        }
        self.routes()
    }

    fn routes(&mut self) -> Result<(), KernelError> {
        // That a device goes down, or loses its last address, is told before its routes go.
        let waited = self.requests.wait_for_others();
        waited.map_err(|source| KernelError::Dump { what: "routes", source })?;
        for (family, address_family) in
            [(Family::V4, AddressFamily::Inet), (Family::V6, AddressFamily::Inet6)]
        {
            let mut message = RouteMessage::default();
            message.header.address_family = address_family;
            self.memory.forget_routes(family);
            self.dump("routes", RouteNetlinkMessage::GetRoute(message))?;
        }
        self.memory.routes_read();
        Ok(())
    }

    /// A repeated dump adds what it finds; what it finds no more is told by notifications.
    fn dump(&mut self, what: &'static str, request: RouteNetlinkMessage) -> Result<(), KernelError> {
        let memory = &mut self.memory;
        let each = |raw: Raw<'_>| {
            memory.apply(raw);
        };
        self.requests.dump(request, || {}, each).map_err(|source| KernelError::Dump { what, source })
    }

    /// Reads what has no notifications; whether it changed.
    fn poll_silent(&mut self, rt_tables: &Path) -> io::Result<bool> {
        // A file that cannot be read now is read, and reported, by the next look.
        let before = self.named;
        let renamed = self.names(rt_tables).is_err() || self.named != before;
        self.names_due = renamed;
        if self.stale != Effect::None {
            return Ok(renamed);
        }
        let mut now = Memory::default();
        now.adopt_names(&self.memory);
        self.requests.dump(
            proxies(),
            || {},
            |raw| {
                now.apply(raw);
            },
        )?;
        if now.seen.proxies == self.memory.seen.proxies {
            return Ok(renamed);
        }
        Arc::make_mut(&mut self.memory.seen).proxies = now.seen.proxies.clone();
        Ok(true)
    }

    /// Reads the names of tables again if their file changed. Where there is none, there are no names yet.
    fn names(&mut self, path: &Path) -> Result<(), KernelError> {
        let failed = |source| KernelError::RtTables { path: path.to_owned(), source };
        let stamp = match fs::metadata(path) {
            Ok(metadata) => metadata.modified().ok().map(|time| (time, metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if stamp.is_some() && stamp == self.named {
            self.names_due = false;
            return Ok(());
        }
        let names = match stamp {
            // Bytes that are not text are in comments or in names that are not ours.
            Some(_) => RtTables::parse(&String::from_utf8_lossy(&fs::read(path).map_err(failed)?)),
            None => RtTables::default(),
        };
        self.named = stamp;
        self.names_due = false;
        if self.memory.seen.names != names {
            Arc::make_mut(&mut self.memory.seen).names = names;
        }
        Ok(())
    }
}

fn proxies() -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.flags = NeighbourFlags::Proxy;
    RouteNetlinkMessage::GetNeighbour(message)
}
