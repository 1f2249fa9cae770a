//! The instance that a request comes from.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::StatusCode;
use tokio::time::Instant;

use super::Network;
use crate::counts::SourceResult;
use crate::identity::{IdentityTable, Instance, Lookup, MacAddr, is_link_local};
use crate::neighbours::Neighbours;

/// The treatment of a request from an instance's address, but from another Ethernet address than that of the instance's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceCheck {
    /// The address counts alone.
    Off,
    /// The request is answered, and a warning logged.
    #[default]
    Warn,
    /// The request gets 404, and a warning is logged.
    Enforce,
}

/// The addresses of a network's instances, and its neighbour table.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// `None` before the agent has sent any.
    table: RwLock<Option<Arc<IdentityTable>>>,
    /// `None` without a namespace.
    neighbours: RwLock<Option<Arc<Neighbours>>>,
}

impl Sources {
    pub(super) fn table(&self) -> Option<Arc<IdentityTable>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_table(&self, table: Option<IdentityTable>) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table.map(Arc::new);
    }

    pub(super) fn set_neighbours(&self, neighbours: Option<Neighbours>) {
        *self.neighbours.write().unwrap_or_else(PoisonError::into_inner) = neighbours.map(Arc::new);
    }

    /// The Ethernet address that the network has for an address.
    fn mac(&self, source: IpAddr) -> MacLookup {
        let neighbours = self.neighbours.read().unwrap_or_else(PoisonError::into_inner).clone();
        match neighbours.map(|neighbours| neighbours.mac(source)) {
            Some(Ok(Some(mac))) => MacLookup::Found(mac),
            Some(Ok(None)) => MacLookup::None,
            Some(Err(error)) => {
                tracing::debug!(%source, %error, "cannot read the neighbour table");
                MacLookup::NoTable
            }
            None => MacLookup::NoTable,
        }
    }
}

/// The Ethernet address of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MacLookup {
    Found(MacAddr),
    /// The network has none for this address.
    None,
    /// The neighbour table cannot be read.
    NoTable,
}

impl Network {
    /// The instance that a request from an address comes from, or the status to answer with.
    pub(super) fn instance(&self, source: IpAddr) -> Result<Instance, StatusCode> {
        let (result, instance) = self.search(source);
        self.shared.counters.searched(result);
        instance.ok_or(match result {
            SourceResult::Stale => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::NOT_FOUND,
        })
    }

    /// Searches for the instance; the result, and the instance whose data the request gets.
    fn search(&self, source: IpAddr) -> (SourceResult, Option<Instance>) {
        let Some(table) = self.sources.table().filter(|_| self.shared.is_valid()) else {
            return (SourceResult::Stale, None);
        };
        let check = self.shared.check;
        let by_address = table.lookup(source);
        // Without the Ethernet address it is nobody's, or anybody's.
        let is_open = match by_address {
            Lookup::Unknown => is_link_local(source),
            Lookup::Ambiguous => true,
            _ => false,
        };
        let is_checked = check != SourceCheck::Off && table.is_checkable(source);
        let mac = if is_open || is_checked { self.sources.mac(source) } else { MacLookup::NoTable };
        let found = match mac {
            MacLookup::Found(mac) => table.lookup_sender(source, mac),
            _ => by_address,
        };
        match found {
            Lookup::Instance(instance) if check == SourceCheck::Enforce && is_checked => match mac {
                MacLookup::Found(_) => (SourceResult::Known, Some(instance.clone())),
                MacLookup::None => {
                    self.warn(source, "the network has no Ethernet address for the source of a request");
                    (SourceResult::ForeignMac, None)
                }
                // The agent passes the table with the listening socket, so this is a matter of a moment.
                MacLookup::NoTable => (SourceResult::Stale, None),
            },
            Lookup::Instance(instance) => (SourceResult::Known, Some(instance.clone())),
            Lookup::ForeignMac(instance) => {
                if check != SourceCheck::Off {
                    self.warn(
                        source,
                        "a request comes from another Ethernet address than that of the instance's port",
                    );
                }
                (SourceResult::ForeignMac, Some(instance.clone()).filter(|_| check != SourceCheck::Enforce))
            }
            Lookup::Unknown => (SourceResult::Unknown, None),
            Lookup::Ambiguous => {
                self.warn(source, "several instances have the address of a request");
                (SourceResult::Ambiguous, None)
            }
        }
    }

    fn warn(&self, source: IpAddr, what: &'static str) {
        if let Some(omitted) = self.shared.log.source.admit(Instant::now().into_std()) {
            tracing::warn!(network = %self.id, %source, check = ?self.shared.check, omitted, "{what}");
        }
    }
}
