//! Unanswered traffic, traced through the switches: `ofproto/trace` in the report.
//!
//! A ping without an answer leaves a note. For each note, this module rebuilds the sent packet from the sender's state (route,
//! addresses, neighbours) and traces it in the first switch on its path: for a VM the switch of its chassis, for an external
//! host the switches that are wired to its network. A sender that does not know its neighbour's MAC address sends only an ARP
//! request, so that is traced then.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::Lab;
use crate::node::Node;
use crate::node::chassis::Chassis;
use crate::picture::Part;

/// The number of traced failures. The first ones are usually the cause of the others.
const FOLLOWED: usize = 3;

/// Sender and destination of unanswered traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    pub(crate) from: String,
    /// An address, and a TCP port after a colon.
    pub(crate) to: String,
}

/// The unanswered traffic in a lab so far.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Vec<Missed>>);

impl Failures {
    /// Records unanswered traffic.
    pub(crate) fn note(&self, from: &str, to: &str) {
        let missed = Missed { from: from.to_owned(), to: to.to_owned() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&missed) {
            all.push(missed);
        }
    }

    fn last(&self) -> Vec<Missed> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all[all.len().saturating_sub(FOLLOWED)..].to_vec()
    }
}

impl Lab {
    /// Traces the unanswered traffic; returns a name and the output of the switches for each.
    pub(super) fn traces(&self) -> Vec<(String, String)> {
        let name = |missed: &Missed| format!("trace-{}-{}", missed.from, missed.to.replace([':', '.'], "-"));
        self.failures().last().iter().map(|missed| (name(missed), self.follow(missed))).collect()
    }

    fn follow(&self, missed: &Missed) -> String {
        let followed = self.find(&missed.from).and_then(|node| {
            let packet = Packet::of(&node, &missed.to)?;
            let entries = self.entries(&missed.from)?;
            Ok((packet, entries))
        });
        let (packet, entries) = match followed {
            Ok(followed) => followed,
            Err(error) => return format!("{} to {} cannot be followed: {error:#}\n", missed.from, missed.to),
        };
        let ask = |(chassis, bridge, device): &(&Chassis, &str, String)| {
            let flow = chassis.ofport(device).map(|port| format!("in_port={port},{packet}"));
            let said = flow
                .and_then(|flow| chassis.appctl(&["ofproto/trace", bridge, &flow, "--ct-next", "trk,new"]));
            let said = said.unwrap_or_else(|error| format!("{error:#}\n"));
            format!(
                "# {} to {}, where it enters {bridge} of {} by {device}\n{said}\n",
                missed.from,
                missed.to,
                chassis.label()
            )
        };
        entries.iter().map(ask).collect()
    }

    /// The places where a node's packets enter a switch: chassis, bridge, device.
    fn entries(&self, from: &str) -> Result<Vec<(&Chassis, &'static str, String)>> {
        let parts = self.parts();
        let on = parts.iter().find_map(|part| match part {
            Part::Vm(name, chassis) if name == from => Some(chassis),
            _ => None,
        });
        if let Some(chassis) = on {
            return Ok(vec![(self.chassis(chassis)?, "br-int", format!("tap-{from}"))]);
        }
        let bridge_of = |node: &str| {
            parts
                .iter()
                .filter_map(move |part| match part {
                    Part::Port(end, bridge) if end.node == node => Some((end.device.clone(), bridge.clone())),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let near = bridge_of(from);
        let mut found = Vec::new();
        for chassis in self.all_chassis() {
            for (device, bridge) in bridge_of(chassis.label()) {
                if device != "eth0" && near.iter().any(|(_, theirs)| *theirs == bridge) {
                    found.push((chassis, "br-ex", device));
                }
            }
        }
        if found.is_empty() {
            bail!("no switch of OVN is next to {from}");
        }
        Ok(found)
    }
}

/// A packet in OpenFlow's syntax.
#[derive(Debug, PartialEq, Eq)]
struct Packet(String);

impl std::fmt::Display for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Packet {
    /// The first packet that a node sends to reach an address.
    fn of(node: &Node, to: &str) -> Result<Packet> {
        let (to, port) = match to.parse::<std::net::SocketAddr>() {
            Ok(address) => (address.ip(), Some(address.port())),
            Err(_) => (to.parse().with_context(|| format!("{to} is no address"))?, None),
        };
        let route = Route::read(&node.run(&format!("ip route get {to}"))?, to)?;
        let mac = node.mac(&route.device)?.to_string();
        let neighbour = node.run(&format!("ip neighbour show {} dev {}", route.next_hop, route.device))?;
        Ok(Packet::made(&route, &mac, link_address(&neighbour), to, port))
    }

    fn made(route: &Route, mac: &str, neighbour: Option<&str>, to: IpAddr, port: Option<u16>) -> Packet {
        let (source, next_hop) = (route.source, route.next_hop);
        Packet(match (neighbour, to, port) {
            (None, IpAddr::V4(_), _) => format!(
                "arp,dl_src={mac},dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_sha={mac},arp_spa={source},arp_tpa={next_hop}"
            ),
            (None, IpAddr::V6(_), _) => format!(
                "icmp6,dl_src={mac},dl_dst=33:33:ff:00:00:00,ipv6_src={source},ipv6_dst={next_hop},icmp_type=135,icmp_code=0,\
                 nd_target={next_hop},nd_sll={mac},nw_ttl=255"
            ),
            (Some(there), IpAddr::V4(_), None) => {
                format!(
                    "icmp,dl_src={mac},dl_dst={there},nw_src={source},nw_dst={to},icmp_type=8,icmp_code=0,nw_ttl=64"
                )
            }
            (Some(there), IpAddr::V4(_), Some(port)) => format!(
                "tcp,dl_src={mac},dl_dst={there},nw_src={source},nw_dst={to},tcp_src=40000,tcp_dst={port},tcp_flags=syn,nw_ttl=64"
            ),
            (Some(there), IpAddr::V6(_), _) => format!(
                "icmp6,dl_src={mac},dl_dst={there},ipv6_src={source},ipv6_dst={to},icmp_type=128,icmp_code=0,nw_ttl=64"
            ),
        })
    }
}

/// The route of a node to an address.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    device: String,
    next_hop: IpAddr,
    source: IpAddr,
}

impl Route {
    /// Reads `10.0.1.13 via 10.0.0.1 dev eth0 src 10.0.0.11 uid 0`.
    fn read(said: &str, to: IpAddr) -> Result<Route> {
        let words: Vec<&str> = said.split_ascii_whitespace().collect();
        let after = |word: &str| {
            words.iter().position(|seen| *seen == word).and_then(|at| words.get(at + 1)).copied()
        };
        let address = |word: &str| after(word).and_then(|text| text.parse().ok());
        Ok(Route {
            device: after("dev").with_context(|| format!("no device in `{said}`"))?.to_owned(),
            next_hop: address("via").unwrap_or(to),
            source: address("src").with_context(|| format!("no source in `{said}`"))?,
        })
    }
}

/// The Ethernet address in a line of `ip neighbour`: `10.0.0.1 lladdr 02:00:00:00:01:01 REACHABLE`.
fn link_address(said: &str) -> Option<&str> {
    said.split_ascii_whitespace().skip_while(|word| *word != "lladdr").nth(1)
}

/// The essential lines of a trace: those that begin a verdict.
pub(super) fn verdicts(trace: &str) -> impl Iterator<Item = &str> {
    trace.lines().filter(|line| line.starts_with("# ") || line.starts_with("Datapath actions:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_read_with_and_without_a_next_hop() {
        let to: IpAddr = "10.0.1.13".parse().unwrap();
        let route =
            Route::read("10.0.1.13 via 10.0.0.1 dev eth0 src 10.0.0.11 uid 0 \n    cache \n", to).unwrap();
        assert_eq!((route.device.as_str(), route.next_hop.to_string()), ("eth0", "10.0.0.1".to_owned()));
        let near = Route::read("10.0.1.13 dev eth1 src 10.0.1.1 uid 0", to).unwrap();
        assert_eq!((near.next_hop, near.source.to_string()), (to, "10.0.1.1".to_owned()));
        for broken in ["", "unreachable 10.0.1.13", "10.0.1.13 dev eth0 src nowhere"] {
            assert!(Route::read(broken, to).is_err(), "{broken}");
        }
    }

    #[test]
    fn who_does_not_know_the_neighbour_asks_for_it() {
        let to: IpAddr = "10.0.1.13".parse().unwrap();
        let route = Route::read("10.0.1.13 via 10.0.0.1 dev eth0 src 10.0.0.11", to).unwrap();
        let packet =
            |neighbour, port| Packet::made(&route, "02:00:00:00:00:11", link_address(neighbour), to, port).0;
        assert!(packet("10.0.0.1 INCOMPLETE", None).contains("arp_tpa=10.0.0.1"));
        assert!(packet("", None).starts_with("arp,"));
        let known = "10.0.0.1 lladdr 02:00:00:00:01:01 STALE";
        assert!(packet(known, None).starts_with("icmp,dl_src=02:00:00:00:00:11,dl_dst=02:00:00:00:01:01"));
        assert!(packet(known, Some(80)).contains("tcp_dst=80"));
        let six: IpAddr = "2001:db8::9".parse().unwrap();
        let route = Route::read("2001:db8::9 via fe80::1 dev eth0 src 2001:db8::1 metric 1", six).unwrap();
        assert!(Packet::made(&route, "02:00:00:00:00:11", None, six, None).0.contains("nd_target=fe80::1"));
    }

    #[test]
    fn the_same_failure_is_noted_once_and_the_last_ones_count() {
        let failures = Failures::default();
        for to in ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.4"] {
            failures.note("vm1", to);
        }
        let to: Vec<String> = failures.last().into_iter().map(|missed| missed.to).collect();
        assert_eq!(to, ["10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    }
}
