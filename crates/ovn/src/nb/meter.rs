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
    /// What the bands count.
    pub unit: MeterUnit,
    /// The limits; at least one.
    pub bands: Set<Ref<MeterBand>>,
    /// Whether each user has the rate for itself.
    pub fair: Option<bool>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// What a meter counts.
    pub enum MeterUnit {
        /// Packets per second.
        Packets = "pktps",
        /// Kilobits per second.
        Kilobits = "kbps",
    }
}
