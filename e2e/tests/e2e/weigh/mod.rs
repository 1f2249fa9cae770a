//! The cost and speed of a BGP agent on a node with a given number of ports, for `cargo xtask bench bgp`.
//!
//! The test starts a chassis and a central, stops OVN's own daemons, and writes the ports' rows to the Southbound as ovn-northd and
//! ovn-controller would. So it measures the agent, not how fast OVN binds ports. Meridian's agent and ovn-bgp-agent are measured alike, by
//! the clock and the kernel's accounting of processes, with the same configuration file. Each line that begins with `measured` is a result.

mod agent;
mod ear;
pub(crate) mod rows;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::meter::percentile;
use lab::node::central::Central;
use lab::node::chassis::Chassis;
use lab::rpc::Rpc;
use lab::{Test, Topology, chassis};
use ovn::sb;
use serde::Deserialize;
use serde_json::json;

use agent::{Agent, Who};
use ear::{Ear, What};
use rows::{SPARES, ports, spare};

/// The time limit of a step. The slower agent needs minutes for a thousand ports.
const PATIENCE: Duration = Duration::from_secs(1500);
/// How long an agent is left idle after its work, before its memory is measured.
const SETTLE: Duration = Duration::from_secs(3);
/// The time limit of a repair.
const REPAIR: Duration = Duration::from_secs(20);
/// The number of route lookups.
const LOOKUPS: u32 = 1000;

/// The parameters of a measurement, in `LAB_BENCH`.
#[derive(Debug, Deserialize)]
struct Order {
    who: Who,
    /// The number of exposed ports.
    ports: usize,
    /// `rule_mode`, which only ours has.
    rule_mode: String,
    /// Whether FRR runs.
    frr: bool,
    /// The number of times that one more port is bound and unbound.
    changes: usize,
    /// The number of seconds for which an idle agent is measured.
    idle: u64,
    /// The number of full resyncs, and the interval between them.
    resyncs: usize,
    interval: u64,
}

pub(crate) fn fixture() -> Test {
    Test::fixture("fixture::weigh", run).meridian().ovn_bgp_agent().within(PATIENCE).memory(1024)
}

fn measured(what: &str, measure: &str, value: f64) {
    println!("measured {}", json!({ "what": what, "measure": measure, "value": value }));
}

fn run() -> Result<()> {
    let order = std::env::var("LAB_BENCH").context("LAB_BENCH says what to weigh")?;
    let order: Order = serde_json::from_str(&order).context("LAB_BENCH is not understood")?;
    on_a_node(order.frr, |az1, hv1, me| {
        let mut southbound = Rpc::connect(&az1.dir().join("sb.sock"))?;
        rows::fill(&mut southbound, order.ports, 0, &me)?;
        let mut weighing = Weighing { hv1, southbound, me, order: &order };
        weighing.floor(Rpc::connect(&az1.dir().join("sb.sock"))?)?;
        weighing.all()
    })
}

/// Brings up a chassis and a central, ends OVN's daemons on them, and hands them over with the chassis' row.
pub(crate) fn on_a_node(
    frr: bool,
    work: impl FnOnce(&Central, &Chassis, String) -> Result<()>,
) -> Result<()> {
    Topology::new().central("az1").chassis(chassis("hv1").bridge_mapping("physnet", "br-ex")).run(|lab| {
        let (az1, hv1) = (lab.central("az1")?, lab.chassis("hv1")?);
        let me = az1.sb().until(PATIENCE, "OVN knows the chassis", |snapshot| {
            let mut all = snapshot.table::<sb::Chassis>().iter();
            all.find(|(_, row)| row.name == "hv1").map(|(row, _)| row.uuid())
        })?;
        hv1.daemon("ovn-controller")?.kill()?;
        az1.daemon("ovn-northd")?.kill()?;
        // The writes below must wake no client but the agents.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(az1.sb().client().close());
        patch_port(hv1, 5)?;
        if frr {
            let config = "router bgp 64999\n bgp router-id 172.30.1.1\n no bgp ebgp-requires-policy\nexit\n";
            hv1.frr(&["bgpd"], config)?;
        }
        hv1.sysctl("net.ipv4.ip_forward", "1")?;
        hv1.sysctl("net.ipv6.conf.all.forwarding", "1")?;
        work(az1, hv1, me.to_string())
    })
}

/// Creates the patch ports that ovn-controller creates for a provider network with a port here. The port on the bridge's side has this
/// number.
pub(crate) fn patch_port(hv: &Chassis, ofport: u16) -> Result<()> {
    let (ours, theirs) = ("patch-provnet-1-to-br-int", "patch-br-int-to-provnet-1");
    let db = format!("--db=unix:{}/db.sock", hv.dir().display());
    let end = |bridge: &str, port: &str, peer: &str| {
        format!(
            "add-port {bridge} {port} -- set interface {port} type=patch options:peer={peer} -- set port {port} \
             external_ids:ovn-localnet-port=provnet-1"
        )
    };
    let number = format!("set interface {ours} ofport_request={ofport}");
    let both = format!("{} -- {}", end("br-ex", ours, theirs), end("br-int", theirs, ours));
    hv.run(&format!("ovs-vsctl {db} {both} -- {number}")).map(|_| ())
}

/// The delay before the n-th change. It varies, so that changes do not coincide with the agent's timers.
fn pause(n: usize) -> Duration {
    Duration::from_millis(15 + (n as u64 * 7) % 11)
}

struct Weighing<'a> {
    hv1: &'a Chassis,
    southbound: Rpc,
    me: String,
    order: &'a Order,
}

impl<'a> Weighing<'a> {
    fn all(&mut self) -> Result<()> {
        let ear = Ear::open(self.hv1, &[ear::ADDRESSES])?;
        let agent = self.start_up(&ear)?;
        std::thread::sleep(SETTLE);
        measured("memory", "MiB", agent.memory()?);
        self.idle(&agent)?;
        self.changes(&agent, &ear)?;
        if self.order.who == Who::Meridian {
            self.repairs().with_context(|| agent.last_words())?;
        }
        measured("a route looked up", "us", ear::lookup(self.hv1, LOOKUPS)?.as_secs_f64() * 1e6);
        agent.end()?;
        self.resyncs()
    }

    /// Measures the lower bound for any agent: the same changes, sent to a client that ignores them.
    fn floor(&mut self, mut client: Rpc) -> Result<()> {
        client.call("monitor", rows::watch())?;
        let mut times = Vec::new();
        for n in 0..self.order.changes {
            for chassis in [Some(&self.me), None] {
                std::thread::sleep(pause(n));
                let begin = Instant::now();
                self.southbound.send("transact", rows::bind(n % SPARES, chassis))?;
                client.told()?;
                times.push(begin.elapsed().as_secs_f64() * 1e3);
                self.southbound.receive()?;
            }
        }
        if let Some(median) = percentile(&mut times, 0.5) {
            measured("a change told to a client", "p50 ms", median);
        }
        Ok(())
    }

    /// Measures the time from an empty node to all addresses announced.
    fn start_up(&self, ear: &Ear) -> Result<Agent<'a>> {
        let begin = Instant::now();
        let agent = Agent::start(self.hv1, self.order, None)?;
        let mut missing: BTreeSet<Ipv4Addr> = ports(self.order.ports).collect();
        let mut last = begin;
        while !missing.is_empty() {
            let event = ear.next(PATIENCE).with_context(|| {
                format!(
                    "{} of {} addresses are not announced: {}",
                    missing.len(),
                    self.order.ports,
                    agent.last_words()
                )
            })?;
            if let What::Address(ip) = event.what {
                missing.remove(&ip);
                last = event.at;
            }
        }
        measured("start-up sync", "wall s", (last - begin).as_secs_f64());
        measured("start-up sync", "CPU s", agent.cpu()?);
        Ok(agent)
    }

    fn idle(&self, agent: &Agent<'_>) -> Result<()> {
        let (before, begin) = (agent.cpu()?, Instant::now());
        std::thread::sleep(Duration::from_secs(self.order.idle));
        let share = (agent.cpu()? - before) / begin.elapsed().as_secs_f64();
        measured("idle", "CPU ms/s", share * 1e3);
        Ok(())
    }

    /// Binds one more port and unbinds it again. Measures the time from sending the change to the kernel's notification about the address.
    fn changes(&mut self, agent: &Agent<'_>, ear: &Ear) -> Result<()> {
        let before = agent.cpu()?;
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        for n in 0..self.order.changes {
            let ip = spare(n % SPARES);
            for (bound, want, times) in
                [(true, What::Address(ip), &mut there), (false, What::Gone(ip), &mut gone)]
            {
                std::thread::sleep(pause(n));
                let begin = Instant::now();
                self.southbound.send("transact", rows::bind(n % SPARES, bound.then_some(&self.me)))?;
                let at = ear.until(PATIENCE, want).with_context(|| agent.last_words())?;
                times.push((at - begin).as_secs_f64() * 1e3);
                self.southbound.receive()?;
            }
        }
        let cpu = (agent.cpu()? - before) / (2 * self.order.changes) as f64;
        for (what, times) in [("binding to address", &mut there), ("unbinding to withdrawal", &mut gone)] {
            measured(what, "p50 ms", percentile(times, 0.5).context("no changes")?);
            measured(what, "p99 ms", percentile(times, 0.99).context("no changes")?);
        }
        measured("binding or unbinding", "CPU ms", cpu * 1e3);
        Ok(())
    }

    /// Deletes objects of the agent, and measures the time until they are back.
    fn repairs(&self) -> Result<()> {
        let ear = Ear::open(self.hv1, &[ear::ADDRESSES, ear::RULES])?;
        let ip = ports(1).next().context("no ports")?;
        self.hv1.run(&format!("ip address del {ip}/32 dev bgp-nic"))?;
        let took = ear.between(REPAIR, What::Gone(ip), What::Address(ip))?;
        measured("repair of an address", "ms", took.as_secs_f64() * 1e3);
        if self.order.rule_mode == "per-ip" {
            self.hv1.run(&format!("ip rule del to {ip} pref 32000"))?;
            let took = ear.between(REPAIR, What::RuleGone(ip), What::Rule(ip))?;
            measured("repair of a rule", "ms", took.as_secs_f64() * 1e3);
        }
        Ok(())
    }

    /// Measures repeated full resyncs without any change.
    fn resyncs(&self) -> Result<()> {
        if self.order.resyncs == 0 {
            return Ok(());
        }
        let agent = Agent::start(self.hv1, self.order, Some(self.order.interval))?;
        // The first ones are those of the start.
        agent.resynced(3, PATIENCE)?;
        let (before, from) = (agent.cpu()?, agent.resyncs()?);
        agent.resynced(from + self.order.resyncs, PATIENCE)?;
        let (cpu, count) = (agent.cpu()? - before, agent.resyncs()? - from);
        ensure!(count > 0, "it did not look again");
        measured("resync with nothing to do", "CPU ms", cpu * 1e3 / count as f64);
        if let Some(seconds) = agent.last_look()? {
            measured("resync with nothing to do", "wall ms", seconds * 1e3);
        }
        agent.end()
    }
}
