//! Whole load balancers: created by one request, deleted with all children, listed, limited.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::guarantees::contents;
use super::site::{BalancerSite, ls_refs};
use crate::cloud::eventually;
use crate::journal::Journal;
use crate::world::id;

/// A tree with two listeners on one pool, which has a health monitor and members.
fn tree(site: &BalancerSite, members: u8) -> Value {
    let members: Vec<Value> = (0..members)
        .map(|n| json!({"address": format!("10.0.0.{}", n + 100), "protocol_port": 80}))
        .collect();
    let monitor = json!({"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
    let listener =
        |port: u16| json!({"protocol": "TCP", "protocol_port": port, "default_pool": {"name": "p1"}});
    json!({"loadbalancer": {
        "name": "tree", "vip_subnet_id": site.s1,
        "listeners": [listener(80), listener(443)],
        "pools": [{"name": "p1", "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT",
                   "members": members, "healthmonitor": monitor}],
    }})
}

#[test]
fn scenario_61_one_request_creates_a_tree() {
    let site = BalancerSite::new();
    site.cloud.converged();
    let mut unnamed = tree(&site, 2);
    unnamed["loadbalancer"]["pools"][0]["name"] = Value::Null;
    unnamed["loadbalancer"]["listeners"] = json!([]);
    let (status, text) = site.refusal("POST", "loadbalancers", unnamed);
    assert!(status == 400 && text.contains("Pools must be named"), "{status} {text}");
    for collection in ["loadbalancers", "pools", "listeners"] {
        assert_eq!(site.get(collection)[collection], json!([]), "nothing is left");
    }
    let mut journal = Journal::of(&site.cloud);
    let answer = site.ask("POST", "loadbalancers", Some(tree(&site, 50)));
    assert_eq!(answer.status, 201, "{answer:?}");
    let made = &answer.body["loadbalancer"];
    assert_eq!(made["provisioning_status"], "PENDING_CREATE");
    assert_eq!(made["listeners"].as_array().unwrap().len(), 2);
    assert_eq!(made["pools"][0]["members"].as_array().unwrap().len(), 50, "expanded");
    assert_eq!(made["pools"][0]["healthmonitor"]["type"], "TCP");
    site.settled();
    let written = journal.next();
    let with_balancer = written
        .iter()
        .filter(|written| !written.to(crate::journal::Kind::Insert, "Load_Balancer").is_empty());
    assert_eq!(with_balancer.count(), 1);
    let row = site.row(&id(made));
    assert_eq!(row["vips"].as_object().unwrap().len(), 2);
    assert_eq!(ls_refs(&row), json!({format!("neutron-{}", site.n1): 51}));
}

#[test]
fn a_cascade_right_after_the_creation_of_a_tree_leaves_nothing() {
    let site = BalancerSite::new();
    for _ in 0..5 {
        let answer = site.ask("POST", "loadbalancers", Some(tree(&site, 10)));
        let path = format!("loadbalancers/{}?cascade=true", id(&answer.body["loadbalancer"]));
        // Clients retry after 409.
        eventually("it may be deleted", || match site.ask("DELETE", &path, None).status {
            204 => Some(()),
            409 => None,
            other => panic!("{other}"),
        });
    }
    eventually("all are gone", || (site.get("loadbalancers")["loadbalancers"] == json!([])).then_some(()));
    for collection in ["listeners", "pools", "healthmonitors"] {
        assert_eq!(site.get(collection)[collection], json!([]));
    }
    site.cloud.converged();
    assert_eq!(site.cloud.rows("Load_Balancer"), Vec::<Value>::new());
    assert_eq!(site.cloud.rows("Load_Balancer_Health_Check"), Vec::<Value>::new());
    let ports = site.cloud.get("ports")["ports"].clone();
    let left: Vec<_> = ports
        .as_array()
        .unwrap()
        .iter()
        .filter(|port| port["name"].as_str().unwrap().starts_with("ovn-lb-"))
        .collect();
    assert_eq!(left, Vec::<&Value>::new());
}

#[test]
fn a_creation_and_a_deletion_are_one_northbound_transaction_each() {
    let site = BalancerSite::new();
    site.cloud.converged();
    let before = contents(&site.cloud);
    let mut journal = Journal::of(&site.cloud);
    let answer = site.ask("POST", "loadbalancers", Some(tree(&site, 10)));
    let path = format!("loadbalancers/{}", id(&answer.body["loadbalancer"]));
    site.settled();
    site.cloud.converged();
    let written = journal.next();
    assert_eq!(written.len(), 1, "{written:#?}");
    site.delete(&format!("{path}?cascade=true"));
    site.cloud.converged();
    let written = journal.next();
    assert_eq!(written.len(), 1, "the ports of VIP and probes go with the rows: {written:#?}");
    assert_eq!(contents(&site.cloud), before, "no switch refers to the deleted row");
    // The port of an owner stays, with its row.
    let port = json!({"network_id": site.n1, "name": "mine"});
    let port = id(&site.cloud.create("ports", "port", port));
    let balancer = json!({"vip_port_id": port});
    let balancer = site.make("loadbalancers", "loadbalancer", balancer);
    site.delete(&format!("loadbalancers/{balancer}"));
    site.cloud.converged();
    assert!(site.cloud.rows("Logical_Switch_Port").iter().any(|row| row["name"] == port.as_str()));
}

#[test]
fn a_load_balancer_with_parts_goes_only_by_cascade() {
    let site = BalancerSite::new();
    let balancer = site.balancer("lb1", &site.s1);
    site.pool("p1", &balancer);
    let path = format!("loadbalancers/{balancer}");
    let answer = site.ask("DELETE", &path, None);
    let text = format!("Validation failure: Cannot delete Load Balancer {balancer} - it has children");
    assert_eq!((answer.status, &answer.body["faultstring"]), (400, &json!(text)));
    site.delete(&format!("{path}?cascade=True"));
}

#[test]
fn scenario_28_what_ovn_has_nothing_for() {
    let site = BalancerSite::new();
    let balancer = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &balancer);
    let listener = site.listener(&balancer, 80, &pool);
    let policy = json!({"l7policy": {"listener_id": listener, "action": "REJECT"}});
    let (status, text) = site.refusal("POST", "l7policies", policy);
    assert!(status == 501 && text.contains("does not support a requested action"), "{status} {text}");
    assert_eq!(site.get("l7policies")["l7policies"], json!([]));
    let answer = site.ask("PUT", &format!("loadbalancers/{balancer}/failover"), None);
    assert_eq!(answer.status, 501, "{answer:?}");
    assert_eq!(site.unsettled(), BTreeSet::new());
    let amphorae = crate::cloud::raw(
        site.cloud.load_balancer_url(),
        &[("X-Auth-Token", "admin")],
        "GET",
        "/v2/octavia/amphorae",
        None,
    );
    assert_eq!(amphorae.body, json!({"amphorae": [], "amphorae_links": []}));
}

#[test]
fn scenario_58_quotas_count_what_is_there() {
    let site = BalancerSite::new();
    let quota = json!({"quota": {"load_balancer": 1}});
    let answer = site.ask("PUT", "quotas/fake_project_id", Some(quota));
    assert_eq!((answer.status, &answer.body["quota"]["loadbalancer"]), (202, &json!(1)), "{answer:?}");
    let nowhere = json!({"vip_subnet_id": "11111111-2222-4333-8444-555555555555"});
    assert_eq!(site.refusal("POST", "loadbalancers", json!({ "loadbalancer": nowhere })).0, 400);
    let first = site.balancer("first", &site.s1);
    let second = json!({"loadbalancer": {"vip_subnet_id": site.s1}});
    let (status, text) = site.refusal("POST", "loadbalancers", second);
    assert_eq!((status, text.as_str()), (403, "Quota has been met for resources: Load Balancer"));
    site.delete(&format!("loadbalancers/{first}"));
    site.balancer("second", &site.s1);
    assert_eq!(site.ask("DELETE", "quotas/fake_project_id", None).status, 202);
    site.balancer("third", &site.s1);
}

#[test]
fn scenario_59_lists_are_walked_filtered_and_sorted() {
    let site = BalancerSite::new();
    for n in 0..30 {
        let tags = if n % 2 == 0 { json!(["even", "all"]) } else { json!(["all"]) };
        let attributes =
            json!({"name": format!("lb{n:02}"), "vip_subnet_id": site.s1, "tags": tags, "description": "x"});
        let answer = site.ask("POST", "loadbalancers", Some(json!({ "loadbalancer": attributes })));
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let names = |body: &Value| -> Vec<String> {
        let list = body["loadbalancers"].as_array().unwrap();
        list.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut walked = Vec::new();
    let mut next = Some("loadbalancers?limit=7&sort=name:desc".to_owned());
    while let Some(page) = next {
        let body = site.get(&page);
        walked.extend(names(&body));
        let links = body["loadbalancers_links"].as_array().unwrap();
        let link = links.iter().find(|link| link["rel"] == "next");
        next = link.map(|link| link["href"].as_str().unwrap().split_once("/lbaas/").unwrap().1.to_owned());
    }
    let all: Vec<String> = (0..30).rev().map(|n| format!("lb{n:02}")).collect();
    assert_eq!(walked, all);
    let count = |query: &str| names(&site.get(&format!("loadbalancers?{query}"))).len();
    for (query, expected) in [
        ("tags=even", 15),
        ("tags=even,all", 15),
        ("tags-any=even,none", 15),
        ("not-tags=even", 15),
        ("not-tags-any=even,all", 0),
        ("name=lb07", 1),
        ("description=x&admin_state_up=true", 30),
        ("admin_state_up=yes", 30),
        ("admin_state_up=On", 30),
        ("admin_state_up=no", 0),
        ("admin_state_up=maybe", 0),
        ("limit=0", 30),
        ("limit=infinite", 30),
    ] {
        assert_eq!(count(query), expected, "{query}");
    }
    let some = site.get("loadbalancers?fields=id&fields=name&name=lb07");
    assert_eq!(some["loadbalancers"][0].as_object().unwrap().len(), 2);
    for (query, text) in [
        ("colour=red", "One or more arguments are either duplicate or invalid"),
        ("sort=colour:asc", "Supplied sort key 'colour' is not valid."),
        ("sort=name:up", "Supplied sort direction 'up' is not valid."),
        ("marker=nobody", "Supplied pagination marker 'nobody' is not valid."),
        ("limit=few", "Supplied pagination limit 'few' is not valid."),
    ] {
        let answer = site.ask("GET", &format!("loadbalancers?{query}"), None);
        assert_eq!((answer.status, &answer.body["faultstring"]), (400, &json!(text)), "{query}");
    }
}
