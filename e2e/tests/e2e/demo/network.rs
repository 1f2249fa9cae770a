//! OVN itself, without Meridian: the network that Meridian controls.

use anyhow::Result;
use lab::demo::Guide;

use crate::fabric::{tenants, three_chassis};

pub(super) fn show(guide: &Guide) -> Result<()> {
    guide.step("Three chassis, two tenant networks, a router, and the world outside");
    guide.says("Each chassis is a network namespace with a switch and an ovn-controller of its own.");
    three_chassis().run(|lab| {
        tenants(lab)?;
        guide.says(&lab.picture().to_string());
        guide.look("the same picture as SVG: `cargo xtask lab shell tenants` names the file");

        guide.step("VMs reach each other, over geneve between the chassis");
        let (vm1, ext, hv1) = (lab.find("vm1")?, lab.find("ext")?, lab.chassis("hv1")?);
        let tunnel = hv1.capture("eth0", "udp port 6081")?;
        vm1.reaches("10.0.0.12")?;
        vm1.reaches("10.0.1.13")?;
        let seen = tunnel.packets(hv1)?;
        let echo = seen.iter().find(|line| line.contains("ICMP echo request"));
        guide.says(&format!("on the wire of hv1: {}", echo.map_or("nothing", |line| line.as_str())));
        guide.look(
            "10.0.0.12 is on hv2, 10.0.1.13 on hv3 behind the router lr0; no physical network knows either",
        );

        guide.step("Out under the router's address, in by a floating IP");
        ext.serve(80)?;
        for vm in ["vm2", "vm3"] {
            let answer = lab.find(vm)?.is_served_by("172.24.4.1:80")?;
            guide.says(&format!("outside sees {vm} as {}", answer.seen_as));
        }
        ext.reaches("172.24.4.110")?;
        guide.look("vm2 has the floating IP 172.24.4.110, vm3 has none and leaves as the router");

        guide.step("The chassis with the gateway dies: killed without warning, its cable cut");
        let az1 = lab.central("az1")?;
        az1.lives_on("cr-lr0-public", "hv1")?;
        let mut train = ext.ping_train("172.24.4.110")?;
        train.rolls(5)?;
        hv1.kill_all()?;
        hv1.cut()?;
        train.now();
        az1.lives_on("cr-lr0-public", "hv2")?;
        train.rolls(10)?;
        let gap = train.end()?;
        guide.says(&format!("traffic from outside was away for {:.1} s", gap.as_secs_f64()));
        guide.look(
            "BFD between the chassis notices after three silent seconds; hv2 then takes the gateway over",
        );
        Ok(())
    })
}
