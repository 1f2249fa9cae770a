//! Requests that pass the rules must not fail in the database of either engine.

use serde_json::{Value, json};

use crate::server::{Got, Server};

const NOBODY: &str = "5f8a1c4e-0000-4000-8000-000000000001";

/// Checks that a request is refused and that the server still answers afterwards.
async fn refused(server: &Server, (method, path): (&str, &str), body: Value, want: (u16, &str)) {
    let got = server.ask(method, path, body).await;
    assert_eq!((got.refusal().0, got.refusal().1), want, "{method} {path}: {}", got.body);
}

async fn done(server: &Server, method: &str, path: &str, body: Value) -> Got {
    let got = server.ask(method, path, body).await;
    assert!(got.status < 300, "{method} {path}: {}", got.body);
    got
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_router_that_is_not_there_is_refused() {
    for server in Server::both().await {
        let network = server.make("network", "networks", json!({})).await;
        let plain = server.make("port", "ports", json!({"network_id": network})).await;
        for owner in ["network:router_interface", "network:router_gateway"] {
            for device in [NOBODY.to_owned(), NOBODY.replace('-', ""), NOBODY.to_uppercase()] {
                let posed = json!({"device_owner": owner, "device_id": device});
                let mut new = posed.clone();
                new["network_id"] = json!(network);
                let want = (400, "BadRequest");
                refused(&server, ("POST", "/v2.0/ports"), json!({"port": new}), want).await;
                let path = format!("/v2.0/ports/{plain}");
                refused(&server, ("PUT", &path), json!({"port": posed}), want).await;
                // The same in two requests.
                done(&server, "PUT", &path, json!({"port": {"device_id": device}})).await;
                refused(&server, ("PUT", &path), json!({"port": {"device_owner": owner}}), want).await;
                done(&server, "PUT", &path, json!({"port": {"device_id": ""}})).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floating_ips_and_the_ports_they_hang_on() {
    for server in Server::both().await {
        let prefix =
            |network: &str, cidr: &str| json!({"network_id": network, "ip_version": 4, "cidr": cidr});
        let external = server.make("network", "networks", json!({"router:external": true})).await;
        server.make("subnet", "subnets", prefix(&external, "192.0.2.0/24")).await;
        let network = server.make("network", "networks", json!({})).await;
        let subnet = server.make("subnet", "subnets", prefix(&network, "10.0.0.0/24")).await;
        let gateway = json!({"external_gateway_info": {"network_id": external}});
        let router = server.make("router", "routers", gateway).await;
        let attach = format!("/v2.0/routers/{router}/add_router_interface");
        done(&server, "PUT", &attach, json!({"subnet_id": subnet})).await;
        // A port that leads to an interface of a router that is being deleted.
        let other = server.make("router", "routers", json!({})).await;
        let port = server.make("port", "ports", json!({"network_id": network})).await;
        let of_other = |verb: &str| format!("/v2.0/routers/{other}/{verb}_router_interface");
        done(&server, "PUT", &of_other("add"), json!({"port_id": port})).await;
        let body = json!({"floating_network_id": external, "port_id": port});
        let floating = server.make("floatingip", "floatingips", body).await;
        done(&server, "PUT", &of_other("remove"), json!({"port_id": port})).await;
        let shown = server.get(&format!("/v2.0/floatingips/{floating}")).await.body["floatingip"].clone();
        assert!(shown["port_id"].is_null() && shown["router_id"].is_null(), "{shown}");
        // The port of a floating IP keeps its address, because other objects repeat it.
        let held = server.get("/v2.0/ports?device_owner=network:floatingip").await;
        let held = held.body["ports"][0]["id"].as_str().unwrap().to_owned();
        let away = json!({"port": {"fixed_ips": [{"ip_address": "192.0.2.99"}]}});
        refused(&server, ("PUT", &format!("/v2.0/ports/{held}")), away, (409, "ServicePortInUse")).await;
        for _ in 0..3 {
            server.make("floatingip", "floatingips", json!({"floating_network_id": external})).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nul_characters_go_nowhere() {
    for server in Server::both().await {
        let network = server.make("network", "networks", json!({})).await;
        let port = json!({"network_id": network, "device_owner": "compute:nova"});
        let port = server.make("port", "ports", port).await;
        let wrong = (400, "HTTPBadRequest");
        let limits = json!({"quota": {"port": 5}});
        refused(&server, ("PUT", "/v2.0/quotas/%00"), limits.clone(), wrong).await;
        refused(&server, ("PUT", "/v2.0/quotas/a%00b"), limits.clone(), wrong).await;
        refused(&server, ("PUT", &format!("/v2.0/quotas/{}", "x".repeat(256))), limits, wrong).await;
        let path = format!("/v2.0/ports/{port}");
        for profile in [json!({"a": "\0"}), json!({"a": [{"\0": 1}]}), json!({"parent_name": "x\0"})] {
            let body = json!({"port": {"binding:profile": profile}});
            refused(&server, ("PUT", &path), body, wrong).await;
            let body = json!({"binding": {"host": "h", "profile": profile}});
            refused(&server, ("POST", &format!("{path}/bindings")), body, wrong).await;
        }
        let body = json!({"binding": {"host": "h\0"}});
        refused(&server, ("POST", &format!("{path}/bindings")), body, wrong).await;
        refused(&server, ("PUT", &format!("{path}/tags/%00")), Value::Null, wrong).await;
        for (method, path) in [
            ("GET", "/v2.0/quotas/%00"),
            ("DELETE", "/v2.0/quotas/%00"),
            ("GET", "/v2.0/quotas/%00/details"),
            ("GET", "/v2.0/ports/%00"),
            ("DELETE", "/v2.0/ports/%00"),
            ("GET", "/v2.0/ports?name=%00&device_id=%00&fixed_ips=ip_address%3D%00&marker=%00&limit=1"),
            ("GET", "/v2.0/ports?network_id=%00&security_groups=%00"),
            ("GET", "/v2.0/networks?tags=%00&name=%00&project_id=%00&fields=%00"),
            ("GET", "/v2.0/agents/%00"),
            ("DELETE", "/v2.0/agents/%00"),
            ("GET", "/v2.0/availability_zones?name=%00"),
            ("GET", "/v2.0/network-ip-availabilities?network_name=%00"),
            ("GET", "/v2.0/extensions/%00"),
        ] {
            let got = server.send(server.request(method, path)).await;
            assert!(got.status < 500, "{method} {path}: {}", got.body);
        }
        for (method, rest) in [
            ("GET", "tags/%00"),
            ("DELETE", "tags/%00"),
            ("GET", "bindings/%00"),
            ("PUT", "bindings/%00/activate"),
            ("DELETE", "bindings/%00"),
        ] {
            let got = server.send(server.request(method, &format!("{path}/{rest}"))).await;
            assert_eq!(got.status, 404, "{method} {rest}: {}", got.body);
        }
        assert_eq!(server.get(&path).await.status, 200, "it goes on");
    }
}

#[tokio::test]
async fn a_label_may_end_like_a_file() {
    let server = Server::open().await;
    let network = server.make("network", "networks", json!({})).await;
    let path = format!("/v2.0/networks/{network}/tags");
    assert_eq!(server.send(server.request("PUT", &format!("{path}/a.json"))).await.status, 201);
    assert_eq!(server.get(&format!("{path}.json")).await.body, json!({"tags": ["a.json"]}));
}
