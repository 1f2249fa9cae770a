//! The answers of a process with several roles: status, plans, explanations and metrics of all of them.

use std::fmt;
use std::sync::Arc;

use node::bgp::announced::{Announcement, Peer};
use node::bgp::explain::Vlan;
use node::bgp::health::Promise;
use node::connections::NodeConnections;
use ovsdb::Client;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::Value;

use super::Role;
use crate::process::{Answering, Database, Subject, parse_address};

/// A process with its roles.
pub(super) struct NodeSubject {
    connections: NodeConnections,
    roles: Vec<Arc<dyn Role>>,
}

impl NodeSubject {
    pub(super) fn new(connections: NodeConnections, roles: Vec<Arc<dyn Role>>) -> Self {
        NodeSubject { connections, roles }
    }

    fn all<T>(&self, of: impl Fn(&dyn Role) -> Vec<T>) -> Vec<T> {
        self.roles.iter().flat_map(|role| of(&**role)).collect()
    }
}

impl Subject for NodeSubject {
    fn clients(&self) -> Vec<Client> {
        self.connections.clients()
    }

    fn databases(&self) -> Vec<Database> {
        let rows = |client: &Client| {
            let snapshot = client.snapshot();
            snapshot.row_counts().map(|(table, rows)| (table.to_string(), rows as u64)).collect()
        };
        self.clients().iter().map(|client| Database::of(client, rows(client))).collect()
    }

    fn healthy(&self) -> bool {
        self.trouble().is_empty()
    }

    fn trouble(&self) -> Vec<String> {
        self.all(|role| role.trouble())
    }

    fn promises(&self) -> Vec<Promise> {
        self.all(|role| role.promises())
    }

    fn vlans(&self) -> Vec<Vlan> {
        self.all(|role| role.vlans())
    }

    fn announcements(&self) -> Vec<Announcement> {
        self.all(|role| role.announcements())
    }

    fn peers(&self) -> Vec<Peer> {
        self.all(|role| role.peers())
    }

    fn components(&self) -> Vec<reconcile::Status> {
        self.all(|role| vec![role.handle().status().borrow().clone()])
    }

    fn plan(&self) -> Answering<'_> {
        Box::pin(async {
            let mut plans = Vec::new();
            for role in &self.roles {
                let plan = role.handle().plan().await.map_err(|error| match self.roles.len() {
                    1 => error.to_string(),
                    _ => format!("{}: {error}", role.handle().component()),
                })?;
                plans.push(plan);
            }
            serde_json::to_value(plans).map_err(|error| error.to_string())
        })
    }

    fn explain<'a>(&'a self, subject: &'a str) -> Answering<'a> {
        Box::pin(async move {
            let ip = parse_address(subject)?;
            let mut told = Vec::new();
            for role in &self.roles {
                told.push((role.handle().component().to_owned(), role.explain(ip).await));
            }
            joined(told)
        })
    }
}

/// The explanations of several roles as one: the members of all, and one list of sentences. A role that cannot explain says so among
/// them, unless it is the only one.
fn joined(told: Vec<(String, Result<Value, String>)>) -> Result<Value, String> {
    if told.iter().all(|(_, told)| told.is_err()) {
        let errors: Vec<String> = told.into_iter().filter_map(|(_, told)| told.err()).collect();
        return Err(errors.join("; "));
    }
    let (mut members, mut text) = (serde_json::Map::new(), Vec::new());
    for (role, told) in told {
        match told {
            Ok(Value::Object(mut object)) => {
                if let Some(Value::Array(sentences)) = object.remove("text") {
                    text.extend(sentences);
                }
                members.extend(object);
            }
            Ok(_) => {}
            Err(why) => text.push(format!("The role {role} cannot explain it: {why}.").into()),
        }
    }
    members.insert("text".into(), text.into());
    Ok(members.into())
}

/// The metrics of a role.
pub(super) struct RoleCollector(pub(super) Arc<dyn Role>);

impl fmt::Debug for RoleCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RoleCollector").field(&self.0.handle().component()).finish()
    }
}

impl Collector for RoleCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn explanations_of_several_roles_are_one() {
        let bgp = || ("bgp".to_owned(), Ok(json!({"ip": "10.0.0.1", "exposed": true, "text": ["one"]})));
        let metadata = || ("metadata".to_owned(), Ok(json!({"ip": "10.0.0.1", "text": ["two", "three"]})));
        let waits = |role: &str| (role.to_owned(), Err("waits".to_owned()));
        let both = joined(vec![bgp(), metadata()]).unwrap();
        assert_eq!(both, json!({"ip": "10.0.0.1", "exposed": true, "text": ["one", "two", "three"]}));
        let one = joined(vec![waits("bgp"), metadata()]).unwrap();
        let expected = ["The role bgp cannot explain it: waits.", "two", "three"];
        assert_eq!(one, json!({"ip": "10.0.0.1", "text": expected}));
        assert_eq!(joined(vec![waits("bgp")]), Err("waits".to_owned()), "a single role says it as its own");
        assert_eq!(joined(vec![bgp()]).unwrap(), bgp().1.unwrap());
    }
}
