//! Scenario 58: a cloud that Neutron ran. Its objects come from a Neutron-compatible API, and its Northbound has the form that Neutron
//! wrote before 2026. `meridian import neutron` and `meridian server` take over both. The rows that today's Neutron writes are in
//! `recorded`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use lab::keystone::Keystone;
use lab::postgres::Postgres;
use serde_json::{Value, json};

use crate::cloud::{Cloud, add_chassis, eventually, rows_in};
use crate::journal::{Change, Journal, Kind, Written, counts, tally};
use crate::plant::Plant;
use crate::upstream::{self, ORDER};

fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

/// A cloud with every kind of Northbound row: two external networks, a router on both, VMs, a floating IP.
fn source() -> Cloud {
    let cloud = Cloud::start();
    let external = |name: &str, physical: &str, cidr: &str| {
        let network = cloud.create(
            "networks",
            "network",
            json!({"name": name, "router:external": true, "provider:network_type": "flat",
                   "provider:physical_network": physical, "tags": ["edge"]}),
        );
        cloud.create(
            "subnets",
            "subnet",
            json!({"network_id": network["id"], "ip_version": 4, "cidr": cidr, "enable_dhcp": false}),
        );
        id(&network)
    };
    let (n1, n2) = (external("N1", "phy1", "192.0.2.0/24"), external("N2", "phy2", "198.51.100.0/24"));
    let tenants = id(&cloud.create("networks", "network", json!({"name": "tenants", "shared": true})));
    let subnet = cloud.create(
        "subnets",
        "subnet",
        json!({"network_id": tenants, "ip_version": 4, "cidr": "10.0.0.0/24", "dns_nameservers": ["9.9.9.9"]}),
    );
    let router =
        id(&cloud.create("routers", "router", json!({"name": "R", "enable_default_route_ecmp": true})));
    cloud.put(
        &format!("routers/{router}/add_external_gateways"),
        json!({"router": {"external_gateways": [{"network_id": n1}, {"network_id": n2}]}}),
    );
    cloud.put(&format!("routers/{router}/add_router_interface"), json!({"subnet_id": subnet["id"]}));
    cloud.put(
        &format!("routers/{router}"),
        json!({"router": {"routes": [{"destination": "172.16.0.0/16", "nexthop": "10.0.0.99"}]}}),
    );
    let port = cloud.create(
        "ports",
        "port",
        json!({"network_id": tenants, "name": "vm1", "allowed_address_pairs": [{"ip_address": "10.0.0.200"}]}),
    );
    cloud.create("ports", "port", json!({"network_id": tenants, "name": "vm2"}));
    cloud.create("floatingips", "floatingip", json!({"floating_network_id": n1, "port_id": port["id"]}));
    cloud.create("floatingips", "floatingip", json!({"floating_network_id": n1}));
    cloud.put("quotas/acme", json!({"quota": {"network": 7}}));
    cloud
}

/// Runs `meridian import neutron` on a directory.
fn import(dir: &Path, ovn: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args([
            "import",
            "neutron",
            "--output",
            "json",
            "--nb",
            &format!("unix:{}/nb.sock", ovn.display()),
            "--data-dir",
        ])
        .arg(dir)
        .args(more)
        .env("MERIDIAN_CONFIG", "/dev/null")
        .output()
        .unwrap()
}

fn told(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The rows of API objects, by table and meaning, each with its UUID.
fn identities(ovn: &Path) -> BTreeMap<(&'static str, String), String> {
    let tables = [
        ("Logical_Switch", "name"),
        ("Logical_Switch_Port", "name"),
        ("Logical_Router", "name"),
        ("Logical_Router_Port", "name"),
        ("NAT", "external_ip"),
        ("Port_Group", "name"),
        ("DHCP_Options", "cidr"),
        ("ACL", "match"),
        ("Load_Balancer", "name"),
    ];
    let mut all = BTreeMap::new();
    for (table, column) in tables {
        for row in rows_in(ovn, "nb", table) {
            let meaning = format!("{} {}", row["type"], row[column]);
            assert!(
                all.insert((table, meaning), row["_uuid"].as_str().unwrap().to_owned()).is_none(),
                "{row}"
            );
        }
    }
    for row in rows_in(ovn, "nb", "Logical_Router_Static_Route") {
        // Neutron has no route to the metadata service, so the comparison skips ours.
        if !row["external_ids"]["meridian:metadata"].is_null() {
            continue;
        }
        let meaning = format!("{} via {}", row["ip_prefix"], row["nexthop"]);
        all.insert(("Logical_Router_Static_Route", meaning), row["_uuid"].as_str().unwrap().to_owned());
    }
    all
}

/// The chassis of each gateway, sorted by descending priority.
fn places(cloud: &Cloud) -> Vec<Vec<String>> {
    let members = cloud.rows("HA_Chassis");
    let groups = cloud.rows("HA_Chassis_Group");
    let of = |group: &Value| {
        let held = group["ha_chassis"].as_array().unwrap();
        let mut mine: Vec<&Value> = members.iter().filter(|row| held.contains(&row["_uuid"])).collect();
        mine.sort_by_key(|row| -row["priority"].as_i64().unwrap());
        mine.iter().map(|row| row["chassis_name"].as_str().unwrap().to_owned()).collect()
    };
    groups.iter().map(of).collect()
}

#[test]
fn scenario_58_a_northbound_with_gateway_chassis_is_taken_over() {
    let source = source();
    let (plant, dir) = (Plant::start(), tempfile::tempdir().unwrap());
    for name in ["ch1", "ch2", "ch3"] {
        add_chassis(plant.dir(), name, &["phy1", "phy2"], "enable-chassis-as-gw");
    }
    upstream::write(&source, plant.dir());

    let from = ["--from", source.url()];
    let dry = told(&import(dir.path(), plant.dir(), &[&from[..], &["--dry-run"]].concat()));
    assert_eq!(dry["stored"], Value::Null);
    assert!(!dir.path().join("api.db").exists(), "a dry run stores nothing");
    assert_eq!(dry["left_out"], json!([]));
    let strangers: BTreeSet<&str> = dry["northbound"]["strangers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(strangers, BTreeSet::from(["10.0.0.0/24 via 100.64.0.2", "bgp-router", "octavia-lb"]));
    assert_eq!(
        dry["northbound"]["made"],
        json!({
            "HA_Chassis": 6, "HA_Chassis_Group": 2, "Logical_Router_Policy": 2, "Logical_Router_Static_Route": 1,
        })
    );
    assert_eq!(dry["northbound"]["removed"], json!({"Gateway_Chassis": 6}));

    let stored = told(&import(dir.path(), plant.dir(), &from));
    let again = import(dir.path(), plant.dir(), &from);
    assert_eq!(again.status.code(), Some(1), "a database with objects is refused");
    assert!(String::from_utf8_lossy(&again.stderr).contains("has objects already"));

    let mut journal = Journal::within(plant.dir());
    let before = identities(plant.dir());
    let database = format!("sqlite://{}", dir.path().join("api.db").display());
    assert_eq!(stored["stored"], json!(database));
    let mut cloud = Cloud::on(plant.dir(), &["--database", &database]);
    eventually("every gateway has a group of its own", || (places(&cloud).len() == 2).then_some(()));
    cloud.converged();

    for order in places(&cloud) {
        assert_eq!(order, ORDER, "no gateway has moved");
    }
    assert!(cloud.rows("Gateway_Chassis").is_empty());
    assert_eq!(identities(plant.dir()), before, "rows keep their UUIDs");
    let balancer = cloud.rows("Load_Balancer")[0]["_uuid"].clone();
    for table in ["Logical_Switch", "Logical_Router"] {
        for row in cloud.rows(table).iter().filter(|row| row["name"] != "bgp-router") {
            assert_eq!(row["load_balancer"], balancer, "others' load balancer stays on {table}");
        }
    }
    eventually("northd has both groups, and no other", || {
        let groups = cloud.southbound("HA_Chassis_Group");
        (groups.len() == 2 && groups.iter().all(|group| group["name"].as_str().unwrap().contains("lrp-")))
            .then_some(())
    });
    // The journal of the database shows the inserted and deleted rows of each transaction.
    let written = journal.next();
    let moves = |written: &&Written| written.0.iter().any(|change| change.kind != Kind::Modify);
    let moves: Vec<&Written> = written.iter().filter(moves).collect();
    assert_eq!(moves.len(), 1, "one transaction");
    let mut came_and_went = tally(&written);
    came_and_went.retain(|what, _| !what.starts_with("modify"));
    let expected = counts([
        ("insert HA_Chassis", 6),
        ("insert HA_Chassis_Group", 2),
        ("delete Gateway_Chassis", 6),
        // The route to the metadata service for instances without DHCP.
        ("insert Logical_Router_Policy", 2),
        ("insert Logical_Router_Static_Route", 1),
    ]);
    assert_eq!(came_and_went, expected);
    let foreign =
        |change: &&Change| change.table == "Load_Balancer" || before.get(&bgp()) == Some(&change.uuid);
    assert!(
        !written.iter().flat_map(|written| &written.0).any(|change| foreign(&change)),
        "others' rows are not touched"
    );

    same_objects(&source, &cloud);
    // After a restart the server has nothing to do.
    assert!(cloud.stop());
    cloud.again();
    cloud.converged();
    assert_eq!(tally(&journal.next()), BTreeMap::new(), "and does nothing");
    assert_eq!(identities(plant.dir()), before);
}

/// A foreign router.
fn bgp() -> (&'static str, String) {
    ("Logical_Router", r#"null "bgp-router""#.to_owned())
}

/// Asserts that the API returns the same objects. Values that OVN reports are not compared.
fn same_objects(source: &Cloud, cloud: &Cloud) {
    for path in [
        "networks",
        "subnets",
        "ports",
        "routers",
        "floatingips",
        "security-groups",
        "rbac-policies",
        "quotas",
    ] {
        let list = |cloud: &Cloud| {
            let mut objects = cloud.get(path)[path.replace('-', "_")].as_array().unwrap().clone();
            for object in &mut objects {
                for key in ["status", "binding:host_id", "port_details"] {
                    object.as_object_mut().unwrap().remove(key);
                }
            }
            objects.sort_by_key(ToString::to_string);
            objects
        };
        assert_eq!(list(cloud), list(source), "{path}");
    }
}

#[test]
fn scenario_58_a_saved_cloud_is_imported_elsewhere() {
    let source = source();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cloud.json").display().to_string();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        command.args(["import", "neutron", "-o", "json", "--data-dir"]).arg(dir.path()).args(args);
        command.env("MERIDIAN_CONFIG", "/dev/null").output().unwrap()
    };
    let unsaid = run(&["--from", source.url()]);
    assert_eq!(unsaid.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unsaid.stderr).contains("--without-nb"));
    let saved = told(&run(&["--from", source.url(), "--without-nb", "--dry-run", "--save", &file]));
    assert_eq!((&saved["stored"], &saved["northbound"]), (&Value::Null, &Value::Null));

    // An object that cannot be stored stops the import, unless a flag allows it.
    let mut document: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    document["collections"]["networks"][0]["provider:network_type"] = json!("gre");
    let broken = dir.path().join("broken.json").display().to_string();
    std::fs::write(&broken, document.to_string()).unwrap();
    let refused = run(&["--offline", &broken, "--without-nb"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--leave-out"));
    let list: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert!(list["left_out"].as_array().unwrap().iter().any(|it| it["text"] == "its type is gre"), "{list}");
    assert!(!dir.path().join("api.db").exists(), "nothing is stored");

    told(&run(&["--offline", &file, "--without-nb"]));
    let cloud = Cloud::within(dir, &["--data-dir", "."]);
    same_objects(&source, &cloud);
}

#[test]
fn scenario_58_a_cloud_is_imported_into_postgresql() {
    let (source, dir) = (source(), tempfile::tempdir().unwrap());
    let postgres = Postgres::start(&dir.path().join("pg")).unwrap();
    postgres.create_database("meridian").unwrap();
    let url = postgres.url("meridian");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        command.args(["import", "neutron", "-o", "json", "--without-nb", "--from", source.url()]);
        command.args(["--database", &url]).env("MERIDIAN_CONFIG", "/dev/null").output().unwrap()
    };
    told(&run());
    let again = run();
    assert_eq!(again.status.code(), Some(1), "a database with objects is refused");
    assert!(String::from_utf8_lossy(&again.stderr).contains("has objects already"));
    same_objects(&source, &Cloud::with(&["--database", &url]));
}

#[test]
fn scenario_58_an_administrator_of_keystone_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let keystone = Keystone::start(dir.path()).unwrap();
    let project = keystone.project("blue").unwrap();
    keystone.grant("member", &keystone.user("alice", "pw").unwrap(), &project).unwrap();
    let cloud =
        Cloud::configured(&format!("[server]\nauth = \"keystone\"\nkeystone_url = \"{}\"\n", keystone.url()));
    let run = |env: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OS_")) {
            command.env_remove(name);
        }
        command.args(["import", "neutron", "-o", "json", "--without-nb", "--dry-run", "--from", cloud.url()]);
        command.env("MERIDIAN_CONFIG", "/dev/null").envs(env.iter().copied()).output().unwrap()
    };
    let user = |name, password, project| {
        [
            ("OS_AUTH_URL", keystone.url()),
            ("OS_USERNAME", name),
            ("OS_PASSWORD", password),
            ("OS_PROJECT_NAME", project),
        ]
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let nobody = run(&[]);
    assert!(nobody.status.code() == Some(1) && said(&nobody).contains("--token-file"), "{}", said(&nobody));
    let wrong = run(&user("admin", "wrong", "admin"));
    assert!(
        wrong.status.code() == Some(1) && said(&wrong).contains("log in to Keystone"),
        "{}",
        said(&wrong)
    );
    let member = run(&user("alice", "pw", "blue"));
    assert!(member.status.code() == Some(1) && said(&member).contains("administrator"), "{}", said(&member));
    let admin = told(&run(&user("admin", keystone.admin_password(), "admin")));
    assert_eq!(admin["left_out"], json!([]));
    told(&run(&[("OS_TOKEN", &keystone.admin_token().unwrap())]));
}
