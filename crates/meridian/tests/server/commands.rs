//! The commands of the guides and of everyday work, through the real `openstack`.

use serde_json::{Value, json};

use crate::cloud::eventually;
use crate::world::{World, each, id};

/// The networks of a router's gateways, in the order of the router's list.
fn gateways(router: &Value) -> Vec<&str> {
    let listed = router["external_gateways"].as_array().unwrap();
    assert_eq!(router["external_gateway_info"], listed.first().cloned().unwrap_or_default());
    listed.iter().map(|gateway| gateway["network_id"].as_str().unwrap()).collect()
}

#[test]
fn the_commands_of_the_guide_change_gateways() {
    let world = World::new(json!({"name": "R"}));
    let (n3, _) = world.external("3", "phy1-3", "203.0.113.0/24");
    let said = world.cloud.openstack_session(&[
        "router set --external-gateway N1 --external-gateway N2 R",
        "router show R",
        "router add gateway R N3",
        "router add gateway --fixed-ip subnet=S1,ip-address=192.0.2.100 R N1",
        "router remove gateway --fixed-ip subnet=S1,ip-address=192.0.2.100 R N1",
        "router remove gateway R N3",
        "router set --external-gateway N2 --external-gateway N1 R",
        "router set --enable-default-route-ecmp R",
        "router set --enable-default-route-bfd R",
        "router show R",
    ]);
    let (n1, n2, n3) = (world.n1.as_str(), world.n2.as_str(), n3.as_str());
    let expected =
        [vec![n1, n2], vec![n1, n2, n3], vec![n1, n2, n3, n1], vec![n1, n2, n3], vec![n1, n2], vec![n2, n1]];
    assert_eq!(said.iter().map(gateways).collect::<Vec<_>>(), expected);
    assert_eq!(said[2]["external_gateways"][3]["external_fixed_ips"][0]["ip_address"], "192.0.2.100");
    assert_eq!(
        said[5]["external_gateways"][1], said[0]["external_gateways"][0],
        "the same gateway with its address, in another place"
    );
    let flags = |router: &Value| {
        ["enable_default_route_ecmp", "enable_default_route_bfd"].map(|flag| router[flag].clone())
    };
    assert_eq!(
        (flags(&said[0]), flags(&said[5])),
        ([json!(false), json!(false)], [json!(true), json!(true)])
    );
    let routes = world.routes(2);
    assert_eq!(each(&routes, "nexthop"), ["192.0.2.1", "198.51.100.1"].into());
    eventually("both are watched", || (world.cloud.rows("BFD").len() == 2).then_some(()));
}

#[test]
fn the_commands_of_every_day_make_and_change_what_they_say() {
    let world = World::new(json!({"name": "R"}));
    for row in world.cloud.southbound("Chassis") {
        let (name, uuid) = (row["name"].as_str().unwrap(), row["_uuid"].as_str().unwrap());
        world.cloud.sbctl(&format!("create Chassis_Private name={name} chassis={uuid}"));
    }
    eventually("they are agents", || {
        (world.cloud.get("agents")["agents"].as_array()?.len() == 3).then_some(())
    });
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let said = world.cloud.openstack_session(&[
        "network create inside",
        "subnet create --network inside --subnet-range 10.0.0.0/24 S",
        "router add subnet R S",
        "security group create web",
        "security group rule create --protocol tcp --dst-port 80:443 --remote-ip 192.0.2.0/24 web",
        "port create --network inside --fixed-ip subnet=S,ip-address=10.0.0.9 --security-group web vm",
        "port set --description later --allowed-address ip-address=10.0.0.100 vm",
        "port show vm",
        "floating ip create --floating-ip-address 192.0.2.77 N1",
        "floating ip set --port vm 192.0.2.77",
        "floating ip show 192.0.2.77",
        "floating ip unset --port 192.0.2.77",
        "floating ip list",
        "floating ip set --port vm 192.0.2.77",
        "network agent list",
        "network agent set --description here ch1",
        "network agent show ch1",
        "network agent add router --l3 ch1 R",
        "network agent list --router R",
        "security group rule list web",
    ]);
    let [inside, subnet, group, rule, made, port, fip, tied, loose, agents, agent, of_router, rules] =
        said.as_slice()
    else {
        panic!("{} answers: {said:#?}", said.len())
    };
    assert_eq!(subnet["network_id"], inside["id"]);
    assert_eq!(rule["security_group_id"], group["id"]);
    assert_eq!((&port["id"], &port["description"]), (&made["id"], &json!("later")));
    assert_eq!(port["fixed_ips"][0]["ip_address"], "10.0.0.9");
    assert_eq!(port["security_group_ids"], json!([group["id"]]));
    assert_eq!(port["allowed_address_pairs"][0]["ip_address"], "10.0.0.100");
    assert_eq!((&fip["floating_ip_address"], &fip["port_id"]), (&json!("192.0.2.77"), &Value::Null));
    assert_eq!((&tied["port_id"], &tied["fixed_ip_address"]), (&port["id"], &json!("10.0.0.9")));
    assert_eq!(tied["router_id"], world.router.as_str());
    assert_eq!(loose[0]["Port"], Value::Null, "{loose}");
    assert_eq!(each(agents.as_array().unwrap(), "ID"), ["ch1", "ch2", "ch3"].into());
    assert_eq!((&agent["description"], &agent["host"]), (&json!("here"), &json!("ch1.example")));
    assert_eq!(each(of_router.as_array().unwrap(), "ID"), ["ch1", "ch2", "ch3"].into());
    assert!(rules.as_array().unwrap().iter().any(|it| it["ID"] == rule["id"]), "{rules}");
    world.set(json!({"description": "and OVN has it all"}));
    assert!(world.cloud.rows("NAT").iter().any(|nat| nat["_uuid"] == id(fip)));
    let member = world.cloud.rows("Logical_Switch_Port").into_iter().find(|row| row["name"] == id(port));
    assert_eq!(member.unwrap()["external_ids"]["neutron:port_fip"], "192.0.2.77");
    let acls = world.cloud.rows("ACL");
    let of_rule = |acl: &&Value| acl["external_ids"]["neutron:security_group_rule_id"] == rule["id"];
    let matched = acls.iter().find(of_rule).unwrap()["match"].as_str().unwrap();
    assert!(
        matched.contains("ip4.src == 192.0.2.0/24 && tcp && tcp.dst >= 80 && tcp.dst <= 443"),
        "{matched}"
    );

    world.cloud.openstack_session(&[
        "floating ip delete 192.0.2.77",
        "port delete vm",
        "security group delete web",
        "router remove subnet R S",
        "network delete inside",
        "network agent remove router --l3 ch1 R",
    ]);
    world.set(json!({"description": "and it is gone"}));
    for (table, name) in
        [("Logical_Switch_Port", id(port)), ("Logical_Switch", format!("neutron-{}", id(inside)))]
    {
        assert!(world.cloud.rows(table).iter().all(|row| row["name"] != name.as_str()), "{table}");
    }
}
