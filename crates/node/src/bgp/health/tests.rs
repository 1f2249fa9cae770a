use reconcile::{Class, ObjectId};

use super::*;
use crate::flows::BridgeFlows;
use crate::frr::BgpdState;

/// The difference to a healthy node.
#[derive(Default)]
struct Case {
    problems: Vec<Problem>,
    waiting_for: Option<&'static str>,
    silence: Option<Silence>,
    lost: Option<(u64, &'static str)>,
    frr: Option<frr::Observed>,
    open: Option<u64>,
    announced: Option<(usize, usize)>,
    seen: Option<Option<Seen>>,
}

fn bgpd(sessions: &[(&str, bool)]) -> frr::Observed {
    let sessions = sessions.iter().map(|(peer, up)| ((*peer).to_owned(), *up)).collect();
    frr::Observed::Bgpd(BgpdState { sessions, zebra: Zebra::Connected, ..Default::default() })
}

fn flows(normal: NormalFlow, ours: usize) -> Option<Seen> {
    let flow = |n| flows::SeenFlow { flow: None, table: n, priority: 900, matched: Default::default() };
    let ours = (0..u8::try_from(ours).unwrap()).map(flow).collect();
    Some(Seen::Flows(BridgeFlows { ours, normal }))
}

fn problem(kind: &str, id: &str, code: &str, message: &str) -> Problem {
    Problem::error(ObjectId::new(kind, id), Class::Transient, code, message)
}

/// The trouble of a case, and its promises that are not kept.
fn told(case: Case) -> (Vec<String>, Vec<String>) {
    let status: Status = serde_json::from_value(serde_json::json!({
        "component": "bgp", "state": "converged", "waiting_for": case.waiting_for, "want": 3, "have": 3, "planned": 0, "held": 0,
        "generation": 7, "last_run": null, "last_success": null, "last_error": null, "next_try": null, "stages": [],
        "problems": case.problems,
    }))
    .unwrap();
    let (frr, seen) = (
        case.frr.unwrap_or_else(|| bgpd(&[("100.64.1.0", true)])),
        case.seen.unwrap_or_else(|| flows(NormalFlow::There, 2)),
    );
    let (have, want) = case.announced.unwrap_or((3, 3));
    let bridge = Dev::new("br-ex");
    let plane = PlaneState {
        frr: &frr,
        answered: Some(Duration::from_secs(2)),
        open: case.open.map(Duration::from_secs),
        announced: Count { want, have, pending: 0 },
        bridges: [(&bridge, seen.as_ref())].into(),
    };
    let lost = case.lost.map(|(seconds, why)| (Duration::from_secs(seconds), why.to_owned()));
    let databases = vec![
        DatabaseState { name: "Open_vSwitch".into(), lost: None },
        DatabaseState { name: "OVN_Southbound".into(), lost },
    ];
    let inputs = Inputs { status: &status, silence: case.silence, databases, plane: Some(plane) };
    let broken = promises(&inputs).into_iter().filter(|promise| !promise.kept).map(|promise| promise.text);
    (trouble(&inputs), broken.collect())
}

#[test]
fn a_node_on_which_all_is_well_keeps_every_promise() {
    assert_eq!(told(Case::default()), (vec![], vec![]));
    // A session that is down beside one that is up, and an address that is refused beside those that are not, are no trouble.
    let sessions = Some(bgpd(&[("100.64.1.0", true), ("100.64.2.0", false)]));
    assert_eq!(told(Case { frr: sessions, ..Case::default() }).0, [""; 0]);
    let one =
        problem("address", "172.24.4.10", "apply-failed", "add address: Invalid argument (os error 22)");
    let case = Case { problems: vec![one], announced: Some((2, 3)), ..Case::default() };
    assert_eq!(told(case), (vec![], vec![]));
    // A tenant's words are no verdict of the kernel.
    let name = problem("port", "Operation not permitted", "bad-addresses", "Operation not permitted");
    assert_eq!(told(Case { problems: vec![name], ..Case::default() }), (vec![], vec![]));
}

#[test]
fn each_promise_that_is_broken_is_said_once_and_in_words() {
    let silent = || Some(frr::Observed::Silent("connection refused".into()));
    let denied = problem(
        "address",
        "172.24.4.10",
        "apply-failed",
        "add address: Operation not permitted (os error 1)",
    );
    let refused =
        problem("address", "172.24.4.10", "apply-failed", "add address: Invalid argument (os error 22)");
    let case = Case::default;
    for (what, case, words) in [
        (
            "database",
            Case { lost: Some((65, "no answer")), ..case() },
            "OVN_Southbound has been out of sync for 65 s (no answer)",
        ),
        ("no neighbour", Case { frr: Some(bgpd(&[])), ..case() }, "FRR has no BGP neighbour"),
        (
            "none up",
            Case { frr: Some(bgpd(&[("100.64.1.0", false)])), ..case() },
            "no BGP session is established, so no address reaches the fabric; down: 100.64.1.0",
        ),
        ("hung", Case { open: Some(4), ..case() }, "FRR has not replied for 4 s: bgpd answered 2 s ago"),
        ("silent", Case { frr: silent(), ..case() }, "bgpd does not answer (connection refused)"),
        (
            "silent, reported",
            Case {
                frr: silent(),
                problems: vec![problem("frr", "bgp-vrf", "frr-silent", "bgpd is away")],
                ..case()
            },
            "frr/bgp-vrf: bgpd is away",
        ),
        (
            "zebra",
            Case { problems: vec![problem("frr", "bgp-vrf", "zebra-silent", "zebra is away")], ..case() },
            "frr/bgp-vrf: zebra is away",
        ),
        (
            "no right",
            Case { problems: vec![denied], announced: Some((2, 3)), ..case() },
            "announced: 2 of 3 addresses and prefixes: the kernel does not permit changes",
        ),
        (
            "all refused",
            Case { problems: vec![refused], announced: Some((0, 3)), ..case() },
            "announced: 0 of 3 addresses and prefixes; every one is refused",
        ),
        ("chassis", Case { silence: Some(Silence::ChassisGone), ..case() }, "OVN does not know this chassis"),
        ("NORMAL", Case { seen: Some(flows(NormalFlow::Missing, 2)), ..case() }, "br-ex: no NORMAL flow"),
        (
            "NORMAL, reported",
            Case {
                seen: Some(flows(NormalFlow::Replaced, 2)),
                problems: vec![problem("flows", "br-ex:NORMAL", "no-normal-flow", "drops")],
                ..case()
            },
            "flows/br-ex:NORMAL: drops",
        ),
        (
            "our flows",
            Case { seen: Some(flows(NormalFlow::There, 0)), ..case() },
            "br-ex: no flow hands packets of the overlay to the kernel",
        ),
        (
            "switch",
            Case { seen: Some(Some(Seen::Silent("gone".into()))), ..case() },
            "br-ex: the path into OVN is not known",
        ),
        ("not looked at", Case { seen: Some(None), ..case() }, "br-ex: its flows were not observed"),
    ] {
        let (trouble, broken) = told(case);
        assert!(trouble.len() == 1 && trouble[0].contains(words), "{what}: {trouble:?}");
        assert_eq!(broken.len(), 1, "{what}: {broken:?}");
    }
    assert_eq!(
        told(Case { waiting_for: Some("a database"), ..case() }).0,
        ["the agent waits for a database"]
    );
    assert_eq!(told(Case { open: Some(1), ..case() }).0, [""; 0], "a question may take its moment");
}

#[test]
fn every_promise_has_a_line() {
    let (bridge, seen) = (Dev::new("br-ex"), flows(NormalFlow::There, 2));
    let inputs = Inputs {
        status: &serde_json::from_value(serde_json::json!({
            "component": "bgp", "state": "converged", "waiting_for": null, "want": 3, "have": 3, "planned": 0, "held": 0,
            "generation": 7, "last_run": null, "last_success": null, "last_error": null, "next_try": null, "stages": [], "problems": [],
        }))
        .unwrap(),
        silence: None,
        databases: vec![DatabaseState { name: "OVN_Southbound".into(), lost: None }],
        plane: Some(PlaneState {
            frr: &bgpd(&[("100.64.1.0", true), ("100.64.2.0", false)]),
            answered: Some(Duration::from_secs(2)),
            open: None,
            announced: Count { want: 3, have: 3, pending: 0 },
            bridges: [(&bridge, seen.as_ref())].into(),
        }),
    };
    let lines: Vec<String> = promises(&inputs).into_iter().map(|promise| promise.text).collect();
    assert_eq!(
        lines,
        [
            "OVN_Southbound is in sync",
            "FRR carries announcements: bgpd answered 2 s ago, zebra serves it",
            "BGP sessions: 1 of 2 established; down: 100.64.2.0",
            "announced: 3 of 3 addresses and prefixes",
            "br-ex: packets reach OVN and return",
        ]
    );
}
