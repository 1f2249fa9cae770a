//! The measurements of both clouds and their goals: pure arithmetic and text.

use serde::Serialize;

use super::super::report::{columns, number};
use super::site::Cost;

/// The share of the peer's CPU that is ours at most.
const CPU_SHARE: f64 = 0.01;
/// The memory of our server, in MB.
const MEMORY: f64 = 45.0;

const CPU: &str = "CPU ms, all services";
const TRANSACTIONS: &str = "Northbound transactions a request";

/// The measured clouds, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Meridian,
    Octavia,
}

/// One figure of both clouds.
#[derive(Clone, Debug, Serialize)]
struct Line {
    what: String,
    measure: &'static str,
    meridian: Option<f64>,
    octavia: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    /// The same as a share of the peer's figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most_of_octavia: Option<f64>,
}

impl Line {
    fn ratio(&self) -> Option<f64> {
        Some(self.meridian? / self.octavia.filter(|value| *value > 0.0)?)
    }

    fn met(&self) -> Option<bool> {
        match self.at_most_of_octavia {
            Some(share) => Some(self.ratio()? <= share),
            None => Some(self.meridian? <= self.at_most?),
        }
    }
}

/// All lines of a run, and the notes that one needs to read them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    lines: Vec<Line>,
    pub(super) notes: Vec<String>,
}

/// A report to which one cloud adds its figures.
pub(super) struct Column<'r> {
    report: &'r mut Report,
    side: Side,
}

impl Column<'_> {
    /// Adds the cost of an operation of `requests` requests; the goal is in milliseconds.
    pub(super) fn add(&mut self, what: &str, cost: &Cost, requests: usize, goal: Option<f64>) {
        let (report, side) = (&mut *self.report, self.side);
        let milliseconds = if requests > 1 { "ms each, to ACTIVE" } else { "ms" };
        report.add(what, milliseconds, side, cost.seconds * 1e3 / requests as f64, goal);
        report.add(what, CPU, side, cost.cpu * 1e3, None).at_most_of_octavia = Some(CPU_SHARE);
        let transactions = cost.transactions as f64 / requests as f64;
        report.add(what, TRANSACTIONS, side, transactions, Some(1.0));
    }

    /// Adds the growth of the Northbound's file; the goal is in kilobytes.
    pub(super) fn add_growth(&mut self, what: &str, cost: &Cost, goal: Option<f64>) {
        self.report.add(what, "kB of the Northbound's file", self.side, cost.growth as f64 / 1e3, goal);
    }
}

impl Report {
    /// The column of a cloud.
    pub(super) fn side(&mut self, side: Side) -> Column<'_> {
        Column { report: self, side }
    }

    /// Adds the memory of the API's processes, and of the driver agent's.
    pub(super) fn add_memory(&mut self, side: Side, mib: f64) {
        self.add("API (and driver agent)", "MB resident", side, mib * 1.048_576, Some(MEMORY));
    }

    /// Records a value. Of several rounds the best counts, of transactions the worst: a count has no noise.
    fn add(
        &mut self,
        what: &str,
        measure: &'static str,
        side: Side,
        value: f64,
        goal: Option<f64>,
    ) -> &mut Line {
        let found = self.lines.iter().position(|line| line.what == what && line.measure == measure);
        let at = found.unwrap_or_else(|| {
            let (meridian, octavia, at_most_of_octavia) = (None, None, None);
            let what = what.to_owned();
            self.lines.push(Line { what, measure, meridian, octavia, at_most: goal, at_most_of_octavia });
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        let place = match side {
            Side::Meridian => &mut line.meridian,
            Side::Octavia => &mut line.octavia,
        };
        let best = |known: f64| if measure == TRANSACTIONS { known.max(value) } else { known.min(value) };
        *place = Some(place.map_or(value, best));
        line
    }

    pub(super) fn add_notes(&mut self) {
        self.notes.extend(
            [
                "Times are from the request until a question for the state is answered ACTIVE, or 404 after a deletion. The pause between \
                 two questions is a tenth of the time that has passed, so a time is up to a tenth too long.",
                "CPU is user and system time of all processes of a cloud until they are at rest: APIs, agents, SQL, OVN's databases and \
                 ovn-northd. Questions for the state are in it.",
                "Transactions are records of the Northbound's file, without those that only touch NB_Global. Memory is proportional: what \
                 processes share counts once.",
            ]
            .map(str::to_owned),
        );
    }

    /// Formats the report as text in columns.
    pub(super) fn table(&self) -> String {
        let head = ["what", "measure", "meridian", "Octavia", "times better", "goal", "met"];
        let mut cells = vec![head.map(str::to_owned)];
        for line in &self.lines {
            let goal = match (line.at_most_of_octavia, line.at_most) {
                (Some(share), _) => format!("<= {share} of Octavia"),
                (None, Some(limit)) => format!("<= {limit}"),
                (None, None) => String::new(),
            };
            let times = line.ratio().filter(|ratio| *ratio > 0.0).map(|ratio| format!("{:.0}", 1.0 / ratio));
            let met = line.met().map_or("", |met| if met { "yes" } else { "NO" });
            cells.push([
                line.what.clone(),
                line.measure.to_owned(),
                number(line.meridian),
                number(line.octavia),
                times.unwrap_or_default(),
                goal,
                met.to_owned(),
            ]);
        }
        let mut text = columns(&cells, &[0, 1, 5, 6]);
        for note in &self.notes {
            text += &format!("\n- {note}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost { seconds: 0.010, cpu: 0.004, transactions: 1, growth: 2000 };

    #[test]
    fn goals_are_absolute_or_a_share_of_the_peer() {
        let mut report = Report::default();
        report.side(Side::Meridian).add("create", &COST, 1, Some(20.0));
        let met = |report: &Report| report.lines.iter().map(Line::met).collect::<Vec<_>>();
        assert_eq!(met(&report), [Some(true), None, Some(true)], "without a peer there is no share");
        let peer = Cost { seconds: 1.0, cpu: 0.3, transactions: 3, growth: 0 };
        report.side(Side::Octavia).add("create", &peer, 1, Some(20.0));
        assert_eq!(met(&report), [Some(true), Some(false), Some(true)]);
        assert!(report.table().lines().nth(2).unwrap().contains("75"), "{}", report.table());
    }

    #[test]
    fn the_best_time_and_the_most_transactions_count() {
        let mut report = Report::default();
        let slow = Cost { seconds: 0.1, transactions: 4, ..COST };
        for cost in [slow, COST] {
            report.side(Side::Meridian).add("one by one", &cost, 2, None);
        }
        let values: Vec<_> = report.lines.iter().map(|line| line.meridian.unwrap()).collect();
        assert_eq!(values, [5.0, 4.0, 2.0]);
    }
}
