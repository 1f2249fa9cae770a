//! `Meter`: a named rate limit.

use ovsdb::{Map, Ref, Set, Str, Table};

use super::MeterBand;
use crate::text::word::words;

/// A row of `Meter`: a named rate limit.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "Meter")]
pub struct Meter {
    /// Unique.
    pub name: Str,
    /// The unit of the bands.
    pub unit: MeterUnit,
    /// The limits; at least one.
    pub bands: Set<Ref<MeterBand>>,
    /// Whether each user has a limit of its own.
    pub fair: Option<bool>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The unit of a meter.
    pub enum MeterUnit {
        /// Packets per second.
        Packets = "pktps",
        /// Kilobits per second.
        Kilobits = "kbps",
    }
}
