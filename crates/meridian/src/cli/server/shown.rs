//! The status of a server, for `meridian status`, `meridian plan` and health checks.

use std::collections::BTreeMap;

use api::northbound::{Northbound, OvnView};
use api::status::{NetworkStatus, explain};
use api::store::{Store, Url};
use ovsdb::Client;
use reconcile::{Class, Handle, Severity, State};

use crate::process::{Answering, Database, Subject};

/// A running server.
pub(super) struct Shown {
    pub(super) ovn: OvnView,
    pub(super) store: Store,
    pub(super) url: Url,
    pub(super) northbound: Northbound,
    pub(super) loops: Vec<Handle>,
}

impl Shown {
    fn statuses(&self) -> impl Iterator<Item = reconcile::Status> {
        let standby = !self.northbound.is_writer();
        self.loops.iter().map(move |handle| {
            let mut status = handle.status().borrow().clone();
            if standby && status.state == State::Starting {
                status.state = State::Standby;
            }
            status
        })
    }

    fn stored(&self) -> Database {
        let trouble = self.store.trouble();
        Database {
            database: match self.url {
                Url::Sqlite(_) => "SQLite",
                Url::Postgres(_) => "PostgreSQL",
            }
            .to_owned(),
            state: if trouble.is_none() { "synced" } else { "disconnected" }.to_owned(),
            remote: Some(self.url.to_string()),
            last_error: trouble,
            ..Database::default()
        }
    }
}

impl Subject for Shown {
    fn clients(&self) -> Vec<Client> {
        vec![self.ovn.northbound().clone(), self.ovn.southbound().clone()]
    }

    fn databases(&self) -> Vec<Database> {
        let ovn = self.clients();
        let ovn = ovn.iter().map(|client| Database::of(client, BTreeMap::new()));
        ovn.chain([self.stored()]).collect()
    }

    /// A server without OVN's databases still answers requests, but it is not healthy: the changes do not reach OVN.
    fn healthy(&self) -> bool {
        self.trouble().is_empty()
    }

    fn trouble(&self) -> Vec<String> {
        let away = self.databases().into_iter().filter(|database| database.state != "synced");
        let away = away.map(|database| match database.last_error {
            Some(error) => format!("{} is {}: {error}", database.database, database.state),
            None => format!("{} is {}", database.database, database.state),
        });
        away.chain(self.statuses().filter_map(|status| of_loop(&status))).collect()
    }

    fn network(&self) -> Option<NetworkStatus> {
        let (report, fleet) = (self.ovn.report(), self.ovn.fleet());
        let (report, fleet) = (report.borrow().clone(), fleet.borrow().clone());
        Some(NetworkStatus::of(&self.store.world(), &report, &fleet, jiff::Timestamp::now()))
    }

    fn components(&self) -> Vec<reconcile::Status> {
        self.statuses().collect()
    }

    fn allow_deletions(&self) -> Result<(), String> {
        self.northbound.allow_deletions().map_err(|error| error.to_string())
    }

    fn explain<'a>(&'a self, subject: &'a str) -> Answering<'a> {
        Box::pin(async move {
            let (report, fleet) = (self.ovn.report(), self.ovn.fleet());
            let (report, fleet) = (report.borrow().clone(), fleet.borrow().clone());
            let text = explain(&self.store.world(), &report, &fleet, jiff::Timestamp::now(), subject);
            Ok(serde_json::json!({"subject": subject, "text": text}))
        })
    }

    fn plan(&self) -> Answering<'_> {
        Box::pin(async {
            let mut plans = Vec::new();
            for handle in &self.loops {
                let plan = handle.plan().await.map_err(|error| format!("{}: {error}", handle.component()))?;
                plans.push(serde_json::to_value(plan).map_err(|error| error.to_string())?);
            }
            Ok(plans.into())
        })
    }
}

/// Codes of refusals that no API request causes: another program wrote the row.
const NOBODY_ASKED: [&str; 2] = ["foreign-row", "unreadable-row"];

/// The trouble of a loop, if it has any. A loop that works or waits for its next run is fine. Refused objects of API users do not count:
/// any project can request an object that cannot exist, and that must not alert the operator.
fn of_loop(status: &reconcile::Status) -> Option<String> {
    let errors = status.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let (refused, errors): (Vec<_>, Vec<_>) = errors.partition(|problem| {
        problem.class == Class::Refused
            && problem.object.kind != "component"
            && !NOBODY_ASKED.contains(&problem.code.as_str())
    });
    match (errors.as_slice(), status.state) {
        ([], State::Stuck) if !refused.is_empty() => None,
        ([first], _) => Some(format!("{}: {first}", status.component)),
        ([first, rest @ ..], _) => Some(format!(
            "{}: {first}; and {} more objects are not as requested",
            status.component,
            rest.len()
        )),
        ([], State::BackingOff | State::Stuck) => {
            let why = status.last_error.as_ref().map_or("something failed", |error| error.message.as_str());
            Some(format!("{}: {why}", status.component))
        }
        ([], _) => None,
    }
}

#[cfg(test)]
mod tests {
    use reconcile::{ObjectId, Problem};

    use super::*;

    fn status(state: State, problems: Vec<Problem>) -> reconcile::Status {
        let text = serde_json::json!({
            "component": "northbound", "state": state, "want": 2, "have": 1, "planned": 0, "held": 0, "generation": 1,
            "stages": [], "problems": problems,
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn only_what_needs_somebody_is_trouble() {
        let object = |id: &str| ObjectId::new("port", id);
        let warning = Problem::warning(object("a"), Class::Refused, "slow", "is slow");
        let error = |id| Problem::error(object(id), Class::Bug, "bad", "is bad");
        let refused = |code: &str| Problem::error(object("d"), Class::Refused, code, "is refused");
        assert_eq!(of_loop(&status(State::Starting, vec![])), None);
        assert_eq!(of_loop(&status(State::Working, vec![warning])), None);
        let two = of_loop(&status(State::Stuck, vec![error("b"), error("c")])).unwrap();
        assert_eq!(two, "northbound: port/b: is bad (bad, bug); and 1 more objects are not as requested");
        assert_eq!(
            of_loop(&status(State::Stuck, vec![refused("unknown-protocol"), refused("apply-failed")])),
            None
        );
        assert!(of_loop(&status(State::Stuck, vec![refused("foreign-row")])).is_some());
        let itself = ObjectId::new("component", "northbound");
        let whole = Problem::error(itself, Class::Refused, "apply-failed", "cannot write");
        assert!(of_loop(&status(State::Stuck, vec![refused("unknown-protocol"), whole])).is_some());
        assert_eq!(of_loop(&status(State::BackingOff, vec![])).unwrap(), "northbound: something failed");
    }
}
