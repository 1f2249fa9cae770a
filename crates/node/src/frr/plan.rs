//! From what bgpd's configuration says to the lines that are missing or too many.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::Ipv4Addr;

use reconcile::{Class, Problem};

use super::config::Node;
use super::state::{Desired, Observed, Op, Redistribute};
use crate::plane::kind::Kind;
use crate::plane::object;
use crate::plane::phase::{Part, Phase};

const FAMILIES: [&str; 2] = ["address-family ipv4 unicast", "address-family ipv6 unicast"];

/// What leads from `have` to `want`.
pub fn plan(want: &Desired, have: &Observed) -> Part<Op> {
    let mut part = Part::default();
    let object = object::frr(&want.vrf);
    let (tree, router_id) = match have {
        Observed::Config { tree, router_id } => (tree, *router_id),
        Observed::Silent(why) => {
            part.count(Kind::Stanza, false);
            let message =
                format!("bgpd does not answer ({why}), so nothing is announced; see that FRR runs with bgpd");
            part.problems.push(Problem::error(object, Class::Transient, "frr-silent", message));
            return part;
        }
    };
    let default = instance(tree, None);
    let vrf = instance(tree, Some(&want.vrf));
    for (found, what) in [(default, "router bgp"), (vrf, "the VRF's router bgp")] {
        if let Some((asn, _)) = found.filter(|(asn, _)| number(asn) != number(&want.asn)) {
            part.count(Kind::Stanza, false);
            let message =
                format!("{what} of FRR is in AS {asn} and bgp_AS is {}; make them the same", want.asn);
            part.problems.push(Problem::error(object, Class::Refused, "another-as", message));
            return part;
        }
    }
    let mut lines = Vec::new();
    stanza(&mut lines, format!("router bgp {}", want.asn), default.is_none(), |lines| {
        let import = format!("import vrf {}", want.vrf);
        for name in FAMILIES {
            let there = default.and_then(|(_, node)| node.child(name)).is_some_and(|node| node.says(&import));
            family(lines, name, (!there).then(|| import.clone()).into_iter());
        }
    });
    stanza(&mut lines, format!("router bgp {} vrf {}", want.asn, want.vrf), vrf.is_none(), |lines| {
        lines.extend(missing_id(want, vrf.map(|(_, node)| node), router_id));
        for name in FAMILIES {
            let node = vrf.and_then(|(_, node)| node.child(name));
            let changes = Redistribute::ALL.into_iter().filter_map(|source| {
                let line = format!("redistribute {}", source.as_str());
                let (wanted, says) =
                    (want.redistribute.contains(&source), node.is_some_and(|n| n.says(&line)));
                // A line with more to it is the operator's, and does for ours.
                let plain = node.is_some_and(|node| node.child(&line).is_some());
                match (wanted, says, plain) {
                    (true, false, _) => Some(line),
                    (false, _, true) => Some(format!("no {line}")),
                    _ => None,
                }
            });
            family(lines, name, changes);
        }
    });
    if !part.count(Kind::Stanza, lines.is_empty()) {
        part.push(Phase::Stanza, object, Op { lines });
    }
    part
}

/// Adds the lines of a stanza, if it has any to add or is missing.
fn stanza(lines: &mut Vec<String>, head: String, missing: bool, body: impl FnOnce(&mut Vec<String>)) {
    let mut inner = Vec::new();
    body(&mut inner);
    if missing || !inner.is_empty() {
        lines.push(head);
        lines.append(&mut inner);
        lines.push("exit".into());
    }
}

fn family(lines: &mut Vec<String>, name: &str, changes: impl Iterator<Item = String>) {
    let mut changes = changes.peekable();
    if changes.peek().is_some() {
        lines.push(name.into());
        lines.extend(changes);
        lines.push("exit-address-family".into());
    }
}

/// The line that gives the VRF's instance its router id: the one asked for, or the default instance's where it has none.
/// Without any FRR chooses by itself, and as the instance has no peers that does no harm.
fn missing_id(want: &Desired, vrf: Option<&Node>, default: Option<Ipv4Addr>) -> Option<String> {
    match want.router_id {
        Some(id) => {
            let line = format!("bgp router-id {id}");
            vrf.is_none_or(|node| node.child(&line).is_none()).then_some(line)
        }
        None => {
            let has = vrf.is_some_and(|node| node.says("bgp router-id"));
            default.filter(|_| !has).map(|id| format!("bgp router-id {id}"))
        }
    }
}

/// The BGP instance of a VRF, or the default one, with its autonomous system.
fn instance<'a>(tree: &'a [Node], vrf: Option<&str>) -> Option<(&'a str, &'a Node)> {
    tree.iter().find_map(|node| {
        let mut words = node.line.split_ascii_whitespace();
        let head = (words.next(), words.next());
        let asn = words.next().filter(|_| head == (Some("router"), Some("bgp")))?;
        let place = match (words.next(), words.next()) {
            (Some("vrf"), name) => name,
            (Some("view"), _) => return None,
            _ => None,
        };
        (place == vrf).then_some((asn, node))
    })
}

/// An autonomous system's number, from either notation.
fn number(asn: &str) -> Option<u32> {
    match asn.split_once('.') {
        Some((high, low)) => {
            let (high, low) = (high.parse::<u16>().ok()?, low.parse::<u16>().ok()?);
            Some(u32::from(high) << 16 | u32::from(low))
        }
        None => asn.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::parse;
    use super::*;

    fn want() -> Desired {
        Desired {
            asn: "64999".into(),
            vrf: "bgp-vrf".into(),
            router_id: None,
            redistribute: [Redistribute::Connected].into(),
        }
    }

    fn have(text: &str) -> Observed {
        Observed::Config { tree: parse(text), router_id: Some(Ipv4Addr::new(172, 30, 1, 1)) }
    }

    fn lines(want: &Desired, text: &str) -> String {
        let part = plan(want, &have(text));
        part.steps.iter().flat_map(|step| &step.op.lines).cloned().collect::<Vec<_>>().join("\n")
    }

    /// What bgpd shows once all lines were entered.
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
address-family ipv4 unicast
import vrf bgp-vrf
exit-address-family
address-family ipv6 unicast
import vrf bgp-vrf
exit-address-family
exit
router bgp 64999 vrf bgp-vrf
bgp router-id 172.30.1.1
address-family ipv4 unicast
redistribute connected
exit-address-family
address-family ipv6 unicast
redistribute connected
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
        let have = Observed::Config { tree: parse(""), router_id: None };
        let part = plan(&want(), &have);
        assert!(!part.steps[0].op.lines.iter().any(|line| line.contains("router-id")));
    }
}
