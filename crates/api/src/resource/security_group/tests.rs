//! Security groups: the default group, the initial rules, names, use and sharing.

use serde_json::json;

use super::*;
use crate::model::{Port, RbacPolicy};
use crate::resource::fixture::{Desk, fault};

const GROUPS: &str = "security-groups";

fn member() -> Caller {
    Caller::member("p")
}

fn admin() -> Caller {
    Caller::admin("ops")
}

fn port_under(desk: &mut Desk, group: &Value) -> Value {
    let network = desk.create("networks", &member(), json!({})).unwrap();
    let body = json!({"network_id": network["id"], "security_groups": [group["id"]]});
    desk.create("ports", &member(), body).unwrap()
}

#[test]
fn a_project_has_its_default_group_from_the_first_list_on() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        let groups = desk.list(GROUPS, &member(), "").unwrap();
        assert_eq!(groups.len(), 1, "made once");
        let group = &groups[0];
        assert_eq!((&group["name"], &group["project_id"]), (&json!("default"), &json!("p")));
        let mut rules: Vec<_> = group["security_group_rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| {
                assert_eq!(rule["belongs_to_default_sg"], true);
                let own = rule["remote_group_id"] == group["id"];
                assert!(own || rule["remote_group_id"].is_null());
                (rule["direction"].to_string(), rule["ethertype"].to_string(), own)
            })
            .collect();
        rules.sort();
        let want = [
            ("egress", "IPv4", false),
            ("egress", "IPv6", false),
            ("ingress", "IPv4", true),
            ("ingress", "IPv6", true),
        ];
        let want = want.map(|(way, family, own)| (format!("\"{way}\""), format!("\"{family}\""), own));
        assert_eq!(rules, want);
    }
    assert!(desk.list(GROUPS, &Caller::member("q"), "").unwrap()[0]["project_id"] == "q");
    assert_eq!(desk.list(GROUPS, &admin(), "").unwrap().len(), 3, "an administrator sees all, with its own");
}

#[test]
fn a_new_group_lets_everything_out_and_nothing_in() {
    let mut desk = Desk::new();
    let group = desk.create(GROUPS, &member(), json!({"name": "web", "description": "d"})).unwrap();
    assert_eq!(
        (&group["stateful"], &group["description"], &group["shared"]),
        (&json!(true), &json!("d"), &json!(false))
    );
    let rules = group["security_group_rules"].as_array().unwrap();
    assert_eq!(rules.len(), 2);
    assert!(rules.iter().all(|rule| rule["direction"] == "egress" && rule["protocol"].is_null()));
    assert_eq!(desk.list(GROUPS, &member(), "").unwrap().len(), 2, "the default group came with it");
}

#[test]
fn the_default_group_stays_what_it_is() {
    let mut desk = Desk::new();
    let default = desk.list(GROUPS, &member(), "name=default").unwrap().remove(0);
    let other = desk.create(GROUPS, &member(), json!({"name": "web"})).unwrap();
    for (answer, want) in [
        (
            desk.create(GROUPS, &member(), json!({"name": "default"})).map(drop),
            (409, "SecurityGroupDefaultAlreadyExists"),
        ),
        (
            desk.update(GROUPS, &member(), &default, json!({"name": "x"})).map(drop),
            (409, "SecurityGroupCannotUpdateDefault"),
        ),
        (
            desk.update(GROUPS, &member(), &other, json!({"name": "default"})).map(drop),
            (409, "SecurityGroupDefaultAlreadyExists"),
        ),
        (desk.delete(GROUPS, &member(), &default), (409, "SecurityGroupCannotRemoveDefault")),
        (desk.delete(GROUPS, &Caller::reader("p"), &other), (403, "PolicyNotAuthorized")),
        (desk.delete(GROUPS, &Caller::member("q"), &other), (404, "SecurityGroupNotFound")),
    ] {
        assert_eq!(fault(answer), want);
    }
    // The owner may change the description, and may send the same name again.
    let body = json!({"name": "default", "description": "mine"});
    assert_eq!(desk.update(GROUPS, &member(), &default, body).unwrap()["description"], "mine");
    assert!(desk.update(GROUPS, &admin(), &default, json!({"name": "old default"})).is_ok());
    assert!(desk.delete(GROUPS, &admin(), &default).is_ok());
    assert_eq!(desk.list(GROUPS, &member(), "name=default").unwrap().len(), 1, "and comes again");
}

#[test]
fn a_group_in_use_stays() {
    let mut desk = Desk::new();
    let group = desk.create(GROUPS, &member(), json!({"name": "web"})).unwrap();
    let port = port_under(&mut desk, &group);
    assert_eq!(fault(desk.delete(GROUPS, &member(), &group)), (409, "SecurityGroupInUse"));
    let stateless = json!({"stateful": false});
    assert_eq!(fault(desk.update(GROUPS, &member(), &group, stateless.clone())), (409, "SecurityGroupInUse"));
    assert!(desk.update(GROUPS, &member(), &group, json!({"stateful": true, "name": "w"})).is_ok());
    desk.delete("ports", &member(), &port).unwrap();
    assert_eq!(desk.update(GROUPS, &member(), &group, stateless).unwrap()["stateful"], false);
    desk.delete(GROUPS, &member(), &group).unwrap();
}

#[test]
fn rules_that_name_a_group_go_with_it() {
    let mut desk = Desk::new();
    let [one, two] =
        ["one", "two"].map(|name| desk.create(GROUPS, &member(), json!({"name": name})).unwrap());
    let rule = json!({"security_group_id": one["id"], "direction": "ingress", "remote_group_id": two["id"]});
    desk.create("security-group-rules", &member(), rule).unwrap();
    let before = desk.show(GROUPS, &member(), &one).unwrap();
    assert_eq!(before["security_group_rules"].as_array().unwrap().len(), 3);
    desk.delete(GROUPS, &member(), &two).unwrap();
    let after = desk.show(GROUPS, &member(), &one).unwrap();
    assert_eq!(after["security_group_rules"].as_array().unwrap().len(), 2);
    assert!(after["revision_number"].as_u64() > before["revision_number"].as_u64());
    assert_eq!(desk.list("security-group-rules", &member(), "").unwrap().len(), 6, "none is left behind");
}

#[test]
fn a_shared_group_can_be_used_and_read_but_not_changed() {
    let mut desk = Desk::new();
    let group = desk.create(GROUPS, &member(), json!({"name": "web"})).unwrap();
    let other = Caller::member("q");
    assert_eq!(fault(desk.show(GROUPS, &other, &group)), (404, "SecurityGroupNotFound"));
    let policy = json!({
        "object_type": "security_group", "object_id": group["id"], "action": "access_as_shared", "target_tenant": "q",
    });
    let policy = desk.create("rbac-policies", &member(), policy).unwrap();
    assert!(desk.show(GROUPS, &other, &group).is_ok());
    assert_eq!(
        fault(desk.update(GROUPS, &other, &group, json!({"name": "x"}))),
        (403, "PolicyNotAuthorized")
    );
    let rule = json!({"security_group_id": group["id"], "direction": "ingress"});
    assert_eq!(fault(desk.create("security-group-rules", &other, rule)), (403, "PolicyNotAuthorized"));
    let network = desk.create("networks", &other, json!({})).unwrap();
    let body = json!({"network_id": network["id"], "security_groups": [group["id"]]});
    let port = desk.create("ports", &other, body).unwrap();
    assert_eq!(fault(desk.delete("rbac-policies", &member(), &policy)), (409, "RbacPolicyInUse"));
    desk.delete("ports", &other, &port).unwrap();
    desk.delete("rbac-policies", &member(), &policy).unwrap();
    assert_eq!(desk.world.table::<RbacPolicy>().len(), 0);
    assert_eq!(desk.world.table::<Port>().len(), 0);
}

#[test]
fn groups_are_counted() {
    let mut desk = Desk::new();
    desk.outside.settings.quotas.set("security_group", 2);
    desk.create(GROUPS, &member(), json!({"name": "one"})).unwrap();
    assert_eq!(fault(desk.create(GROUPS, &member(), json!({"name": "two"}))), (409, "OverQuota"));
}
