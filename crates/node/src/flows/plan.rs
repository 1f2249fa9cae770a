//! From wanted and seen flows to changes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use reconcile::{Class, Problem};

use super::state::{Bridge, BridgeFlows, Desired, Flow, NormalFlow, Observed, Op, PRIORITY, Seen, SeenFlow};
use crate::ProblemCode;
use crate::kernel::Dev;
use crate::part::Part;
use crate::part::keep::Keep;
use crate::part::kind::Kind;
use crate::part::object;
use crate::part::phase::Phase;

/// What leads from `have` to `want`.
pub fn plan(want: &Desired, keep: &Keep, have: &Observed) -> Part<Op> {
    let mut part = Part::default();
    let none = BridgeFlows::default();
    for (name, bridge) in want {
        let seen = match have.get(name) {
            Some(Seen::Flows(flows)) => flows,
            Some(Seen::Silent(why)) => {
                let message = format!(
                    "Open vSwitch does not answer for it ({why}), so packets from the overlay are not steered; see that \
                     ovs-vswitchd runs"
                );
                part.problems.push(Problem::error(
                    object::device(name),
                    Class::Transient,
                    ProblemCode::NoOpenflow,
                    message,
                ));
                &none
            }
            None => &none,
        };
        normal(&mut part, name, bridge, seen.normal);
        let wanted: BTreeSet<Flow> = bridge.ports.keys().flat_map(|port| bridge.flows_of(*port)).collect();
        for flow in &wanted {
            if !part.count(Kind::Flow, seen.iter().any(|seen| is(seen, flow))) {
                let op = Op::Add { bridge: name.clone(), flow: *flow };
                part.push(Phase::Flow, object::flows(name, flow.in_port), op);
            }
        }
        // Which of them are stale is not known while the switch does not tell what they are to be.
        if !bridge.is_told() {
            continue;
        }
        // A flow with the same match is corrected by the one that is added.
        let corrected = |seen: &SeenFlow| {
            let place =
                |flow: &Flow| wanted.iter().any(|w| (w.in_port, w.family) == (flow.in_port, flow.family));
            seen.table == 0 && seen.priority == PRIORITY && seen.flow.as_ref().is_some_and(place)
        };
        delete(&mut part, name, seen.iter().filter(|seen| !corrected(seen)));
    }
    for (name, seen) in have {
        if let (false, Seen::Flows(flows)) = (want.contains_key(name) || keep.device(name), seen) {
            delete(&mut part, name, flows.iter());
        }
    }
    part
}

/// Sees that packets which no flow of ours matches are switched. A bridge without patch ports carries nothing of ours.
fn normal(part: &mut Part<Op>, name: &Dev, bridge: &Bridge, seen: NormalFlow) {
    if seen == NormalFlow::There || bridge.ports.is_empty() {
        return;
    }
    if seen == NormalFlow::Missing && bridge.restore_normal {
        return part.push(Phase::Flow, object::forwarding(name), Op::AddNormal { bridge: name.clone() });
    }
    let whose = match bridge.restore_normal {
        true => "somebody else has flows on it",
        false => "it has a controller or fail_mode=secure, so its flows are somebody else's",
    };
    let message = format!(
        "no flow with actions=NORMAL matches every packet, and {whose}: what the kernel sends into the overlay is probably dropped. \
         Where that is not on purpose, run `ovs-ofctl add-flow {name} priority=0,actions=NORMAL`"
    );
    part.problems.push(Problem::error(
        object::forwarding(name),
        Class::Refused,
        ProblemCode::NoNormalFlow,
        message,
    ));
}

fn is(seen: &SeenFlow, flow: &Flow) -> bool {
    seen.table == 0 && seen.priority == PRIORITY && seen.flow.as_ref() == Some(flow)
}

fn delete<'a>(part: &mut Part<Op>, bridge: &Dev, flows: impl Iterator<Item = &'a SeenFlow>) {
    for seen in flows {
        let object = object::flows(bridge, seen.flow.map_or(0, |flow| flow.in_port));
        part.push(Phase::DropFlow, object, Op::Delete { bridge: bridge.clone(), seen: seen.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::state::Matched;

    fn want(mac: u8, ports: &[u32]) -> Desired {
        let ports = ports.iter().map(|port| (*port, "br-ex".into())).collect();
        let mac = Some(ovn::MacAddr([2, 0, 0, 0, 0, mac]));
        [("br-ex".into(), Bridge { mac, ports, ..Default::default() })].into()
    }

    fn seen(want: &Desired) -> Observed {
        let flows = |bridge: &Bridge| -> BTreeSet<SeenFlow> {
            bridge.ports.keys().flat_map(|p| bridge.flows_of(*p)).map(SeenFlow::plain).collect()
        };
        want.iter().map(|(name, bridge)| (name.clone(), Seen::Flows(flows(bridge).into()))).collect()
    }

    fn text(want: &Desired, have: &Observed) -> Vec<String> {
        let mut steps = plan(want, &Keep::default(), have).steps;
        steps.sort_by_key(|step| step.phase);
        steps.iter().map(|step| step.op.to_string()).collect()
    }

    #[test]
    fn nothing_to_do_where_all_is_there() {
        let want = want(1, &[5, 7]);
        let part = plan(&want, &Keep::default(), &seen(&want));
        assert_eq!((part.steps.len(), part.counts.want(), part.counts.have()), (0, 4, 4));
    }

    #[test]
    fn a_port_that_changes_its_number_gets_new_flows_before_the_old_go() {
        assert_eq!(
            text(&want(1, &[9]), &seen(&want(1, &[7]))),
            [
                "add flow ip,in_port=9 actions=mod_dl_dst:02:00:00:00:00:01,NORMAL to br-ex",
                "add flow ipv6,in_port=9 actions=mod_dl_dst:02:00:00:00:00:01,NORMAL to br-ex",
                "delete flow ip,in_port=7 actions=mod_dl_dst:02:00:00:00:00:01,NORMAL from br-ex",
                "delete flow ipv6,in_port=7 actions=mod_dl_dst:02:00:00:00:00:01,NORMAL from br-ex",
            ]
        );
    }

    #[test]
    fn a_bridge_with_a_new_address_has_its_flows_corrected_in_place() {
        let steps = text(&want(2, &[5]), &seen(&want(1, &[5])));
        assert_eq!(steps.len(), 2);
        assert!(
            steps.iter().all(|step| step.starts_with("add flow") && step.contains(":00:02,")),
            "{steps:?}"
        );
    }

    #[test]
    fn flows_of_our_cookie_in_another_form_go_and_so_do_those_of_unmapped_bridges() {
        let want = want(1, &[5]);
        let mut have = seen(&want);
        let odd = SeenFlow { flow: None, table: 3, priority: 900, matched: Matched::default() };
        let low = SeenFlow { priority: 10, ..SeenFlow::plain(want["br-ex"].flows_of(5).next().unwrap()) };
        let Some(Seen::Flows(flows)) = have.get_mut("br-ex") else { panic!() };
        flows.extend([odd.clone(), low]);
        have.insert("br-old".into(), Seen::Flows(BTreeSet::from([odd]).into()));
        let steps = text(&want, &have);
        assert_eq!(steps.len(), 3);
        assert!(steps.iter().all(|step| step.starts_with("delete")), "{steps:?}");
    }

    #[test]
    fn while_something_is_not_told_flows_are_added_and_none_go() {
        let have = seen(&want(1, &[5, 33]));
        let mut untold = want(1, &[7]);
        untold.get_mut("br-ex").unwrap().unnumbered.insert("br-ex.100".into());
        let steps = text(&untold, &have);
        assert_eq!(steps.len(), 2);
        assert!(
            steps.iter().all(|step| step.starts_with("add flow") && step.contains("in_port=7")),
            "{steps:?}"
        );
        untold.get_mut("br-ex").unwrap().mac = None;
        assert_eq!(text(&untold, &have), [""; 0]);
    }

    #[test]
    fn what_comes_back_from_a_network_needs_the_flows_of_its_ports() {
        let mut bridge = want(1, &[5]).remove("br-ex").unwrap();
        let (flat, vlan) = (Dev::new("br-ex"), Dev::new("br-ex.100"));
        let flows = |bridge: &Bridge, dev: &Dev| bridge.flows_to(dev).map(|flows| flows.len());
        assert_eq!((flows(&bridge, &flat), flows(&bridge, &vlan)), (Some(2), Some(0)), "no port, no flows");
        bridge.unnumbered.insert(vlan.clone());
        assert_eq!((flows(&bridge, &flat), flows(&bridge, &vlan)), (Some(2), None));
        bridge = Bridge { mac: None, unnumbered: BTreeSet::new(), ..bridge };
        assert_eq!((flows(&bridge, &flat), flows(&bridge, &vlan)), (None, Some(0)));
    }

    #[test]
    fn the_normal_flow_is_restored_where_nobody_else_writes_flows_and_reported_where_somebody_does() {
        for (seen_normal, restore, added, problems) in [
            (NormalFlow::There, true, 0, 0),
            (NormalFlow::There, false, 0, 0),
            (NormalFlow::Missing, true, 1, 0),
            (NormalFlow::Missing, false, 0, 1),
            (NormalFlow::Replaced, true, 0, 1),
            (NormalFlow::Replaced, false, 0, 1),
        ] {
            let mut want = want(1, &[5]);
            want.get_mut("br-ex").unwrap().restore_normal = restore;
            let mut have = seen(&want);
            let Some(Seen::Flows(flows)) = have.get_mut("br-ex") else { panic!() };
            flows.normal = seen_normal;
            let part = plan(&want, &Keep::default(), &have);
            assert_eq!(
                (part.steps.len(), part.problems.len()),
                (added, problems),
                "{seen_normal:?}, {restore}"
            );
            assert!(part.problems.iter().all(|problem| problem.code == "no-normal-flow"));
            want.get_mut("br-ex").unwrap().ports.clear();
            let part = plan(&want, &Keep::default(), &have);
            assert_eq!(part.problems.len(), 0, "a bridge that carries nothing of ours is not our matter");
        }
    }

    #[test]
    fn a_silent_bridge_is_reported_and_its_flows_are_tried() {
        let want = want(1, &[5]);
        let part = plan(&want, &Keep::default(), &[("br-ex".into(), Seen::Silent("gone".into()))].into());
        assert_eq!((part.steps.len(), part.problems.len()), (2, 1));
        assert_eq!(part.problems[0].code, "no-openflow");
    }
}
