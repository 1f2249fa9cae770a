//! Scenarios 11 to 14: a router with one gateway.

use serde_json::{Value, json};

use crate::journal::counts;
use crate::world::{World, id, members};

#[test]
fn scenario_11_one_gateway() {
    let world = World::new(json!({"name": "R"}));
    world.cloud.openstack("router set --external-gateway N1 R").unwrap();
    let router = world.shown();
    assert_eq!(router["external_gateways"].as_array().unwrap().len(), 1);
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    assert_eq!(router["external_gateway_info"]["network_id"], world.n1);
    let gateway = &world.gateway_ports()[0];
    let routes = world.routes(1);

    let switch_ports = world.cloud.rows("Logical_Switch_Port");
    let switch_port = switch_ports.iter().find(|row| row["name"] == gateway.as_str()).unwrap();
    assert_eq!(switch_port["type"], "router");
    assert_eq!(switch_port["external_ids"]["neutron:device_owner"], "network:router_gateway");
    assert_eq!(switch_port["options"]["nat-addresses"], "router");
    assert_eq!(switch_port["options"]["router-port"], format!("lrp-{gateway}"));

    let port = world.router_port(gateway);
    assert_eq!(port["external_ids"]["neutron:is_ext_gw"], "True");
    assert_eq!(port["options"]["gateway_mtu"], "1500", "the external network's");
    let address = router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"].as_str().unwrap();
    assert_eq!(port["networks"], format!("{address}/24"));

    assert_eq!((&routes[0]["ip_prefix"], &routes[0]["nexthop"]), (&json!("0.0.0.0/0"), &json!("192.0.2.1")));
    assert_eq!(routes[0]["output_port"], port["name"]);
    let snat = world.cloud.rows("NAT");
    assert_eq!((snat.len(), &snat[0]["type"], &snat[0]["external_ip"]), (1, &json!("snat"), &json!(address)));
    assert_eq!(snat[0]["gateway_port"], port["_uuid"]);

    let groups = world.cloud.rows("HA_Chassis_Group");
    assert_eq!((groups.len(), &groups[0]["name"]), (1, &json!(format!("neutron-lrp-{gateway}"))));
    assert_eq!(port["ha_chassis_group"], groups[0]["_uuid"]);
    assert_eq!(port["gateway_chassis"], json!([]), "never both");
    let chassis = world.chassis_of(gateway);
    assert_eq!(chassis.iter().map(|(priority, _)| *priority).collect::<Vec<_>>(), [3, 2, 1]);
    let mut names: Vec<_> = chassis.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ch1", "ch2", "ch3"]);

    // The router's row lacks the keys that older versions wrote for its single gateway; the gateway is found through the ports.
    let routers = world.cloud.rows("Logical_Router");
    for key in ["neutron:gw_port_id", "neutron:gw_network_id"] {
        assert!(routers[0]["external_ids"].get(key).is_none(), "{routers:?}");
    }
    // The gateway MTU is the smallest MTU of all networks on the router; tunnelled ones have a smaller one.
    let (_, subnet) = world.internal("inside", "10.0.0.0/24");
    world.connect(&subnet);
    assert_eq!(world.router_port(gateway)["options"]["gateway_mtu"], "1442");
}

#[test]
fn scenario_12_source_nat_goes_and_comes_back() {
    let world = World::new(json!({"name": "R"}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    assert_eq!(world.cloud.rows("NAT").len(), 1);
    let mut journal = world.journal();
    world.cloud.openstack("router set --external-gateway N1 --disable-snat R").unwrap();
    // The command does not wait for OVN, but this request does.
    world.set(json!({"description": "without"}));
    assert_eq!(world.shown()["external_gateway_info"]["enable_snat"], false);
    assert_eq!(world.cloud.rows("NAT"), [] as [Value; 0]);
    let mut written = journal.tally();
    written.remove("modify Logical_Router");
    assert_eq!(written, counts([("delete NAT", 1)]));
    world.cloud.openstack("router set --external-gateway N1 --enable-snat R").unwrap();
    world.set(json!({"description": "with"}));
    assert_eq!(world.shown()["enable_snat"], true);
    assert_eq!(world.cloud.rows("NAT").len(), 1);
    let mut written = journal.tally();
    written.remove("modify Logical_Router");
    assert_eq!(written, counts([("insert NAT", 1)]), "exactly one insert, and the router that refers to it");
}

#[test]
fn scenario_13_a_floating_ip_comes_and_goes() {
    let world = World::new(json!({}));
    world.gateways("add", json!([{"network_id": world.n1, "enable_snat": false}]));
    let instance = world.instance("inside", "10.0.0.0/24");
    let made = world.create("floatingips", "floatingip", json!({ "floating_network_id": world.n1 }));
    let (fip, address) = (id(&made), made["floating_ip_address"].as_str().unwrap());
    assert_eq!((&made["status"], &made["router_id"]), (&json!("DOWN"), &Value::Null));
    assert_eq!(world.cloud.rows("NAT"), [] as [Value; 0]);
    let path = format!("floatingips/{fip}");
    let shown = world.put(&path, json!({"floatingip": {"port_id": instance}}))["floatingip"].clone();
    assert_eq!(shown["router_id"], world.router);
    let nat = world.cloud.rows("NAT");
    assert_eq!((nat.len(), &nat[0]["_uuid"], &nat[0]["type"]), (1, &json!(fip), &json!("dnat_and_snat")));
    assert_eq!(
        (&nat[0]["external_ip"], &nat[0]["logical_ip"]),
        (&json!(address), &shown["fixed_ip_address"])
    );
    assert_eq!(nat[0]["logical_port"], instance);
    assert_eq!(nat[0]["gateway_port"], world.router_port(&world.gateway_ports()[0])["_uuid"]);
    let routers = world.cloud.rows("Logical_Router");
    assert!(members(&routers[0]["nat"]).contains(fip.as_str()));
    let switch_port = || {
        let rows = world.cloud.rows("Logical_Switch_Port");
        rows.into_iter().find(|row| row["name"] == instance.as_str()).unwrap()
    };
    assert_eq!(switch_port()["external_ids"]["neutron:port_fip"], address);
    crate::cloud::eventually("it is active", || {
        (world.cloud.get(&path)["floatingip"]["status"] == "ACTIVE").then_some(())
    });
    world.put(&path, json!({"floatingip": {"port_id": null}}));
    assert_eq!(world.cloud.rows("NAT"), [] as [Value; 0]);
    assert!(switch_port()["external_ids"].get("neutron:port_fip").is_none());
    assert_eq!(world.cloud.get(&path)["floatingip"]["status"], "DOWN");
}

#[test]
fn scenario_14_a_gateway_that_a_floating_ip_needs_stays() {
    let world = World::new(json!({"enable_default_route_bfd": true}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let instance = world.instance("inside", "10.0.0.0/24");
    let fip = id(&world.floating_ip(&world.n1, &instance));
    assert_eq!((world.cloud.rows("NAT").len(), world.cloud.rows("BFD").len()), (2, 1));
    let mut journal = world.journal();
    let one = json!([{ "network_id": world.n1 }]);
    let (status, kind, text) = world.refused_gateways("remove", one.clone());
    assert_eq!((status, kind.as_str()), (409, "RouterExternalGatewayInUseByFloatingIp"), "{text}");
    let none = json!({"router": {"external_gateway_info": null}});
    let (status, kind, _) = world.cloud.settle("PUT", &world.path(), Some(none)).refusal();
    assert_eq!((status, kind.as_str()), (409, "RouterExternalGatewayInUseByFloatingIp"));
    world.put(&format!("floatingips/{fip}"), json!({"floatingip": {"port_id": null}}));
    let written = journal.tally();
    assert_eq!(written.get("delete Logical_Router_Port"), None, "{written:?}");
    let router = world.gateways("remove", one);
    assert_eq!((&router["external_gateway_info"], &router["external_gateways"]), (&Value::Null, &json!([])));
    world.assert_no_gateway_is_left();
}
