//! Adds missing metadata ports to networks, and removes them where metadata is switched off.
//!
//! A request that creates a network or a subnet maintains the metadata port itself. When the server starts and at every full resync, this
//! loop finds the rest: networks that were imported without one, or created while `ovn_metadata_enabled` was off, and subnets whose
//! exhausted pool has a free address again. Only the server that writes the Northbound runs this loop; otherwise two servers would react to
//! one event.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ovsdb::client::LockState;
use reconcile::{
    Applied, Class, Desire, Driver, Handle, ObjectId, Outcome, Plan, Scope, StepResult, Target, TargetError,
    Timing,
};
use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

use crate::Fault;
use crate::model::Network;
use crate::placements::waits_for;
use crate::resource::{metadata_port, port};
use crate::store::Store;
use crate::world::{Outside, Txn, World};

/// Builds the loop without running it. Returns its handle and its driver.
pub fn start(
    store: Store,
    outside: watch::Receiver<Arc<Outside>>,
    northbound: &ovsdb::Client,
    writer: watch::Receiver<LockState>,
) -> (Handle, impl Future<Output = ()> + Send + use<>) {
    let inputs = {
        let (store, writer) = (store.clone(), writer.clone());
        let nb = northbound.status();
        move || match waits_for(nb.borrow().progress, &writer.borrow()) {
            Some(waiting) => Err(waiting),
            None => Ok((store.world(), Arc::clone(&outside.borrow()))),
        }
    };
    let driver = Driver::new("metadata-ports", Timing::default(), inputs, RepairPorts, PortStore { store });
    let handle = driver.handle();
    handle.follow(writer);
    (handle, driver.run())
}

/// Decides which networks get a port or an address, and which lose their port.
struct RepairPorts;

impl Desire for RepairPorts {
    type Snapshot = (World, Arc<Outside>);
    type Desired = Vec<Repair>;

    fn desire(&mut self, (world, outside): &(World, Arc<Outside>)) -> Outcome<Vec<Repair>> {
        Outcome::new(repairs(world, outside))
    }
}

fn repairs(world: &World, outside: &Outside) -> Vec<Repair> {
    let networks = world.table::<Network>().iter().map(|network| network.id);
    match outside.settings.ovn_metadata_enabled {
        true => networks
            .filter(|id| metadata_port::lacks(world, &outside.settings, *id))
            .map(Repair::Keep)
            .collect(),
        false => networks.filter(|id| metadata_port::of(world, *id).is_some()).map(Repair::Remove).collect(),
    }
}

/// The repair that a network needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Repair {
    /// Add the metadata port or its missing addresses.
    Keep(Uuid),
    /// Remove the metadata port.
    Remove(Uuid),
}

impl Repair {
    fn network(self) -> Uuid {
        let (Repair::Keep(network) | Repair::Remove(network)) = self;
        network
    }

    fn apply(self, txn: &mut Txn) -> Result<(), Fault> {
        match self {
            Repair::Keep(network) => metadata_port::repair(txn, network),
            Repair::Remove(network) => {
                if let Some(id) = metadata_port::of(txn, network).map(|port| port.id) {
                    port::remove(txn, id);
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repair::Keep(network) => write!(f, "give network {network} its metadata port and addresses"),
            Repair::Remove(network) => write!(f, "remove the metadata port of network {network}"),
        }
    }
}

struct PortStore {
    store: Store,
}

impl Target for PortStore {
    type Desired = Vec<Repair>;
    type Observed = usize;
    type Op = Repair;

    fn plan(&mut self, want: &Vec<Repair>, _keep: &BTreeSet<ObjectId>, networks: &usize) -> Plan<Repair> {
        let mut plan = Plan::new(*networks, networks.saturating_sub(want.len()));
        for repair in want {
            plan.push(ObjectId::new("network", repair.network().to_string()), *repair);
        }
        plan
    }

    async fn observe(&mut self, _scope: Scope) -> Result<usize, TargetError> {
        Ok(self.store.world().table::<Network>().len())
    }

    async fn apply(&mut self, plan: &Plan<Repair>) -> Result<Applied, TargetError> {
        let repairs: Vec<Repair> = plan.steps.iter().map(|step| step.op).collect();
        // A failure of one network does not affect the others. The loop retries it later.
        let stored = self.store.execute(move |txn: &mut Txn| {
            Ok(repairs.iter().map(|repair| repair.apply(txn).err()).collect::<Vec<_>>())
        });
        let result = |fault: Option<Fault>| match fault {
            None => StepResult::Done,
            Some(fault) => {
                StepResult::Failed(TargetError::new(Class::Refused, "keep a metadata port").because(fault))
            }
        };
        match stored.await {
            Ok(stored) => Ok(Applied { results: stored.value.into_iter().map(result).collect() }),
            Err(fault) => Err(TargetError::new(Class::Transient, "repair metadata ports").because(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Caller;
    use crate::model::Port;
    use crate::resource::fixture::Desk;

    #[test]
    fn networks_get_their_port_when_metadata_is_switched_on_and_lose_it_when_it_is_off() {
        // A new desk has metadata switched off.
        let mut desk = Desk::new();
        let member = Caller::member("p");
        let network = desk.create("networks", &member, json!({})).unwrap();
        let subnet = json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24", "enable_dhcp": false});
        desk.create("subnets", &member, subnet).unwrap();
        assert_eq!(repairs(&desk.world, &desk.outside), []);
        desk.outside.settings.ovn_metadata_enabled = true;
        let id: Uuid = network["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(repairs(&desk.world, &desk.outside), [Repair::Keep(id)]);
        desk.run(|txn| Repair::Keep(id).apply(txn)).unwrap();
        let made = metadata_port::of(&desk.world, id).unwrap();
        assert_eq!(made.fixed_ips.len(), 1, "also without DHCP");
        assert_eq!(repairs(&desk.world, &desk.outside), []);
        desk.outside.settings.ovn_metadata_enabled = false;
        assert_eq!(repairs(&desk.world, &desk.outside), [Repair::Remove(id)]);
        desk.run(|txn| Repair::Remove(id).apply(txn)).unwrap();
        assert!(desk.world.table::<Port>().is_empty());
    }
}
