//! Rows that ovn-kubernetes wrote, taken over in a real database.

use ovn::nb::{LogicalRouter, LogicalSwitch, LogicalSwitchPort};
use ovn::target::RowId;
use ovn::text::neutron::key::OWNER as MARK;
use ovsdb::{Table, Transaction};

use super::database::ZoneDatabase;
use super::upgrade::{all, cluster, seen_from};
use super::*;
use crate::upgrade::{LastingRows, claim, topology_of_rows};

/// The old rows of node1 as another program has them: without our mark, and with UUIDs of its own where they matter.
async fn old_rows(database: &mut ZoneDatabase) -> LastingRows {
    let mut zone = seen_from(&cluster(2..=4, &["node1", "node2", "node3"]), "node1");
    let whole = network(&DUAL, &zone.cluster);
    let part = compiled(&zone, &whole);
    let mut number = 0x1000;
    let mut foreign = |table: &'static str, name: &str| {
        number += 1;
        ((table, name.to_owned()), Uuid::from_u128(number))
    };
    let routers = all::<LogicalRouter>(&part).map(|(_, row)| (LogicalRouter::TABLE, row.name.to_string()));
    let switches = all::<LogicalSwitch>(&part).map(|(_, row)| (LogicalSwitch::TABLE, row.name.to_string()));
    let ports =
        all::<LogicalSwitchPort>(&part).map(|(_, row)| (LogicalSwitchPort::TABLE, row.name.to_string()));
    let names: Vec<(&'static str, String)> = routers.chain(switches).chain(ports).collect();
    let lasting = LastingRows::of(names.iter().map(|(table, name)| foreign(table, name)));
    zone.lasting = lasting.clone();
    database.write(&[compiled(&zone, &whole)]).await;
    // Our mark goes, as if we had never been here.
    let snapshot = database.snapshot().await;
    let mut txn = Transaction::new();
    macro_rules! unmark {
        ($($table:ty),*) => {$(
            for (uuid, row) in snapshot.table::<$table>().iter() {
                let mut unmarked = <$table>::clone(row);
                unmarked.external_ids.remove(MARK);
                txn.update(uuid, row, &unmarked);
            }
        )*};
    }
    unmark!(
        LogicalRouter,
        LogicalSwitch,
        LogicalSwitchPort,
        ovn::nb::LogicalRouterPort,
        ovn::nb::LogicalRouterStaticRoute,
        ovn::nb::LogicalRouterPolicy,
        ovn::nb::Nat
    );
    // These have no keys: our mark is in their UUIDs.
    for (number, (id, row)) in snapshot.table::<ovn::nb::StaticMacBinding>().iter().enumerate() {
        txn.delete(id).insert(Uuid::from_u128(0x2000 + number as u128), row);
    }
    // A row of a network that is not ours, and one of our network in another topology.
    let mut other = LogicalSwitch { name: "other".into(), ..Default::default() };
    other.external_ids = map([("k8s.ovn.org/network", "other_net"), ("k8s.ovn.org/topology", "layer2")]);
    txn.insert(Uuid::from_u128(1), &other);
    other.external_ids =
        map([("k8s.ovn.org/network", "test12_namespace-scoped"), ("k8s.ovn.org/topology", "layer3")]);
    txn.insert(Uuid::from_u128(2), &other);
    database.client.commit(&txn).await.unwrap();
    lasting
}

fn ours() -> BTreeSet<NetworkName> {
    [NetworkName::of_namespaced("test12", "namespace-scoped")].into()
}

#[tokio::test]
async fn rows_of_another_program_are_taken_over_only_by_the_command_and_keep_their_identity() {
    let mut database = ZoneDatabase::northbound();
    let lasting = old_rows(&mut database).await;
    let before = database.snapshot().await;
    assert_eq!(topology_of_rows(&before, &ours()), Some(Topology::Old));
    let claimed = claim(&before, &ours(), OWNER);
    let foreign: BTreeSet<RowId> = [1, 2].map(|id| RowId::of::<LogicalSwitch>(Uuid::from_u128(id))).into();
    assert!(foreign.iter().all(|row| !claimed.contains_key(row)), "rows of other networks and topologies");
    assert!(claimed.len() > 30, "{}", claimed.len());

    // Without the command not even an empty desired state touches them.
    assert_eq!(database.write(&[]).await, 0);

    // The switch, with the rows that were claimed.
    let mut zone = seen_from(&cluster(2..=4, &["node2", "node3"]), "node1");
    zone.lasting = LastingRows::read(&before, &ours(), &claimed);
    let whole = network(&DUAL, &zone.cluster);
    let mut wanted = compiled(&zone, &whole);
    claimed.iter().for_each(|(row, object)| wanted.adopt(*row, object.clone()));
    assert!(database.write(std::slice::from_ref(&wanted)).await > 0);
    let after = database.snapshot().await;
    assert_eq!(topology_of_rows(&after, &ours()), Some(Topology::New));
    for name in ["GR_test12_namespace.scoped_node1", "ext_test12_namespace.scoped_node1"] {
        let of = |snapshot: &ovsdb::Snapshot| -> Vec<Uuid> {
            let routers = snapshot.table::<LogicalRouter>().iter().filter(|(_, row)| row.name == *name);
            let switches = snapshot.table::<LogicalSwitch>().iter().filter(|(_, row)| row.name == *name);
            routers.map(|(id, _)| id.uuid()).chain(switches.map(|(id, _)| id.uuid())).collect()
        };
        assert_eq!(of(&after), of(&before), "{name} is the same row");
    }
    let ports = |snapshot: &ovsdb::Snapshot, end: &str| -> Vec<Uuid> {
        let rows = snapshot.table::<LogicalSwitchPort>();
        rows.iter().filter(|(_, row)| row.name.ends_with(end)).map(|(id, _)| id.uuid()).collect()
    };
    assert_eq!(ports(&after, "_test12_a"), ports(&before, "_test12_a"));
    let names: BTreeSet<String> =
        after.table::<ovn::nb::LogicalRouterPort>().iter().map(|(_, row)| row.name.to_string()).collect();
    assert_eq!(after.table::<ovn::nb::LogicalRouterPort>().iter().count(), names.len());
    assert!(names.contains("rtos-GR_test12_namespace.scoped_node1"), "{names:?}");
    for row in &foreign {
        assert_eq!(after.get::<LogicalSwitch>(row.uuid), before.get::<LogicalSwitch>(row.uuid));
    }

    // A process that starts again finds its rows by name, with nothing left to claim and nothing to do.
    assert_eq!(claim(&after, &ours(), OWNER), BTreeMap::new());
    zone.lasting = LastingRows::read(&after, &ours(), &BTreeMap::new());
    assert_eq!(
        zone.lasting.get(LogicalRouter::TABLE, "GR_test12_namespace.scoped_node1"),
        lasting.get(LogicalRouter::TABLE, "GR_test12_namespace.scoped_node1")
    );
    assert_eq!(database.write(&[compiled(&zone, &whole)]).await, 0);
}

#[tokio::test]
async fn a_node_that_is_sent_back_has_its_old_rows_again() {
    let mut database = ZoneDatabase::northbound();
    let whole = network(&DUAL, &ClusterNetwork::default());
    let rows = |old: &[&str]| compiled(&seen_from(&cluster(2..=4, old), "node1"), &whole);
    let names = |snapshot: &ovsdb::Snapshot| -> BTreeSet<(String, Uuid)> {
        let ports = snapshot.table::<ovn::nb::LogicalRouterPort>();
        ports.iter().map(|(id, row)| (row.name.to_string(), id.uuid())).collect()
    };
    database.write(&[rows(&["node1", "node2", "node3"])]).await;
    let old = names(&database.snapshot().await);
    database.write(&[rows(&["node2", "node3"])]).await;
    assert_ne!(names(&database.snapshot().await), old);
    database.write(&[rows(&["node1", "node2", "node3"])]).await;
    assert_eq!(names(&database.snapshot().await), old);
    assert_eq!(topology_of_rows(&database.snapshot().await, &ours()), Some(Topology::Old));
}
