//! No load balancer stays pending: with a Northbound that is down, stopped or emptied, with killed servers, with two servers.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::site::{BalancerSite, ls_refs};
use crate::cloud::{Cloud, eventually, raw};
use crate::plant::Plant;
use crate::two_servers::{postgres, waits_for};
use crate::world::id;

/// All rows of load balancers and health checks by their UUIDs, and the switches and routers that name them.
pub(super) fn contents(cloud: &Cloud) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for table in ["Load_Balancer", "Load_Balancer_Health_Check"] {
        for row in cloud.rows(table) {
            found.insert(format!("{table} {}", row["_uuid"]), row);
        }
    }
    for table in ["Logical_Switch", "Logical_Router"] {
        for row in cloud.rows(table) {
            found.insert(format!("{table} {}", row["name"]), row["load_balancer"].clone());
        }
    }
    found
}

/// The reason that the status of a load balancer gives.
fn reason(site: &BalancerSite, balancer: &str) -> String {
    let status = site.get(&format!("loadbalancers/{balancer}/status?verbose=true"));
    status["statuses"]["loadbalancer"]["reason"].as_str().unwrap_or_default().to_owned()
}

fn ports(site: &BalancerSite, balancer: &str) -> usize {
    let filter = format!("ports?device_id=lb-{balancer}");
    site.cloud.get(&filter)["ports"].as_array().unwrap().len()
}

/// A load balancer with a pool, a member and a listener, all of them ACTIVE.
fn whole(site: &BalancerSite) -> (String, String, String, String) {
    let balancer = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &balancer);
    let member = site.member(&pool, "10.0.0.20", &site.s1);
    let listener = site.listener(&balancer, 80, &pool);
    (balancer, pool, member, listener)
}

#[test]
fn scenario_50_and_53_a_silent_northbound_makes_objects_wait_and_not_stick() {
    let mut plant = Plant::start();
    let site = BalancerSite::on(plant.cloud(&[]));
    let (untouched, ..) = whole(&site);
    plant.freeze();
    let answer = site.ask("POST", "loadbalancers", Some(json!({"loadbalancer": {"vip_subnet_id": site.s1}})));
    assert_eq!(answer.status, 201, "{answer:?}");
    let waiting = id(&answer.body["loadbalancer"]);
    let second = site.ask("POST", "loadbalancers", Some(json!({"loadbalancer": {"vip_subnet_id": site.s1}})));
    let unwanted = id(&second.body["loadbalancer"]);
    let path = format!("loadbalancers/{waiting}");
    let state = || site.get(&path)["loadbalancer"]["provisioning_status"].as_str().unwrap().to_owned();
    assert_eq!(state(), "PENDING_CREATE");
    let (status, text) = site.refusal("PUT", &path, json!({"loadbalancer": {"name": "x"}}));
    assert_eq!(
        (status, text),
        (409, format!("Invalid state PENDING_CREATE of loadbalancer resource {waiting}"))
    );
    let pool = json!({"pool": {"loadbalancer_id": waiting, "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}});
    let (status, text) = site.refusal("POST", "pools", pool);
    assert_eq!((status, text), (409, format!("Load Balancer {waiting} is immutable and cannot be updated.")));
    assert_eq!(site.ask("DELETE", &path, None).status, 409);
    let shown = site.get(&format!("loadbalancers/{untouched}"));
    assert_eq!(shown["loadbalancer"]["provisioning_status"], "ACTIVE", "the others are as they were");

    // After the deadline the load balancers are ERROR with the reason, and one of them is deleted.
    eventually("the deadline is over", || (state() == "ERROR").then_some(()));
    let late = "the Northbound has not had the last change for more than 30 s";
    assert!(reason(&site, &waiting).contains(late), "{}", reason(&site, &waiting));
    let failed = format!("loadbalancers/{unwanted}");
    eventually("the other is ERROR too", || match site.ask("DELETE", &failed, None).status {
        204 => Some(()),
        409 => None,
        other => panic!("{other}"),
    });
    plant.thaw();
    eventually("the deleted one is gone", || (site.ask("GET", &failed, None).status == 404).then_some(()));
    assert_eq!(ports(&site, &unwanted), 0);
    eventually("it recovers by itself", || (state() == "ACTIVE").then_some(()));
    assert_eq!(ports(&site, &waiting), 1);
    site.delete(&path);
    assert_eq!(ports(&site, &waiting), 0);
}

#[test]
fn scenario_51_every_write_survives_a_northbound_that_is_away() {
    let mut plant = Plant::start();
    let site = BalancerSite::on(plant.cloud(&[]));
    let (balancer, pool, member, listener) = whole(&site);
    let monitor = json!({"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
    let monitor = site.make("healthmonitors", "healthmonitor", monitor);
    let name = |noun: &str| Some(json!({ noun: {"name": "renamed"} }));
    let member_path = format!("pools/{pool}/members");
    let aside = site.pool("p2", &balancer);
    let front = json!({"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 81});
    let back = json!({"loadbalancer_id": balancer, "protocol": "UDP", "lb_algorithm": "SOURCE_IP_PORT"});
    let probe = json!({"pool_id": aside, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
    let batch =
        json!([{"address": "10.0.0.11", "protocol_port": 80}, {"address": "10.0.0.12", "protocol_port": 80}]);
    let writes: Vec<(&str, String, Option<Value>)> = vec![
        ("POST", "listeners".to_owned(), Some(json!({ "listener": front }))),
        ("POST", "pools".to_owned(), Some(json!({ "pool": back }))),
        ("POST", "healthmonitors".to_owned(), Some(json!({ "healthmonitor": probe }))),
        ("PUT", format!("pools/{aside}/members"), Some(json!({ "members": batch }))),
        ("DELETE", format!("pools/{aside}"), None),
        ("POST", member_path.clone(), Some(json!({"member": {"address": "10.0.0.9", "protocol_port": 80}}))),
        ("PUT", format!("{member_path}/{member}"), name("member")),
        ("PUT", format!("healthmonitors/{monitor}"), Some(json!({"healthmonitor": {"delay": 7}}))),
        ("DELETE", format!("healthmonitors/{monitor}"), None),
        ("PUT", format!("pools/{pool}"), name("pool")),
        ("PUT", format!("listeners/{listener}"), name("listener")),
        ("DELETE", format!("{member_path}/{member}"), None),
        ("PUT", format!("loadbalancers/{balancer}"), name("loadbalancer")),
        ("DELETE", format!("listeners/{listener}"), None),
        ("DELETE", format!("loadbalancers/{balancer}?cascade=true"), None),
    ];
    for (method, path, body) in writes {
        plant.kill();
        let answer = site.ask(method, &path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        plant.revive();
        if path.contains("cascade") {
            eventually("it is gone", || {
                (site.get("loadbalancers")["loadbalancers"] == json!([])).then_some(())
            });
        } else {
            site.settled();
        }
    }
    site.cloud.converged();
    assert_eq!(site.cloud.rows("Load_Balancer"), Vec::<Value>::new());
    assert_eq!(ports(&site, &balancer), 0);
}

#[test]
fn scenario_52_a_killed_server_goes_on_where_it_was() {
    let mut plant = Plant::start();
    let mut site = BalancerSite::on(plant.cloud(&[]));
    let (balancer, pool, ..) = whole(&site);
    // The server dies after it stored the member and before it wrote the Northbound.
    plant.freeze();
    let path = format!("pools/{pool}/members");
    let member = |last: u8| json!({"member": {"address": format!("10.0.0.{last}"), "protocol_port": 80}});
    assert_eq!(site.ask("POST", &path, Some(member(40))).status, 201);
    site.cloud.kill();
    plant.thaw();
    site.cloud.again();
    site.settled();
    // A hundred crashes, each at another time after the answer.
    for last in 51..151 {
        assert_eq!(site.ask("POST", &path, Some(member(last))).status, 201);
        thread::sleep(Duration::from_micros(u64::from(last) * 37 % 3000));
        site.cloud.crash();
        site.settled();
    }
    site.cloud.converged();
    let row = site.row(&balancer);
    let backends = row["vips"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
    assert_eq!(backends.split(',').count(), 102);
    assert_eq!(ls_refs(&row), json!({format!("neutron-{}", site.n1): 103}));
    let before = contents(&site.cloud);
    site.cloud.crash();
    site.cloud.converged();
    assert_eq!(contents(&site.cloud), before, "nothing is left to do");
}

#[test]
fn unchanged_load_balancers_stay_active_when_a_server_starts_without_the_northbound() {
    let mut plant = Plant::start();
    let mut site = BalancerSite::on(plant.cloud(&[]));
    let (balancer, ..) = whole(&site);
    site.cloud.kill();
    plant.kill();
    site.cloud.again();
    // Just after a change it is unknown whether the Northbound has it. Later the objects become ACTIVE.
    let path = format!("loadbalancers/{balancer}");
    eventually("it is ACTIVE without a Northbound", || {
        let state = site.get(&path)["loadbalancer"]["provisioning_status"].clone();
        assert_ne!(state, "ERROR");
        (state == "ACTIVE").then_some(())
    });
    assert_eq!(site.unsettled(), BTreeSet::new());
    plant.revive();
    site.cloud.converged();
    assert_eq!(site.unsettled(), BTreeSet::new());
}

#[test]
fn a_change_that_no_server_can_have_written_is_not_active() {
    let mut plant = Plant::start();
    let mut site = BalancerSite::on(plant.cloud(&[]));
    let (untouched, ..) = whole(&site);
    let (changed, pool, ..) = whole(&site);
    site.cloud.kill();
    plant.kill();
    site.cloud.again();
    let shown = |balancer: &str| {
        site.get(&format!("loadbalancers/{balancer}"))["loadbalancer"]["provisioning_status"].clone()
    };
    eventually("changes from before the start count as applied", || {
        (shown(&changed) == "ACTIVE" && shown(&untouched) == "ACTIVE").then_some(())
    });
    // Both changes are in the store only.
    let new = site.ask("POST", "loadbalancers", Some(json!({"loadbalancer": {"vip_subnet_id": site.s1}})));
    let new = id(&new.body["loadbalancer"]);
    let member = json!({"member": {"address": "10.0.0.9", "protocol_port": 80}});
    assert_eq!(site.ask("POST", &format!("pools/{pool}/members"), Some(member.clone())).status, 201);
    for balancer in [&new, &changed] {
        eventually("it is ERROR", || {
            let state = shown(balancer);
            assert_ne!(state, "ACTIVE", "nobody has written it");
            (state == "ERROR").then_some(())
        });
        let reason = reason(&site, balancer);
        assert!(reason.contains("has not read the Northbound since it started"), "{reason}");
    }
    assert_eq!(shown(&untouched), "ACTIVE");
    let refused = site.ask("POST", &format!("pools/{pool}/members"), Some(member));
    assert_eq!(refused.status, 409, "{refused:?}");
    plant.revive();
    site.settled();
    assert_eq!((site.rows(&new).len(), ports(&site, &new)), (1, 1));
}

#[test]
fn scenario_54_a_deletion_ends_though_the_store_dies_in_between() {
    let (mut plant, (postgres, _dir)) = (Plant::start(), postgres());
    let site = BalancerSite::on(Cloud::on(plant.dir(), &["--database", &postgres.url("meridian")]));
    let (balancer, ..) = whole(&site);
    let (other, ..) = whole(&site);
    // The deletion is stored, and the Northbound does not have it.
    plant.freeze();
    let path = format!("loadbalancers/{balancer}");
    assert_eq!(site.ask("DELETE", &format!("{path}?cascade=true"), None).status, 204);
    // The rows go while nothing can be stored, so the load balancer and the port of its VIP must wait.
    postgres.daemon().kill().unwrap();
    plant.thaw();
    eventually("its rows are gone", || site.rows(&balancer).is_empty().then_some(()));
    postgres.start_again().unwrap();
    eventually("it is gone", || (site.ask("GET", &path, None).status == 404).then_some(()));
    site.settled();
    assert_eq!((ports(&site, &balancer), ports(&site, &other)), (0, 1));
    assert_eq!(site.rows(&other).len(), 1);
    // A request that meets the store while it is away says so, and is whole or not there afterwards.
    postgres.daemon().kill().unwrap();
    let member = json!({"member": {"address": "10.0.0.99", "protocol_port": 80}});
    let pool = site.row(&other)["external_ids"]
        .as_object()
        .unwrap()
        .keys()
        .find_map(|key| Some(key.strip_prefix("pool_")?.to_owned()));
    let members = format!("pools/{}/members", pool.unwrap());
    assert_eq!(site.ask("POST", &members, Some(member.clone())).status, 503);
    postgres.start_again().unwrap();
    eventually("requests are taken again", || {
        let status = site.ask("POST", &members, Some(member.clone())).status;
        assert!([201, 409, 500, 503].contains(&status), "{status}");
        (status == 201 || status == 409).then_some(())
    });
    site.settled();
}

#[test]
fn scenario_55_rows_that_others_damage_are_repaired() {
    let mut plant = Plant::start();
    let site = BalancerSite::on(plant.cloud(&[]));
    let (balancer, ..) = whole(&site);
    site.cloud.nbctl("lb-add pf-floatingip-1-tcp 192.0.2.7:80 10.0.0.9:80");
    let before = contents(&site.cloud);
    let same = || contents(&site.cloud) == before;
    let uuid = site.row(&balancer)["_uuid"].as_str().unwrap().to_owned();
    for damage in [
        format!("destroy Load_Balancer {uuid}"),
        format!("clear Load_Balancer {uuid} vips"),
        format!("remove Logical_Switch neutron-{} load_balancer {uuid}", site.n2),
        format!("remove Logical_Router neutron-{} load_balancer {uuid}", site.r1),
    ] {
        site.cloud.nbctl(&damage);
        eventually(&format!("{damage} is repaired"), || same().then_some(()));
    }
    // The whole database is lost. The server writes the same rows again, except the foreign one.
    plant.kill();
    plant.lose();
    plant.revive();
    let ours = |all: BTreeMap<String, Value>| -> BTreeMap<String, Value> {
        all.into_iter().filter(|(_, row)| row["name"] != "pf-floatingip-1-tcp").collect()
    };
    let expected = ours(before);
    eventually("it is rebuilt", || (ours(contents(&site.cloud)) == expected).then_some(()));
    site.settled();
}

#[test]
fn scenario_57_two_servers_take_members_of_one_pool() {
    let (plant, (postgres, _dir)) = (Plant::start(), postgres());
    let url = postgres.url("meridian");
    let mut site = BalancerSite::on(Cloud::on(plant.dir(), &["--database", &url]));
    let other = Cloud::on(plant.dir(), &["--database", &url]);
    eventually("the other waits for its turn", || waits_for(&other).filter(|what| what.contains("lock")));
    let (balancer, pool, ..) = whole(&site);
    let path = format!("/v2/lbaas/pools/{pool}/members");
    let urls = [site.cloud.load_balancer_url(), other.load_balancer_url()];
    thread::scope(|scope| {
        for worker in 0..8_u8 {
            let (path, urls) = (&path, urls);
            scope.spawn(move || {
                for n in 0..25_u8 {
                    let last = 50 + worker * 25 + n;
                    let body = json!({"member": {"address": format!("10.0.0.{last}"), "protocol_port": 80}})
                        .to_string();
                    let url = urls[usize::from(worker + n) % 2];
                    // A pending load balancer answers 409, and clients retry.
                    eventually("the member is added", || {
                        let answer = raw(url, &[("X-Auth-Token", "admin")], "POST", path, Some(&body));
                        assert!([201, 409].contains(&answer.status), "{answer:?}");
                        (answer.status == 201).then_some(())
                    });
                }
            });
        }
    });
    site.settled();
    let row = site.row(&balancer);
    let backends = row["vips"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
    assert_eq!(backends.split(',').count(), 201);
    assert_eq!(ls_refs(&row), json!({format!("neutron-{}", site.n1): 202}));
    // The writer dies, and the other server takes over.
    site.cloud.kill();
    let listed = raw(
        other.load_balancer_url(),
        &[("X-Auth-Token", "admin")],
        "DELETE",
        &format!("/v2/lbaas/loadbalancers/{balancer}?cascade=true"),
        None,
    );
    assert_eq!(listed.status, 204, "{listed:?}");
    eventually("the row is gone", || other.rows("Load_Balancer").is_empty().then_some(()));
    site.cloud.again();
    eventually("it is gone everywhere", || {
        (site.get("loadbalancers")["loadbalancers"] == json!([])).then_some(())
    });
}
