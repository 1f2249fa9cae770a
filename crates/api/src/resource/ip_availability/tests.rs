//! Counts of addresses, small and beyond 64 bits.

use serde_json::{Value, json};

use super::*;
use crate::Caller;
use crate::report::Report;
use crate::resource::computed;
use crate::resource::fixture::{Desk, fault};

const COUNTS: &str = "network-ip-availabilities";

fn admin() -> Caller {
    Caller::admin("p")
}

fn desk() -> (Desk, Value) {
    let mut desk = Desk::new();
    let network = desk.create("networks", &admin(), json!({"name": "n"})).unwrap();
    for (version, cidr) in [(4, "10.0.0.0/24"), (6, "2001:db8::/64")] {
        let body = json!({"network_id": network["id"], "ip_version": version, "cidr": cidr, "name": cidr});
        desk.create("subnets", &admin(), body).unwrap();
    }
    desk.create("networks", &admin(), json!({"name": "empty"})).unwrap();
    for _ in 0..3 {
        desk.create("ports", &admin(), json!({"network_id": network["id"]})).unwrap();
    }
    (desk, network)
}

#[test]
fn numbers_have_no_limit() {
    let (desk, network) = desk();
    let scene = Scene {
        world: &desk.world,
        report: &Report::default(),
        outside: &desk.outside,
        caller: &admin(),
        now: jiff::Timestamp::UNIX_EPOCH,
        parent: None,
    };
    let noun = computed::of::<NetworkIpAvailabilities>();
    let shown = noun.show(&scene, network["id"].as_str().unwrap(), &[]).unwrap();
    let text = String::from_utf8(shown.as_bytes().to_vec()).unwrap();
    // 253 + 2^64 - 1, and 2^64 - 1 alone.
    assert!(text.contains("\"total_ips\":18446744073709551868,\"used_ips\":6"), "{text}");
    assert!(text.contains("\"total_ips\":18446744073709551615"), "{text}");
    assert!(text.contains("\"total_ips\":253"), "{text}");
    assert!(!text.contains('$'), "{text}");
}

#[test]
fn what_is_counted() {
    let (mut desk, network) = desk();
    let rows = desk.list(COUNTS, &admin(), "").unwrap();
    assert_eq!(rows.len(), 2);
    let of = |name: &str| rows.iter().find(|row| row["network_name"] == name).unwrap().clone();
    assert_eq!((&of("empty")["total_ips"], &of("empty")["used_ips"]), (&json!(0), &json!(0)));
    let row = of("n");
    assert_eq!(
        (&row["project_id"], &row["tenant_id"], &row["network_id"]),
        (&json!("p"), &json!("p"), &network["id"])
    );
    let mut subnets: Vec<_> = row["subnet_ip_availability"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (
                it["ip_version"].as_u64(),
                it["used_ips"].as_u64(),
                it["cidr"].clone(),
                it["subnet_name"].clone(),
            )
        })
        .collect();
    subnets.sort_by_key(|it| it.0);
    assert_eq!(subnets[0], (Some(4), Some(3), json!("10.0.0.0/24"), json!("10.0.0.0/24")));
    assert_eq!(subnets[1], (Some(6), Some(3), json!("2001:db8::/64"), json!("2001:db8::/64")));
}

#[test]
fn filters() {
    let (mut desk, network) = desk();
    let id = network["id"].as_str().unwrap();
    for (query, want) in [
        (format!("network_id={id}"), 1),
        ("network_name=empty".into(), 1),
        ("project_id=p".into(), 2),
        ("tenant_id=q".into(), 0),
        ("ip_version=6".into(), 1),
    ] {
        assert_eq!(desk.list(COUNTS, &admin(), &query).unwrap().len(), want, "{query}");
    }
    let v4 = desk.list(COUNTS, &admin(), "ip_version=4").unwrap().remove(0);
    assert_eq!((&v4["total_ips"], &v4["used_ips"]), (&json!(253), &json!(3)));
    assert_eq!(v4["subnet_ip_availability"].as_array().unwrap().len(), 1);
    assert_eq!(fault(desk.list(COUNTS, &admin(), "ip_version=5x")), (400, "HTTPBadRequest"));
}

#[test]
fn for_administrators() {
    let (mut desk, network) = desk();
    let member = Caller::member("p");
    assert!(desk.list(COUNTS, &member, "").unwrap().is_empty());
    assert_eq!(fault(desk.show(COUNTS, &member, &network)), (404, "NetworkNotFound"));
}
