//! Neutron beside us, in the same run: PyPI's, two uWSGI workers without credentials, on MariaDB and an OVN central of its own.
//!
//! It answers the same requests, in smaller numbers. Where it cannot be installed or does not start, the reference figures of
//! `operations` stay in its column, and a note says why.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use central::{Central, Daemon, Database, find_program};

use super::Bench;
use super::asks;
use super::cloud::add_chassis;
use super::load::{Load, Pace, Ran, Request};
use super::operations::{GATEWAYS, INTERFACE, NETWORK, PORT, ROUTER, SHOW};
use crate::command::{heading, output, target_dir};
use crate::packages::{self, Need};
use lab::meter::cpu_seconds;

/// The releases measured against.
const PACKAGES: [&str; 3] = ["neutron==29.0.0", "PyMySQL==1.2.4", "pyuwsgi==2.0.30.post1"];
/// Debian's interpreter, which has a module for virtual environments by a package of ours.
const PYTHON: &str = "/usr/bin/python3";
/// How many workers answer.
const WORKERS: usize = 2;
/// How long anything may take to start.
const START: Duration = Duration::from_secs(180);
/// How many of each; a hundred times as many would take as many times as long.
const FEW: usize = 5;
const PORTS: usize = 20;

/// A running Neutron.
struct Neutron {
    url: String,
    uwsgi: Child,
    _mariadb: Daemon,
    _central: Central,
}

impl Bench<'_> {
    /// Measures Neutron, or says why not.
    pub(super) fn neutron(&mut self) {
        heading("Neutron");
        let note = match self.try_neutron() {
            Ok(()) => format!(
                "The column Neutron is {} in this run ({WORKERS} uWSGI workers, noauth, MariaDB, an OVN central of its own; CPU \
                 of all its processes, {PORTS} ports and {FEW} of the rest), where a line is a single value; ranges, the list \
                 of 1,000 ports and rates are reference figures for Neutron 29 on 2 cores, as the project's goals name them. \
                 The goals for CPU are a hundredth of the least of those.",
                PACKAGES[0]
            ),
            Err(error) => format!(
                "The column Neutron is no measurement of this run: these are reference figures for Neutron 29 (2 uWSGI workers, \
                 noauth, MariaDB, 2 cores; CPU of the API workers), as the project's goals name them. Neutron itself is not \
                 beside us because of this: {error:#}. The goals for CPU are a hundredth of the least of the figures."
            ),
        };
        self.report.notes.push(note);
    }

    fn try_neutron(&mut self) -> Result<()> {
        ensure!(!self.alone, "it was left out by --alone");
        packages::ensure(Need::Neutron)?;
        let environment = environment()?;
        let neutron = Neutron::start(&environment, &self.dir.join("neutron"))?;
        let mut load = Load::start(&self.load)?;
        let load = &mut load;
        let externals = self.externals(&neutron.url, load)?;
        let few = FEW.min(self.sizes.few);
        let one = Pace::clients(1);

        let networks: Vec<_> = (0..few).map(asks::network).collect();
        let (networks, cpu) = neutron.cost(load, one, &networks)?;
        let ids = networks.ids();
        let subnets: Vec<_> = ids.iter().enumerate().map(|(n, id)| asks::subnet(n, id)).collect();
        let (subnets, more) = neutron.cost(load, one, &subnets)?;
        self.add_neutron(NETWORK, (cpu + more) / few as f64);

        let network = ids.first().context("no network")?;
        let ports: Vec<_> = (0..PORTS.min(self.sizes.ports)).map(|n| asks::port(n, network)).collect();
        let (ports, cpu) = neutron.cost(load, one, &ports)?;
        self.add_neutron(PORT, cpu / ports.answers.len() as f64);
        let shows: Vec<_> = ports.ids().iter().map(|id| asks::get(&format!("ports/{id}"))).collect();
        let (shows, cpu) = neutron.cost(load, one, &shows)?;
        self.add_neutron(SHOW, cpu / shows.answers.len() as f64);

        let routers: Vec<_> = (0..few).map(asks::router).collect();
        let (routers, cpu) = neutron.cost(load, one, &routers)?;
        self.add_neutron(ROUTER, cpu / few as f64);
        let (routers, subnets) = (routers.ids(), subnets.ids());
        let interfaces: Vec<_> =
            routers.iter().zip(&subnets).map(|(router, subnet)| asks::interface(router, subnet)).collect();
        let (_, cpu) = neutron.cost(load, one, &interfaces)?;
        self.add_neutron(INTERFACE, cpu / few as f64);
        let gateways: Vec<_> = routers.iter().map(|router| asks::gateways(router, &externals[..2])).collect();
        let (_, cpu) = neutron.cost(load, one, &gateways)?;
        self.add_neutron(GATEWAYS, cpu / few as f64);
        let memory = neutron.megabytes()?;
        // A line of its own: it holds far fewer ports than we do on ours.
        self.report.neutron(&format!("Neutron resident with {PORTS} ports"), "MB", (memory, memory));
        Ok(())
    }

    fn add_neutron(&mut self, what: &str, seconds: f64) {
        self.report.neutron(what, "CPU ms", (seconds * 1e3, seconds * 1e3));
    }
}

impl Neutron {
    fn start(environment: &Path, dir: &Path) -> Result<Neutron> {
        fs::create_dir_all(dir.join("state"))?;
        let central = Central::start(&dir.join("ovn"))?;
        add_chassis(&central.remote(Database::Southbound), 1..4)?;
        let mariadb = mariadb(dir)?;
        let config = dir.join("neutron.conf");
        fs::write(&config, settings(environment, dir, &central))?;
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
            .arg(environment)
            // Neutron tells its workers apart from those of an earlier start by this.
            .args(["--set", "start-time=%t"])
            .env("OS_NEUTRON_CONFIG_FILES", &config)
            .env("OS_NEUTRON_CONFIG_DIR", dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot run uWSGI")?;
        let mut neutron =
            Neutron { url: format!("http://{address}"), uwsgi, _mariadb: mariadb, _central: central };
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

    /// Its process and those of its workers.
    fn processes(&self) -> Vec<u32> {
        let pid = self.uwsgi.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).chain([pid]).collect()
    }

    fn cpu(&self) -> Result<f64> {
        self.processes().into_iter().map(cpu_seconds).sum()
    }

    fn megabytes(&self) -> Result<f64> {
        let all = self.processes().into_iter().map(super::cloud::megabytes_of);
        all.sum()
    }

    /// Asks, and gives the CPU seconds that it took.
    fn cost(&self, load: &mut Load, pace: Pace, requests: &[Request]) -> Result<(Ran, f64)> {
        let before = self.cpu()?;
        let ran = load.run(&self.url, pace, requests)?.all_well()?;
        ensure!(!requests.is_empty(), "nothing was asked");
        Ok((ran, self.cpu()? - before))
    }
}

impl Drop for Neutron {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        let _ = kill(nix::unistd::Pid::from_raw(self.uwsgi.id().cast_signed()), Signal::SIGTERM);
        let _ = self.uwsgi.wait();
    }
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
