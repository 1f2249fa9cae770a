//! Scenarios 1 to 10 without 4: the API itself, and the OVN rows of networks, ports and routers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually, raw};
use crate::journal::{Journal, counts};
use crate::world::{World, id, members};

/// The aliases of all expected extensions.
const ALIASES: &str = "router ext-gw-mode extraroute extraroute-atomic external-gateway-multihoming \
    enable-default-route-ecmp enable-default-route-bfd ecmp_routes router-enable-snat l3-ha fip-port-details \
    floatingip-pools router_availability_zone l3_agent_scheduler l3-agent-scheduler-ha-chassis-priority external-net \
    provider binding binding-extended port-security allowed-address-pairs extra_dhcp_opt net-mtu net-mtu-writable \
    availability_zone network_availability_zone agent quotas quota_details quota-check-limit security-group \
    stateful-security-group security-groups-normalized-cidr rbac-policies rbac-address-scope address-scope subnet_allocation \
    default-subnetpools subnetpool-prefix-ops subnet-service-types subnet-external-network network-ip-availability \
    service-type dns-integration port-mac-address-regenerate ip_allocation ip-substring-filtering pagination sorting \
    project-id standard-attr-description standard-attr-revisions revision-if-match standard-attr-timestamp \
    standard-attr-tag tag-creation filter-validation empty-string-filtering";

#[test]
fn scenario_01_versions_are_told_and_the_cli_finds_its_way() {
    let cloud = Cloud::start();
    let url = cloud.url();
    let link = |href: String| json!([{"rel": "self", "href": href}]);
    let version = json!({"id": "v2.0", "status": "CURRENT", "links": link(format!("{url}/v2.0/"))});
    let versions = raw(url, &[], "GET", "/", None);
    assert_eq!((versions.status, versions.body), (200, json!({ "versions": [version] })));
    let one = raw(url, &[], "GET", "/v2.0", None);
    assert_eq!((one.status, &one.body["version"]["id"]), (200, &json!("v2.0")));
    assert_eq!(one.body["version"]["status"], "CURRENT");
    let resources = cloud.get("");
    for (noun, collection) in [("network", "networks"), ("subnet", "subnets"), ("port", "ports")] {
        let resource = json!({"name": noun, "collection": collection, "links": link(format!("{url}/v2.0/{collection}"))});
        assert!(resources["resources"].as_array().unwrap().contains(&resource), "{resources}");
    }
    for path in ["/", "/v2.0/"] {
        assert_eq!(raw(url, &[("X-Auth-Token", "t")], "POST", path, None).status, 405, "{path}");
    }
    cloud.create("networks", "network", json!({"name": "n"}));
    let clouds = json!({"clouds": {
        "none": {"auth_type": "none", "auth": {"endpoint": url}},
        "versioned": {"auth_type": "none", "auth": {"endpoint": format!("{url}/v2.0")}},
    }});
    // YAML reads JSON.
    std::fs::write(cloud.dir().join("clouds.yaml"), clouds.to_string()).unwrap();
    for name in ["none", "versioned"] {
        let listed = cloud.openstack_as(&[("OS_CLOUD", name)], "network list").unwrap();
        assert_eq!(listed[0]["Name"], "n", "{name}");
    }
}

#[test]
fn scenario_02_extensions_are_listed_and_found_by_name() {
    let cloud = Cloud::start();
    let listed = cloud.openstack("extension list --network").unwrap();
    let aliases: BTreeSet<_> =
        listed.as_array().unwrap().iter().map(|it| it["Alias"].as_str().unwrap()).collect();
    let expected: BTreeSet<_> = ALIASES.split_whitespace().collect();
    assert_eq!(aliases, expected, "missing: {:?}", expected.difference(&aliases).collect::<Vec<_>>());
    cloud.chassis("ch1", &["phy1"], "enable-chassis-as-gw,availability-zones=az1");
    eventually("the zone is known", || {
        (cloud.get("availability_zones")["availability_zones"][0]["name"] == "az1").then_some(())
    });
    let zones = cloud.openstack("availability zone list --network").unwrap();
    assert_eq!(zones[0]["Zone Name"], "az1");
}

#[test]
fn scenario_03_an_external_network_is_a_switch_with_a_localnet_port() {
    let cloud = Cloud::start();
    let made = cloud
        .openstack(
            "network create --external --provider-network-type flat --provider-physical-network phy1 N1",
        )
        .unwrap();
    assert_eq!((&made["name"], &made["router:external"]), (&json!("N1"), &json!(true)));
    let id = made["id"].as_str().unwrap();
    let switch = eventually("the switch is there", || {
        cloud.rows("Logical_Switch").into_iter().find(|row| row["name"] == format!("neutron-{id}"))
    });
    assert_eq!(switch["_uuid"], id);
    let ports = cloud.rows("Logical_Switch_Port");
    let localnet = ports.iter().find(|port| port["type"] == "localnet").unwrap();
    assert!(localnet["name"].as_str().unwrap().starts_with("provnet-"));
    assert_eq!(localnet["options"]["network_name"], "phy1");
    assert!(members(&switch["ports"]).contains(&localnet["_uuid"].as_str().unwrap()), "on that switch");
}

#[test]
fn scenario_05_ports_are_made_together_or_not_at_all() {
    let world = World::new(json!({}));
    let (network, subnet) = world.internal("inside", "10.0.0.0/24");
    let before = world.cloud.get("ports");
    let mut journal = world.journal();
    let port = |address: &str| json!({"network_id": network, "fixed_ips": [{"subnet_id": subnet, "ip_address": address}]});
    let three = json!({"ports": [port("10.0.0.10"), port("10.0.0.11"), port("10.0.0.10")]});
    let (status, kind, text) = world.cloud.settle("POST", "ports", Some(three)).refusal();
    assert_eq!((status, kind.as_str()), (409, "IpAddressAlreadyAllocated"), "{text}");
    assert!(text.contains("10.0.0.10"), "{text}");
    assert_eq!(world.cloud.get("ports"), before, "none was made");
    // OVN receives only the successful change.
    world.put(&format!("networks/{network}"), json!({"network": {"name": "renamed"}}));
    assert_eq!(journal.tally(), counts([("modify Logical_Switch", 1)]));
    let two = json!({"ports": [port("10.0.0.10"), port("10.0.0.11")]});
    assert_eq!(world.cloud.settle("POST", "ports", Some(two)).status, 201);
    assert_eq!(journal.tally()["insert Logical_Switch_Port"], 2);
}

#[test]
fn scenario_06_pages_lead_forth_and_back() {
    let cloud = Cloud::start();
    let names = ["a", "b", "c", "d", "e"];
    // The networks are created in another order than they are listed in.
    for name in ["d", "a", "e", "c", "b"] {
        cloud.create("networks", "network", json!({ "name": name }));
    }
    let mut page = cloud.get("networks?limit=2&sort_key=name&sort_dir=asc");
    let mut forth = Vec::new();
    loop {
        forth.extend(page_names(&page));
        let Some(next) = link(&cloud, &page, "next") else { break };
        page = cloud.get(&next);
    }
    assert_eq!(forth, names, "each once, in order");
    assert_eq!(page_names(&page), ["e"], "the last page has no next");
    let mut back = page_names(&page);
    while let Some(previous) = link(&cloud, &page, "previous") {
        page = cloud.get(&previous);
        let mut names = page_names(&page);
        names.append(&mut back);
        back = names;
    }
    assert_eq!(back, names, "and the same on the way back");
}

fn page_names(page: &Value) -> Vec<String> {
    let networks = page["networks"].as_array().unwrap();
    networks.iter().map(|network| network["name"].as_str().unwrap().to_owned()).collect()
}

/// The path of the next or previous page, from the links of a page.
fn link(cloud: &Cloud, page: &Value, rel: &str) -> Option<String> {
    let links = page["networks_links"].as_array()?;
    let href = links.iter().find(|link| link["rel"] == rel)?["href"].as_str().unwrap();
    Some(href.strip_prefix(&format!("{}/v2.0/", cloud.url())).expect(href).to_owned())
}

#[test]
fn scenario_07_a_change_on_condition_of_an_old_revision_is_refused() {
    let cloud = Cloud::start();
    let network = cloud.create("networks", "network", json!({"name": "n"}));
    let path = format!("/v2.0/networks/{}", id(&network));
    let put = |revision: u64, name: &str| {
        let headers = [("X-Auth-Token", "t"), ("If-Match", &format!("revision_number={revision}") as &str)];
        let body = json!({"network": {"name": name}}).to_string();
        raw(cloud.url(), &headers, "PUT", &path, Some(&body))
    };
    let revision = network["revision_number"].as_u64().unwrap();
    assert_eq!(cloud.get(&path["/v2.0/".len()..])["network"]["revision_number"], revision);
    let changed = put(revision, "first");
    assert_eq!((changed.status, &changed.body["network"]["name"]), (200, &json!("first")));
    let (status, kind, _) = put(revision, "second").refusal();
    assert_eq!((status, kind.as_str()), (412, "RevisionNumberConstraintFailed"));
    assert_eq!(cloud.get(&path["/v2.0/".len()..])["network"]["name"], "first");
    let headers = [("X-Auth-Token", "t"), ("If-Match", &format!("revision_number={revision}") as &str)];
    assert_eq!(raw(cloud.url(), &headers, "DELETE", &path, None).status, 412);
    let unconditional = json!({"network": {"name": "third"}});
    assert_eq!(cloud.put(&path["/v2.0/".len()..], unconditional)["network"]["name"], "third");
}

#[test]
fn scenario_08_what_is_in_use_is_not_deleted() {
    let world = World::new(json!({}));
    let (network, _) = world.internal("inside", "10.0.0.0/24");
    let port = id(&world.create("ports", "port", json!({ "network_id": network })));
    let delete = |path: &str| world.cloud.settle("DELETE", path, None).refusal();
    let (status, kind, text) = delete(&format!("networks/{network}"));
    assert_eq!((status, kind.as_str()), (409, "NetworkInUse"), "{text}");
    assert!(text.contains(&network), "{text}");
    world.gateways("add", json!([{ "network_id": world.n1 }]));
    let gateway = &world.gateway_ports()[0];
    let (status, kind, text) = delete(&format!("ports/{gateway}"));
    assert_eq!((status, kind.as_str()), (409, "ServicePortInUse"));
    assert!(text.contains(gateway) && text.contains("has device owner network:router_gateway"), "{text}");
    world.router_port(gateway);
    world.cloud.delete(&format!("ports/{port}"));
    world.delete(&format!("networks/{network}"));
    assert!(world.cloud.rows("Logical_Switch").iter().all(|row| row["_uuid"] != network));
}

#[test]
fn scenario_09_everything_a_port_can_say_is_in_its_rows() {
    let world = World::new(json!({}));
    let (network, subnet) = world.internal("inside", "10.0.0.0/24");
    let group = id(&world.create("security-groups", "security_group", json!({"name": "web"})));
    let port = id(&world.create(
        "ports",
        "port",
        json!({"network_id": network, "mac_address": "fa:16:3e:00:00:09",
               "fixed_ips": [{"subnet_id": subnet, "ip_address": "10.0.0.9"}],
               "allowed_address_pairs": [{"ip_address": "10.0.0.100"},
                                         {"ip_address": "10.0.0.101", "mac_address": "00:00:5e:00:01:01"}],
               "extra_dhcp_opts": [{"opt_name": "bootfile-name", "opt_value": "pxe.0"}],
               "security_groups": [group]}),
    ));
    let row = |table: &str, member: &str, value: &str| {
        let rows = world.cloud.rows(table);
        let found = rows.iter().find(|row| row[member] == value);
        found.unwrap_or_else(|| panic!("no {member} {value} in {rows:?}")).clone()
    };
    let switch_port = row("Logical_Switch_Port", "name", &port);
    assert_eq!(switch_port["_uuid"], port);
    let expected = BTreeSet::from(["fa:16:3e:00:00:09 10.0.0.9", "00:00:5e:00:01:01"]);
    assert_eq!(members(&switch_port["addresses"]), expected);
    let expected = BTreeSet::from(["fa:16:3e:00:00:09 10.0.0.9 10.0.0.100", "00:00:5e:00:01:01 10.0.0.101"]);
    assert_eq!(members(&switch_port["port_security"]), expected);
    let dhcp = row("DHCP_Options", "_uuid", switch_port["dhcpv4_options"].as_str().unwrap());
    assert_eq!(dhcp["external_ids"]["port_id"], port, "a row of its own");
    assert_eq!(dhcp["external_ids"]["subnet_id"], subnet);
    assert_eq!(dhcp["options"]["bootfile_name"], "\"pxe.0\"");
    assert_eq!(dhcp["options"]["router"], "10.0.0.1", "beside what the subnet says");
    for name in [format!("pg_{}", group.replace('-', "_")), "neutron_pg_drop".to_owned()] {
        let ports = row("Port_Group", "name", &name)["ports"].clone();
        assert!(members(&ports).contains(port.as_str()), "{name}: {ports}");
    }
}

#[test]
fn scenario_10_a_router_on_a_subnet() {
    let cloud = Cloud::start();
    let network = cloud.create("networks", "network", json!({"name": "n"}));
    cloud.create(
        "subnets",
        "subnet",
        json!({"name": "s", "network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24"}),
    );
    let mut journal = Journal::of(&cloud);
    let router = id(&cloud.openstack("router create r").unwrap());
    cloud.openstack("router add subnet r s").unwrap();
    let interfaces = || cloud.get(&format!("ports?device_id={router}"))["ports"].as_array().unwrap().clone();
    let ports = interfaces();
    assert_eq!((ports.len(), &ports[0]["device_owner"]), (1, &json!("network:router_interface")));
    let port = id(&ports[0]);
    let router_port = eventually("the router's port is there", || {
        let rows = cloud.rows("Logical_Router_Port");
        rows.into_iter().find(|row| row["name"] == format!("lrp-{port}"))
    });
    assert_eq!(router_port["networks"], "10.0.0.1/24");
    assert_eq!(router_port["external_ids"]["neutron:is_ext_gw"], "False");
    let rows = cloud.rows("Logical_Switch_Port");
    let peer = rows.iter().find(|row| row["name"] == port.as_str()).unwrap();
    assert_eq!((&peer["type"], &peer["addresses"]), (&json!("router"), &json!("router")));
    assert_eq!(peer["options"]["router-port"], format!("lrp-{port}"));
    eventually("the port is active", || (interfaces()[0]["status"] == "ACTIVE").then_some(()));
    assert_eq!(journal.tally()["insert Logical_Router_Port"], 1);
}

#[test]
fn the_data_directory_may_be_named_as_seen_from_here() {
    for (args, data) in [(&[][..], ".meridian"), (&["--data-dir", "state/here"], "state/here")] {
        let cloud = Cloud::within(tempfile::tempdir().unwrap(), args);
        assert_eq!(raw(cloud.url(), &[], "GET", "/healthcheck", None).status, 200);
        let socket = cloud.dir().join(data).join("ovn/nb.sock");
        assert!(socket.exists(), "{}", socket.display());
    }
}
