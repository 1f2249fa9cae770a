use ovsdb::replica::Replica;
use serde_json::Value;

use super::*;
use crate::node::central::nb_model;

/// The operations that a description leads to on an empty database, as `(operation, table, row)`.
fn written(describe: impl FnOnce(&mut Edit)) -> Vec<(String, String, Value)> {
    let mut edit = Edit::new(Replica::new(nb_model()).snapshot());
    describe(&mut edit);
    let composed = edit.into_transaction().compose(|_, _| false).unwrap();
    let ops: Vec<Value> = serde_json::from_str(&format!("[{}]", composed.text)).unwrap();
    let text = |op: &Value, key: &str| op[key].as_str().unwrap_or_default().to_owned();
    ops.iter().map(|op| (text(op, "op"), text(op, "table"), op["row"].clone())).collect()
}

fn tables(ops: &[(String, String, Value)]) -> Vec<&str> {
    ops.iter().map(|(_, table, _)| table.as_str()).collect()
}

#[test]
fn a_switch_that_is_named_twice_is_one() {
    let ops = written(|net| {
        net.switch("sw0").port("vm1", "02:00:00:00:00:11 10.0.0.11");
        net.switch("sw0")
            .port("vm2", "02:00:00:00:00:12 10.0.0.12")
            .port_with("vm1", |port| port.tag = Some(7));
    });
    assert_eq!(tables(&ops), ["Logical_Switch", "Logical_Switch_Port", "Logical_Switch_Port"]);
    assert_eq!(ops[0].2["ports"][1].as_array().unwrap().len(), 2);
    assert_eq!((&ops[1].2["name"], &ops[1].2["tag"]), (&Value::from("vm1"), &Value::from(7)));
    assert!(ops.iter().all(|(op, ..)| op == "insert"));
}

#[test]
fn a_join_makes_both_ends() {
    let ops = written(|net| {
        net.router("lr0").join("sw0", "02:00:00:00:01:01", "10.0.0.1/24 2001:db8::1/64");
    });
    assert_eq!(
        tables(&ops),
        ["Logical_Switch", "Logical_Switch_Port", "Logical_Router", "Logical_Router_Port"]
    );
    let (inside, outside) = (&ops[1].2, &ops[3].2);
    assert_eq!((&inside["name"], &inside["type"]), (&Value::from("sw0-lr0"), &Value::from("router")));
    assert_eq!(inside["options"], serde_json::json!(["map", [["router-port", "lr0-sw0"]]]));
    assert_eq!(outside["name"], "lr0-sw0");
    assert_eq!(outside["networks"][1].as_array().unwrap().len(), 2);
}

#[test]
fn a_gateway_belongs_to_the_port_that_is_there() {
    let ops = written(|net| {
        let router = net.router("lr0").join("public", "02:00:00:00:01:03", "172.24.4.100/24");
        router.gateway_chassis("lr0-public", "hv1", 20).gateway_chassis("lr0-public", "hv2", 10);
    });
    let ports: Vec<&Value> =
        ops.iter().filter(|(_, table, _)| table == "Logical_Router_Port").map(|(.., row)| row).collect();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["gateway_chassis"][1].as_array().unwrap().len(), 2);
}
