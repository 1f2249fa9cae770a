//! The task that opens the connections in their order, goes where the settings lead, and requests the rows that roles ask for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ovsdb::client::{ConditionError, OpenError};
use ovsdb::session::Remotes;
use ovsdb::{AnyCondition, Client, FeedEvent, Str};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::{Connection, ConnectionsState, OvnDatabase, lock, switch};

/// Time to wait after an error that needs an operator.
const LATER: Duration = Duration::from_secs(10);

/// Keeps all connections, for ever.
pub(super) async fn follow(shared: Arc<ConnectionsState>) {
    let mut feed = shared.vswitch.subscribe();
    while let Err(error) = shared.vswitch.synced().await {
        if matches!(error, OpenError::Closed) {
            return;
        }
        error!(%error, "the local switch's database cannot be used");
        let connections = shared.databases.values();
        connections.for_each(|one| one.wait_for(format!("a local switch's database that fits: {error}")));
        shared.change();
        sleep(LATER).await;
    }
    shared.change();
    let mut databases = JoinSet::new();
    for database in shared.databases.keys() {
        databases.spawn(follow_database(Arc::clone(&shared), *database));
    }
    while let Some(event) = feed.next().await {
        shared.note(&shared.vswitch, &event);
    }
}

/// Keeps the connection to one of OVN's databases.
async fn follow_database(shared: Arc<ConnectionsState>, database: OvnDatabase) {
    let connection = &shared.databases[&database];
    let mut vswitch = shared.vswitch.subscribe();
    let mut remotes = loop {
        match (switch::system_id(&shared.vswitch.snapshot()), shared.remotes(database)) {
            (None, _) => connection.wait_for("external_ids:system-id in the local switch's database"),
            (Some(_), None) => connection.wait_for(format!(
                "external_ids:{} in the local switch's database, or the option {}",
                database.setting(),
                database.option()
            )),
            (Some(_), Some(remotes)) => break remotes,
        }
        shared.change();
        if vswitch.next().await.is_none() {
            return;
        }
    };
    connection.wait_for(format!("the {database} database"));
    let config = shared.settings.of(database).client(remotes.clone());
    let client = Client::open(config, connection.model.clone());
    connection.client.send_replace(Some(client.clone()));
    shared.change();
    let mut feed = client.subscribe();
    let news = async {
        loop {
            tokio::select! {
                event = feed.next() => match event {
                    Some(event) => shared.note(&client, &event),
                    None => return,
                },
                event = vswitch.next() => match event {
                    Some(_) => go(&shared, database, &client, &mut remotes).await,
                    None => return,
                },
            }
        }
    };
    tokio::select! {
        () = news => {}
        () = keep_rows(connection, &client, database) => {}
        () = report_misfits(&shared, connection, &client, database) => {}
    }
}

/// Has the client go to where the database is now, if that is elsewhere.
async fn go(shared: &ConnectionsState, database: OvnDatabase, client: &Client, remotes: &mut Remotes) {
    if let Some(other) = shared.remotes(database).filter(|other| other != remotes) {
        info!("the {database} database is elsewhere now");
        client.set_remotes(other.clone()).await;
        *remotes = other;
    }
}

/// Reports a schema that does not fit, until it does.
async fn report_misfits(
    shared: &ConnectionsState,
    connection: &Connection,
    client: &Client,
    database: OvnDatabase,
) {
    loop {
        match client.synced().await {
            Ok(_) => {
                connection.wait_for(format!("the {database} database"));
                shared.change();
                return std::future::pending().await;
            }
            Err(OpenError::Closed) => return,
            Err(error) => {
                error!(%error, "the {database} database cannot be used");
                connection.wait_for(format!("a {database} database that fits: {error}"));
                shared.change();
                sleep(LATER).await;
            }
        }
    }
}

/// Requests the rows that roles ask for, and tells when they are there.
async fn keep_rows(connection: &Connection, client: &Client, database: OvnDatabase) {
    let mut asked = connection.asked.subscribe();
    let initial = connection.model.tables().map(|(table, condition)| (table.clone(), condition.clone()));
    let mut in_force: BTreeMap<Str, AnyCondition> = initial.collect();
    loop {
        let now = asked.borrow_and_update().clone();
        let mut requests = JoinSet::new();
        for (table, before) in &mut in_force {
            let wanted = now.union(table);
            if *before == wanted {
                continue;
            }
            before.clone_from(&wanted);
            let (client, table) = (client.clone(), table.clone());
            requests.spawn(async move { client.set_condition_of(&table, wanted).await });
        }
        while let Some(answer) = requests.join_next().await {
            match answer {
                Ok(Ok(())) => {}
                Ok(Err(ConditionError::Closed)) | Err(_) => return,
                Ok(Err(error)) => {
                    error!(%error, "the {database} database refuses to send the requested rows")
                }
            }
        }
        connection.in_force.send_replace(now.revision());
        if asked.changed().await.is_err() {
            return;
        }
    }
}

impl ConnectionsState {
    /// Notes and logs that a database was lost or is back.
    fn note(&self, client: &Client, event: &FeedEvent) {
        let database = client.database();
        match event {
            FeedEvent::Disconnected { reason } => {
                warn!(database, %reason, "a database is lost; everything stays as it is");
                let now = Instant::now().into_std();
                lock(&self.lost).entry(database.to_owned()).or_insert(now);
            }
            FeedEvent::Reconnected { how } => {
                info!(database, ?how, "the database is back");
                lock(&self.lost).remove(database);
            }
            FeedEvent::Synced { .. } => drop(lock(&self.lost).remove(database)),
            FeedEvent::Changed { .. } => return,
        }
        self.change();
    }
}
