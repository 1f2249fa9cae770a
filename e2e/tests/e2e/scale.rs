//! The agent in a large cloud: twenty thousand port bindings, of which two thousand are bound here.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::chassis::Chassis;
use lab::rpc::Rpc;
use lab::{Need, Test, eventually, meter};

use crate::agent::{Monitor, ask};
use crate::weigh::on_a_node;
use crate::weigh::rows::{fill, ports};

/// The number of ports bound here, and the number bound elsewhere.
const HERE: usize = 2_000;
const ELSEWHERE: usize = 18_000;
/// The number of compared addresses.
const SAMPLES: usize = 200;
/// The limit of what an agent keeps in memory, in MiB.
const MEMORY: f64 = 24.0;
/// The agent's time limit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "scale::scenario_34_both_rule_modes_reach_the_same",
            "of 20,000 port bindings the 2,000 of this node are exposed, alike by a rule each and by one for all; looking again changes nothing",
            &[Need::Vrf, Need::Dummy],
            scenario_34,
        )
        .meridian()
        .memory(1024),
    ]
}

fn configure(hv1: &Chassis, mode: &str) -> Result<String> {
    let dir = hv1.dir().display();
    let config = format!(
        "[DEFAULT]\nreconcile_interval = 2\nbgp_router_id = 172.30.1.1\novsdb_connection = unix:{dir}/db.sock\n\
         ovs_rundir = {dir}\nfrr_vty_dir = /run/frr/hv1\nrt_tables = {dir}/rt_tables\nadmin_socket = {dir}/agent.sock\n\
         rule_mode = {mode}\n[ovn]\novn_sb_connection = unix:/run/az1/sb.sock\n"
    );
    let path = hv1.dir().join("bgp-agent.conf");
    fs::write(&path, config).context("cannot write the configuration")?;
    Ok(path.display().to_string())
}

/// The kernel's routes to some of the addresses, and to one that is not exposed.
fn reached(hv1: &Chassis) -> Result<String> {
    let some = ports(HERE).step_by(HERE / SAMPLES).map(|ip| format!("route get {ip}\n"));
    let batch: String = some.chain(["route get 172.25.30.1\n".to_owned()]).collect();
    let path = hv1.dir().join("lookups");
    fs::write(&path, batch).context("cannot write the lookups")?;
    // The one that is not exposed has no route, which ends in a complaint for that line alone.
    hv1.run_args(&["sh", "-c", &format!("ip -force -batch {} 2>&1 || true", path.display())])
}

/// Waits until everything is in place, and prints the number of objects.
fn settled(hv1: &Chassis) -> Result<()> {
    eventually(PATIENCE, "all is in place", || {
        let status = ask(hv1, "status")?;
        ensure!(status.contains("bgp: converged"), "{status}");
        let announced = hv1.run("ip -o -4 address show dev bgp-nic")?.lines().count();
        ensure!(announced == HERE, "{announced} addresses are announced");
        Ok(())
    })
}

fn scenario_34() -> Result<()> {
    on_a_node(false, |az1, hv1, me| {
        fill(&mut Rpc::connect(&az1.dir().join("sb.sock"))?, HERE, ELSEWHERE, &me)?;
        let path = configure(hv1, "per-ip")?;
        let agent = hv1.meridian("bgp-agent", &["bgp-agent", "--config-file", &path])?;
        settled(hv1)?;
        let status = ask(hv1, "status")?;
        ensure!(
            status.contains("many-rules") || status.contains("rule_mode"),
            "no word about many rules:\n{status}"
        );
        let per_ip = reached(hv1)?;
        ensure!(per_ip.matches("dev br-ex table 201").count() == SAMPLES, "{per_ip}");
        let memory = meter::data_mib(agent.pid().context("the agent has ended")?)?;
        ensure!(memory < MEMORY, "the agent keeps {memory:.0} MiB");

        println!("it looks again, and has nothing to do:");
        let monitor = Monitor::start(hv1)?;
        std::thread::sleep(Duration::from_secs(6));
        let told = monitor.told();
        ensure!(!told.contains("172.25."), "something was changed:\n{told}");

        println!("one rule for all:");
        agent.stop(PATIENCE)?;
        configure(hv1, "aggregate")?;
        agent.start_again()?;
        eventually(PATIENCE, "the rules are gone", || {
            let rules = hv1.run("ip rule")?;
            ensure!(!rules.contains("to 172.25."), "{} rules are left", rules.lines().count());
            Ok(())
        })?;
        settled(hv1)?;
        ensure!(reached(hv1)? == per_ip, "other ways than with a rule each:\n{}", reached(hv1)?);
        Ok(())
    })
}
