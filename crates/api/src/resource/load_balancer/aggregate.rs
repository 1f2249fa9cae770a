//! The steps of every write to a load balancer or its parts, which change together.
//!
//! A write begins with [`check_mutable`] and [`begin`], changes parts, marks the parts that depend on them, and ends with [`settle`].

use std::sync::Arc;

use uuid::Uuid;

use super::monitor_port;
use super::status::{self, Provisioning};
use crate::dialect::octavia::{absent, conflict};
use crate::model::{HealthMonitor, Listener, LoadBalancer, Member, Pool, RowGroup, RowSlot};
use crate::world::{Kind, Link, World};
use crate::{Fault, Txn};

/// The load balancer with this id, or 404.
pub(in crate::resource) fn found(world: &World, id: Uuid) -> Result<&Arc<LoadBalancer>, Fault> {
    world.get::<LoadBalancer>(&id).ok_or_else(|| absent("Load Balancer", id))
}

/// The provisioning status of a load balancer, for a request that wants to change it.
pub(super) fn provisioning(txn: &Txn, load_balancer: &LoadBalancer) -> Provisioning {
    let applied = status::applied(txn.report(), load_balancer);
    status::provisioning(load_balancer, status::own_generation(load_balancer), applied, txn.now())
}

/// Refuses to change a part while the load balancer is pending. A failed load balancer can only be deleted.
pub(in crate::resource) fn check_mutable(txn: &Txn, id: Uuid) -> Result<(), Fault> {
    match provisioning(txn, found(txn, id)?) {
        Provisioning::Active => Ok(()),
        _ => Err(conflict(format!("Load Balancer {id} is immutable and cannot be updated."))),
    }
}

/// Refuses a request with several objects in Octavia's order: its API checks all of them before the provider refuses one.
///
/// An object that the provider refuses (501) does not end the checks, so that a fault of a later object comes first.
#[derive(Debug, Default)]
pub(in crate::resource) struct UnsupportedLast {
    first: Option<Fault>,
}

impl UnsupportedLast {
    /// The created object, or none if the provider refuses it.
    pub(in crate::resource) fn pass<T>(&mut self, made: Result<T, Fault>) -> Result<Option<T>, Fault> {
        match made {
            Ok(made) => Ok(Some(made)),
            Err(fault) if fault.status == 501 => {
                self.first.get_or_insert(fault);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The first refusal of the provider, if there is one. The caller drops the transaction then.
    pub(in crate::resource) fn finish(self) -> Result<(), Fault> {
        self.first.map_or(Ok(()), Err)
    }
}

/// Begins a write and returns its new generation.
pub(in crate::resource) fn begin(txn: &mut Txn, id: Uuid) -> u64 {
    let now = txn.now();
    let whole = txn.edit::<LoadBalancer>(&id, |whole| {
        whole.generation += 1;
        whole.changed_at = now;
    });
    whole.map_or(0, |whole| whole.generation)
}

/// Marks a listener as changed.
pub(in crate::resource) fn mark_listener(txn: &mut Txn, id: Uuid, generation: u64) {
    txn.edit::<Listener>(&id, |listener| listener.generation.changed = generation);
}

/// Marks a pool and the listeners that pass connections to it as changed.
pub(in crate::resource) fn mark_pool(txn: &mut Txn, id: Uuid, generation: u64) {
    txn.edit::<Pool>(&id, |pool| pool.generation.changed = generation);
    for listener in ids::<Listener>(txn, Link::ListenersOfPool(id), |listener| listener.id) {
        mark_listener(txn, listener, generation);
    }
}

/// Ends a write: assigns rows to the present parts, and creates the ports for probes in the subnets of probed members.
pub(in crate::resource) fn settle(txn: &mut Txn, id: Uuid) -> Result<(), Fault> {
    let pools: Vec<_> = txn.linked::<Pool>(Link::Inside(Kind::Pool, id)).cloned().collect();
    let listeners: Vec<_> = txn.linked::<Listener>(Link::Inside(Kind::Listener, id)).cloned().collect();
    let needed = RowGroup::needed(pools.iter().map(|it| &**it), listeners.iter().map(|it| &**it));
    txn.edit::<LoadBalancer>(&id, |whole| whole.rows = RowSlot::assign(&whole.rows, &needed));
    monitor_port::keep(txn, id)
}

/// The ordinal of the next member of the load balancer.
pub(in crate::resource) fn next_ordinal(txn: &mut Txn, id: Uuid) -> u64 {
    let whole = txn.edit::<LoadBalancer>(&id, |whole| whole.members_made += 1);
    whole.map_or(0, |whole| whole.members_made.saturating_sub(1))
}

/// Deletes a pool with its members and its health monitor. Its listeners stay without a pool.
pub(in crate::resource) fn remove_pool(txn: &mut Txn, id: Uuid, generation: u64) {
    for listener in ids::<Listener>(txn, Link::ListenersOfPool(id), |listener| listener.id) {
        txn.edit::<Listener>(&listener, |listener| {
            listener.default_pool_id = None;
            listener.generation.changed = generation;
        });
    }
    for member in ids::<Member>(txn, Link::Inside(Kind::Member, id), |member| member.id) {
        txn.remove::<Member>(&member);
    }
    for monitor in ids::<HealthMonitor>(txn, Link::Inside(Kind::HealthMonitor, id), |monitor| monitor.id) {
        txn.remove::<HealthMonitor>(&monitor);
    }
    txn.remove::<Pool>(&id);
}

/// Deletes all parts of a load balancer.
pub(super) fn remove_parts(txn: &mut Txn, id: Uuid, generation: u64) {
    for pool in ids::<Pool>(txn, Link::Inside(Kind::Pool, id), |pool| pool.id) {
        remove_pool(txn, pool, generation);
    }
    for listener in ids::<Listener>(txn, Link::Inside(Kind::Listener, id), |listener| listener.id) {
        txn.remove::<Listener>(&listener);
    }
}

fn ids<T: crate::world::Entity<Key = Uuid>>(world: &World, link: Link, id: fn(&T) -> Uuid) -> Vec<Uuid> {
    world.linked::<T>(link).map(|entity| id(entity)).collect()
}
