//! Recorded replies of bgpd: of FRR 8.4.4 (Debian 12) alone, and of FRR 10.3 (Debian 13) in the lab, with a peer.
//!
//! | file | recorded of |
//! |---|---|
//! | `lone.conf`, `lone-vrfs.json` | an instance without neighbours, VRF or filters |
//! | `operator.conf` | the sample that an operator starts from |
//! | `leak.conf`, `vrfs.json` | the same, with the agent's part |
//! | `vrfs-untied.json` | an instance that `import vrf` had made by itself before the VRF was there |
//! | `summary*.json` | a peer that is up (for IPv6 as well), one that is down, none |
//! | `route*.json` | an address that the peer hears of (also an IPv6 one), one that a filter drops, one that is not there |

use std::collections::BTreeSet;

use super::adrift::untied;
use super::config::parse;
use super::default_router_id;
use super::plan::plan;
use super::state::{BgpdState, Desired, Observed, Redistribute};
use crate::bgp::peers::PeerReport;

/// The replies of one version.
struct RecordedVersion {
    version: &'static str,
    lone: &'static str,
    lone_vrfs: &'static str,
    operator: &'static str,
    leak: &'static str,
    vrfs: &'static str,
    down: &'static str,
    no_peers: &'static str,
    no_route: &'static str,
}

macro_rules! said {
    ($version:literal) => {
        RecordedVersion {
            version: $version,
            lone: include_str!(concat!("recorded/", $version, "/lone.conf")),
            lone_vrfs: include_str!(concat!("recorded/", $version, "/lone-vrfs.json")),
            operator: include_str!(concat!("recorded/", $version, "/operator.conf")),
            leak: include_str!(concat!("recorded/", $version, "/leak.conf")),
            vrfs: include_str!(concat!("recorded/", $version, "/vrfs.json")),
            down: include_str!(concat!("recorded/", $version, "/summary-down.json")),
            no_peers: include_str!(concat!("recorded/", $version, "/summary-none.json")),
            no_route: include_str!(concat!("recorded/", $version, "/route-none.json")),
        }
    };
}

const VERSIONS: [RecordedVersion; 2] = [said!("8.4"), said!("10.3")];
const UNTIED: &str = include_str!("recorded/10.3/vrfs-untied.json");
const UP: &str = include_str!("recorded/10.3/summary.json");
const HEARD: &str = include_str!("recorded/10.3/route.json");
const UP6: &str = include_str!("recorded/10.3/summary6.json");
const HEARD6: &str = include_str!("recorded/10.3/route6.json");
const FILTERED: &str = include_str!("recorded/10.3/route-filtered.json");

/// The default desired state of an agent.
pub(super) fn want() -> Desired {
    Desired {
        asn: "64999".into(),
        vrf: "bgp-vrf".into(),
        router_id: None,
        redistribute: [Redistribute::Connected].into(),
    }
}

/// The lines that the agent enters, given bgpd's configuration.
fn entered(config: &str, vrfs: &str) -> Vec<String> {
    let (tree, router_id) = (parse(config), default_router_id(vrfs));
    let have = Observed::Bgpd(BgpdState { tree, router_id, ..Default::default() });
    let part = plan(&want(), &have);
    assert!(part.problems.is_empty(), "{:?}", part.problems);
    part.steps.into_iter().flat_map(|step| step.op.lines).collect()
}

#[test]
fn nothing_is_entered_where_all_is_there() {
    for said in VERSIONS {
        assert!(said.leak.starts_with(&format!("frr version {}", said.version)), "{}", said.leak);
        assert_eq!(entered(said.leak, said.vrfs), [""; 0], "FRR {}", said.version);
    }
}

#[test]
fn both_stanzas_are_entered_beside_the_operators_and_with_its_router_id() {
    for said in VERSIONS {
        for (config, vrfs, id) in
            [(said.lone, said.lone_vrfs, "172.30.1.7"), (said.operator, said.vrfs, "172.30.1.1")]
        {
            let lines = entered(config, vrfs);
            let count = |words: &str| lines.iter().filter(|line| *line == words).count();
            let id = format!("bgp router-id {id}");
            let counted = ["import vrf bgp-vrf", "redistribute connected", id.as_str()].map(count);
            assert_eq!(counted, [2, 2, 1], "FRR {}: {lines:#?}", said.version);
        }
    }
}

#[test]
fn a_line_that_went_is_all_that_is_entered() {
    for said in VERSIONS {
        let without = said.leak.replacen("  import vrf bgp-vrf\n", "", 1);
        let lines = [
            "router bgp 64999",
            "address-family ipv4 unicast",
            "import vrf bgp-vrf",
            "exit-address-family",
            "exit",
        ];
        assert_eq!(entered(&without, said.vrfs), lines, "FRR {}", said.version);
    }
}

#[test]
fn instances_that_do_not_know_their_vrf_are_read() {
    let vrfs = BTreeSet::from(["bgp-vrf".into()]);
    let [alone, tied] = VERSIONS.map(|said| said.vrfs);
    // The first of them was recorded of a bgpd without zebra, which nobody tells of VRFs.
    for (json, count) in [(alone, 1), (UNTIED, 1), (tied, 0)] {
        assert_eq!(untied(json, &vrfs).len(), count, "{json}");
        assert_eq!(untied(json, &BTreeSet::new()), BTreeSet::new());
    }
}

#[test]
fn who_hears_of_an_address_is_read() {
    let told =
        |summary: &str, route: &str| PeerReport::read(summary, route).told("172.24.4.10".parse().unwrap());
    assert_eq!(told(UP, HEARD), "FRR advertises 172.24.4.10 to 100.64.1.0.");
    assert!(told(UP, FILTERED).contains("FRR has 172.24.4.10 but advertises it to none of 100.64.1.0"));
    let six = PeerReport::read(UP6, HEARD6).told("2001:db8:24::10".parse().unwrap());
    assert_eq!(six, "FRR advertises 2001:db8:24::10 to 100.64.1.0.");
    for said in VERSIONS {
        assert!(told(UP, said.no_route).contains("has no route for 172.24.4.10"), "FRR {}", said.version);
        assert!(
            told(said.no_peers, said.no_route).contains("FRR has no peer for IPv4"),
            "FRR {}",
            said.version
        );
        let down = told(said.down, said.no_route);
        assert!(down.contains("of its peers 100.64.1.0 none is up"), "FRR {}: {down}", said.version);
    }
}
