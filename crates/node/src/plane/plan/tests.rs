//! Plans across the parts, and the property that they are safe: whatever fails or waits, an announced address has its way.

pub(crate) mod model;

use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::part::kind::Count;
use crate::part::kind::Kind;
use crate::part::object;
use crate::plane::VlanDevice;
use crate::plane::unclaimed::UnclaimedAnnouncements;
use model::{Choice, World, desired};

fn all_on_bridge() -> Choice {
    Choice {
        hosts: vec![Some(0); 8],
        subnets: vec![true; 2],
        aggregate: false,
        bridges: 2,
        vlan_device: VlanDevice::Auto,
    }
}

fn nothing() -> Choice {
    Choice {
        hosts: vec![None; 8],
        subnets: vec![false; 2],
        aggregate: false,
        bridges: 2,
        vlan_device: VlanDevice::Auto,
    }
}

/// A plan by way of what is settled, which is the one that looks at everything.
pub(crate) fn planned(
    settled: &mut Option<SettledKernel>,
    want: &Desired,
    keep: &BTreeSet<ObjectId>,
    have: &Observed,
) -> Plan<Op> {
    let steps = |plan: &Plan<Op>| {
        let steps = plan.steps.iter().map(|step| (step.op.phase, format!("{step:?}")));
        steps.collect::<BTreeSet<_>>()
    };
    let (whole, counts) = plan_after(&mut None, want, keep, have);
    let (narrow, fewer) = plan_after(settled, want, keep, have);
    assert_eq!(fewer, counts);
    assert_eq!(steps(&narrow), steps(&whole));
    assert!(narrow.steps.is_sorted_by_key(|step| step.op.phase));
    assert_eq!(
        (narrow.steps.len(), narrow.want, narrow.have, &narrow.problems),
        (whole.steps.len(), whole.want, whole.have, &whole.problems)
    );
    narrow
}

#[test]
fn what_may_be_of_what_cannot_be_read_is_not_withdrawn() {
    let (all, none) = (desired(&all_on_bridge()), desired(&nothing()));
    let mut world = World::made(&all);
    let announced: Vec<IpAddr> = world.announced().collect();
    let withdrawn = |world: &World, unclaimed: Option<UnclaimedAnnouncements>| {
        let want = Desired { unclaimed, ..none.clone() };
        let plan = plan(&want, &BTreeSet::new(), &world.observed());
        let told = plan.problems.iter().any(|problem| problem.code == "kept-unclaimed");
        (plan.steps.iter().filter_map(|step| step.op.withdrawn()).collect::<BTreeSet<_>>(), told)
    };
    let every: BTreeSet<IpAddr> = withdrawn(&world, None).0;
    assert!(announced.iter().all(|ip| every.contains(ip)));
    assert_eq!(withdrawn(&world, Some(UnclaimedAnnouncements::default())), (BTreeSet::new(), true));
    let (first, may) = (announced[0], Some(vec![announced[0]].into()));
    let (gone, told) =
        withdrawn(&world, Some(UnclaimedAnnouncements { may, ..UnclaimedAnnouncements::default() }));
    assert_eq!((&every - &gone, told), ([first].into(), true));
    let (gone, _) = withdrawn(&world, Some(UnclaimedAnnouncements { may: None, known: vec![first].into() }));
    assert_eq!(gone, [first].into());
    // All steps are taken, and what stays works.
    let want = Desired { unclaimed: Some(UnclaimedAnnouncements::default()), ..none.clone() };
    let steps = plan(&want, &BTreeSet::new(), &world.observed());
    world.run(&steps, &|_| false, &mut |_, _| {});
    assert!(announced.iter().all(|ip| world.has_way(*ip)));
    // What does not work is not worth to be kept.
    let mut bare = World::made(&all);
    bare.drop_device("br-ex");
    let stranded = bare.stranded();
    assert!(!stranded.is_empty());
    assert!(withdrawn(&bare, Some(UnclaimedAnnouncements::default())).0.is_superset(&stranded));
}

/// Whether a VLAN device that lost the address by which it is known to be ours stands in the way of a port: that is reported, and
/// waits for somebody.
fn is_in_the_way(plan: &Plan<Op>) -> bool {
    plan.problems.iter().any(|problem| problem.code == "device-in-the-way")
}

fn phases(plan: &Plan<Op>) -> Vec<Phase> {
    plan.steps.iter().map(|step| step.op.phase).collect()
}

#[test]
fn flows_come_before_announcements_and_withdrawals_before_all_removals() {
    let (none, all) = (desired(&nothing()), desired(&all_on_bridge()));
    let adding = plan(&all, &BTreeSet::new(), &World::bare().observed());
    assert!(phases(&adding).is_sorted());
    let last = *phases(&adding).last().unwrap();
    assert_eq!(last, Phase::Announce);
    assert!(phases(&adding).contains(&Phase::Flow));
    let removing = plan(&none, &BTreeSet::new(), &World::made(&all).observed());
    assert!(phases(&removing).is_sorted());
    assert_eq!(phases(&removing)[0], Phase::Withdraw);
}

const DRAIN: Duration = Duration::from_millis(250);

#[test]
fn what_is_withdrawn_is_carried_for_a_while_and_nothing_waits_for_it() {
    let with = |choice: &Choice| Desired { drain: DRAIN, ..desired(choice) };
    let take = |world: &mut World, want: &Desired| {
        let plan = plan(want, &BTreeSet::new(), &world.observed());
        world.run(&plan, &|_| false, &mut |_, _| {});
        plan.steps.into_iter().map(|step| step.op.to_string()).collect::<Vec<_>>()
    };
    let mut world = World::made(&desired(&all_on_bridge()));
    let before: Vec<IpAddr> = world.announced().collect();
    let steps = take(&mut world, &with(&nothing()));
    assert_eq!(steps.len(), before.len(), "withdrawals, and nothing else: {steps:?}");
    assert!(
        steps.iter().all(|step| step.contains("from bgp-nic, and carry it for 250 ms more")),
        "{steps:?}"
    );
    assert!(world.announced().next().is_none() && before.iter().all(|ip| world.has_way(*ip)));
    assert_eq!(take(&mut world, &with(&nothing())), [""; 0], "until their time is over");
    // What is new meanwhile is announced at once, and what comes back finds its way as it was.
    let mut choice = nothing();
    (choice.hosts[3], choice.hosts[4]) = (Some(0), Some(1));
    assert_eq!(
        take(&mut world, &with(&choice)),
        [
            "set route 172.24.4.4/32 dev br-ex.100 in table 201",
            "add address 172.24.4.3/32 to bgp-nic",
            "add address 172.24.4.4/32 to bgp-nic",
        ]
    );
    assert!(world.stranded().is_empty());
    world.draining.clear();
    assert!(!take(&mut world, &with(&choice)).is_empty());
    assert!(plan(&desired(&choice), &BTreeSet::new(), &world.observed()).is_empty());
    assert!(before.iter().all(|ip| world.has_way(*ip) == world.announced().any(|other| other == *ip)));
}

#[test]
fn a_subnet_that_was_announced_as_such_is_carried_as_well() {
    let announced = |choice: &Choice| {
        let mut want = Desired { drain: DRAIN, ..desired(choice) };
        let kernel = &mut want.kernel;
        let subnets = kernel.routes.iter().filter(|(_, hop)| hop.via.is_some()).map(|((_, net), _)| {
            ((kernel::Table::Number(10), *net), kernel::Hop { dev: "bgp-nic".into(), via: None })
        });
        let subnets: Vec<_> = subnets.collect();
        kernel.routes.extend(subnets);
        kernel.addresses = kernel.addresses.iter().filter(|a| a.dev != "bgp-nic").cloned().collect();
        want
    };
    let mut choice = nothing();
    (choice.hosts[0], choice.subnets[0]) = (Some(0), true);
    let mut world = World::bare();
    for want in [announced(&choice), announced(&choice), announced(&nothing())] {
        let plan = plan(&want, &BTreeSet::new(), &world.observed());
        world.run(&plan, &|_| false, &mut |_, _| {});
    }
    let first: IpAddr = "10.1.0.0".parse().unwrap();
    assert_eq!(world.draining, [first].into());
    assert!(world.has_way(first));
    world.draining.clear();
    let last = plan(&announced(&nothing()), &BTreeSet::new(), &world.observed());
    world.run(&last, &|_| false, &mut |_, _| {});
    assert!(!world.has_way(first));
}

#[test]
fn a_mass_withdrawal_is_held_when_asked_and_obeyed_when_not() {
    let crowd = |want: &mut Desired, count: u8| {
        for n in 0..count {
            model::expose(want, format!("172.25.0.{n}").parse().unwrap(), 0);
        }
    };
    let mut before = desired(&nothing());
    crowd(&mut before, 50);
    let held = |left: u8, guard: bool| {
        let mut want = Desired { guard, ..desired(&nothing()) };
        crowd(&mut want, left);
        let plan = plan(&want, &BTreeSet::new(), &World::made(&before).observed());
        let codes: Vec<String> = plan.problems.iter().map(|problem| problem.code.to_string()).collect();
        (plan.steps.is_empty(), codes.contains(&"mass-withdraw-held".to_owned()))
    };
    assert_eq!(held(24, true), (true, true), "26 of 50");
    assert_eq!(held(24, false), (false, false));
    assert_eq!(held(25, true), (false, false), "not more than half");
    let mut few = desired(&nothing());
    crowd(&mut few, 20);
    let none = Desired { guard: true, ..desired(&nothing()) };
    assert!(!plan(&none, &BTreeSet::new(), &World::made(&few).observed()).is_empty(), "not more than twenty");
}

#[test]
fn prefixes_count_in_a_mass_withdrawal() {
    let announced = |count: u8, guard: bool| {
        let mut want = Desired { guard, ..desired(&nothing()) };
        for n in 0..count {
            let net: ipnet::IpNet = format!("10.{n}.0.0/24").parse().unwrap();
            let hop = |dev: &str| kernel::Hop { dev: dev.into(), via: None };
            let table = kernel::Table::Bridge("br-ex".into());
            want.kernel.rules.insert(kernel::Rule { select: Select::To(net), table: table.clone() });
            want.kernel.routes.insert((table, net), hop("br-ex"));
            want.kernel.routes.insert((kernel::Table::Number(10), net), hop("bgp-nic"));
        }
        want
    };
    let mut world = World::bare();
    for _ in 0..2 {
        let plan = plan(&announced(30, false), &BTreeSet::new(), &world.observed());
        world.run(&plan, &|_| false, &mut |_, _| {});
    }
    let withdrawals = |left: u8, guard: bool| {
        let plan = plan(&announced(left, guard), &BTreeSet::new(), &world.observed());
        plan.steps.iter().filter(|step| step.op.phase == Phase::WithdrawPrefix).count()
    };
    assert_eq!((withdrawals(5, false), withdrawals(5, true)), (25, 0));
    assert_eq!(withdrawals(12, true), 18, "not more than twenty");
}

#[test]
fn a_bridge_without_a_table_is_reported_and_the_others_go_on() {
    let mut world = World::bare();
    let all = (1..=252).filter(|n| *n != 202).map(|n| match n {
        201 => "201 br-ex\n".to_owned(),
        n => format!("{n} t{n}\n"),
    });
    world.name_tables(&(all.collect::<String>() + "202 of-somebody\n"));
    let mut choice = all_on_bridge();
    choice.hosts[3] = Some(2);
    let want = desired(&choice);
    for _ in 0..2 {
        let plan = plan(&want, &BTreeSet::new(), &world.observed());
        let problems = plan.problems.iter().filter(|problem| problem.code == "no-table");
        let objects: Vec<String> = problems.map(|problem| problem.object.to_string()).collect();
        assert_eq!(objects, ["device/br-x"], "{:?}", plan.problems);
        world.run(&plan, &|_| false, &mut |_, _| {});
    }
    assert_eq!(world.announced().count(), 9, "all but the one on that bridge");
    assert!(world.stranded().is_empty());
    // Once a line is free the bridge gets its table.
    world.name_tables("201 br-ex\n");
    for _ in 0..2 {
        let plan = plan(&want, &BTreeSet::new(), &world.observed());
        world.run(&plan, &|_| false, &mut |_, _| {});
    }
    assert_eq!(world.announced().count(), 10);
}

#[test]
fn what_is_there_and_what_is_to_be_done_is_counted_by_kind() {
    let (want, mut world) = (desired(&all_on_bridge()), World::bare());
    let counted = |world: &World| plan_after(&mut None, &want, &BTreeSet::new(), &world.observed()).1;
    let bare = counted(&world);
    assert_eq!((bare.of(Kind::Link).want, bare.of(Kind::Link).have, bare.of(Kind::Link).pending), (5, 2, 3));
    assert_eq!(bare.of(Kind::Announcement), kind(10, 0, 10));
    assert_eq!(bare.of(Kind::Flow), kind(6, 0, 6));
    for _ in 0..2 {
        let plan = plan(&want, &BTreeSet::new(), &world.observed());
        world.run(&plan, &|_| false, &mut |_, _| {});
    }
    let made = counted(&world);
    for one in Kind::ALL {
        assert_eq!((made.of(one).want, made.of(one).pending), (made.of(one).have, 0), "{one:?}");
    }
    assert_eq!(made.of(Kind::Rule), kind(10, 10, 0));
    assert_eq!(made.of(Kind::Neighbour), kind(2, 2, 0));
    assert_eq!(made.of(Kind::Proxy), kind(2, 2, 0));
}

fn kind(want: usize, have: usize, pending: usize) -> Count {
    Count { want, have, pending }
}

#[test]
fn an_announcement_waits_for_flows_that_could_not_be_made() {
    let want = desired(&all_on_bridge());
    let mut world = World::bare();
    let plan = plan(&want, &BTreeSet::new(), &world.observed());
    world.run(&plan, &|step| matches!(step.op.act, Act::Flow(_)), &mut |_, _| {});
    assert_eq!(world.announced().count(), 0);
    let again = super::plan(&want, &BTreeSet::new(), &world.observed());
    world.run(&again, &|_| false, &mut |_, _| {});
    assert!(world.announced().count() > 8);
}

#[test]
fn an_announcement_waits_for_its_own_way_and_not_for_one_of_others() {
    let mut choice = Choice { vlan_device: VlanDevice::Internal, ..nothing() };
    choice.hosts[3] = Some(1);
    let (want, mut world) = (desired(&choice), World::bare());
    // With a rule of our priority and a route for the same address.
    world.add_foreign();
    let first = plan(&want, &BTreeSet::new(), &world.observed());
    assert!(phases(&first).contains(&Phase::Announce));
    world.run(&first, &|_| false, &mut |_, _| {});
    assert_eq!(world.announced().count(), 0, "the device that its route needs was not there yet");
    let second = plan(&want, &BTreeSet::new(), &world.observed());
    world.run(&second, &|_| false, &mut |_, _| {});
    assert_eq!(world.announced().collect::<Vec<_>>(), ["172.24.4.3".parse::<IpAddr>().unwrap()]);
}

#[test]
fn a_way_stays_while_a_withdrawal_fails() {
    let (none, all) = (desired(&nothing()), desired(&all_on_bridge()));
    let mut world = World::made(&all);
    let plan = plan(&none, &BTreeSet::new(), &world.observed());
    let tenant = object::address("10.1.0.5".parse().unwrap());
    world.run(&plan, &|step| step.object == tenant, &mut |_, _| {});
    assert_eq!(world.announced().collect::<Vec<_>>(), ["10.1.0.5".parse::<IpAddr>().unwrap()]);
    assert!(world.stranded().is_empty());
}

fn choices() -> impl Strategy<Value = Choice> {
    let hosts = proptest::collection::vec(proptest::option::of(0usize..3), 8);
    let vlan_device =
        prop_oneof![Just(VlanDevice::Auto), Just(VlanDevice::Kernel), Just(VlanDevice::Internal)];
    (hosts, proptest::collection::vec(any::<bool>(), 2), any::<bool>(), 1usize..3, vlan_device).prop_map(
        |(hosts, subnets, aggregate, bridges, vlan_device)| Choice {
            hosts,
            subnets,
            aggregate,
            bridges,
            vlan_device,
        },
    )
}

/// Whether the kernel has no 8021q; where it is to make VLANs, it has.
fn without_vlans(choice: &Choice, without: bool) -> bool {
    without && choice.vlan_device != VlanDevice::Kernel
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_world_becomes_the_one_wanted_and_what_is_not_ours_survives(
        before in choices(), after in choices(), lost in any::<u64>(), foreign: bool, without: bool,
    ) {
        let want = desired(&after);
        let mut world = World::made_on(&desired(&before), without_vlans(&after, without));
        world.lose(lost);
        if foreign {
            world.add_foreign();
        }
        let others = world.foreign();
        let mut rounds = 0;
        loop {
            let plan = plan(&want, &BTreeSet::new(), &world.observed());
            if is_in_the_way(&plan) {
                return Ok(());
            }
            if plan.is_empty() {
                prop_assert_eq!(plan.want, plan.have, "all that is wanted is there");
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 6, "still to do: {}", plan);
            let mut stranded = world.stranded();
            let mut worse = None;
            world.run(&plan, &|_| false, &mut |world, step| {
                let now = world.stranded();
                if !now.is_subset(&stranded) && worse.is_none() {
                    worse = Some(format!("{step} strands {now:?}"));
                }
                stranded = now;
            });
            prop_assert_eq!(worse, None);
        }
        prop_assert!(world.stranded().is_empty());
        prop_assert_eq!(world.foreign(), others);
    }

    #[test]
    fn whatever_fails_or_waits_nothing_announced_loses_its_way(
        before in choices(), after in choices(), fails in any::<u64>(), waits in any::<u64>(), without: bool,
    ) {
        let want = desired(&after);
        let mut world = World::made_on(&desired(&before), without_vlans(&after, without));
        let mut plan = plan(&want, &BTreeSet::new(), &world.observed());
        // The driver drops the steps of objects that failed before.
        let objects: BTreeSet<ObjectId> = plan.steps.iter().map(|step| step.object.clone()).collect();
        let held: BTreeSet<ObjectId> =
            objects.into_iter().enumerate().filter(|(n, _)| waits >> (n % 64) & 1 == 1).map(|(_, o)| o).collect();
        plan.steps.retain(|step| !held.contains(&step.object));
        let at = std::cell::Cell::new(0);
        let fail = |_: &reconcile::Step<Op>| {
            at.set(at.get() + 1);
            fails >> (at.get() % 64) & 1 == 1
        };
        let mut worse = None;
        world.run(&plan, &fail, &mut |world, step| {
            if !world.stranded().is_empty() && worse.is_none() {
                worse = Some(format!("{step} strands {:?}", world.stranded()));
            }
        });
        prop_assert_eq!(worse, None, "{}", plan);
        // And once nothing fails any more, all becomes as wanted.
        for _ in 0..6 {
            let plan = super::plan(&want, &BTreeSet::new(), &world.observed());
            world.run(&plan, &|_| false, &mut |_, _| {});
        }
        let plan = super::plan(&want, &BTreeSet::new(), &world.observed());
        prop_assert!(plan.is_empty(), "{}", plan);
    }

    #[test]
    fn what_drains_keeps_its_way_and_all_becomes_as_wanted_in_the_end(
        before in choices(), after in choices(), without: bool,
    ) {
        let want = Desired { drain: DRAIN, ..desired(&after) };
        let mut world = World::made_on(&desired(&before), without_vlans(&after, without));
        for drains in [true, false] {
            for _ in 0..6 {
                let plan = plan(&want, &BTreeSet::new(), &world.observed());
                if is_in_the_way(&plan) {
                    return Ok(());
                }
                let mut lost = None;
                world.run(&plan, &|_| false, &mut |world, step| {
                    if !world.draining.iter().all(|ip| world.has_way(*ip)) || !world.stranded().is_empty() {
                        lost.get_or_insert(step.to_string());
                    }
                });
                prop_assert_eq!(lost, None, "{}", plan);
                if !drains {
                    world.draining.clear();
                }
            }
            let plan = plan(&want, &BTreeSet::new(), &world.observed());
            // Only what has to take the place of another device waits for what that one carries.
            if !drains || (before.vlan_device == after.vlan_device && !without) {
                prop_assert_eq!(plan.want, plan.have, "all that is wanted is there");
                prop_assert!(plan.is_empty(), "{}", plan);
            }
        }
    }

    #[test]
    fn a_plan_for_what_changed_is_the_plan_for_everything(
        first in choices(),
        events in proptest::collection::vec((0usize..8, proptest::option::of(0usize..3), any::<u64>(), 0..5_u8), 1..12),
        without: bool,
    ) {
        let mut choice = first;
        let (mut want, mut settled) = (desired(&choice), None);
        let mut world = World::made_on(&want, without_vlans(&choice, without));
        for (host, place, which, event) in events {
            match event {
                0 => world.lose(which | which.rotate_left(7) | which.rotate_left(13)),
                1 => world.add_foreign(),
                2 => world.add_stale(),
                3 if choice.vlan_device == VlanDevice::Auto => choice.vlan_device = VlanDevice::Internal,
                _ => choice.hosts[host] = place,
            }
            want = desired(&choice);
            let plan = planned(&mut settled, &want, &BTreeSet::new(), &world.observed());
            // Some runs are cut off.
            let left = std::cell::Cell::new(which % 8);
            world.run(&plan, &|_| { left.set(left.get().wrapping_sub(1)); left.get() == 0 }, &mut |_, _| {});
        }
        for _ in 0..6 {
            let plan = planned(&mut settled, &want, &BTreeSet::new(), &world.observed());
            world.run(&plan, &|_| false, &mut |_, _| {});
        }
        let plan = planned(&mut settled, &want, &BTreeSet::new(), &world.observed());
        if is_in_the_way(&plan) {
            return Ok(());
        }
        prop_assert!(plan.is_empty(), "{}", plan);
        prop_assert!(settled.is_some(), "all is as wanted, and that was noted");
    }
}
