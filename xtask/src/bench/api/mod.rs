//! `cargo xtask bench api`: measures the network API server on both of its databases, and compares it with its goals and
//! Neutron.
//!
//! `cloud` is the server under measurement, `load` the process that sends requests, `asks` the requests. `operations`, `scale`, `goals` and `takeover` measure, `neutron` is the peer, `report` prints.

mod asks;
mod cloud;
mod goals;
mod load;
mod neutron;
mod operations;
mod report;
mod scale;
mod takeover;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use self::cloud::Sql;
use self::report::Report;
use super::{Output, ScratchDir};
use crate::command::heading;
use crate::packages::{self, Need};

/// How many external networks there are.
const EXTERNALS: usize = asks::EXTERNAL.len();

/// How much of everything.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Ports that are created one by one.
    ports: usize,
    /// Networks, routers, and what hangs on them.
    few: usize,
    /// Numbers of ports, growing.
    scale: Vec<usize>,
    /// Routers of the large world; each has three gateways, a network, and ten ports there.
    routers: usize,
    /// How often the server is killed.
    kills: usize,
}

impl Sizes {
    /// Tiny sizes: the figures mean nothing, but show that everything works.
    pub(super) fn tiny() -> Sizes {
        Sizes { ports: 20, few: 3, scale: vec![20, 60], routers: 4, kills: 2 }
    }

    /// The sizes for a run of some minutes; with `full`, the sizes that the goals name.
    pub(super) fn new(ports: &[usize], full: bool) -> Sizes {
        let mut scale = ports.to_vec();
        scale.sort_unstable();
        scale.dedup();
        if full && !scale.contains(&100_000) {
            scale.push(100_000);
        }
        Sizes { ports: 1000, few: 50, scale, routers: 1000, kills: if full { 1000 } else { 5 } }
    }
}

/// One run.
struct Bench<'a> {
    dir: &'a Path,
    /// The server.
    program: PathBuf,
    /// The process that sends requests.
    load: PathBuf,
    sizes: Sizes,
    rounds: usize,
    /// Without Neutron.
    alone: bool,
    report: Report,
}

pub(super) fn bench(output: Output, sizes: Sizes, rounds: usize, alone: bool) -> Result<ExitCode> {
    packages::ensure(Need::Test)?;
    let release = super::optimised()?;
    let dir = ScratchDir::new()?;
    let (program, load) = (release.join("meridian"), release.join("api-load"));
    let report =
        Bench { dir: &dir.0, program, load, sizes, rounds, alone, report: Report::default() }.run()?;
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Table => print!("{}", report.table()),
    }
    Ok(ExitCode::SUCCESS)
}

impl Bench<'_> {
    fn run(mut self) -> Result<Report> {
        for round in 0..self.rounds {
            // By turns, so that what else the machine does meanwhile falls on both alike.
            for sql in [Sql::Sqlite, Sql::Postgres] {
                heading(&format!("operations, {sql:?}, round {}", round + 1));
                self.operations(sql, round)?;
            }
        }
        self.scale()?;
        self.goals()?;
        self.takeover()?;
        self.neutron();
        self.notes();
        Ok(self.report)
    }

    fn notes(&mut self) {
        self.report.notes.extend(
            [
                "CPU ms is user and system time of the server's process, all threads, for one operation, until the Northbound \
                 has it too; with PostgreSQL that of all its processes is in it. OVN's own processes are not. Of several \
                 rounds the best value counts, for every line. A goal is met if it is on both databases.",
                "Operations run on a server with --dev (ovsdb-server and ovn-northd beside it), with one client and a \
                 connection that stays open. Lines with G run on the databases alone, except G4: at 10,000 ports and \
                 more ovn-northd would take the machine for itself.",
                "PostgreSQL does not wait for the disk here, SQLite does: before a request is answered, its log is synced.",
            ]
            .map(str::to_owned),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_has_a_hundred_thousand_ports() {
        assert_eq!(Sizes::new(&[10_000, 1000, 1000], false).scale, [1000, 10_000]);
        assert_eq!(Sizes::new(&[1000], true).scale, [1000, 100_000]);
        assert!(Sizes::new(&[1000], true).kills > Sizes::new(&[1000], false).kills);
    }
}
