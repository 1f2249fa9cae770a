//! `meridian import octavia`, from an API in Octavia's dialect and from rows as Octavia's provider writes them.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::site::{BalancerSite, note};
use crate::cloud::{Cloud, rows_in};
use crate::plant::Plant;

/// Runs an import into a data directory; returns its report, or its standard error.
pub(super) fn import(dir: &Path, args: &[&str]) -> Result<Value, String> {
    let data = dir.display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["import"])
        .args(args)
        .args(["--output", "json", "--data-dir", &data])
        .env_remove("MERIDIAN_CONFIG")
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match output.status.success() {
        true => Ok(report),
        false => Err(format!("{report}\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs one transaction on the Northbound with a plain OVSDB client.
pub(super) fn transact(ovn: &Path, operations: Vec<Value>) -> Value {
    let mut transaction = vec![json!("OVN_Northbound")];
    transaction.extend(operations);
    let output = Command::new("ovsdb-client")
        .args(["transact", &format!("unix:{}/nb.sock", ovn.display()), &json!(transaction).to_string()])
        .output()
        .unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = results.as_array().unwrap().iter().find(|result| result.get("error").is_some());
    assert_eq!(failed, None, "{}", String::from_utf8_lossy(&output.stderr));
    results
}

/// Rewrites the rows of load balancers as Octavia's provider would have created them: with random UUIDs and without Meridian's keys.
/// Switches and routers refer to the new rows.
fn rewrite_as_provider(ovn: &Path) {
    let select = |table: &str, columns: Value| json!({"op": "select", "table": table, "where": [], "columns": columns});
    let balancer_columns = json!([
        "_uuid",
        "name",
        "vips",
        "protocol",
        "ip_port_mappings",
        "selection_fields",
        "options",
        "external_ids",
        "health_check"
    ]);
    let results = transact(
        ovn,
        vec![
            select("Load_Balancer", balancer_columns),
            select("Load_Balancer_Health_Check", json!(["_uuid", "vip", "options", "external_ids"])),
            select("NB_Global", json!(["external_ids"])),
        ],
    );
    let foreign = |row: &Value, number: usize| {
        let mut new = row.clone();
        let columns = new.as_object_mut().unwrap();
        columns.remove("_uuid");
        let ids = columns["external_ids"][1].as_array_mut().unwrap();
        ids.retain(|pair| !pair[0].as_str().unwrap().starts_with("meridian:"));
        (format!("row{number}"), new)
    };
    // The Northbound loses the note of the store that wrote it. Otherwise a server with another store would delete nothing.
    let mut global = results[2]["rows"][0]["external_ids"].clone();
    global[1].as_array_mut().unwrap().retain(|pair| !pair[0].as_str().unwrap().starts_with("meridian"));
    let mut operations =
        vec![json!({"op": "update", "table": "NB_Global", "where": [], "row": {"external_ids": global}})];
    let mut number = 0;
    let mut checks = std::collections::BTreeMap::new();
    for row in results[1]["rows"].as_array().unwrap() {
        number += 1;
        let (name, new) = foreign(row, number);
        operations.push(
            json!({"op": "insert", "table": "Load_Balancer_Health_Check", "uuid-name": name, "row": new}),
        );
        checks.insert(row["_uuid"][1].as_str().unwrap().to_owned(), name);
    }
    for row in results[0]["rows"].as_array().unwrap() {
        number += 1;
        let (name, mut new) = foreign(row, number);
        let old = row["_uuid"].clone();
        let used = match row["health_check"][0].as_str() {
            Some("uuid") => vec![row["health_check"].clone()],
            _ => row["health_check"][1].as_array().unwrap().clone(),
        };
        let used: Vec<Value> =
            used.iter().map(|check| json!(["named-uuid", checks[check[1].as_str().unwrap()]])).collect();
        new["health_check"] = json!(["set", used]);
        operations.push(json!({"op": "insert", "table": "Load_Balancer", "uuid-name": name, "row": new}));
        for table in ["Logical_Switch", "Logical_Router"] {
            let add = json!(["load_balancer", "insert", ["set", [["named-uuid", name]]]]);
            let remove = json!(["load_balancer", "delete", ["set", [old]]]);
            let holders = json!([["load_balancer", "includes", ["set", [old]]]]);
            operations.push(json!({"op": "mutate", "table": table, "where": holders, "mutations": [add]}));
            operations.push(json!({"op": "mutate", "table": table, "where": holders, "mutations": [remove]}));
        }
        operations.push(json!({"op": "delete", "table": "Load_Balancer", "where": [["_uuid", "==", old]]}));
    }
    transact(ovn, operations);
}

/// Removes attributes that are not the subject here: the state of the probes, which a new server does not know yet, and the time of the
/// last change.
fn forget_news(object: &mut Value) {
    let attributes = object.as_object_mut().unwrap();
    attributes.remove("updated_at");
    attributes.remove("operating_status");
}

#[test]
fn load_balancers_of_an_octavia_keep_their_ids_rows_and_traffic() {
    let (plant, dir) = (Plant::start(), tempfile::tempdir().unwrap());
    let saved = |name: &str| dir.path().join(name).display().to_string();
    let (network, balancers) = (saved("network.json"), saved("balancers.json"));
    let nb = format!("unix:{}/nb.sock", plant.dir().display());

    // The cloud before the import: a load balancer with two protocols and a health monitor.
    let mut site = BalancerSite::on(Cloud::on(plant.dir(), &[]));
    let lb1 = site.balancer("lb1", &site.s1);
    let web = site.pool("web", &lb1);
    site.member(&web, "10.0.0.107", &site.s1);
    site.member(&web, "20.0.0.107", &site.s2);
    site.listener(&lb1, 82, &web);
    let monitor = json!({"pool_id": web, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2});
    site.make("healthmonitors", "healthmonitor", monitor);
    let names =
        json!({"name": "dns", "loadbalancer_id": lb1, "protocol": "UDP", "lb_algorithm": "SOURCE_IP_PORT"});
    let dns = site.make("pools", "pool", names);
    site.member(&dns, "10.0.0.108", &site.s1);
    site.make(
        "listeners",
        "listener",
        json!({"loadbalancer_id": lb1, "protocol": "UDP", "protocol_port": 53, "default_pool_id": dns}),
    );
    let shown = |site: &BalancerSite| -> Vec<Value> {
        let mut all = Vec::new();
        for collection in ["loadbalancers", "listeners", "pools", "healthmonitors"] {
            for mut object in site.get(collection)[collection].as_array().unwrap().clone() {
                forget_news(&mut object);
                all.push(object);
            }
        }
        for pool in [&web, &dns] {
            let members = site.get(&format!("pools/{pool}/members"))["members"].clone();
            for mut member in members.as_array().unwrap().clone() {
                forget_news(&mut member);
                all.push(member);
            }
        }
        all
    };
    let before = shown(&site);
    let scratch = tempfile::tempdir().unwrap();
    let read = |noun: &str, from: &str, file: &str| {
        import(scratch.path(), &[noun, "--from", from, "--save", file, "--dry-run", "--without-nb"])
    };
    read("neutron", site.cloud.url(), &network).unwrap();
    // The store has no networks, so the report names every load balancer as left out. The answers are saved all the same.
    let preview = read("octavia", site.cloud.load_balancer_url(), &balancers).unwrap();
    let remark = preview["left_out"][0]["text"].as_str().unwrap();
    assert!(remark.contains("run `meridian import neutron` first"), "{preview}");
    assert!(site.cloud.stop());
    rewrite_as_provider(plant.dir());
    let theirs = rows_in(plant.dir(), "nb", "Load_Balancer");
    assert!(theirs.iter().all(|row| row["_uuid"] != lb1.as_str()), "{theirs:?}");

    // The import of load balancers needs the networks. Without them it fails with that advice.
    let octavia = ["octavia", "--offline", balancers.as_str(), "--nb", nb.as_str()];
    let complaint = import(dir.path(), &octavia).unwrap_err();
    assert!(complaint.contains("nothing is stored"), "{complaint}");
    import(dir.path(), &["neutron", "--offline", &network, "--nb", &nb]).unwrap();
    let dry: Vec<&str> = octavia.into_iter().chain(["--dry-run"]).collect();
    assert_eq!(import(dir.path(), &dry).unwrap()["stored"], Value::Null);
    let report = import(dir.path(), &octavia).unwrap();
    assert_eq!(report["left_out"], json!([]), "{report}");
    assert_eq!(report["northbound"]["kept"]["Load_Balancer"], 2, "{report}");
    assert_eq!(report["northbound"]["kept"]["Load_Balancer_Health_Check"], 1, "{report}");
    for outcome in ["made", "removed"] {
        let counts = &report["northbound"][outcome];
        assert_eq!(counts.get("Load_Balancer"), None, "{report}");
    }
    // A second import stores nothing twice.
    let complaint = import(dir.path(), &octavia).unwrap_err();
    assert!(complaint.contains("the database has it already"), "{complaint}");

    // The server continues with the existing rows.
    let database = format!("sqlite://{}", dir.path().join("api.db").display());
    site.cloud = Cloud::on(plant.dir(), &["--database", &database]);
    site.cloud.converged();
    site.settled();
    let after = rows_in(plant.dir(), "nb", "Load_Balancer");
    assert_eq!(after.len(), theirs.len());
    for old in &theirs {
        let new = after.iter().find(|row| row["_uuid"] == old["_uuid"]).expect("the row has kept its UUID");
        for column in ["name", "vips", "protocol", "ip_port_mappings", "selection_fields", "health_check"] {
            assert_eq!(new[column], old[column], "{column}");
        }
        for key in ["enabled", "ls_refs", "lr_ref", "neutron:vip", "neutron:vip_port_id"] {
            assert_eq!(note(new, key), note(old, key), "{key}");
        }
    }
    assert_eq!(site.on_router(&site.r1), [lb1.clone()].into());
    assert_eq!(shown(&site), before, "every attribute of every object");

    // The server now owns the rows: it deletes them with their load balancer.
    site.delete(&format!("loadbalancers/{lb1}?cascade=true"));
    assert_eq!(rows_in(plant.dir(), "nb", "Load_Balancer"), Vec::<Value>::new());
}
