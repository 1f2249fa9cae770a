use super::*;

const NEUTRONS: &str = "
[DEFAULT]
# comment
state_path = /var/lib/neutron
metadata_proxy_shared_secret = secret
nova_metadata_ip = 10.0.0.9
nova_metadata_port = 8776
metadata_workers = 2
auth_ca_cert =
surprise = 1
[ovn]
ovn_sb_connection = tcp:10.0.0.1:6642,tcp:10.0.0.2:6642
ovn_metadata_enabled = True
[metadata_rate_limiting]
rate_limit_enabled = true
base_query_rate_limit = 5
[agent]
root_helper = sudo neutron-rootwrap
[meridian_metadata]
teardown_hold = 0
";

fn load(text: &str) -> Result<Loaded, ConfigError> {
    let mut ini = Ini::default();
    ini.read("agent.ini", text).unwrap();
    Config::from_ini(&ini)
}

#[test]
fn neutrons_file_is_read_as_it_is() {
    let Loaded { config, ignored } = load(NEUTRONS).unwrap();
    assert_eq!(config.nova, NovaAddress { host: "10.0.0.9".into(), port: 8776, tls: None });
    assert_eq!(config.secret.sign("x"), SharedSecret::new("secret".into()).sign("x"));
    assert_eq!(config.connections.southbound.remotes.unwrap().list.len(), 2);
    assert_eq!((config.rate_limit_enabled, config.rate.base.requests), (true, 5));
    assert_eq!(config.teardown_hold, Duration::ZERO);
    assert_eq!(ignored, ["[DEFAULT] metadata_workers", "[DEFAULT] surprise", "[agent] root_helper"]);
    assert_eq!(config.verify_source_mac, SourceCheck::Warn);
}

#[test]
fn options_of_ours_that_do_nothing_are_refused_by_name() {
    let ours = |line: &str| load(&format!("[meridian_metadata]\n{line}\n"));
    for line in [
        "ready_key_table = both",
        "sb_monitor = all",
        "metadata_watch_nb = true",
        "metadata_ready_timeout = 15",
        "verify_source_macs = enforce",
        "verify_source_mac = always",
    ] {
        let ConfigError(wrong) = ours(line).unwrap_err();
        let name = line.split(' ').next().unwrap();
        assert!(wrong.len() == 1 && wrong[0].contains(name), "{wrong:?}");
    }
    for line in ["ready_key_table = Chassis", "sb_monitor = local", "metadata_watch_nb = false"] {
        ours(line).unwrap();
    }
    assert_eq!(ours("verify_source_mac = enforce").unwrap().config.verify_source_mac, SourceCheck::Enforce);
}

#[test]
fn the_families_of_limits_are_those_of_the_file() {
    let limited = |versions: &str| {
        let text = format!("[metadata_rate_limiting]\nip_versions = {versions}\n");
        load(&text).map(|loaded| (loaded.config.rate.ipv4, loaded.config.rate.ipv6))
    };
    assert_eq!(limited("4").unwrap(), (true, false));
    assert_eq!(limited("6").unwrap(), (false, true));
    assert_eq!(limited("4, 6").unwrap(), (true, true));
    assert!(limited("5").is_err());
}

#[test]
fn all_that_is_wrong_is_named_at_once() {
    let wrong = "nova_metadata_port = 0\nnova_metadata_protocol = h2\nnova_client_cert = /x\n\
                 nova_metadata_insecure = true\n[ovn]\n\
                 ovn_metadata_enabled = perhaps\novn_sb_connection = nowhere\n";
    let ConfigError(all) = load(wrong).unwrap_err();
    for name in
        ["port", "protocol", "nova_client_cert", "insecure", "ovn_metadata_enabled", "ovn_sb_connection"]
    {
        assert!(all.iter().any(|line| line.contains(name)), "{name} is not in {all:?}");
    }
    assert_eq!(all.len(), 6, "{all:?}");
}

#[test]
fn tls_to_nova_is_put_together_in_any_order() {
    let text = "nova_client_priv_key = /key\nnova_client_cert = /cert\nauth_ca_cert = /ca\nnova_metadata_protocol = https\n";
    let tls = NovaTls { ca: Some("/ca".into()), identity: Some(("/cert".into(), "/key".into())) };
    assert_eq!(load(text).unwrap().config.nova.tls, Some(tls));
    assert_eq!(load("auth_ca_cert = /ca\n").unwrap().config.nova.tls, None, "without https it is not used");
    assert_eq!(load("nova_metadata_protocol = https\n").unwrap().config.nova.tls, Some(NovaTls::default()));
}

#[test]
fn defaults_are_those_that_are_shown() {
    let pairs = OPTIONS.iter().filter(|opt| !opt.default.is_empty()).map(|opt| Pair {
        group: String::new(),
        name: opt.name.into(),
        value: opt.default.into(),
        place: "default".into(),
    });
    let shown = Config::from_pairs(pairs).unwrap().config;
    assert_eq!(format!("{shown:?}"), format!("{:?}", Config::default()));
    let names: std::collections::BTreeSet<&str> = OPTIONS.iter().map(|opt| opt.name).collect();
    assert_eq!(names.len(), OPTIONS.len(), "names are unique, so that TOML needs no groups");
}
