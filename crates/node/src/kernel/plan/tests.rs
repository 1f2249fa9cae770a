//! Plans as tables: a world in, changes out.

use reconcile::ObjectId;

use super::*;
use crate::kernel::observed::SeenRule;
use crate::kernel::state::{Address, Knob, Sysctl};
use crate::kernel::tables::RtTables;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn address(dev: &str, text: &str) -> Address {
    Address { dev: dev.into(), net: net(text) }
}

fn hop(dev: &str, via: Option<&str>) -> Hop {
    Hop { dev: dev.into(), via: via.map(|ip| ip.parse().unwrap()) }
}

fn ex() -> Table {
    Table::Bridge("br-ex".into())
}

/// The base of the specification's fixture: VRF, announcing device, br-ex with table 201, nothing exposed.
fn base() -> Desired {
    let mut want = Desired::default();
    want.links.extend([
        (Dev::new("bgp-vrf"), Link::Vrf { table: 10 }),
        ("bgp-nic".into(), Link::Dummy { master: Some("bgp-vrf".into()) }),
        ("br-ex".into(), Link::Bridge),
    ]);
    want.addresses
        .extend([address("br-ex", "169.254.1.1/32"), address("br-ex", "fd53:d91e:400:7f17::1:1/128")]);
    want.sysctls.extend([Knob::ProxyArp, Knob::ProxyNdp].map(|knob| Sysctl { dev: "br-ex".into(), knob }));
    for family in Family::BOTH {
        want.routes.insert((ex(), family.default_net()), hop("br-ex", None));
    }
    want
}

/// A provider VM.
fn vm(want: &mut Desired, ip: &str) {
    let host = net(ip);
    want.addresses.insert(address("bgp-nic", ip));
    want.rules.insert(Rule { select: Select::To(host), table: ex() });
    want.routes.insert((ex(), host), hop("br-ex", None));
}

/// A gateway and a subnet behind it with one VM.
fn tenant(want: &mut Desired) {
    vm(want, "172.24.4.221/32");
    want.neighbours
        .insert(("br-ex".into(), "172.24.4.221".parse().unwrap()), "fa:16:3e:aa:00:01".parse().unwrap());
    want.rules.insert(Rule { select: Select::To(net("10.1.0.0/24")), table: ex() });
    want.routes.insert((ex(), net("10.1.0.0/24")), hop("br-ex", Some("172.24.4.221")));
    want.addresses.insert(address("bgp-nic", "10.1.0.5/32"));
}

/// The kernel as it is once all is as wanted.
fn made(want: &Desired) -> Observed {
    let mut have = Observed { names: RtTables::parse("201 br-ex\n"), ..Observed::default() };
    for (index, (dev, link)) in (1..).zip(&want.links) {
        let (kind, master) = match link {
            Link::Vrf { table } => (Kind::Vrf(*table), None),
            Link::Dummy { master } => (Kind::Dummy, master.clone()),
            Link::Vlan { parent, tag } => (Kind::Vlan { parent: Some(parent.clone()), tag: *tag }, None),
            Link::Bridge => (Kind::Other, None),
            Link::Port { bridge } => (Kind::Port { bridge: bridge.clone() }, None),
        };
        have.links.insert(dev.clone(), SeenLink { index, kind, up: true, master });
    }
    let number = |table: &Table| if let Table::Number(n) = table { *n } else { 201 };
    have.addresses.clone_from(&want.addresses);
    have.rules.extend(want.rules.iter().map(|r| SeenRule::plain(r.select, number(&r.table), 32000)));
    have.routes
        .extend(want.routes.iter().map(|((t, dst), hop)| SeenRoute::plain(number(t), *dst, hop.clone())));
    have.neighbours.clone_from(&want.neighbours);
    have.proxies.clone_from(&want.proxies);
    have.sysctls.clone_from(&want.sysctls);
    have.forwarding.extend(Family::BOTH);
    have
}

fn planned(want: &Desired, have: &Observed) -> Part<Op> {
    let mut part = plan(want, &Keep::default(), have);
    part.steps.sort_by_key(|step| step.phase);
    part
}

fn text(want: &Desired, have: &Observed) -> Vec<String> {
    planned(want, have).steps.iter().map(|step| format!("{}: {}", step.object, step.op)).collect()
}

fn codes(want: &Desired, have: &Observed) -> Vec<String> {
    planned(want, have).problems.iter().map(|p| format!("{} {}", p.object, p.code)).collect()
}

#[test]
fn a_bare_node_gets_its_base_in_order() {
    let mut have = Observed { forwarding: Family::BOTH.into(), ..Observed::default() };
    have.links.insert("br-ex".into(), SeenLink { index: 3, kind: Kind::Other, up: false, master: None });
    assert_eq!(
        text(&base(), &have),
        [
            "table/br-ex: reserve table 201 for br-ex in rt_tables",
            "device/bgp-vrf: add VRF bgp-vrf with table 10",
            "device/bgp-nic: add dummy bgp-nic in VRF bgp-vrf",
            "device/br-ex: set br-ex up",
            "base/br-ex:ipv4: add address 169.254.1.1/32 to br-ex",
            "base/br-ex:ipv6: add address fd53:d91e:400:7f17::1:1/128 to br-ex",
            "sysctl/net/ipv4/conf/br-ex/proxy_arp: turn on proxy ARP on br-ex",
            "sysctl/net/ipv6/conf/br-ex/proxy_ndp: turn on proxy NDP on br-ex",
            "base/br-ex:ipv4: set route 0.0.0.0/0 dev br-ex in table 201",
            "base/br-ex:ipv6: set route ::/0 dev br-ex in table 201",
        ]
    );
}

#[test]
fn what_is_there_is_left_alone() {
    let mut want = base();
    tenant(&mut want);
    let part = planned(&want, &made(&want));
    assert_eq!(part.steps, []);
    assert_eq!(part.counts.want(), part.counts.have());
}

#[test]
fn a_gateway_with_a_subnet_is_wired_before_it_is_announced_and_unwired_after() {
    let (mut want, bare) = (base(), base());
    tenant(&mut want);
    assert_eq!(
        text(&want, &made(&bare)),
        [
            "address/172.24.4.221: set route 172.24.4.221/32 dev br-ex in table 201",
            "subnet/10.1.0.0/24: set route 10.1.0.0/24 via 172.24.4.221 dev br-ex in table 201",
            "address/172.24.4.221: set neighbour 172.24.4.221 at fa:16:3e:aa:00:01 on br-ex",
            "subnet/10.1.0.0/24: add rule 32000: to 10.1.0.0/24 lookup 201",
            "address/172.24.4.221: add rule 32000: to 172.24.4.221/32 lookup 201",
            "address/10.1.0.5: add address 10.1.0.5/32 to bgp-nic",
            "address/172.24.4.221: add address 172.24.4.221/32 to bgp-nic",
        ]
    );
    assert_eq!(
        text(&bare, &made(&want)),
        [
            "address/10.1.0.5: delete address 10.1.0.5/32 from bgp-nic",
            "address/172.24.4.221: delete address 172.24.4.221/32 from bgp-nic",
            "subnet/10.1.0.0/24: delete rule 32000: to 10.1.0.0/24 lookup 201",
            "address/172.24.4.221: delete rule 32000: to 172.24.4.221/32 lookup 201",
            "address/172.24.4.221: delete neighbour 172.24.4.221 from br-ex",
            "subnet/10.1.0.0/24: delete route 10.1.0.0/24 via 172.24.4.221 dev br-ex from table 201",
            "address/172.24.4.221: delete route 172.24.4.221/32 dev br-ex from table 201",
        ]
    );
}

#[test]
fn a_node_is_taken_over_from_ovn_bgp_agent_without_a_deletion_but_the_legacy_rule() {
    let mut want = base();
    tenant(&mut want);
    let mut have = made(&want);
    // Its table, its form of a subnet's rule.
    have.names = RtTables::parse("87 br-ex\n");
    have.rules = have.rules.into_iter().map(|rule| SeenRule { table: 87, ..rule }).collect();
    have.routes = have.routes.into_iter().map(|route| SeenRoute { table: 87, ..route }).collect();
    have.rules.remove(&SeenRule::plain(Select::To(net("10.1.0.0/24")), 87, 32000));
    have.rules.insert(SeenRule::plain(Select::To(net("10.1.0.1/24")), 87, 32000));
    assert_eq!(
        text(&want, &have),
        [
            "subnet/10.1.0.0/24: add rule 32000: to 10.1.0.0/24 lookup 87",
            "subnet/10.1.0.0/24: delete rule 32000: to 10.1.0.1/24 lookup 87",
        ]
    );
}

#[test]
fn stale_things_of_ours_go_and_others_stay() {
    let mut want = base();
    vm(&mut want, "172.24.4.10/32");
    let mut have = made(&want);
    have.addresses.extend([
        address("bgp-nic", "172.24.4.99/32"),
        address("bgp-nic", "fe80::1/64"),
        address("eth0", "192.0.2.1/32"),
        address("br-ex", "1.1.1.1/32"),
        address("br-ex", "169.254.9.9/32"),
    ]);
    have.rules.extend([
        SeenRule::plain(Select::To(net("172.24.4.99/32")), 201, 32000),
        SeenRule { select: None, ..SeenRule::plain(Select::To(net("1.0.0.0/8")), 201, 32000) },
        SeenRule::plain(Select::To(net("172.24.4.98/32")), 201, 100),
        SeenRule::plain(Select::To(net("172.24.4.97/32")), 300, 32000),
    ]);
    have.routes.extend([
        SeenRoute::plain(201, net("172.24.4.99/32"), hop("br-ex", None)),
        SeenRoute { metric: 5, ..SeenRoute::plain(201, net("172.24.4.10/32"), hop("eth0", None)) },
        SeenRoute::plain(300, net("172.24.4.97/32"), hop("eth0", None)),
    ]);
    let mac = "02:00:00:00:00:01".parse().unwrap();
    have.neighbours.extend([
        (("br-ex".into(), "172.24.4.99".parse().unwrap()), mac),
        (("br-ex".into(), "172.24.4.250".parse().unwrap()), mac),
        (("eth0".into(), "192.0.2.2".parse().unwrap()), mac),
    ]);
    have.proxies.extend([
        ("br-ex".into(), "2001:db8::221".parse().unwrap()),
        ("br-ex".into(), "2001:db8::1".parse().unwrap()),
        ("eth0".into(), "::2".parse().unwrap()),
    ]);
    have.wrote.proxies.insert(("br-ex".into(), "2001:db8::221".parse().unwrap()));
    assert_eq!(
        text(&want, &have),
        [
            "address/172.24.4.99: delete address 172.24.4.99/32 from bgp-nic",
            "address/172.24.4.99: delete rule 32000: to 172.24.4.99/32 lookup 201",
            "address/172.24.4.99: delete neighbour 172.24.4.99 from br-ex",
            "address/172.24.4.99: delete route 172.24.4.99/32 dev br-ex from table 201",
            "address/2001:db8::221: answer no more for 2001:db8::221 on br-ex",
            "base/br-ex:ipv4: delete address 169.254.9.9/32 from br-ex",
        ]
    );
}

#[test]
fn an_address_that_moves_to_a_vlan_has_its_route_led_elsewhere_in_place() {
    let mut before = base();
    vm(&mut before, "172.24.4.10/32");
    let mut want = before.clone();
    want.links.insert("br-ex.100".into(), Link::Vlan { parent: "br-ex".into(), tag: 100 });
    want.addresses.insert(address("br-ex.100", "169.254.1.100/32"));
    want.routes.insert((ex(), net("172.24.4.10/32")), hop("br-ex.100", None));
    assert_eq!(
        text(&want, &made(&before)),
        [
            "device/br-ex.100: add br-ex.100 as VLAN 100 of br-ex",
            "base/br-ex.100:ipv4: add address 169.254.1.100/32 to br-ex.100",
            "address/172.24.4.10: set route 172.24.4.10/32 dev br-ex.100 in table 201",
        ]
    );
    // And back: the device goes, last, and its address with it.
    assert_eq!(
        text(&before, &made(&want)),
        [
            "address/172.24.4.10: set route 172.24.4.10/32 dev br-ex in table 201",
            "device/br-ex.100: delete br-ex.100",
        ]
    );
}

#[test]
fn a_bridge_that_is_no_longer_mapped_is_cleaned_and_its_number_stays_reserved() {
    let mut before = base();
    vm(&mut before, "172.24.4.10/32");
    let mut want = base();
    want.links.remove("br-ex");
    want.addresses.clear();
    want.routes.clear();
    want.sysctls.clear();
    assert_eq!(
        text(&want, &made(&before)),
        [
            "address/172.24.4.10: delete address 172.24.4.10/32 from bgp-nic",
            "address/172.24.4.10: delete rule 32000: to 172.24.4.10/32 lookup 201",
            "base/br-ex:ipv4: delete route 0.0.0.0/0 dev br-ex from table 201",
            "address/172.24.4.10: delete route 172.24.4.10/32 dev br-ex from table 201",
            "base/br-ex:ipv6: delete route ::/0 dev br-ex from table 201",
            "base/br-ex:ipv4: delete address 169.254.1.1/32 from br-ex",
            "base/br-ex:ipv6: delete address fd53:d91e:400:7f17::1:1/128 from br-ex",
        ]
    );
}

#[test]
fn an_address_that_an_operators_route_needs_stays_on_a_bridge_that_is_no_longer_mapped() {
    let mut want = base();
    let mut have = made(&want);
    want.links.remove("br-ex");
    want.addresses.clear();
    want.routes.clear();
    want.sysctls.clear();
    let deletes =
        |have: &Observed| text(&want, have).iter().any(|step| step.contains("delete address 169.254.1.1/32"));
    assert!(deletes(&have));
    let operators = SeenRoute {
        protocol: protocol::STATIC,
        ..SeenRoute::plain(300, net("203.0.113.128/25"), hop("br-ex", None))
    };
    have.routes.insert(operators);
    assert!(!deletes(&have), "the kernel would drop the route");
    have.addresses.insert(address("br-ex", "1.1.1.1/32"));
    assert!(deletes(&have), "another address carries the route");
}

#[test]
fn a_missing_bridge_is_reported_and_holds_up_only_what_stands_on_it() {
    let mut want = base();
    vm(&mut want, "172.24.4.10/32");
    want.links.insert("br-x".into(), Link::Bridge);
    want.addresses.insert(address("br-x", "169.254.2.2/32"));
    let other = Table::Bridge("br-x".into());
    want.routes.insert((other.clone(), net("172.25.0.1/32")), hop("br-x", None));
    want.rules.insert(Rule { select: Select::To(net("172.25.0.1/32")), table: other });
    let mut have = made(&base());
    have.names.insert(202, "br-x".into());
    assert_eq!(codes(&want, &have), ["device/br-x bridge-missing"]);
    let steps = text(&want, &have);
    assert_eq!(steps.len(), 3);
    assert!(steps.iter().all(|step| step.starts_with("address/172.24.4.10: ")), "{steps:?}");
}

#[test]
fn devices_that_stand_in_the_way_are_named() {
    let want = base();
    let mut have = made(&want);
    let link = |kind| SeenLink { index: 9, kind, up: true, master: Some("bgp-vrf".into()) };
    have.links.insert("bgp-nic".into(), link(Kind::Other));
    assert_eq!(codes(&want, &have), ["device/bgp-nic device-in-the-way"]);
    let mut have = made(&want);
    have.links.insert("bgp-vrf".into(), link(Kind::Vrf(20)));
    assert_eq!(codes(&want, &have), ["device/bgp-nic no-vrf", "device/bgp-vrf device-in-the-way"]);
    // A VRF of ovn-controller has the table that we were told to use.
    let mut want = base();
    vm(&mut want, "172.24.4.10/32");
    let mut have = made(&base());
    have.links.remove("bgp-vrf");
    have.links.remove("bgp-nic");
    have.links.insert("ovnvrf10".into(), link(Kind::Vrf(10)));
    assert_eq!(codes(&want, &have), ["device/bgp-nic no-vrf", "device/bgp-vrf table-in-use"]);
    assert!(text(&want, &have).iter().all(|step| !step.contains("bgp-nic")), "nothing is announced");
}

#[test]
fn what_ovn_announces_by_itself_is_not_announced_twice() {
    let mut want = base();
    vm(&mut want, "172.24.4.10/32");
    let mut have = made(&want);
    let native = SeenRoute {
        hop: None,
        protocol: protocol::OVN,
        ..SeenRoute::plain(1000, net("172.24.4.10/32"), hop("x", None))
    };
    have.routes.insert(native);
    assert_eq!(codes(&want, &have), ["address/172.24.4.10 announced-by-ovn"]);
    assert_eq!(text(&want, &have), ["address/172.24.4.10: delete address 172.24.4.10/32 from bgp-nic"]);
}

#[test]
fn an_announcement_without_a_way_is_refused() {
    let mut want = base();
    want.addresses.insert(address("bgp-nic", "172.24.4.10/32"));
    assert_eq!(codes(&want, &made(&base())), ["address/172.24.4.10 no-way"]);
    assert!(text(&want, &made(&base())).is_empty());
}

#[test]
fn subnets_announced_as_such_come_after_their_way_and_go_before_it() {
    let mut want = base();
    tenant(&mut want);
    want.addresses.remove(&address("bgp-nic", "10.1.0.5/32"));
    want.routes.insert((Table::Number(10), net("10.1.0.0/24")), hop("bgp-nic", Some("172.24.4.221")));
    let added = text(&want, &made(&base()));
    assert_eq!(
        added.last().unwrap(),
        "subnet/10.1.0.0/24: set route 10.1.0.0/24 via 172.24.4.221 dev bgp-nic in table 10"
    );
    let removed = text(&base(), &made(&want));
    assert_eq!(
        removed[0],
        "subnet/10.1.0.0/24: delete route 10.1.0.0/24 via 172.24.4.221 dev bgp-nic from table 10"
    );
}

#[test]
fn aggregate_rules_replace_per_address_rules() {
    let mut per_ip = base();
    vm(&mut per_ip, "172.24.4.10/32");
    let mut aggregate = per_ip.clone();
    aggregate.rules = [Rule { select: Select::All(Family::V4), table: ex() }].into_iter().collect();
    assert_eq!(
        text(&aggregate, &made(&per_ip)),
        [
            "base/br-ex:ipv4: add rule 32000: all IPv4 suppress_prefixlength 0 lookup 201",
            "address/172.24.4.10: delete rule 32000: to 172.24.4.10/32 lookup 201",
        ]
    );
}

#[test]
fn drift_is_repaired() {
    let mut want = base();
    vm(&mut want, "172.24.4.10/32");
    let mut have = made(&want);
    have.links.get_mut("bgp-nic").unwrap().up = false;
    have.links.get_mut("bgp-nic").unwrap().master = None;
    have.sysctls.clear();
    have.forwarding.clear();
    assert_eq!(
        text(&want, &have),
        [
            "device/bgp-nic: move bgp-nic into VRF bgp-vrf",
            "device/bgp-nic: set bgp-nic up",
            "sysctl/net/ipv4/conf/br-ex/proxy_arp: turn on proxy ARP on br-ex",
            "sysctl/net/ipv6/conf/br-ex/proxy_ndp: turn on proxy NDP on br-ex",
        ]
    );
    assert_eq!(codes(&want, &have), ["sysctl/net.ipv4.ip_forward no-forwarding"]);
}

#[test]
fn what_is_undecided_keeps_what_carries_it() {
    let (mut want, bare) = (base(), base());
    tenant(&mut want);
    let have = made(&want);
    let kept = |object: ObjectId| {
        let mut steps = plan(&bare, &Keep::new(&[object.clone()].into()), &have).steps;
        steps.sort_by_key(|step| step.phase);
        // The driver drops steps on the object itself.
        let steps = steps.iter().filter(|step| step.object != object);
        steps.map(|step| step.op.to_string()).collect::<Vec<_>>()
    };
    // A kept tenant address keeps its subnet's rule and route.
    let steps = kept(object::address("10.1.0.5".parse().unwrap()));
    assert!(!steps.iter().any(|step| step.contains("10.1.0.")), "{steps:?}");
    // A kept subnet keeps the announcements in it.
    let steps = kept(object::subnet(net("10.1.0.0/24")));
    assert!(!steps.iter().any(|step| step.contains("10.1.0.")), "{steps:?}");
    assert!(steps.iter().any(|step| step.contains("delete address 172.24.4.221/32")));
    // A kept bridge keeps all that goes through its table.
    let steps = kept(object::device("br-ex"));
    assert!(steps.iter().all(|step| step.starts_with("delete address")), "{steps:?}");
}
