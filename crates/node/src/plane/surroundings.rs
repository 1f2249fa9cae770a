//! The node's own network besides its data plane: its addresses, its next hops, its BGP neighbours.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::kernel::observed::Kind;
use crate::kernel::{self, Address, Dev, Family};

/// The result of one observation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The addresses of devices with their prefix lengths, without those that are announced and those in VRFs. A VRF is a routing
    /// domain of its own: its packets are looked up in its own table before our rules are asked.
    pub addresses: BTreeMap<Dev, BTreeSet<IpNet>>,
    /// The next hops of the main table's default routes.
    pub gateways: BTreeSet<IpAddr>,
    /// FRR's BGP neighbours.
    pub neighbours: BTreeSet<IpAddr>,
}

impl Surroundings {
    /// Takes out of a look what matters. The announcing device is passed over without looking at its addresses, as they are many.
    pub fn new(announce: &Dev, kernel: &kernel::Observed, neighbours: BTreeSet<IpAddr>) -> Self {
        let mut addresses = BTreeMap::<Dev, BTreeSet<IpNet>>::new();
        let first = |dev: &Dev| Address { dev: dev.clone(), net: Family::V4.default_net() };
        let is_vrf = |dev: &Dev| matches!(kernel.links.get(dev).map(|link| &link.kind), Some(Kind::Vrf(_)));
        for (dev, link) in &kernel.links {
            if dev == announce || link.master.as_ref().is_some_and(is_vrf) {
                continue;
            }
            let own = kernel.addresses.range(first(dev)..).take_while(|address| address.dev == *dev);
            let own: BTreeSet<IpNet> = own.map(|address| address.net).collect();
            if !own.is_empty() {
                addresses.insert(dev.clone(), own);
            }
        }
        Self { addresses, gateways: kernel.gateways(), neighbours }
    }
}
