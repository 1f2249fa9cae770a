//! The delay after a failure: doubling, capped, with jitter, without end.
//!
//! Pure: the random number is an argument, and so is the time. There is no maximum number of retries: a network that returns
//! after a week is noticed within the longest delay.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use crate::problem::Class;

/// The number of conflicts in a row that the loop answers with an immediate retry. Further ones count like any failure.
const QUICK_LOOKS: u32 = 3;

/// The range of delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// The longest delay after the first failure.
    pub first: Duration,
    /// The longest delay after any number of failures.
    pub max: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self { first: Duration::from_millis(200), max: Duration::from_secs(60) }
    }
}

/// Counts failures in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Records a failure and returns the delay. `jitter` is a random number in 0..1.
    ///
    /// The delay lies between half and all of the doubled base, so that components which failed together do not retry together,
    /// and none retries at once. Only the first conflicts in a row have no delay, because observing again resolves them.
    pub fn fail(&mut self, class: Class, delays: &Delays, jitter: f64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let mut nth = self.failures;
        if class == Class::Conflict {
            if nth <= QUICK_LOOKS {
                return Duration::ZERO;
            }
            nth -= QUICK_LOOKS;
        }
        let doubled = delays.first.saturating_mul(2u32.saturating_pow(nth - 1)).min(delays.max);
        doubled.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }

    /// Resets the count of failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last reset.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: Delays = Delays { first: Duration::from_millis(100), max: Duration::from_secs(1) };

    fn run(class: Class, jitter: f64, n: usize) -> Vec<u128> {
        let mut backoff = Backoff::default();
        (0..n).map(|_| backoff.fail(class, &DELAYS, jitter).as_millis()).collect()
    }

    #[test]
    fn delays_double_to_the_cap_and_jitter_takes_up_to_half_off() {
        let table: [(Class, f64, &[u128]); 4] = [
            (Class::Transient, 1.0, &[100, 200, 400, 800, 1000, 1000]),
            (Class::Transient, 0.0, &[50, 100, 200, 400, 500, 500]),
            (Class::Refused, 0.5, &[75, 150, 300, 600, 750, 750]),
            (Class::Conflict, 1.0, &[0, 0, 0, 100, 200, 400, 800, 1000]),
        ];
        for (class, jitter, want) in table {
            assert_eq!(run(class, jitter, want.len()), want, "{class} {jitter}");
        }
    }

    #[test]
    fn it_never_gives_up_and_starts_over_after_a_success() {
        let mut backoff = Backoff { failures: u32::MAX - 1 };
        for _ in 0..3 {
            assert_eq!(backoff.fail(Class::Bug, &DELAYS, 1.0), DELAYS.max);
        }
        backoff.reset();
        assert_eq!(backoff.fail(Class::Bug, &DELAYS, 1.0), DELAYS.first);
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn a_random_number_out_of_range_is_clamped() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.fail(Class::Bug, &DELAYS, 7.0), DELAYS.first);
    }
}
