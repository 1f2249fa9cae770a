//! Repeated runs of the same tests: the failures of each.

use std::collections::BTreeMap;
use std::fmt;

/// The number of failures of each test.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    done: usize,
    /// The rounds in which each test failed.
    failed: BTreeMap<String, Vec<usize>>,
}

impl Rounds {
    /// Begins another round.
    pub(crate) fn begin(&mut self) {
        self.done += 1;
    }

    /// Processes a line of nextest's output. nextest prints a failure twice; it counts once.
    pub(crate) fn see(&mut self, line: &str) {
        let Some(test) = failed_test(line) else { return };
        let rounds = self.failed.entry(test.to_owned()).or_default();
        if rounds.last() != Some(&self.done) {
            rounds.push(self.done);
        }
    }

    /// Whether nothing failed so far.
    pub(crate) fn clean(&self) -> bool {
        self.failed.is_empty()
    }
}

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clean() {
            return write!(f, "{} rounds, no failure", self.done);
        }
        write!(f, "{} rounds; failed:", self.done)?;
        for (test, rounds) in &self.failed {
            let numbers: Vec<String> = rounds.iter().map(|round| round.to_string()).collect();
            write!(f, "\n  {test}: {} of {} (round {})", rounds.len(), self.done, numbers.join(", "))?;
        }
        Ok(())
    }
}

/// The failed test in a line such as `FAIL [  10.9s] ( 5/12) e2e::e2e bgp::steps`, whatever keyword nextest uses for the kind
/// of failure.
fn failed_test(line: &str) -> Option<&str> {
    let (status, rest) = line.trim().split_once(" [")?;
    let shouted = !status.is_empty() && status.chars().all(|c| c.is_ascii_uppercase() || "- ".contains(c));
    // A slow test may still pass, and a leaky one has passed. If a profile treats these as failures, nextest prints another keyword.
    if !shouted || ["PASS", "SLOW", "START", "LEAK", "SKIP", "SETUP PASS"].contains(&status) {
        return None;
    }
    let (_, rest) = rest.split_once("] ")?;
    rest.split_ascii_whitespace().next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_once_a_round_whatever_nextest_calls_them() {
        let mut rounds = Rounds::default();
        rounds.begin();
        rounds.see("        PASS [   1.369s] (1/7) e2e::e2e faults::a_failing_test_is_told");
        rounds.see("        SLOW [> 90.000s] (───) e2e::e2e cloud::keystone_on_a_node");
        rounds.see("  Summary [ 1.2s] 12 tests run: 10 passed, 1 failed, 0 skipped");
        rounds.see("  12.3 [1700000000.25] 64 bytes from 10.0.0.1: FAIL");
        assert!(rounds.clean());
        assert_eq!(rounds.to_string(), "1 rounds, no failure");
        rounds.begin();
        for _ in 0..2 {
            rounds.see("        FAIL [  10.928s] ( 5/12) e2e::e2e bgp::steps");
        }
        rounds.begin();
        rounds.see("     TIMEOUT [ 450.0s] (12/12) e2e::e2e bgp::steps");
        rounds.see("     SIGABRT [   0.1s] ( 1/12) e2e::e2e chaos::all");
        assert_eq!(
            rounds.to_string(),
            "3 rounds; failed:\n  bgp::steps: 2 of 3 (round 2, 3)\n  chaos::all: 1 of 3 (round 3)"
        );
    }
}
