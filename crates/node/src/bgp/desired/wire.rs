//! From what must be reachable to what kernel, switch and FRR must look like.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{Address, Decision, Inherited, PatchPort, Place, ProviderBridge};
use crate::bgp::config::{Advertisement, Config, RuleMode};
use crate::bgp::snapshot::Snapshot;
use crate::frr::Redistribute;
use crate::kernel::state::Rule;
use crate::kernel::{self, Dev, Family, Hop, Knob, Link, Own, Select, Sysctl, Table};
use crate::plane::unclaimed::UnclaimedAnnouncements;
use crate::{flows, frr, plane};

/// The prefix of the IPv6 addresses that make bridges speak NDP.
const BRIDGE_PREFIX: [u16; 6] = [0xfd53, 0xd91e, 0x400, 0x7f17, 0, 0];

/// The desired data plane of a decision.
pub fn wire(snapshot: &Snapshot, decision: &Decision) -> plane::Desired {
    let config = &*snapshot.config;
    plane::Desired {
        kernel: kernel(config, decision),
        vlan_device: config.vlan_device,
        flows: flows(decision),
        frr: Some(stanzas(config)),
        drain: config.withdraw_drain,
        guard: snapshot.guard,
        partial: false,
        unclaimed: unclaimed(decision),
        reserved: Arc::clone(&snapshot.reserved),
    }
}

/// The same as [`wire`], from what it gave for the decision before. Where two decisions differ in addresses only, as they mostly
/// do, nothing else is looked at.
pub fn rewire(
    snapshot: &Snapshot,
    before: (&Decision, plane::Desired),
    decision: &Decision,
) -> plane::Desired {
    let (before, mut wired) = before;
    let rest = Decision { addresses: decision.addresses.clone(), ..before.clone() };
    if rest != *decision {
        return wire(snapshot, decision);
    }
    let config = &*snapshot.config;
    for difference in before.addresses.diff(&decision.addresses) {
        let (old, new) = match difference {
            DiffItem::Add(ip, address) => (None, Some((ip, address))),
            DiffItem::Update { old, new } => (Some(old), Some(new)),
            DiffItem::Remove(ip, address) => (Some((ip, address)), None),
        };
        // A subnet of one address has the same rule and route.
        if old.or(new).is_some_and(|(ip, _)| decision.subnets.contains_key(&IpNet::from(*ip))) {
            return wire(snapshot, decision);
        }
        old.into_iter().for_each(|old| expose(&mut wired.kernel, config, decision, old, false));
        new.into_iter().for_each(|new| expose(&mut wired.kernel, config, decision, new, true));
    }
    wired.guard = snapshot.guard;
    wired.reserved = Arc::clone(&snapshot.reserved);
    wired
}

/// The announcements that stay although no row has them; `None` if nothing is announced at all.
fn unclaimed(decision: &Decision) -> Option<UnclaimedAnnouncements> {
    match &decision.inherited {
        Inherited::Doubted(unclaimed) if decision.silence.is_none() => Some(unclaimed.clone()),
        _ => None,
    }
}

fn kernel(config: &Config, decision: &Decision) -> kernel::Desired {
    let mut want = kernel::Desired {
        own: Own {
            announce: config.bgp_nic.clone(),
            vrf_table: config.bgp_vrf_table_id,
            priority: config.rule_priority,
            clear_vrf: config.clear_vrf_routes_on_startup,
        },
        ..Default::default()
    };
    want.links.insert(config.bgp_vrf.clone(), Link::Vrf { table: config.bgp_vrf_table_id });
    want.links.insert(config.bgp_nic.clone(), Link::Dummy { master: Some(config.bgp_vrf.clone()) });
    bridges(&mut want, config, decision);
    decision.addresses.iter().for_each(|exposed| expose(&mut want, config, decision, exposed, true));
    subnets(&mut want, config, decision);
    want.proxies.extend(decision.proxies.iter().cloned());
    for extra in &config.ndp_proxy_extra {
        let devices = decision.networks.values();
        let devices =
            devices.filter(|network| extra.physnet.as_ref().is_none_or(|name| *name == network.physnet));
        want.proxies.extend(devices.map(|network| (network.dev.clone(), extra.address)));
    }
    want
}

/// Bridges and VLANs, each able to answer for others, and each bridge's table.
fn bridges(want: &mut kernel::Desired, config: &Config, decision: &Decision) {
    for (dev, bridge) in &decision.bridges {
        want.links.insert(dev.clone(), Link::Bridge);
        let table = Table::Bridge(dev.clone());
        for family in Family::BOTH {
            let hop = Hop { dev: dev.clone(), via: None };
            want.routes.insert((table.clone(), family.default_net()), hop);
            if config.rule_mode == RuleMode::Aggregate {
                want.rules.insert(Rule { select: Select::All(family), table: table.clone() });
            }
        }
        let mut taken = BTreeSet::new();
        answers(want, dev, bridge_addresses(bridge.index, None, &mut taken));
        let vlans = decision.networks.values().filter(|network| network.bridge == *dev);
        let vlans: BTreeMap<u16, &Dev> = vlans.filter_map(|vlan| Some((vlan.tag?, &vlan.dev))).collect();
        for (tag, vlan) in vlans {
            want.links.insert(vlan.clone(), Link::Vlan { parent: dev.clone(), tag });
            answers(want, vlan, bridge_addresses(bridge.index, Some(tag), &mut taken));
        }
    }
}

/// Has a device speak ARP and NDP, and answer for what is routed elsewhere.
fn answers(want: &mut kernel::Desired, dev: &Dev, addresses: [IpNet; 2]) {
    for net in addresses {
        want.addresses.insert(kernel::Address { dev: dev.clone(), net });
    }
    for knob in [Knob::ProxyArp, Knob::ProxyNdp] {
        want.sysctls.insert(Sysctl { dev: dev.clone(), knob });
    }
}

/// The addresses of a bridge or VLAN device. Of two VLANs that would have the same, as 1 and 257, the later gets another.
fn bridge_addresses(index: usize, tag: Option<u16>, taken: &mut BTreeSet<Ipv4Addr>) -> [IpNet; 2] {
    let low = |number: usize| u8::try_from(number % 256).unwrap_or(0);
    let number = tag.map_or(index, usize::from);
    let mut v4 = Ipv4Addr::new(169, 254, low(index), low(number));
    let mut v6 = u16::from(low(number));
    if !taken.insert(v4) {
        v4 = Ipv4Addr::new(169, 254, low(index + 16 * (1 + number / 256)), low(number));
        v6 = u16::try_from(number).unwrap_or(0) | 0x1000;
        taken.insert(v4);
    }
    let [a, b, c, d, e, f] = BRIDGE_PREFIX;
    let v6 = Ipv6Addr::new(a, b, c, d, e, f, u16::try_from(index).unwrap_or(0), v6);
    [IpNet::V4(Ipv4Net::from(v4)), IpNet::V6(Ipv6Net::from(v6))]
}

/// Adds what exposes an address, or takes it away.
fn expose(
    want: &mut kernel::Desired,
    config: &Config,
    decision: &Decision,
    exposed: (&IpAddr, &Address),
    there: bool,
) {
    let (ip, address) = exposed;
    let net = IpNet::from(*ip);
    if decision.silence.is_none() {
        let announced = kernel::Address { dev: config.bgp_nic.clone(), net };
        let _ = if there { want.addresses.insert(announced) } else { want.addresses.remove(&announced) };
    }
    let Place::Wired { bridge, dev } = &address.place else { return };
    if there {
        route(want, config, bridge, net, Hop { dev: dev.clone(), via: None });
        want.neighbours.extend(address.neighbour.map(|mac| ((dev.clone(), *ip), mac)));
    } else {
        let table = Table::Bridge(bridge.clone());
        want.rules.remove(&Rule { select: Select::To(net), table: table.clone() });
        want.routes.remove(&(table, net));
        want.neighbours.remove(&(dev.clone(), *ip));
    }
}

fn subnets(want: &mut kernel::Desired, config: &Config, decision: &Decision) {
    for (net, subnet) in &decision.subnets {
        let hop = Hop { dev: subnet.dev.clone(), via: Some(subnet.via) };
        route(want, config, &subnet.bridge, *net, hop);
        if config.advertisement == Advertisement::Subnet && decision.silence.is_none() {
            let hop = Hop { dev: config.bgp_nic.clone(), via: Some(subnet.via) };
            want.routes.insert((Table::Number(config.bgp_vrf_table_id), *net), hop);
        }
    }
}

/// A route in a bridge's table, and the rule that leads there.
fn route(want: &mut kernel::Desired, config: &Config, bridge: &Dev, net: IpNet, hop: Hop) {
    let table = Table::Bridge(bridge.clone());
    if config.rule_mode == RuleMode::PerIp {
        want.rules.insert(Rule { select: Select::To(net), table: table.clone() });
    }
    want.routes.insert((table, net), hop);
}

fn flows(decision: &Decision) -> flows::Desired {
    let of = |bridge: &ProviderBridge| {
        let restore_normal = !bridge.controlled;
        let mut flows = flows::Bridge { mac: bridge.mac, restore_normal, ..Default::default() };
        for PatchPort { number, dev } in bridge.patch_ports.values() {
            match number {
                Some(number) => _ = flows.ports.insert(*number, dev.clone()),
                None => _ = flows.unnumbered.insert(dev.clone()),
            }
        }
        flows
    };
    decision.bridges.iter().map(|(dev, bridge)| (dev.clone(), of(bridge))).collect()
}

fn stanzas(config: &Config) -> frr::Desired {
    let mut redistribute = BTreeSet::from([Redistribute::Connected]);
    if config.advertisement == Advertisement::Subnet {
        redistribute.insert(Redistribute::Kernel);
    }
    frr::Desired {
        asn: config.bgp_as.clone(),
        vrf: config.bgp_vrf.clone(),
        router_id: config.bgp_router_id,
        redistribute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(nets: [IpNet; 2]) -> String {
        format!("{} {}", nets[0], nets[1])
    }

    #[test]
    fn addresses_of_bridges_and_vlans() {
        let mut taken = BTreeSet::new();
        let mut at = |index, tag| shown(bridge_addresses(index, tag, &mut taken));
        assert_eq!(at(1, None), "169.254.1.1/32 fd53:d91e:400:7f17::1:1/128");
        assert_eq!(at(1, Some(100)), "169.254.1.100/32 fd53:d91e:400:7f17::1:64/128");
        assert_eq!(at(2, Some(100)), "169.254.2.100/32 fd53:d91e:400:7f17::2:64/128");
        assert_eq!(
            at(1, Some(1)),
            "169.254.17.1/32 fd53:d91e:400:7f17::1:1001/128",
            "the bridge has the first"
        );
        assert_eq!(at(1, Some(257)), "169.254.33.1/32 fd53:d91e:400:7f17::1:1101/128");
    }
}
