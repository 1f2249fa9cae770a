//! `Meter_Band`: one limit of a meter.

use ovsdb::{Map, Str, Table};

/// A row of `Meter_Band`: one limit of a meter.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Meter_Band")]
pub struct MeterBand {
    /// `drop`, the only one.
    pub action: Str,
    /// In the meter's unit.
    pub rate: i64,
    /// In the meter's unit.
    pub burst_size: i64,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}
