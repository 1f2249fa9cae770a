//! The Northbound of a side as one value: what the two servers have written for the same requests.
//!
//! Rows refer to each other by UUIDs that each side chose, and the order of rows says nothing. So a reference is replaced by the row behind
//! it, and each table becomes a list of such trees.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use lab::rpc::Rpc;
use serde_json::{Map, Value, json};

/// The tables whose rows are compared. Rows of the other tables are in them, as the rows that they refer to.
const ROOTS: [&str; 5] = ["Logical_Switch", "Logical_Router", "Port_Group", "Address_Set", "DNS"];
/// The tables with rows that others refer to.
const PARTS: [&str; 11] = [
    "ACL",
    "BFD",
    "DHCP_Options",
    "Gateway_Chassis",
    "HA_Chassis",
    "HA_Chassis_Group",
    "Logical_Router_Policy",
    "Logical_Router_Port",
    "Logical_Router_Static_Route",
    "Logical_Switch_Port",
    "NAT",
];

/// The columns that refer to rows, with the table of these; an object in OVN may have one UUID for rows of several tables.
const REFERENCES: [(&str, &str, &str); 15] = [
    ("Logical_Switch", "ports", "Logical_Switch_Port"),
    ("Logical_Switch", "acls", "ACL"),
    ("Logical_Switch", "dns_records", "DNS"),
    ("Logical_Switch_Port", "dhcpv4_options", "DHCP_Options"),
    ("Logical_Switch_Port", "dhcpv6_options", "DHCP_Options"),
    ("Logical_Switch_Port", "ha_chassis_group", "HA_Chassis_Group"),
    ("Logical_Router", "ports", "Logical_Router_Port"),
    ("Logical_Router", "static_routes", "Logical_Router_Static_Route"),
    ("Logical_Router", "policies", "Logical_Router_Policy"),
    ("Logical_Router", "nat", "NAT"),
    ("Logical_Router_Port", "ha_chassis_group", "HA_Chassis_Group"),
    ("Logical_Router_Port", "gateway_chassis", "Gateway_Chassis"),
    ("Logical_Router_Static_Route", "bfd", "BFD"),
    ("HA_Chassis_Group", "ha_chassis", "HA_Chassis"),
    ("Port_Group", "acls", "ACL"),
];
/// The columns that refer to rows which belong elsewhere: they become names.
const BY_NAME: [(&str, &str, &str); 2] =
    [("Port_Group", "ports", "Logical_Switch_Port"), ("NAT", "gateway_port", "Logical_Router_Port")];

/// Columns that OVN writes, or that say nothing without their database.
const ASIDE: [&str; 3] = ["_uuid", "_version", "up"];

/// Reads the Northbound behind a socket.
pub(super) fn northbound(socket: &Path) -> Result<Value> {
    let mut rpc = Rpc::connect(socket)?;
    let mut params = vec![json!("OVN_Northbound")];
    let tables: Vec<&str> = ROOTS.iter().chain(&PARTS).copied().collect();
    params.extend(tables.iter().map(|table| json!({"op": "select", "table": table, "where": []})));
    let replies = rpc.call("transact", Value::Array(params))?;
    let mut rows = Rows::new();
    for (table, reply) in tables.iter().zip(replies.as_array().into_iter().flatten()) {
        for row in reply["rows"].as_array().into_iter().flatten() {
            if let (Some(uuid), Some(row)) = (row["_uuid"][1].as_str(), row.as_object()) {
                rows.insert((*table, uuid.to_owned()), row.clone());
            }
        }
    }
    let roots = ROOTS.iter().map(|root| {
        let of = rows.iter().filter(|((table, _), _)| table == root);
        ((*root).to_owned(), of.map(|((table, _), row)| tree(&rows, table, row)).collect())
    });
    Ok(Value::Object(roots.collect()))
}

/// Rows by table and UUID.
type Rows = HashMap<(&'static str, String), Map<String, Value>>;

/// A row with the rows that it refers to. References lead from roots to parts and never back, except those that become names.
fn tree(rows: &Rows, table: &str, row: &Map<String, Value>) -> Value {
    // The way to the metadata service from networks without DHCP, which Neutron does not have.
    if row.get("external_ids").is_some_and(|ids| ids.to_string().contains("meridian:metadata")) {
        return Value::Null;
    }
    let columns = row.iter().filter(|(column, _)| !ASIDE.contains(&column.as_str()));
    columns
        .map(|(column, value)| {
            let mut value = plain(rows, (table, column), value);
            if REFERENCES.iter().any(|(of, name, _)| (*of, *name) == (table, column.as_str())) {
                // OVSDB has another notation for a set of one. Rows that are left out are null.
                let all = if value.is_array() { value } else { json!([value]) };
                value = all.as_array().into_iter().flatten().filter(|row| !row.is_null()).cloned().collect();
            }
            if column == "external_ids"
                && let Some(ids) = value.as_object_mut()
            {
                // The marks by which our server knows its rows, and how often Neutron has written them.
                ids.retain(|key, _| !key.starts_with("meridian:") && key != "neutron:revision_number");
            }
            (column.clone(), value)
        })
        .collect()
}

/// A value of OVSDB's notation as ordinary JSON.
fn plain(rows: &Rows, place: (&str, &str), value: &Value) -> Value {
    let of = |references: &'static [(&str, &str, &str)]| {
        references.iter().find(|(table, column, _)| (*table, *column) == place).map(|(_, _, table)| *table)
    };
    match (value[0].as_str(), &value[1]) {
        (Some("set"), Value::Array(all)) => all.iter().map(|value| plain(rows, place, value)).collect(),
        (Some("map"), Value::Array(all)) => {
            let pairs = all.iter().filter_map(|pair| Some((pair[0].as_str()?.to_owned(), pair[1].clone())));
            Value::Object(pairs.collect())
        }
        (Some("uuid"), Value::String(uuid)) => {
            let row = |table| rows.get(&(table, uuid.clone()));
            match (of(&REFERENCES), of(&BY_NAME)) {
                (Some(table), _) => row(table).map_or(json!("no such row"), |row| tree(rows, table, row)),
                (_, Some(table)) => row(table).and_then(|row| row.get("name").cloned()).unwrap_or_default(),
                // Rows of tables that are not compared.
                _ => json!("a row"),
            }
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_trees_without_ids_of_their_database() {
        let row = |value: Value| value.as_object().unwrap().clone();
        let port = row(json!({"_uuid": ["uuid", "p"], "name": "port", "up": true}));
        let other = row(json!({"_uuid": ["uuid", "p"], "name": "lrp-port"}));
        let rows = HashMap::from([
            (("Logical_Switch_Port", "p".to_owned()), port),
            (("Logical_Router_Port", "p".to_owned()), other),
        ]);
        let metadata =
            json!({"_uuid": ["uuid", "r"], "external_ids": ["map", [["meridian:metadata", "true"]]]});
        let route = ("Logical_Router_Static_Route", "r".to_owned());
        let router = row(json!({"name": "router", "static_routes": ["uuid", "r"]}));
        let with_route = Rows::from([(route, row(metadata))]);
        let expected = json!({"name": "router", "static_routes": []});
        assert_eq!(tree(&with_route, "Logical_Router", &router), expected);
        let switch = row(json!({
            "_uuid": ["uuid", "s"], "name": "switch", "ports": ["uuid", "p"], "acls": ["set", []],
            "external_ids": ["map", [["a", "b"], ["meridian:owner", "meridian"], ["neutron:revision_number", "4"]]],
        }));
        let expected =
            json!({"name": "switch", "ports": [{"name": "port"}], "acls": [], "external_ids": {"a": "b"}});
        assert_eq!(tree(&rows, "Logical_Switch", &switch), expected);
        let group = row(json!({"name": "pg", "ports": ["set", [["uuid", "p"], ["uuid", "gone"]]]}));
        assert_eq!(tree(&rows, "Port_Group", &group)["ports"], json!(["port", null]));
    }
}
