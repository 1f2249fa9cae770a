//! Writes outside of the Northbound's rows: neighbours that routers have to forget, and the number that chassis report back.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};
use crate::plant::Plant;
use crate::two_servers::{postgres, waits_for};
use crate::world::{World, each, id};

#[test]
fn neighbours_of_a_floating_ip_are_forgotten_whenever_it_moves() {
    let world = World::new(json!({}));
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let instance = world.instance("inside", "10.0.0.0/24");
    // northd itself removes entries of unknown router ports.
    let port = format!("lrp-{}", world.gateway_ports()[0]);
    let datapath = eventually("northd has made the router's port", || {
        let all = world.cloud.southbound("Port_Binding");
        let found = all.iter().find(|row| row["logical_port"] == port.as_str())?;
        Some(found["datapath"].as_str().unwrap().to_owned())
    });
    let learn = |ip: &str| {
        let row = format!("logical_port={port} ip={ip} mac=\"00:00:00:00:00:01\" datapath={datapath}");
        world.cloud.sbctl(&format!("create MAC_Binding {row}"));
    };
    let known = || -> BTreeSet<String> {
        let rows = world.cloud.southbound("MAC_Binding");
        each(&rows, "ip").into_iter().map(str::to_owned).collect()
    };
    let (address, other) = ("192.0.2.77", "192.0.2.78");
    let both: BTreeSet<String> = [address, other].map(str::to_owned).into();
    learn(other);
    let forgotten = |when: &str, change: &dyn Fn() -> Value| {
        learn(address);
        assert_eq!(known(), both);
        let changed = change();
        eventually(&format!("the neighbour is forgotten when the address is {when}"), || {
            (known() == [other.to_owned()].into()).then_some(())
        });
        changed
    };
    let attributes = json!({"floating_network_id": world.n1, "floating_ip_address": address});
    let made = forgotten("given", &|| world.create("floatingips", "floatingip", attributes.clone()));
    let path = format!("floatingips/{}", id(&made));
    let set = |attributes: Value| world.put(&path, json!({ "floatingip": attributes }));
    forgotten("associated", &|| set(json!({"port_id": instance})));
    forgotten("disassociated", &|| set(json!({"port_id": null})));
    // A change that leaves the address in place does not touch neighbours. The next change shows that the writer had processed this one.
    learn(address);
    set(json!({"description": "the same"}));
    let next = world.create("floatingips", "floatingip", json!({"floating_network_id": world.n1}));
    let ip = next["floating_ip_address"].as_str().unwrap();
    learn(ip);
    world.delete(&format!("floatingips/{}", id(&next)));
    eventually("the next one is forgotten", || (!known().contains(ip)).then_some(()));
    assert_eq!(known(), both);
    world.delete(&path);
    eventually("the neighbour is forgotten with the address", || (!known().contains(address)).then_some(()));
}

/// The number that chassis report back, and the time of its last increment.
fn asked(cloud: &Cloud) -> (i64, Option<String>) {
    let global = cloud.rows("NB_Global").remove(0);
    let at = global["external_ids"]["neutron:liveness_check_at"].as_str().map(str::to_owned);
    (global["nb_cfg"].as_i64().unwrap(), at)
}

#[test]
fn one_of_two_servers_asks_the_chassis_for_signs_of_life() {
    let (plant, (postgres, dir)) = (Plant::start(), postgres());
    let config = dir.path().join("meridian.toml");
    std::fs::write(&config, "[network]\nagent_down_time = 2\n").unwrap();
    let (url, config) = (postgres.url("meridian"), config.display().to_string());
    let start = || Cloud::on(plant.dir(), &["--database", &url, "--config", &config]);
    let mut writer = start();
    let other = start();
    eventually("the other waits for its turn", || waits_for(&other).filter(|what| what.contains("lock")));
    let raised = |from: &(i64, Option<String>)| {
        eventually("the number is raised and its time told", || {
            Some(asked(&other)).filter(|now| now.0 > from.0 && now.1.is_some() && now.1 != from.1)
        })
    };
    let first = raised(&asked(&other));
    let second = raised(&first);
    assert_eq!(second.0, first.0 + 1, "one by one");
    // The server that becomes the writer also takes over raising the number.
    writer.kill();
    raised(&asked(&other));
}
