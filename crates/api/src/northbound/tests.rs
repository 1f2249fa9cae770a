//! Tests the loop with real ovsdb-servers and ovn-northd.

mod balancers;
mod cloud;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cloud::{Behaviour, Cloud, eventually};

use crate::desired::tests::scene::*;
use crate::model::*;
use crate::resource::fixture::id;
use crate::store::{Store, Url};

const R: u128 = 0x40;
const P: [u128; 3] = [0x41, 0x42, 0x43];

fn lrp(n: u128) -> String {
    ovn::ident::name::router_port(id(n))
}

/// A router with three gateways on N1, ECMP and an interface.
fn multihomed(scene: &mut Scene) {
    scene.router(R).interface(0x45, R, NET, SUB, "10.0.0.1").port(0x51, NET, SUB, "10.0.0.5");
    let chassis = [["ch1", "ch2"], ["ch2", "ch3"], ["ch3", "ch1"]];
    for (n, chassis) in P.iter().zip(chassis) {
        scene.gateway(*n, R, N1, S1, &format!("192.0.2.{}", 59 + n), &chassis);
    }
    flags(scene, true, false);
}

fn flags(scene: &mut Scene, ecmp: bool, bfd: bool) {
    scene.edit(|txn| {
        txn.edit::<Router>(&id(R), |router| {
            router.enable_default_route_ecmp = ecmp;
            router.enable_default_route_bfd = bfd;
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_18_northd_balances_over_three_ports() {
    let mut cloud = Cloud::with_northd().await;
    multihomed(&mut cloud.scene);
    cloud.settle().await;
    cloud.nbctl(&["--wait=sb", "sync"]);
    let flows = cloud.sbctl(&["lflow-list", &ovn::ident::name::router(id(R))]);
    let ecmp: Vec<&str> = flows.lines().filter(|line| line.contains("lr_in_ip_routing_ecmp")).collect();
    for n in P {
        let out = format!("outport = \"{}\"", lrp(n));
        assert_eq!(ecmp.iter().filter(|line| line.contains(&out)).count(), 1, "{out} in {ecmp:#?}");
    }
    // Each source address is translated on its own gateway port.
    for n in P {
        let snat = flows.lines().filter(|line| line.contains("lr_out_snat") && line.contains(&lrp(n)));
        let address = format!("192.0.2.{}", 59 + n);
        assert!(
            snat.clone().any(|line| line.contains(&address)),
            "{}: {:#?}",
            lrp(n),
            snat.collect::<Vec<_>>()
        );
    }
    let drop = cloud.sbctl(&["lflow-list", &ovn::ident::name::switch(id(NET))]);
    assert!(drop.contains("neutron_pg_drop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_19_20_toggles_touch_routes_and_sessions_only() {
    let mut cloud = Cloud::with_northd().await;
    multihomed(&mut cloud.scene);
    cloud.settle().await;
    let others = |cloud: &Cloud| {
        cloud.dump(&["Logical_Router_Port", "HA_Chassis_Group", "HA_Chassis", "NAT", "Logical_Switch_Port"])
    };
    let (before, routes) = (others(&cloud), cloud.column("Logical_Router_Static_Route", "_uuid"));
    flags(&mut cloud.scene, false, false);
    cloud.settle().await;
    assert_eq!(cloud.column("Logical_Router_Static_Route", "output_port"), [lrp(P[0])]);
    flags(&mut cloud.scene, true, true);
    cloud.settle().await;
    assert_eq!(cloud.column("Logical_Router_Static_Route", "_uuid"), routes, "the same rows come back");
    assert_eq!(cloud.column("BFD", "logical_port"), P.map(lrp));
    let watched = cloud.column("Logical_Router_Static_Route", "bfd");
    assert_eq!(watched.into_iter().collect::<BTreeSet<_>>().len(), 3);
    flags(&mut cloud.scene, true, false);
    cloud.settle().await;
    assert_eq!(cloud.column("BFD", "_uuid").len(), 0);
    assert_eq!(others(&cloud), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_44_a_router_leaves_nothing_behind() {
    let mut cloud = Cloud::with_northd().await;
    cloud.settle().await;
    let tables = [
        "Logical_Router",
        "Logical_Router_Port",
        "Logical_Switch_Port",
        "HA_Chassis_Group",
        "HA_Chassis",
        "BFD",
        "NAT",
        "Logical_Router_Static_Route",
    ];
    let before = cloud.dump(&tables);
    multihomed(&mut cloud.scene);
    flags(&mut cloud.scene, true, true);
    cloud.settle().await;
    assert_ne!(cloud.dump(&tables), before);
    cloud.scene.edit(|txn| {
        for n in P {
            txn.remove::<Port>(&id(n));
            txn.remove::<Placement>(&id(n));
        }
        txn.remove::<Port>(&id(0x45));
        txn.remove::<Port>(&id(0x51));
        txn.remove::<Router>(&id(R));
    });
    cloud.settle().await;
    assert_eq!(cloud.dump(&tables), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_52_64_what_chassis_host_is_told_and_decides_routes() {
    let mut cloud = Cloud::with_northd().await;
    cloud.set_up_chassis();
    multihomed(&mut cloud.scene);
    cloud.settle().await;
    cloud.nbctl(&["--wait=sb", "sync"]);
    for (n, chassis) in [(P[0], "ch1"), (P[1], "ch2")] {
        cloud.sbctl(&["lsp-bind", &format!("cr-{}", lrp(n)), chassis]);
    }
    let host = |cloud: &Cloud, n: u128| {
        cloud.nbctl(&["get", "Logical_Switch_Port", &id(n).to_string(), "external_ids"])
    };
    eventually("hosts are told", async || {
        host(&cloud, P[0]).contains("host-ch1") && host(&cloud, P[1]).contains("host-ch2")
    })
    .await;
    let report = cloud.ovn.report().borrow().clone();
    assert_eq!(report.gateway_host(id(P[0])), Some("host-ch1"));
    assert_eq!(report.gateway_chassis(id(P[1])), Some("ch2"));
    assert_eq!(cloud.ovn.fleet().borrow().chassis.len(), 3);
    // No chassis hosts the third gateway; the grace period of this cloud is a second.
    let [a, b, c] = P.map(lrp);
    eventually("the route of the stranded gateway goes", async || {
        cloud.column("Logical_Router_Static_Route", "output_port") == [a.clone(), b.clone()]
    })
    .await;
    cloud.sbctl(&["lsp-bind", &format!("cr-{c}"), "ch3"]);
    eventually("it comes back", async || {
        cloud.column("Logical_Router_Static_Route", "output_port") == [a.clone(), b.clone(), c.clone()]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_53_a_new_process_finds_nothing_to_do() {
    let mut cloud = Cloud::with_northd().await;
    multihomed(&mut cloud.scene);
    cloud.settle().await;
    let before = cloud.everything();
    // The world changes while no server writes, as if the process had died between the store's commit and the row.
    cloud.stop().await;
    cloud.scene.port(0x52, NET, SUB, "10.0.0.6");
    assert_eq!(cloud.everything(), before);
    cloud.start().await;
    cloud.settle().await;
    assert_eq!(
        cloud
            .column("Logical_Switch_Port", "name")
            .iter()
            .filter(|name| **name == id(0x52).to_string())
            .count(),
        1
    );
    let after = cloud.everything();
    cloud.stop().await;
    cloud.start().await;
    cloud.settle().await;
    assert_eq!(cloud.everything(), after, "a third start writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_54_what_happens_while_the_database_is_away_is_written_when_it_is_back() {
    let mut cloud = Cloud::bare().await;
    cloud.settle().await;
    cloud.stop_northbound();
    for n in 0..50 {
        cloud.scene.port(0x100 + n, NET, SUB, &format!("10.0.0.{}", 10 + n));
        cloud.publish();
    }
    cloud.start_northbound();
    cloud.settle().await;
    let names: BTreeSet<String> = cloud.column("Logical_Switch_Port", "name").into_iter().collect();
    assert!((0..50).all(|n| names.contains(&id(0x100 + n).to_string())));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_55_a_lost_database_is_rebuilt_with_the_same_rows() {
    let mut cloud = Cloud::bare().await;
    multihomed(&mut cloud.scene);
    flags(&mut cloud.scene, true, true);
    cloud.settle().await;
    let before = cloud.everything();
    assert!(before.len() > 20);
    cloud.stop_northbound();
    cloud.lose_northbound();
    cloud.start_northbound();
    eventually("everything is there again", async || cloud.everything() == before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_56_what_others_break_is_mended_and_what_they_add_stays() {
    let mut cloud = Cloud::with_northd().await;
    multihomed(&mut cloud.scene);
    cloud.settle().await;
    let router = id(R).to_string();
    cloud.nbctl(&["set", "Logical_Router", &router, "external_ids:junk=theirs"]);
    cloud.nbctl(&["lb-add", "octavia", "192.0.2.9:80", "10.0.0.5:80"]);
    cloud.nbctl(&["lr-lb-add", &router, "octavia"]);
    cloud.nbctl(&["lr-route-add", &router, "172.16.0.0/12", "10.0.0.9"]);
    let routes = cloud.column("Logical_Router_Static_Route", "_uuid");
    let ours = cloud.nbctl(&[
        "--bare",
        "--columns=_uuid",
        "find",
        "Logical_Router_Static_Route",
        &format!("output_port={}", lrp(P[1])),
    ]);
    cloud.nbctl(&["remove", "Logical_Router", &router, "static_routes", ours.trim()]);
    cloud.nbctl(&["set", "Logical_Router_Port", &lrp(P[0]), "options:gateway_mtu=9"]);
    cloud.nbctl(&["set", "Logical_Switch", &id(NET).to_string(), "name=renamed"]);
    eventually("it is mended", async || {
        cloud.column("Logical_Router_Static_Route", "_uuid") == routes
            && cloud
                .nbctl(&["get", "Logical_Router_Port", &lrp(P[0]), "options:gateway_mtu"])
                .contains("1442")
            && cloud.column("Logical_Switch", "name").contains(&ovn::ident::name::switch(id(NET)))
    })
    .await;
    assert!(cloud.nbctl(&["get", "Logical_Router", &router, "external_ids:junk"]).contains("theirs"));
    assert!(cloud.nbctl(&["lr-lb-list", &router]).contains("octavia"));
    assert!(cloud.nbctl(&["lr-route-list", &router]).contains("172.16.0.0/12"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_servers_writes_and_the_other_takes_over() {
    let mut cloud = Cloud::with_northd().await;
    cloud.settle().await;
    assert!(cloud.writer().is_writer());
    let second = cloud.another().await;
    assert!(!second.is_writer());
    let waiting = second.handle().status().borrow().waiting_for.clone();
    assert!(waiting.is_none_or(|what| what.contains("lock") || what.contains("database")));
    let generation = |cloud: &Cloud| cloud.nbctl(&["get", "NB_Global", ".", "external_ids"]);
    assert!(generation(&cloud).contains("meridian:generation:meridian\"=\"1\""), "{}", generation(&cloud));
    // A server that does not write follows the writer's progress.
    cloud.scene.port(0x53, NET, SUB, "10.0.0.7");
    let seq = cloud.publish();
    let patience = std::time::Duration::from_secs(60);
    assert_eq!(tokio::time::timeout(patience, second.wait_applied(seq)).await, Ok(true));
    assert!(!second.is_writer());
    assert!(cloud.column("Logical_Switch_Port", "name").contains(&id(0x53).to_string()));
    cloud.stop().await;
    cloud.scene.port(0x52, NET, SUB, "10.0.0.6");
    let seq = cloud.publish();
    let done = tokio::time::timeout(std::time::Duration::from_secs(30), second.wait_applied(seq)).await;
    assert!(done.expect("the other takes over") && second.is_writer());
    assert!(generation(&cloud).contains("meridian:generation:meridian\"=\"2\""), "{}", generation(&cloud));
    assert!(cloud.column("Logical_Switch_Port", "name").contains(&id(0x52).to_string()));
    second.handle().stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_was_overtaken_writes_nothing_until_it_has_claimed_again() {
    let mut cloud = Cloud::with_northd().await;
    cloud.settle().await;
    // Another program raised the generation. This server still holds the lock, so it raises it once more.
    cloud.nbctl(&["set", "NB_Global", ".", "external_ids:\"meridian:generation:meridian\"=7"]);
    eventually("it claims again", async || {
        cloud
            .nbctl(&["get", "NB_Global", ".", "external_ids"])
            .contains("meridian:generation:meridian\"=\"8\"")
    })
    .await;
    cloud.scene.port(0x52, NET, SUB, "10.0.0.6");
    cloud.settle().await;
    assert!(cloud.column("Logical_Switch_Port", "name").contains(&id(0x52).to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_rows_that_were_taken_over_go_when_the_rows_are_gone() {
    let mut cloud = Cloud::bare().await;
    let row = id(0x999);
    cloud.scene.put(Adopted { ours: id(NET), table: "Logical_Switch".into(), theirs: row });
    cloud.settle().await;
    assert!(cloud.column("Logical_Switch", "_uuid").contains(&row.to_string()));

    let dir = tempfile::tempdir().unwrap();
    let (_outside, seen) = tokio::sync::watch::channel(std::sync::Arc::default());
    let store = Store::open(&Url::Sqlite(dir.path().join("api.db")), seen).await.unwrap();
    let kept = cloud.scene.world().get::<Adopted>(&id(NET)).unwrap().clone();
    let other = Adopted { ours: id(N1), ..Adopted::clone(&kept) };
    let put = [Adopted::clone(&kept), other];
    let stored = store.execute(move |txn| {
        put.iter().for_each(|record| drop(txn.put(record.clone())));
        Ok(())
    });
    stored.await.unwrap();
    let mut spent = cloud.writer().spent();
    tokio::spawn(crate::northbound::forget_adopted(store.clone(), spent.clone()));

    // As long as the network exists, so does the record.
    let mut status = cloud.writer().handle().status();
    let run = status.borrow_and_update().generation;
    cloud.writer().handle().run_now();
    status.wait_for(|status| status.generation > run).await.unwrap();
    assert!(spent.borrow_and_update().is_empty());

    cloud.scene.edit(|txn| {
        txn.remove::<Subnet>(&id(SUB));
        txn.remove::<Network>(&id(NET));
    });
    cloud.settle().await;
    cloud.writer().handle().run_now();
    eventually("the record is forgotten, and no other", async || {
        store.world().table::<Adopted>().iter().map(|record| record.ours).eq([id(N1)])
    })
    .await;
    assert_eq!(*spent.borrow(), [id(NET)]);
}

/// Waits until the writer has the problem of withheld deletions.
async fn withholds(cloud: &Cloud, reason: &str) {
    let mut status = cloud.writer().handle().status();
    let told = status.wait_for(|status| {
        let problem = status.problems.iter().find(|problem| problem.code == "deletions-withheld");
        problem.is_some_and(|problem| problem.message.contains(reason))
    });
    let told = tokio::time::timeout(std::time::Duration::from_secs(60), told).await;
    assert!(told.is_ok(), "{reason}: {:#?}", *cloud.writer().handle().status().borrow());
}

fn remove_port(cloud: &mut Cloud, n: u128) {
    cloud.scene.edit(|txn| drop(txn.remove::<Port>(&id(n))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_whose_store_is_behind_deletes_nothing_until_it_is_allowed_to() {
    let mut cloud = Cloud::bare().await;
    cloud.nbctl(&["init"]);
    for n in 0x51..0x54 {
        cloud.scene.port(n, NET, SUB, &format!("10.0.0.{n}"));
    }
    cloud.settle().await;
    let names = |cloud: &Cloud| cloud.column("Logical_Switch_Port", "name");
    let noted =
        |cloud: &Cloud| cloud.nbctl(&["get", "NB_Global", ".", "external_ids:\"meridian:applied:meridian\""]);
    let newest = noted(&cloud);

    // The restored store is an older copy: it lacks one port and has another.
    cloud.stop().await;
    cloud.backing.is_behind.store(true, Ordering::Relaxed);
    remove_port(&mut cloud, 0x53);
    cloud.scene.port(0x54, NET, SUB, "10.0.0.9");
    cloud.publish();
    cloud.start().await;
    withholds(&cloud, "withholds the deletion of 1 of ").await;
    eventually("it goes on with the rest", async || names(&cloud).contains(&id(0x54).to_string())).await;
    let preview = cloud.writer().handle().plan().await.unwrap();
    assert!(preview.steps.iter().all(|step| step.held), "{preview}");
    assert!(preview.to_string().contains(&format!("- Logical_Switch_Port {}", id(0x53))), "{preview}");
    // Neither further changes nor another question make it the newest.
    cloud.scene.port(0x55, NET, SUB, "10.0.0.10");
    remove_port(&mut cloud, 0x54);
    cloud.publish();
    cloud.writer().handle().run_now();
    withholds(&cloud, "withholds the deletion of 2 of ").await;
    assert!(names(&cloud).contains(&id(0x53).to_string()) && names(&cloud).contains(&id(0x54).to_string()));
    assert_eq!(noted(&cloud), newest, "the note of the newest store stays");

    cloud.writer().allow_deletions().unwrap();
    eventually("they go", async || {
        let names = names(&cloud);
        !names.contains(&id(0x53).to_string()) && !names.contains(&id(0x54).to_string())
    })
    .await;
    cloud.settle().await;
    eventually("its own state is the newest now", async || noted(&cloud) != newest).await;
    cloud.stop().await;
    cloud.backing.is_behind.store(false, Ordering::Relaxed);
    cloud.start().await;
    cloud.settle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_writer_does_not_begin_with_a_mass_deletion() {
    let mut cloud = Cloud::bare().await;
    cloud.nbctl(&["init"]);
    let ports = 0x100..0x120u128;
    for n in ports.clone() {
        cloud.scene.port(n, NET, SUB, &format!("10.0.0.{}", n - 0xf0));
    }
    cloud.settle().await;
    let count = |cloud: &Cloud| cloud.column("Logical_Switch_Port", "name").len();
    let all = count(&cloud);
    cloud.stop().await;
    for n in ports.clone().take(20) {
        remove_port(&mut cloud, n);
    }
    cloud.publish();
    cloud.start().await;
    withholds(&cloud, "more than 10 %").await;
    assert_eq!(count(&cloud), all);
    cloud.writer().allow_deletions().unwrap();
    eventually("they go", async || count(&cloud) == all - 20).await;
    cloud.settle().await;
    // A writer that has settled deletes rows whatever its users delete.
    for n in ports.skip(20) {
        remove_port(&mut cloud, n);
    }
    cloud.settle().await;
    assert_eq!(count(&cloud), all - 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_does_not_hear_from_its_store_lets_another_write() {
    let mut cloud = Cloud::with_northd().await;
    cloud.settle().await;
    // The store of the other server answers.
    let healthy = Arc::new(Behaviour::default());
    let second = cloud.another_with(&healthy).await;
    assert!(cloud.writer().is_writer() && !second.is_writer());
    cloud.backing.is_silent.store(true, Ordering::Relaxed);
    eventually("the other writes", async || second.is_writer() && !cloud.writer().is_writer()).await;
    cloud.scene.port(0x52, NET, SUB, "10.0.0.6");
    let seq = cloud.publish();
    let done = tokio::time::timeout(std::time::Duration::from_secs(30), second.wait_applied(seq)).await;
    assert_eq!(done, Ok(true));
    // It takes part in the election again when its store is back, and the present writer goes on.
    cloud.backing.is_silent.store(false, Ordering::Relaxed);
    second.handle().stop();
    eventually("it is its turn again", async || cloud.writer().is_writer()).await;
    cloud.scene.port(0x53, NET, SUB, "10.0.0.7");
    cloud.settle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_is_judged_while_its_server_writes() {
    let mut cloud = Cloud::bare().await;
    cloud.nbctl(&["init"]);
    cloud.scene.port(0x51, NET, SUB, "10.0.0.5");
    cloud.settle().await;
    cloud.backing.is_behind.store(true, Ordering::Relaxed);
    cloud.scene.restore();
    remove_port(&mut cloud, 0x51);
    cloud.publish();
    withholds(&cloud, "withholds the deletion of 1 of ").await;
    assert!(cloud.column("Logical_Switch_Port", "name").contains(&id(0x51).to_string()));
}
