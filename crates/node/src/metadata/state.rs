//! The desired and observed state of the metadata role's target.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use metadata_proxy::control::ListenerId;
use ovn::sb::{Chassis, ChassisPrivate};
use ovsdb::{Ref, Str, Uuid};
use serde::{Serialize, Serializer};

use crate::kernel::Dev;
use crate::netns::{self, Namespace};
use crate::ports::plugged::{PluggedPort, SeenPlug};

/// A network that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedNetwork {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its metadata port, which is the `iface-id`.
    pub port: Str,
    /// The integration bridge.
    pub bridge: Dev,
    /// Addresses that OVN answers for as soon as it has the flows of the metadata port.
    pub probes: BTreeSet<IpAddr>,
}

/// The desired state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The networks; namespaces of others go.
    pub networks: BTreeMap<Uuid, ServedNetwork>,
    /// Keys of `Chassis_Private`.
    pub keys: BTreeMap<&'static str, String>,
}

/// The state of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// The agent has it, the proxy does not.
    Held,
    /// The proxy has it.
    Served,
    /// The proxy is closing it and its connections.
    Closing,
}

/// The proxy behind the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyState {
    /// It is connected.
    Connected,
    /// It was until a moment ago, or the agent has just started. Networks that were ready stay so, because requests only wait.
    Restarting,
    /// It is not connected.
    #[default]
    Away,
}

/// The port that a probe asks through. OVN has other flows for another logical port, and none in another bridge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbedPort {
    /// The network.
    pub network: Uuid,
    /// The inode of its namespace.
    pub namespace: u64,
    /// The logical port.
    pub port: Str,
    /// The bridge.
    pub bridge: Dev,
}

/// The result of a network's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// It is under way.
    Running,
    /// OVN answered.
    Answered,
    /// OVN did not answer in time. The network counts as ready nevertheless: a VM that waits for it for ever were worse.
    Silent,
}

/// Our rows in the Southbound database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenRows {
    /// The row in `Chassis`.
    pub chassis: Option<Ref<Chassis>>,
    /// Its key of ready networks.
    pub ready: Option<Str>,
    /// The row in `Chassis_Private`.
    pub private: Option<Ref<ChassisPrivate>>,
    /// The keys there.
    pub keys: BTreeMap<Str, Str>,
}

/// The observed state.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Namespaces and devices.
    pub netns: netns::Observed,
    /// Ports of the switch.
    pub ports: BTreeMap<Dev, SeenPlug>,
    /// Listening sockets.
    pub sockets: BTreeMap<ListenerId, SocketState>,
    /// The proxy.
    pub proxy: ProxyState,
    /// Probes.
    pub probes: BTreeMap<ProbedPort, ProbeState>,
    /// Rows of the Southbound database.
    pub rows: SeenRows,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Write the networks that are ready.
    SetReady {
        /// The networks; none removes the key.
        networks: BTreeSet<Uuid>,
    },
    /// Write keys of `Chassis_Private`.
    SetKeys {
        /// The keys.
        keys: BTreeMap<&'static str, String>,
    },
    /// Change a namespace.
    Netns {
        /// The network.
        network: Uuid,
        /// The change.
        op: netns::Op,
    },
    /// Add a port to the switch, or correct it.
    Plug {
        /// The device.
        dev: Dev,
        /// The port.
        port: PluggedPort,
        /// The port that has the name now.
        seen: Option<SeenPlug>,
    },
    /// Remove a port from the switch.
    Unplug {
        /// The device.
        dev: Dev,
        /// The port.
        seen: SeenPlug,
    },
    /// Open the sockets that a namespace lacks, all at once: with haproxy, each time is another process.
    Listen {
        /// The network.
        network: Uuid,
        /// The sockets.
        sockets: BTreeSet<ListenerId>,
    },
    /// Close a socket and its connections.
    Close {
        /// The socket.
        socket: ListenerId,
    },
    /// Ask OVN for an answer.
    Probe {
        /// The port.
        of: ProbedPort,
        /// The device.
        dev: Dev,
        /// Addresses to ask for.
        addresses: BTreeSet<IpAddr>,
    },
}

/// A change is shown as its text.
impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::SetReady { networks } => {
                write!(f, "write {} ready networks to the Chassis row", networks.len())
            }
            Op::SetKeys { keys } => {
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "write {} to the Chassis_Private row", keys.join(", "))
            }
            Op::Netns { op, .. } => op.fmt(f),
            Op::Plug { dev, port, .. } => {
                write!(f, "add {dev} to {} in Open vSwitch as logical port {}", port.bridge, port.iface_id)
            }
            Op::Unplug { dev, .. } => write!(f, "remove {dev} from Open vSwitch"),
            Op::Listen { sockets, .. } => {
                let families: Vec<String> =
                    sockets.iter().map(|socket| format!("{:?}", socket.family)).collect();
                write!(f, "open the sockets {} in the namespace", families.join(", "))
            }
            Op::Close { socket } => write!(f, "close the {:?} socket in the namespace", socket.family),
            Op::Probe { .. } => f.write_str("wait for OVN's answer to a probe"),
        }
    }
}
