//! Two servers on one PostgreSQL and one Northbound: the writer is killed, paused or disconnected, and the other server takes
//! over.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use central::Database;
use lab::relay::Relay;
use serde_json::json;

use super::cloud::{Cloud, Ovn, Sql};
use super::load::{Load, Pace};
use super::report::Goal;
use super::{Bench, asks};
use crate::command::heading;

/// The number of repetitions, besides one for each round; the slowest is reported.
const KILLS: usize = 3;

impl Bench<'_> {
    /// Time from kill -9 of the writer until the Northbound has a change that was requested from the other server.
    pub(super) fn takeover(&mut self) -> Result<()> {
        heading("the server that writes is killed");
        let mut first = Cloud::start(&self.program, &self.dir.join("first"), Sql::Postgres, Ovn::Databases)?;
        let mut second = first.beside(&self.dir.join("second"))?;
        let mut load = Load::start(&self.load)?;
        load.ask(&first.url, asks::no_quota())?;
        let networks = load.run(&first.url, Pace::clients(1), &[asks::network(0)])?.all_well()?.ids();
        let network = networks.first().context("no network")?;
        load.ask(&first.url, asks::subnet(0, network))?;
        load.ask(&first.url, asks::barrier(0))?;
        let mut slowest = 0.0_f64;
        for n in 0..KILLS + self.rounds {
            // By turns.
            let (writer, other) = match n % 2 {
                0 => (&mut first, second.url.clone()),
                _ => (&mut second, first.url.clone()),
            };
            let begin = Instant::now();
            writer.kill()?;
            let made = load.ask(&other, asks::seen(asks::port(n, network)))?;
            slowest = slowest.max(begin.elapsed().as_secs_f64());
            // So that the other waits for its turn when the next one is killed.
            writer.again()?;
            writer.settle()?;
            let id = made["port"]["id"].as_str().context("no port")?;
            let select =
                json!({"op": "select", "table": "Logical_Switch_Port", "where": [["name", "==", id]]});
            let mut rpc = first.rpc(Database::Northbound)?;
            let found = rpc.call("transact", json!([Database::Northbound.name(), select]))?;
            ensure!(found[0]["rows"].as_array().is_some_and(|rows| rows.len() == 1), "the port is not there");
        }
        let what = "two servers: the writer killed, the other has written";
        self.report.add(Sql::Postgres, what, "slowest s", slowest, Some(Goal::AtMost(3.0)));
        drop(second);
        self.silent_failures(&mut first, &mut load, network)
    }

    /// The same without a closed connection, so that no server is notified of the writer's failure.
    fn silent_failures(&mut self, first: &mut Cloud, load: &mut Load, network: &str) -> Result<()> {
        let postgres = Relay::to(first.postgres()?.socket())?;
        let northbound = Relay::to(first.file(Database::Northbound, "sock"))?;
        let writer = first.behind(&self.dir.join("behind"), &postgres, &northbound)?;
        let mut number = 10_000;
        for (failure, what) in [
            (Failure::Pause, "two servers: the writer stands still, the other has written"),
            (Failure::Postgres, "two servers: the writer cut off from PostgreSQL, the other has written"),
            (
                Failure::Northbound,
                "two servers: the writer cut off from the Northbound, the other has written",
            ),
        ] {
            let mut slowest = 0.0_f64;
            for _ in 0..self.rounds.max(1) {
                // The one behind the relays is to write, and the other to wait for its turn.
                first.kill()?;
                load.ask(&writer.url, asks::seen(asks::port(number, network)))?;
                first.again()?;
                first.settle()?;
                let begin = Instant::now();
                failure.happens(&writer, &postgres, &northbound)?;
                load.ask(&first.url, asks::seen(asks::port(number + 1, network)))?;
                slowest = slowest.max(begin.elapsed().as_secs_f64());
                number += 2;
                failure.is_over(&writer, &postgres, &northbound)?;
            }
            self.report.add(Sql::Postgres, what, "slowest s", slowest, Some(Goal::AtMost(3.0)));
        }
        Ok(())
    }
}

/// The silent failures of a writer.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Pause,
    Postgres,
    Northbound,
}

impl Failure {
    fn happens(self, writer: &Cloud, postgres: &Relay, northbound: &Relay) -> Result<()> {
        match self {
            Failure::Pause => writer.pause(true)?,
            Failure::Postgres => postgres.stall(),
            Failure::Northbound => northbound.stall(),
        }
        Ok(())
    }

    fn is_over(self, writer: &Cloud, postgres: &Relay, northbound: &Relay) -> Result<()> {
        match self {
            Failure::Pause => writer.pause(false)?,
            Failure::Postgres => postgres.resume(),
            Failure::Northbound => northbound.resume(),
        }
        Ok(())
    }
}
