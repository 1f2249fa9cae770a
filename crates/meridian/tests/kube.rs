//! `meridian kube-manager` and `meridian kube-node` as processes against a real API server, with the rights of the packaged manifests
//! and no others.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use central::{Database, Server};
use lab::eventually;
use lab::kubernetes::{ACCOUNT, ApiServer, NODE_ACCOUNT};

const LONG: Duration = Duration::from_secs(90);

/// A running manager; it does not outlive its value.
struct Manager(Child);

impl Manager {
    fn start(dir: &Path, api: &ApiServer, metrics: SocketAddr) -> Manager {
        let config = dir.join("meridian.toml");
        fs::write(&config, "[kube]\nservice_subnets = [\"10.96.0.0/16\", \"fd00:10:96::/112\"]\n").unwrap();
        let mut command = meridian(&config);
        command.arg("kube-manager").arg("--kubeconfig").arg(api.kubeconfig(ACCOUNT));
        command.arg("--admin-socket").arg(dir.join("admin.sock"));
        command.args(["--metrics-listen", &metrics.to_string()]);
        let log = fs::File::options().create(true).append(true).open(dir.join("manager.log")).unwrap();
        Manager(command.stderr(log).spawn().unwrap())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn meridian(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.arg("--config").arg(config).stdin(Stdio::null());
    command
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node1}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: net, namespace: blue}
spec:
  topology: Layer2
  layer2: {role: Primary, subnets: [10.20.0.0/16], ipam: {lifecycle: Persistent}}
---
apiVersion: k8s.cni.cncf.io/v1alpha1
kind: IPAMClaim
metadata: {name: vm, namespace: blue}
spec: {network: blue_net, interface: eth0}
---
apiVersion: v1
kind: Pod
metadata:
  name: vm
  namespace: blue
  annotations: {v1.multus-cni.io/default-network: '[{"name":"default","ipam-claim-reference":"vm"}]'}
spec: {nodeName: node1, containers: [{name: main, image: none}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: lost
  namespace: blue
  annotations: {v1.multus-cni.io/default-network: '[{"name":"default","ipam-claim-reference":"none"}]'}
spec: {nodeName: node1, containers: [{name: main, image: none}]}
"#;

#[test]
fn a_manager_with_the_packaged_rights_does_its_work_and_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let api = ApiServer::start(&dir.path().join("api")).unwrap();
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    for file in ["definitions.json", "kube-manager.yaml"] {
        let file = packaged.join(file).display().to_string();
        api.kubectl(&["apply", "--validate=false", "-f", &file]).unwrap();
    }
    eventually(LONG, "our resources are served", || {
        ["udn", "cudn", "net-attach-def", "ipamclaims", "egressips"]
            .iter()
            .try_for_each(|it| api.kubectl(&["get", it, "-A"]).map(drop))
    })
    .unwrap();
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let manager = Manager::start(dir.path(), &api, metrics);
    api.apply(OBJECTS).unwrap();
    let says = |args: &[&str], words: &str| {
        eventually(LONG, words, || {
            let shown = api.kubectl(args)?;
            if shown.contains(words) { Ok(()) } else { Err(anyhow::anyhow!("{shown}")) }
        })
        .unwrap_or_else(|error| {
            let log = fs::read_to_string(dir.path().join("manager.log")).unwrap_or_default();
            panic!("{error:#}\n{log}")
        });
    };
    says(&["get", "node", "node1", "-o", "yaml"], "k8s.ovn.org/node-id: \"2\"");
    says(&["get", "udn", "net", "-n", "blue"], "NetworkAttachmentDefinitionCreated");
    says(&["get", "ipamclaim", "vm", "-n", "blue", "-o", "yaml"], "10.20.0.3/16");
    says(&["get", "pod", "vm", "-n", "blue", "-o", "yaml"], "10.20.0.3/16");
    says(&["get", "events", "-n", "blue"], "IPAMClaim blue/none does not exist");
    assert!(get(metrics, "/health").starts_with("HTTP/1.1 200"), "{}", get(metrics, "/health"));
    assert!(get(metrics, "/metrics").contains("meridian_reconcile_objects"));
    let config = dir.path().join("meridian.toml");
    let status = meridian(&config)
        .arg("status")
        .env("MERIDIAN_ADMIN_SOCKET", dir.path().join("admin.sock"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&status.stdout);
    assert!(
        shown.contains("kube-manager") && shown.contains("IPAMClaim blue/none does not exist"),
        "{shown}"
    );

    // Kill -9; its successor waits for the end of the lease and takes over what stands.
    drop(manager);
    api.apply("apiVersion: v1\nkind: Node\nmetadata: {name: node2}\n").unwrap();
    let mut again = Manager::start(dir.path(), &api, metrics);
    says(&["get", "node", "node2", "-o", "yaml"], "k8s.ovn.org/node-id: \"3\"");
    says(&["get", "node", "node1", "-o", "yaml"], "k8s.ovn.org/node-id: \"2\"");
    api.kubectl(&["delete", "pod", "vm", "lost", "-n", "blue", "--force", "--grace-period=0"]).unwrap();
    api.kubectl(&["delete", "udn", "net", "-n", "blue", "--timeout=60s"]).unwrap();
    assert!(api.kubectl(&["get", "net-attach-def", "-n", "blue"]).unwrap().is_empty());
    // Asked to end, it does, with success.
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(again.0.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    eventually(LONG, "the manager ends", || again.0.try_wait()?.ok_or_else(|| anyhow::anyhow!("it runs")))
        .map(|status| {
            assert!(status.success(), "{status}");
        })
        .unwrap();
}

/// A running program of a node; it does not outlive its value.
fn start_node(dir: &Path, api: &ApiServer, metrics: SocketAddr, zone: &[Server; 2]) -> Manager {
    let [nb, sb] = zone;
    let mut command = meridian(&dir.join("meridian.toml"));
    command.args(["kube-node", "--node-name", "node1"]).arg("--kubeconfig").arg(api.kubeconfig(NODE_ACCOUNT));
    command.args(["--nb", &nb.remote(), "--sb", &sb.remote(), "--metrics-listen", &metrics.to_string()]);
    command.arg("--admin-socket").arg(dir.join("node.sock"));
    let log = fs::File::options().create(true).append(true).open(dir.join("node.log")).unwrap();
    Manager(command.stderr(log).spawn().unwrap())
}

const NODE: &str = r#"
apiVersion: v1
kind: Node
metadata:
  name: node1
  annotations:
    k8s.ovn.org/node-chassis-id: ch1
    k8s.ovn.org/node-encap-ips: '["172.18.0.1"]'
    k8s.ovn.org/l3-gateway-config: '{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_node1",
      "mac-address":"02:42:ac:12:00:01","ip-addresses":["172.18.0.1/16"],"next-hops":["172.18.0.254"]}}'
---
apiVersion: v1
kind: Node
metadata:
  name: node2
  annotations:
    k8s.ovn.org/node-chassis-id: ch2
    k8s.ovn.org/node-encap-ips: '["172.18.0.2"]'
    k8s.ovn.org/layer2-topology-version: "2.0"
"#;

#[test]
fn a_node_with_the_packaged_rights_keeps_its_zone_however_often_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let api = ApiServer::start(&dir.path().join("api")).unwrap();
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    for file in ["definitions.json", "kube-manager.yaml", "kube-node.yaml"] {
        let file = packaged.join(file).display().to_string();
        api.kubectl(&["apply", "--validate=false", "-f", &file]).unwrap();
    }
    eventually(LONG, "our resources are served", || {
        api.kubectl(&["get", "udn,net-attach-def", "-A"]).map(drop)
    })
    .unwrap();
    let zone = [Database::Northbound, Database::Southbound].map(|database| {
        let root = env!("CARGO_MANIFEST_DIR");
        let schema = format!("{root}/../ovn/testdata/schema/ovn-{}-25.03.json", database.short());
        let dir = dir.path().join(database.short());
        fs::create_dir(&dir).unwrap();
        Server::start_as(&dir, database, schema.as_ref()).unwrap()
    });
    let [ports_of_manager, metrics] =
        [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    // In this order: the first file has node1 without annotations, and kubectl would take those of the other away again.
    api.apply(OBJECTS).unwrap();
    api.apply(NODE).unwrap();
    let _manager = Manager::start(dir.path(), &api, ports_of_manager);
    let ports = || {
        let tables = ["Logical_Switch_Port", "Logical_Router_Port"].map(|table| {
            let mut command = meridian(&dir.path().join("meridian.toml"));
            command.args(["ovsdb", "dump", "--remote", &zone[0].remote(), "OVN_Northbound", table]);
            String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
        });
        tables.concat()
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        eventually(LONG, what, || if holds() { Ok(()) } else { Err(anyhow::anyhow!("not yet")) })
            .unwrap_or_else(|error| {
                let log = fs::read_to_string(dir.path().join("node.log")).unwrap_or_default();
                panic!("{error:#}\n{log}")
            });
    };
    // Each life is a little longer than the one before, so the end meets it at another point.
    for life in 0..8 {
        let node = start_node(dir.path(), &api, metrics, &zone);
        std::thread::sleep(Duration::from_millis(60 * life));
        drop(node);
    }
    let mut node = start_node(dir.path(), &api, metrics, &zone);
    until("the rows are there", &|| {
        let shown = ports();
        ["blue.net_blue_vm", "trtor-GR_blue_net_node2", "rtoe-GR_blue_net_node1"]
            .iter()
            .all(|it| shown.contains(it))
    });
    until("the node says so", &|| {
        api.kubectl(&["get", "node", "node1", "-o", "yaml"])
            .is_ok_and(|it| it.contains("layer2-topology-version: \"2.0\""))
    });
    let ask = |words: &[&str]| {
        let socket = dir.path().join("node.sock").display().to_string();
        let out = meridian(&dir.path().join("meridian.toml"))
            .args(words)
            .args(["--socket", &socket])
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    };
    until("nothing is left to do", &|| ask(&["plan"]).matches("nothing to do").count() == 3);
    let status = ask(&["status"]);
    for words in ["kube-networks", "kube-chassis", "kube-announcement", "OVN_Northbound", "OVN_Southbound"] {
        assert!(status.contains(words), "{words} in {status}");
    }
    let explained = ask(&["explain", "10.20.0.3"]);
    assert!(explained.contains("pod blue/vm on network blue_net, on this node"), "{explained}");
    assert!(ask(&["explain", "10.20.0.1"]).contains("default gateway of network blue_net"));
    assert!(ask(&["allow-deletions", "--yes"]).contains("withholds no deletions"));
    assert!(get(metrics, "/health").starts_with("HTTP/1.1 200"), "{}", get(metrics, "/health"));
    let numbers = get(metrics, "/metrics");
    for words in ["meridian_kube_zone_objects{kind=\"local_pods\"} 1", "meridian_kube_zone_settled 1"] {
        assert!(numbers.contains(words), "{words} in {numbers}");
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(node.0.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    eventually(LONG, "the program ends", || node.0.try_wait()?.ok_or_else(|| anyhow::anyhow!("it runs")))
        .map(|status| assert!(status.success(), "{status}"))
        .unwrap();
    assert!(ports().contains("blue.net_blue_vm"), "the rows stay");
}
