//! What a server sees of OVN: both databases, and the report and the chassis that follow from them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ovn::nb::NbGlobal;
use ovn::sb::{Chassis, ChassisPrivate};
use ovn::target::{ClientDatabase, Tables};
use ovsdb::client::OpenError;
use ovsdb::{Client, ClientConfig, CommitError, FeedEvent, Transaction};
use serde_json::json;
use tokio::sync::watch;

use crate::fleet::Fleet;
use crate::report::{self, Agent, Judgement, Report, southbound_model};

/// How often silence is looked for.
const TICK: Duration = Duration::from_secs(5);

/// Connections to both databases and what is known from them. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sight {
    nb: Client,
    sb: Client,
    tables: Arc<Tables>,
    report: watch::Receiver<Report>,
    fleet: watch::Receiver<Arc<Fleet>>,
    seen: watch::Receiver<bool>,
}

impl Sight {
    /// Opens both connections in the present runtime, and follows them as long as any clone lives.
    pub fn open(nb: ClientConfig, sb: ClientConfig, agent_down_time: u32) -> Self {
        let tables = Tables::northbound();
        let nb = Client::open(nb, tables.model(None));
        let sb = Client::open(sb, southbound_model());
        let (report, reports) = watch::channel(Report::default());
        let (fleet, fleets) = watch::channel(Arc::default());
        let (seen, has_seen) = watch::channel(false);
        let told = Told { report, fleet, seen };
        task::keep("sight", follow(nb.clone(), sb.clone(), told, agent_down_time));
        Sight { nb, sb, tables: Arc::new(tables), report: reports, fleet: fleets, seen: has_seen }
    }

    /// What OVN reports.
    pub fn report(&self) -> watch::Receiver<Report> {
        self.report.clone()
    }

    /// The chassis.
    pub fn fleet(&self) -> watch::Receiver<Arc<Fleet>> {
        self.fleet.clone()
    }

    /// The Northbound's client.
    pub fn northbound(&self) -> &Client {
        &self.nb
    }

    /// The Southbound's client.
    pub fn southbound(&self) -> &Client {
        &self.sb
    }

    /// Waits until both databases have been read once.
    pub async fn synced(&self) -> Result<(), OpenError> {
        self.nb.synced().await?;
        self.sb.synced().await?;
        let _ = self.seen.clone().wait_for(|seen| *seen).await;
        Ok(())
    }

    /// Removes the rows of an agent's chassis, which is gone for good; not if it has reported since.
    pub async fn remove_chassis(&self, agent: &Agent) -> Result<(), CommitError> {
        let silent = json!([
            ["name", "==", agent.chassis],
            ["nb_cfg_timestamp", "==", agent.heartbeat.as_millisecond()],
        ]);
        let mut txn = Transaction::new();
        txn.raw(&json!({
            "op": "wait", "table": "Chassis_Private", "timeout": 0, "where": silent,
            "columns": ["name"], "until": "==", "rows": [{"name": agent.chassis}],
        }));
        for table in ["Chassis", "Chassis_Private"] {
            txn.raw(&json!({"op": "delete", "table": table, "where": [["name", "==", agent.chassis]]}));
        }
        self.sb.commit(&txn).await.map(drop)
    }

    pub(super) fn database(&self) -> ClientDatabase {
        ClientDatabase::of(self.nb.clone(), Arc::clone(&self.tables))
    }

    /// Whether the Southbound has been read once, to be watched.
    pub(super) fn seen(&self) -> watch::Receiver<bool> {
        self.seen.clone()
    }

    pub(super) fn has_seen_southbound(&self) -> bool {
        *self.seen.borrow()
    }
}

/// Whom the follower tells.
struct Told {
    report: watch::Sender<Report>,
    fleet: watch::Sender<Arc<Fleet>>,
    seen: watch::Sender<bool>,
}

async fn follow(nb: Client, sb: Client, told: Told, agent_down_time: u32) {
    let (mut nb_feed, mut sb_feed) = (nb.subscribe_all(), sb.subscribe_all());
    // The feeds end with the clients, which end when everybody else has let go of them.
    drop((nb, sb));
    let mut tick = tokio::time::interval(TICK);
    let mut known = Report::default();
    loop {
        let mut next = known.clone();
        let mut agents = false;
        let mut seen = false;
        tokio::select! {
            event = nb_feed.next() => match event {
                None => return,
                Some(FeedEvent::Changed { delta, .. }) => {
                    next.northbound_changed(&delta);
                    agents = delta.touches::<NbGlobal>();
                }
                Some(_) => {}
            },
            event = sb_feed.next() => match event {
                None => return,
                Some(FeedEvent::Changed { delta, .. }) => {
                    next.southbound_changed(&delta);
                    agents = delta.touches::<Chassis>() || delta.touches::<ChassisPrivate>();
                }
                Some(FeedEvent::Synced { .. } | FeedEvent::Reconnected { .. }) => (agents, seen) = (true, true),
                Some(_) => {}
            },
            _ = tick.tick() => agents = true,
        }
        if agents {
            let (nb, sb) = (nb_feed.snapshot(), sb_feed.snapshot());
            let nb_cfg = nb.table::<NbGlobal>().iter().next().map_or(0, |(_, row)| row.nb_cfg);
            next.judge_agents(&sb, Judgement { now: Timestamp::now(), nb_cfg, agent_down_time });
            let fleet = report::fleet(&sb, next.agents());
            told.fleet.send_if_modified(|known| {
                let differs = **known != fleet;
                if differs {
                    *known = Arc::new(fleet);
                }
                differs
            });
        }
        if !next.is_same(&known) {
            told.report.send_replace(next.clone());
        }
        known = next;
        if seen {
            told.seen.send_replace(true);
        }
    }
}
