//! Devices, addresses and routes of a namespace, by netlink.
//!
//! Only as much as building a topology needs. A test that configures rules, tables or neighbours by hand runs `ip` with
//! [`Netns::run`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use futures_util::TryStreamExt;
use ipnet::IpNet;
use ovn::MacAddr;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::{LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use crate::netns::Netns;

/// The impairment of a device's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Harm {
    latency: Option<Duration>,
    loss: Option<f64>,
}

/// The arguments of netem.
impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(late) = self.latency {
            write!(f, "delay {}us ", late.as_micros())?;
        }
        if let Some(percent) = self.loss {
            write!(f, "loss {percent}%")?;
        }
        Ok(())
    }
}

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    netns: &'a Netns,
    device: &'a str,
    mac: Option<MacAddr>,
}

impl<'a> End<'a> {
    /// A device of this name in this namespace.
    pub fn new(netns: &'a Netns, device: &'a str) -> End<'a> {
        End { netns, device, mac: None }
    }

    /// Sets the Ethernet address.
    #[must_use]
    pub fn mac(self, mac: MacAddr) -> End<'a> {
        End { mac: Some(mac), ..self }
    }

    fn describe<T>(&self, link: LinkMessageBuilder<T>, mtu: u32) -> LinkMessageBuilder<T> {
        let link = link.name(self.device).mtu(mtu);
        match self.mac {
            Some(mac) => link.address(mac.octets().to_vec()),
            None => link,
        }
    }
}

/// Creates a cable between two namespaces (a veth pair) with both ends up; `into` is a bridge at the first end.
pub fn cable(a: End<'_>, b: End<'_>, mtu: u32, into: Option<&str>) -> Result<()> {
    let peer = b.describe(LinkMessageBuilder::<LinkUnspec>::new(), mtu).setns_by_fd(b.netns.file.as_raw_fd());
    let mut link = a
        .describe(LinkVeth::new(a.device, b.device), mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build())));
    if let Some(bridge) = into {
        link = link.controller(a.netns.index(bridge)?);
    }
    let laid = a.netns.ask(a.netns.netlink.link().add(link.build()).execute());
    laid.with_context(|| {
        let (here, there) = (a.netns.name(), b.netns.name());
        format!("cannot lay a cable from {} in {here} to {} in {there}", a.device, b.device)
    })?;
    // The ends are set up after their creation: the kernel refuses to set an end up before it has connected it to the other.
    a.netns.up(a.device)?;
    b.netns.up(b.device)
}

impl Netns {
    fn ask<T>(&self, request: impl Future<Output = Result<T, rtnetlink::Error>>) -> Result<T> {
        self.runtime.block_on(request).map_err(|error| match error {
            // The library's own error text is a dump of the message.
            rtnetlink::Error::NetlinkError(message) => anyhow!(message.to_io()),
            other => anyhow!(other),
        })
    }

    fn device(&self, name: &str) -> Result<LinkMessage> {
        let found = self.netlink.link().get().match_name(name).execute();
        self.ask(async { std::pin::pin!(found).try_next().await })?
            .with_context(|| format!("{} has no device {name}", self.name()))
    }

    /// A device's number.
    pub fn index(&self, device: &str) -> Result<u32> {
        self.device(device)
            .map(|link| link.header.index)
            .with_context(|| format!("cannot find {device} in {}", self.name()))
    }

    /// A device's Ethernet address.
    pub fn mac(&self, device: &str) -> Result<MacAddr> {
        let link = self.device(device)?;
        let octets = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
            _ => None,
        });
        octets.map(MacAddr).with_context(|| format!("{device} in {} has no Ethernet address", self.name()))
    }

    /// Creates a bridge that forwards at once.
    pub fn bridge(&self, name: &str) -> Result<()> {
        let link = LinkBridge::new(name).forward_delay(0).mcast_snooping(false).up();
        self.ask(self.netlink.link().add(link.build()).execute())
            .with_context(|| format!("cannot make the bridge {name} in {}", self.name()))
    }

    fn set(
        &self,
        what: &str,
        device: &str,
        change: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<()> {
        let link = change(LinkUnspec::new_with_index(self.index(device)?));
        self.ask(self.netlink.link().set(link.build()).execute())
            .with_context(|| format!("cannot {what} {device} in {}", self.name()))
    }

    /// Sets a device up.
    pub fn up(&self, device: &str) -> Result<()> {
        self.set("take up", device, |link| link.up())
    }

    /// Sets a device down. The kernel removes the routes through it.
    pub fn down(&self, device: &str) -> Result<()> {
        self.set("take down", device, |link| link.down())
    }

    /// Adds a device to a bridge or VRF; with none, removes it.
    pub fn enslave(&self, device: &str, master: Option<&str>) -> Result<()> {
        let master = master.map(|name| self.index(name)).transpose()?;
        self.set("move", device, |link| match master {
            Some(index) => link.controller(index),
            None => link.nocontroller(),
        })
    }

    /// Adds an address to a device, usable at once. An existing address stays.
    pub fn address(&self, device: &str, address: IpNet) -> Result<()> {
        let mut request =
            self.netlink.address().add(self.index(device)?, address.addr(), address.prefix_len());
        if address.addr().is_ipv6() {
            // No other device has this address, so duplicate detection would only cost a second.
            let message = request.message_mut();
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.ask(request.replace().execute())
            .with_context(|| format!("cannot give {address} to {device} in {}", self.name()))
    }

    /// The addresses that a device has.
    pub fn addresses(&self, device: &str) -> Result<Vec<IpNet>> {
        let found = self.netlink.address().get().set_link_index_filter(self.index(device)?).execute();
        let messages: Vec<_> = self
            .ask(found.try_collect())
            .with_context(|| format!("cannot ask for the addresses of {device} in {}", self.name()))?;
        let address = |message: &AddressMessage| {
            let ip = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            });
            IpNet::new(ip?, message.header.prefix_len).ok()
        };
        Ok(messages.iter().filter_map(address).collect())
    }

    /// Routes a prefix by a neighbour.
    pub fn route(&self, to: IpNet, via: IpAddr) -> Result<()> {
        let request = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to.network(), to.prefix_len())
            .and_then(|route| route.gateway(via))
            .context("a route and its next hop are of one family")?;
        self.ask(self.netlink.route().add(request.build()).execute())
            .with_context(|| format!("cannot route {to} by {via} in {}", self.name()))
    }

    /// Adds a default route through a neighbour, for its IP version.
    pub fn default_route(&self, via: IpAddr) -> Result<()> {
        let any = match via {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        self.route(IpNet::new_assert(any, 0), via)
    }

    /// Delays the packets that a device sends, in addition to [`Netns::loss`].
    pub fn latency(&self, device: &str, late: Duration) -> Result<()> {
        self.impaired(device, |harm| harm.latency = Some(late))
    }

    /// Drops a percentage of the packets that a device sends, in addition to [`Netns::latency`].
    pub fn loss(&self, device: &str, percent: f64) -> Result<()> {
        ensure!((0.0..=100.0).contains(&percent), "{percent} % of all packets cannot be lost");
        self.impaired(device, |harm| harm.loss = Some(percent))
    }

    fn impaired(&self, device: &str, change: impl FnOnce(&mut Harm)) -> Result<()> {
        let words = {
            let mut harms = self.harms.lock().unwrap_or_else(PoisonError::into_inner);
            let harm = harms.entry(device.to_owned()).or_default();
            change(harm);
            harm.to_string()
        };
        self.impair(device, &words)
    }

    /// Impairs the packets that a device sends with netem's arguments: `delay 50ms 10ms`, `reorder 25%`.
    pub fn impair(&self, device: &str, how: &str) -> Result<()> {
        self.run(&format!("tc qdisc replace dev {device} root netem {how}")).map(|_| ())
    }

    /// Undoes [`Netns::latency`], [`Netns::loss`] and [`Netns::impair`].
    pub fn unimpair(&self, device: &str) -> Result<()> {
        self.harms.lock().unwrap_or_else(PoisonError::into_inner).remove(device);
        self.run(&format!("tc qdisc del dev {device} root")).map(|_| ())
    }

    /// Turns checksum offloading off: packets through the userspace datapath must carry checksums.
    pub fn no_offload(&self, device: &str) -> Result<()> {
        self.run(&format!("ethtool -K {device} tx off")).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_and_loss_stand_side_by_side() {
        let harm = |latency, loss| Harm { latency, loss }.to_string();
        assert_eq!(harm(Some(Duration::from_millis(50)), None).trim(), "delay 50000us");
        assert_eq!(harm(None, Some(0.5)), "loss 0.5%");
        assert_eq!(harm(Some(Duration::from_micros(10)), Some(5.0)), "delay 10us loss 5%");
    }
}
