//! The agent's connections: opened in their order, and kept asking for the rows that matter.

use std::sync::Arc;
use std::time::Duration;

use ovsdb::session::Remotes;
use ovsdb::{Client, FeedEvent, Model, Snapshot};
use reconcile::Handle;
use tokio::time::sleep;
use tracing::{debug, error, info, warn};

use super::{Shared, lock};
use crate::bgp::conditions::Conditions;
use crate::bgp::config::Source;
use crate::bgp::desired::{Reach, reach};
use crate::bgp::northbound;
use crate::bgp::snapshot::{system_id, with_indexes};

/// How long after a failure that needs somebody to act it is tried again.
const LATER: Duration = Duration::from_secs(10);

/// Connects, asks for the rows that matter, and goes on asking for those that come to matter.
pub(super) async fn follow(shared: Arc<Shared>, handle: Handle) {
    let source = shared.config.source;
    let mut vswitch = shared.vswitch.subscribe();
    while let Err(error) = shared.vswitch.synced().await {
        error!(%error, "the local switch's database cannot be used");
        shared.wait_for(format!("a local switch's database that fits: {error}"));
        sleep(LATER).await;
    }
    handle.wake();
    let (name, mut remotes) = loop {
        let snapshot = shared.vswitch.snapshot();
        match (system_id(&snapshot).cloned(), shared.remotes()) {
            (None, _) => shared.wait_for("external_ids:system-id in the local switch's database"),
            (Some(_), None) => shared.wait_for(format!(
                "external_ids:{} in the local switch's database, or the option {}",
                source.setting(),
                source.option()
            )),
            (Some(name), Some(remotes)) => break (name, remotes),
        }
        handle.wake();
        if vswitch.next().await.is_none() {
            return;
        }
    };
    info!("Loaded chassis {name}.");
    shared.wait_for(format!("the {} database", source.database()));
    let mut conditions = Conditions { system_id: name, ..Default::default() };
    let model = match source {
        Source::Southbound => model(&conditions),
        Source::Northbound => northbound::model(),
    };
    let ovn = Client::open(shared.client(remotes.clone()), model);
    let mut feed = ovn.subscribe();
    *lock(&shared.ovn) = Some(ovn.clone());
    handle.wake();
    loop {
        let found = tokio::select! {
            found = usable(source, &ovn) => found,
            event = vswitch.next() => {
                if event.is_none() {
                    return;
                }
                shared.go_where_told(&ovn, &mut remotes).await;
                continue;
            }
        };
        let Err(what) = found else { break };
        error!("the {} database cannot be used: {what}", source.database());
        shared.wait_for(format!("a {} database that fits: {what}", source.database()));
        handle.wake();
        sleep(LATER).await;
    }
    loop {
        let ready = lock(&shared.in_force).is_some();
        let wanted = wanted(&shared, &ovn, &conditions);
        if wanted != conditions {
            debug!(?wanted, "asking for other rows");
            if source == Source::Southbound && ask(&ovn, &conditions, &wanted).await.is_err() {
                return;
            }
            conditions = wanted;
            // Before the first decision it is looked again whether the new rows make others matter.
            if !ready {
                continue;
            }
        }
        if !ready {
            info!("BGP Agent Started...");
        }
        let before = lock(&shared.in_force).replace(conditions.clone());
        if before.as_ref() != Some(&conditions) {
            handle.wake();
        }
        tokio::select! {
            event = feed.next() => match event {
                Some(event) => {
                    shared.told(&ovn, &event);
                    handle.wake();
                }
                None => return,
            },
            event = vswitch.next() => match event {
                Some(event) => {
                    shared.told(&shared.vswitch, &event);
                    shared.go_where_told(&ovn, &mut remotes).await;
                    handle.wake();
                }
                None => return,
            },
        }
    }
}

impl Shared {
    /// Notes and logs that a database was lost or is back.
    fn told(&self, client: &Client, event: &FeedEvent) {
        let database = client.database();
        match event {
            FeedEvent::Disconnected { reason } => {
                warn!(database, %reason, "a database is lost; everything stays as it is");
                let now = tokio::time::Instant::now().into_std();
                lock(&self.lost).entry(database.to_owned()).or_insert(now);
            }
            FeedEvent::Reconnected { how } => {
                info!(database, ?how, "the database is back");
                lock(&self.lost).remove(database);
            }
            FeedEvent::Synced { .. } => drop(lock(&self.lost).remove(database)),
            FeedEvent::Changed { .. } => {}
        }
    }

    /// Has the client go to where the database is now, if that is elsewhere.
    async fn go_where_told(&self, ovn: &Client, remotes: &mut Remotes) {
        if let Some(other) = self.remotes().filter(|other| other != remotes) {
            info!("the {} database is elsewhere now", self.config.source.database());
            ovn.set_remotes(other.clone()).await;
            *remotes = other;
        }
    }
}

/// Waits for the rows; fails where the server's schema cannot tell what is needed.
async fn usable(source: Source, ovn: &Client) -> Result<(), String> {
    let snapshot: Snapshot = ovn.synced().await.map_err(|error| error.to_string())?;
    if source == Source::Northbound && !northbound::tells_gateways(&snapshot) {
        return Err("its Logical_Router_Port has no column status, so it does not tell which chassis has a gateway; the \
                    driver nb_ovn_bgp_driver needs OVN 23.09 or newer, use driver = ovn_bgp_driver"
            .into());
    }
    Ok(())
}

/// What is held of the Southbound database at the start.
fn model(conditions: &Conditions) -> Model {
    use ovn::sb::{Chassis, LoadBalancer, LogicalDpGroup, PortBinding};
    let model = Model::new("OVN_Southbound")
        .table_where::<Chassis>(conditions.chassis())
        .table_where::<PortBinding>(conditions.ports())
        .table_where::<LoadBalancer>(conditions.balancers())
        .table_where::<LogicalDpGroup>(conditions.balancers());
    with_indexes(model)
}

/// The conditions that the rows at hand ask for. Of the Northbound all rows are there.
fn wanted(shared: &Shared, ovn: &Client, now: &Conditions) -> Conditions {
    let system_id = system_id(&shared.vswitch.snapshot()).cloned().unwrap_or_else(|| now.system_id.clone());
    if shared.config.source == Source::Northbound {
        return Conditions { system_id, ..now.clone() };
    }
    let snapshot = shared.inputs_now(ovn);
    match reach(&snapshot) {
        Some(Reach { switches, has_gateway }) => {
            Conditions { system_id, me: snapshot.me(), switches, balancers: has_gateway }
        }
        // While OVN does not know us, what mattered is kept: it is likely to matter again.
        None => Conditions { system_id, ..now.clone() },
    }
}

/// Changes the conditions that differ; fails when the client is closed.
async fn ask(client: &Client, now: &Conditions, wanted: &Conditions) -> Result<(), ()> {
    use ovn::sb::{Chassis, LoadBalancer, LogicalDpGroup, PortBinding};
    use ovsdb::client::ConditionError;
    let check = |result| match result {
        Err(ConditionError::Closed) => Err(()),
        Err(error @ ConditionError::Refused { .. }) => {
            error!(%error, "the Southbound database does not tell the rows that matter");
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    if now.system_id != wanted.system_id {
        check(client.set_condition::<Chassis>(wanted.chassis()).await)?;
    }
    if (now.me, &now.switches) != (wanted.me, &wanted.switches) {
        check(client.set_condition::<PortBinding>(wanted.ports()).await)?;
    }
    if now.balancers != wanted.balancers {
        check(client.set_condition::<LogicalDpGroup>(wanted.balancers()).await)?;
        check(client.set_condition::<LoadBalancer>(wanted.balancers()).await)?;
    }
    Ok(())
}
