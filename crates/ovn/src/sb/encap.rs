//! `Encap`: one tunnel end of a chassis.

use std::net::IpAddr;

use ovsdb::{Map, Str, Table};

use crate::text::Text;
use crate::text::word::words;

/// A row of `Encap`: one tunnel end of a chassis.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Encap")]
pub struct Encap {
    /// The tunnel protocol.
    #[ovsdb(column = "type")]
    pub kind: EncapType,
    /// `csum` and others.
    pub options: Map<Str, Str>,
    /// Address of the tunnel end.
    pub ip: Text<IpAddr>,
    /// The chassis, for access control.
    pub chassis_name: Str,
}

words! {
    /// Tunnel protocols.
    pub enum EncapType {
        /// Geneve.
        Geneve = "geneve",
        /// VXLAN.
        Vxlan = "vxlan",
        /// STT, before OVN 26.03.
        Stt = "stt",
    }
}
