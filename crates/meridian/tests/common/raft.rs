//! A RAFT cluster of three Northbound servers in a directory, each with a socket for clients and one for its peers.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SCHEMA: &str = "/usr/share/ovn/ovn-nb.ovsschema";
/// The time limit for the members to agree, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The running members; dropping this value kills them.
pub(crate) struct Raft {
    dir: PathBuf,
    members: [Option<Child>; 3],
}

#[track_caller]
fn run(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Raft {
    /// Creates the cluster and starts all members.
    pub(crate) fn start(dir: &Path) -> Raft {
        let mut raft = Raft { dir: dir.to_owned(), members: [None, None, None] };
        let peer = |raft: &Raft, n: usize| format!("unix:{}", raft.path(n, "raft").display());
        for n in 0..3 {
            let (database, own, first) =
                (raft.path(n, "db").display().to_string(), peer(&raft, n), peer(&raft, 0));
            let made = match n {
                0 => run("ovsdb-tool", &["create-cluster", &database, SCHEMA, &own]),
                _ => run("ovsdb-tool", &["join-cluster", &database, "OVN_Northbound", &own, &first]),
            };
            assert!(made.is_some(), "ovsdb-tool could not make {database}");
            raft.revive(n);
            eventually("a member has joined", || {
                raft.status(n).filter(|it| it.contains("Status: cluster member"))
            });
        }
        raft
    }

    fn path(&self, n: usize, what: &str) -> PathBuf {
        self.dir.join(format!("nb-{n}.{what}"))
    }

    /// The remotes of these members, in the form of `--remote`.
    pub(crate) fn remotes(&self, members: &[usize]) -> String {
        let one = |n: &usize| format!("unix:{}", self.path(*n, "sock").display());
        members.iter().map(one).collect::<Vec<_>>().join(",")
    }

    fn status(&self, n: usize) -> Option<String> {
        let control = self.path(n, "ctl").display().to_string();
        run("ovs-appctl", &["-t", &control, "cluster/status", "OVN_Northbound"])
    }

    /// Waits for a leader and returns its number.
    #[track_caller]
    pub(crate) fn leader(&self) -> usize {
        let leads = |n: &usize| self.status(*n).is_some_and(|it| it.contains("Role: leader"));
        eventually("there is a leader", || (0..3).filter(|n| self.members[*n].is_some()).find(leads))
    }

    /// Kills a member with SIGKILL.
    pub(crate) fn kill(&mut self, n: usize) {
        let mut child = self.members[n].take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal to a running member.
    pub(crate) fn signal(&self, n: usize, signal: Signal) {
        let child = self.members[n].as_ref().expect("it runs");
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    }

    /// Restarts a killed member on its database file.
    pub(crate) fn revive(&mut self, n: usize) {
        let socket = self.path(n, "sock");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new("ovsdb-server")
            .current_dir(&self.dir)
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", self.path(n, "ctl").display()))
            .arg(format!("--log-file={}", self.path(n, "log").display()))
            .args(["--no-chdir", "-vconsole:off", "-vsyslog:off"])
            .arg(self.path(n, "db"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ovsdb-server is installed");
        self.members[n] = Some(child);
        eventually("a member listens", || socket.exists().then_some(()));
    }
}

impl Drop for Raft {
    fn drop(&mut self) {
        for child in self.members.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
