//! `NAT`: source translation of routers, and floating IPs.
//!
//! Every row names the gateway port that translates. Otherwise OVN applies all rows to the first gateway port, and packets that leave
//! through another one are not translated.

use ipnet::IpNet;
use ovn::ident::{name, row_uuid};
use ovn::nb::{LogicalRouter, Nat, NatType};
use ovn::target::Part;
use ovn::text::neutron::key;
use ovn::text::{HostAddr, Text};
use ovsdb::{Ref, Weak};
use uuid::Uuid;

use super::{Compiled, Look};
use super::{map, object, router, router_port, text, word};
use crate::model::{FloatingIp, LoadBalancer, Port, Router};

/// Source NAT: one set of rows per gateway port with an IPv4 address.
pub(super) fn compile_source(look: &Look<'_, '_>, router: &Router, to: &mut Part) -> Vec<Ref<Nat>> {
    if !router.enable_snat {
        return Vec::new();
    }
    let inside: Vec<HostAddr> = match look.settings().ovn_router_indirect_snat {
        true => vec![HostAddr { addr: std::net::Ipv4Addr::UNSPECIFIED.into(), len: Some(0) }],
        false => inside(look, router),
    };
    let mut rows = Vec::new();
    for port in look.gateways(router.id) {
        let address = port.fixed_ips.iter().map(|fixed| fixed.ip_address).find(|ip| ip.is_ipv4());
        let Some(address) = address else { continue };
        for logical_ip in &inside {
            // Not derived from the address, because that may change, and the UUID with it.
            let row = look.row(row_uuid("port", &port.id.to_string(), &format!("snat {logical_ip}")));
            let nat = Nat {
                kind: NatType::Snat,
                external_ip: Text::from(address),
                logical_ip: Text::from(*logical_ip),
                gateway_port: Some(Weak::new(router_port::row(look, port.id))),
                ..Default::default()
            };
            to.own(object("router", router.id), row, nat);
            rows.push(Ref::new(row));
        }
    }
    rows
}

/// The IPv4 subnets behind a router.
fn inside(look: &Look<'_, '_>, router: &Router) -> Vec<HostAddr> {
    let ports = look.router_ports(router.id);
    let fixed = ports.iter().filter(|port| !port.is_gateway()).flat_map(|port| &port.fixed_ips);
    let subnets = fixed.filter_map(|fixed| look.subnet(fixed.subnet_id));
    let mut inside: Vec<IpNet> =
        subnets.map(|subnet| subnet.cidr).filter(|net| net.addr().is_ipv4()).collect();
    inside.sort();
    inside.dedup();
    inside.into_iter().map(HostAddr::from).collect()
}

pub(super) fn compile_floating_ip(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let to = &mut to.part;
    let Some(floating_ip) = look.floating_ip(id) else { return };
    let (Some(port), Some(inside), Some(router)) =
        (floating_ip.port_id, floating_ip.fixed_ip_address, floating_ip.router_id)
    else {
        return;
    };
    if look.router(router).is_none() {
        return;
    }
    let settings = look.settings();
    let gateway = gateway(&look.gateways(router), floating_ip);
    let mac = look.port(floating_ip.floating_port_id).map(|port| port.mac);
    // With distributed NAT, the chassis of a member would translate its replies, and the load balancer's floating IP would not be restored.
    let central = settings.enable_distributed_floating_ip && serves_floating_ip(look, port, inside.into());
    let distributed = settings.enable_distributed_floating_ip && !central && look.is_up(port);
    let mut ids = vec![
        (key::FIP_ID, text(id)),
        (key::FIP_PORT_ID, text(port)),
        (key::ROUTER_NAME, text(name::router(router))),
        (key::FIP_NETWORK_ID, text(floating_ip.floating_network_id)),
        (key::REVISION, text(floating_ip.standard.revision)),
    ];
    ids.extend(mac.map(|mac| (key::FIP_EXTERNAL_MAC, text(mac))));
    let nat = Nat {
        kind: NatType::DnatAndSnat,
        external_ip: Text::from(std::net::IpAddr::V4(floating_ip.floating_ip_address)),
        logical_ip: Text::from(HostAddr::from(std::net::IpAddr::V4(inside))),
        logical_port: (!central).then(|| text(port)),
        external_mac: mac.filter(|_| distributed).map(Text::from),
        gateway_port: gateway.map(|port| Weak::new(router_port::row(look, port.id))),
        options: map([("stateless", word(settings.stateless_nat_enabled))]),
        external_ids: map(ids),
        ..Default::default()
    };
    let (object, row) = (object("floatingip", id), look.row(id));
    to.own(object.clone(), row, nat);
    to.member::<LogicalRouter>(object, router::row(look, router), LogicalRouter::NAT, row);
}

/// Whether an address of a port is a member of a load balancer whose VIP has a floating IP.
fn serves_floating_ip(look: &Look<'_, '_>, port: Uuid, address: std::net::IpAddr) -> bool {
    let Some(port) = look.port(port) else { return false };
    let fixed = port.fixed_ips.iter().filter(|fixed| fixed.ip_address == address);
    // A member of another project, in a shared network, must not change the port's floating IP.
    let members = fixed.flat_map(|fixed| look.members_at(fixed.subnet_id, address));
    let mut members = members.filter(|member| member.project == port.project);
    members.any(|member| {
        let balancer = look.object::<LoadBalancer>(member.load_balancer_id);
        balancer.is_some_and(|it| it.vips.iter().any(|vip| !look.floating_ips_of(vip.port_id).is_empty()))
    })
}

/// The gateway that translates a floating IP; it must be on the floating IP's network. If there are several, each floating IP ranks them in
/// its own order. So floating IPs spread, and only those of a removed gateway move.
fn gateway<'w>(gateways: &[&'w Port], floating_ip: &FloatingIp) -> Option<&'w Port> {
    let there = gateways.iter().filter(|port| port.network_id == floating_ip.floating_network_id);
    there.copied().max_by_key(|port| row_uuid("rank", &floating_ip.id.to_string(), &port.id.to_string()))
}
