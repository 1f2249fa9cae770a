//! Real OVSDB servers in a private directory: one database, or an OVN central (both databases and ovn-northd).
//!
//! They use unix sockets only, keep every path inside the directory, and need no root. The data stays when the servers end.
//! Users are `meridian server --dev`, `cargo xtask` and tests on the host. The lab starts its own servers in namespaces.

mod daemon;
mod program;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use program::output;

pub use daemon::{Daemon, end_leftover};
pub use program::{MissingProgram, find_program};

/// Limit for a server's first answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The file that a central's process locks.
const LOCK: &str = "lock";

/// One of OVN's two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// The network that the cloud management requests.
    Northbound,
    /// The flows and bindings that ovn-northd and the chassis derive from it.
    Southbound,
}

impl Database {
    /// The database's name in its schema.
    pub fn name(self) -> &'static str {
        match self {
            Database::Northbound => "OVN_Northbound",
            Database::Southbound => "OVN_Southbound",
        }
    }

    /// The short form in file names.
    pub fn short(self) -> &'static str {
        match self {
            Database::Northbound => "nb",
            Database::Southbound => "sb",
        }
    }

    /// The installed schema file.
    pub fn schema(self) -> PathBuf {
        PathBuf::from(format!("/usr/share/ovn/ovn-{}.ovsschema", self.short()))
    }
}

/// An ovsdb-server with one database.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    socket: PathBuf,
}

impl Server {
    /// Starts a server on the directory's database. Creates the database if it is missing, converts it if its schema is older
    /// than the installed one, and returns when the server answers.
    pub fn start(dir: &Path, database: Database) -> Result<Server> {
        Self::start_with(dir, database, &[])
    }

    /// Like `start`, with further arguments of ovsdb-server, such as a remote for TLS and its certificates.
    pub fn start_with(dir: &Path, database: Database, options: &[String]) -> Result<Server> {
        Self::run(dir, database, &database.schema(), options)
    }

    /// Starts a server whose database has another schema than the installed one: that of another version of OVN.
    pub fn start_as(dir: &Path, database: Database, schema: &Path) -> Result<Server> {
        Self::run(dir, database, schema, &[])
    }

    fn run(dir: &Path, database: Database, schema: &Path, options: &[String]) -> Result<Server> {
        let dir = &absolute(dir)?;
        let file = |suffix: &str| dir.join(format!("{}.{suffix}", database.short()));
        let (db, socket, pidfile) = (file("db"), file("sock"), file("pid"));
        end_leftover(&pidfile)?;
        prepare(&db, schema)?;
        if socket.as_os_str().len() > 107 {
            bail!("{} is too long for a unix socket (107 bytes): use a shorter --data-dir", socket.display());
        }
        let mut command = Command::new(find_program("ovsdb-server")?);
        command
            .arg(&db)
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--pidfile={}", pidfile.display()))
            .arg(format!("--unixctl={}", file("ctl").display()))
            .args(["--no-chdir", "-vconsole:warn", "-vsyslog:off"])
            .args(options)
            .stdout(Stdio::null());
        let daemon =
            Daemon::start(&format!("ovsdb-server of {}", database.name()), &mut command, &file("log"))?;
        let mut server = Server { daemon, socket };
        let begin = Instant::now();
        while !answers(&server.socket) {
            server.daemon.still_running()?;
            if begin.elapsed() > START_LIMIT {
                bail!("the server on {} does not reply", server.socket.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The server's remote for clients: `unix:PATH`.
    pub fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The path of the server's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// An OVN central: two servers and ovn-northd, for one user at a time.
#[derive(Debug)]
pub struct Central {
    // Fields are dropped in this order: northd first, so that it never sees a database go away; the lock last.
    northd: Daemon,
    sb: Server,
    nb: Server,
    _lock: DirLock,
}

impl Central {
    /// Starts all three programs, and returns when they work together.
    pub fn start(dir: &Path) -> Result<Central> {
        let dir = &absolute(dir)?;
        let lock = DirLock::take(dir)?;
        let pidfile = dir.join("northd.pid");
        end_leftover(&pidfile)?;
        let nb = Server::start(dir, Database::Northbound)?;
        let sb = Server::start(dir, Database::Southbound)?;
        let mut command = Command::new(find_program("ovn-northd")?);
        command
            .arg(format!("--ovnnb-db={}", nb.remote()))
            .arg(format!("--ovnsb-db={}", sb.remote()))
            .arg(format!("--pidfile={}", pidfile.display()))
            .arg(format!("--unixctl={}", dir.join("northd.ctl").display()))
            .args(["--no-chdir", "-vconsole:warn", "-vsyslog:off"])
            .stdout(Stdio::null());
        let northd = Daemon::start("ovn-northd", &mut command, &dir.join("northd.log"))?;
        let mut central = Central { northd, sb, nb, _lock: lock };
        // northd is ready when it has carried a number from one database to the other.
        central.nbctl(&["--wait=sb", "sync"]).context("ovn-northd does not start")?;
        central.still_running()?;
        Ok(central)
    }

    /// Fails if another process has a central in this directory.
    pub fn check_free(dir: &Path) -> Result<()> {
        match dir.join(LOCK).exists() {
            true => DirLock::take(dir).map(drop),
            false => Ok(()),
        }
    }

    /// The remote of one database.
    pub fn remote(&self, database: Database) -> String {
        match database {
            Database::Northbound => self.nb.remote(),
            Database::Southbound => self.sb.remote(),
        }
    }

    /// Runs ovn-nbctl on the Northbound.
    pub fn nbctl(&self, args: &[&str]) -> Result<String> {
        let mut nbctl = Command::new(find_program("ovn-nbctl")?);
        output(nbctl.arg(format!("--db={}", self.nb.remote())).arg("--timeout=60").args(args))
    }

    /// Returns an error if one of the programs has ended.
    pub fn still_running(&mut self) -> Result<()> {
        self.nb.daemon.still_running()?;
        self.sb.daemon.still_running()?;
        self.northd.still_running()
    }
}

/// Makes a path absolute. OVS resolves relative paths against its own directories, not against ours.
fn absolute(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir)
        .with_context(|| format!("cannot determine the absolute path of {}", dir.display()))
}

/// Creates the database file, or converts an old one to the installed schema.
fn prepare(db: &Path, schema: &Path) -> Result<()> {
    let tool = find_program("ovsdb-tool")?;
    if !db.exists() {
        output(Command::new(&tool).arg("create").args([db, schema]))?;
    } else if output(Command::new(&tool).arg("needs-conversion").args([db, schema]))?.trim() == "yes" {
        output(Command::new(&tool).arg("convert").args([db, schema]))?;
    }
    Ok(())
}

/// Whether an OVSDB server answers on the socket.
fn answers(socket: &Path) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(br#"{"id":0,"method":"list_dbs","params":[]}"#)?;
        Ok(stream.read(&mut [0; 512])? > 0)
    };
    ask().unwrap_or(false)
}

/// Locks the directory against a second run. The kernel releases the lock when the process ends, also after a crash.
#[derive(Debug)]
struct DirLock(#[expect(dead_code, reason = "held, not read")] File);

impl DirLock {
    fn take(dir: &Path) -> Result<DirLock> {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot create the data directory {}", dir.display()))?;
        let path = dir.join(LOCK);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
        if file.try_lock().is_err() {
            let mut pid = String::new();
            file.read_to_string(&mut pid)?;
            bail!(
                "{} is in use by process {}: end that one, or choose another directory with --data-dir",
                dir.display(),
                pid.trim()
            );
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(DirLock(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path()).unwrap();
        let error = DirLock::take(dir.path()).err().unwrap().to_string();
        assert!(error.contains(&std::process::id().to_string()) && error.contains("--data-dir"), "{error}");
        drop(first);
        DirLock::take(dir.path()).unwrap();
    }

    #[test]
    fn data_outlives_the_servers() {
        let dir = tempfile::tempdir().unwrap();
        let central = Central::start(dir.path()).unwrap();
        central.nbctl(&["ls-add", "kept"]).unwrap();
        drop(central);
        let central = Central::start(dir.path()).unwrap();
        assert!(central.nbctl(&["ls-list"]).unwrap().contains("kept"));
    }

    #[test]
    fn servers_left_by_a_killed_run_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let central = Central::start(dir.path()).unwrap();
        let old = central.nb.daemon.pid();
        // The state after SIGKILL: running servers, their pid files, and no lock.
        let Central { northd, sb, nb, _lock } = central;
        drop(_lock);
        let again = Central::start(dir.path()).unwrap();
        assert_ne!(again.nb.daemon.pid(), old);
        again.nbctl(&["ls-add", "works"]).unwrap();
        drop((northd, sb, nb));
    }
}
