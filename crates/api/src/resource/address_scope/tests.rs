//! Scopes: their family, their pools, and who may use them.

use serde_json::{Value, json};

use super::*;
use crate::resource::fixture::{Desk, fault};

const SCOPES: &str = "address-scopes";

fn member() -> Caller {
    Caller::member("p")
}

fn pool(desk: &mut Desk, caller: &Caller, scope: &Value, prefix: &str) -> Result<Value, Fault> {
    desk.create(
        "subnetpools",
        caller,
        json!({"name": "n", "prefixes": [prefix], "address_scope_id": scope["id"]}),
    )
}

#[test]
fn a_scope_of_a_family() {
    let mut desk = Desk::new();
    let scope = desk.create(SCOPES, &member(), json!({"name": "s", "ip_version": 4})).unwrap();
    assert_eq!(
        (&scope["ip_version"], &scope["shared"], &scope["project_id"]),
        (&json!(4), &json!(false), &json!("p"))
    );
    for (body, want) in [
        (json!({"name": "s"}), (400, "HTTPBadRequest")),
        (json!({"ip_version": 5}), (400, "HTTPBadRequest")),
        (json!({"ip_version": 4, "shared": true}), (403, "PolicyNotAuthorized")),
        (json!({"ip_version": 4, "description": "x"}), (400, "HTTPBadRequest")),
    ] {
        assert_eq!(fault(desk.create(SCOPES, &member(), body.clone())), want, "{body}");
    }
    assert_eq!(desk.update(SCOPES, &member(), &scope, json!({"name": "t"})).unwrap()["name"], "t");
    assert_eq!(
        fault(desk.update(SCOPES, &member(), &scope, json!({"ip_version": 6}))),
        (400, "HTTPBadRequest")
    );
    assert_eq!(
        fault(desk.update(SCOPES, &member(), &scope, json!({"shared": true}))),
        (403, "PolicyNotAuthorized")
    );
    assert_eq!(fault(desk.show(SCOPES, &Caller::member("q"), &scope)), (404, "AddressScopeNotFound"));
}

#[test]
fn pools_of_a_scope_do_not_overlap() {
    let mut desk = Desk::new();
    let scope = desk.create(SCOPES, &member(), json!({"name": "s", "ip_version": 4})).unwrap();
    let first = pool(&mut desk, &member(), &scope, "10.0.0.0/16").unwrap();
    for (prefix, want) in [
        ("10.0.128.0/17", (409, "AddressScopePrefixConflict")),
        ("10.0.0.0/8", (409, "AddressScopePrefixConflict")),
        ("2001:db8::/32", (400, "IllegalSubnetPoolIpVersionAssociationToAddressScope")),
        ("10.1.0.0/16", (200, "no fault")),
    ] {
        assert_eq!(fault(pool(&mut desk, &member(), &scope, prefix)), want, "{prefix}");
    }
    let wider = json!({"prefixes": ["10.0.0.0/15"]});
    assert_eq!(
        fault(desk.update("subnetpools", &member(), &first, wider)),
        (409, "AddressScopePrefixConflict")
    );
    assert_eq!(fault(desk.delete(SCOPES, &member(), &scope)), (409, "AddressScopeInUse"));
    for pool in desk.list("subnetpools", &member(), "").unwrap() {
        desk.delete("subnetpools", &member(), &pool).unwrap();
    }
    assert!(desk.delete(SCOPES, &member(), &scope).is_ok());
}

#[test]
fn a_shared_scope_is_for_everybody_and_stays_so() {
    let mut desk = Desk::new();
    let admin = Caller::admin("ops");
    let private = desk.create(SCOPES, &admin, json!({"name": "s", "ip_version": 4})).unwrap();
    assert_eq!(fault(pool(&mut desk, &member(), &private, "10.0.0.0/16")), (404, "AddressScopeNotFound"));
    let shared = desk.update(SCOPES, &admin, &private, json!({"shared": true})).unwrap();
    assert!(pool(&mut desk, &member(), &shared, "10.0.0.0/16").is_ok());
    assert_eq!(
        fault(desk.update(SCOPES, &admin, &shared, json!({"shared": false}))),
        (400, "AddressScopeUpdateError")
    );
    assert_eq!(fault(desk.delete(SCOPES, &member(), &shared)), (403, "PolicyNotAuthorized"));
}
