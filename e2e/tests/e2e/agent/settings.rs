//! Changes of settings: those of the cloud, of the switch and of the agent.

use anyhow::{Result, ensure};
use lab::eventually;
use lab::node::chassis::Chassis;
use lab::process::Recipe;
use ovn::nb::LogicalSwitchPort;
use ovn::vswitch::OpenVSwitch;

use super::{PATIENCE, ask, configure, fabric, shows, unit};
use crate::bgp::tenants_let_out;
use crate::border::{learns, networks, two_borders, unlearns};

/// Changes a setting of a chassis' switch.
fn setting(hv: &Chassis, key: &str, value: &str) -> Result<()> {
    hv.db().change::<OpenVSwitch>(
        |_| true,
        |row| {
            row.external_ids.insert(key.into(), value.into());
        },
    )
}

/// Waits until the agent reports no missing permission.
fn able(hv: &Chassis) -> Result<()> {
    eventually(PATIENCE, "the agent may do all it has to", || {
        let status = ask(hv, "status")?;
        // The status keeps the last error of a database, which may be old.
        let now: Vec<&str> = status.lines().filter(|line| !line.contains("last error")).collect();
        let known = |words: &str| now.iter().any(|line| line.contains(words));
        let able = !known("no-openflow") && !known("denied") && !known("not permitted");
        ensure!(able && known("Open_vSwitch: synced"), "{status}");
        Ok(())
    })
}

/// The agent reports why peers do not receive an address: first a filter, then a peer that is down.
fn unheard(hv1: &Chassis) -> Result<()> {
    println!("explained, when a filter drops it, and when the peer is away:");
    for (harm, words, remedy) in [
        (
            "ip prefix-list only-host-prefixes seq 1 deny 172.24.4.10/32",
            "FRR has 172.24.4.10 but advertises it to none of 100.64.1.0: an outbound prefix-list",
            "no ip prefix-list only-host-prefixes seq 1 deny 172.24.4.10/32",
        ),
        (
            "router bgp 64999\n neighbor 100.64.1.0 shutdown",
            "FRR has no established peer for IPv4, so 172.24.4.10 does not reach the fabric; of its peers 100.64.1.0 none is up",
            "router bgp 64999\n no neighbor 100.64.1.0 shutdown",
        ),
    ] {
        let explain = format!("meridian explain 172.24.4.10 --socket {}/agent.sock", hv1.dir().display());
        hv1.frr_config(&format!("{harm}\n"))?;
        shows(hv1, &explain, words, true)?;
        hv1.frr_config(&format!("{remedy}\n"))?;
        shows(hv1, &explain, "FRR advertises 172.24.4.10 to 100.64.1.0", true)?;
    }
    Ok(())
}

pub(super) fn settings() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        let (az1, spine, hv1) = (lab.central("az1")?, lab.find("spine")?, lab.chassis("hv1")?);
        let agent = unit::start(hv1)?;
        let announced = "ip address show bgp-nic";
        shows(hv1, announced, "172.24.4.10/32", true)?;
        shows(hv1, announced, "10.0.0.22/32", true)?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;
        able(hv1)?;
        unheard(hv1)?;

        println!("Open vSwitch's database is started again, with sockets for root alone:");
        hv1.daemon("ovsdb-server")?.restart()?;
        let status = format!("meridian status --socket {}/agent.sock", hv1.dir().display());
        shows(hv1, &status, "Permission denied", true)?;
        shows(hv1, announced, "172.24.4.10/32", true)?;
        println!("Open vSwitch is started again, with sockets for the agent's group:");
        unit::restart_switch(hv1)?;

        println!("a port opts out, and in again:");
        let advertise = |value: &'static str| {
            az1.nb().change::<LogicalSwitchPort>(
                |port| port.name == "vmp",
                |port| {
                    port.external_ids.insert("meridian:advertise".into(), value.into());
                },
            )
        };
        advertise("false")?;
        shows(hv1, announced, "172.24.4.10/32", false)?;
        shows(hv1, "ip rule", "to 172.24.4.10 lookup", false)?;
        let told = ask(hv1, "explain 172.24.4.10")?;
        ensure!(told.contains("its owner does not want it announced"), "{told}");
        advertise("true")?;
        shows(hv1, announced, "172.24.4.10/32", true)?;

        println!("bridge mappings with a bad item and a bridge that is not there yet:");
        setting(hv1, "ovn-bridge-mappings", "physnet:br-ex,bad,physnet2:br-x")?;
        eventually(PATIENCE, "the agent says what is wrong", || {
            let status = ask(hv1, "status")?;
            ensure!(status.contains("no-such-bridge") && status.contains("bad-bridge-mapping"), "{status}");
            Ok(())
        })?;
        shows(hv1, announced, "172.24.4.10/32", true)?;
        ensure!(hv1.run("ip link show br-x").is_err(), "nobody but Open vSwitch makes bridges");
        let add = "add-br br-x -- set bridge br-x datapath_type=netdev";
        hv1.run(&format!("ovs-vsctl --db=unix:{}/db.sock {add}", hv1.dir().display()))?;
        shows(hv1, "ip address show br-x", "169.254.2.2/32", true)?;
        able(hv1)?;
        spine.reaches("172.24.4.10")?;
        setting(hv1, "ovn-bridge-mappings", "physnet:br-ex")?;
        shows(hv1, "ip address show br-x", "169.254.2.2/32", false)?;

        println!("a stop leaves everything, and the next start has other settings:");
        agent.stop(PATIENCE)?;
        shows(hv1, announced, "172.24.4.10/32", true)?;

        println!("one that may not change the kernel says so, and takes nothing away:");
        let path = configure(hv1, "")?;
        let words = ["--bounding-set", "-net_admin", "meridian", "bgp-agent", "--config-dir", &path];
        let weak = hv1.start("weak-agent", Recipe::new("setpriv").args(words))?;
        hv1.run("ip rule del to 172.24.4.10 pref 32000")?;
        eventually(PATIENCE, "the agent says what it may not do", || {
            let status = ask(hv1, "status")?;
            ensure!(status.contains("address/172.24.4.10") && status.contains("not permitted"), "{status}");
            Ok(())
        })?;
        shows(hv1, announced, "172.24.4.10/32", true)?;
        weak.stop(PATIENCE)?;

        let more =
            "advertisement_method_tenant_networks = subnet\nrule_mode = aggregate\nwithdraw_on_stop = yes\n";
        configure(hv1, more)?;
        agent.start_again()?;
        shows(hv1, "ip route show table 10", "10.0.0.0/24 via 172.24.4.100 dev bgp-nic", true)?;
        shows(hv1, announced, "10.0.0.22/32", false)?;
        shows(hv1, "ip rule", "from all lookup 201 suppress_prefixlength 0", true)?;
        shows(hv1, "ip rule", "to 172.24.4.10 lookup", false)?;
        let running = hv1.vtysh("show running-config")?;
        ensure!(running.contains("redistribute kernel"), "subnets are not redistributed:\n{running}");
        hv1.frr_config(&format!("{}\n", tenants_let_out()?))?;
        learns(&spine, "10.0.0.0/24")?;
        spine.reaches("10.0.0.22")?;
        unlearns(&spine, "10.0.0.22")?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;
        spine.reaches("172.24.4.100")?;

        println!("and withdraws when it ends:");
        agent.stop(PATIENCE)?;
        shows(hv1, announced, "172.24.4.10/32", false)?;
        unlearns(&spine, "172.24.4.10")?;
        shows(hv1, "ip route show table 201", "172.24.4.10 dev br-ex", true)
    })
}
