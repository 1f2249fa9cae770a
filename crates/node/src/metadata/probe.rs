//! Whether the switch has the flows of a new metadata port.
//!
//! OVN answers ARP and neighbour solicitations for the ports of a network itself, as soon as the integration bridge has the flows
//! of the port that asks. So a resolved neighbour means that packets of VMs arrive here as well.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use rtnetlink::packet_core::ParseableParametrized;
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::netlink::{Request, Requests};
use crate::netns::inside::inside;
use crate::netns::link_index;

/// How long a probe takes at most.
const LIMIT: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const RETRY: Duration = Duration::from_millis(20);
/// Maximum number of addresses to ask for.
const ADDRESSES: usize = 4;
/// The discard service, which nobody has.
const PORT: u16 = 9;

/// Asks for the addresses until one of them answers; whether one did.
pub(super) fn probe(namespace: &File, dev: &str, addresses: &BTreeSet<IpAddr>) -> io::Result<bool> {
    inside(namespace, || {
        let mut requests = Requests::open()?;
        let index = link_index(&mut requests, dev)?;
        let until = Instant::now() + LIMIT;
        loop {
            for ip in addresses.iter().take(ADDRESSES) {
                // A network without a route to the address cannot ask for it; another address will do.
                let _ = knock(*ip, index);
            }
            std::thread::sleep(RETRY);
            let (resolved, pending) = neighbours(&mut requests, index, addresses)?;
            if resolved || Instant::now() >= until {
                return Ok(resolved);
            }
            // The kernel asks again after a second only, unless it has forgotten that it asked.
            requests.batch(pending)?;
        }
    })?
}

/// Sends a packet, for which the kernel has to find the neighbour.
fn knock(ip: IpAddr, index: u32) -> io::Result<()> {
    let (own, target) = match ip {
        IpAddr::V4(_) => (SocketAddr::from(([0; 4], 0)), SocketAddr::from((ip, PORT))),
        IpAddr::V6(ip) => (SocketAddr::from(([0u16; 8], 0)), SocketAddrV6::new(ip, PORT, 0, index).into()),
    };
    UdpSocket::bind(own)?.send_to(&[], target).map(drop)
}

/// Whether one of the addresses is resolved, and requests to forget those that are not.
fn neighbours(
    requests: &mut Requests,
    index: u32,
    addresses: &BTreeSet<IpAddr>,
) -> io::Result<(bool, Vec<Request>)> {
    let (mut resolved, mut pending) = (false, Vec::new());
    let mut each = |message: NeighbourMessage| {
        let ip = message.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::V4(*ip)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::V6(*ip)),
            _ => None,
        });
        if message.header.ifindex != index || !ip.is_some_and(|ip| addresses.contains(&ip)) {
            return;
        }
        match message.header.state {
            NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::None => {
                let mut forget = NeighbourMessage::default();
                forget.header.family = match ip {
                    Some(IpAddr::V6(_)) => AddressFamily::Inet6,
                    _ => AddressFamily::Inet,
                };
                forget.header.ifindex = index;
                let of =
                    |attribute: &&NeighbourAttribute| matches!(attribute, NeighbourAttribute::Destination(_));
                forget.attributes.extend(message.attributes.iter().find(of).cloned());
                pending.push(Request { message: RouteNetlinkMessage::DelNeighbour(forget), flags: 0 });
            }
            _ => resolved = true,
        }
    };
    let all = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    requests.dump(
        all,
        || {},
        |raw| {
            if let Ok(RouteNetlinkMessage::NewNeighbour(message)) =
                RouteNetlinkMessage::parse_with_param(raw.body, raw.kind)
            {
                each(message);
            }
        },
    )?;
    Ok((resolved, pending))
}
