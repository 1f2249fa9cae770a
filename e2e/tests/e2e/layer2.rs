//! A layer-2 network of Kubernetes over three zones. The API server, the manager and the program of each node are real, and so are the
//! packets.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kubernetes::annotation::{Annotation, PodNetwork, PodNetworks};
use kubernetes::crd;
use lab::kubernetes::{ADMIN, ApiServer};
use lab::node::Node;
use lab::process::{Daemon, Recipe};
use lab::{Lab, Test, Topology, chassis, eventually};
use ovn::nb::{LogicalRouterPort, LogicalSwitchPort};
use ovn::vswitch::Interface;

const OUTSIDE: &str = "172.18.0.1";
const OUTSIDE6: &str = "fc00:f853:ccd:e793::1";
/// The sources of the network's traffic outside of a node. On a real node its own stack translates them once more.
const MASQUERADE: [&str; 2] = ["169.254.0.11", "fd69::b"];
/// The definition that puts pods on the network.
const DEFINITION: &str = "test12/namespace-scoped";
/// Time for a change in the API to become packets, in a guest with one processor.
const LONG: Duration = Duration::from_secs(120);

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "layer2::three_zones_are_one_network",
            "a network of the API appears in three zones; pods reach each other and leave through their own node; a node leaves; a program dies",
            &[],
            three_zones,
        )
        .meridian()
        .kubernetes()
        .memory(2048),
    ]
}

fn topology() -> Topology {
    (1..=3).fold(Topology::new(), |topology, n| {
        let node = chassis(&format!("hv{n}"))
            .zone(&format!("az{n}"))
            .wired("physnet", "br-ex")
            .setting("ovn-monitor-all", "true")
            .setting("ovn-is-interconn", "true");
        topology.central(&format!("az{n}")).chassis(node)
    })
}

/// A cluster: its API server, the manager, and the programs of its nodes.
struct Cluster<'l> {
    lab: &'l Lab,
    dir: PathBuf,
    api: ApiServer,
    daemons: Vec<Daemon>,
}

impl<'l> Cluster<'l> {
    fn start(lab: &'l Lab) -> Result<Cluster<'l>> {
        let dir = PathBuf::from("/run/kubernetes");
        let begin = Instant::now();
        let api = ApiServer::start(&dir)?;
        println!("the API server is ready after {} ms", begin.elapsed().as_millis());
        let cluster = Cluster { lab, dir, api, daemons: Vec::new() };
        let mut objects = String::from("apiVersion: v1\nkind: Namespace\nmetadata: {name: meridian}\n");
        for definition in crd::definitions() {
            writeln!(objects, "---\n{}", serde_json::to_string(&definition)?)?;
        }
        cluster.api.apply(&objects)?;
        eventually(LONG, "our resources are served", || {
            cluster.api.kubectl(&["get", "udn,net-attach-def,ipamclaims", "-A"]).map(drop)
        })?;
        Ok(cluster)
    }

    /// Starts a command of `meridian` on the machine of the API server.
    fn meridian(&mut self, name: &str, args: &[&str]) -> Result<()> {
        let kubeconfig = self.api.kubeconfig(ADMIN).display().to_string();
        let socket = self.socket(name).display().to_string();
        let recipe = Recipe::new("meridian").args(args.iter().copied());
        let recipe = recipe.args(["--kubeconfig", &kubeconfig, "--admin-socket", &socket]);
        self.daemons.push(Daemon::start_here(name, &self.lab.job().join(format!("{name}.log")), recipe)?);
        Ok(())
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.sock"))
    }

    fn daemon(&self, name: &str) -> Result<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.name() == name).with_context(|| format!("{name} runs"))
    }

    /// A node as its own programs describe it, and the program that keeps its zone.
    fn add_node(&mut self, n: u32) -> Result<()> {
        let tunnel = self.lab.chassis(&format!("hv{n}"))?.tunnel_ip();
        let node = format!(
            r#"
apiVersion: v1
kind: Node
metadata:
  name: hv{n}
  annotations:
    k8s.ovn.org/node-chassis-id: hv{n}
    k8s.ovn.org/node-encap-ips: '["{tunnel}"]'
    k8s.ovn.org/node-primary-ifaddr: '{{"ipv4":"172.18.0.10{n}/24","ipv6":"fc00:f853:ccd:e793::10{n}/64"}}'
    k8s.ovn.org/l3-gateway-config: '{{"default":{{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_hv{n}",
      "mac-address":"02:42:ac:12:00:0{n}","ip-addresses":["172.18.0.10{n}/24","fc00:f853:ccd:e793::10{n}/64"],
      "next-hops":["{OUTSIDE}","{OUTSIDE6}"],"node-port-enable":"true","vlan-id":"0"}}}}'
"#
        );
        self.api.apply(&node)?;
        let zone = self.lab.central(&format!("az{n}"))?.dir();
        let remote = |name: &str| format!("unix:{}", zone.join(name).display());
        let (name, nb, sb) = (format!("hv{n}"), remote("nb.sock"), remote("sb.sock"));
        self.meridian(&format!("node{n}"), &["kube-node", "--node-name", &name, "--nb", &nb, "--sb", &sb])
    }

    fn add_pod(&self, name: &str, n: u32) -> Result<()> {
        self.api
            .apply(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: test12}}\n\
                 spec: {{nodeName: hv{n}, containers: [{{name: main, image: none}}]}}\n"
            ))
            .map(drop)
    }

    /// Plugs a pod in as its node's CNI plugin does, with the addresses of its annotation.
    fn plug(&self, name: &str, n: u32) -> Result<PodNetwork> {
        let path = "jsonpath={.metadata.uid}{\" \"}{.metadata.annotations.k8s\\.ovn\\.org/pod-networks}";
        let mut found = None;
        eventually(LONG, &format!("pod {name} has addresses"), || {
            let shown = self.api.kubectl(&["get", "pod", name, "-n", "test12", "-o", path])?;
            let (uid, text) = shown.split_once(' ').context("the pod has no annotation")?;
            let networks = PodNetworks::parse(text.trim()).map_err(anyhow::Error::msg)?;
            let entry = networks.get(DEFINITION).context("the pod is not on the network")?;
            found = Some((uid.to_owned(), entry.map_err(anyhow::Error::msg)?));
            Ok(())
        })?;
        let Some((uid, addresses)) = found else { bail!("pod {name} has no addresses") };
        let hv = format!("hv{n}");
        let port = format!("test12.namespace.scoped_test12_{name}");
        let mut vm = self.lab.vm(name).on(&hv).port(&port).mac(&addresses.mac_address.to_string());
        for net in addresses.addresses() {
            vm = vm.ip(&net.to_string());
        }
        vm.gateway("203.203.0.1").gateway("2010:100:200::1").plug()?;
        let tap = format!("tap-{name}");
        self.lab.chassis(&hv)?.db().change::<Interface>(
            |row| row.name == tap,
            |row| drop(row.external_ids.insert("iface-id-ver".into(), uid.as_str().into())),
        )?;
        self.lab.central(&format!("az{n}"))?.ready(&[&port])?;
        Ok(addresses)
    }

    /// The resident memory of all programs, for people.
    fn print_memory(&self) {
        let programs = [self.api.server(), self.api.etcd()].into_iter().chain(&self.daemons);
        for daemon in programs {
            let status = daemon.pid().map(|pid| fs::read_to_string(format!("/proc/{pid}/status")));
            let status = status.and_then(|text| text.ok()).unwrap_or_default();
            let resident =
                status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("ended").to_owned();
            println!("{}: {resident}", daemon.name());
        }
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        memory.lines().take(3).for_each(|line| println!("{line}"));
    }

    fn explain(&self) -> String {
        let mut all = String::new();
        for daemon in &self.daemons {
            let said = daemon.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(15)..].join("\n");
            let _ = writeln!(all, "{}:\n{last}", daemon.name());
        }
        all
    }
}

/// Whether a zone's Northbound has a port of this name.
fn has_port(lab: &Lab, n: u32, name: &str) -> Result<bool> {
    let snapshot = lab.central(&format!("az{n}"))?.nb().snapshot();
    let on_switch = snapshot.table::<LogicalSwitchPort>().iter().any(|(_, row)| row.name == name);
    Ok(on_switch || snapshot.table::<LogicalRouterPort>().iter().any(|(_, row)| row.name == name))
}

/// The link-layer address that a pod knows a gateway by.
fn gateway_mac(pod: &Node, gateway: &str) -> Result<String> {
    pod.reaches(gateway)?;
    let shown = pod.run(&format!("ip neigh show {gateway}"))?;
    Ok(shown.split(' ').nth(4).context("the gateway is a neighbour")?.to_owned())
}

fn three_zones() -> Result<()> {
    topology().run(|lab| {
        let mut cluster = Cluster::start(lab)?;
        scenes(lab, &mut cluster).with_context(|| cluster.explain())
    })
}

fn scenes(lab: &Lab, cluster: &mut Cluster<'_>) -> Result<()> {
    let outside = lab.external("ext", "physnet", &[&format!("{OUTSIDE}/24"), &format!("{OUTSIDE6}/64")])?;
    outside.serve(80)?;
    cluster.meridian("manager", &["kube-manager"])?;
    for n in 1..=3 {
        cluster.add_node(n)?;
    }
    cluster.api.apply(
        r#"
apiVersion: v1
kind: Namespace
metadata: {name: test12, labels: {k8s.ovn.org/primary-user-defined-network: ""}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {name: namespace-scoped, namespace: test12}
spec:
  topology: Layer2
  layer2: {role: Primary, subnets: ["203.203.0.0/16", "2010:100:200::/60"]}
"#,
    )?;
    let mut addresses = Vec::new();
    for n in 1..=3 {
        cluster.add_pod(&format!("pod{n}"), n)?;
    }
    for n in 1..=3 {
        addresses.push(cluster.plug(&format!("pod{n}"), n)?);
    }
    cluster.print_memory();
    one_network(lab, &outside, &addresses)?;
    a_service_has_pods_of_another_zone(lab, cluster, &addresses)?;
    a_program_dies(lab, cluster, &addresses)?;
    a_node_leaves(lab, cluster, &addresses)
}

/// Pods of all zones reach each other; the gateway is the same everywhere; each pod leaves through its own node.
fn one_network(lab: &Lab, outside: &Arc<Node>, addresses: &[PodNetwork]) -> Result<()> {
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        let pod = lab.find(&format!("pod{from}"))?;
        let to = addresses.get(to - 1).context("there are three pods")?;
        for net in to.addresses() {
            pod.reaches(&net.addr().to_string())?;
        }
        for gateway in ["203.203.0.1", "2010:100:200::1"] {
            let mac = gateway_mac(&pod, gateway)?;
            ensure!(mac == "0a:58:cb:cb:00:01", "{gateway} is {mac} on hv{from}");
        }
    }
    for n in 1..=3 {
        outside.run(&format!("ip route replace {}/32 via 172.18.0.10{n}", MASQUERADE[0]))?;
        outside.run(&format!("ip -6 route replace {}/128 via fc00:f853:ccd:e793::10{n}", MASQUERADE[1]))?;
        let pod = lab.find(&format!("pod{n}"))?;
        for (server, masquerade) in
            [(format!("{OUTSIDE}:80"), MASQUERADE[0]), (format!("[{OUTSIDE6}]:80"), MASQUERADE[1])]
        {
            eventually(LONG, &format!("pod{n} is answered by {server} through hv{n}"), || {
                let seen = pod.asks(&server)?.seen_as;
                ensure!(seen == masquerade, "pod{n} is seen as {seen}");
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// A pod reaches a service of its namespace, whose only pod is in another zone.
fn a_service_has_pods_of_another_zone(
    lab: &Lab,
    cluster: &Cluster<'_>,
    addresses: &[PodNetwork],
) -> Result<()> {
    let second =
        addresses.get(1).and_then(|pod| pod.addresses().next()).context("pod2 has an address")?.addr();
    lab.find("pod2")?.serve(8080)?;
    cluster.api.apply(&format!(
        r#"
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: test12}}
spec: {{clusterIP: 10.96.0.50, ports: [{{name: http, port: 80, targetPort: 8080}}]}}
---
apiVersion: discovery.k8s.io/v1beta1
kind: EndpointSlice
metadata:
  name: web-mirrored
  namespace: test12
  labels: {{k8s.ovn.org/service-name: web}}
  annotations: {{k8s.ovn.org/endpointslice-network: test12_namespace-scoped}}
addressType: IPv4
ports: [{{name: http, protocol: TCP, port: 8080}}]
endpoints: [{{addresses: ["{second}"], conditions: {{ready: true}}}}]
"#
    ))?;
    for pod in ["pod1", "pod3"] {
        let pod = lab.find(pod)?;
        let answer = pod.is_served_by("10.96.0.50:80")?;
        ensure!(answer.by == "pod2", "{answer:?}");
    }
    Ok(())
}

/// The network works without the program of a node, and the program's next life does what came in between.
fn a_program_dies(lab: &Lab, cluster: &mut Cluster<'_>, addresses: &[PodNetwork]) -> Result<()> {
    cluster.daemon("node1")?.kill()?;
    cluster.add_pod("pod4", 1)?;
    let second = addresses.get(1).and_then(|pod| pod.addresses().next()).context("pod2 has an address")?;
    lab.find("pod1")?.reaches(&second.addr().to_string())?;
    cluster.daemon("node1")?.start_again()?;
    let fourth = cluster.plug("pod4", 1)?;
    let fourth = fourth.addresses().next().context("pod4 has an address")?;
    lab.find("pod2")?.reaches(&fourth.addr().to_string())
}

/// A node that leaves the cluster takes its rows along in all other zones, and nothing else changes there.
fn a_node_leaves(lab: &Lab, cluster: &mut Cluster<'_>, addresses: &[PodNetwork]) -> Result<()> {
    let port = "trtor-GR_test12_namespace.scoped_hv3";
    ensure!(has_port(lab, 1, port)? && has_port(lab, 2, port)?, "the port {port} is missing");
    cluster.daemon("node3")?.kill()?;
    cluster.api.kubectl(&["delete", "pod", "pod3", "-n", "test12", "--force", "--grace-period=0"])?;
    cluster.api.kubectl(&["delete", "node", "hv3"])?;
    eventually(LONG, "the node is gone from the other zones", || {
        for n in [1, 2] {
            for gone in [port, "test12.namespace.scoped_test12_pod3"] {
                ensure!(!has_port(lab, n, gone)?, "zone {n} has {gone}");
            }
        }
        Ok(())
    })?;
    let second = addresses.get(1).and_then(|pod| pod.addresses().next()).context("pod2 has an address")?;
    lab.find("pod1")?.reaches(&second.addr().to_string())?;
    ensure!(has_port(lab, 3, port)?, "the zone of the node itself was touched");
    let config = Path::new("/dev/null").display().to_string();
    let socket = cluster.socket("node1").display().to_string();
    let status = lab.chassis("hv1")?.run(&format!("meridian --config {config} status --socket {socket}"))?;
    ensure!(status.contains("kube-networks"), "{status}");
    Ok(())
}
