//! VIPs: their ports, addresses of both families, floating IPs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::guarantees::contents;
use super::importing::transact;
use super::site::{BalancerSite, ls_refs, note};
use crate::cloud::eventually;
use crate::plant::Plant;
use crate::world::{external, id};

impl BalancerSite {
    #[track_caller]
    fn refused_balancer(&self, attributes: Value, status: u16, part: &str) {
        let (found, text) = self.refusal("POST", "loadbalancers", json!({ "loadbalancer": attributes }));
        assert!(found == status && text.contains(part), "{found} {text}");
    }

    fn port(&self, attributes: Value) -> String {
        id(&self.cloud.create("ports", "port", attributes))
    }
}

#[test]
fn scenario_38_a_vip_is_chosen_or_given() {
    let site = BalancerSite::new();
    let at = |address: &str| json!({"vip_subnet_id": site.s1, "vip_address": address});
    site.port(json!({"network_id": site.n1, "fixed_ips": [{"ip_address": "10.0.0.50"}]}));
    site.refused_balancer(at("10.0.0.50"), 409, "The VIP IP address is already in use");
    site.refused_balancer(at("10.0.1.1"), 400, "is not an address of subnet");
    site.refused_balancer(
        json!({}),
        400,
        "VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
    );
    let nowhere = "11111111-2222-4333-8444-555555555555";
    site.refused_balancer(json!({"vip_subnet_id": nowhere}), 400, &format!("Subnet {nowhere} not found."));
    site.refused_balancer(json!({"vip_network_id": nowhere}), 400, &format!("Network {nowhere} not found."));
    assert_eq!(site.get("loadbalancers")["loadbalancers"], json!([]));

    let subnet = json!({"network_id": site.n1, "ip_version": 6, "cidr": "fd00:1::/64"});
    site.cloud.create("subnets", "subnet", subnet);
    let chosen = site.make("loadbalancers", "loadbalancer", json!({"vip_network_id": site.n1}));
    let chosen = site.get(&format!("loadbalancers/{chosen}"))["loadbalancer"].clone();
    assert_eq!(chosen["vip_subnet_id"], json!(site.s1), "IPv4 before IPv6");

    let taken = site.port(json!({"network_id": site.n1, "device_id": "vm"}));
    site.refused_balancer(json!({"vip_port_id": taken}), 400, "in use");
    let own = json!({"network_id": site.n1, "name": "mine", "fixed_ips": [{"ip_address": "10.0.0.60"}]});
    let own = site.port(own);
    let before = site.cloud.get(&format!("ports/{own}"))["port"].clone();
    let balancer = site.make("loadbalancers", "loadbalancer", json!({"vip_port_id": own}));
    assert_eq!(site.get(&format!("loadbalancers/{balancer}"))["loadbalancer"]["vip_address"], "10.0.0.60");
    site.delete(&format!("loadbalancers/{balancer}"));
    let after = site.cloud.get(&format!("ports/{own}"))["port"].clone();
    for key in ["name", "fixed_ips", "device_id", "device_owner", "mac_address"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    let made = chosen["vip_port_id"].as_str().unwrap();
    site.delete(&format!("loadbalancers/{}", id(&chosen)));
    assert_eq!(site.cloud.ask("GET", &format!("/v2.0/ports/{made}"), None).status, 404);
}

#[test]
fn scenario_39_a_vip_of_each_family() {
    let site = BalancerSite::new();
    let subnet = json!({"network_id": site.n1, "ip_version": 6, "cidr": "fd00:1::/64"});
    let sixth = id(&site.cloud.create("subnets", "subnet", subnet));
    let with = |further: Value| json!({"vip_subnet_id": site.s1, "additional_vips": further});
    site.refused_balancer(with(json!([{"subnet_id": site.s1}])), 400, "");
    site.refused_balancer(with(json!([{"subnet_id": site.s2}])), 400, "");
    let balancer = site.make(
        "loadbalancers",
        "loadbalancer",
        with(json!([{"subnet_id": sixth, "ip_address": "fd00:1:0:0:0:0:0:99"}])),
    );
    let shown = site.get(&format!("loadbalancers/{balancer}"))["loadbalancer"].clone();
    let further = &shown["additional_vips"][0];
    assert_eq!(further["ip_address"], "fd00:1:0:0:0:0:0:99", "as it was given");
    let row = site.row(&balancer);
    assert_eq!(note(&row, "neutron:additional_vips"), "fd00:1::99");
    assert_eq!(note(&row, "neutron:additional_vip_port_ids"), &further["port_id"]);
    assert_eq!(ls_refs(&row), json!({format!("neutron-{}", site.n1): 2}));
    let name = |port: &Value| {
        let port = site.cloud.get(&format!("ports/{}", port.as_str().unwrap()))["port"].clone();
        assert_eq!(port["device_id"], json!(format!("lb-{balancer}")));
        port["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(name(&shown["vip_port_id"]), format!("ovn-lb-vip-{balancer}"));
    assert_eq!(name(&further["port_id"]), format!("ovn-lb-vip-additional-1-{balancer}"));

    let pool = site.pool("p1", &balancer);
    site.listener(&balancer, 80, &pool);
    site.member(&pool, "10.0.0.107", &site.s1);
    site.member(&pool, "fd00:1::107", &sixth);
    let vip = shown["vip_address"].as_str().unwrap();
    assert_eq!(
        site.row(&balancer)["vips"],
        json!({format!("{vip}:80"): "10.0.0.107:80", "[fd00:1::99]:80": "[fd00:1::107]:80"})
    );
}

#[test]
fn scenario_40_and_56_an_old_ovn_cannot_choose_by_the_addresses_of_ipv6_clients() {
    let site = BalancerSite::new();
    let subnet = json!({"network_id": site.n1, "ip_version": 6, "cidr": "fd00:1::/64"});
    let sixth = id(&site.cloud.create("subnets", "subnet", subnet));
    let balancer = site.balancer("lb6", &sixth);
    let pool =
        |algorithm: &str| json!({"loadbalancer_id": balancer, "protocol": "TCP", "lb_algorithm": algorithm});
    let (status, text) = site.refusal("POST", "pools", json!({"pool": pool("SOURCE_IP")}));
    assert!(status == 501 && text.contains("before OVN 25.03"), "{status} {text}");
    let by_ports = site.make("pools", "pool", pool("SOURCE_IP_PORT"));
    let change = json!({"pool": {"lb_algorithm": "SOURCE_IP"}});
    assert_eq!(site.refusal("PUT", &format!("pools/{by_ports}"), change).0, 501);
    assert_eq!(site.row(&balancer)["selection_fields"], json!([]), "addresses and ports of both families");
    assert_eq!(site.unsettled(), BTreeSet::new());
}

#[test]
fn scenario_40_and_56_an_ovn_that_hashes_ipv6_addresses_chooses_by_them() {
    let plant = Plant::start();
    // The newer OVN's names of the fields; northd itself is the host's.
    plant.convert(|schema| {
        let fields = &mut schema["tables"]["Load_Balancer"]["columns"]["selection_fields"];
        let names = fields["type"]["key"]["enum"][1].as_array_mut().unwrap();
        for name in ["ipv6_src", "ipv6_dst"] {
            if !names.contains(&json!(name)) {
                names.push(json!(name));
            }
        }
    });
    let site = BalancerSite::on(plant.cloud(&[]));
    let subnet = json!({"network_id": site.n1, "ip_version": 6, "cidr": "fd00:1::/64"});
    let sixth = id(&site.cloud.create("subnets", "subnet", subnet));
    let balancer = site.balancer("lb6", &sixth);
    let pool = json!({"loadbalancer_id": balancer, "protocol": "TCP", "lb_algorithm": "SOURCE_IP"});
    site.make("pools", "pool", pool);
    // The host's ovn-nbctl does not know these names.
    let row = json!([["name", "==", balancer]]);
    let query =
        json!({"op": "select", "table": "Load_Balancer", "where": row, "columns": ["selection_fields"]});
    let fields = transact(plant.dir(), vec![query])[0]["rows"][0]["selection_fields"].clone();
    assert_eq!(fields, json!(["set", ["ip_dst", "ip_src", "ipv6_dst", "ipv6_src"]]));
}

#[test]
fn scenario_41_a_floating_ip_leads_to_a_vip() {
    let site = BalancerSite::new();
    site.cloud.chassis("ch1", &["phy1"], "enable-chassis-as-gw");
    let (outside, _) = external(&site.cloud, "1", "phy1", "192.0.2.0/24");
    let gateway = json!({"router": {"external_gateway_info": {"network_id": outside}}});
    site.cloud.put(&format!("routers/{}", site.r1), gateway);
    let balancer = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &balancer);
    site.listener(&balancer, 80, &pool);
    site.member(&pool, "10.0.0.107", &site.s1);
    let shown = site.get(&format!("loadbalancers/{balancer}"))["loadbalancer"].clone();
    let vip = format!("{}:80", shown["vip_address"].as_str().unwrap());
    let keys =
        || -> BTreeSet<String> { site.row(&balancer)["vips"].as_object().unwrap().keys().cloned().collect() };
    let floating = json!({"floating_network_id": outside, "floating_ip_address": "192.0.2.77",
                          "port_id": shown["vip_port_id"]});
    let floating = id(&site.cloud.create("floatingips", "floatingip", floating));
    eventually("the floating IP is a VIP", || {
        (keys() == [vip.clone(), "192.0.2.77:80".into()].into()).then_some(())
    });
    assert_eq!(note(&site.row(&balancer), "neutron:vip_fip"), "192.0.2.77");
    let nat = site.cloud.rows("NAT");
    let nat = nat.iter().find(|row| row["type"] == "dnat_and_snat").unwrap();
    assert_eq!((&nat["external_ip"], &nat["external_mac"]), (&json!("192.0.2.77"), &json!([])));
    let unset = json!({"floatingip": {"port_id": null}});
    site.cloud.put(&format!("floatingips/{floating}"), unset);
    eventually("the floating IP is gone", || (keys() == [vip.clone()].into()).then_some(()));
    assert_eq!(note(&site.row(&balancer), "neutron:vip_fip"), &Value::Null);
}

#[test]
fn scenario_41_a_floating_ip_of_a_further_vip_stands_once_also_after_a_restart() {
    let plant = Plant::start();
    let mut site = BalancerSite::on(plant.cloud(&[]));
    site.cloud.chassis("ch1", &["phy1"], "enable-chassis-as-gw");
    let (outside, _) = external(&site.cloud, "1", "phy1", "192.0.2.0/24");
    let gateway = json!({"router": {"external_gateway_info": {"network_id": outside}}});
    site.cloud.put(&format!("routers/{}", site.r1), gateway);
    let subnet = json!({"network_id": site.n1, "ip_version": 4, "cidr": "10.9.0.0/24"});
    let second = id(&site.cloud.create("subnets", "subnet", subnet));
    site.attach(&site.r1, &second);
    let attributes = json!({"vip_subnet_id": site.s1, "additional_vips": [{"subnet_id": second}]});
    let balancer = site.make("loadbalancers", "loadbalancer", attributes);
    let pool = site.pool("p1", &balancer);
    site.listener(&balancer, 80, &pool);
    site.member(&pool, "10.0.0.107", &site.s1);
    let shown = site.get(&format!("loadbalancers/{balancer}"))["loadbalancer"].clone();
    let ports = [&shown["vip_port_id"], &shown["additional_vips"][0]["port_id"]];
    for (port, address) in ports.into_iter().zip(["192.0.2.77", "192.0.2.78"]) {
        let floating =
            json!({"floating_network_id": outside, "floating_ip_address": address, "port_id": port});
        site.cloud.create("floatingips", "floatingip", floating);
    }
    eventually("both floating IPs are VIPs", || {
        (site.row(&balancer)["vips"].as_object().unwrap().len() == 4).then_some(())
    });
    let row = site.row(&balancer);
    assert_eq!(note(&row, "neutron:vip_fip"), "192.0.2.77");
    assert_eq!(note(&row, "neutron:additional_vip_fips"), "192.0.2.78");
    assert!(["192.0.2.77:80", "192.0.2.78:80"].iter().all(|vip| row["vips"].get(vip).is_some()), "{row}");
    let before = contents(&site.cloud);
    site.cloud.crash();
    site.cloud.converged();
    assert_eq!(contents(&site.cloud), before);
}

#[test]
fn scenario_43_the_port_of_a_vip_answers_for_nothing() {
    let site = BalancerSite::new();
    let balancer = site.balancer("lb1", &site.s1);
    let port = site.get(&format!("loadbalancers/{balancer}"))["loadbalancer"]["vip_port_id"].clone();
    let rows = site.cloud.rows("Logical_Switch_Port");
    let row = rows.iter().find(|row| row["name"] == port).unwrap();
    assert_eq!((&row["addresses"], &row["type"]), (&json!([]), &json!("")));
}
