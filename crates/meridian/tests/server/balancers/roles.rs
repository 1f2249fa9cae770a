//! Roles and load balancers: tokens of a real Keystone, with its general roles and with Octavia's own.

use serde_json::{Value, json};

use crate::access::Realm;
use crate::cloud::{Answer, Cloud, eventually, raw};
use crate::world::id;

const DENIED: &str = "Policy does not allow this request to be performed.";

fn ask(realm: &Realm, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    let text = body.map(|body| body.to_string());
    let path = format!("/v2/lbaas/{path}");
    raw(realm.cloud.load_balancer_url(), &[("X-Auth-Token", token)], method, &path, text.as_deref())
}

#[track_caller]
fn denied(realm: &Realm, token: &str, method: &str, path: &str, body: Option<Value>) {
    let answer = ask(realm, token, method, path, body);
    assert_eq!((answer.status, &answer.body["faultstring"]), (403, &json!(DENIED)), "{method} {path}");
}

#[track_caller]
fn allowed(realm: &Realm, token: &str, method: &str, path: &str, body: Option<Value>) -> Value {
    let answer = ask(realm, token, method, path, body);
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    answer.body
}

/// A token of a new user with these roles in a project.
fn user(realm: &Realm, name: &str, roles: &[&str], project: &str) -> String {
    let keystone = &realm.keystone;
    let owner = if project == "blue" { &realm.alice } else { &realm.bob };
    let network = realm.create(owner, "networks", "network", json!({"name": "of the project"}));
    let user = keystone.user(name, "pw").unwrap();
    for role in roles {
        keystone.grant(role, &user, network["project_id"].as_str().unwrap()).unwrap();
    }
    keystone.token(name, "pw", project).unwrap()
}

/// A subnet of alice's project.
fn subnet(realm: &Realm) -> String {
    let network = realm.create(&realm.alice, "networks", "network", json!({"name": "net"}));
    let subnet = json!({"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"});
    id(&realm.create(&realm.alice, "subnets", "subnet", subnet))
}

fn count(list: &Value) -> usize {
    list["loadbalancers"].as_array().unwrap().len()
}

#[test]
fn scenario_60_readers_read_members_write_and_projects_are_apart() {
    let realm = Realm::with(Cloud::configured);
    let reader = user(&realm, "rita", &["reader"], "blue");
    let nobody = user(&realm, "nora", &["creator"], "blue");
    let subnet = subnet(&realm);
    let new = || Some(json!({"loadbalancer": {"vip_subnet_id": subnet}}));
    denied(&realm, &reader, "POST", "loadbalancers", new());
    denied(&realm, &nobody, "POST", "loadbalancers", new());
    let made = allowed(&realm, &realm.alice, "POST", "loadbalancers", new())["loadbalancer"].clone();
    let path = format!("loadbalancers/{}", id(&made));
    eventually("it is ACTIVE", || {
        let shown = allowed(&realm, &reader, "GET", &path, None);
        (shown["loadbalancer"]["provisioning_status"] == "ACTIVE").then_some(())
    });
    for token in [&reader, &realm.alice, &realm.admin] {
        assert_eq!(count(&allowed(&realm, token, "GET", "loadbalancers", None)), 1);
        allowed(&realm, token, "GET", &format!("{path}/status"), None);
        allowed(&realm, token, "GET", "providers", None);
    }
    let rename = || Some(json!({"loadbalancer": {"name": "mine"}}));
    denied(&realm, &reader, "PUT", &path, rename());
    denied(&realm, &reader, "DELETE", &path, None);
    // Another project is denied by id, and its lists are empty.
    for (method, body) in [("GET", None), ("PUT", rename()), ("DELETE", None)] {
        denied(&realm, &realm.bob, method, &path, body);
    }
    assert_eq!(count(&allowed(&realm, &realm.bob, "GET", "loadbalancers", None)), 0);
    // Without a role that reads, even lists are denied.
    for list in
        ["loadbalancers", "listeners", "pools", "healthmonitors", "providers", "flavors", "l7policies"]
    {
        denied(&realm, &nobody, "GET", list, None);
    }
    denied(&realm, &nobody, "GET", &path, None);
    // Services of another project see members, and nothing else.
    let service = user(&realm, "sam", &["service"], "red");
    let pool =
        json!({"pool": {"loadbalancer_id": made["id"], "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}});
    let pool = id(&allowed(&realm, &realm.alice, "POST", "pools", Some(pool))["pool"]);
    let member = json!({"member": {"address": "10.0.0.7", "protocol_port": 80}});
    let members = format!("pools/{pool}/members");
    let member = eventually("it may be changed", || {
        let answer = ask(&realm, &realm.alice, "POST", &members, Some(member.clone()));
        (answer.status == 201).then(|| id(&answer.body["member"]))
    });
    allowed(&realm, &service, "GET", &format!("{members}/{member}"), None);
    denied(&realm, &service, "DELETE", &format!("{members}/{member}"), None);
    denied(&realm, &service, "GET", &format!("pools/{pool}"), None);
    eventually("it may be changed", || {
        (ask(&realm, &realm.alice, "DELETE", &format!("pools/{pool}"), None).status == 204).then_some(())
    });
    // Only administrators may do these.
    denied(&realm, &realm.alice, "PUT", &format!("{path}/failover"), None);
    let quota = || Some(json!({"quota": {"loadbalancer": 1}}));
    let project = made["project_id"].as_str().unwrap();
    denied(&realm, &realm.alice, "PUT", &format!("quotas/{project}"), quota());
    allowed(&realm, &realm.admin, "PUT", &format!("quotas/{project}"), quota());
    allowed(&realm, &realm.alice, "GET", &format!("quotas/{project}"), None);
    denied(&realm, &realm.bob, "GET", &format!("quotas/{project}"), None);
    eventually("it may be deleted", || match ask(&realm, &realm.admin, "DELETE", &path, None).status {
        204 => Some(()),
        409 => None,
        other => panic!("{other}"),
    });
}

#[test]
fn roles_of_octavia_count_where_the_operator_chose_them() {
    let realm =
        Realm::with(|config| Cloud::configured(&format!("{config}load_balancer_roles = \"octavia\"\n")));
    let member = user(&realm, "mia", &["load-balancer_member"], "blue");
    let observer = user(&realm, "otto", &["load-balancer_observer"], "blue");
    let auditor = user(&realm, "gus", &["load-balancer_global_observer"], "red");
    let treasurer = user(&realm, "quinn", &["load-balancer_quota_admin"], "red");
    let ruler = user(&realm, "ada", &["load-balancer_admin"], "red");
    let subnet = subnet(&realm);
    let new = || Some(json!({"loadbalancer": {"vip_subnet_id": subnet}}));
    // A general member has none of Octavia's roles.
    for token in [&realm.alice, &observer, &auditor, &treasurer] {
        denied(&realm, token, "POST", "loadbalancers", new());
    }
    denied(&realm, &realm.alice, "GET", "loadbalancers", None);
    let made = allowed(&realm, &member, "POST", "loadbalancers", new())["loadbalancer"].clone();
    let path = format!("loadbalancers/{}", id(&made));
    for token in [&member, &observer, &auditor, &ruler, &realm.admin] {
        allowed(&realm, token, "GET", &path, None);
        assert_eq!(count(&allowed(&realm, token, "GET", "loadbalancers", None)), 1);
    }
    denied(&realm, &treasurer, "GET", &path, None);
    let quota = || Some(json!({"quota": {"loadbalancer": 5}}));
    let quotas = format!("quotas/{}", made["project_id"].as_str().unwrap());
    denied(&realm, &member, "PUT", &quotas, quota());
    allowed(&realm, &treasurer, "PUT", &quotas, quota());
    eventually("it may be deleted", || match ask(&realm, &ruler, "DELETE", &path, None).status {
        204 => Some(()),
        409 => None,
        other => panic!("{other}"),
    });
}
