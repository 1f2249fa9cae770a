//! The inputs of a decision, at one instant.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ovn::PortType;
use ovn::sb::{Chassis, ChassisPrivate, DatapathBinding, PortBinding, SbGlobal};
use ovsdb::{Condition, Function, Model, Set, Str, Uuid, Weak};

use super::desired::Decision;
use crate::connections::switch::{setting, system_id};

/// The integration bridge, unless `ovn-bridge` names another.
const BRIDGE: &str = "br-int";

/// All inputs at one instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Southbound database: the rows of this chassis, and all localports.
    pub sb: ovsdb::Snapshot,
    /// The local switch's database.
    pub vswitch: ovsdb::Snapshot,
    /// Our row in `Chassis`.
    pub chassis: Uuid,
    /// The time since when it has been there. ovn-controller binds its ports a moment after it has created its row.
    pub since: Instant,
    /// The time.
    pub now: Instant,
    /// How long a network without VMs keeps its namespace. ovn-controller unbinds all ports when it restarts.
    pub hold: Duration,
    /// Whether the kernel speaks IPv6.
    pub ipv6: bool,
    /// The number to report as a sign of life.
    pub sb_cfg: Option<i64>,
    /// The last decision.
    pub before: Arc<Decision>,
}

impl Snapshot {
    /// The node's name as a chassis.
    pub fn system_id(&self) -> Option<&Str> {
        system_id(&self.vswitch)
    }

    /// The integration bridge.
    pub fn bridge(&self) -> &str {
        setting(&self.vswitch, "ovn-bridge").map_or(BRIDGE, Str::as_str)
    }
}

/// The row of a chassis.
pub fn chassis(sb: &ovsdb::Snapshot, system_id: &str) -> Option<Uuid> {
    sb.table::<Chassis>().iter().find(|(_, row)| row.name == system_id).map(|(row, _)| row.uuid())
}

/// Adds the tables of the Southbound database that this role reads.
pub fn with_tables(southbound: Model) -> Model {
    southbound
        .table::<SbGlobal>()
        .table::<DatapathBinding>()
        .table::<Chassis>()
        .table::<ChassisPrivate>()
        .table::<PortBinding>()
}

/// The same with the rows of one chassis, which this role asks for.
pub fn southbound_model(system_id: &Str, chassis: Option<Uuid>) -> Model {
    let own = Condition::column(Chassis::NAME, Function::Equal, system_id);
    let private = Condition::column(ChassisPrivate::NAME, Function::Equal, system_id);
    with_tables(
        Model::new("OVN_Southbound")
            .table_where::<Chassis>(own)
            .table_where::<ChassisPrivate>(private)
            .table_where::<PortBinding>(ports(chassis)),
    )
}

/// The port bindings that matter: all localports, and those of this chassis. A live migration lists its target in
/// `additional_chassis` first.
pub fn ports(chassis: Option<Uuid>) -> Condition<PortBinding> {
    let mut rows = Condition::column(PortBinding::KIND, Function::Equal, &PortType::Localport);
    if let Some(chassis) = chassis {
        let chassis = Weak::<Chassis>::new(chassis);
        rows = rows.or(Condition::column(PortBinding::CHASSIS, Function::Equal, &Some(chassis))).or(
            Condition::column(PortBinding::ADDITIONAL_CHASSIS, Function::Includes, &Set::from([chassis])),
        );
    }
    rows
}
