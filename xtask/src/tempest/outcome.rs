//! The results of a tempest run, parsed from the runner's output.

use std::collections::{BTreeMap, BTreeSet};

use crate::summary::Counts;

/// The results of the tests of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: BTreeSet<String>,
    /// Tests that failed. A class whose set-up or tear-down failed counts as one.
    pub(super) failed: BTreeSet<String>,
    /// Tests, or whole classes as `setUpClass (CLASS)`, that skipped themselves, each with the reason it gave.
    pub(super) skipped: BTreeMap<String, String>,
}

impl Outcome {
    /// Reads a line such as `{0} MODULE.CLASS.TEST [0.5s] ... ok`; other lines are ignored.
    pub(super) fn read(&mut self, line: &str) {
        let Some((test, result)) = result_line(line) else { return };
        match result.split_once(':').map_or(result, |(word, _)| word) {
            "ok" => drop(self.passed.insert(test.to_owned())),
            "FAILED" => drop(self.failed.insert(test.to_owned())),
            "SKIPPED" => {
                let reason = result.split_once(':').map_or("", |(_, reason)| reason.trim());
                self.skipped.insert(test.to_owned(), reason.to_owned());
            }
            _ => {}
        }
    }

    /// The number of tests that ran.
    pub(super) fn ran(&self) -> u64 {
        self.counts().passed + self.counts().failed
    }

    pub(super) fn counts(&self) -> Counts {
        let count = |tests: &BTreeSet<String>| u64::try_from(tests.len()).unwrap_or(u64::MAX);
        Counts { passed: count(&self.passed), failed: count(&self.failed) }
    }
}

/// The test's name, without the attributes in brackets, and how it ended.
fn result_line(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix('{')?;
    let (worker, rest) = rest.split_once("} ")?;
    worker.parse::<u32>().ok()?;
    let (test, result) = rest.split_once(" ... ")?;
    // `[id-...,smoke]` belongs to the name, `[0.5s]` is the time it took.
    let name = match test.strip_prefix("setUpClass").or_else(|| test.strip_prefix("tearDownClass")) {
        Some(_) => test.split(" [").next()?,
        None => test.split(['[', ' ']).next()?,
    };
    Some((name, result.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(lines: &[&str]) -> Outcome {
        let mut outcome = Outcome::default();
        lines.iter().for_each(|line| outcome.read(line));
        outcome
    }

    #[test]
    fn lines_of_the_runner_are_counted() {
        let outcome = outcome(&[
            "{0} tempest.api.network.test_x.XTest.test_a[id-1,smoke] [0.211310s] ... ok",
            "{1} tempest.api.network.test_x.XTest.test_b [0.2s] ... FAILED",
            "{1} tearDownClass (tempest.api.network.test_x.XTest) [0.000000s] ... FAILED",
            "{0} tempest.api.network.test_x.XTest.test_c [0.0s] ... SKIPPED: no QoS here: none",
            "{1} setUpClass (tempest.api.network.test_y.YTest) ... SKIPPED: dvr extension not enabled.",
            "Captured traceback:",
            "    {0} is no worker ... ok",
            "{x} no number ... ok",
        ]);
        assert_eq!(outcome.counts(), Counts { passed: 1, failed: 2 });
        let skipped: Vec<_> = outcome.skipped.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            skipped,
            [
                ("setUpClass (tempest.api.network.test_y.YTest)", "dvr extension not enabled."),
                ("tempest.api.network.test_x.XTest.test_c", "no QoS here: none"),
            ]
        );
    }
}
