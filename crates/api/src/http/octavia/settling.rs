//! A part that is deleted is gone at once, and its load balancer is pending for some milliseconds more.
//!
//! Octavia shows a part until its load balancer is ACTIVE again. So clients wait for 404, as `openstack loadbalancer pool delete
//! --wait` does, and then send the next change, which a pending load balancer would refuse with 409. That is why the answer to
//! such a deletion waits a moment for the Northbound.

use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use crate::http::Api;
use crate::model::{HealthMonitor, Listener, LoadBalancer, Member, Pool};
use crate::report::AppliedGeneration;
use crate::resource::Noun;

/// How long the answer waits. Without a Northbound clients get it then, and 409 for their next change.
const MOMENT: Duration = Duration::from_secs(2);

/// The load balancer that a part belongs to, if there is such a part.
pub(super) fn whole_of_part(api: &Api, noun: &dyn Noun, id: &str) -> Option<Uuid> {
    let (world, id) = (api.store.world(), Uuid::try_parse(id).ok()?);
    match noun.name() {
        "listener" => world.get::<Listener>(&id).map(|listener| listener.load_balancer_id),
        "pool" => world.get::<Pool>(&id).map(|pool| pool.load_balancer_id),
        "member" => world.get::<Member>(&id).map(|member| member.load_balancer_id),
        "healthmonitor" => world.get::<HealthMonitor>(&id).map(|monitor| monitor.load_balancer_id),
        _ => None,
    }
}

/// Waits until the Northbound has the last change of a load balancer, for a moment at most.
pub(super) async fn wait(api: &Api, whole: Uuid) {
    let Some(generation) = api.store.world().get::<LoadBalancer>(&whole).map(|whole| whole.generation) else {
        return;
    };
    let mut report = api.report.clone();
    let settled = report.wait_for(|report| match report.applied_generation(whole) {
        AppliedGeneration::At(applied) => applied.is_some_and(|applied| applied >= generation),
        // No Northbound was read since the start: nothing to wait for.
        AppliedGeneration::Unknown | AppliedGeneration::Refused(_) => true,
    });
    drop(timeout(MOMENT, settled).await);
}
