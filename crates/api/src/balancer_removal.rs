//! Removes deleted load balancers once the Northbound has none of their rows.
//!
//! A request that deletes a load balancer only marks it: while OVN still answers for its VIP, no other port may get that address. When the
//! report contains no row of it any more, this loop removes the load balancer and its automatically created VIP ports, in one transaction
//! of the store. Only the server that writes the Northbound runs this loop; otherwise two servers would react to one event.

use std::collections::BTreeSet;
use std::fmt;

use ovsdb::client::LockState;
use reconcile::{
    Applied, Class, Desire, Driver, Handle, ObjectId, Outcome, Plan, Scope, Target, TargetError, Timing,
};
use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

use crate::model::LoadBalancer;
use crate::placements::waits_for;
use crate::report::Report;
use crate::resource::port;
use crate::store::Store;
use crate::world::{Link, Txn, World};

/// Builds the loop without running it. Returns its handle and its driver.
pub fn start(
    store: Store,
    report: watch::Receiver<Report>,
    northbound: &ovsdb::Client,
    writer: watch::Receiver<LockState>,
) -> (Handle, impl Future<Output = ()> + Send + use<>) {
    let inputs = {
        let (store, report, writer) = (store.clone(), report.clone(), writer.clone());
        let nb = northbound.status();
        move || match waits_for(nb.borrow().progress, &writer.borrow()) {
            Some(waiting) => Err(waiting),
            None => Ok((store.world(), report.borrow().clone())),
        }
    };
    let worlds = store.subscribe();
    let driver =
        Driver::new("balancer-removal", Timing::default(), inputs, RemoveDeleted, BalancerStore { store });
    let handle = driver.handle();
    handle.follow(worlds);
    handle.follow(report);
    handle.follow(writer);
    (handle, driver.run())
}

/// Decides which load balancers to remove.
struct RemoveDeleted;

impl Desire for RemoveDeleted {
    type Snapshot = (World, Report);
    type Desired = Vec<Uuid>;

    fn desire(&mut self, (world, report): &(World, Report)) -> Outcome<Vec<Uuid>> {
        Outcome::new(removable(world, report))
    }
}

/// The deleted load balancers without a row. Before the server has read the Northbound, a missing row means nothing.
fn removable(world: &World, report: &Report) -> Vec<Uuid> {
    if !report.has_northbound() {
        return Vec::new();
    }
    let deleted = world.linked::<LoadBalancer>(Link::DeletedLoadBalancers).map(|balancer| balancer.id);
    deleted.filter(|id| report.balancer(*id).is_none()).collect()
}

/// Removes a deleted load balancer and its automatically created VIP ports. Ports that its owner created stay.
fn remove(txn: &mut Txn, id: Uuid) {
    if !txn.get::<LoadBalancer>(&id).is_some_and(|balancer| balancer.deleted) {
        return;
    }
    let Some(balancer) = txn.remove::<LoadBalancer>(&id) else { return };
    for vip in balancer.vips.iter().filter(|vip| !vip.own_port) {
        port::remove(txn, vip.port_id);
    }
}

/// A load balancer to remove.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct RemoveBalancer(Uuid);

impl fmt::Display for RemoveBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remove load balancer {} and its VIP ports", self.0)
    }
}

struct BalancerStore {
    store: Store,
}

impl Target for BalancerStore {
    type Desired = Vec<Uuid>;
    type Observed = usize;
    type Op = RemoveBalancer;

    fn plan(&mut self, want: &Vec<Uuid>, _keep: &BTreeSet<ObjectId>, stored: &usize) -> Plan<RemoveBalancer> {
        let mut plan = Plan::new(stored.saturating_sub(want.len()), *stored);
        for id in want {
            plan.push(ObjectId::new("loadbalancer", id.to_string()), RemoveBalancer(*id));
        }
        plan
    }

    async fn observe(&mut self, _scope: Scope) -> Result<usize, TargetError> {
        Ok(self.store.world().table::<LoadBalancer>().len())
    }

    async fn apply(&mut self, plan: &Plan<RemoveBalancer>) -> Result<Applied, TargetError> {
        let ids: Vec<Uuid> = plan.steps.iter().map(|step| step.op.0).collect();
        let stored = self.store.execute(move |txn: &mut Txn| {
            ids.iter().for_each(|id| remove(txn, *id));
            Ok(())
        });
        match stored.await {
            Ok(_) => Ok(Applied::all_done(plan)),
            Err(fault) => {
                Err(TargetError::new(Class::Transient, "remove deleted load balancers").because(fault))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::tests::load_balancers::balancer;
    use crate::desired::tests::scene::{NET, SUB, Scene, copy};
    use crate::model::{FloatingIp, Port};
    use crate::resource::fixture::id;

    const LB: u128 = 0x100;
    const VIP_PORT: u128 = LB + 0xf000;

    fn deleted(own_port: bool) -> Scene {
        let mut scene = Scene::new();
        balancer(&mut scene, LB, NET, SUB, "10.0.0.10");
        balancer(&mut scene, 0x200, NET, SUB, "10.0.0.11");
        scene.router(0x40).floating_ip(0x80, "192.0.2.200", Some((VIP_PORT, "10.0.0.10", 0x40)));
        let mut lb: LoadBalancer = copy(&scene, LB);
        (lb.deleted, lb.vips[0].own_port) = (true, own_port);
        scene.put(lb);
        scene
    }

    #[test]
    fn a_deleted_load_balancer_waits_for_its_rows() {
        let scene = deleted(false);
        let mut report = Report::default();
        assert!(removable(scene.world(), &report).is_empty(), "the Northbound was not read yet");
        report.set_northbound_read();
        report.set_balancer(id(LB), id(LB), Some(1));
        assert!(removable(scene.world(), &report).is_empty(), "a row is left");
        report.set_balancer(id(LB), id(LB), None);
        assert_eq!(removable(scene.world(), &report), [id(LB)]);
    }

    #[test]
    fn vip_ports_of_its_owner_stay() {
        for own_port in [false, true] {
            let mut scene = deleted(own_port);
            scene.edit(|txn| {
                remove(txn, id(LB));
                remove(txn, id(0x200));
            });
            let world = scene.world();
            assert!(world.get::<LoadBalancer>(&id(LB)).is_none());
            assert!(world.get::<LoadBalancer>(&id(0x200)).is_some(), "it is not deleted");
            assert_eq!(world.get::<Port>(&id(VIP_PORT)).is_some(), own_port);
            let floating_ip: FloatingIp = copy(&scene, 0x80);
            assert_eq!(floating_ip.port_id.is_some(), own_port);
        }
    }
}
