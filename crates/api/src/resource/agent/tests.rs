//! Agents in lists, and the pins of administrators.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::model::{Placed, Placement};
use crate::resource::fixture::id;
use crate::resource::router::fixture::*;

fn agent(name: &str, kind: AgentKind, alive: bool) -> Agent {
    Agent {
        id: name.into(),
        kind,
        host: format!("host-{name}"),
        chassis: name.into(),
        zones: ["az1".into(), "az2".into()].into(),
        bridge_mappings: "phy1:br-ex".into(),
        nb_cfg: 0,
        heartbeat: Timestamp::from_second(1_700_000_000).unwrap(),
        alive,
        description: "as reported".into(),
    }
}

/// Two live gateway chassis and a dead one.
fn cloud() -> Cloud {
    let mut cloud = Cloud::new();
    let states = [("ch1", true), ("ch2", true), ("ch3", false)];
    cloud
        .report
        .set_agents(states.iter().map(|(name, alive)| agent(name, AgentKind::Gateway, *alive)).collect());
    cloud
}

fn names(cloud: &Cloud) -> Vec<String> {
    let scene = Scene {
        world: &cloud.world,
        report: &cloud.report,
        outside: &cloud.outside,
        caller: &cloud.caller,
        now: Timestamp::UNIX_EPOCH,
        parent: None,
    };
    Agents::rows(&scene).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn group(cloud: &Cloud, port: Uuid) -> Vec<Placed> {
    cloud.world.get::<Placement>(&port).unwrap().chassis.clone()
}

#[test]
fn an_agent_is_what_its_chassis_reports() {
    let cloud = cloud();
    assert_eq!(
        cloud.show("agents", "ch1").unwrap(),
        json!({
            "id": "ch1", "agent_type": "OVN Controller Gateway agent", "binary": "ovn-controller", "host": "host-ch1",
            "topic": "n/a", "admin_state_up": true, "availability_zone": "az1, az2",
            "configurations": {"chassis_name": "ch1", "bridge-mappings": "phy1:br-ex"}, "resources_synced": null,
            "created_at": "2023-11-14 22:13:20", "started_at": "2023-11-14 22:13:20",
            "heartbeat_timestamp": "2023-11-14 22:13:20", "alive": true, "description": "as reported",
        })
    );
    refused(cloud.show("agents", "ch9"), 404, "AgentNotFound");
}

#[test]
fn agents_are_for_administrators() {
    let mut cloud = cloud();
    assert_eq!(names(&cloud).len(), 3);
    cloud.caller = Caller::member("p");
    assert_eq!(names(&cloud).len(), 0);
    refused(cloud.show("agents", "ch1"), 404, "AgentNotFound");
    refused(cloud.delete("agents", "ch3"), 404, "AgentNotFound");
    let router = cloud.router();
    refused(cloud.act("routers", router, "GET l3-agents", Value::Null), 403, "PolicyNotAuthorized");
    refused(cloud.act("agents", "ch1", "GET l3-routers", Value::Null), 404, "AgentNotFound");
}

#[test]
fn notes_on_an_agent_are_kept() {
    let mut cloud = cloud();
    let shown =
        cloud.update("agents", "ch1", json!({"description": "rack 7", "admin_state_up": false})).unwrap();
    assert_eq!((&shown["description"], &shown["admin_state_up"]), (&json!("rack 7"), &json!(false)));
    cloud.update("agents", "ch1", json!({"admin_state_up": true})).unwrap();
    assert_eq!(cloud.show("agents", "ch1").unwrap()["description"], json!("rack 7"));
    refused(cloud.update("agents", "ch1", json!({"host": "x"})), 400, "HTTPBadRequest");
    refused(cloud.update("agents", "ch1", json!({"admin_state_up": "perhaps"})), 400, "InvalidInput");
    let noted = cloud.update("agents", "ch2", json!({"admin_state_up": false})).unwrap();
    assert_eq!(noted["description"], json!("as reported"));
}

#[test]
fn only_dead_agents_can_be_deleted_and_they_come_back_when_they_report() {
    let mut cloud = cloud();
    refused(cloud.delete("agents", "ch1"), 409, "AgentInUse");
    assert!(removed(&cloud.world, &cloud.report).is_empty());
    cloud.delete("agents", "ch3").unwrap();
    assert_eq!(names(&cloud), ["ch1", "ch2"]);
    assert!(removed(&cloud.world, &cloud.report).iter().map(|agent| &agent.chassis).eq(["ch3"]));
    refused(cloud.delete("agents", "ch3"), 404, "AgentNotFound");
    let again = ["ch1", "ch2", "ch3"].map(|name| agent(name, AgentKind::Gateway, true));
    cloud.report.set_agents(again.into());
    assert_eq!(names(&cloud), ["ch1", "ch2", "ch3"]);
    assert!(removed(&cloud.world, &cloud.report).is_empty());
}

#[test]
fn routers_and_agents_list_each_other() {
    let mut cloud = cloud();
    let router = cloud.router_on(&[N1, N2]);
    let ports: Vec<Uuid> = cloud.gateway_ports(router).iter().map(|port| port.id).collect();
    let shown = cloud.act("routers", router, "GET l3-agents", Value::Null).unwrap();
    let agents = shown["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 3);
    for agent in agents {
        let name = agent["id"].as_str().unwrap();
        let placed: Vec<Placed> =
            ports.iter().flat_map(|port| group(&cloud, *port)).filter(|it| it.chassis == name).collect();
        assert_eq!(agent["ha_chassis_priority"], json!(placed.iter().map(|it| it.priority).max().unwrap()));
        let primary = placed.iter().any(|it| it.priority == 3);
        assert_eq!(agent["ha_state"], json!(if primary { "active" } else { "standby" }));
    }
    let other = cloud.router();
    assert_eq!(cloud.act("routers", other, "GET l3-agents", Value::Null).unwrap(), json!({"agents": []}));
    let hosted = cloud.act("agents", "ch1", "GET l3-routers", Value::Null).unwrap();
    assert_eq!(hosted["routers"].as_array().unwrap().len(), 1);
    assert_eq!(hosted["routers"][0]["id"], json!(router));
    assert!(hosted["routers"][0]["ha_chassis_priority"].as_u64().unwrap() >= 1);
}

#[test]
fn pins_through_the_api() {
    let mut cloud = cloud();
    let router = cloud.router_on(&[N1]);
    let port = cloud.gateway_ports(router)[0].id;
    let last = group(&cloud, port)[2].chassis.clone();
    let one = format!("l3-routers/{router}");
    let body = json!({"router_id": router});
    assert_eq!(cloud.act("agents", "ch1", "POST l3-routers", body).unwrap(), Value::Null);
    assert!(group(&cloud, port).iter().any(|placed| placed.chassis == "ch1" && placed.pinned));
    let answer =
        cloud.act("agents", &last, &format!("PUT {one}"), json!({"ha_chassis_priority": 50})).unwrap();
    assert_eq!(answer, json!({"ha_chassis_priority": 50}));
    assert_eq!(group(&cloud, port)[0], Placed { chassis: last.clone(), priority: 50, pinned: true });
    let second = group(&cloud, port)[1].clone();
    let taken = json!({"ha_chassis_priority": 50});
    refused(
        cloud.act("agents", &second.chassis, &format!("PUT {one}"), taken),
        409,
        "RouterSchedulingFailed",
    );
    for bad in [
        json!({}),
        json!(null),
        json!({"ha_chassis_priority": -1}),
        json!({"ha_chassis_priority": 32768}),
        json!({"ha_chassis_priority": "x"}),
    ] {
        refused(cloud.act("agents", &last, &format!("PUT {one}"), bad), 400, "HTTPBadRequest");
    }
    assert_eq!(cloud.act("agents", &last, &format!("DELETE {one}"), Value::Null).unwrap(), Value::Null);
    assert_eq!(group(&cloud, port)[2].chassis, last);
}

#[test]
fn pins_that_cannot_be() {
    let mut cloud = cloud();
    let bare = cloud.router();
    refused(cloud.act("agents", "ch1", "POST l3-routers", json!({"router_id": bare})), 409, "InvalidL3Agent");
    refused(
        cloud.act("agents", "ch1", "POST l3-routers", json!({"router_id": id(0x99)})),
        404,
        "RouterNotFound",
    );
    for bad in [json!({}), json!(null), json!({"router_id": "x"}), json!({"router_id": 7})] {
        refused(cloud.act("agents", "ch1", "POST l3-routers", bad), 400, "HTTPBadRequest");
    }
    let router = cloud.router_on(&[N1]);
    cloud.outside.fleet.chassis.retain(|chassis| chassis.name != "ch2");
    refused(
        cloud.act("agents", "ch2", "POST l3-routers", json!({"router_id": router})),
        409,
        "InvalidL3Agent",
    );
    cloud.outside.fleet.chassis.push(chassis("ch4"));
    cloud.report.set_agents(vec![agent("ch4", AgentKind::Gateway, true)]);
    let absent = cloud.act("agents", "ch4", &format!("DELETE l3-routers/{router}"), Value::Null);
    refused(absent, 409, "RouterNotHostedByL3Agent");
    refused(cloud.act("agents", "ch4", "DELETE l3-routers/nonsense", Value::Null), 404, "RouterNotFound");
}

#[test]
fn a_chassis_that_can_carry_some_of_the_gateways_is_pinned_to_those() {
    let mut cloud = cloud();
    cloud.outside.fleet.chassis[0].physical_networks.remove("phy2");
    let router = cloud.router_on(&[N1, N2]);
    cloud
        .act("agents", "ch1", "POST l3-routers", json!({"router_id": router, "ha_chassis_priority": 100}))
        .unwrap();
    let ports = cloud.gateway_ports(router);
    assert_eq!(group(&cloud, ports[0].id)[0].chassis, "ch1");
    assert!(group(&cloud, ports[1].id).iter().all(|placed| placed.chassis != "ch1"));
}

#[test]
fn rebalancing_is_for_administrators_and_tells_what_moved() {
    let mut cloud = cloud();
    cloud.outside.fleet.chassis.truncate(1);
    for _ in 0..4 {
        cloud.router_on(&[N1]);
    }
    cloud.outside.fleet.chassis.push(chassis("ch2"));
    let member = cloud.change(|txn| rebalance(txn, &Caller::member("p")));
    refused(member, 403, "PolicyNotAuthorized");
    let answer = cloud.change(|txn| rebalance(txn, &Caller::admin("p"))).unwrap();
    let moved = answer["moved"].as_array().unwrap();
    assert_eq!(moved.len(), 2);
    assert!(moved.iter().all(|it| it["chassis"] == json!("ch2")));
}
