//! The rows in real databases: what comes and goes, what is repaired, and what is left alone.

use central::{Database, Server};
use ovn::nb::{LogicalRouterPort, LogicalSwitch};
use ovn::sb::{Chassis, Encap};
use ovn::target::{ClientDatabase, Desired, Ownership, RowTarget, Rules, Tables};
use ovsdb::{ClientConfig, Transaction};
use reconcile::{Scope, StepResult, Target};

use super::*;

/// A database of a zone, and the target that the node writes it with.
struct ZoneDatabase {
    target: RowTarget<ClientDatabase>,
    client: ovsdb::Client,
    _server: Server,
    _dir: tempfile::TempDir,
}

impl ZoneDatabase {
    fn start(database: Database, tables: Tables) -> ZoneDatabase {
        let dir = tempfile::tempdir().unwrap();
        // The first OVN with transit routers.
        let schema = format!(
            "{}/../ovn/testdata/schema/ovn-{}-25.03.json",
            env!("CARGO_MANIFEST_DIR"),
            database.short()
        );
        let server = Server::start_as(dir.path(), database, schema.as_ref()).unwrap();
        let config = ClientConfig::new(server.remote().parse().unwrap());
        // One connection for the target and the test, so that the test sees what the target wrote.
        let database = ClientDatabase::open(config, tables, None);
        let client = database.client().clone();
        let target = RowTarget::new(database, Ownership::new(OWNER).naming(name_chassis), Rules::new());
        ZoneDatabase { target, client, _server: server, _dir: dir }
    }

    fn northbound() -> ZoneDatabase {
        Self::start(Database::Northbound, Tables::northbound())
    }

    fn southbound() -> ZoneDatabase {
        Self::start(Database::Southbound, Tables::new().with::<Chassis>().with::<Encap>())
    }

    /// Brings the database to these parts in one pass; gives the number of its steps.
    async fn write(&mut self, parts: &[Part]) -> usize {
        let mut desired = Desired::default();
        parts.iter().for_each(|part| desired.add(part));
        let observed = self.target.observe(Scope::Full).await.unwrap();
        let plan = self.target.plan(&desired, &BTreeSet::new(), &observed);
        assert!(plan.problems.is_empty(), "{:?}", plan.problems);
        if !plan.is_empty() {
            let applied = self.target.apply(&plan).await.unwrap();
            assert!(applied.results.iter().all(|it| matches!(it, StepResult::Done)), "{:?}", applied.results);
        }
        plan.steps.len()
    }

    async fn snapshot(&self) -> ovsdb::Snapshot {
        self.client.synced().await.unwrap();
        self.client.snapshot()
    }
}

fn chassis(ids: impl IntoIterator<Item = u16>) -> Vec<Part> {
    let part = |id| {
        let ip: IpAddr = format!("172.18.0.{id}").parse().unwrap();
        compile_chassis(&format!("node{}", id - 1), &node(id), [ip], OWNER)
    };
    ids.into_iter().map(part).collect()
}

#[tokio::test]
async fn scenario_21_a_node_that_goes_takes_its_rows_along() {
    let mut database = ZoneDatabase::northbound();
    let mut zone = zone("node1");
    let network = network(&DUAL, &zone.cluster);
    database.write(&[compiled(&zone, &network)]).await;
    let before = compiled(&zone, &network);
    zone.nodes.remove("node3");
    let after = compiled(&zone, &network);
    assert!(database.write(std::slice::from_ref(&after)).await > 0);
    assert_eq!(database.write(std::slice::from_ref(&after)).await, 0);
    // What stays keeps its UUID.
    let ids = |part: &Part| part.rows().map(|(id, _)| id).collect::<BTreeSet<_>>();
    assert!(ids(&after).is_subset(&ids(&before)));
    let snapshot = database.snapshot().await;
    let ports = snapshot.table::<LogicalRouterPort>();
    assert!(ports.iter().all(|(_, row)| !row.name.contains("node3")));
    assert_eq!(ports.iter().filter(|(_, row)| row.name.contains("trtor-")).count(), 2);
}

#[tokio::test]
async fn scenario_21_chassis_go_with_their_tunnel_ends_and_those_of_others_stay() {
    let mut database = ZoneDatabase::southbound();
    let (own, end) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let encap = Encap { ip: Text::new("10.0.0.1"), chassis_name: "own".into(), ..Default::default() };
    let row = Chassis { name: "own".into(), encaps: refs(vec![Ref::new(end)]), ..Default::default() };
    database.client.synced().await.unwrap();
    database.client.commit(Transaction::new().insert(end, &encap).insert(own, &row)).await.unwrap();
    database.write(&chassis([3, 4])).await;
    database.write(&chassis([4])).await;
    let snapshot = database.snapshot().await;
    let names: BTreeSet<String> =
        snapshot.table::<Chassis>().iter().map(|(_, row)| row.name.to_string()).collect();
    assert_eq!(names, ["ch3".to_owned(), "own".to_owned()].into());
    assert_eq!(snapshot.table::<Encap>().iter().count(), 2);
    // A node whose tunnel address changes keeps its chassis.
    let moved = compile_chassis("node3", &node(4), ["172.18.0.44".parse().unwrap()], OWNER);
    database.write(&[moved]).await;
    let snapshot = database.snapshot().await;
    let ends: BTreeSet<String> =
        snapshot.table::<Encap>().iter().map(|(_, row)| row.ip.to_string()).collect();
    assert_eq!(ends, ["10.0.0.1".to_owned(), "172.18.0.44".to_owned()].into());
}

#[tokio::test]
async fn scenario_22_and_23_rows_are_repaired_once_and_foreign_ones_stay() {
    let mut database = ZoneDatabase::northbound();
    let zone = zone("node1");
    let part = compiled(&zone, &network(&DUAL, &zone.cluster));
    database.write(std::slice::from_ref(&part)).await;
    let snapshot = database.snapshot().await;
    let name = "rtos-test12_namespace.scoped_ovn_layer2_switch";
    let (id, row) = snapshot.table::<LogicalRouterPort>().iter().find(|(_, row)| row.name == name).unwrap();
    let mut damaged = LogicalRouterPort::clone(row);
    damaged.mac = Text::new("02:00:00:00:00:01");
    damaged.peer = Some("nobody".into());
    damaged.ipv6_ra_configs = Map::default();
    let foreign =
        LogicalSwitch { name: "test12_namespace.scoped_of_somebody_else".into(), ..Default::default() };
    let mut txn = Transaction::new();
    txn.update(id, row, &damaged).insert(Uuid::from_u128(1), &foreign);
    database.client.commit(&txn).await.unwrap();
    assert!(database.write(std::slice::from_ref(&part)).await > 0);
    assert_eq!(database.write(std::slice::from_ref(&part)).await, 0);
    let snapshot = database.snapshot().await;
    assert_eq!(snapshot.get::<LogicalRouterPort>(id), Some(row));
    // The network goes; what is not ours stays.
    database.write(&[]).await;
    let snapshot = database.snapshot().await;
    let left: Vec<_> =
        snapshot.table::<LogicalSwitch>().iter().map(|(_, row)| row.name.to_string()).collect();
    assert_eq!(left, [foreign.name.to_string()]);
    assert_eq!(snapshot.table::<LogicalRouterPort>().iter().count(), 0);
}
