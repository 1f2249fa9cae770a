//! The measurements side by side: pure arithmetic and text.

use std::fmt::Write;

use serde::Serialize;

/// The better of two values of a measure: noise only ever makes things look worse.
fn better(measure: &str, a: f64, b: f64) -> f64 {
    if measure == "rows/s" { a.max(b) } else { a.min(b) }
}

/// The measured clients, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    Meridian,
    C,
    Python,
}

/// The goal of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "at_most")]
pub(crate) enum Goal {
    /// At most this share of C's value in the same line.
    ShareOfC(f64),
    /// At most this value.
    Value(f64),
}

/// One measurement of every client.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// How many rows the database held.
    pub(crate) rows: usize,
    /// The operation.
    pub(crate) what: String,
    /// The measured quantity, with its unit.
    pub(crate) measure: &'static str,
    pub(crate) meridian: Option<f64>,
    pub(crate) c: Option<f64>,
    pub(crate) python: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<Goal>,
}

impl Line {
    /// Ours divided by theirs.
    fn ratio(&self, other: Option<f64>) -> Option<f64> {
        Some(self.meridian? / other.filter(|value| *value > 0.0)?)
    }

    /// Whether the goal is met; none where there is no goal or nothing to compare.
    fn met(&self) -> Option<bool> {
        match self.goal? {
            Goal::ShareOfC(share) => Some(self.ratio(self.c)? <= share),
            Goal::Value(limit) => Some(self.meridian? <= limit),
        }
    }
}

/// All lines of a run and what one must know to read them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) lines: Vec<Line>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Records one value; of several rounds the best one counts.
    pub(crate) fn add(
        &mut self,
        rows: usize,
        what: &str,
        measure: &'static str,
        who: Who,
        value: f64,
        goal: Option<Goal>,
    ) {
        let found = self.lines.iter().position(|l| l.rows == rows && l.what == what && l.measure == measure);
        let at = found.unwrap_or_else(|| {
            let what = what.to_owned();
            self.lines.push(Line { rows, what, measure, meridian: None, c: None, python: None, goal });
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        let place = match who {
            Who::Meridian => &mut line.meridian,
            Who::C => &mut line.c,
            Who::Python => &mut line.python,
        };
        *place = Some(place.map_or(value, |known| better(measure, known, value)));
    }

    /// Adds a line: the values of another line minus the first column of a third one.
    pub(crate) fn add_beyond(&mut self, rows: usize, what: &str, floor: &str, beyond: &str, goal: Goal) {
        let find = |what: &str| self.lines.iter().find(|l| l.rows == rows && l.what == what).cloned();
        let (Some(line), Some(floor)) = (find(what), find(floor).and_then(|line| line.meridian)) else {
            return;
        };
        for (who, value) in [(Who::Meridian, line.meridian), (Who::C, line.c), (Who::Python, line.python)] {
            if let Some(value) = value {
                self.add(rows, beyond, line.measure, who, (value - floor).max(0.0), Some(goal));
            }
        }
    }

    /// Adds how the cost per row at the largest size compares with the smallest: 1 is linear. Loads have to be about that.
    /// Plans have no goal: with few rows, everything is in the processor's caches.
    pub(crate) fn add_growth(&mut self) {
        let mut growth = Vec::new();
        for large in self.lines.iter().filter(|line| line.measure == "CPU s") {
            let same = |line: &&Line| line.what == large.what && line.measure == large.measure;
            let Some(small) = self.lines.iter().filter(same).min_by_key(|line| line.rows) else { continue };
            if self.lines.iter().any(|line| same(&line) && line.rows > large.rows) || small.rows >= large.rows
            {
                continue;
            }
            let per_row = |large_value: Option<f64>, small_value: Option<f64>| {
                Some(large_value? / large.rows as f64 / (small_value? / small.rows as f64))
            };
            growth.push(Line {
                rows: large.rows,
                what: format!("{}, CPU per row against {} rows", large.what, small.rows),
                measure: "times",
                meridian: per_row(large.meridian, small.meridian),
                c: per_row(large.c, small.c),
                python: per_row(large.python, small.python),
                goal: (!large.what.starts_with("plan")).then_some(Goal::Value(1.25)),
            });
        }
        self.lines.extend(growth);
    }

    /// Every goal with its line, and whether all that could be judged are met.
    pub(crate) fn goals(&self) -> (usize, usize) {
        let judged: Vec<bool> = self.lines.iter().filter_map(Line::met).collect();
        (judged.iter().filter(|met| **met).count(), judged.len())
    }

    /// Formats the report as text in columns.
    pub(crate) fn table(&self) -> String {
        let head = ["rows", "what", "measure", "meridian", "C", "Python", "/ C", "/ Python", "goal", "met"];
        let mut cells = vec![head.map(str::to_owned)];
        for line in &self.lines {
            let goal = match line.goal {
                Some(Goal::ShareOfC(share)) => format!("<= {share} of C"),
                Some(Goal::Value(limit)) => format!("<= {limit}"),
                None => String::new(),
            };
            let met = line.met().map_or("", |met| if met { "yes" } else { "NO" });
            cells.push([
                line.rows.to_string(),
                line.what.clone(),
                line.measure.to_owned(),
                number(line.meridian),
                number(line.c),
                number(line.python),
                number(line.ratio(line.c)),
                number(line.ratio(line.python)),
                goal,
                met.to_owned(),
            ]);
        }
        let mut text = columns(&cells, &[1, 2, 8, 9]);
        for note in &self.notes {
            let _ = writeln!(text, "\n- {note}");
        }
        text
    }
}

/// Formats cells in columns: text left-aligned in the named columns, numbers right-aligned.
pub(crate) fn columns<R: AsRef<[String]>>(cells: &[R], words: &[usize]) -> String {
    let width = |column: usize| {
        cells
            .iter()
            .filter_map(|row| row.as_ref().get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..cells.first().map_or(0, |row| row.as_ref().len())).map(width).collect();
    let mut text = String::new();
    for row in cells {
        let mut out = String::new();
        for ((column, cell), width) in row.as_ref().iter().enumerate().zip(&widths) {
            let _ = if words.contains(&column) {
                write!(out, "{cell:<width$}  ")
            } else {
                write!(out, "{cell:>width$}  ")
            };
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

/// Three significant digits; nothing where nothing was measured.
pub(crate) fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        for (rows, ours, c) in [(2000, 0.01, 0.1), (100_000, 0.5, 4.0)] {
            report.add(rows, "load", "CPU s", Who::Meridian, ours, Some(Goal::ShareOfC(0.2)));
            report.add(rows, "load", "CPU s", Who::C, c, Some(Goal::ShareOfC(0.2)));
        }
        report
    }

    #[test]
    fn goals_are_judged_on_the_ratio() {
        let mut report = report();
        assert_eq!(report.goals(), (2, 2));
        report.add(2000, "load", "CPU s", Who::C, 0.03, None);
        assert_eq!(report.goals(), (1, 2));
        assert_eq!(report.lines.len(), 2);
    }

    #[test]
    fn of_several_rounds_the_best_counts() {
        let mut report = Report::default();
        for (cpu, rate) in [(0.3, 10.0), (0.1, 30.0), (0.2, 20.0)] {
            report.add(1, "insert", "CPU us/row", Who::C, cpu, None);
            report.add(1, "insert", "rows/s", Who::C, rate, None);
        }
        assert_eq!((report.lines[0].c, report.lines[1].c), (Some(0.1), Some(30.0)));
    }

    #[test]
    fn a_client_that_was_not_measured_is_not_judged() {
        let mut report = Report::default();
        report.add(1, "load", "CPU s", Who::C, 1.0, Some(Goal::ShareOfC(0.2)));
        assert_eq!(report.goals(), (0, 0));
        assert!(report.table().contains(" - "));
    }

    #[test]
    fn what_all_have_to_pay_can_be_left_out() {
        let mut report = Report::default();
        let mut add = |what, who, value| report.add(1, what, "CPU us", who, value, None);
        add("change", Who::Meridian, 60.0);
        add("change", Who::C, 90.0);
        add("floor", Who::Meridian, 30.0);
        add("floor", Who::C, 80.0);
        report.add_beyond(1, "change", "floor", "beyond", Goal::ShareOfC(0.5));
        let beyond = report.lines.last().unwrap();
        assert_eq!((beyond.meridian, beyond.c, beyond.python), (Some(30.0), Some(60.0), None));
        assert_eq!(report.goals(), (1, 1));
        report.add_beyond(2, "change", "floor", "beyond", Goal::ShareOfC(0.5));
        assert_eq!(report.lines.len(), 3, "nothing is known of another size");
    }

    #[test]
    fn growth_is_per_row() {
        let mut report = report();
        report.add_growth();
        let growth = report.lines.last().unwrap();
        assert_eq!((growth.rows, growth.measure), (100_000, "times"));
        assert!((growth.meridian.unwrap() - 1.0).abs() < 1e-9);
        assert!((growth.c.unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(growth.python, None);
        assert!(matches!(growth.goal, Some(Goal::Value(limit)) if limit == 1.25));
    }

    #[test]
    fn the_growth_of_plans_is_told_and_not_judged() {
        let mut report = Report::default();
        for (rows, seconds) in [(2000, 0.01), (100_000, 1.0)] {
            report.add(rows, "plan, x", "CPU s", Who::Meridian, seconds, None);
        }
        report.add_growth();
        assert_eq!(report.lines.last().unwrap().meridian, Some(2.0));
        assert_eq!(report.goals(), (0, 0));
    }

    #[test]
    fn columns_line_up() {
        let table = report().table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0].find("meridian").map(|at| at + "meridian".len()),
            lines[1].find("0.010").map(|at| at + 5)
        );
        assert!(lines[1].ends_with("yes"));
    }
}
