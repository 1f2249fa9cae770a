//! A value per address family. Its JSON form is that of the node annotations: `{"ipv4":"100.88.0.4/30","ipv6":"fd97::4/127"}`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// At most one value of each address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualStack<V4, V6> {
    /// IPv4's value.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<V4>,
    /// IPv6's value.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<V6>,
}

/// A subnet, or an address with a prefix length, of each family.
pub type DualNet = DualStack<Ipv4Net, Ipv6Net>;
/// An address of each family.
pub type DualAddress = DualStack<Ipv4Addr, Ipv6Addr>;

fn none<T>() -> Option<T> {
    None
}

impl<V4, V6> Default for DualStack<V4, V6> {
    fn default() -> Self {
        Self { ipv4: None, ipv6: None }
    }
}

impl<V4, V6> DualStack<V4, V6> {
    /// Both families.
    pub fn both(ipv4: V4, ipv6: V6) -> Self {
        Self { ipv4: Some(ipv4), ipv6: Some(ipv6) }
    }

    /// True without any value.
    pub fn is_empty(&self) -> bool {
        self.ipv4.is_none() && self.ipv6.is_none()
    }

    /// These values without those of families that `other` lacks.
    #[must_use]
    pub fn only_families_of<A, B>(self, other: &DualStack<A, B>) -> Self {
        Self {
            ipv4: self.ipv4.filter(|_| other.ipv4.is_some()),
            ipv6: self.ipv6.filter(|_| other.ipv6.is_some()),
        }
    }
}

impl DualNet {
    /// The addresses without prefix lengths: `203.203.0.1/16` becomes `203.203.0.1`.
    pub fn addresses(self) -> DualAddress {
        DualStack { ipv4: self.ipv4.map(|net| net.addr()), ipv6: self.ipv6.map(|net| net.addr()) }
    }

    /// The subnets, IPv4 first.
    pub fn nets(self) -> impl Iterator<Item = IpNet> {
        self.ipv4.map(IpNet::V4).into_iter().chain(self.ipv6.map(IpNet::V6))
    }

    /// One subnet of each family; `None` if two have the same family.
    pub fn from_nets(nets: impl IntoIterator<Item = IpNet>) -> Option<DualNet> {
        let mut all = DualNet::default();
        for net in nets {
            let taken = match net {
                IpNet::V4(net) => all.ipv4.replace(net).is_some(),
                IpNet::V6(net) => all.ipv6.replace(net).is_some(),
            };
            if taken {
                return None;
            }
        }
        Some(all)
    }

    /// The subnet of an address's family.
    pub fn of_family(self, address: IpAddr) -> Option<IpNet> {
        match address {
            IpAddr::V4(_) => self.ipv4.map(IpNet::V4),
            IpAddr::V6(_) => self.ipv6.map(IpNet::V6),
        }
    }
}

impl DualAddress {
    /// The addresses, IPv4 first.
    pub fn all(self) -> impl Iterator<Item = IpAddr> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }

    /// The address of another address's family.
    pub fn of_family(self, like: IpAddr) -> Option<IpAddr> {
        match like {
            IpAddr::V4(_) => self.ipv4.map(IpAddr::V4),
            IpAddr::V6(_) => self.ipv6.map(IpAddr::V6),
        }
    }

    /// One address of each family; `None` if two have the same family.
    pub fn from_addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Option<DualAddress> {
        let mut all = DualAddress::default();
        for address in addresses {
            let taken = match address {
                IpAddr::V4(address) => all.ipv4.replace(address).is_some(),
                IpAddr::V6(address) => all.ipv6.replace(address).is_some(),
            };
            if taken {
                return None;
            }
        }
        Some(all)
    }
}
