//! Subnet pools: bounds, changes of prefixes, allocation, quotas and the default pool.

use serde_json::{Value, json};

use super::*;
use crate::resource::Method::Put;
use crate::resource::fixture::{Desk, fault, id};

const POOLS: &str = "subnetpools";

fn member() -> Caller {
    Caller::member("p")
}

fn admin() -> Caller {
    Caller::admin("ops")
}

fn pool(desk: &mut Desk, more: Value) -> Result<Value, Fault> {
    let mut body = json!({"name": "pool", "prefixes": ["10.0.0.0/16"]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    desk.create(POOLS, &member(), body)
}

/// The prefix of a new subnet on a new network, allocated from a pool.
fn cut(desk: &mut Desk, caller: &Caller, more: Value) -> Result<String, Fault> {
    let network = desk.create("networks", caller, json!({}))?;
    let mut body = json!({"network_id": network["id"], "ip_version": 4});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    Ok(desk.create("subnets", caller, body)?["cidr"].as_str().unwrap().to_owned())
}

#[test]
fn a_pool_that_says_little() {
    let mut desk = Desk::new();
    let v4 = pool(&mut desk, json!({"prefixes": ["10.1.0.0/16", "10.0.0.9/16"]})).unwrap();
    assert_eq!(v4["prefixes"], json!(["10.0.0.0/15"]));
    let lengths =
        |pool: &Value| ["min_prefixlen", "max_prefixlen", "default_prefixlen"].map(|key| pool[key].clone());
    assert_eq!(lengths(&v4), ["8", "32", "8"]);
    assert_eq!(
        (&v4["ip_version"], &v4["shared"], &v4["is_default"]),
        (&json!(4), &json!(false), &json!(false))
    );
    assert_eq!((&v4["default_quota"], &v4["address_scope_id"]), (&json!(null), &json!(null)));
    let v6 = pool(&mut desk, json!({"prefixes": ["2001:db8::/32"], "min_prefixlen": "48"})).unwrap();
    assert_eq!(lengths(&v6), ["48", "128", "48"]);
}

#[test]
fn what_is_refused() {
    let mut desk = Desk::new();
    for (more, want) in [
        (json!({"name": null}), (400, "HTTPBadRequest")),
        (json!({"prefixes": []}), (400, "EmptySubnetPoolPrefixList")),
        (json!({"prefixes": ["10.0.0.0"]}), (400, "HTTPBadRequest")),
        (json!({"prefixes": "10.0.0.0/8"}), (400, "HTTPBadRequest")),
        (json!({"prefixes": ["10.0.0.0/8", "2001:db8::/32"]}), (400, "PrefixVersionMismatch")),
        (json!({"prefixes": ["0.0.0.0/0"]}), (400, "UnsupportedMinSubnetPoolPrefix")),
        (json!({"min_prefixlen": 24, "max_prefixlen": 20}), (400, "IllegalSubnetPoolPrefixBounds")),
        (json!({"default_prefixlen": 30, "max_prefixlen": 28}), (400, "IllegalSubnetPoolPrefixBounds")),
        (json!({"default_prefixlen": 8, "min_prefixlen": 16}), (400, "IllegalSubnetPoolPrefixBounds")),
        (json!({"max_prefixlen": 33}), (400, "IllegalSubnetPoolPrefixBounds")),
        (json!({"max_prefixlen": 0}), (400, "HTTPBadRequest")),
        (json!({"default_quota": -1}), (400, "HTTPBadRequest")),
        (json!({"ip_version": 4}), (400, "HTTPBadRequest")),
        (json!({"shared": true}), (403, "PolicyNotAuthorized")),
        (json!({"is_default": true}), (403, "PolicyNotAuthorized")),
        (json!({"address_scope_id": id(9).to_string()}), (404, "AddressScopeNotFound")),
    ] {
        assert_eq!(fault(pool(&mut desk, more.clone())), want, "{more}");
    }
}

#[test]
fn the_lowest_free_prefix_is_cut() {
    let mut desk = Desk::new();
    let pool = pool(
        &mut desk,
        json!({"prefixes": ["10.0.0.0/22", "10.9.0.0/24"], "min_prefixlen": 23, "default_prefixlen": 24}),
    )
    .unwrap();
    let from = |more: Value| {
        let mut body = json!({"subnetpool_id": pool["id"]});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    };
    let mut take = |more: Value| cut(&mut desk, &member(), from(more));
    assert_eq!(take(json!({})).unwrap(), "10.0.0.0/24");
    assert_eq!(take(json!({"prefixlen": 26})).unwrap(), "10.0.1.0/26");
    assert_eq!(take(json!({"prefixlen": 23})).unwrap(), "10.0.2.0/23");
    assert_eq!(take(json!({})).unwrap(), "10.9.0.0/24");
    assert_eq!(take(json!({"prefixlen": 26})).unwrap(), "10.0.1.64/26");
    assert_eq!(take(json!({"cidr": "10.0.1.128/25"})).unwrap(), "10.0.1.128/25");
    for (more, want) in [
        (json!({}), (409, "SubnetAllocationError")),
        (json!({"prefixlen": 22}), (400, "MinPrefixSubnetAllocationError")),
        (json!({"prefixlen": 33}), (400, "MaxPrefixSubnetAllocationError")),
        (json!({"cidr": "10.0.1.0/26"}), (409, "SubnetAllocationError")),
        (json!({"cidr": "192.0.2.0/24"}), (409, "SubnetAllocationError")),
        (json!({"cidr": "10.0.1.0/26", "prefixlen": 26}), (400, "BadRequest")),
        (json!({"ip_version": 6}), (400, "InvalidInput")),
        (json!({"use_default_subnetpool": true}), (400, "BadRequest")),
    ] {
        assert_eq!(fault(take(more.clone())), want, "{more}");
    }
    // A released prefix can be allocated again.
    let of_pool = format!("subnetpool_id={}&cidr=10.0.2.0/23", pool["id"].as_str().unwrap());
    let freed = desk.list("subnets", &member(), &of_pool).unwrap().remove(0);
    desk.delete("subnets", &member(), &freed).unwrap();
    assert_eq!(cut(&mut desk, &member(), from(json!({}))).unwrap(), "10.0.2.0/24");
    assert_eq!(fault(desk.delete(POOLS, &member(), &pool)), (400, "SubnetPoolDeleteError"));
}

#[test]
fn the_end_of_the_address_space_is_no_trap() {
    let mut desk = Desk::new();
    let v6 = json!({"prefixes": ["fc00::/7"], "min_prefixlen": 8, "default_prefixlen": 8});
    let pool = pool(&mut desk, v6).unwrap();
    let body = json!({"subnetpool_id": pool["id"], "ip_version": 6});
    assert_eq!(cut(&mut desk, &member(), body.clone()).unwrap(), "fc00::/8");
    assert_eq!(cut(&mut desk, &member(), body.clone()).unwrap(), "fd00::/8");
    assert_eq!(fault(cut(&mut desk, &member(), body)), (409, "SubnetAllocationError"));
}

#[test]
fn a_project_takes_no_more_than_its_share() {
    let mut desk = Desk::new();
    let shared = json!({"name": "v4", "prefixes": ["10.0.0.0/8"], "default_quota": 512, "default_prefixlen": 24, "shared": true});
    let v4 = desk.create(POOLS, &admin(), shared).unwrap();
    let shared = json!({"name": "v6", "prefixes": ["2001:db8::/32"], "default_quota": 2, "shared": true});
    let v6 = desk.create(POOLS, &admin(), shared).unwrap();
    for (pool, version) in [(v4, 4), (v6, 6)] {
        let body = json!({"subnetpool_id": pool["id"], "ip_version": version});
        for _ in 0..2 {
            cut(&mut desk, &member(), body.clone()).unwrap();
        }
        assert_eq!(fault(cut(&mut desk, &member(), body.clone())), (409, "SubnetPoolQuotaExceeded"));
        assert!(cut(&mut desk, &Caller::member("q"), body).is_ok(), "each project has its own");
    }
}

#[test]
fn prefixes_come_and_go() {
    let mut desk = Desk::new();
    let pool = pool(&mut desk, json!({"prefixes": ["10.0.0.0/24"], "default_prefixlen": 26})).unwrap();
    let put = |desk: &mut Desk, what, body| desk.act(POOLS, &member(), &pool, (Put, what), body);
    let added = put(&mut desk, "add_prefixes", json!({"prefixes": ["10.0.1.0/24", "10.5.0.0/16"]})).unwrap();
    assert_eq!(added, json!({"prefixes": ["10.0.0.0/23", "10.5.0.0/16"]}));
    cut(&mut desk, &member(), json!({"subnetpool_id": pool["id"]})).unwrap();
    for (what, body, want) in [
        ("add_prefixes", json!({"prefixes": ["2001:db8::/32"]}), (400, "PrefixVersionMismatch")),
        ("add_prefixes", json!({"prefixes": ["x"]}), (400, "HTTPBadRequest")),
        ("add_prefixes", json!({"prefix": []}), (400, "HTTPBadRequest")),
        ("add_prefixes", json!({}), (400, "HTTPBadRequest")),
        ("add_prefixes", json!(null), (400, "HTTPBadRequest")),
        ("remove_prefixes", json!({"prefixes": ["10.0.0.0/28"]}), (400, "IllegalSubnetPoolPrefixUpdate")),
    ] {
        assert_eq!(fault(put(&mut desk, what, body.clone())), want, "{what} {body}");
    }
    let left =
        put(&mut desk, "remove_prefixes", json!({"prefixes": ["10.0.1.0/24", "10.5.0.0/17"]})).unwrap();
    assert_eq!(left, json!({"prefixes": ["10.0.0.0/24", "10.5.128.0/17"]}));
    let shown = desk.show(POOLS, &member(), &pool).unwrap();
    assert_eq!(shown["prefixes"], left["prefixes"]);
    assert_eq!(shown["revision_number"], 2);
    let fewer = json!({"prefixes": ["10.0.0.0/24"]});
    assert_eq!(fault(desk.update(POOLS, &member(), &pool, fewer)), (400, "IllegalSubnetPoolPrefixUpdate"));
    let more = json!({"prefixes": ["10.0.0.0/8"], "default_quota": 5, "default_prefixlen": 28});
    let more = desk.update(POOLS, &member(), &pool, more).unwrap();
    assert_eq!((&more["prefixes"], &more["default_quota"]), (&json!(["10.0.0.0/8"]), &json!(5)));
    let stranger = Caller::member("q");
    let answer = desk.act(POOLS, &stranger, &pool, (Put, "add_prefixes"), json!({"prefixes": []}));
    assert_eq!(fault(answer), (404, "SubnetPoolNotFound"));
}

#[test]
fn one_default_for_each_family() {
    let mut desk = Desk::new();
    let make = |desk: &mut Desk, prefix: &str| {
        let body = json!({"name": "d", "prefixes": [prefix], "is_default": true, "shared": true, "default_prefixlen": if prefix.contains(':') { 64 } else { 24 }});
        desk.create(POOLS, &admin(), body)
    };
    let default = json!({"use_default_subnetpool": true});
    assert_eq!(fault(cut(&mut desk, &member(), default.clone())), (400, "BadRequest"));
    make(&mut desk, "10.0.0.0/8").unwrap();
    make(&mut desk, "2001:db8::/32").unwrap();
    assert_eq!(fault(make(&mut desk, "172.16.0.0/12")), (400, "InvalidInput"));
    assert_eq!(cut(&mut desk, &member(), default).unwrap(), "10.0.0.0/24");
}

#[test]
fn subnets_of_one_network_come_from_one_pool_or_scope() {
    let mut desk = Desk::new();
    let scope = desk.create("address-scopes", &member(), json!({"name": "s", "ip_version": 4})).unwrap();
    let scoped = |n: u8| json!({"prefixes": [format!("10.{n}.0.0/16")], "address_scope_id": scope["id"], "default_prefixlen": 24});
    let [one, two] = [1, 2].map(|n| pool(&mut desk, scoped(n)).unwrap());
    let lone = pool(&mut desk, json!({"prefixes": ["10.3.0.0/16"], "default_prefixlen": 24})).unwrap();
    let [a, b] = [(); 2].map(|()| desk.create("networks", &member(), json!({})).unwrap());
    let mut on = |network: &Value, more: Value| {
        let mut body = json!({"network_id": network["id"], "ip_version": 4});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        fault(desk.create("subnets", &member(), body))
    };
    let from = |pool: &Value| json!({"subnetpool_id": pool["id"]});
    let fine = (200, "no fault");
    assert_eq!(on(&a, from(&one)), fine);
    assert_eq!(on(&a, from(&two)), fine, "pools of one scope");
    assert_eq!(on(&a, from(&lone)), (400, "NetworkAddressScopeAffinityError"));
    assert_eq!(on(&a, json!({"cidr": "192.0.2.0/24"})), (400, "NetworkAddressScopeAffinityError"));
    assert_eq!(on(&b, from(&lone)), fine);
    assert_eq!(on(&b, json!({"cidr": "192.0.2.0/24"})), (400, "NetworkSubnetPoolAffinityError"));
    let shown = desk.show("networks", &member(), &a).unwrap();
    assert_eq!(shown["ipv4_address_scope"], scope["id"]);
    let out = desk.update(POOLS, &member(), &one, json!({"address_scope_id": null}));
    assert_eq!(fault(out), (400, "NetworkAddressScopeAffinityError"));
    assert!(desk.update(POOLS, &member(), &lone, json!({"address_scope_id": scope["id"]})).is_ok());
}

#[test]
fn prefixes_in_the_shared_scope_of_another_project_stay() {
    let mut desk = Desk::new();
    let scope = json!({"name": "s", "ip_version": 4, "shared": true});
    let scope = desk.create("address-scopes", &admin(), scope).unwrap();
    let own = pool(&mut desk, json!({})).unwrap();
    desk.update(POOLS, &admin(), &own, json!({"address_scope_id": scope["id"]})).unwrap();
    let more = json!({"prefixes": ["10.0.0.0/16", "10.9.0.0/16"]});
    assert_eq!(fault(desk.update(POOLS, &member(), &own, more.clone())), (400, "IllegalSubnetPoolUpdate"));
    assert!(desk.update(POOLS, &admin(), &own, more).is_ok());
}

#[test]
fn pools_are_seen_by_those_who_may_use_them() {
    let mut desk = Desk::new();
    let own = pool(&mut desk, json!({})).unwrap();
    let shared = desk
        .create(POOLS, &admin(), json!({"name": "s", "prefixes": ["10.0.0.0/8"], "shared": true}))
        .unwrap();
    let other = Caller::member("q");
    assert_eq!(desk.list(POOLS, &other, "").unwrap().len(), 1);
    assert_eq!(
        fault(cut(&mut desk, &other, json!({"subnetpool_id": own["id"]}))),
        (404, "SubnetPoolNotFound")
    );
    assert_eq!(
        fault(desk.update(POOLS, &other, &shared, json!({"name": "x"}))),
        (403, "PolicyNotAuthorized")
    );
    let policy = json!({"object_type": "subnetpool", "object_id": own["id"], "action": "access_as_shared", "target_tenant": "q"});
    let policy = desk.create("rbac-policies", &member(), policy).unwrap();
    assert_eq!(desk.show(POOLS, &other, &own).unwrap()["shared"], true, "a policy shares it with its target");
    assert!(cut(&mut desk, &other, json!({"subnetpool_id": own["id"], "prefixlen": 24})).is_ok());
    assert_eq!(fault(desk.delete("rbac-policies", &member(), &policy)), (409, "RbacPolicyInUse"));
    assert!(desk.delete(POOLS, &admin(), &shared).is_ok());
}
