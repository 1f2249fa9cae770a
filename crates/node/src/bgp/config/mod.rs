//! The BGP agent's configuration: every option of a `bgp-agent.conf`, and our own.
//!
//! [`options::OPTIONS`] is the list of them. The same list reads oslo INI files ([`Config::from_ini`]) and the `[bgp]` table of
//! the node's TOML ([`Config::from_pairs`]), so an option means the same wherever it stands. What we do not do is refused by
//! name, with what to use instead; what does not matter to us is accepted in silence; what nobody knows is a warning, since
//! files live longer than programs.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod options;
mod value;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use ovsdb::session::Remotes;
use smol_str::SmolStr;
use thiserror::Error;

use crate::connections::{ConnectionSettings, DatabaseSettings, OvnDatabase};
use crate::ini::Ini;
use crate::plane::VlanDevice;
pub use options::{OPTIONS, Opt};

/// The exposed addresses of tenant networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenants {
    /// None.
    #[default]
    Hidden,
    /// Those of globally routed IPv6 prefixes.
    Gua,
    /// All.
    All,
}

/// The form of announcements of tenant networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advertisement {
    /// Each address by itself.
    #[default]
    Host,
    /// The subnet's prefix, once.
    Subnet,
}

/// The rules that lead into a bridge's routing table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleMode {
    /// A rule for each address or subnet.
    #[default]
    PerIp,
    /// One rule for each table, which leaves its default route out.
    Aggregate,
}

/// The interface for configuring FRR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrrBackend {
    /// On its vty sockets.
    #[default]
    Vty,
    /// By running `vtysh`.
    Vtysh,
}

/// The keys that ovn-bgp-agent opens a database with, unless it is told others.
fn usual_keys() -> DatabaseSettings {
    DatabaseSettings {
        private_key: "/etc/pki/tls/private/ovn_bgp_agent.key".into(),
        certificate: "/etc/pki/tls/certs/ovn_bgp_agent.crt".into(),
        ca_cert: "/etc/ipa/ca.crt".into(),
        ..DatabaseSettings::default()
    }
}

/// An IPv6 address to answer for on provider networks, beside those that OVN tells of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NdpProxy {
    /// The address.
    pub address: Ipv6Addr,
    /// The physical network it is answered for on; `None` is all of them.
    pub physnet: Option<SmolStr>,
}

/// Everything the agent is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Interval between full resyncs.
    pub reconcile_interval: Duration,
    /// Interval between reads of FRR's configuration.
    pub frr_reconcile_interval: Duration,
    /// `expose_tenant_networks`.
    pub expose_tenant_networks: bool,
    /// `expose_ipv6_gua_tenant_networks`.
    pub expose_ipv6_gua_tenant_networks: bool,
    /// The form of announcements of tenant networks.
    pub advertisement: Advertisement,
    /// Only subnets of these address scopes are exposed; empty is no such limit.
    pub address_scopes: BTreeSet<SmolStr>,
    /// Whether subnets are left out that their router translates to other addresses; the Northbound alone tells.
    pub require_snat_disabled: bool,
    /// The local switch's database; `None` looks in the usual places.
    pub ovsdb_connection: Option<Remotes>,
    /// Time limit for replies of the local switch's database.
    pub ovsdb_connection_timeout: Duration,
    /// The database of OVN that the agent reads.
    pub source: OvnDatabase,
    /// The Southbound database.
    pub sb: DatabaseSettings,
    /// The Northbound database.
    pub nb: DatabaseSettings,
    /// AS number of the FRR stanzas, as FRR writes it.
    pub bgp_as: SmolStr,
    /// Router id of the VRF's stanza; `None` takes that of the default instance.
    pub bgp_router_id: Option<Ipv4Addr>,
    /// Device that gets the announced addresses.
    pub bgp_nic: SmolStr,
    /// The VRF it is in.
    pub bgp_vrf: SmolStr,
    /// That VRF's routing table.
    pub bgp_vrf_table_id: u32,
    /// Whether the VRF's table is emptied at the start.
    pub clear_vrf_routes_on_startup: bool,
    /// Priority of our rules.
    pub rule_priority: u32,
    /// The rules that lead into a bridge's routing table.
    pub rule_mode: RuleMode,
    /// The program that creates the devices of VLANs.
    pub vlan_device: VlanDevice,
    /// The file that names routing tables.
    pub rt_tables: PathBuf,
    /// Directory of FRR's vty sockets.
    pub frr_vty_dir: PathBuf,
    /// The interface for configuring FRR.
    pub frr_backend: FrrBackend,
    /// Directory of the sockets of Open vSwitch; `None` means `OVS_RUNDIR`, or else the distribution's directory.
    pub ovs_rundir: Option<PathBuf>,
    /// IPv6 addresses to answer for on provider networks, such as their gateways.
    pub ndp_proxy_extra: BTreeSet<NdpProxy>,
    /// Prefixes that are never wired and never announced, besides those that the node lives by.
    pub reserved_prefixes: BTreeSet<IpNet>,
    /// Delay between a withdrawal and the removal of the address's rule and route, for traffic that still arrives.
    pub withdraw_drain: Duration,
    /// Delay between the loss of our row in `Chassis` and the withdrawal of all announcements.
    pub chassis_grace: Duration,
    /// Time for which announcements stay if most addresses are missing after a reconnect.
    pub mass_withdraw_hold: Duration,
    /// Whether a stop withdraws the announcements.
    pub withdraw_on_stop: bool,
    /// Whether only to say what would be done.
    pub dry_run: bool,
    /// Address of `/metrics`.
    pub metrics_listen: Option<SocketAddr>,
    /// Admin socket.
    pub admin_socket: Option<PathBuf>,
    /// `debug`.
    pub debug: bool,
    /// `log_file`, in `log_dir` where that is given.
    pub log_file: Option<PathBuf>,
    /// `log_dir`.
    pub log_dir: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            reconcile_interval: Duration::from_secs(300),
            frr_reconcile_interval: Duration::from_secs(15),
            expose_tenant_networks: false,
            expose_ipv6_gua_tenant_networks: false,
            advertisement: Advertisement::Host,
            address_scopes: BTreeSet::new(),
            require_snat_disabled: false,
            ovsdb_connection: None,
            ovsdb_connection_timeout: Duration::from_secs(180),
            source: OvnDatabase::Southbound,
            sb: usual_keys(),
            nb: usual_keys(),
            bgp_as: SmolStr::new_static("64999"),
            bgp_router_id: None,
            bgp_nic: SmolStr::new_static("bgp-nic"),
            bgp_vrf: SmolStr::new_static("bgp-vrf"),
            bgp_vrf_table_id: 10,
            clear_vrf_routes_on_startup: false,
            rule_priority: 32000,
            rule_mode: RuleMode::PerIp,
            vlan_device: VlanDevice::Auto,
            rt_tables: "/etc/iproute2/rt_tables".into(),
            frr_vty_dir: "/run/frr".into(),
            frr_backend: FrrBackend::Vty,
            ovs_rundir: None,
            ndp_proxy_extra: BTreeSet::new(),
            reserved_prefixes: BTreeSet::new(),
            withdraw_drain: Duration::ZERO,
            chassis_grace: Duration::from_secs(30),
            mass_withdraw_hold: Duration::from_secs(10),
            withdraw_on_stop: false,
            dry_run: false,
            metrics_listen: None,
            admin_socket: None,
            debug: false,
            log_file: None,
            log_dir: None,
        }
    }
}

/// One option as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The section, `DEFAULT` for most.
    pub section: String,
    /// The option.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The origin: a file and line, or a variable.
    pub place: String,
}

/// A configuration that was read, with its warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Options that nobody knows, and such that have no meaning here.
    pub warnings: Vec<String>,
}

/// The configuration cannot be used; everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid configuration{}", .problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
pub struct ConfigError {
    /// Each with its place.
    pub problems: Vec<String>,
}

impl Config {
    /// Reads the options of oslo INI files.
    pub fn from_ini(ini: &Ini) -> Result<Loaded, ConfigError> {
        Self::from_pairs(ini.entries.iter().map(|entry| Pair {
            section: entry.section.clone(),
            name: entry.name.clone(),
            value: ini.value(entry),
            place: entry.place.to_string(),
        }))
    }

    /// Reads options in the order given; the later ones win. All that is wrong is said at once.
    pub fn from_pairs(pairs: impl IntoIterator<Item = Pair>) -> Result<Loaded, ConfigError> {
        let mut config = Self::default();
        let (mut warnings, mut problems) = (Vec::new(), Vec::new());
        for Pair { section, name, value, place } in pairs {
            let value = value.trim();
            let option = format!("[{section}] {name}");
            match options::find(&section, &name) {
                // An empty value is what a template leaves of an option that was not set.
                Some(_) if value.is_empty() => {}
                Some(opt) => match (opt.set)(&mut config, value) {
                    Ok(()) => {}
                    Err(what) => problems.push(format!("{place}: {option}: {what}")),
                },
                None if options::is_ignored(&section, &name) => {}
                None => match options::meaningless(&section, &name) {
                    Some(why) => warnings.push(format!("{place}: {option} has no effect: {why}")),
                    None => warnings.push(format!("{place}: unknown option {option}; it is ignored")),
                },
            }
        }
        if config.expose_tenant_networks && config.expose_ipv6_gua_tenant_networks {
            warnings.push(
                "expose_tenant_networks outranks expose_ipv6_gua_tenant_networks: all are exposed".into(),
            );
        }
        if config.require_snat_disabled && config.source == OvnDatabase::Southbound {
            warnings.push(
                "require_snat_disabled_for_tenant_networks has no effect: it needs driver = nb_ovn_bgp_driver; opt subnets \
                 out with meridian:advertise=false"
                    .into(),
            );
        }
        if problems.is_empty() { Ok(Loaded { config, warnings }) } else { Err(ConfigError { problems }) }
    }

    /// The servers that the agent connects to.
    pub fn connections(&self) -> ConnectionSettings {
        ConnectionSettings {
            vswitch: self.ovsdb_connection.clone(),
            ovs_rundir: self.ovs_rundir.clone(),
            vswitch_patience: self.ovsdb_connection_timeout,
            southbound: self.sb.clone(),
            northbound: self.nb.clone(),
        }
    }

    /// The exposed addresses of tenant networks.
    pub fn tenants(&self) -> Tenants {
        match (self.expose_tenant_networks, self.expose_ipv6_gua_tenant_networks) {
            (true, _) => Tenants::All,
            (false, true) => Tenants::Gua,
            (false, false) => Tenants::Hidden,
        }
    }

    /// The file to log to, if any.
    pub fn log_path(&self) -> Option<PathBuf> {
        match (&self.log_dir, &self.log_file) {
            (Some(dir), Some(file)) => Some(dir.join(file)),
            (Some(dir), None) => Some(dir.join("bgp-agent.log")),
            (None, file) => file.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
