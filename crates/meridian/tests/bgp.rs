//! Tests of the BGP agent as a process, beside real databases. The agent runs dry, so that it changes nothing on this machine, and without
//! FRR.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::server::{Running, Server, eventually};
use common::{meridian, run_args};
use serde_json::Value;

fn ran(program: &str, args: &[&str]) -> String {
    let output =
        Command::new(program).args(args).output().expect("Open vSwitch's and OVN's tools are installed");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The local switch's database, with a bridge for physnet1.
fn vswitch(dir: &Path) -> Running {
    let at = |name: &str| dir.join(name).display().to_string();
    ran("ovsdb-tool", &["create", &at("vs.db"), "/usr/share/openvswitch/vswitch.ovsschema"]);
    let (remote, control) =
        (format!("--remote=punix:{}", at("vs.sock")), format!("--unixctl={}", at("vs.ctl")));
    let mut server = Command::new("ovsdb-server");
    server.args(["--no-chdir", "-vconsole:off", "-vsyslog:off", &remote, &control, &at("vs.db")]);
    let server = Running(server.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    eventually("ovsdb-server listens", || dir.join("vs.sock").exists());
    let db = format!("--db=unix:{}", at("vs.sock"));
    let words = "--no-wait -- init -- add-br br-m7 -- set Open_vSwitch . external_ids:system-id=ch-a \
                 external_ids:ovn-bridge-mappings=physnet1:br-m7";
    ran("ovs-vsctl", &[&[db.as_str()], &words.split_whitespace().collect::<Vec<_>>()[..]].concat());
    server
}

/// A Southbound with a provider network: one instance on this chassis, and one with addresses that do not parse.
fn southbound() -> Server {
    let server = Server::southbound();
    let db = format!("--db={}", server.remote());
    let sbctl = |words: &[&str]| ran("ovn-sbctl", &[&[db.as_str(), "--no-leader-only"], words].concat());
    sbctl(&["chassis-add", "ch-a", "geneve", "127.0.0.1"]);
    let chassis =
        format!("chassis={}", sbctl(&["--bare", "--columns=_uuid", "find", "Chassis", "name=ch-a"]));
    let words = "--id=@d create Datapath_Binding tunnel_key=1 external_ids:name=pub -- create Port_Binding datapath=@d \
                 tunnel_key=1 logical_port=provnet type=localnet options:network_name=physnet1";
    sbctl(&words.split_whitespace().collect::<Vec<_>>());
    let datapath = sbctl(&["--bare", "--columns=_uuid", "find", "Datapath_Binding", "tunnel_key=1"]);
    for (n, mac) in [(2, r#"mac="fa:16:3e:00:00:01 172.24.4.10""#), (3, "mac=garbage")] {
        let (datapath, key) = (format!("datapath={datapath}"), format!("tunnel_key={n}"));
        let name = format!("logical_port=vm{n}");
        sbctl(&["create", "Port_Binding", &datapath, &key, &name, mac, &chassis, "up=true"]);
    }
    server
}

/// Writes the agent's configuration. `n` makes the device names of each test unique.
fn configure(dir: &Path, southbound: &str, n: u8) {
    let at = |name: &str| dir.join(name).display().to_string();
    let config = format!(
        "[DEFAULT]\novsdb_connection = unix:{}\novs_rundir = {1}\nfrr_vty_dir = {1}\nrt_tables = {2}\nbgp_nic = nic-m{n}\n\
         bgp_vrf = vrf-m{n}\nbgp_vrf_table_id = 9{n}\n[ovn]\novn_sb_connection = {southbound}\n",
        at("vs.sock"),
        dir.display(),
        at("rt_tables"),
    );
    std::fs::write(dir.join("agent.conf"), config).unwrap();
}

#[test]
fn a_dry_run_prints_its_plan_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("agent.conf").display().to_string();
    let _vswitch = vswitch(dir.path());
    let southbound = southbound();
    configure(dir.path(), &southbound.remote(), 6);
    let dry = |more: &[&str]| run_args(&[&["bgp-agent", "--dry-run", "--config-file", &conf], more].concat());

    let text = dry(&[]).ok();
    assert!(text.contains("objects in place") && !text.contains("nothing to do"), "{text}");
    assert!(text.contains("172.24.4.10"), "the instance's address: {text}");
    assert!(text.contains("frr/vrf-m6: bgpd does not answer"), "the problems, too: {text}");
    let plans: Value = serde_json::from_str(&dry(&["-o", "json"]).ok()).unwrap();
    assert!(!plans[0]["steps"].as_array().unwrap().is_empty(), "{plans}");
    assert!(!dir.path().join("rt_tables").exists(), "nothing was written");
    assert!(!Path::new("/sys/class/net/nic-m6").exists(), "nothing was made");

    drop(southbound);
    let away = dry(&[]);
    assert!(away.code != 0 && away.out.is_empty(), "{}", away.out);
    assert!(away.err.contains("no plan within") && away.err.contains("Southbound"), "{}", away.err);
    let alone = run_args(&["bgp-agent", "--watch", "--config-file", &conf]);
    assert!(alone.err.contains("--dry-run"), "{}", alone.err);
}

#[test]
fn a_panic_in_any_background_task_of_the_agent_ends_it_with_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let _vswitch = vswitch(dir.path());
    let southbound = southbound();
    configure(dir.path(), &southbound.remote(), 8);
    for part in ["alarms", "tables", "bgp", "databases", "kernel", "flows", "frr", "admin"] {
        let args = [
            "bgp-agent",
            "--dry-run",
            "--watch",
            "--config-file",
            &at("agent.conf"),
            "--admin-socket",
            &at("admin.sock"),
        ];
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = meridian();
        command.args(args).env("MERIDIAN_TEST_PANIC", part).stdout(Stdio::null()).stderr(log);
        let mut agent = Running(command.spawn().unwrap());
        let mut status = None;
        eventually(&format!("the agent ends with {part}"), || {
            status = agent.0.try_wait().unwrap();
            status.is_some()
        });
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(status.is_some_and(|status| status.code().is_some_and(|code| code != 0)), "{part}: {log}");
        assert!(log.contains(&format!("{part} panics because a test asked for it")), "{part}: {log}");
    }
}

#[test]
fn metrics_health_and_explanations_tell_what_is_there_and_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let _vswitch = vswitch(dir.path());
    let southbound = southbound();
    configure(dir.path(), &southbound.remote(), 7);
    let socket = at("admin.sock");
    let args =
        ["bgp-agent", "--dry-run", "--watch", "--config-file", &at("agent.conf"), "--admin-socket", &socket];
    let agent = meridian().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _agent = Running(agent);
    eventually("the agent takes requests", || Path::new(&socket).exists());
    let ask = |words: &[&str]| run_args(&[words, &["--socket", &socket]].concat());
    eventually("the instance is decided about", || {
        ask(&["status", "--metrics"]).out.contains(r#"meridian_bgp_addresses{rule="D1"} 1"#)
    });

    let metrics = ask(&["status", "--metrics"]).ok();
    for line in [
        r#"meridian_bgp_plane{kind="announcement",state="desired"} 1"#,
        r#"meridian_bgp_plane{kind="announcement",state="actual"} 0"#,
        r#"meridian_bgp_plane{kind="link",state="desired"} 3"#,
        r#"meridian_bgp_plane{kind="link",state="actual"} 0"#,
        r#"meridian_bgp_plane{kind="link",state="pending"} 2"#,
        r#"meridian_bgp_plane{kind="rule",state="desired"} 1"#,
        r#"meridian_bgp_plane{kind="route",state="desired"} 3"#,
        r#"meridian_bgp_plane{kind="neighbour",state="desired"} 0"#,
        r#"meridian_bgp_plane{kind="proxy",state="desired"} 0"#,
        r#"meridian_bgp_plane{kind="flow",state="desired"} 0"#,
        r#"meridian_bgp_plane{kind="stanza",state="desired"} 1"#,
        r#"meridian_bgp_plane{kind="stanza",state="actual"} 0"#,
        "meridian_bgp_draining 0",
        r#"meridian_bgp_problems{code="frr-silent"} 1"#,
        r#"meridian_bgp_problems{code="bad-addresses"} 1"#,
        r#"meridian_bgp_conflicts{kind="all"} 0"#,
        r#"meridian_ovsdb_synced{database="Open_vSwitch"} 1"#,
        r#"meridian_ovsdb_synced{database="OVN_Southbound"} 1"#,
        r#"meridian_ovsdb_connections_total{database="OVN_Southbound"} 1"#,
        r#"meridian_ovsdb_unreadable_rows{database="OVN_Southbound"} 0"#,
        r#"meridian_ovsdb_rows{database="OVN_Southbound",table="Chassis"} 1"#,
        r#"meridian_ovsdb_transactions_total{database="Open_vSwitch",outcome="refused"} 0"#,
    ] {
        assert!(metrics.lines().any(|have| have == line), "{line} is not in\n{metrics}");
    }

    let status: Value = serde_json::from_str(&ask(&["status", "-o", "json"]).ok()).unwrap();
    assert_eq!(status["healthy"], false);
    let trouble: Vec<&str> = status["trouble"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(trouble.iter().any(|why| why.starts_with("frr/vrf-m7: bgpd does not answer")), "{trouble:?}");
    assert!(!trouble.iter().any(|why| why.contains("garbage")), "a bad row is its own affair: {trouble:?}");
    let text = ask(&["status"]).ok();
    assert!(text.contains("not healthy") && text.contains("\n! frr/vrf-m7: bgpd does not answer"), "{text}");

    let told = ask(&["explain", "172.24.4.10"]).ok();
    assert!(told.starts_with("172.24.4.10 should be announced by ch-a"), "{told}");
    assert!(told.contains("\n  frr/vrf-m7: bgpd does not answer"), "{told}");
    assert!(!dir.path().join("rt_tables").exists(), "nothing was written");
    assert!(!Path::new("/sys/class/net/nic-m7").exists(), "nothing was made");
}
