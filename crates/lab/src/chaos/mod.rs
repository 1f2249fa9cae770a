//! Chaos: kills daemons, and cuts and delays cables by a random schedule from a seed, while a test measures traffic.
//!
//! [`schedule`] draws the schedule; this module runs it. A failure names the seed, and `LAB_SEED` replays it:
//!
//! ```text
//!   LAB_SEED=7 cargo xtask lab run chaos      the schedule of that seed
//!   LAB_SEED=random cargo xtask lab run chaos    another one each time
//! ```

pub mod schedule;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::eventually;
use crate::netns::Netns;
use crate::topology::Lab;
use schedule::{Harm, Menu, Schedule, Step, Target};

/// How long the program that owns a part may take to repair it.
const MENDED: Duration = Duration::from_secs(60);
/// The variable that sets the seed.
const SEED: &str = "LAB_SEED";

/// Planned chaos.
#[derive(Debug)]
pub struct Chaos {
    menu: Menu,
    schedule: Schedule,
}

impl Chaos {
    /// Prepares a number of faults from the menu, spread over a time; the seed is `LAB_SEED` if that is set.
    pub fn new(menu: Menu, usual_seed: u64, harms: u32, over: Duration) -> Result<Chaos> {
        let seed = seed(std::env::var(SEED).ok().as_deref(), usual_seed)?;
        let schedule = Schedule::drawn(seed, &menu, harms, over);
        Ok(Chaos { menu, schedule })
    }

    /// Runs the schedule to its end. Then all harm is undone.
    pub fn run(&self, lab: &Lab) -> Result<()> {
        let seed = self.schedule.seed();
        println!("chaos from seed {seed}, {SEED}={seed} replays it:");
        self.schedule.steps().iter().for_each(|step| println!("{step}"));
        self.carry_out(lab).and_then(|()| self.whole(lab)).with_context(|| self.replay())
    }

    /// The instructions to replay this schedule, for the reports of later failures.
    pub fn replay(&self) -> String {
        format!("in the chaos from seed {0} ({SEED}={0} replays it)", self.schedule.seed())
    }

    fn carry_out(&self, lab: &Lab) -> Result<()> {
        let begin = Instant::now();
        for step in self.schedule.steps() {
            sleep(step.at.saturating_sub(begin.elapsed()));
            println!("now: {step}");
            take(lab, step).with_context(|| format!("cannot carry out: {step}"))?;
        }
        println!("all is whole again after {:.2} s", begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// Checks that all faults are undone: every daemon runs, no cable is slow, lossy or cut.
    fn whole(&self, lab: &Lab) -> Result<()> {
        for target in self.menu.targets() {
            match target {
                Target::Daemon { node, daemon } | Target::HungDaemon { node, daemon } => {
                    ensure!(lab.find(node)?.daemon(daemon)?.alive(), "{target} does not run after the chaos");
                }
                Target::NormalFlow { node, bridge } => {
                    eventually(MENDED, &format!("{target} is there again"), || {
                        let flows = lab.chassis(node)?.ofctl("dump-flows", bridge, &["cookie=0/-1"])?;
                        ensure!(flows.contains("actions=NORMAL"), "{flows}");
                        Ok(())
                    })?;
                }
                Target::Link { node, device } => on(lab, node, |netns| {
                    let said = netns.run(&format!("tc qdisc show dev {device}"))?;
                    ensure!(!said.contains("netem"), "{target} is impaired after the chaos: {said}");
                    let said = netns.run(&format!("ip -o link show dev {device}"))?;
                    ensure!(said.contains("LOWER_UP"), "{target} is cut after the chaos: {said}");
                    Ok(())
                })?,
            }
        }
        Ok(())
    }
}

/// The seed that was set, or the usual one.
fn seed(set: Option<&str>, usual: u64) -> Result<u64> {
    match set {
        None | Some("") => Ok(usual),
        // The seed is short, because a developer may have to type it again.
        Some("random") => Ok(RandomState::new().build_hasher().finish() % 1_000_000),
        Some(number) => match number.parse() {
            Ok(seed) => Ok(seed),
            Err(_) => bail!("{SEED} is `{number}`: it is to be a number, or `random`"),
        },
    }
}

/// Runs one step.
fn take(lab: &Lab, step: &Step) -> Result<()> {
    match &step.target {
        Target::Daemon { node, daemon } if step.over => match lab.chassis(node) {
            // The chassis also restores what its daemon needs.
            Ok(chassis) => chassis.revive(daemon),
            Err(_) => lab.find(node)?.daemon(daemon)?.start_again(),
        },
        Target::Daemon { node, daemon } => lab.find(node)?.daemon(daemon)?.kill(),
        Target::HungDaemon { node, daemon } => {
            let node = lab.find(node)?;
            let pid = node.daemon(daemon)?.pid().with_context(|| format!("{daemon} does not run"))?;
            let signal = if step.over { "CONT" } else { "STOP" };
            node.run(&format!("kill -{signal} {pid}")).map(|_| ())
        }
        // The program that manages the bridge must restore the flow, so the step does nothing.
        Target::NormalFlow { .. } if step.over => Ok(()),
        Target::NormalFlow { node, bridge } => lab.chassis(node)?.del_flows(bridge, "cookie=0/-1"),
        Target::Link { node, device } => on(lab, node, |netns| match (step.harm, step.over) {
            (Harm::Slow(millis), false) => {
                netns.impair(device, &format!("delay {millis}ms {}ms", millis / 4))
            }
            (Harm::Lossy(percent), false) => netns.impair(device, &format!("loss {percent}%")),
            (Harm::Slow(_) | Harm::Lossy(_), true) => netns.unimpair(device),
            (Harm::Cut | Harm::Killed | Harm::Hung | Harm::Deleted, false) => netns.down(device),
            (Harm::Cut | Harm::Killed | Harm::Hung | Harm::Deleted, true) => netns.up(device),
        }),
    }
}

/// Calls a function with a node's namespace, or the lab's own.
fn on<T>(lab: &Lab, node: &str, what: impl FnOnce(&Netns) -> Result<T>) -> Result<T> {
    if node == lab.root().name() { what(lab.root()) } else { what(&*lab.find(node)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_the_usual_one_a_set_one_or_random() {
        assert_eq!(seed(None, 7).unwrap(), 7);
        assert_eq!(seed(Some(""), 7).unwrap(), 7);
        assert_eq!(seed(Some("42"), 7).unwrap(), 42);
        assert!(seed(Some("random"), 7).unwrap() < 1_000_000);
        let error = seed(Some("often"), 7).unwrap_err().to_string();
        assert!(error.contains("LAB_SEED is `often`"), "{error}");
    }
}
