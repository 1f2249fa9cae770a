//! D6: load balancers with an address on a provider network. OVN answers for them at the gateway of the router behind which
//! their members are, so they are exposed where that gateway is.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn::sb::LoadBalancer;
use ovsdb::Uuid;
use reconcile::{Class, ObjectId, Problem};

use super::draft::Draft;
use super::gateways::Gateway;
use super::{NamedRow, Reason};
use crate::ProblemCode;
use crate::bgp::snapshot::{Snapshot, is_vip_port, opted_out};

pub(super) fn expose(draft: &mut Draft<'_>, gateways: &[Gateway]) {
    let snapshot = draft.snapshot;
    let balancers = snapshot.sb.table::<LoadBalancer>();
    if gateways.is_empty() || balancers.is_empty() {
        return;
    }
    let reaches: Vec<Reach<'_>> = gateways.iter().map(|gateway| Reach::of(snapshot, gateway)).collect();
    for (row, balancer) in balancers.iter() {
        let members: BTreeSet<Uuid> = snapshot.members(balancer).collect();
        let vips: BTreeSet<IpAddr> =
            balancer.vips.keys().filter_map(|text| text.value()).map(|vip| vip.ip).collect();
        let bad = malformed(balancer);
        for reach in reaches.iter().filter(|reach| reach.serves(&members)) {
            if let Some(what) = &bad {
                let object = ObjectId::new("load-balancer", balancer.name.clone());
                draft.report(Problem::error(object, Class::Refused, ProblemCode::BadVip, what.clone()));
                let is_its = |reason: &Reason| {
                    matches!(reason, Reason::LoadBalancer { load_balancer, gateway }
                        if load_balancer.name == balancer.name && *gateway == reach.gateway.port)
                };
                draft.carry(is_its);
                draft.doubts.of_texts(balancer.vips.keys().map(ToString::to_string));
            }
            for vip in vips.iter().filter(|vip| reach.has(**vip)) {
                let reason = Reason::LoadBalancer {
                    load_balancer: NamedRow::new(&balancer.name, row.uuid()),
                    gateway: reach.gateway.port.clone(),
                };
                draft.wire(*vip, &reach.gateway.network, None, reason);
            }
        }
    }
}

/// The error in a load balancer's addresses, if any. A template, which differs on each chassis (`^vip:80`), is no error.
fn malformed(balancer: &LoadBalancer) -> Option<String> {
    let mut keys = balancer.vips.keys().filter(|text| !text.to_string().starts_with('^'));
    let (text, error) = keys.find_map(|text| Some((text, text.parsed().err()?)))?;
    Some(format!(
        "its address {:?} does not parse: {error}; correct it in the Northbound database",
        text.to_string()
    ))
}

/// The networks that a gateway's router reaches.
struct Reach<'g> {
    gateway: &'g Gateway,
    /// Switches that the router is connected to.
    switches: BTreeSet<Uuid>,
    /// Addresses of load balancers on the gateway's own network.
    vips: BTreeSet<IpAddr>,
    /// Those that their owners opted out.
    hidden: BTreeSet<IpAddr>,
}

impl<'g> Reach<'g> {
    fn of(snapshot: &Snapshot, gateway: &'g Gateway) -> Self {
        let peers = snapshot.ports_on(gateway.router).filter_map(|(_, port)| snapshot.peer(port));
        let switches = peers.map(|(_, peer)| peer.datapath.uuid()).collect();
        let (mut vips, mut hidden) = (BTreeSet::new(), BTreeSet::new());
        for (_, port) in snapshot.ports_on(gateway.switch).filter(|(_, port)| is_vip_port(port)) {
            (if opted_out(port) { &mut hidden } else { &mut vips }).extend(port.ips());
        }
        Self { gateway, switches, vips, hidden }
    }

    /// Whether a load balancer with these switches and routers is served through the gateway. The provider network alone is
    /// where its address is, not where its members are.
    fn serves(&self, members: &BTreeSet<Uuid>) -> bool {
        let inner = |switch: &Uuid| *switch != self.gateway.switch && self.switches.contains(switch);
        members.contains(&self.gateway.router) || members.iter().any(inner)
    }

    /// Whether an address is one of the gateway's own network.
    fn has(&self, vip: IpAddr) -> bool {
        !self.hidden.contains(&vip)
            && (self.vips.contains(&vip) || self.gateway.nets().any(|net| net.contains(&vip)))
    }
}
