//! Scenarios 11 to 44 and 49: routers with one gateway and with several, as OVN gets them.

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};

/// External networks N1 and N2 with their subnets, three chassis, a router.
struct World {
    cloud: Cloud,
    n1: String,
    n2: String,
    s1: String,
    router: String,
}

fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

impl World {
    fn new(router: Value) -> World {
        let cloud = Cloud::start();
        for name in ["ch1", "ch2", "ch3"] {
            let options = format!("enable-chassis-as-gw,availability-zones=az-{name}");
            cloud.chassis(name, &["phy1", "phy2"], &options);
        }
        let net = |name: &str, physical: &str, cidr: &str| {
            let network = cloud.create(
                "networks",
                "network",
                json!({"name": name, "router:external": true, "provider:network_type": "flat",
                       "provider:physical_network": physical}),
            );
            let subnet = cloud.create(
                "subnets",
                "subnet",
                json!({"network_id": network["id"], "ip_version": 4, "cidr": cidr}),
            );
            (id(&network), id(&subnet))
        };
        let (n1, s1) = net("N1", "phy1", "192.0.2.0/24");
        let (n2, _) = net("N2", "phy2", "198.51.100.0/24");
        // What lists the zones is what the scheduler sees of the chassis.
        eventually("the three chassis are known", || {
            let zones = cloud.get("availability_zones");
            (zones["availability_zones"].as_array()?.len() == 3).then_some(())
        });
        let router = id(&cloud.create("routers", "router", router));
        World { cloud, n1, n2, s1, router }
    }

    fn gateways(&self, method: &str, elements: Value) -> Value {
        let path = format!("routers/{}/{method}_external_gateways", self.router);
        self.cloud.put(&path, json!({"router": {"external_gateways": elements}}))["router"].clone()
    }

    /// The default routes, once there are so many.
    fn routes(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} default routes"), || {
            let routes = self.cloud.rows("Logical_Router_Static_Route");
            (routes.len() == count).then_some(routes)
        })
    }
}

#[test]
fn scenario_11_one_gateway() {
    let world = World::new(json!({"name": "R"}));
    let router = world.gateways("add", json!([{"network_id": world.n1}]));
    assert_eq!(router["external_gateway_info"], router["external_gateways"][0]);
    let routes = world.routes(1);
    assert_eq!(routes[0]["nexthop"], "192.0.2.1");
    let ports = world.cloud.rows("Logical_Router_Port");
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["external_ids"]["neutron:is_ext_gw"], "True");
    assert_eq!(routes[0]["output_port"], ports[0]["name"]);
    let snat = world.cloud.rows("NAT");
    assert_eq!(snat.len(), 1);
    assert_eq!(snat[0]["gateway_port"], ports[0]["_uuid"]);
    let groups = world.cloud.rows("HA_Chassis_Group");
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0]["name"], format!("neutron-{}", ports[0]["name"].as_str().unwrap()));
    let mut priorities: Vec<_> =
        world.cloud.rows("HA_Chassis").iter().map(|row| row["priority"].as_i64().unwrap()).collect();
    priorities.sort_unstable();
    assert_eq!(priorities, [1, 2, 3]);
}

#[test]
fn scenario_15_to_20_two_gateways_with_ecmp_and_bfd() {
    let world =
        World::new(json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true}));
    world.gateways(
        "update",
        json!([{"network_id": world.n1, "enable_snat": false}, {"network_id": world.n2}]),
    );
    let routes = world.routes(2);
    let hops: std::collections::BTreeSet<_> = routes.iter().map(|r| r["nexthop"].as_str().unwrap()).collect();
    assert_eq!(hops.into_iter().collect::<Vec<_>>(), ["192.0.2.1", "198.51.100.1"]);
    let sessions = world.cloud.rows("BFD");
    assert_eq!(sessions.len(), 2);
    for route in &routes {
        let session =
            sessions.iter().find(|row| row["_uuid"] == route["bfd"]).expect("each route has a session");
        assert_eq!(session["logical_port"], route["output_port"]);
        assert_eq!(session["dst_ip"], route["nexthop"]);
    }
    assert!(world.cloud.rows("NAT").is_empty(), "SNAT is off");
    // Primaries apart.
    let chassis = world.cloud.rows("HA_Chassis");
    let primary = |group: &Value| {
        let members: Vec<_> = group["ha_chassis"].as_array().unwrap().clone();
        let mut members: Vec<_> = chassis.iter().filter(|row| members.contains(&row["_uuid"])).collect();
        members.sort_by_key(|row| row["priority"].as_i64());
        members.last().unwrap()["chassis_name"].clone()
    };
    let groups = world.cloud.rows("HA_Chassis_Group");
    assert_eq!(groups.len(), 2);
    assert_ne!(primary(&groups[0]), primary(&groups[1]));
    // Without ECMP only the compatibility gateway gives a route; nothing else is touched.
    let ports = world
        .cloud
        .nbctl("--columns=_uuid,name,networks,ha_chassis_group --format=json list Logical_Router_Port");
    world
        .cloud
        .put(&format!("routers/{}", world.router), json!({"router": {"enable_default_route_ecmp": false}}));
    assert_eq!(world.routes(1)[0]["nexthop"], "192.0.2.1");
    world
        .cloud
        .put(&format!("routers/{}", world.router), json!({"router": {"enable_default_route_ecmp": true}}));
    world.routes(2);
    world
        .cloud
        .put(&format!("routers/{}", world.router), json!({"router": {"enable_default_route_bfd": false}}));
    eventually("the sessions are gone", || world.cloud.rows("BFD").is_empty().then_some(()));
    assert_eq!(
        world
            .cloud
            .nbctl("--columns=_uuid,name,networks,ha_chassis_group --format=json list Logical_Router_Port"),
        ports
    );
}

#[test]
fn scenario_42_the_gateway_of_a_subnet_moves() {
    let world = World::new(json!({"name": "R", "enable_default_route_bfd": true}));
    world.gateways("add", json!([{"network_id": world.n1}]));
    world.routes(1);
    let subnet = format!("subnets/{}", world.s1);
    world.cloud.put(
        &subnet,
        json!({"subnet": {"allocation_pools": [{"start": "192.0.2.2", "end": "192.0.2.200"}]}}),
    );
    world.cloud.put(&subnet, json!({"subnet": {"gateway_ip": "192.0.2.254"}}));
    eventually("route and session follow", || {
        let routes = world.cloud.rows("Logical_Router_Static_Route");
        let sessions = world.cloud.rows("BFD");
        let follows = routes.len() == 1
            && routes[0]["nexthop"] == "192.0.2.254"
            && sessions.len() == 1
            && sessions[0]["dst_ip"] == "192.0.2.254";
        follows.then_some(())
    });
    world.cloud.put(&subnet, json!({"subnet": {"gateway_ip": null}}));
    world.routes(0);
    eventually("no session is left", || world.cloud.rows("BFD").is_empty().then_some(()));
}

#[test]
fn scenario_44_a_router_goes_and_leaves_nothing() {
    let world =
        World::new(json!({"name": "R", "enable_default_route_ecmp": true, "enable_default_route_bfd": true}));
    world.gateways(
        "add",
        json!([{"network_id": world.n1}, {"network_id": world.n1}, {"network_id": world.n2}]),
    );
    world.routes(3);
    world.cloud.delete(&format!("routers/{}", world.router));
    for table in [
        "Logical_Router",
        "Logical_Router_Port",
        "HA_Chassis_Group",
        "HA_Chassis",
        "BFD",
        "NAT",
        "Logical_Router_Static_Route",
    ] {
        eventually(&format!("no {table} is left"), || world.cloud.rows(table).is_empty().then_some(()));
    }
    let left = world.cloud.rows("Logical_Switch_Port");
    assert!(left.iter().all(|port| port["type"] != "router"), "{left:?}");
}

#[test]
fn scenario_53_a_killed_server_goes_on_where_it_was() {
    let mut world = World::new(json!({"name": "R", "enable_default_route_ecmp": true}));
    world.gateways("add", json!([{"network_id": world.n1}]));
    for _ in 0..3 {
        world.gateways("add", json!([{"network_id": world.n2}]));
        // The answer has come, so the change is stored; whether OVN has it already is left to chance.
        world.cloud.crash();
    }
    let routes = world.routes(4);
    let ports: std::collections::BTreeSet<_> =
        routes.iter().map(|route| route["output_port"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ports.len(), 4, "one route for each gateway");
    let router = world.cloud.get(&format!("routers/{}", world.router));
    assert_eq!(router["router"]["external_gateways"].as_array().unwrap().len(), 4);
    assert!(world.cloud.stop(), "SIGTERM ends it well");
    world.cloud.again();
    world.routes(4);
}

#[test]
fn scenario_56_what_others_break_is_mended_and_what_they_add_is_kept() {
    let world = World::new(json!({"name": "R"}));
    world.gateways("add", json!([{"network_id": world.n1}]));
    let route = world.routes(1)[0]["_uuid"].as_str().unwrap().to_owned();
    let port = world.cloud.rows("Logical_Router_Port")[0]["name"].as_str().unwrap().to_owned();
    world.cloud.nbctl(&format!("set Logical_Router {} external_ids:junk=kept", world.router));
    world.cloud.nbctl(&format!("set Logical_Router_Port {port} options:gateway_mtu=99"));
    world.cloud.nbctl(&format!("remove Logical_Router {} static_routes {route}", world.router));
    world.routes(1);
    eventually("the option is mended", || {
        let ports = world.cloud.rows("Logical_Router_Port");
        (ports[0]["options"]["gateway_mtu"] == "1500").then_some(())
    });
    assert_eq!(world.cloud.rows("Logical_Router")[0]["external_ids"]["junk"], "kept");
}
