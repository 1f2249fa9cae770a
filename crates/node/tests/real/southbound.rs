//! The agent on a real Southbound cluster of three members over TLS, by its list of remotes: what scenario 33 says of leaders.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use node::bgp::config::{Config, Database};
use node::bgp::{Agent, agent};
use node::plane;
use ovsdb::Uuid;
use ovsdb::session::Progress;
use reconcile::{Applied, Metrics, ObjectId, Plan, Scope, Target, TargetError};
use serde_json::{Value, json};

use crate::support::{Daemon, eventually, run};

const SCHEMA: &str = "/usr/share/ovn/ovn-sb.ovsschema";
const VSWITCH: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A target that takes everything, and remembers each set of announced addresses.
#[derive(Clone, Default)]
struct Announced(Arc<Mutex<Vec<BTreeSet<IpAddr>>>>);

impl Announced {
    fn history(&self) -> Vec<BTreeSet<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn becomes(&self, what: &[&str]) {
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

    fn plan(&self, want: &plane::Desired, _: &BTreeSet<ObjectId>, have: &Self::Observed) -> Plan<String> {
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

/// Three members, each with a port for clients that want TLS, a socket for us, and one for its peers.
struct Cluster<'a> {
    dir: &'a Path,
    members: Vec<Daemon>,
}

impl<'a> Cluster<'a> {
    async fn start(dir: &'a Path) -> Cluster<'a> {
        pki(dir, &["init"]);
        pki(dir, &["--force", "--unique", "req+sign", "server", "switch"]);
        pki(dir, &["--force", "--unique", "req+sign", "agent", "switch"]);
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
            format!("--private-key={}", at("server-privkey.pem")),
            format!("--certificate={}", at("server-cert.pem")),
            format!("--ca-cert={}", at("pki/switchca/cacert.pem")),
            "-vconsole:off".to_owned(),
            at(&format!("{n}.db")),
        ];
        let args: Vec<&str> = args.iter().map(|arg| arg.as_str()).collect();
        Daemon::start("ovsdb-server", &args, self.dir)
    }

    fn socket(&self, n: usize) -> String {
        format!("unix:{}", self.dir.join(format!("{n}.sock")).display())
    }

    /// The port that a member chose for TLS, by its log.
    async fn port(&self, n: usize) -> u16 {
        let log = self.dir.join(format!("{n}.log"));
        eventually("a member listens", async || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let line = text.lines().rev().find(|line| line.contains("0:127.0.0.1: listening on port "))?;
            line.rsplit(' ').next()?.parse().ok()
        })
        .await
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

fn pki(dir: &Path, args: &[&str]) {
    let output = std::process::Command::new("ovs-pki")
        .arg(format!("--dir={}", dir.join("pki").display()))
        .arg(format!("--log={}", dir.join("pki.log").display()))
        .arg("--batch")
        .args(args)
        .current_dir(dir)
        .output()
        .expect("ovs-pki is there; cargo xtask test installs it");
    assert!(output.status.success(), "ovs-pki {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn id(n: u128) -> Value {
    json!(Uuid::from_u128(n).to_string())
}

fn port(n: u128, name: &str, kind: &str, mac: &str, rest: Value) -> Value {
    let mut row = json!({
        "logical_port": name, "type": kind, "mac": mac, "datapath": ["uuid", id(2)], "tunnel_key": n,
    });
    row.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({ "op": "insert", "table": "Port_Binding", "uuid": id(100 + n), "row": row })
}

/// A chassis and a provider network with two ports, one of them bound.
fn rows() -> Vec<Value> {
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

fn bind(name: &str, bound: bool) -> Value {
    let chassis = if bound { json!(["uuid", id(1)]) } else { json!(["set", []]) };
    json!({ "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", name]],
        "row": { "chassis": chassis, "up": bound } })
}

/// The local switch's database, with what a chassis has in it.
fn vswitch(dir: &Path) -> (Daemon, String) {
    let (file, socket) = (dir.join("conf.db"), dir.join("db.sock"));
    run("ovsdb-tool", &["create", &file.display().to_string(), VSWITCH], dir);
    let bridge = json!({ "op": "insert", "table": "Bridge", "uuid-name": "b", "row": { "name": "br-ex" } });
    let root = json!({ "op": "insert", "table": "Open_vSwitch", "row": {
        "bridges": ["named-uuid", "b"],
        "external_ids": ["map", [["system-id", "ch-a"], ["ovn-bridge-mappings", "physnet1:br-ex"]]],
    } });
    let words = json!(["Open_vSwitch", bridge, root]).to_string();
    run("ovsdb-tool", &["transact", &file.display().to_string(), &words], dir);
    let remote = format!("--remote=punix:{}", socket.display());
    let control = format!("--unixctl={}", dir.join("vswitch.ctl").display());
    let file = file.display().to_string();
    let daemon = Daemon::start("ovsdb-server", &[&remote, &control, "-vconsole:off", &file], dir);
    (daemon, format!("unix:{}", socket.display()))
}

#[tokio::test]
async fn scenario_33_a_leader_dies_in_a_cluster_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(dir.path()).await;
    cluster.transact(&[0, 1, 2], &rows()).await;
    let (_vswitch, local) = vswitch(dir.path());
    let mut remotes = Vec::new();
    for n in 0..3 {
        remotes.push(format!("ssl:127.0.0.1:{}", cluster.port(n).await));
    }
    let config = Config {
        ovsdb_connection: Some(local.parse().unwrap()),
        sb: Database {
            remotes: Some(remotes.join(",").parse().unwrap()),
            private_key: dir.path().join("agent-privkey.pem"),
            certificate: dir.path().join("agent-cert.pem"),
            ca_cert: dir.path().join("pki/switchca/cacert.pem"),
        },
        ..Config::default()
    };
    let target = Announced::default();
    let agent = Agent::start(config.clone(), agent::vswitch(&config), target.clone(), [], Metrics::default());
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
