//! Load balancers that are imported with their rows, and the reasons why others are not.

use jiff::Timestamp;
use ovn::nb;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::tests::{NET, SUBNET, network, northbound, port, subnet, uuid};
use super::super::{Document, Takeover};
use super::prepare;
use crate::model::{Adopted, Listener, LoadBalancer, Member, Pool, Port, QuotaSet, RowGroup};
use crate::settings::Settings;
use crate::world::{Change, Revision, World};

const BALANCER: Uuid = Uuid::from_u128(0xb0);
const POOL: Uuid = Uuid::from_u128(0xb1);
const LISTENER: Uuid = Uuid::from_u128(0xb2);
const MONITOR: Uuid = Uuid::from_u128(0xb3);

fn member_id(n: u128) -> Uuid {
    Uuid::from_u128(0xb100 + n)
}

/// A network with the port of a VIP, and more ports for members.
fn cloud() -> World {
    let mut document = Document::of_network();
    document.add("networks", vec![network(NET)]);
    let mut roomy = subnet(SUBNET, NET, "192.0.2.0/24");
    roomy["allocation_pools"] = json!([{"start": "192.0.2.100", "end": "192.0.2.200"}]);
    document.add("subnets", vec![roomy]);
    let mut vip = port(1, "192.0.2.10", "ovn-lb:vip");
    vip["name"] = json!(format!("ovn-lb-vip-{BALANCER}"));
    vip["device_id"] = json!(format!("lb-{BALANCER}"));
    document.add("ports", vec![vip, port(2, "192.0.2.21", ""), port(3, "192.0.2.22", "")]);
    let takeover =
        super::super::prepare(&document, None, &Settings::default(), std::time::SystemTime::UNIX_EPOCH);
    assert_eq!(takeover.left_out, []);
    world_after(World::default(), &takeover)
}

fn world_after(mut world: World, takeover: &Takeover) -> World {
    let changes: Vec<Change> = takeover.rows.iter().cloned().map(Change::Put).collect();
    world.advance(Revision::default(), &changes);
    world
}

fn common(id: Uuid, more: Value) -> Value {
    let mut object = json!({"id": id, "project_id": "p", "name": "x", "description": "", "admin_state_up": true,
        "created_at": "2026-01-02T03:04:05", "updated_at": null, "tags": ["blue"],
        "provisioning_status": "ACTIVE", "operating_status": "ONLINE"});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn member(n: u128, address: &str, created_at: &str) -> Value {
    let mut member = common(
        member_id(n),
        json!({"pool_id": POOL, "address": address, "protocol_port": 8080,
            "subnet_id": SUBNET, "weight": 1, "backup": false}),
    );
    member["created_at"] = json!(created_at);
    member
}

/// A load balancer with a listener, a pool, two members and a health monitor, as JSON of Octavia.
fn balancers() -> Document {
    let mut document = Document::of_balancers();
    document.add(
        "loadbalancers",
        vec![common(
            BALANCER,
            json!({"provider": "ovn", "vip_address": "192.0.2.10", "vip_port_id": Uuid::from_u128(0x101),
                "vip_subnet_id": SUBNET, "vip_network_id": NET, "additional_vips": []}),
        )],
    );
    let owner = json!([{"id": BALANCER}]);
    document.add(
        "listeners",
        vec![common(
            LISTENER,
            json!({"loadbalancers": owner, "protocol": "TCP", "protocol_port": 80, "connection_limit": -1,
                "default_pool_id": POOL, "allowed_cidrs": null, "l7policies": [], "timeout_client_data": 50_001}),
        )],
    );
    document.add(
        "pools",
        vec![common(
            POOL,
            json!({"loadbalancers": owner, "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT",
                "session_persistence": null, "tls_enabled": false}),
        )],
    );
    let late = member(1, "192.0.2.21", "2026-01-02T03:04:09");
    document.add("members", vec![late, member(2, "192.0.2.22", "2026-01-02T03:04:06")]);
    document.add(
        "healthmonitors",
        vec![common(
            MONITOR,
            json!({"pools": [{"id": POOL}], "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2,
                "max_retries_down": 3}),
        )],
    );
    document
}

/// The rows that Octavia's provider has written for it, under their own UUIDs, and a foreign load balancer.
fn written() -> ovn::target::SnapshotView {
    northbound(&json!({
        "Load_Balancer": {
            (uuid(1).to_string()): {"name": BALANCER, "protocol": "tcp",
                "vips": ["map", [["192.0.2.10:80", "192.0.2.22:8080,192.0.2.21:8080"]]],
                "health_check": ["set", [["uuid", uuid(2)]]],
                "external_ids": ["map", [["neutron:vip", "192.0.2.10"], ["neutron:vip_port_id", Uuid::from_u128(0x101)],
                    [format!("pool_{POOL}"), format!("member_{}_192.0.2.22:8080_{SUBNET},member_{}_192.0.2.21:8080_{SUBNET}",
                        member_id(2), member_id(1))]]]},
            (uuid(3).to_string()): {"name": "Service_default/kubernetes_TCP", "protocol": "tcp"}},
        "Load_Balancer_Health_Check": {
            (uuid(2).to_string()): {"vip": "192.0.2.10:80", "external_ids": ["map", [
                ["octavia:healthmonitor", MONITOR], ["octavia:pool_id", POOL], ["octavia:vip", "192.0.2.10"]]]}}
    }))
}

fn taken(document: &Document, world: &World) -> Takeover {
    prepare(document, world, None, &Settings::default(), Timestamp::UNIX_EPOCH)
}

#[test]
fn a_load_balancer_comes_with_its_ids_and_keeps_its_rows() {
    let cloud = cloud();
    let view = written();
    let takeover = prepare(&balancers(), &cloud, Some(&view), &Settings::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(takeover.left_out, []);
    let world = world_after(cloud, &takeover);

    let whole = world.get::<LoadBalancer>(&BALANCER).unwrap();
    assert_eq!((whole.name.as_str(), whole.project.as_str(), whole.vips.len()), ("x", "p", 1));
    assert!(!whole.primary_vip().own_port, "the provider made the port, so it goes with the load balancer");
    assert_eq!(whole.standard.created_at.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(whole.rows[0].group, RowGroup::of(world.get::<Pool>(&POOL).unwrap()));
    assert_eq!(world.get::<Listener>(&LISTENER).unwrap().timeouts.client_data, 50_001);
    // OVN chooses backends by position, so members are in order of creation.
    let mut members: Vec<_> = world.table::<Member>().iter().map(|it| (it.ordinal, it.id)).collect();
    members.sort_unstable();
    assert_eq!(members, [(0, member_id(2)), (1, member_id(1))]);
    // Probes need an address of the subnet, which Octavia's provider had not reserved here.
    assert!(world.table::<Port>().iter().any(|port| port.device_id == format!("ovn-lb-hm-{SUBNET}")));

    let adopted: Vec<_> = world.table::<Adopted>().iter().map(|it| (it.table.as_str(), it.theirs)).collect();
    let expected = [(("Load_Balancer"), uuid(1)), ("Load_Balancer_Health_Check", uuid(2))];
    assert!(expected.iter().all(|row| adopted.contains(row)), "{adopted:?}");
    let northbound = takeover.northbound.unwrap();
    assert_eq!(northbound.kept[<nb::LoadBalancer as ovsdb::Table>::TABLE], 1);
    assert_eq!(northbound.made.get("Load_Balancer"), None, "{:?}", northbound.made);
    assert_eq!(northbound.removed.get("Load_Balancer"), None, "{:?}", northbound.removed);
    let strangers: Vec<_> = northbound.strangers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(strangers, ["Service_default/kubernetes_TCP"]);
}

#[test]
fn members_of_one_second_stand_as_their_row_lists_them() {
    let mut document = Document::of_balancers();
    for name in ["loadbalancers", "listeners", "pools", "healthmonitors"] {
        document.add(name, balancers().get(name).to_vec());
    }
    let second = "2026-01-02T03:04:05";
    document.add("members", vec![member(1, "192.0.2.21", second), member(2, "192.0.2.22", second)]);
    let ordinals = |northbound: Option<&ovn::target::SnapshotView>| {
        let takeover = prepare(&document, &cloud(), northbound, &Settings::default(), Timestamp::UNIX_EPOCH);
        let world = world_after(cloud(), &takeover);
        [1, 2].map(|n| world.get::<Member>(&member_id(n)).unwrap().ordinal)
    };
    assert_eq!(ordinals(Some(&written())), [1, 0]);
    assert_eq!(ordinals(None), [0, 1], "without a Northbound by id, the same each time");
}

#[test]
fn a_load_balancer_with_a_bad_part_is_left_out_whole() {
    let change = |collection: &str, key: &str, value: Value| {
        let mut document = Document::of_balancers();
        for name in ["loadbalancers", "listeners", "pools", "members", "healthmonitors"] {
            let mut objects = balancers().get(name).to_vec();
            if name == collection {
                objects[0][key] = value.clone();
            }
            document.add(name, objects);
        }
        document
    };
    let nowhere = Uuid::from_u128(0xdead);
    for (collection, key, value, expected) in [
        ("loadbalancers", "provider", json!("amphora"), r#"its provider is "amphora"; only "ovn""#),
        ("loadbalancers", "provisioning_status", json!("PENDING_DELETE"), "Octavia is deleting it"),
        ("members", "provisioning_status", json!("PENDING_DELETE"), "Octavia is deleting it"),
        ("members", "protocol_port", json!(0), "cannot parse it"),
        ("healthmonitors", "type", json!("UDP-CONNECT"), "which OVN does not have for TCP pools"),
        (
            "loadbalancers",
            "vip_port_id",
            json!(nowhere),
            "is not in the database; run `meridian import neutron` first",
        ),
        ("loadbalancers", "vip_address", json!("192.0.2.99"), "does not have its address 192.0.2.99"),
        ("loadbalancers", "vip_address", json!("rubbish"), "cannot parse it"),
        ("listeners", "protocol", json!("HTTP"), "its protocol is HTTP; allowed: TCP, UDP, SCTP"),
        ("listeners", "protocol_port", json!(70_000), "cannot parse it"),
        ("listeners", "l7policies", json!([{"id": nowhere}]), "it has L7 policies"),
        ("listeners", "default_pool_id", json!(nowhere), "is not one of the load balancer's"),
        (
            "pools",
            "lb_algorithm",
            json!("ROUND_ROBIN"),
            "its algorithm is ROUND_ROBIN; allowed: SOURCE_IP_PORT",
        ),
        (
            "pools",
            "session_persistence",
            json!({"type": "HTTP_COOKIE"}),
            "its session persistence is HTTP_COOKIE",
        ),
        ("pools", "tls_enabled", json!(true), "TLS"),
        ("members", "subnet_id", json!(nowhere), "its subnet"),
        ("members", "address", json!("192.0.2.300"), "cannot parse it"),
        ("healthmonitors", "type", json!("HTTP"), "its type is HTTP; allowed: TCP, UDP-CONNECT"),
    ] {
        let takeover = taken(&change(collection, key, value), &cloud());
        let [remark] = takeover.left_out.as_slice() else { panic!("{key}: {:?}", takeover.left_out) };
        assert_eq!((remark.noun, remark.id.as_str()), ("loadbalancer", BALANCER.to_string().as_str()));
        assert!(remark.text.contains(expected), "{key}: {}", remark.text);
        assert!(takeover.is_empty(), "{key}: {:?}", takeover.counts());
    }
}

#[test]
fn attributes_that_the_provider_ignores_are_noted() {
    assert_eq!(taken(&balancers(), &cloud()).notes, Vec::<String>::new());
    let with = |collection: &str, key: &str, value: Value| {
        let mut document = Document::of_balancers();
        for name in ["loadbalancers", "listeners", "pools", "members", "healthmonitors"] {
            let mut objects = balancers().get(name).to_vec();
            if name == collection {
                objects[0][key] = value.clone();
            }
            document.add(name, objects);
        }
        taken(&document, &cloud()).notes.concat()
    };
    for (collection, key, value, expected) in [
        ("members", "weight", json!(5), "weights of members take effect"),
        ("members", "backup", json!(true), "backup members take effect"),
        ("pools", "session_persistence", json!({"type": "SOURCE_IP"}), "session persistence take effect"),
    ] {
        let note = with(collection, key, value);
        assert!(note.starts_with(&format!("loadbalancer/{BALANCER}: {expected}")), "{note}");
    }
}

#[test]
fn one_bad_load_balancer_stops_no_other() {
    let mut document = balancers();
    let mut other = document.get("loadbalancers")[0].clone();
    (other["id"], other["vip_port_id"]) = (json!(Uuid::from_u128(0xbad)), json!(Uuid::from_u128(0xbad1)));
    document.add("loadbalancers", vec![other]);
    document.add("members", vec![json!({"id": Uuid::from_u128(0xbad2), "pool_id": Uuid::from_u128(0xbad3)})]);
    let takeover = taken(&document, &cloud());
    let left_out: Vec<_> = takeover.left_out.iter().map(|remark| remark.noun).collect();
    assert_eq!(left_out, ["loadbalancer", "member"]);
    assert_eq!((takeover.counts()["load_balancers"], takeover.counts()["members"]), (1, 2));
}

#[test]
fn a_second_import_takes_nothing_twice() {
    let cloud = cloud();
    let world = world_after(cloud.clone(), &taken(&balancers(), &cloud));
    let again = taken(&balancers(), &world);
    assert_eq!(again.left_out[0].text, "the database has it already");
    assert!(again.is_empty());
}

#[test]
fn a_full_subnet_leaves_nothing_of_the_load_balancer() {
    // The probes need an address, and a subnet of four has none left besides the VIP and the member.
    let mut network_document = Document::of_network();
    network_document.add("networks", vec![network(NET)]);
    let mut narrow = subnet(SUBNET, NET, "192.0.2.0/30");
    narrow["gateway_ip"] = Value::Null;
    narrow["allocation_pools"] = json!([{"start": "192.0.2.1", "end": "192.0.2.2"}]);
    network_document.add("subnets", vec![narrow]);
    network_document.add("ports", vec![port(1, "192.0.2.1", "ovn-lb:vip"), port(2, "192.0.2.2", "")]);
    let takeover = super::super::prepare(
        &network_document,
        None,
        &Settings::default(),
        std::time::SystemTime::UNIX_EPOCH,
    );
    let world = world_after(World::default(), &takeover);
    let mut document = balancers();
    let mut whole = document.get("loadbalancers")[0].clone();
    whole["vip_address"] = json!("192.0.2.1");
    let mut narrowed = Document::of_balancers();
    narrowed.add("loadbalancers", vec![whole]);
    for name in ["listeners", "pools", "members", "healthmonitors"] {
        narrowed.add(name, document.get(name).to_vec());
    }
    document = narrowed;
    let takeover = taken(&document, &world);
    assert!(takeover.left_out[0].text.contains("No more IP addresses"), "{:?}", takeover.left_out);
    assert!(takeover.is_empty(), "{:?}", takeover.counts());
}

#[test]
fn limits_of_load_balancers_join_those_of_the_network() {
    let mut world = cloud();
    let own = QuotaSet { project: "p".into(), limits: [("port".to_owned(), 7)].into() };
    world.advance(Revision::default(), &[Change::Put(<QuotaSet as crate::world::Entity>::row(own.into()))]);
    let mut document = Document::of_balancers();
    document.add(
        "quotas",
        vec![json!({"project_id": "p", "loadbalancer": 3, "member": null, "l7policy": -1, "x": 1})],
    );
    let world = world_after(world.clone(), &taken(&document, &world));
    let limits = &world.get::<QuotaSet>(&"p".to_owned()).unwrap().limits;
    let limits: Vec<_> = limits.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
    assert_eq!(limits, [("l7policy", -1), ("load_balancer", 3), ("port", 7)]);
}
