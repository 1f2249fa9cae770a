//! OVN's own features: switching, routing, translation, balancing, failover.

use anyhow::{Result, ensure};
use lab::Test;

use crate::fabric::{tenants, three_chassis};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "overlay::vms_on_different_chassis_reach_each_other",
            "VMs on different chassis reach each other on one switch, and through a router",
            &[],
            switching_and_routing,
        ),
        Test::new(
            "overlay::addresses_are_translated_at_the_gateway",
            "a VM leaves under the router's address, one with a floating IP under that, by which it is reached from outside",
            &[],
            translation,
        ),
        Test::new(
            "overlay::load_balancer_uses_both_backends",
            "a load balancer sends clients from outside and inside to both of its backends",
            &[],
            balancing,
        ),
        Test::new(
            "overlay::gateway_moves_when_its_chassis_dies",
            "when the chassis with the gateway dies, another one takes over and traffic goes on",
            &[],
            failover,
        ),
        Test::new(
            "overlay::the_network_outlives_its_daemons",
            "every daemon of OVN can be killed and started again, and a chassis that was dead takes its gateway back",
            &[],
            restarts,
        ),
    ]
}

fn switching_and_routing() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        let vm1 = lab.find("vm1")?;
        vm1.reaches("10.0.0.12")?;
        vm1.reaches("10.0.1.13")
    })
}

fn translation() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        let ext = lab.find("ext")?;
        ext.serve(80)?;
        let seen = |vm: &str| Ok::<_, anyhow::Error>(lab.find(vm)?.is_served_by("172.24.4.1:80")?.seen_as);
        let (vm2, vm3) = (seen("vm2")?, seen("vm3")?);
        println!("outside sees vm2 as {vm2} and vm3 as {vm3}");
        ensure!(vm3 == "172.24.4.100", "vm3 has no floating IP and is seen as {vm3}");
        ensure!(vm2 == "172.24.4.110", "vm2 has a floating IP and is seen as {vm2}");
        ext.reaches("172.24.4.110")
    })
}

fn balancing() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        let (vm1, vm2, vm3, ext) = (lab.find("vm1")?, lab.find("vm2")?, lab.find("vm3")?, lab.find("ext")?);
        vm1.serve(80)?;
        vm2.serve(80)?;
        let az1 = lab.central("az1")?;
        let backends = ["10.0.0.11:80", "10.0.0.12:80"];
        az1.write(|net| {
            net.load_balancer("outside", "172.24.4.150:80", &backends).on_router("lr0");
            net.load_balancer("inside", "10.0.9.9:80", &backends).on_switch("sw1").on_router("lr0");
        })?;
        az1.sync()?;
        for (client, vip) in [(&ext, "172.24.4.150:80"), (&vm3, "10.0.9.9:80")] {
            client.is_served_by(vip)?;
            let mut served = std::collections::BTreeMap::<String, u32>::new();
            // OVN chooses a backend by chance. With 64 requests, one of the two is missed once in 2^63 runs.
            for _ in 0..64 {
                match client.asks(vip) {
                    Ok(answer) => *served.entry(answer.by).or_default() += 1,
                    Err(error) => println!("unanswered: {error:#}"),
                }
                if served.len() == 2 && served.values().sum::<u32>() >= 12 {
                    break;
                }
            }
            println!("{vip} was served by {served:?}");
            ensure!(served.keys().eq(["vm1", "vm2"]), "{vip} was served by {served:?}");
        }
        Ok(())
    })
}

fn failover() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        let (az1, ext) = (lab.central("az1")?, lab.find("ext")?);
        az1.lives_on("cr-lr0-public", "hv1")?;
        lab.find("vm2")?.serve(80)?;
        let (mut pings, mut questions) = (ext.ping_train("172.24.4.110")?, ext.tcp_train("172.24.4.110:80"));
        pings.rolls(5)?;
        questions.rolls(5)?;
        let hv1 = lab.chassis("hv1")?;
        hv1.kill_all()?;
        hv1.cut()?;
        pings.now();
        questions.now();
        az1.lives_on("cr-lr0-public", "hv2")?;
        pings.rolls(10)?;
        questions.rolls(10)?;
        pings.end()?;
        questions.end()?;
        Ok(())
    })
}

fn restarts() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        let (az1, hv1) = (lab.central("az1")?, lab.chassis("hv1")?);
        let (vm1, ext) = (lab.find("vm1")?, lab.find("ext")?);
        for daemon in ["ovsdb-server-nb", "ovsdb-server-sb", "ovn-northd"] {
            az1.daemon(daemon)?.restart()?;
        }
        for daemon in ["ovsdb-server", "ovs-vswitchd", "ovn-controller"] {
            hv1.restart(daemon)?;
        }
        vm1.reaches("10.0.1.13")?;
        ext.reaches("172.24.4.110")?;
        az1.sync()?;

        hv1.kill_all()?;
        hv1.cut()?;
        az1.lives_on("cr-lr0-public", "hv2")?;
        hv1.mend()?;
        for daemon in ["ovsdb-server", "ovs-vswitchd", "ovn-controller"] {
            hv1.revive(daemon)?;
        }
        az1.lives_on("cr-lr0-public", "hv1")?;
        ext.reaches("172.24.4.110")?;
        vm1.reaches("172.24.4.1")
    })
}
