//! Receives the kernel's notifications about addresses and rules, with their times of arrival, and measures route lookups.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lab::node::chassis::Chassis;
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use rtnetlink::packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// The netlink group for IPv4 addresses, by its number in `rtnetlink.h`.
pub(super) const ADDRESSES: u32 = 5;
/// The netlink group for IPv4 rules.
pub(super) const RULES: u32 = 8;
/// An address that no rule and no route is for.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

/// The content of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Address(Ipv4Addr),
    Gone(Ipv4Addr),
    Rule(Ipv4Addr),
    RuleGone(Ipv4Addr),
}

/// A notification and its time of arrival.
pub(super) struct Event {
    pub(super) at: Instant,
    pub(super) what: What,
}

/// Listens in a namespace until the process ends. It parses the notifications only when a caller requests one. In a guest with one CPU,
/// parsing them at once would take time from the measured agent.
pub(super) struct Ear {
    heard: Receiver<(Instant, Vec<u8>)>,
    understood: RefCell<VecDeque<Event>>,
}

impl Ear {
    pub(super) fn open(hv: &Chassis, groups: &[u32]) -> Result<Ear> {
        let socket = hv.enter(|| -> std::io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.set_rx_buf_sz(8u32 << 20)?;
            for group in groups {
                socket.add_membership(*group)?;
            }
            Ok(socket)
        })?;
        let socket = socket.context("cannot listen to the kernel")?;
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length) = socket.recv(&mut &mut buffer[..], 0) {
                if tell.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                    return;
                }
            }
        });
        Ok(Ear { heard, understood: RefCell::default() })
    }

    pub(super) fn next(&self, within: Duration) -> Result<Event> {
        let mut understood = self.understood.borrow_mut();
        loop {
            if let Some(event) = understood.pop_front() {
                return Ok(event);
            }
            let heard = self.heard.recv_timeout(within).map_err(|error| match error {
                RecvTimeoutError::Timeout => anyhow::anyhow!("the kernel tells nothing more"),
                RecvTimeoutError::Disconnected => {
                    anyhow::anyhow!("the kernel told more than was read in time")
                }
            })?;
            understand(heard, &mut understood);
        }
    }

    /// The time of the next notification with this content.
    pub(super) fn until(&self, within: Duration, want: What) -> Result<Instant> {
        let begin = Instant::now();
        while begin.elapsed() < within {
            let event = self.next(within)?;
            if event.what == want {
                return Ok(event.at);
            }
        }
        bail!("{want:?} did not happen")
    }

    /// The time between two notifications. The kernel notifies its listeners one after the other, so a program that receives the first one
    /// before us may already have caused the second. So they may arrive here in either order.
    pub(super) fn between(&self, within: Duration, first: What, second: What) -> Result<Duration> {
        let (mut from, mut to) = (None, None);
        loop {
            if let (Some(from), Some(to)) = (from, to) {
                return Ok(Instant::saturating_duration_since(&to, from));
            }
            let event =
                self.next(within).with_context(|| format!("{first:?} and {second:?} did not both happen"))?;
            match event.what {
                what if what == first => from = Some(event.at),
                what if what == second => to = Some(event.at),
                _ => {}
            }
        }
    }
}

fn understand((at, bytes): (Instant, Vec<u8>), events: &mut VecDeque<Event>) {
    let mut rest = &bytes[..];
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) {
        let taken = (message.header.length as usize).next_multiple_of(4);
        events.extend(what(message).map(|what| Event { at, what }));
        let Some(left) = rest.get(taken..) else { break };
        rest = left;
    }
}

fn what(message: NetlinkMessage<RouteNetlinkMessage>) -> Option<What> {
    let NetlinkPayload::InnerMessage(message) = message.payload else { return None };
    let rule = |message: RuleMessage| {
        message.attributes.into_iter().find_map(|attribute| match attribute {
            RuleAttribute::Destination(IpAddr::V4(ip)) => Some(ip),
            _ => None,
        })
    };
    let local = |attributes: Vec<AddressAttribute>| {
        attributes.into_iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(IpAddr::V4(ip)) => Some(ip),
            _ => None,
        })
    };
    match message {
        RouteNetlinkMessage::NewAddress(message) => local(message.attributes).map(What::Address),
        RouteNetlinkMessage::DelAddress(message) => local(message.attributes).map(What::Gone),
        RouteNetlinkMessage::NewRule(message) => rule(message).map(What::Rule),
        RouteNetlinkMessage::DelRule(message) => rule(message).map(What::RuleGone),
        _ => None,
    }
}

/// The kernel's average time to look up the route to a foreign address.
pub(super) fn lookup(hv: &Chassis, times: u32) -> Result<Duration> {
    let socket = hv.enter(|| -> std::io::Result<Socket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(socket)
    })?;
    let socket = socket.context("cannot ask the kernel")?;
    let mut route = RouteMessage::default();
    route.header.address_family = AddressFamily::Inet;
    route.header.destination_prefix_length = 32;
    route.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(ELSEWHERE)));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetRoute(route)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let mut buffer = vec![0; 16 << 10];
    let begin = Instant::now();
    for _ in 0..times {
        socket.send(&bytes, 0).context("cannot ask for a route")?;
        // The reply is a route or an error. Both take the lookup through the rules.
        socket.recv(&mut &mut buffer[..], 0).context("the kernel does not answer")?;
    }
    Ok(begin.elapsed() / times.max(1))
}
