//! Live migrations of virtual machines, from their pods.
//!
//! A migrating machine has two pods with the same addresses and MAC address: the older one is the source, the newer one the target.
//! Every zone has a port for both. Until the machine runs at the target, only the source's port has the addresses; then only the
//! target's. Both changes are one transaction, so that no packet finds two ports or none.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

/// A pod of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmPod {
    /// The pod's UID.
    pub uid: String,
    /// The time of its creation, in seconds since 1970.
    pub created: i64,
    /// Whether it still runs, or will.
    pub is_living: bool,
    /// Whether it says that the machine runs there now (`kubevirt.io/migration-target-ready-timestamp`).
    pub is_target_ready: bool,
}

/// A machine that has more pods than a migration has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has {0} running pods, and a migration has two; delete the ones that do not belong to it")]
pub struct TooManyPods(usize);

/// The stage of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStage {
    /// The machine runs at the source.
    InProgress,
    /// The machine runs at the target.
    TargetReady,
    /// The target has ended before the machine ran there.
    Failed,
    /// The machine runs at the target, and the source is gone.
    Finished,
}

/// A live migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The stage.
    pub stage: MigrationStage,
    /// The UID of the source's pod, while it is there.
    pub source: Option<String>,
    /// The UID of the target's pod.
    pub target: String,
}

/// The traffic of a pod's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodTraffic {
    /// The port has the pod's addresses.
    #[default]
    Passes,
    /// The port has no address, and passes no packet: the machine runs at the other end of a migration.
    Blocked,
}

impl Migration {
    /// The migration that the pods of one machine are in, if any.
    pub fn of_pods(pods: &[VmPod]) -> Result<Option<Migration>, TooManyPods> {
        let mut sorted: Vec<&VmPod> = pods.iter().collect();
        sorted.sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
        let living: Vec<&VmPod> = sorted.iter().copied().filter(|pod| pod.is_living).collect();
        let found = |stage, source: Option<&VmPod>, target: &VmPod| {
            let source = source.map(|pod| pod.uid.clone());
            Ok(Some(Migration { stage, source, target: target.uid.clone() }))
        };
        match (living.as_slice(), sorted.last()) {
            ([source], Some(newest)) if source.uid != newest.uid => {
                found(MigrationStage::Failed, Some(source), newest)
            }
            ([target], _) if target.is_target_ready => found(MigrationStage::Finished, None, target),
            ([], _) | ([_], _) => Ok(None),
            ([source, target], _) if target.is_target_ready => {
                found(MigrationStage::TargetReady, Some(source), target)
            }
            ([source, target], _) => found(MigrationStage::InProgress, Some(source), target),
            (more, _) => Err(TooManyPods(more.len())),
        }
    }

    /// The traffic of a pod's port; `None` if the pod has no port any more.
    pub fn traffic_of(&self, uid: &str) -> Option<PodTraffic> {
        let is_target = uid == self.target;
        let is_source = self.source.as_deref() == Some(uid);
        match self.stage {
            MigrationStage::InProgress if is_target => Some(PodTraffic::Blocked),
            MigrationStage::TargetReady if is_source => Some(PodTraffic::Blocked),
            MigrationStage::Failed if is_target => None,
            _ => Some(PodTraffic::Passes),
        }
    }

    /// The pod at which the machine has arrived, so that its node must tell it about its gateway.
    pub fn arrived(&self) -> Option<&str> {
        matches!(self.stage, MigrationStage::TargetReady | MigrationStage::Finished)
            .then_some(self.target.as_str())
    }
}

/// The pods at which machines have arrived since the last call.
///
/// A program that has just started takes all present arrivals for known, except those that its caller calls recent: frames to a guest
/// that knows its gateway change nothing, but a guest that never got them is cut off.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    known: Option<BTreeSet<String>>,
}

impl Arrivals {
    /// Takes the arrivals of this moment with the age of their timestamps in seconds; returns those to send frames to.
    pub fn update(&mut self, now: &BTreeMap<String, u64>) -> Vec<String> {
        let is_new = |uid: &String, age: u64| match &self.known {
            Some(known) => !known.contains(uid),
            None => age <= RECENT,
        };
        let fresh = now.iter().filter(|(uid, age)| is_new(uid, **age)).map(|(uid, _)| uid.clone()).collect();
        self.known = Some(now.keys().cloned().collect());
        fresh
    }
}

/// The age in seconds of an arrival whose frames a program may have been about to send when it ended.
const RECENT: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, created: i64, is_living: bool, is_target_ready: bool) -> VmPod {
        VmPod { uid: uid.to_owned(), created, is_living, is_target_ready }
    }

    fn stage(pods: &[VmPod]) -> Option<(MigrationStage, Option<String>, String)> {
        Migration::of_pods(pods).unwrap().map(|it| (it.stage, it.source, it.target))
    }

    #[test]
    fn the_newest_pod_is_the_target() {
        let source = Some("a".to_owned());
        let (b, a) = (|living, ready| pod("b", 20, living, ready), |living| pod("a", 10, living, false));
        assert_eq!(stage(&[]), None);
        assert_eq!(stage(&[a(true)]), None);
        assert_eq!(stage(&[a(false)]), None);
        for pods in [[a(true), b(true, false)], [b(true, false), a(true)]] {
            assert_eq!(stage(&pods), Some((MigrationStage::InProgress, source.clone(), "b".into())));
        }
        let ready = stage(&[a(true), b(true, true)]);
        assert_eq!(ready, Some((MigrationStage::TargetReady, source.clone(), "b".into())));
        assert_eq!(stage(&[a(true), b(false, false)]), Some((MigrationStage::Failed, source, "b".into())));
        assert_eq!(stage(&[a(false), b(true, true)]), Some((MigrationStage::Finished, None, "b".into())));
        assert_eq!(stage(&[b(true, true)]), Some((MigrationStage::Finished, None, "b".into())));
        assert_eq!(stage(&[a(false), b(false, true)]), None);
        let many = [a(true), b(true, false), pod("c", 30, true, false)];
        assert!(Migration::of_pods(&many).unwrap_err().to_string().starts_with("it has 3 running pods"));
    }

    #[test]
    fn a_finished_migration_may_begin_another() {
        // The target of the first migration is the source of the second, and still has its timestamp.
        let pods = [pod("a", 1, false, false), pod("b", 2, true, true), pod("c", 3, true, false)];
        assert_eq!(stage(&pods), Some((MigrationStage::InProgress, Some("b".into()), "c".into())));
    }

    #[test]
    fn one_of_both_ports_has_the_addresses() {
        let of = |stage| Migration { stage, source: Some("a".into()), target: "b".into() };
        let traffic = |stage| (of(stage).traffic_of("a"), of(stage).traffic_of("b"));
        let (passes, blocked) = (Some(PodTraffic::Passes), Some(PodTraffic::Blocked));
        assert_eq!(traffic(MigrationStage::InProgress), (passes, blocked));
        assert_eq!(traffic(MigrationStage::TargetReady), (blocked, passes));
        assert_eq!(traffic(MigrationStage::Failed), (passes, None));
        let arrived = |stage| of(stage).arrived().map(str::to_owned);
        assert_eq!(arrived(MigrationStage::TargetReady), Some("b".to_owned()));
        assert_eq!((arrived(MigrationStage::InProgress), arrived(MigrationStage::Failed)), (None, None));
    }

    #[test]
    fn each_arrival_is_new_once_and_after_a_restart_only_if_it_is_recent() {
        let at = |list: &[(&str, u64)]| list.iter().map(|(uid, age)| ((*uid).to_owned(), *age)).collect();
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.update(&at(&[("old", 3600), ("recent", 4)])), ["recent"]);
        assert_eq!(arrivals.update(&at(&[("old", 3601), ("recent", 5), ("late", 90)])), ["late"]);
        assert_eq!(arrivals.update(&at(&[("late", 91)])), [""; 0]);
        assert_eq!(arrivals.update(&at(&[("late", 92), ("old", 3700)])), ["old"], "it had gone");
    }
}
