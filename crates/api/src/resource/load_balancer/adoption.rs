//! Adds a load balancer from elsewhere to the world, unchanged.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{aggregate, monitor_port};
use crate::model::{HealthMonitor, Listener, LoadBalancer, Member, Pool};
use crate::{Fault, Txn};

/// A load balancer with all its parts.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) whole: LoadBalancer,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) members: Vec<Member>,
    pub(crate) monitors: Vec<HealthMonitor>,
}

/// Adds all of it with its rows and its ports for probes, or nothing.
pub(crate) fn adopt(txn: &mut Txn, aggregate: Aggregate) -> Result<(), Fault> {
    let Aggregate { whole, listeners, pools, members, monitors } = aggregate;
    let id = whole.id;
    let generation = whole.generation;
    txn.put(whole);
    pools.into_iter().for_each(|pool| drop(txn.put(pool)));
    listeners.into_iter().for_each(|listener| drop(txn.put(listener)));
    members.into_iter().for_each(|member| drop(txn.put(member)));
    monitors.into_iter().for_each(|monitor| drop(txn.put(monitor)));
    let settled = aggregate::settle(txn, id);
    if settled.is_err() {
        aggregate::remove_parts(txn, id, generation);
        // Without parts it needs no ports for probes, so `keep` removes those that were just created.
        monitor_port::keep(txn, id)?;
        txn.remove::<LoadBalancer>(&id);
    }
    settled
}
