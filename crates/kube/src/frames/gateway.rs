//! The frames that bring one guest to its network's gateway.

use std::collections::BTreeMap;

use ovn::MacAddr;

use super::arp::{ArpOperation, gratuitous_arp};
use super::nd::{GatewayStatement, neighbor_advertisement, router_advertisement};
use crate::address::{DualAddress, mac_of};
use crate::network::Layer2Network;
use crate::zone::ZoneNode;

/// Whether a guest is a virtual machine or a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuestKind {
    /// A virtual machine, whose own system learns its IPv6 gateway from advertisements.
    Vm,
    /// A container, whose routes lead to the gateway's global address.
    Container,
}

/// The receiver of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Virtual machine or container.
    pub kind: GuestKind,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its addresses.
    pub addresses: DualAddress,
}

/// All frames of one round. The gateway's MAC address follows from the network: the first gateway in a pod's annotation may be of the
/// family that does not decide.
pub fn gateway_frames(
    network: &Layer2Network,
    nodes: &BTreeMap<String, ZoneNode>,
    guest: &Guest,
) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mac = network.gateway_mac();
    let gateway = network.gateway.addresses();
    if let (Some(gateway), Some(_)) = (gateway.ipv4, guest.addresses.ipv4) {
        frames.push(gratuitous_arp(ArpOperation::Request, mac, gateway));
        frames.push(gratuitous_arp(ArpOperation::Reply, mac, gateway));
    }
    if let (Some(gateway), Some(address)) = (gateway.ipv6, guest.addresses.ipv6) {
        let to = (guest.mac, address);
        // In the old topology the gateway router of every node advertised itself.
        for node in nodes.values() {
            if let Some(old) = mac_of(node.join(network).addresses()) {
                frames.push(router_advertisement(old, to, GatewayStatement::Gone));
            }
        }
        match guest.kind {
            GuestKind::Vm => {
                let advertised = GatewayStatement::Gateway { forget: network.join.ipv6 };
                frames.push(router_advertisement(mac, to, advertised));
            }
            GuestKind::Container => frames.push(neighbor_advertisement(mac, gateway)),
        }
    }
    frames
}
