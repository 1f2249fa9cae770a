//! Two zones with databases of their own, connected by a transit switch and a transit router. Both zones contain the same rows for them,
//! with the ports of the other zone marked as remote.

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::node::central::Central;
use lab::{Lab, Test, Topology, chassis, eventually};
use ovn::PortType;
use ovn::nb::{LogicalSwitchPort, RoutePolicy};
use ovn::sb::{Chassis, Encap, EncapType};
use ovn::text::Text;
use ovsdb::{Map, Ref, Str, Transaction, Uuid};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "transit::two_zones_are_one_network",
            "pods of two zones reach each other and the outside, by their own zone's gateway or by the other's if so routed",
            &[],
            two_zones,
        ),
        Test::new(
            "transit::a_pod_moves_to_another_zone",
            "a pod that moves to a node of another zone keeps its address and its gateway's Ethernet address, and traffic goes on",
            &[],
            migration,
        ),
    ]
}

/// The values that differ between the two zones.
struct Zone {
    n: usize,
    /// The transit router's port towards the zone's gateway router, and the gateway router's.
    transit: &'static str,
    gateway: &'static str,
    /// The gateway router outside.
    outside: &'static str,
    pod: (&'static str, &'static str),
}

const ZONES: [Zone; 2] = [
    Zone {
        n: 1,
        transit: "100.88.0.5",
        gateway: "100.88.0.6",
        outside: "172.18.0.101",
        pod: ("0a:58:cb:cb:00:0a", "203.203.0.10"),
    },
    Zone {
        n: 2,
        transit: "100.88.0.13",
        gateway: "100.88.0.14",
        outside: "172.18.0.102",
        pod: ("0a:58:cb:cb:00:14", "203.203.0.20"),
    },
];

fn topology() -> Topology {
    let node = |n: usize| {
        chassis(&format!("hv{n}"))
            .zone(&format!("az{n}"))
            .wired("physnet", "br-ex")
            .setting("ovn-monitor-all", "true")
            .setting("ovn-is-interconn", "true")
    };
    Topology::new().central("az1").central("az2").chassis(node(1)).chassis(node(2))
}

/// Describes the network to one zone.
fn describe(lab: &Lab, here: &Zone, there: &Zone) -> Result<()> {
    let az = lab.central(&format!("az{}", here.n))?;
    let key = |options: &mut Map<Str, Str>, key: usize| {
        options.insert("requested-tnl-key".into(), key.to_string().into());
    };
    az.write(|net| {
        // One switch in both zones with the same keys. Each pod is local in one zone and remote in the other.
        let mut switch = net.switch("l2").config("requested-tnl-key", "1001").router_port("stor", "rtos");
        switch = switch.port_with("stor", |port| key(&mut port.options, 1));
        for zone in [here, there] {
            switch = switch.port_with(&format!("pod{}", zone.n), |port| {
                port.addresses.insert(Text::new(&format!("{} {}", zone.pod.0, zone.pod.1)));
                key(&mut port.options, 10 + zone.n);
                port.options.insert("requested-chassis".into(), format!("hv{}", zone.n).into());
                if zone.n != here.n {
                    port.kind = PortType::Remote;
                }
            });
        }
        net.provider("ext", "ext-ln", "physnet").router_port("etor", "rtoe");
        // One router in both zones, with a port to each zone's gateway router.
        let mut transit = net.router("cluster").option("requested-tnl-key", "1002").port(
            "rtos",
            "0a:58:cb:cb:00:01",
            "203.203.0.1/16",
        );
        for zone in [here, there] {
            let (name, mac) = (format!("trtor{}", zone.n), format!("0a:58:64:58:00:0{}", zone.n));
            transit = transit.port(&name, &mac, &format!("{}/30", zone.transit)).port_with(&name, |port| {
                key(&mut port.options, 3 + zone.n);
                if zone.n == here.n {
                    port.peer = Some("rtotr".into());
                } else {
                    port.options.insert("requested-chassis".into(), format!("hv{}", zone.n).into());
                }
            });
            transit = transit.static_route(&format!("100.65.0.{}", 1 + zone.n), zone.gateway);
        }
        transit
            .route_with("203.203.0.0/16", here.gateway, |route| route.policy = Some(RoutePolicy::SrcIp))
            .policy(102, "ip4.src == 203.203.0.0/16 && ip4.dst == 203.203.0.0/16", None);
        // The zone's own gateway router.
        let inside = format!("{}/30 100.65.0.{}/16", here.gateway, 1 + here.n);
        let peer = format!("trtor{}", here.n);
        net.router("GR")
            .option("chassis", &format!("hv{}", here.n))
            .port("rtotr", &format!("0a:58:64:41:00:0{}", here.n), &inside)
            .port_with("rtotr", |port| port.peer = Some(peer.as_str().into()))
            .port("rtoe", &format!("0a:58:ac:12:00:0{}", here.n), &format!("{}/24", here.outside))
            .route_with("0.0.0.0/0", "172.18.0.1", |route| route.output_port = Some("rtoe".into()))
            .route_with("203.203.0.0/16", here.transit, |route| route.output_port = Some("rtotr".into()))
            .snat(here.outside, "203.203.0.0/16");
    })?;
    remote_chassis(lab, az, &format!("hv{}", there.n))
}

/// Adds a node of the other zone to a zone's Southbound, so that tunnels reach it.
fn remote_chassis(lab: &Lab, az: &Central, name: &str) -> Result<()> {
    let ip = lab.chassis(name)?.tunnel_ip().to_string();
    let encap = Encap {
        kind: EncapType::Geneve,
        ip: Text::new(&ip),
        chassis_name: name.into(),
        ..Default::default()
    };
    let (row, uuid) = (Uuid::new_v4(), Uuid::new_v4());
    let chassis = Chassis {
        name: name.into(),
        encaps: [Ref::new(uuid)].into_iter().collect(),
        other_config: [("is-remote".into(), "true".into())].into(),
        ..Default::default()
    };
    az.sb().commit(Transaction::new().insert(uuid, &encap).insert(row, &chassis))
}

/// Starts both zones, a pod in each, and an external host whose server reports the address of its clients.
fn up(lab: &Lab) -> Result<()> {
    let [one, two] = &ZONES;
    describe(lab, one, two)?;
    describe(lab, two, one)?;
    lab.external("ext", "physnet", &["172.18.0.1/24"])?.serve(80)?;
    let (mac, ip) = two.pod;
    lab.vm("pod2").on("hv2").mac(mac).ip(&format!("{ip}/16")).gateway("203.203.0.1").plug()?;
    movable_pod(lab, one.pod.0, one.pod.1)?;
    lab.central("az1")?.ready(&["pod1"])?;
    lab.central("az2")?.ready(&["pod2"])
}

/// `pod1` behind a small bridge from which a cable leads to each node: moving it is a matter of which one is in use.
fn movable_pod(lab: &Lab, mac: &str, ip: &str) -> Result<()> {
    let (pod, root) = (lab.node("pod1")?, lab.node("mover")?);
    root.bridge("br-mig")?;
    lab.connect((&root, "pod1-u"), (&pod, "eth0"))?;
    pod.run(&format!("ip link set eth0 address {mac}"))?;
    pod.no_offload("eth0")?;
    root.enslave("pod1-u", Some("br-mig"))?;
    pod.address("eth0", format!("{ip}/16").parse()?)?;
    pod.default_route("203.203.0.1".parse()?)?;
    for n in [1, 2] {
        lab.connect((&root, &format!("mig{n}")), (lab.chassis(&format!("hv{n}"))?, "tap-pod1"))?;
    }
    root.enslave("mig1", Some("br-mig"))?;
    lab.chassis("hv1")?.plug("br-int", "tap-pod1", Some("pod1"))
}

/// Sends requests to the external host until it sees the pod under the expected address.
fn leaves_as(lab: &Lab, pod: &str, outside: &str) -> Result<()> {
    let node = lab.find(pod)?;
    eventually(Duration::from_secs(60), &format!("{pod} leaves as {outside}"), || {
        let seen = node.asks("172.18.0.1:80")?.seen_as;
        ensure!(seen == outside, "{pod} is seen as {seen}");
        Ok(())
    })
}

fn two_zones() -> Result<()> {
    topology().run(|lab| {
        up(lab)?;
        let pod1 = lab.find("pod1")?;
        pod1.reaches(ZONES[1].pod.1)?;
        pod1.reaches("203.203.0.1")?;
        leaves_as(lab, "pod1", ZONES[0].outside)?;
        leaves_as(lab, "pod2", ZONES[1].outside)?;
        pod1.reaches("100.65.0.3")?;
        // The pod's packets leave through the other zone's gateway, and then through its own again.
        let az1 = lab.central("az1")?;
        let mine = format!("ip4.src == {}", ZONES[0].pod.1);
        az1.write(|net| {
            net.router("cluster").policy(100, &mine, Some(ZONES[1].gateway));
        })?;
        leaves_as(lab, "pod1", ZONES[1].outside)?;
        az1.write(|net| {
            net.router("cluster").without_policies(100);
        })?;
        leaves_as(lab, "pod1", ZONES[0].outside)
    })
}

fn migration() -> Result<()> {
    topology().run(|lab| {
        up(lab)?;
        let (pod1, mover) = (lab.find("pod1")?, lab.find("mover")?);
        let gateway =
            || pod1.run("ip neigh show 203.203.0.1").map(|text| text.split(' ').nth(4).map(str::to_owned));
        leaves_as(lab, "pod1", ZONES[0].outside)?;
        let before = gateway()?;
        let mut train = pod1.ping_train("172.18.0.1")?;
        train.rolls(5)?;
        mover.enslave("mig1", None)?;
        lab.chassis("hv1")?.unplug("br-int", "tap-pod1")?;
        for (zone, kind) in [("az2", PortType::Vif), ("az1", PortType::Remote)] {
            lab.central(zone)?.nb().change::<LogicalSwitchPort>(
                |row| row.name == "pod1",
                |row| {
                    row.kind = kind;
                    row.options.insert("requested-chassis".into(), "hv2".into());
                },
            )?;
        }
        mover.enslave("mig2", Some("br-mig"))?;
        lab.chassis("hv2")?.plug("br-int", "tap-pod1", Some("pod1"))?;
        train.now();
        lab.central("az2")?.up("pod1")?;
        train.rolls(10)?;
        train.end()?;
        leaves_as(lab, "pod1", ZONES[1].outside)?;
        let after = gateway()?;
        ensure!(
            before.is_some() && before == after,
            "the gateway's address changed from {before:?} to {after:?}"
        );
        pod1.reaches(ZONES[1].pod.1)
    })
}
