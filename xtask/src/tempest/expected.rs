//! The expected results of a tempest run: the tests that pass, and those that skip themselves, each with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::outcome::Outcome;

/// The results that are right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpectedResults {
    passes: BTreeSet<String>,
    /// Tests, or whole classes as `setUpClass (CLASS)`, each with the reason that it gives.
    skips: BTreeMap<String, String>,
}

impl ExpectedResults {
    /// Parses a list of tests, and lines of the form `TEST: REASON`, where REASON is the message of the test.
    pub(super) fn parse(passes: &str, skips: &str) -> Result<ExpectedResults> {
        let pair = |line: &str| {
            let (test, reason) =
                line.split_once(": ").with_context(|| format!("no reason in the skip {line:?}"))?;
            Ok((test.to_owned(), reason.to_owned()))
        };
        Ok(ExpectedResults {
            passes: entries(passes).map(str::to_owned).collect(),
            skips: entries(skips).map(pair).collect::<Result<_>>()?,
        })
    }

    /// The results of a run, as its lists would have them.
    pub(super) fn of(outcome: &Outcome) -> ExpectedResults {
        let skips = outcome.skipped.iter().map(|(test, reason)| (test.clone(), generic(reason)));
        ExpectedResults { passes: outcome.passed.clone(), skips: skips.collect() }
    }

    /// Both lists as text.
    pub(super) fn render(&self) -> (String, String) {
        let passes = self.passes.iter().fold(String::new(), |text, test| text + test + "\n");
        let mut skips = String::new();
        for (test, reason) in &self.skips {
            let _ = writeln!(skips, "{test}: {reason}");
        }
        (passes, skips)
    }

    /// Regular expressions of the tests that skip themselves, a line each, for an exclude list.
    pub(super) fn pattern_of_skips(&self) -> String {
        let pattern = |test: &str| match test.strip_prefix("setUpClass (").and_then(|it| it.strip_suffix(')'))
        {
            Some(class) => format!("^{}\\.", class.replace('.', "\\.")),
            None => format!("^{}\\[", test.replace('.', "\\.")),
        };
        self.skips.keys().fold(String::new(), |text, test| text + &pattern(test) + "\n")
    }

    /// The differences of a run, a sentence each. Failed tests are reported already.
    pub(super) fn compare(&self, outcome: &Outcome) -> Vec<String> {
        let found = ExpectedResults::of(outcome);
        let mut faults = Vec::new();
        for (test, reason) in &found.skips {
            match self.skips.get(test) {
                None => faults.push(format!(
                    "{test} skipped itself ({reason}): make it run, or add it with this reason to the skips"
                )),
                Some(known) if known != reason => faults
                    .push(format!("{test} skipped itself for another reason: {reason}, instead of: {known}")),
                Some(_) => {}
            }
        }
        for test in self.skips.keys().filter(|test| !found.skips.contains_key(*test)) {
            faults.push(format!("{test} did not skip itself: remove it from the skips"));
        }
        for test in found.passes.difference(&self.passes) {
            faults.push(format!("{test} passed: add it to the passes"));
        }
        let is_gone = |test: &&String| {
            !found.passes.contains(*test)
                && !outcome.failed.contains(*test)
                && !found.skips.contains_key(*test)
        };
        for test in self.passes.iter().filter(is_gone) {
            faults.push(format!("{test} did not run: find out why, or remove it from the passes"));
        }
        faults
    }
}

/// The lines of a list without comments.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A reason without the ids of a run.
fn generic(reason: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let words = reason.split(' ').map(|word| if is_id(word) { "ID" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(passed: &[&str], failed: &[&str], skipped: &[(&str, &str)]) -> Outcome {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let skipped = skipped.iter().map(|(test, reason)| ((*test).to_owned(), (*reason).to_owned()));
        Outcome { passed: all(passed), failed: all(failed), skipped: skipped.collect() }
    }

    fn expected() -> ExpectedResults {
        ExpectedResults::parse("# why\na.ok\nb.ok\n", "# why\n\na.b: no QoS\nc.d: no trunks\n").unwrap()
    }

    #[test]
    fn a_run_as_expected_has_no_fault_and_becomes_the_same_lists() {
        let outcome = ran(&["a.ok", "b.ok"], &[], &[("a.b", "no QoS"), ("c.d", "no trunks")]);
        assert_eq!(expected().compare(&outcome), [""; 0]);
        let (passes, skips) = ExpectedResults::of(&outcome).render();
        assert_eq!(ExpectedResults::parse(&passes, &skips).unwrap(), expected());
        assert!(ExpectedResults::parse("", "a.b\n").is_err(), "a skip without its reason");
    }

    #[test]
    fn a_skip_that_is_not_listed_and_one_that_did_not_happen_are_told() {
        let faults =
            expected().compare(&ran(&["a.ok", "b.ok", "c.d"], &[], &[("a.b", "no QoS"), ("e.f", "new")]));
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].contains("e.f") && faults[0].contains("new"), "{faults:?}");
        assert!(faults[1].starts_with("c.d did not skip"), "{faults:?}");
        assert!(faults[2].starts_with("c.d passed"), "{faults:?}");
    }

    #[test]
    fn a_skip_for_another_reason_is_told() {
        let outcome = ran(&["a.ok", "b.ok"], &[], &[("a.b", "server error"), ("c.d", "no trunks")]);
        let faults = expected().compare(&outcome);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("server error") && faults[0].contains("no QoS"), "{faults:?}");
    }

    #[test]
    fn fewer_tests_than_expected_fail_and_failed_ones_count_once() {
        let skips = [("a.b", "no QoS"), ("c.d", "no trunks")];
        let faults = expected().compare(&ran(&["a.ok"], &[], &skips));
        assert_eq!(faults, ["b.ok did not run: find out why, or remove it from the passes"]);
        assert_eq!(expected().compare(&ran(&["a.ok"], &["b.ok"], &skips)), [""; 0]);
    }

    #[test]
    fn patterns_match_whole_names() {
        let skips = ExpectedResults::parse("", "a.b: no\nsetUpClass (a.C): no\n").unwrap();
        assert_eq!(skips.pattern_of_skips(), "^a\\.b\\[\n^a\\.C\\.\n");
    }

    #[test]
    fn ids_in_reasons_do_not_matter() {
        let reason = "Pool 6b1c0000-0000-4000-8000-000000000001 is no-use";
        assert_eq!(generic(reason), "Pool ID is no-use");
    }
}
