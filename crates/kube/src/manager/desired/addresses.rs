//! The addresses of one network and one address family, each with at most one owner.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{host_count, nth_address};
use crate::network::Layer2Network;

/// The number of IPv6 addresses that are given automatically.
const MOST_IPV6: u128 = 65_536;

/// The owner of an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressOwner {
    /// A pod, by its identity.
    Pod(String),
    /// A claim, by its namespace and name. Its pods come and go.
    Claim(String, String),
}

/// The addresses of a subnet in use.
#[derive(Debug)]
pub(super) struct AddressPool {
    net: IpNet,
    by_address: BTreeMap<IpAddr, AddressOwner>,
    by_owner: BTreeMap<AddressOwner, IpAddr>,
    /// The position after the last address given.
    next: u128,
}

impl AddressPool {
    pub(super) fn new(net: IpNet) -> AddressPool {
        AddressPool { net, by_address: BTreeMap::new(), by_owner: BTreeMap::new(), next: 0 }
    }

    pub(super) fn net(&self) -> IpNet {
        self.net
    }

    pub(super) fn get(&self, owner: &AddressOwner) -> Option<IpAddr> {
        self.by_owner.get(owner).copied()
    }

    /// Gives a certain address to an owner without one. False if somebody else has it, or if it is no address of a pod.
    pub(super) fn reserve(&mut self, owner: &AddressOwner, address: IpAddr, network: &Layer2Network) -> bool {
        match (self.by_address.get(&address), self.by_owner.get(owner)) {
            (Some(other), _) => other == owner,
            (None, Some(_)) => false,
            (None, None) => {
                let is_free = self.net.contains(&address) && network.may_be_requested(address);
                if is_free {
                    self.take(owner, address);
                    if let Some(position) = self.position(address) {
                        self.next = self.next.max(position + 1);
                    }
                }
                is_free
            }
        }
    }

    /// The owner's address, a new one if it has none. `None` if all are in use.
    pub(super) fn allocate(&mut self, owner: &AddressOwner, network: &Layer2Network) -> Option<IpAddr> {
        if let Some(address) = self.get(owner) {
            return Some(address);
        }
        let (end, start) = (self.end(), self.next);
        let found =
            self.free_between(start, end, network).or_else(|| self.free_between(0, start.min(end), network));
        let address = found?;
        self.take(owner, address);
        self.next = self.position(address)? + 1;
        Some(address)
    }

    /// The first position that is not given automatically.
    fn end(&self) -> u128 {
        let all = host_count(self.net);
        if self.net.addr().is_ipv6() { all.min(MOST_IPV6) } else { all }
    }

    /// The first free address from one position to before another. A withheld subnet is one step, not one per address.
    fn free_between(&self, start: u128, end: u128, network: &Layer2Network) -> Option<IpAddr> {
        let mut position = start;
        while position < end {
            let address = nth_address(self.net, position)?;
            let withheld =
                network.reserved.iter().chain(&network.infrastructure).find(|net| net.contains(&address));
            position = match withheld {
                Some(net) => self.position(net.broadcast())?.checked_add(1)?,
                None if !network.is_withheld(address) && !self.by_address.contains_key(&address) => {
                    return Some(address);
                }
                None => position + 1,
            };
        }
        None
    }

    fn position(&self, address: IpAddr) -> Option<u128> {
        match (address, self.net.network()) {
            (IpAddr::V4(address), IpAddr::V4(base)) => {
                u32::from(address).checked_sub(base.into()).map(u128::from)
            }
            (IpAddr::V6(address), IpAddr::V6(base)) => u128::from(address).checked_sub(base.into()),
            _ => None,
        }
    }

    fn take(&mut self, owner: &AddressOwner, address: IpAddr) {
        self.by_address.insert(address, owner.clone());
        self.by_owner.insert(owner.clone(), address);
    }

    /// The owner of an address.
    pub(super) fn owner(&self, address: IpAddr) -> Option<&AddressOwner> {
        self.by_address.get(&address)
    }

    /// Frees the addresses of all owners that are not to be kept.
    pub(super) fn retain(&mut self, keep: impl Fn(&AddressOwner) -> bool) {
        self.by_address.retain(|_, owner| keep(owner));
        self.by_owner.retain(|owner, _| keep(owner));
    }
}
