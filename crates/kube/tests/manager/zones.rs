//! The program of a node with a real API server, the manager, and the two databases of its zone.

use std::collections::BTreeSet;
use std::time::Duration;

use central::{Database, Server};
use kube::ResourceExt;
use kubernetes::cluster::snapshot::ObjectName;
use kubernetes::zone::desired::ChassisSeen;
use kubernetes::zone::{NameProfile, RunningZone, ZoneParts, ZoneSettings};
use ovn::nb::{LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use ovn::sb::{Chassis, Encap};
use ovn::target::Tables;
use ovn::text::Text;
use ovsdb::{Client, ClientConfig, Ref, Snapshot, Transaction, Uuid};
use serde_json::json;

use super::cluster::{Cluster, LONG, settings, until};

const OWNER: &str = "meridian";
const VERSION: &str = "k8s.ovn.org/layer2-topology-version";

/// The databases of a node's zone.
struct Zone {
    node: &'static str,
    northbound: Client,
    southbound: Client,
    servers: [Server; 2],
    _dirs: [tempfile::TempDir; 2],
}

impl Zone {
    async fn start(node: &'static str) -> Zone {
        let database = |database: Database| {
            let dir = tempfile::tempdir().unwrap();
            // The first OVN with transit routers.
            let root = env!("CARGO_MANIFEST_DIR");
            let schema = format!("{root}/../ovn/testdata/schema/ovn-{}-25.03.json", database.short());
            (Server::start_as(dir.path(), database, schema.as_ref()).unwrap(), dir)
        };
        let (nb, nb_dir) = database(Database::Northbound);
        let (sb, sb_dir) = database(Database::Southbound);
        let open = |server: &Server, tables: Tables| Client::open(config(server), tables.model(None));
        let zone = Zone {
            node,
            northbound: open(&nb, Tables::northbound()),
            southbound: open(&sb, Tables::southbound_remote()),
            servers: [nb, sb],
            _dirs: [nb_dir, sb_dir],
        };
        zone.northbound.synced().await.unwrap();
        zone.southbound.synced().await.unwrap();
        zone
    }

    /// Starts the program of the node.
    async fn run(&self, cluster: &Cluster) -> RunningZone {
        let [nb, sb] = &self.servers;
        let shared = ObjectName { namespace: "default".into(), name: "kubernetes".into() };
        RunningZone::start(ZoneParts {
            api: cluster.client.clone(),
            settings: ZoneSettings {
                node: self.node.to_owned(),
                cluster: settings().cluster,
                default_mtu: 1400,
                profile: NameProfile::Seed,
                shared_services: [shared].into(),
            },
            owner: OWNER.into(),
            northbound: config(nb),
            southbound: config(sb),
            metrics: reconcile::Metrics::default(),
        })
        .await
    }

    fn northbound(&self) -> Snapshot {
        self.northbound.snapshot()
    }

    /// The names of all ports of switches and routers.
    fn ports(&self) -> BTreeSet<String> {
        let snapshot = self.northbound();
        let switch = snapshot.table::<LogicalSwitchPort>().iter().map(|(_, row)| row.name.to_string());
        let router = snapshot.table::<LogicalRouterPort>().iter().map(|(_, row)| row.name.to_string());
        switch.chain(router).collect()
    }

    async fn has_port(&self, name: &str) {
        until(&format!("{} has the port {name}", self.node), || async { self.ports().contains(name) }).await;
    }

    async fn lacks_port(&self, name: &str) {
        until(&format!("{} lacks the port {name}", self.node), || async { !self.ports().contains(name) })
            .await;
    }

    /// The networks with a switch.
    fn networks(&self) -> BTreeSet<String> {
        let snapshot = self.northbound();
        let names = snapshot
            .table::<LogicalSwitch>()
            .iter()
            .filter_map(|(_, row)| row.name.strip_suffix("_ovn_layer2_switch").map(|name| name.to_owned()));
        names.collect()
    }

    fn chassis(&self) -> BTreeSet<String> {
        let snapshot = self.southbound.snapshot();
        snapshot.table::<Chassis>().iter().map(|(_, row)| row.name.to_string()).collect()
    }
}

fn config(server: &Server) -> ClientConfig {
    ClientConfig::new(server.remote().parse().unwrap())
}

/// Waits until all loops have found nothing to do.
async fn settled(zone: &RunningZone) {
    let is_settled = |status: &reconcile::Status| {
        status.state == reconcile::State::Converged && status.waiting_for.is_none()
    };
    let begin = std::time::Instant::now();
    while !zone.handles().iter().all(|handle| is_settled(&handle.status().borrow())) {
        let states: Vec<_> = zone.handles().iter().map(|handle| handle.status().borrow().clone()).collect();
        assert!(begin.elapsed() < LONG, "the program of the node is not settled: {states:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The codes of the problems of all loops.
fn problems(zone: &RunningZone) -> BTreeSet<String> {
    let all = zone.handles().iter().flat_map(|handle| handle.status().borrow().problems.clone());
    all.map(|problem| problem.code.to_string()).collect()
}

/// A node with the annotations that it writes itself.
async fn create_node(cluster: &Cluster, n: u16) {
    let gateway = json!({ "default": { "mode": "shared", "bridge-id": "breth0", "interface-id": format!("breth0_node{n}"),
        "mac-address": format!("02:42:ac:12:00:0{n}"), "ip-addresses": [format!("172.18.0.{n}/16")],
        "next-hops": ["172.18.0.254"] } });
    let annotations = [
        ("k8s.ovn.org/node-chassis-id", format!("ch{n}")),
        ("k8s.ovn.org/node-encap-ips", format!("[\"172.18.0.{n}\"]")),
        ("k8s.ovn.org/l3-gateway-config", gateway.to_string()),
        ("k8s.ovn.org/node-primary-ifaddr", format!("{{\"ipv4\":\"172.18.0.{n}/16\"}}")),
    ];
    let annotations: Vec<(&str, &str)> =
        annotations.iter().map(|(key, value)| (*key, value.as_str())).collect();
    cluster.create_node(&format!("node{n}"), &annotations).await;
}

/// The port of a remote node's gateway router.
fn gateway_port(network: &str, n: u16) -> String {
    format!("trtor-GR_{network}_node{n}")
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_16_to_22_a_network_appears_follows_its_nodes_and_a_restart_writes_nothing() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    for n in 1..=3 {
        create_node(&cluster, n).await;
    }
    let zone = Zone::start("node1").await;
    // Rows of others: a switch, the chassis of this node, and a remote one with the name of ours.
    let foreign = LogicalSwitch { name: "somebody_else".into(), ..Default::default() };
    zone.northbound.commit(Transaction::new().insert(Uuid::from_u128(1), &foreign)).await.unwrap();
    for (n, name, ip, config) in
        [(10, "ch1", "172.18.0.1", vec![]), (20, "ch3", "172.18.0.3", vec![("is-remote", "true")])]
    {
        let (id, end) = (Uuid::from_u128(n), Uuid::from_u128(n + 1));
        let encap = Encap { ip: Text::new(ip), chassis_name: name.into(), ..Default::default() };
        let row = Chassis {
            name: name.into(),
            encaps: [Ref::new(end)].into_iter().collect(),
            other_config: config.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            ..Default::default()
        };
        zone.southbound.commit(Transaction::new().insert(end, &encap).insert(id, &row)).await.unwrap();
    }
    let running = zone.run(&cluster).await;
    settled(&running).await;
    // The rows are there, so the node says that it has the transit router.
    cluster.node_has("node1", VERSION, "2.0").await;

    cluster.create_primary_namespace("ns").await;
    cluster.create_network("ns", "net", &["10.1.0.0/16"]).await;
    cluster.create_pod("ns", "local", &[]).await;
    zone.has_port("rtos-ns_net_ovn_layer2_switch").await;
    zone.has_port("ns.net_ns_local").await;
    assert_eq!(zone.chassis(), ["ch1", "ch2", "ch3"].map(|it| it.to_owned()).into());
    // No other node has told that it has the transit router.
    assert!(!zone.ports().contains(&gateway_port("ns_net", 2)), "{:?}", zone.ports());
    for n in [2, 3] {
        cluster.annotate_node(&format!("node{n}"), VERSION, json!("2.0")).await;
        zone.has_port(&gateway_port("ns_net", n)).await;
    }
    settled(&running).await;
    assert!(problems(&running).is_empty(), "{:?}", problems(&running));
    running.stop().await;

    // A restart changes no row.
    let before = [zone.northbound().seq(), zone.southbound.snapshot().seq()];
    let version = cluster.node("node1").await.resource_version();
    let running = zone.run(&cluster).await;
    settled(&running).await;
    assert_eq!([zone.northbound().seq(), zone.southbound.snapshot().seq()], before);
    assert_eq!(cluster.node("node1").await.resource_version(), version);

    // A row that somebody alters is restored; a node that goes takes its rows along, and no others.
    let ids = |zone: &Zone| -> BTreeSet<Uuid> {
        zone.northbound().table::<LogicalRouterPort>().iter().map(|(id, _)| id.uuid()).collect()
    };
    let snapshot = zone.northbound();
    let (id, row) = snapshot
        .table::<LogicalRouterPort>()
        .iter()
        .find(|(_, row)| row.name == "rtos-ns_net_ovn_layer2_switch")
        .unwrap();
    let altered = LogicalRouterPort { mac: Text::new("02:00:00:00:00:01"), ..row.clone() };
    zone.northbound.commit(Transaction::new().update(id, row, &altered)).await.unwrap();
    until("the row is restored", || async { zone.northbound().get::<LogicalRouterPort>(id) == Some(row) })
        .await;
    let before = ids(&zone);
    cluster.nodes().delete("node2", &Default::default()).await.unwrap();
    zone.lacks_port(&gateway_port("ns_net", 2)).await;
    until("its chassis is gone", || async { !zone.chassis().contains("ch2") }).await;
    let after = ids(&zone);
    assert!(after.is_subset(&before) && after.len() == before.len() - 1);

    // The network goes; what is not ours stays.
    cluster.delete_pod("ns", "local").await;
    cluster.objects::<super::cluster::Udn>("ns").delete("net", &Default::default()).await.unwrap();
    until("the network is gone", || async { zone.networks().is_empty() && zone.ports().is_empty() }).await;
    let snapshot = zone.northbound();
    assert!(snapshot.table::<LogicalSwitch>().iter().any(|(_, row)| row.name == foreign.name));
    let seen = ChassisSeen::read(&zone.southbound.snapshot(), OWNER);
    assert_eq!(seen.foreign.keys().cloned().collect::<Vec<_>>(), ["ch1", "ch3"]);
    running.stop().await;
    manager.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_44_a_network_that_went_unseen_goes_and_an_emptied_api_empties_no_zone() {
    let cluster = Cluster::start().await;
    for n in 1..=2 {
        create_node(&cluster, n).await;
    }
    cluster.server.stop_and_back_up().unwrap();
    cluster.server.start_both_again().unwrap();
    let manager = cluster.manager(settings());
    let networks = ["a", "b", "c", "d", "e", "f"];
    for (n, name) in networks.iter().enumerate() {
        cluster.create_primary_namespace(name).await;
        cluster.create_network(name, "net", &[&format!("10.{n}.0.0/16")]).await;
    }
    let zone = Zone::start("node1").await;
    let running = zone.run(&cluster).await;
    let expect =
        |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| format!("{name}_net")).collect() };
    until("all networks have rows", || async { zone.networks() == expect(&networks) }).await;
    settled(&running).await;
    running.stop().await;

    // One network goes while nobody watches: its marks are enough to remove it.
    cluster.objects::<super::cluster::Udn>("f").delete("net", &Default::default()).await.unwrap();
    until("the definition is gone", || async { cluster.attachment("f", "net").await.is_none() }).await;
    let running = zone.run(&cluster).await;
    until("its rows are gone", || async { zone.networks() == expect(&networks[..5]) }).await;
    settled(&running).await;

    // The API comes back as it was before all networks: it has lost them by mistake, and their rows stay.
    manager.kill().await;
    cluster.server.stop_and_restore().unwrap();
    cluster.server.start_both_again().unwrap();
    until("deletions are withheld", || async { problems(&running).contains("deletions-withheld") }).await;
    assert_eq!(zone.networks(), expect(&networks[..5]));
    let before = zone.northbound().seq();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(zone.northbound().seq(), before, "nothing changes");
    // A restarted program knows no better.
    running.stop().await;
    let running = zone.run(&cluster).await;
    until("deletions are withheld", || async { problems(&running).contains("deletions-withheld") }).await;
    assert_eq!(zone.networks(), expect(&networks[..5]));
    // An operator knows.
    assert!(running.allow_deletions());
    until("the rows are gone", || async { zone.networks().is_empty() }).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_databases_are_rebuilt_and_of_two_programs_one_writes() {
    let cluster = Cluster::start().await;
    let manager = cluster.manager(settings());
    for n in 1..=2 {
        create_node(&cluster, n).await;
    }
    cluster.annotate_node("node2", VERSION, json!("2.0")).await;
    cluster.create_primary_namespace("ns").await;
    cluster.create_network("ns", "net", &["10.1.0.0/16"]).await;
    let zone = Zone::start("node1").await;
    let first = zone.run(&cluster).await;
    zone.has_port(&gateway_port("ns_net", 2)).await;
    settled(&first).await;
    let second = zone.run(&cluster).await;
    until("the second waits", || async {
        second.handles()[1].status().borrow().waiting_for.as_ref().is_some_and(|what| what.contains("lock"))
    })
    .await;
    // Somebody empties both databases; the one that writes builds them again, with the same rows.
    let before: BTreeSet<Uuid> =
        zone.northbound().table::<LogicalRouterPort>().iter().map(|(id, _)| id.uuid()).collect();
    let mut txn = Transaction::new();
    let snapshot = zone.northbound();
    snapshot.table::<ovn::nb::LogicalRouter>().iter().for_each(|(id, _)| _ = txn.delete(id));
    snapshot.table::<LogicalSwitch>().iter().for_each(|(id, _)| _ = txn.delete(id));
    zone.northbound.commit(&txn).await.unwrap();
    let mut txn = Transaction::new();
    let chassis = zone.southbound.snapshot();
    chassis.table::<Chassis>().iter().for_each(|(id, _)| _ = txn.delete(id));
    zone.southbound.commit(&txn).await.unwrap();
    tokio::time::timeout(LONG, async {
        loop {
            let ids: BTreeSet<Uuid> =
                zone.northbound().table::<LogicalRouterPort>().iter().map(|(id, _)| id.uuid()).collect();
            if ids == before && zone.chassis().contains("ch2") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the rows come back");
    first.stop().await;
    settled(&second).await;
    second.stop().await;
    manager.stop().await;
}
