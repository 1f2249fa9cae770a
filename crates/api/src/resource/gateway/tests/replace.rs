//! Replacing and removing gateways, through the new sub-methods and through the old attribute.

use super::*;

#[test]
fn scenario_26_a_removal_must_tell_which_one() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let two = json!([gateway(N1, &["192.0.2.100"]), gateway(N1, &["192.0.2.101"])]);
    cloud.gateways("add", router, two).unwrap();
    let before = port_ids(&cloud, router);
    refused(cloud.gateways("remove", router, json!([{"network_id": id(N1)}])), 400, "UnableToMatchGateways");
    let shown = cloud.gateways("remove", router, json!([gateway(N1, &["192.0.2.101"])])).unwrap();
    assert_eq!(addresses(&shown, 0), ["192.0.2.100"]);
    assert_eq!(port_ids(&cloud, router), before[..1]);
}

#[test]
fn scenario_27_a_removal_looks_at_network_and_addresses_only() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    refused(
        cloud.gateways("remove", router, json!([gateway(N1, &["192.0.2.77"])])),
        400,
        "UnableToMatchGateways",
    );
    let half_wrong = json!([{"network_id": id(N2)}, gateway(N1, &["192.0.2.77"])]);
    refused(cloud.gateways("remove", router, half_wrong), 400, "UnableToMatchGateways");
    assert_eq!(port_ids(&cloud, router).len(), 2);
    let read = cloud.show("routers", router).unwrap()["external_gateways"][1].clone();
    let mut with_more = read;
    with_more["colour"] = json!("red");
    with_more["enable_snat"] = json!("nonsense");
    let shown =
        cloud.by(Caller::member("p"), |cloud| cloud.gateways("remove", router, json!([with_more]))).unwrap();
    assert_eq!(networks(&shown), [id(N1)]);
    let none = cloud.router();
    refused(cloud.gateways("remove", none, json!([{"network_id": id(N1)}])), 400, "UnableToRemoveGateways");
}

#[test]
fn scenario_28_the_oldest_left_becomes_the_compatibility_gateway() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let info = json!({"network_id": id(N1), "enable_snat": false});
    cloud.gateways("add", router, json!([info, {"network_id": id(N2)}])).unwrap();
    let second = port_ids(&cloud, router)[1];
    let shown = cloud.gateways("remove", router, json!([{"network_id": id(N1)}])).unwrap();
    assert_eq!(shown["external_gateway_info"]["network_id"], json!(id(N2)));
    assert_eq!(shown["enable_snat"], json!(false));
    assert_eq!(port_ids(&cloud, router), [second]);
    let entity = cloud.world.get::<Router>(&router).unwrap();
    assert_eq!(default_routes(&cloud.world, entity)[0].nexthop, ip("198.51.100.1"));
}

#[test]
fn scenario_29_31_emptying_the_old_field_takes_one_gateway_at_a_time() {
    for empty in [json!({}), json!(null)] {
        let mut cloud = Cloud::new();
        let router = cloud.router_on(&[N1, N2]);
        let second = port_ids(&cloud, router)[1];
        // The requests of the `openstack` client: an empty removal, then an empty attribute.
        cloud.gateways("remove", router, json!({})).unwrap();
        let shown = cloud.update("routers", router, json!({"external_gateway_info": empty})).unwrap();
        assert_eq!((networks(&shown), port_ids(&cloud, router)), (vec![id(N2)], vec![second]));
        let shown = cloud.update("routers", router, json!({"external_gateway_info": empty})).unwrap();
        assert_eq!(
            (&shown["external_gateway_info"], &shown["external_gateways"]),
            (&Value::Null, &json!([]))
        );
        let shown = cloud.update("routers", router, json!({"external_gateway_info": empty})).unwrap();
        assert_eq!(shown["external_gateways"], json!([]), "once more is fine");
    }
}

#[test]
fn scenario_30_a_removal_of_nothing_changes_nothing() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    let before = cloud.world.clone();
    for nothing in [json!({}), json!([]), json!(null)] {
        cloud.gateways("remove", router, nothing.clone()).unwrap();
        cloud.gateways("add", router, nothing).unwrap();
    }
    for verb in ["add", "update", "remove"] {
        let path = format!("PUT {verb}_external_gateways");
        cloud.act("routers", router, &path, json!({"router": {}})).unwrap();
    }
    assert_eq!(cloud.world.table::<Router>().changes_since(before.table::<Router>()).count(), 0);
    assert_eq!(cloud.world.table::<Port>().changes_since(before.table::<Port>()).count(), 0);
}

#[test]
fn scenario_32_another_order_makes_another_compatibility_gateway() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    let [first, second] = port_ids(&cloud, router)[..] else { panic!("two gateways") };
    let shown =
        cloud.gateways("update", router, json!([{"network_id": id(N2)}, {"network_id": id(N1)}])).unwrap();
    assert_eq!(networks(&shown), [id(N2), id(N1)]);
    assert_eq!(port_ids(&cloud, router), [second, first]);
    let revision = shown["revision_number"].clone();
    let again =
        cloud.gateways("update", router, json!([{"network_id": id(N2)}, {"network_id": id(N1)}])).unwrap();
    assert_eq!(again["revision_number"], revision, "the same once more is no change");
}

#[test]
fn scenario_33_a_port_gets_a_further_address() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let before = json!([gateway(N1, &["192.0.2.100"]), gateway(N2, &["198.51.100.100"])]);
    cloud.gateways("add", router, before).unwrap();
    let ports = cloud.gateway_ports(router);
    let more = json!([gateway(N1, &["192.0.2.100"]), gateway(N2, &["198.51.100.100", "198.51.100.7"])]);
    let shown = cloud.gateways("update", router, more).unwrap();
    assert_eq!(addresses(&shown, 1), ["198.51.100.100", "198.51.100.7"]);
    let after = cloud.gateway_ports(router);
    assert_eq!((after[1].id, after[1].mac), (ports[1].id, ports[1].mac));
    assert_eq!(after[0], ports[0]);
    let fewer = json!([gateway(N1, &["192.0.2.100"]), gateway(N2, &["198.51.100.7"])]);
    assert_eq!(addresses(&cloud.gateways("update", router, fewer).unwrap(), 1), ["198.51.100.7"]);
}

#[test]
fn scenario_34_the_compatibility_gateway_changes_its_address_in_place() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud.gateways("add", router, json!([gateway(N1, &["192.0.2.100"])])).unwrap();
    let before = port_ids(&cloud, router);
    let shown = cloud.gateways("update", router, json!([gateway(N1, &["192.0.2.150"])])).unwrap();
    assert_eq!((addresses(&shown, 0), port_ids(&cloud, router)), (vec!["192.0.2.150"], before.clone()));
    let info = json!({"external_gateway_info": gateway(N1, &["192.0.2.151"])});
    let shown = cloud.update("routers", router, info).unwrap();
    assert_eq!((addresses(&shown, 0), port_ids(&cloud, router)), (vec!["192.0.2.151"], before.clone()));
    let kept =
        cloud.update("routers", router, json!({"external_gateway_info": {"network_id": id(N1)}})).unwrap();
    assert_eq!((addresses(&kept, 0), port_ids(&cloud, router)), (vec!["192.0.2.151"], before));
}

#[test]
fn scenario_35_two_on_one_network_from_nothing() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let shown =
        cloud.gateways("update", router, json!([{"network_id": id(N1)}, {"network_id": id(N1)}])).unwrap();
    assert_eq!(networks(&shown), [id(N1), id(N1)]);
}

#[test]
fn scenario_36_an_empty_update_removes_all_or_nothing() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    cloud.attach(router, S4).unwrap();
    let port = cloud.port(N4, &["10.0.4.9"]);
    let floating =
        cloud.create("floatingips", json!({"floating_network_id": id(N2), "port_id": port})).unwrap();
    refused(cloud.gateways("update", router, json!([])), 409, "RouterExternalGatewayInUseByFloatingIp");
    assert_eq!(port_ids(&cloud, router).len(), 2);
    cloud.delete("floatingips", floating["id"].as_str().unwrap()).unwrap();
    assert_eq!(cloud.gateways("update", router, json!([])).unwrap()["external_gateways"], json!([]));
}

#[test]
fn a_list_that_does_not_name_source_nat_asks_for_the_default() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    cloud
        .gateways(
            "add",
            router,
            json!([{"network_id": id(N1), "enable_snat": false}, {"network_id": id(N2)}]),
        )
        .unwrap();
    let silent = json!([{"network_id": id(N2)}, {"network_id": id(N1)}]);
    assert_eq!(cloud.gateways("update", router, silent).unwrap()["enable_snat"], json!(true));
    let off =
        json!([{"network_id": id(N2), "enable_snat": false}, {"network_id": id(N1), "enable_snat": true}]);
    assert_eq!(
        cloud.gateways("update", router, off).unwrap()["enable_snat"],
        json!(false),
        "the first one counts"
    );
    let info = json!({"external_gateway_info": {"network_id": id(N2)}});
    assert_eq!(
        cloud.update("routers", router, info).unwrap()["enable_snat"],
        json!(false),
        "more than one gateway"
    );
    let first_says = json!([{"network_id": id(N2), "enable_snat": true}, {"network_id": id(N1)}]);
    assert_eq!(cloud.gateways("update", router, first_says).unwrap()["enable_snat"], json!(true));
}

#[test]
fn the_old_field_replaces_the_compatibility_gateway_only() {
    let mut cloud = Cloud::new();
    let router = cloud.router_on(&[N1, N2]);
    let [first, second] = port_ids(&cloud, router)[..] else { panic!("two gateways") };
    let shown =
        cloud.update("routers", router, json!({"external_gateway_info": {"network_id": id(N2)}})).unwrap();
    assert_eq!(networks(&shown), [id(N2), id(N2)]);
    let now = port_ids(&cloud, router);
    assert!(!now.contains(&first));
    assert_eq!(now[1], second);
}

#[test]
fn addresses_can_move_between_gateways_in_one_update() {
    let mut cloud = Cloud::new();
    let router = cloud.router();
    let before = json!([gateway(N1, &["192.0.2.10"]), gateway(N1, &["192.0.2.11", "192.0.2.12"])]);
    cloud.gateways("add", router, before.clone()).unwrap();
    let ports = port_ids(&cloud, router);
    let after = json!([gateway(N1, &["192.0.2.10", "192.0.2.11"]), gateway(N1, &["192.0.2.12"])]);
    let shown = cloud.gateways("update", router, after).unwrap();
    assert_eq!([addresses(&shown, 0).len(), addresses(&shown, 1).len()], [2, 1]);
    assert_eq!(port_ids(&cloud, router), ports);
    cloud.gateways("update", router, before).unwrap();
    assert_eq!(port_ids(&cloud, router), ports);
    // Addresses move from a removed gateway to a new one.
    let moved =
        json!([gateway(N1, &["192.0.2.10"]), gateway(N2, &[]), gateway(N1, &["192.0.2.77", "192.0.2.12"])]);
    let shown = cloud.gateways("update", router, moved).unwrap();
    assert_eq!(addresses(&shown, 1), ["192.0.2.77", "192.0.2.12"], "by age, whatever the request's order");
    let replaced = json!([gateway(N2, &[]), gateway(N1, &["192.0.2.10", "192.0.2.12"])]);
    cloud.gateways("update", router, replaced).unwrap();
}
