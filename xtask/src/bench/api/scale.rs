//! The growth of cost, latency and memory with the number of ports.

use anyhow::Result;
use central::Database;
use serde_json::{Value, json};

use super::Bench;
use super::asks;
use super::cloud::{Cloud, Ovn, Sql};
use super::load::{Load, Pace};
use super::report::Goal;

/// How many ports one network gets: what a /16 holds, with room to spare.
const PER_NETWORK: usize = 20_000;
/// The number of ports per request while the server is filled.
const BULK: usize = 200;
/// The number of rows that the server does not use.
const NEIGHBOURS: usize = 20_000;
/// The sizes up to which servers are started again.
const SMALL: usize = 10_000;

impl Bench<'_> {
    /// Measures at every size, on one server that grows; and, as what stays resident differs by a third from one server to the
    /// next, the smaller sizes on some more.
    pub(super) fn scale(&mut self) -> Result<()> {
        let (all, small) = (self.sizes.scale.clone(), |size: &usize| *size <= SMALL);
        for round in 1..self.rounds {
            self.grow(&format!("scale-{round}"), all.iter().copied().filter(small).collect())?;
        }
        let mut cloud = self.grow("scale", all)?;
        self.neighbours(&mut cloud)
    }

    /// Measures at some sizes, on one server that grows.
    fn grow(&mut self, dir: &str, sizes: Vec<usize>) -> Result<Cloud> {
        let sql = Sql::Sqlite;
        let mut cloud = Cloud::start(&self.program, &self.dir.join(dir), sql, Ovn::Databases)?;
        let mut load = Load::start(&self.load)?;
        load.ask(&cloud.url, asks::no_quota())?;
        let (mut there, mut networks) = (0, Vec::new());
        let (mut first, mut last) = (None, None);
        for size in sizes {
            crate::command::heading(&format!("{size} ports"));
            while there < size {
                let slot = there / PER_NETWORK;
                if networks.len() <= slot {
                    let made =
                        load.run(&cloud.url, Pace::clients(1), &[asks::network(slot)])?.all_well()?.ids();
                    load.run(&cloud.url, Pace::clients(1), &[asks::subnet(slot, &made[0])])?.all_well()?;
                    networks.extend(made);
                }
                let end = size.min((slot + 1) * PER_NETWORK);
                let bulks: Vec<_> = (there..end)
                    .step_by(BULK)
                    .map(|from| asks::ports(from..end.min(from + BULK), &networks[slot]))
                    .collect();
                load.run(&cloud.url, Pace::clients(2), &bulks)?.all_well()?;
                there = end;
            }
            cloud.settle()?;
            let goal = match size {
                10_000 => Some(Goal::AtMost(150.0)),
                100_000 => Some(Goal::AtMost(1000.0)),
                _ => None,
            };
            self.report.add(sql, &format!("G6 resident with {size} ports"), "MB", cloud.megabytes()?, goal);
            // On a network of their own, so that every size is asked the same.
            let network =
                load.run(&cloud.url, Pace::clients(1), &[asks::network(200 + size % 50)])?.all_well()?.ids();
            load.run(&cloud.url, Pace::clients(1), &[asks::subnet(200, &network[0])])?.all_well()?;
            let mut best: Option<(f64, f64, f64)> = None;
            for _ in 0..self.rounds {
                let ports: Vec<_> = (0..self.sizes.ports / 2).map(|n| asks::port(n, &network[0])).collect();
                cloud.settle()?;
                let before = cloud.cpu()?;
                let ran = load.run(&cloud.url, Pace::clients(1), &ports)?.all_well()?;
                cloud.settle()?;
                let cpu = (cloud.cpu()? - before) * 1e3 / ports.len() as f64;
                let (median, p99) = ran.latency()?;
                let least = |known: f64, now: f64| known.min(now);
                best = Some(best.map_or((cpu, median, p99), |(a, b, c)| {
                    (least(a, cpu), least(b, median), least(c, p99))
                }));
                let shows: Vec<_> = ran.ids().iter().map(|id| asks::get(&format!("ports/{id}"))).collect();
                let shown = load.run(&cloud.url, Pace::clients(1), &shows)?.all_well()?;
                let what = format!("show port with {size}");
                self.report.add(sql, &what, "median ms", shown.latency()?.0, None);
            }
            let Some((cpu, median, p99)) = best else { continue };
            let what = format!("G5 create port with {size}");
            let goal = (size == 10_000).then_some(Goal::AtMost(25.0));
            self.report.add(sql, &what, "CPU ms", cpu, None);
            self.report.add(sql, &what, "median ms", median, None);
            self.report.add(sql, &what, "99th % ms", p99, goal);
            first = first.or(Some((size, cpu, median)));
            last = Some((size, cpu, median));
        }
        if let (Some((small, cpu_small, median_small)), Some((large, cpu_large, median_large))) =
            (first, last)
            && small < large
        {
            let what = format!("G5 create port, {large} ports against {small}");
            let flat = Some(Goal::AtMost(1.2));
            self.report.add(sql, &what, "times the median", median_large / median_small, flat);
            self.report.add(sql, &what, "times the CPU", cpu_large / cpu_small, None);
        }
        Ok(cloud)
    }

    /// Rows that OVN learns and that the server does not use cost no memory.
    fn neighbours(&mut self, cloud: &mut Cloud) -> Result<()> {
        let mut sb = cloud.rpc(Database::Southbound)?;
        let datapath = "11111111-1111-4111-8111-111111111111";
        let database = Database::Southbound.name();
        let row = json!({"tunnel_key": 1_000_000});
        sb.transact(
            database,
            vec![json!({"op": "insert", "table": "Datapath_Binding", "uuid": datapath, "row": row})],
        )?;
        let what = format!("G6 more resident with {NEIGHBOURS} MAC_Binding rows");
        // A large server that looks at everything meanwhile, as it does now and then, needs some for that.
        for round in 0..self.rounds {
            cloud.settle()?;
            let before = cloud.megabytes()?;
            for from in (0..NEIGHBOURS).step_by(1000) {
                let insert = |n: usize| -> Value {
                    let row = json!({
                        "logical_port": format!("learned{n}"), "ip": format!("10.{round}.{}.{}", n / 256, n % 256),
                        "mac": "0a:00:00:00:00:01", "datapath": ["uuid", datapath],
                    });
                    json!({"op": "insert", "table": "MAC_Binding", "row": row})
                };
                sb.transact(database, (from..from + 1000).map(insert).collect())?;
            }
            cloud.settle()?;
            let more = (cloud.megabytes()? - before).max(0.0);
            self.report.add(Sql::Sqlite, &what, "MB", more, Some(Goal::AtMost(1.0)));
        }
        Ok(())
    }
}
