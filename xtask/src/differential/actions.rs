//! The requests that neither create nor change nor delete an object, and the questions of lists. Their values are those of
//! [`grammar`](super::grammar).

/// A request about an object that is not its creation, update or deletion.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) kind: &'static str,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) bodies: &'static [&'static str],
}

pub(super) const ACTIONS: &[Action] = &[
    Action {
        kind: "router",
        method: "PUT",
        path: "add_router_interface",
        bodies: &[
            r#"{"subnet_id": "$subnet"}"#,
            r#"{"subnet_id": "$subnet"}"#,
            r#"{"port_id": "$port"}"#,
            r#"{"subnet_id": "$subnet", "port_id": "$port"}"#,
            r#"{"subnet_id": "bogus"}"#,
            "{}",
        ],
    },
    Action {
        kind: "router",
        method: "PUT",
        path: "remove_router_interface",
        bodies: &[r#"{"subnet_id": "$subnet"}"#, r#"{"port_id": "$port"}"#, "{}"],
    },
    Action {
        kind: "router",
        method: "PUT",
        path: "add_external_gateways",
        bodies: &[
            r#"{"router": {"external_gateways": [{"network_id": "$external"}]}}"#,
            r#"{"router": {"external_gateways": [{"network_id": "$external", "enable_snat": false}]}}"#,
            r#"{"router": {"external_gateways": [{"network_id": "$external", "external_fixed_ips": [{"ip_address": "10.250.0.$octet"}]}]}}"#,
            r#"{"router": {"external_gateways": []}}"#,
            r#"{"router": {}}"#,
        ],
    },
    Action {
        kind: "router",
        method: "PUT",
        path: "update_external_gateways",
        bodies: &[
            r#"{"router": {"external_gateways": [{"network_id": "$external"}]}}"#,
            r#"{"router": {"external_gateways": [{"network_id": "$external", "enable_snat": false}]}}"#,
            r#"{"router": {"external_gateways": []}}"#,
        ],
    },
    Action {
        kind: "router",
        method: "PUT",
        path: "remove_external_gateways",
        bodies: &[
            r#"{"router": {"external_gateways": [{"network_id": "$external"}]}}"#,
            r#"{"router": {"external_gateways": [{}]}}"#,
        ],
    },
    Action {
        kind: "router",
        method: "PUT",
        path: "add_extraroutes",
        bodies: &[
            r#"{"router": {"routes": [{"destination": "192.0.2.0/24", "nexthop": "10.251.0.240"}]}}"#,
            r#"{"router": {"routes": [{"destination": "198.51.100.0/24", "nexthop": "192.0.2.1"}]}}"#,
            r#"{"router": {"routes": []}}"#,
        ],
    },
    Action {
        kind: "router",
        method: "PUT",
        path: "remove_extraroutes",
        bodies: &[
            r#"{"router": {"routes": [{"destination": "192.0.2.0/24", "nexthop": "10.251.0.240"}]}}"#,
            r#"{"router": {"routes": [{"destination": "203.0.113.0/24", "nexthop": "192.0.2.1"}]}}"#,
        ],
    },
    Action {
        kind: "network",
        method: "PUT",
        path: "tags",
        bodies: &[
            r#"{"tags": ["a", "b"]}"#,
            r#"{"tags": ["a", "a"]}"#,
            r#"{"tags": []}"#,
            r#"{"tags": "a"}"#,
            r#"{"tags": [7]}"#,
        ],
    },
    Action { kind: "port", method: "PUT", path: "tags/red", bodies: &[] },
    Action { kind: "port", method: "DELETE", path: "tags/red", bodies: &[] },
    Action { kind: "subnet", method: "GET", path: "tags", bodies: &[] },
    Action { kind: "router", method: "DELETE", path: "tags", bodies: &[] },
];

pub(super) const QUERIES: &[&str] = &[
    "name=web",
    "fields=id&fields=name",
    "fields=bogus",
    "project_id=$own_project",
    "project_id=$other_project",
    "shared=true",
    "shared=false",
    "router:external=true",
    "admin_state_up=false",
    "network_id=$network",
    "id=$port&id=$port",
    "id=bogus",
    "device_owner=compute:nova",
    "device_owner=network:router_interface",
    "fixed_ips=subnet_id%3D$subnet",
    "tags=a",
    "not-tags=a",
    "tags-any=a,b",
    "sort_key=id&sort_dir=asc",
    "sort_key=bogus",
    "sort_key=name&sort_dir=sideways",
    "limit=-1",
    "limit=x",
    "bogus=1",
    "description=",
    "ip_version=4",
    "security_group_id=$security_group",
    "direction=ingress",
];
