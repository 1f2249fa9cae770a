//! Matches the elements of a request with the present gateways of a router.
//!
//! This module is pure. It matches elements and ports one to one, so that two elements never mean the same port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use uuid::Uuid;

use super::element::Element;
use crate::model::Port;

/// The properties of a gateway that matter for matching. Lists of them are ordered by ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// The gateway port.
    pub port: Uuid,
    /// Its network.
    pub network: Uuid,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// The subnets of these addresses.
    pub subnets: BTreeSet<Uuid>,
}

impl From<&Port> for Existing {
    fn from(port: &Port) -> Self {
        Existing {
            port: port.id,
            network: port.network_id,
            addresses: port.fixed_ips.iter().map(|fixed| fixed.ip_address).collect(),
            subnets: port.fixed_ips.iter().map(|fixed| fixed.subnet_id).collect(),
        }
    }
}

/// A request that cannot be matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// Several ports are on the network, and the element has no addresses to choose between them.
    #[error("several gateway ports are on network {0} and no external_fixed_ips tell which one is meant")]
    Ambiguous(Uuid),
    /// No port is on the network.
    #[error("no gateway port is on network {0}")]
    NoPort(Uuid),
    /// No port on the network has any of the addresses.
    #[error("no gateway port on network {0} has any of the given external_fixed_ips")]
    NoAddress(Uuid),
}

/// The changes that `update_external_gateways` requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The port of each element, in the order of the request; `None` needs a new port. The first is the compatibility gateway.
    pub ports: Vec<Option<Uuid>>,
    /// Ports that no element matches.
    pub removed: Vec<Uuid>,
}

/// Matches a list that replaces all gateways. `compat` is the present compatibility gateway.
pub fn update(
    existing: &[Existing],
    compat: Option<Uuid>,
    elements: &[Element],
) -> Result<Update, MatchError> {
    let mut matching = Matching { existing, elements, ports: vec![None; elements.len()] };
    matching.by_address(|asked, has| asked == has);
    matching.by_address(|asked, has| !asked.is_disjoint(has));
    matching.by_network()?;
    matching.first_keeps(compat);
    let Matching { ports, .. } = matching;
    let removed = existing.iter().map(|it| it.port).filter(|port| !ports.contains(&Some(*port))).collect();
    Ok(Update { ports, removed })
}

/// The ports that `remove_external_gateways` names: each once, in order of ordinal.
pub fn remove(existing: &[Existing], elements: &[Element]) -> Result<Vec<Uuid>, MatchError> {
    let mut named = BTreeSet::new();
    for element in elements {
        named.insert(named_by(existing, element)?);
    }
    Ok(existing.iter().map(|it| it.port).filter(|port| named.contains(port)).collect())
}

fn named_by(existing: &[Existing], element: &Element) -> Result<Uuid, MatchError> {
    let network = element.network_id;
    let on_network: Vec<_> = existing.iter().filter(|it| it.network == network).collect();
    if on_network.is_empty() {
        return Err(MatchError::NoPort(network));
    }
    let asked: BTreeSet<IpAddr> = element.addresses().collect();
    let subnets: BTreeSet<Uuid> = element.fixed_ips.iter().filter_map(|fixed| fixed.subnet_id).collect();
    let found: Vec<_> = if !asked.is_empty() {
        let exact: Vec<_> = on_network.iter().filter(|it| it.addresses == asked).collect();
        let partial = || on_network.iter().filter(|it| !it.addresses.is_disjoint(&asked)).collect();
        if exact.is_empty() { partial() } else { exact }
    } else if !subnets.is_empty() {
        on_network.iter().filter(|it| !it.subnets.is_disjoint(&subnets)).collect()
    } else {
        on_network.iter().collect()
    };
    match found.as_slice() {
        [one] => Ok(one.port),
        [] => Err(MatchError::NoAddress(network)),
        _ => Err(MatchError::Ambiguous(network)),
    }
}

struct Matching<'a> {
    existing: &'a [Existing],
    elements: &'a [Element],
    ports: Vec<Option<Uuid>>,
}

impl<'a> Matching<'a> {
    fn is_free(&self, port: Uuid) -> bool {
        !self.ports.contains(&Some(port))
    }

    fn free_on(&self, network: Uuid) -> impl Iterator<Item = &'a Existing> + '_ {
        self.existing.iter().filter(move |it| it.network == network && self.is_free(it.port))
    }

    /// Matches each element with addresses to the first free port on its network that fits.
    fn by_address(&mut self, fits: impl Fn(&BTreeSet<IpAddr>, &BTreeSet<IpAddr>) -> bool) {
        for (at, element) in self.elements.iter().enumerate() {
            let asked: BTreeSet<IpAddr> = element.addresses().collect();
            if self.ports[at].is_none() && !asked.is_empty() {
                let port =
                    self.free_on(element.network_id).find(|it| fits(&asked, &it.addresses)).map(|it| it.port);
                self.ports[at] = port;
            }
        }
    }

    /// Matches elements without addresses to the remaining ports on their network, if there are enough elements to be unambiguous.
    fn by_network(&mut self) -> Result<(), MatchError> {
        let mut open: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
        for (at, element) in self.elements.iter().enumerate() {
            if element.addresses().next().is_none() {
                open.entry(element.network_id).or_default().push(at);
            }
        }
        for (network, places) in open {
            if self.free_on(network).count() > places.len() {
                return Err(MatchError::Ambiguous(network));
            }
            // A subnet is a hint, so elements with one choose first.
            for at in &places {
                let hints: BTreeSet<_> =
                    self.elements[*at].fixed_ips.iter().filter_map(|it| it.subnet_id).collect();
                let port = self.free_on(network).find(|it| !it.subnets.is_disjoint(&hints)).map(|it| it.port);
                self.ports[*at] = port;
            }
            for at in places {
                if self.ports[at].is_none() {
                    let port = self.free_on(network).next().map(|it| it.port);
                    self.ports[at] = port;
                }
            }
        }
        Ok(())
    }

    /// Matches the first element to the compatibility gateway if both are on one network and no other element means it. The gateway then
    /// changes its addresses.
    fn first_keeps(&mut self, compat: Option<Uuid>) {
        let (Some(compat), Some(first)) = (compat, self.elements.first()) else { return };
        let same_network = self.existing.iter().any(|it| it.port == compat && it.network == first.network_id);
        if self.ports[0].is_none() && same_network && self.is_free(compat) {
            self.ports[0] = Some(compat);
        }
    }
}

#[cfg(test)]
mod tests;
