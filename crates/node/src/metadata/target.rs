//! The metadata role's part of the node as one target: namespaces, ports, sockets, and our rows in the Southbound database.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ovn::sb::{Chassis, ChassisPrivate};
use ovn::text::neutron::key;
use ovsdb::{Client, Str, Transaction, Uuid};
use reconcile::{Applied, Class, ObjectId, Plan, Scope, Target, TargetError, Walk};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::plan;
use super::probe::probe;
use super::snapshot::setting;
use super::sockets::{Sockets, listen};
use super::state::{Desired, Observed, Op, ProbeState, SeenRows};
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
    /// The Southbound database, once it is known where that is.
    pub(super) sb: Arc<Mutex<Option<Client>>>,
    pub(super) sockets: Sockets,
    pub(super) probes: Probes,
    /// The last observation of namespaces, until one of them changes.
    pub(super) seen: Option<netns::Observed>,
}

/// The probes of all networks.
#[derive(Debug, Clone, Default)]
pub(super) struct Probes {
    states: Arc<Mutex<BTreeMap<(Uuid, u64), ProbeState>>>,
    changed: watch::Sender<u64>,
}

impl Probes {
    /// Changes when a probe ends.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn set(&self, of: (Uuid, u64), state: ProbeState) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(of, state);
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// The states of the namespaces that are there.
    fn of(&self, namespaces: &netns::Observed) -> BTreeMap<(Uuid, u64), ProbeState> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |network: &Uuid, inode: u64| {
            namespaces.namespaces.get(network).is_some_and(|namespace| namespace.inode == inode)
        };
        states.retain(|(network, inode), state| *state == ProbeState::Running || is_there(network, *inode));
        states.clone()
    }

    /// Starts a probe, which ends by itself.
    fn start(&self, namespaces: &Namespaces, of: (Uuid, u64), dev: Dev, addresses: BTreeSet<IpAddr>) {
        self.set(of, ProbeState::Running);
        let (probes, namespaces) = (self.clone(), namespaces.clone());
        task::spawn("probe", async move {
            let asked = spawn_blocking(move || match namespaces.open(of.0)? {
                Some(namespace) => probe(&namespace, &dev, &addresses),
                None => Ok(false),
            });
            let answered = asked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
            if let Err(error) = &answered {
                tracing::debug!(network = %of.0, %error, "a probe failed");
            }
            probes.set(of, if answered.unwrap_or(false) { ProbeState::Answered } else { ProbeState::Silent });
        });
    }
}

impl MetadataTarget {
    fn client(&self) -> Result<Client, TargetError> {
        let client = self.sb.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.ok_or_else(|| TargetError::new(Class::Transient, "write the Southbound database"))
    }

    fn rows(&self) -> SeenRows {
        let Ok(client) = self.client() else { return SeenRows::default() };
        let (sb, vswitch) = (client.snapshot(), self.vswitch.snapshot());
        let Some(name) = setting(&vswitch, "system-id") else { return SeenRows::default() };
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
                let tried = op.to_string();
                let result = spawn_blocking(move || namespaces.apply(network, &op)).await;
                let result =
                    result.map_err(|error| TargetError::new(Class::Bug, tried.clone()).because(error))?;
                result.map_err(|error| TargetError::new(error.class(), tried).because(error))
            }
            Op::Plug { dev, port, seen } => {
                let plugged = plugged::plug(&self.vswitch, MARK, dev, port, seen.as_ref()).await;
                plugged.map_err(|error| ported(op, error))
            }
            Op::Unplug { dev, seen } => {
                plugged::unplug(&self.vswitch, dev, seen).await.map_err(|error| ported(op, error))
            }
            Op::Listen { socket } => {
                let (namespaces, id) = (self.namespaces.clone(), *socket);
                let opened = spawn_blocking(move || match namespaces.open(id.network)? {
                    Some(namespace) => listen(&namespace, id),
                    None => Err(io::ErrorKind::NotFound.into()),
                });
                let opened = opened.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                let opened = opened
                    .map_err(|error| TargetError::new(Class::Transient, op.to_string()).because(error))?;
                self.sockets.add(id, opened);
                Ok(())
            }
            Op::Close { socket } => {
                self.sockets.close(*socket);
                Ok(())
            }
            Op::Probe { network, namespace, dev, addresses } => {
                self.probes.start(&self.namespaces, (*network, *namespace), dev.clone(), addresses.clone());
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

    fn plan(&self, want: &Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
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
        self.seen = Some(netns.clone());
        let (sockets, proxy) = self.sockets.observe();
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
