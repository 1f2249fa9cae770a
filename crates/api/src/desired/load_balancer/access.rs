//! `ACL`: the prefixes from which clients may connect to a listener.
//!
//! A switch checks the first packet of a connection before it chooses a backend, so the packet still has the address of the VIP. Later
//! packets have the backend's address and pass. The rules are therefore on the switches where clients connect:
//!
//! - The networks that use the load balancer have a rule for each VIP and each floating IP.
//! - The external network of a floating IP has a rule for it, because its address is unique there.
//! - The external networks of the routers have rules for the VIPs, for clients whose packets are routed to them. A VIP is a tenant's
//!   address, and other tenants may use the same one. So such a rule also matches the MAC of the gateway port. Otherwise a tenant could cut
//!   off others.

use std::net::IpAddr;

use ipnet::IpNet;
use ovn::ident::row_uuid;
use ovn::nb::{Acl, AclAction, Direction, LogicalSwitch};
use ovn::target::Part;
use ovn::text::match_expr::{End, Field, Match, Predicate, Test};
use uuid::Uuid;

use super::association::Association;
use super::parts::BalancerParts;
use super::vips::Frontend;
use crate::desired::{Look, object, switch, text};
use crate::model::{LbProtocol, Listener, Port};

/// The role of a listener's rules in row UUIDs.
const ROLE: &str = "listener";

/// Above the rules of security groups, which may allow the same packets.
const PRIORITY: i64 = 2000;

/// Creates the rules of these frontends.
pub(super) fn compile(
    look: &Look<'_, '_>,
    parts: &BalancerParts<'_>,
    association: &Association<'_>,
    frontends: &[Frontend<'_, '_>],
    to: &mut Part,
) {
    for front in frontends.iter().filter(|front| !front.listener.allowed_cidrs.is_empty()) {
        let (listener, address) = (front.listener, front.endpoint.ip);
        let refused = refused(listener, address);
        let floating_ip = parts
            .vips
            .iter()
            .find_map(|it| it.floating_ip.filter(|_| it.floating_address() == Some(address)));
        let outside = floating_ip.map(|floating_ip| floating_ip.floating_network_id);
        let networks = association.networks.iter().copied().chain(outside);
        add(look, listener, &address.to_string(), refused.clone(), networks, to);
        if floating_ip.is_some() {
            continue;
        }
        for gateway in &association.gateways {
            let role = format!("{address} through {}", gateway.id);
            add(look, listener, &role, refused.clone().and(through(gateway)), [gateway.network_id], to);
        }
    }
}

/// Matches first packets to a listener from sources that it does not allow.
fn refused(listener: &Listener, address: IpAddr) -> Match {
    let (kind, port) = match listener.protocol {
        LbProtocol::Tcp => (Predicate::Tcp, Field::TcpDst),
        LbProtocol::Udp => (Predicate::Udp, Field::UdpDst),
        LbProtocol::Sctp => (Predicate::Sctp, Field::SctpDst),
    };
    let number = listener.protocol_port.into();
    let all = Match::ip(End::Dst, address).and(Match::Is(kind)).and(Match::range(port, number, number));
    let prefixes = listener.allowed_cidrs.iter().map(|cidr| cidr.value.trunc());
    let mut prefixes: Vec<IpNet> = prefixes.filter(|net| net.addr().is_ipv4() == address.is_ipv4()).collect();
    prefixes.sort();
    prefixes.dedup();
    // A listener that allows only IPv4 prefixes allows no client at its IPv6 addresses.
    match prefixes.is_empty() {
        true => all,
        false => all.and(Match::Not(Test::Ip(End::Src, prefixes))),
    }
}

/// Matches packets to a router's gateway port.
fn through(gateway: &Port) -> Match {
    Test::Mac(End::Dst, gateway.mac).into()
}

/// Adds a rule as a row of the load balancer. If the Northbound refuses the rule, it gets none of the load balancer's rows, so no listener
/// serves clients that it must not serve.
fn add(
    look: &Look<'_, '_>,
    listener: &Listener,
    role: &str,
    refused: Match,
    networks: impl IntoIterator<Item = Uuid>,
    to: &mut Part,
) {
    let row = look.row(row_uuid(ROLE, &listener.id.to_string(), &format!("allowed {role}")));
    let acl = Acl {
        priority: PRIORITY,
        direction: Direction::FromLport,
        matches: text(refused),
        action: AclAction::Drop,
        ..Default::default()
    };
    let mut networks = networks.into_iter().filter(|network| look.network(*network).is_some()).peekable();
    // The server would delete a row without a reference at once, and the loop would write it again.
    if networks.peek().is_none() {
        return;
    }
    let of = object(super::OBJECT, listener.load_balancer_id);
    to.own(of.clone(), row, acl);
    for network in networks {
        let switch = switch::row(look, network);
        to.member::<LogicalSwitch>(of.clone(), switch, LogicalSwitch::ACLS, row);
    }
}
