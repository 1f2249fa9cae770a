//! Addresses and tunnel keys of pods.

mod gateways;
mod pool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::state::{ObjectRef, PodWant};
use super::Decision;
use super::addresses::AddressOwner;
use super::networks::ActiveNetwork;
use crate::annotation::PodNetwork;
use crate::cluster::kind::Kind;
use crate::cluster::snapshot::{ClaimObject, ObjectName, PodObject, Snapshot, by_age};
use crate::network::{ClusterNetwork, NetworkName};
use gateways::OldGateways;
use pool::{KeyOwner, NetworkPool};

/// The addresses that pods and claims have, by network.
#[derive(Debug, Default)]
pub(super) struct PodLedger {
    pools: BTreeMap<NetworkName, NetworkPool>,
    /// The addresses of each pod, by its identity.
    assigned: BTreeMap<String, Assigned>,
}

#[derive(Debug)]
struct Assigned {
    network: Arc<PodNetwork>,
    name: NetworkName,
    owner: AddressOwner,
    /// The version of the pod that has shown them.
    confirmed: Option<u64>,
}

/// A pod with its network.
struct PodInNetwork<'s> {
    pod: &'s PodObject,
    active: &'s ActiveNetwork,
    key: Arc<str>,
}

impl PodLedger {
    pub(super) fn decide(
        &mut self,
        snapshot: &Snapshot,
        cluster: &ClusterNetwork,
        active: &BTreeMap<String, ActiveNetwork>,
        out: &mut Decision,
    ) {
        let mut pods = Vec::new();
        let mut keys: BTreeMap<&str, Arc<str>> = BTreeMap::new();
        for pod in by_age(&snapshot.pods).into_iter().filter(|pod| pod.needs_addresses()) {
            let Some(active) = active.get(&pod.meta.namespace) else { continue };
            let key = keys.entry(&pod.meta.namespace).or_insert_with(|| active.key.to_string().into());
            pods.push(PodInNetwork { pod, active, key: Arc::clone(key) });
        }
        let gateways = OldGateways::read(snapshot, out);
        self.release(snapshot, active, &gateways);
        for active in active.values() {
            let name = &active.network.name;
            self.pools.entry(name.clone()).or_insert_with(|| NetworkPool::new(&active.network));
        }
        for claim in by_age(&snapshot.claims) {
            self.reserve_claim(claim, active);
        }
        // First everything that is annotated, then anything new.
        gateways.reserve(&mut self.pools, out);
        for pod in &pods {
            self.reserve(pod, snapshot, out);
        }
        for pod in &pods {
            match self.assign(pod, snapshot, cluster, &gateways) {
                Ok(want) => out.desired.pods.extend(want),
                Err(message) => out.problem(Kind::Pod, &pod.pod.meta, "ErrorAllocatingPod", message),
            }
        }
        gateways.publish(&mut self.pools, active, out);
        self.publish_claims(snapshot, out);
    }

    /// Frees everything of pods that have ended and of claims that are gone.
    fn release(
        &mut self,
        snapshot: &Snapshot,
        active: &BTreeMap<String, ActiveNetwork>,
        gateways: &OldGateways<'_>,
    ) {
        let nodes = gateways.owners();
        let living: BTreeSet<&str> =
            snapshot.pods.values().filter(|pod| !pod.is_finished).map(|pod| pod.meta.uid.as_str()).collect();
        let networks: BTreeSet<&NetworkName> = active.values().map(|active| &active.network.name).collect();
        let has_users: BTreeSet<NetworkName> = self
            .assigned
            .iter()
            .filter(|(uid, _)| living.contains(uid.as_str()))
            .map(|(_, assigned)| assigned.name.clone())
            .collect();
        // A network may be away for a moment, while somebody repairs its definition. Its pods keep their addresses.
        self.pools.retain(|name, _| networks.contains(name) || has_users.contains(name));
        self.assigned
            .retain(|uid, assigned| living.contains(uid.as_str()) && self.pools.contains_key(&assigned.name));
        for pool in self.pools.values_mut() {
            pool.retain(
                |uid| living.contains(uid),
                |node| nodes.contains(node),
                |namespace, name| {
                    let object = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
                    snapshot.claims.contains_key(&object)
                },
            );
        }
    }

    fn reserve_claim(&mut self, claim: &ClaimObject, active: &BTreeMap<String, ActiveNetwork>) {
        let Some(active) = active.get(&claim.meta.namespace) else { return };
        if active.network.name.as_str() != claim.network {
            return;
        }
        let Some(pool) = self.pools.get_mut(&active.network.name) else { return };
        let owner = AddressOwner::Claim(claim.meta.namespace.clone(), claim.meta.name.clone());
        for address in claim.addresses.iter().filter_map(|text| text.parse::<ipnet::IpNet>().ok()) {
            pool.reserve_address(&owner, address.addr(), &active.network);
        }
    }

    /// Takes a pod's annotated addresses into the ledger, or notes that they differ from it.
    fn reserve(&mut self, pod: &PodInNetwork<'_>, snapshot: &Snapshot, out: &mut Decision) {
        let meta = &pod.pod.meta;
        if let Some(assigned) = self.assigned.get_mut(&meta.uid) {
            if assigned.confirmed == Some(meta.version) {
                return;
            }
            let shown =
                pod.pod.networks.as_ref().ok().and_then(|networks| networks.as_ref()?.get(&pod.key)?.ok());
            if shown.as_ref() == Some(assigned.network.as_ref()) {
                assigned.confirmed = Some(meta.version);
            } else if assigned.confirmed.take().is_some() {
                let message = format!(
                    "somebody changed the addresses of pod {}; the manager restores them",
                    meta.object_name()
                );
                out.notice(Kind::Pod, meta, "PodAddressesRestored", message);
            }
            return;
        }
        let entry = match &pod.pod.networks {
            Ok(Some(networks)) => networks.get(&pod.key),
            Ok(None) => None,
            Err(error) => {
                out.notice(Kind::Pod, meta, "PodNetworksInvalid", error.to_string());
                None
            }
        };
        let network = match entry {
            None => return,
            Some(Ok(network)) => network,
            Some(Err(error)) => {
                out.notice(
                    Kind::Pod,
                    meta,
                    "PodNetworksInvalid",
                    format!("{error}; the pod gets other addresses"),
                );
                return;
            }
        };
        let Ok(owner) = owner_of(pod, snapshot) else { return };
        let name = &pod.active.network.name;
        let Some(pool) = self.pools.get_mut(name) else { return };
        let key = KeyOwner::Pod { attachment: Arc::clone(&pod.key), uid: meta.uid.clone() };
        match pool.reserve(&owner, &key, &network, &pod.active.network) {
            Ok(()) => {
                let assigned = Assigned {
                    network: Arc::new(network),
                    name: name.clone(),
                    owner,
                    confirmed: Some(meta.version),
                };
                self.assigned.insert(meta.uid.clone(), assigned);
            }
            Err(problem) => {
                let message = format!("{problem}; delete pod {} and create it again", meta.object_name());
                out.problem(Kind::Pod, meta, "PodAddressConflict", message);
            }
        }
    }

    /// The pod's addresses, new ones if it has none. Nothing if `reserve` has refused them.
    fn assign(
        &mut self,
        pod: &PodInNetwork<'_>,
        snapshot: &Snapshot,
        cluster: &ClusterNetwork,
        gateways: &OldGateways<'_>,
    ) -> Result<Option<PodWant>, String> {
        let meta = &pod.pod.meta;
        if !self.assigned.contains_key(&meta.uid) {
            // An annotation that was refused stays, so that the pod's interface and the annotation agree.
            let has_entry = matches!(&pod.pod.networks, Ok(Some(networks)) if matches!(networks.get(&pod.key), Some(Ok(_))));
            let request = pod.pod.request.as_ref().map_err(|error| error.clone())?;
            let owner = owner_of(pod, snapshot)?;
            if has_entry {
                return Ok(None);
            }
            let network = &pod.active.network;
            let pool = self.pools.get_mut(&network.name).ok_or("its network has no addresses")?;
            let key = KeyOwner::Pod { attachment: Arc::clone(&pod.key), uid: meta.uid.clone() };
            let mut made = pool.allocate(&owner, &key, request.mac, network, cluster)?;
            if let Some(old) = gateways.gateway_of(pod.pod.node.as_deref(), network) {
                made.ipv6_lla_gateway_ip = made.ipv6_lla_gateway_ip.map(|_| old);
            }
            let assigned =
                Assigned { network: Arc::new(made), name: network.name.clone(), owner, confirmed: None };
            self.assigned.insert(meta.uid.clone(), assigned);
        }
        let assigned = self.assigned.get(&meta.uid).ok_or("it has no addresses")?;
        Ok(Some(PodWant {
            pod: ObjectRef::new(Kind::Pod, meta),
            key: Arc::clone(&pod.key),
            network: Arc::clone(&assigned.network),
            confirmed: assigned.confirmed,
            claim: claim_of(&assigned.owner, snapshot),
        }))
    }

    /// Writes the addresses of claims.
    fn publish_claims(&self, snapshot: &Snapshot, out: &mut Decision) {
        for assigned in self.assigned.values() {
            if let Some(claim) = claim_of(&assigned.owner, snapshot) {
                let addresses = assigned.network.addresses().map(|net| net.to_string()).collect();
                out.desired.claims.insert(claim, addresses);
            }
        }
    }
}

fn claim_of(owner: &AddressOwner, snapshot: &Snapshot) -> Option<ObjectRef> {
    let AddressOwner::Claim(namespace, name) = owner else { return None };
    let object = ObjectName { namespace: namespace.clone(), name: name.clone() };
    snapshot.claims.get(&object).map(|claim| ObjectRef::new(Kind::Claim, &claim.meta))
}

/// The owner of a pod's addresses: the claim that it names, if addresses of its network survive pods, else the pod.
fn owner_of(pod: &PodInNetwork<'_>, snapshot: &Snapshot) -> Result<AddressOwner, String> {
    let meta = &pod.pod.meta;
    let request = pod.pod.request.as_ref().map_err(|error| error.clone())?;
    let Some(name) = request.claim.as_ref().filter(|_| pod.active.network.persistent) else {
        return Ok(AddressOwner::Pod(meta.uid.clone()));
    };
    let object = ObjectName { namespace: meta.namespace.clone(), name: name.clone() };
    match snapshot.claims.get(&object) {
        None => Err(format!("IPAMClaim {object} does not exist; create it")),
        Some(claim) if claim.network != pod.active.network.name.as_str() => Err(format!(
            "IPAMClaim {object} is for network {:?} and not for {}; name another claim",
            claim.network, pod.active.network.name
        )),
        Some(_) => Ok(AddressOwner::Claim(meta.namespace.clone(), name.clone())),
    }
}
