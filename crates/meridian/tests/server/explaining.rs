//! `meridian explain` of a server, for every kind of object and every kind of name.

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually, raw};
use crate::site::{Site, internal};
use crate::world::id;

#[test]
fn any_address_name_or_id_is_explained() {
    let site = Site::with_three(Cloud::start());
    let cloud = &site.cloud;
    let (network, subnet) = internal(cloud, "tenants", "10.0.0.0/24");
    let router = site.router(json!({"name": "edge"}), &[&site.n1]);
    cloud.put(&format!("routers/{router}/add_router_interface"), json!({"subnet_id": subnet}));
    let vm = json!({"network_id": network, "name": "vm1", "binding:host_id": "ch2.example"});
    let vm = cloud.create("ports", "port", vm);
    let (address, mac) =
        (vm["fixed_ips"][0]["ip_address"].as_str().unwrap(), vm["mac_address"].as_str().unwrap());
    let floating = json!({"floating_network_id": site.n1, "port_id": vm["id"]});
    let floating = cloud.create("floatingips", "floatingip", floating);
    let outside = floating["floating_ip_address"].as_str().unwrap();
    let balancer = json!({"loadbalancer": {"name": "lb1", "vip_subnet_id": subnet}});
    let credentials = [("X-Auth-Token", "admin")];
    let path = "/v2/lbaas/loadbalancers";
    let balancer = raw(cloud.load_balancer_url(), &credentials, "POST", path, Some(&balancer.to_string()));
    let vip = balancer.body["loadbalancer"]["vip_address"].as_str().unwrap_or_default().to_owned();
    let gateway = id(&site.gateway_ports(&router)[0]);
    site.bind(&gateway, "ch1");
    eventually("the gateway is on its chassis", || {
        cloud.meridian(&["explain", "edge"]).contains("is on chassis ch1").then_some(())
    });

    let (vm_id, gateway_address) = (id(&vm), site.gateway_ports(&router)[0].clone());
    let gateway_address = gateway_address["fixed_ips"][0]["ip_address"].as_str().unwrap();
    for (subject, expected) in [
        (address, "host ch2.example should have it and does not"),
        (mac, "port \"vm1\""),
        ("vm1", "floating IP"),
        (vm_id.as_str(), "leaves its network by router \"edge\""),
        (outside, "is floating IP"),
        (outside, "is on chassis ch1"),
        (gateway_address, "an external gateway of router \"edge\""),
        (router.as_str(), "default route via"),
        ("tenants", "10.0.0.0/24, with router \"edge\""),
        (subnet.as_str(), "is a subnet of"),
        ("ch1", "it hosts gateway"),
        ("ch2.example", "chassis ch2 on host ch2.example"),
        ("lb1", "every chassis answers"),
        (vip.as_str(), "is a VIP of load balancer \"lb1\""),
        ("10.0.0.250", "and no port has it"),
        ("nobody", "cannot find \"nobody\""),
    ] {
        let text = cloud.meridian(&["explain", subject]);
        assert!(text.contains(expected), "{subject}: {expected:?} is not in\n{text}");
    }
    let answer: Value =
        serde_json::from_str(&cloud.meridian(&["explain", "vm1", "--output", "json"])).unwrap();
    assert_eq!(answer["subject"], "vm1");
    assert!(answer["text"][0].as_str().unwrap().contains(mac), "{answer}");
}
