//! The lease that lets one process write.
//!
//! A holder renews its lease long before the end and stops writing some time before others may take over. That time covers
//! requests that are on their way. Clocks of machines are never compared: a process that waits measures, on its own clock, for how
//! long the lease has not changed.
//!
//! This is not a crate's election: those tell that somebody leads, and not until when. Every write of this manager asks for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::cluster::Permission;

/// The lease's name, its holder and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The name of this process, unique among all that want the lease.
    pub holder: String,
    /// Others take the lease when it has not changed for this long.
    pub duration: Duration,
    /// The holder stops writing when it has not renewed the lease for this long. Shorter than `duration`.
    pub deadline: Duration,
    /// The time between two attempts.
    pub interval: Duration,
}

impl LeaseSettings {
    /// The usual times.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        holder: impl Into<String>,
    ) -> LeaseSettings {
        LeaseSettings {
            namespace: namespace.into(),
            name: name.into(),
            holder: holder.into(),
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            interval: Duration::from_secs(2),
        }
    }
}

/// The state of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody has asked yet.
    Unknown,
    /// Another process has it.
    Other(String),
    /// This process has it, until this instant at least.
    Held(Instant),
}

/// A lease, wanted or held.
#[derive(Debug)]
pub struct Lease {
    api: Api<LeaseObject>,
    settings: LeaseSettings,
    state: watch::Sender<LeaseState>,
    /// The last seen version of another holder's lease, and since when.
    seen: Option<(String, Instant)>,
    /// The version that this process wrote last.
    written: Option<u64>,
}

impl Lease {
    /// A lease that nobody has asked for yet.
    pub fn new(client: Client, settings: LeaseSettings) -> Lease {
        let api = Api::namespaced(client, &settings.namespace);
        Lease { api, settings, state: watch::Sender::new(LeaseState::Unknown), seen: None, written: None }
    }

    /// The state, now and later.
    pub fn subscribe(&self) -> LeaseGuard {
        LeaseGuard { state: Arc::new(self.state.subscribe()) }
    }

    /// Waits until this process has the lease.
    pub async fn acquire(&mut self) {
        loop {
            match tokio::time::timeout(self.settings.deadline, self.attempt()).await {
                Ok(Ok(true)) => {
                    info!(lease = %self.settings.name, holder = %self.settings.holder, "lease acquired");
                    return;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => warn!(lease = %self.settings.name, %error, "cannot acquire the lease"),
                Err(_) => warn!(lease = %self.settings.name, "cannot acquire the lease: no answer"),
            }
            tokio::time::sleep(self.settings.interval).await;
        }
    }

    /// Renews the lease until it is lost.
    pub async fn keep(&mut self) {
        loop {
            let LeaseState::Held(until) = *self.state.borrow() else { return };
            tokio::time::sleep(self.settings.interval.min(until.saturating_duration_since(Instant::now())))
                .await;
            let left = until.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return,
                Ok(Err(error)) => debug!(lease = %self.settings.name, %error, "cannot renew the lease"),
                Err(_) => {
                    warn!(lease = %self.settings.name, "the lease ran out");
                    self.state.send_replace(LeaseState::Unknown);
                    return;
                }
            }
        }
    }

    /// Gives the lease up, so that another process need not wait for its end.
    pub async fn release(&mut self) {
        if !matches!(*self.state.borrow(), LeaseState::Held(_)) {
            return;
        }
        // From here on this process writes nothing any more.
        self.state.send_replace(LeaseState::Unknown);
        let Ok(Some(mut lease)) = self.api.get_opt(&self.settings.name).await else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.settings.holder) {
            spec.holder_identity = Some(String::new());
            let result = self.api.replace(&self.settings.name, &PostParams::default(), &lease).await;
            debug!(lease = %self.settings.name, released = result.is_ok(), "lease released");
        }
    }

    /// Takes or renews the lease if that is possible now.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        // Before the request: the lease runs from when the server writes it, which is later.
        let begin = Instant::now();
        let found = self.api.get_opt(&self.settings.name).await?;
        let is_held = matches!(*self.state.borrow(), LeaseState::Held(_));
        if is_held && found.as_ref().and_then(version_of) < self.written {
            // The watches would wait for versions that come again for other objects.
            warn!(lease = %self.settings.name, "the API server went back to older objects, as after a restore; starting over");
            self.state.send_replace(LeaseState::Unknown);
            return Ok(false);
        }
        let Some(mut lease) = found else {
            let metadata = ObjectMeta { name: Some(self.settings.name.clone()), ..ObjectMeta::default() };
            let mut lease = LeaseObject { metadata, ..LeaseObject::default() };
            self.claim(&mut lease, None);
            let created = self.api.create(&PostParams::default(), &lease).await;
            return self.conclude(begin, created);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.settings.holder && !holder.is_empty() {
            let version = lease.metadata.resource_version.clone().unwrap_or_default();
            match &self.seen {
                Some((seen, since)) if *seen == version => {
                    if since.elapsed() < self.settings.duration {
                        return Ok(self.belongs_to(holder));
                    }
                    info!(lease = %self.settings.name, %holder, "the lease's holder does not renew it; taking it over");
                }
                _ => {
                    self.seen = Some((version, Instant::now()));
                    return Ok(self.belongs_to(holder));
                }
            }
        }
        let is_renewal =
            holder == self.settings.holder && matches!(*self.state.borrow(), LeaseState::Held(_));
        self.claim(&mut lease, is_renewal.then_some(spec));
        let replaced = self.api.replace(&self.settings.name, &PostParams::default(), &lease).await;
        self.conclude(begin, replaced)
    }

    fn belongs_to(&self, holder: String) -> bool {
        self.state.send_replace(LeaseState::Other(holder));
        false
    }

    fn claim(&self, lease: &mut LeaseObject, renewed: Option<LeaseSpec>) {
        let now = MicroTime(Timestamp::now());
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.settings.holder.clone()),
            lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
            acquire_time: renewed.as_ref().and_then(|spec| spec.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if renewed.is_some() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        });
    }

    fn conclude(
        &mut self,
        begin: Instant,
        result: Result<LeaseObject, kube::Error>,
    ) -> Result<bool, kube::Error> {
        match result {
            Ok(lease) => {
                self.seen = None;
                self.written = version_of(&lease);
                self.state.send_replace(LeaseState::Held(begin + self.settings.deadline));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                // Another process was faster.
                self.state.send_replace(LeaseState::Unknown);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// The version of a lease as a number.
fn version_of(lease: &LeaseObject) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

/// Tells for how long this process may write.
#[derive(Clone, Debug)]
pub struct LeaseGuard {
    state: Arc<watch::Receiver<LeaseState>>,
}

impl Permission for LeaseGuard {
    fn remaining(&self) -> Option<Duration> {
        match &*self.state.borrow() {
            LeaseState::Held(until) => {
                Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
            }
            LeaseState::Unknown | LeaseState::Other(_) => None,
        }
    }
}
