//! The snapshot as units read it: each read records a fact.

use std::net::IpAddr;

use reconcile::units::Tracked;
use uuid::Uuid;

use crate::fleet::Fleet;
use crate::model::{
    Adopted, FloatingIp, LoadBalancer, Member, Network, Placement, Port, Router, SecurityGroup,
    SecurityGroupRule, Subnet, SubnetPool,
};
use crate::report::{ProbeResult, ProbedBackend};
use crate::resource::load_balancer::monitor_port;
use crate::resource::metadata_port;
use crate::settings::Settings;
use crate::snapshot::sessions::Session;
use crate::snapshot::{Ability, Fact, Snapshot};
use crate::world::{Entity, Kind, Link};

/// The read access of a unit to the snapshot.
pub(crate) struct Look<'t, 'w>(&'t Tracked<'w, Snapshot, Fact>);

impl<'t, 'w> Look<'t, 'w> {
    pub(crate) fn new(tracked: &'t Tracked<'w, Snapshot, Fact>) -> Self {
        Look(tracked)
    }

    /// The object of any noun with an id.
    pub(crate) fn object<T: Entity<Key = Uuid>>(&self, id: Uuid) -> Option<&'w T> {
        let found = self.0.read(Fact::Object(T::KIND, id), |snapshot| snapshot.world.get::<T>(&id));
        found.map(|entity| &**entity)
    }

    pub(crate) fn network(&self, id: Uuid) -> Option<&'w Network> {
        self.object(id)
    }

    pub(crate) fn subnet(&self, id: Uuid) -> Option<&'w Subnet> {
        self.object(id)
    }

    pub(crate) fn pool(&self, id: Uuid) -> Option<&'w SubnetPool> {
        self.object(id)
    }

    pub(crate) fn port(&self, id: Uuid) -> Option<&'w Port> {
        self.object(id)
    }

    pub(crate) fn router(&self, id: Uuid) -> Option<&'w Router> {
        self.object(id)
    }

    pub(crate) fn floating_ip(&self, id: Uuid) -> Option<&'w FloatingIp> {
        self.object(id)
    }

    pub(crate) fn group(&self, id: Uuid) -> Option<&'w SecurityGroup> {
        self.object(id)
    }

    pub(crate) fn rule(&self, id: Uuid) -> Option<&'w SecurityGroupRule> {
        self.object(id)
    }

    pub(crate) fn placement(&self, id: Uuid) -> Option<&'w Placement> {
        self.object(id)
    }

    pub(crate) fn adopted(&self, id: Uuid) -> Option<&'w Adopted> {
        self.object(id)
    }

    /// Whether a gateway port has a placement.
    pub(crate) fn has_placement(&self, port: Uuid) -> bool {
        self.0.read(Fact::HasPlacement(port), |snapshot| snapshot.world.get::<Placement>(&port).is_some())
    }

    pub(crate) fn settings(&self) -> &'w Settings {
        self.0.read(Fact::Choices, |snapshot| &*snapshot.settings)
    }

    pub(crate) fn ability(&self) -> Ability {
        self.0.read(Fact::Choices, |snapshot| snapshot.ability)
    }

    pub(crate) fn fleet(&self) -> &'w Fleet {
        self.0.read(Fact::Fleet, |snapshot| &*snapshot.fleet)
    }

    /// The UUID of a row of ours: the derived one, unless the row was adopted from Neutron.
    pub(crate) fn row(&self, ours: Uuid) -> Uuid {
        // Most installations adopted no rows, and then a single fact covers all of them.
        if self.0.read(Fact::AnyAdopted, |snapshot| snapshot.world.table::<Adopted>().is_empty()) {
            return ours;
        }
        self.adopted(ours).map_or(ours, |adopted| adopted.theirs)
    }

    /// The ports of a router, interfaces and gateways.
    pub(crate) fn router_ports(&self, router: Uuid) -> Vec<&'w Port> {
        self.0.read(Fact::PortsOfRouter(router), |snapshot| {
            let ports = snapshot.world.linked::<Port>(Link::PortsOfDevice(router.into())).map(|port| &**port);
            ports.filter(|port| port.router_id() == Some(router)).collect()
        })
    }

    /// The gateway ports of a router, in order of creation.
    pub(crate) fn gateways(&self, router: Uuid) -> Vec<&'w Port> {
        let mut gateways = self.router_ports(router);
        gateways.retain(|port| port.is_gateway());
        gateways.sort_by_key(|port| (port.gateway_ordinal, port.id));
        gateways
    }

    /// The routers with a port on a network.
    pub(crate) fn routers_on(&self, network: Uuid) -> Vec<Uuid> {
        self.0.read(Fact::RoutersOn(network), |snapshot| {
            let ports = snapshot.world.linked::<Port>(Link::PortsOfNetwork(network));
            let mut routers: Vec<Uuid> = ports.filter_map(|port| port.router_id()).collect();
            routers.sort();
            routers.dedup();
            routers
        })
    }

    /// The router ports in a subnet of a network, in order of the routers' ids.
    pub(crate) fn router_ports_in(&self, network: Uuid, subnet: Uuid) -> Vec<&'w Port> {
        self.0.read(Fact::RoutersOn(network), |snapshot| {
            let ports = snapshot.world.linked::<Port>(Link::PortsOfSubnet(subnet)).map(|port| &**port);
            let mut ports: Vec<&Port> = ports.filter(|port| port.router_id().is_some()).collect();
            ports.sort_by_key(|port| (port.router_id(), port.id));
            ports
        })
    }

    /// The objects of a noun inside of a load balancer or of one of its pools. Each change of a part changes the load balancer too, so the
    /// fact of the load balancer covers all of them.
    pub(crate) fn balancer_parts<T: Entity<Key = Uuid>>(&self, balancer: Uuid, parent: Uuid) -> Vec<&'w T> {
        self.0.read(Fact::Object(Kind::LoadBalancer, balancer), |snapshot| {
            snapshot.world.linked::<T>(Link::Inside(T::KIND, parent)).map(|part| &**part).collect()
        })
    }

    /// Whether a port was made for the VIP of a load balancer that is deleted. Its row goes in the transaction that takes the rows of the
    /// load balancer. The port itself, with its address, stays until OVN no longer answers for it.
    pub(crate) fn is_leaving_vip_port(&self, port: Uuid) -> bool {
        self.0.read(Fact::VipPort(port), |snapshot| {
            let mut balancers = snapshot.world.linked::<LoadBalancer>(Link::LoadBalancerOfVipPort(port));
            balancers.any(|it| it.deleted && it.vips.iter().any(|vip| vip.port_id == port && !vip.own_port))
        })
    }

    /// Whether a port holds the VIP of a load balancer.
    pub(crate) fn is_vip_port(&self, port: Uuid) -> bool {
        self.0.read(Fact::VipPort(port), |snapshot| {
            snapshot.world.has_linked(Link::LoadBalancerOfVipPort(port))
        })
    }

    /// The members with an address of a subnet.
    pub(crate) fn members_at(&self, subnet: Uuid, address: IpAddr) -> Vec<&'w Member> {
        self.0.read(Fact::MembersAt(address), |snapshot| {
            let members = snapshot.world.linked::<Member>(Link::MembersWithAddress(address));
            members.map(|member| &**member).filter(|member| member.subnet() == subnet).collect()
        })
    }

    /// The port that has an address of a subnet.
    pub(crate) fn holder(&self, subnet: Uuid, address: IpAddr) -> Option<&'w Port> {
        let holder = self
            .0
            .read(Fact::HolderOf(address), |snapshot| snapshot.world.address_holder(subnet, address))?;
        self.port(holder)
    }

    pub(crate) fn metadata_port(&self, network: Uuid) -> Option<&'w Port> {
        self.0.read(Fact::MetadataPort(network), |snapshot| metadata_port::of(&snapshot.world, network))
    }

    /// The address of the metadata port in a subnet.
    pub(crate) fn metadata_ip(&self, subnet: &Subnet) -> Option<IpAddr> {
        if !self.settings().ovn_metadata_enabled {
            return None;
        }
        let port = self.metadata_port(subnet.network_id)?;
        let fixed = port.fixed_ips.iter().find(|fixed| fixed.subnet_id == subnet.id)?;
        Some(fixed.ip_address)
    }

    /// The other ports of a network with an allowed address pair for an address.
    pub(crate) fn ports_with_pair(&self, network: Uuid, address: IpAddr, but: Uuid) -> Vec<Uuid> {
        self.0.read(Fact::Pair(address), |snapshot| {
            let ports = snapshot.world.linked::<Port>(Link::PortsWithPair(address));
            ports.filter(|port| port.network_id == network && port.id != but).map(|port| port.id).collect()
        })
    }

    /// Whether a network has external ports.
    pub(crate) fn has_external_ports(&self, network: Uuid) -> bool {
        self.0.read(Fact::ExternalPorts(network), |snapshot| {
            let mut ports = snapshot.world.linked::<Port>(Link::PortsOfNetwork(network));
            ports.any(|port| super::port::is_external(port))
        })
    }

    /// The ports of a network that have a DNS name.
    pub(crate) fn named_ports(&self, network: Uuid) -> Vec<&'w Port> {
        self.0.read(Fact::Names(network), |snapshot| {
            if snapshot.world.get::<Network>(&network).is_none() {
                return Vec::new();
            }
            let ports = snapshot.world.linked::<Port>(Link::PortsOfNetwork(network)).map(|port| &**port);
            ports.filter(|port| !port.dns_name.is_empty()).collect()
        })
    }

    /// The floating IPs of a port, in order of id.
    pub(crate) fn floating_ips_of(&self, port: Uuid) -> Vec<&'w FloatingIp> {
        self.0.read(Fact::FloatingIpsOf(port), |snapshot| {
            let link = Link::FloatingIpsOfPort(port);
            snapshot.world.linked::<FloatingIp>(link).map(|floating_ip| &**floating_ip).collect()
        })
    }

    pub(crate) fn is_up(&self, port: Uuid) -> bool {
        self.0.read(Fact::Up(port), |snapshot| snapshot.report.port_up(port))
    }

    pub(crate) fn bound_host(&self, port: Uuid) -> Option<&'w str> {
        self.0.read(Fact::Place(port), |snapshot| snapshot.report.bound_host(port))
    }

    pub(crate) fn gateway_host(&self, port: Uuid) -> Option<&'w str> {
        self.0.read(Fact::Place(port), |snapshot| snapshot.report.gateway_host(port))
    }

    pub(crate) fn virtual_parent(&self, port: Uuid) -> Option<Uuid> {
        self.0.read(Fact::Parent(port), |snapshot| snapshot.report.virtual_parent(port))
    }

    pub(crate) fn is_stranded(&self, port: Uuid) -> bool {
        self.0.read(Fact::Stranded(port), |snapshot| snapshot.late.stranded.contains(&port))
    }

    pub(crate) fn session(&self, port: Uuid, hop: IpAddr) -> Option<Session> {
        self.0.read(Fact::Session(port), |snapshot| snapshot.sessions.get(port, hop))
    }

    /// The address in a subnet from which health probes are sent.
    pub(crate) fn probe_source(&self, subnet: Uuid) -> Option<IpAddr> {
        let found =
            self.0.read(Fact::MonitorPort(subnet), |snapshot| monitor_port::of(&snapshot.world, subnet));
        found.map(|(_, address)| address)
    }

    pub(crate) fn probe_result(&self, member: Uuid, backend: &ProbedBackend) -> Option<ProbeResult> {
        let probed =
            self.0.read(Fact::Probes(backend.port_id), |snapshot| snapshot.report.probes.get(backend));
        let last =
            || self.0.read(Fact::LastResult(member), |snapshot| snapshot.report.last_results.get(&member));
        probed.or_else(last).copied()
    }

    pub(crate) fn nb_global(&self) -> Option<Uuid> {
        self.0.read(Fact::NbGlobal, |snapshot| snapshot.report.nb_global)
    }
}
