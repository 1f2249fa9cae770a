//! Changes the kernel: a batch of ops at a time, with what became of each.

use std::fs;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use reconcile::Class;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Parseable};
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVlan, InfoVrf, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::decode::Memory;
use super::observe::Kernel;
use super::observed::{SeenRoute, SeenRule};
use super::op::Op;
use super::state::{Address, Family, Hop, Link, Select, Sysctl};
use crate::netlink::{Refused, Request};

/// The directory of the kernel's sysctls.
const PROC_SYS: &str = "/proc/sys";

/// The errors by which the kernel says that a thing is already there, or already gone.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const ESRCH: i32 = 3;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const ENODEV: i32 = 19;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const EADDRNOTAVAIL: i32 = 99;
}

/// The reason why a change failed.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// The device it is about is not there.
    #[error("find device {0}")]
    NoDevice(String),
    /// The kernel refused it.
    #[error("ask the kernel")]
    Refused(#[source] Refused),
    /// The kernel did not answer.
    #[error("ask the kernel")]
    Socket(#[source] io::Error),
    /// A file could not be written.
    #[error("write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The kernel makes no VLAN devices. It is remembered, so that others can make what is to stand in for them.
    #[error("make a VLAN device: the kernel has none (8021q)")]
    NoVlans,
    /// The kernel's message about an object cannot be converted to a request.
    #[error("encode what the kernel has told of it")]
    Unreadable,
}

impl OpError {
    /// The remedy.
    pub fn class(&self) -> Class {
        use errno::*;
        match self {
            OpError::NoDevice(_) | OpError::Socket(_) => Class::Transient,
            OpError::Refused(Refused { errno: EPERM | EACCES | EINVAL | EOPNOTSUPP, .. }) => Class::Refused,
            OpError::Refused(_) => Class::Transient,
            OpError::NoVlans => Class::Refused,
            OpError::File { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Class::Refused,
                _ => Class::Transient,
            },
            OpError::Unreadable => Class::Bug,
        }
    }
}

impl Kernel {
    /// Carries out ops in their order. One that fails does not stop the others.
    pub fn apply(&self, ops: &[&Op]) -> Vec<Result<(), OpError>> {
        let mut inner = self.lock();
        let mut results: Vec<Option<Result<(), OpError>>> = Vec::with_capacity(ops.len());
        let (mut requests, mut places) = (Vec::new(), Vec::new());
        for op in ops {
            results.push(match op {
                Op::NameTable { table, bridge } => {
                    inner.names_due = true;
                    Some(name_table(&self.rt_tables, *table, bridge))
                }
                Op::SetSysctl(sysctl) => Some(turn_on(sysctl)),
                _ => match request(op, &inner.memory) {
                    Ok(request) => {
                        places.push(results.len());
                        requests.push(request);
                        None
                    }
                    Err(error) => Some(Err(error)),
                },
            });
        }
        match inner.requests.batch(requests) {
            Ok(answers) => {
                for (place, answer) in places.iter().zip(answers) {
                    let tolerated = tolerated(ops[*place]);
                    results[*place] = Some(match answer {
                        Err(refused) if is_about_vlans(ops[*place], &refused) => {
                            Arc::make_mut(&mut inner.memory.seen).lacks_vlans = true;
                            self.changed.send_modify(|n| *n += 1);
                            Err(OpError::NoVlans)
                        }
                        Err(refused) if !tolerated.contains(&refused.errno) => Err(OpError::Refused(refused)),
                        _ => {
                            inner.memory.made(ops[*place]);
                            Ok(())
                        }
                    });
                }
            }
            Err(error) => {
                for place in places {
                    let again = io::Error::new(error.kind(), error.to_string());
                    results[place] = Some(Err(OpError::Socket(again)));
                }
            }
        }
        let lost = || Err(OpError::Socket(io::Error::other("the kernel did not answer")));
        results.into_iter().map(|result| result.unwrap_or_else(lost)).collect()
    }
}

/// Whether the kernel does not know what a VLAN device is.
fn is_about_vlans(op: &Op, refused: &Refused) -> bool {
    matches!(op, Op::AddLink { link: Link::Vlan { .. }, .. }) && refused.errno == errno::EOPNOTSUPP
}

/// The errors that mean that there is nothing to do.
fn tolerated(op: &Op) -> &'static [i32] {
    use errno::*;
    match op {
        Op::AddLink { .. } | Op::AddAddress(_) | Op::AddRule { .. } | Op::AddProxy { .. } => &[EEXIST],
        Op::DelAddress(_) => &[EADDRNOTAVAIL, ENODEV],
        Op::DelRule(_) | Op::DelNeighbour { .. } | Op::DelProxy { .. } => &[ENOENT, ENODEV],
        Op::DelRoute(_) => &[ESRCH, ENODEV],
        Op::DelLink { .. } => &[ENODEV],
        _ => &[],
    }
}

/// The message for an op that is one.
fn request(op: &Op, memory: &Memory) -> Result<Request, OpError> {
    use RouteNetlinkMessage::*;
    let index = |dev: &str| memory.index(dev).ok_or_else(|| OpError::NoDevice(dev.to_owned()));
    let (message, flags) = match op {
        Op::AddLink { dev, link: Link::Bridge | Link::Port { .. } } | Op::SetUp { dev } => {
            (SetLink(up(link_at(index(dev)?))), 0)
        }
        Op::AddLink { dev, link } => (NewLink(new_link(dev, link, index)?), NLM_F_CREATE | NLM_F_EXCL),
        Op::SetMaster { dev, master } => {
            let mut message = link_at(index(dev)?);
            message.attributes.push(LinkAttribute::Controller(index(master)?));
            (SetLink(message), 0)
        }
        Op::DelLink { dev } => (DelLink(link_at(index(dev)?)), 0),
        Op::AddAddress(address) => {
            (NewAddress(address_message(address, index(&address.dev)?)), NLM_F_CREATE | NLM_F_EXCL)
        }
        Op::DelAddress(address) => (DelAddress(address_message(address, index(&address.dev)?)), 0),
        Op::SetRoute { table, dst, hop } => {
            (NewRoute(route_message(*table, *dst, hop, index(&hop.dev)?)), NLM_F_CREATE | NLM_F_REPLACE)
        }
        Op::DelRoute(route) => (DelRoute(told_route(route, index)?), 0),
        Op::AddRule { select, table, priority } => {
            (NewRule(rule_message(*select, *table, *priority)), NLM_F_CREATE | NLM_F_EXCL)
        }
        Op::DelRule(rule) => (DelRule(told_rule(rule)?), 0),
        Op::SetNeighbour { dev, ip, mac } => {
            let mut message = neighbour(*ip, index(dev)?);
            message.header.state = NeighbourState::Permanent;
            message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.octets().to_vec()));
            (NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
        }
        Op::DelNeighbour { dev, ip } => (DelNeighbour(neighbour(*ip, index(dev)?)), 0),
        Op::AddProxy { dev, ip } => (NewNeighbour(proxy((*ip).into(), index(dev)?)), NLM_F_CREATE),
        Op::DelProxy { dev, ip } => (DelNeighbour(proxy((*ip).into(), index(dev)?)), 0),
        Op::NameTable { .. } | Op::SetSysctl(_) => return Err(OpError::Unreadable),
    };
    Ok(Request { message, flags })
}

fn link_at(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn up(mut message: LinkMessage) -> LinkMessage {
    message.header.flags |= LinkFlags::Up;
    message.header.change_mask |= LinkFlags::Up;
    message
}

fn new_link(
    dev: &str,
    link: &Link,
    index: impl Fn(&str) -> Result<u32, OpError>,
) -> Result<LinkMessage, OpError> {
    let mut message = up(LinkMessage::default());
    message.attributes.push(LinkAttribute::IfName(dev.to_owned()));
    let info = match link {
        Link::Vrf { table } => {
            let data = InfoData::Vrf(vec![InfoVrf::TableId(*table)]);
            vec![LinkInfo::Kind(InfoKind::Vrf), LinkInfo::Data(data)]
        }
        Link::Dummy { master } => {
            if let Some(master) = master {
                message.attributes.push(LinkAttribute::Controller(index(master)?));
            }
            vec![LinkInfo::Kind(InfoKind::Dummy)]
        }
        Link::Vlan { parent, tag } => {
            message.attributes.push(LinkAttribute::Link(index(parent)?));
            let data = InfoData::Vlan(vec![InfoVlan::Id(*tag)]);
            vec![LinkInfo::Kind(InfoKind::Vlan), LinkInfo::Data(data)]
        }
        Link::Bridge | Link::Port { .. } => Vec::new(),
    };
    message.attributes.push(LinkAttribute::LinkInfo(info));
    Ok(message)
}

pub(super) fn address_message(address: &Address, index: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    let ip = address.net.addr();
    message.header.family = address_family(Family::of(address.net));
    message.header.prefix_len = address.net.prefix_len();
    message.header.index = index;
    if ip.is_ipv6() {
        // Nobody else has these addresses on this link, and an address is of use at once.
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes.extend([AddressAttribute::Local(ip), AddressAttribute::Address(ip)]);
    message
}

pub(super) fn route_message(table: u32, dst: IpNet, hop: &Hop, index: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = address_family(Family::of(dst));
    header.destination_prefix_length = dst.prefix_len();
    header.table = u8::try_from(table).unwrap_or_default();
    header.protocol = RouteProtocol::Boot;
    header.kind = RouteType::Unicast;
    header.scope = match (Family::of(dst), hop.via) {
        (Family::V4, None) => RouteScope::Link,
        _ => RouteScope::Universe,
    };
    message.attributes.push(RouteAttribute::Table(table));
    if dst.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(dst.network().into()));
    }
    message.attributes.push(RouteAttribute::Oif(index));
    message.attributes.extend(hop.via.map(|via| RouteAttribute::Gateway(via.into())));
    message
}

fn told_route(
    route: &SeenRoute,
    index: impl Fn(&str) -> Result<u32, OpError>,
) -> Result<RouteMessage, OpError> {
    match &route.hop {
        _ if !route.wire.0.is_empty() => RouteMessage::parse(&route.wire.0).map_err(|_| OpError::Unreadable),
        Some(hop) => Ok(route_message(route.table, route.dst, hop, index(&hop.dev)?)),
        None => Err(OpError::Unreadable),
    }
}

pub(super) fn rule_message(select: Select, table: u32, priority: u32) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = address_family(select.family());
    message.header.action = RuleAction::ToTable;
    message.header.table = u8::try_from(table).unwrap_or_default();
    message.attributes.extend([RuleAttribute::Priority(priority), RuleAttribute::Table(table)]);
    match select {
        Select::To(net) => {
            message.header.dst_len = net.prefix_len();
            message.attributes.push(RuleAttribute::Destination(net.addr()));
        }
        Select::All(_) => message.attributes.push(RuleAttribute::SuppressPrefixLen(0)),
    }
    message
}

fn told_rule(rule: &SeenRule) -> Result<RuleMessage, OpError> {
    match rule.select {
        _ if !rule.wire.0.is_empty() => RuleMessage::parse(&rule.wire.0).map_err(|_| OpError::Unreadable),
        Some(select) => Ok(rule_message(select, rule.table, rule.priority)),
        None => Err(OpError::Unreadable),
    }
}

fn neighbour(ip: IpAddr, index: u32) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = address_family(Family::of_ip(ip));
    message.header.ifindex = index;
    let destination = match ip {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    };
    message.attributes.push(NeighbourAttribute::Destination(destination));
    message
}

fn proxy(ip: IpAddr, index: u32) -> NeighbourMessage {
    let mut message = neighbour(ip, index);
    message.header.flags = NeighbourFlags::Proxy;
    message
}

fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

fn turn_on(sysctl: &Sysctl) -> Result<(), OpError> {
    let path = Path::new(PROC_SYS).join(sysctl.path());
    fs::write(&path, "1\n").map_err(|source| OpError::File { path, source })
}

/// Adds a line to `rt_tables`. The file may be a mount of its own, so it is added to and not replaced.
fn name_table(path: &Path, table: u32, bridge: &str) -> Result<(), OpError> {
    let add = || -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = fs::OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let start = if bytes.is_empty() || bytes.ends_with(b"\n") { "" } else { "\n" };
        file.write_all(format!("{start}{table} {bridge}\n").as_bytes())
    };
    add().map_err(|source| OpError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_to_whatever_the_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("iproute2/rt_tables");
        name_table(&path, 201, "br-ex").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "201 br-ex\n");
        fs::write(&path, "254 main").unwrap();
        name_table(&path, 202, "br-x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "254 main\n202 br-x\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = name_table(dir.path(), 201, "br-ex").unwrap_err();
        assert_eq!(error.to_string(), format!("write {}", dir.path().display()));
    }
}
