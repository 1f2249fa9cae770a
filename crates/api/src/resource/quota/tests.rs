//! Quotas: permissions, changes and counts.

mod addresses;
mod shares;

use super::*;
use crate::resource::fixture::{network, txn};

fn settings() -> Settings {
    Settings::default()
}

#[test]
fn limits_are_the_defaults_until_set_and_again_after_reset() {
    let mut txn = txn();
    let admin = Caller::admin("p");
    let shown = show(&txn, &settings(), &admin, "q").unwrap();
    assert_eq!((&shown["quota"]["port"], &shown["quota"]["subnetpool"]), (&json!(500), &json!(100)));
    let set = update(&mut txn, &admin, "q", &json!({"quota": {"port": 7, "router": "3", "tenant_id": "q"}}))
        .unwrap();
    assert_eq!(
        (&set["quota"]["port"], &set["quota"]["router"], &set["quota"]["network"]),
        (&json!(7), &json!(3), &json!(100))
    );
    update(&mut txn, &admin, "q", &json!({"quota": {"network": 1}})).unwrap();
    let shown = show(&txn, &settings(), &admin, "q").unwrap();
    assert_eq!((&shown["quota"]["port"], &shown["quota"]["network"]), (&json!(7), &json!(1)));
    assert_eq!(default(&settings(), &admin, "q").unwrap()["quota"]["port"], 500);
    let listed = list(&txn, &settings(), &admin).unwrap();
    assert_eq!((&listed["quotas"][0]["project_id"], &listed["quotas"][0]["port"]), (&json!("q"), &json!(7)));
    reset(&mut txn, &admin, "q").unwrap();
    assert_eq!(show(&txn, &settings(), &admin, "q").unwrap()["quota"]["port"], 500);
    assert_eq!(reset(&mut txn, &admin, "q").unwrap_err().status, 404);
}

#[test]
fn only_administrators_set_and_strangers_do_not_look() {
    let mut txn = txn();
    let member = Caller::member("p");
    assert_eq!(update(&mut txn, &member, "p", &json!({"quota": {}})).unwrap_err().status, 403);
    assert_eq!(reset(&mut txn, &member, "p").unwrap_err().status, 403);
    assert_eq!(list(&txn, &settings(), &member).unwrap_err().status, 403);
    assert!(show(&txn, &settings(), &member, "p").is_ok());
    assert_eq!(show(&txn, &settings(), &member, "q").unwrap_err().status, 403);
    assert_eq!(details(&txn, &settings(), &member, "q").unwrap_err().status, 403);
    assert_eq!(default(&settings(), &member, "q").unwrap_err().status, 403);
}

#[test]
fn bad_bodies_are_refused() {
    let mut txn = txn();
    for body in [
        json!({}),
        json!({"quota": []}),
        json!({"quota": {"colour": 1}}),
        json!({"quota": {"port": -2}}),
        json!({"quota": {"port": "many"}}),
        json!({"quota": {"port": 1u64 << 40}}),
        json!({"quota": {"tenant_id": "other"}}),
        json!({"quota": {"check_limit": "perhaps"}}),
    ] {
        let fault = update(&mut txn, &Caller::admin("p"), "q", &body).unwrap_err();
        assert_eq!(fault.status, 400, "{body}");
    }
    assert!(txn.table::<QuotaSet>().is_empty());
}

#[test]
fn details_count_and_check_limit_minds_the_count() {
    let mut txn = txn();
    let admin = Caller::admin("p");
    for n in 1..4 {
        txn.put(network(n, "q"));
    }
    let shown = details(&txn, &settings(), &admin, "q").unwrap();
    assert_eq!(shown["quota"]["network"], json!({"used": 3, "limit": 100, "reserved": 0}));
    let strict = json!({"quota": {"network": 2, "check_limit": true}});
    assert_eq!(update(&mut txn, &admin, "q", &strict).unwrap_err().status, 400);
    update(&mut txn, &admin, "q", &json!({"quota": {"network": 2, "force": true}})).unwrap();
    assert_eq!(check(&txn, Kind::Network, "q", 1).unwrap_err().kind, "OverQuota");
    assert!(check(&txn, Kind::Network, "", 1).is_ok(), "what belongs to nobody is not limited");
    update(&mut txn, &admin, "q", &json!({"quota": {"network": -1}})).unwrap();
    assert!(check(&txn, Kind::Network, "q", 1000).is_ok());
}

#[test]
fn scenario_63_routes_are_counted_in_each_router() {
    let mut txn = txn();
    update(&mut txn, &Caller::admin("p"), "q", &json!({"quota": {"router_route": 2}})).unwrap();
    assert!(check_count(&txn, "router_route", "q", 2).is_ok());
    assert_eq!(check_count(&txn, "router_route", "q", 3).unwrap_err().kind, "OverQuota");
}

#[test]
fn all_that_can_be_limited_has_a_default_and_the_other_way_round() {
    let limited = LIMITED.map(|(name, _)| name);
    assert_eq!(limited.to_vec(), crate::settings::DefaultQuotas::resources().collect::<Vec<_>>());
}
