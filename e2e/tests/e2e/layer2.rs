//! A layer-2 network of Kubernetes over three zones: the rows are those that the node side compiles, and the packets are real.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kubernetes::address::{DualNet, PeerScheme};
use kubernetes::annotation::{
    Annotation, ChassisId, GatewayPortKeys, L3GatewayConfig, PodNetworks, TunnelKeys,
};
use kubernetes::ident::{NetworkId, NodeId};
use kubernetes::network::{AttachmentKey, ClusterNetwork, Layer2Input, NetworkName};
use kubernetes::upgrade::LastingRows;
use kubernetes::zone::desired::{ChassisSeen, compile, compile_chassis, name_chassis, name_row};
use kubernetes::zone::migration::PodTraffic;
use kubernetes::zone::{NameProfile, ZoneNetwork, ZoneNode, ZonePod, ZoneSnapshot};
use lab::node::Node;
use lab::node::central::Central;
use lab::{Lab, Test, Topology, chassis, eventually};
use ovn::target::state::Naming;
use ovn::target::{ClientDatabase, Desired, Ownership, Part, RowTarget, Rules, Tables};
use ovn::vswitch::Interface;
use ovsdb::ClientConfig;
use reconcile::{Scope, StepResult, Target};

const OWNER: &str = "meridian";
const OUTSIDE: &str = "172.18.0.1";
/// The source of the network's traffic outside of a node. On a real node its own stack translates it once more.
const MASQUERADE: &str = "169.254.0.11";

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "layer2::three_zones_are_one_network",
            "pods of three zones reach each other by IPv4 and IPv6 and leave through their own node; the gateway is the same everywhere",
            &[],
            three_zones,
        )
        .memory(1024),
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

fn node(n: u32, tunnel: IpAddr) -> Result<ZoneNode> {
    let gateway = format!(
        r#"{{"default":{{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_hv{n}","mac-address":"02:42:ac:12:00:0{n}",
            "ip-addresses":["172.18.0.10{n}/24"],"next-hops":["{OUTSIDE}"],"node-port-enable":"true","vlan-id":"0"}}}}"#
    );
    let id = NodeId::new(n + 1).context("the node id is in range")?;
    Ok(ZoneNode {
        id,
        chassis: ChassisId::parse(&format!("hv{n}")).map_err(anyhow::Error::msg)?,
        encaps: [tunnel].into(),
        is_new: true,
        peers: Some(PeerScheme::Seed.derive(ClusterNetwork::default().transit, id)),
        gateway: Option::<L3GatewayConfig>::parse(&gateway).map_err(anyhow::Error::msg)?,
        addresses: DualNet::from_nets([format!("172.18.0.10{n}/24").parse()?]).context("one family")?,
        has_gateway_mtu: true,
        old_keys: GatewayPortKeys::default(),
    })
}

fn zone(lab: &Lab, n: u32) -> Result<ZoneSnapshot> {
    let nodes = (1..=3).map(|n| {
        let name = format!("hv{n}");
        let node = node(n, lab.chassis(&name)?.tunnel_ip().into())?;
        Ok((name, node))
    });
    let nodes = nodes.collect::<Result<_>>()?;
    Ok(ZoneSnapshot {
        local: format!("hv{n}"),
        topology: kubernetes::zone::Topology::New,
        cluster: ClusterNetwork::default(),
        default_mtu: 1400,
        profile: NameProfile::Seed,
        nodes,
        unreadable: BTreeSet::new(),
        lasting: LastingRows::default(),
        shared_services: Default::default(),
        remote_chassis: (1..=3).filter(|other| *other != n).map(|other| format!("hv{other}")).collect(),
    })
}

fn pod(n: u32) -> Result<ZonePod> {
    let annotation = format!(
        r#"{{"test12/namespace-scoped":{{"ip_addresses":["203.203.0.1{n}/16","2010:100:200::1{n}/60"],
            "mac_address":"0a:58:cb:cb:00:1{n}","tunnel_id":{},"role":"primary"}}}}"#,
        10 + n
    );
    let networks = PodNetworks::parse(&annotation).map_err(anyhow::Error::msg)?;
    let addresses = networks.get("test12/namespace-scoped").context("the pod is on the network")?;
    Ok(ZonePod {
        attachment: AttachmentKey::new("test12", "namespace-scoped"),
        namespace: "test12".into(),
        name: format!("pod{n}"),
        uid: format!("uid{n}"),
        node: format!("hv{n}"),
        addresses: addresses.map_err(anyhow::Error::msg)?,
        traffic: PodTraffic::Passes,
        egress: None,
    })
}

fn network() -> Result<ZoneNetwork> {
    let input = Layer2Input {
        path: "spec.layer2.",
        join_field: "joinSubnets",
        mtu: None,
        subnets: vec!["203.203.0.0/16".into(), "2010:100:200::/60".into()],
        reserved: Vec::new(),
        infrastructure: Vec::new(),
        gateways: Vec::new(),
        join: Vec::new(),
        transit: None,
        is_allocated: true,
        persistent: false,
    };
    let name = NetworkName::of_namespaced("test12", "namespace-scoped");
    let network = input.check(name, &ClusterNetwork::default());
    Ok(ZoneNetwork {
        network: network.map_err(|problems| anyhow::anyhow!("{problems:?}"))?,
        id: NetworkId::new(1).context("the network id is in range")?,
        keys: TunnelKeys::parse("[16711684,16715779]").map_err(anyhow::Error::msg)?,
        pods: (1..=3).map(pod).collect::<Result<_>>()?,
    })
}

/// Writes a part into a zone's database as the loop does; returns the number of steps.
async fn write(
    central: &Central,
    socket: &str,
    (tables, rules, naming): (Tables, Rules, Naming),
    parts: &[Part],
) -> Result<usize> {
    let remotes = format!("unix:{}", central.dir().join(socket).display()).parse()?;
    let database = ClientDatabase::open(ClientConfig::new(remotes), tables, None);
    let mut desired = Desired::default();
    parts.iter().for_each(|part| desired.add(part));
    let mut target = RowTarget::new(database, Ownership::new(OWNER).naming(naming), rules);
    let observed = target.observe(Scope::Full).await?;
    let plan = target.plan(&desired, &BTreeSet::new(), &observed);
    ensure!(plan.problems.is_empty(), "{:?}", plan.problems);
    if !plan.is_empty() {
        let applied = target.apply(&plan).await?;
        ensure!(
            applied.results.iter().all(|result| matches!(result, StepResult::Done)),
            "{:?}",
            applied.results
        );
    }
    Ok(plan.steps.len())
}

fn describe(lab: &Lab, n: u32) -> Result<()> {
    let central = lab.central(&format!("az{n}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let zone = zone(lab, n)?;
    let chassis = compile_chassis(&zone, &ChassisSeen::default(), OWNER);
    ensure!(chassis.problems.is_empty(), "{:?}", chassis.problems);
    let chassis: Vec<Part> = chassis.value.into_values().collect();
    let southbound = (Tables::southbound_remote(), Rules::new(), name_chassis as Naming);
    runtime.block_on(write(central, "sb.sock", southbound, &chassis))?;
    let out = compile(&zone, &network()?, OWNER);
    ensure!(out.problems.is_empty(), "{:?}", out.problems);
    for pass in ["first", "second"] {
        let steps = runtime.block_on(write(
            central,
            "nb.sock",
            (Tables::northbound(), Rules::kubernetes(), name_row as Naming),
            std::slice::from_ref(&out.value),
        ))?;
        ensure!((steps == 0) == (pass == "second"), "zone {n}: the {pass} pass has {steps} steps");
    }
    Ok(())
}

fn plug(lab: &Lab, n: u32) -> Result<()> {
    let (name, hv) = (format!("pod{n}"), format!("hv{n}"));
    lab.vm(&name)
        .on(&hv)
        .port(&format!("test12.namespace.scoped_test12_{name}"))
        .mac(&format!("0a:58:cb:cb:00:1{n}"))
        .ip(&format!("203.203.0.1{n}/16"))
        .ip(&format!("2010:100:200::1{n}/60"))
        .gateway("203.203.0.1")
        .plug()?;
    let tap = format!("tap-{name}");
    lab.chassis(&hv)?.db().change::<Interface>(
        |row| row.name == tap,
        |row| drop(row.external_ids.insert("iface-id-ver".into(), format!("uid{n}").into())),
    )
}

/// The link-layer address that a pod knows its gateway by.
fn gateway_mac(pod: &Node) -> Result<String> {
    pod.reaches("203.203.0.1")?;
    let shown = pod.run("ip neigh show 203.203.0.1")?;
    Ok(shown.split(' ').nth(4).context("the gateway is a neighbour")?.to_owned())
}

fn three_zones() -> Result<()> {
    topology().run(|lab| {
        let outside = lab.external("ext", "physnet", &[&format!("{OUTSIDE}/24")])?;
        outside.serve(80)?;
        for n in 1..=3 {
            describe(lab, n)?;
            plug(lab, n)?;
        }
        for n in 1..=3 {
            lab.central(&format!("az{n}"))?.ready(&[&format!("test12.namespace.scoped_test12_pod{n}")])?;
        }
        for (from, to) in [(1, 2), (2, 3), (3, 1)] {
            let pod = lab.find(&format!("pod{from}"))?;
            pod.reaches(&format!("203.203.0.1{to}"))?;
            pod.reaches(&format!("2010:100:200::1{to}"))?;
            ensure!(gateway_mac(&pod)? == "0a:58:cb:cb:00:01", "the gateway differs on hv{from}");
        }
        // Each pod leaves through its own node, whose gateway router is the one that gets the answer.
        for n in 1..=3 {
            outside.run(&format!("ip route replace {MASQUERADE}/32 via 172.18.0.10{n}"))?;
            let pod = lab.find(&format!("pod{n}"))?;
            eventually(Duration::from_secs(60), &format!("pod{n} is answered through hv{n}"), || {
                let seen = pod.asks(&format!("{OUTSIDE}:80"))?.seen_as;
                ensure!(seen == MASQUERADE, "pod{n} is seen as {seen}");
                Ok(())
            })?;
        }
        Ok(())
    })
}
