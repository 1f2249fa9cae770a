//! OVN's central services of one zone: both databases and ovn-northd.

use std::fs;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ovn::nb::{LogicalSwitchPort, NbGlobal};
use ovn::sb::{Chassis, PortBinding, SbGlobal};
use ovn::{nb, sb};
use ovsdb::{Model, Transaction, Uuid};

use super::Node;
use crate::db::Db;
use crate::northbound::Edit;
use crate::process::Recipe;

/// Timeout for OVN to propagate a change to every chassis.
const SYNC: Duration = Duration::from_secs(90);

/// The central part of a zone.
#[derive(Debug)]
pub struct Central {
    node: Arc<Node>,
    nb: Db,
    sb: Db,
}

impl Deref for Central {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Central {
    /// Starts the central on empty databases, copied from `empty`. The Southbound listens at an address for the chassis.
    pub(crate) fn start(node: Arc<Node>, address: Ipv4Addr, empty: &Path) -> Result<Central> {
        let dir = node.dir().to_path_buf();
        let at = |name: &str| dir.join(name).display().to_string();
        for base in ["nb", "sb"] {
            fs::copy(empty.join(base), dir.join(format!("{base}.db")))
                .context("cannot copy an empty database")?;
        }
        let server = |base: &str, port: u16| {
            let recipe = Recipe::new("ovsdb-server")
                .arg("-vconsole:off")
                .arg(at(&format!("{base}.db")))
                .arg(format!("--remote=punix:{}", at(&format!("{base}.sock"))))
                .arg(format!("--remote=ptcp:{port}:{address}"))
                .arg(format!("--unixctl={}", at(&format!("{base}.ctl"))))
                .arg(format!("--log-file={}", node.log(base).display()))
                .ready(at(&format!("{base}.sock")));
            node.start(&format!("ovsdb-server-{base}"), recipe)
        };
        let servers = [server("nb", 6641)?, server("sb", 6642)?];
        servers.iter().try_for_each(|server| server.ready())?;
        let northbound = Db::open(&node.netns().runtime, &dir.join("nb.sock"), nb_model())?;
        let southbound = Db::open(&node.netns().runtime, &dir.join("sb.sock"), sb_model())?;
        northbound.commit(Transaction::new().insert(Uuid::new_v4(), &NbGlobal::default()))?;
        southbound.commit(Transaction::new().insert(Uuid::new_v4(), &SbGlobal::default()))?;
        let northd = Recipe::new("ovn-northd")
            .arg("-vconsole:off")
            .arg(format!("--ovnnb-db=unix:{}", at("nb.sock")))
            .arg(format!("--ovnsb-db=unix:{}", at("sb.sock")))
            .arg(format!("--unixctl={}", at("northd.ctl")))
            .arg(format!("--log-file={}", node.log("northd").display()))
            .ready(at("northd.ctl"));
        node.start("ovn-northd", northd)?;
        Ok(Central { node, nb: northbound, sb: southbound })
    }

    /// The Northbound: the requested network.
    pub fn nb(&self) -> &Db {
        &self.nb
    }

    /// The Southbound database.
    pub fn sb(&self) -> &Db {
        &self.sb
    }

    /// Writes the network that `describe` builds, in one transaction. Existing objects are changed.
    pub fn write(&self, describe: impl FnOnce(&mut Edit)) -> Result<()> {
        let mut edit = Edit::new(self.nb.snapshot());
        describe(&mut edit);
        self.nb.commit(&edit.into_transaction())
    }

    /// Waits until these ports are up, and every chassis has applied all earlier writes.
    pub fn ready(&self, ports: &[&str]) -> Result<()> {
        for port in ports {
            self.up(port)?;
        }
        self.sync()
    }

    /// Waits until a port is up.
    pub fn up(&self, port: &str) -> Result<()> {
        let up = |row: &LogicalSwitchPort| row.name == port && row.up == Some(true);
        self.nb.until(SYNC, &format!("port {port} is up"), |snapshot| {
            snapshot.table::<LogicalSwitchPort>().iter().any(|(_, row)| up(row)).then_some(())
        })
    }

    /// Waits until every chassis has applied all earlier writes.
    pub fn sync(&self) -> Result<()> {
        self.nb.change::<NbGlobal>(|_| true, |global| global.nb_cfg += 1)?;
        let (_, global) = self.nb.find::<NbGlobal>(|_| true)?;
        self.nb.until(SYNC, "every chassis is in step", |snapshot| {
            snapshot.table::<NbGlobal>().iter().any(|(_, row)| row.hv_cfg >= global.nb_cfg).then_some(())
        })
    }

    /// Waits until a port is bound to a chassis.
    pub fn lives_on(&self, port: &str, chassis: &str) -> Result<()> {
        let begin = std::time::Instant::now();
        self.sb.until(SYNC, &format!("{port} lives on {chassis}"), |snapshot| {
            let (_, binding) =
                snapshot.table::<PortBinding>().iter().find(|(_, row)| row.logical_port == port)?;
            (snapshot.get::<Chassis>(binding.chassis?.uuid())?.name == chassis).then_some(())
        })?;
        println!("{port} lives on {chassis}: after {} ms", begin.elapsed().as_millis());
        Ok(())
    }
}

pub(crate) fn nb_model() -> Model {
    Model::new("OVN_Northbound")
        .table::<NbGlobal>()
        .table::<nb::LogicalSwitch>()
        .table::<nb::LogicalSwitchPort>()
        .table::<nb::LogicalRouter>()
        .table::<nb::LogicalRouterPort>()
        .table::<nb::LogicalRouterStaticRoute>()
        .table::<nb::LogicalRouterPolicy>()
        .table::<nb::Nat>()
        .table::<nb::Bfd>()
        .table::<nb::LoadBalancer>()
        .table::<nb::GatewayChassis>()
        .table::<nb::DhcpOptions>()
}

fn sb_model() -> Model {
    Model::new("OVN_Southbound")
        .table::<SbGlobal>()
        .table::<sb::Chassis>()
        .table::<sb::Encap>()
        .table::<sb::PortBinding>()
        .table::<sb::MacBinding>()
}
