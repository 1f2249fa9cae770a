//! Frames that tell a guest about its gateway, as a real Open vSwitch hands them to the guest's port.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kubernetes::address::{DualNet, DualStack};
use kubernetes::annotation::{Annotation, ChassisId, GatewayPortKeys};
use kubernetes::frames::{Advertised, Guest, GuestKind, gateway_frames, router_advertisement};
use kubernetes::ident::NodeId;
use kubernetes::network::{ClusterNetwork, Layer2Input, Layer2Network, NetworkName};
use kubernetes::zone::ZoneNode;
use lab::node::Node;
use lab::{Test, Topology, chassis, eventually};
use node::flows::{OutPort, PacketSender};
use node::kernel::Dev;
use ovn::MacAddr;

const GATEWAY: &str = "203.203.0.1";
const GATEWAY_MAC: &str = "0a:58:cb:cb:00:01";
/// The gateway routers of three nodes, which were gateways in the old topology.
const OLD_MACS: [MacAddr; 3] = [
    MacAddr([0x0a, 0x58, 0x64, 0x41, 0, 2]),
    MacAddr([0x0a, 0x58, 0x64, 0x41, 0, 3]),
    MacAddr([0x0a, 0x58, 0x64, 0x41, 0, 4]),
];

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "layer2_frames::a_guest_learns_its_new_gateway",
        "frames sent out of a guest's port reach it byte by byte, and its kernel takes the new gateway for the old ones",
        &[],
        new_gateway,
    )]
}

fn network() -> Result<Layer2Network> {
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
    let network =
        input.check(NetworkName::of_namespaced("test12", "namespace-scoped"), &ClusterNetwork::default());
    network.map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

fn node(id: u32) -> Result<ZoneNode> {
    Ok(ZoneNode {
        id: NodeId::new(id).context("the node id is in range")?,
        chassis: ChassisId::parse(&format!("hv{id}")).map_err(anyhow::Error::msg)?,
        encaps: [].into(),
        is_new: true,
        peers: None,
        gateway: None,
        addresses: DualNet::default(),
        has_gateway_mtu: true,
        old_keys: GatewayPortKeys::default(),
    })
}

/// The IPv6 routers that a guest has routes over, sorted.
fn routers(vm: &Node) -> Result<Vec<String>> {
    let shown = vm.run("ip -6 route show default")?;
    let words: Vec<&str> = shown.split_ascii_whitespace().collect();
    let mut routers: Vec<String> =
        words.windows(2).filter(|pair| pair[0] == "via").map(|pair| pair[1].to_owned()).collect();
    routers.sort();
    Ok(routers)
}

fn new_gateway() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Topology::new().central("az1").chassis(chassis("hv1").zone("az1")).run(|lab| {
        let hv = lab.chassis("hv1")?;
        let vm = lab
            .vm("vm1")
            .on("hv1")
            .port("test12.namespace.scoped_test12_vm1")
            .mac("0a:58:cb:cb:00:05")
            .ip("203.203.0.5/16")
            .ip("2010:100:200::5/60")
            .plug()?;
        vm.run("sysctl -q -w net.ipv6.conf.eth0.accept_ra=1 net.ipv6.conf.eth0.forwarding=0")?;
        let port = OutPort::new(hv.ofport("tap-vm1")?).context("the guest has a port")?;
        let bridge: Dev = "br-int".into();
        let mut sender = PacketSender::new(hv.dir());
        let (mac, address) = ("0a:58:cb:cb:00:05".parse::<MacAddr>()?, "2010:100:200::5".parse()?);

        // The state of a guest in the old topology: every gateway router is a default router, and the gateway has the MAC of one.
        let old: Vec<Vec<u8>> = OLD_MACS
            .iter()
            .map(|old| router_advertisement(*old, (mac, address), Advertised::Gateway { forget: None }))
            .collect();
        runtime.block_on(sender.send(&bridge, port, &old))?;
        eventually(Duration::from_secs(60), "the guest has three default routers", || {
            let shown = routers(&vm)?;
            ensure!(
                shown == ["fe80::858:64ff:fe41:2", "fe80::858:64ff:fe41:3", "fe80::858:64ff:fe41:4"],
                "{shown:?}"
            );
            Ok(())
        })?;
        vm.run(&format!("ip neigh replace {GATEWAY} lladdr {} dev eth0 nud stale", OLD_MACS[0]))?;

        let nodes: BTreeMap<String, ZoneNode> =
            (2..=4).map(|id| Ok((format!("node{id}"), node(id)?))).collect::<Result<_>>()?;
        let addresses = DualStack::both("203.203.0.5".parse()?, address);
        let frames = gateway_frames(&network()?, &nodes, &Guest { kind: GuestKind::Vm, mac, addresses });
        ensure!(frames.len() == 2 + 3 + 1, "{} frames", frames.len());
        let capture = vm.capture("eth0", "arp or icmp6")?;
        runtime.block_on(sender.send(&bridge, port, &frames))?;
        eventually(Duration::from_secs(60), "the guest has the new gateway and no other", || {
            let shown = routers(&vm)?;
            ensure!(shown == ["fe80::858:cbff:fecb:1"], "{shown:?}");
            let neighbour = vm.run(&format!("ip neigh show {GATEWAY}"))?;
            ensure!(neighbour.contains(GATEWAY_MAC), "{neighbour}");
            Ok(())
        })?;
        let seen = capture.frames()?;
        let of_routers = |frame: &&Vec<u8>| frames.iter().any(|sent| sent.get(6..12) == frame.get(6..12));
        let seen: Vec<&Vec<u8>> = seen.iter().filter(of_routers).collect();
        ensure!(seen == frames.iter().collect::<Vec<_>>(), "captured {seen:02x?}");
        Ok(())
    })
}
