//! Daemons are killed and restarted under traffic.

use std::sync::Arc;

use anyhow::{Result, ensure};
use lab::eventually;
use lab::node::chassis::Chassis;
use lab::process::{Daemon, Recipe};
use lab::train::Train;

use super::{Monitor, PATIENCE, ask, fabric, shows, start, tell_of_nat};
use crate::bgp::peering;
use crate::border::{learns, networks, two_borders, unlearns};

/// The question that the agent of a chassis answers with how it is.
fn status(hv: &Chassis) -> String {
    format!("meridian status --socket {}/agent.sock", hv.dir().display())
}

/// Asserts that traffic continues and no packet was lost.
pub(super) fn unharmed(mut train: Train, what: &str) -> Result<()> {
    train.now();
    train.rolls(5)?;
    let lost = train.losses()?;
    ensure!(lost == 0, "{lost} packets were lost by {what}");
    Ok(())
}

/// A monitor of the switch's deleted flows.
struct Flows(Arc<Daemon>);

impl Flows {
    fn watch(hv: &Chassis) -> Result<Self> {
        let socket = format!("unix:{}/br-ex.mgmt", hv.dir().display());
        let recipe = Recipe::new("ovs-ofctl").env("OVS_RUNDIR", hv.dir().display().to_string());
        let recipe = recipe.args(["monitor", &socket, "watch:!add,!modify"]);
        let flows = Flows(hv.start("flow-monitor", recipe)?);
        eventually(PATIENCE, "the flows are watched", || {
            ensure!(flows.0.said().contains("cookie=0x3e7"), "{}", flows.0.said());
            Ok(())
        })?;
        Ok(flows)
    }

    /// Asserts that no flow of the agent was deleted since the start.
    fn lost_none(self) -> Result<()> {
        ensure!(self.0.alive(), "nobody watched: {}", self.0.said());
        self.0.kill()?;
        let said = self.0.said();
        let deleted =
            said.lines().filter(|line| line.contains("event=DELETED") && line.contains("cookie=0x3e7"));
        let deleted: Vec<&str> = deleted.collect();
        ensure!(deleted.is_empty(), "the switch was told to delete:\n{}", deleted.join("\n"));
        Ok(())
    }
}

pub(super) fn restarts() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        tell_of_nat(lab)?;
        let (az1, spine, hv1) = (lab.central("az1")?, lab.find("spine")?, lab.chassis("hv1")?);
        let agent = start(hv1)?;
        for address in ["172.24.4.10", "172.24.4.110", "10.0.0.22"] {
            learns(&spine, address)?;
            spine.reaches(address)?;
        }
        // A tenant's VM without a floating IP. Packets of one with a floating IP are translated by its router.
        lab.find("vmu")?.serve(80)?;
        let by = spine.is_served_by("10.0.0.22:80")?.by;
        ensure!(by == "vmu", "{by} has answered for vmu");

        println!("the agent is killed and started again:");
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        let monitor = Monitor::start(hv1)?;
        agent.kill()?;
        train.rolls(5)?;
        agent.start_again()?;
        eventually(PATIENCE, "the agent answers again", || {
            let status = ask(hv1, "status")?;
            ensure!(status.contains("bgp: converged"), "{status}");
            Ok(())
        })?;
        unharmed(train, "the agent's restart")?;
        monitor.saw_no_deletion()?;

        println!("the local database goes away and comes back:");
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        let flows = Flows::watch(hv1)?;
        let database = hv1.daemon("ovsdb-server")?;
        let heard = |there| shows(hv1, &status(hv1), "Open_vSwitch: synced", there);
        database.kill()?;
        heard(false)?;
        database.start_again()?;
        heard(true)?;
        // Rows arrive one after the other as the daemons find the database again. Any failure happens before these packets.
        train.now();
        train.rolls(10)?;
        unharmed(train, "the local database's restart")?;
        flows.lost_none()?;

        println!("others change what is ours:");
        let command = "ip rule";
        hv1.run("ip rule del to 172.24.4.10 pref 32000")?;
        shows(hv1, command, "to 172.24.4.10 lookup 201", true)?;
        hv1.run("ip address del 172.24.4.10/32 dev bgp-nic")?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.10/32", true)?;
        hv1.run("ip route del 172.24.4.10 table 201")?;
        shows(hv1, "ip route show table 201", "172.24.4.10 dev br-ex", true)?;
        hv1.del_flows("br-ex", "cookie=999/-1")?;
        eventually(PATIENCE, "the flows are back", || {
            let flows = hv1.ofctl("dump-flows", "br-ex", &["cookie=999/-1"])?;
            ensure!(flows.matches("priority=900").count() == 2, "{flows}");
            Ok(())
        })?;
        hv1.run("ip link set bgp-nic down")?;
        shows(hv1, "ip link show bgp-nic", ",UP", true)?;
        learns(&spine, "172.24.4.10")?;

        println!("bgpd is killed and comes back with the operator's configuration alone:");
        hv1.daemon("bgpd")?.kill()?;
        unlearns(&spine, "172.24.4.10")?;
        hv1.daemon("bgpd")?.start_again()?;
        hv1.frr_config(&peering(1))?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;

        println!("and again, told the operator's configuration only after the agent's:");
        hv1.daemon("bgpd")?.kill()?;
        unlearns(&spine, "172.24.4.10")?;
        println!("with an agent that starts while it is away, and does all the rest:");
        hv1.run("ip rule del to 172.24.4.10 pref 32000")?;
        agent.kill()?;
        agent.start_again()?;
        shows(hv1, "ip rule", "to 172.24.4.10 lookup 201", true)?;
        shows(hv1, &status(hv1), "frr-silent", true)?;
        hv1.daemon("bgpd")?.start_again()?;
        eventually(PATIENCE, "bgpd has the agent's part", || {
            let running = hv1.vtysh("show running-config")?;
            ensure!(running.contains("redistribute connected"), "{running}");
            Ok(())
        })?;
        hv1.frr_config(&peering(1))?;
        learns(&spine, "172.24.4.10")?;

        println!("zebra is killed, and comes back with all that hangs on it, as watchfrr does it:");
        for daemon in ["zebra", "bgpd"] {
            hv1.daemon(daemon)?.kill()?;
        }
        unlearns(&spine, "172.24.4.10")?;
        for daemon in ["zebra", "bgpd"] {
            hv1.daemon(daemon)?.start_again()?;
        }
        hv1.frr_config(&peering(1))?;
        learns(&spine, "172.24.4.10")?;
        learns(hv1, "default")?;
        spine.reaches("172.24.4.10")?;

        println!("FRR's saved configuration has the leak already when the VRF comes:");
        agent.kill()?;
        let imports = |no: &str| {
            let family = |n| {
                format!(" address-family ipv{n} unicast\n  {no}import vrf bgp-vrf\n exit-address-family\n")
            };
            format!("router bgp 64999\n{}{}exit\n", family(4), family(6))
        };
        hv1.frr_config(&(imports("no ") + "no router bgp 64999 vrf bgp-vrf\n"))?;
        hv1.run("ip link del bgp-nic")?;
        hv1.run("ip link del bgp-vrf")?;
        hv1.frr_config(&imports(""))?;
        unlearns(&spine, "172.24.4.10")?;
        agent.start_again()?;
        learns(&spine, "172.24.4.10")?;
        learns(&spine, "2001:db8:24::10")?;
        shows(hv1, &status(hv1), "leak-stuck", false)?;

        println!("the Southbound database goes away, and its rows change meanwhile:");
        let sb = az1.daemon("ovsdb-server-sb")?;
        let mut train = spine.ping_train("172.24.4.110")?;
        train.rolls(5)?;
        sb.kill()?;
        train.rolls(20)?;
        sb.start_again()?;
        az1.sync()?;
        shows(hv1, &status(hv1), "OVN_Southbound: synced", true)?;
        unharmed(train, "the Southbound's restart")?;
        hv1.unplug("br-int", "tap-vmp")?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.10/32", false)?;
        unlearns(&spine, "172.24.4.10")?;
        shows(hv1, "ip rule", "to 172.24.4.10 lookup", false)?;
        spine.reaches("172.24.4.110")
    })
}
