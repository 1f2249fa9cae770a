//! The indexes of the world: every way to find entities other than by key.

use std::net::IpAddr;

use ovn::MacAddr;
use reconcile::TextId;
use smol_str::SmolStr;
use uuid::Uuid;

use crate::model::NetworkType;

use super::Kind;

/// An index key; its value is a set of ids. For example, `Link::PortsOfNetwork` leads to the ports of one network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Objects of a noun that belong to a project.
    OwnedBy(Kind, TextId),
    /// Objects of a noun with a name.
    Named(Kind, SmolStr),
    /// Objects of a noun that are inside of an object of another, such as the subnet pools of an address scope.
    Inside(Kind, Uuid),
    /// Networks on a physical network.
    NetworksOnPhysical(SmolStr),
    /// The network with a VLAN tag or tunnel key, or without one. The name is empty if there is no physical network.
    NetworkOfSegment(NetworkType, SmolStr, Option<u32>),
    /// Subnets of a network.
    SubnetsOfNetwork(Uuid),
    /// Subnets with a prefix from a pool.
    SubnetsOfPool(Uuid),
    /// Ports of a network.
    PortsOfNetwork(Uuid),
    /// Ports with an address of a subnet.
    PortsOfSubnet(Uuid),
    /// Ports of an instance, a router, a floating IP.
    PortsOfDevice(TextId),
    /// Ports in a security group.
    PortsOfGroup(Uuid),
    /// The port of a network that has a MAC.
    PortWithMac(Uuid, MacAddr),
    /// Ports with an allowed address pair for an address; wider prefixes are not indexed.
    PortsWithPair(IpAddr),
    /// Ports bound to a host.
    PortsOnHost(SmolStr),
    /// The security group of a project for ports that name none.
    DefaultGroupOf(TextId),
    /// Rules of a security group.
    RulesOfGroup(Uuid),
    /// Rules, of any group, whose remote group is this one.
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
    /// The load balancer whose VIP a port holds.
    LoadBalancerOfVipPort(Uuid),
    /// Load balancers with a VIP in a subnet.
    LoadBalancersOfSubnet(Uuid),
    /// Load balancers with members in a subnet that OVN probes.
    LoadBalancersProbing(Uuid),
    /// Load balancers that are deleted and still have rows.
    DeletedLoadBalancers,
    /// Listeners with a pool as their default pool.
    ListenersOfPool(Uuid),
    /// Members in a subnet.
    MembersOfSubnet(Uuid),
    /// Members with an address, in any subnet.
    MembersWithAddress(IpAddr),
    /// RBAC policies of an object.
    PoliciesOfObject(Uuid),
}
