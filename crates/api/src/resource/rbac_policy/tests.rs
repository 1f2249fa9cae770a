//! RBAC policies: permissions to create them, their effects, and the conditions for deletion.

use serde_json::{Value, json};

use super::*;
use crate::model::FloatingIp;
use crate::resource::fixture::{Desk, fault, id};

const POLICIES: &str = "rbac-policies";

fn member() -> Caller {
    Caller::member("p")
}

fn admin() -> Caller {
    Caller::admin("ops")
}

fn desk() -> (Desk, Value) {
    let mut desk = Desk::new();
    let network = desk.create("networks", &member(), json!({"name": "n"})).unwrap();
    (desk, network)
}

fn body(network: &Value, more: Value) -> Value {
    let mut body = json!({
        "object_type": "network", "object_id": network["id"], "action": "access_as_shared", "target_tenant": "q",
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[test]
fn a_network_is_shared_with_one_project() {
    let (mut desk, network) = desk();
    let [friend, stranger] = ["q", "r"].map(Caller::member);
    assert_eq!(fault(desk.show("networks", &friend, &network)), (404, "NetworkNotFound"));
    let policy = desk.create(POLICIES, &member(), body(&network, json!({}))).unwrap();
    assert_eq!(
        (&policy["target_tenant"], &policy["project_id"], &policy["object_type"]),
        (&json!("q"), &json!("p"), &json!("network"))
    );
    assert_eq!(desk.show("networks", &friend, &network).unwrap()["shared"], true);
    assert_eq!(fault(desk.show("networks", &stranger, &network)), (404, "NetworkNotFound"));
    assert_eq!(fault(desk.show(POLICIES, &friend, &policy)), (404, "RbacPolicyNotFound"));
    let port = desk.create("ports", &friend, json!({"network_id": network["id"]})).unwrap();
    assert_eq!(fault(desk.delete(POLICIES, &member(), &policy)), (409, "RbacPolicyInUse"));
    let away = desk.update(POLICIES, &member(), &policy, json!({"target_tenant": "r"}));
    assert_eq!(fault(away), (409, "RbacPolicyInUse"));
    // A policy for all projects replaces the one for a single project.
    let all = desk.create(POLICIES, &admin(), body(&network, json!({"target_tenant": "*"}))).unwrap();
    desk.delete(POLICIES, &member(), &policy).unwrap();
    assert_eq!(fault(desk.delete(POLICIES, &admin(), &all)), (409, "RbacPolicyInUse"));
    desk.delete("ports", &friend, &port).unwrap();
    desk.delete(POLICIES, &admin(), &all).unwrap();
    assert_eq!(fault(desk.show("networks", &friend, &network)), (404, "NetworkNotFound"));
}

#[test]
fn a_member_offers_its_network_as_external_to_one_project() {
    let (mut desk, network) = desk();
    let [friend, stranger] = ["q", "r"].map(Caller::member);
    let external = json!({"action": "access_as_external"});
    desk.create(POLICIES, &member(), body(&network, external)).unwrap();
    let shown = desk.show("networks", &friend, &network).unwrap();
    assert_eq!((&shown["router:external"], &shown["shared"]), (&json!(true), &json!(false)));
    assert_eq!(fault(desk.show("networks", &stranger, &network)), (404, "NetworkNotFound"));
}

#[test]
fn what_is_refused() {
    let (mut desk, network) = desk();
    let group = desk.create("security-groups", &member(), json!({"name": "g"})).unwrap();
    desk.create(POLICIES, &member(), body(&network, json!({}))).unwrap();
    let foreign = desk.create("networks", &admin(), json!({"shared": true})).unwrap();
    for (more, want) in [
        (json!({}), (409, "DuplicateRbacPolicy")),
        (json!({"target_tenant": "*"}), (403, "PolicyNotAuthorized")),
        (json!({"target_tenant": ""}), (400, "HTTPBadRequest")),
        (json!({"object_type": "router"}), (400, "HTTPBadRequest")),
        (json!({"action": "own"}), (400, "HTTPBadRequest")),
        (json!({"action": "access_as_external", "target_tenant": "*"}), (403, "PolicyNotAuthorized")),
        (
            json!({"object_type": "security_group", "object_id": group["id"], "action": "access_as_external"}),
            (400, "InvalidInput"),
        ),
        (json!({"object_id": id(9).to_string()}), (404, "NetworkNotFound")),
        (json!({"object_type": "security_group"}), (404, "SecurityGroupNotFound")),
        (json!({"object_type": "subnetpool"}), (404, "SubnetPoolNotFound")),
        (json!({"object_type": "address_scope"}), (404, "AddressScopeNotFound")),
        (json!({"object_id": foreign["id"]}), (400, "InvalidInput")),
        (json!({"object_id": null}), (400, "HTTPBadRequest")),
    ] {
        assert_eq!(fault(desk.create(POLICIES, &member(), body(&network, more.clone()))), want, "{more}");
    }
    let second = desk.create(POLICIES, &member(), body(&network, json!({"target_tenant": "r"}))).unwrap();
    assert_eq!(
        fault(desk.update(POLICIES, &member(), &second, json!({"target_tenant": "q"}))),
        (409, "DuplicateRbacPolicy")
    );
    assert_eq!(
        fault(desk.update(POLICIES, &member(), &second, json!({"target_tenant": "*"}))),
        (403, "PolicyNotAuthorized")
    );
    assert_eq!(
        fault(desk.update(POLICIES, &member(), &second, json!({"action": "access_as_shared"}))),
        (400, "HTTPBadRequest")
    );
    assert_eq!(
        desk.update(POLICIES, &member(), &second, json!({"target_tenant": "s"})).unwrap()["target_tenant"],
        "s"
    );
}

#[test]
fn the_shared_flag_is_a_policy_for_everybody() {
    let mut desk = Desk::new();
    let network = desk.create("networks", &admin(), json!({"shared": true})).unwrap();
    let of = format!("object_id={}", network["id"].as_str().unwrap());
    let policies = desk.list(POLICIES, &admin(), &of).unwrap();
    assert_eq!(policies.len(), 1);
    assert_eq!(
        (&policies[0]["target_tenant"], &policies[0]["action"]),
        (&json!("*"), &json!("access_as_shared"))
    );
    desk.create("ports", &member(), json!({"network_id": network["id"]})).unwrap();
    assert_eq!(
        fault(desk.update("networks", &admin(), &network, json!({"shared": false}))),
        (409, "InvalidSharedSetting")
    );
    assert_eq!(fault(desk.delete(POLICIES, &admin(), &policies[0])), (409, "RbacPolicyInUse"));
}

#[test]
fn an_external_network_is_open_to_all_until_somebody_says_for_whom() {
    let mut desk = Desk::new();
    let [friend, stranger] = ["q", "r"].map(Caller::member);
    let network = desk.create("networks", &admin(), json!({"router:external": true})).unwrap();
    let all = desk.list(POLICIES, &admin(), "action=access_as_external").unwrap().remove(0);
    assert_eq!((&all["target_tenant"], &all["object_id"]), (&json!("*"), &network["id"]));
    assert!(desk.show("networks", &stranger, &network).is_ok());
    let one = json!({"target_tenant": "q", "action": "access_as_external"});
    let one = desk.create(POLICIES, &admin(), body(&network, one)).unwrap();
    assert!(desk.show("networks", &stranger, &network).is_ok(), "still for everybody");
    guest(&mut desk, &network, "r");
    assert_eq!(fault(desk.delete(POLICIES, &admin(), &all)), (409, "RbacPolicyInUse"));
    desk.run(|txn| Ok(txn.remove::<FloatingIp>(&id(88)))).unwrap();
    desk.delete(POLICIES, &admin(), &all).unwrap();
    assert!(desk.show("networks", &friend, &network).is_ok());
    assert_eq!(fault(desk.show("networks", &stranger, &network)), (404, "NetworkNotFound"));
    assert_eq!(desk.show("networks", &friend, &network).unwrap()["shared"], false);
    // A network that is external for no project is internal.
    desk.delete(POLICIES, &admin(), &one).unwrap();
    assert_eq!(desk.show("networks", &admin(), &network).unwrap()["router:external"], false);
    // The opposite: a policy makes it external again.
    let more = json!({"target_tenant": "q", "action": "access_as_external"});
    desk.create(POLICIES, &admin(), body(&network, more)).unwrap();
    assert_eq!(desk.show("networks", &friend, &network).unwrap()["router:external"], true);
    assert_eq!(fault(desk.show("networks", &stranger, &network)), (404, "NetworkNotFound"));
    desk.update("networks", &admin(), &network, json!({"router:external": false})).unwrap();
    assert!(desk.list(POLICIES, &admin(), "action=access_as_external").unwrap().is_empty());
}

/// A floating IP of a project on an external network.
fn guest(desk: &mut Desk, network: &Value, project: &str) {
    let floating = FloatingIp {
        id: id(88),
        project: project.into(),
        floating_network_id: network["id"].as_str().unwrap().parse().unwrap(),
        floating_ip_address: "192.0.2.9".parse().unwrap(),
        floating_port_id: id(6),
        port_id: None,
        fixed_ip_address: None,
        router_id: None,
        dns_name: String::new(),
        dns_domain: String::new(),
        standard: Standard::new(jiff::Timestamp::UNIX_EPOCH, ""),
    };
    desk.run(|txn| Ok(txn.put(floating))).unwrap();
}

#[test]
fn policies_are_counted_and_go_with_their_object() {
    let (mut desk, network) = desk();
    desk.outside.settings.quotas.set("rbac_policy", 1);
    desk.create(POLICIES, &member(), body(&network, json!({}))).unwrap();
    let second = desk.create(POLICIES, &member(), body(&network, json!({"target_tenant": "r"})));
    assert_eq!(fault(second), (409, "OverQuota"));
    desk.delete("networks", &member(), &network).unwrap();
    assert!(desk.world.table::<RbacPolicy>().is_empty());
}
