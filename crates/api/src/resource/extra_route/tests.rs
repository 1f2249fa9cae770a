//! Extra routes: union, difference, and the checks of next hops.

use serde_json::json;

use super::*;
use crate::caller::Caller;
use crate::resource::router::fixture::*;

fn route(destination: &str, nexthop: &str) -> Value {
    json!({"destination": destination, "nexthop": nexthop})
}

fn act(cloud: &mut Cloud, verb: &str, router: Uuid, routes: Value) -> Result<Value, Fault> {
    cloud.act("routers", router, &format!("PUT {verb}_extraroutes"), json!({"router": {"routes": routes}}))
}

#[test]
fn scenario_61_two_next_hops_for_one_destination() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.attach(router, S4).unwrap();
    let [one, two] = [route("203.0.113.0/24", "10.0.4.8"), route("203.0.113.0/24", "10.0.4.9")];
    act(&mut cloud, "add", router, json!([one])).unwrap();
    let shown = act(&mut cloud, "add", router, json!([two])).unwrap();
    assert_eq!(shown["routes"], json!([one, two]));
    let again = act(&mut cloud, "add", router, json!([one, two, one])).unwrap();
    assert_eq!(again, shown, "repeating what is there is no change");
    let left = act(&mut cloud, "remove", router, json!([one])).unwrap();
    assert_eq!(left["routes"], json!([two]));
    let same = act(&mut cloud, "remove", router, json!([one])).unwrap();
    assert_eq!(same, left);
}

#[test]
fn an_update_replaces_all() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.attach(router, S4).unwrap();
    cloud.attach(router, S6).unwrap();
    let [one, two] = [route("203.0.113.0/24", "10.0.4.8"), route("2001:db8:ff::/48", "2001:db8:6::9")];
    cloud.update("routers", router, json!({"routes": [one]})).unwrap();
    refused(cloud.update("routers", router, json!({"routes": [two, two]})), 400, "HTTPBadRequest");
    let shown = cloud.update("routers", router, json!({"routes": [two]})).unwrap();
    assert_eq!(shown["routes"], json!([two]));
    assert_eq!(cloud.update("routers", router, json!({"routes": []})).unwrap()["routes"], json!([]));
    cloud.update("routers", router, json!({"routes": [one, two]})).unwrap();
    let cleared = cloud.update("routers", router, json!({"routes": null})).unwrap();
    assert_eq!(cleared["routes"], json!([]), "clients clear routes by null");
}

#[test]
fn next_hops_must_be_reachable_and_somebody_elses() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1]);
    cloud.attach(router, S4).unwrap();
    let through_gateway = json!([route("203.0.113.0/24", "192.0.2.77")]);
    act(&mut cloud, "add", router, through_gateway).unwrap();
    for (nexthop, reason) in [
        ("10.0.5.9", "the nexthop is not connected with router"),
        ("10.0.4.1", "the nexthop is used by router"),
        ("192.0.2.2", "the nexthop is used by router"),
    ] {
        let routes = json!([route("203.0.113.0/24", nexthop)]);
        let text = refused(act(&mut cloud, "add", router, routes.clone()), 400, "InvalidRoutes");
        assert!(text.starts_with("Invalid format for routes: ") && text.ends_with(reason), "{text}");
        refused(cloud.update("routers", router, json!({"routes": routes})), 400, "InvalidRoutes");
    }
}

#[test]
fn routes_of_another_form_are_refused() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.attach(router, S4).unwrap();
    for routes in [
        json!(null),
        json!({}),
        json!(["x"]),
        json!([{}]),
        json!([{"destination": "203.0.113.0/24"}]),
        json!([{"nexthop": "10.0.4.9"}]),
        json!([route("203.0.113.1/24", "10.0.4.9")]),
        json!([route("x", "10.0.4.9")]),
        json!([route("203.0.113.0/24", "x")]),
        json!([route("2001:db8::/32", "10.0.4.9")]),
        json!([{"destination": "203.0.113.0/24", "nexthop": "10.0.4.9", "metric": 1}]),
    ] {
        for verb in ["add", "remove"] {
            let fault = act(&mut cloud, verb, router, routes.clone()).unwrap_err();
            assert_eq!(fault.status, 400, "{routes}");
        }
        if routes.is_null() {
            continue;
        }
        assert_eq!(
            cloud.update("routers", router, json!({"routes": routes})).unwrap_err().status,
            400,
            "{routes}"
        );
    }
    for body in [json!(null), json!({}), json!({"router": {}}), json!({"routes": []}), json!({"router": []})]
    {
        let answer = cloud.act("routers", router, "PUT add_extraroutes", body.clone());
        assert_eq!(answer.unwrap_err().status, 400, "{body}");
    }
    let text =
        act(&mut cloud, "add", router, json!([route("203.0.113.1/24", "10.0.4.9")])).unwrap_err().message;
    assert!(text.contains("'203.0.113.0/24' is recommended"), "{text}");
}

#[test]
fn only_the_owner_changes_routes() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.attach(router, S4).unwrap();
    let routes = json!([route("203.0.113.0/24", "10.0.4.9")]);
    let stranger = cloud.by(Caller::member("q"), |cloud| act(cloud, "add", router, routes.clone()));
    refused(stranger, 404, "RouterNotFound");
    cloud.by(Caller::member("p"), |cloud| act(cloud, "add", router, routes)).unwrap();
}
