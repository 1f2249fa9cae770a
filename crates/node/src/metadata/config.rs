//! The options of the metadata agent and its proxy: those of a `neutron_ovn_metadata_agent.ini` that mean something here, and our
//! own.
//!
//! The same list reads oslo INI files ([`Config::from_ini`]) and the `[metadata]` table of the node's TOML
//! ([`Config::from_pairs`]). Options that ask for something else than Meridian does are refused by name. Neutron's options that do
//! not matter here, and those of other programs, are accepted and listed: one file serves many programs, and lives longer than they.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use listener::Limits;
use metadata_proxy::SourceCheck;
use metadata_proxy::nova::{NovaAddress, NovaTimeouts};
use metadata_proxy::rate::{RateLimit, RateLimits};
use metadata_proxy::request::SharedSecret;
use metadata_proxy::tls::NovaTls;
use ovsdb::session::Remotes;

use super::haproxy::HaproxySettings;
use super::haproxy::files::HaproxyDirectories;
use crate::connections::ConnectionSettings;
use crate::ini::{self, Ini};

/// What listens in the namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyBackend {
    /// Sockets of the proxy.
    #[default]
    Builtin,
    /// A haproxy in each namespace.
    Haproxy,
}

/// The configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The servers of the local switch's database and of the Southbound.
    pub connections: ConnectionSettings,
    /// The socket between agent and proxy.
    pub control_socket: PathBuf,
    /// How long a network without VMs keeps its namespace.
    pub teardown_hold: Duration,
    /// How long the proxy may use identities without news of the Southbound database.
    pub index_max_stale: Duration,
    /// The time after which the cloud's management takes a silent agent for dead.
    pub agent_down_time: Duration,
    /// Nova's metadata API; [`Config::from_pairs`] puts the options of TLS together.
    pub nova: NovaAddress,
    /// Whether Nova wants TLS.
    https: bool,
    /// Certificates of the authority that signed Nova's.
    auth_ca_cert: Option<PathBuf>,
    /// The certificate to show to Nova.
    nova_client_cert: Option<PathBuf>,
    /// Its private key.
    nova_client_priv_key: Option<PathBuf>,
    /// The secret that is shared with Nova.
    pub secret: SharedSecret,
    /// The file that has it.
    pub secret_file: Option<PathBuf>,
    /// Timeouts of Nova.
    pub timeouts: NovaTimeouts,
    /// Limits of connections.
    pub limits: Limits,
    /// Maximum number of connections of all networks together.
    pub host_connections: usize,
    /// What listens in the namespaces.
    pub proxy_backend: ProxyBackend,
    /// The directory of haproxy's files.
    state_path: PathBuf,
    /// The directory of haproxy's process ids.
    external_pids: Option<PathBuf>,
    /// The unix socket for requests from haproxy.
    metadata_proxy_socket: Option<PathBuf>,
    /// Whether requests are limited.
    pub rate_limit_enabled: bool,
    /// The limits.
    pub rate: RateLimits,
    /// The treatment of requests from another Ethernet address than the instance's.
    pub verify_source_mac: SourceCheck,
    /// Whether there is metadata in this cloud. Without it the programs idle.
    pub is_enabled: bool,
    /// The socket for `meridian status`, `plan` and `explain`.
    pub admin_socket: Option<PathBuf>,
    /// The address of metrics.
    pub metrics_listen: Option<SocketAddr>,
    /// Whether only to plan, and to change nothing.
    pub dry_run: bool,
    /// Whether to log more.
    pub debug: bool,
}

impl Default for Config {
    fn default() -> Self {
        let rate = RateLimit { window: Duration::from_secs(10), requests: 10 };
        Config {
            connections: ConnectionSettings::default(),
            control_socket: "/run/meridian-metadata/control.sock".into(),
            teardown_hold: Duration::from_secs(60),
            index_max_stale: Duration::from_secs(60),
            agent_down_time: Duration::from_secs(75),
            nova: NovaAddress { host: "127.0.0.1".into(), port: 8775, tls: None },
            https: false,
            auth_ca_cert: None,
            nova_client_cert: None,
            nova_client_priv_key: None,
            secret: SharedSecret::default(),
            secret_file: None,
            timeouts: NovaTimeouts { connect: Duration::from_secs(5), answer: Duration::from_secs(32) },
            limits: Limits {
                connections: 1024,
                per_client: 64,
                first_request: Duration::from_secs(30),
                head: Duration::from_secs(30),
                idle: Duration::from_secs(30),
                answer: Duration::from_secs(32),
            },
            host_connections: 8192,
            proxy_backend: ProxyBackend::Builtin,
            state_path: "/var/lib/neutron".into(),
            external_pids: None,
            metadata_proxy_socket: None,
            rate_limit_enabled: false,
            rate: RateLimits { base: rate, burst: rate, ipv4: true, ipv6: true },
            verify_source_mac: SourceCheck::Warn,
            is_enabled: true,
            admin_socket: None,
            metrics_listen: None,
            dry_run: false,
            debug: false,
        }
    }
}

/// An option.
#[derive(Debug)]
pub struct Opt {
    /// The group in an INI file.
    pub group: &'static str,
    /// The name.
    pub name: &'static str,
    /// The meaning.
    pub doc: &'static str,
    /// The default; empty for none.
    pub default: &'static str,
    set: fn(&mut Config, &str) -> Result<(), String>,
}

macro_rules! options {
    ($(($group:literal, $name:literal, $default:literal, $doc:literal, $set:expr)),* $(,)?) => {
        /// All options that mean something.
        pub const OPTIONS: &[Opt] = &[$(Opt { group: $group, name: $name, doc: $doc, default: $default, set: $set }),*];
    };
}

options! {
    ("DEFAULT", "nova_metadata_host", "127.0.0.1", "Host of Nova's metadata API", |c, v| { c.nova.host = v.into(); Ok(()) }),
    ("DEFAULT", "nova_metadata_port", "8775", "Port of Nova's metadata API", |c, v| set(&mut c.nova.port, number(v, 1, 65535))),
    ("DEFAULT", "nova_metadata_protocol", "http", "Protocol of Nova's metadata API: http or https", |c, v| set(&mut c.https, match v {
        "http" => Ok(false),
        "https" => Ok(true),
        _ => Err(format!("{v:?} is neither http nor https")),
    })),
    ("DEFAULT", "auth_ca_cert", "", "Certificates of the authority of Nova's certificate [default: the system's]", |c, v| { c.auth_ca_cert = Some(v.into()); Ok(()) }),
    ("DEFAULT", "nova_client_cert", "", "Certificate to show to Nova", |c, v| { c.nova_client_cert = Some(v.into()); Ok(()) }),
    ("DEFAULT", "nova_client_priv_key", "", "Private key of nova_client_cert", |c, v| { c.nova_client_priv_key = Some(v.into()); Ok(()) }),
    ("DEFAULT", "agent_down_time", "75", "Seconds after which the cloud's management takes a silent agent for dead", |c, v| set(&mut c.agent_down_time, seconds(v))),
    ("DEFAULT", "debug", "false", "Whether to log more", |c, v| set(&mut c.debug, boolean(v))),
    ("metadata_rate_limiting", "rate_limit_enabled", "false", "Whether requests are limited per source address", |c, v| set(&mut c.rate_limit_enabled, boolean(v))),
    ("metadata_rate_limiting", "base_window_duration", "10", "Seconds of the base window", |c, v| set(&mut c.rate.base.window, seconds(v))),
    ("metadata_rate_limiting", "base_query_rate_limit", "10", "Requests in the base window", |c, v| set(&mut c.rate.base.requests, number(v, 1, u32::MAX.into()))),
    ("metadata_rate_limiting", "burst_window_duration", "10", "Seconds of the burst window", |c, v| set(&mut c.rate.burst.window, seconds(v))),
    ("metadata_rate_limiting", "burst_query_rate_limit", "10", "Requests in the burst window", |c, v| set(&mut c.rate.burst.requests, number(v, 1, u32::MAX.into()))),
    ("metadata_rate_limiting", "ip_versions", "4,6", "Families whose requests are limited: 4, 6 or both", |c, v| {
        let versions = v.split(',').map(str::trim).map(|version| match version {
            "4" | "6" => Ok(version),
            _ => Err(format!("{v:?} is not 4, 6 or 4,6")),
        });
        let versions: Vec<&str> = versions.collect::<Result<_, _>>()?;
        (c.rate.ipv4, c.rate.ipv6) = (versions.contains(&"4"), versions.contains(&"6"));
        Ok(())
    }),
    ("metadata_haproxy", "timeout_connect", "5", "Seconds to wait for a connection to Nova", |c, v| set(&mut c.timeouts.connect, seconds(v))),
    ("metadata_haproxy", "timeout_server", "32", "Seconds to wait for Nova's answer", |c, v| set(&mut c.timeouts.answer, seconds(v))),
    ("metadata_haproxy", "timeout_client", "32", "Seconds to wait for a VM to read its answer", |c, v| set(&mut c.limits.answer, seconds(v))),
    ("metadata_haproxy", "timeout_http_request", "30", "Seconds to wait for the head of a request", |c, v| {
        let time = seconds(v)?;
        (c.limits.head, c.limits.first_request) = (time, time);
        Ok(())
    }),
    ("metadata_haproxy", "timeout_http_keep_alive", "30", "Seconds to wait for the next request", |c, v| set(&mut c.limits.idle, seconds(v))),
    ("ovs", "ovsdb_connection", "", "The local switch's database [default: its usual socket]", |c, v| set(&mut c.connections.vswitch, remotes(v))),
    ("ovn", "ovn_sb_connection", "", "The Southbound database [default: ovn-remote of the local switch]", |c, v| set(&mut c.connections.southbound.remotes, remotes(v))),
    ("ovn", "ovn_sb_private_key", "", "Private key for ssl: remotes", |c, v| { c.connections.southbound.private_key = v.into(); Ok(()) }),
    ("ovn", "ovn_sb_certificate", "", "Certificate for ssl: remotes", |c, v| { c.connections.southbound.certificate = v.into(); Ok(()) }),
    ("ovn", "ovn_sb_ca_cert", "", "Certificates of the authority of ssl: remotes", |c, v| { c.connections.southbound.ca_cert = v.into(); Ok(()) }),
    ("meridian_metadata", "shared_secret_file", "", "File with the secret that Nova has as metadata_proxy_shared_secret", |c, v| { c.secret_file = Some(v.into()); Ok(()) }),
    ("meridian_metadata", "control_socket", "/run/meridian-metadata/control.sock", "Socket between agent and proxy", |c, v| { c.control_socket = v.into(); Ok(()) }),
    ("meridian_metadata", "teardown_hold", "60", "Seconds for which a network without VMs keeps its namespace", |c, v| set(&mut c.teardown_hold, number(v, 0, 86_400).map(Duration::from_secs))),
    ("meridian_metadata", "index_max_stale", "60", "Seconds for which requests are answered without news of the Southbound database", |c, v| set(&mut c.index_max_stale, seconds(v))),
    ("meridian_metadata", "verify_source_mac", "warn", "Requests from another Ethernet address than that of the instance's port: off, warn or enforce", |c, v| set(&mut c.verify_source_mac, match v {
        "off" => Ok(SourceCheck::Off),
        "warn" => Ok(SourceCheck::Warn),
        "enforce" => Ok(SourceCheck::Enforce),
        _ => Err(format!("{v:?} is not off, warn or enforce")),
    })),
    ("meridian_metadata", "max_conn_per_source", "64", "Connections of one source address", |c, v| set(&mut c.limits.per_client, number(v, 1, 65_536))),
    ("meridian_metadata", "max_conn_per_network", "1024", "Connections of one network", |c, v| set(&mut c.limits.connections, number(v, 2, 65_536))),
    ("meridian_metadata", "max_conn_per_host", "8192", "Connections of all networks together", |c, v| set(&mut c.host_connections, number(v, 2, 65_536))),
    ("meridian_metadata", "proxy_backend", "builtin", "What listens in the namespaces: builtin or haproxy", |c, v| set(&mut c.proxy_backend, match v {
        "builtin" => Ok(ProxyBackend::Builtin),
        "haproxy" => Ok(ProxyBackend::Haproxy),
        _ => Err(format!("{v:?} is neither builtin nor haproxy")),
    })),
    ("DEFAULT", "state_path", "/var/lib/neutron", "With haproxy: directory of its files, in ovn-metadata-proxy", |c, v| set(&mut c.state_path, plain_path(v))),
    ("DEFAULT", "external_pids", "", "With haproxy: directory of its process ids [default: external/pids in state_path]", |c, v| set(&mut c.external_pids, plain_path(v).map(Some))),
    ("DEFAULT", "metadata_proxy_socket", "", "With haproxy: socket for its requests [default: requests.sock beside control_socket]", |c, v| set(&mut c.metadata_proxy_socket, plain_path(v).map(Some))),
    ("meridian_metadata", "admin_socket", "", "Socket for meridian status and plan", |c, v| { c.admin_socket = Some(v.into()); Ok(()) }),
    ("meridian_metadata", "metrics_listen", "", "Address of /metrics and /health", |c, v| set(&mut c.metrics_listen, v.parse().map(Some).map_err(|_| format!("{v:?} is not ADDRESS:PORT")))),
}

/// Options of Meridian that it does not have yet, with the one value that it acts by.
const FIXED: &[(&str, &str)] =
    &[("ready_key_table", "Chassis"), ("sb_monitor", "local"), ("metadata_watch_nb", "false")];

/// A name and a value, and where they stand.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The group; empty for a TOML table, where names are unique.
    pub group: String,
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    /// Where it stands.
    pub place: String,
}

/// The configuration, and the options that have no part in it.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Options of other programs, or that mean nothing here. A `neutron.conf` has many.
    pub ignored: Vec<String>,
}

/// All that is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigError(pub Vec<String>);

impl Config {
    /// Reads the options of INI files.
    pub fn from_ini(ini: &Ini) -> Result<Loaded, ConfigError> {
        let pair = |entry: &ini::Entry| Pair {
            group: entry.section.clone(),
            name: entry.name.clone(),
            value: ini.value(entry),
            place: entry.place.to_string(),
        };
        Self::from_pairs(ini.entries.iter().map(pair))
    }

    /// Reads options; later ones win.
    pub fn from_pairs(pairs: impl IntoIterator<Item = Pair>) -> Result<Loaded, ConfigError> {
        let (mut loaded, mut wrong) = (Loaded::default(), Vec::new());
        for pair in pairs {
            if let Err(what) = loaded.take(&pair) {
                wrong.push(format!("{}: {}: {what}", pair.place, pair.name));
            }
        }
        if let Err(what) = loaded.config.join_tls() {
            wrong.push(what);
        }
        if wrong.is_empty() { Ok(loaded) } else { Err(ConfigError(wrong)) }
    }

    /// The socket for requests from haproxy.
    pub(super) fn requests_socket(&self) -> PathBuf {
        let beside = || self.control_socket.with_file_name("requests.sock");
        self.metadata_proxy_socket.clone().unwrap_or_else(beside)
    }

    /// The directories of haproxy's files.
    pub(super) fn haproxy_directories(&self) -> HaproxyDirectories {
        let pids = || self.state_path.join("external/pids");
        HaproxyDirectories {
            configs: self.state_path.join("ovn-metadata-proxy"),
            pids: self.external_pids.clone().unwrap_or_else(pids),
        }
    }

    /// The settings of haproxy, if that is what listens.
    pub(super) fn haproxy(&self) -> Option<HaproxySettings> {
        (self.proxy_backend == ProxyBackend::Haproxy).then(|| HaproxySettings {
            directories: self.haproxy_directories(),
            requests: self.requests_socket(),
            limits: self.limits,
        })
    }

    /// Puts the options of TLS together, which may stand in any order.
    fn join_tls(&mut self) -> Result<(), String> {
        let identity = match (self.nova_client_cert.clone(), self.nova_client_priv_key.clone()) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(
                    "nova_client_cert and nova_client_priv_key belong together; set both or none".into()
                );
            }
        };
        self.nova.tls = self.https.then(|| NovaTls { ca: self.auth_ca_cert.clone(), identity });
        Ok(())
    }
}

impl Loaded {
    fn take(&mut self, pair: &Pair) -> Result<(), String> {
        let Pair { group, name, value, .. } = pair;
        let is = |g: &str, n: &str| (group.is_empty() || group == g) && name == n;
        // Neutron's own name for the secret; it has no place in TOML, which `--print-config` shows.
        if group == ini::DEFAULT && name == "metadata_proxy_shared_secret" {
            self.config.secret = SharedSecret::new(value.clone());
            return Ok(());
        }
        let name = if is(ini::DEFAULT, "nova_metadata_ip") { "nova_metadata_host" } else { name };
        let known = OPTIONS.iter().find(|opt| (group.is_empty() || group == opt.group) && name == opt.name);
        if let Some(opt) = known {
            return if value.is_empty() { Ok(()) } else { (opt.set)(&mut self.config, value) };
        }
        if is("ovn", "ovn_metadata_enabled") {
            return set(&mut self.config.is_enabled, boolean(value));
        }
        if group == "meridian_metadata" {
            return match FIXED.iter().find(|(option, _)| *option == name) {
                Some((_, only)) if value.as_str() == *only => Ok(()),
                Some((_, only)) => {
                    Err(format!("{value:?} is not supported; remove the option, or set it to {only}"))
                }
                None => Err("Meridian has no such option in [meridian_metadata]; remove it".into()),
            };
        }
        if is(ini::DEFAULT, "nova_metadata_insecure") {
            return match boolean(value)? {
                false => Ok(()),
                true => {
                    Err("Meridian checks Nova's certificate; name its authority with auth_ca_cert".into())
                }
            };
        }
        self.ignored.push(format!("[{group}] {name}"));
        Ok(())
    }
}

/// A path that stands in haproxy's configuration as one word.
fn plain_path(text: &str) -> Result<PathBuf, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match text.starts_with('/') && text.chars().all(is_plain) {
        true => Ok(text.into()),
        false => Err(format!("{text:?} is not an absolute path of letters, digits, '.', '_' and '-'")),
    }
}

fn set<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    let wrong = || format!("{text:?} is not a number from {least} to {most}");
    number.and_then(|number: u64| T::try_from(number).ok()).ok_or_else(wrong)
}

fn seconds(text: &str) -> Result<Duration, String> {
    number(text, 1, 86_400).map(Duration::from_secs)
}

fn boolean(text: &str) -> Result<bool, String> {
    ini::boolean(text).ok_or_else(|| format!("{text:?} is not true or false"))
}

fn remotes(text: &str) -> Result<Option<Remotes>, String> {
    text.parse().map(Some).map_err(|error| format!("{text:?}: {error}"))
}

#[cfg(test)]
mod tests;
