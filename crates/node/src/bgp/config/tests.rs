use super::*;

fn load(text: &str) -> Result<Loaded, ConfigError> {
    let mut ini = Ini::default();
    ini.read("bgp-agent.conf", text).unwrap();
    Config::from_ini(&ini)
}

fn problem(text: &str) -> String {
    let problems = load(text).unwrap_err().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].clone()
}

/// Scenario 35: the sample of the agent's first design.
#[test]
fn the_first_sample_loads() {
    let loaded = load(
        "[DEFAULT]\ndebug=True\nreconcile_interval=120\nexpose_tenant_networks=True\ndriver=osp_bgp_driver\n",
    )
    .unwrap();
    assert_eq!(loaded.warnings, [""; 0]);
    let config = loaded.config;
    assert_eq!(config.reconcile_interval, Duration::from_secs(120));
    assert_eq!((config.debug, config.tenants()), (true, Tenants::All));
    assert_eq!(config.bgp_vrf, "bgp-vrf");
}

/// Scenario 35: a file with quotes, lists, other sections and the deprecated places.
#[test]
fn a_sample_of_today_loads() {
    let loaded = load(
        "[DEFAULT]\nbgp_AS = '64999'\nbgp_nic = \"bgp-nic\"\nbgp_vrf=\"bgp-vrf\"\nbgp-vrf-table-id = 11\n\
         address_scopes = 2237917c7b12489a84de4ef384a2bcae,\n  11111111-2222-3333-4444-555555555555\n\
         ovn_sb_private_key = '/etc/k'\nlogging_context_format_string = %(x)s\nuse_journal = yes\n\
         expose_ipv6_gua_tenant_networks = yes\n\
         [AGENT]\nroot_helper = sudo ovn-bgp-agent-rootwrap /etc/x\nroot_helper_daemon = x\n\
         [ovn]\novn_sb_connection = ssl:10.0.0.1:6642,ssl:10.0.0.2:6642\novn_nb_connection = ssl:10.0.0.1:6641\n\
         [oslo_messaging_rabbit]\nx = y\n[local_ovn_cluster]\npeer_ips = 1.2.3.4\n",
    )
    .unwrap();
    let config = &loaded.config;
    assert_eq!((config.bgp_as.as_str(), config.bgp_vrf_table_id), ("64999", 11));
    assert_eq!(config.address_scopes.len(), 2);
    assert_eq!(config.sb.private_key, PathBuf::from("/etc/k"));
    assert_eq!(config.sb.remotes.as_ref().map(|remotes| remotes.list.len()), Some(2));
    assert_eq!(config.nb.remotes.as_ref().map(|remotes| remotes.list.len()), Some(1));
    assert_eq!(*config.connections().of(config.source), config.sb);
    assert_eq!(config.tenants(), Tenants::Gua);
    assert_eq!(
        loaded.warnings,
        ["bgp-agent.conf:21: [local_ovn_cluster] peer_ips has no effect: it configures exposing_method=ovn",]
    );
}

#[test]
fn unknown_options_are_a_warning() {
    let loaded = load("expose_tenant_network = on\nexpose_tenants = on\n").unwrap();
    assert_eq!(loaded.config.tenants(), Tenants::All, "by its name of old");
    assert_eq!(loaded.warnings, ["bgp-agent.conf:2: unknown option [DEFAULT] expose_tenants; it is ignored"]);
}

/// Scenario 35: what we do not do is refused by name, with what to use instead.
#[test]
fn drivers_and_methods_are_refused_by_name() {
    for (text, expected) in [
        ("ovsdb_connection = foo", "has no method"),
        (
            "exposing_method = dynamic",
            "no program implements exposing_method=dynamic; use exposing_method=underlay",
        ),
        ("exposing_method = l2vni", "no program implements"),
        ("exposing_method = vrf", "use exposing_method=underlay"),
        ("exposing_method = ovn", "use exposing_method=underlay"),
        ("exposing_method = x", "unknown exposing_method=\"x\""),
        ("driver = ovn_evpn_driver", "use ovn_bgp_driver or nb_ovn_bgp_driver"),
        ("driver = ovn_stretched_l2_bgp_driver", "advertisement_method_tenant_networks=subnet"),
        ("driver = ovn_bgp_stretched_l2_driver", "advertisement_method_tenant_networks=subnet"),
        ("driver = x", "unknown driver \"x\""),
        ("advertise_backend = ovn-native", "use frr-vrf"),
        ("advertisement_method_tenant_networks = both", "expected host or subnet, found \"both\""),
        ("debug = maybe", "expected true or false, found \"maybe\""),
        ("reconcile_interval = 0", "expected a number from 1 to 4294967295, found \"0\""),
        ("bgp_AS = 1 no router bgp 2", "expected an AS number"),
        ("bgp_AS = +5", "expected an AS number"),
        ("bgp_AS = 0", "expected an AS number"),
        ("bgp_router_id = fd00::1", "expected an IPv4 address"),
        ("bgp_nic = a name that is long", "expected a device name"),
        ("bgp_vrf = a/b", "expected a device name"),
        ("bgp_vrf_table_id = 254", "table 254 is one of the kernel's own"),
        ("rule_priority = 40000", "expected a number from 1 to 32765"),
        ("rule_mode = none", "expected per-ip or aggregate"),
        ("ndp_proxy_extra = 10.0.0.1", "expected IPv6 addresses"),
        ("reserved_prefixes = 10.0.0.0/8, ten", "expected prefixes as 10.10.0.0/16, found \"ten\""),
        ("metrics_listen = 9697", "expected an address and a port"),
    ] {
        let problem = problem(text);
        assert!(
            problem.starts_with("bgp-agent.conf:1: [DEFAULT] ") && problem.contains(expected),
            "{problem}"
        );
    }
}

#[test]
fn the_northbound_has_keys_of_its_own() {
    let config = load(
        "driver = nb_ovn_bgp_driver\n[ovn]\novn_nb_connection = ssl:10.0.0.1:6641\novn_nb_private_key = /k\n\
         ovn_nb_certificate = /c\novn_nb_ca_cert = /a\novn_nb_verify_names = yes\n",
    )
    .unwrap()
    .config;
    assert_eq!((config.source, config.sb.clone()), (OvnDatabase::Northbound, Config::default().sb));
    let connections = config.connections();
    let northbound = connections.of(config.source);
    let [key, certificate, ca] = [&northbound.private_key, &northbound.certificate, &northbound.ca_cert]
        .map(|path| path.display().to_string());
    assert_eq!([key, certificate, ca], ["/k", "/c", "/a"]);
    assert!(northbound.remotes.is_some() && northbound.verify_names);
}

#[test]
fn what_the_southbound_does_not_tell_is_a_warning() {
    let text = "require_snat_disabled_for_tenant_networks = yes\n";
    let warnings = load(text).unwrap().warnings;
    assert!(
        matches!(&warnings[..], [one] if one.contains("needs driver = nb_ovn_bgp_driver")),
        "{warnings:?}"
    );
    let loaded = load(&format!("{text}driver = nb_ovn_bgp_driver\n")).unwrap();
    assert!(loaded.warnings.is_empty() && loaded.config.require_snat_disabled);
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let error = load("debug = x\nrule_mode = y\n").unwrap_err();
    assert_eq!(error.problems.len(), 2);
    assert!(error.to_string().contains("\n  bgp-agent.conf:2: [DEFAULT] rule_mode: "), "{error}");
}

#[test]
fn empty_values_are_not_set() {
    assert_eq!(load("bgp_router_id =\nbgp_AS = \"\"\n").unwrap().config, Config::default());
}

#[test]
fn our_own_options() {
    let config = load(
        "rule_mode = aggregate\nfrr_backend = vtysh\nndp_proxy_extra = 2001:db8::1@physnet1, fe80::1\nwithdraw_drain_ms = 250\n\
         chassis_grace = 5\nmass_withdraw_hold = 1\nwithdraw_on_stop = 1\nmetrics_listen = [::1]:9697\nlog_dir = /var/log/x\n\
         bgp_AS = 1.10\n",
    )
    .unwrap()
    .config;
    assert_eq!((config.rule_mode, config.frr_backend), (RuleMode::Aggregate, FrrBackend::Vtysh));
    assert_eq!(config.withdraw_drain, Duration::from_millis(250));
    assert_eq!(config.ndp_proxy_extra.len(), 2);
    assert_eq!(config.log_path(), Some("/var/log/x/bgp-agent.log".into()));
    assert!(config.withdraw_on_stop && config.metrics_listen.is_some());
}

/// The documented default of each option is what holds without it, and setting it changes nothing.
#[test]
fn documented_defaults_are_the_defaults() {
    for opt in OPTIONS {
        assert!(!opt.doc.is_empty(), "{opt:?}");
        if !opt.default.is_empty() {
            let text = format!("[{}]\n{} = {}\n", opt.section, opt.name, opt.default);
            assert_eq!(load(&text).unwrap().config, Config::default(), "{opt:?}");
        }
        assert_eq!(OPTIONS.iter().filter(|other| other.name == opt.name).count(), 1, "{opt:?}");
    }
}

#[test]
fn the_manual_lists_every_option() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/bgp-reference.md"));
    for opt in OPTIONS {
        let row =
            manual.lines().find(|line| line.starts_with('|') && line.contains(&format!("{}` |", opt.name)));
        let row = row.unwrap_or_else(|| panic!("{opt:?} is not in the manual"));
        assert!(row.contains(opt.doc) && row.contains(opt.default), "{opt:?} is told otherwise: {row}");
    }
}
