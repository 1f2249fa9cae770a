//! The snapshot: all inputs of the Northbound rows. These are the world, OVN's reports, the settings, and the waits that are over.
//!
//! A snapshot is of one instant and immutable, and a copy costs nothing. A [`Fact`] is one question to it, and [`Snapshot::since`] returns
//! the questions whose answers may have changed since an older snapshot.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod change;
pub mod sessions;

use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdSet;
use ovsdb::wire::Atom;
use ovsdb::wire::Datum;
use ovsdb::wire::{ColumnSchema, DatabaseSchema};
use uuid::Uuid;

use crate::desired::Key;
use crate::fleet::Fleet;
use crate::northbound::Removals;
use crate::report::Report;
use crate::settings::Settings;
use crate::world::{Kind, World};
use sessions::Sessions;

/// The inputs at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The stored state.
    pub world: World,
    /// OVN's reports.
    pub report: Report,
    /// The operator's settings.
    pub settings: Arc<Settings>,
    /// The chassis.
    pub fleet: Arc<Fleet>,
    /// The features of the server's schema.
    pub ability: Ability,
    /// The waits that are over.
    pub late: Late,
    /// BFD sessions that several routers share; empty unless sharing is on.
    pub sessions: Sessions,
    /// Whether the writer may delete rows.
    pub removals: Removals,
}

/// The features of this OVN, derived from its schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ability {
    /// A router port may have no addresses.
    pub bare_router_port: bool,
    /// The column `DNS.options` exists.
    pub dns_options: bool,
    /// Port security accepts virtual router MACs (OVN 26.03).
    pub vrrp: bool,
    /// Load balancers can choose backends by IPv6 addresses (OVN 25.03).
    pub ipv6_selection: bool,
    /// Load balancers can translate without connection state, which routers with several gateways need (OVN 25.03).
    pub stateless_balancers: bool,
}

impl Ability {
    /// The features of a Northbound with this schema.
    pub fn of(schema: &DatabaseSchema) -> Self {
        let column = |table: &str, column: &str| schema.tables.get(table)?.columns.get(column);
        let mut version = schema.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (version.next().unwrap_or(0), version.next().unwrap_or(0));
        let ipv6_selection = column("Load_Balancer", "selection_fields").is_some_and(takes_ipv6_source);
        Ability {
            bare_router_port: column("Logical_Router_Port", "networks").is_some_and(|c| c.kind.min == 0),
            dns_options: column("DNS", "options").is_some(),
            vrrp: version >= (7, 18),
            ipv6_selection,
            // No schema lists options, but both features came with one release.
            stateless_balancers: ipv6_selection,
        }
    }
}

/// Whether a column of packet fields accepts the IPv6 source address.
fn takes_ipv6_source(column: &ColumnSchema) -> bool {
    match &column.kind.key.limits().choices {
        Some(Datum::Set(words)) => words.contains(&Atom::String("ipv6_src".into())),
        _ => false,
    }
}

/// The waits that are over. Time itself is not an input: a caller with a clock fills this in.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// Gateway ports that no chassis has hosted for longer than `unhosted_grace`.
    pub stranded: OrdSet<Uuid>,
    /// BFD rows whose start takes so long that routes switch to them whether up or not.
    pub overdue: OrdSet<Uuid>,
}

/// One question to a snapshot, standing for its answer, even if that is "not found".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// The set of units.
    Units,
    /// The inputs that never change within one run: settings and abilities.
    Choices,
    /// The chassis.
    Fleet,
    /// An object: its noun and its id.
    Object(Kind, Uuid),
    /// The external ports of a network.
    ExternalPorts(Uuid),
    /// The metadata port of a network.
    MetadataPort(Uuid),
    /// The names and addresses of a network's ports.
    Names(Uuid),
    /// The ports of routers on a network.
    RoutersOn(Uuid),
    /// The ports of a router.
    PortsOfRouter(Uuid),
    /// The ports with an allowed address pair for an address.
    Pair(IpAddr),
    /// Whether a gateway port has a placement.
    HasPlacement(Uuid),
    /// Whether a port holds the VIP of a load balancer.
    VipPort(Uuid),
    /// The members with an address.
    MembersAt(IpAddr),
    /// The ports with an address, in any subnet.
    HolderOf(IpAddr),
    /// The port of a subnet that sends health probes.
    MonitorPort(Uuid),
    /// The results of probing a port.
    Probes(Uuid),
    /// The last result of a member, until the server has read the Southbound.
    LastResult(Uuid),
    /// The floating IPs of a port.
    FloatingIpsOf(Uuid),
    /// Whether any row was adopted from Neutron.
    AnyAdopted,
    /// Whether a port is up.
    Up(Uuid),
    /// The chassis where a port is bound or hosted.
    Place(Uuid),
    /// The parent of a virtual port.
    Parent(Uuid),
    /// The row of `NB_Global`.
    NbGlobal,
    /// Whether a gateway port has been without a chassis for too long.
    Stranded(Uuid),
    /// The shared sessions of a gateway port.
    Session(Uuid),
}

/// The differences between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The questions whose answers may differ.
    pub facts: Vec<Fact>,
    /// The new units.
    pub came: Vec<Key>,
    /// The removed units.
    pub gone: Vec<Key>,
}
