//! A Northbound as Neutron's OVN driver wrote it before 2026: the same names and keys as Meridian's, random UUIDs, and `Gateway_Chassis`
//! rows for the chassis of gateways. The rows of today's Neutron are recorded, see `recorded`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::cloud::Cloud;

/// The chassis of every gateway; the first one hosts it.
pub(crate) const ORDER: [&str; 3] = ["ch2", "ch3", "ch1"];

/// The operations of one transaction.
struct Rows {
    ops: Vec<Value>,
}

impl Rows {
    /// Adds a row; returns the reference to it for other rows of the transaction.
    fn add(&mut self, table: &str, row: Value) -> Value {
        let name = format!("row{}", self.ops.len());
        self.ops.push(json!({"op": "insert", "table": table, "uuid-name": name, "row": row}));
        json!(["named-uuid", name])
    }
}

fn set(items: impl IntoIterator<Item = Value>) -> Value {
    json!(["set", items.into_iter().collect::<Vec<_>>()])
}

fn map<V: ToString>(pairs: impl IntoIterator<Item = (&'static str, V)>) -> Value {
    json!(["map", pairs.into_iter().map(|(key, value)| json!([key, value.to_string()])).collect::<Vec<_>>()])
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Writes the rows that Neutron would have written for the objects of a cloud, and rows of other programs.
pub(crate) fn write(source: &Cloud, ovn: &Path) {
    let list =
        |path: &str| -> Vec<Value> { source.get(path)[path.replace('-', "_")].as_array().unwrap().clone() };
    let (networks, subnets, ports) = (list("networks"), list("subnets"), list("ports"));
    let mut rows = Rows { ops: Vec::new() };
    let dhcp = dhcp(&mut rows, &subnets);
    let balancer = rows.add(
        "Load_Balancer",
        json!({"name": "octavia-lb", "vips": map([("192.0.2.50:80", "10.0.0.5:80")]),
               "external_ids": map([("neutron:vip", "192.0.2.50"), ("enabled", "True")])}),
    );
    let mut switch_ports = BTreeMap::new();
    for network in &networks {
        let mine: Vec<&Value> = ports
            .iter()
            .filter(|port| {
                port["network_id"] == network["id"] && port["device_owner"] != "network:floatingip"
            })
            .collect();
        let mut members: Vec<Value> = mine
            .iter()
            .map(|port| {
                let row = rows.add("Logical_Switch_Port", switch_port(port, &dhcp));
                switch_ports.insert(text(&port["id"]), row.clone());
                row
            })
            .collect();
        if let Some(physical) = network["provider:physical_network"].as_str() {
            members.push(rows.add(
                "Logical_Switch_Port",
                json!({"name": format!("provnet-{}", uuid()), "type": "localnet", "addresses": "unknown",
                       "options": map([("network_name", physical), ("mcast_flood", "false"),
                                       ("mcast_flood_reports", "true")])}),
            ));
        }
        rows.add(
            "Logical_Switch",
            json!({"name": format!("neutron-{}", text(&network["id"])), "ports": set(members),
                   "load_balancer": balancer,
                   "other_config": map([("mcast_snoop", "false"), ("mcast_flood_unregistered", "false"),
                                        ("vlan-passthru", "false")]),
                   "external_ids": map([("neutron:network_name", text(&network["name"])),
                                        ("neutron:mtu", text(&network["mtu"])),
                                        ("neutron:revision_number", text(&network["revision_number"])),
                                        ("neutron:availability_zone_hints", String::new())])}),
        );
    }
    for router in list("routers") {
        self::router(&mut rows, &router, &ports, &subnets, &list("floatingips"), &balancer);
    }
    groups(&mut rows, &list("security-groups"), &ports, &switch_ports);
    // Rows of a BGP agent and of an operator.
    let leak = rows.add(
        "Logical_Router_Static_Route",
        json!({"ip_prefix": "10.0.0.0/24", "nexthop": "100.64.0.2", "external_ids": map([("bgp", "leak")])}),
    );
    rows.add(
        "Logical_Router",
        json!({"name": "bgp-router", "static_routes": leak, "external_ids": map([("bgp", "yes")])}),
    );
    transact(ovn, &rows.ops);
}

fn uuid() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    text.trim().to_owned()
}

fn dhcp(rows: &mut Rows, subnets: &[Value]) -> BTreeMap<String, Value> {
    let answered = subnets.iter().filter(|subnet| subnet["enable_dhcp"] == true);
    let row = |rows: &mut Rows, subnet: &Value| {
        rows.add(
            "DHCP_Options",
            json!({"cidr": subnet["cidr"],
                   "options": map([("server_id", text(&subnet["gateway_ip"])), ("server_mac", "fa:16:3e:11:22:33".to_owned()),
                                   ("lease_time", "43200".to_owned()), ("mtu", "1442".to_owned()),
                                   ("router", text(&subnet["gateway_ip"]))]),
                   "external_ids": map([("subnet_id", text(&subnet["id"])),
                                        ("neutron:revision_number", text(&subnet["revision_number"]))])}),
        )
    };
    answered.map(|subnet| (text(&subnet["id"]), row(rows, subnet))).collect()
}

fn switch_port(port: &Value, dhcp: &BTreeMap<String, Value>) -> Value {
    let id = text(&port["id"]);
    let owner = text(&port["device_owner"]);
    let addresses: Vec<String> =
        port["fixed_ips"].as_array().unwrap().iter().map(|fixed| text(&fixed["ip_address"])).collect();
    let whole = format!("{} {}", text(&port["mac_address"]), addresses.join(" "));
    let mut row = Map::from_iter([
        ("name".to_owned(), json!(id)),
        ("enabled".to_owned(), json!(true)),
        (
            "external_ids".to_owned(),
            map([
                ("neutron:port_name", text(&port["name"])),
                ("neutron:device_id", text(&port["device_id"])),
                ("neutron:device_owner", owner.clone()),
                ("neutron:project_id", text(&port["project_id"])),
                ("neutron:network_name", format!("neutron-{}", text(&port["network_id"]))),
                ("neutron:revision_number", text(&port["revision_number"])),
                (
                    "neutron:cidrs",
                    addresses.iter().map(|ip| format!("{ip}/24")).collect::<Vec<_>>().join(" "),
                ),
            ]),
        ),
    ]);
    if owner.starts_with("network:router") {
        let mut options = vec![("router-port", format!("lrp-{id}"))];
        if owner == "network:router_gateway" {
            options.extend([
                ("nat-addresses", "router".to_owned()),
                ("exclude-lb-vips-from-garp", "true".to_owned()),
            ]);
        }
        row.insert("type".into(), json!("router"));
        row.insert("addresses".into(), json!("router"));
        row.insert("options".into(), map(options));
    } else {
        row.insert("addresses".into(), json!(whole));
        if owner == "network:distributed" {
            row.insert("type".into(), json!("localport"));
        } else {
            row.insert("port_security".into(), json!(whole));
            let subnet = text(&port["fixed_ips"][0]["subnet_id"]);
            row.extend(dhcp.get(&subnet).map(|options| ("dhcpv4_options".to_owned(), options.clone())));
        }
    }
    Value::Object(row)
}

fn router(
    rows: &mut Rows,
    router: &Value,
    ports: &[Value],
    subnets: &[Value],
    floating_ips: &[Value],
    balancer: &Value,
) {
    let id = text(&router["id"]);
    let subnet = |id: &Value| subnets.iter().find(|subnet| subnet["id"] == *id).unwrap();
    let (mut members, mut routes, mut nat) = (Vec::new(), Vec::new(), Vec::new());
    let mut first_gateway = None;
    let fixed = &router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"];
    for port in ports.iter().filter(|port| port["device_id"] == router["id"]) {
        let (port_id, address) = (text(&port["id"]), &port["fixed_ips"][0]);
        let gateway = port["device_owner"] == "network:router_gateway";
        let mut row = Map::from_iter([
            ("name".to_owned(), json!(format!("lrp-{port_id}"))),
            ("mac".to_owned(), port["mac_address"].clone()),
            ("networks".to_owned(), json!(format!("{}/24", text(&address["ip_address"])))),
            (
                "external_ids".to_owned(),
                map([
                    ("neutron:revision_number", text(&port["revision_number"])),
                    ("neutron:subnet_ids", text(&address["subnet_id"])),
                    ("neutron:network_name", format!("neutron-{}", text(&port["network_id"]))),
                    ("neutron:router_name", id.clone()),
                    ("neutron:is_ext_gw", if gateway { "True" } else { "False" }.to_owned()),
                ]),
            ),
        ]);
        if gateway {
            let chassis = (1..).zip(ORDER.iter().rev()).map(|(priority, name)| {
                rows.add(
                    "Gateway_Chassis",
                    json!({"name": format!("lrp-{port_id}_{name}"), "chassis_name": name, "priority": priority}),
                )
            });
            row.insert("gateway_chassis".into(), set(chassis.collect::<Vec<_>>()));
        }
        let member = rows.add("Logical_Router_Port", Value::Object(row));
        if gateway {
            let compatible = address["ip_address"] == *fixed;
            if compatible {
                first_gateway = Some(member.clone());
            }
            if compatible || router["enable_default_route_ecmp"] == true {
                let subnet = subnet(&address["subnet_id"]);
                routes.push(rows.add(
                    "Logical_Router_Static_Route",
                    json!({"ip_prefix": "0.0.0.0/0", "nexthop": subnet["gateway_ip"],
                           "external_ids": map([("neutron:is_ext_gw", "true".to_owned()),
                                                ("neutron:subnet_id", text(&subnet["id"]))])}),
                ));
            }
            if router["external_gateway_info"]["enable_snat"] == true {
                nat.push(rows.add(
                    "NAT",
                    json!({"type": "snat", "external_ip": address["ip_address"], "logical_ip": "0.0.0.0/0"}),
                ));
            }
        }
        members.push(member);
    }
    for route in router["routes"].as_array().unwrap() {
        routes.push(rows.add(
            "Logical_Router_Static_Route",
            json!({"ip_prefix": route["destination"], "nexthop": route["nexthop"]}),
        ));
    }
    for floating in floating_ips.iter().filter(|floating| floating["router_id"] == router["id"]) {
        let mut row = json!({
            "type": "dnat_and_snat", "external_ip": floating["floating_ip_address"],
            "logical_ip": floating["fixed_ip_address"], "logical_port": floating["port_id"],
            "options": map([("stateless", "false")]),
            "external_ids": map([("neutron:fip_id", text(&floating["id"])), ("neutron:fip_port_id", text(&floating["port_id"])),
                                 ("neutron:router_name", format!("neutron-{id}")),
                                 ("neutron:revision_number", text(&floating["revision_number"]))]),
        });
        row["gateway_port"] = first_gateway.clone().unwrap();
        nat.push(rows.add("NAT", row));
    }
    rows.add(
        "Logical_Router",
        json!({"name": format!("neutron-{id}"), "enabled": true, "ports": set(members), "static_routes": set(routes),
               "nat": set(nat), "load_balancer": balancer,
               "options": map([("always_learn_from_arp_request", "false"), ("dynamic_neigh_routers", "true"),
                               ("mac_binding_age_threshold", "300")]),
               "external_ids": map([("neutron:router_name", text(&router["name"])), ("neutron:gw_port_id", uuid()),
                                    ("neutron:revision_number", text(&router["revision_number"])),
                                    ("neutron:availability_zone_hints", String::new())])}),
    );
}

fn groups(rows: &mut Rows, groups: &[Value], ports: &[Value], switch_ports: &BTreeMap<String, Value>) {
    let in_group = |port: &&Value, group: &Value| port["security_groups"].as_array().unwrap().contains(group);
    for group in groups {
        let name = format!("pg_{}", text(&group["id"])).replace('-', "_");
        let acls: Vec<Value> = group["security_group_rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| {
                let (direction, side) = if rule["direction"] == "ingress" {
                    ("to-lport", "outport")
                } else {
                    ("from-lport", "inport")
                };
                let family = if rule["ethertype"] == "IPv4" { "ip4" } else { "ip6" };
                let remote = match rule["remote_group_id"].as_str() {
                    Some(id) => format!(" && {family}.src == $pg_{}_{family}", id.replace('-', "_")),
                    None => String::new(),
                };
                rows.add(
                    "ACL",
                    json!({"priority": 1002, "direction": direction, "action": "allow-related",
                           "match": format!("{side} == @{name} && {family}{remote}"),
                           "external_ids": map([("neutron:security_group_rule_id", text(&rule["id"]))])}),
                )
            })
            .collect();
        let members = ports.iter().filter(|port| in_group(port, &group["id"]));
        let members = members.map(|port| switch_ports[&text(&port["id"])].clone()).collect::<Vec<_>>();
        rows.add(
            "Port_Group",
            json!({"name": name, "acls": set(acls), "ports": set(members),
                   "external_ids": map([("neutron:security_group_id", text(&group["id"]))])}),
        );
    }
    let drops = [("to-lport", "outport"), ("from-lport", "inport")].map(|(direction, side)| {
        rows.add(
            "ACL",
            json!({"priority": 1001, "direction": direction, "action": "drop",
                   "match": format!("{side} == @neutron_pg_drop && ip")}),
        )
    });
    let secured = ports.iter().filter(|port| !port["security_groups"].as_array().unwrap().is_empty());
    let secured = secured.map(|port| switch_ports[&text(&port["id"])].clone()).collect::<Vec<_>>();
    rows.add("Port_Group", json!({"name": "neutron_pg_drop", "acls": set(drops), "ports": set(secured)}));
}

/// Commits all operations in one transaction.
fn transact(ovn: &Path, ops: &[Value]) {
    let mut all = vec![json!("OVN_Northbound")];
    all.extend(ops.iter().cloned());
    let out = Command::new(central::find_program("ovsdb-client").unwrap())
        .args(["transact", &format!("unix:{}/nb.sock", ovn.display()), &Value::Array(all).to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success() && !said.contains("\"error\""),
        "{said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
