//! A role's share of a connection: the rows that it asks for, for as long as it runs.

use ovsdb::Client;

use super::{Connection, NodeConnections, OvnDatabase, RowConditions, lock};

/// The connection is closed: the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct ConnectionClosed;

/// A role's subscription to one of OVN's databases. Its rows leave the connection with it.
#[derive(Debug)]
pub struct RowSubscription {
    connections: NodeConnections,
    database: OvnDatabase,
    role: u64,
}

impl RowSubscription {
    pub(super) fn new(connections: NodeConnections, database: OvnDatabase) -> Self {
        let mut role = 0;
        let connection = connections.0.databases.get(&database);
        let connection = connection.expect("the connections were opened with the tables of their roles");
        connection.asked.send_if_modified(|asked| {
            role = asked.join();
            false
        });
        RowSubscription { connections, database, role }
    }

    fn connection(&self) -> &Connection {
        &self.connections.0.databases[&self.database]
    }

    /// The connections that this one is of.
    pub fn connections(&self) -> &NodeConnections {
        &self.connections
    }

    /// The client, if it is open.
    pub fn client(&self) -> Option<Client> {
        self.connection().client.borrow().clone()
    }

    /// Waits until the client is open.
    pub async fn opened(&self) -> Client {
        let mut client = self.connection().client.subscribe();
        loop {
            if let Some(client) = client.borrow_and_update().clone() {
                return client;
            }
            // The subscription holds the sender.
            let _ = client.changed().await;
        }
    }

    /// The input that the connection waits for until it is in sync.
    pub fn waiting_for(&self) -> String {
        lock(&self.connection().waiting).clone()
    }

    /// Replaces the rows that this role asks for; returns when the replica holds all of them.
    pub async fn ask(&self, rows: RowConditions) -> Result<(), ConnectionClosed> {
        let connection = self.connection();
        let mut in_force = connection.in_force.subscribe();
        let mut revision = 0;
        connection.asked.send_modify(|asked| revision = asked.ask(self.role, rows));
        let reached = in_force.wait_for(|now| *now >= revision).await.map(drop);
        match self.client() {
            Some(_) => reached.map_err(|_| ConnectionClosed),
            None => Err(ConnectionClosed),
        }
    }

    /// Ends the role's interest: its rows leave the connection unless another role asks for them.
    pub fn release(&self) {
        self.connection().asked.send_modify(|asked| asked.leave(self.role));
    }
}

impl Drop for RowSubscription {
    fn drop(&mut self) {
        self.release();
    }
}
