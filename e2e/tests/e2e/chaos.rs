//! A network under random faults in random order.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::chaos::Chaos;
use lab::chaos::schedule::Menu;
use lab::{Need, Test, eventually};

use crate::agent::{ask, fabric, start};
use crate::border::{learns, networks, two_borders};
use crate::fabric::{tenants, three_chassis};

/// The seed of the schedule, unless `LAB_SEED` sets another one.
const SEED: u64 = 7;
const HARMS: u32 = 9;
const OVER: Duration = Duration::from_secs(16);
/// How long an agent may take to report that everything is healthy again.
const WELL: Duration = Duration::from_secs(90);

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "chaos::traffic_comes_back_and_stays_apart",
            "whatever is killed, cut and delayed, traffic comes back, OVN is in step, and no packet strays to another tenant",
            &[Need::Netem],
            chaos,
        ),
        Test::new(
            "chaos::announced_addresses_come_back",
            "whatever happens to FRR, the databases, the switch and the agent of a node, its addresses are announced and reached afterwards, and it says that it is well",
            &[Need::Netem, Need::Vrf, Need::Dummy],
            announced,
        )
        .meridian(),
    ]
}

/// The worst faults for an agent: daemons that restart alone, daemons that hang, and a flow that other programs delete.
fn announced() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        let (az1, spine, hv1) = (lab.central("az1")?, lab.find("spine")?, lab.chassis("hv1")?);
        start(hv1)?;
        let announced = ["172.24.4.10", "172.24.4.100", "2001:db8:24::10"];
        announced.iter().try_for_each(|address| learns(&spine, address))?;
        let menu = Menu::new()
            .daemons("hv1", &["zebra", "bgp-agent", "ovsdb-server", "ovn-controller"])
            .hanging("hv1", &["bgpd", "zebra", "ovsdb-server"])
            .normal_flow("hv1", "br-ex")
            .hanging("az1", &["ovsdb-server-sb"])
            .link("lab", "ul-hv1");
        let chaos = Chaos::new(menu, SEED, HARMS, OVER)?;
        chaos.run(lab)?;
        let after = || -> Result<()> {
            az1.ready(&["vmp", "vmq"])?;
            for address in announced {
                learns(&spine, address)?;
                spine.reaches(address)?;
            }
            eventually(WELL, "the agent says that it is well", || {
                let status = ask(hv1, "status")?;
                ensure!(status.contains(", healthy, "), "{status}");
                Ok(())
            })
        };
        after().with_context(|| chaos.replay())
    })
}

fn chaos() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        let az1 = lab.central("az1")?;
        // A VM of another tenant, which uses the same addresses on a switch of its own.
        az1.write(|net| {
            net.switch("sw9").port("stranger", "02:00:00:00:00:66 10.0.0.66");
        })?;
        let stranger = lab.vm("stranger").on("hv2").mac("02:00:00:00:00:66").ip("10.0.0.66/24").plug()?;
        az1.ready(&["stranger"])?;
        let (vm1, vm2, ext) = (lab.find("vm1")?, lab.find("vm2")?, lab.find("ext")?);
        let strays = vm2.capture("eth0", "host 10.0.0.66")?;

        let mut trains =
            vec![vm1.ping_train("10.0.0.12")?, vm1.ping_train("10.0.1.13")?, ext.ping_train("172.24.4.110")?];
        trains.iter_mut().try_for_each(|train| train.rolls(5))?;
        let tries = stranger.ping_train("10.0.0.12")?;

        let menu = ["hv1", "hv2", "hv3"].into_iter().fold(
            Menu::new().daemons("az1", &["ovsdb-server-nb", "ovsdb-server-sb", "ovn-northd"]),
            |menu, name| {
                menu.daemons(name, &["ovsdb-server", "ovs-vswitchd", "ovn-controller"])
                    .link("lab", &format!("ul-{name}"))
            },
        );
        let chaos = Chaos::new(menu, SEED, HARMS, OVER)?;
        chaos.run(lab)?;

        let after = || -> Result<()> {
            for mut train in trains {
                train.now();
                train.rolls(10)?;
                train.end()?;
            }
            az1.ready(&["vm1", "vm2", "vm3", "stranger"])?;
            az1.lives_on("cr-lr0-public", "hv1")?;
            drop(tries);
            let strays = strays.packets(&vm2)?;
            ensure!(strays.is_empty(), "the other tenant's packets arrive at vm2: {strays:?}");
            Ok(())
        };
        after().with_context(|| chaos.replay())
    })
}
