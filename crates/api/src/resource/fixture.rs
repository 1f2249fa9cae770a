//! Small worlds for the tests of resources.

mod desk;
pub(crate) mod shelf;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use ovn::MacAddr;
use uuid::Uuid;

use crate::model::{AddressRange, Network, NetworkType, Segment, Standard, Subnet};
use crate::world::{Outside, Txn, World, after, before};

pub(crate) use desk::{Desk, fault};

/// A UUID that is readable in a failed assertion.
pub(crate) fn id(n: u128) -> Uuid {
    Uuid::from_u128(0x1000_0000_0000_4000_8000_0000_0000_0000 + n)
}

/// A transaction on an empty world, with default settings.
pub(crate) fn txn() -> Txn {
    txn_with(Outside::default())
}

/// A transaction on an empty world.
pub(crate) fn txn_with(outside: Outside) -> Txn {
    again(World::default(), outside)
}

/// A transaction on a world.
pub(crate) fn again(world: World, outside: Outside) -> Txn {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    Txn::new(world, now, 7, Arc::new(outside))
}

/// A tunnelled network.
pub(crate) fn network(n: u128, project: &str) -> Network {
    Network {
        id: id(n),
        project: project.into(),
        name: format!("net{n}"),
        admin_state_up: true,
        external: false,
        segment: Segment {
            id: id(n + 0x5e6),
            network_type: NetworkType::Geneve,
            physical_network: None,
            segmentation_id: Some(u32::try_from(n).unwrap_or(1)),
        },
        mtu: 1442,
        port_security_enabled: true,
        availability_zone_hints: Vec::new(),
        dns_domain: String::new(),
        is_default: false,
        standard: Standard::new(Timestamp::UNIX_EPOCH, ""),
    }
}

/// A subnet whose first address is the gateway and the rest the pool.
pub(crate) fn subnet(n: u128, network: u128, cidr: &str) -> Subnet {
    let cidr: IpNet = cidr.parse().unwrap();
    let gateway = after(cidr.network()).unwrap();
    let end = match cidr {
        IpNet::V4(_) => before(cidr.broadcast()).unwrap(),
        IpNet::V6(_) => cidr.broadcast(),
    };
    Subnet {
        id: id(n),
        project: "p".into(),
        name: format!("subnet{n}"),
        network_id: id(network),
        cidr,
        gateway_ip: Some(gateway),
        allocation_pools: vec![AddressRange { start: after(gateway).unwrap(), end }],
        enable_dhcp: true,
        dns_nameservers: Vec::new(),
        host_routes: Vec::new(),
        ipv6_ra_mode: None,
        ipv6_address_mode: None,
        service_types: Vec::new(),
        subnetpool_id: None,
        dhcp_server_mac: MacAddr([0xfa, 0x16, 0x3e, 0, 0, 1]),
        standard: Standard::new(Timestamp::UNIX_EPOCH, ""),
    }
}

/// Parses an address.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
