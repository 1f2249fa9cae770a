//! A network that keeps all rules.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::MacAddr;

use super::NetworkName;
use crate::address::{
    DualAddress, DualNet, DualStack, gateway_addresses, mac_of, management_addresses, nth_address,
};

/// A primary layer-2 network. Every node and every program derives the same addresses from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer2Network {
    /// The name.
    pub name: NetworkName,
    /// The MTU, if the network has one of its own.
    pub mtu: Option<u32>,
    /// The subnets of the pods.
    pub subnets: DualNet,
    /// The join subnets, of the families of `subnets`.
    pub join: DualNet,
    /// The transit subnets, of the families of `subnets`.
    pub transit: DualNet,
    /// The gateway's addresses.
    pub gateway: DualNet,
    /// The management port's addresses.
    pub management: DualNet,
    /// Subnets without automatic allocation.
    pub reserved: Vec<IpNet>,
    /// Subnets of the gateway and the management port.
    pub infrastructure: Vec<IpNet>,
    /// The gateways that the user has chosen.
    pub chosen_gateways: DualAddress,
    /// Whether addresses survive their pod.
    pub persistent: bool,
}

impl Layer2Network {
    /// A network without options. The subnets, the join and the transit subnets have the same families.
    pub(super) fn new(name: NetworkName, subnets: DualNet, join: DualNet, transit: DualNet) -> Layer2Network {
        Layer2Network {
            name,
            mtu: None,
            subnets,
            join,
            transit,
            gateway: gateway_addresses(subnets),
            management: management_addresses(subnets),
            reserved: Vec::new(),
            infrastructure: Vec::new(),
            chosen_gateways: DualAddress::default(),
            persistent: false,
        }
    }

    pub(super) fn with_mtu(self, mtu: Option<u32>) -> Layer2Network {
        Layer2Network { mtu, ..self }
    }

    pub(super) fn with_reserved(self, reserved: Vec<IpNet>) -> Layer2Network {
        Layer2Network { reserved, ..self }
    }

    pub(super) fn with_persistence(self, persistent: bool) -> Layer2Network {
        Layer2Network { persistent, ..self }
    }

    /// Takes the gateway and the management port from the infrastructure subnets, and the gateway from the user's choice.
    pub(super) fn with_infrastructure(
        self,
        infrastructure: Vec<IpNet>,
        chosen: DualAddress,
    ) -> Layer2Network {
        let (mut gateways, mut ports) = (Vec::new(), Vec::new());
        for net in self.subnets.nets() {
            let is_ipv4 = net.addr().is_ipv4();
            let chosen = chosen.all().find(|address| address.is_ipv4() == is_ipv4);
            let mut of_family = infrastructure.iter().filter(|it| it.addr().is_ipv4() == is_ipv4).peekable();
            let candidates: Vec<IpAddr> = if of_family.peek().is_some() {
                // Of each subnet three are enough: one may be the first of the pods' subnet, one the gateway.
                of_family.flat_map(|net| (0..4).filter_map(|n| nth_address(*net, n))).collect()
            } else {
                // The management port moves only if the user gave its address to the gateway.
                let second = [2, 1].into_iter().filter_map(|n| nth_address(net, n));
                nth_address(net, 1).filter(|_| chosen.is_none()).into_iter().chain(second).collect()
            };
            let is_usable =
                |address: &IpAddr| *address != net.network() && !(is_ipv4 && *address == net.broadcast());
            let mut usable = candidates.into_iter().filter(is_usable);
            let gateway = chosen.or_else(|| usable.next());
            let port = usable.find(|address| Some(*address) != gateway);
            gateways.extend(gateway.and_then(|address| IpNet::new(address, net.prefix_len()).ok()));
            ports.extend(port.and_then(|address| IpNet::new(address, net.prefix_len()).ok()));
        }
        Layer2Network {
            gateway: DualNet::from_nets(gateways).unwrap_or_default(),
            management: DualNet::from_nets(ports).unwrap_or_default(),
            infrastructure,
            chosen_gateways: chosen,
            ..self
        }
    }

    /// The MAC address of the gateway, the same on every node.
    pub fn gateway_mac(&self) -> MacAddr {
        mac_of(self.gateway.addresses()).unwrap_or_default()
    }

    /// The MAC address of every node's management port.
    pub fn management_mac(&self) -> MacAddr {
        mac_of(self.management.addresses()).unwrap_or_default()
    }

    /// The name of the network's switch.
    pub fn switch_name(&self) -> String {
        self.name.switch_name()
    }

    /// True if no pod may get this address automatically.
    pub fn is_withheld(&self, address: IpAddr) -> bool {
        let Some(net) = self.subnets.of_family(address).filter(|net| net.contains(&address)) else {
            return true;
        };
        address == net.network()
            || (address.is_ipv4() && address == net.broadcast())
            || self.gateway.addresses().all().chain(self.management.addresses().all()).any(|it| it == address)
            || self.reserved.iter().chain(&self.infrastructure).any(|net| net.contains(&address))
    }

    /// True if a pod may ask for this address: reserved subnets are for that.
    pub fn may_be_requested(&self, address: IpAddr) -> bool {
        !self.is_withheld(address) || self.reserved.iter().any(|net| net.contains(&address))
    }

    /// The subnets of the families that this network has, out of a list.
    pub fn of_families<'n>(&self, nets: &'n [IpNet]) -> impl Iterator<Item = IpNet> + use<'n> {
        let families: DualStack<(), ()> =
            DualStack { ipv4: self.subnets.ipv4.map(|_| ()), ipv6: self.subnets.ipv6.map(|_| ()) };
        nets.iter().copied().filter(move |net| match net {
            IpNet::V4(_) => families.ipv4.is_some(),
            IpNet::V6(_) => families.ipv6.is_some(),
        })
    }
}
