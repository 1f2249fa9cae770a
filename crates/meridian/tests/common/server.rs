//! A real ovsdb-server in a directory of its own, on a unix socket. Dropping the value kills it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit of waits on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A socket that is no OVSDB server: it answers the first bytes of each connection with a string and closes it, or never answers. Returns
/// its remote.
pub(crate) fn impostor(socket: &Path, answer: Option<&'static str>) -> String {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut buffer = [0; 65536];
            let _ = stream.read(&mut buffer);
            match answer {
                Some(text) => drop(stream.write_all(text.as_bytes())),
                // Reads until the client closes the connection.
                None => while stream.read(&mut buffer).is_ok_and(|read| read > 0) {},
            }
        }
    });
    format!("unix:{}", socket.display())
}

/// A slow proxy of a server: it forwards the server's data in small parts with pauses, and nothing after `until` bytes. Returns its remote.
pub(crate) fn slow_line(socket: &Path, server: &Path, until: usize) -> String {
    const PART: usize = 2048;
    const PAUSE: Duration = Duration::from_millis(100);
    let listener = UnixListener::bind(socket).unwrap();
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (mut from, mut to) = (UnixStream::connect(&server).unwrap(), client.try_clone().unwrap());
            let (mut asked, mut asking) = (client, from.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut asked, &mut asking);
                // The client has closed its connection, so the one to the server ends too.
                let _ = asking.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || {
                let (mut part, mut passed) = ([0; PART], 0);
                while let Ok(count @ 1..) = from.read(&mut part) {
                    passed += count;
                    if passed <= until && to.write_all(&part[..count]).is_err() {
                        break;
                    }
                    std::thread::sleep(PAUSE);
                }
            });
        }
    });
    format!("unix:{}", socket.display())
}

/// A process that is killed when this value is dropped, also when a test fails.
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
    /// The database: `nb` or `sb`.
    short: &'static str,
}

impl Server {
    /// An empty OVN Northbound database.
    pub(crate) fn northbound() -> Self {
        Self::of("nb")
    }

    /// An empty OVN Southbound database.
    pub(crate) fn southbound() -> Self {
        Self::of("sb")
    }

    fn of(short: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Self { dir, child: None, short };
        let mut create = Command::new("ovsdb-tool");
        create.arg("create").arg(server.file()).arg(format!("/usr/share/ovn/ovn-{short}.ovsschema"));
        assert!(create.status().expect("ovsdb-tool is installed").success());
        server.start();
        server
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self) -> PathBuf {
        self.dir().join(format!("{}.db", self.short))
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir().join(format!("{}.sock", self.short))
    }

    /// The remote of the server.
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Starts the server on the same file and socket.
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
            .arg(match self.short {
                "nb" => "--remote=db:OVN_Northbound,NB_Global,connections",
                _ => "--remote=db:OVN_Southbound,SB_Global,connections",
            })
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

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").0.id()
    }

    /// Kills the server, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child = None;
    }

    /// Changes the database while the server is down for its clients: meanwhile it listens at another socket.
    pub(crate) fn change_while_down(&mut self, command: &[&str]) {
        self.kill();
        let aside = self.dir().join("aside.sock");
        self.start_at(&aside);
        self.ctl_at(&format!("unix:{}", aside.display()), command);
        self.kill();
    }

    /// Runs ovn-nbctl.
    #[track_caller]
    pub(crate) fn nbctl(&self, command: &[&str]) -> String {
        assert_eq!(self.short, "nb");
        self.ctl_at(&self.remote(), command)
    }

    /// Listens at another socket too, whose clients have this role; returns its remote.
    pub(crate) fn listen_for(&self, role: &str) -> String {
        let socket = self.dir().join("role.sock");
        let target = format!("punix:{}", socket.display());
        self.ctl_at(&self.remote(), &["set-connection", &format!("role={role}"), &target]);
        eventually("it listens for the role", || UnixStream::connect(&socket).is_ok());
        format!("unix:{}", socket.display())
    }

    /// Runs ovn-nbctl or ovn-sbctl.
    #[track_caller]
    fn ctl_at(&self, remote: &str, command: &[&str]) -> String {
        ctl_at(&format!("ovn-{}ctl", self.short), remote, command)
    }
}

#[track_caller]
fn ctl_at(program: &str, remote: &str, command: &[&str]) -> String {
    let output = Command::new(program)
        .arg(format!("--db={remote}"))
        .arg("--no-leader-only")
        .args(command)
        .output()
        .expect("OVN's tools are installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
