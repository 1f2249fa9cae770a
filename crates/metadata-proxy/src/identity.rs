//! The table of a network: which instance has which address, and from which Ethernet address it may ask.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MacAddr(pub [u8; 6]);

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A port of an instance on this chassis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortIdentity {
    /// The instance, which is the port's device id.
    pub instance: String,
    /// Its project.
    pub project: String,
    /// The addresses of the port, with the link-local address that follows from its Ethernet address.
    pub addresses: BTreeSet<IpAddr>,
    /// The Ethernet addresses that its packets come from. Without any, nobody can check them: an external port may be behind a
    /// router of the provider.
    #[serde(default)]
    pub macs: BTreeSet<MacAddr>,
}

/// The instance that a request comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Its project.
    pub project: String,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// One instance has the address.
    Instance(&'a Instance),
    /// No instance has it.
    Unknown,
    /// Several instances have it, so nobody may have their data.
    Ambiguous,
    /// One instance has the address, but its ports do not have the Ethernet address that the network has for it.
    ForeignMac(&'a Instance),
}

/// All addresses of one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityTable {
    addresses: BTreeMap<IpAddr, BTreeMap<Instance, BTreeSet<MacAddr>>>,
    macs: BTreeMap<MacAddr, BTreeSet<Instance>>,
}

impl IdentityTable {
    /// The table of a network's ports.
    pub fn new(ports: impl IntoIterator<Item = PortIdentity>) -> Self {
        let mut table = IdentityTable::default();
        for PortIdentity { instance, project, addresses, macs } in ports {
            let instance = Instance { id: instance, project };
            for mac in &macs {
                table.macs.entry(*mac).or_default().insert(instance.clone());
            }
            for address in addresses {
                let owners = table.addresses.entry(address.to_canonical()).or_default();
                owners.entry(instance.clone()).or_default().extend(&macs);
            }
        }
        table
    }

    /// Whether no instance has an address.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The instance with this address.
    pub fn lookup(&self, source: IpAddr) -> Lookup<'_> {
        only(self.owners(source).map(|(instance, _)| instance))
    }

    /// The instance with this address and this Ethernet address.
    ///
    /// Of several instances with the address, it is the one that has the Ethernet address as well. A link-local address that nobody
    /// has is one that an instance chose by itself, for its privacy: there the Ethernet address alone names the instance.
    pub fn lookup_sender(&self, source: IpAddr, mac: MacAddr) -> Lookup<'_> {
        match only(self.owners(source).filter(|(_, macs)| macs.contains(&mac)).map(|(instance, _)| instance))
        {
            Lookup::Unknown => {}
            found => return found,
        }
        match self.lookup(source) {
            Lookup::Unknown if is_link_local(source) => only(self.macs.get(&mac).into_iter().flatten()),
            Lookup::Instance(instance) if self.is_checkable(source) => Lookup::ForeignMac(instance),
            found => found,
        }
    }

    /// Whether an Ethernet address is known for all instances with this address.
    pub fn is_checkable(&self, source: IpAddr) -> bool {
        self.owners(source).all(|(_, macs)| !macs.is_empty())
    }

    fn owners(&self, source: IpAddr) -> impl Iterator<Item = (&Instance, &BTreeSet<MacAddr>)> {
        self.addresses.get(&source.to_canonical()).into_iter().flatten()
    }
}

/// Whether an address is an IPv6 link-local one.
pub fn is_link_local(source: IpAddr) -> bool {
    matches!(source, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn only<'a>(mut found: impl Iterator<Item = &'a Instance>) -> Lookup<'a> {
    match (found.next(), found.next()) {
        (None, _) => Lookup::Unknown,
        (Some(instance), None) => Lookup::Instance(instance),
        (Some(_), Some(_)) => Lookup::Ambiguous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(instance: &str, mac: Option<u8>, addresses: &[&str]) -> PortIdentity {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let macs = mac.map(self::mac).into_iter().collect();
        PortIdentity { instance: instance.into(), project: "p".into(), addresses, macs }
    }

    fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    fn named(lookup: Lookup<'_>) -> String {
        match lookup {
            Lookup::Instance(instance) => instance.id.clone(),
            Lookup::ForeignMac(instance) => format!("not {}", instance.id),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn an_address_names_one_instance_or_none() {
        let table = IdentityTable::new([
            port("vm1", None, &["10.0.1.5", "fe80::1"]),
            port("vm2", None, &["10.0.1.6"]),
            port("vm3", None, &["10.0.1.6"]),
            // A second port of the same instance is no doubt.
            port("vm1", None, &["10.0.1.5"]),
        ]);
        for (source, expected) in [
            ("10.0.1.5", "vm1"),
            ("::ffff:10.0.1.5", "vm1"),
            ("fe80::1", "vm1"),
            ("10.0.1.6", "Ambiguous"),
            ("10.0.1.7", "Unknown"),
            ("::", "Unknown"),
        ] {
            assert_eq!(named(table.lookup(source.parse().unwrap())), expected, "{source}");
        }
    }

    #[test]
    fn an_ethernet_address_confirms_decides_or_contradicts() {
        let table = IdentityTable::new([
            port("vm1", Some(1), &["10.0.1.5", "fe80::1"]),
            port("vm2", Some(2), &["10.0.1.6"]),
            // Two instances with one address, of which the Ethernet address names one.
            port("vm3", Some(3), &["10.0.1.7"]),
            port("vm4", Some(4), &["10.0.1.7"]),
            // Behind a router of the provider.
            port("external", None, &["10.0.1.8"]),
            // Two instances with one Ethernet address, which OVN does not prevent.
            port("twin1", Some(9), &["10.0.1.9"]),
            port("twin2", Some(9), &["10.0.1.10"]),
        ]);
        for (source, last, expected) in [
            ("10.0.1.5", 1, "vm1"),
            ("::ffff:10.0.1.5", 1, "vm1"),
            ("10.0.1.5", 2, "not vm1"),
            ("10.0.1.5", 77, "not vm1"),
            ("fe80::1", 2, "not vm1"),
            ("10.0.1.7", 3, "vm3"),
            ("10.0.1.7", 4, "vm4"),
            ("10.0.1.7", 1, "Ambiguous"),
            ("10.0.1.8", 77, "external"),
            ("10.0.1.11", 1, "Unknown"),
            ("fe80::a:b", 2, "vm2"),
            ("fe80::a:b", 77, "Unknown"),
            ("fe80::a:b", 9, "Ambiguous"),
            ("fd00::a:b", 2, "Unknown"),
        ] {
            let found = table.lookup_sender(source.parse().unwrap(), mac(last));
            assert_eq!(named(found), expected, "{source} from {}", mac(last));
        }
        assert_eq!(mac(10).to_string(), "02:00:00:00:00:0a");
    }
}
