//! How entities are found from others: every question that the code asks other than by key.

use std::net::IpAddr;

use ovn::MacAddr;
use reconcile::TextId;
use smol_str::SmolStr;
use uuid::Uuid;

use crate::model::{NetworkType, Segment};

use super::{
    AddressScope, Adopted, AgentSetting, FloatingIp, Kind, Network, Placement, Port, QuotaSet, RbacPolicy,
    Router, SecurityGroup, SecurityGroupRule, Subnet, SubnetPool,
};

/// A question whose answer is a set of ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Objects of a noun that belong to a project.
    OwnedBy(Kind, TextId),
    /// Objects of a noun with a name.
    Named(Kind, SmolStr),
    /// Networks on a physical network.
    NetworksOnPhysical(SmolStr),
    /// The network with a VLAN tag or tunnel key, or without one; the name is empty if there is no physical network.
    NetworkOfSegment(NetworkType, SmolStr, Option<u32>),
    /// Subnets of a network.
    SubnetsOfNetwork(Uuid),
    /// Subnets cut from a pool.
    SubnetsOfPool(Uuid),
    /// Pools of an address scope.
    PoolsOfScope(Uuid),
    /// Ports of a network.
    PortsOfNetwork(Uuid),
    /// Ports with an address of a subnet.
    PortsOfSubnet(Uuid),
    /// Ports of an instance, a router, a floating IP.
    PortsOfDevice(TextId),
    /// Ports under a security group.
    PortsOfGroup(Uuid),
    /// The port of a network that has a MAC.
    PortWithMac(Uuid, MacAddr),
    /// Ports that may also send with an address; prefixes shorter than the full length are not found here.
    PortsWithPair(IpAddr),
    /// Ports bound to a host.
    PortsOnHost(SmolStr),
    /// The security group of a project for ports that name none.
    DefaultGroupOf(TextId),
    /// Rules of a security group.
    RulesOfGroup(Uuid),
    /// Rules of other groups, or of the same, that name a security group as the other side.
    RulesNamingGroup(Uuid),
    /// Floating IPs of an external network.
    FloatingIpsOfNetwork(Uuid),
    /// Floating IPs that lead to a port.
    FloatingIpsOfPort(Uuid),
    /// Floating IPs that go through a router.
    FloatingIpsOfRouter(Uuid),
    /// Gateway ports, of all routers.
    GatewayPorts,
    /// Placements of gateway ports that name a chassis.
    PlacementsOn(SmolStr),
    /// Who may use an object.
    PoliciesOfObject(Uuid),
}

type Note<'n> = &'n mut dyn FnMut(Link, Uuid);
type NoteAddress<'n> = &'n mut dyn FnMut(Uuid, IpAddr, Uuid);
type NoteLoad<'n> = &'n mut dyn FnMut(&str, &str, u8);

/// Owner and name, which most nouns have.
macro_rules! named {
    ($noun:ident, $self:ident, $note:ident) => {
        $note(Link::OwnedBy(Kind::$noun, $self.project.as_str().into()), $self.id);
        $note(Link::Named(Kind::$noun, SmolStr::new(&$self.name)), $self.id);
    };
}

/// Nouns without addresses that count in the quota of their project.
macro_rules! counted {
    ($($noun:ident)*) => {
        $(impl $noun {
            pub(super) fn note_addresses(&self, _note: NoteAddress<'_>) {}
            pub(super) fn note_loads(&self, _note: NoteLoad<'_>) {}

            pub(super) fn quota_project(&self) -> Option<&str> {
                (!self.project.is_empty()).then_some(self.project.as_str())
            }
        })*
    };
}

/// Nouns that nothing is found by and that no quota counts.
macro_rules! plain {
    ($($noun:ident)*) => {
        $(impl $noun {
            pub(super) fn note_links(&self, _note: Note<'_>) {}
            pub(super) fn note_addresses(&self, _note: NoteAddress<'_>) {}
            pub(super) fn note_loads(&self, _note: NoteLoad<'_>) {}
            pub(super) fn quota_project(&self) -> Option<&str> {
                None
            }
        })*
    };
}

counted! { AddressScope SubnetPool Network Subnet SecurityGroup SecurityGroupRule Router FloatingIp RbacPolicy }
plain! { QuotaSet AgentSetting Adopted }

impl AddressScope {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(AddressScope, self, note);
    }
}

impl SubnetPool {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(SubnetPool, self, note);
        if let Some(scope) = self.address_scope_id {
            note(Link::PoolsOfScope(scope), self.id);
        }
    }
}

impl Network {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(Network, self, note);
        let Segment { network_type, physical_network, segmentation_id, .. } = &self.segment;
        if let Some(physical) = physical_network {
            note(Link::NetworksOnPhysical(SmolStr::new(physical)), self.id);
        }
        let physical = SmolStr::new(physical_network.as_deref().unwrap_or_default());
        note(Link::NetworkOfSegment(*network_type, physical, *segmentation_id), self.id);
    }
}

impl Subnet {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(Subnet, self, note);
        note(Link::SubnetsOfNetwork(self.network_id), self.id);
        if let Some(pool) = self.subnetpool_id {
            note(Link::SubnetsOfPool(pool), self.id);
        }
    }
}

impl SecurityGroup {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(SecurityGroup, self, note);
        if self.is_default {
            note(Link::DefaultGroupOf(self.project.as_str().into()), self.id);
        }
    }
}

impl SecurityGroupRule {
    pub(super) fn note_links(&self, note: Note<'_>) {
        note(Link::OwnedBy(Kind::SecurityGroupRule, self.project.as_str().into()), self.id);
        note(Link::RulesOfGroup(self.security_group_id), self.id);
        if let Some(group) = self.remote_group_id {
            note(Link::RulesNamingGroup(group), self.id);
        }
    }
}

impl Port {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(Port, self, note);
        note(Link::PortsOfNetwork(self.network_id), self.id);
        note(Link::PortWithMac(self.network_id, self.mac), self.id);
        for fixed in &self.fixed_ips {
            note(Link::PortsOfSubnet(fixed.subnet_id), self.id);
        }
        if !self.device_id.is_empty() {
            note(Link::PortsOfDevice(self.device_id.as_str().into()), self.id);
        }
        for group in &self.security_groups {
            note(Link::PortsOfGroup(*group), self.id);
        }
        for pair in &self.allowed_address_pairs {
            if pair.ip_address.prefix_len() == pair.ip_address.max_prefix_len() {
                note(Link::PortsWithPair(pair.ip_address.addr()), self.id);
            }
        }
        if !self.binding.host_id.is_empty() {
            note(Link::PortsOnHost(SmolStr::new(&self.binding.host_id)), self.id);
        }
        if self.is_gateway() {
            note(Link::GatewayPorts, self.id);
        }
    }

    pub(super) fn note_addresses(&self, note: NoteAddress<'_>) {
        for fixed in &self.fixed_ips {
            note(fixed.subnet_id, fixed.ip_address, self.id);
        }
    }

    pub(super) fn note_loads(&self, _note: NoteLoad<'_>) {}

    /// Gateway and floating IP ports belong to no project and use up nobody's quota.
    pub(super) fn quota_project(&self) -> Option<&str> {
        (!self.project.is_empty()).then_some(self.project.as_str())
    }
}

impl Router {
    pub(super) fn note_links(&self, note: Note<'_>) {
        named!(Router, self, note);
    }
}

impl FloatingIp {
    pub(super) fn note_links(&self, note: Note<'_>) {
        note(Link::OwnedBy(Kind::FloatingIp, self.project.as_str().into()), self.id);
        note(Link::FloatingIpsOfNetwork(self.floating_network_id), self.id);
        if let Some(port) = self.port_id {
            note(Link::FloatingIpsOfPort(port), self.id);
        }
        if let Some(router) = self.router_id {
            note(Link::FloatingIpsOfRouter(router), self.id);
        }
    }
}

impl RbacPolicy {
    pub(super) fn note_links(&self, note: Note<'_>) {
        note(Link::OwnedBy(Kind::RbacPolicy, self.project.as_str().into()), self.id);
        note(Link::PoliciesOfObject(self.object_id), self.id);
    }
}

impl Placement {
    pub(super) fn note_links(&self, note: Note<'_>) {
        for placed in &self.chassis {
            note(Link::PlacementsOn(SmolStr::new(&placed.chassis)), self.port_id);
        }
    }

    pub(super) fn note_addresses(&self, _note: NoteAddress<'_>) {}

    pub(super) fn note_loads(&self, note: NoteLoad<'_>) {
        let physical = self.physical_network.as_deref().unwrap_or_default();
        for (rank, placed) in (0..).zip(&self.chassis) {
            note(physical, &placed.chassis, rank);
        }
    }

    pub(super) fn quota_project(&self) -> Option<&str> {
        None
    }
}
