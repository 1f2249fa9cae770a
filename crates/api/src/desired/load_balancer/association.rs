//! The switches and routers that use a load balancer.
//!
//! Computed from the world as a whole each time. Counting references up and down with each event drifts, for example when a
//! member's network leaves the router while the VIP's stays.
//!
//! A router or a switch with a load balancer sends all packets to the VIP's address to the members. An owner chooses the VIP from
//! a network of its own, so it may be any address of the Internet. Therefore a router or a network of another project gets the
//! load balancer only where the VIP is an address of its own: it has an interface in the VIP's subnet. Members lead only to
//! routers and networks of the load balancer's project, and a gateway counts only for a router of that project.

use std::collections::{BTreeMap, BTreeSet};

use ovn::ident::name;
use ovn::text::octavia::LsRefs;
use uuid::Uuid;

use super::parts::BalancerParts;
use crate::desired::Look;
use crate::model::Port;

/// The switches and routers that use a load balancer.
pub(super) struct Association<'w> {
    /// Routers with a port in a VIP's subnet, then those of the project with one in a member's, each group in order of id.
    pub(super) routers: Vec<Uuid>,
    /// The networks of VIPs and members, and those behind the routers; never external ones.
    pub(super) networks: BTreeSet<Uuid>,
    /// VIPs and members by network. Networks that only share a router with them do not count.
    pub(super) ls_refs: LsRefs,
    /// Whether one of the routers has several gateways.
    pub(super) has_multihomed_router: bool,
    /// The gateway ports of the routers.
    pub(super) gateways: Vec<&'w Port>,
}

impl<'w> Association<'w> {
    pub(super) fn of(look: &Look<'_, 'w>, parts: &BalancerParts<'_>) -> Self {
        // Subnets in order of first use, with the number of VIPs or members in each.
        let mut subnets: Vec<Uuid> = Vec::new();
        let mut counts: BTreeMap<Uuid, u32> = BTreeMap::new();
        let vips = parts.vips.iter().map(|it| it.vip.subnet_id);
        for subnet in vips.chain(parts.members().map(|member| member.subnet())) {
            *counts.entry(subnet).or_insert_with(|| {
                subnets.push(subnet);
                0
            }) += 1;
        }

        let project = parts.balancer.project.as_str();
        let has_vip = |subnet: Uuid| parts.vips.iter().any(|it| it.vip.subnet_id == subnet);
        let mut networks = BTreeSet::new();
        let mut refs: BTreeMap<Uuid, u32> = BTreeMap::new();
        let mut routers: Vec<Uuid> = Vec::new();
        for subnet in subnets {
            let Some(network) = look.subnet(subnet).and_then(|found| look.network(found.network_id)) else {
                continue;
            };
            if !network.external && (has_vip(subnet) || network.project == project) {
                networks.insert(network.id);
                *refs.entry(network.id).or_default() += counts[&subnet];
            }
            for router in look.routers_in(network.id, subnet) {
                let is_own = look.router(router).map(|router| router.project == project);
                let has_interface = || {
                    let ports = look.router_ports(router);
                    ports.iter().any(|port| !port.is_gateway() && port.is_in_subnet(subnet))
                };
                let takes_part = match is_own {
                    None => false,
                    Some(true) => true,
                    Some(false) => has_vip(subnet) && has_interface(),
                };
                if takes_part && !routers.contains(&router) {
                    routers.push(router);
                }
            }
        }

        let mut has_multihomed_router = false;
        let mut all_gateways = Vec::new();
        for router in &routers {
            let (gateways, interfaces): (Vec<_>, Vec<_>) =
                look.router_ports(*router).into_iter().partition(|port| port.is_gateway());
            has_multihomed_router |= gateways.len() > 1;
            all_gateways.extend(gateways);
            for port in interfaces {
                // An interface of the other IP version leads no client to the VIPs.
                let leads_here =
                    port.fixed_ips.iter().any(|fixed| parts.balancer.serves_family(fixed.ip_address));
                if leads_here && is_internal(look, port.network_id) {
                    networks.insert(port.network_id);
                }
            }
        }
        let ls_refs = refs.into_iter().map(|(network, count)| (name::switch(network).into(), count));
        let ls_refs = LsRefs(ls_refs.collect());
        Association { routers, networks, ls_refs, has_multihomed_router, gateways: all_gateways }
    }

    /// The value of `lr_ref`, if there is a router.
    pub(super) fn lr_ref(&self) -> Option<String> {
        let names: Vec<String> = self.routers.iter().map(|router| name::router(*router)).collect();
        if names.is_empty() { None } else { Some(names.join(",")) }
    }
}

/// External networks get no load balancers: their switch belongs to everybody.
fn is_internal(look: &Look<'_, '_>, network: Uuid) -> bool {
    look.network(network).is_some_and(|network| !network.external)
}
