//! The rows in real databases: what comes and goes, what is repaired, and what is left alone.

use central::{Database, Server};
use ovn::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use ovn::sb::{Chassis, Encap};
use ovn::target::state::Naming;
use ovn::target::{ClientDatabase, Desired, Ownership, RowTarget, Rules, Tables};
use ovsdb::{ClientConfig, Transaction};
use reconcile::{Scope, StepResult, Target};

use super::*;

/// A database of a zone, and the target that the node writes it with.
pub(super) struct ZoneDatabase {
    pub(super) target: RowTarget<ClientDatabase>,
    pub(super) client: ovsdb::Client,
    _server: Server,
    _dir: tempfile::TempDir,
}

impl ZoneDatabase {
    fn start(database: Database, tables: Tables, rules: Rules, naming: Naming) -> ZoneDatabase {
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
        let target = RowTarget::new(database, Ownership::new(OWNER).naming(naming), rules);
        ZoneDatabase { target, client, _server: server, _dir: dir }
    }

    pub(super) fn northbound() -> ZoneDatabase {
        Self::start(Database::Northbound, Tables::northbound(), Rules::kubernetes(), name_row)
    }

    fn southbound() -> ZoneDatabase {
        Self::start(Database::Southbound, Tables::southbound_remote(), Rules::new(), name_chassis)
    }

    /// Brings the database to these parts in one pass; gives the number of its steps.
    pub(super) async fn write(&mut self, parts: &[Part]) -> usize {
        self.write_but(parts, &BTreeSet::new()).await
    }

    /// The same without touching some objects.
    async fn write_but(&mut self, parts: &[Part], keep: &BTreeSet<ObjectId>) -> usize {
        let mut desired = Desired::default();
        parts.iter().for_each(|part| desired.add(part));
        let observed = self.target.observe(Scope::Full).await.unwrap();
        let plan = self.target.plan(&desired, keep, &observed);
        assert!(plan.problems.is_empty(), "{:?}", plan.problems);
        if !plan.is_empty() {
            let applied = self.target.apply(&plan).await.unwrap();
            assert!(applied.results.iter().all(|it| matches!(it, StepResult::Done)), "{:?}", applied.results);
        }
        plan.steps.len()
    }

    pub(super) async fn snapshot(&self) -> ovsdb::Snapshot {
        self.client.synced().await.unwrap();
        self.client.snapshot()
    }
}

/// The chassis of the nodes with these ids, as node1 wants them.
async fn chassis(database: &ZoneDatabase, ids: impl IntoIterator<Item = u16>) -> Outcome<Vec<Part>> {
    let mut zone = zone("node1");
    zone.nodes = ids.into_iter().chain([2]).map(|id| (format!("node{}", id - 1), node(id))).collect();
    let seen = ChassisSeen::read(&database.snapshot().await, OWNER);
    compile_chassis(&zone, &seen, OWNER).map(|parts| parts.into_values().collect())
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
    for ids in [vec![3, 4], vec![4]] {
        let parts = chassis(&database, ids).await.value;
        database.write(&parts).await;
    }
    let snapshot = database.snapshot().await;
    let names: BTreeSet<String> =
        snapshot.table::<Chassis>().iter().map(|(_, row)| row.name.to_string()).collect();
    assert_eq!(names, ["ch3".to_owned(), "own".to_owned()].into());
    assert_eq!(snapshot.table::<Encap>().iter().count(), 2);
    // A node whose tunnel address changes keeps its chassis.
    let mut moved = zone("node1");
    moved.nodes.remove("node2");
    moved.nodes.get_mut("node3").unwrap().encaps = ["172.18.0.44".parse().unwrap()].into();
    let moved = compile_chassis(&moved, &ChassisSeen::read(&snapshot, OWNER), OWNER).value;
    database.write(&[moved["node3"].clone()]).await;
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

#[tokio::test]
async fn chassis_of_another_program_are_left_to_it() {
    let mut database = ZoneDatabase::southbound();
    let (own, end) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let encap = Encap { ip: Text::new("172.18.0.3"), chassis_name: "ch2".into(), ..Default::default() };
    let row = Chassis {
        name: "ch2".into(),
        encaps: refs(vec![Ref::new(end)]),
        other_config: map([("is-remote", "true")]),
        ..Default::default()
    };
    database.client.synced().await.unwrap();
    database.client.commit(Transaction::new().insert(end, &encap).insert(own, &row)).await.unwrap();
    for _ in 0..2 {
        let wanted = chassis(&database, [3, 4]).await;
        assert!(wanted.problems.is_empty(), "{:?}", wanted.problems);
        database.write(&wanted.value).await;
    }
    let snapshot = database.snapshot().await;
    let seen = ChassisSeen::read(&snapshot, OWNER);
    assert_eq!(seen.remote, ["ch2".to_owned(), "ch3".to_owned()].into(), "both serve remote ports");
    assert_eq!(seen.own, [("node3".to_owned(), "ch3".to_owned())].into());
    assert_eq!(snapshot.get::<Chassis>(own), Some(&row), "the foreign row was not touched");
}

#[tokio::test]
async fn scenario_25_settings_that_are_not_wanted_any_more_go() {
    let mut database = ZoneDatabase::northbound();
    let mut zone = zone("node1");
    zone.nodes.get_mut("node1").unwrap().gateway.as_mut().unwrap().mode = GatewayMode::Local;
    let mut whole = network(&DUAL, &zone.cluster);
    database.write(&[compiled(&zone, &whole)]).await;
    let has = |snapshot: &ovsdb::Snapshot| {
        let ports = snapshot.table::<LogicalRouterPort>();
        let port = snapshot.table::<LogicalSwitchPort>();
        let local = port.iter().find(|(_, row)| row.name.ends_with("_a")).unwrap().1.clone();
        [
            ports.iter().any(|(_, row)| row.options.contains_key("gateway_mtu")),
            snapshot
                .table::<LogicalRouter>()
                .iter()
                .any(|(_, row)| row.options.contains_key("ct-commit-all")),
            local.options.contains_key("iface-id-ver"),
            local.external_ids.contains_key("k8s.ovn.org/node"),
        ]
    };
    assert_eq!(has(&database.snapshot().await), [true, true, true, false]);
    // The node has another kernel and another mode, and the pod has moved to another node.
    let local = zone.nodes.get_mut("node1").unwrap();
    local.has_gateway_mtu = false;
    local.gateway.as_mut().unwrap().mode = GatewayMode::Shared;
    whole.pods[0].node = "node2".into();
    database.write(&[compiled(&zone, &whole)]).await;
    assert_eq!(has(&database.snapshot().await), [false, false, false, true]);
    // And back.
    whole.pods[0].node = "node1".into();
    database.write(&[compiled(&zone, &whole)]).await;
    assert_eq!(has(&database.snapshot().await), [false, false, true, false]);
}

#[tokio::test]
async fn rows_of_undecided_parts_stay_while_the_rest_changes() {
    let mut database = ZoneDatabase::northbound();
    let mut zone = zone("node1");
    let mut whole = network(&DUAL, &zone.cluster);
    database.write(&[compiled(&zone, &whole)]).await;
    let names = |snapshot: &ovsdb::Snapshot| -> BTreeSet<String> {
        let switch =
            snapshot.table::<LogicalSwitch>().iter().find(|(_, row)| row.name.ends_with("layer2_switch"));
        let router =
            snapshot.table::<LogicalRouter>().iter().find(|(_, row)| row.name.ends_with("cluster_router"));
        let ports =
            switch.unwrap().1.ports.iter().filter_map(|port| snapshot.get::<LogicalSwitchPort>(port.uuid()));
        let router_ports =
            router.unwrap().1.ports.iter().filter_map(|port| snapshot.get::<LogicalRouterPort>(port.uuid()));
        ports.map(|row| row.name.to_string()).chain(router_ports.map(|row| row.name.to_string())).collect()
    };
    let before = names(&database.snapshot().await);
    // A pod loses its key, and the annotations of its node break. Another pod appears.
    zone.nodes.remove("node3");
    zone.unreadable.insert("node3".into());
    whole.pods[0].addresses.tunnel_id = None;
    whole.pods.push(pod("c", "node2", 7, 12));
    let out = compile(&zone, &whole, OWNER);
    assert!(database.write_but(std::slice::from_ref(&out.value), &out.keep).await > 0);
    assert_eq!(database.write_but(std::slice::from_ref(&out.value), &out.keep).await, 0);
    let mut expected = before;
    expected.insert("test12.namespace.scoped_test12_c".to_owned());
    assert_eq!(names(&database.snapshot().await), expected);
    // The local node is not ready: nothing changes at all.
    zone.nodes.remove("node1");
    let out = compile(&zone, &whole, OWNER);
    assert_eq!(database.write_but(std::slice::from_ref(&out.value), &out.keep).await, 0);
}
