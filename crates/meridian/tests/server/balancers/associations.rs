//! The switches and routers that have a load balancer, while interfaces, gateways, networks and members are added and removed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::site::{BalancerSite, ls_refs, note};
use crate::cloud::eventually;
use crate::site::internal;
use crate::world::{external, id};

fn only(balancer: &str) -> BTreeSet<String> {
    [balancer.to_owned()].into()
}

#[test]
fn scenario_12_a_network_of_members_leaves_the_router() {
    let site = BalancerSite::new();
    let lb1 = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &lb1);
    site.member(&pool, "20.0.0.107", &site.s2);
    let before = site.row(&lb1);
    site.detach(&site.r1, &site.s2);
    site.cloud.converged();
    for on in [site.on_router(&site.r1), site.on_network(&site.n1), site.on_network(&site.n2)] {
        assert_eq!(on, only(&lb1), "the member keeps its network");
    }
    let after = site.row(&lb1);
    assert_eq!((ls_refs(&after), note(&after, "lr_ref")), (ls_refs(&before), note(&before, "lr_ref")));
}

#[test]
fn scenario_13_a_vip_subnet_has_two_routers() {
    let site = BalancerSite::new();
    let (n3, s3) = internal(&site.cloud, "N3", "30.0.0.0/24");
    let r2 = id(&site.cloud.create("routers", "router", json!({"name": "R2"})));
    site.attach(&r2, &s3);
    let port =
        json!({"network_id": site.n1, "fixed_ips": [{"subnet_id": site.s1, "ip_address": "10.0.0.200"}]});
    let port = id(&site.cloud.create("ports", "port", port));
    site.cloud.put(&format!("routers/{r2}/add_router_interface"), json!({"port_id": port}));
    let lb1 = site.balancer("lb1", &site.s1);
    for on in [site.on_router(&site.r1), site.on_router(&r2)] {
        assert_eq!(on, only(&lb1));
    }
    for network in [&site.n1, &site.n2, &n3] {
        assert_eq!(site.on_network(network), only(&lb1));
    }
    let routers = |row: &Value| -> BTreeSet<String> {
        note(row, "lr_ref").as_str().unwrap().split(',').map(str::to_owned).collect()
    };
    let name = |router: &str| format!("neutron-{router}");
    assert_eq!(routers(&site.row(&lb1)), [name(&site.r1), name(&r2)].into());
    site.cloud.put(&format!("routers/{r2}/remove_router_interface"), json!({"port_id": port}));
    eventually("only the networks of that router lose it", || {
        (site.on_network(&n3).is_empty() && site.on_router(&r2).is_empty()).then_some(())
    });
    for network in [&site.n1, &site.n2] {
        assert_eq!(site.on_network(network), only(&lb1));
    }
    assert_eq!(routers(&site.row(&lb1)), [name(&site.r1)].into());
}

#[test]
fn scenario_14_a_vip_on_an_external_network() {
    let site = BalancerSite::new();
    let (outside, subnet) = external(&site.cloud, "1", "phy1", "192.0.2.0/24");
    let lb1 = site.balancer("lb1", &subnet);
    let row = site.row(&lb1);
    assert_eq!(ls_refs(&row), json!({}));
    assert_eq!(site.on_network(&outside), BTreeSet::new());
    let pool = site.pool("p1", &lb1);
    site.member(&pool, "10.0.0.107", &site.s1);
    assert_eq!(ls_refs(&site.row(&lb1)), json!({format!("neutron-{}", site.n1): 1}));
    assert_eq!(site.on_network(&outside), BTreeSet::new());
    assert_eq!(site.on_router(&site.r1), only(&lb1), "by its member");
}

#[test]
fn scenario_15_external_networks_never_receive_load_balancers() {
    let site = BalancerSite::new();
    let (outside, _) = external(&site.cloud, "1", "phy1", "192.0.2.0/24");
    let lb1 = site.balancer("lb1", &site.s1);
    for gateway in [json!({"network_id": outside}), Value::Null] {
        site.cloud.settle(
            "PUT",
            &format!("routers/{}", site.r1),
            Some(json!({"router": {"external_gateway_info": gateway}})),
        );
        assert_eq!(site.on_network(&outside), BTreeSet::new());
        for on in [site.on_router(&site.r1), site.on_network(&site.n1), site.on_network(&site.n2)] {
            assert_eq!(on, only(&lb1));
        }
    }
}

#[test]
fn scenario_16_an_interface_of_the_other_family_changes_nothing() {
    let site = BalancerSite::new();
    let subnet = json!({"network_id": site.n1, "ip_version": 6, "cidr": "fd00:1::/64"});
    let sixth = id(&site.cloud.create("subnets", "subnet", subnet));
    site.attach(&site.r1, &sixth);
    let lb1 = site.balancer("lb1", &site.s1);
    let before = site.row(&lb1);
    site.detach(&site.r1, &sixth);
    site.cloud.converged();
    assert_eq!(site.row(&lb1), before);
    for on in [site.on_router(&site.r1), site.on_network(&site.n1), site.on_network(&site.n2)] {
        assert_eq!(on, only(&lb1));
    }
}

#[test]
fn scenario_17_routers_go_while_members_come() {
    let site = BalancerSite::new();
    let lb1 = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &lb1);
    let member = json!({"member": {"address": "20.0.0.107", "protocol_port": 80, "subnet_id": site.s2}});
    let path = format!("pools/{pool}/members");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for subnet in [&site.s1, &site.s2] {
                site.detach(&site.r1, subnet);
            }
            site.cloud.delete(&format!("routers/{}", site.r1));
        });
        scope.spawn(|| assert_eq!(site.ask("POST", &path, Some(member)).status, 201));
    });
    site.settled();
    site.cloud.converged();
    let row = site.row(&lb1);
    assert_eq!(note(&row, "lr_ref"), &Value::Null);
    assert_eq!(ls_refs(&row), json!({format!("neutron-{}", site.n1): 1, format!("neutron-{}", site.n2): 1}));
}

#[test]
fn scenario_18_members_leave_a_network() {
    let site = BalancerSite::new();
    let (n3, s3) = internal(&site.cloud, "N3", "30.0.0.0/24");
    let lb1 = site.balancer("lb1", &site.s1);
    let pool = site.pool("p1", &lb1);
    let member =
        |address: &str, subnet: &str| format!("pools/{pool}/members/{}", site.member(&pool, address, subnet));
    let routed = [member("20.0.0.107", &site.s2), member("20.0.0.108", &site.s2)];
    let alone = [member("30.0.0.107", &s3), member("30.0.0.108", &s3)];
    let count = |network: &str| ls_refs(&site.row(&lb1))[format!("neutron-{network}")].clone();
    assert_eq!((count(&site.n2), count(&n3)), (json!(2), json!(2)));
    site.delete(&routed[0]);
    site.delete(&alone[0]);
    assert_eq!((count(&site.n2), count(&n3)), (json!(1), json!(1)));
    assert_eq!((site.on_network(&site.n2), site.on_network(&n3)), (only(&lb1), only(&lb1)));
    site.delete(&routed[1]);
    site.delete(&alone[1]);
    assert_eq!((count(&site.n2), count(&n3)), (Value::Null, Value::Null));
    assert_eq!(site.on_network(&site.n2), only(&lb1), "it is on the router of the load balancer");
    assert_eq!(site.on_network(&n3), BTreeSet::new());
}

#[test]
fn an_internal_vlan_network_has_load_balancers() {
    let site = BalancerSite::new();
    let vlan = json!({"name": "vlan", "provider:network_type": "vlan", "provider:physical_network": "phy1",
                      "provider:segmentation_id": 7});
    let network = id(&site.cloud.create("networks", "network", vlan));
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "40.0.0.0/24"});
    let subnet = id(&site.cloud.create("subnets", "subnet", subnet));
    site.attach(&site.r1, &subnet);
    let lb1 = site.balancer("lb1", &subnet);
    for network in [&network, &site.n1, &site.n2] {
        assert_eq!(site.on_network(network), only(&lb1));
    }
    assert_eq!(ls_refs(&site.row(&lb1)), json!({format!("neutron-{network}"): 1}));
}
