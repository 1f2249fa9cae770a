//! A VLAN on an internal port of the switch.

use anyhow::{Result, ensure};
use lab::Lab;
use lab::job::{Backend, Spec};
use lab::node::chassis::Chassis;
use ovn::nb::LogicalSwitchPort;

use super::{again_with, ask, shows};
use crate::border::learns;

/// The number of times that the VLAN's device goes down.
const FALLS: usize = 20;

/// The VLAN on an internal port of the switch: first because the configuration demands it, then because the kernel lacks 8021q.
pub(super) fn vlan_on_a_port(lab: &Lab) -> Result<()> {
    let (hv1, hv2, spine) = (lab.chassis("hv1")?, lab.chassis("hv2")?, lab.find("spine")?);
    let reached = || {
        shows(hv2, "ip address show bgp-nic", "172.24.100.12/32", true)?;
        learns(&spine, "172.24.100.12")?;
        spine.reaches_from("192.0.2.1", "172.24.100.12")
    };
    let is = |hv: &Chassis, what: &str| {
        let words = format!("br-ex.100 is VLAN 100 of br-ex, as {what}");
        shows(hv, &format!("meridian status --socket {}/agent.sock", hv.dir().display()), &words, true)
    };
    is(hv2, "a VLAN device of the kernel")?;
    println!("a VLAN on a port of the switch:");
    for hv in [hv1, hv2] {
        again_with(hv, "vlan_device = internal")?;
        is(hv, "an internal port of Open vSwitch")?;
    }
    reached()?;
    // The kernel notifies that a device goes down before it deletes the routes. It sends no notification about those.
    for _ in 0..FALLS {
        hv2.run("ip link set br-ex.100 down")?;
        shows(hv2, "ip route show table 201", "172.24.100.12 dev br-ex.100", true)?;
    }
    let told = ask(hv2, "explain 172.24.100.12")?;
    ensure!(told.contains("br-ex.100 is VLAN 100 of br-ex, as an internal port of Open vSwitch"), "{told}");

    println!("what is there stays, and is made again on a kernel without 8021q:");
    again_with(hv2, "")?;
    reached()?;
    is(hv2, "an internal port of Open vSwitch")?;
    if Spec::inside()?.backend == Backend::Uml {
        hv2.run("rmmod 8021q")?;
        ensure!(hv2.run("ip link add link br-ex name any type vlan id 5").is_err(), "the kernel has VLANs");
    }
    let vsctl = format!("ovs-vsctl --db=unix:{}/db.sock", hv2.dir().display());
    hv2.run(&format!("{vsctl} del-port br-ex br-ex.100"))?;
    reached()?;
    let made = hv2.run("ip -d link show br-ex.100")?;
    let by_kernel = made.contains("vlan protocol 802.1Q");
    ensure!(by_kernel == (Spec::inside()?.backend == Backend::Native), "{made}");

    println!("and goes with its network:");
    lab.central("az1")?.nb().change::<LogicalSwitchPort>(
        |port| port.name == "provnet-2",
        |port| {
            port.options.insert("network_name".into(), "elsewhere".into());
        },
    )?;
    shows(hv2, "ip link", "br-ex.100", false)?;
    shows(hv2, &format!("{vsctl} list-ports br-ex"), "br-ex.100", false)?;
    shows(hv2, "ip address show bgp-nic", "172.24.100.12/32", false)
}
