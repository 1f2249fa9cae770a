//! The agent on a real Southbound cluster of three members over TLS, by its list of remotes: what scenario 33 says of leaders.

use std::path::{Path, PathBuf};

use node::bgp::config::Config;
use node::connections::DatabaseSettings;
use ovsdb::Uuid;
use ovsdb::session::Progress;
use serde_json::{Value, json};

use crate::agent;
use crate::support::{Daemon, eventually, run};

pub(crate) const SCHEMA: &str = "/usr/share/ovn/ovn-sb.ovsschema";

/// Three members, each with a port for clients that want TLS, a socket for us, and one for its peers.
struct Cluster<'a> {
    dir: &'a Path,
    members: Vec<Daemon>,
}

impl<'a> Cluster<'a> {
    async fn start(dir: &'a Path) -> Cluster<'a> {
        agent::certificates(dir);
        let mut cluster = Cluster { dir, members: Vec::new() };
        let text = |path: PathBuf| path.display().to_string();
        let peer = |n: usize| format!("unix:{}", dir.join(format!("{n}.raft")).display());
        let file = |n: usize| text(dir.join(format!("{n}.db")));
        run("ovsdb-tool", &["create-cluster", &file(0), SCHEMA, &peer(0)], dir);
        for n in 0..3 {
            if n > 0 {
                run("ovsdb-tool", &["join-cluster", &file(n), "OVN_Southbound", &peer(n), &peer(0)], dir);
            }
            let member = cluster.member(n);
            cluster.members.push(member);
            let socket = cluster.socket(n);
            eventually("a member has joined", async || {
                let asked = std::process::Command::new("ovsdb-client")
                    .args(["--timeout=1", "--no-leader-only", "dump", &socket, "OVN_Southbound", "Chassis"])
                    .output();
                asked.is_ok_and(|asked| asked.status.success()).then_some(())
            })
            .await;
        }
        cluster
    }

    fn member(&self, n: usize) -> Daemon {
        let at = |name: &str| self.dir.join(name).display().to_string();
        let args = [
            format!("--remote=punix:{}", at(&format!("{n}.sock"))),
            "--remote=pssl:0:127.0.0.1".to_owned(),
            format!("--unixctl={}", at(&format!("{n}.ctl"))),
            format!("--log-file={}", at(&format!("{n}.log"))),
            "-vconsole:off".to_owned(),
            at(&format!("{n}.db")),
        ];
        let args: Vec<String> = args.into_iter().chain(agent::of_server(self.dir)).collect();
        let args: Vec<&str> = args.iter().map(|arg| arg.as_str()).collect();
        Daemon::start("ovsdb-server", &args, self.dir)
    }

    fn socket(&self, n: usize) -> String {
        format!("unix:{}", self.dir.join(format!("{n}.sock")).display())
    }

    /// Which member leads.
    async fn leader(&self, among: &[usize]) -> usize {
        eventually("there is a leader", async || {
            among.iter().copied().find(|n| {
                let control = self.dir.join(format!("{n}.ctl")).display().to_string();
                let asked = std::process::Command::new("ovs-appctl")
                    .args(["--timeout=2", "-t", &control, "cluster/status", "OVN_Southbound"])
                    .output();
                asked.is_ok_and(|asked| String::from_utf8_lossy(&asked.stdout).contains("Role: leader"))
            })
        })
        .await
    }

    /// Commits, by whichever of these members takes it.
    async fn transact(&self, among: &[usize], ops: &[Value]) {
        let remotes: Vec<String> = among.iter().map(|n| self.socket(*n)).collect();
        let mut words = vec![json!("OVN_Southbound")];
        words.extend(ops.iter().cloned());
        let words = Value::Array(words).to_string();
        eventually("the cluster takes a transaction", async || {
            let asked = std::process::Command::new("ovsdb-client")
                .args(["--timeout=5", "transact", &remotes.join(","), &words])
                .output()
                .ok()?;
            let said = String::from_utf8_lossy(&asked.stdout);
            (asked.status.success() && !said.contains("\"error\"")).then_some(())
        })
        .await;
    }
}

fn id(n: u128) -> Value {
    json!(Uuid::from_u128(n).to_string())
}

pub(crate) fn port(n: u128, name: &str, kind: &str, mac: &str, rest: Value) -> Value {
    let mut row = json!({
        "logical_port": name, "type": kind, "mac": mac, "datapath": ["uuid", id(2)], "tunnel_key": n,
    });
    row.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({ "op": "insert", "table": "Port_Binding", "uuid": id(100 + n), "row": row })
}

/// A chassis and a provider network with two ports, one of them bound.
pub(crate) fn rows() -> Vec<Value> {
    vec![
        json!({ "op": "insert", "table": "Encap", "uuid": id(9),
            "row": { "type": "geneve", "ip": "10.0.0.1", "chassis_name": "ch-a" } }),
        json!({ "op": "insert", "table": "Chassis", "uuid": id(1),
            "row": { "name": "ch-a", "hostname": "ch-a", "encaps": ["uuid", id(9)] } }),
        json!({ "op": "insert", "table": "Datapath_Binding", "uuid": id(2), "row": { "tunnel_key": 1 } }),
        port(
            1,
            "provnet-1",
            "localnet",
            "unknown",
            json!({ "options": ["map", [["network_name", "physnet1"]]] }),
        ),
        port(
            2,
            "vm1",
            "",
            "fa:16:3e:00:00:01 172.24.4.10",
            json!({ "chassis": ["uuid", id(1)], "up": true }),
        ),
        port(3, "vm2", "", "fa:16:3e:00:00:02 172.24.4.11", json!({})),
    ]
}

pub(crate) fn bind(name: &str, bound: bool) -> Value {
    let chassis = if bound { json!(["uuid", id(1)]) } else { json!(["set", []]) };
    json!({ "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", name]],
        "row": { "chassis": chassis, "up": bound } })
}

#[tokio::test]
async fn scenario_33_a_leader_dies_in_a_cluster_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(dir.path()).await;
    cluster.transact(&[0, 1, 2], &rows()).await;
    let (_vswitch, local) = agent::vswitch(dir.path(), &[]);
    let mut remotes = Vec::new();
    for n in 0..3 {
        remotes.push(agent::remote(&dir.path().join(format!("{n}.log"))).await);
    }
    let config = Config {
        ovsdb_connection: Some(local.parse().unwrap()),
        sb: DatabaseSettings {
            remotes: Some(remotes.join(",").parse().unwrap()),
            ..agent::identity(dir.path())
        },
        ..Config::default()
    };
    let (agent, target) = agent::start(config);
    target.becomes(&["172.24.4.10"]).await;
    let connected = agent.databases()[1].status().borrow().remote.clone().unwrap().to_string();
    assert!(connected.starts_with("ssl:"), "{connected}");

    // The leader goes: the other two elect another, and the agent follows whomever it reaches.
    let leader = cluster.leader(&[0, 1, 2]).await;
    cluster.members[leader].kill();
    let left: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
    cluster.leader(&left).await;
    cluster.transact(&left, &[bind("vm2", true)]).await;
    target.becomes(&["172.24.4.10", "172.24.4.11"]).await;

    // The member that the agent reads from goes, too: without a majority nothing can be written, and nothing is withdrawn.
    cluster.transact(&left, &[bind("vm1", false)]).await;
    target.becomes(&["172.24.4.11"]).await;
    for n in &left {
        cluster.members[*n].kill();
    }
    eventually("the agent knows that the database is gone", async || {
        let synced = agent.databases()[1].status().borrow().progress == Progress::Synced;
        (!synced).then_some(())
    })
    .await;
    assert_eq!(target.history().last().unwrap().len(), 1, "an outage withdraws nothing");
    assert!(target.history().iter().all(|announced| !announced.is_empty()), "{:?}", target.history());
    agent.stop().await;
}
