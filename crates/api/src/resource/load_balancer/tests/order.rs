//! The order of checks: quota, state of the load balancer, each object, capabilities of the provider.

use super::*;

/// Sets limits of the project.
fn limit(cloud: &mut Cloud, limits: &[(&str, i64)]) {
    let limits = limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
    cloud.run((None, ""), |txn, _| Ok(txn.put(QuotaSet { project: "p".into(), limits }))).unwrap();
}

#[test]
fn a_batch_is_refused_in_octavias_order() {
    let (mut cloud, whole) = Cloud::with_balancer();
    let pool_id = cloud.make("pools", pool(&whole));
    let path = format!("pools/{pool_id}/members");
    cloud.make(&path, json!({"address": "10.0.0.1", "protocol_port": 80}));
    let member = |last: u8| json!({"address": format!("10.0.0.{last}"), "protocol_port": 80});
    let mut monitored = member(1);
    monitored["monitor_port"] = json!(81);
    let mut reserved = member(9);
    reserved["address"] = json!("169.254.169.254");
    let batch = |cloud: &mut Cloud, members: &[&Value]| {
        cloud.replace(&path, "", json!({"members": members})).map_err(|(status, _)| status)
    };
    let (two, three) = (member(2), member(3));
    // The provider refuses the first member, but the API refuses the second.
    assert_eq!(batch(&mut cloud, &[&monitored, &reserved]), Err(400));
    assert_eq!(batch(&mut cloud, &[&monitored, &two, &two]), Err(400));
    assert_eq!(batch(&mut cloud, &[&monitored, &two]), Err(501));
    // A pending load balancer comes before all of them, and before a batch without a difference.
    cloud.update("loadbalancers", &whole, json!({"name": "x"})).unwrap();
    let one = member(1);
    for members in [&[&monitored][..], &[&two, &two], &[&reserved], &[&one]] {
        assert_eq!(batch(&mut cloud, members), Err(409), "{members:?}");
    }
    // Quotas come before that. They count the difference: replaced members leave room.
    limit(&mut cloud, &[("member", 1)]);
    assert_eq!(batch(&mut cloud, &[&two, &three]), Err(403));
    assert_eq!(batch(&mut cloud, &[&two]), Err(409));
    cloud.apply();
    assert_eq!(batch(&mut cloud, &[&two]), Ok(()));
}

#[test]
fn a_tree_is_refused_in_octavias_order() {
    let mut cloud = Cloud::new();
    let front = |protocol: &str, port: u16| json!({"protocol": protocol, "protocol_port": port});
    let back = |algorithm: &str, members: Value| json!({"name": format!("p-{algorithm}"), "protocol": "TCP", "lb_algorithm": algorithm, "members": members});
    let reserved = json!([{"address": "169.254.169.254", "protocol_port": 80}]);
    let tree = |cloud: &mut Cloud, listeners: Value, pools: Value| {
        let body = json!({"vip_subnet_id": id(2), "listeners": listeners, "pools": pools});
        cloud.create("loadbalancers", body).map(drop).map_err(|(status, _)| status)
    };
    // The provider refuses an earlier object than the API.
    let pools = json!([back("ROUND_ROBIN", json!([])), back("SOURCE_IP", reserved)]);
    assert_eq!(tree(&mut cloud, json!([]), pools), Err(400));
    let listeners = json!([front("HTTP", 80), front("TCP", 81), front("TCP", 81)]);
    assert_eq!(tree(&mut cloud, listeners, json!([])), Err(409));
    let listeners = json!([front("HTTP", 80), {"protocol": "TCP", "protocol_port": 81, "colour": "red"}]);
    assert_eq!(tree(&mut cloud, listeners, json!([])), Err(400));
    assert_eq!(tree(&mut cloud, json!([front("HTTP", 80)]), json!([])), Err(501));
    assert_eq!(tree(&mut cloud, json!([]), json!([back("ROUND_ROBIN", json!([]))])), Err(501));
    assert!(cloud.world.table::<Port>().is_empty(), "nothing is left of them");
    // Quotas come before the provider's capabilities, and a refusal takes nothing of them.
    limit(&mut cloud, &[("listener", 0), ("pool", 1), ("member", 0)]);
    assert_eq!(tree(&mut cloud, json!([front("HTTP", 80)]), json!([])), Err(403));
    let pool = back("ROUND_ROBIN", json!([{"address": "10.0.0.7", "protocol_port": 80}]));
    assert_eq!(tree(&mut cloud, json!([]), json!([pool])), Err(403));
    for _ in 0..2 {
        assert_eq!(tree(&mut cloud, json!([]), json!([back("ROUND_ROBIN", json!([]))])), Err(501));
    }
    assert_eq!(tree(&mut cloud, json!([]), json!([back("SOURCE_IP", json!([]))])), Ok(()));
}
