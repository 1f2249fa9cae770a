//! `cargo xtask bench bgp`: compares our BGP agent with ovn-bgp-agent, each in a guest of its own, one after the other.
//!
//! The guest's side is the fixture `fixture::weigh` of the end-to-end tests: it starts a chassis with real Open vSwitch, FRR
//! and Southbound database, and measures. This module chooses the measurements and interprets the results.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use lab::harness;
use serde::Serialize;
use serde_json::json;

use super::Output;
use super::report::{columns, number};
use crate::command::heading;
use crate::packages::{self, CargoTool, Need};

/// The default maximum number of ports for ovn-bgp-agent; more take too long.
const PEER_PORTS: usize = 100;
/// The number of ports at which rules are compared with one rule for all.
const MANY: usize = 10_000;

/// The options of `bench bgp`.
pub(super) struct Order<'a> {
    pub(super) output: Output,
    pub(super) quick: bool,
    pub(super) full: bool,
    pub(super) alone: bool,
    pub(super) ports: &'a [usize],
    pub(super) rounds: u8,
}

/// The measured agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Meridian,
    Python,
}

/// One figure of both agents, with its goal and the reference figure of ovn-bgp-agent 7.0.
#[derive(Debug, Serialize)]
struct Line {
    ports: usize,
    what: String,
    measure: String,
    meridian: Option<f64>,
    #[serde(rename = "ovn-bgp-agent")]
    python: Option<f64>,
    /// On another machine of two cores, without a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    /// The same for a guest that is slower than that machine, as far as ovn-bgp-agent is slower in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most_here: Option<f64>,
}

impl Line {
    fn met(&self) -> Option<bool> {
        Some(self.meridian? <= self.at_most?)
    }

    fn met_here(&self) -> Option<bool> {
        Some(self.meridian? <= self.at_most_here.or(self.at_most)?)
    }

    /// How much slower ovn-bgp-agent is here.
    fn slower(&self) -> Option<f64> {
        Some(self.python? / self.reference?)
    }
}

#[derive(Debug, Default, Serialize)]
struct Report {
    lines: Vec<Line>,
    notes: Vec<String>,
}

pub(super) fn bench(order: &Order<'_>) -> Result<ExitCode> {
    packages::ensure(Need::Test)?;
    packages::ensure_tool(&CargoTool::NEXTEST)?;
    harness::build()?;
    let release = super::optimised()?;
    let binary = crate::lab::test_binary()?;
    let mut bench = Bench {
        guests: Guests { binary: Path::new(&binary), meridian: release.join("meridian") },
        report: Report::default(),
        told_off: order.alone.then(|| "it was left out by --alone".to_owned()),
    };
    for &ports in order.ports {
        for round in 0..order.rounds {
            bench.weigh(Who::Meridian, ports, "per-ip", round)?;
        }
        if ports <= PEER_PORTS || order.full {
            bench.peer(ports);
        }
    }
    if !order.quick {
        for mode in ["per-ip", "aggregate"] {
            bench.weigh(Who::Meridian, MANY, mode, 0)?;
        }
    }
    let mut report = bench.report;
    report.growth();
    report.scale();
    report.notes(bench.told_off.as_deref());
    match order.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Table => print!("{}", report.table()),
    }
    Ok(ExitCode::SUCCESS)
}

struct Bench<'a> {
    guests: Guests<'a>,
    report: Report,
    /// Why ovn-bgp-agent could not be measured, if so.
    told_off: Option<String>,
}

impl Bench<'_> {
    fn weigh(&mut self, who: Who, ports: usize, mode: &str, round: u8) -> Result<()> {
        heading(&format!("{who:?}: {ports} ports, {mode} rules, round {}", round + 1));
        let many = ports > 2000;
        let order = json!({
            "who": format!("{who:?}").to_lowercase(), "ports": ports, "rule_mode": mode, "frr": !many,
            "changes": match who { Who::Meridian => 100, Who::Python => 20 },
            "idle": 10,
            "resyncs": match who { Who::Meridian => 10, Who::Python => 2 },
            "interval": match who { Who::Meridian => 1, Who::Python => 5 },
        });
        for (what, measure, value) in self.guests.ask(&order.to_string())? {
            let what = if many { format!("{what}, {mode} rules") } else { what };
            self.report.add(who, ports, &what, &measure, value);
        }
        Ok(())
    }

    /// Measures ovn-bgp-agent at one size. If it does not run here, a note says so, and our own figures stay.
    fn peer(&mut self, ports: usize) {
        if self.told_off.is_none()
            && let Err(error) = self.weigh(Who::Python, ports, "per-ip", 0)
        {
            eprintln!("ovn-bgp-agent was not measured: {error:#}");
            self.told_off = Some(format!("{error:#}"));
        }
    }
}

/// Runs the fixture.
struct Guests<'a> {
    binary: &'a Path,
    meridian: std::path::PathBuf,
}

impl Guests<'_> {
    fn ask(&self, order: &str) -> Result<Vec<(String, String, f64)>> {
        let mut command = Command::new(self.binary);
        command.args(["--exact", "fixture::weigh", "--nocapture"]).stdin(Stdio::null());
        command.env("LAB_FIXTURES", "1").env("LAB_MERIDIAN", &self.meridian).env("LAB_BENCH", order);
        let out = command.output().context("cannot run the test binary")?;
        let said = String::from_utf8_lossy(&out.stdout);
        let last: Vec<&str> = said.lines().rev().take(30).collect();
        ensure!(
            out.status.success(),
            "the guest failed:\n{}",
            last.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
        let found = measured(&said);
        ensure!(!found.is_empty(), "nothing was measured");
        Ok(found)
    }
}

/// The results in the output of a guest.
fn measured(said: &str) -> Vec<(String, String, f64)> {
    let line = |line: &str| {
        let (_, json) = line.split_once("measured ")?;
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let text = |key: &str| value[key].as_str().map(|text| text.to_owned());
        Some((text("what")?, text("measure")?, value["value"].as_f64()?))
    };
    said.lines().filter_map(line).collect()
}

/// A goal.
fn goal(ports: usize, what: &str, measure: &str) -> Option<f64> {
    match (what, measure) {
        ("memory", _) => Some(15.0),
        ("start-up sync", "wall s") if ports == 1000 => Some(0.5),
        ("start-up sync", "CPU s") if ports == 1000 => Some(0.2),
        ("binding to address", "p50 ms") => Some(2.0),
        ("resync with nothing to do", "wall ms" | "CPU ms") => Some(20.0),
        ("repair of an address" | "repair of a rule", _) => Some(1000.0),
        (what, "times") if what.starts_with("start-up sync") => Some(1.25),
        _ => None,
    }
}

/// The figures of ovn-bgp-agent 7.0 on another machine with two cores, without a guest.
fn reference(ports: usize, what: &str, measure: &str) -> Option<f64> {
    let known = [
        (100, "memory", "MiB", 274.0),
        (10, "start-up sync", "wall s", 1.7),
        (100, "start-up sync", "wall s", 3.8),
        (1000, "start-up sync", "wall s", 99.0),
        (1000, "resync with nothing to do", "wall ms", 178_000.0),
        (10, "binding to address", "p50 ms", 29.0),
        (100, "binding to address", "p50 ms", 38.0),
        (1000, "binding to address", "p50 ms", 217.0),
        (10, "binding or unbinding", "CPU ms", 27.0),
        (1000, "binding or unbinding", "CPU ms", 219.0),
    ];
    let same = |line: &&(usize, &str, &str, f64)| (line.0, line.1, line.2) == (ports, what, measure);
    known.iter().find(same).map(|line| line.3)
}

/// Whether a measure is one of time.
fn timed(measure: &str) -> bool {
    matches!(unit(measure), "CPU" | "wall")
}

/// The kind of a measure, whatever its unit: CPU time or wall-clock time.
fn unit(measure: &str) -> &str {
    match measure.split_once(' ') {
        Some(("p50", _)) => "wall",
        Some((first, _)) => first,
        None => measure,
    }
}

impl Report {
    /// Records a figure; of several rounds the best one counts.
    fn add(&mut self, who: Who, ports: usize, what: &str, measure: &str, value: f64) {
        let same = |line: &&mut Line| line.ports == ports && line.what == what && line.measure == measure;
        if self.lines.iter_mut().find(same).is_none() {
            self.lines.push(Line {
                ports,
                what: what.to_owned(),
                measure: measure.to_owned(),
                meridian: None,
                python: None,
                reference: reference(ports, what, measure),
                at_most: goal(ports, what, measure),
                at_most_here: None,
            });
        }
        if let Some(line) = self.lines.iter_mut().find(same) {
            let place = match who {
                Who::Meridian => &mut line.meridian,
                Who::Python => &mut line.python,
            };
            *place = Some(place.map_or(value, |known| known.min(value)));
        }
    }

    /// How the CPU time of the start grows per port, from the second smallest size to the largest with rules for each: 1 is
    /// linear. With the smallest it is that of starting a process.
    fn growth(&mut self) {
        let sizes: BTreeMap<usize, (Option<f64>, Option<f64>)> = self
            .lines
            .iter()
            .filter(|line| line.what == "start-up sync" && line.measure == "CPU s")
            .map(|line| (line.ports, (line.meridian, line.python)))
            .collect();
        let sizes: Vec<_> = sizes.into_iter().collect();
        let [.., (small, few), (large, more)] = sizes[..] else { return };
        let per_port =
            |few: Option<f64>, more: Option<f64>| Some(more? / large as f64 / (few? / small as f64));
        let (what, measure) = (format!("start-up sync, CPU per port against {small} ports"), "times");
        for (who, value) in [(Who::Meridian, per_port(few.0, more.0)), (Who::Python, per_port(few.1, more.1))]
        {
            if let Some(value) = value {
                self.add(who, large, &what, measure, value);
            }
        }
    }

    /// Goals are for a machine like that of the reference figures. The slowdown of the guest follows from ovn-bgp-agent, which
    /// was measured on both: the factor at the nearest size, and the smallest of several.
    fn scale(&mut self) {
        let known: Vec<(String, usize, f64)> = self
            .lines
            .iter()
            .filter_map(|line| Some((line.measure.clone(), line.ports, line.slower()?)))
            .collect();
        for line in self.lines.iter_mut().filter(|line| timed(&line.measure)) {
            let alike = known.iter().filter(|(measure, ..)| unit(measure) == unit(&line.measure));
            let nearest = alike.clone().map(|(_, ports, _)| ports.abs_diff(line.ports)).min();
            let factors = alike.filter(|(_, ports, _)| Some(ports.abs_diff(line.ports)) == nearest);
            let least = factors.map(|(_, _, factor)| *factor).min_by(f64::total_cmp);
            line.at_most_here = line.at_most.zip(least).map(|(limit, factor)| limit * factor.max(1.0));
        }
    }

    fn notes(&mut self, told_off: Option<&str>) {
        self.notes.extend(
            [
                "Both run in a guest of the lab (User Mode Linux, one CPU): VRF and dummy devices are there whatever the host's \
                 kernel lacks, and no root is needed. A system call, and with it a fork, costs several times what it costs \
                 without a guest, for both alike; the guest's one CPU is shared with FRR, Open vSwitch and the database.",
                "The reference column is what ovn-bgp-agent 7.0 took on another machine of two cores, without a guest. The goals are \
                 for such a machine; `goal here` is the same for this guest, which is as much slower as ovn-bgp-agent is in it: \
                 by what was measured of it in this run, at the nearest size, the least of it.",
                "CPU is user and system time of all of an agent's processes: of ovn-bgp-agent also that of its helpers and of the \
                 programs that they start. Memory is their proportional set size.",
                "Start-up is from the start of the process until the kernel has told of the last address. Binding to address is \
                 from sending the change of the Port_Binding until the kernel tells of the address: the database's own time is in \
                 it. ovn-bgp-agent uses Python's JSON parser in the guest, as PyPI has no other.",
                "A resync with nothing to do is a full look at database, kernel, switch and FRR that finds nothing to change. \
                 ovn-bgp-agent tells no time for it.",
                "With 10,000 ports FRR is not started: what is compared are the agent and the kernel's rules.",
            ]
            .map(str::to_owned),
        );
        if let Some(why) = told_off {
            self.notes.push(format!("ovn-bgp-agent was not measured in this run: {why}"));
        }
    }

    fn table(&self) -> String {
        let head = [
            "ports",
            "what",
            "measure",
            "meridian",
            "ovn-bgp-agent",
            "reference",
            "goal",
            "met",
            "goal here",
            "met here",
        ];
        let mut cells = vec![head.map(str::to_owned).to_vec()];
        for line in &self.lines {
            cells.push(vec![
                line.ports.to_string(),
                line.what.clone(),
                line.measure.clone(),
                number(line.meridian),
                number(line.python),
                number(line.reference),
                line.at_most.map(|limit| format!("<= {limit}")).unwrap_or_default(),
                said(line.met()),
                line.at_most_here.map(|limit| format!("<= {}", number(Some(limit)))).unwrap_or_default(),
                said(line.met_here().filter(|_| line.at_most_here.is_some())),
            ]);
        }
        let mut text = columns(&cells, &[1, 2, 6, 7, 8, 9]);
        for note in &self.notes {
            text.push_str(&format!("\n- {note}\n"));
        }
        let count = |judge: fn(&Line) -> Option<bool>| {
            let judged: Vec<bool> = self.lines.iter().filter_map(judge).collect();
            format!("{} of {}", judged.iter().filter(|met| **met).count(), judged.len())
        };
        text.push_str(&format!("\n{} goals met", count(Line::met)));
        if self.lines.iter().any(|line| line.at_most_here.is_some()) {
            text.push_str(&format!(", {} at the speed of this guest", count(Line::met_here)));
        }
        text + "\n"
    }
}

fn said(met: Option<bool>) -> String {
    met.map_or("", |met| if met { "yes" } else { "NO" }).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_among_other_lines() {
        let said = "  1.234 up: az1\n  2.0 measured {\"what\":\"memory\",\"measure\":\"MiB\",\"value\":9.5}\nmeasured nothing\n";
        assert_eq!(measured(said), [("memory".to_owned(), "MiB".to_owned(), 9.5)]);
    }

    #[test]
    fn the_table_judges_ours_and_shows_the_others() {
        let mut report = Report::default();
        for (ports, ours, theirs) in [(10, 0.01, 1.0), (100, 0.02, 4.0), (1000, 0.3, 0.0)] {
            report.add(Who::Meridian, ports, "start-up sync", "CPU s", ours + 1.0);
            report.add(Who::Meridian, ports, "start-up sync", "CPU s", ours);
            if theirs > 0.0 {
                report.add(Who::Python, ports, "start-up sync", "CPU s", theirs);
            }
        }
        report.add(Who::Meridian, 100, "memory", "MiB", 9.0);
        report.growth();
        let growth = report.lines.last().unwrap();
        assert!((growth.meridian.unwrap() - 1.5).abs() < 1e-9 && growth.python.is_none(), "{growth:?}");
        let text = report.table();
        assert!(text.contains("274") && text.contains("yes") && text.contains("NO"), "{text}");
        assert!(text.ends_with("1 of 3 goals met\n"), "{text}");
    }

    #[test]
    fn goals_of_time_follow_the_speed_of_the_guest() {
        let mut report = Report::default();
        report.add(Who::Python, 10, "binding to address", "p50 ms", 290.0);
        report.add(Who::Python, 100, "binding to address", "p50 ms", 152.0);
        report.add(Who::Python, 100, "start-up sync", "wall s", 7.6);
        for ports in [10, 100, 1000] {
            report.add(Who::Meridian, ports, "binding to address", "p50 ms", 3.0);
            report.add(Who::Meridian, ports, "memory", "MiB", 14.0);
        }
        report.scale();
        let here = |what: &str| -> Vec<Option<f64>> {
            report.lines.iter().filter(|line| line.what == what).map(|line| line.at_most_here).collect()
        };
        assert_eq!(
            here("binding to address"),
            [Some(20.0), Some(4.0), Some(4.0)],
            "the nearest size, the least"
        );
        assert_eq!(here("memory"), [None; 3]);
        assert!(report.table().ends_with("3 of 6 goals met, 6 of 6 at the speed of this guest\n"));
    }

    #[test]
    fn without_the_other_agent_goals_stay_as_they_are() {
        let mut report = Report::default();
        report.add(Who::Meridian, 10, "binding to address", "p50 ms", 3.0);
        report.scale();
        assert_eq!((report.lines[0].at_most_here, report.lines[0].met_here()), (None, Some(false)));
    }
}
