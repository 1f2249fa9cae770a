//! Runs the real binary.

#![allow(dead_code)] // each test file uses its part

pub(crate) mod raft;
pub(crate) mod server;
pub(crate) mod watch;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary, without variables of the environment that could change its behaviour.
pub(crate) fn meridian() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["MERIDIAN_", "OVN_", "OVS_", "NOTIFY_", "WATCHDOG_"].iter().any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    // The machine's own configuration file must not influence a test.
    command.env("MERIDIAN_CONFIG", "/dev/null").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("the output is text"),
            err: String::from_utf8(output.stderr).expect("errors are text"),
        }
    }
}

/// Runs with arguments split at spaces.
pub(crate) fn run(line: &str) -> Ran {
    run_args(&line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>())
}

/// Runs with arguments.
pub(crate) fn run_args(args: &[&str]) -> Ran {
    meridian().args(args).output().expect("the binary runs").into()
}

impl Ran {
    /// The standard output of a run that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The standard error of a run that must fail with this code, with the directory replaced by `DIR`.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, dir: &Path) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err.replace(&dir.display().to_string(), "DIR")
    }
}

/// Sends SIGINT, as Ctrl-C does.
pub(crate) fn interrupt(pid: u32) {
    signal("INT", pid);
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(name: &str, pid: u32) {
    let status =
        Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs");
    assert!(status.success());
}
