//! The agent with the Northbound database.

use super::*;
use crate::bgp::desired::tests::world::{NB_OLD, options};
use crate::bgp::northbound::tests::Cloud;

/// One VM here, one behind the gateway, which is here, on another host.
fn cloud() -> Cloud {
    let mut cloud = Cloud::new().tenants();
    cloud.node.settings.insert("hostname".into(), "host-a".into());
    cloud.vif("vm1", "neutron-pub", "fa:16:3e:00:00:01 172.24.4.10").runs("vm1", "host-a");
    cloud.vif("vm2", "neutron-ten", "fa:16:3e:00:00:02 10.1.0.5").runs("vm2", "host-b");
    cloud.hosted("lrp-gw1", "ch-a");
    cloud
}

fn rows(cloud: &Cloud) -> Vec<Value> {
    let chassis = ["ch-a", "ch-b"].map(|name| {
        let row = json!({ "name": format!("lrp-gw1-{name}"), "chassis_name": name, "priority": 1 });
        json!({ "op": "insert", "table": "Gateway_Chassis", "row": row, "uuid": id(name).to_string() })
    });
    cloud.inserts().into_iter().chain(chassis).collect()
}

async fn start(cloud: &Cloud) -> Bench {
    Bench::on(cloud.schema, rows(cloud), &cloud.node).await
}

fn update(bench: &Bench, table: &str, name: &str, row: Value) {
    let which = json!([["_uuid", "==", ["uuid", id(name).to_string()]]]);
    transact(&bench.southbound, vec![json!({ "op": "update", "table": table, "where": which, "row": row })]);
}

#[tokio::test]
async fn changes_are_followed() {
    let mut start_with = cloud();
    start_with.distributed("neutron-r1", "172.24.4.199", "vm2");
    let bench = start(&start_with).await;
    bench.announces(&ALL).await;
    assert_eq!(
        bench.target.history()[0],
        bench.target.announced(),
        "nothing was decided from half of the rows"
    );
    assert_eq!(bench.agent.databases()[1].database(), "OVN_Northbound");
    // The floating IP is with vm2, until the cloud stops to distribute, and after it starts again.
    let flag = |value: &str| json!({ "external_ids": ["map", [["neutron:fip-distributed", value]]] });
    update(&bench, "NB_Global", "NB_Global", flag("False"));
    bench.announces(&[&ALL[..], &["172.24.4.199"]].concat()).await;
    update(&bench, "NB_Global", "NB_Global", flag("True"));
    bench.announces(&ALL).await;
    update(&bench, "Logical_Switch_Port", "vm1", json!({ "up": false }));
    bench.announces(&ALL[1..]).await;
    let status = json!({ "status": ["map", [["hosting-chassis", "ch-b"]]] });
    update(&bench, "Logical_Router_Port", "lrp-gw1", status);
    bench.announces(&[]).await;
    let told = bench.agent.explain("172.24.4.221".parse().unwrap()).await.unwrap();
    assert!(!told.exposed && told.text[1].contains("is bound to chassis ch-b"), "{told:?}");
    bench.agent.stop().await;
}

#[tokio::test]
async fn a_database_that_is_away_or_empty_for_a_moment_withdraws_nothing() {
    let mut bench = start(&cloud()).await;
    bench.announces(&ALL).await;
    bench.southbound.stop().await;
    sleep(Duration::from_millis(200)).await;
    bench.southbound.restart_empty().await.unwrap();
    let northbound = bench.agent.databases().remove(1);
    let empty = async |is: bool| {
        let there = async {
            while northbound.snapshot().table::<ovn::nb::LogicalSwitch>().is_empty() != is {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, there).await.expect("the client loads what there is");
    };
    empty(true).await;
    sleep(Duration::from_millis(200)).await;
    transact(&bench.southbound, rows(&cloud()));
    empty(false).await;
    bench.announces(&ALL).await;
    let least = bench.target.history().iter().map(BTreeSet::len).min();
    assert_eq!(least, Some(ALL.len()), "nothing was ever withdrawn");
    bench.agent.stop().await;
}

#[tokio::test]
async fn without_a_name_in_the_switch_the_kernels_is_ours() {
    let kernel = std::fs::read_to_string(HOSTNAME).unwrap();
    let mut cloud = cloud();
    cloud.node.settings.remove("hostname");
    cloud.runs("vm1", kernel.trim());
    let bench = start(&cloud).await;
    bench.announces(&ALL).await;
    bench.agent.stop().await;
}

async fn waits_for(bench: &Bench, words: &[&str]) {
    let mut status = bench.agent.handle().status();
    let said = status.wait_for(|now| {
        now.waiting_for.as_deref().is_some_and(|what| words.iter().all(|word| what.contains(word)))
    });
    let in_time = timeout(PATIENCE, said).await.is_ok();
    assert!(in_time, "{:?}", bench.agent.handle().status().borrow());
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let mut old = cloud();
    old.schema = NB_OLD;
    old.router_port("lrp-gw1").status = options([]);
    let bench = start(&old).await;
    waits_for(&bench, &["Northbound", "OVN 23.09 or newer", "driver = ovn_bgp_driver"]).await;
    assert_eq!(bench.target.history().len(), 0, "nothing is touched");
    bench.agent.stop().await;

    let mut nowhere = cloud();
    nowhere.global.clear();
    let bench = start(&nowhere).await;
    waits_for(&bench, &["NB_Global", "Northbound"]).await;
    bench.agent.stop().await;

    let unknown = cloud();
    let bench =
        Bench::with(unknown.schema, rows(&unknown), &unknown.node, |config| config.nb.remotes = None).await;
    waits_for(&bench, &["external_ids:ovn-nb-remote", "the option ovn_nb_connection"]).await;
    bench.agent.stop().await;
}

#[tokio::test]
async fn the_switch_tells_where_the_database_is() {
    let mut cloud = cloud();
    cloud.node.settings.insert("ovn-nb-remote".into(), "tcp:127.0.0.1:1".into());
    let bench = Bench::with(cloud.schema, rows(&cloud), &cloud.node, |config| config.nb.remotes = None).await;
    waits_for(&bench, &["the Northbound database"]).await;
    let external_ids: Vec<Value> = [
        ("system-id", "ch-a".to_owned()),
        ("hostname", "host-a".to_owned()),
        ("ovn-bridge-mappings", "physnet1:br-ex".to_owned()),
        ("ovn-nb-remote", bench.southbound.remote()),
    ]
    .map(|(key, value)| json!([key, value]))
    .into();
    let row = json!({ "external_ids": ["map", external_ids] });
    transact(
        &bench.vswitch,
        vec![json!({ "op": "update", "table": "Open_vSwitch", "where": [], "row": row })],
    );
    bench.announces(&ALL).await;
    bench.agent.stop().await;
}
