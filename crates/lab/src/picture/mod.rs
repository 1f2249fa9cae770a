//! A picture of a topology for people: its parts and their connections.
//!
//! The lab records its parts as a test adds them ([`Part`]). A [`Picture`] arranges them, as text for a terminal (`text`) and
//! as SVG for everything else (`svg`). It does not show OVN's logical network; use `ovn-nbctl show` for that.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod svg;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

/// The bridge that carries the tunnels.
pub(crate) const UNDERLAY: &str = "br-ul";

/// One part of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A node of any kind.
    Node(String),
    /// The central part of a zone, with the address that its databases are at.
    Central(String, String),
    /// A chassis, its tunnel's address, and its bridge mappings.
    Chassis(String, String, Vec<String>),
    /// A VM and its chassis.
    Vm(String, String),
    /// A device of a node that is plugged into a bridge of the lab.
    Port(End, String),
    /// A cable between two nodes.
    Cable(End, End),
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The node's name.
    pub node: String,
    /// The device's name.
    pub device: String,
}

impl End {
    /// The end at a device of a node.
    pub fn new(node: &str, device: &str) -> End {
        End { node: node.to_owned(), device: device.to_owned() }
    }
}

/// The addresses of devices, as far as there are any.
pub type Addresses = BTreeMap<End, Vec<IpNet>>;

/// A topology, in the order it is drawn.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Name and address.
    centrals: Vec<(String, String)>,
    chassis: Vec<Chassis>,
    /// Physical networks: the bridge's name, the chassis wired to it, the hosts on it.
    physnets: BTreeMap<String, (Vec<End>, Vec<Host>)>,
    cables: Vec<(End, End)>,
    /// All other nodes: spines, clients, nodes without a role.
    others: Vec<String>,
    addresses: Addresses,
}

#[derive(Clone, Debug)]
struct Chassis {
    name: String,
    address: String,
    mappings: Vec<String>,
    vms: Vec<Host>,
}

/// A node with one device, and its description.
#[derive(Clone, Debug)]
struct Host {
    name: String,
    addresses: String,
}

impl Picture {
    /// A picture of these parts with their current addresses.
    pub fn new(parts: &[Part], addresses: Addresses) -> Picture {
        let mut picture = Picture { addresses, ..Picture::default() };
        let mut placed = BTreeSet::new();
        for part in parts {
            match part {
                Part::Central(name, address) => {
                    placed.insert(name.as_str());
                    picture.centrals.push((name.clone(), address.clone()));
                }
                Part::Chassis(name, address, mappings) => {
                    placed.insert(name.as_str());
                    let (name, address, mappings) = (name.clone(), address.clone(), mappings.clone());
                    picture.chassis.push(Chassis { name, address, mappings, vms: Vec::new() });
                }
                _ => {}
            }
        }
        // Chassis start concurrently, so they are sorted by name.
        picture.centrals.sort();
        picture.chassis.sort_by(|a, b| a.name.cmp(&b.name));
        for part in parts {
            match part {
                Part::Vm(name, on) => {
                    placed.insert(name.as_str());
                    let vm = picture.host(name, "eth0");
                    let home = picture.chassis.iter_mut().find(|chassis| chassis.name == *on);
                    home.into_iter().for_each(|chassis| chassis.vms.push(vm.clone()));
                }
                Part::Port(end, bridge) if bridge != UNDERLAY => {
                    let host = picture.host(&end.node, &end.device);
                    let (wired, hosts) = picture.physnets.entry(bridge.clone()).or_default();
                    if picture.chassis.iter().any(|chassis| chassis.name == end.node) {
                        wired.push(end.clone());
                    } else {
                        placed.insert(end.node.as_str());
                        hosts.push(host);
                    }
                }
                Part::Cable(a, b) => picture.cables.push((a.clone(), b.clone())),
                _ => {}
            }
        }
        picture.physnets.values_mut().for_each(|(wired, _)| wired.sort());
        let others = parts.iter().filter_map(|part| match part {
            Part::Node(name) if !placed.contains(name.as_str()) => Some(name.clone()),
            _ => None,
        });
        picture.others = others.collect();
        picture
    }

    fn host(&self, name: &str, device: &str) -> Host {
        Host { name: name.to_owned(), addresses: self.addresses(&End::new(name, device)) }
    }

    /// The addresses of a device, link-local ones left out.
    fn addresses(&self, end: &End) -> String {
        let shown = |address: &&IpNet| match address {
            IpNet::V4(_) => true,
            IpNet::V6(net) => !net.addr().is_unicast_link_local(),
        };
        let of = self.addresses.get(end).into_iter().flatten().filter(shown);
        of.map(|address| address.to_string()).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests;
