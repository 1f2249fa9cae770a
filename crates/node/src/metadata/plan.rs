//! From desired and observed state to ops.
//!
//! The key of ready networks comes first: it names the networks that this plan found in place, so a network that is about to be
//! changed or removed leaves it before that, and a network that was built enters it with the next plan. Networks that go are
//! closed from the outside inwards, those that come are built from the inside outwards.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use metadata_proxy::control::{Family, ListenerId};
use ovn::text::neutron::key;
use ovsdb::{Str, Uuid};
use reconcile::{Class, ObjectId, Plan, Problem};

use super::desired::{IPV6, object};
use super::state::{Desired, Observed, Op, ProbeState, ProbedPort, ProxyState, ServedNetwork, SocketState};
use crate::kernel::Dev;
use crate::netns;
use crate::ports::plugged::PluggedPort;

/// The ops of one network, and whether it is ready.
#[derive(Debug, Default)]
struct NetworkOps {
    ops: Vec<Op>,
    ready: bool,
    problem: Option<Problem>,
}

/// The plan of the whole node.
pub fn plan(want: &Desired, keep: &BTreeSet<ObjectId>, have: &Observed) -> Plan<Op> {
    let mut taken = BTreeSet::new();
    let mut networks = Vec::new();
    let mut ready = BTreeSet::new();
    for (network, served) in &want.networks {
        let built = build(*network, served, have, &mut taken);
        if built.ready {
            ready.insert(*network);
        }
        networks.push((*network, built));
    }
    let mut plan = Plan::new(want.networks.len() + 1, ready.len());
    let present = listed(have.rows.ready.as_ref());
    // Networks that nobody could decide about keep their place.
    let undecided = present.iter().filter(|network| keep.contains(&object(**network)));
    ready.extend(undecided.copied().collect::<Vec<_>>());
    if have.rows.chassis.is_some() && (present != ready || have.rows.ready.is_some() == ready.is_empty()) {
        plan.push(ObjectId::new("chassis", "ready"), Op::SetReady { networks: ready });
    }
    let keys = want.keys.iter().filter(|(key, value)| match have.rows.keys.get(**key) {
        // The identity of an agent never changes, whoever wrote it.
        Some(_) if **key == key::METADATA_AGENT_ID => false,
        now => now.map(Str::as_str) != Some(value.as_str()),
    });
    let keys: std::collections::BTreeMap<_, _> = keys.map(|(key, value)| (*key, value.clone())).collect();
    match have.rows.private.is_some() && !keys.is_empty() {
        true => plan.push(ObjectId::new("chassis", "keys"), Op::SetKeys { keys }),
        false => plan.have += 1,
    }
    for network in present_networks(have).difference(&want.networks.keys().copied().collect()) {
        for op in tear_down(*network, have) {
            plan.push(object(*network), op);
        }
    }
    if have.proxy == ProxyState::Away && !want.networks.is_empty() {
        let message =
            "the metadata proxy is not connected, so requests wait; see that meridian-metadata-proxy runs";
        let proxy = ObjectId::new("proxy", "metadata");
        plan.report(Problem::error(proxy, Class::Transient, "no-proxy", message));
    }
    for (network, built) in networks {
        built.ops.into_iter().for_each(|op| plan.push(object(network), op));
        built.problem.into_iter().for_each(|problem| plan.report(problem));
    }
    plan
}

/// The networks in a key; those that do not parse are dropped.
pub fn listed(value: Option<&Str>) -> BTreeSet<Uuid> {
    let text = value.map_or("", Str::as_str);
    text.split(',').filter_map(|network| Uuid::try_parse(network.trim()).ok()).collect()
}

/// All networks of which anything is there.
fn present_networks(have: &Observed) -> BTreeSet<Uuid> {
    let mut networks = netns::plan::networks(&have.netns);
    networks.extend(have.ports.values().filter_map(|port| port.network));
    networks.extend(have.sockets.keys().map(|socket| socket.network));
    networks
}

fn build(network: Uuid, want: &ServedNetwork, have: &Observed, taken: &mut BTreeSet<Dev>) -> NetworkOps {
    let netns::plan::NetworkPlan { pair, ops } =
        netns::plan::build(network, &want.namespace, &have.netns, taken);
    let creates = ops.iter().any(|op| matches!(op, netns::Op::CreatePair { .. }));
    if let (true, Some((dev, seen))) =
        (creates, pair.as_ref().and_then(|pair| have.ports.get_key_value(&pair.host)))
    {
        // Open vSwitch goes on using the device that it has opened, though another one has its name by now. So the port goes
        // first, and the device is created when that is done.
        let ops = vec![Op::Unplug { dev: dev.clone(), seen: seen.clone() }];
        taken.insert(dev.clone());
        return NetworkOps { ops, ..NetworkOps::default() };
    }
    let inner = |op| Op::Netns { network, op };
    let mut out = NetworkOps { ops: ops.into_iter().map(inner).collect(), ..NetworkOps::default() };
    let Some(pair) = pair else {
        let message = "all names for its devices belong to other devices; rename or remove those";
        let problem = Problem::error(object(network), Class::Refused, "device-in-the-way", message);
        return NetworkOps { ops: Vec::new(), problem: Some(problem), ..out };
    };
    taken.insert(pair.host.clone());
    let port = PluggedPort { bridge: want.bridge.clone(), iface_id: want.port.clone(), network };
    let seen = have.ports.get(&pair.host);
    if !seen.is_some_and(|seen| seen.is(&port)) {
        out.ops.push(Op::Plug { dev: pair.host.clone(), port, seen: seen.cloned() });
    }
    // Ports of ours with other names are left from before.
    let others = have.ports.iter().filter(|(dev, seen)| seen.network == Some(network) && **dev != pair.host);
    out.ops.extend(others.map(|(dev, seen)| Op::Unplug { dev: dev.clone(), seen: seen.clone() }));
    // A namespace that is about to be created has no inode yet; its sockets come with the next plan.
    let Some(namespace) = have.netns.namespaces.get(&network).filter(|_| out.ops.is_empty()) else {
        return out;
    };
    let ipv6 = want.namespace.addresses.iter().any(|address| address.addr() == IPV6);
    let families = [Family::Neighbours, Family::Ipv4].into_iter().chain(ipv6.then_some(Family::Ipv6));
    let inner = namespace.devices.get(&pair.inner).map_or(0, |inner| inner.index);
    let socket = |family| {
        let device = if family == Family::Ipv4 { 0 } else { inner };
        ListenerId { network, family, namespace: namespace.inode, device }
    };
    let wanted: BTreeSet<ListenerId> = families.map(socket).collect();
    // A network that was ready before this agent started is ready still.
    let was_ready = listed(have.rows.ready.as_ref()).contains(&network);
    if have.proxy == ProxyState::Restarting && was_ready {
        // The sockets, which the proxy has as well, are told of when it is connected again.
        out.ready = true;
        return out;
    }
    let missing: BTreeSet<ListenerId> =
        wanted.iter().filter(|socket| !have.sockets.contains_key(socket)).copied().collect();
    let served = wanted.iter().all(|socket| have.sockets.get(socket) == Some(&SocketState::Served));
    if !missing.is_empty() {
        out.ops.push(Op::Listen { network, sockets: missing });
    }
    out.ops.extend(
        closing(network, have).filter(|socket| !wanted.contains(socket)).map(|socket| Op::Close { socket }),
    );
    if !out.ops.is_empty() {
        return out;
    }
    let of = ProbedPort {
        network,
        namespace: namespace.inode,
        port: want.port.clone(),
        bridge: want.bridge.clone(),
    };
    let probe = have.probes.get(&of);
    match probe {
        None if !was_ready && !want.probes.is_empty() => {
            out.ops.push(Op::Probe { of, dev: pair.inner, addresses: want.probes.clone() })
        }
        Some(ProbeState::Silent) => {
            let message =
                "OVN did not answer a probe from its namespace in time; see whether ovn-controller runs";
            out.problem =
                Some(Problem::warning(object(network), Class::Transient, "probe-unanswered", message));
        }
        _ => {}
    }
    out.ready = served && out.ops.is_empty() && probe != Some(&ProbeState::Running);
    out
}

/// The sockets of a network that are not closing yet.
fn closing(network: Uuid, have: &Observed) -> impl Iterator<Item = ListenerId> + '_ {
    let sockets = have.sockets.iter().filter(move |(socket, _)| socket.network == network);
    sockets.filter(|(_, state)| **state != SocketState::Closing).map(|(socket, _)| *socket)
}

fn tear_down(network: Uuid, have: &Observed) -> Vec<Op> {
    let close: Vec<Op> = closing(network, have).map(|socket| Op::Close { socket }).collect();
    // A socket keeps its namespace alive, so the namespace waits for the last one to be closed.
    if have.sockets.keys().any(|socket| socket.network == network) {
        return close;
    }
    let ports = have.ports.iter().filter(|(dev, seen)| {
        seen.network == Some(network) || seen.network.is_none() && have.netns.is_ours(network, dev)
    });
    let unplug = ports.map(|(dev, seen)| Op::Unplug { dev: dev.clone(), seen: seen.clone() });
    let netns = netns::plan::tear_down(network, &have.netns).into_iter().map(|op| Op::Netns { network, op });
    unplug.chain(netns).collect()
}

#[cfg(test)]
mod tests;
