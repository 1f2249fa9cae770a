use super::super::config::parse;
use super::*;
use crate::kernel::{Address, Hop, SeenLink, SeenRoute};

const RUNNING: &str = "router bgp 64999 vrf bgp-vrf
 address-family ipv4 unicast
  redistribute kernel
  redistribute connected
 exit-address-family
 address-family ipv6 unicast
  redistribute connected route-map X
 exit-address-family
exit
";

fn nets(nets: &[&str]) -> BTreeSet<IpNet> {
    nets.iter().map(|net| net.parse().unwrap()).collect()
}

fn json(routes: &[(&str, u64, &str)]) -> String {
    let route = |(net, weight, origin): &(&str, u64, &str)| {
        format!(r#""{net}":[{{"valid":true,"weight":{weight},"origin":"{origin}","nexthops":[]}}]"#)
    };
    let routes: Vec<String> = routes.iter().map(route).collect();
    format!(r#"{{"vrfId":5,"vrfName":"bgp-vrf","routes":{{{}}}}}"#, routes.join(","))
}

fn kernel(addresses: &[&str]) -> kernel::Observed {
    let link =
        |kind, master: Option<&str>| SeenLink { index: 1, kind, up: true, master: master.map(Dev::new) };
    let mut kernel = kernel::Observed::default();
    kernel.links.insert("bgp-vrf".into(), link(Kind::Vrf(10), None));
    kernel.links.insert("bgp-nic".into(), link(Kind::Dummy, Some("bgp-vrf")));
    for net in addresses {
        kernel.addresses.insert(Address { dev: "bgp-nic".into(), net: net.parse().unwrap() });
    }
    kernel
}

fn differ(running: &str, tables: [&str; 2], kernel: &kernel::Observed) -> (BTreeSet<IpNet>, BTreeSet<IpNet>) {
    let difference = compare(&"bgp-vrf".into(), &parse(running), &tables.map(table), kernel);
    (difference.missing, difference.stale)
}

#[test]
fn what_one_has_and_the_other_does_not_differs() {
    let (own, none) = (|net| (net, 32768, "incomplete"), json(&[]));
    let both = json(&[own("172.24.4.10/32"), own("172.24.4.11/32")]);
    let on_device = |nets: &[&str]| kernel(nets);
    let (a, b) = ("172.24.4.10/32", "172.24.4.11/32");
    for (addresses, answer, missing, stale) in [
        (&[a, b][..], both.as_str(), &[][..], &[][..]),
        (&[a, b, "172.24.4.12/32"], &both, &["172.24.4.12/32"], &[]),
        (&[a], &both, &[], &[b]),
        (&[a, b], &none, &[a, b], &[]),
        // No table: bgpd does not know the VRF, or says something else.
        (&[a], "% No such VRF", &[], &[]),
        (&[a], "{}", &[], &[]),
        // A subnet and link-local addresses are not announced by us.
        (&["10.0.0.1/24", "fe80::1/128"], &none, &[], &[]),
    ] {
        assert_eq!(
            differ(RUNNING, [answer, &none], &on_device(addresses)),
            (nets(missing), nets(stale)),
            "{addresses:?} beside {answer}"
        );
    }
}

#[test]
fn only_what_bgpd_redistributes_itself_is_stale() {
    let other = json(&[
        ("10.1.0.0/24", 32768, "IGP"),
        ("10.2.0.0/24", 0, "incomplete"),
        ("10.3.0.0/24", 32768, "incomplete"),
    ]);
    let mut have = kernel(&[]);
    assert_eq!(differ(RUNNING, [&other, &json(&[])], &have).1, nets(&["10.3.0.0/24"]));
    // An operator's route in the VRF is redistributed by an operator's line.
    let hop = Hop { dev: "bgp-nic".into(), via: None };
    let route = SeenRoute::plain(10, "10.3.0.0/24".parse().unwrap(), hop);
    have.routes.insert(SeenRoute { protocol: protocol::STATIC, ..route });
    assert_eq!(differ(RUNNING, [&other, &json(&[])], &have).1, nets(&[]));
}

#[test]
fn nothing_is_missed_that_nobody_redistributes() {
    let none = json(&[]);
    // The operator's route-map may leave it out.
    assert_eq!(differ(RUNNING, [&none, &none], &kernel(&["2001:db8::1/128"])).0, nets(&[]));
    let mut have = kernel(&["172.24.4.10/32"]);
    assert_eq!(differ("router bgp 64999\nexit\n", [&none, &none], &have).0, nets(&[]));
    have.links.insert("bgp-nic".into(), SeenLink { up: false, ..have.links["bgp-nic"].clone() });
    assert_eq!(differ(RUNNING, [&none, &none], &have).0, nets(&[]), "a device that is down");
    have.links.remove("bgp-vrf");
    assert_eq!(differ(RUNNING, [&none, &none], &have).0, nets(&[]), "no VRF");
    // A prefix that is announced as such is a route of the VRF.
    let hop = Hop { dev: "bgp-nic".into(), via: Some("172.24.4.100".parse().unwrap()) };
    let mut have = kernel(&[]);
    have.routes.insert(SeenRoute::plain(10, "10.0.0.0/24".parse().unwrap(), hop));
    assert_eq!(differ(RUNNING, [&none, &none], &have).0, nets(&["10.0.0.0/24"]));
}

#[test]
fn a_difference_that_lasts_is_cured_ever_more_thoroughly_and_ever_more_rarely() {
    #[expect(clippy::disallowed_methods)]
    let start = Instant::now();
    let mut differences = Differences::default();
    let a = Difference { missing: nets(&["10.0.0.1/32"]), stale: nets(&[]) };
    let b = Difference { missing: nets(&[]), stale: nets(&["10.0.0.2/32"]) };
    let both = Difference { missing: a.missing.clone(), stale: b.stale.clone() };
    let none = Difference::default();
    let mut look = |millis: u64, found: &Difference, curable| {
        let now = start + Duration::from_millis(millis);
        let behind = differences.look(now, found.clone(), curable);
        (
            behind.as_ref().map(|b| b.difference.missing.len() + b.difference.stale.len()),
            behind.and_then(|b| b.cure),
            differences.next(now).map(|after| after.as_millis()),
        )
    };
    use Cure::{Device, Instance, Redistribute};
    for (millis, found, curable, expected) in [
        (0, &a, true, (None, None, Some(1000))),
        // One that has just come is on its way; the other goes in time.
        (900, &b, true, (None, None, Some(1000))),
        (1000, &both, true, (None, None, Some(900))),
        // bgpd is not connected to zebra: to enter it anew would withdraw everything.
        (2000, &both, false, (Some(2), None, Some(1000))),
        (3000, &both, true, (Some(2), Some(Redistribute), Some(3000))),
        (3100, &both, true, (Some(2), None, Some(2900))),
        (6000, &both, true, (Some(2), Some(Device), Some(3000))),
        (9000, &both, true, (Some(2), Some(Instance), Some(6000))),
        (14_000, &both, true, (Some(2), None, Some(1000))),
        (15_000, &both, true, (Some(2), Some(Instance), Some(12_000))),
        (19_000, &none, true, (None, None, None)),
        (20_000, &a, true, (None, None, Some(1000))),
        (21_000, &a, true, (Some(1), Some(Redistribute), Some(3000))),
    ] {
        assert_eq!(look(millis, found, curable), expected, "at {millis} ms");
    }
}

#[test]
fn no_answer_makes_it_panic() {
    for text in
        ["", "{", "[]", r#"{"routes":[]}"#, r#"{"routes":{"x":[]}}"#, r#"{"routes":{"10.0.0.0/8":[{}]}}"#]
    {
        let _ = table(text);
    }
    assert_eq!(table(r#"{"routes":{"x":[],"10.0.0.0/8":[{}]}}"#).unwrap().len(), 1);
}
