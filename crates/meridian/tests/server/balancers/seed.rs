//! The examples of the load-balancer design, run with the real `openstack loadbalancer`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::site::{BalancerSite, ls_refs, note};
use crate::cloud::eventually;

/// Waits until the load balancer accepts requests again; returns its row.
fn settled(site: &BalancerSite, balancer: &str) -> Value {
    site.settled();
    site.row(balancer)
}

#[test]
fn scenario_01_to_06_the_five_examples_of_the_design() {
    let site = BalancerSite::new();
    let cloud = &site.cloud;
    let type_in = |line: &str| -> Value {
        let line = format!("loadbalancer {line}");
        cloud.openstack(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    };

    // 1. The load balancer.
    let made = type_in(&format!("create --provider ovn --vip-subnet-id={} --name lb1", site.s1));
    assert_eq!(made["operating_status"], "OFFLINE");
    assert_eq!(made["provisioning_status"], "PENDING_CREATE");
    let (lb1, vip) = (made["id"].as_str().unwrap(), made["vip_address"].as_str().unwrap());
    let row = settled(&site, lb1);
    let (uuid, port) = (row["_uuid"].clone(), made["vip_port_id"].clone());
    let (n1, n2) = (format!("neutron-{}", site.n1), format!("neutron-{}", site.n2));
    assert_eq!(row["protocol"], json!([]));
    assert_eq!(row["vips"], json!({}));
    assert_eq!(row["selection_fields"], json!(["ip_dst", "ip_src", "tp_dst", "tp_src"]));
    assert_eq!(note(&row, "enabled"), "True");
    assert_eq!(note(&row, "lr_ref"), &json!(format!("neutron-{}", site.r1)));
    assert_eq!(note(&row, "ls_refs"), &json!(format!("{{\"{n1}\": 1}}")));
    assert_eq!(note(&row, "neutron:vip"), vip);
    assert_eq!(note(&row, "neutron:vip_port_id"), &port);
    for on in [site.on_router(&site.r1), site.on_network(&site.n1), site.on_network(&site.n2)] {
        assert_eq!(on, [lb1.to_owned()].into());
    }
    let shown = type_in("show lb1");
    assert_eq!(
        (&shown["provisioning_status"], &shown["operating_status"]),
        (&json!("ACTIVE"), &json!("ONLINE"))
    );

    // 2. A pool.
    let pool =
        type_in("pool create --name p1 --loadbalancer lb1 --protocol TCP --lb-algorithm SOURCE_IP_PORT");
    let row = settled(&site, lb1);
    let pool_key = format!("pool_{}", pool["id"].as_str().unwrap());
    assert_eq!((&row["_uuid"], &row["protocol"]), (&uuid, &json!("tcp")));
    assert_eq!(note(&row, &pool_key), "");
    assert_eq!(type_in("pool show p1")["operating_status"], "OFFLINE");

    // 3. A member.
    let first =
        type_in(&format!("member create --address 10.0.0.107 --subnet-id {} --protocol-port 80 p1", site.s1));
    let row = settled(&site, lb1);
    let member = |id: &Value, address: &str, subnet: &str| {
        format!("member_{}_{address}:80_{subnet}", id.as_str().unwrap())
    };
    let one = member(&first["id"], "10.0.0.107", &site.s1);
    assert_eq!(row["_uuid"], uuid);
    assert_eq!(note(&row, &pool_key), &json!(one));
    assert_eq!(note(&row, "ls_refs"), &json!(format!("{{\"{n1}\": 2}}")));
    assert_eq!(row["vips"], json!({}));
    let states = |row: &Value| -> Value {
        serde_json::from_str(note(row, "neutron:member_status").as_str().unwrap()).unwrap()
    };
    let (first, no_monitor) = (first["id"].as_str().unwrap(), "NO_MONITOR");
    assert_eq!(states(&row), json!({ first: no_monitor }));

    // 4. Another member, on another network.
    let second =
        type_in(&format!("member create --address 20.0.0.107 --subnet-id {} --protocol-port 80 p1", site.s2));
    let row = settled(&site, lb1);
    let two = member(&second["id"], "20.0.0.107", &site.s2);
    let second = second["id"].as_str().unwrap();
    assert_eq!(row["_uuid"], uuid);
    assert_eq!(note(&row, &pool_key), &json!(format!("{one},{two}")));
    assert_eq!(ls_refs(&row), json!({ &n1: 2, &n2: 1 }));
    assert_eq!(states(&row), json!({ first: no_monitor, second: no_monitor }));
    assert_eq!(row["vips"], json!({}));
    assert_eq!(site.on_network(&site.n2), [lb1.to_owned()].into());

    // 5. A listener, and the load balancer accepts traffic.
    let listener =
        type_in("listener create --name l1 --protocol TCP --protocol-port 82 --default-pool p1 lb1");
    let row = settled(&site, lb1);
    assert_eq!(row["_uuid"], uuid);
    let listener_key = format!("listener_{}", listener["id"].as_str().unwrap());
    assert_eq!(note(&row, &listener_key), &json!(format!("82:{pool_key}")));
    assert_eq!(row["vips"], json!({ format!("{vip}:82"): "10.0.0.107:80,20.0.0.107:80" }));
    assert_eq!(cloud.complaints(), Vec::<String>::new());
    eventually("ovn-northd has made flows of it", || {
        let flows =
            cloud.sbctl("--bare --columns=actions find Logical_Flow external_ids:stage-name=ls_in_lb");
        flows.contains("ct_lb").then_some(())
    });

    // 6. The states of the whole tree, and the counters.
    let tree = type_in("status show lb1");
    let tree = &tree["loadbalancer"];
    assert_eq!(tree.as_object().unwrap().len(), 5, "{tree}");
    let states = |node: &Value| {
        ["operating_status", "provisioning_status"].map(|key| node[key].as_str().unwrap().to_owned())
    };
    let node = |node: &Value, operating: &str| {
        assert_eq!(states(node), [operating.to_owned(), "ACTIVE".to_owned()], "{node}");
    };
    node(tree, "ONLINE");
    node(&tree["listeners"][0], "ONLINE");
    node(&tree["listeners"][0]["pools"][0], "ONLINE");
    for member in tree["listeners"][0]["pools"][0]["members"].as_array().unwrap() {
        node(member, no_monitor);
    }
    let counters = type_in("stats show lb1");
    assert_eq!(counters.as_object().unwrap().len(), 5);
    assert!(counters.as_object().unwrap().values().all(|counter| *counter == 0), "{counters}");
}

#[test]
fn scenario_08_to_11_networks_come_to_a_router_and_leave_it() {
    let site = BalancerSite::new();
    let (n3, s3) = crate::site::internal(&site.cloud, "N3", "30.0.0.0/24");
    site.detach(&site.r1, &site.s1);
    site.detach(&site.r1, &site.s2);
    let lb1 = site.balancer("lb1", &site.s1);
    let only = |names: &[&String]| names.iter().map(|name| (*name).clone()).collect::<BTreeSet<_>>();
    let places = || {
        let networks = [&site.n1, &site.n2, &n3].map(|network| site.on_network(network));
        (site.on_router(&site.r1), networks)
    };
    let references = |balancer: &String| {
        let row = site.row(balancer);
        (note(&row, "lr_ref").as_str().map(str::to_owned), ls_refs(&row))
    };
    let wait = |what: &str, router: &[&String], networks: [&[&String]; 3]| {
        let expected = (only(router), networks.map(only));
        eventually(what, || (places() == expected).then_some(()));
    };
    let (ref1, ref2) =
        (json!({format!("neutron-{}", site.n1): 1}), json!({format!("neutron-{}", site.n2): 1}));
    let r1 = Some(format!("neutron-{}", site.r1));

    wait("LB1 is on its network alone", &[], [&[&lb1], &[], &[]]);
    assert_eq!(references(&lb1), (None, ref1.clone()));

    site.attach(&site.r1, &site.s1);
    wait("LB1 comes to the router", &[&lb1], [&[&lb1], &[], &[]]);
    assert_eq!(references(&lb1), (r1.clone(), ref1.clone()));

    let lb2 = site.balancer("lb2", &site.s2);
    wait("LB2 is on its network alone", &[&lb1], [&[&lb1], &[&lb2], &[]]);
    site.attach(&site.r1, &site.s2);
    wait("both are everywhere", &[&lb1, &lb2], [&[&lb1, &lb2], &[&lb1, &lb2], &[]]);
    assert_eq!(references(&lb1), (r1.clone(), ref1.clone()), "only the network that it was made on");
    assert_eq!(references(&lb2), (r1.clone(), ref2.clone()));

    site.attach(&site.r1, &s3);
    let both: &[&String] = &[&lb1, &lb2];
    wait("N3 gets both", both, [both, both, both]);

    site.detach(&site.r1, &site.s2);
    wait("N2 keeps its own, the others keep LB1", &[&lb1], [&[&lb1], &[&lb2], &[&lb1]]);
    assert_eq!(references(&lb1), (r1, ref1));
    assert_eq!(references(&lb2), (None, ref2));
}
