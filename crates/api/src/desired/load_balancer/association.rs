//! The switches and routers that use a load balancer.
//!
//! The unit computes them from the whole world each time. Reference counts that follow each event would drift, for example when a member's
//! network leaves the router while the VIP's stays.
//!
//! A switch or router that uses a load balancer sends connections to its VIP to its members. Other tenants may have a machine with the
//! VIP's address, or machines with the members' addresses. So a load balancer goes to foreign networks and routers only where its VIP is an
//! address of theirs: on the VIP's network, and on routers with an interface in the VIP's subnet. Otherwise a member in a shared network,
//! or a VIP in an external one, would put it on the routers of all tenants there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ovn::ident::name;
use ovn::text::octavia::LsRefs;
use uuid::Uuid;

use super::parts::BalancerParts;
use crate::desired::Look;
use crate::model::Port;
use crate::resource::load_balancer::reason;

/// The switches and routers that use a load balancer.
pub(super) struct Association<'w> {
    /// Routers with a port in a VIP's subnet, then those with a port in a member's subnet, each group in order of id.
    pub(super) routers: Vec<Uuid>,
    /// The networks of VIPs and members, and the networks behind the routers; never external ones.
    pub(super) networks: BTreeSet<Uuid>,
    /// The networks among these with an interface of one of the routers.
    pub(super) behind_routers: BTreeSet<Uuid>,
    /// The number of VIPs and members by network, without networks that only share a router with them.
    pub(super) ls_refs: LsRefs,
    /// Whether one of the routers has several gateways.
    pub(super) has_multihomed_router: bool,
    /// The gateway ports of the routers.
    pub(super) gateways: Vec<&'w Port>,
    /// The VIPs that no router answers for.
    pub(super) unrouted: Vec<IpAddr>,
}

impl<'w> Association<'w> {
    pub(super) fn of(look: &Look<'_, 'w>, parts: &BalancerParts<'_>) -> Self {
        let owner = parts.balancer.project.as_str();
        let vips = count(parts.vips.iter().map(|it| it.vip.subnet_id));
        let members = count(parts.members().map(|member| member.subnet()));

        let mut routers: Vec<Uuid> = Vec::new();
        let mut answered = BTreeSet::new();
        for (subnets, is_vip) in [(&vips, true), (&members, false)] {
            for (subnet, _) in subnets {
                let Some(network) = look.subnet(*subnet).map(|found| found.network_id) else { continue };
                for port in look.router_ports_in(network, *subnet) {
                    let Some(router) = port.router_id().and_then(|id| look.router(id)) else { continue };
                    let leads_to_vip = is_vip && reason::answers(port, router, owner);
                    if leads_to_vip {
                        answered.insert(*subnet);
                    }
                    if (leads_to_vip || router.project == owner) && !routers.contains(&router.id) {
                        routers.push(router.id);
                    }
                }
            }
        }

        let mut behind_routers = BTreeSet::new();
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
                    behind_routers.insert(port.network_id);
                }
            }
        }
        let mut networks = behind_routers.clone();

        let mut refs: BTreeMap<Uuid, u32> = BTreeMap::new();
        for (subnets, is_vip) in [(&vips, true), (&members, false)] {
            for (subnet, count) in subnets {
                let network = look.subnet(*subnet).and_then(|subnet| look.network(subnet.network_id));
                let Some(network) = network.filter(|network| !network.external) else { continue };
                if is_vip || network.project == owner || networks.contains(&network.id) {
                    networks.insert(network.id);
                    *refs.entry(network.id).or_default() += count;
                }
            }
        }
        let ls_refs = refs.into_iter().map(|(network, count)| (name::switch(network).into(), count));
        let ls_refs = LsRefs(ls_refs.collect());
        let unrouted = parts.vips.iter().filter(|it| !answered.contains(&it.vip.subnet_id));
        let unrouted = unrouted.map(|it| it.vip.address.value).collect();
        Association {
            routers,
            networks,
            behind_routers,
            ls_refs,
            has_multihomed_router,
            gateways: all_gateways,
            unrouted,
        }
    }

    /// The value of `lr_ref`, if there is a router.
    pub(super) fn lr_ref(&self) -> Option<String> {
        let names: Vec<String> = self.routers.iter().map(|router| name::router(*router)).collect();
        if names.is_empty() { None } else { Some(names.join(",")) }
    }
}

/// Subnets in order of first use, with the number of uses.
fn count(subnets: impl Iterator<Item = Uuid>) -> Vec<(Uuid, u32)> {
    let mut places: BTreeMap<Uuid, usize> = BTreeMap::new();
    let mut counts: Vec<(Uuid, u32)> = Vec::new();
    for subnet in subnets {
        let place = *places.entry(subnet).or_insert(counts.len());
        match counts.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => counts.push((subnet, 1)),
        }
    }
    counts
}

/// External networks get no load balancers, because all tenants share their switch.
fn is_internal(look: &Look<'_, '_>, network: Uuid) -> bool {
    look.network(network).is_some_and(|network| !network.external)
}
