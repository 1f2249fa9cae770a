//! The configuration: one TOML file, `MERIDIAN_*` variables, flags; the later ones win.
//!
//! [`Config`] lists every key. The same [`value`] code parses a key from any of these sources, and each value remembers its [`Origin`] for
//! `--print-config`. The commands define the effect of the keys.

mod file;
mod kube;
mod network;
mod print;
mod role;
mod server;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

pub(crate) use kube::Kube;
pub(crate) use network::Network;
pub(crate) use role::{Bgp, Metadata};
pub(crate) use server::Server;
use value::Field;
pub(crate) use value::{AuthMode, BalancerRoleMode, Colour, Level, LogFormat};

/// The path of the file if none is named. The file need not exist.
pub(crate) const DEFAULT_FILE: &str = "/etc/meridian/meridian.toml";
/// The variable that names the file.
pub(crate) const FILE_VARIABLE: &str = "MERIDIAN_CONFIG";

/// Every key, with its value and the origin of that value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) ovsdb: Ovsdb,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) admin: Admin,
    pub(crate) bgp: Bgp,
    pub(crate) metadata: Metadata,
    pub(crate) server: Server,
    pub(crate) network: Network,
    pub(crate) kube: Kube,
}

/// `[ovsdb]`: how to connect to OVSDB servers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ovsdb {
    /// If empty, the remotes are guessed from the name of the database.
    pub(crate) remote: Setting<Vec<String>>,
    pub(crate) private_key: Setting<Option<PathBuf>>,
    pub(crate) certificate: Setting<Option<PathBuf>>,
    pub(crate) ca_cert: Setting<Option<PathBuf>>,
    pub(crate) verify_names: Setting<bool>,
    pub(crate) leader_only: Setting<bool>,
    pub(crate) timeout: Setting<Duration>,
    pub(crate) probe_interval: Setting<Duration>,
    /// In MiB.
    pub(crate) max_message: Setting<usize>,
}

/// `[log]`: the log on standard error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) level: Setting<Level>,
    /// Directives such as `ovsdb=debug,info`; they override the level.
    pub(crate) filter: Setting<Option<String>>,
    pub(crate) format: Setting<LogFormat>,
    pub(crate) color: Setting<Colour>,
}

/// `[metrics]`: the Prometheus endpoint of a long-running command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metrics {
    pub(crate) listen: Setting<Option<SocketAddr>>,
}

/// `[admin]`: the admin socket of a long-running command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Admin {
    pub(crate) socket: Setting<Option<PathBuf>>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Setting<T> {
    fn default(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    /// A line of the file.
    File { path: PathBuf, line: usize },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ovsdb: Ovsdb {
                remote: Setting::default(Vec::new()),
                private_key: Setting::default(None),
                certificate: Setting::default(None),
                ca_cert: Setting::default(None),
                verify_names: Setting::default(false),
                leader_only: Setting::default(true),
                timeout: Setting::default(Duration::from_secs(10)),
                probe_interval: Setting::default(Duration::from_secs(5)),
                max_message: Setting::default(ovsdb::client::MAX_MESSAGE >> 20),
            },
            log: Log {
                level: Setting::default(Level::Info),
                filter: Setting::default(None),
                format: Setting::default(LogFormat::Human),
                color: Setting::default(Colour::Auto),
            },
            metrics: Metrics { listen: Setting::default(None) },
            admin: Admin { socket: Setting::default(None) },
            bgp: Bgp::default(),
            metadata: Metadata::default(),
            server: Server::default(),
            network: Network::default(),
            kube: Kube::default(),
        }
    }
}

/// One key: its section and name, its documentation, and the variable that sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// The variable, if it is not `MERIDIAN_SECTION_NAME`.
    variable: Option<&'static str>,
}

impl Key {
    const fn new(section: &'static str, name: &'static str, doc: &'static str) -> Self {
        Self { section, name, doc, variable: None }
    }

    /// The full name, such as `ovsdb.remote`.
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The variable, such as `MERIDIAN_OVSDB_REMOTE`.
    pub(crate) fn variable(&self) -> String {
        match self.variable {
            Some(name) => name.to_owned(),
            None => format!("MERIDIAN_{}_{}", self.section, self.name).to_uppercase(),
        }
    }
}

impl Config {
    /// Every key with its field. The parsers of the file and the variables, and `--print-config`, use this list.
    fn fields(&mut self) -> Vec<(Key, &mut dyn Field)> {
        let Self { ovsdb, log, metrics, admin, bgp, metadata, server, network, kube } = self;
        let key = Key::new;
        let mut fields: Vec<(Key, &mut dyn Field)> = vec![
            (
                key(
                    "ovsdb",
                    "remote",
                    "Servers, e.g. unix:/run/ovn/ovnnb_db.sock; empty: guessed by database",
                ),
                &mut ovsdb.remote,
            ),
            (key("ovsdb", "private_key", "Private key for ssl: remotes (PEM)"), &mut ovsdb.private_key),
            (key("ovsdb", "certificate", "Certificate for ssl: remotes (PEM)"), &mut ovsdb.certificate),
            (
                key("ovsdb", "ca_cert", "Certificate of the CA that signed the server's (PEM)"),
                &mut ovsdb.ca_cert,
            ),
            (
                key(
                    "ovsdb",
                    "verify_names",
                    "Whether the server's certificate must name the host of its remote",
                ),
                &mut ovsdb.verify_names,
            ),
            (key("ovsdb", "leader_only", "Use only the leader of a cluster"), &mut ovsdb.leader_only),
            (
                key(
                    "ovsdb",
                    "timeout",
                    "Time limit of a command for a connection, a reply or the next part of a reply",
                ),
                &mut ovsdb.timeout,
            ),
            (
                key("ovsdb", "probe_interval", "Time after which a silent server is probed; 0: never"),
                &mut ovsdb.probe_interval,
            ),
            (
                key(
                    "ovsdb",
                    "max_message",
                    "Longest message of a server in MiB; the longest contains its whole database",
                ),
                &mut ovsdb.max_message,
            ),
            (key("log", "level", "Log level"), &mut log.level),
            (
                Key {
                    variable: Some("MERIDIAN_LOG"),
                    ..key("log", "filter", "Log directives such as ovsdb=debug,info; they replace the level")
                },
                &mut log.filter,
            ),
            (key("log", "format", "Format of log lines"), &mut log.format),
            (key("log", "color", "Colour of log and tables"), &mut log.color),
            (
                key("metrics", "listen", "Address of /metrics and /health of long-running commands"),
                &mut metrics.listen,
            ),
            (key("admin", "socket", "Admin socket of long-running commands"), &mut admin.socket),
        ];
        fields.extend(bgp.fields());
        fields.extend(metadata.fields());
        fields.extend(server.fields());
        fields.extend(network.fields());
        fields.extend(kube.fields());
        fields
    }

    /// All keys.
    pub(crate) fn keys() -> Vec<Key> {
        Self::default().fields().into_iter().map(|(key, _)| key).collect()
    }
}

/// A value from the command line: the key, the unparsed value, the flag.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) key: &'static str,
    pub(crate) text: String,
    pub(crate) flag: &'static str,
}

/// The configuration is invalid. The error lists all problems.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("invalid configuration{}", .problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
pub(crate) struct ConfigError {
    pub(crate) problems: Vec<Problem>,
}

/// One problem of the configuration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{place}: {what}")]
pub(crate) struct Problem {
    /// File and line, variable or flag.
    pub(crate) place: String,
    pub(crate) what: String,
}

/// The inputs of the configuration as they were read. Parsing them is pure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The path and the content of the file.
    pub(crate) file: Option<(PathBuf, String)>,
    /// Variables that begin with `MERIDIAN_`.
    pub(crate) variables: BTreeMap<String, String>,
    /// Flags, in the order given.
    pub(crate) flags: Vec<Override>,
}

/// The parsed configuration.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Warnings, such as about unknown variables that begin with `MERIDIAN_`.
    pub(crate) warnings: Vec<String>,
}

impl Sources {
    /// Reads the file and the environment. A file that the user named must exist; the default one need not.
    pub(crate) fn read(file: Option<&Path>, flags: Vec<Override>) -> Result<Self, ConfigError> {
        let (path, asked) = match file {
            Some(path) => (path.to_owned(), true),
            None => match std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty()) {
                Some(path) => (path.into(), true),
                None => (DEFAULT_FILE.into(), false),
            },
        };
        let file = match std::fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !asked => None,
            Err(error) => {
                let problem =
                    Problem { place: path.display().to_string(), what: format!("cannot be read: {error}") };
                return Err(ConfigError { problems: vec![problem] });
            }
        };
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .filter(|(name, _)| name.starts_with("MERIDIAN_"))
            .collect();
        Ok(Self { file, variables, flags })
    }

    /// Merges the defaults, the file, the variables and the flags; the later ones win.
    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        let mut config = Config::default();
        let mut problems = Vec::new();
        if let Some((path, text)) = &self.file {
            file::read(&mut config, path, text, &mut problems);
        }
        let mut known = vec![FILE_VARIABLE.to_owned()];
        for (key, field) in config.fields() {
            let name = key.variable();
            // An empty variable counts as unset, because units and shells clear variables that way.
            if let Some(text) = self.variables.get(&name).filter(|text| !text.is_empty())
                && let Err(what) = field.set_text(text, Origin::Variable(name.clone()))
            {
                problems.push(Problem { place: name.clone(), what });
            }
            known.push(name);
        }
        for given in &self.flags {
            for (_, field) in config.fields().into_iter().filter(|(key, _)| key.path() == given.key) {
                if let Err(what) = field.set_text(&given.text, Origin::Flag(given.flag.to_owned())) {
                    problems.push(Problem { place: given.flag.to_owned(), what });
                }
            }
        }
        if let Err(wrong) = config.network.settings() {
            problems.extend(wrong);
        }
        if let Err(wrong) = config.kube.settings() {
            problems.extend(wrong);
        }
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        let warnings = self.variables.keys().filter(|name| !known.contains(name)).map(|name| {
            let hint = crate::nearest::hint(name, known.iter().map(String::as_str));
            format!("unknown variable {name}{hint}")
        });
        let warnings = warnings.collect();
        Ok(Loaded { config, warnings })
    }
}

#[cfg(test)]
mod tests;
