//! Scenario 4, the member's part of 27, and the ownership of objects, with a real Keystone for authentication.

use std::fs;
use std::path::Path;

use lab::keystone::Keystone;
use serde_json::{Value, json};

use crate::cloud::{Answer, Cloud, eventually};
use crate::world::id;

/// A server that authenticates with Keystone, and two users: alice is a member of project blue, bob of red.
pub(crate) struct Realm {
    pub(crate) cloud: Cloud,
    pub(crate) keystone: Keystone,
    dir: tempfile::TempDir,
    /// The id of the server's endpoint in the catalog.
    endpoint: String,
    pub(crate) admin: String,
    pub(crate) alice: String,
    pub(crate) bob: String,
}

impl Realm {
    fn new() -> Realm {
        Self::with(Cloud::configured)
    }

    /// A realm whose server `start` starts with the given configuration.
    pub(crate) fn with(start: impl FnOnce(&str) -> Cloud) -> Realm {
        Self::on(|_, _, config| start(config))
    }

    /// A realm whose server has a service account in Keystone.
    pub(crate) fn with_account(start: impl FnOnce(&str) -> Cloud) -> Realm {
        Self::on(|keystone, dir, config| {
            let project = keystone.project("service").unwrap();
            keystone.grant("admin", &keystone.user("meridian", "secret").unwrap(), &project).unwrap();
            let file = dir.join("keystone-password");
            fs::write(&file, "secret\n").unwrap();
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let file = file.display();
            start(&format!("{config}keystone_username = \"meridian\"\nkeystone_password_file = \"{file}\"\n"))
        })
    }

    fn on(start: impl FnOnce(&Keystone, &Path, &str) -> Cloud) -> Realm {
        let dir = tempfile::tempdir().unwrap();
        let keystone = Keystone::start(dir.path()).unwrap();
        for (user, project) in [("alice", "blue"), ("bob", "red")] {
            let project = keystone.project(project).unwrap();
            keystone.grant("member", &keystone.user(user, "pw").unwrap(), &project).unwrap();
        }
        let config = format!("[server]\nauth = \"keystone\"\nkeystone_url = \"{}\"\n", keystone.url());
        let cloud = start(&keystone, dir.path(), &config);
        let network = keystone.service("network", "meridian").unwrap();
        let endpoint = keystone.endpoint(&network, "public", cloud.url()).unwrap();
        let admin = keystone.admin_token().unwrap();
        let alice = keystone.token("alice", "pw", "blue").unwrap();
        let bob = keystone.token("bob", "pw", "red").unwrap();
        Realm { cloud, keystone, dir, endpoint, admin, alice, bob }
    }

    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.cloud.ask_as(token, method, &format!("/v2.0/{path}"), body)
    }

    #[track_caller]
    pub(crate) fn create(&self, token: &str, path: &str, noun: &str, attributes: Value) -> Value {
        let answer = self.ask(token, "POST", path, Some(json!({ noun: attributes })));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body[noun].clone()
    }

    /// Creates an external network with a subnet as administrator; returns the network's id.
    pub(crate) fn external(&self, name: &str, physical: &str, cidr: &str) -> String {
        let network = json!({"name": name, "router:external": true, "provider:network_type": "flat",
                             "provider:physical_network": physical});
        let network = id(&self.create(&self.admin, "networks", "network", network));
        let subnet = json!({"network_id": network, "ip_version": 4, "cidr": cidr});
        self.create(&self.admin, "subnets", "subnet", subnet);
        network
    }
}

/// The names of attributes about the provider's network.
fn provider(network: &Value) -> Vec<&String> {
    network.as_object().unwrap().keys().filter(|name| name.starts_with("provider:")).collect()
}

#[test]
fn scenario_04_a_member_makes_no_external_network_and_sees_no_provider() {
    let realm = Realm::new();
    let create = "network create --external --provider-network-type flat --provider-physical-network phy1 N1";
    let refused = realm.cloud.openstack_as(&realm.keystone.env("alice", "pw", "blue"), create).unwrap_err();
    assert!(refused.contains("403") && refused.contains("is disallowed by policy"), "{refused}");
    for attributes in [
        json!({"router:external": true}),
        json!({"provider:network_type": "flat", "provider:physical_network": "phy1"}),
        json!({"shared": true}),
    ] {
        let answer = realm.ask(&realm.alice, "POST", "networks", Some(json!({ "network": attributes })));
        let (status, kind, text) = answer.refusal();
        assert_eq!((status, kind.as_str()), (403, "PolicyNotAuthorized"), "{text}");
        assert!(text.contains("create_network"), "{text}");
    }
    assert_eq!(realm.ask(&realm.alice, "GET", "networks", None).body["networks"], json!([]), "none was made");
    let password = realm.keystone.admin_password();
    let made = realm.cloud.openstack_as(&realm.keystone.env("admin", password, "admin"), create).unwrap();
    assert_eq!(made["provider:physical_network"], "phy1");
    // A member sees the network, because it is external, but not its provider attributes.
    let path = format!("networks/{}", id(&made));
    let shown = realm.ask(&realm.alice, "GET", &path, None);
    assert_eq!((shown.status, &shown.body["network"]["router:external"]), (200, &json!(true)));
    assert_eq!(provider(&shown.body["network"]), [] as [&String; 0]);
    let listed = realm.ask(&realm.alice, "GET", "networks", None).body;
    assert_eq!(listed["networks"][0]["id"], made["id"]);
    assert_eq!(provider(&listed["networks"][0]), [] as [&String; 0]);
    let asked = realm.ask(&realm.alice, "GET", &format!("{path}?fields=provider:network_type"), None);
    assert_eq!(provider(&asked.body["network"]), [] as [&String; 0], "not when asked for, either");
    let shown = realm.ask(&realm.admin, "GET", &path, None).body;
    assert_eq!(provider(&shown["network"]).len(), 3, "{shown}");
    // The member sees the network but does not own it: the status is 403, not 404.
    let rename = json!({"network": {"name": "mine"}});
    assert_eq!(realm.ask(&realm.alice, "PUT", &path, Some(rename)).refusal().0, 403);
    assert_eq!(realm.ask(&realm.alice, "DELETE", &path, None).refusal().0, 403);
    the_catalog_may_name_the_version(&realm);
    others_are_not_seen(&realm);
    tokens_that_do_not_count(&realm);
}

/// The endpoint in the catalog was the root of the server so far. The command also works with one that ends in the version.
fn the_catalog_may_name_the_version(realm: &Realm) {
    let versioned = json!({"endpoint": {"url": format!("{}/v2.0", realm.cloud.url())}});
    realm.keystone.call("PATCH", &format!("endpoints/{}", realm.endpoint), Some(&versioned)).unwrap();
    let env = realm.keystone.env("alice", "pw", "blue");
    let listed = realm.cloud.openstack_as(&env, "network list").unwrap();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["Name"]), (1, &json!("N1")));
    let made = realm.cloud.openstack_as(&env, "network create catalogued").unwrap();
    let gone = realm.ask(&realm.alice, "DELETE", &format!("networks/{}", id(&made)), None);
    assert_eq!(gone.status, 204, "{gone:?}");
}

/// A project's objects are invisible to other projects, which cannot change them either.
fn others_are_not_seen(realm: &Realm) {
    let network = id(&realm.create(&realm.alice, "networks", "network", json!({"name": "hers"})));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"});
    let subnet = id(&realm.create(&realm.alice, "subnets", "subnet", subnet));
    let port = id(&realm.create(&realm.alice, "ports", "port", json!({ "network_id": network })));
    let router = id(&realm.create(&realm.alice, "routers", "router", json!({"name": "hers"})));
    let group = json!({"name": "hers"});
    let group = id(&realm.create(&realm.alice, "security-groups", "security_group", group));
    for (collection, noun, object) in [
        ("networks", "network", &network),
        ("subnets", "subnet", &subnet),
        ("ports", "port", &port),
        ("routers", "router", &router),
        ("security-groups", "security_group", &group),
    ] {
        let path = format!("{collection}/{object}");
        assert_eq!(realm.ask(&realm.alice, "GET", &path, None).status, 200, "{path}");
        let rename = Some(json!({ noun: {"name": "stolen"} }));
        for (method, body) in [("GET", None), ("PUT", rename), ("DELETE", None)] {
            let (status, kind, text) = realm.ask(&realm.bob, method, &path, body).refusal();
            assert_eq!(status, 404, "{method} {path}: {kind} {text}");
        }
        let listed = realm.ask(&realm.bob, "GET", &format!("{collection}?id={object}"), None).body;
        assert_eq!(listed[collection.replace('-', "_")], json!([]), "{collection}");
        assert_eq!(realm.ask(&realm.alice, "GET", &path, None).status, 200, "{path} is still there");
    }
    let interface = format!("routers/{router}/add_router_interface");
    assert_eq!(realm.ask(&realm.bob, "PUT", &interface, Some(json!({ "subnet_id": subnet }))).status, 404);
    let theirs = realm.create(&realm.bob, "routers", "router", json!({"name": "his"}));
    let interface = format!("routers/{}/add_router_interface", id(&theirs));
    let answer = realm.ask(&realm.bob, "PUT", &interface, Some(json!({ "subnet_id": subnet })));
    assert_eq!(answer.status, 404, "nor is it connected to what is not theirs: {answer:?}");
    let on_it = realm.ask(&realm.bob, "POST", "ports", Some(json!({"port": {"network_id": network}})));
    assert_eq!(on_it.status, 404, "{on_it:?}");
}

fn unauthorized(answer: &Answer) {
    let message = "The request you have made requires authentication.";
    let body = json!({"error": {"code": 401, "title": "Unauthorized", "message": message}});
    assert_eq!((answer.status, &answer.body), (401, &body));
}

/// Invalid tokens: none, nonsense, one of another Keystone, a revoked one, and an expired one.
fn tokens_that_do_not_count(realm: &Realm) {
    unauthorized(&crate::cloud::raw(realm.cloud.url(), &[], "GET", "/v2.0/networks", None));
    // The token has the right form, but is sealed with a key that this Keystone does not have.
    let foreign = format!("gAAAAAB{}", "A".repeat(realm.alice.len() - 7));
    for token in ["nonsense", &foreign, "' OR 1=1 --"] {
        unauthorized(&realm.ask(token, "GET", "networks", None));
    }
    let revoked = realm.keystone.token("bob", "pw", "red").unwrap();
    realm.keystone.revoke(&revoked).unwrap();
    unauthorized(&realm.ask(&revoked, "GET", "networks", None));
    let config = realm.dir.path().join("keystone.conf");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}[token]\nexpiration = 10\nallow_expired_window = 0\n")).unwrap();
    realm.keystone.daemon().restart().unwrap();
    let short = realm.keystone.token("alice", "pw", "blue").unwrap();
    assert_eq!(realm.ask(&short, "GET", "networks", None).status, 200);
    let ended = eventually("the token has ended", || {
        let answer = realm.ask(&short, "GET", "networks", None);
        (answer.status != 200).then_some(answer)
    });
    unauthorized(&ended);
}

#[test]
fn scenario_27_a_member_sends_back_what_it_read() {
    let realm = Realm::new();
    let n1 = realm.external("N1", "phy1", "192.0.2.0/24");
    let n2 = realm.external("N2", "phy2", "198.51.100.0/24");
    let router = id(&realm.create(&realm.alice, "routers", "router", json!({"name": "R"})));
    let gateways = |token: &str, method: &str, elements: Value| {
        let path = format!("routers/{router}/{method}_external_gateways");
        realm.ask(token, "PUT", &path, Some(json!({"router": {"external_gateways": elements}})))
    };
    let added = gateways(&realm.alice, "add", json!([{ "network_id": n1 }, { "network_id": n2 }]));
    assert_eq!(added.status, 200, "{added:?}");
    let second = added.body["router"]["external_gateways"][1].clone();
    assert_eq!(second["enable_snat"], true);
    assert!(second["external_fixed_ips"][0]["ip_address"].is_string(), "{second}");
    // Only the administrator may set these two attributes, for both actions.
    for (method, elements) in [
        ("add", json!([{"network_id": n1, "enable_snat": false}])),
        ("add", json!([{"network_id": n1, "external_fixed_ips": [{"ip_address": "192.0.2.77"}]}])),
        ("update", json!([{"network_id": n1, "enable_snat": false}])),
    ] {
        let (status, kind, text) = gateways(&realm.alice, method, elements).refusal();
        assert_eq!((status, kind.as_str()), (403, "PolicyNotAuthorized"), "{method}: {text}");
    }
    assert_eq!(gateways(&realm.bob, "remove", json!([second])).status, 404, "not his");
    let removed = gateways(&realm.alice, "remove", json!([second]));
    assert_eq!(removed.status, 200, "{removed:?}");
    let left = removed.body["router"]["external_gateways"].as_array().unwrap().clone();
    assert_eq!((left.len(), &left[0]["network_id"]), (1, &json!(n1)));
}
