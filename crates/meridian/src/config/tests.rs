use super::*;

fn file(text: &str) -> Sources {
    Sources { file: Some(("m.toml".into(), text.to_owned())), ..Sources::default() }
}

fn problems(text: &str) -> Vec<String> {
    file(text).load().unwrap_err().problems.iter().map(ToString::to_string).collect()
}

#[test]
fn flags_win_over_variables_over_the_file() {
    let mut sources = file(
        "[ovsdb]\nremote = [\"tcp:1.1.1.1:1\"]\ntimeout = 3\nprobe_interval = \"250ms\"\n[log]\nlevel = \"debug\"\n",
    );
    sources.variables.insert("MERIDIAN_OVSDB_REMOTE".into(), "tcp:2.2.2.2:2, unix:/x".into());
    sources.variables.insert("MERIDIAN_OVSDB_TIMEOUT".into(), "4s".into());
    sources.variables.insert("MERIDIAN_LOG".into(), "ovsdb=trace".into());
    sources.variables.insert("MERIDIAN_ADMIN_SOCKET".into(), String::new());
    sources.flags.push(Override { key: "ovsdb.timeout", text: "1m".into(), flag: "--timeout" });
    let Loaded { config, warnings } = sources.load().unwrap();
    assert_eq!(config.ovsdb.remote.value, ["tcp:2.2.2.2:2", "unix:/x"]);
    assert_eq!(config.ovsdb.remote.origin, Origin::Variable("MERIDIAN_OVSDB_REMOTE".into()));
    assert_eq!(config.ovsdb.timeout.value, Duration::from_secs(60));
    assert_eq!(config.ovsdb.timeout.origin, Origin::Flag("--timeout".into()));
    assert_eq!(config.ovsdb.probe_interval.value, Duration::from_millis(250));
    assert_eq!(config.ovsdb.probe_interval.origin, Origin::File { path: "m.toml".into(), line: 4 });
    assert_eq!(config.log.level.value, Level::Debug);
    assert_eq!(config.log.filter.value.as_deref(), Some("ovsdb=trace"));
    assert_eq!(config.admin.socket.value, None, "an empty variable is not set");
    assert!(warnings.is_empty());
}

#[test]
fn what_is_wrong_names_the_line_and_what_was_meant() {
    for (text, expected) in [
        ("[ovsdb]\nremot = \"x\"\n", "m.toml:2: unknown key `ovsdb.remot`; did you mean `ovsdb.remote`?"),
        (
            "\n[ovsdp]\n",
            "m.toml:2: unknown section `ovsdp`; did you mean `ovsdb`?; there are ovsdb, log, metrics, admin, bgp, metadata, \
             server, network, kube",
        ),
        ("remote = \"x\"\n", "m.toml:1: `remote` belongs in the section [ovsdb]"),
        ("log = 3\n", "m.toml:1: `log` is a section: write [log]"),
        ("[log]\nsocket = \"x\"\n", "m.toml:2: unknown key `log.socket`; did you mean `admin.socket`?"),
        ("[admin]\nxyzzy = 1\n", "m.toml:2: unknown key `admin.xyzzy`; [admin] has socket"),
        (
            "[log]\nlevel = \"inof\"\n",
            "m.toml:2: `log.level`: `inof` is none of off, error, warn, info, debug, trace; did you mean `info`?",
        ),
        ("[log]\nformat = \"xml\"\n", "m.toml:2: `log.format`: `xml` is none of human, json"),
        ("[log]\nformat = 1\n", "m.toml:2: `log.format`: expected a string, found an integer"),
        (
            "[ovsdb]\nleader_only = \"yes\"\n",
            "m.toml:2: `ovsdb.leader_only`: expected true or false, found a string",
        ),
        (
            "[ovsdb]\ntimeout = \"5 parsecs\"\n",
            "m.toml:2: `ovsdb.timeout`: expected a time as 500ms, 5s or 2m, found `5 parsecs`",
        ),
        (
            "[ovsdb]\ntimeout = 1.5\n",
            "m.toml:2: `ovsdb.timeout`: expected a time as \"5s\" or seconds, found a float",
        ),
        (
            "[ovsdb]\nremote = [1]\n",
            "m.toml:2: `ovsdb.remote`: expected a string or an array of strings, found an integer",
        ),
        ("[ovsdb]\nca_cert = \"\"\n", "m.toml:2: `ovsdb.ca_cert`: expected a path, found nothing"),
        (
            "[metrics]\nlisten = \"localhost\"\n",
            "m.toml:2: `metrics.listen`: expected an address and a port as 127.0.0.1:9697 or [::1]:9697, found `localhost`",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let found = problems("[metrics]\nport = 1\n[log]\nlevel = 3\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("m.toml:2:") && found[1].starts_with("m.toml:4:"), "{found:?}");
    let found = problems("[ovsdb]\nremote = \"x\nfoo\n");
    assert!(found[0].starts_with("m.toml:2: no TOML: "), "{found:?}");
}

#[test]
fn a_wrong_variable_and_a_wrong_flag_name_themselves() {
    let mut sources = Sources::default();
    sources.variables.insert("MERIDIAN_LOG_FORMAT".into(), "xml".into());
    sources.flags.push(Override { key: "metrics.listen", text: "x".into(), flag: "--metrics-listen" });
    let found: Vec<_> = sources.load().unwrap_err().problems.iter().map(|p| p.place.clone()).collect();
    assert_eq!(found, ["MERIDIAN_LOG_FORMAT", "--metrics-listen"]);
    let mut sources = Sources::default();
    sources.variables.insert("MERIDIAN_OVSDB_REMOTES".into(), "x".into());
    assert_eq!(
        sources.load().unwrap().warnings,
        ["unknown variable MERIDIAN_OVSDB_REMOTES; did you mean `MERIDIAN_OVSDB_REMOTE`?"]
    );
}

#[test]
fn what_is_printed_reads_back() {
    let text = "[ovsdb]\nremote = [\"tcp:1.1.1.1:1\"]\nprivate_key = \"/a \\\"b\\\"\"\ntimeout = \"1500ms\"\nleader_only = false\n\
                [metrics]\nlisten = \"[::1]:1\"\n";
    let config = file(text).load().unwrap().config;
    let printed = config.to_toml();
    assert!(printed.contains("leader_only = false  # from m.toml:5\n"), "{printed}");
    assert!(printed.contains("level = \"info\"  # from default\n"), "{printed}");
    assert!(printed.contains("# socket is not set\n"), "{printed}");
    let mut again = file(&printed).load().unwrap().config;
    let mut config = config;
    let values = |config: &mut Config| config.fields().iter().map(|(_, f)| f.to_toml()).collect::<Vec<_>>();
    assert_eq!(values(&mut again), values(&mut config));
}

#[test]
fn every_section_shows_its_defaults_and_origins() {
    let printed =
        file("[bgp]\nbgp_AS = 65001\n[network]\nvni_range = [5, 6]\n").load().unwrap().config.to_toml();
    for line in [
        "bgp_AS = \"65001\"  # from m.toml:2",
        "bgp_nic = \"bgp-nic\"  # from default",
        "reconcile_interval = \"300\"  # from default",
        "# bgp_router_id is not set",
        "vni_range = [5, 6]  # from m.toml:4",
        "agent_down_time = 75  # from default",
        "enable_snat_by_default = true  # from default",
        "# bfd_min_tx is not set",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    let quotas = printed.lines().find(|line| line.starts_with("quotas = ")).unwrap();
    assert!(quotas.contains("router = 10") && quotas.ends_with("# from default"), "{quotas}");
    // The printed defaults are those in effect.
    let again = file(&printed).load().unwrap().config;
    assert_eq!(again.network.settings().unwrap().vni_range, (5, 6));
    assert_eq!(
        file("").load().unwrap().config.network.settings().unwrap(),
        api::settings::Settings::default()
    );
    let shown = file(&Config::default().to_toml()).load().unwrap().config;
    assert_eq!(shown.network.settings().unwrap(), api::settings::Settings::default());
    assert_eq!(shown.bgp.load().unwrap().config, Config::default().bgp.load().unwrap().config);
}

#[test]
fn every_key_is_documented_and_named_once() {
    let keys = Config::keys();
    for key in &keys {
        assert!(!key.doc.is_empty() && key.variable().starts_with("MERIDIAN_"));
        assert_eq!(keys.iter().filter(|other| other.path() == key.path()).count(), 1);
        assert_eq!(keys.iter().filter(|other| other.variable() == key.variable()).count(), 1);
    }
}

#[test]
fn options_of_the_agent_are_those_of_its_own_file() {
    let config = file("[bgp]\nexpose_tenant_networks = true\nbgp_AS = 65001\naddress_scopes = [\"a\", \"b\"]\nbgp_nic = \"announce\"\n")
        .load()
        .unwrap()
        .config;
    let agent = config.bgp.load().unwrap().config;
    assert_eq!(
        (agent.bgp_as.as_str(), agent.bgp_nic.as_str(), agent.address_scopes.len()),
        ("65001", "announce", 2)
    );
    assert!(agent.expose_tenant_networks);
    let wrong =
        file("[bgp]\n\ndriver = \"ovn_evpn_driver\"\n").load().unwrap().config.bgp.load().unwrap_err();
    assert!(
        wrong.to_string().contains("m.toml:3: [bgp] driver: the driver ovn_evpn_driver does not exist"),
        "{wrong}"
    );
    assert_eq!(
        problems("[bgp]\nbgp_nick = 1\n"),
        ["m.toml:2: unknown key `bgp.bgp_nick`; did you mean `bgp.bgp_nic`?"]
    );
}

#[test]
fn settings_of_the_network_are_checked_by_their_types() {
    for (text, expected) in [
        ("[network]\nbfd_min_tx = 0\n", "m.toml:2: `network.bfd_min_tx`: it must be at least 1 millisecond"),
        (
            "[network]\n\novn_l3_scheduler = \"fastest\"\n",
            "m.toml:3: `network.ovn_l3_scheduler`: unknown variant `fastest`, expected `leastloaded` or `chance`",
        ),
        (
            "[network]\nenable_snat_by_default = 1\n",
            "m.toml:2: `network.enable_snat_by_default`: invalid type: integer `1`, expected a boolean",
        ),
        (
            "[network]\nbfd_min_txx = 1\n",
            "m.toml:2: unknown key `network.bfd_min_txx`; did you mean `network.bfd_min_tx`?",
        ),
        (
            "[server]\nauth = \"keyston\"\n",
            "m.toml:2: `server.auth`: `keyston` is none of none, token, basic, keystone; did you mean `keystone`?",
        ),
    ] {
        assert_eq!(problems(text), [expected]);
    }
}

#[test]
fn a_quota_that_is_set_leaves_the_others_as_they_are() {
    let settings = |text: &str| file(text).load().unwrap().config.network.settings();
    let defaults = settings("").unwrap().quotas;
    let quotas = settings("[network]\nquotas = { router = 100 }\n").unwrap().quotas;
    assert_eq!(quotas.limit("router"), 100);
    for resource in [
        "port",
        "floatingip",
        "network",
        "address_scope",
        "router_gateway",
        "port_fixed_ip",
        "shared_address",
    ] {
        assert!(
            quotas.limit(resource) > 0 && quotas.limit(resource) == defaults.limit(resource),
            "{resource}"
        );
    }
    let problems = problems("[network]\nquotas = { routers = 100 }\n");
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("m.toml:2: `network.quotas`: `routers` has no quota"), "{problems:?}");
    assert!(problems[0].contains("router, ") && problems[0].contains("subnetpool"), "{problems:?}");
}

#[test]
fn settings_of_the_network_come_from_file_and_environment() {
    let mut sources =
        file("[network]\nbfd_min_tx = 300\nvni_range = [10, 20]\ndns_servers = [\"192.0.2.53\"]\n");
    sources.variables.insert("MERIDIAN_NETWORK_BFD_MIN_TX".into(), "400".into());
    sources.variables.insert("MERIDIAN_NETWORK_DNS_DOMAIN".into(), "example.org".into());
    let settings = sources.load().unwrap().config.network.settings().unwrap();
    assert_eq!((settings.bfd_min_tx, settings.vni_range), (Some(400), (10, 20)));
    assert_eq!(settings.dns_domain, "example.org");
    assert_eq!(settings.dns_servers.len(), 1);
    assert!(settings.enable_snat_by_default);
}

proptest::proptest! {
    #[test]
    fn no_password_is_printed(
        password in "[a-z@/?#:&=%]{0,4}S3CRET[a-z@/?#:&=%]{0,4}",
        scheme in "postgres|postgress|http",
        in_query in proptest::bool::ANY,
    ) {
        let url = match in_query {
            true => format!("{scheme}://u@h/db?password={password}"),
            false => format!("{scheme}://u:{password}@h/db"),
        };
        let mut sources = Sources::default();
        for key in ["DATABASE", "KEYSTONE_URL"] {
            sources.variables.insert(format!("MERIDIAN_SERVER_{key}"), url.clone());
        }
        let config = sources.load().unwrap().config;
        for printed in [config.to_toml(), format!("{config:?}")] {
            proptest::prop_assert!(!printed.contains("S3CRET"), "{}", printed);
        }
    }
}
