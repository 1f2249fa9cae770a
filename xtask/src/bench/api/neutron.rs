//! Neutron as the peer, in the same run.
//!
//! It gets the same requests, in smaller numbers. If it cannot be installed or started, its column has the reference figures of
//! `operations`, and a note with the reason.

use std::fs;

use anyhow::{Context, Result, ensure};
use lab::meter::cpu_seconds;

use super::Bench;
use super::asks;
use super::load::{Load, Pace, Ran, Request};
use super::operations::{GATEWAYS, INTERFACE, NETWORK, PORT, ROUTER, SHOW};
use crate::command::heading;
use crate::neutron::{Neutron, PACKAGES};
use crate::uwsgi::WORKERS;

/// The number of requests of each kind; a hundred times as many would take a hundred times as long.
const FEW: usize = 5;
const PORTS: usize = 20;

impl Bench<'_> {
    /// Measures Neutron, or notes the reason why not.
    pub(super) fn neutron(&mut self) {
        heading("Neutron");
        let note = match self.try_neutron() {
            Ok(()) => format!(
                "The column Neutron is {} in this run ({WORKERS} uWSGI workers, noauth, MariaDB, an OVN central of its own; CPU \
                 of all its processes, {PORTS} ports and {FEW} of the rest), where a line is a single value; ranges, the list \
                 of 1,000 ports and rates are reference figures for Neutron 29 on 2 cores, as the project's goals name them. \
                 The goals for CPU are a hundredth of the least of those.",
                PACKAGES[0]
            ),
            Err(error) => format!(
                "The column Neutron is no measurement of this run: these are reference figures for Neutron 29 (2 uWSGI workers, \
                 noauth, MariaDB, 2 cores; CPU of the API workers), as the project's goals name them. Neutron itself is not \
                 beside us because of this: {error:#}. The goals for CPU are a hundredth of the least of the figures."
            ),
        };
        self.report.notes.push(note);
    }

    fn try_neutron(&mut self) -> Result<()> {
        ensure!(!self.alone, "it was left out by --alone");
        let neutron = Neutron::start(&self.dir.join("neutron"), "")?;
        let mut load = Load::start(&self.load)?;
        let load = &mut load;
        let externals = self.externals(&neutron.url, load)?;
        let few = FEW.min(self.sizes.few);
        let one = Pace::clients(1);

        let networks: Vec<_> = (0..few).map(asks::network).collect();
        let (networks, cpu) = neutron.cost(load, one, &networks)?;
        let ids = networks.ids();
        let subnets: Vec<_> = ids.iter().enumerate().map(|(n, id)| asks::subnet(n, id)).collect();
        let (subnets, more) = neutron.cost(load, one, &subnets)?;
        self.add_neutron(NETWORK, (cpu + more) / few as f64);

        let network = ids.first().context("no network")?;
        let ports: Vec<_> = (0..PORTS.min(self.sizes.ports)).map(|n| asks::port(n, network)).collect();
        let (ports, cpu) = neutron.cost(load, one, &ports)?;
        self.add_neutron(PORT, cpu / ports.answers.len() as f64);
        let shows: Vec<_> = ports.ids().iter().map(|id| asks::get(&format!("ports/{id}"))).collect();
        let (shows, cpu) = neutron.cost(load, one, &shows)?;
        self.add_neutron(SHOW, cpu / shows.answers.len() as f64);

        let routers: Vec<_> = (0..few).map(asks::router).collect();
        let (routers, cpu) = neutron.cost(load, one, &routers)?;
        self.add_neutron(ROUTER, cpu / few as f64);
        let (routers, subnets) = (routers.ids(), subnets.ids());
        let interfaces: Vec<_> =
            routers.iter().zip(&subnets).map(|(router, subnet)| asks::interface(router, subnet)).collect();
        let (_, cpu) = neutron.cost(load, one, &interfaces)?;
        self.add_neutron(INTERFACE, cpu / few as f64);
        let gateways: Vec<_> = routers.iter().map(|router| asks::gateways(router, &externals[..2])).collect();
        let (_, cpu) = neutron.cost(load, one, &gateways)?;
        self.add_neutron(GATEWAYS, cpu / few as f64);
        let memory = neutron.megabytes()?;
        // A line of its own: it holds far fewer ports than we do on ours.
        self.report.neutron(&format!("Neutron resident with {PORTS} ports"), "MB", (memory, memory));
        Ok(())
    }

    fn add_neutron(&mut self, what: &str, seconds: f64) {
        self.report.neutron(what, "CPU ms", (seconds * 1e3, seconds * 1e3));
    }
}

impl Neutron {
    /// Its process and those of its workers.
    fn processes(&self) -> Vec<u32> {
        let pid = self.uwsgi.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).chain([pid]).collect()
    }

    fn cpu(&self) -> Result<f64> {
        self.processes().into_iter().map(cpu_seconds).sum()
    }

    fn megabytes(&self) -> Result<f64> {
        let all = self.processes().into_iter().map(super::cloud::megabytes_of);
        all.sum()
    }

    /// Sends requests, and returns their CPU seconds.
    fn cost(&self, load: &mut Load, pace: Pace, requests: &[Request]) -> Result<(Ran, f64)> {
        let before = self.cpu()?;
        let ran = load.run(&self.url, pace, requests)?.all_well()?;
        ensure!(!requests.is_empty(), "nothing was asked");
        Ok((ran, self.cpu()? - before))
    }
}
