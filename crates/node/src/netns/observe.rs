//! Reads namespaces, and the devices inside and outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net};
use ovn::MacAddr;
use ovsdb::Uuid;
use rtnetlink::packet_core::ParseableParametrized;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use smol_str::SmolStr;
use tracing::debug;

use super::ethtool::Ethtool;
use super::state::{HostDevice, InnerDevice, Observed, SWITCHES, SeenNamespace, Switch};
use super::{inside, names};
use crate::kernel::Dev;
use crate::netlink::Requests;

/// The directory of `ip netns`, so that operators find the namespaces by name.
const DIRECTORY: &str = "/run/netns";
/// The kernel parameters of the reader's namespace.
const SYS_NET: &str = "/proc/sys/net";

/// The namespaces of this host.
#[derive(Debug, Clone)]
pub struct Namespaces {
    dir: PathBuf,
}

impl Default for Namespaces {
    fn default() -> Self {
        Namespaces { dir: DIRECTORY.into() }
    }
}

impl Namespaces {
    /// Namespaces in another directory.
    pub fn in_directory(dir: impl Into<PathBuf>) -> Self {
        Namespaces { dir: dir.into() }
    }

    /// The file of a network's namespace.
    pub fn path(&self, network: Uuid) -> PathBuf {
        self.dir.join(names::namespace(network))
    }

    /// Opens a network's namespace; `None` if it has none.
    pub(crate) fn open(&self, network: Uuid) -> io::Result<Option<File>> {
        match inside::open(&self.path(network)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened,
        }
    }

    /// Reads all namespaces and devices. Blocks for as long as the kernel takes.
    pub fn observe(&self) -> io::Result<Observed> {
        let mut observed = Observed { devices: host_devices()?, ..Observed::default() };
        for network in self.networks()? {
            match self.open(network) {
                Ok(Some(file)) => match read(&file) {
                    Ok(namespace) => _ = observed.namespaces.insert(network, namespace),
                    // The file is no usable namespace; it is replaced like one that is none.
                    Err(error) => {
                        debug!(%network, %error, "cannot read a namespace");
                        observed.broken.insert(network);
                    }
                },
                Ok(None) if self.path(network).exists() => _ = observed.broken.insert(network),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(observed)
    }

    fn networks(&self) -> io::Result<Vec<Uuid>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        Ok(names.iter().filter_map(|name| names::network(name.to_str()?)).collect())
    }
}

/// Reads one namespace.
fn read(file: &File) -> io::Result<SeenNamespace> {
    let inode = file.metadata()?.ino();
    inside::inside(file, || {
        let mut requests = Requests::open()?;
        let mut ethtool = None;
        let mut namespace = SeenNamespace { inode, wrong: wrong_switches(), ..SeenNamespace::default() };
        let mut addresses = addresses(&mut requests)?;
        let mut on_link = on_link(&mut requests)?;
        for link in links(&mut requests)? {
            if link.name == "lo" {
                namespace.loopback = link.up;
                continue;
            }
            if ethtool.is_none() {
                ethtool = Some(Ethtool::open()?);
            }
            let offloads = ethtool.as_mut().map(|ethtool| ethtool.offloads_checksums(&link.name));
            let device = InnerDevice {
                index: link.index,
                peer: link.peer,
                mac: link.mac,
                mtu: link.mtu,
                up: link.up,
                addresses: addresses.remove(&link.index).unwrap_or_default().into_iter().collect(),
                on_link: on_link.remove(&link.index).unwrap_or_default(),
                offloads_checksums: offloads.transpose()?.unwrap_or(false),
            };
            namespace.devices.insert(link.name, device);
        }
        Ok(namespace)
    })?
}

/// The parameters of the calling thread's namespace that have another value than they should. A kernel without IPv6 lacks some.
fn wrong_switches() -> Vec<Switch> {
    SWITCHES.into_iter().filter(is_wrong).collect()
}

fn is_wrong((path, value): &Switch) -> bool {
    fs::read_to_string(Path::new(SYS_NET).join(path)).is_ok_and(|now| now.trim() != *value)
}

/// Sets the parameters of the calling thread's namespace. Each is compared in its turn, because one may change another: with
/// `ip_forward` the kernel turns `accept_redirects` over.
pub(super) fn set_switches() -> io::Result<()> {
    for switch in SWITCHES {
        if is_wrong(&switch) {
            let (path, value) = switch;
            fs::write(Path::new(SYS_NET).join(path), value)?;
        }
    }
    Ok(())
}

/// The devices of the calling thread's namespace that bear a name or an alias of ours.
fn host_devices() -> io::Result<BTreeMap<Dev, HostDevice>> {
    let mut requests = Requests::open()?;
    let named = |name: &str| (name.starts_with("tap") || name.starts_with("tm")) && name.ends_with('0');
    let ours = links(&mut requests)?.into_iter().filter(|link| link.marked.is_some() || named(&link.name));
    let device = |link: Link| {
        let device = HostDevice {
            index: link.index,
            peer: link.peer,
            mtu: link.mtu,
            up: link.up,
            marked: link.marked,
        };
        (link.name, device)
    };
    Ok(ours.map(device).collect())
}

/// A device as the kernel tells of it.
pub(super) struct Link {
    pub(super) name: Dev,
    pub(super) index: u32,
    /// The other end of a veth.
    peer: Option<u32>,
    mac: Option<MacAddr>,
    mtu: u32,
    up: bool,
    marked: Option<Uuid>,
}

pub(super) fn links(requests: &mut Requests) -> io::Result<Vec<Link>> {
    let messages = dump(requests, RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    Ok(messages.into_iter().filter_map(link).collect())
}

fn link(message: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let mut link = Link {
        name: SmolStr::default(),
        index: message.header.index,
        peer: None,
        mac: None,
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        marked: None,
    };
    let mut is_veth = false;
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name.into(),
            LinkAttribute::Link(peer) => link.peer = Some(peer),
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Address(mac) => link.mac = <[u8; 6]>::try_from(mac).ok().map(MacAddr),
            LinkAttribute::IfAlias(alias) => link.marked = names::aliased(&alias),
            LinkAttribute::LinkInfo(info) => is_veth = info.contains(&LinkInfo::Kind(InfoKind::Veth)),
            _ => {}
        }
    }
    link.peer = link.peer.filter(|_| is_veth);
    Some(link)
}

fn addresses(requests: &mut Requests) -> io::Result<BTreeMap<u32, Vec<IpNet>>> {
    let messages = dump(requests, RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    let mut addresses = BTreeMap::<u32, Vec<IpNet>>::new();
    for message in messages {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        let ip = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(ip) => Some(*ip),
            _ => None,
        });
        let ip = ip.or_else(|| {
            message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            })
        });
        if let Some(net) = ip.and_then(|ip| IpNet::new(ip, message.header.prefix_len).ok()) {
            addresses.entry(message.header.index).or_default().push(net);
        }
    }
    Ok(addresses)
}

/// The subnets that a static route has on the link of each device.
fn on_link(requests: &mut Requests) -> io::Result<BTreeMap<u32, BTreeSet<Ipv4Net>>> {
    let mut request = RouteMessage::default();
    request.header.address_family = AddressFamily::Inet;
    let messages = dump(requests, RouteNetlinkMessage::GetRoute(request))?;
    let mut subnets = BTreeMap::<u32, BTreeSet<Ipv4Net>>::new();
    for message in messages {
        let RouteNetlinkMessage::NewRoute(message) = message else { continue };
        if message.header.protocol != RouteProtocol::Static {
            continue;
        }
        let (mut device, mut subnet) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Oif(index) => device = Some(*index),
                RouteAttribute::Destination(RouteAddress::Inet(ip)) => {
                    subnet = Ipv4Net::new(*ip, message.header.destination_prefix_length).ok();
                }
                _ => {}
            }
        }
        if let (Some(device), Some(subnet)) = (device, subnet) {
            subnets.entry(device).or_default().insert(subnet);
        }
    }
    Ok(subnets)
}

fn dump(requests: &mut Requests, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
    let taken = std::cell::RefCell::new(Vec::new());
    requests.dump(
        request,
        || taken.borrow_mut().clear(),
        // Messages that do not decode are of a kind that this module does not use.
        |raw| taken.borrow_mut().extend(RouteNetlinkMessage::parse_with_param(raw.body, raw.kind)),
    )?;
    Ok(taken.into_inner())
}

/// The name of a device of the namespace that the socket is in.
pub(crate) fn link_name(requests: &mut Requests, index: u32) -> io::Result<Dev> {
    let found = links(requests)?.into_iter().find(|link| link.index == index);
    found
        .map(|link| link.name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no device has index {index}")))
}

/// The index of a device of the namespace that the socket is in.
pub(crate) fn link_index(requests: &mut Requests, dev: &str) -> io::Result<u32> {
    let found = links(requests)?.into_iter().find(|link| link.name == dev);
    found
        .map(|link| link.index)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no device {dev}")))
}
