//! zebra restarts alone, and bgpd continues with its earlier state.

use std::time::Duration;

use anyhow::{Result, ensure};
use lab::node::chassis::Chassis;
use lab::{Lab, eventually};

use super::{PATIENCE, ask, fabric, shows, start};
use crate::bgp::peering;
use crate::border::{learns, networks, two_borders, unlearns};

/// How long bgpd may take to send its routes to a new zebra.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) fn zebra() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        let (spine, hv1) = (lab.find("spine")?, lab.chassis("hv1")?);
        start(hv1)?;
        learns(&spine, "172.24.4.10")?;
        learns(&spine, "2001:db8:24::10")?;

        println!("zebra is killed and started alone:");
        let zebra = hv1.daemon("zebra")?;
        zebra.kill()?;
        healthy(hv1, false)?;
        shows(hv1, &status(hv1), "zebra-silent", true)?;
        zebra.start_again()?;
        follows(lab, "after-zebra", 31, |ip| reached_or_said(lab, ip))?;
        healthy(hv1, true)?;

        println!("the announcing device is renamed:");
        hv1.run("ip link set bgp-nic down")?;
        hv1.run("ip link set bgp-nic name elsewhere")?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.10/32", true)?;
        hv1.run("ip link del elsewhere")?;
        follows(lab, "after-nic", 32, |ip| spine.reaches(ip))?;
        healthy(hv1, true)?;

        println!("the VRF is renamed, and gets its name back:");
        hv1.run("ip link set bgp-vrf down")?;
        hv1.run("ip link set bgp-vrf name other-vrf")?;
        shows(hv1, &status(hv1), "table-in-use", true)?;
        healthy(hv1, false)?;
        hv1.run("ip link set other-vrf down")?;
        hv1.run("ip link set other-vrf name bgp-vrf")?;
        // FRR's zebra exits when the name of a VRF changes.
        if !zebra.alive() {
            zebra.start_again()?;
        }
        follows(lab, "after-vrf", 33, |ip| reached_or_said(lab, ip))?;
        learns(&spine, "172.24.4.10")?;
        healthy(hv1, true)
    })
}

fn status(hv: &Chassis) -> String {
    format!("meridian status --socket {}/agent.sock", hv.dir().display())
}

/// Waits until the agent calls itself healthy, or no longer does.
fn healthy(hv: &Chassis, healthy: bool) -> Result<()> {
    eventually(PATIENCE, &format!("healthy is {healthy}"), || {
        let status = ask(hv, "status")?;
        ensure!(status.contains(", healthy, ") == healthy, "{status}");
        Ok(())
    })
}

/// Checks that an address is reachable. FRR 10.3's bgpd does not always make a new zebra restore the node's default route, which replies
/// need. Then the agent must report that, and a restart of FRR must help.
fn reached_or_said(lab: &Lab, ip: &str) -> Result<()> {
    let (spine, hv1) = (lab.find("spine")?, lab.chassis("hv1")?);
    std::thread::sleep(SETTLE);
    if !hv1.run("ip route show default")?.contains("proto bgp") {
        println!("FRR has lost the default route:");
        shows(hv1, &status(hv1), "no-return-route", true)?;
        healthy(hv1, false)?;
        for daemon in ["zebra", "bgpd"] {
            hv1.daemon(daemon)?.kill()?;
        }
        for daemon in ["zebra", "bgpd"] {
            hv1.daemon(daemon)?.start_again()?;
        }
        hv1.frr_config(&peering(1))?;
        learns(&spine, ip)?;
    }
    spine.reaches(ip)
}

/// Binds a new VM, which must be announced, and deletes it, so that it must be withdrawn. Calls `meanwhile` with its address.
fn follows(lab: &Lab, name: &str, last: u8, meanwhile: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    let (az1, spine, hv1) = (lab.central("az1")?, lab.find("spine")?, lab.chassis("hv1")?);
    let (mac, ip) = (format!("02:00:00:00:02:{last}"), format!("172.24.4.{last}"));
    az1.write(|net| {
        net.provider("public", "provnet-1", "physnet").port(name, &format!("{mac} {ip}"));
    })?;
    lab.vm(name).on("hv1").mac(&mac).ip(&format!("{ip}/24")).gateway("172.24.4.1").plug()?;
    az1.ready(&[name])?;
    shows(hv1, "ip address show bgp-nic", &format!("{ip}/32"), true)?;
    learns(&spine, &ip)?;
    meanwhile(&ip)?;
    hv1.unplug("br-int", &format!("tap-{name}"))?;
    shows(hv1, "ip address show bgp-nic", &format!("{ip}/32"), false)?;
    unlearns(&spine, &ip)
}
