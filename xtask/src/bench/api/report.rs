//! The measurements and their goals: pure arithmetic and text.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::report::number;
use super::cloud::Sql;

/// The unit of which more is better.
pub(super) const RATE: &str = "a second";
/// Measures that count failures: the worst of several rounds is reported.
const COUNTED: [&str; 6] =
    ["requests refused", "transactions", "lost or doubled", "rows", "operations", "rows that differ"];

/// The goal of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Goal::AtMost(limit) => value <= limit,
            Goal::AtLeast(limit) => value >= limit,
        }
    }
}

/// One measurement on both databases.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    what: String,
    /// Its unit.
    measure: &'static str,
    sqlite: Option<f64>,
    postgres: Option<f64>,
    /// Neutron's cost for the same operation, from the lowest to the highest known value.
    #[serde(skip_serializing_if = "Option::is_none")]
    neutron: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<Goal>,
}

impl Line {
    /// Whether the goal is met by every value there is.
    fn met(&self) -> Option<bool> {
        let goal = self.goal?;
        let values: Vec<f64> = [self.sqlite, self.postgres].into_iter().flatten().collect();
        (!values.is_empty()).then(|| values.iter().all(|value| goal.is_met(*value)))
    }
}

/// All lines of a run and what one must know to read them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    lines: Vec<Line>,
    pub(super) notes: Vec<String>,
}

impl Report {
    /// Records a value; of several rounds the best one counts.
    pub(super) fn add(
        &mut self,
        sql: Sql,
        what: &str,
        measure: &'static str,
        value: f64,
        goal: Option<Goal>,
    ) {
        let line = self.line(what, measure);
        line.goal = goal.or(line.goal);
        let higher = matches!(line.goal, Some(Goal::AtLeast(_))) || measure == RATE;
        let place = match sql {
            Sql::Sqlite => &mut line.sqlite,
            Sql::Postgres => &mut line.postgres,
        };
        // What is timed or weighed is disturbed by others; what is counted is not, and once is too often.
        let most = higher || COUNTED.contains(&measure);
        let better = |known: f64| if most { known.max(value) } else { known.min(value) };
        *place = Some(place.map_or(value, better));
    }

    /// Neutron's cost.
    pub(super) fn neutron(&mut self, what: &str, measure: &'static str, range: (f64, f64)) {
        self.line(what, measure).neutron = Some(range);
    }

    fn line(&mut self, what: &str, measure: &'static str) -> &mut Line {
        let found = self.lines.iter().position(|line| line.what == what && line.measure == measure);
        let at = found.unwrap_or_else(|| {
            let what = what.to_owned();
            self.lines.push(Line { what, measure, sqlite: None, postgres: None, neutron: None, goal: None });
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Formats the report as text in columns.
    pub(super) fn table(&self) -> String {
        let head = ["what", "measure", "SQLite", "PostgreSQL", "Neutron", "times better", "goal", "met"];
        let mut cells = vec![head.map(str::to_owned)];
        for line in &self.lines {
            let goal = match line.goal {
                Some(Goal::AtMost(limit)) => format!("<= {limit}"),
                Some(Goal::AtLeast(limit)) => format!(">= {limit}"),
                None => String::new(),
            };
            let neutron = match line.neutron {
                None => String::new(),
                Some((low, high)) if low == high => number(Some(low)),
                Some((low, high)) => format!("{}-{}", number(Some(low)), number(Some(high))),
            };
            // Against the best that Neutron does.
            let times = line.neutron.zip(line.sqlite).filter(|(_, ours)| *ours > 0.0);
            let times =
                times.map(|((low, high), ours)| if line.measure == RATE { ours / high } else { low / ours });
            let met = line.met().map_or("", |met| if met { "yes" } else { "NO" });
            cells.push([
                line.what.clone(),
                line.measure.to_owned(),
                number(line.sqlite),
                if line.postgres.is_some() { number(line.postgres) } else { String::new() },
                neutron,
                times.map_or(String::new(), |times| format!("{times:.0}")),
                goal,
                met.to_owned(),
            ]);
        }
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut text = String::new();
        for row in &cells {
            let mut out = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                // Words to the left, numbers to the right.
                let _ = if matches!(column, 0 | 1 | 6 | 7) {
                    write!(out, "{cell:<width$}  ")
                } else {
                    write!(out, "{cell:>width$}  ")
                };
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n- {note}");
        }
        let judged: Vec<bool> = self.lines.iter().filter_map(Line::met).collect();
        let met = judged.iter().filter(|met| **met).count();
        let _ = writeln!(text, "\n{met} of {} goals met", judged.len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_round_counts_and_both_databases_are_judged() {
        let mut report = Report::default();
        for cpu in [2.0, 1.5, 1.7] {
            report.add(Sql::Sqlite, "create port", "CPU ms", cpu, Some(Goal::AtMost(1.8)));
        }
        assert_eq!(report.lines[0].sqlite, Some(1.5));
        assert!(report.table().ends_with("1 of 1 goals met\n"));
        report.add(Sql::Postgres, "create port", "CPU ms", 1.9, Some(Goal::AtMost(1.8)));
        assert!(report.table().ends_with("0 of 1 goals met\n"));
    }

    #[test]
    fn more_is_better_for_some() {
        let mut report = Report::default();
        for (rate, growth) in [(10.0, 1.1), (30.0, 0.9)] {
            report.add(Sql::Sqlite, "ports", RATE, rate, None);
            report.add(Sql::Sqlite, "second client", "times", growth, Some(Goal::AtLeast(1.0)));
        }
        assert_eq!(report.lines[0].sqlite, Some(30.0));
        assert!(report.table().ends_with("1 of 1 goals met\n"), "{}", report.table());
    }

    #[test]
    fn once_is_too_often_for_what_should_not_be() {
        let mut report = Report::default();
        for refused in [0.0, 1.0, 0.0] {
            report.add(Sql::Sqlite, "away", "requests refused", refused, Some(Goal::AtMost(0.0)));
        }
        assert!(report.table().ends_with("0 of 1 goals met\n"), "{}", report.table());
    }

    #[test]
    fn neutron_stands_beside() {
        let mut report = Report::default();
        report.add(Sql::Sqlite, "show port", "CPU ms", 0.09, Some(Goal::AtMost(0.18)));
        report.neutron("show port", "CPU ms", (18.0, 18.0));
        report.neutron("create port", "CPU ms", (180.0, 276.0));
        let table = report.table();
        assert!(
            table.lines().nth(1).is_some_and(|line| line.contains("18.0") && line.contains("200")),
            "{table}"
        );
        assert!(table.contains("180-276"), "{table}");
        assert!(table.contains("1 of 1 goals met"), "what was not measured is not judged: {table}");
    }
}
