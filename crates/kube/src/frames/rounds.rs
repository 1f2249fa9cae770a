//! When frames are sent. The caller brings the clock.

use std::collections::BTreeMap;
use std::time::Duration;

/// The rounds after an event. Frames get lost, and no guest acknowledges them.
const AFTER: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3)];

/// The rounds that are still to come, by receiver.
#[derive(Clone, Debug)]
pub struct Rounds<K> {
    started: BTreeMap<K, (Duration, usize)>,
}

impl<K> Default for Rounds<K> {
    fn default() -> Self {
        Rounds { started: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Rounds<K> {
    /// Starts the rounds of a receiver at this time of the caller's clock; rounds of an earlier event end.
    pub fn start(&mut self, key: K, now: Duration) {
        self.started.insert(key, (now, 0));
    }

    /// Ends the rounds of receivers that are gone.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.started.retain(|key, _| keep(key));
    }

    /// Takes the receivers whose next round is due. A caller that is late sends one round, not several at once.
    pub fn take_due(&mut self, now: Duration) -> Vec<K> {
        let mut due = Vec::new();
        self.started.retain(|key, (start, sent)| {
            let passed = AFTER.iter().filter(|after| *start + **after <= now).count();
            if passed > *sent {
                due.push(key.clone());
                *sent = passed;
            }
            *sent < AFTER.len()
        });
        due
    }

    /// The time of the next round.
    pub fn next(&self) -> Option<Duration> {
        self.started.values().filter_map(|(start, sent)| Some(*start + *AFTER.get(*sent)?)).min()
    }
}
