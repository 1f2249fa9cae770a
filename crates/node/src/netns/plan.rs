//! The ops of one network's namespace.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use ipnet::Ipv4Net;
use ovsdb::Uuid;

use super::names;
use super::state::{Namespace, Observed, Op, VethPair};
use crate::kernel::Dev;

/// The way of a network to its desired namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkPlan {
    /// The names of its devices; `None` if other devices have them all.
    pub pair: Option<VethPair>,
    /// The ops, in order; empty if the namespace is as desired.
    pub ops: Vec<Op>,
}

/// The ops that build or correct a namespace. `taken` are host devices that other networks of the same plan will have.
pub fn build(network: Uuid, want: &Namespace, have: &Observed, taken: &BTreeSet<Dev>) -> NetworkPlan {
    let mut ops = Vec::new();
    if have.broken.contains(&network) {
        ops.push(Op::RemoveFile);
    }
    match have.namespaces.get(&network) {
        None => ops.push(Op::CreateNamespace),
        Some(seen) if !seen.loopback || !seen.wrong.is_empty() => ops.push(Op::Correct),
        Some(_) => {}
    }
    let Some((pair, host, inner)) = have.pair(network) else {
        let Some(pair) = free(network, have, taken) else { return NetworkPlan { pair: None, ops } };
        ops.extend(remains(network, have));
        ops.push(Op::CreatePair { pair: pair.clone(), mac: want.mac, mtu: want.mtu });
        ops.push(Op::Mark { host: pair.host.clone() });
        ops.push(Op::FillChecksums { inner: pair.inner.clone() });
        let add = |address: &ipnet::IpNet| Op::AddAddress { inner: pair.inner.clone(), address: *address };
        ops.extend(want.addresses.iter().map(add));
        ops.extend(want.on_link.iter().map(|subnet| add_route(&pair, *subnet)));
        return NetworkPlan { pair: Some(pair), ops };
    };
    if host.marked != Some(network) {
        ops.push(Op::Mark { host: pair.host.clone() });
    }
    if inner.mac != Some(want.mac) {
        ops.push(Op::SetMac { inner: pair.inner.clone(), mac: want.mac });
    }
    if let Some(mtu) = want.mtu.filter(|mtu| [host.mtu, inner.mtu] != [*mtu; 2]) {
        ops.push(Op::SetMtu { pair: pair.clone(), mtu });
    }
    if inner.offloads_checksums {
        ops.push(Op::FillChecksums { inner: pair.inner.clone() });
    }
    if !host.up || !inner.up {
        ops.push(Op::SetUp { pair: pair.clone() });
    }
    // A new address comes before the old one goes: a device without any has no route to its clients.
    let missing = want.addresses.difference(&inner.addresses);
    ops.extend(missing.map(|address| Op::AddAddress { inner: pair.inner.clone(), address: *address }));
    let surplus = inner.addresses.difference(&want.addresses);
    ops.extend(surplus.map(|address| Op::DeleteAddress { inner: pair.inner.clone(), address: *address }));
    // Routes come after the address that is their source.
    let missing = want.on_link.difference(&inner.on_link);
    ops.extend(missing.map(|subnet| add_route(&pair, *subnet)));
    let surplus = inner.on_link.difference(&want.on_link);
    ops.extend(surplus.map(|subnet| Op::DeleteRoute { inner: pair.inner.clone(), subnet: *subnet }));
    NetworkPlan { pair: Some(pair), ops }
}

fn add_route(pair: &VethPair, subnet: Ipv4Net) -> Op {
    Op::AddRoute { inner: pair.inner.clone(), subnet }
}

/// The ops that remove all that a network has: its devices, then its namespace.
pub fn tear_down(network: Uuid, have: &Observed) -> Vec<Op> {
    let mut ops = remains(network, have);
    if have.namespaces.contains_key(&network) || have.broken.contains(&network) {
        ops.push(Op::DeleteNamespace);
    }
    ops
}

/// The networks of which anything is left: a namespace, a file, or a marked device.
pub fn networks(have: &Observed) -> BTreeSet<Uuid> {
    let marked = have.devices.values().filter_map(|device| device.marked);
    have.namespaces.keys().chain(&have.broken).copied().chain(marked).collect()
}

/// Removes the devices of a network that are ours: whole pairs, and halves of pairs.
fn remains(network: Uuid, have: &Observed) -> Vec<Op> {
    let hosts: Vec<&Dev> = have.devices.keys().filter(|dev| have.is_ours(network, dev)).collect();
    let indexes: BTreeSet<u32> = hosts.iter().map(|dev| have.devices[*dev].index).collect();
    let mut ops: Vec<Op> = hosts.into_iter().map(|host| Op::DeleteDevice { host: host.clone() }).collect();
    let ours = names::pairs(network).map(|pair| pair.inner);
    let halves = have.namespaces.get(&network).into_iter().flat_map(|namespace| &namespace.devices);
    let halves = halves.filter(|(dev, inner)| {
        // Those whose host end goes need no op of their own.
        ours.contains(dev) && !inner.peer.is_some_and(|peer| indexes.contains(&peer))
    });
    ops.extend(halves.map(|(inner, _)| Op::DeleteInner { inner: inner.clone() }));
    ops
}

/// The first names that no other device has.
fn free(network: Uuid, have: &Observed, taken: &BTreeSet<Dev>) -> Option<VethPair> {
    let is_free = |pair: &VethPair| {
        !taken.contains(&pair.host)
            && (!have.devices.contains_key(&pair.host) || have.is_ours(network, &pair.host))
    };
    names::pairs(network).into_iter().find(is_free)
}

#[cfg(test)]
mod tests;
