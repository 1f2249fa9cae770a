//! A server's view of OVN: both databases, and the report and the chassis that are derived from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ovn::nb::NbGlobal;
use ovn::sb::{Chassis, ChassisPrivate};
use ovn::writer::{DatabaseEvent, DatabaseObserver, Databases};
use ovsdb::client::OpenError;
use ovsdb::{Client, ClientConfig, CommitError, Snapshot, Str};
use tokio::sync::watch;
use uuid::Uuid;

use crate::World;
use crate::fleet::Fleet;
use crate::report::{self, Agent, Judgement, Refusal, Report, southbound_model};

/// The connections to both databases and the state derived from them. Clones share it.
#[derive(Clone, Debug)]
pub struct OvnView {
    databases: Databases,
    report: watch::Sender<Report>,
    fleet: watch::Receiver<Arc<Fleet>>,
}

impl OvnView {
    /// Opens both connections in the current runtime and follows them until the last clone is dropped. `world` is the state of the store
    /// at the start of the server.
    pub fn open(nb: ClientConfig, sb: ClientConfig, agent_down_time: u32, world: &World) -> Self {
        let known = Report::starting(world);
        let report = watch::Sender::new(known.clone());
        let (fleet, fleets) = watch::channel(Arc::default());
        let observer = ReportObserver { known, report: report.clone(), fleet, agent_down_time };
        let databases = Databases::open(nb, sb, southbound_model(), observer);
        OvnView { databases, report, fleet: fleets }
    }

    /// A receiver of OVN's reports.
    pub fn report(&self) -> watch::Receiver<Report> {
        self.report.subscribe()
    }

    /// Records the load balancers whose rows the Northbound refuses.
    pub(super) fn set_refusals(&self, refusals: BTreeMap<Uuid, Refusal>) {
        self.report.send_if_modified(|report| report.set_refusals(refusals));
    }

    /// A receiver of the chassis.
    pub fn fleet(&self) -> watch::Receiver<Arc<Fleet>> {
        self.fleet.clone()
    }

    /// The Northbound's client.
    pub fn northbound(&self) -> &Client {
        self.databases.northbound()
    }

    /// The Southbound's client.
    pub fn southbound(&self) -> &Client {
        self.databases.southbound()
    }

    /// Waits until both databases have been read once.
    pub async fn synced(&self) -> Result<(), OpenError> {
        self.databases.synced().await
    }

    /// Removes the chassis rows of an agent whose chassis is gone for good. Returns false, and removes nothing, if the agent has reported
    /// since.
    pub async fn remove_chassis(&self, agent: &Agent) -> Result<bool, CommitError> {
        let name = Str::new(&agent.chassis);
        self.southbound()
            .transact(|view| {
                let private = view.matching(ChassisPrivate::NAME, &name);
                let reports = private.iter().map(|row| view.read(*row, ChassisPrivate::NB_CFG_TIMESTAMP));
                let reports: Vec<i64> = reports.flatten().map(|row| row.nb_cfg_timestamp).collect();
                if reports != [agent.heartbeat.as_millisecond()] {
                    return Ok(false);
                }
                let chassis = view.matching(Chassis::NAME, &name);
                chassis.into_iter().for_each(|row| view.delete(row));
                private.into_iter().for_each(|row| view.delete(row));
                Ok(true)
            })
            .await
    }

    pub(super) fn databases(&self) -> &Databases {
        &self.databases
    }

    pub(crate) fn has_seen_southbound(&self) -> bool {
        *self.databases.has_seen_southbound().borrow()
    }
}

/// Keeps the report and the chassis up to date.
struct ReportObserver {
    known: Report,
    report: watch::Sender<Report>,
    fleet: watch::Sender<Arc<Fleet>>,
    agent_down_time: u32,
}

impl DatabaseObserver for ReportObserver {
    fn observe(&mut self, event: DatabaseEvent<'_>, nb: &Snapshot, sb: &Snapshot) {
        let mut next = self.known.clone();
        let may_change_agents = match event {
            DatabaseEvent::NorthboundChanged(delta) => {
                next.northbound_changed(delta);
                delta.touches::<NbGlobal>()
            }
            DatabaseEvent::SouthboundChanged(delta) => {
                next.southbound_changed(delta, Timestamp::now());
                delta.touches::<Chassis>() || delta.touches::<ChassisPrivate>()
            }
            DatabaseEvent::SouthboundSynced => {
                next.set_southbound_read();
                true
            }
            DatabaseEvent::Tick => true,
        };
        if may_change_agents {
            let nb_cfg = nb.table::<NbGlobal>().iter().next().map_or(0, |(_, row)| row.nb_cfg);
            let agent_down_time = self.agent_down_time;
            next.judge_agents(sb, Judgement { now: Timestamp::now(), nb_cfg, agent_down_time });
            let fleet = report::fleet(sb, next.agents());
            self.fleet.send_if_modified(|known| {
                let differs = **known != fleet;
                if differs {
                    *known = Arc::new(fleet);
                }
                differs
            });
        }
        if !next.is_same(&self.known) {
            self.report.send_modify(|report| *report = next.clone().with_refusals_of(report));
        }
        self.known = next;
    }
}
