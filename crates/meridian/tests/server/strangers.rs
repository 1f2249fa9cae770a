//! Attacks of one project on another and on the provider, with a real Keystone, PostgreSQL, and OVN's databases over TLS. The rules
//! have tests of their own beside the code; here they hold through every layer.

use serde_json::{Value, json};

use crate::access::Realm;
use crate::plant::Plant;
use crate::two_servers::postgres;
use crate::world::id;

/// The status and type of a rejected request of bob's.
fn refused(realm: &Realm, method: &str, path: &str, body: Value) -> (u16, String) {
    let answer = realm.ask(&realm.bob, method, path, Some(body));
    let (status, kind, _) = answer.refusal();
    (status, kind)
}

/// Alice's network, which is shared with all projects, with its subnet 10.0.0.0/24.
fn shared(realm: &Realm) -> (String, String) {
    let network = id(&realm.create(&realm.alice, "networks", "network", json!({"name": "hers"})));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"});
    let subnet = id(&realm.create(&realm.alice, "subnets", "subnet", subnet));
    let share = Some(json!({"network": {"shared": true}}));
    assert_eq!(realm.ask(&realm.admin, "PUT", &format!("networks/{network}"), share).status, 200);
    (network, subnet)
}

#[test]
fn a_project_takes_nothing_from_others_with_postgresql_and_tls() {
    let (plant, (postgres, _dir)) = (Plant::encrypted(), postgres());
    let realm = Realm::with(|config| {
        plant.configure(config);
        plant.cloud(&["--database", &postgres.url("meridian")])
    });
    let (network, subnet) = shared(&realm);
    let external = realm.external("public", "phy1", "192.0.2.0/24");
    let router = id(&realm.create(&realm.bob, "routers", "router", json!({"name": "his"})));

    // The gateway address of a network that is shared with all projects.
    let attach = format!("routers/{router}/add_router_interface");
    assert_eq!(refused(&realm, "PUT", &attach, json!({ "subnet_id": subnet })), (400, "BadRequest".into()));

    // All public addresses, or all of a shared subnet, in one request.
    let gateways: Vec<Value> = (0..240).map(|_| json!({ "network_id": external })).collect();
    let gateways = json!({"router": {"external_gateways": gateways}});
    let over = (409, "OverQuota".to_owned());
    assert_eq!(refused(&realm, "PUT", &format!("routers/{router}/add_external_gateways"), gateways), over);
    let addresses = |n: usize| vec![json!({ "subnet_id": subnet }); n];
    let port = |n: usize| json!({"network_id": network, "fixed_ips": addresses(n)});
    assert_eq!(refused(&realm, "POST", "ports", json!({ "port": port(240) })), over);
    assert_eq!(refused(&realm, "POST", "ports", json!({ "ports": vec![port(16); 16] })), over);

    // The owner of a network must not change the ports of other projects on it.
    let his = id(&realm.create(&realm.bob, "ports", "port", json!({"network_id": network, "name": "his"})));
    let path = format!("ports/{his}");
    for change in
        [json!({"name": "stolen"}), json!({"security_groups": []}), json!({"admin_state_up": false})]
    {
        let answer = realm.ask(&realm.alice, "PUT", &path, Some(json!({ "port": change })));
        assert_eq!(answer.refusal().0, 403, "{answer:?}");
    }

    // To another project, an existing subnet and a missing one look the same.
    let hidden = id(&realm.create(&realm.alice, "networks", "network", json!({"name": "hidden"})));
    let hidden = json!({"network_id": hidden, "ip_version": 4, "cidr": "10.9.0.0/24"});
    let hidden = id(&realm.create(&realm.alice, "subnets", "subnet", hidden));
    let nobody = "5f8a1c4e-0000-4000-8000-000000000001";
    let [found, absent] = [hidden.as_str(), nobody].map(|subnet| {
        let new = json!({"floatingip": {"floating_network_id": external, "subnet_id": subnet}});
        let (status, kind, text) = realm.ask(&realm.bob, "POST", "floatingips", Some(new)).refusal();
        (status, kind, text.replace(subnet, "SUBNET"))
    });
    assert_eq!(found, absent);

    // OVN has no row of these requests, and bob's own port is unchanged.
    realm.cloud.converged();
    let rows = realm.cloud.rows("Logical_Router_Port");
    assert!(rows.is_empty(), "{rows:?}");
    let shown = realm.ask(&realm.bob, "GET", &path, None);
    assert_eq!(shown.body["port"]["name"], "his");
    let ports = realm.ask(&realm.bob, "GET", "ports?fields=id", None).body;
    assert_eq!(ports["ports"], json!([{ "id": his }]));
}
