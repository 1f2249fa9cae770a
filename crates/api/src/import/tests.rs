//! Tests which parts of an API's documents and of a Northbound an import reads.

use std::sync::Arc;
use std::time::SystemTime;

use ovn::target::{SnapshotView, Tables};
use ovsdb::replica::{Replica, UpdateVersion};
use ovsdb::wire::DatabaseSchema;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::model::{FloatingIp, Port, Router, SubnetPool};
use crate::world::Table;

const SCHEMA: &str = include_str!("../../../ovn/testdata/schema/ovn-nb-23.03.json");

pub(super) const NET: Uuid = Uuid::from_u128(0x10);
pub(super) const SUBNET: Uuid = Uuid::from_u128(0x20);
const ROUTER: Uuid = Uuid::from_u128(0x30);
const GROUP: Uuid = Uuid::from_u128(0x40);

fn port_id(n: u128) -> Uuid {
    Uuid::from_u128(0x100 + n)
}

pub(super) fn network(id: Uuid) -> Value {
    json!({"id": id, "tenant_id": "p", "project_id": "p", "name": "n", "admin_state_up": true, "router:external": true,
           "provider:network_type": "flat", "provider:physical_network": "phy", "provider:segmentation_id": null,
           "mtu": 1500, "revision_number": 3, "created_at": "2024-01-02T03:04:05Z", "updated_at": "2024-02-02T03:04:05Z",
           "description": "", "tags": ["a"], "availability_zone_hints": [], "qos_policy_id": null})
}

pub(super) fn subnet(id: Uuid, network: Uuid, cidr: &str) -> Value {
    let gateway: ipnet::IpNet = cidr.parse().unwrap();
    json!({"id": id, "tenant_id": "p", "network_id": network, "cidr": cidr, "gateway_ip": gateway.hosts().next(),
           "enable_dhcp": false, "allocation_pools": [], "dns_nameservers": [], "host_routes": [],
           "ipv6_ra_mode": null, "ipv6_address_mode": null, "subnetpool_id": null, "segment_id": null})
}

/// A port of the router, or one without a device.
pub(super) fn port(n: u128, address: &str, owner: &str) -> Value {
    let device = if owner.contains("router") { ROUTER.to_string() } else { String::new() };
    json!({"id": port_id(n), "tenant_id": "", "network_id": NET, "admin_state_up": true,
           "mac_address": format!("fa:16:3e:00:00:{n:02x}"), "device_owner": owner, "device_id": device,
           "fixed_ips": [{"subnet_id": SUBNET, "ip_address": address}], "security_groups": [],
           "allowed_address_pairs": [], "extra_dhcp_opts": [], "binding:host_id": "", "binding:profile": {},
           "binding:vif_type": "unbound", "binding:vnic_type": "normal"})
}

fn router(gateways: &[&str]) -> Value {
    let shown = |ip: &&str| {
        json!({"network_id": NET, "enable_snat": true,
                                   "external_fixed_ips": [{"subnet_id": SUBNET, "ip_address": ip}]})
    };
    let shown: Vec<Value> = gateways.iter().map(shown).collect();
    json!({"id": ROUTER, "tenant_id": "p", "name": "r", "admin_state_up": true, "routes": [],
           "external_gateway_info": shown.first(), "external_gateways": shown, "enable_default_route_ecmp": true})
}

fn document(parts: &[(&str, Vec<Value>)]) -> Document {
    let mut document = Document::of_network();
    parts.iter().for_each(|(collection, objects)| document.add(collection, objects.clone()));
    document
}

/// A router with two gateways on one subnet.
fn two_gateways() -> Document {
    document(&[
        ("networks", vec![network(NET)]),
        ("subnets", vec![subnet(SUBNET, NET, "192.0.2.0/24")]),
        ("routers", vec![router(&["192.0.2.12", "192.0.2.11"])]),
        (
            "ports",
            vec![
                port(1, "192.0.2.11", "network:router_gateway"),
                port(2, "192.0.2.12", "network:router_gateway"),
            ],
        ),
    ])
}

fn prepared(document: &Document, northbound: Option<&SnapshotView>, settings: &Settings) -> Takeover {
    prepare(document, northbound, settings, SystemTime::UNIX_EPOCH)
}

fn world(takeover: &Takeover) -> World {
    let mut world = World::default();
    let changes: Vec<Change> = takeover.rows.iter().cloned().map(Change::Put).collect();
    world.advance(Revision::default(), &changes);
    world
}

fn table<T: Entity>(world: &World) -> &Table<T> {
    world.table::<T>()
}

/// A Northbound with these rows.
pub(super) fn northbound(rows: &Value) -> SnapshotView {
    let tables = Tables::northbound();
    let schema = DatabaseSchema::parse(SCHEMA).unwrap();
    let mut replica = Replica::new(tables.model(None));
    replica.fit(&schema).unwrap();
    let initial = rows.as_object().unwrap().iter().map(|(table, rows)| {
        let rows = rows.as_object().unwrap().iter().map(|(id, row)| (id.clone(), json!({"initial": row})));
        (table.clone(), Value::Object(rows.collect()))
    });
    let text = Value::Object(initial.collect()).to_string();
    replica.reload(UpdateVersion::V2, &text).unwrap();
    SnapshotView::new(replica.snapshot(), Arc::new(schema), Arc::new(tables))
}

pub(super) fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(0xffff_0000 + n)
}

fn refer(rows: &[u128]) -> Value {
    json!(["set", rows.iter().map(|n| json!(["uuid", uuid(*n)])).collect::<Vec<_>>()])
}

#[test]
fn an_object_of_no_project_is_told() {
    let mut orphan = network(NET);
    (orphan["project_id"], orphan["tenant_id"]) = (json!(null), json!(""));
    let mut document = two_gateways();
    let notes = |document: &Document| prepared(document, None, &Settings::default()).notes;
    // Gateway ports have no project in any cloud.
    assert_eq!(notes(&document), Vec::<String>::new());
    document.add(
        "networks",
        vec![orphan.clone(), {
            orphan["id"] = json!(uuid(1));
            orphan
        }],
    );
    let expected = format!("The network {} belongs to no project", uuid(1));
    assert!(notes(&document).iter().any(|note| note.starts_with(&expected)), "{:?}", notes(&document));
}

#[test]
fn objects_that_cannot_be_stored_are_named_with_the_reason() {
    let (gre, routed, of_gre) = (Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(3));
    let mut bad_network = network(gre);
    bad_network["provider:network_type"] = json!("gre");
    let mut bad_subnet = subnet(routed, NET, "198.51.100.0/24");
    bad_subnet["segment_id"] = json!("x");
    let mut twin = port(9, "192.0.2.30", "compute:nova");
    twin["mac_address"] = json!("fa:16:3e:00:00:05");
    let mut stranger = port(6, "192.0.2.31", "compute:nova");
    stranger["security_groups"] = json!([Uuid::from_u128(0x99)]);
    let rule = json!({"id": Uuid::from_u128(4), "tenant_id": "p", "security_group_id": GROUP, "direction": "ingress",
                      "ethertype": "IPv4", "remote_address_group_id": Uuid::from_u128(0x98)});
    let document = document(&[
        ("networks", vec![network(NET), bad_network]),
        (
            "subnets",
            vec![subnet(SUBNET, NET, "192.0.2.0/24"), bad_subnet, subnet(of_gre, gre, "10.0.0.0/24")],
        ),
        ("security_groups", vec![json!({"id": GROUP, "tenant_id": "p", "name": "default"})]),
        ("security_group_rules", vec![rule]),
        ("ports", vec![port(5, "192.0.2.29", "compute:nova"), twin, stranger, json!({"id": port_id(7)})]),
        (
            "floatingips",
            vec![json!({"id": Uuid::from_u128(8), "tenant_id": "p", "floating_network_id": NET,
                        "floating_ip_address": "192.0.2.40"})],
        ),
    ]);
    let takeover = prepared(&document, None, &Settings::default());
    let said: Vec<(&str, &str)> = takeover.left_out.iter().map(|it| (it.noun, it.text.as_str())).collect();
    let port5 = port_id(5);
    assert_eq!(
        said,
        [
            ("network", "its type is gre"),
            ("subnet", "it belongs to one segment of a routed network"),
            ("subnet", &format!("its network {gre} is not imported")),
            ("security_group_rule", "it allows an address group"),
            ("port", &format!("its security group {} is not imported", Uuid::from_u128(0x99))),
            ("port", "cannot parse it: missing field `network_id`"),
            ("port", &format!("port {port5} has its MAC address fa:16:3e:00:00:05")),
            ("floatingip", "no port that holds its address is imported"),
        ]
    );
    let world = world(&takeover);
    assert_eq!(table::<Port>(&world).iter().map(|port| port.id).collect::<Vec<_>>(), [port5]);
    assert_eq!(world.table::<crate::model::Subnet>().len(), 1);
}

#[test]
fn what_is_shown_is_kept() {
    let takeover = prepared(&two_gateways(), None, &Settings::default());
    assert_eq!(takeover.left_out, []);
    let world = world(&takeover);
    let network = world.get::<crate::model::Network>(&NET).unwrap();
    assert_eq!(network.standard.revision, 3);
    assert_eq!(network.standard.created_at.to_string(), "2024-01-02T03:04:05Z");
    assert_eq!(network.project, "p");
    // Without a Northbound, the segment's id is derived and thus the same each time.
    let again = prepared(&two_gateways(), None, &Settings::default());
    assert_eq!(again.rows, takeover.rows);
}

#[test]
fn gateways_are_in_the_order_in_which_they_are_shown() {
    let takeover = prepared(&two_gateways(), None, &Settings::default());
    let world = world(&takeover);
    let router = world.get::<Router>(&ROUTER).unwrap();
    assert_eq!(router.gw_port_id, Some(port_id(2)), "the one that external_gateway_info shows");
    let ordinal = |n| world.get::<Port>(&port_id(n)).unwrap().gateway_ordinal;
    assert_eq!((ordinal(2), ordinal(1)), (Some(0), Some(1)));
    assert!(router.enable_snat && router.enable_default_route_ecmp && !router.enable_default_route_bfd);
}

#[test]
fn pools_and_floating_ips_in_neutrons_words() {
    let (pool, floating) = (Uuid::from_u128(0x50), Uuid::from_u128(0x60));
    let mut holder = port(3, "192.0.2.40", "network:floatingip");
    holder["device_id"] = json!(floating);
    let document = document(&[
        ("networks", vec![network(NET)]),
        ("subnets", vec![subnet(SUBNET, NET, "192.0.2.0/24")]),
        (
            "subnetpools",
            vec![
                json!({"id": pool, "tenant_id": "p", "name": "x", "prefixes": ["10.0.0.0/8"], "ip_version": 4,
                        "min_prefixlen": "8", "max_prefixlen": "32", "default_prefixlen": 24, "default_quota": null,
                        "address_scope_id": null, "shared": false, "is_default": false}),
            ],
        ),
        ("ports", vec![holder]),
        (
            "floatingips",
            vec![
                json!({"id": floating, "tenant_id": "p", "floating_network_id": NET, "floating_ip_address": "192.0.2.40",
                        "port_id": null, "fixed_ip_address": null, "router_id": ROUTER,
                        "port_forwardings": [{"protocol": "tcp"}]}),
            ],
        ),
    ]);
    let takeover = prepared(&document, None, &Settings::default());
    assert_eq!(takeover.left_out, []);
    assert!(takeover.notes.iter().any(|note| note.starts_with("Port forwardings")), "{:?}", takeover.notes);
    let world = world(&takeover);
    assert_eq!(world.get::<SubnetPool>(&pool).unwrap().min_prefixlen, 8);
    let found = world.get::<FloatingIp>(&floating).unwrap();
    assert_eq!(
        (found.floating_port_id, found.router_id),
        (port_id(3), None),
        "an association is whole or none"
    );
}

/// A Northbound with the router, both gateways, and these routes and NAT rows.
fn with_router(routes: &Value, nat: &Value, ports: &Value) -> SnapshotView {
    let parts = |rows: &Value| -> Value {
        json!(["set", rows.as_object().unwrap().keys().map(|id| json!(["uuid", id])).collect::<Vec<_>>()])
    };
    northbound(&json!({
        "Logical_Router": {(uuid(1).to_string()): {
            "name": format!("neutron-{ROUTER}"), "static_routes": parts(routes), "nat": parts(nat), "ports": parts(ports)}},
        "Logical_Router_Port": ports,
        "Logical_Router_Static_Route": routes,
        "NAT": nat,
        "HA_Chassis_Group": {(uuid(90).to_string()): {"name": format!("neutron-{ROUTER}"), "ha_chassis": refer(&[91, 92])}},
        "HA_Chassis": {
            (uuid(91).to_string()): {"chassis_name": "a", "priority": 7},
            (uuid(92).to_string()): {"chassis_name": "b", "priority": 9}},
    }))
}

fn gateway_ports() -> Value {
    let row = |n: u128, ip: &str| {
        json!({"name": format!("lrp-{}", port_id(n)), "mac": "fa:16:3e:00:00:01", "networks": format!("{ip}/24"),
               "ha_chassis_group": ["uuid", uuid(90)]})
    };
    json!({(uuid(11).to_string()): row(1, "192.0.2.11"), (uuid(12).to_string()): row(2, "192.0.2.12")})
}

fn adopted(takeover: &Takeover, table: &str) -> Vec<Uuid> {
    let world = world(takeover);
    let mut rows: Vec<Uuid> =
        world.table::<Adopted>().iter().filter(|row| row.table == table).map(|row| row.theirs).collect();
    rows.sort();
    rows
}

#[test]
fn a_shared_group_gives_each_gateway_its_place_and_stays_with_one() {
    let view = with_router(&json!({}), &json!({}), &gateway_ports());
    let takeover = prepared(&two_gateways(), Some(&view), &Settings::default());
    let world = world(&takeover);
    for n in [1, 2] {
        let placement = world.get::<Placement>(&port_id(n)).unwrap();
        let chassis: Vec<_> = placement.chassis.iter().map(|it| (it.chassis.as_str(), it.priority)).collect();
        assert_eq!(chassis, [("b", 9), ("a", 7)]);
    }
    let outlook = takeover.northbound.as_ref().unwrap();
    assert_eq!(outlook.removed.get("HA_Chassis_Group"), None);
    assert_eq!((outlook.made["HA_Chassis"], outlook.made["HA_Chassis_Group"]), (2, 1));
    assert_eq!(outlook.made.get("Logical_Router_Port"), None);
    assert_eq!((outlook.kept["HA_Chassis"], outlook.kept["HA_Chassis_Group"]), (2, 1));
    assert_eq!(adopted(&takeover, "HA_Chassis_Group"), [uuid(90)]);
    assert_eq!(adopted(&takeover, "HA_Chassis"), [uuid(91), uuid(92)]);
    assert_eq!(adopted(&takeover, "Logical_Router_Port"), [uuid(11), uuid(12)]);
}

#[test]
fn nova_is_not_told_again_of_ports_that_are_plugged_in() {
    let vm = "7e000000-0000-4000-8000-000000000001";
    let instance = |n: u128, host: &str| {
        let mut port = port(n, &format!("192.0.2.{n}"), "compute:nova");
        (port["device_id"], port["binding:host_id"]) = (json!(vm), json!(host));
        port
    };
    let document = document(&[
        ("networks", vec![network(NET)]),
        ("subnets", vec![subnet(SUBNET, NET, "192.0.2.0/24")]),
        ("ports", vec![instance(21, "node1"), instance(22, "node2"), instance(23, "")]),
    ]);
    let row = |n: u128, up: bool| json!({"name": port_id(n).to_string(), "up": up});
    let rows = json!({"Logical_Switch_Port": {
        uuid(21).to_string(): row(21, true), uuid(22).to_string(): row(22, false), uuid(23).to_string(): row(23, true),
    }});
    let takeover = prepared(&document, Some(&northbound(&rows)), &Settings::default());
    let world = world(&takeover);
    let notices: Vec<_> = world.table::<PlugNotice>().iter().collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    let hosts: Vec<_> = notices[0].hosts.iter().map(String::as_str).collect();
    assert_eq!((notices[0].port_id, notices[0].instance.to_string()), (port_id(21), vm.to_owned()));
    assert_eq!(hosts, ["node1"]);
}

#[test]
fn a_group_of_chassis_for_a_network_that_needs_none_goes() {
    let view = northbound(&json!({
        "Logical_Switch": {(uuid(1).to_string()): {"name": format!("neutron-{NET}")}},
        "HA_Chassis_Group": {
            (uuid(2).to_string()): {"name": format!("neutron-{NET}")},
            (uuid(3).to_string()): {"name": format!("neutron-{}", Uuid::from_u128(0x77))}},
    }));
    let takeover = prepared(&two_gateways(), Some(&view), &Settings::default());
    assert_eq!(adopted(&takeover, "HA_Chassis_Group"), [uuid(2)]);
    let outlook = takeover.northbound.unwrap();
    assert_eq!(outlook.removed["HA_Chassis_Group"], 1);
    let strangers: Vec<_> = outlook.strangers.iter().map(|row| (row.uuid, row.neutron)).collect();
    assert_eq!(strangers, [(uuid(3), true)], "of a network that is not taken over");
}

#[test]
fn routes_without_a_port_are_taken_once_and_those_with_one_for_that_port_only() {
    let route = |port: Option<u128>| {
        let mut row = json!({"ip_prefix": "0.0.0.0/0", "nexthop": "192.0.2.1",
                             "external_ids": ["map", [["neutron:is_ext_gw", "True"]]]});
        if let Some(port) = port {
            row["output_port"] = json!(format!("lrp-{}", port_id(port)));
        }
        row
    };
    // One is for gateway 2, the other two have no port: gateway 1 adopts one of them, and the other is removed.
    let routes = json!({(uuid(21).to_string()): route(Some(2)), (uuid(22).to_string()): route(None),
                        (uuid(23).to_string()): route(None)});
    let view = with_router(&routes, &json!({}), &gateway_ports());
    let takeover = prepared(&two_gateways(), Some(&view), &Settings::default());
    let outlook = takeover.northbound.unwrap();
    assert_eq!(outlook.kept["Logical_Router_Static_Route"], 2);
    assert_eq!(outlook.removed["Logical_Router_Static_Route"], 1);
    assert_eq!(outlook.made.get("Logical_Router_Static_Route"), None);
    // The route of another gateway is not adopted.
    let routes = json!({(uuid(21).to_string()): route(Some(2))});
    let view = with_router(&routes, &json!({}), &gateway_ports());
    let takeover = prepared(&two_gateways(), Some(&view), &Settings::default());
    assert_eq!(takeover.northbound.unwrap().made["Logical_Router_Static_Route"], 1);
}

#[test]
fn translations_by_subnet_are_told_and_change_only_as_much_as_they_must() {
    let nat = |ip: &str, inside: &str| json!({"type": "snat", "external_ip": ip, "logical_ip": inside});
    let rows = json!({(uuid(31).to_string()): nat("192.0.2.11", "10.1.0.0/24"),
                      (uuid(32).to_string()): nat("192.0.2.11", "10.2.0.0/24"),
                      (uuid(33).to_string()): nat("192.0.2.12", "10.1.0.0/24"),
                      (uuid(34).to_string()): nat("203.0.113.9", "10.3.0.0/24")});
    let view = with_router(&json!({}), &rows, &gateway_ports());
    let takeover = prepared(&two_gateways(), Some(&view), &Settings::default());
    assert!(
        takeover.notes.iter().any(|note| note.contains("ovn_router_indirect_snat")),
        "{:?}",
        takeover.notes
    );
    let outlook = takeover.northbound.unwrap();
    assert_eq!((outlook.kept["NAT"], outlook.removed["NAT"], outlook.made.get("NAT")), (2, 1, None));
    // A NAT row for an address that no gateway has is foreign.
    let names: Vec<_> = outlook.strangers.iter().map(|row| (row.table, row.name.as_str())).collect();
    assert_eq!(names, [("NAT", "203.0.113.9")]);
}

#[test]
fn settings_that_would_move_floating_ips_are_told() {
    let view = northbound(&json!({"NB_Global": {(uuid(1).to_string()): {
        "external_ids": ["map", [["neutron:fip-distributed", "True"]]]}}}));
    let notes = |settings: &Settings| prepared(&two_gateways(), Some(&view), settings).notes.len();
    assert_eq!(notes(&Settings::default()), 1);
    assert_eq!(notes(&Settings { enable_distributed_floating_ip: true, ..Settings::default() }), 0);
}

#[test]
fn settings_that_would_have_dhcp_tell_something_else_are_told() {
    let mut document = two_gateways();
    let inside = Uuid::from_u128(0x21);
    let mut answered = subnet(inside, NET, "10.0.0.0/24");
    answered["enable_dhcp"] = json!(true);
    document.add("subnets", [answered]);
    let options = [
        ("server_id", "10.0.0.1"),
        ("server_mac", "fa:16:3e:00:00:99"),
        ("lease_time", "43200"),
        ("mtu", "1500"),
        ("router", "10.0.0.1"),
        ("domain_name", "\"cloud.example.\""),
    ];
    let view = northbound(&json!({"DHCP_Options": {(uuid(1).to_string()): {
        "cidr": "10.0.0.0/24", "options": ["map", options], "external_ids": ["map", [["subnet_id", inside]]]}}}));
    let notes = |settings: &Settings| prepared(&document, Some(&view), settings).notes;
    assert_eq!(
        notes(&Settings::default()),
        [
            "DHCP option domain_name would change in 1 rows, in one of them from \"cloud.example.\" to nothing. Compare the \
             section [network] with Neutron's configuration."
        ]
    );
    assert_eq!(
        notes(&Settings { dns_domain: "cloud.example.".into(), ..Settings::default() }),
        [] as [&str; 0]
    );
}

#[test]
fn texts_that_are_stored_and_not_written_are_told() {
    let mut document = two_gateways();
    let inside = Uuid::from_u128(0x21);
    let mut answered = subnet(inside, NET, "10.0.0.0/24");
    answered["enable_dhcp"] = json!(true);
    document.add("subnets", [answered]);
    let mut hostile = port(9, "10.0.0.9", "compute:nova");
    hostile["project_id"] = json!("p");
    hostile["fixed_ips"] = json!([{"subnet_id": inside, "ip_address": "10.0.0.9"}]);
    hostile["extra_dhcp_opts"] = json!([{"opt_name": "mtu", "opt_value": "1400); drop; x(y = 1", "ip_version": 4},
                                        {"opt_name": "ntp-server", "opt_value": "10.0.0.7", "ip_version": 4}]);
    hostile["dns_name"] = json!("a\" b");
    document.add("ports", [hostile]);
    let view = northbound(&json!({}));
    let notes = prepared(&document, Some(&view), &Settings::default()).notes;
    for part in ["DHCP option \"mtu\" of extra_dhcp_opts is skipped", "it has no DNS record"] {
        let of = format!("port/{}", port_id(9));
        assert!(notes.iter().any(|note| note.starts_with(&of) && note.contains(part)), "{part}: {notes:?}");
    }
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn a_document_is_read_back_and_other_files_are_refused() {
    let document = two_gateways();
    assert_eq!(Document::parse_network(&document.to_text()).unwrap(), document);
    assert!(matches!(Document::parse_network("{"), Err(DocumentError::Shape(_))));
    let other = r#"{"format": "x", "collections": {}}"#;
    assert!(matches!(Document::parse_network(other), Err(DocumentError::Format(name, _)) if name == "x"));
}

#[test]
fn urls_with_and_without_a_version_are_taken() {
    for url in [
        "http://neutron:9696",
        "http://neutron:9696/",
        "https://neutron:9696/v2.0",
        "http://neutron/network/v2.0/",
    ] {
        assert!(Source::network(url, Credentials::None, None).is_ok(), "{url}");
    }
    for url in ["", "neutron:9696", "ftp://neutron", "http://"] {
        assert!(matches!(Source::network(url, Credentials::None, None), Err(SourceError::Url(_))), "{url}");
    }
    assert!(!format!("{:?}", Credentials::Token("secret".into())).contains("secret"));
}
