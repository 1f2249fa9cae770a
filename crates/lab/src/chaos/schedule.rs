//! The faults of a topology and their times, drawn from a seed and from nothing else.
//!
//! The same seed and menu give the same schedule, on every machine and with every version of every library. For that, this
//! module has its own random number generator. The schedule undoes every fault after a while, so that at its end everything
//! works again and the test can check its claims.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The minimum and maximum duration of a harm, in milliseconds.
const LASTS: (u64, u64) = (500, 4_000);

/// The possible targets of faults.
#[derive(Clone, Debug, Default)]
pub struct Menu {
    targets: Vec<Target>,
}

/// One part of a topology that may be harmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A daemon of a node.
    Daemon {
        /// The node's name.
        node: String,
        /// The daemon's name on its node.
        daemon: String,
    },
    /// A daemon of a node that may hang: its connections stay, and it does nothing.
    HungDaemon {
        /// The node's name.
        node: String,
        /// The daemon's name on its node.
        daemon: String,
    },
    /// The flow `actions=NORMAL` of a bridge. The program that manages the bridge must restore it.
    NormalFlow {
        /// The chassis' name.
        node: String,
        /// The bridge.
        bridge: String,
    },
    /// A cable, by one of its ends.
    Link {
        /// The node's name, or `lab` for the namespace that the underlay is in.
        node: String,
        /// The device there.
        device: String,
    },
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// A daemon is killed with SIGKILL.
    Killed,
    /// The daemon is stopped with SIGSTOP, so all its connections stay open.
    Hung,
    /// A flow is deleted.
    Deleted,
    /// A cable is pulled.
    Cut,
    /// Packets into a cable are delayed by this many milliseconds.
    Slow(u64),
    /// This percentage of the packets into a cable is lost.
    Lossy(u64),
}

/// One step: at a time since the beginning, a part is harmed or restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// The part.
    pub target: Target,
    /// The harm.
    pub harm: Harm,
    /// Whether this step undoes the harm.
    pub over: bool,
}

/// All steps in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    steps: Vec<Step>,
}

impl Menu {
    /// An empty menu.
    pub fn new() -> Menu {
        Menu::default()
    }

    /// Daemons of a node, each of which may be killed.
    #[must_use]
    pub fn daemons(mut self, node: &str, daemons: &[&str]) -> Menu {
        let named = |daemon: &&str| Target::Daemon { node: node.to_owned(), daemon: (*daemon).to_owned() };
        self.targets.extend(daemons.iter().map(named));
        self
    }

    /// Daemons of a node, each of which may hang.
    #[must_use]
    pub fn hanging(mut self, node: &str, daemons: &[&str]) -> Menu {
        let named =
            |daemon: &&str| Target::HungDaemon { node: node.to_owned(), daemon: (*daemon).to_owned() };
        self.targets.extend(daemons.iter().map(named));
        self
    }

    /// A bridge whose flow `actions=NORMAL` may be deleted.
    #[must_use]
    pub fn normal_flow(mut self, node: &str, bridge: &str) -> Menu {
        self.targets.push(Target::NormalFlow { node: node.to_owned(), bridge: bridge.to_owned() });
        self
    }

    /// A cable that may be cut, slow or lossy, by the device at one of its ends.
    #[must_use]
    pub fn link(mut self, node: &str, device: &str) -> Menu {
        self.targets.push(Target::Link { node: node.to_owned(), device: device.to_owned() });
        self
    }

    /// The targets on the menu.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }
}

impl Target {
    /// Targets of one key are not harmed at the same time. A daemon may need another one of its node to recover.
    fn key(&self) -> (&str, &str) {
        match self {
            Target::Daemon { node, .. } | Target::HungDaemon { node, .. } => (node, ""),
            Target::NormalFlow { node, bridge } => (node, bridge),
            Target::Link { node, device } => (node, device),
        }
    }
}

impl Schedule {
    /// Draws a number of faults, spread over a time. If no intact target is left, there is one fault less.
    pub fn drawn(seed: u64, menu: &Menu, harms: u32, over: Duration) -> Schedule {
        let mut dice = Dice(seed);
        let mut busy = BTreeMap::new();
        let mut steps = Vec::new();
        let slot = u64::try_from(over.as_millis()).unwrap_or(u64::MAX) / u64::from(harms.max(1));
        for at in 0..harms {
            let begin = u64::from(at) * slot + dice.within(0, slot / 2);
            let end = begin + dice.within(LASTS.0, LASTS.1);
            let whole: Vec<&Target> = menu
                .targets
                .iter()
                .filter(|target| busy.get(&target.key()).is_none_or(|until| *until < begin))
                .collect();
            // There are many daemons and few cables, so the kind is drawn first to give both their share.
            let cable = dice.within(0, 1) == 1;
            let of_kind: Vec<&Target> = whole
                .iter()
                .copied()
                .filter(|target| matches!(target, Target::Link { .. }) == cable)
                .collect();
            let Some(target) = dice.one_of(if of_kind.is_empty() { &whole } else { &of_kind }) else {
                continue;
            };
            busy.insert(target.key(), end);
            let harm = match (target, dice.within(0, 2)) {
                (Target::Daemon { .. }, _) => Harm::Killed,
                (Target::HungDaemon { .. }, _) => Harm::Hung,
                (Target::NormalFlow { .. }, _) => Harm::Deleted,
                (Target::Link { .. }, 0) => Harm::Cut,
                (Target::Link { .. }, 1) => Harm::Slow(dice.within(20, 200)),
                (Target::Link { .. }, _) => Harm::Lossy(dice.within(5, 40)),
            };
            for (at, over) in [(begin, false), (end, true)] {
                steps.push(Step { at: Duration::from_millis(at), target: (*target).clone(), harm, over });
            }
        }
        // The sort is stable, so that steps at the same time keep the order in which they were drawn.
        steps.sort_by_key(|step| step.at);
        Schedule { seed, steps }
    }

    /// The seed of the schedule.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Daemon { node, daemon } | Target::HungDaemon { node, daemon } => {
                write!(f, "{daemon} of {node}")
            }
            Target::NormalFlow { node, bridge } => write!(f, "the NORMAL flow of {bridge} of {node}"),
            Target::Link { node, device } => write!(f, "the cable at {device} of {node}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.2} s  {} is ", self.at.as_secs_f64(), self.target)?;
        match (self.harm, self.over) {
            (Harm::Killed, false) => write!(f, "killed"),
            (Harm::Killed, true) => write!(f, "started again"),
            (Harm::Hung, false) => write!(f, "stopped where it stands"),
            (Harm::Hung, true) => write!(f, "going on"),
            (Harm::Deleted, false) => write!(f, "deleted"),
            (Harm::Deleted, true) => write!(f, "to be there again"),
            (Harm::Cut, false) => write!(f, "cut"),
            (Harm::Cut, true) => write!(f, "mended"),
            (Harm::Slow(millis), false) => write!(f, "slow by {millis} ms"),
            (Harm::Slow(_), true) => write!(f, "fast again"),
            (Harm::Lossy(percent), false) => write!(f, "lossy, {percent} %"),
            (Harm::Lossy(_), true) => write!(f, "reliable again"),
        }
    }
}

/// A random number generator (SplitMix64): short, well distributed, and the same in every version.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included. Slightly uneven for huge ranges, which do not occur.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high.saturating_sub(low) + 1)
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let last = u64::try_from(of.len()).unwrap_or(u64::MAX).checked_sub(1)?;
        of.get(usize::try_from(self.within(0, last)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn menu() -> Menu {
        Menu::new()
            .daemons("az1", &["ovn-northd", "ovsdb-server-sb"])
            .daemons("hv1", &["ovsdb-server", "ovs-vswitchd", "ovn-controller"])
            .link("lab", "ul-hv1")
            .link("lab", "ul-hv2")
    }

    #[test]
    fn daemons_hang_and_flows_are_deleted_where_the_menu_has_them() {
        let menu = menu().hanging("hv1", &["bgpd"]).normal_flow("hv1", "br-ex");
        let seen: BTreeSet<String> = (0..100)
            .flat_map(|seed| Schedule::drawn(seed, &menu, 8, Duration::from_secs(16)).steps().to_vec())
            .map(|step| step.to_string().split_once(" s  ").unwrap().1.to_owned())
            .collect();
        for line in [
            "bgpd of hv1 is stopped where it stands",
            "bgpd of hv1 is going on",
            "the NORMAL flow of br-ex of hv1 is deleted",
            "the NORMAL flow of br-ex of hv1 is to be there again",
        ] {
            assert!(seen.contains(line), "{line} is not in {seen:?}");
        }
    }

    fn drawn(seed: u64) -> Schedule {
        Schedule::drawn(seed, &menu(), 8, Duration::from_secs(16))
    }

    #[test]
    fn a_seed_is_a_schedule() {
        for seed in 0..50 {
            assert_eq!(drawn(seed), drawn(seed));
        }
        let different: BTreeSet<String> = (0..50).map(|seed| format!("{:?}", drawn(seed).steps())).collect();
        assert_eq!(different.len(), 50);
    }

    #[test]
    fn the_schedule_of_a_seed_stays_what_it_is() {
        let text: String = drawn(1).steps().iter().map(|step| format!("{step}\n")).collect();
        assert_eq!(text, include_str!("seed-1.txt"));
    }

    #[test]
    fn every_harm_is_undone_and_nothing_is_harmed_twice_at_a_time() {
        for seed in 0..500 {
            let mut harmed: BTreeMap<(String, String), Step> = BTreeMap::new();
            let schedule = drawn(seed);
            assert!(schedule.steps().len() >= 8, "seed {seed} does little: {schedule:?}");
            assert!(schedule.steps().is_sorted_by_key(|step| step.at), "seed {seed}");
            for step in schedule.steps() {
                let (node, what) = step.target.key();
                let key = (node.to_owned(), what.to_owned());
                if step.over {
                    let begun = harmed.remove(&key).unwrap();
                    assert_eq!((&begun.target, begun.harm), (&step.target, step.harm), "seed {seed}");
                    assert!(begun.at < step.at);
                } else {
                    assert_eq!(harmed.insert(key, step.clone()), None, "seed {seed}");
                }
            }
            assert!(harmed.is_empty(), "seed {seed} leaves {harmed:?}");
        }
    }

    #[test]
    fn everything_on_the_menu_gets_its_turn() {
        let seen: BTreeSet<String> = (0..100)
            .flat_map(|seed| drawn(seed).steps().to_vec())
            .map(|step| format!("{} {:?}", step.target, std::mem::discriminant(&step.harm)))
            .collect();
        // Five daemons that can be killed, and two cables with three harms each.
        assert_eq!(seen.len(), 5 + 2 * 3, "{seen:?}");
    }

    #[test]
    fn of_nothing_and_in_no_time_there_is_no_panic() {
        assert!(Schedule::drawn(1, &Menu::new(), 5, Duration::from_secs(5)).steps().is_empty());
        assert!(Schedule::drawn(1, &menu(), 0, Duration::MAX).steps().is_empty());
        assert_eq!(Schedule::drawn(1, &menu(), 1, Duration::ZERO).steps().len(), 2);
    }
}
