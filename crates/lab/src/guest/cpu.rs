//! One CPU per guest.
//!
//! A guest whose processes move between CPUs spends most of its time waking them, so each guest is pinned to a CPU of its own.
//! Labs of one user share the CPUs through lock files in the cache. The kernel releases a lock when its holder dies.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::home::Home;

/// A CPU that is reserved until this value is dropped.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// The number of the CPU.
    pub(crate) number: usize,
    /// Unlocked by closing.
    _lock: File,
}

impl Cpu {
    /// Reserves a free CPU. Waits without a limit, because other guests end.
    pub(crate) fn take(home: &Home) -> Result<Cpu> {
        let allowed = allowed()?;
        let mut told = false;
        loop {
            for &number in &allowed {
                let lock = home.lock_file(&format!("cpu-{number}"))?;
                if lock.try_lock().is_ok() {
                    return Ok(Cpu { number, _lock: lock });
                }
            }
            if !told {
                eprintln!("waiting for a CPU: {} guests run already", allowed.len());
                told = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The number of guests that currently run on this cache.
pub(crate) fn taken(home: &Home) -> Result<usize> {
    let mut count = 0;
    for number in allowed()? {
        count += usize::from(home.lock_file(&format!("cpu-{number}"))?.try_lock().is_err());
    }
    Ok(count)
}

/// The CPUs this process may run on.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("cannot ask which CPUs there are")?;
    Ok((0..CpuSet::count()).filter(|&number| set.is_set(number).unwrap_or(false)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guest_gets_a_cpu_of_its_own_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        let taken: Vec<Cpu> = allowed().unwrap().iter().map(|_| Cpu::take(&home).unwrap()).collect();
        assert_eq!(super::taken(&home).unwrap(), taken.len());
        let mut numbers: Vec<usize> = taken.iter().map(|cpu| cpu.number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), taken.len());
        let waiting = std::thread::spawn(move || Cpu::take(&home).unwrap().number);
        let first = taken.into_iter().next().unwrap();
        let number = first.number;
        drop(first);
        assert_eq!(waiting.join().unwrap(), number);
    }
}
