//! Two roles of one process on one connection to a real Southbound server.

use std::path::Path;

use node::bgp::config::Config;
use node::bgp::{self, agent as bgp_agent};
use node::connections::{ConnectionSettings, DatabaseSettings, NodeConnections, OvnDatabase};
use node::metadata;
use ovn::sb::{PortBinding, SbGlobal};
use reconcile::Metrics;
use serde_json::{Value, json};

use crate::agent::{self, Announced};
use crate::southbound::{SCHEMA, bind, port, rows};
use crate::support::{Daemon, eventually, run};

/// A Southbound server with these rows.
struct Southbound<'a> {
    dir: &'a Path,
    _server: Daemon,
}

impl<'a> Southbound<'a> {
    async fn start(dir: &'a Path, rows: Vec<Value>) -> Southbound<'a> {
        let at = |name: &str| dir.join(name).display().to_string();
        run("ovsdb-tool", &["create", &at("sb.db"), SCHEMA], dir);
        let mut words = vec![json!("OVN_Southbound")];
        words.extend(rows);
        run("ovsdb-tool", &["transact", &at("sb.db"), &Value::Array(words).to_string()], dir);
        let args =
            [format!("--remote=punix:{}", at("sb.sock")), format!("--unixctl={}", at("sb.ctl")), at("sb.db")];
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["-vconsole:off"]).collect();
        let southbound = Southbound { dir, _server: Daemon::start("ovsdb-server", &args, dir) };
        eventually("the Southbound server runs", async || southbound.shown("version")).await;
        southbound
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.dir.join("sb.sock").display())
    }

    /// The output of a command of ovs-appctl, if the server answers.
    fn shown(&self, command: &str) -> Option<String> {
        let control = self.dir.join("sb.ctl").display().to_string();
        let mut asked = std::process::Command::new("ovs-appctl");
        let asked = asked.args(["--timeout=5", "-t", &control, command]).output();
        let output = asked.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The number of sessions that the server has.
    fn sessions(&self) -> usize {
        let shown = self.shown("memory/show").expect("the server answers");
        let mut words = shown.split_whitespace();
        words.find_map(|word| word.strip_prefix("sessions:")?.parse().ok()).unwrap_or(0)
    }

    fn transact(&self, op: Value) {
        let words = json!(["OVN_Southbound", op]).to_string();
        run("ovsdb-client", &["transact", &self.remote(), &words], self.dir);
    }
}

/// The metadata agent, which only plans: namespaces of this machine are none of this test's business.
fn start_metadata(connections: &NodeConnections) -> metadata::Agent {
    let mut config = metadata::config::Config::default();
    config.dry_run = true;
    metadata::Agent::start(config, connections, Metrics::default())
}

async fn settles(agent: &metadata::Agent) {
    let mut status = agent.handle().status();
    eventually("the metadata agent has observed everything", async || {
        let now = status.borrow_and_update().clone();
        (now.last_success.is_some() && now.waiting_for.is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn two_roles_share_one_connection_and_come_and_go_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = rows();
    all.push(port(4, "lrp-1", "patch", "fa:16:3e:00:00:04", json!({})));
    all.push(port(5, "md", "localport", "fa:16:3e:00:00:05", json!({})));
    all.push(json!({ "op": "insert", "table": "SB_Global", "row": { "nb_cfg": 7 } }));
    let southbound = Southbound::start(dir.path(), all).await;
    let (_vswitch, local) = agent::vswitch(dir.path(), &[]);
    let settings = ConnectionSettings {
        vswitch: Some(local.parse().unwrap()),
        southbound: DatabaseSettings {
            remotes: Some(southbound.remote().parse().unwrap()),
            ..DatabaseSettings::default()
        },
        ..ConnectionSettings::default()
    };
    let config = Config::default();
    let tables = [bgp_agent::tables(&config), metadata::agent::TABLES];
    let connections = NodeConnections::open(settings, &tables);
    let announced = Announced::default();
    let start_bgp = || {
        let target = announced.clone();
        bgp::Agent::start(config.clone(), &connections, target, None, [], Metrics::default())
    };
    let (bgp, metadata) = (start_bgp(), start_metadata(&connections));
    announced.becomes(&["172.24.4.10"]).await;
    settles(&metadata).await;
    assert_eq!(southbound.sessions(), 1, "both roles are on one connection");
    assert_eq!(connections.clients().len(), 2, "that and the local switch's");

    let sb = connections.subscribe(OvnDatabase::Southbound).client().unwrap();
    let held = async |names: &[&str], globals: usize| {
        eventually(&format!("{names:?} are held"), async || {
            let rows = sb.snapshot();
            let mut ports: Vec<_> =
                rows.table::<PortBinding>().iter().map(|(_, row)| row.logical_port.to_string()).collect();
            ports.sort();
            (ports == names && rows.table::<SbGlobal>().len() == globals).then_some(())
        })
        .await;
    };
    let every = ["lrp-1", "md", "provnet-1", "vm1", "vm2"];
    held(&every, 1).await;

    // One role ends, and only its rows go. The other one follows its own.
    bgp.stop().await;
    held(&["md", "vm1"], 1).await;
    southbound.transact(bind("vm2", true));
    held(&["md", "vm1", "vm2"], 1).await;
    assert_eq!(metadata.decision().identities.len(), 0, "ports without a network are nobody's");
    let bgp = start_bgp();
    announced.becomes(&["172.24.4.10", "172.24.4.11"]).await;
    held(&every, 1).await;

    metadata.stop().await;
    held(&every, 0).await;
    southbound.transact(bind("vm1", false));
    announced.becomes(&["172.24.4.11"]).await;
    let metadata = start_metadata(&connections);
    settles(&metadata).await;
    held(&every, 1).await;
    assert_eq!(southbound.sessions(), 1, "no role has opened another connection");
    assert!(announced.history().iter().all(|addresses| !addresses.is_empty()), "{:?}", announced.history());

    bgp.stop().await;
    metadata.stop().await;
    held(&[], 0).await;
    connections.close().await;
    eventually("the connection is closed", async || (southbound.sessions() == 0).then_some(())).await;
}
