//! The table of a network: which instance has which address.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A port of an instance on this chassis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortIdentity {
    /// The instance, which is the port's device id.
    pub instance: String,
    /// Its project.
    pub project: String,
    /// The addresses of the port, with the link-local address that follows from its Ethernet address.
    pub addresses: BTreeSet<IpAddr>,
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
}

/// All addresses of one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityTable {
    instances: BTreeMap<IpAddr, BTreeSet<Instance>>,
}

impl IdentityTable {
    /// The table of a network's ports.
    pub fn new(ports: impl IntoIterator<Item = PortIdentity>) -> Self {
        let mut table = IdentityTable::default();
        for PortIdentity { instance, project, addresses } in ports {
            for address in addresses {
                let instance = Instance { id: instance.clone(), project: project.clone() };
                table.instances.entry(address.to_canonical()).or_default().insert(instance);
            }
        }
        table
    }

    /// The instance with this address.
    pub fn lookup(&self, source: IpAddr) -> Lookup<'_> {
        let mut found = self.instances.get(&source.to_canonical()).into_iter().flatten();
        match (found.next(), found.next()) {
            (None, _) => Lookup::Unknown,
            (Some(instance), None) => Lookup::Instance(instance),
            (Some(_), Some(_)) => Lookup::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(instance: &str, addresses: &[&str]) -> PortIdentity {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        PortIdentity { instance: instance.into(), project: "p".into(), addresses }
    }

    #[test]
    fn an_address_names_one_instance_or_none() {
        let table = IdentityTable::new([
            port("vm1", &["10.0.1.5", "fe80::1"]),
            port("vm2", &["10.0.1.6"]),
            port("vm3", &["10.0.1.6"]),
            // A second port of the same instance is no doubt.
            port("vm1", &["10.0.1.5"]),
        ]);
        let found = |text: &str| match table.lookup(text.parse().unwrap()) {
            Lookup::Instance(instance) => instance.id.clone(),
            other => format!("{other:?}"),
        };
        for (source, expected) in [
            ("10.0.1.5", "vm1"),
            ("::ffff:10.0.1.5", "vm1"),
            ("fe80::1", "vm1"),
            ("10.0.1.6", "Ambiguous"),
            ("10.0.1.7", "Unknown"),
            ("::", "Unknown"),
        ] {
            assert_eq!(found(source), expected, "{source}");
        }
    }
}
