//! `Logical_Switch_Port.addresses` and `.port_security`, and their copy by northd in `Port_Binding.mac`.
//!
//! An element is one line of words separated by blanks. Leading and trailing blanks are common and have no meaning. The
//! Southbound column has the same syntax: VIFs without prefix lengths, router ports with them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::host_addr::{HostAddr, HostAddrError};
use crate::mac::{MacAddr, MacError};

/// One element of `addresses` (Northbound) or `mac` (Southbound).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortAddresses {
    /// `MAC [IP ...]`: fixed addresses.
    Fixed {
        /// The port's Ethernet address.
        mac: MacAddr,
        /// Its IP addresses, in the order written.
        ips: Box<[HostAddr]>,
    },
    /// `unknown`: the switch sends frames for unknown MACs here.
    Unknown,
    /// `router`: take the addresses of the router port this port connects to.
    Router,
    /// `dynamic [IP ...]`: OVN allocates the MAC and the families not listed.
    Dynamic {
        /// Requested addresses.
        ips: Box<[HostAddr]>,
    },
    /// `MAC dynamic`: OVN allocates the IP addresses only.
    MacDynamic(MacAddr),
}

/// One element of `port_security`: the source addresses that the port may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortSecurity {
    /// `MAC [IP[/LEN] ...]`; without addresses only the MAC is checked.
    Source {
        /// Permitted Ethernet source.
        mac: MacAddr,
        /// Permitted IP sources, hosts or whole prefixes.
        ips: Box<[HostAddr]>,
    },
    /// `VRRPv3 MAC VMAC [IP ...]`: the port may speak for a virtual router's MAC (OVN 26.03).
    Vrrp {
        /// The port's own Ethernet address.
        mac: MacAddr,
        /// The virtual router's Ethernet address.
        vmac: MacAddr,
        /// The virtual addresses.
        ips: Box<[HostAddr]>,
    },
}

/// The error of a string that is no element of `addresses` or `port_security`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressesError {
    /// Only blanks.
    #[error("the string is empty; expected an address")]
    Empty,
    /// The first token is not an Ethernet address.
    #[error("reading the Ethernet address")]
    Mac(#[source] MacError),
    /// A later token is not an IP address.
    #[error("reading address {position}")]
    Ip {
        /// Its place among the IP addresses, from 1.
        position: usize,
        /// Why it is none.
        #[source]
        source: HostAddrError,
    },
    /// `unknown` and `router` stand alone, and nothing follows `MAC dynamic`.
    #[error("nothing may follow {0:?}")]
    Trailing(&'static str),
    /// `VRRPv3` without its second Ethernet address.
    #[error("VRRPv3 needs two Ethernet addresses")]
    Vmac,
}

impl PortAddresses {
    /// The Ethernet address, if the element names one.
    pub fn mac(&self) -> Option<MacAddr> {
        match self {
            PortAddresses::Fixed { mac, .. } | PortAddresses::MacDynamic(mac) => Some(*mac),
            _ => None,
        }
    }

    /// The addresses in the element, with the prefix lengths that it contains. Addresses requested with `dynamic` are left out, because the
    /// port does not have them yet.
    pub fn fixed(&self) -> &[HostAddr] {
        match self {
            PortAddresses::Fixed { ips, .. } => ips,
            _ => &[],
        }
    }

    /// The addresses without prefix lengths.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.fixed().iter().map(|ip| ip.addr)
    }
}

impl FromStr for PortAddresses {
    type Err = AddressesError;

    fn from_str(text: &str) -> Result<Self, AddressesError> {
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            None => Err(AddressesError::Empty),
            Some("unknown") => alone(words, "unknown", PortAddresses::Unknown),
            Some("router") => alone(words, "router", PortAddresses::Router),
            Some("dynamic") => Ok(PortAddresses::Dynamic { ips: ips(words)? }),
            Some(word) => {
                let mac = word.parse().map_err(AddressesError::Mac)?;
                if words.clone().next() == Some("dynamic") {
                    words.next();
                    return alone(words, "dynamic", PortAddresses::MacDynamic(mac));
                }
                Ok(PortAddresses::Fixed { mac, ips: ips(words)? })
            }
        }
    }
}

impl FromStr for PortSecurity {
    type Err = AddressesError;

    fn from_str(text: &str) -> Result<Self, AddressesError> {
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            None => Err(AddressesError::Empty),
            Some("VRRPv3") => {
                let mut mac = || match words.next() {
                    Some(word) => word.parse().map_err(AddressesError::Mac),
                    None => Err(AddressesError::Vmac),
                };
                let (mac, vmac) = (mac()?, mac()?);
                Ok(PortSecurity::Vrrp { mac, vmac, ips: ips(words)? })
            }
            Some(word) => {
                let mac = word.parse().map_err(AddressesError::Mac)?;
                Ok(PortSecurity::Source { mac, ips: ips(words)? })
            }
        }
    }
}

fn alone<'a>(
    mut rest: impl Iterator<Item = &'a str>,
    word: &'static str,
    value: PortAddresses,
) -> Result<PortAddresses, AddressesError> {
    match rest.next() {
        None => Ok(value),
        Some(_) => Err(AddressesError::Trailing(word)),
    }
}

pub(super) fn ips<'a>(words: impl Iterator<Item = &'a str>) -> Result<Box<[HostAddr]>, AddressesError> {
    words
        .enumerate()
        .map(|(i, word)| word.parse().map_err(|source| AddressesError::Ip { position: i + 1, source }))
        .collect()
}

impl fmt::Display for PortAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortAddresses::Fixed { mac, ips } => mac.fmt(f).and_then(|()| Tail(ips).fmt(f)),
            PortAddresses::Unknown => f.write_str("unknown"),
            PortAddresses::Router => f.write_str("router"),
            PortAddresses::Dynamic { ips } => write!(f, "dynamic{}", Tail(ips)),
            PortAddresses::MacDynamic(mac) => write!(f, "{mac} dynamic"),
        }
    }
}

impl fmt::Display for PortSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortSecurity::Source { mac, ips } => mac.fmt(f).and_then(|()| Tail(ips).fmt(f)),
            PortSecurity::Vrrp { mac, vmac, ips } => write!(f, "VRRPv3 {mac} {vmac}{}", Tail(ips)),
        }
    }
}

/// The IP addresses of an element, each after a blank.
pub(super) struct Tail<'a>(pub(super) &'a [HostAddr]);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|ip| f.write_str(" ").and_then(|()| ip.fmt(f)))
    }
}

#[cfg(test)]
mod tests;
