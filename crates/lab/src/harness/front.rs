//! The commands of `cargo xtask lab` in a test binary other than tests: the list, a shell in a guest, the guided tour.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};

use super::{Bench, Body, MEGABYTES, Suite, TIME, memory, settle};
use crate::demo::Chapter;
use crate::guest::tools::Tools;
use crate::guest::{Host, Limits};
use crate::job::{Backend, Task};
use crate::need::lacking;

impl Suite {
    /// Lists a test per line with its sentence. On the host's kernel, it marks the tests that cannot run.
    pub(super) fn list(&self) -> Result<ExitCode> {
        let bench = Bench { suite: self, host: None };
        let offered = match Backend::chosen()? {
            Backend::Uml => None,
            Backend::Native => Some(bench.probe()?),
        };
        let shown = || self.tests.iter().filter(|test| !matches!(test.body, Body::Fixture(_)));
        let width = shown().map(|test| test.name.len()).max().unwrap_or(0);
        for test in shown() {
            let mark = match offered.as_ref().and_then(|offered| lacking(test.needs, offered)) {
                Some(missing) => format!("  [cannot run here: needs {missing}]"),
                None => String::new(),
            };
            println!("{:width$}  {}{mark}", test.name, test.sentence);
        }
        for (name, sentence, _) in &self.topologies {
            println!("topology {name}  {sentence}");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs a shell on this terminal in a guest.
    pub(super) fn shell(&self, topology: Option<&str>) -> Result<ExitCode> {
        if let Some(name) = topology
            && self.topology(name).is_none()
        {
            let known: Vec<&str> = self.topologies.iter().map(|(name, ..)| *name).collect();
            bail!(
                "there is no topology `{name}`; there is {}",
                if known.is_empty() { "none yet".into() } else { known.join(", ") }
            );
        }
        let (rows, columns) = console::Term::stdout().size();
        let task =
            Task::Shell { topology: topology.map(|name| name.to_owned()), size: Some((rows, columns)) };
        let bench = Bench { suite: self, host: Some(Host::prepare(&self.jobs)?) };
        let limits = Limits { time: Duration::MAX, megabytes: memory(MEGABYTES) };
        // The shell has `meridian` if the user has built it.
        let tools = Tools { meridian: Tools::built().is_ok(), ..Tools::default() };
        let (folder, end) = on_this_terminal(|| bench.job("shell", task, &[], limits, tools))?;
        settle(folder, end).map(|_| ExitCode::SUCCESS).map_err(|report| anyhow!(report))
    }

    /// Runs the guided tour: every chapter in a guest of its own.
    pub(super) fn demo(&self) -> Result<ExitCode> {
        let waits = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let bench = Bench { suite: self, host: Some(Host::prepare(&self.jobs)?) };
        for (at, Chapter { name, sentence, tools, .. }) in (1..).zip(&self.chapters) {
            println!("\n==== {at} of {}: {sentence}", self.chapters.len());
            let task = Task::Tour { chapter: (*name).to_owned(), waits };
            let time = if waits { Duration::MAX } else { TIME * 5 };
            let limits = Limits { time, megabytes: memory(MEGABYTES) };
            let ended = on_this_terminal(|| bench.job("demo", task, &[], limits, *tools));
            let (folder, end) = ended?;
            settle(folder, end).map_err(|report| anyhow!(report))?;
        }
        println!(
            "\nThat was the tour. `cargo xtask lab shell tenants` leaves you alone with the first network, `cargo xtask lab list` \
             shows what is proved, docs/lab.md tells how to add to it."
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a function that uses the terminal, and restores the terminal afterwards, because a guest that died does not.
fn on_this_terminal<T>(work: impl FnOnce() -> T) -> T {
    let saved = tcgetattr(std::io::stdin()).ok();
    let done = work();
    if let Some(saved) = saved {
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &saved);
    }
    done
}
