//! `Service_Monitor`: a backend that some chassis probes.

use std::net::IpAddr;

use ovsdb::{Map, Str, Table};

use crate::text::Text;
use crate::text::word::words;

/// A row of `Service_Monitor`: a backend that a chassis probes.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "OVN_Southbound", table = "Service_Monitor")]
pub struct ServiceMonitor {
    /// The backend's address.
    pub ip: Text<IpAddr>,
    /// The protocol of the probes.
    pub protocol: Option<MonitorProtocol>,
    /// The backend's port, 0 for ICMP.
    pub port: i64,
    /// The backend's logical port. Its chassis sends the probes.
    pub logical_port: Str,
    /// Ethernet source of the probes.
    pub src_mac: Str,
    /// IP source of the probes.
    pub src_ip: Str,
    /// The result; absent until the first one.
    pub status: Option<MonitorStatus>,
    /// `interval`, `timeout`, `success_count`, `failure_count`.
    pub options: Map<Str, Str>,
    /// Keys of northd.
    pub external_ids: Map<Str, Str>,
}

words! {
    /// The protocol of probes.
    pub enum MonitorProtocol {
        /// The probe connects by TCP.
        Tcp = "tcp",
        /// The probe sends a UDP datagram; no reply counts as success.
        Udp = "udp",
        /// The probe sends an ICMP echo (OVN 26.03).
        Icmp = "icmp",
    }
}

words! {
    /// The result of the probes.
    pub enum MonitorStatus {
        /// The backend answers.
        Online = "online",
        /// The backend does not answer, or its port is down.
        Offline = "offline",
        /// Probing failed.
        Error = "error",
    }
}
