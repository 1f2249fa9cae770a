//! OVN's databases and ovn-northd as separate processes, which outlive servers and can be killed one by one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use central::{Daemon, Database, Server, find_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::cloud::{Cloud, eventually};
use crate::two_servers::certificates;

/// Both databases and ovn-northd, in a directory.
pub(crate) struct Plant {
    // The fields are dropped in this order, so that northd does not outlive its databases.
    _northd: Daemon,
    nb: Option<Server>,
    _sb: Server,
    /// Whether the databases also listen for TLS.
    encrypted: bool,
    dir: tempfile::TempDir,
}

impl Plant {
    pub(crate) fn start() -> Plant {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// Starts a plant whose Northbound has the content of a file.
    pub(crate) fn on(northbound: &[u8]) -> Plant {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("nb.db"), northbound).unwrap();
        Self::within(dir)
    }

    /// Starts a plant whose databases also listen for TLS and require client certificates.
    pub(crate) fn encrypted() -> Plant {
        let dir = tempfile::tempdir().unwrap();
        certificates(dir.path(), "localhost");
        let file = |name: &str| dir.path().join(name).display().to_string();
        let config = format!(
            "[ovsdb]\nprivate_key = \"{}\"\ncertificate = \"{}\"\nca_cert = \"{}\"\n",
            file("pg.key"),
            file("pg.pem"),
            file("ca.pem")
        );
        fs::write(dir.path().join(TLS_CONFIG), config).unwrap();
        Self::start_in(dir, true)
    }

    fn within(dir: tempfile::TempDir) -> Plant {
        Self::start_in(dir, false)
    }

    fn start_in(dir: tempfile::TempDir, encrypted: bool) -> Plant {
        let nb = server(dir.path(), Database::Northbound, encrypted);
        let sb = server(dir.path(), Database::Southbound, encrypted);
        let northd = northd(dir.path(), &nb.remote(), &sb.remote());
        Plant { _northd: northd, nb: Some(nb), _sb: sb, encrypted, dir }
    }

    /// Starts an API server on the databases, over TLS if they are [`encrypted`](Self::encrypted).
    pub(crate) fn cloud(&self, args: &[&str]) -> Cloud {
        if !self.encrypted {
            return Cloud::on(self.dir(), args);
        }
        let [nb, sb] = ["nb", "sb"].map(|database| self.tls_remote(database));
        let config = self.dir().join(TLS_CONFIG).display().to_string();
        let tls = ["--nb", nb.as_str(), "--sb", sb.as_str(), "--config", config.as_str()];
        Cloud::on(self.dir(), &[&tls, args].concat())
    }

    /// Extends the configuration of servers on [`encrypted`](Self::encrypted) databases.
    pub(crate) fn configure(&self, toml: &str) {
        let path = self.dir().join(TLS_CONFIG);
        let config = fs::read_to_string(&path).unwrap();
        fs::write(path, config + toml).unwrap();
    }

    /// The TLS remote of a database. It listens at a free port, which its log names.
    fn tls_remote(&self, database: &str) -> String {
        eventually("it listens for TLS", || {
            let log = fs::read_to_string(self.dir().join(format!("{database}.tls.log"))).unwrap_or_default();
            let port = log.lines().rev().find_map(|line| line.split_once("listening on port "))?.1.to_owned();
            Some(format!("ssl:127.0.0.1:{}", port.trim()))
        })
    }

    /// The directory with the sockets.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn northbound(&self) -> Pid {
        let text = fs::read_to_string(self.dir().join("nb.pid")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap())
    }

    /// Stops the Northbound's server with SIGSTOP: it neither answers nor closes connections.
    pub(crate) fn freeze(&mut self) {
        kill(self.northbound(), Signal::SIGSTOP).unwrap();
    }

    /// Continues the stopped server.
    pub(crate) fn thaw(&mut self) {
        kill(self.northbound(), Signal::SIGCONT).unwrap();
    }

    /// Kills the Northbound's server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        kill(self.northbound(), Signal::SIGKILL).unwrap();
        drop(self.nb.take());
    }

    /// Restarts the killed server.
    pub(crate) fn revive(&mut self) {
        self.nb = Some(server(self.dir.path(), Database::Northbound, self.encrypted));
    }

    /// Converts the running Northbound to OVN's schema with a change.
    pub(crate) fn convert(&self, change: impl FnOnce(&mut Value)) {
        let text = fs::read_to_string(Database::Northbound.schema()).unwrap();
        let mut schema: Value = serde_json::from_str(&text).unwrap();
        change(&mut schema);
        let path = self.dir().join("other.ovsschema");
        fs::write(&path, schema.to_string()).unwrap();
        let mut convert = Command::new(find_program("ovsdb-client").unwrap());
        convert.arg("convert").arg(format!("unix:{}/nb.sock", self.dir().display())).arg(&path);
        let out = convert.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    /// Removes the database file, so that the next server starts with an empty database.
    pub(crate) fn lose(&mut self) {
        fs::remove_file(self.dir().join("nb.db")).unwrap();
    }
}

/// The configuration for clients of encrypted databases.
const TLS_CONFIG: &str = "tls.toml";

/// Starts the server of one database.
fn server(dir: &Path, database: Database, encrypted: bool) -> Server {
    if !encrypted {
        return Server::start(dir, database).unwrap();
    }
    let file = |name: &str| dir.join(name).display().to_string();
    let options = [
        "--remote=pssl:0:127.0.0.1".to_owned(),
        format!("--private-key={}", file("pg.key")),
        format!("--certificate={}", file("pg.pem")),
        format!("--ca-cert={}", file("ca.pem")),
        format!("--log-file={}", file(&format!("{}.tls.log", database.short()))),
    ];
    Server::start_with(dir, database, &options).unwrap()
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
        // A stopped process does not receive SIGTERM until it continues.
        if self.nb.is_some() {
            let _ = kill(self.northbound(), Signal::SIGCONT);
        }
    }
}
