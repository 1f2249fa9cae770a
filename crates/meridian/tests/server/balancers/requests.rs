//! Requests with OVN behind them: listeners, pools, protocols, and rejected requests.

use serde_json::{Value, json};

use super::site::{BalancerSite, note};

/// The error for a port that another listener uses.
const TAKEN: &str = "Another Listener on this Load Balancer is already using protocol";

fn listener(balancer: &str, protocol: &str, port: u16) -> Value {
    json!({"listener": {"loadbalancer_id": balancer, "protocol": protocol, "protocol_port": port}})
}

#[test]
fn scenario_19_to_21_protocols_share_a_port_and_have_rows_of_their_own() {
    let site = BalancerSite::new();
    let lb1 = site.balancer("lb1", &site.s1);
    let first = site.row(&lb1)["_uuid"].clone();
    let pool = site.pool("p1", &lb1);
    site.member(&pool, "10.0.0.107", &site.s1);
    let tcp = site.listener(&lb1, 80, &pool);

    for protocol in ["TCP", "HTTP"] {
        let (status, text) = site.refusal("POST", "listeners", listener(&lb1, protocol, 80));
        assert!(text.starts_with(&format!("{TAKEN} {protocol} and protocol_port 80")), "{text}");
        assert_eq!(status, 409);
    }
    let quota = json!({"quota": {"listener": 2}});
    assert_eq!(site.ask("PUT", "quotas/fake_project_id", Some(quota)).status, 202);
    let (status, text) = site.refusal("POST", "listeners", listener(&lb1, "HTTP", 81));
    assert!(status == 501 && text.contains("OVN provider does not support HTTP protocol"), "{status} {text}");
    assert_eq!(site.unsettled(), [].into(), "a refused request leaves no trace");
    assert_eq!(site.get("listeners")["listeners"].as_array().unwrap().len(), 1);

    let answer = site.ask("POST", "listeners", Some(listener(&lb1, "UDP", 80)));
    assert_eq!(answer.status, 201, "{answer:?}");
    let udp = answer.body["listener"]["id"].as_str().unwrap().to_owned();
    // The refused listener took nothing of the quota, this one took the rest.
    assert_eq!(site.refusal("POST", "listeners", listener(&lb1, "UDP", 81)).0, 403);
    let udp_pool = json!({"listener_id": udp, "protocol": "UDP", "lb_algorithm": "SOURCE_IP_PORT"});
    site.settled();
    let udp_pool = site.make("pools", "pool", udp_pool);
    site.member(&udp_pool, "10.0.0.53", &site.s1);
    let rows = site.rows(&lb1);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let of = |protocol: &str| rows.iter().find(|row| row["protocol"] == protocol).unwrap();
    assert_eq!(of("tcp")["_uuid"], first, "the first row stays as it is");
    let vip = note(of("tcp"), "neutron:vip").as_str().unwrap();
    assert_eq!(of("tcp")["vips"], json!({format!("{vip}:80"): "10.0.0.107:80"}));
    assert_eq!(of("udp")["vips"], json!({format!("{vip}:80"): "10.0.0.53:80"}));
    for key in ["neutron:vip", "neutron:vip_port_id", "lr_ref", "ls_refs"] {
        assert_eq!(note(of("tcp"), key), note(of("udp"), key), "{key}");
    }

    site.delete(&format!("listeners/{udp}"));
    site.delete(&format!("pools/{udp_pool}"));
    let row = site.row(&lb1);
    assert_eq!((&row["_uuid"], &row["protocol"]), (&first, &json!("tcp")));
    site.delete(&format!("listeners/{tcp}"));
    site.delete(&format!("pools/{pool}"));
    let row = site.row(&lb1);
    assert_eq!((&row["_uuid"], &row["protocol"], &row["vips"]), (&first, &json!([]), &json!({})));
}

#[test]
fn scenario_22_to_24_disabled_objects_take_no_traffic() {
    let site = BalancerSite::new();
    let lb1 = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &lb1);
    site.member(&pool, "10.0.0.107", &site.s1);
    let listener = site.listener(&lb1, 82, &pool);
    let (listener_path, pool_path) = (format!("listeners/{listener}"), format!("pools/{pool}"));
    let (listener_key, pool_key) = (format!("listener_{listener}"), format!("pool_{pool}"));
    let balancer_path = format!("loadbalancers/{lb1}");
    let with_traffic = site.row(&lb1);
    let switch = |path: &str, noun: &str, up: bool| site.set(path, json!({ noun: {"admin_state_up": up} }));
    let operating = |path: &str, noun: &str| site.get(path)[noun]["operating_status"].clone();
    let same_as_before = |what: &str| {
        let row = site.row(&lb1);
        for column in ["vips", "protocol", "_uuid"] {
            assert_eq!(row[column], with_traffic[column], "{what}");
        }
    };

    switch(&listener_path, "listener", false);
    let row = site.row(&lb1);
    assert_eq!(note(&row, &format!("{listener_key}:D")), &json!(format!("82:{pool_key}")));
    assert_eq!(note(&row, &listener_key), &Value::Null);
    assert_eq!((&row["vips"], operating(&listener_path, "listener")), (&json!({}), json!("OFFLINE")));
    switch(&listener_path, "listener", true);
    same_as_before("the listener is back");

    switch(&pool_path, "pool", false);
    let row = site.row(&lb1);
    assert!(note(&row, &format!("{pool_key}:D")).as_str().unwrap().starts_with("member_"));
    assert_eq!(note(&row, &listener_key), &json!(format!("82:{pool_key}")));
    assert_eq!((&row["vips"], operating(&pool_path, "pool")), (&json!({}), json!("OFFLINE")));
    switch(&pool_path, "pool", true);
    same_as_before("the pool is back");

    switch(&balancer_path, "loadbalancer", false);
    let row = site.row(&lb1);
    assert_eq!((note(&row, "enabled"), &row["vips"]), (&json!("False"), &json!({})));
    assert_eq!(operating(&balancer_path, "loadbalancer"), "OFFLINE");
    switch(&balancer_path, "loadbalancer", true);
    same_as_before("the load balancer is back");

    site.set(&listener_path, json!({"listener": {"default_pool_id": null}}));
    let row = site.row(&lb1);
    assert_eq!((note(&row, &listener_key), &row["vips"]), (&json!("82:"), &json!({})));
    site.set(&listener_path, json!({"listener": {"default_pool_id": pool}}));
    same_as_before("the default pool is back");

    switch(&listener_path, "listener", false);
    site.delete(&listener_path);
    let row = site.row(&lb1);
    let keys: Vec<_> = row["external_ids"].as_object().unwrap().keys().collect();
    assert!(!keys.iter().any(|key| key.starts_with("listener_")), "{keys:?}");
}

#[test]
fn scenario_25_to_27_algorithms_and_affinity_belong_to_pools() {
    let site = BalancerSite::new();
    let lb1 = site.balancer("lb1", &site.s1);
    let pool = |protocol: &str, algorithm: &str| json!({"loadbalancer_id": lb1, "protocol": protocol, "lb_algorithm": algorithm});
    let by_address = site.make("pools", "pool", pool("TCP", "SOURCE_IP"));
    let row = site.row(&lb1);
    assert_eq!(row["selection_fields"], json!(["ip_dst", "ip_src"]));
    site.set(&format!("pools/{by_address}"), json!({"pool": {"lb_algorithm": "SOURCE_IP_PORT"}}));
    let after = site.row(&lb1);
    assert_eq!(after["_uuid"], row["_uuid"]);
    assert_eq!(after["selection_fields"], json!(["ip_dst", "ip_src", "tp_dst", "tp_src"]));

    let (status, text) = site.refusal("POST", "pools", json!({"pool": pool("TCP", "ROUND_ROBIN")}));
    assert!(status == 501 && text.contains("does not support ROUND_ROBIN algorithm"), "{status} {text}");
    let listener = site.make("listeners", "listener", listener(&lb1, "TCP", 80)["listener"].clone());
    let udp = json!({"pool": {"listener_id": listener, "protocol": "UDP", "lb_algorithm": "SOURCE_IP"}});
    assert_eq!(site.refusal("POST", "pools", udp).0, 400);

    let sticky = |persistence: Value| json!({"pool": {"session_persistence": persistence}});
    let path = format!("pools/{by_address}");
    site.set(&path, sticky(json!({"type": "SOURCE_IP"})));
    assert_eq!(site.row(&lb1)["options"]["affinity_timeout"], "360");
    let timed = json!({"type": "SOURCE_IP", "persistence_timeout": 600});
    assert_eq!(site.refusal("PUT", &path, sticky(timed.clone())).0, 400);
    site.set(&path, sticky(Value::Null));
    assert_eq!(site.row(&lb1)["options"]["affinity_timeout"], Value::Null);

    let udp = site.make("pools", "pool", pool("UDP", "SOURCE_IP_PORT"));
    site.set(&format!("pools/{udp}"), sticky(timed));
    let rows = site.rows(&lb1);
    let udp_row = rows.iter().find(|row| row["protocol"] == "udp").unwrap();
    assert_eq!(udp_row["options"]["affinity_timeout"], "600");
    site.delete(&format!("pools/{udp}"));

    // Two pools of one protocol with different algorithms get a row each, with the VIPs of their own listeners.
    site.set(&format!("listeners/{listener}"), json!({"listener": {"default_pool_id": by_address}}));
    site.member(&by_address, "10.0.0.108", &site.s1);
    let other = site.make("pools", "pool", pool("TCP", "SOURCE_IP"));
    let second = listener_with(&lb1, 81, &other);
    site.make("listeners", "listener", second);
    site.member(&other, "10.0.0.107", &site.s1);
    let rows = site.rows(&lb1);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let of = |fields: Value| rows.iter().find(|row| row["selection_fields"] == fields).unwrap();
    let (ports, addresses) =
        (of(json!(["ip_dst", "ip_src", "tp_dst", "tp_src"])), of(json!(["ip_dst", "ip_src"])));
    let vip = note(ports, "neutron:vip").as_str().unwrap();
    assert_eq!(ports["vips"], json!({format!("{vip}:80"): "10.0.0.108:80"}));
    assert_eq!(addresses["vips"], json!({format!("{vip}:81"): "10.0.0.107:80"}));
    assert_eq!(note(ports, &format!("pool_{other}")), &Value::Null);
    assert_eq!(ports["_uuid"], row["_uuid"]);
}

fn listener_with(balancer: &str, port: u16, pool: &str) -> Value {
    json!({"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": port, "default_pool_id": pool})
}
