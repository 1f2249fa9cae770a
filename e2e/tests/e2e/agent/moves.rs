//! Addresses that move from one chassis to the other, and leftovers of another agent.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::Lab;
use lab::train::Train;

use super::restarts::unharmed;
use super::{Monitor, fabric, shows, start, tell_of_nat};
use crate::border::{leak, learns, networks, steer_to_kernel, two_borders};

/// The limit of an outage: far longer than a moment.
const TOO_LONG: Duration = Duration::from_secs(30);

pub(super) fn moves() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        tell_of_nat(lab)?;
        let (az1, spine) = (lab.central("az1")?, lab.find("spine")?);
        let (hv1, hv2) = (lab.chassis("hv1")?, lab.chassis("hv2")?);
        az1.write(|net| {
            net.router("lr0").gateway_chassis("lr0-public", "hv2", 10);
        })?;

        println!("another agent was here before:");
        fs::write(hv1.dir().join("rt_tables"), "255 local\n87 br-ex\n").context("cannot write rt_tables")?;
        for line in [
            "ip link add bgp-vrf type vrf table 10",
            "ip link set bgp-vrf up",
            "ip link add bgp-nic type dummy",
            "ip link set bgp-nic master bgp-vrf up",
            "ip link set br-ex up",
            "sysctl -qw net.ipv4.conf.br-ex.proxy_arp=1",
            "ip address add 1.1.1.1/32 dev br-ex",
            "ip route add default dev br-ex table 87",
            "ip route add 172.24.4.10 dev br-ex table 87",
            "ip rule add pref 32000 to 172.24.4.10 lookup 87",
            "ip address add 172.24.4.10/32 dev bgp-nic",
            // Leftovers that are not desired any more.
            "ip route add 172.24.4.99 dev br-ex table 87",
            "ip rule add pref 32000 to 172.24.4.99 lookup 87",
            "ip address add 172.24.4.99/32 dev bgp-nic",
            "ip rule add pref 32000 to 10.0.0.1/24 lookup 87",
            "ip neigh add 172.24.4.100 lladdr 02:00:00:00:99:99 dev br-ex nud permanent",
            // Foreign objects.
            "ip rule add pref 100 to 198.51.100.1 lookup main",
            "ip route add 198.51.100.1 dev br-ex",
        ] {
            hv1.run(line)?;
        }
        hv1.frr_config(&leak(1))?;
        steer_to_kernel(hv1)?;
        learns(&spine, "172.24.4.10")?;
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        let monitor = Monitor::start(hv1)?;
        hv1.add_flow("br-ex", "cookie=0x3e7,priority=900,ip,in_port=33,actions=NORMAL")?;
        start(hv1)?;
        start(hv2)?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.99", false)?;
        shows(hv1, "ip rule", "172.24.4.99", false)?;
        shows(hv1, "ip route show table 87", "172.24.4.99", false)?;
        shows(hv1, "ip route show table 87", "172.24.4.10 dev br-ex", true)?;
        shows(hv1, "ip neigh show dev br-ex nud permanent", "02:00:00:00:99:99", false)?;
        shows(hv1, "ip rule", "10.0.0.0/24 lookup 87", true)?;
        shows(hv1, "ip rule", "10.0.0.1/24", false)?;
        shows(hv1, "ip rule", "100:\tfrom all to 198.51.100.1 lookup main", true)?;
        shows(hv1, "ip route", "198.51.100.1 dev br-ex", true)?;
        shows(hv1, "ip address show br-ex", "1.1.1.1/32", true)?;
        monitor.saw_deletions_of(&["172.24.4.99", "10.0.0.1/24", "10.0.0.0/24"])?;
        let flows = hv1.ofctl("dump-flows", "br-ex", &["cookie=999/-1"])?;
        ensure!(!flows.contains("in_port=33"), "a stale flow is left:\n{flows}");
        unharmed(train, "the takeover")?;

        println!("the gateway fails over:");
        learns(&spine, "10.0.0.22")?;
        let mut train = spine.ping_train("10.0.0.22")?;
        train.rolls(5)?;
        az1.nb()
            .change::<ovn::nb::GatewayChassis>(|row| row.name == "lr0-public-hv2", |row| row.priority = 30)?;
        shows(hv2, "ip address show bgp-nic", "10.0.0.22/32", true)?;
        shows(hv1, "ip address show bgp-nic", "10.0.0.22/32", false)?;
        shows(hv1, "ip rule", "10.0.0.0/24", false)?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.10/32", true)?;
        train.now();
        train.rolls(5)?;
        outage(train, "the gateway's failover")?;
        spine.reaches("172.24.4.110")?;

        println!("a VM migrates:");
        let mut train = spine.ping_train("172.24.4.10")?;
        train.rolls(5)?;
        hv1.unplug("br-int", "tap-vmp")?;
        migrate(lab)?;
        az1.lives_on("vmp", "hv2")?;
        shows(hv2, "ip address show bgp-nic", "172.24.4.10/32", true)?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.10/32", false)?;
        train.now();
        train.rolls(5)?;
        outage(train, "the VM's migration")
    })
}

/// Checks how long no packet arrived, measured at the spine. OVN's part of it is longer than ours, and a busy machine adds to it. Only a
/// wait for an event that does not arrive (a session that ends, a full resync) exceeds the limit.
fn outage(train: Train, what: &str) -> Result<()> {
    let outage = train.end()?;
    println!("{what}, seen from the spine: {outage:?}");
    ensure!(outage < TOO_LONG, "{what} took {outage:?}");
    Ok(())
}

/// Moves vmp's cable from hv1 to hv2.
fn migrate(lab: &Lab) -> Result<()> {
    let (vmp, hv2) = (lab.find("vmp")?, lab.chassis("hv2")?);
    lab.connect((&vmp, "eth1"), (hv2, "tap-vmp2"))?;
    for line in [
        "ip link set eth0 down",
        "ip address flush dev eth0",
        "ip link set eth1 down",
        "ip link set eth1 address 02:00:00:00:02:10",
        "ip link set eth1 up",
        "ip address add 172.24.4.10/24 dev eth1",
        "ip route add default via 172.24.4.1 dev eth1",
    ] {
        vmp.run(line)?;
    }
    vmp.run("ethtool -K eth1 tx off").map(|_| ()).or_else(|_| Ok::<_, anyhow::Error>(()))?;
    hv2.plug("br-int", "tap-vmp2", Some("vmp"))
}
