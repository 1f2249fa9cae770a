//! The cost of each operation, alone and under concurrency, on a server with its own OVN central.

use anyhow::{Context, Result};
use central::Database;

use super::asks;
use super::cloud::{Cloud, Ovn, Sql};
use super::load::{Load, Pace, Ran, Request};
use super::report::{Goal, RATE};
use super::{Bench, EXTERNALS};

/// The cost in Neutron 29, from issue 4: CPU milliseconds of its API workers, minimum and maximum.
const NEUTRON: [(&str, (f64, f64)); 7] = [
    (NETWORK, (535.0, 650.0)),
    (PORT, (180.0, 276.0)),
    (ROUTER, (92.0, 102.0)),
    (INTERFACE, (650.0, 1140.0)),
    (GATEWAYS, (1320.0, 1500.0)),
    (SHOW, (18.0, 18.0)),
    (LIST, (710.0, 710.0)),
];
/// Ours is to be at most this share of the least of it.
const SHARE: f64 = 0.01;

pub(super) const NETWORK: &str = "create network and subnet";
pub(super) const PORT: &str = "create port";
pub(super) const ROUTER: &str = "create router";
pub(super) const INTERFACE: &str = "add router interface";
pub(super) const GATEWAYS: &str = "add two gateways";
pub(super) const SHOW: &str = "show port";
const LIST: &str = "list 1,000 ports";

/// The numbers of concurrent clients for throughput, and the repetitions of each.
const CLIENTS: [usize; 3] = [1, 2, 8];
const TURNS: usize = 4;

const CPU: &str = "CPU ms";
const MEDIAN: &str = "median ms";
const P99: &str = "99th % ms";

/// Milliseconds of CPU that are Neutron's share for us.
fn goal(what: &str) -> Option<Goal> {
    let (_, (least, _)) = NEUTRON.iter().find(|(name, _)| *name == what)?;
    Some(Goal::AtMost((least * SHARE * 1000.0).round() / 1000.0))
}

/// A run and the CPU seconds it took, until the Northbound was written too.
struct Cost {
    ran: Ran,
    cpu: f64,
}

fn cost(cloud: &mut Cloud, load: &mut Load, pace: Pace, requests: &[Request]) -> Result<Cost> {
    cloud.settle()?;
    let before = cloud.cpu()?;
    let ran = load.run(&cloud.url, pace, requests)?.all_well()?;
    cloud.settle()?;
    Ok(Cost { ran, cpu: cloud.cpu()? - before })
}

impl Bench<'_> {
    /// One round of everything on a fresh server.
    pub(super) fn operations(&mut self, sql: Sql, round: usize) -> Result<()> {
        let dir = self.dir.join(format!("{sql:?}-{round}").to_lowercase());
        let mut cloud = Cloud::start(&self.program, &dir, sql, Ovn::Dev)?;
        let mut load = Load::start(&self.load)?;
        let (cloud, load) = (&mut cloud, &mut load);
        load.ask(&cloud.url, asks::no_quota())?;
        cloud.add_chassis(1..4)?;
        let externals = self.externals(&cloud.url, load)?;
        let few = self.sizes.few;

        let networks: Vec<_> = (0..few).map(asks::network).collect();
        let networks = cost(cloud, load, Pace::clients(1), &networks)?;
        let ids = networks.ran.ids();
        let subnets: Vec<_> = ids.iter().enumerate().map(|(n, id)| asks::subnet(n, id)).collect();
        let subnets = cost(cloud, load, Pace::clients(1), &subnets)?;
        let cpu = networks.cpu + subnets.cpu;
        let (a, b) = (networks.ran.latency()?, subnets.ran.latency()?);
        self.add_cost(sql, NETWORK, cpu / few as f64, (a.0 + b.0, a.1 + b.1));

        let network = ids.first().context("no network")?.clone();
        let ports: Vec<_> = (0..self.sizes.ports).map(|n| asks::port(n, &network)).collect();
        let ports = cost(cloud, load, Pace::clients(1), &ports)?;
        self.add(sql, PORT, &ports)?;
        let port_ids = ports.ran.ids();

        let routers: Vec<_> = (0..few).map(asks::router).collect();
        let routers = cost(cloud, load, Pace::clients(1), &routers)?;
        self.add(sql, ROUTER, &routers)?;
        let router_ids = routers.ran.ids();
        let subnet_ids = subnets.ran.ids();
        let interfaces: Vec<_> = router_ids
            .iter()
            .zip(&subnet_ids)
            .map(|(router, subnet)| asks::interface(router, subnet))
            .collect();
        let interfaces = cost(cloud, load, Pace::clients(1), &interfaces)?;
        self.add(sql, INTERFACE, &interfaces)?;
        let gateways: Vec<_> =
            router_ids.iter().map(|router| asks::gateways(router, &externals[..2])).collect();
        let gateways = cost(cloud, load, Pace::clients(1), &gateways)?;
        self.add(sql, GATEWAYS, &gateways)?;

        let shows: Vec<_> = port_ids.iter().map(|id| asks::get(&format!("ports/{id}"))).collect();
        let shows = cost(cloud, load, Pace::clients(1), &shows)?;
        self.add(sql, SHOW, &shows)?;
        let lists: Vec<_> =
            (0..20).map(|_| asks::get(&format!("ports?network_id={network}&limit=1000"))).collect();
        let lists = cost(cloud, load, Pace::clients(1), &lists)?;
        self.add(sql, LIST, &lists)?;
        self.report.add(sql, "resident with 1,000 ports", "MB", cloud.megabytes()?, Some(Goal::AtMost(40.0)));

        self.visible(sql, cloud, load, &network)?;
        self.throughput(sql, cloud, load, &network)
    }

    /// When the row of a port is in the Northbound.
    fn visible(&mut self, sql: Sql, cloud: &mut Cloud, load: &mut Load, network: &str) -> Result<()> {
        load.watch(&cloud.remote(Database::Northbound))?;
        let requests = |count: usize| -> Vec<_> { (0..count).map(|n| asks::port(n, network)).collect() };
        let at_rest = Pace { clients: 1, rate: Some(20.0), see: true };
        let ran = load.run(&cloud.url, at_rest, &requests(self.sizes.ports.min(100)))?.all_well()?;
        let (median, p99) = ran.after_answer()?;
        let what = "Northbound row after the answer, at rest";
        self.report.add(sql, what, MEDIAN, median, Some(Goal::AtMost(5.0)));
        self.report.add(sql, what, P99, p99, None);
        let what = "Northbound row after the request, at rest";
        let (median, p99) = ran.after_request()?;
        self.report.add(sql, what, MEDIAN, median, None);
        self.report.add(sql, what, P99, p99, None);
        self.report.neutron(what, MEDIAN, (172.0, 172.0));
        cloud.settle()?;
        let busy = Pace { clients: 8, rate: Some(200.0), see: true };
        let ran = load.run(&cloud.url, busy, &requests(self.sizes.ports))?.all_well()?;
        let (median, p99) = ran.after_request()?;
        let what = "G4 Northbound row after the request, 200 requests/s";
        self.report.add(sql, what, MEDIAN, median, Some(Goal::AtMost(30.0)));
        self.report.add(sql, what, P99, p99, Some(Goal::AtMost(100.0)));
        Ok(())
    }

    /// Ports created per second, by number of clients. The numbers take turns, up and down, because ovn-northd shares the
    /// machine and gets slower with every port: each number of clients should meet the same number of ports.
    fn throughput(&mut self, sql: Sql, cloud: &mut Cloud, load: &mut Load, network: &str) -> Result<()> {
        let requests: Vec<_> =
            (0..self.sizes.ports.div_ceil(TURNS)).map(|n| asks::port(n, network)).collect();
        let mut seconds = CLIENTS.map(|_| 0.0);
        for turn in 0..TURNS {
            let mut slots: Vec<_> = CLIENTS.into_iter().zip(&mut seconds).collect();
            if turn % 2 == 1 {
                slots.reverse();
            }
            for (clients, seconds) in slots {
                *seconds += cost(cloud, load, Pace::clients(clients), &requests)?.ran.seconds;
            }
        }
        let rates = seconds.map(|seconds| (requests.len() * TURNS) as f64 / seconds);
        for (clients, rate) in CLIENTS.into_iter().zip(rates) {
            let what = format!("create port, {clients} {}", if clients == 1 { "client" } else { "clients" });
            self.report.add(sql, &what, RATE, rate, None);
            if clients == 8 {
                self.report.neutron(&what, RATE, (8.0, 10.0));
            }
        }
        let growth = Some(Goal::AtLeast(1.0));
        self.report.add(sql, "rate with a second client", "times", rates[1] / rates[0], growth);
        Ok(())
    }

    fn add(&mut self, sql: Sql, what: &str, cost: &Cost) -> Result<()> {
        let latency = cost.ran.latency()?;
        self.add_cost(sql, what, cost.cpu / cost.ran.answers.len() as f64, latency);
        Ok(())
    }

    fn add_cost(&mut self, sql: Sql, what: &str, cpu: f64, (median, p99): (f64, f64)) {
        self.report.add(sql, what, CPU, cpu * 1e3, goal(what));
        self.report.add(sql, what, MEDIAN, median, None);
        self.report.add(sql, what, P99, p99, None);
        if let Some((_, range)) = NEUTRON.iter().find(|(name, _)| *name == what) {
            self.report.neutron(what, CPU, *range);
        }
    }

    /// Creates the external networks.
    pub(super) fn externals(&mut self, url: &str, load: &mut Load) -> Result<Vec<String>> {
        let requests: Vec<_> = (0..EXTERNALS).map(asks::external).collect();
        let ids = load.run(url, Pace::clients(1), &requests)?.all_well()?.ids();
        let subnets: Vec<_> = ids.iter().enumerate().map(|(n, id)| asks::external_subnet(n, id)).collect();
        load.run(url, Pace::clients(1), &subnets)?.all_well()?;
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_a_hundredth() {
        assert_eq!(goal(PORT), Some(Goal::AtMost(1.8)));
        assert_eq!(goal(SHOW), Some(Goal::AtMost(0.18)));
        assert_eq!(goal("something else"), None);
    }
}
