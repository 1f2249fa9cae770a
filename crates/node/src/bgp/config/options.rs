//! The list of options.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use super::value::{self, one_of, parsed};
use super::{Advertisement, Config, FrrBackend, RuleMode};
use crate::connections::OvnDatabase;
use crate::ini::{self, DEFAULT};
use crate::plane::VlanDevice;

/// One option.
pub struct Opt {
    /// Its section in an INI file.
    pub section: &'static str,
    /// Its name there, and in the table `[bgp]` of a TOML file.
    pub name: &'static str,
    /// The help text, in one line.
    pub doc: &'static str,
    /// The default, as a string.
    pub default: &'static str,
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl fmt::Debug for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.section, self.name)
    }
}

const fn opt(
    section: &'static str,
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    set: fn(&mut Config, &str) -> Result<(), String>,
) -> Opt {
    Opt { section, name, doc, default, set }
}

/// An option whose value is read by one function and kept in one field.
macro_rules! field {
    ($section:expr, $name:literal, $default:literal, $doc:literal, $($field:ident).+, $read:expr) => {
        opt($section, $name, $default, $doc, |config, text| {
            config.$($field).+ = ($read)(text)?;
            Ok(())
        })
    };
}

fn some<T>(read: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| read(text).map(Some)
}

/// Every option that has an effect.
pub const OPTIONS: &[Opt] = &[
    field!(
        DEFAULT,
        "reconcile_interval",
        "300",
        "Seconds between two full resyncs",
        reconcile_interval,
        value::period
    ),
    field!(
        DEFAULT,
        "frr_reconcile_interval",
        "15",
        "Seconds between two reads of FRR's configuration",
        frr_reconcile_interval,
        value::period
    ),
    field!(
        DEFAULT,
        "expose_tenant_networks",
        "false",
        "Expose all addresses of tenant networks through their gateway chassis",
        expose_tenant_networks,
        value::boolean
    ),
    field!(
        DEFAULT,
        "expose_ipv6_gua_tenant_networks",
        "false",
        "Expose globally routed IPv6 addresses of tenant networks",
        expose_ipv6_gua_tenant_networks,
        value::boolean
    ),
    opt(
        DEFAULT,
        "advertisement_method_tenant_networks",
        "host",
        "Announce tenant networks by host or by subnet",
        |config, text| {
            config.advertisement =
                one_of(text, &[("host", Advertisement::Host), ("subnet", Advertisement::Subnet)])?;
            Ok(())
        },
    ),
    opt(
        DEFAULT,
        "address_scopes",
        "",
        "Expose only tenant subnets of these address scopes",
        |config, text| {
            config.address_scopes = ini::list(text).iter().map(smol_str::SmolStr::new).collect();
            Ok(())
        },
    ),
    field!(
        DEFAULT,
        "require_snat_disabled_for_tenant_networks",
        "false",
        "Leave out tenant subnets that their router translates (snat); needs nb_ovn_bgp_driver",
        require_snat_disabled,
        value::boolean
    ),
    opt(
        DEFAULT,
        "driver",
        "ovn_bgp_driver",
        "Source of the rows: ovn_bgp_driver reads the Southbound, nb_ovn_bgp_driver the Northbound (OVN 23.09)",
        driver,
    ),
    opt(DEFAULT, "exposing_method", "underlay", "Method of steering traffic: underlay", exposing_method),
    opt(
        DEFAULT,
        "advertise_backend",
        "frr-vrf",
        "Method of announcing addresses: frr-vrf",
        advertise_backend,
    ),
    field!(
        DEFAULT,
        "ovsdb_connection",
        "",
        "The local switch's database, as unix:/run/openvswitch/db.sock",
        ovsdb_connection,
        some(value::remotes)
    ),
    field!(
        DEFAULT,
        "ovsdb_connection_timeout",
        "180",
        "Time limit for replies of that database, in seconds",
        ovsdb_connection_timeout,
        value::period
    ),
    field!(DEFAULT, "bgp_AS", "64999", "AS number of the FRR stanzas", bgp_as, value::as_number),
    opt(
        DEFAULT,
        "bgp_router_id",
        "",
        "Router id of the VRF; by default that of FRR's default instance",
        |config, text| {
            config.bgp_router_id = Some(parsed(text, "an IPv4 address")?);
            Ok(())
        },
    ),
    field!(DEFAULT, "bgp_nic", "bgp-nic", "Device that gets the announced addresses", bgp_nic, value::device),
    field!(DEFAULT, "bgp_vrf", "bgp-vrf", "The VRF that this device is in", bgp_vrf, value::device),
    field!(DEFAULT, "bgp_vrf_table_id", "10", "That VRF's routing table", bgp_vrf_table_id, value::table),
    field!(
        DEFAULT,
        "clear_vrf_routes_on_startup",
        "false",
        "Empty the VRF's table at the start",
        clear_vrf_routes_on_startup,
        value::boolean
    ),
    field!(
        "ovn",
        "ovn_sb_connection",
        "",
        "The Southbound database; by default ovn-remote of the local switch",
        sb.remotes,
        some(value::remotes)
    ),
    field!(
        "ovn",
        "ovn_sb_private_key",
        "/etc/pki/tls/private/ovn_bgp_agent.key",
        "Private key for ssl: remotes (PEM)",
        sb.private_key,
        value::path
    ),
    field!(
        "ovn",
        "ovn_sb_certificate",
        "/etc/pki/tls/certs/ovn_bgp_agent.crt",
        "Certificate for ssl: remotes (PEM)",
        sb.certificate,
        value::path
    ),
    field!(
        "ovn",
        "ovn_sb_ca_cert",
        "/etc/ipa/ca.crt",
        "Certificate of the CA that signed the server's (PEM)",
        sb.ca_cert,
        value::path
    ),
    field!(
        "ovn",
        "ovn_sb_verify_names",
        "false",
        "Whether the server's certificate must name the host of its remote",
        sb.verify_names,
        value::boolean
    ),
    field!(
        "ovn",
        "ovn_nb_connection",
        "",
        "The Northbound database; by default ovn-nb-remote of the local switch",
        nb.remotes,
        some(value::remotes)
    ),
    field!(
        "ovn",
        "ovn_nb_private_key",
        "/etc/pki/tls/private/ovn_bgp_agent.key",
        "Private key for ssl: remotes (PEM)",
        nb.private_key,
        value::path
    ),
    field!(
        "ovn",
        "ovn_nb_certificate",
        "/etc/pki/tls/certs/ovn_bgp_agent.crt",
        "Certificate for ssl: remotes (PEM)",
        nb.certificate,
        value::path
    ),
    field!(
        "ovn",
        "ovn_nb_ca_cert",
        "/etc/ipa/ca.crt",
        "Certificate of the CA that signed the server's (PEM)",
        nb.ca_cert,
        value::path
    ),
    field!(
        "ovn",
        "ovn_nb_verify_names",
        "false",
        "Whether the server's certificate must name the host of its remote",
        nb.verify_names,
        value::boolean
    ),
    field!(
        DEFAULT,
        "rule_priority",
        "32000",
        "Priority of the rules that lead into a bridge's table",
        rule_priority,
        value::priority
    ),
    opt(
        DEFAULT,
        "rule_mode",
        "per-ip",
        "A rule per-ip, or one aggregate rule for each bridge",
        |config, text| {
            config.rule_mode =
                one_of(text, &[("per-ip", RuleMode::PerIp), ("aggregate", RuleMode::Aggregate)])?;
            Ok(())
        },
    ),
    opt(
        DEFAULT,
        "vlan_device",
        "auto",
        "Devices of VLANs: kernel (8021q) or internal ports of Open vSwitch; auto: the latter if the kernel has no 8021q",
        |config, text| {
            config.vlan_device = one_of(
                text,
                &[
                    ("auto", VlanDevice::Auto),
                    ("kernel", VlanDevice::Kernel),
                    ("internal", VlanDevice::Internal),
                ],
            )?;
            Ok(())
        },
    ),
    field!(
        DEFAULT,
        "rt_tables",
        "/etc/iproute2/rt_tables",
        "The file that names routing tables",
        rt_tables,
        value::path
    ),
    field!(DEFAULT, "frr_vty_dir", "/run/frr", "Directory of FRR's vty sockets", frr_vty_dir, value::path),
    opt(
        DEFAULT,
        "frr_backend",
        "vty",
        "Configure FRR over its vty sockets, or by running vtysh",
        |config, text| {
            config.frr_backend = one_of(text, &[("vty", FrrBackend::Vty), ("vtysh", FrrBackend::Vtysh)])?;
            Ok(())
        },
    ),
    field!(
        DEFAULT,
        "ovs_rundir",
        "",
        "Directory of the sockets of Open vSwitch; by default OVS_RUNDIR",
        ovs_rundir,
        some(value::path)
    ),
    field!(
        DEFAULT,
        "ndp_proxy_extra",
        "",
        "IPv6 addresses to answer for on provider networks, as 2001:db8::1 or 2001:db8::1@physnet1",
        ndp_proxy_extra,
        value::ndp_proxies
    ),
    field!(
        DEFAULT,
        "reserved_prefixes",
        "",
        "Prefixes that are never wired or announced, besides the node's own, as 10.10.0.0/16, 2001:db8:10::/48",
        reserved_prefixes,
        value::prefixes
    ),
    field!(
        DEFAULT,
        "withdraw_drain_ms",
        "0",
        "Milliseconds between a withdrawal and the removal of its rule, route and flows",
        withdraw_drain,
        value::milliseconds
    ),
    field!(
        DEFAULT,
        "chassis_grace",
        "30",
        "Seconds our Chassis row may be missing before everything is withdrawn",
        chassis_grace,
        value::seconds
    ),
    field!(
        DEFAULT,
        "mass_withdraw_hold",
        "10",
        "Seconds that announcements stay if most addresses are missing after a reconnect",
        mass_withdraw_hold,
        value::seconds
    ),
    field!(
        DEFAULT,
        "withdraw_on_stop",
        "false",
        "Withdraw all announcements on stop",
        withdraw_on_stop,
        value::boolean
    ),
    field!(
        DEFAULT,
        "dry_run",
        "false",
        "Log changes instead of applying them, and keep running",
        dry_run,
        value::boolean
    ),
    opt(DEFAULT, "metrics_listen", "", "Address of /metrics, such as 127.0.0.1:9697", |config, text| {
        config.metrics_listen = Some(parsed(text, "an address and a port as 127.0.0.1:9697 or [::1]:9697")?);
        Ok(())
    }),
    field!(DEFAULT, "admin_socket", "", "Admin socket", admin_socket, some(value::path)),
    field!(DEFAULT, "debug", "false", "Log more", debug, value::boolean),
    field!(DEFAULT, "log_file", "", "Log to this file", log_file, some(value::path)),
    field!(DEFAULT, "log_dir", "", "Log to a file in this directory", log_dir, some(value::path)),
];

/// Other names that files in use have.
const ALIASES: &[(&str, &str)] =
    &[("expose_tenant_network", "expose_tenant_networks"), ("frr_vty_socket", "frr_vty_dir")];

/// Options that are set in many files and mean nothing to us: logging beyond the file, and how commands are run as root.
const IGNORED: &[&str] = &[
    "use_syslog",
    "syslog_log_facility",
    "use_journal",
    "use_stderr",
    "use_json",
    "use_eventlog",
    "watch_log_file",
    "default_log_levels",
    "publish_errors",
    "fatal_deprecations",
    "instance_format",
    "instance_uuid_format",
    "log_config_append",
    "log_date_format",
    "log_rotate_interval",
    "log_rotate_interval_type",
    "log_rotation_type",
    "max_logfile_count",
    "max_logfile_size_mb",
    "rate_limit_burst",
    "rate_limit_except_level",
    "rate_limit_interval",
    "log_color",
    "config_file",
    "config_dir",
    "config_source",
    "shell_completion",
];

/// Sections of libraries that we do not have.
const IGNORED_SECTIONS: &[&str] =
    &["agent", "privsep", "privsep_ovs_vsctl", "privsep_vtysh", "oslo_concurrency"];

/// Options of drivers and methods that we refuse anyway.
const MEANINGLESS: &[(&str, &str, &str)] = &[
    (DEFAULT, "delete_vrf_on_disconnect", "it configures EVPN"),
    (DEFAULT, "evpn_local_ip", "it configures EVPN"),
    (DEFAULT, "evpn_nic", "it configures EVPN"),
    (DEFAULT, "evpn_udp_dstport", "it configures EVPN"),
    ("local_ovn_cluster", "", "it configures exposing_method=ovn"),
];

/// The section that has all options: the agent's own in a file of several programs.
const ALL: &str = "bgp";

/// Finds an option by its name in a file. Those of `[ovn]` also stand in `[DEFAULT]`, their place of old.
pub(super) fn find(section: &str, name: &str) -> Option<&'static Opt> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    OPTIONS.iter().find(|opt| {
        opt.name.eq_ignore_ascii_case(name)
            && (opt.section == section || section == DEFAULT || section == ALL)
    })
}

pub(super) fn is_ignored(section: &str, name: &str) -> bool {
    IGNORED_SECTIONS.contains(&section)
        || section.starts_with("oslo_")
        || (section == DEFAULT && (IGNORED.contains(&name) || name.starts_with("logging_")))
}

pub(super) fn meaningless(section: &str, name: &str) -> Option<&'static str> {
    let fits = |(of, option, _): &&(&str, &str, &str)| {
        (*of == section || (*of == "ovn" && section == DEFAULT)) && (option.is_empty() || *option == name)
    };
    MEANINGLESS.iter().find(fits).map(|(.., why)| *why)
}

fn driver(config: &mut Config, text: &str) -> Result<(), String> {
    let use_this = "use ovn_bgp_driver or nb_ovn_bgp_driver";
    config.source = match text {
        "ovn_bgp_driver" | "osp_bgp_driver" => OvnDatabase::Southbound,
        "nb_ovn_bgp_driver" => OvnDatabase::Northbound,
        "ovn_evpn_driver" => {
            return Err(format!(
                "the driver ovn_evpn_driver does not exist, because EVPN is not supported; {use_this}"
            ));
        }
        "ovn_stretched_l2_bgp_driver" | "ovn_bgp_stretched_l2_driver" => {
            return Err(format!(
                "the driver {text} does not exist; {use_this} with expose_tenant_networks and \
                 advertisement_method_tenant_networks=subnet"
            ));
        }
        other => return Err(format!("unknown driver {other:?}; {use_this}")),
    };
    Ok(())
}

fn exposing_method(_: &mut Config, text: &str) -> Result<(), String> {
    let use_this = "use exposing_method=underlay";
    match text {
        "underlay" => Ok(()),
        "l2vni" | "dynamic" => Err(format!("no program implements exposing_method={text}; {use_this}")),
        "vrf" => Err(format!("exposing_method=vrf (EVPN) is not supported; {use_this}")),
        "ovn" => Err(format!("exposing_method=ovn (a second OVN on each node) is not supported; {use_this}")),
        other => Err(format!("unknown exposing_method={other:?}; {use_this}")),
    }
}

fn advertise_backend(_: &mut Config, text: &str) -> Result<(), String> {
    match text {
        "frr-vrf" => Ok(()),
        other => Err(format!("advertise_backend={other:?} is not supported; use frr-vrf")),
    }
}
