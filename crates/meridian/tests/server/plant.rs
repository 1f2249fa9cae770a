//! OVN's databases and ovn-northd as processes of their own, which outlive servers and can be ended one by one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use central::{Daemon, Database, Server, find_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Both databases and ovn-northd, in a directory.
pub(crate) struct Plant {
    // In this order, so that northd never sees a database go away for good.
    _northd: Daemon,
    nb: Option<Server>,
    _sb: Server,
    dir: tempfile::TempDir,
}

impl Plant {
    pub(crate) fn start() -> Plant {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// Starts one whose Northbound is what a file holds.
    pub(crate) fn on(northbound: &[u8]) -> Plant {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("nb.db"), northbound).unwrap();
        Self::within(dir)
    }

    fn within(dir: tempfile::TempDir) -> Plant {
        let nb = Server::start(dir.path(), Database::Northbound).unwrap();
        let sb = Server::start(dir.path(), Database::Southbound).unwrap();
        let northd = northd(dir.path(), &nb.remote(), &sb.remote());
        Plant { _northd: northd, nb: Some(nb), _sb: sb, dir }
    }

    /// Where the sockets are.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn northbound(&self) -> Pid {
        let text = fs::read_to_string(self.dir().join("nb.pid")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap())
    }

    /// The Northbound's server neither answers nor hangs up.
    pub(crate) fn freeze(&mut self) {
        kill(self.northbound(), Signal::SIGSTOP).unwrap();
    }

    /// It goes on where it was.
    pub(crate) fn thaw(&mut self) {
        kill(self.northbound(), Signal::SIGCONT).unwrap();
    }

    /// kill -9 of the Northbound's server.
    pub(crate) fn kill(&mut self) {
        kill(self.northbound(), Signal::SIGKILL).unwrap();
        drop(self.nb.take());
    }

    /// Starts it again after it was killed.
    pub(crate) fn revive(&mut self) {
        self.nb = Some(Server::start(self.dir.path(), Database::Northbound).unwrap());
    }

    /// Its file is gone: the next server begins with nothing.
    pub(crate) fn lose(&mut self) {
        fs::remove_file(self.dir().join("nb.db")).unwrap();
    }
}

/// Starts ovn-northd on databases.
pub(crate) fn northd(dir: &Path, nb: &str, sb: &str) -> Daemon {
    let mut command = Command::new(find_program("ovn-northd").unwrap());
    command
        .arg(format!("--ovnnb-db={nb}"))
        .arg(format!("--ovnsb-db={sb}"))
        .arg(format!("--unixctl={}", dir.join("northd.ctl").display()))
        .args(["--no-chdir", "-vconsole:warn", "-vsyslog:off"])
        .stdout(Stdio::null());
    Daemon::start("ovn-northd", &mut command, &dir.join("northd.log")).unwrap()
}

impl Drop for Plant {
    fn drop(&mut self) {
        // A stopped process does not hear that it is to end.
        if self.nb.is_some() {
            let _ = kill(self.northbound(), Signal::SIGCONT);
        }
    }
}
