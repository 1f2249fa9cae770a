//! The requests of the measurements, as users of a cloud send them.

use serde_json::{Value, json};

use super::load::Request;

/// The project of every caller of a server without credentials.
const PROJECT: &str = "fake_project_id";

/// The external networks: a name, a physical network, and enough addresses for the gateways of any measurement.
pub(super) const EXTERNAL: [(&str, &str, &str); 3] =
    [("N1", "phy1", "172.16.0.0/16"), ("N2", "phy2", "172.17.0.0/16"), ("N3", "phy3", "172.18.0.0/16")];

fn request(method: &'static str, path: String, body: &Value) -> Request {
    (method, format!("/v2.0/{path}"), Some(body.to_string()))
}

/// Lifts all quotas that the measurements would reach.
pub(super) fn no_quota() -> Request {
    let kinds = ["network", "subnet", "port", "router", "security_group", "security_group_rule"];
    let quota: Value = kinds.iter().map(|kind| ((*kind).to_owned(), json!(-1))).collect();
    request("PUT", format!("quotas/{PROJECT}"), &json!({ "quota": quota }))
}

/// An external network.
pub(super) fn external(n: usize) -> Request {
    let (name, physical, _) = EXTERNAL[n];
    let body = json!({"network": {
        "name": name, "router:external": true, "provider:network_type": "flat", "provider:physical_network": physical,
    }});
    request("POST", "networks".into(), &body)
}

/// The subnet of an external network.
pub(super) fn external_subnet(n: usize, network: &str) -> Request {
    let body = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": EXTERNAL[n].2, "enable_dhcp": false}});
    request("POST", "subnets".into(), &body)
}

/// A network.
pub(super) fn network(n: usize) -> Request {
    request("POST", "networks".into(), &json!({"network": {"name": format!("net{n}")}}))
}

/// A subnet with room for 65,000 ports.
pub(super) fn subnet(n: usize, network: &str) -> Request {
    let body =
        json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": format!("10.{}.0.0/16", n % 256)}});
    request("POST", "subnets".into(), &body)
}

/// A subnet with room for 250 ports, one of 65,000 that do not overlap.
pub(super) fn small_subnet(n: usize, network: &str) -> Value {
    json!({"network_id": network, "ip_version": 4, "cidr": format!("10.{}.{}.0/24", n / 256, n % 256)})
}

fn port_of(n: usize, network: &str) -> Value {
    json!({"network_id": network, "name": format!("port{n}"), "device_owner": "compute:nova", "device_id": format!("vm{n}")})
}

/// A port.
pub(super) fn port(n: usize, network: &str) -> Request {
    request("POST", "ports".into(), &json!({ "port": port_of(n, network) }))
}

/// Several ports in one request.
pub(super) fn ports(numbers: std::ops::Range<usize>, network: &str) -> Request {
    let all: Vec<_> = numbers.map(|n| port_of(n, network)).collect();
    request("POST", "ports".into(), &json!({ "ports": all }))
}

/// Several objects of one noun in one request.
pub(super) fn many(path: &'static str, objects: &[Value]) -> Request {
    request("POST", path.into(), &json!({ path: objects }))
}

/// A router.
pub(super) fn router(n: usize) -> Request {
    request("POST", "routers".into(), &json!({ "router": router_of(n) }))
}

/// The attributes of a router: both flags, so that each gateway has routes and BFD sessions.
pub(super) fn router_of(n: usize) -> Value {
    json!({"name": format!("router{n}"), "enable_default_route_ecmp": true, "enable_default_route_bfd": true})
}

/// An interface of a router.
pub(super) fn interface(router: &str, subnet: &str) -> Request {
    request("PUT", format!("routers/{router}/add_router_interface"), &json!({ "subnet_id": subnet }))
}

/// Gateways of a router, one on each network.
pub(super) fn gateways(router: &str, networks: &[String]) -> Request {
    let elements: Vec<_> = networks.iter().map(|network| json!({ "network_id": network })).collect();
    let body = json!({"router": {"external_gateways": elements}});
    request("PUT", format!("routers/{router}/add_external_gateways"), &body)
}

/// Changes a router.
pub(super) fn change_router(router: &str, attributes: &Value) -> Request {
    request("PUT", format!("routers/{router}"), &json!({ "router": attributes }))
}

/// One object, or a list.
pub(super) fn get(path: &str) -> Request {
    ("GET", format!("/v2.0/{path}"), None)
}

/// The same, answered only when the Northbound has it.
pub(super) fn seen((method, path, body): Request) -> Request {
    (method, format!("{path}?wait=ovn"), body)
}

/// A change that is answered only when the Northbound has everything up to it. It is of nothing that is in there.
pub(super) fn barrier(n: usize) -> Request {
    request("PUT", "quotas/barrier?wait=ovn".into(), &json!({"quota": {"network": n}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_subnets_do_not_overlap() {
        let cidr = |n| small_subnet(n, "x")["cidr"].as_str().unwrap().to_owned();
        let all: std::collections::BTreeSet<_> = (0..65_536).map(cidr).collect();
        assert_eq!(all.len(), 65_536);
    }

    #[test]
    fn paths_are_those_of_the_api() {
        let (method, path, body) = ports(3..5, "n");
        assert_eq!((method, path.as_str()), ("POST", "/v2.0/ports"));
        let body: Value = serde_json::from_str(&body.unwrap()).unwrap();
        assert_eq!(body["ports"][1]["name"], "port4");
        assert_eq!(get("ports/x"), ("GET", "/v2.0/ports/x".to_owned(), None));
    }
}
