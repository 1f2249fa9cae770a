//! The metadata port follows the network's subnets with DHCP.

use serde_json::{Value, json};

use super::*;
use crate::Caller;
use crate::resource::fixture::{Desk, fault};
use crate::settings::MetadataPortOwner;
use crate::world::Outside;

fn member() -> Caller {
    Caller::member("p")
}

fn desk() -> (Desk, Value) {
    let mut desk = Desk::with(Outside::default());
    let network = desk.create("networks", &member(), json!({})).unwrap();
    (desk, network)
}

fn port<'d>(desk: &'d Desk, network: &Value) -> &'d Port {
    of(&desk.world, network["id"].as_str().unwrap().parse().unwrap()).unwrap()
}

fn addresses(desk: &Desk, network: &Value) -> Vec<String> {
    port(desk, network).fixed_ips.iter().map(|fixed| fixed.ip_address.to_string()).collect()
}

fn add(desk: &mut Desk, network: &Value, version: u8, cidr: &str) -> Value {
    let body = json!({"network_id": network["id"], "ip_version": version, "cidr": cidr});
    desk.create("subnets", &member(), body).unwrap()
}

#[test]
fn it_comes_with_the_network_and_has_an_address_in_each_subnet_with_dhcp() {
    let (mut desk, network) = desk();
    let made = port(&desk, &network);
    assert_eq!((made.device_owner.as_str(), made.project.as_str()), ("network:distributed", "p"));
    assert_eq!(made.device_id, format!("ovnmeta-{}", network["id"].as_str().unwrap()));
    assert!(!made.port_security_enabled && made.security_groups.is_empty() && made.fixed_ips.is_empty());
    let one = add(&mut desk, &network, 4, "10.0.0.0/24");
    let two = add(&mut desk, &network, 4, "10.1.0.0/24");
    add(&mut desk, &network, 6, "2001:db8::/64");
    let mut now = addresses(&desk, &network);
    now.sort();
    assert_eq!(now, ["10.0.0.2", "10.1.0.2", "2001:db8::1"]);
    desk.update("subnets", &member(), &one, json!({"enable_dhcp": false})).unwrap();
    assert!(addresses(&desk, &network).contains(&"10.0.0.2".to_owned()), "instances come through a router");
    desk.outside.settings.metadata_ip_on_nodhcp = false;
    desk.update("subnets", &member(), &one, json!({"enable_dhcp": true})).unwrap();
    desk.update("subnets", &member(), &one, json!({"enable_dhcp": false})).unwrap();
    assert!(!addresses(&desk, &network).contains(&"10.0.0.2".to_owned()), "as Neutron does");
    desk.update("subnets", &member(), &one, json!({"enable_dhcp": true})).unwrap();
    assert!(addresses(&desk, &network).contains(&"10.0.0.2".to_owned()));
    desk.delete("subnets", &member(), &two).unwrap();
    assert!(!addresses(&desk, &network).contains(&"10.1.0.2".to_owned()));
    assert_eq!(desk.world.table::<Port>().len(), 1, "it is one port all the time");
}

#[test]
fn its_owner_may_be_that_of_an_older_neutron() {
    let mut desk = Desk::with(Outside::default());
    desk.outside.settings.metadata_port_device_owner = MetadataPortOwner::Dhcp;
    let network = desk.create("networks", &member(), json!({})).unwrap();
    assert_eq!(port(&desk, &network).device_owner, "network:dhcp");
    add(&mut desk, &network, 4, "10.0.0.0/24");
    assert_eq!(addresses(&desk, &network), ["10.0.0.2"]);
    assert_eq!(desk.world.table::<Port>().len(), 1);
    desk.delete("networks", &member(), &network).unwrap();
    assert!(desk.world.table::<Port>().is_empty());
}

#[test]
fn hosts_come_after_it_and_a_full_pool_does_without() {
    let (mut desk, network) = desk();
    add(&mut desk, &network, 4, "10.0.0.0/30");
    assert_eq!(addresses(&desk, &network), ["10.0.0.2"]);
    let answer = desk.create("ports", &member(), json!({"network_id": network["id"]}));
    assert_eq!(fault(answer), (409, "IpAddressGenerationFailure"));
    let full = json!({
        "network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/30", "enable_dhcp": false,
        "gateway_ip": "10.1.0.1", "allocation_pools": [{"start": "10.1.0.2", "end": "10.1.0.2"}],
    });
    desk.outside.settings.metadata_ip_on_nodhcp = false;
    let subnet = desk.create("subnets", &member(), full).unwrap();
    let host = json!({"network_id": network["id"], "fixed_ips": [{"subnet_id": subnet["id"]}]});
    desk.create("ports", &member(), host).unwrap();
    desk.outside.settings.metadata_ip_on_nodhcp = true;
    desk.update("subnets", &member(), &subnet, json!({"name": "full"})).unwrap();
    assert_eq!(addresses(&desk, &network), ["10.0.0.2"]);
}

#[test]
fn it_goes_with_the_network_and_not_before() {
    let (mut desk, network) = desk();
    add(&mut desk, &network, 4, "10.0.0.0/24");
    let id = json!(port(&desk, &network).id.to_string());
    let fault = desk.delete("ports", &member(), &id).unwrap_err();
    assert_eq!((fault.status, fault.kind), (409, "ServicePortInUse"));
    assert!(fault.message.contains("has device owner network:distributed"), "{fault}");
    desk.delete("networks", &member(), &network).unwrap();
    assert!(desk.world.table::<Port>().is_empty() && desk.world.table::<Subnet>().is_empty());
}

#[test]
fn an_imported_port_of_an_older_neutron_is_the_metadata_port() {
    let (mut desk, network) = desk();
    let id = port(&desk, &network).id;
    desk.run(|txn| {
        txn.edit::<Port>(&id, |port| port.device_owner = owner::DHCP.into());
        Ok(())
    })
    .unwrap();
    add(&mut desk, &network, 4, "10.0.0.0/24");
    assert_eq!(desk.world.table::<Port>().len(), 1, "it has no twin");
    assert_eq!(addresses(&desk, &network), ["10.0.0.2"]);
    assert_eq!(fault(desk.delete("ports", &member(), &json!(id.to_string()))), (409, "ServicePortInUse"));
}

#[test]
fn an_external_network_without_dhcp_keeps_its_addresses() {
    let mut desk = Desk::with(Outside::default());
    let admin = Caller::admin("admin");
    let network = desk.create("networks", &admin, json!({"router:external": true})).unwrap();
    let subnet =
        json!({"network_id": network["id"], "ip_version": 4, "cidr": "192.0.2.0/24", "enable_dhcp": false});
    desk.create("subnets", &admin, subnet).unwrap();
    assert_eq!(addresses(&desk, &network), [] as [String; 0]);
}

#[test]
fn nobody_else_sends_with_its_address() {
    let (mut desk, network) = desk();
    add(&mut desk, &network, 4, "10.0.0.0/24");
    let pairs = json!([{"ip_address": "10.0.0.2"}]);
    let new = json!({"network_id": network["id"], "allowed_address_pairs": pairs});
    assert_eq!(fault(desk.create("ports", &member(), new)), (400, "HTTPBadRequest"));
    let port = desk.create("ports", &member(), json!({"network_id": network["id"]})).unwrap();
    let change = json!({ "allowed_address_pairs": pairs });
    assert_eq!(fault(desk.update("ports", &member(), &port, change)), (400, "HTTPBadRequest"));
    let whole = json!({"allowed_address_pairs": [{"ip_address": "10.0.0.0/24"}]});
    desk.update("ports", &member(), &port, whole).unwrap();
}

#[test]
fn an_operator_can_do_without() {
    let mut desk = Desk::new();
    let network = desk.create("networks", &member(), json!({})).unwrap();
    add(&mut desk, &network, 4, "10.0.0.0/24");
    assert!(desk.world.table::<Port>().is_empty());
}

#[test]
fn in_subnets_where_hosts_form_their_address_it_does_too() {
    let (mut desk, network) = desk();
    let body = json!({
        "network_id": network["id"], "ip_version": 6, "cidr": "2001:db8::/64",
        "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac",
    });
    desk.create("subnets", &member(), body).unwrap();
    let formed = ipam::self_formed("2001:db8::/64".parse().unwrap(), port(&desk, &network).mac);
    assert_eq!(addresses(&desk, &network), [formed.to_string()]);
}
