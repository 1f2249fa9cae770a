//! Keeps asking OVN's database for the rows that matter.

use std::sync::Arc;
use std::time::Duration;

use ovsdb::{Client, Model, Snapshot};
use reconcile::Handle;
use tokio::time::sleep;
use tracing::{debug, error, info};

use super::{AgentState, lock};
use crate::bgp::conditions::Conditions;
use crate::bgp::desired::{Reach, reach};
use crate::bgp::northbound;
use crate::bgp::snapshot::with_indexes;
use crate::connections::switch::system_id;
use crate::connections::{OvnDatabase, RowConditions};

/// Delay after a failure that needs an operator.
const LATER: Duration = Duration::from_secs(10);

/// Asks for the rows that matter, and goes on asking for those that come to matter.
pub(super) async fn follow(shared: Arc<AgentState>, handle: Handle) {
    let source = shared.config.source;
    let mut vswitch = shared.vswitch.subscribe();
    let ovn = shared.ovn.opened().await;
    let mut feed = ovn.subscribe();
    let name = system_id(&shared.vswitch.snapshot()).cloned().unwrap_or_default();
    info!("Loaded chassis {name}.");
    handle.wake();
    let mut conditions = Conditions { system_id: name, ..Default::default() };
    if shared.ovn.ask(rows(source, &conditions)).await.is_err() {
        return;
    }
    while let Err(what) = usable(source, &ovn.snapshot()) {
        error!("the {source} database cannot be used: {what}");
        shared.wait_for(format!("a {source} database that fits: {what}"));
        handle.wake();
        sleep(LATER).await;
    }
    loop {
        let ready = lock(&shared.in_force).is_some();
        let wanted = wanted(&shared, &ovn, &conditions);
        if wanted != conditions {
            debug!(?wanted, "requesting other rows");
            if shared.ovn.ask(rows(source, &wanted)).await.is_err() {
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
        let event = tokio::select! {
            event = feed.next() => event,
            event = vswitch.next() => event,
        };
        if event.is_none() {
            return;
        }
        handle.wake();
    }
}

/// Fails where the server's schema cannot tell what is needed.
fn usable(source: OvnDatabase, snapshot: &Snapshot) -> Result<(), String> {
    if source == OvnDatabase::Northbound && !northbound::tells_gateways(snapshot) {
        return Err("its Logical_Router_Port has no column status, so it does not show which chassis has a gateway; the driver \
         nb_ovn_bgp_driver needs OVN 23.09 or newer, use driver = ovn_bgp_driver"
            .into());
    }
    Ok(())
}

/// The rows that are asked for: of the Northbound all.
fn rows(source: OvnDatabase, conditions: &Conditions) -> RowConditions {
    let model = match source {
        OvnDatabase::Southbound => model(conditions),
        OvnDatabase::Northbound => northbound::model(),
    };
    RowConditions::from(&model)
}

/// The requested rows of the Southbound database.
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
fn wanted(shared: &AgentState, ovn: &Client, now: &Conditions) -> Conditions {
    let system_id = system_id(&shared.vswitch.snapshot()).cloned().unwrap_or_else(|| now.system_id.clone());
    if shared.config.source == OvnDatabase::Northbound {
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
