//! Counts from the summaries of the test runners.

use std::fmt;

/// The number of tests that ran, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// Adds the counts in a line of nextest's output. Other lines add nothing, such as the summary
    /// that a failed test printed itself.
    pub(crate) fn see_nextest(&mut self, line: &str) {
        self.add(nextest_line(line).unwrap_or_default());
    }

    /// Adds the counts in a line of the doctests' output.
    pub(crate) fn see_doctests(&mut self, line: &str) {
        self.add(libtest_line(line).unwrap_or_default());
    }

    /// Adds further counts.
    pub(crate) fn add(&mut self, counts: Counts) {
        self.passed += counts.passed;
        self.failed += counts.failed;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// `Summary [ 1.2s] 12 tests run: 10 passed (1 slow), 1 failed, 1 timed out, 0 skipped`: whatever ran and did not pass
/// (failed, timed out, could not be started, leaked) counts as failed.
fn nextest_line(line: &str) -> Option<Counts> {
    let rest = line.trim_start().strip_prefix("Summary [")?;
    let (_, counts) = rest.split_once("run:")?;
    let mut seen = Counts::default();
    // Notes in parentheses hold commas of their own.
    let mut depth = 0;
    let flat: String = counts
        .chars()
        .filter(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => return depth == 0,
            }
            false
        })
        .collect();
    for part in flat.split(',') {
        let (number, what) = part.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match what.trim() {
            "passed" => seen.passed += number,
            "skipped" => {}
            _ => seen.failed += number,
        }
    }
    Some(seen)
}

/// `test result: ok. 3 passed; 0 failed; 0 ignored; ...`, which doctests print.
fn libtest_line(line: &str) -> Option<Counts> {
    let (_, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let mut seen = Counts::default();
    for part in counts.split(';') {
        match part.trim().split_once(' ') {
            Some((number, "passed")) => seen.passed = number.parse().ok()?,
            Some((number, "failed")) => seen.failed = number.parse().ok()?,
            _ => {}
        }
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.see_nextest(line));
        counts
    }

    fn doctests(lines: &[&str]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().for_each(|line| counts.see_doctests(line));
        counts
    }

    #[test]
    fn nextest_summary_counts_all_that_did_not_pass_as_failed() {
        let line = "     Summary [  12.345s] 14 tests run: 10 passed (1 slow, 2 leaky), 2 failed, 1 timed out, 1 exec failed, 7 skipped";
        assert_eq!(counts(&[line]), Counts { passed: 10, failed: 4 });
    }

    #[test]
    fn a_cancelled_run_is_counted_too() {
        let line = "     Summary [   0.1s] 3/9 tests run: 2 passed, 1 failed, 0 skipped";
        assert_eq!(counts(&[line]), Counts { passed: 2, failed: 1 });
    }

    #[test]
    fn doctests_of_several_crates_add_up() {
        let lines = [
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ];
        assert_eq!(doctests(&lines), Counts { passed: 4, failed: 2 });
        assert_eq!(doctests(&lines).to_string(), "4 passed, 2 failed");
        assert_eq!(counts(&lines), Counts::default(), "a failed test's own summary is no summary of nextest");
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(
            counts(&["", "PASS [ 0.1s] a::b", "Summary of changes", "running 3 tests"]),
            Counts::default()
        );
    }
}
