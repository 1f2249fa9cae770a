//! The manager as a program: the lease, the watches and the loop.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use reconcile::{Driver, Handle, Metrics, Timing, Waiting};
use tokio::sync::watch;
use tracing::info;

use super::desired::ManagerDecider;
use super::lease::{Lease, LeaseSettings};
use super::settings::ManagerSettings;
use super::target::{ApiTarget, PROGRAM};
use crate::cluster::kind::Reader;
use crate::cluster::{ApiWriter, Inventory};

/// The component's name in the status and the metrics.
const COMPONENT: &str = "kube-manager";
/// Time for the loop to end.
const GOODBYE: Duration = Duration::from_secs(10);

/// The reason why the manager ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// Another process may write now, so this one must read everything again before it does.
    #[error("the lease was lost: another process may have it; start the manager again")]
    LeaseLost,
}

/// The parts of a manager that the program around it provides.
pub struct ManagerParts {
    /// The API.
    pub client: Client,
    /// The settings.
    pub settings: ManagerSettings,
    /// The lease.
    pub lease: LeaseSettings,
    /// The loop's metrics.
    pub metrics: Metrics,
    /// Gets the loop's handle as soon as this process has the lease.
    pub handle: watch::Sender<Option<Handle>>,
}

/// Runs a manager until `stop`, or until it loses the lease.
pub async fn run(parts: ManagerParts, stop: impl Future<Output = ()>) -> Result<(), ManagerError> {
    let ManagerParts { client, settings, lease, metrics, handle: handles } = parts;
    let mut lease = Lease::new(client.clone(), lease);
    let guard = lease.subscribe();
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = lease.acquire() => {}
        () = &mut stop => return Ok(()),
    }
    // Only now: an older copy may lack what the process before this one has written.
    let inventory = Inventory::new(Reader::Manager);
    let _watches = inventory.start(&client);
    let copy = inventory.subscribe();
    let inputs = move || {
        let copy = copy.borrow();
        if let Some((kind, cause)) = copy.missing.first_key_value() {
            return Err(Waiting(format!("the list of {}: {cause}", kind.as_str())));
        }
        let mut snapshot = copy.snapshot.clone();
        snapshot.now = Timestamp::now().as_second();
        Ok(snapshot)
    };
    let changes = inventory.subscribe();
    let target = ApiTarget(ApiWriter::new(client, inventory, guard, PROGRAM));
    let timing = Timing { resync: Duration::from_secs(30), ..Timing::default() };
    let driver =
        Driver::new(COMPONENT, timing, inputs, ManagerDecider::new(settings), target).with_metrics(metrics);
    let handle = driver.handle();
    handle.follow(changes);
    handles.send_replace(Some(handle.clone()));
    let running = task::spawn(COMPONENT, driver.run());
    let result = tokio::select! {
        () = lease.keep() => Err(ManagerError::LeaseLost),
        () = &mut stop => Ok(()),
    };
    handle.stop();
    let ended = tokio::time::timeout(GOODBYE, running).await.is_ok();
    info!(component = COMPONENT, ended, "stopped");
    if ended {
        // Nothing is on its way any more, so the next process need not wait.
        lease.release().await;
    }
    result
}
