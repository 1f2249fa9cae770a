//! The CPU and memory of processes, read from outside, so that all compared processes are measured alike.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// CPU seconds (user and system, every thread, those that ended included) of a process since it began.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.cast_signed()));
    let time = clock
        .and_then(clock_gettime)
        .with_context(|| format!("cannot read the CPU clock of process {pid}"))?;
    Ok(time.num_nanoseconds() as f64 / 1e9)
}

/// The CPU seconds of a process and of all processes that it has started. The kernel counts those that have ended in ticks.
pub fn family_cpu_seconds(family: &BTreeSet<u32>) -> Result<f64> {
    let tick = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.unwrap_or(100) as f64;
    let mut sum = 0.0;
    for pid in family {
        // A process that has ended since the listing is counted by its parent.
        let Ok(own) = cpu_seconds(*pid) else { continue };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        sum += own + children_ticks(&stat) as f64 / tick;
    }
    Ok(sum)
}

/// User and system time of the ended children of a process, by its `stat`.
fn children_ticks(stat: &str) -> u64 {
    // The name may contain any character. The fields after it begin with the third.
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    [13, 14].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// A process, its descendants, and the processes whose command line contains a string, because these may have left their parents.
pub fn family(of: u32, word: Option<&str>) -> Result<BTreeSet<u32>> {
    let pids = |dir: fs::ReadDir| dir.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<u32> = pids(fs::read_dir("/proc").context("cannot list processes")?).collect();
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let named = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        word.is_some_and(|word| String::from_utf8_lossy(&line).contains(word))
    };
    let mut family: BTreeSet<u32> = all.iter().copied().filter(named).chain([of]).collect();
    loop {
        let before = family.len();
        family.extend(
            all.iter()
                .filter(|pid| parent(pid).is_some_and(|parent| family.contains(&parent)))
                .copied()
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            return Ok(family);
        }
    }
}

/// The memory of a process in MiB. Memory shared with other processes counts in proportion.
pub fn proportional_mib(pid: u32) -> Result<f64> {
    rollup_mib(pid, "Pss:")
}

/// The memory that a process holds for its data, in MiB, without the pages of its program. Tests limit this figure, because the
/// pages of a program built without optimization outweigh its data.
pub fn data_mib(pid: u32) -> Result<f64> {
    rollup_mib(pid, "Pss_Anon:")
}

fn rollup_mib(pid: u32, key: &str) -> Result<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let rollup = rollup.with_context(|| format!("cannot read the memory of process {pid}"))?;
    let kib = rollup.lines().find_map(|line| kib(line, key));
    let kib = kib.with_context(|| format!("no {key} in the process' memory map"))?;
    Ok(kib as f64 / 1024.0)
}

fn kib(line: &str, key: &str) -> Option<u64> {
    line.strip_prefix(key)?.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The most memory a process has had resident, in MiB.
pub fn peak_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.with_context(|| format!("cannot read the memory of process {pid}"))?;
    let kib =
        status.lines().find_map(|line| kib(line, "VmHWM:")).context("no VmHWM in the process status")?;
    Ok(kib as f64 / 1024.0)
}

/// The clock that every process on the machine shares, in nanoseconds.
pub fn monotonic() -> Result<i64> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.num_nanoseconds())
}

/// The value below which a share of the values lie. Sorts the values.
pub fn percentile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_is_found() {
        assert_eq!(kib("VmHWM:\t  123456 kB", "VmHWM:"), Some(123_456));
        assert_eq!(kib("VmPeak: 9 kB", "VmHWM:"), None);
    }

    #[test]
    fn our_own_cost_grows() {
        let before = cpu_seconds(std::process::id()).unwrap();
        let mut sum = 0u64;
        while cpu_seconds(std::process::id()).unwrap() <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(peak_mib(std::process::id()).unwrap() > 0.5);
    }

    #[test]
    fn a_family_has_those_who_were_started_and_what_they_cost() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let found = family(me, None).unwrap();
        assert!(found.contains(&me) && found.contains(&child.id()), "{found:?}");
        assert!(!family(child.id(), None).unwrap().contains(&me));
        assert!(family(child.id(), Some("no such word")).unwrap().len() == 1);
        assert!(family_cpu_seconds(&found).unwrap() >= cpu_seconds(child.id()).unwrap());
        assert!(proportional_mib(me).unwrap() > 0.1);
        assert!((0.1..proportional_mib(me).unwrap()).contains(&data_mib(me).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(children_ticks("1 (a) b) S 0 1 1 0 -1 4 1 2 3 4 10 20 300 4000 20 0"), 4300);
    }

    #[test]
    fn percentiles() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.5), Some(50.0));
        assert_eq!(percentile(&mut values, 0.99), Some(99.0));
        assert_eq!(percentile(&mut [], 0.5), None);
    }
}
