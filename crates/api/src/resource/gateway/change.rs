//! Adding, replacing and removing gateways.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use uuid::Uuid;

use super::element::Element;
use super::matching::{self, Existing, MatchError};
use super::{check, of_router, router};
use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{FixedIp, Port, Router, owner};
use crate::resource::ipam::{self, FixedIpRequest};
use crate::resource::port::{self, Internal, create_internal};
use crate::resource::router::Routers;
use crate::resource::{floating_ip, touch};
use crate::scheduler;
use crate::world::{Txn, World};

/// Adds gateways. The first becomes the compatibility gateway if there is none yet; each is a new port.
pub fn add(txn: &mut Txn, caller: &Caller, id: Uuid, elements: &[Element]) -> Result<(), Fault> {
    if elements.is_empty() {
        return Ok(());
    }
    let before = Before::of(txn, id)?;
    check::limits(txn, &before, before.gateways.len() + elements.len(), elements)?;
    check::elements(txn, caller, elements)?;
    let made = create_many(txn, &before, elements.iter().enumerate())?;
    let (mut compat, mut snat) = (before.router.gw_port_id, before.router.enable_snat);
    if compat.is_none() {
        compat = made.first().map(|(_, port)| *port);
        snat = elements[0].enable_snat.unwrap_or(txn.outside().settings.enable_snat_by_default);
    }
    finish(txn, &before, compat, snat)
}

/// Replaces the gateways of a router by a list. Ports that match an element keep their ids; the other ports are deleted, and the other
/// elements get new ports.
pub fn update(txn: &mut Txn, caller: &Caller, id: Uuid, elements: &[Element]) -> Result<(), Fault> {
    let before = Before::of(txn, id)?;
    check::limits(txn, &before, elements.len(), elements)?;
    check::elements(txn, caller, elements)?;
    let found = matching::update(&before.existing(), before.router.gw_port_id, elements)
        .map_err(|error| unmatched(id, error))?;
    for port in &found.removed {
        port::remove(txn, *port);
    }
    // Ports release addresses before others take them, so that an address can move between ports.
    let kept = || elements.iter().zip(&found.ports).filter_map(|(element, port)| Some((element, (*port)?)));
    for (element, port) in kept().filter(|(element, _)| !element.fixed_ips.is_empty()) {
        release(txn, port, &element.fixed_ips);
    }
    for (element, port) in kept().filter(|(element, _)| !element.fixed_ips.is_empty()) {
        readdress(txn, &before.router, port, &element.fixed_ips)?;
    }
    let new = elements.iter().enumerate().filter(|(at, _)| found.ports[*at].is_none());
    let made = create_many(txn, &before, new)?;
    let first_new = made.iter().find(|(at, _)| *at == 0).map(|(_, port)| *port);
    let compat = found.ports.first().copied().flatten().or(first_new);
    // The list is complete, as in Neutron: if the first gateway does not set `enable_snat`, the router gets the default.
    let snat = match elements.first() {
        None => before.router.enable_snat,
        Some(first) => first.enable_snat.unwrap_or(txn.outside().settings.enable_snat_by_default),
    };
    finish(txn, &before, compat, snat)
}

/// Removes the gateways that a list names. An empty list names none.
pub fn remove(txn: &mut Txn, id: Uuid, elements: &[Element]) -> Result<(), Fault> {
    if elements.is_empty() {
        return Ok(());
    }
    let before = Before::of(txn, id)?;
    if before.gateways.is_empty() {
        let text = format!("Unable to remove gateways from router {id}: it has none.");
        return Err(Fault::new(400, "UnableToRemoveGateways", text));
    }
    let named = matching::remove(&before.existing(), elements).map_err(|error| unmatched(id, error))?;
    for port in named {
        port::remove(txn, port);
    }
    let compat = heir(txn, &before.router);
    finish(txn, &before, compat, before.router.enable_snat)
}

/// Sets the single gateway of the old API: creates, changes, replaces or deletes the compatibility gateway. Other gateways stay; if the
/// compatibility gateway is deleted, the oldest of them succeeds it.
pub fn set_info(txn: &mut Txn, caller: &Caller, id: Uuid, info: Option<&Element>) -> Result<(), Fault> {
    let before = Before::of(txn, id)?;
    let present = before.router.gw_port_id.and_then(|port| txn.get::<Port>(&port).cloned());
    let Some(element) = info else {
        if let Some(port) = present {
            port::remove(txn, port.id);
        }
        let compat = heir(txn, &before.router);
        return finish(txn, &before, compat, before.router.enable_snat);
    };
    let element_only = std::slice::from_ref(element);
    let count = before.gateways.len() + usize::from(present.is_none());
    check::limits(txn, &before, count, element_only)?;
    check::elements(txn, caller, element_only)?;
    let compat = match present {
        Some(port) if port.network_id == element.network_id => {
            if !element.fixed_ips.is_empty() {
                readdress(txn, &before.router, port.id, &element.fixed_ips)?;
            }
            Some(port.id)
        }
        other => {
            if let Some(port) = other {
                port::remove(txn, port.id);
            }
            create_many(txn, &before, std::iter::once((0, element)))?.first().map(|(_, port)| *port)
        }
    };
    // Without `enable_snat`, a router with one gateway gets the default, as in Neutron. A router with several keeps its value.
    let silent = if before.gateways.len() > 1 {
        before.router.enable_snat
    } else {
        txn.outside().settings.enable_snat_by_default
    };
    finish(txn, &before, compat, element.enable_snat.unwrap_or(silent))
}

/// Removes all gateways of a router before its deletion.
pub fn remove_all(txn: &mut Txn, router: &Router) {
    let gateways: Vec<Uuid> = of_router(txn, router).iter().map(|port| port.id).collect();
    for port in gateways {
        port::remove(txn, port);
    }
}

/// The router and its gateways before the request.
pub(super) struct Before {
    pub(super) router: Arc<Router>,
    pub(super) gateways: Vec<Arc<Port>>,
}

impl Before {
    fn of(world: &World, id: Uuid) -> Result<Self, Fault> {
        let router = Arc::clone(router(world, id)?);
        let gateways = of_router(world, &router).into_iter().cloned().collect();
        Ok(Before { router, gateways })
    }

    fn existing(&self) -> Vec<Existing> {
        let mut by_age: Vec<&Port> = self.gateways.iter().map(Arc::as_ref).collect();
        by_age.sort_by_key(|port| (port.gateway_ordinal, port.id));
        by_age.into_iter().map(Existing::from).collect()
    }
}

fn unmatched(router: Uuid, error: MatchError) -> Fault {
    let text = format!("Unable to match a requested gateway of router {router}: {error}.");
    Fault::new(400, "UnableToMatchGateways", text)
}

/// The compatibility gateway of a request that names none: the present one, or the oldest remaining one.
fn heir(world: &World, router: &Router) -> Option<Uuid> {
    of_router(world, router).first().map(|port| port.id)
}

/// Creates a gateway for each element, which comes with its position in the request. Elements with addresses are first, so that no other
/// element gets one of these addresses by chance. The ordinals still follow the order of the request.
fn create_many<'e>(
    txn: &mut Txn,
    before: &Before,
    elements: impl Iterator<Item = (usize, &'e Element)>,
) -> Result<Vec<(usize, Uuid)>, Fault> {
    let oldest =
        before.gateways.iter().filter_map(|port| port.gateway_ordinal).max().map_or(0, |last| last + 1);
    let mut numbered: Vec<(u64, usize, &Element)> =
        (oldest..).zip(elements).map(|(ordinal, (at, element))| (ordinal, at, element)).collect();
    numbered.sort_by_key(|(ordinal, _, element)| (element.addresses().next().is_none(), *ordinal));
    let mut made = Vec::with_capacity(numbered.len());
    for (ordinal, at, element) in numbered {
        made.push((ordinal, at, create_port(txn, &before.router, element, ordinal)?));
    }
    made.sort_unstable();
    // Scheduled once all exist, and by age: siblings then see each other, whatever order the addresses required.
    for (_, _, port) in &made {
        place(txn, *port);
    }
    Ok(made.into_iter().map(|(_, at, port)| (at, port)).collect())
}

fn create_port(txn: &mut Txn, router: &Router, element: &Element, ordinal: u64) -> Result<Uuid, Fault> {
    check::overlap(txn, router.id, element.network_id)?;
    let port = create_internal(
        txn,
        Internal {
            device_id: router.id.to_string(),
            device_owner: owner::ROUTER_GATEWAY.into(),
            fixed_ips: (!element.fixed_ips.is_empty()).then(|| element.fixed_ips.clone()),
            gateway_ordinal: Some(ordinal),
            ..Internal::on(element.network_id)
        },
    )?;
    check::own_addresses(router, &port.fixed_ips)?;
    Ok(port.id)
}

fn place(txn: &mut Txn, port: Uuid) {
    let Some(port) = txn.get::<Port>(&port).cloned() else { return };
    let outside = txn.outside();
    let seed = txn.chance().u64(..);
    for placement in scheduler::place(txn, &outside, &port, seed) {
        txn.put(placement);
    }
}

/// Releases the addresses of a port that the request does not keep.
fn release(txn: &mut Txn, port: Uuid, request: &[FixedIpRequest]) {
    let named: BTreeSet<IpAddr> = request.iter().filter_map(|asked| asked.ip_address).collect();
    let any_of: BTreeSet<Uuid> = request
        .iter()
        .filter(|asked| asked.ip_address.is_none())
        .filter_map(|asked| asked.subnet_id)
        .collect();
    let again = |fixed: &FixedIp| named.contains(&fixed.ip_address) || any_of.contains(&fixed.subnet_id);
    txn.edit::<Port>(&port, |port| port.fixed_ips.retain(again));
}

/// Replaces the addresses of a port by those of a request; the port and its MAC stay.
fn readdress(txn: &mut Txn, router: &Router, port: Uuid, request: &[FixedIpRequest]) -> Result<(), Fault> {
    let Some(entity) = txn.get::<Port>(&port).cloned() else { return Ok(()) };
    let fixed_ips = ipam::reallocate(txn, &entity, request, &entity.device_owner, entity.mac)?;
    check::own_addresses(router, &fixed_ips)?;
    txn.edit::<Port>(&port, |port| port.fixed_ips = fixed_ips);
    floating_ip::release_lost(txn, port);
    Ok(())
}

/// Writes the router, checks the outcome and increments the revision.
fn finish(txn: &mut Txn, before: &Before, compat: Option<Uuid>, snat: bool) -> Result<(), Fault> {
    let id = before.router.id;
    txn.edit::<Router>(&id, |router| {
        router.gw_port_id = compat;
        router.enable_snat = snat;
    });
    check::outcome(txn, before)?;
    check::addresses(txn, before)?;
    let now = txn.now();
    let mut changed = false;
    let after: Vec<Arc<Port>> = of_router(txn, &before.router).into_iter().cloned().collect();
    for port in &after {
        match before.gateways.iter().find(|old| old.id == port.id) {
            Some(old) if old.fixed_ips == port.fixed_ips => {}
            Some(_) => {
                changed = true;
                txn.edit::<Port>(&port.id, |port| port.standard.bump(now));
            }
            None => changed = true,
        }
    }
    if changed || after.len() != before.gateways.len() || txn.get::<Router>(&id) != Some(&before.router) {
        touch::<Routers>(txn, id);
    }
    Ok(())
}
