//! The reserved prefixes of this node: [`ReservedPrefixes`], from all sources.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn::sb::Encap;
use ovn::text::bridge_mappings::BridgeMappings;

use super::config::Config;
use super::snapshot::encap_ips;
use crate::kernel::own::is_base;
use crate::kernel::tables::is_vlan_name;
use crate::kernel::{Address, Dev};
use crate::plane::reserved::{Reserve, ReservedPrefixes};
use crate::plane::surroundings::Surroundings;

/// The sources of reserved prefixes.
#[derive(Debug)]
pub struct Sources<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The Southbound database, if it told anything yet.
    pub sb: Option<&'a ovsdb::Snapshot>,
    /// The local switch's database.
    pub vswitch: &'a ovsdb::Snapshot,
    /// The provider bridges.
    pub mappings: &'a BridgeMappings,
    /// The servers of databases.
    pub databases: &'a BTreeSet<IpAddr>,
    /// The node itself.
    pub surroundings: &'a Surroundings,
}

impl Sources<'_> {
    /// All that is reserved.
    pub fn reserved(&self) -> ReservedPrefixes {
        let mut reserved = ReservedPrefixes::martians();
        let mut hosts = |ips: &mut dyn Iterator<Item = IpAddr>, why: Reserve| {
            ips.for_each(|ip| reserved.insert(ip.into(), why.clone()));
        };
        hosts(&mut self.databases.iter().copied(), Reserve::Database);
        hosts(&mut self.surroundings.neighbours.iter().copied(), Reserve::Neighbour);
        hosts(&mut self.surroundings.gateways.iter().copied(), Reserve::Gateway);
        hosts(&mut encap_ips(self.vswitch).into_iter(), Reserve::Tunnel);
        let encaps = self.sb.into_iter().flat_map(|sb| sb.table::<Encap>().iter());
        hosts(&mut encaps.filter_map(|(_, encap)| encap.ip.value().copied()), Reserve::Tunnel);
        for net in &self.config.reserved_prefixes {
            reserved.insert(*net, Reserve::Option);
        }
        for (dev, nets) in &self.surroundings.addresses {
            let provider = self.is_provider(dev);
            for net in nets {
                // The addresses by which provider devices speak ARP and NDP are ours, and come and go.
                if provider && is_base(&Address { dev: dev.clone(), net: *net }) {
                    continue;
                }
                reserved.insert(net.addr().into(), Reserve::Own(dev.clone()));
                // Instances are neighbours of the node on its provider networks.
                if !provider {
                    reserved.insert(*net, Reserve::Connected(dev.clone()));
                }
            }
        }
        reserved
    }

    fn is_provider(&self, dev: &Dev) -> bool {
        self.mappings
            .entries
            .iter()
            .any(|mapping| *dev == mapping.bridge || is_vlan_name(&mapping.bridge, dev))
    }
}
