//! Daemons in a directory of their own, ended with the test.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that ends with the test.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// Starts it. A program that is not there fails the test; `cargo xtask test` installs it.
    pub(crate) fn start(program: &str, args: &[&str], dir: &Path) -> Daemon {
        let mut command = Command::new(program);
        command.args(args).env("OVS_RUNDIR", dir).env("OVS_DBDIR", dir).current_dir(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Daemon(
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{program}: {error}; cargo xtask test installs it")),
        )
    }

    /// Ends it at once, and waits until it has.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a program and gives what it printed.
pub(crate) fn run(program: &str, args: &[&str], dir: &Path) -> String {
    let output = Command::new(program).args(args).env("OVS_RUNDIR", dir).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; cargo xtask test installs it"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Waits until `probe` gives something.
pub(crate) async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
