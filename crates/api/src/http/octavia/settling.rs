//! Delays the response to the deletion of a part until its load balancer is `ACTIVE` again.
//!
//! A deleted part is gone at once, while its load balancer stays pending for some milliseconds. Octavia shows a part until its load
//! balancer is ACTIVE again. So clients wait for 404, as `openstack loadbalancer pool delete --wait` does, and then send the next change,
//! which a pending load balancer would refuse with 409. Therefore the response to such a deletion waits briefly for the Northbound.

use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use crate::http::Api;
use crate::model::{HealthMonitor, Listener, LoadBalancer, Member, Pool};
use crate::report::AppliedGeneration;
use crate::resource::Noun;

/// The maximum delay. If the Northbound is unreachable, clients get the response then, and 409 for their next change.
const MOMENT: Duration = Duration::from_secs(2);

/// The load balancer that a part belongs to, if the part exists.
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

/// Waits until the Northbound has the last change of a load balancer, at most `MOMENT`.
pub(super) async fn wait(api: &Api, whole: Uuid) {
    let Some(generation) = api.store.world().get::<LoadBalancer>(&whole).map(|whole| whole.generation) else {
        return;
    };
    let mut report = api.report.clone();
    let settled = report.wait_for(|report| match report.applied_generation(whole) {
        AppliedGeneration::At(applied) => applied.is_some_and(|applied| applied >= generation),
        // The server has not read the Northbound since its start, so waiting is useless.
        AppliedGeneration::Unknown { .. } | AppliedGeneration::Refused(_) => true,
    });
    drop(timeout(MOMENT, settled).await);
}
