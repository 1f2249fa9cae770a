//! Tables of address allocation.

use proptest::prelude::*;

use super::*;
use crate::model::{AddressRange, Ipv6Mode};
use crate::resource::fixture::{id, ip, network, subnet, txn};
use crate::resource::port::{self, Internal};
use crate::world::Txn;

const MAC: MacAddr = MacAddr([0xfa, 0x16, 0x3e, 1, 2, 3]);
const NET: u128 = 1;

fn world(subnets: Vec<Subnet>) -> Txn {
    let mut txn = txn();
    txn.put(network(NET, "p"));
    for subnet in subnets {
        txn.put(subnet);
    }
    txn
}

fn slaac(n: u128, cidr: &str) -> Subnet {
    Subnet {
        ipv6_address_mode: Some(Ipv6Mode::Slaac),
        ipv6_ra_mode: Some(Ipv6Mode::Slaac),
        ..subnet(n, NET, cidr)
    }
}

fn by_address(address: &str) -> FixedIpRequest {
    FixedIpRequest { subnet_id: None, ip_address: Some(ip(address)) }
}

fn by_subnet(n: u128) -> FixedIpRequest {
    FixedIpRequest { subnet_id: Some(id(n)), ip_address: None }
}

fn both(n: u128, address: &str) -> FixedIpRequest {
    FixedIpRequest { subnet_id: Some(id(n)), ip_address: Some(ip(address)) }
}

fn addresses(fixed: &[FixedIp]) -> Vec<String> {
    fixed.iter().map(|fixed| fixed.ip_address.to_string()).collect()
}

fn choose(
    txn: &Txn,
    request: Option<&[FixedIpRequest]>,
    owner: &str,
) -> Result<Vec<String>, (u16, &'static str)> {
    allocate(txn, id(NET), request, owner, MAC)
        .map(|f| addresses(&f))
        .map_err(|fault| (fault.status, fault.kind))
}

fn take(txn: &mut Txn, request: &[FixedIpRequest], owner: &str) -> Uuid {
    let internal =
        Internal { fixed_ips: Some(request.to_vec()), device_owner: owner.into(), ..Internal::on(id(NET)) };
    port::create_internal(txn, internal).unwrap().id
}

#[test]
fn a_port_that_says_nothing_gets_one_of_each_family_and_forms_the_rest() {
    let txn = world(vec![
        subnet(10, NET, "10.0.0.0/24"),
        subnet(11, NET, "10.1.0.0/24"),
        subnet(12, NET, "2001:db8:1::/64"),
        slaac(13, "2001:db8:2::/64"),
        slaac(14, "2001:db8:3::/64"),
    ]);
    let formed =
        ["2001:db8:2::", "2001:db8:3::"].map(|net| format!("{net}f816:3eff:fe01:203").replace("::f", ":0:f"));
    let formed = formed.map(|text| ip(&text).to_string());
    let mut want = vec!["10.0.0.2".to_owned(), "2001:db8:1::2".to_owned()];
    want.extend(formed.clone());
    assert_eq!(choose(&txn, None, "compute:nova").unwrap(), want);
    assert_eq!(choose(&txn, None, owner::ROUTER_GATEWAY).unwrap(), want);
    // A router interface gets an assigned address everywhere, because it announces the prefix.
    assert_eq!(choose(&txn, None, owner::ROUTER_INTERFACE).unwrap(), ["10.0.0.2", "2001:db8:1::2"]);
    assert_eq!(choose(&txn, None, owner::FLOATING_IP).unwrap(), ["10.0.0.2", "2001:db8:1::2"]);
    assert_eq!(choose(&txn, Some(&[by_subnet(13)]), owner::ROUTER_INTERFACE).unwrap(), ["2001:db8:2::2"]);
    assert_eq!(choose(&txn, Some(&[]), owner::ROUTER_GATEWAY).unwrap(), Vec::<String>::new());
    assert_eq!(choose(&txn, Some(&[]), "").unwrap(), formed);
}

#[test]
fn a_network_without_subnets_gives_nothing() {
    assert_eq!(choose(&world(Vec::new()), None, "").unwrap(), Vec::<String>::new());
}

#[test]
fn requests_are_checked() {
    let mut txn = world(vec![subnet(10, NET, "10.0.0.0/24"), slaac(13, "2001:db8:2::/64")]);
    txn.put(network(2, "p"));
    txn.put(subnet(20, 2, "10.9.0.0/24"));
    take(&mut txn, &[by_address("10.0.0.50")], owner::ROUTER_GATEWAY);
    type Want = Result<&'static [&'static str], (u16, &'static str)>;
    let table: &[(&[FixedIpRequest], Want)] = &[
        (&[by_address("10.0.0.7")], Ok(&["10.0.0.7"])),
        (&[by_subnet(10)], Ok(&["10.0.0.2"])),
        (&[both(10, "10.0.0.9")], Ok(&["10.0.0.9"])),
        // The gateway's address can be requested: routers and appliances do that.
        (&[both(10, "10.0.0.1")], Ok(&["10.0.0.1"])),
        // An earlier "any" does not take a later literal address.
        (&[by_subnet(10), both(10, "10.0.0.2")], Ok(&["10.0.0.3", "10.0.0.2"])),
        (&[by_subnet(10), by_subnet(10), by_subnet(10)], Ok(&["10.0.0.2", "10.0.0.3", "10.0.0.4"])),
        (&[FixedIpRequest::default()], Err((400, "InvalidInput"))),
        (&[by_address("10.0.9.7")], Err((400, "InvalidIpForNetwork"))),
        (&[by_address("10.0.0.255")], Err((400, "InvalidIpForNetwork"))),
        (&[both(10, "10.0.1.7")], Err((400, "InvalidIpForSubnet"))),
        (&[both(10, "10.0.0.0")], Err((400, "InvalidIpForSubnet"))),
        (&[both(10, "10.0.0.255")], Err((400, "InvalidIpForSubnet"))),
        (&[both(10, "2001:db8::1")], Err((400, "InvalidIpForSubnet"))),
        (&[by_subnet(20)], Err((400, "InvalidInput"))),
        (&[by_subnet(99)], Err((400, "InvalidInput"))),
        (&[both(10, "10.0.0.50")], Err((409, "IpAddressAlreadyAllocated"))),
        (&[both(10, "10.0.0.7"), by_address("10.0.0.7")], Err((409, "IpAddressAlreadyAllocated"))),
    ];
    for (request, want) in table {
        let want = want.map(|texts| texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(choose(&txn, Some(request), owner::ROUTER_GATEWAY), want, "{request:?}");
    }
    // Hosts there form their address; another one cannot be requested.
    let foreign = choose(&txn, Some(&[both(13, "2001:db8:2::77")]), "compute:nova");
    assert_eq!(foreign, Err((400, "AllocationOnAutoAddressSubnet")));
    let own = "2001:db8:2:0:f816:3eff:fe01:203";
    assert_eq!(choose(&txn, Some(&[both(13, own)]), "compute:nova").unwrap(), [own]);
}

#[test]
fn automatic_addresses_come_from_the_pools_and_are_never_the_gateway() {
    let pools = [("10.0.0.10", "10.0.0.11"), ("10.0.0.20", "10.0.0.22")];
    let pools = pools.map(|(start, end)| AddressRange { start: ip(start), end: ip(end) });
    let mut txn = world(vec![Subnet {
        allocation_pools: pools.to_vec(),
        gateway_ip: Some(ip("10.0.0.21")),
        ..subnet(10, NET, "10.0.0.0/24")
    }]);
    for want in ["10.0.0.10", "10.0.0.11", "10.0.0.20", "10.0.0.22"] {
        assert_eq!(choose(&txn, None, "").unwrap(), [want]);
        take(&mut txn, &[by_subnet(10)], "");
    }
    assert_eq!(choose(&txn, None, ""), Err((409, "IpAddressGenerationFailure")));
    assert_eq!(choose(&txn, Some(&[by_subnet(10)]), ""), Err((409, "IpAddressGenerationFailure")));
    // Addresses outside of the pools can be requested.
    assert_eq!(choose(&txn, Some(&[both(10, "10.0.0.99")]), "").unwrap(), ["10.0.0.99"]);
}

#[test]
fn what_comes_back_is_given_out_again() {
    let mut txn = world(vec![subnet(10, NET, "10.0.0.0/29")]);
    let ports: Vec<_> = (0..5).map(|_| take(&mut txn, &[by_subnet(10)], "")).collect();
    assert_eq!(choose(&txn, None, ""), Err((409, "IpAddressGenerationFailure")));
    txn.remove::<Port>(&ports[3]);
    txn.remove::<Port>(&ports[1]);
    assert_eq!(choose(&txn, Some(&[by_subnet(10), by_subnet(10)]), "").unwrap(), ["10.0.0.3", "10.0.0.5"]);
}

#[test]
fn a_full_subnet_is_passed_over_for_the_next_of_the_family() {
    let mut txn = world(vec![subnet(10, NET, "10.0.0.0/30"), subnet(11, NET, "10.1.0.0/30")]);
    assert_eq!(choose(&txn, None, "").unwrap(), ["10.0.0.2"]);
    take(&mut txn, &[by_subnet(10)], "");
    assert_eq!(choose(&txn, None, "").unwrap(), ["10.1.0.2"]);
    take(&mut txn, &[by_subnet(11)], "");
    assert_eq!(choose(&txn, None, ""), Err((409, "IpAddressGenerationFailure")));
}

#[test]
fn service_types_decide_for_whom_a_subnet_is() {
    let for_gateways =
        Subnet { service_types: vec![owner::ROUTER_GATEWAY.into()], ..subnet(12, NET, "10.2.0.0/24") };
    let txn = world(vec![subnet(10, NET, "10.0.0.0/24"), for_gateways.clone()]);
    assert_eq!(choose(&txn, None, "compute:nova").unwrap(), ["10.0.0.2"]);
    assert_eq!(choose(&txn, None, owner::ROUTER_GATEWAY).unwrap(), ["10.2.0.2"]);
    assert_eq!(choose(&txn, Some(&[by_subnet(12)]), "compute:nova").unwrap(), ["10.2.0.2"]);
    let txn = world(vec![for_gateways]);
    assert_eq!(choose(&txn, None, "compute:nova"), Err((409, "IpAddressGenerationFailureNoMatchingSubnet")));
}

#[test]
fn small_prefixes_have_no_broadcast_address() {
    for (prefix, address, usable) in [
        ("10.0.0.0/31", "10.0.0.0", true),
        ("10.0.0.0/31", "10.0.0.1", true),
        ("10.0.0.0/32", "10.0.0.0", true),
        ("10.0.0.0/30", "10.0.0.0", false),
        ("10.0.0.0/30", "10.0.0.3", false),
        ("10.0.0.0/30", "10.0.0.4", false),
        ("2001:db8::/64", "2001:db8::", true),
        ("2001:db8::/64", "2001:db8:0:1::", false),
    ] {
        assert_eq!(is_usable(prefix.parse().unwrap(), ip(address)), usable, "{address} of {prefix}");
    }
}

#[test]
fn an_update_keeps_what_it_names_and_what_it_can() {
    let mut txn = world(vec![subnet(10, NET, "10.0.0.0/24"), slaac(13, "2001:db8:2::/64")]);
    let port = take(&mut txn, &[both(10, "10.0.0.5"), both(10, "10.0.0.6")], "");
    let port = Arc::clone(txn.get::<Port>(&port).unwrap());
    let formed = self_formed("2001:db8:2::/64".parse().unwrap(), port.mac).to_string();
    let moved = self_formed("2001:db8:2::/64".parse().unwrap(), MAC).to_string();
    for (request, mac, want) in [
        (vec![by_subnet(10)], port.mac, vec!["10.0.0.5", &formed]),
        (vec![by_subnet(10), by_address("10.0.0.5")], port.mac, vec!["10.0.0.6", "10.0.0.5", &formed]),
        (
            vec![by_address("10.0.0.5"), by_subnet(10), by_subnet(10)],
            port.mac,
            vec!["10.0.0.5", "10.0.0.6", "10.0.0.2", &formed],
        ),
        (vec![both(13, &formed)], MAC, vec![&moved]),
        (vec![], MAC, vec![&moved]),
    ] {
        let fixed = reallocate(&txn, &port, &request, &port.device_owner, mac).unwrap();
        assert_eq!(addresses(&fixed), want, "{request:?}");
    }
}

#[test]
fn with_thousands_of_ports_the_next_address_is_one_look_away() {
    // Counted, not timed: there are as many ranges as gaps.
    let mut txn = world(vec![subnet(10, NET, "10.0.0.0/14")]);
    let ports: Vec<_> = (0..3_000).map(|_| take(&mut txn, &[by_subnet(10)], "")).collect();
    assert_eq!(txn.taken_runs(id(10)).count(), 1);
    txn.remove::<Port>(&ports[7]);
    assert_eq!(txn.taken_runs(id(10)).count(), 2);
    assert_eq!(choose(&txn, None, "").unwrap(), ["10.0.0.9"]);
    take(&mut txn, &[by_subnet(10)], "");
    assert_eq!(choose(&txn, None, "").unwrap(), ["10.0.11.186"]);
}

/// Compares the allocation in a subnet of eight addresses with the plain rule: the lowest address of the pool that is neither the gateway
/// nor used.
#[derive(Clone, Debug)]
enum Step {
    Any,
    Named(u8),
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Any),
        1 => (0..10u8).prop_map(Step::Named),
        2 => (0..8usize).prop_map(Step::Free),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn choice_follows_the_plain_rules(gateway in 1..7u8, first in 1..4u8, last in 3..7u8, steps in steps()) {
        let host = |n: u8| ip(&format!("10.0.0.{n}"));
        let mut txn = world(vec![Subnet {
            gateway_ip: Some(host(gateway)),
            allocation_pools: vec![AddressRange { start: host(first), end: host(last) }],
            ..subnet(10, NET, "10.0.0.0/29")
        }]);
        let mut taken: BTreeMap<u8, Uuid> = BTreeMap::new();
        for step in steps {
            let (request, want) = match step {
                Step::Any => {
                    let free = (first..=last).find(|n| *n != gateway && !taken.contains_key(n));
                    (by_subnet(10), free.ok_or("IpAddressGenerationFailure"))
                }
                Step::Named(n @ (0 | 7..)) => (both(10, &format!("10.0.0.{n}")), Err("InvalidIpForSubnet")),
                Step::Named(n) => {
                    let want = if taken.contains_key(&n) { Err("IpAddressAlreadyAllocated") } else { Ok(n) };
                    (both(10, &format!("10.0.0.{n}")), want)
                }
                Step::Free(at) => {
                    if let Some((n, id)) = taken.iter().nth(at).map(|(n, id)| (*n, *id)) {
                        txn.remove::<Port>(&id);
                        taken.remove(&n);
                    }
                    continue;
                }
            };
            let internal = Internal { fixed_ips: Some(vec![request]), ..Internal::on(id(NET)) };
            match (port::create_internal(&mut txn, internal), want) {
                (Ok(port), Ok(n)) => {
                    prop_assert_eq!(port.fixed_ips[0].ip_address, host(n));
                    taken.insert(n, port.id);
                }
                (Err(fault), Err(kind)) => prop_assert_eq!(fault.kind, kind),
                (got, want) => prop_assert!(false, "{:?} instead of {:?}", got, want),
            }
        }
    }
}
