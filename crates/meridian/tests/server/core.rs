//! Scenarios 1 to 10: the API itself.

use serde_json::json;

use crate::cloud::{Cloud, eventually, raw};

#[test]
fn scenario_01_versions_are_told_and_the_cli_finds_its_way() {
    let cloud = Cloud::start();
    let versions = raw(cloud.url(), &[], "GET", "/", None);
    assert_eq!(versions.status, 200);
    assert_eq!(versions.body["versions"][0]["id"], "v2.0");
    let version = raw(cloud.url(), &[], "GET", "/v2.0", None);
    assert_eq!(version.body["version"]["status"], "CURRENT");
    let resources = cloud.get("");
    let names: Vec<_> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
    for noun in ["network", "subnet", "port"] {
        assert!(names.contains(&json!(noun)), "{names:?}");
    }
    assert_eq!(raw(cloud.url(), &[], "POST", "/", None).status, 405);
    cloud.create("networks", "network", json!({"name": "n"}));
    assert_eq!(cloud.openstack("network list").unwrap()[0]["Name"], "n");
}

#[test]
fn scenario_02_extensions_are_listed_and_found_by_name() {
    let cloud = Cloud::start();
    let listed = cloud.openstack("extension list --network").unwrap();
    let aliases: Vec<_> = listed.as_array().unwrap().iter().map(|e| e["Alias"].as_str().unwrap()).collect();
    for alias in
        ["external-gateway-multihoming", "enable-default-route-ecmp", "enable-default-route-bfd", "router"]
    {
        assert!(aliases.contains(&alias), "{aliases:?}");
    }
    cloud.chassis("ch1", &["phy1"], "enable-chassis-as-gw,availability-zones=az1");
    eventually("the zone is listed", || {
        let zones = cloud.openstack("availability zone list --network").ok()?;
        zones.as_array()?.iter().any(|zone| zone["Zone Name"] == "az1").then_some(())
    });
}

#[test]
fn scenario_03_an_external_network_is_a_switch_with_a_localnet_port() {
    let cloud = Cloud::start();
    let made = cloud
        .openstack(
            "network create --external --provider-network-type flat --provider-physical-network phy1 N1",
        )
        .unwrap();
    let id = made["id"].as_str().unwrap();
    let switch = eventually("the switch is there", || {
        cloud.rows("Logical_Switch").into_iter().find(|row| row["name"] == format!("neutron-{id}"))
    });
    assert_eq!(switch["_uuid"], id);
    let ports = cloud.rows("Logical_Switch_Port");
    let localnet = ports.iter().find(|port| port["type"] == "localnet").unwrap();
    assert!(localnet["name"].as_str().unwrap().starts_with("provnet-"));
    assert_eq!(localnet["options"]["network_name"], "phy1");
}
