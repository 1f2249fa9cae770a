//! `addresses` and `port_security` of a switch port.

use std::collections::BTreeMap;

use ovn::ident::name;
use ovn::text::neutron::device_owner;
use ovn::text::{HostAddr, PortAddresses, PortSecurity, Text};
use ovn::{MacAddr, PortType};
use ovsdb::Set;

use super::port::is_secured;
use crate::model::{AddressPair, Port};
use crate::snapshot::Ability;

/// The addresses behind a port. A port that may send with any address, and is not `answered` by DHCP, has the unknown ones only: OVN must
/// not answer ARP requests for it.
pub(super) fn addresses(port: &Port, kind: &PortType, answered: bool) -> Set<Text<PortAddresses>> {
    if *kind == PortType::Router {
        return Set::from([Text::from(PortAddresses::Router)]);
    }
    if is_unbound_vip(port) {
        return Set::default();
    }
    let anybody = *kind == PortType::Vif && !is_secured(port);
    if *kind == PortType::Vtep || (anybody && !answered) {
        return Set::from([Text::from(PortAddresses::Unknown)]);
    }
    let ips = port.fixed_ips.iter().map(|fixed| HostAddr::from(fixed.ip_address)).collect();
    let mut all = vec![PortAddresses::Fixed { mac: port.mac, ips }];
    let others = port.allowed_address_pairs.iter().filter_map(|pair| pair.mac_address);
    all.extend(
        others.filter(|mac| *mac != port.mac).map(|mac| PortAddresses::Fixed { mac, ips: Box::default() }),
    );
    if anybody {
        all.push(PortAddresses::Unknown);
    }
    all.into_iter().map(Text::from).collect()
}

/// Whether a port holds the VIP of a load balancer. With addresses, the switch itself would answer for it, but no machine is behind it.
fn is_unbound_vip(port: &Port) -> bool {
    let unowned = port.device_owner.is_empty() && name::is_lb_vip_port(&port.name);
    (unowned || port.device_owner == device_owner::LB_VIP) && port.binding.host_id.is_empty()
}

/// The addresses that a port may send from; empty for any, as for the machines behind a physical switch.
pub(super) fn port_security(port: &Port, kind: &PortType, ability: Ability) -> Set<Text<PortSecurity>> {
    if *kind == PortType::Vtep || !is_secured(port) {
        return Set::default();
    }
    let mut own: Vec<HostAddr> = port.fixed_ips.iter().map(|fixed| fixed.ip_address.into()).collect();
    let mut others: BTreeMap<MacAddr, Vec<HostAddr>> = BTreeMap::new();
    for pair in &port.allowed_address_pairs {
        match pair.mac_address.filter(|mac| *mac != port.mac) {
            None => own.push(written(pair)),
            Some(mac) => others.entry(mac).or_default().push(written(pair)),
        }
    }
    let mut all = vec![PortSecurity::Source { mac: port.mac, ips: own.into() }];
    for (vmac, ips) in others {
        let ips: Box<[HostAddr]> = ips.into();
        if ability.vrrp {
            all.push(PortSecurity::Vrrp { mac: port.mac, vmac, ips: ips.clone() });
        }
        all.push(PortSecurity::Source { mac: vmac, ips });
    }
    all.into_iter().map(Text::from).collect()
}

/// The address of a pair. A single address has no prefix length.
fn written(pair: &AddressPair) -> HostAddr {
    let net = pair.ip_address;
    if net.prefix_len() == net.max_prefix_len() { net.addr().into() } else { net.into() }
}
