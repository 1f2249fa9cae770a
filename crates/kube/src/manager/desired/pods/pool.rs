//! The addresses, MAC addresses and tunnel keys of one network.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ovn::MacAddr;

use super::super::super::numbers::Numbers;
use super::super::addresses::{AddressOwner, AddressPool};
use crate::address::{DualAddress, mac_of};
use crate::annotation::{PodNetwork, PodRoute};
use crate::ident::PodKey;
use crate::network::{ClusterNetwork, Layer2Network};

/// The owner of a tunnel key on a network's switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyOwner {
    /// A pod.
    Pod { attachment: Arc<str>, uid: String },
    /// The gateway router of a node, in the old topology.
    Gateway(String),
}

#[derive(Debug)]
pub(super) struct NetworkPool {
    addresses: Vec<AddressPool>,
    macs: BTreeMap<MacAddr, AddressOwner>,
    keys: Numbers<KeyOwner>,
}

impl NetworkPool {
    pub(super) fn new(network: &Layer2Network) -> NetworkPool {
        NetworkPool {
            addresses: network.subnets.nets().map(AddressPool::new).collect(),
            macs: BTreeMap::new(),
            keys: Numbers::new(PodKey::MIN.get().into(), PodKey::MAX.get().into()),
        }
    }

    pub(super) fn retain(
        &mut self,
        pod: impl Fn(&str) -> bool,
        gateway: impl Fn(&str) -> bool,
        claim: impl Fn(&str, &str) -> bool,
    ) {
        let keep = |owner: &AddressOwner| match owner {
            AddressOwner::Pod(uid) => pod(uid),
            AddressOwner::Claim(namespace, name) => claim(namespace, name),
        };
        self.addresses.iter_mut().for_each(|pool| pool.retain(keep));
        self.macs.retain(|_, owner| keep(owner));
        self.keys.retain(|owner| match owner {
            KeyOwner::Pod { uid, .. } => pod(uid),
            KeyOwner::Gateway(node) => gateway(node),
        });
    }

    /// Gives a certain key to the gateway router of a node. False if it has another one, or the key another owner.
    pub(super) fn reserve_gateway(&mut self, node: &str, key: u16) -> bool {
        self.keys.reserve(&KeyOwner::Gateway(node.to_owned()), key.into())
    }

    /// The key of the gateway router of a node, a new one if it has none.
    pub(super) fn gateway_key(&mut self, node: &str) -> Option<u16> {
        let key = self.keys.allocate(&KeyOwner::Gateway(node.to_owned()))?;
        u16::try_from(key).ok()
    }

    /// Gives a certain address to an owner.
    pub(super) fn reserve_address(
        &mut self,
        owner: &AddressOwner,
        address: IpAddr,
        network: &Layer2Network,
    ) -> bool {
        let pool = self.addresses.iter_mut().find(|pool| pool.net().contains(&address));
        pool.is_some_and(|pool| pool.reserve(owner, address, network))
    }

    /// Takes what a pod has; all or nothing.
    pub(super) fn reserve(
        &mut self,
        owner: &AddressOwner,
        key: &KeyOwner,
        had: &PodNetwork,
        network: &Layer2Network,
    ) -> Result<(), String> {
        let mac = had.mac_address;
        if self.macs.get(&mac).is_some_and(|other| other != owner) || is_of_platform(mac, network) {
            return Err(format!("MAC address {mac} belongs to somebody else"));
        }
        if let Some(number) = had.tunnel_id.map(u32::from) {
            let in_range = (1..=u32::from(PodKey::MAX.get())).contains(&number);
            let is_free = self.keys.owner(number).is_none_or(|other| other == key);
            if !in_range || !is_free {
                return Err(format!("tunnel id {number} belongs to somebody else"));
            }
        }
        for address in had.addresses().map(|net| net.addr()) {
            let pool = self.addresses.iter().find(|pool| pool.net().contains(&address));
            let Some(pool) = pool.filter(|_| network.may_be_requested(address)) else {
                return Err(format!("{address} is no address for pods of network {}", network.name));
            };
            if pool.owner(address).is_some_and(|other| other != owner) {
                return Err(format!("{address} belongs to somebody else"));
            }
            if pool.get(owner).is_some_and(|other| other != address) {
                return Err(format!("{address} is not the address of its IPAMClaim"));
            }
        }
        for address in had.addresses() {
            self.reserve_address(owner, address.addr(), network);
        }
        self.macs.insert(mac, owner.clone());
        if let Some(number) = had.tunnel_id {
            self.keys.reserve(key, number.into());
        }
        Ok(())
    }

    /// Gives a pod all that it needs, or nothing.
    pub(super) fn allocate(
        &mut self,
        owner: &AddressOwner,
        key: &KeyOwner,
        mac: Option<MacAddr>,
        network: &Layer2Network,
        cluster: &ClusterNetwork,
    ) -> Result<PodNetwork, String> {
        // A claim had its addresses before the pod came, and keeps them if the pod cannot have the rest.
        let had: Vec<bool> = self.addresses.iter().map(|pool| pool.get(owner).is_some()).collect();
        let result = self.try_allocate(owner, key, mac, network, cluster);
        if result.is_err() {
            for (pool, had) in self.addresses.iter_mut().zip(had) {
                if !had {
                    pool.retain(|other| other != owner);
                }
            }
            self.keys.retain(|other| other != key);
        }
        result
    }

    fn try_allocate(
        &mut self,
        owner: &AddressOwner,
        key: &KeyOwner,
        mac: Option<MacAddr>,
        network: &Layer2Network,
        cluster: &ClusterNetwork,
    ) -> Result<PodNetwork, String> {
        let mut nets = Vec::new();
        for pool in &mut self.addresses {
            let net = pool.net();
            let address = pool.allocate(owner, network).ok_or_else(|| {
                format!("no free address in {net} of network {}; delete pods", network.name)
            })?;
            nets.extend(IpNet::new(address, net.prefix_len()));
        }
        let addresses = DualAddress::from_addresses(nets.iter().map(|net| net.addr())).unwrap_or_default();
        let mac = mac.or_else(|| mac_of(addresses)).ok_or("the network has no subnet")?;
        if self.macs.get(&mac).is_some_and(|other| other != owner) || is_of_platform(mac, network) {
            return Err(format!("MAC address {mac} belongs to somebody else; request another one"));
        }
        let number = self
            .keys
            .allocate(key)
            .and_then(|number| u16::try_from(number).ok())
            .ok_or_else(|| format!("no free tunnel id in network {}; delete pods", network.name))?;
        self.macs.insert(mac, owner.clone());
        Ok(describe(nets, mac, number, network, cluster))
    }
}

/// True for the MAC addresses of the gateway and the management port.
fn is_of_platform(mac: MacAddr, network: &Layer2Network) -> bool {
    mac == network.gateway_mac() || mac == network.management_mac()
}

/// The annotation's entry.
fn describe(
    nets: Vec<IpNet>,
    mac: MacAddr,
    number: u16,
    network: &Layer2Network,
    cluster: &ClusterNetwork,
) -> PodNetwork {
    let gateways: Vec<IpAddr> = network.gateway.addresses().all().collect();
    let mut routes = Vec::new();
    for gateway in &gateways {
        let destinations = cluster.service_subnets.iter().copied().chain(network.join.nets());
        for dest in destinations.filter(|net| net.addr().is_ipv4() == gateway.is_ipv4()) {
            routes.push(PodRoute { dest, next_hop: *gateway });
        }
    }
    let ip_address = match nets.as_slice() {
        [net] => Some(*net),
        _ => None,
    };
    let gateway_ip = match gateways.as_slice() {
        [gateway] => Some(*gateway),
        _ => None,
    };
    PodNetwork {
        ip_addresses: nets,
        mac_address: mac,
        gateway_ips: gateways,
        routes,
        ip_address,
        gateway_ip,
        ipv6_lla_gateway_ip: network.gateway.ipv6.map(|_| network.gateway_mac().link_local()),
        tunnel_id: Some(number),
        role: Some("primary".to_owned()),
    }
}
