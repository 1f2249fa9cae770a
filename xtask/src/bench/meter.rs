//! What a process has cost so far, read from outside so that all clients are measured alike.

use anyhow::{Context, Result};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// CPU seconds (user and system, every thread, those that ended included) of a process since it began.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.cast_signed()));
    let time = clock
        .and_then(clock_gettime)
        .with_context(|| format!("cannot read the CPU clock of process {pid}"))?;
    Ok(time.num_nanoseconds() as f64 / 1e9)
}

/// The most memory a process has had resident, in MiB.
pub(crate) fn peak_mib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.with_context(|| format!("cannot read the memory of process {pid}"))?;
    high_water_kib(&status).map(|kib| kib as f64 / 1024.0).context("no VmHWM in the process status")
}

fn high_water_kib(status: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

/// The clock that every process on the machine shares, in nanoseconds.
pub(crate) fn monotonic() -> Result<i64> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.num_nanoseconds())
}

/// The value below which a share of the values lie; the values get sorted.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_is_found() {
        assert_eq!(high_water_kib("VmPeak:\t 9 kB\nVmHWM:\t  123456 kB\nVmRSS: 1 kB\n"), Some(123_456));
        assert_eq!(high_water_kib("VmPeak: 9 kB\n"), None);
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
    fn percentiles() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 0.5), Some(50.0));
        assert_eq!(percentile(&mut values, 0.99), Some(99.0));
        assert_eq!(percentile(&mut [], 0.5), None);
    }
}
