//! A Northbound that rejects the rows of one load balancer: it becomes ERROR at once with the reason, the others continue, and its owner
//! can delete it.

use serde_json::{Value, json};

use super::site::BalancerSite;
use crate::cloud::eventually;
use crate::plant::Plant;
use crate::world::id;

/// Changes the schema of a running Northbound: the names of its load balancers must be unique, or need not be. A load balancer with two
/// protocols has two rows of one name.
fn set_unique_names(plant: &Plant, is_unique: bool) {
    plant.convert(|schema| {
        if is_unique {
            schema["tables"]["Load_Balancer"]["indexes"] = json!([["name"]]);
        }
    });
}

#[test]
fn a_refused_load_balancer_fails_at_once_with_its_reason_and_can_be_deleted() {
    let plant = Plant::start();
    set_unique_names(&plant, true);
    let site = BalancerSite::on(plant.cloud(&[]));
    let whole = |name: &str| {
        let balancer = site.balancer(name, &site.s1);
        let pool = site.pool("p", &balancer);
        site.member(&pool, "10.0.0.107", &site.s1);
        site.listener(&balancer, 81, &pool);
        balancer
    };
    let (refused, other) = (whole("refused"), whole("other"));

    // A second protocol needs a second row, which this Northbound does not take.
    let listener = json!({"loadbalancer_id": refused, "protocol": "UDP", "protocol_port": 53});
    let answer = site.ask("POST", "listeners", Some(json!({"listener": listener})));
    assert_eq!(answer.status, 201, "{answer:?}");
    let listener = id(&answer.body["listener"]);
    let state =
        |path: &str, noun: &str| site.get(path)[noun]["provisioning_status"].as_str().unwrap().to_owned();
    let path = format!("loadbalancers/{refused}");
    let verbose = || site.get(&format!("{path}/status?verbose=true"))["statuses"]["loadbalancer"].clone();
    // The deadline has another reason, so this one comes from the rejection.
    let reason = eventually("it is refused", || {
        let tree = verbose();
        let reason = tree["reason"].as_str()?.to_owned();
        (tree["provisioning_status"] == "ERROR").then_some(reason)
    });
    assert!(reason.contains("refuses its rows") && reason.contains("constraint violation"), "{reason}");
    assert_eq!(state(&format!("listeners/{listener}"), "listener"), "ERROR");
    assert_eq!(state(&format!("loadbalancers/{other}"), "loadbalancer"), "ACTIVE");
    let plain = site.get(&format!("{path}/status"))["statuses"]["loadbalancer"].clone();
    assert_eq!(plain.as_object().unwrap().len(), 5, "clients count the keys: {plain}");
    let shown = site.cloud.meridian(&["status"]);
    assert!(shown.contains("! refused: the Northbound refuses its rows"), "{shown}");
    assert!(site.cloud.meridian(&["explain", "refused"]).contains("the Northbound refuses its rows"));

    // Its owner may only delete it. Other load balancers can be changed.
    let rename = json!({"listener": {"name": "x"}});
    let (status, text) = site.refusal("PUT", &format!("listeners/{listener}"), rename);
    assert_eq!((status, text), (409, format!("Load Balancer {refused} is immutable and cannot be updated.")));
    let answer =
        site.ask("PUT", &format!("loadbalancers/{other}"), Some(json!({"loadbalancer": {"name": "o"}})));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = site.ask("DELETE", &format!("{path}?cascade=true"), None);
    assert_eq!(answer.status, 204, "{answer:?}");
    eventually("it is gone", || (site.ask("GET", &path, None).status == 404).then_some(()));
    site.settled();
    assert_eq!(site.rows(&refused), Vec::<Value>::new());
    assert_eq!(site.rows(&other).len(), 1);
}

#[test]
fn a_refused_load_balancer_recovers_when_the_northbound_takes_it() {
    let plant = Plant::start();
    set_unique_names(&plant, true);
    let site = BalancerSite::on(plant.cloud(&[]));
    // All of it in one request, so the Northbound never had any of it.
    let listeners =
        json!([{"protocol": "TCP", "protocol_port": 53}, {"protocol": "UDP", "protocol_port": 53}]);
    let whole = json!({"vip_subnet_id": site.s1, "listeners": listeners});
    let answer = site.ask("POST", "loadbalancers", Some(json!({"loadbalancer": whole})));
    assert_eq!(answer.status, 201, "{answer:?}");
    let path = format!("loadbalancers/{}/status?verbose=true", id(&answer.body["loadbalancer"]));
    eventually("it is refused", || {
        let reason = site.get(&path)["statuses"]["loadbalancer"]["reason"].as_str()?.to_owned();
        reason.contains("refuses its rows").then_some(())
    });

    set_unique_names(&plant, false);
    site.settled();
    assert_eq!(site.get(&path)["statuses"]["loadbalancer"].get("reason"), None);
}
