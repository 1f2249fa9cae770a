//! Meridian beside OVN's own routing (25.03 and later), which has a VRF of its own and routes of protocol 84 for its announcements.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use lab::{Need, Test};
use node::plane::{self, Plane};
use reconcile::{Scope, Target};

use crate::guest::run;
use crate::plane::{base, expose, machine, net, open, runtime};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "native::scenario_39_what_ovn_announces_is_left_to_it",
        "a VRF of OVN's in our routing table keeps us from announcing, and an address that OVN announces is not announced twice",
        &[Need::Vrf, Need::Dummy],
        scenario_39,
    )]
}

/// Applies all steps until the plan is empty; returns the problems.
async fn act(plane: &mut Plane, want: &plane::Desired) -> Result<Vec<String>> {
    loop {
        let have = plane.observe(Scope::Full).await?;
        let plan = plane.plan(want, &BTreeSet::new(), &have);
        if plan.is_empty() {
            return Ok(plan.problems.iter().map(|problem| problem.to_string()).collect());
        }
        let applied = plane.apply(&plan).await?;
        ensure!(applied.results.len() == plan.steps.len(), "not every step was judged");
    }
}

fn announced() -> Result<bool> {
    Ok(run("ip -o addr show dev bgp-nic").unwrap_or_default().contains("172.24.4.10/32"))
}

fn scenario_39() -> Result<()> {
    machine()?;
    let mut want = base();
    expose(&mut want, net("172.24.4.10/32"), "br-ex");
    runtime()?.block_on(async {
        let mut plane = open()?;
        println!("a VRF of OVN's has our table:");
        run("ip link add ovnvrf10 type vrf table 10")?;
        run("ip link set ovnvrf10 up")?;
        let problems = act(&mut plane, &want).await?;
        let precise = "routing table 10 belongs to VRF ovnvrf10; choose another bgp_vrf_table_id";
        ensure!(problems.iter().any(|problem| problem.contains(precise)), "{problems:#?}");
        ensure!(!announced()?, "announced all the same");
        // The parts that need no VRF are in place.
        ensure!(run("ip rule")?.contains("to 172.24.4.10 lookup"), "the wiring waits for no reason");

        println!("it is gone:");
        run("ip link del ovnvrf10")?;
        let problems = act(&mut plane, &want).await?;
        ensure!(announced()?, "not announced: {problems:#?}");

        println!("OVN announces the address by itself, from a table of its own:");
        run("ip link add ovnvrf7 type vrf table 7")?;
        run("ip link set ovnvrf7 up")?;
        run("ip route add blackhole 172.24.4.10/32 table 7 proto 84 metric 100")?;
        let problems = act(&mut plane, &want).await?;
        ensure!(
            problems.iter().any(|problem| problem.contains("ovn-controller announces it from table 7")),
            "{problems:#?}"
        );
        ensure!(!announced()?, "announced twice");
        ensure!(run("ip route show table 7")?.contains("172.24.4.10"), "OVN's route is gone");

        println!("and no more:");
        run("ip route del blackhole 172.24.4.10/32 table 7 proto 84 metric 100")?;
        act(&mut plane, &want).await?;
        ensure!(announced()?, "not announced again");
        Ok(())
    })
}
