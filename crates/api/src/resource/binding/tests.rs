//! Bindings: how hosts plug ports, and moves between hosts.

use serde_json::{Value, json};

use super::*;
use crate::Caller;
use crate::model::owner;
use crate::report::Place;
use crate::resource::Method::{Delete, Get, Post, Put};
use crate::resource::fixture::{Desk, fault};
use crate::resource::port::{Internal, create_internal};

const PORTS: &str = "ports";

fn service() -> Caller {
    Caller { service: true, ..Caller::reader("service") }
}

fn chassis(host: &str, physical: &[&str], alive: bool) -> Chassis {
    Chassis {
        name: format!("id-{host}"),
        hostname: host.into(),
        physical_networks: physical.iter().map(|it| (*it).to_owned()).collect(),
        alive,
        ..Chassis::default()
    }
}

/// Hosts `h1` and `h2`, `dead`, and `dpdk` that forwards in user space; a tunnelled network and a VLAN on `phy1`.
fn desk() -> (Desk, Value, Value) {
    let mut desk = Desk::new();
    let kinds = ["dpdkvhostuser", "dpdkvhostuserclient"].map(str::to_owned);
    let dpdk = Chassis {
        datapath_type: "netdev".into(),
        interface_types: kinds.into(),
        ..chassis("dpdk", &[], true)
    };
    desk.outside.fleet.chassis = vec![
        dpdk,
        chassis("h1", &["phy1"], true),
        chassis("h2", &[], true),
        chassis("dead", &["phy1"], false),
    ];
    let admin = Caller::admin("p");
    let tunnelled = desk.create("networks", &admin, json!({})).unwrap();
    let vlan = json!({"provider:network_type": "vlan", "provider:physical_network": "phy1", "provider:segmentation_id": 7});
    let vlan = desk.create("networks", &admin, vlan).unwrap();
    (desk, tunnelled, vlan)
}

#[test]
fn what_a_host_is_told() {
    let (mut desk, tunnelled, vlan) = desk();
    for (network, host, vnic, profile, want) in [
        (&tunnelled, "", "normal", json!({}), "unbound"),
        (&tunnelled, "h1", "normal", json!({}), "ovs"),
        (&tunnelled, "h2", "normal", json!({}), "ovs"),
        (&vlan, "h1", "normal", json!({}), "ovs"),
        (&vlan, "h2", "normal", json!({}), "binding_failed"),
        (&tunnelled, "dead", "normal", json!({}), "binding_failed"),
        (&tunnelled, "unknown", "normal", json!({}), "binding_failed"),
        (&tunnelled, "dpdk", "normal", json!({}), "vhostuser"),
        (&vlan, "h1", "direct", json!({}), "hw_veb"),
        (&tunnelled, "h1", "direct", json!({"capabilities": ["switchdev"]}), "ovs"),
        (&vlan, "h1", "direct-physical", json!({}), "hostdev_physical"),
        (&tunnelled, "some-machine", "baremetal", json!({}), "other"),
        (&tunnelled, "h1", "remote-managed", json!({}), "ovs"),
    ] {
        let body = json!({
            "network_id": network["id"], "binding:host_id": host, "binding:vnic_type": vnic, "binding:profile": profile,
        });
        let port = desk.create(PORTS, &Caller::admin("p"), body).unwrap();
        assert_eq!(port["binding:vif_type"], want, "{vnic} on {host}");
        let details = &port["binding:vif_details"];
        match want {
            "ovs" => assert_eq!(
                *details,
                json!({
                    "port_filter": true, "connectivity": "l2", "bridge_name": "br-int", "datapath_type": "system",
                    "ovs_create_tap": true, "bound_drivers": {"0": "ovn"},
                })
            ),
            "vhostuser" => {
                let id = port["id"].as_str().unwrap();
                assert_eq!(details["vhostuser_socket"], format!("/var/run/openvswitch/vhu{}", &id[..11]));
                assert_eq!(details["vhostuser_mode"], "server");
            }
            "hw_veb" => assert_eq!(details["vlan"], "7"),
            "unbound" | "binding_failed" => assert_eq!(*details, json!({})),
            _ => assert_eq!(details["connectivity"], "l2"),
        }
    }
}

#[test]
fn a_host_that_goes_away_does_not_unplug_a_port_and_naming_it_again_tries_again() {
    let (mut desk, network, _) = desk();
    let body = json!({"network_id": network["id"], "binding:host_id": "h1"});
    let port = desk.create(PORTS, &Caller::admin("p"), body).unwrap();
    desk.outside.fleet.chassis.retain(|chassis| chassis.hostname != "h1");
    let renamed = desk.update(PORTS, &Caller::admin("p"), &port, json!({"name": "x"})).unwrap();
    assert_eq!(renamed["binding:vif_type"], "ovs");
    let again = desk.update(PORTS, &service(), &port, json!({"binding:host_id": "h1"})).unwrap();
    assert_eq!(again["binding:vif_type"], "binding_failed");
    let off = desk.update(PORTS, &service(), &port, json!({"binding:host_id": null})).unwrap();
    assert_eq!((&off["binding:vif_type"], &off["binding:host_id"]), (&json!("unbound"), &json!("")));
}

#[test]
fn scenario_52_each_gateway_is_where_ovn_hosts_it() {
    let (mut desk, network, _) = desk();
    let network: uuid::Uuid = network["id"].as_str().unwrap().parse().unwrap();
    let gateway = Internal { device_owner: owner::ROUTER_GATEWAY.into(), ..Internal::on(network) };
    let [one, two] = [(); 2].map(|()| desk.run(|txn| create_internal(txn, gateway.clone())).unwrap().id);
    desk.report.set_gateway(one, Some(Place { chassis: "id-h1".into(), host: "h1".into() }));
    let show = |desk: &Desk, id: uuid::Uuid| desk.show(PORTS, &service(), &json!(id.to_string())).unwrap();
    let (first, second) = (show(&desk, one), show(&desk, two));
    assert_eq!(
        (&first["binding:host_id"], &first["status"], &first["binding:vif_type"]),
        (&json!("h1"), &json!("ACTIVE"), &json!("ovs"))
    );
    assert_eq!(
        (&second["binding:host_id"], &second["status"], &second["binding:vif_type"]),
        (&json!(""), &json!("DOWN"), &json!("unbound"))
    );
    desk.report.set_gateway(two, Some(Place { chassis: "id-h2".into(), host: "h2".into() }));
    assert_eq!(show(&desk, two)["binding:host_id"], "h2");
    assert_eq!(desk.list(PORTS, &service(), "binding:host_id=h2").unwrap().len(), 1);
}

#[test]
fn a_port_moves_to_a_host_that_was_prepared() {
    let (mut desk, network, _) = desk();
    let member = Caller::member("p");
    let port = desk
        .create(
            PORTS,
            &Caller::admin("p"),
            json!({"network_id": network["id"], "binding:host_id": "h1", "device_owner": "compute:nova"}),
        )
        .unwrap();
    let ask = |desk: &mut Desk, how, body| desk.act(PORTS, &service(), &port, how, body);
    let prepared =
        ask(&mut desk, (Post, "bindings"), json!({"binding": {"host": "h2", "profile": {"a": 1}}})).unwrap();
    assert_eq!(prepared["binding"]["status"], "INACTIVE");
    assert_eq!(
        (&prepared["binding"]["vif_type"], &prepared["binding"]["profile"]),
        (&json!("ovs"), &json!({"a": 1}))
    );
    let hosts = |answer: &Value| {
        let all = answer["bindings"].as_array().unwrap().iter();
        all.map(|it| format!("{}:{}", it["host"].as_str().unwrap(), it["status"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let listed = ask(&mut desk, (Get, "bindings"), json!(null)).unwrap();
    assert_eq!(hosts(&listed), ["h1:ACTIVE", "h2:INACTIVE"]);
    assert_eq!(ask(&mut desk, (Get, "bindings/h2"), json!(null)).unwrap()["binding"]["host"], "h2");
    for (how, body, want) in [
        ((Post, "bindings"), json!({"binding": {"host": "h2"}}), (409, "PortBindingAlreadyExists")),
        ((Post, "bindings"), json!({"binding": {"host": "h1"}}), (409, "PortBindingAlreadyExists")),
        ((Post, "bindings"), json!({"binding": {"host": "dead"}}), (400, "PortBindingError")),
        ((Post, "bindings"), json!({"binding": {}}), (400, "HTTPBadRequest")),
        ((Post, "bindings"), json!({"binding": {"host": 7}}), (400, "HTTPBadRequest")),
        ((Post, "bindings"), json!({"binding": {"host": "dpdk", "vnic_type": "x"}}), (400, "HTTPBadRequest")),
        ((Post, "bindings"), json!({"binding": {"host": "dpdk", "profile": 7}}), (400, "HTTPBadRequest")),
        ((Post, "bindings"), json!({"binding": {"host": "dpdk", "x": 7}}), (400, "HTTPBadRequest")),
        ((Post, "bindings"), json!({}), (400, "HTTPBadRequest")),
        ((Put, "bindings/h9/activate"), json!(null), (404, "PortBindingNotFound")),
        ((Put, "bindings/h1/activate"), json!(null), (409, "PortBindingAlreadyActive")),
        ((Delete, "bindings/h9"), json!(null), (404, "PortBindingNotFound")),
        ((Get, "bindings/h9"), json!(null), (404, "PortBindingNotFound")),
    ] {
        assert_eq!(fault(ask(&mut desk, how, body.clone())), want, "{how:?} {body}");
    }
    let active = ask(&mut desk, (Put, "bindings/h2/activate"), json!(null)).unwrap();
    assert_eq!((&active["binding"]["host"], &active["binding"]["status"]), (&json!("h2"), &json!("ACTIVE")));
    assert_eq!(desk.show(PORTS, &service(), &port).unwrap()["binding:host_id"], "h2");
    ask(&mut desk, (Delete, "bindings/h1"), json!(null)).unwrap();
    let listed = ask(&mut desk, (Get, "bindings"), json!(null)).unwrap();
    assert_eq!(hosts(&listed), ["h2:ACTIVE"]);
    ask(&mut desk, (Delete, "bindings/h2"), json!(null)).unwrap();
    assert_eq!(desk.show(PORTS, &service(), &port).unwrap()["binding:vif_type"], "unbound");
    // Only services may do that.
    assert_eq!(
        fault(desk.act(PORTS, &member, &port, (Get, "bindings"), json!(null))),
        (403, "PolicyNotAuthorized")
    );
    let bind = json!({"binding:host_id": "h1"});
    assert_eq!(fault(desk.update(PORTS, &member, &port, bind)), (403, "PolicyNotAuthorized"));
}
