//! A cloud of a real Neutron with hostile strings from tenants, and a Northbound with the rows that Neutron made of them. After the import,
//! the real ovn-northd compiles the same logical flows as for a harmless cloud.

use std::path::Path;

use serde_json::{Value, json};

use crate::cloud::{ctl, eventually, rows_in};
use crate::hostile_text::{ATTACKS, compiled};
use crate::recorded::{API, taken_with};

/// Options whose values are numbers and addresses, not strings.
const OPTIONS: [&str; 9] = [
    "T1",
    "T2",
    "log-server",
    "nis-server",
    "swap-server",
    "default-ttl",
    "arp-timeout",
    "router-solicitation",
    "policy-filter",
];

/// Ends put_dhcp_opts() and begins another one. It contains no spaces, because they separate the arguments of ovn-nbctl.
const POISON: &str = "1400);output;reg0[3]=put_dhcp_opts(offerip=1.2.3.4";

/// Gives every port of a tenant a harmless option, so that it has a DHCP_Options row in both clouds.
fn harmless() -> Value {
    let mut api: Value = serde_json::from_str(API).unwrap();
    for port in ports(&mut api) {
        let options = port["extra_dhcp_opts"].as_array_mut().unwrap();
        if options.iter().all(|option| option["opt_name"] != "mtu") {
            options.push(json!({"opt_name": "mtu", "opt_value": "1300", "ip_version": 4}));
        }
    }
    api
}

/// Ports of tenants that have DHCP.
fn ports(api: &mut Value) -> impl Iterator<Item = &mut Value> {
    let ports = api["collections"]["ports"].as_array_mut().unwrap().iter_mut();
    ports.filter(|port| {
        !port["device_owner"].as_str().unwrap().starts_with("network:") && port["name"] != "nodhcp"
    })
}

/// The same cloud with a hostile string wherever Neutron accepts one, and the number of these strings.
fn hostile() -> (Value, usize) {
    let mut api = harmless();
    // Neutron's database does not accept NUL.
    let mut attacks = ATTACKS.iter().filter(|attack| !attack.contains('\0')).cycle();
    let mut texts = 0;
    let mut next = || {
        texts += 1;
        json!(attacks.next().unwrap())
    };
    for port in ports(&mut api) {
        let options = OPTIONS.map(|name| json!({"opt_name": name, "opt_value": next(), "ip_version": 4}));
        port["extra_dhcp_opts"].as_array_mut().unwrap().extend(options);
        let unknown = json!({"opt_name": next(), "opt_value": next(), "ip_version": 4});
        port["extra_dhcp_opts"].as_array_mut().unwrap().push(unknown);
        if port["dns_name"] == "" {
            port["dns_name"] = next();
        }
    }
    for (collection, attributes) in [
        ("networks", &["name", "description"][..]),
        ("subnets", &["name", "description"]),
        ("routers", &["name", "description"]),
        ("ports", &["name", "description"]),
        ("security_groups", &["name", "description"]),
        ("security_group_rules", &["description"]),
        ("floatingips", &["description"]),
    ] {
        for object in api["collections"][collection].as_array_mut().unwrap() {
            for attribute in attributes {
                object[*attribute] = next();
            }
        }
    }
    for network in api["collections"]["networks"].as_array_mut().unwrap() {
        if network["dns_domain"] == "" {
            network["dns_domain"] = next();
        }
    }
    (api, texts)
}

/// Writes the rows that Neutron would have made of a hostile value.
fn poison(ovn: &Path) {
    let rows = rows_in(ovn, "nb", "DHCP_Options");
    let four = rows.iter().filter(|row| !row["cidr"].as_str().unwrap().contains(':'));
    for row in four {
        let uuid = row["_uuid"].as_str().unwrap();
        ctl(ovn, "nb", &format!("set DHCP_Options {uuid} options:mtu=\"{POISON}\""));
    }
    // The attack works until the row is repaired.
    eventually("ovn-northd compiles the hostile value", || {
        let flows = rows_in(ovn, "sb", "Logical_Flow");
        flows.iter().any(|flow| flow["actions"].as_str().unwrap().contains(POISON)).then_some(())
    });
}

#[test]
fn no_text_that_is_imported_becomes_a_part_of_a_logical_flow() {
    let expected = compiled(&taken_with(&harmless().to_string(), |_| {}).cloud);
    let (api, texts) = hostile();
    assert!(texts > 300, "{texts}");
    let taken = taken_with(&api.to_string(), poison);
    let found = compiled(&taken.cloud);
    expected.assert_same(&found, "an import");
    // The API still returns the strings to their owners.
    let ports = taken.cloud.get("ports")["ports"].clone();
    let named = |attack: &&&str| ports.as_array().unwrap().iter().any(|port| port["name"] == **attack);
    assert!(ATTACKS.iter().filter(named).count() > 5, "{ports:#}");
}
