//! Notifies Nova when ports of its instances are plugged in, unplugged or deleted.
//!
//! Nova starts an instance only after `network-vif-plugged` for each of its ports, and gives up after `vif_plugging_timeout`. The store
//! contains what Nova was last told ([`PlugNotice`]). So this is a loop like the others: the desired state follows from the World and the
//! report, and the notices are the observed state. A notice is stored after Nova accepted the event. A server that dies in between sends
//! the event again, which Nova accepts.
//!
//! | file | holds |
//! |---|---|
//! | `desired` | the events to send to Nova, and the ports that wait for the metadata service |
//! | `client` | the request to Nova, with Keystone's token and catalog |
//! | this one | the loop, and the notices as its target |
//!
//! Only the server that writes the Northbound runs this loop; otherwise Nova would get each event twice.

mod client;
mod desired;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use ovsdb::client::LockState;
use reconcile::{
    Applied, Class, Driver, Handle, ObjectId, Plan, Scope, StepResult, Target, TargetError, Timing, Waiting,
};
use tokio::sync::watch;
use tracing::warn;
use uuid::Uuid;

use crate::model::{PlugNotice, Port};
use crate::northbound::OvnView;
use crate::placements::waits_for;
use crate::store::Store;
use crate::world::{Outside, Txn};

use client::{EventOutcome, ServerEvent};
pub use client::{InvalidNovaUrl, NovaClient, NovaEndpoint, NovaError, NovaSettings};
pub use desired::NovaEvent;
use desired::{DecideEvents, DueEvents, EventInputs, METADATA_NOT_READY, Notification};

/// Interval between checks of ports that wait for their metadata service.
const RECHECK: Duration = Duration::from_secs(1);

/// The number of events since the start, by outcome. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct NovaCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    outcomes: [AtomicU64; OUTCOMES.len()],
    late: AtomicU64,
}

/// The outcomes that are counted.
const OUTCOMES: [&str; 4] = ["accepted", "no-instance", "refused", "failed"];

impl NovaCounts {
    /// The number of events by outcome.
    pub fn outcomes(&self) -> [(&'static str, u64); OUTCOMES.len()] {
        std::array::from_fn(|index| (OUTCOMES[index], self.0.outcomes[index].load(Ordering::Relaxed)))
    }

    /// The number of ports whose event was sent before their metadata service was ready.
    pub fn late(&self) -> u64 {
        self.0.late.load(Ordering::Relaxed)
    }

    fn add(&self, outcome: &str) {
        let counters = OUTCOMES.iter().zip(&self.0.outcomes).filter(|(name, _)| **name == outcome);
        counters.for_each(|(_, counter)| _ = counter.fetch_add(1, Ordering::Relaxed));
    }
}

/// Builds the loop without running it. Returns its handle and its future.
pub fn start(
    client: NovaClient,
    store: Store,
    outside: watch::Receiver<Arc<Outside>>,
    ovn: &OvnView,
    writer: watch::Receiver<LockState>,
    counts: NovaCounts,
) -> (Handle, impl Future<Output = ()> + Send + use<>) {
    let report = ovn.report();
    let inputs = {
        let (store, report, writer, ovn) = (store.clone(), report.clone(), writer.clone(), ovn.clone());
        let nb = ovn.northbound().status();
        move || {
            if let Some(waiting) = waits_for(nb.borrow().progress, &writer.borrow()) {
                return Err(waiting);
            }
            // Without it, neither the hosts of ports nor the live chassis are known.
            if !ovn.has_seen_southbound() {
                return Err(Waiting("the Southbound database".into()));
            }
            let timeout = outside.borrow().settings.metadata_ready_timeout;
            let report = report.borrow().clone();
            Ok(EventInputs { world: store.world(), report, timeout, now: Timestamp::now() })
        }
    };
    let worlds = store.subscribe();
    let target = NoticeStore { client, store, counts };
    let driver = Driver::new("nova", Timing::default(), inputs, DecideEvents, target);
    let handle = driver.handle();
    handle.follow(worlds);
    handle.follow(report);
    handle.follow(writer);
    let recheck = recheck(handle.clone());
    let run = async move {
        tokio::select! {
            () = driver.run() => {}
            () = recheck => {}
        }
    };
    (handle, run)
}

/// Wakes the loop as long as ports wait for their metadata service, because the end of a wait causes no event.
async fn recheck(handle: Handle) {
    let mut status = handle.status();
    loop {
        let waits = status.borrow_and_update().problems.iter().any(|it| it.code == METADATA_NOT_READY);
        if waits {
            tokio::time::sleep(RECHECK).await;
            handle.wake();
        }
        if status.changed().await.is_err() {
            // The loop has stopped, and its own future ends.
            std::future::pending::<()>().await;
        }
    }
}

/// The stored notices and the client of Nova.
struct NoticeStore {
    client: NovaClient,
    store: Store,
    counts: NovaCounts,
}

impl NoticeStore {
    fn count(&self, notification: &Notification, outcome: &'static str) {
        if notification.event.is_none() {
            return;
        }
        self.counts.add(outcome);
        if outcome == "accepted" && !notification.unready.is_empty() {
            self.counts.0.late.fetch_add(1, Ordering::Relaxed);
            let networks: Vec<String> = notification.unready.iter().map(ToString::to_string).collect();
            warn!(
                port = %notification.port, instance = %notification.instance, networks = networks.join(","),
                "the metadata service is not ready; the server reported the port to Nova as plugged in anyway"
            );
        }
    }

    /// Stores notices in one transaction.
    async fn store(&self, notifications: Vec<Notification>) -> Result<(), TargetError> {
        let stored = self.store.execute(move |txn: &mut Txn| {
            notifications.iter().for_each(|notification| note(txn, notification));
            Ok(())
        });
        let failed = |fault| {
            TargetError::new(Class::Transient, "store the events that were sent to Nova").because(fault)
        };
        stored.await.map(drop).map_err(failed)
    }
}

fn note(txn: &mut Txn, notification: &Notification) {
    let (port_id, instance) = (notification.port, notification.instance);
    // A port that was deleted in the meantime keeps its notice, and the next pass notifies Nova.
    if notification.hosts.is_empty() {
        if txn.get::<PlugNotice>(&port_id).is_some_and(|notice| notice.instance == instance) {
            txn.remove::<PlugNotice>(&port_id);
        }
    } else {
        txn.put(PlugNotice { port_id, instance, hosts: notification.hosts.clone() });
    }
}

impl Target for NoticeStore {
    type Desired = DueEvents;
    type Observed = usize;
    type Op = Notification;

    fn plan(&mut self, due: &DueEvents, _keep: &BTreeSet<ObjectId>, told: &usize) -> Plan<Notification> {
        let mut plan = Plan::new(due.plugged, due.plugged.min(*told));
        for notification in &due.notifications {
            plan.push(ObjectId::new("port", notification.port.to_string()), notification.clone());
        }
        plan
    }

    async fn observe(&mut self, _scope: Scope) -> Result<usize, TargetError> {
        Ok(self.store.world().table::<PlugNotice>().len())
    }

    async fn apply(&mut self, plan: &Plan<Notification>) -> Result<Applied, TargetError> {
        let due: Vec<Notification> = plan.steps.iter().map(|step| step.op.clone()).collect();
        let events: Vec<ServerEvent> = due.iter().filter_map(ServerEvent::of).collect();
        let outcomes = match events.is_empty() {
            true => Vec::new(),
            false => self.client.send(&events).await.map_err(|error| {
                due.iter().for_each(|notification| self.count(notification, "failed"));
                TargetError::new(Class::Transient, "notify Nova about ports").because(error)
            })?,
        };
        let mut outcomes = outcomes.into_iter();
        let mut done = Vec::new();
        let mut results = Vec::new();
        for notification in due {
            let outcome = match notification.event {
                Some(_) => outcomes.next().unwrap_or(EventOutcome::Refused(0)),
                None => EventOutcome::Accepted,
            };
            results.push(match outcome {
                EventOutcome::Accepted => {
                    self.count(&notification, "accepted");
                    done.push(notification);
                    StepResult::Done
                }
                // The instance is gone, so nothing waits for the event.
                EventOutcome::NoInstance => {
                    self.count(&notification, "no-instance");
                    done.push(notification);
                    StepResult::Done
                }
                EventOutcome::Refused(code) => {
                    self.count(&notification, "refused");
                    let cause = client::RefusedEvent(code);
                    StepResult::Failed(
                        TargetError::new(Class::Transient, "notify Nova about the port").because(cause),
                    )
                }
            });
        }
        if !done.is_empty() {
            self.store(done).await?;
        }
        Ok(Applied { results })
    }
}

/// The instance of Nova that a port belongs to, if any.
pub(crate) fn instance_of(port: &Port) -> Option<Uuid> {
    let is_compute = port.device_owner.starts_with("compute:");
    is_compute.then(|| Uuid::try_parse(&port.device_id).ok()).flatten()
}

#[cfg(test)]
mod tests;
