//! The instances behind the ports of a network.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use metadata_proxy::identity::{MacAddr, PortIdentity};
use ovn::PortType;
use ovn::sb::PortBinding;
use ovn::text::Text;
use ovn::text::neutron::key;
use ovsdb::Str;

/// The ports of a network that belong to an instance. `parent` finds the port that a nested or a virtual port belongs to.
pub(super) fn of<'a>(
    local: &[&'a PortBinding],
    parent: impl Fn(&PortBinding) -> Option<&'a PortBinding>,
) -> Vec<PortIdentity> {
    let identity = |port: &&'a PortBinding| {
        let kinds = [PortType::Vif, PortType::External, PortType::Virtual];
        if !kinds.contains(&port.kind) || value(port, key::DEVICE_OWNER).starts_with("network:") {
            return None;
        }
        // A virtual address belongs to the port that has claimed it, a trunk's sub-port to the trunk's port.
        let of = match port.kind == PortType::Virtual || value(port, key::DEVICE_ID).is_empty() {
            true => parent(port)?,
            false => port,
        };
        let (instance, project) = (value(of, key::DEVICE_ID), value(of, key::PROJECT_ID));
        (!instance.is_empty()).then(|| PortIdentity {
            instance: instance.to_owned(),
            project: project.to_owned(),
            addresses: addresses(port),
            macs: senders(port, of),
        })
    };
    local.iter().filter_map(identity).filter(|port| !port.addresses.is_empty()).collect()
}

fn value<'a>(port: &'a PortBinding, key: &str) -> &'a str {
    port.external_ids.get(key).map_or("", Str::as_str)
}

/// The Ethernet addresses that a port's packets come from: its own, and those of the port that it belongs to. Packets of an external
/// port may come through a router of the provider, so nobody knows.
fn senders(port: &PortBinding, of: &PortBinding) -> BTreeSet<MacAddr> {
    if [port, of].iter().any(|port| port.kind == PortType::External) {
        return BTreeSet::new();
    }
    macs(port).chain(macs(of)).map(|mac| MacAddr(mac.octets())).collect()
}

fn macs(port: &PortBinding) -> impl Iterator<Item = ovn::MacAddr> + '_ {
    port.mac.iter().filter_map(Text::value).filter_map(|addresses| addresses.mac())
}

/// The addresses of a port, and the link-local ones that follow from its Ethernet addresses.
fn addresses(port: &PortBinding) -> BTreeSet<IpAddr> {
    let link_local = macs(port).map(|mac| IpAddr::from(mac.link_local()));
    port.ips().into_iter().chain(port.cidrs().map(|cidr| cidr.addr)).chain(link_local).collect()
}
