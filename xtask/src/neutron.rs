//! A real Neutron: PyPI's, two uWSGI workers without credentials, on MariaDB and an OVN central of its own with three chassis.
//!
//! `bench api` compares it with our server, and `record` records its rows and answers. It is installed into a virtual
//! environment on first use, and keeps all its data in one directory.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use central::{Central, Daemon, Database, find_program};

use crate::command::{heading, output, target_dir};
use crate::packages::{self, Need};

/// The releases.
pub(crate) const PACKAGES: [&str; 3] = ["neutron==29.0.0", "PyMySQL==1.2.4", "pyuwsgi==2.0.30.post1"];
/// Debian's interpreter, which has a module for virtual environments by a package of ours.
const PYTHON: &str = "/usr/bin/python3";
/// How many workers answer.
pub(crate) const WORKERS: usize = 2;
/// Timeout of any start.
const START: Duration = Duration::from_secs(180);

/// The files of its configuration.
const CONFIG: &str = "neutron.conf";
const MORE: &str = "more.conf";

/// A running Neutron.
pub(crate) struct Neutron {
    /// Where its API is.
    pub(crate) url: String,
    /// Its API's first process.
    pub(crate) uwsgi: Child,
    environment: PathBuf,
    dir: PathBuf,
    _mariadb: Daemon,
    central: Central,
}

impl Neutron {
    /// Starts a Neutron in a directory, and installs it first if necessary. `more` is additional configuration.
    pub(crate) fn start(dir: &Path, more: &str) -> Result<Neutron> {
        packages::ensure(Need::Neutron)?;
        let environment = environment()?;
        fs::create_dir_all(dir.join("state"))?;
        let central = Central::start(&dir.join("ovn"))?;
        add_chassis(&central.remote(Database::Southbound), 1..4)?;
        let mariadb = mariadb(dir)?;
        let config = dir.join(CONFIG);
        fs::write(&config, settings(&environment, dir, &central))?;
        fs::write(dir.join(MORE), more)?;
        heading("Neutron's tables");
        output(
            Command::new(environment.join("bin/neutron-db-manage"))
                .arg("--config-file")
                .arg(&config)
                .args(["upgrade", "heads"]),
        )
        .context("cannot make Neutron's tables")?;
        // The port is free a moment later; nobody else here takes ports.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = dir.join("uwsgi.log");
        let uwsgi = Command::new(environment.join("bin/uwsgi"))
            .arg("--http11-socket")
            .arg(address.to_string())
            .args([
                "--module",
                "neutron.wsgi.api:application",
                "--master",
                "--lazy-apps",
                "--enable-threads",
                "--die-on-term",
            ])
            .args(["--processes", &WORKERS.to_string(), "--buffer-size", "65535", "--disable-logging"])
            .arg("--virtualenv")
            .arg(&environment)
            // Neutron tells its workers apart from those of an earlier start by this.
            .args(["--set", "start-time=%t"])
            .env("OS_NEUTRON_CONFIG_FILES", format!("{CONFIG};{MORE}"))
            .env("OS_NEUTRON_CONFIG_DIR", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot run uWSGI")?;
        let (url, dir) = (format!("http://{address}"), dir.to_owned());
        let mut neutron = Neutron { url, uwsgi, environment, dir, _mariadb: mariadb, central };
        neutron.ready(&log)?;
        Ok(neutron)
    }

    /// Waits until it answers.
    fn ready(&mut self, log: &Path) -> Result<()> {
        let begin = Instant::now();
        loop {
            let said = || {
                let text = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                lines[lines.len().saturating_sub(5)..].join("; ")
            };
            if let Some(status) = self.uwsgi.try_wait()? {
                bail!("Neutron ended ({status}): {}", said());
            }
            if begin.elapsed() > START {
                bail!("Neutron does not answer: {}", said());
            }
            std::thread::sleep(Duration::from_millis(500));
            let text = fs::read_to_string(log).unwrap_or_default();
            if text.matches("WSGI app 0").count() >= WORKERS {
                return Ok(());
            }
        }
    }

    /// How a client names a database of its OVN.
    pub(crate) fn remote(&self, database: Database) -> String {
        self.central.remote(database)
    }

    /// One of Neutron's other programs, to run in addition to its API.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.environment.join("bin").join(name));
        for file in [CONFIG, MORE] {
            command.arg("--config-file").arg(self.dir.join(file));
        }
        command
    }
}

impl Drop for Neutron {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        let _ = kill(nix::unistd::Pid::from_raw(self.uwsgi.id().cast_signed()), Signal::SIGTERM);
        let _ = self.uwsgi.wait();
    }
}

/// Adds chassis that carry gateways of the physical networks phy1, phy2 and phy3 to a Southbound.
pub(crate) fn add_chassis(remote: &str, numbers: std::ops::Range<usize>) -> Result<()> {
    let sbctl = |words: &[String]| {
        let mut command = Command::new(find_program("ovn-sbctl")?);
        output(command.arg(format!("--db={remote}")).arg("--timeout=60").args(words)).map(drop)
    };
    for n in numbers {
        let name = format!("ch{n}");
        sbctl(&["chassis-add".into(), name.clone(), "geneve".into(), format!("127.0.0.{n}")])?;
        sbctl(&[
            "set".into(),
            "Chassis".into(),
            name.clone(),
            format!("hostname={name}.example"),
            format!("other_config:ovn-cms-options=\"enable-chassis-as-gw,availability-zones=az{n}\""),
            "other_config:ovn-bridge-mappings=\"phy1:br-1,phy2:br-2,phy3:br-3\"".into(),
        ])?;
    }
    Ok(())
}

/// The virtual environment, made on first use.
fn environment() -> Result<PathBuf> {
    let dir = target_dir().join("bench-neutron");
    let mark = dir.join("ready");
    if !fs::read_to_string(&mark).is_ok_and(|text| text == PACKAGES.join(" ")) {
        heading(&format!("a Python environment with {} (once)", PACKAGES[0]));
        output(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(&dir))?;
        output(Command::new(dir.join("bin/pip")).args(["install", "--quiet"]).args(PACKAGES))
            .context("cannot install Neutron; is PyPI reachable?")?;
        fs::write(&mark, PACKAGES.join(" "))?;
    }
    Ok(dir)
}

/// A MariaDB of its own, on a unix socket.
fn mariadb(dir: &Path) -> Result<Daemon> {
    let (data, socket) = (dir.join("my"), dir.join("my.sock"));
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid())?.context("who is this?")?.name;
    let mut install = Command::new(find_program("mariadb-install-db")?);
    install.arg("--no-defaults").arg(format!("--user={user}")).arg(format!("--datadir={}", data.display()));
    output(install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]))?;
    let mut command = Command::new(find_program("mariadbd")?);
    command.arg("--no-defaults").arg(format!("--user={user}")).arg(format!("--datadir={}", data.display()));
    command.arg(format!("--socket={}", socket.display())).arg("--skip-networking");
    command.arg(format!("--pid-file={}", dir.join("mariadb.pid").display()));
    // Known from 10.6.18 on, and on by default from 11.6 on: Neutron's transactions are not made for it.
    command.arg("--loose-innodb-snapshot-isolation=OFF").stdout(Stdio::null());
    let daemon = Daemon::start("mariadbd", &mut command, &dir.join("mariadb.log"))?;
    let begin = Instant::now();
    loop {
        let mut make = Command::new(find_program("mariadb")?);
        make.args(["--no-defaults", "--user=root", "--socket"]).arg(&socket);
        match output(make.args(["--execute", "CREATE DATABASE neutron CHARACTER SET utf8mb3"])) {
            Ok(_) => return Ok(daemon),
            Err(error) if begin.elapsed() > START => return Err(error.context("MariaDB does not answer")),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Neutron's configuration.
fn settings(environment: &Path, dir: &Path, central: &Central) -> String {
    let (nb, sb) = (central.remote(Database::Northbound), central.remote(Database::Southbound));
    let (environment, dir) = (environment.display(), dir.display());
    format!(
        "[DEFAULT]\n\
         core_plugin = ml2\n\
         service_plugins = ovn-router\n\
         auth_strategy = noauth\n\
         transport_url = fake:///\n\
         state_path = {dir}/state\n\
         api_paste_config = {environment}/etc/neutron/api-paste.ini\n\
         [database]\n\
         connection = mysql+pymysql://root@localhost/neutron?unix_socket={dir}/my.sock\n\
         [oslo_concurrency]\n\
         lock_path = {dir}/state/lock\n\
         [quotas]\n\
         quota_network = -1\n\
         quota_subnet = -1\n\
         quota_port = -1\n\
         quota_router = -1\n\
         [ml2]\n\
         type_drivers = geneve,flat,vlan,local\n\
         tenant_network_types = geneve\n\
         mechanism_drivers = ovn\n\
         extension_drivers = port_security\n\
         [ml2_type_geneve]\n\
         vni_ranges = 1:65536\n\
         max_header_size = 38\n\
         [ml2_type_flat]\n\
         flat_networks = *\n\
         [ovn]\n\
         ovn_nb_connection = {nb}\n\
         ovn_sb_connection = {sb}\n\
         ovn_l3_scheduler = leastloaded\n"
    )
}
