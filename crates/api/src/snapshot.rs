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
use ovsdb::wire::atom::Atom;
use ovsdb::wire::datum::Datum;
use ovsdb::wire::schema::{ColumnSchema, DatabaseSchema};
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
    /// Load balancers can choose backends by IPv6 addresses (OVN 25.03).
    pub ipv6_selection: bool,
    /// Load balancers can translate without state, as routers with several gateways need it (OVN 25.03).
    pub stateless_balancers: bool,
}

impl Ability {
    /// What a Northbound of this schema can do.
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
            // No schema lists options, but both came with one release.
            stateless_balancers: ipv6_selection,
        }
    }
}

/// Whether a column that lists packet fields takes the source address of IPv6.
fn takes_ipv6_source(column: &ColumnSchema) -> bool {
    match &column.kind.key.limits().choices {
        Some(Datum::Set(words)) => words.contains(&Atom::String("ipv6_src".into())),
        _ => false,
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
    /// An object: its noun and its id.
    Object(Kind, Uuid),
    /// The external ports of a network.
    ExternalPorts(Uuid),
    /// The metadata port of a network.
    MetadataPort(Uuid),
    /// Names and addresses of a network's ports.
    Names(Uuid),
    /// Ports on a network that belong to routers.
    RoutersOn(Uuid),
    /// The ports of a router.
    PortsOfRouter(Uuid),
    /// Ports that may send with an address of others.
    Pair(IpAddr),
    /// Whether a gateway port has any.
    HasPlacement(Uuid),
    /// Whether a port holds the VIP of a load balancer.
    VipPort(Uuid),
    /// The members of load balancers with an address.
    MembersAt(IpAddr),
    /// The ports with an address, in whatever subnet.
    HolderOf(IpAddr),
    /// The port of a subnet that probes come from.
    MonitorPort(Uuid),
    /// The results of probing a port.
    Probes(Uuid),
    /// The last result of a member, while the Southbound was never read.
    LastResult(Uuid),
    /// The floating IPs of a port.
    FloatingIpsOf(Uuid),
    /// Whether any row was taken over.
    AnyAdopted,
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
