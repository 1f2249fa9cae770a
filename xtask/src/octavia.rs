//! A real Octavia with its OVN provider: PyPI's, beside a [`Neutron`] on the same MariaDB and OVN central.
//!
//! The API runs in uWSGI, the driver agent as a process of its own. Neither has credentials. The provider's library knows one directory for
//! the sockets between the two, `/var/run/octavia`, so one Octavia runs on a machine at a time, and its user must be able to write there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use central::{Daemon, Database};

use crate::command::{heading, output};
use crate::neutron::{Neutron, PACKAGES as NEUTRON};
use crate::packages::{self, Need};
use crate::uwsgi::{Uwsgi, environment};

/// The releases, Neutron's among them: one environment has all.
pub(crate) const PACKAGES: [&str; 5] =
    ["octavia==19.0.0", "ovn-octavia-provider==11.0.0", NEUTRON[0], NEUTRON[1], NEUTRON[2]];
/// The directory of its environment.
const ENVIRONMENT: &str = "bench-octavia";
/// The directory of the sockets of the driver agent.
const SOCKETS: &str = "/var/run/octavia";
/// Timeout until the driver agent has created its sockets.
const START: Duration = Duration::from_secs(60);

/// A running Octavia. It ends with its value, Neutron last.
pub(crate) struct Octavia {
    /// The API's processes.
    pub(crate) api: Uwsgi,
    /// The driver agent.
    pub(crate) agent: Daemon,
    pub(crate) neutron: Neutron,
}

impl Octavia {
    /// Starts an Octavia and a Neutron in a directory, and installs them first if necessary.
    pub(crate) fn start(dir: &Path) -> Result<Octavia> {
        packages::ensure(Need::Neutron)?;
        let sockets = Path::new(SOCKETS).join("status.sock");
        ensure!(!sockets.exists(), "{} exists: another Octavia runs here", sockets.display());
        fs::create_dir_all(SOCKETS).with_context(|| format!("cannot create {SOCKETS}; try as root"))?;
        let environment = environment(ENVIRONMENT, &PACKAGES)?;
        let neutron = Neutron::start_in(environment.clone(), &dir.join("neutron"), "")?;
        let config = dir.join("octavia.conf");
        fs::write(&config, settings(&neutron, &neutron.create_database("octavia")?))?;
        heading("Octavia's tables");
        let mut tables = program(&environment, "octavia-db-manage", &config);
        output(tables.args(["upgrade", "head"])).context("cannot make Octavia's tables")?;
        let mut agent = program(&environment, "octavia-driver-agent", &config);
        let agent =
            Daemon::start("octavia-driver-agent", agent.stdout(Stdio::null()), &dir.join("agent.log"))?;
        let mut octavia = Octavia {
            api: Uwsgi::start(
                &environment,
                "octavia.wsgi.api:application",
                &dir.join("octavia.log"),
                |command| command.arg("--pyargv").arg(format!("--config-file {}", config.display())),
            )?,
            agent,
            neutron,
        };
        octavia.ready()?;
        Ok(octavia)
    }

    /// Waits for the driver agent.
    fn ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        let missing = || {
            ["status", "stats", "get"]
                .iter()
                .any(|name| !Path::new(SOCKETS).join(format!("{name}.sock")).exists())
        };
        while missing() {
            self.agent.still_running()?;
            ensure!(begin.elapsed() < START, "octavia-driver-agent creates no sockets in {SOCKETS}");
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Octavia {
    fn drop(&mut self) {
        // The driver agent removes them when it ends in order, but a killed one does not, and the next start refuses them.
        for name in ["status", "stats", "get"] {
            let _ = fs::remove_file(Path::new(SOCKETS).join(format!("{name}.sock")));
        }
    }
}

fn program(environment: &Path, name: &str, config: &Path) -> Command {
    let mut command = Command::new(environment.join("bin").join(name));
    command.arg("--config-file").arg(config);
    command
}

/// Octavia's configuration. Of the authentication plugins only `none` needs no Keystone; the section `neutron` has an option of the same
/// name as one of the plugin's, so it refers to another section.
fn settings(neutron: &Neutron, database: &str) -> String {
    let url = &neutron.url;
    let (nb, sb) = (neutron.remote(Database::Northbound), neutron.remote(Database::Southbound));
    format!(
        "[DEFAULT]\n\
         transport_url = fake:///\n\
         [api_settings]\n\
         auth_strategy = noauth\n\
         enabled_provider_drivers = ovn:OVN\n\
         default_provider_driver = ovn\n\
         [database]\n\
         connection = {database}\n\
         [driver_agent]\n\
         enabled_provider_agents = ovn\n\
         [service_auth]\n\
         auth_type = none\n\
         endpoint = {url}\n\
         [neutron]\n\
         auth_section = service_auth\n\
         endpoint_override = {url}\n\
         [ovn]\n\
         ovn_nb_connection = {nb}\n\
         ovn_sb_connection = {sb}\n"
    )
}
