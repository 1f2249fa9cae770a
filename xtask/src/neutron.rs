//! A real Neutron: PyPI's, two uWSGI workers without credentials, on MariaDB and an OVN central of its own with three chassis.
//!
//! `bench api` compares it with our server, and `record` records its rows and answers. It is installed into a virtual
//! environment on first use, and keeps all its data in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use central::{Central, Daemon, Database, find_program};

use crate::command::{heading, output};
use crate::packages::{self, Need};
use crate::uwsgi::{Uwsgi, environment};

/// The releases.
pub(crate) const PACKAGES: [&str; 3] = ["neutron==29.0.0", "PyMySQL==1.2.4", "pyuwsgi==2.0.30.post1"];
/// The directory of its environment.
const ENVIRONMENT: &str = "bench-neutron";
/// Timeout of any start.
const START: Duration = Duration::from_secs(180);

/// The files of its configuration.
const CONFIG: &str = "neutron.conf";
const MORE: &str = "more.conf";
/// MariaDB's socket in the directory.
const SOCKET: &str = "my.sock";

/// A running Neutron.
pub(crate) struct Neutron {
    /// The URL of its API.
    pub(crate) url: String,
    /// The processes of its API.
    pub(crate) uwsgi: Uwsgi,
    environment: PathBuf,
    dir: PathBuf,
    _mariadb: Daemon,
    central: Central,
}

impl Neutron {
    /// Starts a Neutron in a directory, and installs it first if necessary. `more` is additional configuration.
    pub(crate) fn start(dir: &Path, more: &str) -> Result<Neutron> {
        packages::ensure(Need::Neutron)?;
        Self::start_in(environment(ENVIRONMENT, &PACKAGES)?, dir, more)
    }

    /// Starts a Neutron of an environment that has it already.
    pub(crate) fn start_in(environment: PathBuf, dir: &Path, more: &str) -> Result<Neutron> {
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
        let (log, at) = (dir.join("uwsgi.log"), dir.to_owned());
        let uwsgi = Uwsgi::start(&environment, "neutron.wsgi.api:application", &log, |command| {
            // Neutron uses the start time to distinguish its workers from those of an earlier start.
            command
                .args(["--set", "start-time=%t"])
                .env("OS_NEUTRON_CONFIG_FILES", format!("{CONFIG};{MORE}"))
                .env("OS_NEUTRON_CONFIG_DIR", &at)
        })?;
        Ok(Neutron { url: uwsgi.url.clone(), uwsgi, environment, dir: at, _mariadb: mariadb, central })
    }

    /// The remote of a database of its OVN.
    pub(crate) fn remote(&self, database: Database) -> String {
        self.central.remote(database)
    }

    /// Creates another database in its MariaDB and returns the URL that SQLAlchemy connects to.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        create_database(&self.dir.join(SOCKET), name)?;
        Ok(database_url(&self.dir, name))
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

/// A MariaDB of its own, on a unix socket.
fn mariadb(dir: &Path) -> Result<Daemon> {
    let (data, socket) = (dir.join("my"), dir.join(SOCKET));
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid())?.context("who is this?")?.name;
    let mut install = Command::new(find_program("mariadb-install-db")?);
    install.arg("--no-defaults").arg(format!("--user={user}")).arg(format!("--datadir={}", data.display()));
    output(install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]))?;
    let mut command = Command::new(find_program("mariadbd")?);
    command.arg("--no-defaults").arg(format!("--user={user}")).arg(format!("--datadir={}", data.display()));
    command.arg(format!("--socket={}", socket.display())).arg("--skip-networking");
    command.arg(format!("--pid-file={}", dir.join("mariadb.pid").display()));
    // MariaDB knows the option from 10.6.18 on, and turns it on by default from 11.6 on. Neutron's transactions do not work with it.
    command.arg("--loose-innodb-snapshot-isolation=OFF").stdout(Stdio::null());
    let daemon = Daemon::start("mariadbd", &mut command, &dir.join("mariadb.log"))?;
    let begin = Instant::now();
    loop {
        match create_database(&socket, "neutron") {
            Ok(()) => return Ok(daemon),
            Err(error) if begin.elapsed() > START => return Err(error.context("MariaDB does not answer")),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

fn create_database(socket: &Path, name: &str) -> Result<()> {
    let mut client = Command::new(find_program("mariadb")?);
    client.args(["--no-defaults", "--user=root", "--socket"]).arg(socket);
    output(client.args(["--execute", &format!("CREATE DATABASE {name} CHARACTER SET utf8mb3")])).map(drop)
}

fn database_url(dir: &Path, name: &str) -> String {
    format!("mysql+pymysql://root@localhost/{name}?unix_socket={}", dir.join(SOCKET).display())
}

/// Neutron's configuration.
fn settings(environment: &Path, dir: &Path, central: &Central) -> String {
    let (nb, sb) = (central.remote(Database::Northbound), central.remote(Database::Southbound));
    let database = database_url(dir, "neutron");
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
         connection = {database}\n\
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
