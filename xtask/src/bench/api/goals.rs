//! The goals that need a large world or a broken one: idempotence, rebuild, minimal changes, failover, crashes, outages.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use central::Database;
use serde_json::{Value, json};

use super::asks;
use super::cloud::{Cloud, Ovn, Sql};
use super::load::{Load, Pace};
use super::report::Goal;
use super::{Bench, EXTERNALS};
use crate::bench::journal::{Journal, Rows};
use crate::command::{heading, output};

/// Where all of this is measured.
const SQL: Sql = Sql::Sqlite;
/// The number of objects per request while the world is built.
const BULK: usize = 100;
/// Ports on each router's network.
const PORTS: usize = 10;
/// The number of requests while the Northbound is away.
const AWAY: usize = 50;
/// The number of kills before a server is replaced by a new one. After each kill the benchmark checks all of its ports.
const KILLS: usize = 50;

/// A server and its objects.
struct World {
    cloud: Cloud,
    load: Load,
    externals: Vec<String>,
    networks: Vec<String>,
    routers: Vec<String>,
    barriers: usize,
}

impl World {
    /// Waits until the Northbound has everything.
    fn written(&mut self) -> Result<()> {
        self.barriers += 1;
        self.load.ask(&self.cloud.url, asks::barrier(self.barriers))?;
        Ok(())
    }

    /// Runs a function and returns the resulting transactions.
    fn transactions(&mut self, request: super::load::Request) -> Result<Vec<Rows>> {
        self.written()?;
        self.cloud.settle()?;
        let mut journal = Journal::from_here(&self.cloud.file(Database::Northbound, "db"))?;
        self.load.ask(&self.cloud.url, request)?;
        journal.wait()?;
        journal.read()
    }
}

impl Bench<'_> {
    /// All of them, one after another on one large world.
    pub(super) fn goals(&mut self) -> Result<()> {
        self.size_and_start()?;
        let mut world = self.world()?;
        self.idempotence(&mut world)?;
        self.restart(&mut world)?;
        self.rebuild(&mut world)?;
        let foreign = Foreign::plant(&world)?;
        self.minimal(&mut world)?;
        self.outage(&mut world)?;
        self.failover(&mut world)?;
        let changed = foreign.changed(&world)?;
        self.report.add(
            SQL,
            "G10 rows of others that were touched",
            "rows",
            changed as f64,
            Some(Goal::AtMost(0.0)),
        );
        drop(world);
        self.kills()
    }

    /// G11: how large the binary is, and how soon an empty server listens.
    fn size_and_start(&mut self) -> Result<()> {
        heading("size and start");
        let stripped = self.dir.join("stripped");
        output(std::process::Command::new("strip").arg("-o").arg(&stripped).arg(&self.program))?;
        let size = std::fs::metadata(&stripped)?.len() as f64 / 1e6;
        self.report.add(SQL, "G11 binary without symbols", "MB", size, Some(Goal::AtMost(30.0)));
        let mut cloud = Cloud::start(&self.program, &self.dir.join("empty"), SQL, Ovn::Databases)?;
        for _ in 0..self.rounds.max(2) {
            cloud.kill()?;
            cloud.again()?;
            let ready = cloud.ready.as_secs_f64() * 1e3;
            self.report.add(SQL, "G11 start to ready, empty", "ms", ready, Some(Goal::AtMost(500.0)));
        }
        Ok(())
    }

    /// Routers with three gateways and an interface each, ten ports on the network of each.
    fn world(&mut self) -> Result<World> {
        let count = self.sizes.routers;
        heading(&format!("{count} routers with {EXTERNALS} gateways and {} ports", count * PORTS));
        let cloud = Cloud::start(&self.program, &self.dir.join("world"), SQL, Ovn::Databases)?;
        let mut load = Load::start(&self.load)?;
        load.ask(&cloud.url, asks::no_quota())?;
        cloud.add_chassis(1..6)?;
        let externals = self.externals(&cloud.url, &mut load)?;
        let mut bulk = |path: &'static str, objects: Vec<Value>| -> Result<Vec<String>> {
            let requests: Vec<_> = objects.chunks(BULK).map(|chunk| asks::many(path, chunk)).collect();
            Ok(load.run(&cloud.url, Pace::clients(1), &requests)?.all_well()?.ids())
        };
        let networks = bulk("networks", (0..count).map(|n| json!({"name": format!("net{n}")})).collect())?;
        let subnets = networks.iter().enumerate().map(|(n, id)| asks::small_subnet(n, id)).collect();
        let subnets = bulk("subnets", subnets)?;
        let routers = bulk("routers", (0..count).map(asks::router_of).collect())?;
        let ports = networks.iter().flat_map(|id| std::iter::repeat_n(json!({"network_id": id}), PORTS));
        bulk("ports", ports.collect())?;
        let mut links: Vec<_> =
            routers.iter().zip(&subnets).map(|(router, subnet)| asks::interface(router, subnet)).collect();
        links.extend(routers.iter().map(|router| asks::gateways(router, &externals)));
        load.run(&cloud.url, Pace::clients(8), &links)?.all_well()?;
        let mut world = World { cloud, load, externals, networks, routers, barriers: 0 };
        world.written()?;
        world.cloud.settle()?;
        Ok(world)
    }

    /// G1: a full pass with nothing to do.
    fn idempotence(&mut self, world: &mut World) -> Result<()> {
        heading("nothing to do");
        for _ in 0..self.rounds.max(2) {
            let (begin, before) = (Instant::now(), world.cloud.cpu()?);
            let plans = world.cloud.plan()?;
            let wall = begin.elapsed().as_secs_f64() * 1e3;
            let steps: usize = plans
                .as_array()
                .context("`meridian plan` gives no list")?
                .iter()
                .map(|plan| plan["steps"].as_array().map_or(0, Vec::len))
                .sum();
            let what = "G1 full pass, nothing to do";
            self.report.add(SQL, what, "ms", wall, Some(Goal::AtMost(500.0)));
            self.report.add(SQL, what, "CPU ms", (world.cloud.cpu()? - before) * 1e3, None);
            self.report.add(SQL, what, "operations", steps as f64, Some(Goal::AtMost(0.0)));
        }
        Ok(())
    }

    /// G11: how soon a server with much in it listens again; G1: that it then writes nothing but its generation.
    fn restart(&mut self, world: &mut World) -> Result<()> {
        heading("start with much in it");
        for _ in 0..self.rounds {
            let mut journal = Journal::from_here(&world.cloud.file(Database::Northbound, "db"))?;
            world.cloud.kill()?;
            world.cloud.again()?;
            let ready = world.cloud.ready.as_secs_f64() * 1e3;
            self.report.add(SQL, "G11 start to ready, 10,000 ports", "ms", ready, Some(Goal::AtMost(5000.0)));
            journal.wait()?;
            world.cloud.settle()?;
            let rows: usize = journal
                .read()?
                .iter()
                .flatten()
                .filter(|(table, _)| *table != "NB_Global")
                .map(|(_, n)| n)
                .sum();
            let what = "G1 rows written by a start, nothing to do";
            self.report.add(SQL, what, "rows", rows as f64, Some(Goal::AtMost(0.0)));
        }
        Ok(())
    }

    /// G2: the Northbound is lost and returns empty.
    fn rebuild(&mut self, world: &mut World) -> Result<()> {
        heading("an empty Northbound");
        let before = contents(&world.cloud)?;
        let file = world.cloud.file(Database::Northbound, "db");
        world.cloud.stop_northbound();
        std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        let cpu = world.cloud.cpu()?;
        world.cloud.start_northbound()?;
        let mut journal = Journal::from_here(&file)?;
        let begin = Instant::now();
        // northd, which is not here, would make this row.
        world.cloud.rpc(Database::Northbound)?.transact(
            Database::Northbound.name(),
            vec![json!({"op": "insert", "table": "NB_Global", "row": {}})],
        )?;
        world.written()?;
        let what = "G2 rebuild of an empty Northbound";
        self.report.add(SQL, what, "s", begin.elapsed().as_secs_f64(), Some(Goal::AtMost(10.0)));
        self.report.add(SQL, what, "CPU s", world.cloud.cpu()? - cpu, None);
        let transactions =
            journal.read()?.iter().filter(|rows| rows.keys().any(|table| table != "NB_Global")).count();
        self.report.add(SQL, what, "transactions", transactions as f64, Some(Goal::AtMost(20.0)));
        let after = contents(&world.cloud)?;
        let differ = differing(&before, &after);
        self.report.add(SQL, what, "rows that differ", differ as f64, Some(Goal::AtMost(0.0)));
        Ok(())
    }

    /// G3: small changes write little.
    fn minimal(&mut self, world: &mut World) -> Result<()> {
        heading("small changes");
        let router = world.routers.first().context("no router")?.clone();
        let rename = world.transactions(asks::change_router(&router, &json!({"name": "renamed"})))?;
        let rows = |transactions: &[Rows]| -> usize { transactions.iter().flat_map(Rows::values).sum() };
        let what = "G3 rename of a router with three gateways";
        self.report.add(SQL, what, "rows", rows(&rename) as f64, Some(Goal::AtMost(1.0)));
        let toggle =
            world.transactions(asks::change_router(&router, &json!({"enable_default_route_ecmp": false})))?;
        // The router's revision and its list of routes are in its own row.
        let wanted = ["BFD", "Logical_Router", "Logical_Router_Static_Route"];
        let other = toggle.iter().flatten().filter(|(table, _)| !wanted.contains(&table.as_str())).count();
        let what = "G3 ECMP off: tables beside routes, BFD and the router";
        self.report.add(SQL, what, "tables", other as f64, Some(Goal::AtMost(0.0)));
        let one_more = asks::gateways(&router, &world.externals[..1]);
        let more = world.transactions(one_more)?;
        self.report.add(
            SQL,
            "G3 one more gateway",
            "transactions",
            more.len() as f64,
            Some(Goal::AtMost(1.0)),
        );
        Ok(())
    }

    /// G9: the Northbound is away for a while.
    fn outage(&mut self, world: &mut World) -> Result<()> {
        heading("the Northbound is away");
        // By turns: for some seconds, in which the server tries less and less often to reach it, and for a moment.
        for long in [true, false].repeat(self.rounds) {
            world.cloud.stop_northbound();
            let requests: Vec<_> = world
                .networks
                .iter()
                .cycle()
                .take(AWAY)
                .enumerate()
                .map(|(n, id)| asks::port(n, id))
                .collect();
            let rate = long.then_some(5.0);
            let pace = Pace { clients: 2, rate, see: false };
            let ran = world.load.run(&world.cloud.url, pace, &requests)?;
            let refused = ran.answers.iter().filter(|answer| answer.status != 201).count();
            let what = "G9 Northbound away";
            self.report.add(SQL, what, "requests refused", refused as f64, Some(Goal::AtMost(0.0)));
            world.cloud.start_northbound()?;
            let begin = Instant::now();
            world.written()?;
            let seconds = begin.elapsed().as_secs_f64();
            let what = if long { "G9 converged after 10 s away" } else { "G9 converged after a moment away" };
            self.report.add(SQL, what, "s", seconds, Some(Goal::AtMost(2.0)));
        }
        Ok(())
    }

    /// G7: a chassis with very many gateways is deleted.
    fn failover(&mut self, world: &mut World) -> Result<()> {
        let more: Vec<_> =
            world.routers.iter().map(|router| asks::gateways(router, &world.externals[1..])).collect();
        world.load.run(&world.cloud.url, Pace::clients(8), &more)?.all_well()?;
        world.written()?;
        world.cloud.settle()?;
        let count = world.routers.len() * 5;
        heading(&format!("a chassis goes, with {count} gateways"));
        let what = format!("G7 chassis deleted, {count} gateways");
        for round in 0..self.rounds {
            if round > 0 {
                let journal = Journal::from_here(&world.cloud.file(Database::Northbound, "db"))?;
                world.cloud.add_chassis(5..6)?;
                journal.wait()?;
                world.cloud.settle()?;
            }
            let mut sb = world.cloud.rpc(Database::Southbound)?;
            let mut journal = Journal::from_here(&world.cloud.file(Database::Northbound, "db"))?;
            let cpu = world.cloud.cpu()?;
            let delete = json!({"op": "delete", "table": "Chassis", "where": [["name", "==", "ch5"]]});
            sb.transact(Database::Southbound.name(), vec![delete])?;
            let took = journal.wait()?;
            world.cloud.settle()?;
            let transactions = journal.read()?;
            let groups: usize = transactions.iter().filter_map(|rows| rows.get("HA_Chassis_Group")).sum();
            ensure!(groups >= count, "{groups} groups of {count} were written");
            self.report.add(SQL, &what, "s", took.as_secs_f64(), Some(Goal::AtMost(1.0)));
            self.report.add(SQL, &what, "CPU s", world.cloud.cpu()? - cpu, None);
            self.report.add(SQL, &what, "transactions", transactions.len() as f64, Some(Goal::AtMost(1.0)));
        }
        Ok(())
    }

    /// G8: kill -9 at any moment.
    fn kills(&mut self) -> Result<()> {
        let kills = self.sizes.kills;
        heading(&format!("killed {kills} times"));
        let mut random = Random(u64::from(std::process::id()));
        let (mut slowest, mut wrong) = (0.0_f64, 0);
        for done in (0..kills).step_by(KILLS) {
            let dir = self.dir.join(format!("kills-{done}"));
            let (seconds, lost_or_doubled) = self.kills_of_one(&dir, KILLS.min(kills - done), &mut random)?;
            slowest = slowest.max(seconds);
            wrong += lost_or_doubled;
        }
        let what = format!("G8 killed {kills} times");
        self.report.add(SQL, &what, "slowest s", slowest, Some(Goal::AtMost(3.0)));
        self.report.add(SQL, &what, "lost or doubled", wrong as f64, Some(Goal::AtMost(0.0)));
        Ok(())
    }

    /// The longest time until a server was itself again, and what was lost or doubled.
    fn kills_of_one(&mut self, dir: &Path, times: usize, random: &mut Random) -> Result<(f64, usize)> {
        let cloud = Cloud::start(&self.program, dir, SQL, Ovn::Databases)?;
        let mut load = Load::start(&self.load)?;
        load.ask(&cloud.url, asks::no_quota())?;
        let externals = self.externals(&cloud.url, &mut load)?;
        let networks = load.run(&cloud.url, Pace::clients(1), &[asks::network(0)])?.all_well()?.ids();
        load.run(&cloud.url, Pace::clients(1), &[asks::subnet(0, &networks[0])])?.all_well()?;
        let mut world = World { cloud, load, externals, networks, routers: Vec::new(), barriers: 0 };
        let (mut slowest, mut wrong, mut made) = (0.0_f64, 0, Vec::new());
        for _ in 0..times {
            let requests: Vec<_> = (0..200).map(|n| asks::port(n, &world.networks[0])).collect();
            let World { cloud, load, .. } = &mut world;
            let url = cloud.url.clone();
            let delay = std::time::Duration::from_micros(random.next() % 150_000);
            let ran = std::thread::scope(|scope| {
                let asking = scope.spawn(|| load.run(&url, Pace::clients(4), &requests));
                std::thread::sleep(delay);
                cloud.kill()?;
                asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })?;
            made.extend(ran.ids());
            let begin = Instant::now();
            world.cloud.again()?;
            world.written()?;
            slowest = slowest.max(begin.elapsed().as_secs_f64());
            let (mut stored, mut written) = (self.stored(&mut world)?, names(&world.cloud)?);
            stored.sort_unstable();
            written.sort_unstable();
            wrong += usize::from(stored != written);
            wrong += made.iter().filter(|id| stored.binary_search(id).is_err()).count();
        }
        Ok((slowest, wrong))
    }

    /// The ids of all ports that the API knows.
    fn stored(&self, world: &mut World) -> Result<Vec<String>> {
        let answer = world.load.ask(&world.cloud.url, asks::get("ports?fields=id"))?;
        let ports = answer["ports"].as_array().context("no list of ports")?;
        Ok(ports.iter().filter_map(|port| port["id"].as_str().map(str::to_owned)).collect())
    }
}

/// The names of all ports in the Northbound but those that lead to a physical network.
fn names(cloud: &Cloud) -> Result<Vec<String>> {
    let rows = select(cloud, "Logical_Switch_Port")?;
    let names = rows.into_iter().filter(|row| row["type"] != "localnet");
    Ok(names.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect())
}

fn select(cloud: &Cloud, table: &str) -> Result<Vec<Value>> {
    let select = json!({"op": "select", "table": table, "where": []});
    let mut rpc = cloud.rpc(Database::Northbound)?;
    let mut result = rpc.call("transact", json!([Database::Northbound.name(), select]))?;
    serde_json::from_value(result[0]["rows"].take()).with_context(|| format!("cannot read {table}"))
}

/// Every row of the Northbound by table and UUID, without what changes by itself.
fn contents(cloud: &Cloud) -> Result<BTreeMap<(String, String), Value>> {
    let schema = cloud.rpc(Database::Northbound)?.call("get_schema", json!([Database::Northbound.name()]))?;
    let tables = schema["tables"].as_object().context("no tables in the schema")?;
    let mut all = BTreeMap::new();
    for table in tables.keys().filter(|table| *table != "NB_Global" && *table != "Connection") {
        for mut row in select(cloud, table)? {
            let uuid = row["_uuid"][1].as_str().unwrap_or_default().to_owned();
            if let Some(columns) = row.as_object_mut() {
                columns.remove("_version");
            }
            all.insert((table.clone(), uuid), sorted(row));
        }
    }
    Ok(all)
}

/// Sets and maps have no order of their own.
fn sorted(mut value: Value) -> Value {
    if let Some(columns) = value.as_object_mut() {
        for cell in columns.values_mut() {
            if let Some([Value::String(kind), Value::Array(items)]) =
                cell.as_array_mut().map(Vec::as_mut_slice)
                && (kind == "set" || kind == "map")
            {
                items.sort_by_cached_key(Value::to_string);
            }
        }
    }
    value
}

fn differing<K: Ord>(a: &BTreeMap<K, Value>, b: &BTreeMap<K, Value>) -> usize {
    let gone = a.iter().filter(|(key, row)| b.get(key) != Some(row)).count();
    gone + b.keys().filter(|key| !a.contains_key(key)).count()
}

/// Foreign rows and keys in the Northbound.
struct Foreign {
    network: String,
}

impl Foreign {
    const NAME: &'static str = "somebody-else";

    /// A switch with a port, a load balancer, and both on a network of ours together with a key.
    fn plant(world: &World) -> Result<Foreign> {
        let network = world.networks.first().context("no network")?.clone();
        let named = |name: &str| json!(["named-uuid", name]);
        let ours = json!([["_uuid", "==", ["uuid", network]]]);
        let marks = json!(["map", [["somebody:key", "kept"]]]);
        let operations = vec![
            json!({"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "p", "row": {"name": Self::NAME}}),
            json!({"op": "insert", "table": "Logical_Switch", "row": {"name": Self::NAME, "ports": named("p")}}),
            json!({"op": "insert", "table": "Load_Balancer", "uuid-name": "b", "row": {"name": Self::NAME}}),
            json!({"op": "mutate", "table": "Logical_Switch", "where": ours,
                   "mutations": [["load_balancer", "insert", named("b")], ["external_ids", "insert", marks]]}),
        ];
        world.cloud.rpc(Database::Northbound)?.transact(Database::Northbound.name(), operations)?;
        Ok(Foreign { network })
    }

    /// How much of it is not as it was.
    fn changed(&self, world: &World) -> Result<usize> {
        let mut missing = 0;
        for table in ["Logical_Switch_Port", "Logical_Switch", "Load_Balancer"] {
            let found = select(&world.cloud, table)?.iter().filter(|row| row["name"] == Self::NAME).count();
            missing += usize::from(found != 1);
        }
        let switches = select(&world.cloud, "Logical_Switch")?;
        let ours = switches.iter().find(|row| row["_uuid"][1] == self.network.as_str());
        let ours = ours.context("a network of ours is gone")?;
        missing += usize::from(ours["load_balancer"][0] != "uuid");
        missing += usize::from(!ours["external_ids"].to_string().contains("somebody:key"));
        Ok(missing)
    }
}

/// A few pseudo-random numbers; xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_rows_are_counted_once() {
        let rows = |pairs: &[(&str, i64)]| -> BTreeMap<String, Value> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
        };
        let before = rows(&[("same", 1), ("changed", 1), ("gone", 1)]);
        let after = rows(&[("same", 1), ("changed", 2), ("new", 1)]);
        assert_eq!(differing(&before, &after), 3);
        assert_eq!(differing(&before, &before), 0);
    }

    #[test]
    fn order_in_sets_and_maps_says_nothing() {
        let row = |first: &str, second: &str| json!({"ports": ["set", [["uuid", first], ["uuid", second]]], "name": "x"});
        assert_eq!(sorted(row("a", "b")), sorted(row("b", "a")));
        assert_ne!(sorted(row("a", "b")), sorted(row("a", "c")));
    }
}
