//! `cargo xtask bench lb`: compares our load-balancer API with a real Octavia and its OVN provider, one after the other.
//!
//! `site` is the cloud under measurement, ours or Octavia's, behind the same requests. `phases` measures, `report` prints.

mod phases;
mod report;
mod site;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use self::report::{Report, Side};
use self::site::Site;
use super::{Output, ScratchDir};
use crate::command::heading;
use crate::octavia::{Octavia, PACKAGES};
use crate::packages::{self, Need};
use crate::server::Server;
use crate::uwsgi::WORKERS;

/// Options of `bench lb`.
pub(super) struct Order {
    pub(super) output: Output,
    pub(super) quick: bool,
    pub(super) full: bool,
    pub(super) alone: bool,
    pub(super) rounds: u8,
}

/// The numbers of members.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rounds: u8,
    /// In one batch, and in a cascade.
    batch: usize,
    /// One by one, on both sides.
    single: usize,
    /// In one large batch and one by one, on ours; and on the peer's with `--full`.
    large: Option<usize>,
}

impl Sizes {
    /// Figures of this size mean nothing, but show that everything works.
    const QUICK: Sizes = Sizes { rounds: 1, batch: 5, single: 5, large: Some(20) };

    fn new(order: &Order) -> Sizes {
        match order.quick {
            true => Sizes::QUICK,
            false => Sizes { rounds: order.rounds, batch: 100, single: 20, large: Some(1000) },
        }
    }
}

pub(super) fn bench(order: &Order) -> Result<ExitCode> {
    packages::ensure(Need::Central)?;
    let release = super::optimised()?;
    let scratch = ScratchDir::new()?;
    let mut report = Report::default();
    let sizes = Sizes::new(order);
    heading("meridian server");
    measure_ours(&release.join("meridian"), &scratch.0, sizes, &mut report)?;
    heading("Octavia");
    let outcome = match order.alone {
        true => Err(anyhow::anyhow!("it was left out by --alone")),
        false => {
            let large = sizes.large.filter(|_| order.full);
            measure_octavia(&scratch.0, Sizes { rounds: 1, large, ..sizes }, &mut report)
        }
    };
    report.notes.push(match outcome {
        Ok(()) => format!(
            "The column Octavia is {} with {} and {} in this run: {WORKERS} uWSGI workers for each API, noauth, MariaDB, an OVN \
             central of its own. It had one round.",
            PACKAGES[0], PACKAGES[1], PACKAGES[2]
        ),
        Err(error) => format!("Octavia is not beside us because of this: {error:#}."),
    });
    report.add_notes();
    match order.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Table => print!("{}", report.table()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs each phase with a few members on our server, which is built already: the benchmark works, whatever its figures are.
pub(crate) fn smoke(meridian: &Path, dir: &Path) -> Result<()> {
    measure_ours(meridian, dir, Sizes::QUICK, &mut Report::default())
}

fn measure_ours(meridian: &Path, dir: &Path, sizes: Sizes, report: &mut Report) -> Result<()> {
    let data = dir.join("server");
    let server = Server::start(meridian, &data, &dir.join("server.log"), |command| {
        command.args(["--auth", "none"]).env("MERIDIAN_CONFIG", "/dev/null")
    })?;
    let site = Site::new(&server.url, &server.load_balancer_url, &data.join("ovn/nb.db"))?;
    phases::measure(&site, sizes, &mut report.side(Side::Meridian))?;
    report.add_memory(Side::Meridian, lab::meter::proportional_mib(server.daemon.pid())?);
    Ok(())
}

fn measure_octavia(dir: &Path, sizes: Sizes, report: &mut Report) -> Result<()> {
    let dir = dir.join("octavia");
    std::fs::create_dir_all(&dir)?;
    let octavia = Octavia::start(&dir)?;
    let site = Site::new(&octavia.neutron.url, &octavia.api.url, &dir.join("neutron/ovn/nb.db"))?;
    phases::measure(&site, sizes, &mut report.side(Side::Octavia))?;
    let mut mib = 0.0;
    for root in [octavia.api.pid(), octavia.agent.pid()] {
        let processes = lab::meter::family(root, None)?;
        ensure!(processes.len() > 1, "process {root} has no workers");
        for process in processes {
            mib += lab::meter::proportional_mib(process)?;
        }
    }
    report.add_memory(Side::Octavia, mib);
    Ok(())
}
