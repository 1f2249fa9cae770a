//! From wanted and seen ports to changes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use reconcile::{Class, Problem};

use super::state::{Desired, Observed, Op, Port, SeenPort};
use crate::ProblemCode;
use crate::kernel::Dev;
use crate::part::Part;
use crate::part::keep::Keep;
use crate::part::kind::Kind;
use crate::part::object;
use crate::part::phase::Phase;

/// The steps from `have` to `want`. `device` returns whether the kernel has a device.
pub fn plan(want: &Desired, keep: &Keep, have: &Observed, device: impl Fn(&Dev) -> bool) -> Part<Op> {
    let mut part = Part::default();
    let mut problem = |dev: &Dev, class, code: ProblemCode, message: String| {
        part.problems.push(Problem::error(object::device(dev), class, code, message));
    };
    for (dev, _) in want.iter().filter(|(dev, _)| !have.ours.contains_key(*dev) && have.others.contains(*dev))
    {
        let message = "a port of this name is in Open vSwitch and was not made by the agent; rename or remove it \
                       (ovs-vsctl del-port)";
        problem(dev, Class::Refused, ProblemCode::PortInTheWay, message.into());
    }
    for (dev, seen) in have.ours.iter().filter(|(dev, seen)| stays(want, dev, seen) && !device(dev)) {
        let why = match &seen.error {
            Some(error) => format!("it says: {error}"),
            None => "see that ovs-vswitchd runs".into(),
        };
        let message = format!("Open vSwitch has not made the device of this port yet; {why}");
        problem(dev, Class::Transient, ProblemCode::NoDeviceOfPort, message);
    }
    for (dev, port) in want {
        match have.ours.get(dev) {
            None => {
                part.count(Kind::Port, false);
                // Of a bridge whose address nobody knows it is said elsewhere.
                if let (Some(mac), false) = (port.mac, have.others.contains(dev)) {
                    let op = Op::Add { dev: dev.clone(), bridge: port.bridge.clone(), tag: port.tag, mac };
                    part.push(Phase::Device, object::device(dev), op);
                }
            }
            // First it goes from where it is.
            Some(seen) if seen.bridge != port.bridge => _ = part.count(Kind::Port, false),
            Some(seen) => {
                if !part.count(Kind::Port, is(seen, port)) {
                    let op = Op::Correct { dev: dev.clone(), port: port.clone(), seen: seen.clone() };
                    part.push(Phase::Device, object::device(dev), op);
                }
            }
        }
    }
    for (dev, seen) in &have.ours {
        if !stays(want, dev, seen) && !keep.device(dev) && !keep.device(&seen.bridge) {
            let op = Op::Delete { dev: dev.clone(), seen: seen.clone() };
            part.push(Phase::DropDevice, object::device(dev), op);
        }
    }
    part
}

fn stays(want: &Desired, dev: &Dev, seen: &SeenPort) -> bool {
    want.get(dev).is_some_and(|port| port.bridge == seen.bridge)
}

fn is(seen: &SeenPort, port: &Port) -> bool {
    seen.internal && seen.tag == Some(port.tag) && port.mac.is_none_or(|mac| seen.mac == Some(mac))
}

#[cfg(test)]
mod tests {
    use ovn::MacAddr;
    use ovsdb::{Ref, Uuid};

    use super::*;
    use crate::ports::state::Rows;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 1]);

    fn want() -> Desired {
        [("br-ex.100".into(), Port { bridge: "br-ex".into(), tag: 100, mac: Some(MAC) })].into()
    }

    fn seen() -> SeenPort {
        let uuid = Uuid::from_u128(1);
        SeenPort {
            bridge: "br-ex".into(),
            tag: Some(100),
            mac: Some(MAC),
            internal: true,
            error: None,
            rows: Rows { bridge: Ref::new(uuid), port: Ref::new(uuid), interface: Ref::new(uuid) },
        }
    }

    fn have(port: SeenPort) -> Observed {
        Observed { ours: [("br-ex.100".into(), port)].into(), ..Observed::default() }
    }

    /// Steps and problems, where the kernel has the device or not.
    fn planned(want: &Desired, have: &Observed, device: bool) -> (Vec<String>, Vec<String>) {
        let part = plan(want, &Keep::default(), have, |_| device);
        let steps = part.steps.iter().map(|step| step.op.to_string()).collect();
        (steps, part.problems.iter().map(|problem| problem.code.to_string()).collect())
    }

    const ADD: &str = "add internal port br-ex.100 with VLAN 100 to br-ex in Open vSwitch";
    const CORRECT: &str = "set internal port br-ex.100 to VLAN 100 of br-ex in Open vSwitch";
    const DELETE: &str = "delete port br-ex.100 of br-ex in Open vSwitch";

    #[test]
    fn ports_are_made_corrected_and_deleted() {
        let none = Observed::default();
        assert_eq!(planned(&want(), &none, false), (vec![ADD.into()], vec![]));
        assert_eq!(planned(&want(), &have(seen()), true), (vec![], vec![]));
        for wrong in [
            SeenPort { tag: None, ..seen() },
            SeenPort { tag: Some(7), ..seen() },
            SeenPort { mac: None, ..seen() },
            SeenPort { internal: false, ..seen() },
        ] {
            assert_eq!(planned(&want(), &have(wrong.clone()), true).0, [CORRECT], "{wrong:?}");
        }
        assert_eq!(planned(&Desired::new(), &have(seen()), true), (vec![DELETE.into()], vec![]));
    }

    #[test]
    fn one_on_another_bridge_goes_before_it_is_made_again() {
        let moved = SeenPort { bridge: "br-x".into(), ..seen() };
        let (steps, _) = planned(&want(), &have(moved), true);
        assert_eq!(steps, ["delete port br-ex.100 of br-x in Open vSwitch"]);
    }

    #[test]
    fn a_port_waits_for_the_address_of_its_bridge_and_is_left_alone_without() {
        let mut unknown = want();
        unknown.get_mut("br-ex.100").unwrap().mac = None;
        assert_eq!(planned(&unknown, &Observed::default(), false), (vec![], vec![]));
        assert_eq!(planned(&unknown, &have(seen()), true), (vec![], vec![]));
    }

    #[test]
    fn others_of_the_same_name_and_devices_that_do_not_come_are_reported() {
        let others = Observed { others: ["br-ex.100".into()].into(), ..Observed::default() };
        assert_eq!(planned(&want(), &others, false), (vec![], vec!["port-in-the-way".into()]));
        assert_eq!(planned(&Desired::new(), &others, true), (vec![], vec![]), "they stay");
        assert_eq!(planned(&want(), &have(seen()), false), (vec![], vec!["no-device-of-port".into()]));
        let failed = have(SeenPort { error: Some("could not add br-ex.100".into()), ..seen() });
        let part = plan(&want(), &Keep::default(), &failed, |_| false);
        assert!(
            part.problems[0].message.ends_with("it says: could not add br-ex.100"),
            "{:?}",
            part.problems
        );
    }

    #[test]
    fn what_is_undecided_keeps_its_port() {
        let keep = Keep::new(&[object::device("br-ex")].into());
        assert!(plan(&Desired::new(), &keep, &have(seen()), |_| true).steps.is_empty());
    }
}
