//! A real PostgreSQL: on the host for ordinary tests, on a node for tests in a guest.
//!
//! ```no_run
//! # fn test() -> anyhow::Result<()> {
//! let postgres = lab::postgres::Postgres::start(std::path::Path::new("/tmp/postgres"))?;
//! postgres.create_database("meridian")?;
//! let url = postgres.url("meridian"); // postgres://meridian@localhost/meridian?host=...
//! postgres.daemon().kill()?; // kill -9
//! postgres.start_again()?;
//! # Ok(()) }
//! ```
//!
//! The server is Debian's own, with a database cluster that is created for the test. Tests need no data after a crash of the
//! machine, so nothing waits for the disk. Committed data still survives the death of the server. PostgreSQL refuses to run as
//! root; if the test is root, the server runs as `nobody`.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::eventually::quietly;
use crate::node::Node;
use crate::process::{Daemon, Recipe};

/// The folder of Debian's servers, by version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The owner of all databases, who has all privileges and needs no password.
const OWNER: &str = "meridian";
/// The port on a node, and the number in the socket's name on the host.
const PORT: u16 = 5432;
/// Time for the processes of a killed server to notice its death.
const AGAIN: Duration = Duration::from_secs(60);
/// The user and group `nobody`, for a test that runs as root.
const NOBODY: u32 = 65534;

/// Settings of the server: it never waits for the disk, and it fits a small machine.
const SETTINGS: &[&str] = &[
    "fsync=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_wal_size=64MB",
    "min_wal_size=32MB",
    "jit=off",
];

/// A running PostgreSQL. Dropping it ends it.
#[derive(Debug)]
pub struct Postgres {
    daemon: Arc<Daemon>,
    /// The folder of its socket.
    dir: PathBuf,
    bin: PathBuf,
    port: u16,
}

/// A certificate and its key, PEM, for a server that encrypts.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'p> {
    /// The certificate.
    pub certificate: &'p Path,
    /// The private key of the certificate.
    pub key: &'p Path,
}

impl Postgres {
    /// Creates a cluster in a folder of the host, which is created if necessary, and starts a server on a unix socket there.
    pub fn start(dir: &Path) -> Result<Postgres> {
        let (bin, owner) = (bin()?, owner());
        make(dir, &bin, owner)?;
        let recipe = recipe(dir, &bin, owner, PORT, "");
        Self::run(dir, bin, PORT, recipe)
    }

    /// Like `start`, but the server also listens on a port of 127.0.0.1 ([`port`](Self::port)) with TLS.
    pub fn start_encrypting(dir: &Path, identity: Certificate<'_>) -> Result<Postgres> {
        let (bin, owner) = (bin()?, owner());
        make(dir, &bin, owner)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.context("cannot find a free port for PostgreSQL")?.port();
        let mut recipe = recipe(dir, &bin, owner, port, "127.0.0.1").arg("-c").arg("ssl=on");
        for (setting, file, from) in [
            ("ssl_cert_file", "server.pem", identity.certificate),
            ("ssl_key_file", "server.key", identity.key),
        ] {
            // PostgreSQL accepts a key only from a file that belongs to its user and that no other user can read.
            let to = dir.join(file);
            fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600))?;
            if let Some((user, group)) = owner {
                chown(&to, Some(user), Some(group))?;
            }
            recipe = recipe.arg("-c").arg(format!("{setting}={}", to.display()));
        }
        Self::run(dir, bin, port, recipe)
    }

    fn run(dir: &Path, bin: PathBuf, port: u16, recipe: Recipe) -> Result<Postgres> {
        let daemon = Daemon::start_here("postgres", &dir.join("postgres.out"), recipe)?;
        daemon.ready()?;
        Postgres { daemon: Arc::new(daemon), dir: dir.to_path_buf(), bin, port }.answering()
    }

    /// The port, if it listens on the network.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the server answers, because its socket exists slightly earlier.
    fn answering(self) -> Result<Postgres> {
        quietly(AGAIN, "PostgreSQL answers", || self.sql("postgres", "SELECT 1"))?;
        Ok(self)
    }

    /// The URL of a database on the socket, in the form of sqlx and libpq.
    pub fn url(&self, database: &str) -> String {
        // The path is escaped as a value in a URL, because it may contain any character.
        let host: String = self.dir.to_string_lossy().bytes().map(escaped).collect();
        format!("postgres://{OWNER}@localhost:{}/{database}?host={host}", self.port)
    }

    /// The socket it listens on.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!(".s.PGSQL.{}", self.port))
    }

    /// The URL of a database over the network, for a server on a node that has the address.
    pub fn url_at(&self, address: Ipv4Addr, database: &str) -> String {
        format!("postgres://{OWNER}@{address}:{}/{database}", self.port)
    }

    /// Creates a database.
    pub fn create_database(&self, name: &str) -> Result<()> {
        self.sql("postgres", &format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""))).map(|_| ())
    }

    /// Runs a statement in a database with psql; returns the rows, one per line, columns separated by `|`.
    pub fn sql(&self, database: &str, statement: &str) -> Result<String> {
        let mut command = Command::new(self.bin.join("psql"));
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", OWNER, "-h"])
            .arg(&self.dir)
            .args(["-p", &self.port.to_string(), "-d", database, "-c", statement])
            .env("PGCONNECT_TIMEOUT", "20")
            .stdin(Stdio::null());
        let out = command.output().context("cannot run psql")?;
        ensure!(
            out.status.success(),
            "`{statement}` failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Restarts the killed server as soon as its last process has ended.
    pub fn start_again(&self) -> Result<()> {
        quietly(AGAIN, "PostgreSQL starts again", || self.daemon.start_again())?;
        quietly(AGAIN, "PostgreSQL answers", || self.sql("postgres", "SELECT 1")).map(drop)
    }

    /// The daemon, for tests that kill it.
    pub fn daemon(&self) -> &Arc<Daemon> {
        &self.daemon
    }
}

impl Node {
    /// Starts PostgreSQL on this node, on a unix socket and on port 5432 of all its addresses.
    pub fn postgres(&self) -> Result<Postgres> {
        let (dir, bin, owner) = (self.dir().join("postgres"), bin()?, owner());
        make(&dir, &bin, owner)?;
        let daemon = self.start("postgres", recipe(&dir, &bin, owner, PORT, "*"))?;
        daemon.ready()?;
        Postgres { daemon, dir, bin, port: PORT }.answering()
    }
}

/// The folder of the newest installed server.
fn bin() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let found = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").is_file())
        .filter_map(|path| Some((number(&path)?, path)))
        .max();
    let (_, path) = found.context(
        "PostgreSQL is not installed: `sudo apt-get install postgresql` (as root, `cargo xtask test` does that by itself)",
    )?;
    Ok(path.join("bin"))
}

/// The user of the server: the current one, or `nobody` if that is root.
fn owner() -> Option<(u32, u32)> {
    nix::unistd::geteuid().is_root().then_some((NOBODY, NOBODY))
}

/// Creates a cluster.
fn make(dir: &Path, bin: &Path, owner: Option<(u32, u32)>) -> Result<()> {
    let cannot = || format!("cannot make a folder for PostgreSQL in {}", dir.display());
    // A unix socket's path has room for 107 bytes.
    ensure!(
        dir.as_os_str().len() < 80,
        "{} is too long a path for PostgreSQL's socket: name a shorter one",
        dir.display()
    );
    fs::create_dir_all(dir).with_context(cannot)?;
    if let Some((user, group)) = owner {
        chown(dir, Some(user), Some(group)).with_context(cannot)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).with_context(cannot)?;
    }
    let mut command = Command::new(bin.join("initdb"));
    command
        .args([
            "--no-sync",
            "--no-instructions",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--username",
        ])
        .arg(OWNER)
        .arg("--pgdata")
        .arg(dir.join("data"))
        .current_dir("/")
        .stdin(Stdio::null());
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    let out = command.output().context("cannot run initdb")?;
    let said = String::from_utf8_lossy(&out.stderr);
    let hint = if said.contains("Permission denied") && owner.is_some() {
        ": PostgreSQL runs as nobody here, who has to be able to get there (not below /root, for one)"
    } else {
        ""
    };
    ensure!(out.status.success(), "initdb cannot make {}{hint}\n{}", dir.join("data").display(), said.trim());
    // The rules allow any address, because a server that listens on the network does so on a node of a lab.
    let rules = "local all all trust\nhost all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n";
    fs::write(dir.join("data/pg_hba.conf"), rules).context("cannot write PostgreSQL's rules")
}

fn recipe(dir: &Path, bin: &Path, owner: Option<(u32, u32)>, port: u16, listen: &str) -> Recipe {
    let mut recipe = Recipe::new(&bin.join("postgres").display().to_string())
        .arg("-D")
        .arg(dir.join("data").display().to_string())
        .arg("-k")
        .arg(dir.display().to_string())
        .arg("-p")
        .arg(port.to_string())
        .arg("-c")
        .arg(format!("listen_addresses={listen}"))
        // The signal stops the server at once, but lets it release its shared memory.
        .goodbye(Signal::SIGQUIT)
        .ready(dir.join(format!(".s.PGSQL.{port}")));
    for setting in SETTINGS {
        recipe = recipe.arg("-c").arg(*setting);
    }
    match owner {
        Some((user, group)) => recipe.user(user, group),
        None => recipe,
    }
}

/// A byte of a URL's query value.
fn escaped(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_was_committed_over_a_kill_and_ends_with_its_value() {
        let dir = tempfile::tempdir().unwrap();
        let postgres = Postgres::start(dir.path()).unwrap();
        postgres.create_database("me\"ridian").unwrap();
        let sql = |statement: &str| postgres.sql("me\"ridian", statement);
        sql("CREATE TABLE port (name text, number int)").unwrap();
        sql("INSERT INTO port VALUES ('eth0', 1), ('eth1', 2)").unwrap();
        let error = sql("SELECT nothing FROM nowhere").unwrap_err().to_string();
        assert!(
            error.contains("`SELECT nothing FROM nowhere` failed") && error.contains("nowhere"),
            "{error}"
        );
        postgres.daemon().kill().unwrap();
        assert!(sql("SELECT 1").is_err(), "a killed server answers");
        postgres.start_again().unwrap();
        let rows = crate::eventually(AGAIN, "recovered", || sql("SELECT * FROM port ORDER BY number"));
        assert_eq!(rows.unwrap(), "eth0|1\neth1|2\n");
        let pid = postgres.daemon().pid().unwrap();
        drop(postgres);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it outlived its value");
    }

    #[test]
    fn a_url_carries_any_path() {
        let all: String = "/tmp/a b?c&d".bytes().map(escaped).collect();
        assert_eq!(all, "/tmp/a%20b%3Fc%26d");
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_told() {
        let long = PathBuf::from("/tmp").join("x".repeat(90));
        let error = make(&long, Path::new("/nowhere"), None).unwrap_err().to_string();
        assert!(error.contains("too long a path"), "{error}");
    }
}
