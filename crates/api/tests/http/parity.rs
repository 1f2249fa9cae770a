//! Requests that Meridian and Neutron 29 once answered differently. Each row has Neutron's answer.

use serde_json::{Value, json};

use crate::server::{Got, Server};

fn kind(got: &Got) -> &str {
    got.body["NeutronError"]["type"].as_str().unwrap_or_default()
}

async fn subnet(server: &Server, network: &str, more: Value) -> Got {
    let mut body = json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"});
    more.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
    server.ask("POST", "/v2.0/subnets", json!({"subnet": body})).await
}

#[tokio::test]
async fn ports() {
    let server = Server::open().await;
    let network = server.make("network", "networks", json!({})).await;
    assert_eq!(subnet(&server, &network, json!({})).await.status, 201);
    let create = async |more: Value| {
        let mut body = json!({"network_id": network});
        more.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        server.ask("POST", "/v2.0/ports", json!({"port": body})).await
    };
    let port = create(json!({})).await.body["port"].clone();
    let path = format!("/v2.0/ports/{}", port["id"].as_str().unwrap());
    let taken = server.ask("PUT", &path, json!({"port": {"fixed_ips": null}})).await;
    assert_eq!(taken.status, 400, "{}", taken.body);
    assert_eq!(
        server.get(&path).await.body["port"]["fixed_ips"],
        port["fixed_ips"],
        "nothing was taken away"
    );
    assert_eq!(create(json!({"security_groups": null})).await.body["port"]["security_groups"], json!([]));
    let dashes = create(json!({"mac_address": "02-ab-cd-00-00-02"})).await;
    assert_eq!(dashes.body["port"]["mac_address"], "02:ab:cd:00:00:02", "{}", dashes.body);
    let option = json!({"extra_dhcp_opts": [{"opt_name": "mtu"}]});
    assert_eq!(create(option).await.status, 400);
    // Neutron's own client tests send this value. It has no effect on OVN, because the address is of the other family.
    let other_family =
        json!({"extra_dhcp_opts": [{"opt_name": "server-ip-address", "opt_value": "2015::badd"}]});
    assert_eq!(create(other_family).await.status, 201);
    let bindings = server.ask("POST", &format!("{path}/bindings"), json!({"binding": {"host": "h"}})).await;
    assert_eq!((bindings.status, kind(&bindings)), (400, "BadRequest"), "no instance's port");
}

#[tokio::test]
async fn types_of_errors() {
    let server = Server::open().await;
    let group = server.make("security_group", "security-groups", json!({"name": "a"})).await;
    let rule = json!({"security_group_id": group, "direction": "ingress", "protocol": "tcp", "port_range_min": -1, "port_range_max": 9});
    for (path, body, expected) in [
        ("networks", json!({"network": {"admin_state_up": "maybe"}}), "InvalidInput"),
        ("routers", json!({"router": {"admin_state_up": null}}), "InvalidInput"),
        ("networks", json!({"network": {"name": null}}), "HTTPBadRequest"),
        ("security-group-rules", json!({"security_group_rule": rule}), "SecurityGroupInvalidPortValue"),
    ] {
        let got = server.ask("POST", &format!("/v2.0/{path}"), body).await;
        assert_eq!((got.status, kind(&got)), (400, expected), "{}", got.body);
    }
    let got = server.get("/v2.0/networks?limit=-1").await;
    assert_eq!((got.status, kind(&got)), (400, "BadRequest"), "{}", got.body);
}

#[tokio::test]
async fn null_clears_lists() {
    let server = Server::open().await;
    let network = server.make("network", "networks", json!({})).await;
    let full = json!({
        "dns_nameservers": ["192.0.2.53"], "service_types": ["compute:nova"],
        "host_routes": [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}],
    });
    let subnet = subnet(&server, &network, full).await.body["subnet"]["id"].as_str().unwrap().to_owned();
    let pair = json!([{"ip_address": "192.0.2.7"}]);
    let option = json!([{"opt_name": "mtu", "opt_value": "1400"}]);
    let port = json!({
        "network_id": network, "device_owner": "compute:nova", "allowed_address_pairs": pair, "extra_dhcp_opts": option,
    });
    let port = server.make("port", "ports", port).await;
    let router = server.make("router", "routers", json!({"name": "r"})).await;
    for (noun, id, attribute) in [
        ("subnet", &subnet, "dns_nameservers"),
        ("subnet", &subnet, "service_types"),
        ("subnet", &subnet, "host_routes"),
        ("port", &port, "allowed_address_pairs"),
        ("port", &port, "security_groups"),
        ("router", &router, "routes"),
    ] {
        let got = server.ask("PUT", &format!("/v2.0/{noun}s/{id}"), json!({noun: {attribute: null}})).await;
        assert_eq!((got.status, &got.body[noun][attribute]), (200, &json!([])), "{attribute}: {}", got.body);
    }
}

#[tokio::test]
async fn security_groups() {
    let server = Server::open().await;
    let network = server.make("network", "networks", json!({})).await;
    let stateful = server.make("security_group", "security-groups", json!({"name": "a"})).await;
    let stateless =
        server.make("security_group", "security-groups", json!({"name": "b", "stateful": false})).await;
    for (groups, status) in
        [(json!([stateful, stateful]), 400), (json!([stateful, stateless]), 409), (json!([stateless]), 201)]
    {
        let body = json!({"port": {"network_id": network, "security_groups": groups}});
        let got = server.ask("POST", "/v2.0/ports", body).await;
        assert_eq!(got.status, status, "{groups}: {}", got.body);
    }
    // The automatically created default group does not count in the quota; the rules of a group do.
    let limits = json!({"quota": {"security_group": 1, "security_group_rule": 6}});
    assert_eq!(server.ask("PUT", "/v2.0/quotas/q", limits).await.status, 200);
    let create = async |project: &str| {
        let body = json!({"security_group": {"name": "first", "project_id": project}});
        server.ask("POST", "/v2.0/security-groups", body).await
    };
    assert_eq!(create("q").await.status, 201);
    let second = create("q").await;
    assert_eq!((second.status, kind(&second)), (409, "OverQuota"));
    let limits = json!({"quota": {"security_group": 5, "security_group_rule": 5}});
    assert_eq!(server.ask("PUT", "/v2.0/quotas/r", limits).await.status, 200);
    let rules = create("r").await;
    assert_eq!(
        (rules.status, kind(&rules)),
        (409, "OverQuota"),
        "four of the default group and two of its own"
    );
}

#[tokio::test]
async fn subnets() {
    let server = Server::open().await;
    let network = server.make("network", "networks", json!({})).await;
    let empty = subnet(&server, &network, json!({"allocation_pools": [], "service_types": null})).await;
    let shown = &empty.body["subnet"];
    assert_eq!(
        shown["allocation_pools"],
        json!([{"start": "10.0.0.2", "end": "10.0.0.254"}]),
        "{}",
        empty.body
    );
    assert_eq!(shown["service_types"], json!([]));
    let v6 = json!({"ip_version": 6, "cidr": "fd00:1::/64"});
    let v6 = subnet(&server, &network, v6).await.body["subnet"].clone();
    assert_eq!(
        (&v6["gateway_ip"], &v6["allocation_pools"][0]["start"]),
        (&json!("fd00:1::"), &json!("fd00:1::1"))
    );
    let pool = json!({
        "ip_version": 6, "cidr": "fd00:2::/64",
        "allocation_pools": [{"start": "fd00:2::1", "end": "fd00:2::9"}],
    });
    assert_eq!(subnet(&server, &network, pool).await.status, 201);
    let bogus = json!({"cidr": "10.1.0.0/24", "service_types": ["bogus:owner"]});
    assert_eq!(subnet(&server, &network, bogus).await.status, 400);
    let shared = server.make("network", "networks", json!({"shared": true})).await;
    let on_shared = subnet(&server, &shared, json!({})).await.body["subnet"]["id"].clone();
    let listed = server.get("/v2.0/subnets?shared=True").await.body["subnets"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!((&listed[0]["id"], &listed[0]["shared"]), (&on_shared, &Value::Null), "only a filter");
    for (mtu, version, cidr) in [(67, 4, "10.0.0.0/24"), (1279, 6, "fd00:3::/64")] {
        let small = server.make("network", "networks", json!({"mtu": mtu})).await;
        let got = subnet(&server, &small, json!({"ip_version": version, "cidr": cidr})).await;
        assert_eq!((got.status, kind(&got)), (409, "NetworkMTUSubnetConflict"), "{mtu}");
        let path = format!("/v2.0/networks/{small}");
        assert_eq!(server.ask("PUT", &path, json!({"network": {"mtu": 1400}})).await.status, 200);
        assert_eq!(subnet(&server, &small, json!({"ip_version": version, "cidr": cidr})).await.status, 201);
        let again =
            server.ask("PUT", &format!("/v2.0/networks/{small}"), json!({"network": {"mtu": mtu}})).await;
        assert_eq!((again.status, kind(&again)), (409, "NetworkMTUSubnetConflict"), "{mtu}");
    }
}

#[tokio::test]
async fn external_networks() {
    let server = Server::open().await;
    let external = json!({"router:external": true, "is_default": true});
    let network = server.make("network", "networks", external).await;
    assert_eq!(subnet(&server, &network, json!({"cidr": "192.0.2.0/24"})).await.status, 201);
    let path = format!("/v2.0/networks/{network}");
    let policies = format!("/v2.0/rbac-policies?object_id={network}");
    let wildcard = server.get(&policies).await.body["rbac_policies"][0]["id"].as_str().unwrap().to_owned();
    let kept = server.request("DELETE", &format!("/v2.0/rbac-policies/{wildcard}"));
    let kept = server.send(kept).await;
    assert_eq!((kept.status, kind(&kept)), (409, "RbacPolicyInUse"), "the default external network");
    let revision = server.get(&path).await.body["network"]["revision_number"].as_u64().unwrap();
    let policy = json!({
        "object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": "q",
    });
    server.make("rbac_policy", "rbac-policies", policy).await;
    let raised = server.get(&path).await.body["network"]["revision_number"].as_u64().unwrap();
    assert!(raised > revision, "a policy is part of what clients know of a network");
    let bad = json!({"floatingip": {"floating_network_id": network, "dns_domain": "no-dot"}});
    assert_eq!(server.ask("POST", "/v2.0/floatingips", bad).await.status, 400);
    let floating = server.make("floatingip", "floatingips", json!({"floating_network_id": network})).await;
    let gone = server.send(server.request("DELETE", &path)).await;
    assert_eq!(gone.status, 204, "{}", gone.body);
    assert_eq!(
        server.get(&format!("/v2.0/floatingips/{floating}")).await.status,
        404,
        "it went with its network"
    );
}

#[tokio::test]
async fn labels_conditions_and_pools() {
    let server = Server::open().await;
    let network = server.make("network", "networks", json!({"tags": ["a,b"]})).await;
    let path = format!("/v2.0/networks/{network}");
    assert_eq!(server.get(&path).await.body["network"]["tags"], json!(["a,b"]));
    for (condition, status) in [
        ("revision_number=-1", 412),
        ("revision_number=x", 400),
        ("revision_number=0,revision_number=1", 400),
        ("", 200),
        ("*", 200),
        ("5", 200),
    ] {
        let change = server.request("PUT", &path).header("If-Match", condition);
        let got = server.send(change.json(&json!({"network": {"name": "x"}}))).await;
        assert_eq!(got.status, status, "{condition:?}: {}", got.body);
    }
    let pool = json!({"subnetpool": {"name": "p", "prefixes": ["10.8.0.0/16"], "min_prefixlen": 24}});
    let pool = server.ask("POST", "/v2.0/subnetpools", pool).await.body["subnetpool"].clone();
    assert_eq!(pool["min_prefixlen"], "24", "Neutron's answers have texts here");
    for path in ["floatingip_pools", "floatingip-pools", "security-groups", "security_groups"] {
        assert_eq!(server.get(&format!("/v2.0/{path}")).await.status, 200, "{path}");
    }
    assert_eq!(server.get("/v2.0/security.groups").await.status, 404);
}
