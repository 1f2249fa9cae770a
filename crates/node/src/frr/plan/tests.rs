use std::collections::BTreeMap;

use super::super::behind::Difference;
use super::super::config::parse;
use super::super::recorded::want;
use super::*;

fn have(text: &str) -> Observed {
    let (router_id, adrift) = (Some(Ipv4Addr::new(172, 30, 1, 1)), BTreeMap::new());
    Observed::Bgpd(BgpdState { tree: parse(text), router_id, adrift, ..Default::default() })
}

/// The same, with an instance that does not know its VRF.
fn untied(text: &str, vrf: &str, how: Adrift) -> Observed {
    let adrift = [(vrf.into(), how)].into();
    Observed::Bgpd(BgpdState { tree: parse(text), adrift, ..Default::default() })
}

fn lines(want: &Desired, text: &str) -> String {
    let part = plan(want, &have(text));
    part.steps.iter().flat_map(|step| &step.op.lines).cloned().collect::<Vec<_>>().join("\n")
}

/// bgpd's configuration after all lines were entered.
const DONE: &str = "router bgp 64999
 neighbor 10.0.0.1 remote-as external
 !
 address-family ipv4 unicast
  import vrf bgp-vrf
 exit-address-family
 !
 address-family ipv6 unicast
  import vrf other
  import vrf bgp-vrf
 exit-address-family
exit
!
router bgp 64999 vrf bgp-vrf
 bgp router-id 172.30.1.1
 !
 address-family ipv4 unicast
  redistribute connected
 exit-address-family
 !
 address-family ipv6 unicast
  redistribute connected
 exit-address-family
exit
";

#[test]
fn an_empty_bgpd_gets_both_stanzas() {
    assert_eq!(
        lines(&want(), "frr version 8.4.4\n"),
        "router bgp 64999
exit
router bgp 64999 vrf bgp-vrf
bgp router-id 172.30.1.1
address-family ipv4 unicast
redistribute connected
exit-address-family
address-family ipv6 unicast
redistribute connected
exit-address-family
exit
router bgp 64999
address-family ipv4 unicast
import vrf bgp-vrf
exit-address-family
address-family ipv6 unicast
import vrf bgp-vrf
exit-address-family
exit"
    );
}

#[test]
fn nothing_is_entered_twice() {
    let part = plan(&want(), &have(DONE));
    assert_eq!((part.steps.len(), part.counts.want(), part.counts.have()), (0, 1, 1));
    let dotted = Desired { asn: "0.64999".into(), ..want() };
    assert!(plan(&dotted, &have(DONE)).steps.is_empty());
}

#[test]
fn only_what_is_missing_is_entered() {
    let text = DONE.replace("  import vrf other\n  import vrf bgp-vrf\n", "  import vrf other\n");
    let wanted =
        "router bgp 64999\naddress-family ipv6 unicast\nimport vrf bgp-vrf\nexit-address-family\nexit";
    assert_eq!(lines(&want(), &text), wanted);
    let id = Desired { router_id: Some(Ipv4Addr::new(1, 1, 1, 1)), ..want() };
    assert_eq!(lines(&id, DONE), "router bgp 64999 vrf bgp-vrf\nbgp router-id 1.1.1.1\nexit");
}

#[test]
fn subnets_are_redistributed_while_wanted_and_the_operators_line_stays() {
    let subnet = Desired { redistribute: Redistribute::ALL.into(), ..want() };
    let done = DONE.replace("redistribute connected", "redistribute kernel\n  redistribute connected");
    assert!(lines(&subnet, DONE).contains("redistribute kernel"));
    assert_eq!(lines(&subnet, &done), "");
    assert_eq!(lines(&want(), &done).matches("no redistribute kernel").count(), 2);
    let operators = done.replace("redistribute kernel", "redistribute kernel metric 7");
    assert_eq!(lines(&want(), &operators), "");
    assert_eq!(lines(&subnet, &operators), "");
}

#[test]
fn another_as_and_a_silent_bgpd_are_reported() {
    let part = plan(&want(), &have(&DONE.replace("router bgp 64999\n", "router bgp 65000\n")));
    assert_eq!((part.steps.len(), part.problems[0].code.as_str()), (0, "another-as"));
    let part = plan(&want(), &Observed::Silent("gone".into()));
    assert_eq!((part.steps.len(), part.problems[0].code.as_str()), (0, "frr-silent"));
}

#[test]
fn without_a_router_id_anywhere_frr_chooses() {
    let have = Observed::Bgpd(BgpdState::default());
    let part = plan(&want(), &have);
    assert!(!part.steps[0].op.lines.iter().any(|line| line.contains("router-id")));
}

/// A configuration in which the operator has lines of their own in the VRF's instance, and one family lacks ours.
const SAVED: &str = "router bgp 64999
 !
 address-family ipv4 unicast
  import vrf route-map X
  import vrf bgp-vrf
 exit-address-family
exit
!
router bgp 64999 vrf bgp-vrf
 bgp router-id 9.9.9.9
 !
 address-family ipv4 unicast
  redistribute connected route-map X
 exit-address-family
 !
 address-family l2vpn evpn
  vni 100
   rd 1:1
  exit-vni
 exit-address-family
exit
";

#[test]
fn an_instance_that_does_not_know_its_vrf_is_entered_anew_with_all_that_it_has() {
    let part = plan(&want(), &untied(SAVED, "bgp-vrf", Adrift::Due));
    let lines = part.steps[0].op.lines.join("\n");
    let wanted = "router bgp 64999
address-family ipv4 unicast
no import vrf bgp-vrf
exit-address-family
exit
no router bgp 64999 vrf bgp-vrf
router bgp 64999 vrf bgp-vrf
bgp router-id 9.9.9.9
address-family ipv4 unicast
redistribute connected route-map X
exit-address-family
address-family l2vpn evpn
vni 100
rd 1:1
exit-vni
exit-address-family
address-family ipv6 unicast
redistribute connected
exit-address-family
exit
router bgp 64999
address-family ipv4 unicast
import vrf bgp-vrf
exit-address-family
address-family ipv6 unicast
import vrf bgp-vrf
exit-address-family
exit";
    assert_eq!(lines, wanted);
    assert_eq!((part.problems[0].code.as_str(), part.counts.have()), ("leak-stuck", 0));
}

#[test]
fn it_is_entered_anew_no_more_often_than_it_is_due() {
    let plan = |text, vrf, how| {
        let part = plan(&want(), &untied(text, vrf, how));
        let lines = part.steps.into_iter().flat_map(|step| step.op.lines);
        (lines.filter(|line| line.starts_with("no ")).count(), part.problems.len(), part.counts.have())
    };
    assert_eq!(plan(DONE, "bgp-vrf", Adrift::Due), (3, 1, 0));
    assert_eq!(plan(DONE, "bgp-vrf", Adrift::Tried), (0, 1, 0), "it is told as long as it lasts");
    assert_eq!(plan(DONE, "other", Adrift::Due), (0, 0, 1), "another VRF is not ours");
    let (alone, _) = DONE.split_once("router bgp 64999 vrf").unwrap();
    assert_eq!(plan(alone, "bgp-vrf", Adrift::Due), (0, 1, 0), "what is not there cannot go");
}

/// The same with a VRF of which bgpd does not have everything, and a zebra.
fn lagging(cure: Option<Cure>, zebra: Zebra) -> Observed {
    let difference =
        Difference { missing: ["172.24.4.10/32".parse().unwrap()].into(), stale: Default::default() };
    let Observed::Bgpd(state) = have(DONE) else { panic!() };
    let behind = [("bgp-vrf".into(), Behind { difference, cure })].into();
    Observed::Bgpd(BgpdState { behind, zebra, ..state })
}

#[test]
fn a_bgpd_that_lags_behind_zebra_is_told_to_ask_again() {
    let part = plan(&want(), &lagging(Some(Cure::Redistribute), Zebra::Connected));
    let lines = part.steps[0].op.lines.join("\n");
    assert_eq!(
        lines,
        "router bgp 64999 vrf bgp-vrf
address-family ipv4 unicast
no redistribute connected
redistribute connected
exit-address-family
address-family ipv6 unicast
no redistribute connected
redistribute connected
exit-address-family
exit"
    );
    assert_eq!((part.problems[0].code.as_str(), part.counts.have()), ("frr-behind", 0));
    assert!(part.problems[0].message.contains("172.24.4.10/32 announced by nobody"), "{}", part.problems[0]);
    let part = plan(&want(), &lagging(Some(Cure::Instance), Zebra::Connected));
    assert!(part.steps[0].op.lines.iter().any(|line| line == "no router bgp 64999 vrf bgp-vrf"));
    let part = plan(&want(), &lagging(None, Zebra::Connected));
    assert_eq!((part.steps.len(), part.problems.len()), (0, 1), "it is told while it lasts");
}

#[test]
fn a_zebra_that_is_away_is_reported() {
    for (zebra, code) in [
        (Zebra::Silent("gone".into()), Some("zebra-silent")),
        (Zebra::Apart, Some("zebra-apart")),
        (Zebra::Connected, None),
        (Zebra::Unknown, None),
    ] {
        let Observed::Bgpd(state) = have(DONE) else { panic!() };
        let part = plan(&want(), &Observed::Bgpd(BgpdState { zebra, ..state }));
        assert_eq!(part.problems.first().map(|problem| problem.code.as_str()), code);
        assert_eq!(part.steps.len(), 0);
    }
}

#[test]
fn a_default_route_that_does_not_reach_the_kernel_is_reported() {
    let Observed::Bgpd(state) = have(DONE) else { panic!() };
    let part = plan(&want(), &Observed::Bgpd(BgpdState { no_default: [Family::V4].into(), ..state }));
    assert_eq!((part.steps.len(), part.problems[0].code.as_str()), (0, "no-return-route"));
}
