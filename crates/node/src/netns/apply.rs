//! Changes namespaces and their devices.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net};
use ovsdb::Uuid;
use reconcile::Class;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::ethtool::Ethtool;
use super::observe::{Namespaces, links, set_switches};
use super::state::{Op, SERVICE, VethPair};
use super::{inside, names};
use crate::netlink::{Refused, Request, Requests};

const ESRCH: i32 = 3;
const EEXIST: i32 = 17;
const ENODEV: i32 = 19;
const EADDRNOTAVAIL: i32 = 99;

/// The error of a change to a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// A file or a mount of the namespace.
    #[error("change {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The namespace is not there.
    #[error("find the namespace {0}")]
    NoNamespace(String),
    /// A device is not there.
    #[error("find device {0}")]
    NoDevice(String),
    /// The kernel refused the change.
    #[error("ask the kernel")]
    Refused(#[source] Refused),
    /// The kernel did not answer, or the namespace cannot be entered.
    #[error("ask the kernel")]
    Socket(#[from] io::Error),
}

impl NetnsError {
    /// The remedy.
    pub fn class(&self) -> Class {
        let of = |error: &io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Class::Refused,
            _ => Class::Transient,
        };
        match self {
            NetnsError::File { source, .. } | NetnsError::Socket(source) => of(source),
            NetnsError::NoNamespace(_) | NetnsError::NoDevice(_) => Class::Conflict,
            NetnsError::Refused(refused) => of(&io::Error::from_raw_os_error(refused.errno)),
        }
    }
}

impl Namespaces {
    /// Runs one op of a network. Blocks for as long as the kernel takes.
    pub fn apply(&self, network: Uuid, op: &Op) -> Result<(), NetnsError> {
        let path = self.path(network);
        let file =
            |result: io::Result<()>| result.map_err(|source| NetnsError::File { path: path.clone(), source });
        match op {
            Op::RemoveFile | Op::DeleteNamespace => file(inside::remove(&path)),
            Op::CreateNamespace => file(inside::create(&path, prepare)),
            Op::Correct => self.within(network, |_| prepare()),
            Op::CreatePair { pair, mac, mtu } => {
                let namespace = self.namespace(network)?;
                let message = veth(pair, mac.octets(), *mtu, &namespace);
                let created = Request { message, flags: NLM_F_CREATE | NLM_F_EXCL };
                change(&mut Requests::open()?, created, &[])?;
                // A new pair is up, so both directions work as soon as the switch has the host end.
                let host = |requests: &mut Requests| set_up(requests, &pair.host);
                host(&mut Requests::open()?)?;
                self.in_namespace(network, |requests| set_up(requests, &pair.inner))
            }
            Op::Mark { host } => {
                let mut requests = Requests::open()?;
                let mut message = link_at(index(&mut requests, host)?);
                message.attributes.push(LinkAttribute::IfAlias(names::alias(network)));
                set(&mut requests, message)
            }
            Op::SetMac { inner, mac } => self.in_namespace(network, |requests| {
                let mut message = link_at(index(requests, inner)?);
                message.attributes.push(LinkAttribute::Address(mac.octets().to_vec()));
                set(requests, message)
            }),
            Op::SetMtu { pair, mtu } => {
                let set_mtu = |requests: &mut Requests, dev: &str| {
                    let mut message = link_at(index(requests, dev)?);
                    message.attributes.push(LinkAttribute::Mtu(*mtu));
                    set(requests, message)
                };
                set_mtu(&mut Requests::open()?, &pair.host)?;
                self.in_namespace(network, |requests| set_mtu(requests, &pair.inner))
            }
            Op::FillChecksums { inner } => self.within(network, |_| Ethtool::open()?.fill_checksums(inner)),
            Op::SetUp { pair } => {
                set_up(&mut Requests::open()?, &pair.host)?;
                self.in_namespace(network, |requests| set_up(requests, &pair.inner))
            }
            Op::AddAddress { inner, address } => self.in_namespace(network, |requests| {
                let message = RouteNetlinkMessage::NewAddress(address_at(index(requests, inner)?, *address));
                change(requests, Request { message, flags: NLM_F_CREATE | NLM_F_EXCL }, &[EEXIST])
            }),
            Op::DeleteAddress { inner, address } => self.in_namespace(network, |requests| {
                let message = RouteNetlinkMessage::DelAddress(address_at(index(requests, inner)?, *address));
                change(requests, Request { message, flags: 0 }, &[EADDRNOTAVAIL, ENODEV])
            }),
            Op::AddRoute { inner, subnet } => self.in_namespace(network, |requests| {
                let message = RouteNetlinkMessage::NewRoute(on_link(index(requests, inner)?, *subnet));
                change(requests, Request { message, flags: NLM_F_CREATE | NLM_F_EXCL }, &[EEXIST])
            }),
            Op::DeleteRoute { inner, subnet } => self.in_namespace(network, |requests| {
                let message = RouteNetlinkMessage::DelRoute(on_link(index(requests, inner)?, *subnet));
                change(requests, Request { message, flags: 0 }, &[ESRCH, ENODEV])
            }),
            Op::DeleteDevice { host } => delete(&mut Requests::open()?, host),
            Op::DeleteInner { inner } => self.in_namespace(network, |requests| delete(requests, inner)),
        }
    }

    fn namespace(&self, network: Uuid) -> Result<File, NetnsError> {
        self.open(network)?.ok_or_else(|| NetnsError::NoNamespace(names::namespace(network)))
    }

    fn within(
        &self,
        network: Uuid,
        work: impl FnOnce(&File) -> io::Result<()> + Send,
    ) -> Result<(), NetnsError> {
        let namespace = self.namespace(network)?;
        Ok(inside::inside(&namespace, || work(&namespace))??)
    }

    fn in_namespace(
        &self,
        network: Uuid,
        work: impl FnOnce(&mut Requests) -> Result<(), NetnsError> + Send,
    ) -> Result<(), NetnsError> {
        let namespace = self.namespace(network)?;
        inside::inside(&namespace, || work(&mut Requests::open()?))?
    }
}

/// Sets the parameters of the calling thread's namespace and brings `lo` up.
fn prepare() -> io::Result<()> {
    set_switches()?;
    set_up(&mut Requests::open()?, "lo").map_err(|error| match error {
        NetnsError::Socket(error) => error,
        other => io::Error::other(crate::cause::chain(&other)),
    })
}

/// The pair, with the inner end created in the namespace right away: it never is on the host.
fn veth(pair: &VethPair, mac: [u8; 6], mtu: Option<u32>, namespace: &File) -> RouteNetlinkMessage {
    let mut peer = LinkMessage::default();
    peer.attributes.push(LinkAttribute::IfName(pair.inner.to_string()));
    peer.attributes.push(LinkAttribute::Address(mac.to_vec()));
    peer.attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
    let mut host = LinkMessage::default();
    host.attributes.push(LinkAttribute::IfName(pair.host.to_string()));
    for end in [&mut peer, &mut host] {
        end.attributes.extend(mtu.map(LinkAttribute::Mtu));
    }
    let data = InfoData::Veth(InfoVeth::Peer(peer));
    let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(data)];
    host.attributes.push(LinkAttribute::LinkInfo(info));
    RouteNetlinkMessage::NewLink(host)
}

fn link_at(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn set_up(requests: &mut Requests, dev: &str) -> Result<(), NetnsError> {
    let mut message = link_at(index(requests, dev)?);
    message.header.flags |= LinkFlags::Up;
    message.header.change_mask |= LinkFlags::Up;
    set(requests, message)
}

fn set(requests: &mut Requests, message: LinkMessage) -> Result<(), NetnsError> {
    change(requests, Request { message: RouteNetlinkMessage::SetLink(message), flags: 0 }, &[])
}

fn delete(requests: &mut Requests, dev: &str) -> Result<(), NetnsError> {
    let index = match index(requests, dev) {
        Err(NetnsError::NoDevice(_)) => return Ok(()),
        found => found?,
    };
    let message = RouteNetlinkMessage::DelLink(link_at(index));
    change(requests, Request { message, flags: 0 }, &[ENODEV])
}

fn index(requests: &mut Requests, dev: &str) -> Result<u32, NetnsError> {
    let found = links(requests)?.into_iter().find(|link| link.name == dev);
    found.map(|link| link.index).ok_or_else(|| NetnsError::NoDevice(dev.to_owned()))
}

fn address_at(index: u32, address: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = address.prefix_len();
    let ip = address.addr();
    match ip {
        IpAddr::V4(_) => message.header.family = AddressFamily::Inet,
        IpAddr::V6(_) => {
            message.header.family = AddressFamily::Inet6;
            // A localport's packets never leave the host, and detecting duplicates takes more than a second.
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
    }
    message.attributes.push(AddressAttribute::Local(ip));
    message.attributes.push(AddressAttribute::Address(ip));
    message
}

/// A route of ours: to a subnet on the link of a device, from the service's address.
fn on_link(index: u32, subnet: Ipv4Net) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = subnet.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Link;
    message.header.kind = RouteType::Unicast;
    message.attributes.push(RouteAttribute::Destination(subnet.network().into()));
    message.attributes.push(RouteAttribute::PrefSource(SERVICE.into()));
    message.attributes.push(RouteAttribute::Oif(index));
    message
}

/// Sends one request; the errors in `fine` say that there is nothing to do.
fn change(requests: &mut Requests, request: Request, fine: &[i32]) -> Result<(), NetnsError> {
    for result in requests.batch(vec![request])? {
        match result {
            Err(refused) if !fine.contains(&refused.errno) => return Err(NetnsError::Refused(refused)),
            _ => {}
        }
    }
    Ok(())
}
