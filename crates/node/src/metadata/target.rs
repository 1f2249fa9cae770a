//! The metadata role's part of the node as one target: namespaces, ports, sockets, and our rows in the Southbound database.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ovn::sb::{Chassis, ChassisPrivate};
use ovn::text::neutron::key;
use ovsdb::{Client, Str, Transaction, Uuid};
use reconcile::{Applied, Class, ObjectId, Plan, Scope, Target, TargetError, Walk};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::front::{FrontEnd, SeenFrontEnd};
use super::haproxy::process;
use super::plan;
use super::probe::probe;
use super::state::{Desired, Observed, Op, ProbeState, ProbedPort, SeenRows};
use crate::connections::RowSubscription;
use crate::connections::switch::system_id;
use crate::kernel::Dev;
use crate::netns::{self, Namespaces};
use crate::ports::{PortError, PortMark, plugged};

/// The mark of this role's ports.
const MARK: PortMark = PortMark("metadata");

/// The target.
#[derive(Debug)]
pub(super) struct MetadataTarget {
    pub(super) namespaces: Namespaces,
    pub(super) vswitch: Client,
    /// The Southbound database.
    pub(super) sb: Arc<RowSubscription>,
    pub(super) front: Arc<dyn FrontEnd>,
    pub(super) probes: Probes,
    /// The last observation of namespaces, until one of them changes.
    pub(super) seen: Option<netns::Observed>,
    /// The inodes of the namespaces that were observed last.
    pub(super) inodes: BTreeMap<Uuid, u64>,
}

/// The newest probe of each port.
#[derive(Debug, Default)]
struct ProbeTable {
    states: BTreeMap<ProbedPort, (u64, ProbeState)>,
    /// The number of the last probe.
    last: u64,
}

/// The probes of all networks.
#[derive(Debug, Clone, Default)]
pub(super) struct Probes {
    states: Arc<Mutex<ProbeTable>>,
    changed: watch::Sender<u64>,
}

impl Probes {
    /// Changes when a probe ends.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn table(&self) -> MutexGuard<'_, ProbeTable> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a probe, and returns its number.
    fn begin(&self, of: ProbedPort) -> u64 {
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        table.states.insert(of, (number, ProbeState::Running));
        number
    }

    /// Ends a probe, unless it was forgotten meanwhile.
    fn end(&self, of: &ProbedPort, number: u64, state: ProbeState) {
        if let Some(probe) = self.table().states.get_mut(of).filter(|(running, _)| *running == number) {
            probe.1 = state;
        }
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Forgets the probes of a network whose port is about to change.
    fn forget(&self, network: Uuid) {
        self.table().states.retain(|of, _| of.network != network);
    }

    /// The states of the namespaces that are there.
    fn of(&self, namespaces: &netns::Observed) -> BTreeMap<ProbedPort, ProbeState> {
        let mut table = self.table();
        table.states.retain(|of, (_, state)| {
            let seen = namespaces.namespaces.get(&of.network);
            *state == ProbeState::Running || seen.is_some_and(|seen| seen.inode == of.namespace)
        });
        table.states.iter().map(|(of, (_, state))| (of.clone(), *state)).collect()
    }

    /// Starts a probe, which ends by itself.
    fn start(&self, namespaces: &Namespaces, of: ProbedPort, dev: Dev, addresses: BTreeSet<IpAddr>) {
        let number = self.begin(of.clone());
        let (probes, namespaces, network) = (self.clone(), namespaces.clone(), of.network);
        task::spawn("probe", async move {
            let asked = spawn_blocking(move || match namespaces.open(network)? {
                Some(namespace) => probe(&namespace, &dev, &addresses),
                None => Ok(false),
            });
            let answered = asked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            if let Err(error) = &answered {
                tracing::debug!(%network, %error, "a probe failed");
            }
            let state = if answered.unwrap_or(false) { ProbeState::Answered } else { ProbeState::Silent };
            probes.end(&of, number, state);
        });
    }
}

impl MetadataTarget {
    fn client(&self) -> Result<Client, TargetError> {
        self.sb.client().ok_or_else(|| TargetError::new(Class::Transient, "write the Southbound database"))
    }

    fn rows(&self) -> SeenRows {
        let Ok(client) = self.client() else { return SeenRows::default() };
        let (sb, vswitch) = (client.snapshot(), self.vswitch.snapshot());
        let Some(name) = system_id(&vswitch) else { return SeenRows::default() };
        let chassis = sb.table::<Chassis>().iter().find(|(_, row)| row.name == *name);
        let private = sb.table::<ChassisPrivate>().iter().find(|(_, row)| row.name == *name);
        SeenRows {
            chassis: chassis.map(|(row, _)| row),
            ready: chassis.and_then(|(_, row)| row.external_ids.get(key::METADATA_NETWORKS).cloned()),
            private: private.map(|(row, _)| row),
            keys: private.into_iter().flat_map(|(_, row)| row.external_ids.clone()).collect(),
        }
    }

    async fn run(&mut self, op: &Op) -> Result<(), TargetError> {
        match op {
            Op::SetReady { networks } => self.set_ready(networks).await,
            Op::SetKeys { keys } => self.set_keys(keys).await,
            Op::Netns { network, op } => {
                self.seen = None;
                let (namespaces, network, op) = (self.namespaces.clone(), *network, op.clone());
                let front = Arc::clone(&self.front);
                let tried = op.to_string();
                let inode = self.inodes.get(&network).copied();
                let result = spawn_blocking(move || {
                    // A haproxy that nobody knows any more would keep the namespace alive, and answer.
                    if let (netns::Op::DeleteNamespace, Some(inode)) = (&op, inode) {
                        process::end(inode);
                    }
                    let result = namespaces.apply(network, &op);
                    if op == netns::Op::DeleteNamespace {
                        front.forget(network);
                    }
                    result
                });
                let result = result.await;
                let result =
                    result.map_err(|error| TargetError::new(Class::Bug, tried.clone()).because(error))?;
                result.map_err(|error| TargetError::new(error.class(), tried).because(error))
            }
            Op::Plug { dev, port, seen } => {
                self.probes.forget(port.network);
                let plugged = plugged::plug(&self.vswitch, MARK, dev, port, seen.as_ref()).await;
                plugged.map_err(|error| ported(op, error))
            }
            Op::Unplug { dev, seen } => {
                plugged::unplug(&self.vswitch, dev, seen).await.map_err(|error| ported(op, error))
            }
            Op::Listen { network, sockets } => {
                let (namespaces, front) = (self.namespaces.clone(), Arc::clone(&self.front));
                let (network, sockets) = (*network, sockets.clone());
                let opened = spawn_blocking(move || match namespaces.open(network)? {
                    Some(namespace) => front.listen(&namespace, &sockets),
                    None => Err(io::ErrorKind::NotFound.into()),
                });
                let opened = opened.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                opened.map_err(|error| TargetError::new(Class::Transient, op.to_string()).because(error))
            }
            Op::Close { socket } => {
                self.front.close(*socket);
                Ok(())
            }
            Op::Probe { of, dev, addresses } => {
                self.probes.start(&self.namespaces, of.clone(), dev.clone(), addresses.clone());
                Ok(())
            }
        }
    }

    async fn set_ready(&self, networks: &BTreeSet<Uuid>) -> Result<(), TargetError> {
        let client = self.client()?;
        let Some(row) = self.rows().chassis else { return Ok(()) };
        let Some(before) = client.snapshot().get(row).cloned() else { return Ok(()) };
        let mut after = before.clone();
        let list: Vec<String> = networks.iter().map(Uuid::to_string).collect();
        match list.is_empty() {
            true => _ = after.external_ids.remove(key::METADATA_NETWORKS),
            false => _ = after.external_ids.insert(key::METADATA_NETWORKS.into(), list.join(",").into()),
        }
        let mut txn = Transaction::new();
        txn.update(row, &before, &after).comment("meridian: metadata networks");
        commit(&client, &txn).await
    }

    async fn set_keys(&self, keys: &BTreeMap<&'static str, String>) -> Result<(), TargetError> {
        let client = self.client()?;
        let Some(row) = self.rows().private else { return Ok(()) };
        let Some(before) = client.snapshot().get(row).cloned() else { return Ok(()) };
        let mut after = before.clone();
        for (key, value) in keys {
            after.external_ids.insert(Str::new_static(key), value.as_str().into());
        }
        let mut txn = Transaction::new();
        txn.update(row, &before, &after).comment("meridian: metadata agent");
        commit(&client, &txn).await
    }
}

async fn commit(client: &Client, txn: &Transaction) -> Result<(), TargetError> {
    client.commit(txn).await.map(drop).map_err(|error| {
        TargetError::new(ovn::target::apply::class(&error), "write the Southbound database").because(error)
    })
}

fn ported(op: &Op, error: PortError) -> TargetError {
    TargetError::new(error.class(), op.to_string()).because(error)
}

impl Target for MetadataTarget {
    type Desired = Desired;
    type Observed = Observed;
    type Op = Op;

    fn plan(&mut self, want: &Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
        plan::plan(want, keep, have)
    }

    async fn observe(&mut self, scope: Scope) -> Result<Observed, TargetError> {
        let cached = self.seen.clone().filter(|_| scope == Scope::Cached);
        let netns = match cached {
            Some(seen) => seen,
            None => {
                let namespaces = self.namespaces.clone();
                let read = spawn_blocking(move || namespaces.observe()).await;
                let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
                read.map_err(|error| {
                    TargetError::new(Class::Transient, "read the namespaces").because(error)
                })?
            }
        };
        self.inodes = netns.namespaces.iter().map(|(network, seen)| (*network, seen.inode)).collect();
        self.seen = Some(netns.clone());
        let SeenFrontEnd { sockets, proxy } = self.front.observe();
        let ports = plugged::observe(&self.vswitch.snapshot(), MARK, |dev| netns.devices.contains_key(dev));
        let probes = self.probes.of(&netns);
        Ok(Observed { ports, sockets, proxy, probes, rows: self.rows(), netns })
    }

    async fn apply(&mut self, plan: &Plan<Op>) -> Result<Applied, TargetError> {
        let mut walk = Walk::new(plan);
        while let Some(op) = walk.next_op() {
            let result = self.run(op).await;
            walk.record(result);
        }
        Ok(walk.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::state::SeenNamespace;

    #[test]
    fn a_probe_that_was_forgotten_tells_nothing_of_the_next_port() {
        let network = Uuid::from_u128(1);
        let of = ProbedPort { network, namespace: 9, port: "md".into(), bridge: "br-int".into() };
        let seen = SeenNamespace { inode: 9, ..SeenNamespace::default() };
        let there = netns::Observed { namespaces: [(network, seen)].into(), ..netns::Observed::default() };
        let probes = Probes::default();
        let state = || probes.of(&there).get(&of).copied();
        let first = probes.begin(of.clone());
        probes.end(&of, first, ProbeState::Answered);
        assert_eq!(state(), Some(ProbeState::Answered));
        probes.forget(network);
        assert_eq!(state(), None);
        let second = probes.begin(of.clone());
        probes.forget(network);
        let third = probes.begin(of.clone());
        probes.end(&of, second, ProbeState::Answered);
        assert_eq!(state(), Some(ProbeState::Running));
        probes.end(&of, third, ProbeState::Silent);
        assert_eq!(state(), Some(ProbeState::Silent));
    }
}
