//! A lab seen from the host: it runs as a separate process in folders of its own, and the tests search for its processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::harness::Bench;

/// The time limit of waits on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(240);

/// A folder of a test's own for caches and jobs, removed at the end.
pub(crate) struct Jobs(pub(crate) PathBuf);

impl Jobs {
    pub(crate) fn make(name: &str) -> Result<Jobs> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Jobs(path.canonicalize()?))
    }

    /// Waits until the sleeping fixture runs; returns its job folder.
    pub(crate) fn asleep(&self) -> Result<PathBuf> {
        let begin = Instant::now();
        while begin.elapsed() < LONG {
            for job in fs::read_dir(self.0.join("jobs")).into_iter().flatten().flatten() {
                let log = fs::read_to_string(job.path().join("output.log")).unwrap_or_default();
                if log.contains("asleep") {
                    return Ok(job.path());
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the guest did not start")
    }

    /// Asserts that a failed build left only lock files.
    pub(crate) fn empty_cache(&self) -> Result<()> {
        for entry in fs::read_dir(self.0.join("cache"))? {
            let path = entry?.path();
            ensure!(path.extension().is_some_and(|end| end == "lock"), "left behind: {}", path.display());
        }
        Ok(())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// This binary as a command that runs a separate lab.
pub(crate) fn ours(jobs: &Jobs, env: &[(&str, &str)], test: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", test, "--nocapture"])
        .env("LAB_BACKEND", "uml")
        .env("LAB_JOBS", jobs.0.join("jobs"))
        .env("LAB_CACHE", jobs.0.join("cache"))
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a lab that must fail; returns its output.
pub(crate) fn refused(jobs: &Jobs, env: &[(&str, &str)]) -> Result<String> {
    let out = ours(jobs, env, "guest::boots").output()?;
    ensure!(!out.status.success(), "it succeeded: {}", all(&out));
    Ok(all(&out))
}

pub(crate) fn all(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Starts a lab that runs a fixture on the existing cache.
pub(crate) fn start(fixture: &str, jobs: &Jobs, bench: &Bench<'_>) -> Result<std::process::Child> {
    let cache = bench.host()?.home.path().to_string_lossy().into_owned();
    let mut command = ours(jobs, &[("LAB_CACHE", &cache), ("LAB_FIXTURES", "1")], fixture);
    command.stderr(Stdio::null()).spawn().context("cannot start a lab")
}

/// The folder in `/proc` of PID 1 of a job's namespaces.
pub(crate) fn first_inside(job: &Path) -> Result<PathBuf> {
    let of_job = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains("--lab-native-init") && line.contains(&*job.to_string_lossy())
    };
    let mut processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    processes.find(of_job).context("PID 1 of the namespaces is not seen")
}

/// Waits until every process of a job folder is gone.
pub(crate) fn nobody_in(job: &Path) -> Result<()> {
    gone(|| processes_in(job))
}

pub(crate) fn gone(look: impl Fn() -> Result<BTreeSet<i32>>) -> Result<()> {
    let begin = Instant::now();
    loop {
        let left = look()?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begin.elapsed() < LONG, "processes left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The processes that work in a folder: all of a guest's do.
pub(crate) fn processes_in(dir: &Path) -> Result<BTreeSet<i32>> {
    processes_by(|process| process.join("cwd"), dir)
}

/// The processes whose working directory is below a folder, in any namespace.
pub(crate) fn processes_below(dir: &Path) -> Result<BTreeSet<i32>> {
    let numbers = fs::read_dir("/proc")?.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        fs::read_link(entry.path().join("cwd")).is_ok_and(|there| there.starts_with(dir)).then_some(pid)
    });
    Ok(numbers.collect())
}

/// The processes for which a link in their folder in `/proc` leads to `to`.
pub(crate) fn processes_by(link: impl Fn(PathBuf) -> PathBuf, to: &Path) -> Result<BTreeSet<i32>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end during the check.
        if fs::read_link(link(entry.path())).is_ok_and(|there| there == to) {
            found.insert(pid);
        }
    }
    Ok(found)
}
