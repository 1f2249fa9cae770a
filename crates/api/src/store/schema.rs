//! The tables, as one list of migration steps for both engines. A step never changes after its release.

use std::borrow::Cow;

use crate::world::{Kind, Revision};

/// The steps that are written by hand, in order. Each noun added later brings a generated step or shares one
/// ([`registry`](crate::registry)).
const WRITTEN: [&str; 2] = [FIRST, STORE_NAME];

/// All steps, in order. The version of a database is the number of steps that it has run.
pub(super) fn steps() -> Vec<Cow<'static, str>> {
    steps_with(Kind::ALL.iter().map(|kind| (kind.since(), kind.table(), kind.column_definitions())))
}

/// The hand-written steps, and those that create the tables of later nouns (given as step, table, columns).
fn steps_with<'k>(
    nouns: impl Iterator<Item = (usize, &'k str, &'k [&'k str])> + Clone,
) -> Vec<Cow<'static, str>> {
    let mut steps: Vec<Cow<'static, str>> = WRITTEN.into_iter().map(Cow::Borrowed).collect();
    let last = nouns.clone().map(|(since, ..)| since).max().unwrap_or(0);
    for step in WRITTEN.len() + 1..=last {
        let tables = nouns.clone().filter(|(since, ..)| *since == step).map(|(_, table, columns)| {
            let columns = columns.iter().map(|columns| format!("{columns}, ")).collect::<String>();
            format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, {columns}body TEXT NOT NULL);\n")
        });
        steps.push(tables.collect::<String>().into());
    }
    steps
}

/// The database checks references at commit, because a transaction writes its rows noun by noun.
const FIRST: &str = "
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL);
INSERT INTO state (one, seq) VALUES (1, 0);
CREATE TABLE changes (
    seq BIGINT NOT NULL,
    batch TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (seq, kind, key)
);
CREATE TABLE address_scopes (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE subnetpools (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    address_scope_id TEXT REFERENCES address_scopes (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE networks (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE subnets (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    network_id TEXT NOT NULL REFERENCES networks (id) DEFERRABLE INITIALLY DEFERRED,
    subnetpool_id TEXT REFERENCES subnetpools (id) DEFERRABLE INITIALLY DEFERRED,
    cidr TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE security_groups (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE security_group_rules (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    security_group_id TEXT NOT NULL REFERENCES security_groups (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE ports (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    network_id TEXT NOT NULL REFERENCES networks (id) DEFERRABLE INITIALLY DEFERRED,
    mac_address TEXT NOT NULL,
    device_id TEXT NOT NULL,
    device_owner TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (network_id, mac_address)
);
CREATE TABLE ipallocations (
    port_id TEXT NOT NULL REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    subnet_id TEXT NOT NULL REFERENCES subnets (id) DEFERRABLE INITIALLY DEFERRED,
    ip_address TEXT NOT NULL,
    PRIMARY KEY (subnet_id, ip_address)
);
CREATE INDEX ipallocations_of_port ON ipallocations (port_id);
CREATE TABLE routers (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    gw_port_id TEXT REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE router_extra_attributes (
    router_id TEXT PRIMARY KEY REFERENCES routers (id) DEFERRABLE INITIALLY DEFERRED,
    enable_default_route_ecmp BOOLEAN NOT NULL,
    enable_default_route_bfd BOOLEAN NOT NULL
);
CREATE TABLE routerports (
    router_id TEXT NOT NULL REFERENCES routers (id) DEFERRABLE INITIALLY DEFERRED,
    port_id TEXT PRIMARY KEY REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    port_type TEXT NOT NULL
);
CREATE TABLE floatingips (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    floating_network_id TEXT NOT NULL REFERENCES networks (id) DEFERRABLE INITIALLY DEFERRED,
    floating_ip_address TEXT NOT NULL,
    floating_port_id TEXT NOT NULL REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    fixed_port_id TEXT REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    router_id TEXT REFERENCES routers (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL,
    UNIQUE (floating_network_id, floating_ip_address)
);
CREATE TABLE rbac_policies (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE placements (
    id TEXT PRIMARY KEY REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE quotas (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE agent_settings (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE adopted_rows (id TEXT PRIMARY KEY, body TEXT NOT NULL);
";

/// Gives the store a name of its own ([`Revision`](crate::world::Revision)).
const STORE_NAME: &str = "ALTER TABLE state ADD COLUMN store TEXT NOT NULL DEFAULT ''";

/// Names a store that has no name yet.
pub(super) const NAME_STORE: &str = "UPDATE state SET store = $1 WHERE store = ''";

/// Reads the revision: three columns, which [`revision`] combines.
///
/// The query reads the batch from the list of changes rather than from a column beside the number, so that it is right even while a server
/// of the previous version writes to the same database.
pub(super) const REVISION: &str = "SELECT store, seq, \
    COALESCE((SELECT batch FROM changes WHERE changes.seq = state.seq LIMIT 1), '') FROM state WHERE one = 1";

/// Counts the rows that a transaction left in the list of changes; zero if it never happened.
pub(super) const HAS_BATCH: &str = "SELECT count(*) FROM changes WHERE seq = $1 AND batch = $2";

/// Combines the columns of [`REVISION`]. A store without any change has no batch yet.
pub(super) fn revision(store: &str, seq: i64, batch: &str) -> Revision {
    let uuid = |text: &str| text.parse().unwrap_or_default();
    Revision { store: uuid(store), seq: u64::try_from(seq).unwrap_or(0), batch: uuid(batch) }
}

/// The table that holds the version, created before all others.
pub(super) const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";

/// The query for all entities of a noun.
pub(super) fn select_all(kind: Kind) -> String {
    format!("SELECT id, body FROM {}", kind.table())
}

/// The query for one entity.
pub(super) fn select_one(kind: Kind) -> String {
    format!("SELECT body FROM {} WHERE id = $1", kind.table())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nouns_of_the_first_step_are_created_there_and_later_ones_by_their_registration() {
        for kind in Kind::ALL.iter().filter(|kind| kind.since() == 1) {
            assert!(FIRST.contains(&format!("CREATE TABLE {} (", kind.table())), "{kind}");
            assert!(kind.column_definitions().is_empty(), "{kind}: step 1 is written, not made");
        }
        assert!(Kind::ALL.iter().all(|kind| kind.since() == 1 || kind.since() > WRITTEN.len()));
        let member: &[&str] = &["pool_id TEXT NOT NULL REFERENCES pools (id)"];
        let nouns: [(usize, &str, &[&str]); 3] =
            [(1, "networks", &[]), (3, "pools", &[]), (3, "members", member)];
        let steps = steps_with(nouns.into_iter());
        assert_eq!(steps.len(), 3);
        assert_eq!(
            steps[2],
            "CREATE TABLE pools (id TEXT PRIMARY KEY, body TEXT NOT NULL);\n\
             CREATE TABLE members (id TEXT PRIMARY KEY, pool_id TEXT NOT NULL REFERENCES pools (id), body TEXT NOT NULL);\n"
        );
    }
}
