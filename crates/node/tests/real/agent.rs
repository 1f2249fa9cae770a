//! An agent between real database servers, some of them with TLS, and a target that only remembers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use node::bgp::config::Config;
use node::bgp::{Agent, agent};
use node::connections::{DatabaseSettings, NodeConnections};
use node::plane;
use reconcile::{Applied, Metrics, ObjectId, Plan, Scope, Target, TargetError};
use serde_json::json;

use crate::support::{Daemon, eventually, run};

const VSWITCH: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A target that takes everything, and remembers each set of announced addresses.
#[derive(Clone, Default)]
pub(crate) struct Announced(Arc<Mutex<Vec<BTreeSet<IpAddr>>>>);

impl Announced {
    pub(crate) fn history(&self) -> Vec<BTreeSet<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn becomes(&self, what: &[&str]) {
        let what: BTreeSet<IpAddr> = what.iter().map(|ip| ip.parse().unwrap()).collect();
        eventually(&format!("announced is {what:?}"), async || {
            (self.history().last() == Some(&what)).then_some(())
        })
        .await;
    }
}

impl Target for Announced {
    type Desired = plane::Desired;
    type Observed = Option<BTreeSet<IpAddr>>;
    type Op = String;

    fn plan(&mut self, want: &plane::Desired, _: &BTreeSet<ObjectId>, have: &Self::Observed) -> Plan<String> {
        // What is there before OVN's database told anything is not of interest here.
        if want.partial {
            return Plan::new(0, 0);
        }
        let announced =
            want.kernel.addresses.iter().filter(|address| address.dev == want.kernel.own.announce);
        let announced: BTreeSet<IpAddr> = announced.map(|address| address.net.addr()).collect();
        let mut plan = Plan::new(1, usize::from(have.as_ref() == Some(&announced)));
        if have.as_ref() != Some(&announced) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(announced);
            plan.push(ObjectId::new("plane", "all"), "become as wanted".into());
        }
        plan
    }

    async fn observe(&mut self, _: Scope) -> Result<Self::Observed, TargetError> {
        Ok(self.history().last().cloned())
    }

    async fn apply(&mut self, plan: &Plan<String>) -> Result<Applied, TargetError> {
        Ok(Applied::all_done(plan))
    }
}

/// Starts an agent.
pub(crate) fn start(config: Config) -> (Agent, Announced) {
    let target = Announced::default();
    let connections = NodeConnections::open(config.connections(), &[agent::tables(&config)]);
    (Agent::start(config, &connections, target.clone(), None, [], Metrics::default()), target)
}

/// Makes an authority, and certificates of it for a server and an agent.
pub(crate) fn certificates(dir: &Path) {
    for args in [
        &["init"][..],
        &["--force", "--unique", "req+sign", "server", "switch"],
        &["--force", "--unique", "req+sign", "agent", "switch"],
    ] {
        let output = Command::new("ovs-pki")
            .arg(format!("--dir={}", dir.join("pki").display()))
            .arg(format!("--log={}", dir.join("pki.log").display()))
            .arg("--batch")
            .args(args)
            .current_dir(dir)
            .output()
            .expect("ovs-pki is there; cargo xtask test installs it");
        assert!(output.status.success(), "ovs-pki {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What a server is told of its certificate.
pub(crate) fn of_server(dir: &Path) -> [String; 3] {
    let at = |name: &str| dir.join(name).display().to_string();
    [
        format!("--private-key={}", at("server-privkey.pem")),
        format!("--certificate={}", at("server-cert.pem")),
        format!("--ca-cert={}", at("pki/switchca/cacert.pem")),
    ]
}

/// What an agent is told of its own.
pub(crate) fn identity(dir: &Path) -> DatabaseSettings {
    DatabaseSettings {
        remotes: None,
        private_key: dir.join("agent-privkey.pem"),
        certificate: dir.join("agent-cert.pem"),
        ca_cert: dir.join("pki/switchca/cacert.pem"),
        verify_names: false,
    }
}

/// Where a server listens for TLS that chose the port by itself, by its log.
pub(crate) async fn remote(log: &Path) -> String {
    eventually("a server listens", async || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let line = text.lines().rev().find(|line| line.contains("0:127.0.0.1: listening on port "))?;
        Some(format!("ssl:127.0.0.1:{}", line.rsplit(' ').next()?.parse::<u16>().ok()?))
    })
    .await
}

/// The local switch's database, with what a chassis has in it and further settings.
pub(crate) fn vswitch(dir: &Path, more: &[(&str, &str)]) -> (Daemon, String) {
    let (file, socket) = (dir.join("conf.db"), dir.join("db.sock"));
    run("ovsdb-tool", &["create", &file.display().to_string(), VSWITCH], dir);
    let bridge = json!({ "op": "insert", "table": "Bridge", "uuid-name": "b", "row": { "name": "br-ex" } });
    let mut settings = vec![("system-id", "ch-a"), ("ovn-bridge-mappings", "physnet1:br-ex")];
    settings.extend(more);
    let root = json!({ "op": "insert", "table": "Open_vSwitch", "row": {
        "bridges": ["named-uuid", "b"],
        "external_ids": ["map", settings],
    } });
    let words = json!(["Open_vSwitch", bridge, root]).to_string();
    run("ovsdb-tool", &["transact", &file.display().to_string(), &words], dir);
    let remote = format!("--remote=punix:{}", socket.display());
    let control = format!("--unixctl={}", dir.join("vswitch.ctl").display());
    let file = file.display().to_string();
    let daemon = Daemon::start("ovsdb-server", &[&remote, &control, "-vconsole:off", &file], dir);
    (daemon, format!("unix:{}", socket.display()))
}
