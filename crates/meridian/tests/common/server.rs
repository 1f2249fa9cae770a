//! A real ovsdb-server in a directory of its own, on a unix socket, ended with the value.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything that must happen may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the value, also when a test fails.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Server {
    dir: tempfile::TempDir,
    child: Option<Running>,
}

impl Server {
    /// An empty OVN Northbound database.
    pub(crate) fn northbound() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Self { dir, child: None };
        let mut create = Command::new("ovsdb-tool");
        create.arg("create").arg(server.file()).arg("/usr/share/ovn/ovn-nb.ovsschema");
        assert!(create.status().expect("ovsdb-tool is installed").success());
        server.start();
        server
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self) -> PathBuf {
        self.dir().join("nb.db")
    }

    fn socket(&self) -> PathBuf {
        self.dir().join("nb.sock")
    }

    /// As `--remote` takes it.
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Starts on the same file and socket.
    pub(crate) fn start(&mut self) {
        self.start_at(&self.socket());
    }

    fn start_at(&mut self, socket: &Path) {
        assert!(self.child.is_none());
        let _ = std::fs::remove_file(socket);
        let control = self.dir().join("server.ctl");
        let _ = std::fs::remove_file(&control);
        let child = Command::new("ovsdb-server")
            .current_dir(self.dir())
            .env("OVS_RUNDIR", self.dir())
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", control.display()))
            .args(["--no-chdir", "-vconsole:off", "-vsyslog:off", "--log-file=server.log"])
            .arg(self.file())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ovsdb-server is installed");
        self.child = Some(Running(child));
        eventually("ovsdb-server listens", || UnixStream::connect(socket).is_ok());
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child = None;
    }

    /// Changes the database behind the back of all who know its socket: the server is down for them meanwhile.
    pub(crate) fn change_while_down(&mut self, command: &[&str]) {
        self.kill();
        let aside = self.dir().join("aside.sock");
        self.start_at(&aside);
        nbctl_at(&format!("unix:{}", aside.display()), command);
        self.kill();
    }

    /// Runs ovn-nbctl.
    #[track_caller]
    pub(crate) fn nbctl(&self, command: &[&str]) -> String {
        nbctl_at(&self.remote(), command)
    }
}

#[track_caller]
fn nbctl_at(remote: &str, command: &[&str]) -> String {
    let output = Command::new("ovn-nbctl")
        .arg(format!("--db={remote}"))
        .arg("--no-leader-only")
        .args(command)
        .output()
        .expect("ovn-nbctl is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
