//! The writer's tasks besides rows: it clears stale neighbours, removes deleted agents, increments `nb_cfg` so that agents answer, and
//! removes records of adopted rows that are gone.

use std::time::Duration;

use ovn::nb::NbGlobal;
use ovn::sb::MacBinding;
use ovn::text::neutron::key::LIVENESS_CHECK_AT;
use ovsdb::client::LockState;
use ovsdb::{Client, Function, Map, RowFilter, Str, Transaction};
use tokio::sync::watch;
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::OvnView;
use crate::model::{Adopted, FloatingIp};
use crate::resource::agent;
use crate::store::Store;
use crate::world::{Txn, World};

/// The delay after a chassis could not be removed.
const RETRY: Duration = Duration::from_secs(5);

/// Clears the neighbour entries of floating IPs: a router that learned the MAC of an address before or while it was a floating IP would
/// keep using it.
pub(super) async fn forget_neighbours(
    mut worlds: watch::Receiver<World>,
    sb: Client,
    lock: watch::Receiver<LockState>,
) {
    let mut known = worlds.borrow_and_update().clone();
    while worlds.changed().await.is_ok() {
        let world = worlds.borrow_and_update().clone();
        let changes = world.table::<FloatingIp>().changes_since(known.table::<FloatingIp>());
        let moved = changes.filter(|(before, after)| {
            let place = |fip: &std::sync::Arc<FloatingIp>| (fip.port_id, fip.router_id, fip.fixed_ip_address);
            before.map(place) != after.map(place)
        });
        let mut txn = Transaction::new();
        for fip in moved.filter_map(|(before, after)| after.or(before)) {
            let ip = Str::new(fip.floating_ip_address.to_string());
            txn.delete_where(&RowFilter::column(MacBinding::IP, Function::Equal, &ip));
        }
        known = world;
        if !txn.is_empty()
            && *lock.borrow() == LockState::Held
            && let Err(error) = sb.commit(&txn).await
        {
            // The entries age out by themselves.
            debug!(%error, "cannot delete the learned MAC addresses of floating IPs");
        }
    }
}

/// Removes the chassis of deleted agents from the Southbound.
pub(super) async fn remove_agents(
    mut worlds: watch::Receiver<World>,
    ovn: OvnView,
    mut held: watch::Receiver<LockState>,
) {
    let mut reports = ovn.report();
    loop {
        let (world, report) = (worlds.borrow_and_update().clone(), reports.borrow_and_update().clone());
        let mut failed = false;
        if *held.borrow_and_update() == LockState::Held {
            for agent in agent::removed(&world, &report) {
                match ovn.remove_chassis(agent).await {
                    Ok(true) => info!(chassis = agent.chassis, "removed the chassis of a deleted agent"),
                    Ok(false) => {
                        debug!(
                            chassis = agent.chassis,
                            "kept the chassis of a deleted agent: it has reported since"
                        );
                        failed = true;
                    }
                    Err(error) => {
                        warn!(%error, chassis = agent.chassis, "cannot remove the chassis of a deleted agent");
                        failed = true;
                    }
                }
            }
        }
        tokio::select! {
            changed = worlds.changed() => if changed.is_err() { return },
            changed = reports.changed() => if changed.is_err() { return },
            changed = held.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY), if failed => {}
        }
    }
}

/// Removes the records of adopted rows that nothing needs any more. A record outlives its object, because the row must be known as ours
/// until it is gone too. Runs until the loop ends.
pub async fn forget_adopted(store: Store, mut spent: watch::Receiver<Vec<Uuid>>) {
    while spent.changed().await.is_ok() {
        let records = spent.borrow_and_update().clone();
        let count = records.len();
        let forgotten = store.execute(move |txn: &mut Txn| {
            records.iter().for_each(|ours| drop(txn.remove::<Adopted>(ours)));
            Ok(())
        });
        match forgotten.await {
            Ok(_) => info!(count, "deleted the records of adopted rows that no longer exist"),
            // The next full resync finds them again.
            Err(error) => debug!(%error, "cannot delete the records of adopted rows"),
        }
    }
}

/// Increments `nb_cfg` from time to time. Every chassis writes the number back, which shows that it is alive.
pub(super) async fn poke(nb: Client, lock: String, held: watch::Receiver<LockState>, agent_down_time: u32) {
    let mut tick = tokio::time::interval(Duration::from_secs(u64::from(agent_down_time / 2).max(1)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick is immediate, when no agent can be late yet.
    tick.tick().await;
    loop {
        tick.tick().await;
        if held.has_changed().is_err() {
            return;
        }
        if *held.borrow() != LockState::Held {
            continue;
        }
        let snapshot = nb.snapshot();
        // northd creates the row when it starts; until then no chassis would answer.
        let Some((row, _)) = snapshot.table::<NbGlobal>().iter().next() else { continue };
        let now = Str::new(jiff::Timestamp::now().to_string());
        let mut txn = Transaction::new();
        txn.assert_lock(&lock);
        txn.add(row, NbGlobal::NB_CFG, 1);
        txn.put(row, NbGlobal::EXTERNAL_IDS, &Map::from([(LIVENESS_CHECK_AT.into(), now)]));
        if let Err(error) = nb.commit(&txn).await {
            debug!(%error, "cannot request reports from the agents");
        }
    }
}
