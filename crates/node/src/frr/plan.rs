//! From what bgpd's configuration says to the lines that are missing or too many.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::Ipv4Addr;

use reconcile::{Class, Problem};

use super::adrift::Adrift;
use super::behind::{Behind, Cure};
use super::config::{Node, instance};
use super::state::{BgpdState, Desired, FAMILIES, Observed, Op, Redistribute, Zebra};
use crate::ProblemCode;
use crate::kernel::Family;
use crate::part::Part;
use crate::part::kind::Kind;
use crate::part::object;
use crate::part::phase::Phase;

/// The steps from `have` to `want`.
pub fn plan(want: &Desired, have: &Observed) -> Part<Op> {
    let mut part = Part::default();
    let object = object::frr(&want.vrf);
    let BgpdState { tree, router_id, adrift, behind, zebra, no_default, .. } = match have {
        Observed::Bgpd(state) => state,
        Observed::Silent(why) => {
            part.count(Kind::Stanza, false);
            let message =
                format!("bgpd does not answer ({why}), so nothing is announced; see that FRR runs with bgpd");
            part.problems.push(Problem::error(object, Class::Transient, ProblemCode::FrrSilent, message));
            return part;
        }
    };
    let adrift = adrift.get(&want.vrf);
    let default = instance(tree, None);
    let vrf = instance(tree, Some(&want.vrf));
    for (found, what) in [(default, "router bgp"), (vrf, "the VRF's router bgp")] {
        if let Some((asn, _)) = found.filter(|(asn, _)| number(asn) != number(&want.asn)) {
            part.count(Kind::Stanza, false);
            let message =
                format!("{what} of FRR is in AS {asn} and bgp_AS is {}; make them the same", want.asn);
            part.problems.push(Problem::error(object, Class::Refused, ProblemCode::AnotherAs, message));
            return part;
        }
    }
    if adrift.is_some() {
        let message = format!(
            "bgpd does not know that the VRF {} is there, so nothing of it is announced; its router bgp is entered anew, and \
             where that does not help, see that zebra runs and restart FRR",
            want.vrf
        );
        part.problems.push(Problem::warning(
            object.clone(),
            Class::Transient,
            ProblemCode::LeakStuck,
            message,
        ));
    }
    part.problems.extend(zebra_problem(want, zebra));
    part.problems.extend(no_default.iter().map(|family| return_problem(want, *family)));
    let behind = behind.get(&want.vrf).filter(|_| adrift.is_none());
    part.problems.extend(behind.map(|behind| behind_problem(want, behind)));
    let cure = behind.and_then(|behind| behind.cure);
    let due = adrift == Some(&Adrift::Due) || cure == Some(Cure::Instance);
    // Only one that is there can be entered anew.
    let anew = vrf.filter(|_| due).map(|(_, node)| node);
    let (head, import) = (format!("router bgp {}", want.asn), format!("import vrf {}", want.vrf));
    let imports =
        |name| default.and_then(|(_, node)| node.child(name)).is_some_and(|node| node.says(&import));
    let mut lines = Vec::new();
    stanza(&mut lines, &head, default.is_none(), |lines| {
        for name in FAMILIES {
            family(
                lines,
                name,
                (anew.is_some() && imports(name)).then(|| format!("no {import}")).into_iter(),
            );
        }
    });
    let vrf_head = format!("{head} vrf {}", want.vrf);
    lines.extend(anew.map(|_| format!("no {vrf_head}")));
    stanza(&mut lines, &vrf_head, vrf.is_none() || anew.is_some(), |lines| {
        anew.into_iter().for_each(|node| again(lines, &node.children));
        lines.extend(missing_id(want, vrf.map(|(_, node)| node), *router_id));
        for name in FAMILIES {
            let node = vrf.and_then(|(_, node)| node.child(name));
            let changes = Redistribute::ALL.into_iter().flat_map(|source| {
                let line = format!("redistribute {}", source.as_str());
                let (wanted, says) =
                    (want.redistribute.contains(&source), node.is_some_and(|n| n.says(&line)));
                // A line with more to it is the operator's, and does for ours.
                let plain = node.is_some_and(|node| node.child(&line).is_some());
                match (wanted, says, plain) {
                    (true, false, _) => vec![line],
                    (true, _, true) if cure == Some(Cure::Redistribute) => vec![format!("no {line}"), line],
                    (false, _, true) => vec![format!("no {line}")],
                    _ => Vec::new(),
                }
            });
            family(lines, name, changes);
        }
    });
    // After the VRF's own: an instance that `import vrf` has to make by itself may never learn of its VRF.
    stanza(&mut lines, &head, false, |lines| {
        for name in FAMILIES {
            family(lines, name, (anew.is_some() || !imports(name)).then(|| import.clone()).into_iter());
        }
    });
    part.count(Kind::Stanza, lines.is_empty() && adrift.is_none() && behind.is_none());
    if !lines.is_empty() {
        part.push(Phase::Stanza, object, Op { lines });
    }
    part
}

/// zebra tells bgpd of addresses and puts what bgpd learns into the kernel: without it the node only seems to be part of the fabric.
fn zebra_problem(want: &Desired, zebra: &Zebra) -> Option<Problem> {
    let (code, message) = match zebra {
        Zebra::Unknown | Zebra::Connected => return None,
        Zebra::Apart => {
            let message = "zebra answers, but bgpd is not connected to it, so bgpd gets no address that comes or goes; bgpd connects \
                           by itself within a minute, and where it does not, restart FRR";
            (ProblemCode::ZebraApart, message.to_owned())
        }
        Zebra::Silent(why) => {
            let message = format!(
                "zebra does not answer ({why}), so bgpd gets no address that comes or goes, and no route that it learns \
                 reaches the kernel; start zebra"
            );
            (ProblemCode::ZebraSilent, message)
        }
    };
    Some(Problem::error(object::frr(&want.vrf), Class::Transient, code, message))
}

/// Packets for announced addresses come in, and answers do not leave.
fn return_problem(want: &Desired, family: Family) -> Problem {
    let name = match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    let message = format!(
        "bgpd has learned a default route for {name}, and the kernel has none, so answers do not leave this node; zebra has probably \
         lost it: restart FRR, or see what filters it"
    );
    Problem::error(object::frr(&want.vrf), Class::Transient, ProblemCode::NoReturnRoute, message)
}

fn behind_problem(want: &Desired, behind: &Behind) -> Problem {
    let some = |count: usize, first: Option<&ipnet::IpNet>, what: &str| match (count, first) {
        (0, _) | (_, None) => None,
        (1, Some(first)) => Some(format!("{first} {what}")),
        (_, Some(first)) => Some(format!("{first} and {} others {what}", count - 1)),
    };
    let difference = &behind.difference;
    let missing = some(difference.missing.len(), difference.missing.first(), "announced by nobody");
    let stale = some(difference.stale.len(), difference.stale.first(), "still announced, though gone");
    let which: Vec<String> = [missing, stale].into_iter().flatten().collect();
    let message = format!(
        "bgpd does not have what is in the VRF {}: {}. zebra was probably restarted alone, or a device renamed. The agent enters \
         `redistribute` and then the VRF's router bgp anew; where that does not help, restart FRR",
        want.vrf,
        which.join("; ")
    );
    Problem::error(object::frr(&want.vrf), Class::Transient, ProblemCode::FrrBehind, message)
}

/// Adds the lines of a stanza, if it has any to add or is missing.
fn stanza(lines: &mut Vec<String>, head: &str, missing: bool, body: impl FnOnce(&mut Vec<String>)) {
    let mut inner = Vec::new();
    body(&mut inner);
    if missing || !inner.is_empty() {
        lines.push(head.into());
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

/// The lines of a stanza as they are, whoever entered them.
fn again(lines: &mut Vec<String>, nodes: &[Node]) {
    for node in nodes {
        lines.push(node.line.clone());
        if !node.children.is_empty() {
            again(lines, &node.children);
            let end = match node.line.split_ascii_whitespace().next() {
                Some("address-family") => "exit-address-family",
                Some("vni") => "exit-vni",
                _ => "exit",
            };
            lines.push(end.into());
        }
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
mod tests;
