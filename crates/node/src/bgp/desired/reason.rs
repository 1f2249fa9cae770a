//! The reason for exposing an address: the rule, and the rows that match it.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use ovsdb::{Str, Uuid};
use serde::{Serialize, Serializer};

/// A row, by the name people know it by and by its UUID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedRow {
    /// The logical port's, or the load balancer's.
    pub name: Str,
    /// The row.
    pub row: Uuid,
}

impl NamedRow {
    /// Names a row.
    pub fn new(name: &Str, row: Uuid) -> Self {
        Self { name: name.clone(), row }
    }
}

impl fmt::Display for NamedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Serialize for NamedRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            name: &'a str,
            row: String,
        }
        Shown { name: &self.name, row: self.row.to_string() }.serialize(serializer)
    }
}

/// The reason for exposing an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Reason {
    /// D1: a port of a provider network is bound here.
    ProviderPort {
        /// The port.
        port: NamedRow,
    },
    /// D2: a router's gateway port is bound here.
    Gateway {
        /// The gateway port.
        port: NamedRow,
    },
    /// D3: a router translates it for a port that is bound here.
    Nat {
        /// The provider network's port to the router.
        port: NamedRow,
        /// The port that it is translated for, or the router's gateway port; none for a router that is here as a whole.
        resident: Option<NamedRow>,
    },
    /// D5: a port of a subnet behind a gateway that is bound here has it.
    TenantPort {
        /// The port.
        port: NamedRow,
        /// The gateway port.
        gateway: NamedRow,
    },
    /// D6: a load balancer behind a gateway that is bound here has it.
    LoadBalancer {
        /// The load balancer.
        load_balancer: NamedRow,
        /// The gateway port.
        gateway: NamedRow,
    },
}

impl Reason {
    /// The rule's number.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::ProviderPort { .. } => "D1",
            Self::Gateway { .. } => "D2",
            Self::Nat { .. } => "D3",
            Self::TenantPort { .. } => "D5",
            Self::LoadBalancer { .. } => "D6",
        }
    }

    /// The row that has the address.
    pub fn row(&self) -> &NamedRow {
        match self {
            Self::ProviderPort { port }
            | Self::Gateway { port }
            | Self::Nat { port, .. }
            | Self::TenantPort { port, .. } => port,
            Self::LoadBalancer { load_balancer, .. } => load_balancer,
        }
    }

    /// The kind of object that has the address, as ovn-bgp-agent logs it, because operators search their logs for it.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::ProviderPort { .. } => "logical port with ip",
            Self::Gateway { .. } => "CR-LRP Port",
            Self::Nat { .. } => "FIP with ip",
            Self::TenantPort { .. } => "tenant IP",
            Self::LoadBalancer { .. } => "OVN LB with VIP",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProviderPort { port } => write!(f, "port {port} of a provider network is bound here"),
            Self::Gateway { port } => {
                write!(f, "it is an address of the router gateway {port}, which is bound here")
            }
            Self::Nat { port, resident: Some(resident) } => {
                write!(f, "the router behind port {port} announces it for {resident}, which is bound here")
            }
            Self::Nat { port, resident: None } => {
                write!(f, "the router behind port {port} announces it, and is bound here as a whole")
            }
            Self::TenantPort { port, gateway } => {
                write!(
                    f,
                    "port {port} is in a tenant subnet behind the router gateway {gateway}, which is bound here"
                )
            }
            Self::LoadBalancer { load_balancer, gateway } => write!(
                f,
                "load balancer {load_balancer} has members behind the router gateway {gateway}, which is bound here"
            ),
        }
    }
}
