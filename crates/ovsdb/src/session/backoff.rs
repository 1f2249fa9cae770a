//! The delay before the next round of remotes: exponential with jitter, without end.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

/// A small generator (SplitMix64). Spreading clients in time needs no better, and a seed makes every test repeatable.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or zero if there is none.
    fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is below 2^-32 for the small bounds used here.
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = self.below(at as u64 + 1) as usize;
            items.swap(at, other);
        }
    }
}

/// Delays between rounds.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        // A zero delay would spin on a server that refuses at once.
        let min = min.max(Duration::from_millis(1));
        Self { min, max: max.max(min), failures: 0 }
    }

    /// The next delay: between half and all of a span that doubles up to the maximum, so that clients which lost their server
    /// at the same moment do not reconnect at the same moment.
    pub(super) fn next(&mut self, random: &mut Random) -> Duration {
        let span = self.min.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let half = span / 2;
        let jitter = random.below(half.as_micros() as u64 + 1);
        span - half + Duration::from_micros(jitter)
    }

    /// A connection was stable: the next failure is the first one again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Rounds that failed in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_go_on_for_ever() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(8));
        let mut backoff = Backoff::new(min, max);
        let mut random = Random::new(1);
        for round in 0..200u32 {
            let span = min.saturating_mul(1 << round.min(20)).min(max);
            let delay = backoff.next(&mut random);
            assert!(delay >= span / 2 && delay <= span, "{round}: {delay:?} of {span:?}");
        }
        backoff.reset();
        assert!(backoff.next(&mut random) <= min);
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn different_seeds_spread() {
        let delays: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| {
                Backoff::new(Duration::from_secs(8), Duration::from_secs(8)).next(&mut Random::new(seed))
            })
            .collect();
        assert!(delays.len() > 40, "{} different delays of 50", delays.len());
    }

    proptest! {
        #[test]
        fn odd_settings_never_panic_and_never_give_zero(min in 0u64.., max in 0u64.., seed: u64) {
            let mut backoff = Backoff::new(Duration::from_secs(min), Duration::from_nanos(max));
            let mut random = Random::new(seed);
            for _ in 0..40 {
                prop_assert!(backoff.next(&mut random) > Duration::ZERO);
            }
        }
    }
}
