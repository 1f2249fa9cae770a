//! Scenario 58 on the rows and answers of a real Neutron, which `cargo xtask record` recorded. The test imports its cloud, starts a server
//! on its Northbound, and compares all rows and answers. Each expected difference is listed here and explained in the guide.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cloud::{Cloud, add_chassis, ctl, eventually, rows_in};
use crate::journal::{Journal, tally};
use crate::plant::Plant;

/// The answers of Neutron's API.
pub(crate) const API: &str = include_str!("recorded/api.json");
/// Neutron's Northbound, as written by `ovsdb-client backup`.
const NORTHBOUND: &[u8] = include_bytes!("recorded/northbound.db");
/// Neutron's configuration, with Meridian's keys.
const CONFIG: &str = "[network]\ndns_domain = \"cloud.example.\"\ndns_servers = [\"192.0.2.53\"]\n\
                      metadata_ip_on_nodhcp = false\n";

/// The changes of Neutron's rows by the first pass, with the number of rows each. Meridian's marks and revision numbers are left out.
const CHANGED: [(&str, usize); 14] = [
    ("BFD external_ids + neutron:router_id", 3),
    // Neutron writes the value without quotes, and ovn-northd then compiles no flow with it.
    ("DHCP_Options options ~ domain_search", 1),
    // Neutron left the group empty, because the router had no gateway yet.
    ("HA_Chassis_Group ha_chassis", 1),
    // Neutron names the group after the router, Meridian after the gateway.
    ("HA_Chassis_Group name", 4),
    // Neutron does not write this option.
    ("Logical_Router options + chassis", 1),
    // The route to the metadata service for instances without DHCP.
    ("Logical_Router policies", 2),
    ("Logical_Router static_routes", 2),
    // Further gateways have groups of their own.
    ("Logical_Router_Port ha_chassis_group", 2),
    ("Logical_Router_Port options - reside-on-redirect-chassis", 4),
    ("Logical_Router_Port options ~ gateway_mtu", 1),
    ("Logical_Router_Static_Route output_port", 6),
    ("Logical_Switch_Port options - requested-chassis", 4),
    // The form that needs OVN 26.03.
    ("Logical_Switch_Port port_security", 1),
    ("NAT gateway_port", 7),
];

/// The differences of the API's answers: attributes of extensions that only one of the two has, and the floating IP of a port forwarding.
const ANSWERED: [&str; 19] = [
    "floatingips - port_forwardings",
    "floatingips - qos_policy_id",
    "floatingips ~ router_id",
    "floatingips ~ status",
    "networks + is_default",
    "networks - qinq",
    "networks - qos_policy_id",
    "networks - vlan_transparent",
    "ports + ip_allocation",
    "ports - dns_domain",
    "ports - qos_network_policy_id",
    "ports - qos_policy_id",
    "ports - resource_request",
    "quotas + address_scope",
    "quotas + port_fixed_ip",
    "quotas + router_gateway",
    "quotas + shared_address",
    "routers + distributed",
    "security_group_rules - remote_address_group_id",
];

/// The imported cloud, with a server on it.
pub(crate) struct ImportedCloud {
    pub(crate) cloud: Cloud,
    journal: Journal,
    before: Rows,
    told: Value,
    // The last field to be dropped, because the databases must outlive the server.
    plant: Plant,
    _dir: tempfile::TempDir,
}

/// Rows by table and UUID.
type Rows = BTreeMap<(&'static str, String), Value>;

const TABLES: [&str; 19] = [
    "ACL",
    "Address_Set",
    "BFD",
    "DHCP_Options",
    "DNS",
    "Gateway_Chassis",
    "HA_Chassis",
    "HA_Chassis_Group",
    "Load_Balancer",
    "Logical_Router",
    "Logical_Router_Policy",
    "Logical_Router_Port",
    "Logical_Router_Static_Route",
    "Logical_Switch",
    "Logical_Switch_Port",
    "NAT",
    "NB_Global",
    "Port_Group",
    "QoS",
];

fn rows(ovn: &Path) -> Rows {
    let rows =
        TABLES.iter().flat_map(|table| rows_in(ovn, "nb", table).into_iter().map(move |row| (*table, row)));
    rows.map(|(table, row)| ((table, row["_uuid"].as_str().unwrap().to_owned()), row)).collect()
}

/// Binds ports and gateways to the chassis where they were, as ovn-controller would.
fn bind(ovn: &Path) {
    for chassis in ["ch1", "ch2", "ch3"] {
        let zone = chassis.replace("ch", "az");
        let options = format!("enable-chassis-as-gw,availability-zones={zone}");
        add_chassis(ovn, chassis, &["phy1", "phy2", "phy3"], &options);
    }
    let mut places = BTreeMap::new();
    for port in rows_in(ovn, "nb", "Logical_Switch_Port") {
        let Some(host) = port["external_ids"]["neutron:host_id"].as_str() else { continue };
        let name = port["name"].as_str().unwrap();
        let name = if port["type"] == "router" { format!("cr-lrp-{name}") } else { name.to_owned() };
        places.insert(name, host.strip_suffix(".example").unwrap().to_owned());
    }
    let names = || -> BTreeMap<String, String> {
        let rows = rows_in(ovn, "sb", "Port_Binding");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rows.iter().map(|row| (text(&row["logical_port"]), text(&row["_uuid"]))).collect()
    };
    let bindings = eventually("northd has made the bindings", || {
        let names = names();
        places.keys().all(|name| names.contains_key(name)).then_some(names)
    });
    for (name, chassis) in &places {
        ctl(ovn, "sb", &format!("lsp-bind {name} {chassis} -- set Port_Binding {} up=true", bindings[name]));
    }
    eventually("northd has told that they are up", || {
        let ports = rows_in(ovn, "nb", "Logical_Switch_Port");
        let waits = |port: &&Value| places.contains_key(port["name"].as_str().unwrap()) && port["up"] != true;
        ports.iter().filter(waits).count().eq(&0).then_some(())
    });
}

fn taken() -> ImportedCloud {
    taken_with(API, |_| {})
}

/// Imports other answers of Neutron's API after `change` has changed the Northbound in the given directory.
pub(crate) fn taken_with(api: &str, change: impl FnOnce(&Path)) -> ImportedCloud {
    let (plant, dir) = (Plant::on(NORTHBOUND), tempfile::tempdir().unwrap());
    bind(plant.dir());
    change(plant.dir());
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let (saved, config) = (file("api.json", api), file("meridian.toml", CONFIG));
    let nb = format!("unix:{}/nb.sock", plant.dir().display());
    let import = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["import", "neutron", "--output", "json", "--offline", &saved, "--nb", &nb, "--data-dir"])
        .arg(dir.path())
        .env("MERIDIAN_CONFIG", &config)
        .output()
        .unwrap();
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    let told = serde_json::from_slice(&import.stdout).unwrap();
    let (journal, before) = (Journal::within(plant.dir()), rows(plant.dir()));
    let database = format!("sqlite://{}", dir.path().join("api.db").display());
    let cloud = Cloud::on(plant.dir(), &["--config", &config, "--database", &database]);
    cloud.converged();
    ImportedCloud { cloud, journal, before, told, plant, _dir: dir }
}

/// The differences with the number of rows each, as `table column` or `table column how key`. Values that OVN itself writes are left out.
fn changed(before: &Rows, after: &Rows) -> BTreeMap<String, usize> {
    let by_ovn = [
        "up",
        "status",
        "nb_cfg",
        "nb_cfg_timestamp",
        "sb_cfg",
        "sb_cfg_timestamp",
        "hv_cfg",
        "hv_cfg_timestamp",
    ];
    // Neutron does not update the revision with every change, and corrects it minutes later.
    let aside = |key: &str| key.starts_with("meridian:") || key == "neutron:revision_number";
    let mut all = BTreeMap::new();
    for ((table, uuid), row) in before {
        let Some(now) = after.get(&(*table, uuid.clone())) else { continue };
        for (column, value) in row.as_object().unwrap() {
            match (value, &now[column]) {
                (old, new) if old == new || by_ovn.contains(&column.as_str()) => {}
                (Value::Object(old), Value::Object(new)) => {
                    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                    for key in keys.into_iter().filter(|key| !aside(key)) {
                        let how = match (old.get(key), new.get(key)) {
                            (Some(_), None) => "-",
                            (None, _) => "+",
                            (old, new) if old == new => continue,
                            _ => "~",
                        };
                        *all.entry(format!("{table} {column} {how} {key}")).or_default() += 1;
                    }
                }
                _ => *all.entry(format!("{table} {column}")).or_default() += 1,
            }
        }
    }
    all
}

/// The chassis of each gateway with their priorities, sorted by descending priority.
fn places(rows: &Rows) -> BTreeMap<String, Vec<(i64, String)>> {
    let listed =
        |value: &Value, row: &Value| value == row || value.as_array().is_some_and(|all| all.contains(row));
    let of = |table: &'static str| rows.iter().filter(move |((of, _), _)| *of == table).map(|(_, row)| row);
    let order = |port: &Value| {
        let group = of("HA_Chassis_Group").find(|group| group["_uuid"] == port["ha_chassis_group"])?;
        let members = of("HA_Chassis").filter(|member| listed(&group["ha_chassis"], &member["_uuid"]));
        let place = |row: &Value| {
            (row["priority"].as_i64().unwrap(), row["chassis_name"].as_str().unwrap().to_owned())
        };
        let mut order: Vec<_> = members.map(place).collect();
        order.sort_by(|a, b| b.cmp(a));
        Some((port["name"].as_str().unwrap().to_owned(), order))
    };
    of("Logical_Router_Port").filter_map(order).collect()
}

fn count<'r>(rows: impl Iterator<Item = &'r (&'static str, String)>) -> Value {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    rows.for_each(|(table, _)| *counts.entry(table).or_default() += 1);
    json!(counts)
}

#[test]
fn scenario_58_rows_of_a_real_neutron_stay_as_they_are() {
    let mut taken = taken();
    assert_eq!(taken.told["left_out"], json!([]));
    let strangers = taken.told["northbound"]["strangers"].as_array().unwrap();
    let strangers: Vec<&str> = strangers.iter().map(|row| row["table"].as_str().unwrap()).collect();
    assert_eq!(strangers, ["Load_Balancer", "QoS"], "a port forwarding's, and a bandwidth limit");
    assert_eq!(taken.told["notes"].as_array().unwrap().len(), 2, "{}", taken.told["notes"]);

    let after = rows(taken.plant.dir());
    let expected: BTreeMap<String, usize> =
        CHANGED.iter().map(|(what, many)| ((*what).to_owned(), *many)).collect();
    assert_eq!(changed(&taken.before, &after), expected);
    let gone = count(taken.before.keys().filter(|row| !after.contains_key(row)));
    let came = count(after.keys().filter(|row| !taken.before.contains_key(row)));
    assert_eq!(
        (&taken.told["northbound"]["removed"], &taken.told["northbound"]["made"]),
        (&gone, &came),
        "as was told"
    );
    assert_eq!(
        (gone, came),
        (
            json!({"HA_Chassis_Group": 3}),
            json!({"HA_Chassis": 7, "HA_Chassis_Group": 2, "Logical_Router_Policy": 4, "Logical_Router_Static_Route": 2})
        )
    );

    assert_eq!(places(&after), places(&taken.before), "no gateway has moved");
    assert_eq!(places(&after).len(), 6);

    // After a restart the server has nothing to do.
    taken.journal.next();
    assert!(taken.cloud.stop());
    taken.cloud.again();
    taken.cloud.converged();
    assert_eq!(tally(&taken.journal.next()), BTreeMap::new());
}

#[test]
fn scenario_58_rows_of_a_real_neutron_are_ours_to_change() {
    let taken = taken();
    let cloud = &taken.cloud;
    let named = |collection: &str, name: &str| {
        let all = cloud.get(&format!("{collection}?name={name}"))[collection].take();
        all[0]["id"].as_str().unwrap_or_else(|| panic!("{name}: {all}")).to_owned()
    };
    // Neutron has a chassis group for networks behind routers, with the name that Meridian gives to a group for external ports.
    let network = named("networks", "blue%20again");
    let direct = json!({"port": {"network_id": network, "binding:vnic_type": "direct"}});
    let made = cloud.settle("POST", "ports", Some(direct));
    assert_eq!((made.status, made.waited.as_deref()), (201, Some("nb")), "{made:?}");
    let groups = cloud.rows("HA_Chassis_Group");
    let group = groups.iter().find(|group| group["name"] == format!("neutron-{network}")).unwrap();
    assert_ne!(group["ha_chassis"], json!([]));

    let port = named("ports", "lost");
    cloud.delete(&format!("ports/{port}"));
    let router = named("routers", "twin");
    cloud.delete(&format!("routers/{router}"));
    cloud.converged();
    let names = |table: &str| -> BTreeSet<String> {
        let rows = cloud.rows(table);
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!names("Logical_Switch_Port").contains(&port));
    assert!(!names("Logical_Router").contains(&format!("neutron-{router}")));
    let of_router = |group: &Value| group["external_ids"]["neutron:router_id"] == router.as_str();
    assert!(!cloud.rows("HA_Chassis_Group").iter().any(of_router), "and its groups are gone");
}

#[test]
fn scenario_58_answers_are_those_of_a_real_neutron() {
    let taken = taken();
    let document: Value = serde_json::from_str(API).unwrap();
    let mut different = BTreeSet::new();
    for (collection, theirs) in document["collections"].as_object().unwrap() {
        let path = match collection.as_str() {
            "address_scopes" | "security_groups" | "security_group_rules" | "rbac_policies" => {
                collection.replace('_', "-")
            }
            _ => collection.clone(),
        };
        let (theirs, ours) = (by_id(theirs), by_id(&taken.cloud.get(&path)[collection]));
        assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>(), "{collection}");
        for (id, their) in &theirs {
            let (their, our) = (their.as_object().unwrap(), ours[id].as_object().unwrap());
            for key in their.keys().chain(our.keys()) {
                let how = match (their.get(key), our.get(key)) {
                    (Some(_), None) => "-",
                    (None, _) => "+",
                    (Some(their), Some(our)) if meant(key, their) == meant(key, our) => continue,
                    _ => "~",
                };
                different.insert(format!("{collection} {how} {key}"));
            }
        }
    }
    assert_eq!(different.into_iter().collect::<Vec<_>>(), ANSWERED);
}

fn by_id(list: &Value) -> BTreeMap<String, Value> {
    let id = |object: &Value| object["id"].as_str().or(object["project_id"].as_str()).unwrap().to_owned();
    list.as_array().unwrap().iter().map(|object| (id(object), object.clone())).collect()
}

/// A value in one form, if Neutron has several forms for it.
fn meant(key: &str, value: &Value) -> Value {
    match (key, value) {
        // Neutron returns the prefix lengths of pools as strings.
        ("min_prefixlen" | "max_prefixlen" | "default_prefixlen", Value::String(text)) => {
            json!(text.parse::<u8>().unwrap())
        }
        // Neutron returns null for an absent description.
        ("description", Value::Null) => json!(""),
        // Neutron repeats the router-wide setting with the first gateway only.
        ("external_gateways", Value::Array(gateways)) => {
            let mut gateways = gateways.clone();
            gateways
                .iter_mut()
                .for_each(|gateway| drop(gateway.as_object_mut().unwrap().remove("enable_snat")));
            json!(gateways)
        }
        // Rules are compared on their own.
        ("security_group_rules", Value::Array(rules)) => {
            json!(rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect::<BTreeSet<_>>())
        }
        _ => value.clone(),
    }
}
