//! The inputs of a decision: the Southbound database (or the [Northbound](super::northbound), read as such), the local
//! switch's database, the configuration and the time, all at one instant, and the views over them.
//!
//! Rows are found by index, never by looking through a table: a node holds some thousand port bindings, and decides anew with
//! every change.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ovn::sb::{Chassis, DatapathBinding, Encap, LoadBalancer, LogicalDpGroup, PortBinding};
use ovn::text::bridge_mappings::BridgeMappings;
use ovn::text::neutron::{device_owner, key};
use ovn::vswitch::{Bridge, Interface};
use ovn::{MacAddr, PortType, ident};
use ovsdb::replica::Index;
use ovsdb::{Model, Str, Uuid};

use super::config::Config;
use super::desired::Decision;
use crate::connections::OvnDatabase;
use crate::connections::switch::{setting, system_id};
use crate::plane::reserved::ReservedPrefixes;

/// The local switch's settings that we read.
pub mod setting {
    /// The node's name as a host.
    pub const HOSTNAME: &str = "hostname";
    /// Physical networks and their bridges.
    pub const BRIDGE_MAPPINGS: &str = "ovn-bridge-mappings";
    /// The addresses of this node's tunnel ends.
    pub const ENCAP_IP: &str = "ovn-encap-ip";
}

/// On a patch port that OVN made: the localnet port it is for.
const LOCALNET_PORT: &str = "ovn-localnet-port";

/// Port bindings by their names.
pub struct ByName;
/// Port bindings by their switch or router.
pub struct ByDatapath;
/// Port bindings by the chassis they are bound to.
pub struct ByChassis;
/// Port bindings by the name of the port that they lead to.
pub struct ByLink;
/// The few port bindings that are looked for by what they are.
pub struct ByRole;

/// The role in which an index finds a port binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It connects a switch to a physical network.
    Localnet,
    /// It is the gateway of a router.
    Gateway,
    /// It has addresses to announce for a router.
    Nat,
}

impl Index for ByName {
    type Row = PortBinding;
    type Key = Str;

    fn keys(row: &PortBinding, emit: &mut dyn FnMut(Str)) {
        emit(row.logical_port.clone());
    }
}

impl Index for ByDatapath {
    type Row = PortBinding;
    type Key = Uuid;

    fn keys(row: &PortBinding, emit: &mut dyn FnMut(Uuid)) {
        emit(row.datapath.uuid());
    }
}

impl Index for ByChassis {
    type Row = PortBinding;
    type Key = Uuid;

    fn keys(row: &PortBinding, emit: &mut dyn FnMut(Uuid)) {
        row.chassis.iter().for_each(|chassis| emit(chassis.uuid()));
    }
}

impl Index for ByLink {
    type Row = PortBinding;
    type Key = Str;

    fn keys(row: &PortBinding, emit: &mut dyn FnMut(Str)) {
        row.options.get("peer").into_iter().for_each(|name| emit(name.clone()));
        if row.kind == PortType::ChassisRedirect {
            router_port_name(row).into_iter().for_each(|name| emit(name.into()));
        }
    }
}

impl Index for ByRole {
    type Row = PortBinding;
    type Key = Role;

    fn keys(row: &PortBinding, emit: &mut dyn FnMut(Role)) {
        if row.kind == PortType::Localnet {
            emit(Role::Localnet);
        }
        if row.kind == PortType::ChassisRedirect {
            emit(Role::Gateway);
        }
        if !row.nat_addresses.is_empty() {
            emit(Role::Nat);
        }
    }
}

/// All rows of the tables that decisions are made from.
pub fn southbound_model() -> Model {
    with_indexes(Model::new("OVN_Southbound"))
}

/// The tables that decisions are made from, all rows of those that the model has no condition for, with their indexes.
pub fn with_indexes(model: Model) -> Model {
    model
        .table::<Chassis>()
        .table::<DatapathBinding>()
        .table::<PortBinding>()
        .table::<LoadBalancer>()
        .table::<LogicalDpGroup>()
        .table::<Encap>()
        .index::<ByName>()
        .index::<ByDatapath>()
        .index::<ByChassis>()
        .index::<ByLink>()
        .index::<ByRole>()
}

/// All inputs at one instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Southbound database, or what it would be by the Northbound.
    pub sb: ovsdb::Snapshot,
    /// The local switch's database.
    pub vswitch: ovsdb::Snapshot,
    /// The configuration.
    pub config: Arc<Config>,
    /// For how long our row in `Chassis` has been missing; zero while it is there.
    pub chassis_missing: Duration,
    /// Whether withdrawals are to be doubted, as the inputs were not there a moment ago.
    pub guard: bool,
    /// Whether our ports are to be given the time to be bound again, as our row in `Chassis` was made anew a moment ago.
    pub rebinding: bool,
    /// Whether nothing is to be announced, as the agent is about to end.
    pub silent: bool,
    /// Prefixes that are never wired and never announced.
    pub reserved: Arc<ReservedPrefixes>,
    /// Processes of ovn-bgp-agent in this network namespace.
    pub rivals: BTreeSet<u32>,
    /// The last decision: of two conflicting addresses, the existing one stays.
    pub before: Arc<Decision>,
}

impl Snapshot {
    /// The node's name as a chassis.
    pub fn system_id(&self) -> Option<&Str> {
        system_id(&self.vswitch)
    }

    /// Our row in `Chassis`.
    pub fn me(&self) -> Option<Uuid> {
        let name = self.system_id()?;
        self.sb.table::<Chassis>().iter().find(|(_, row)| row.name == *name).map(|(row, _)| row.uuid())
    }

    /// The physical networks that this node is connected to.
    pub fn mappings(&self) -> BridgeMappings {
        mappings(&self.vswitch)
    }

    /// A port binding by name.
    pub fn port(&self, name: &str) -> Option<(Uuid, &PortBinding)> {
        self.sb.unique::<ByName>(&Str::new(name)).map(|(row, port)| (row.uuid(), port))
    }

    /// The port bindings of a switch or router.
    pub fn ports_on(&self, datapath: Uuid) -> impl Iterator<Item = (Uuid, &PortBinding)> {
        self.sb.range::<ByDatapath>(datapath..=datapath).map(|(_, row, port)| (row.uuid(), port))
    }

    /// The port bindings that are bound to a chassis and ready.
    pub fn bound_to(&self, chassis: Uuid) -> impl Iterator<Item = (Uuid, &PortBinding)> {
        let bound = self.sb.range::<ByChassis>(chassis..=chassis).map(|(_, row, port)| (row.uuid(), port));
        bound.filter(move |(_, port)| port.is_bound(chassis))
    }

    /// The port bindings of a role.
    pub fn ports_as(&self, role: Role) -> impl Iterator<Item = (Uuid, &PortBinding)> {
        self.sb.range::<ByRole>(role..=role).map(|(_, row, port)| (row.uuid(), port))
    }

    /// The other side of a link between datapaths.
    pub fn peer(&self, port: &PortBinding) -> Option<(Uuid, &PortBinding)> {
        self.port(port.options.get("peer")?)
    }

    /// Whether any port leads to the one of this name.
    pub fn is_led_to(&self, name: &Str) -> bool {
        self.sb.lookup::<ByLink>(name).next().is_some()
    }

    /// The switches and routers of a load balancer, from whichever columns this version of OVN fills.
    pub fn members(&self, lb: &LoadBalancer) -> impl Iterator<Item = Uuid> {
        let groups = [lb.datapath_group, lb.ls_datapath_group, lb.lr_datapath_group];
        let groups = groups.into_iter().flatten().filter_map(|group| self.sb.get(group));
        let grouped = groups.flat_map(|group| group.datapaths.iter().map(|datapath| datapath.uuid()));
        lb.datapaths.iter().map(|datapath| datapath.uuid()).chain(grouped)
    }

    /// A bridge of the local switch.
    pub fn bridge(&self, name: &str) -> Option<&Bridge> {
        self.vswitch.table::<Bridge>().iter().map(|(_, bridge)| bridge).find(|bridge| bridge.name == name)
    }

    /// A bridge's own Ethernet address.
    pub fn bridge_mac(&self, name: &str) -> Option<MacAddr> {
        let own = self.vswitch.table::<Interface>().iter().find(|(_, interface)| interface.name == name);
        own.and_then(|(_, interface)| interface.mac_in_use.as_ref()?.value().copied())
    }

    /// The patch ports that lead from a bridge into the overlay, as far as the switch could make them: each interface, the
    /// localnet port it is for, and its OpenFlow number once it has one.
    pub fn patch_ports<'s>(
        &'s self,
        bridge: &'s Bridge,
    ) -> impl Iterator<Item = (Uuid, &'s Str, Option<u32>)> {
        let ports = bridge.ports.iter().filter_map(|port| self.vswitch.get(*port));
        ports.flat_map(|port| {
            let localnet = port.external_ids.get(LOCALNET_PORT);
            let interfaces =
                port.interfaces.iter().filter_map(|row| Some((row.uuid(), self.vswitch.get(*row)?)));
            interfaces.filter_map(move |(row, interface)| {
                let number = interface.ofport.map(u32::try_from);
                // -1 is a port that the switch cannot make, 0 is none, and the numbers from 0xffffff00 on are not those of ports.
                let is_port = number.is_none_or(|number| number.is_ok_and(|n| (1..0xffff_ff00).contains(&n)));
                Some((row, localnet?, number.and_then(Result::ok))).filter(|_| is_port)
            })
        })
    }
}

/// The physical networks that this node is connected to, from the local switch's settings.
pub fn mappings(vswitch: &ovsdb::Snapshot) -> BridgeMappings {
    BridgeMappings::read(setting(vswitch, setting::BRIDGE_MAPPINGS).map_or("", Str::as_str))
}

/// The addresses of tunnel ends that the local switch knows: this node's, from its settings, and those of other chassis, from the
/// tunnels that ovn-controller made. The Northbound does not have the latter.
pub fn encap_ips(vswitch: &ovsdb::Snapshot) -> Vec<IpAddr> {
    let text = setting(vswitch, setting::ENCAP_IP).map_or("", Str::as_str);
    let tunnels = vswitch.table::<Interface>().iter();
    let remote = tunnels.filter_map(|(_, interface)| interface.options.get("remote_ip").map(Str::as_str));
    text.split(',').chain(remote).filter_map(|ip| ip.trim().parse().ok()).collect()
}

/// The node's name as a host, from the local switch's settings.
pub fn hostname(vswitch: &ovsdb::Snapshot) -> Option<&Str> {
    setting(vswitch, setting::HOSTNAME).filter(|name| !name.is_empty())
}

/// The name of the router's port that a gateway port is of. OVN's names are conventions of clouds; what links the rows are their
/// options.
pub fn router_port_name(gateway: &PortBinding) -> Option<&str> {
    let told = gateway.options.get("distributed-port").map(|name| name.as_str());
    told.or_else(|| gateway.logical_port.strip_prefix("cr-"))
}

/// Whether a port is of a switch that is not there. By the Northbound, no switch has a row of its own.
pub fn is_lost(snapshot: &Snapshot, port: &PortBinding) -> bool {
    snapshot.config.source == OvnDatabase::Southbound && snapshot.sb.get(port.datapath).is_none()
}

/// Whether a port holds the address of a load balancer. Its addresses tell nothing: older clouds leave them out.
pub fn is_vip_port(port: &PortBinding) -> bool {
    let id = |key: &str| port.external_ids.get(key).map_or("", Str::as_str);
    port.kind == PortType::Vif
        && (ident::name::is_lb_vip_port(id(key::PORT_NAME)) || id(key::DEVICE_OWNER) == device_owner::LB_VIP)
}

/// Whether the owner of a port does not want it announced.
pub fn opted_out(port: &PortBinding) -> bool {
    let off = |value: Option<&Str>| value.is_some_and(|value| value.eq_ignore_ascii_case("false"));
    off(port.external_ids.get(key::ADVERTISE)) || off(port.options.get("dynamic-routing-advertise"))
}
