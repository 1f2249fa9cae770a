//! Tables of matches, and properties of any request.

use proptest::prelude::*;

use super::*;
use crate::resource::fixture::{id, ip};
use crate::resource::ipam::FixedIpRequest;

const N1: u128 = 1;
const N2: u128 = 2;

/// A gateway: its port, its network and the last octets of its addresses. The subnet's number is 100 times the network's.
fn has(port: u128, network: u128, octets: &[u8]) -> Existing {
    Existing {
        port: id(port),
        network: id(network),
        addresses: octets.iter().map(|octet| ip(&format!("192.0.{network}.{octet}"))).collect(),
        subnets: [id(100 * network)].into(),
    }
}

fn wants(network: u128, octets: &[u8]) -> Element {
    let fixed = |octet: &u8| FixedIpRequest {
        subnet_id: None,
        ip_address: Some(ip(&format!("192.0.{network}.{octet}"))),
    };
    Element { fixed_ips: octets.iter().map(fixed).collect(), ..Element::on(id(network)) }
}

fn in_subnet(network: u128, subnet: u128) -> Element {
    let fixed = FixedIpRequest { subnet_id: Some(id(subnet)), ip_address: None };
    Element { fixed_ips: vec![fixed], ..Element::on(id(network)) }
}

fn ports(numbers: &[u128]) -> Vec<Option<Uuid>> {
    numbers.iter().map(|number| (*number != 0).then(|| id(*number))).collect()
}

/// Zero stands for a new port.
fn updates(existing: &[Existing], compat: u128, elements: &[Element]) -> (Vec<Option<Uuid>>, Vec<Uuid>) {
    let Update { ports, removed } = update(existing, Some(id(compat)), elements).unwrap();
    (ports, removed)
}

/// The title, the present gateways, the request, the matched ports and the removed ports.
type Line<'e> = (&'e str, &'e [Existing], Vec<Element>, Vec<u128>, Vec<u128>);

#[test]
fn updates_find_their_ports() {
    let two = [has(11, N1, &[100]), has(12, N2, &[100])];
    let twins = [has(11, N1, &[100]), has(12, N1, &[101])];
    let nested = [has(11, N1, &[100, 101]), has(12, N1, &[101])];
    let pair = [has(11, N1, &[1, 2])];
    let table: Vec<Line<'_>> = vec![
        ("nothing from nothing", &[], vec![], vec![], vec![]),
        ("an empty list removes all", &two, vec![], vec![], vec![11, 12]),
        ("networks swapped", &two, vec![wants(N2, &[]), wants(N1, &[])], vec![12, 11], vec![]),
        ("two on one network from nothing", &[], vec![wants(N1, &[]), wants(N1, &[])], vec![0, 0], vec![]),
        ("by address", &two, vec![wants(N1, &[100]), wants(N2, &[100])], vec![11, 12], vec![]),
        ("an address more", &two, vec![wants(N1, &[100]), wants(N2, &[100, 7])], vec![11, 12], vec![]),
        (
            "another address for the compatibility gateway",
            &two[..1],
            vec![wants(N1, &[150])],
            vec![11],
            vec![],
        ),
        (
            "another address for an extra one",
            &two,
            vec![wants(N1, &[]), wants(N2, &[150])],
            vec![11, 0],
            vec![12],
        ),
        (
            "one more than there are",
            &two,
            vec![wants(N1, &[]), wants(N1, &[]), wants(N2, &[])],
            vec![11, 0, 12],
            vec![],
        ),
        ("twins in order", &twins, vec![wants(N1, &[]), wants(N1, &[])], vec![11, 12], vec![]),
        (
            "one twin by address, the other by what is left",
            &twins,
            vec![wants(N1, &[]), wants(N1, &[100])],
            vec![12, 11],
            vec![],
        ),
        ("the exact twin before the partial one", &nested, vec![wants(N1, &[101])], vec![12], vec![11]),
        (
            "exact matches come first, whatever the order",
            &pair,
            vec![wants(N1, &[1]), wants(N1, &[1, 2])],
            vec![0, 11],
            vec![],
        ),
        ("of two partial ones the older", &twins, vec![wants(N1, &[100, 101])], vec![11], vec![12]),
        ("another network", &two[..1], vec![wants(N2, &[])], vec![0], vec![11]),
    ];
    for (about, existing, elements, matched, removed) in table {
        let removed: Vec<Uuid> = removed.into_iter().map(id).collect();
        assert_eq!(updates(existing, 11, &elements), (ports(&matched), removed), "{about}");
    }
}

#[test]
fn fewer_elements_than_ports_on_a_network_are_refused() {
    let twins = [has(11, N1, &[100]), has(12, N1, &[101])];
    assert_eq!(update(&twins, Some(id(11)), &[wants(N1, &[])]), Err(MatchError::Ambiguous(id(N1))));
    let triplets = [has(11, N1, &[1]), has(12, N1, &[2]), has(13, N1, &[3])];
    let one_named = [wants(N1, &[2]), wants(N1, &[])];
    assert_eq!(update(&triplets, Some(id(11)), &one_named), Err(MatchError::Ambiguous(id(N1))));
}

#[test]
fn a_subnet_is_a_hint() {
    let mut twins = [has(11, N1, &[100]), has(12, N1, &[101])];
    twins[1].subnets = [id(55)].into();
    let elements = [wants(N1, &[]), in_subnet(N1, 55)];
    assert_eq!(updates(&twins, 11, &elements), (ports(&[11, 12]), vec![]));
    let elements = [in_subnet(N1, 55), wants(N1, &[])];
    assert_eq!(updates(&twins, 11, &elements), (ports(&[12, 11]), vec![]));
    assert_eq!(updates(&twins[..1], 11, &[in_subnet(N1, 55)]), (ports(&[11]), vec![]));
    assert_eq!(remove(&twins, &[in_subnet(N1, 55)]), Ok(vec![id(12)]));
}

#[test]
fn removals_find_their_ports_or_nothing() {
    let many = [has(11, N1, &[100]), has(12, N1, &[101, 102]), has(13, N2, &[100])];
    let table = [
        ("nothing", vec![], Ok::<Vec<Uuid>, MatchError>(vec![])),
        ("the only one of a network", vec![wants(N2, &[])], Ok(vec![id(13)])),
        ("one of two", vec![wants(N1, &[])], Err(MatchError::Ambiguous(id(N1)))),
        ("by one of its addresses", vec![wants(N1, &[102])], Ok(vec![id(12)])),
        ("one good address is enough", vec![wants(N1, &[7, 101])], Ok(vec![id(12)])),
        ("the exact one", vec![wants(N1, &[101, 102])], Ok(vec![id(12)])),
        ("addresses of two", vec![wants(N1, &[100, 101])], Err(MatchError::Ambiguous(id(N1)))),
        ("a wrong address", vec![wants(N1, &[7])], Err(MatchError::NoAddress(id(N1)))),
        ("an address of another network", vec![wants(N2, &[101])], Err(MatchError::NoAddress(id(N2)))),
        ("a wrong network", vec![wants(3, &[])], Err(MatchError::NoPort(id(3)))),
        ("twice the same", vec![wants(N1, &[101]), wants(N1, &[102])], Ok(vec![id(12)])),
        ("one wrong spoils all", vec![wants(N2, &[]), wants(N1, &[7])], Err(MatchError::NoAddress(id(N1)))),
        ("several", vec![wants(N2, &[]), wants(N1, &[100])], Ok(vec![id(11), id(13)])),
    ];
    for (about, elements, found) in table {
        assert_eq!(remove(&many, &elements), found, "{about}");
    }
}

fn existing() -> impl Strategy<Value = Vec<Existing>> {
    proptest::collection::vec((1..3u128, proptest::collection::btree_set(1..6u8, 0..3)), 0..6).prop_map(
        |gateways| {
            let mut taken = BTreeSet::new();
            (11..)
                .zip(gateways)
                .map(|(port, (network, octets))| {
                    let own: Vec<u8> =
                        octets.into_iter().filter(|octet| taken.insert((network, *octet))).collect();
                    has(port, network, &own)
                })
                .collect()
        },
    )
}

fn elements() -> impl Strategy<Value = Vec<Element>> {
    let element = (1..3u128, proptest::collection::vec(1..6u8, 0..3));
    proptest::collection::vec(element.prop_map(|(network, octets)| wants(network, &octets)), 0..6)
}

proptest! {
    #[test]
    fn an_update_means_each_port_once(existing in existing(), elements in elements()) {
        let compat = existing.first().map(|first| first.port);
        let Ok(found) = update(&existing, compat, &elements) else { return Ok(()) };
        prop_assert_eq!(found.ports.len(), elements.len());
        let matched: Vec<_> = found.ports.iter().flatten().copied().collect();
        let all: BTreeSet<_> = matched.iter().chain(&found.removed).copied().collect();
        prop_assert_eq!(all.len(), matched.len() + found.removed.len(), "no port twice");
        prop_assert_eq!(all, existing.iter().map(|it| it.port).collect::<BTreeSet<_>>(), "every port once");
        for (element, port) in elements.iter().zip(&found.ports) {
            if let Some(port) = port {
                prop_assert_eq!(existing.iter().find(|it| it.port == *port).unwrap().network, element.network_id);
            }
        }
    }

    #[test]
    fn what_was_read_can_be_sent_back(existing in existing(), compat in 0..6usize) {
        // Ports without an address look alike in responses.
        let existing: Vec<_> = existing.into_iter().filter(|it| !it.addresses.is_empty()).collect();
        let as_shown = |it: &Existing| Element {
            fixed_ips: it.addresses.iter().map(|a| FixedIpRequest { subnet_id: None, ip_address: Some(*a) }).collect(),
            ..Element::on(it.network)
        };
        let elements: Vec<_> = existing.iter().map(as_shown).collect();
        let compat = existing.get(compat).map(|it| it.port);
        let found = update(&existing, compat, &elements).unwrap();
        prop_assert_eq!(found.removed.len(), 0);
        prop_assert_eq!(found.ports, existing.iter().map(|it| Some(it.port)).collect::<Vec<_>>());
        prop_assert_eq!(remove(&existing, &elements), Ok(existing.iter().map(|it| it.port).collect()));
    }

    #[test]
    fn a_removal_names_only_ports_of_the_named_networks(existing in existing(), elements in elements()) {
        if let Ok(found) = remove(&existing, &elements) {
            for port in found {
                let network = existing.iter().find(|it| it.port == port).unwrap().network;
                prop_assert!(elements.iter().any(|element| element.network_id == network));
            }
        }
    }
}
