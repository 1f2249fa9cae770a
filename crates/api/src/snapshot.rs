//! What decides the Northbound rows: the world, what OVN reports, the operator's choices, and which waits are over.
//!
//! All of it at one instant, immutable, and a copy costs nothing. [`Fact`] is one question that can be put to it, and
//! [`Snapshot::since`] says which answers may have changed from one snapshot to the next.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod change;
pub mod sessions;

use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdSet;
use ovsdb::wire::schema::DatabaseSchema;
use uuid::Uuid;

use crate::desired::Key;
use crate::fleet::Fleet;
use crate::northbound::Removals;
use crate::report::Report;
use crate::settings::Settings;
use crate::world::World;
use sessions::Sessions;

/// The inputs at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What the API stores.
    pub world: World,
    /// What OVN reports.
    pub report: Report,
    /// The operator's choices.
    pub settings: Arc<Settings>,
    /// The chassis.
    pub fleet: Arc<Fleet>,
    /// What the server's schema has.
    pub ability: Ability,
    /// Waits that are over.
    pub late: Late,
    /// BFD sessions that several routers share; empty where none do.
    pub sessions: Sessions,
    /// Whether the writer may delete rows.
    pub removals: Removals,
}

/// What this OVN can do, as its schema tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ability {
    /// A router port may be without addresses.
    pub bare_router_port: bool,
    /// `DNS.options` is there.
    pub dns_options: bool,
    /// Port security takes virtual router MACs (OVN 26.03).
    pub vrrp: bool,
}

impl Ability {
    /// What a Northbound of this schema can do.
    pub fn of(schema: &DatabaseSchema) -> Self {
        let column = |table: &str, column: &str| schema.tables.get(table)?.columns.get(column);
        let mut version = schema.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (version.next().unwrap_or(0), version.next().unwrap_or(0));
        Ability {
            bare_router_port: column("Logical_Router_Port", "networks").is_some_and(|c| c.kind.min == 0),
            dns_options: column("DNS", "options").is_some(),
            vrrp: version >= (7, 18),
        }
    }
}

/// Waits that are over. Time itself is no input: whoever has a clock says what it has come to.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// Gateway ports that no chassis has hosted for longer than `unhosted_grace`.
    pub stranded: OrdSet<Uuid>,
    /// BFD rows that have been starting for so long that routes go over to them, up or not.
    pub overdue: OrdSet<Uuid>,
}

/// One question to a snapshot; it stands for the answer, found or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// Which units there are.
    Units,
    /// What never changes between two snapshots of one run: settings and abilities.
    Choices,
    /// The chassis.
    Fleet,
    /// A network.
    Network(Uuid),
    /// The external ports of a network.
    ExternalPorts(Uuid),
    /// The metadata port of a network.
    MetadataPort(Uuid),
    /// Names and addresses of a network's ports.
    Names(Uuid),
    /// Ports on a network that belong to routers.
    RoutersOn(Uuid),
    /// A subnet.
    Subnet(Uuid),
    /// A subnet pool.
    Pool(Uuid),
    /// A port.
    Port(Uuid),
    /// The ports of a router.
    PortsOfRouter(Uuid),
    /// Ports that may send with an address of others.
    Pair(IpAddr),
    /// The chassis of a gateway port.
    Placement(Uuid),
    /// Whether a gateway port has any.
    HasPlacement(Uuid),
    /// A router.
    Router(Uuid),
    /// A floating IP.
    FloatingIp(Uuid),
    /// The floating IPs of a port.
    FloatingIpsOf(Uuid),
    /// A security group.
    Group(Uuid),
    /// A rule.
    Rule(Uuid),
    /// Whether any row was taken over.
    AnyAdopted,
    /// The row taken over in place of one of ours.
    Adopted(Uuid),
    /// Whether a port is up.
    Up(Uuid),
    /// Where a port is bound or hosted.
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

/// What differs between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Questions whose answers may differ.
    pub facts: Vec<Fact>,
    /// Units there were none of before.
    pub came: Vec<Key>,
    /// Units there are no more.
    pub gone: Vec<Key>,
}
