//! Every verb of `openstack loadbalancer`, with the options that wait for completion.

use serde_json::{Value, json};

use super::site::BalancerSite;

#[test]
fn scenario_07_every_object_is_shown_listed_changed_and_deleted_by_command() {
    let site = BalancerSite::new();
    let create =
        format!("loadbalancer create --name lb1 --description first --vip-subnet-id {} --wait", site.s1);
    let lines = [
        create.as_str(),
        "loadbalancer set --name web --wait lb1",
        "loadbalancer unset --description --wait web",
        "loadbalancer show web",
        "loadbalancer listener create --name l1 --protocol TCP --protocol-port 80 --connection-limit 10 --wait web",
        "loadbalancer listener set --connection-limit 20 --wait l1",
        "loadbalancer listener show l1",
        "loadbalancer listener unset --connection-limit --wait l1",
        "loadbalancer listener list",
        "loadbalancer pool create --name p1 --listener l1 --protocol TCP --lb-algorithm SOURCE_IP_PORT --session-persistence type=SOURCE_IP --wait",
        "loadbalancer pool set --lb-algorithm SOURCE_IP --wait p1",
        "loadbalancer pool unset --session-persistence --wait p1",
        "loadbalancer pool show p1",
        "loadbalancer pool list",
        "loadbalancer member create --name m1 --address 10.0.0.107 --protocol-port 80 --weight 5 --wait p1",
        "loadbalancer member set --weight 3 --wait p1 m1",
        "loadbalancer member show p1 m1",
        "loadbalancer member unset --weight --wait p1 m1",
        "loadbalancer member list p1",
        "loadbalancer healthmonitor create --name h1 --delay 5 --timeout 3 --max-retries 2 --type TCP --wait p1",
        "loadbalancer healthmonitor set --delay 7 --wait h1",
        "loadbalancer healthmonitor show h1",
        "loadbalancer healthmonitor list",
        "loadbalancer healthmonitor delete --wait h1",
        "loadbalancer member delete --wait p1 m1",
        "loadbalancer pool delete --wait p1",
        "loadbalancer listener delete --wait l1",
        "loadbalancer provider list",
        "loadbalancer quota defaults show",
        "loadbalancer list",
        "loadbalancer delete --wait web",
        "loadbalancer list",
    ];
    let said = site.cloud.openstack_session(&lines);
    let printing = |line: &&&str| {
        ["create", "show", "list"].iter().any(|verb| line.split(' ').any(|word| word == *verb))
    };
    let printed: Vec<&str> = lines.iter().filter(printing).copied().collect();
    assert_eq!(said.len(), printed.len(), "{said:?}");
    let of = |line: &str| -> &Value {
        let is_it = |printed: &&str| *printed == line || printed.starts_with(&format!("{line} "));
        let at = printed.iter().position(is_it).unwrap();
        &said[at]
    };
    for line in ["loadbalancer create", "loadbalancer listener create", "loadbalancer pool create"] {
        assert_eq!(of(line)["provisioning_status"], "ACTIVE", "--wait returns then: {line}");
    }
    assert_eq!(of("loadbalancer show")["description"], "");
    assert_eq!(of("loadbalancer listener show")["connection_limit"], 20);
    let pool = of("loadbalancer pool show");
    assert_eq!((&pool["lb_algorithm"], &pool["session_persistence"]), (&json!("SOURCE_IP"), &Value::Null));
    assert_eq!(of("loadbalancer member show")["weight"], 3);
    assert_eq!(of("loadbalancer member list")[0]["weight"], 1);
    assert_eq!(of("loadbalancer healthmonitor show")["delay"], 7);
    assert_eq!(of("loadbalancer provider list")[0]["name"], "ovn");
    assert_eq!(of("loadbalancer list")[0]["name"], "web");
    assert_eq!(said.last().unwrap(), &json!([]));
    assert_eq!(site.cloud.rows("Load_Balancer"), Vec::<Value>::new());
}
