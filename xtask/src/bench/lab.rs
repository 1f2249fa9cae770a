//! `cargo xtask bench lab`: measures the speed and size of a lab, and compares them with its goals.
//!
//! On a busy machine wall-clock time means little, so the report also has the CPU time. A measurement that missed its goal in
//! wall-clock time but not in CPU time waited for other programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::home::Home;
use lab::meter::proportional_mib;
use lab::rootfs::Rootfs;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use super::Output;
use crate::command::{cargo, heading};
use crate::packages::{self, CargoTool, Need};

/// How long an idle lab is watched.
const WATCHED: Duration = Duration::from_secs(10);
/// Start-up limit on a busy machine.
const UP: Duration = Duration::from_secs(300);

/// One measurement with its goal. Goals are upper limits.
#[derive(Debug, Serialize)]
struct Line {
    what: &'static str,
    unit: &'static str,
    goal: f64,
    measured: f64,
    /// The CPU time that went into it, where it is a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<f64>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Met,
    /// Its CPU time is within the goal, its wall-clock time is not: the machine had other things to do.
    WaitedForOthers,
    Missed,
}

impl Line {
    fn time(what: &'static str, goal: f64, cost: &Cost) -> Line {
        let verdict = verdict(goal, cost.wall, cost.cpu, cost.cores);
        Line { what, unit: "s", goal, measured: cost.wall, cpu_seconds: Some(cost.cpu), verdict }
    }

    fn amount(what: &'static str, unit: &'static str, goal: f64, measured: f64) -> Line {
        let verdict = if measured <= goal { Verdict::Met } else { Verdict::Missed };
        Line { what, unit, goal, measured, cpu_seconds: None, verdict }
    }
}

/// Compares a time with its goal, given the CPU time and the number of usable CPUs.
fn verdict(goal: f64, wall: f64, cpu: f64, cores: f64) -> Verdict {
    if wall <= goal {
        Verdict::Met
    } else if cpu / cores <= goal {
        Verdict::WaitedForOthers
    } else {
        Verdict::Missed
    }
}

/// The cost of a piece of work.
struct Cost {
    wall: f64,
    cpu: f64,
    cores: f64,
}

pub(super) fn bench(output: Output, quick: bool) -> Result<ExitCode> {
    packages::ensure(Need::Test)?;
    packages::ensure_tool(&CargoTool::NEXTEST)?;
    let home = Home::locate()?;
    Rootfs::ensure(&home)?;
    let binary = PathBuf::from(crate::lab::test_binary()?);
    let mut lines = Vec::new();
    heading("a trivial test");
    let trivial = cost(1.0, || test(&binary, "guest::boots").map(|_| ()))?;
    lines.push(Line::time("a trivial test, boot to power-off", 2.0, &trivial));
    heading("three chassis");
    lines.push(three_chassis(&binary)?);
    heading("an idle lab");
    lines.extend(idle(&binary)?);
    if !quick {
        heading("the root file system");
        let dir = super::ScratchDir::new()?;
        let built = cost(1.0, || Rootfs::ensure(&Home::at(&dir.0)?).map(|_| ()))?;
        lines.push(Line::time("build of the root file system", 30.0, &built));
        heading("the whole suite");
        lab::python::inside()?;
        crate::command::run(cargo().args(["build", "--quiet", "--package", "meridian"]))?;
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let suite = cost(cores, || {
            let mut nextest = cargo();
            nextest.args(["nextest", "run", "--package", "e2e", "--profile", "ci", "--status-level", "fail"]);
            crate::command::run(nextest.stdout(Stdio::null()))
        })?;
        lines.push(Line::time("the whole suite", 240.0, &suite));
    }
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&lines)?),
        Output::Table => print!("{}", table(&lines)),
    }
    Ok(ExitCode::SUCCESS)
}

fn table(lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    let _ = writeln!(text, "{:width$}  {:>9}  {:>11}  {:>9}", "", "goal", "measured", "CPU time");
    for line in lines {
        let cpu = line.cpu_seconds.map(|cpu| format!("{cpu:.1} s")).unwrap_or_default();
        let word = match line.verdict {
            Verdict::Met => "met",
            Verdict::WaitedForOthers => "met by CPU time: the machine had other things to do",
            Verdict::Missed => "missed",
        };
        let (goal, measured) =
            (format!("{} {}", line.goal, line.unit), format!("{:.1} {}", line.measured, line.unit));
        let _ = writeln!(text, "{:width$}  {goal:>9}  {measured:>11}  {cpu:>9}  {word}", line.what);
    }
    let met = lines.iter().filter(|line| line.verdict != Verdict::Missed).count();
    let _ = writeln!(text, "{met} of {} goals met", lines.len());
    text
}

/// Time until every port of the usual network is up and every chassis is in sync, by the guest's own clock.
fn three_chassis(binary: &Path) -> Result<Line> {
    let (mut wall, begin) = (None, spent()?);
    for line in test(binary, "fixture::three_chassis")?.lines() {
        if let Some((_, rest)) = line.split_once("ready after ") {
            wall = rest.split(' ').next().and_then(|millis| millis.parse::<f64>().ok());
        }
    }
    let wall = wall.context("the lab did not say when it was ready")? / 1000.0;
    // With the boot and the end of the guest in it.
    let cpu = spent()? - begin;
    Ok(Line::time("three chassis and their VMs ready, in the guest", 4.0, &Cost { wall, cpu, cores: 1.0 }))
}

/// CPU and memory of a lab in which nothing happens, seen from the host.
fn idle(binary: &Path) -> Result<[Line; 2]> {
    let mut child = Running(command(binary, "fixture::idles").spawn().context("cannot start a lab")?);
    let out = child.0.stdout.take().context("a lab has an output")?;
    let (send, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(|line| line.ok()).try_for_each(|line| send.send(line).ok())
    });
    let begin = Instant::now();
    let job = loop {
        let line =
            lines.recv_timeout(UP.saturating_sub(begin.elapsed())).context("the lab does not come up")?;
        if line.contains("idle in ") {
            break job_of(child.0.id())?;
        }
    };
    let ticks = || -> Result<u64> { processes(&job)?.iter().map(|pid| Ok(ticks(*pid))).sum() };
    let (before, since) = (ticks()?, Instant::now());
    std::thread::sleep(WATCHED);
    let second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
    let share = (ticks()?.saturating_sub(before)) as f64 / second / since.elapsed().as_secs_f64() * 100.0;
    // One that ends just now has no memory any more.
    let mebibytes: f64 = processes(&job)?.iter().filter_map(|pid| proportional_mib(*pid).ok()).sum();
    // A test that is ended looks like one that failed: its folder would be kept.
    drop(child);
    fs::remove_dir_all(&job).with_context(|| format!("cannot remove {}", job.display()))?;
    Ok([
        Line::amount("an idle lab of three chassis, CPU", "%", 5.0, share),
        Line::amount("an idle lab of three chassis, memory", "MB", 200.0, mebibytes * 1.048_576),
    ])
}

/// The folder that the guest of a running test works in: its keeper's own.
fn job_of(test: u32) -> Result<PathBuf> {
    let children = fs::read_to_string(format!("/proc/{test}/task/{test}/children")).unwrap_or_default();
    let all = fs::read_dir(format!("/proc/{test}/task"))?
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let keepers: Vec<String> = all
        .chain([children])
        .flat_map(|text| text.split_ascii_whitespace().map(|pid| pid.to_owned()).collect::<Vec<_>>())
        .collect();
    let folder = keepers.iter().find_map(|pid| fs::read_link(format!("/proc/{pid}/cwd")).ok());
    folder.context("the guest's keeper is not seen")
}

/// The processes that work in a folder: all of a guest's do.
fn processes(job: &Path) -> Result<BTreeSet<u32>> {
    let found: BTreeSet<u32> = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == job))
        .collect();
    ensure!(!found.is_empty(), "no process of the guest is seen");
    Ok(found)
}

/// User and system time of a process, in ticks; of one that is gone, none.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may have anything in it, come the fields from the third on.
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// Runs one test, or fixture, to its end; returns its output.
fn test(binary: &Path, name: &str) -> Result<String> {
    let out = command(binary, name).output().context("cannot run the test binary")?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() {
        bail!("{name} failed: {said}");
    }
    Ok(said)
}

fn command(binary: &Path, name: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(["--exact", name, "--nocapture"]).env("LAB_FIXTURES", "1").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A test that is ended with its value, and its guest with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures the cost of a piece of work, including its child processes.
fn cost(cores: f64, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let (begin, before) = (Instant::now(), spent()?);
    work()?;
    Ok(Cost { wall: begin.elapsed().as_secs_f64(), cpu: spent()? - before, cores })
}

/// CPU seconds of this process and of those that it has waited for.
fn spent() -> Result<f64> {
    let mut sum = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("cannot ask for the CPU time")?;
        sum += (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_met_or_missed_or_waited_for_others() {
        assert_eq!(verdict(4.0, 3.9, 3.0, 1.0), Verdict::Met);
        assert_eq!(verdict(4.0, 9.0, 3.0, 1.0), Verdict::WaitedForOthers);
        assert_eq!(verdict(4.0, 9.0, 5.0, 1.0), Verdict::Missed);
        assert_eq!(verdict(4.0, 9.0, 5.0, 2.0), Verdict::WaitedForOthers);
    }

    #[test]
    fn the_table_has_a_line_for_each_and_counts_what_is_met() {
        let cost = Cost { wall: 9.0, cpu: 3.0, cores: 1.0 };
        let text = table(&[
            Line::time("a trivial test", 2.0, &Cost { wall: 1.2, cpu: 0.5, cores: 1.0 }),
            Line::time("three chassis", 4.0, &cost),
            Line::amount("memory", "MB", 200.0, 250.0),
        ]);
        assert!(
            text.contains("a trivial test") && text.contains("1.2 s") && text.contains("0.5 s"),
            "{text}"
        );
        assert!(text.contains("met by CPU time") && text.contains("250.0 MB"), "{text}");
        assert!(text.ends_with("2 of 3 goals met\n"), "{text}");
    }

    #[test]
    fn our_own_process_is_seen() {
        let me = std::process::id();
        let begin = Instant::now();
        while ticks(me) == 0 {
            assert!(begin.elapsed() < UP, "no tick in a long time");
        }
        let here = std::env::current_dir().unwrap();
        assert!(processes(&here).unwrap().contains(&me));
        assert!(processes(Path::new("/nonexistent")).is_err());
    }
}
