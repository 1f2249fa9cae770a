//! What is done to a topology and when: drawn from a seed, and from nothing else.
//!
//! The same seed and menu give the same schedule, on every machine and with every version of every library: the
//! generator is written down here for that. Every harm is undone after a while, in the schedule itself, so that at its end all is
//! whole again and what was promised can be asked for.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How long a harm lasts at least and at most, in milliseconds.
const LASTS: (u64, u64) = (500, 4_000);

/// What may be harmed.
#[derive(Clone, Debug, Default)]
pub struct Menu {
    targets: Vec<Target>,
}

/// One thing that may be harmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A daemon of a node.
    Daemon {
        /// The node's name.
        node: String,
        /// The daemon's name on its node.
        daemon: String,
    },
    /// A cable, by one of its ends.
    Link {
        /// The node's name, or `lab` for the namespace that the underlay is in.
        node: String,
        /// The device there.
        device: String,
    },
}

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// A daemon is killed, without a chance to say goodbye.
    Killed,
    /// A cable is pulled.
    Cut,
    /// What is sent into a cable is late, by this many milliseconds.
    Slow(u64),
    /// Of what is sent into a cable, this many per cent are lost.
    Lossy(u64),
}

/// One step: at a time since the beginning, something is harmed or made whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// What.
    pub target: Target,
    /// In what way.
    pub harm: Harm,
    /// The harm is undone, and not done.
    pub over: bool,
}

/// All that is done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    steps: Vec<Step>,
}

impl Menu {
    /// Nothing yet.
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

    /// A cable that may be cut, slow or lossy, by the device at one of its ends.
    #[must_use]
    pub fn link(mut self, node: &str, device: &str) -> Menu {
        self.targets.push(Target::Link { node: node.to_owned(), device: device.to_owned() });
        self
    }

    /// What is on it.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }
}

impl Target {
    /// Things of one key are not harmed at the same time. A daemon may need another one of its node to come back.
    fn key(&self) -> (&str, &str) {
        match self {
            Target::Daemon { node, .. } => (node, ""),
            Target::Link { node, device } => (node, device),
        }
    }
}

impl Schedule {
    /// So many harms, spread over a time. Where nothing is left that is whole, there is one less.
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
            // Daemons are many and cables few: first the kind, so that both have their share.
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
                (Target::Link { .. }, 0) => Harm::Cut,
                (Target::Link { .. }, 1) => Harm::Slow(dice.within(20, 200)),
                (Target::Link { .. }, _) => Harm::Lossy(dice.within(5, 40)),
            };
            for (at, over) in [(begin, false), (end, true)] {
                steps.push(Step { at: Duration::from_millis(at), target: (*target).clone(), harm, over });
            }
        }
        // Stable, so that steps of one moment keep the order they were drawn in.
        steps.sort_by_key(|step| step.at);
        Schedule { seed, steps }
    }

    /// What it was drawn from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Its steps, first to last.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Daemon { node, daemon } => write!(f, "{daemon} of {node}"),
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
            (Harm::Cut, false) => write!(f, "cut"),
            (Harm::Cut, true) => write!(f, "mended"),
            (Harm::Slow(millis), false) => write!(f, "slow by {millis} ms"),
            (Harm::Slow(_), true) => write!(f, "fast again"),
            (Harm::Lossy(percent), false) => write!(f, "lossy, {percent} %"),
            (Harm::Lossy(_), true) => write!(f, "reliable again"),
        }
    }
}

/// A generator of numbers (SplitMix64): short, well spread, and the same for ever.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included. Not quite even for huge ranges, which are not asked for.
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
