//! `BFD`: a session that monitors a next hop. Unique by port and destination. An unreferenced session stays, idle.

use std::net::IpAddr;

use ovsdb::{Map, Str, Table};

use crate::text::Text;
use crate::text::word::words;

/// A row of `BFD`: a session that watches a next hop.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Northbound", table = "BFD")]
pub struct Bfd {
    /// The router port of the session.
    pub logical_port: Str,
    /// The peer.
    pub dst_ip: Text<IpAddr>,
    /// Milliseconds between packets sent, at least 1.
    pub min_tx: Option<i64>,
    /// Milliseconds between packets expected.
    pub min_rx: Option<i64>,
    /// The number of lost packets after which the session is down, at least 1.
    pub detect_mult: Option<i64>,
    /// State of the session, written by northd.
    pub status: Option<BfdStatus>,
    /// Reserved.
    pub options: Map<Str, Str>,
    /// Keys of the cloud's management.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// State of a BFD session.
    pub enum BfdStatus {
        /// The peer's packets do not arrive. OVN drops routes with this session.
        Down = "down",
        /// The peer's packets arrive, but the peer does not receive ours.
        Init = "init",
        /// Packets arrive in both directions.
        Up = "up",
        /// No route refers to the session.
        AdminDown = "admin_down",
    }
}
