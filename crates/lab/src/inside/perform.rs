//! The test's own process: finds the function, runs it, writes the result.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use crate::demo::Guide;
use crate::harness::Suite;
use crate::job::{Backend, INSIDE, Outcome, Spec, Task};
use crate::need::{Need, lacking, offered};
use crate::topology::Lab;

/// The first argument that makes this binary the test's process.
pub(crate) const PERFORM: &str = "--lab-perform";

/// Runs the job's task if the arguments say so.
pub(crate) fn main(args: &[OsString], suite: &Suite) -> Option<Result<ExitCode>> {
    (args.first()? == PERFORM).then(|| perform(suite).map(|()| ExitCode::SUCCESS))
}

fn perform(suite: &Suite) -> Result<()> {
    let spec = Spec::inside()?;
    let begin = Instant::now();
    let mut found = BTreeSet::new();
    let done = guarded(|| match &spec.task {
        Task::Test(name) => {
            check(&spec)?;
            suite.inside(name).with_context(|| format!("there is no test `{name}` in here"))?()
        }
        Task::Shell { topology: None, size } => shell(*size),
        Task::Shell { topology: Some(name), size } => {
            let up = suite.topology(name).with_context(|| format!("there is no topology `{name}`"))?;
            up(&|lab| {
                show(lab)?;
                shell(*size)
            })
        }
        Task::Tour { chapter, waits } => {
            let chapter =
                suite.chapter(chapter).with_context(|| format!("there is no chapter `{chapter}`"))?;
            (chapter.show)(&Guide::new(*waits))
        }
        Task::Probe => {
            found = probe();
            Ok(())
        }
    });
    let outcome = Outcome {
        failure: done.err().map(|error| told(&error)),
        millis: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
        offered: found,
    };
    outcome.write(Path::new(INSIDE))
}

/// An error and its causes, a line each.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(|cause| cause.to_string()).collect::<Vec<_>>().join("\n  because: ")
}

/// Runs a test. A panic is a failure like any other, with its location.
fn guarded(test: impl FnOnce() -> Result<()>) -> Result<()> {
    let said = Arc::new(Mutex::new(None));
    let hook = Arc::clone(&said);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // The first panic is the cause; later ones may follow from it.
        hook.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| info.to_string());
        before(info);
    }));
    let done = catch_unwind(AssertUnwindSafe(test));
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
    done.unwrap_or_else(|_| Err(anyhow!(said.unwrap_or_else(|| "the test panicked".to_owned()))))
}

/// Checks the needs. On the host's own kernel, only a process inside the namespaces can do that.
fn check(spec: &Spec) -> Result<()> {
    if spec.backend == Backend::Uml || spec.needs.is_empty() {
        return Ok(());
    }
    match lacking(&spec.needs, &probe()) {
        Some(missing) => bail!(
            "this test needs {missing}, which the host's kernel does not offer: run it in a guest (without LAB_BACKEND=native)"
        ),
        None => Ok(()),
    }
}

/// The features of the current kernel, found by trying, or from its configuration where trying is impossible.
fn probe() -> BTreeSet<Need> {
    let works = |line: &str| {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let config = Command::new("busybox").args(["zcat", "/proc/config.gz"]).stderr(Stdio::null()).output();
    let config = config.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    let mut found = offered(&config);
    works("ip link add lab-probe type veth peer name lab-peer");
    for (need, line) in [
        (Need::Vrf, "ip link add lab-vrf type vrf table 77"),
        (Need::Dummy, "ip link add lab-dummy type dummy"),
        (Need::Vlan, "ip link add link lab-probe name lab-vlan type vlan id 7"),
        (Need::Netem, "tc qdisc add dev lab-probe root netem delay 1ms"),
    ] {
        if works(line) {
            found.insert(need);
        } else {
            found.remove(&need);
        }
    }
    for device in ["lab-vlan", "lab-dummy", "lab-vrf", "lab-probe"] {
        works(&format!("ip link del {device}"));
    }
    found
}

/// Prints the running topology, and writes it as SVG to the job folder.
fn show(lab: &Lab) -> Result<()> {
    let (picture, path) = (lab.picture(), Path::new(INSIDE).join("topology.svg"));
    print!("{picture}");
    std::fs::write(&path, picture.svg()).with_context(|| format!("cannot write {}", path.display()))?;
    println!("the same as SVG: {}", path.display());
    Ok(())
}

/// Runs a shell on the terminal in a session of its own, so that job control works.
fn shell(size: Option<(u16, u16)>) -> Result<()> {
    if let Some((rows, columns)) = size {
        let _ = Command::new("stty").args(["rows", &rows.to_string(), "cols", &columns.to_string()]).status();
    }
    println!(
        "You are root on a machine of its own; `n NODE COMMAND` runs a command on a node, `exit` turns it off."
    );
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "bash"]);
    // A failed last command in the shell is no failure of the lab.
    command.status().map(|_| ()).context("cannot start a shell")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_a_panic_both_come_back_with_their_words() {
        assert!(guarded(|| Ok(())).is_ok());
        let error = guarded(|| Err(anyhow!("no reply").context("ping vm1"))).unwrap_err();
        assert_eq!(told(&error), "ping vm1\n  because: no reply");
        let error = guarded(|| panic!("lost {} packets", 3)).unwrap_err().to_string();
        assert!(error.contains("lost 3 packets") && error.contains("perform.rs"), "{error}");
    }
}
