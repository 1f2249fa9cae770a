//! The results of a tempest run, parsed from the runner's output, and its expected skips.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::summary::Counts;

/// The results of the tests of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    passed: u64,
    failed: u64,
    /// Tests, or whole classes as `setUpClass (CLASS)`, that skipped themselves, each with the reason it gave.
    pub(super) skipped: BTreeMap<String, String>,
}

impl Outcome {
    /// Reads a line such as `{0} MODULE.CLASS.TEST [0.5s] ... ok`; other lines are ignored.
    pub(super) fn read(&mut self, line: &str) {
        let Some((test, result)) = result_line(line) else { return };
        match result.split_once(':').map_or(result, |(word, _)| word) {
            "ok" => self.passed += 1,
            "FAILED" => self.failed += 1,
            "SKIPPED" => {
                let reason = result.split_once(':').map_or("", |(_, reason)| reason.trim());
                self.skipped.insert(test.to_owned(), reason.to_owned());
            }
            _ => {}
        }
    }

    /// The number of tests that ran.
    pub(super) fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { passed: self.passed, failed: self.failed }
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

/// The skips that are right, each with its reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpectedSkips(BTreeMap<String, String>);

impl ExpectedSkips {
    /// Parses lines of the form `TEST: REASON`, where REASON is the message of the test.
    pub(super) fn parse(text: &str) -> Result<ExpectedSkips> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (test, reason) =
                line.split_once(": ").with_context(|| format!("skips.txt: no reason in {line:?}"))?;
            Ok((test.to_owned(), reason.to_owned()))
        };
        lines.map(pair).collect::<Result<_>>().map(ExpectedSkips)
    }

    /// The differences, a sentence each.
    pub(super) fn compare(&self, skipped: &BTreeMap<String, String>) -> Vec<String> {
        let unexpected = skipped.iter().filter(|(test, _)| !self.0.contains_key(*test));
        let unexpected = unexpected.map(|(test, reason)| {
            format!("{test} skipped itself ({reason}): make it run, or say in skips.txt why it is right")
        });
        let stale = self.0.keys().filter(|test| !skipped.contains_key(*test));
        unexpected
            .chain(stale.map(|test| format!("{test} did not skip itself: remove it from skips.txt")))
            .collect()
    }
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

    #[test]
    fn a_skip_that_is_not_listed_and_one_that_did_not_happen_are_told() {
        let expected = ExpectedSkips::parse("# why\n\na.b: no QoS\nc.d: no trunks\n").unwrap();
        let skipped = BTreeMap::from([("a.b".into(), "no QoS".into()), ("e.f".into(), "new".into())]);
        let faults = expected.compare(&skipped);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("e.f") && faults[0].contains("new"), "{faults:?}");
        assert!(faults[1].contains("c.d"), "{faults:?}");
        assert!(ExpectedSkips::parse("a.b\n").is_err(), "a skip without its reason");
    }
}
