//! Networks: segments, MTU, sharing, external, deletion.

use serde_json::{Value, json};

use super::*;
use crate::model::RbacPolicy;
use crate::report::Report;
use crate::resource::fixture::{again, id, subnet, txn, txn_with};
use crate::resource::port::{Internal, create_internal};
use crate::resource::{ChangeRequest, CreateAnswer, Noun, RenderedObject, of};
use crate::world::Outside;

fn noun() -> &'static dyn Noun {
    of::<Networks>()
}

fn create(txn: &mut Txn, caller: &Caller, body: Value) -> Result<Value, Fault> {
    let report = Report::default();
    let who = ChangeRequest::by(caller, &report);
    noun().create(txn, &who, &json!({"network": body})).map(|changed| match changed {
        CreateAnswer::One(shown) => shown.into_value(),
        CreateAnswer::Many(_) => unreachable!("asked for one"),
    })
}

fn update(txn: &mut Txn, caller: &Caller, network: &Value, body: Value) -> Result<Value, Fault> {
    let report = Report::default();
    let who = ChangeRequest::by(caller, &report);
    noun()
        .update(txn, &who, network["id"].as_str().unwrap(), &json!({"network": body}))
        .map(RenderedObject::into_value)
}

fn delete(txn: &mut Txn, network: &Value) -> Result<(), Fault> {
    let (caller, report) = (admin(), Report::default());
    noun().delete(txn, &ChangeRequest::by(&caller, &report), network["id"].as_str().unwrap())
}

fn admin() -> Caller {
    Caller::admin("p")
}

fn uuid(network: &Value) -> Uuid {
    network["id"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_plain_network_is_a_tunnel_with_its_overhead_taken_off() {
    let mut txn = txn();
    let network = create(&mut txn, &admin(), json!({"name": "n"})).unwrap();
    assert_eq!(network["provider:network_type"], "geneve");
    assert_eq!(network["provider:physical_network"], Value::Null);
    let vni = network["provider:segmentation_id"].as_u64().unwrap();
    assert!((1..=65_535).contains(&vni));
    assert_eq!((&network["mtu"], &network["status"]), (&json!(1442), &json!("ACTIVE")));
    assert_eq!((&network["shared"], &network["router:external"]), (&json!(false), &json!(false)));
    assert_eq!(network["project_id"], "p");
}

#[test]
fn scenario_04_a_member_neither_sets_nor_sees_provider_attributes() {
    let mut txn = txn();
    let member = Caller::member("p");
    let flat = json!({"provider:network_type": "flat", "provider:physical_network": "phy1"});
    let fault = create(&mut txn, &member, flat).unwrap_err();
    assert_eq!((fault.status, fault.kind), (403, "PolicyNotAuthorized"));
    for body in [json!({"router:external": true}), json!({"shared": true}), json!({"is_default": true})] {
        assert_eq!(create(&mut txn, &member, body.clone()).unwrap_err().status, 403, "{body}");
    }
    let network = create(&mut txn, &member, json!({"shared": false})).unwrap();
    assert!(network.as_object().unwrap().keys().all(|key| !key.starts_with("provider:")));
}

#[test]
fn who_does_not_say_gets_the_first_type_of_the_operator_that_has_room() {
    let mut outside = Outside::default();
    outside.settings.network_vlan_ranges.insert("phy1".into(), vec![(100, 100)]);
    outside.settings.network_vlan_ranges.insert("phy2".into(), vec![(200, 200)]);
    outside.settings.vni_range = (7, 7);
    outside.settings.tenant_network_types = vec![NetworkType::Vlan, NetworkType::Geneve];
    let mut txn = txn_with(outside.clone());
    for (kind, physical, tag) in
        [("vlan", json!("phy1"), 100), ("vlan", json!("phy2"), 200), ("geneve", Value::Null, 7)]
    {
        let made = create(&mut txn, &Caller::member("p"), json!({})).unwrap();
        let made = noun().show(
            &crate::resource::Scene {
                world: &txn,
                report: &Report::default(),
                outside: &outside,
                caller: &admin(),
                now: jiff::Timestamp::UNIX_EPOCH,
                parent: None,
            },
            made["id"].as_str().unwrap(),
            &[],
        );
        let made = made.unwrap().into_value();
        assert_eq!(
            (&made["provider:network_type"], &made["provider:physical_network"]),
            (&json!(kind), &physical)
        );
        assert_eq!(made["provider:segmentation_id"], tag);
    }
    let full = create(&mut txn, &Caller::member("p"), json!({})).unwrap_err();
    assert_eq!((full.status, full.kind), (409, "NoNetworkAvailable"));
}

#[test]
fn segments_are_checked_and_taken_once() {
    let mut outside = Outside::default();
    outside.settings.network_vlan_ranges.insert("phy1".into(), vec![(100, 101)]);
    let mut txn = txn_with(outside);
    let segment = |kind: &str, physical: Value, tag: Value| json!({"provider:network_type": kind, "provider:physical_network": physical, "provider:segmentation_id": tag});
    let mut ask = |body: Value| create(&mut txn, &admin(), body);
    assert_eq!(ask(segment("flat", json!("phy1"), json!(null))).unwrap()["mtu"], 1500);
    assert_eq!(ask(segment("flat", json!("phy1"), json!(null))).unwrap_err().kind, "FlatNetworkInUse");
    assert!(ask(segment("flat", json!("phy2"), json!(null))).is_ok());
    assert!(ask(segment("vlan", json!("phy1"), json!(7))).is_ok());
    assert_eq!(ask(segment("vlan", json!("phy1"), json!(7))).unwrap_err().kind, "VlanIdInUse");
    assert!(ask(segment("vlan", json!("phy2"), json!(7))).is_ok());
    let taken: std::collections::BTreeSet<_> = (0..2)
        .map(|_| {
            ask(segment("vlan", json!("phy1"), json!(null))).unwrap()["provider:segmentation_id"].to_string()
        })
        .collect();
    assert_eq!(taken.into_iter().collect::<Vec<_>>(), ["100", "101"]);
    let full = ask(segment("vlan", json!("phy1"), json!(null))).unwrap_err();
    assert_eq!((full.status, full.kind), (409, "NoNetworkAvailable"));
    assert!(ask(segment("geneve", json!(null), json!(5))).is_ok());
    assert_eq!(ask(segment("geneve", json!(null), json!(5))).unwrap_err().kind, "TunnelIdInUse");
    assert!(ask(segment("local", json!(null), json!(null))).is_ok());
    for (kind, physical, tag) in [
        ("flat", json!(null), json!(null)),
        ("flat", json!("phy3"), json!(1)),
        ("vlan", json!(null), json!(9)),
        ("vlan", json!("phy1"), json!(4095)),
        ("geneve", json!("phy1"), json!(9)),
        ("geneve", json!(null), json!(1 << 24)),
        ("local", json!("phy1"), json!(null)),
        ("local", json!(null), json!(1)),
        ("gre", json!(null), json!(1)),
    ] {
        let fault = ask(segment(kind, physical.clone(), tag.clone())).unwrap_err();
        assert_eq!(fault.status, 400, "{kind} {physical} {tag}: {fault}");
    }
    assert_eq!(ask(json!({"provider:physical_network": "phy1"})).unwrap_err().status, 400);
}

#[test]
fn only_the_segmentation_id_of_a_segment_changes() {
    let mut txn = txn();
    let vlan = json!({"provider:network_type": "vlan", "provider:physical_network": "phy1", "provider:segmentation_id": 7});
    let network = create(&mut txn, &admin(), vlan).unwrap();
    let changed = update(&mut txn, &admin(), &network, json!({"provider:segmentation_id": 8})).unwrap();
    assert_eq!(changed["provider:segmentation_id"], 8);
    for body in [json!({"provider:network_type": "flat"}), json!({"provider:physical_network": "phy2"})] {
        let fault = update(&mut txn, &admin(), &network, body).unwrap_err();
        assert!(fault.message.starts_with("Cannot update read-only attribute provider:"), "{fault}");
    }
    let flat = json!({"provider:network_type": "flat", "provider:physical_network": "phy1"});
    let network = create(&mut txn, &admin(), flat).unwrap();
    assert_eq!(
        update(&mut txn, &admin(), &network, json!({"provider:segmentation_id": 8})).unwrap_err().status,
        400
    );
}

#[test]
fn an_mtu_fits_the_network() {
    let mut txn = txn();
    for (mtu, status) in [(1443, 400), (70_000, 400), (-1, 400)] {
        assert_eq!(create(&mut txn, &admin(), json!({"mtu": mtu})).unwrap_err().status, status, "{mtu}");
    }
    assert_eq!(create(&mut txn, &admin(), json!({"mtu": 67})).unwrap()["mtu"], 67, "until a subnet comes");
    let network = create(&mut txn, &admin(), json!({"mtu": 1400})).unwrap();
    assert_eq!(network["mtu"], 1400);
    assert_eq!(update(&mut txn, &admin(), &network, json!({"mtu": 0})).unwrap()["mtu"], 1442);
}

#[test]
fn zones_must_exist() {
    let mut outside = Outside::default();
    outside.fleet.chassis.push(crate::fleet::Chassis {
        gateway: true,
        zones: ["az1".to_owned()].into(),
        ..Default::default()
    });
    let mut txn = txn_with(outside);
    let network = create(&mut txn, &admin(), json!({"availability_zone_hints": ["az1"]})).unwrap();
    assert_eq!(network["availability_zones"], json!(["az1"]));
    let fault = create(&mut txn, &admin(), json!({"availability_zone_hints": ["az2"]})).unwrap_err();
    assert_eq!((fault.status, fault.kind), (404, "AvailabilityZoneNotFound"));
}

#[test]
fn shared_networks_are_everybodys_until_nobody_else_uses_them() {
    let mut txn = txn();
    let network = create(&mut txn, &admin(), json!({"shared": true})).unwrap();
    let other = Caller::member("q");
    assert!(visible(&txn, &other, uuid(&network)).is_ok());
    let port = Internal { project: "q".into(), ..Internal::on(uuid(&network)) };
    let port = create_internal(&mut txn, port).unwrap().id;
    let (world, _) = txn.finish();
    let mut refused = again(world.clone(), Outside::default());
    let fault = update(&mut refused, &admin(), &network, json!({"shared": false})).unwrap_err();
    assert_eq!((fault.status, fault.kind), (409, "InvalidSharedSetting"));
    let mut txn = again(world, Outside::default());
    txn.remove::<Port>(&port);
    let private = update(&mut txn, &admin(), &network, json!({"shared": false})).unwrap();
    assert_eq!(private["shared"], false);
    assert!(private["revision_number"].as_u64() > network["revision_number"].as_u64());
    assert_eq!(visible(&txn, &other, uuid(&network)).unwrap_err().kind, "NetworkNotFound");
    assert!(txn.table::<RbacPolicy>().is_empty());
}

#[test]
fn an_external_network_with_gateways_stays_external() {
    let mut txn = txn();
    let network = create(&mut txn, &admin(), json!({"router:external": true})).unwrap();
    assert!(visible(&txn, &Caller::member("q"), uuid(&network)).is_ok());
    let port = Internal { device_owner: owner::ROUTER_GATEWAY.into(), ..Internal::on(uuid(&network)) };
    let port = create_internal(&mut txn, port).unwrap().id;
    let fault = update(&mut txn, &admin(), &network, json!({"router:external": false})).unwrap_err();
    assert_eq!((fault.status, fault.kind), (409, "ExternalNetworkInUse"));
    txn.remove::<Port>(&port);
    assert!(update(&mut txn, &admin(), &network, json!({"router:external": false})).is_ok());
}

#[test]
fn there_is_one_default_external_network() {
    let mut txn = txn();
    let default = json!({"router:external": true, "is_default": true});
    assert_eq!(create(&mut txn, &admin(), json!({"is_default": true})).unwrap_err().status, 400);
    assert!(create(&mut txn, &admin(), default.clone()).is_ok());
    assert_eq!(create(&mut txn, &admin(), default).unwrap_err().kind, "DefaultExternalNetworkExists");
}

#[test]
fn scenario_08_a_network_with_ports_stays() {
    let mut txn = txn();
    let network = create(&mut txn, &admin(), json!({"shared": true})).unwrap();
    let mut cut = subnet(9, 1, "10.0.0.0/24");
    cut.network_id = uuid(&network);
    txn.put(cut);
    let port = create_internal(&mut txn, Internal { project: "p".into(), ..Internal::on(uuid(&network)) })
        .unwrap()
        .id;
    let fault = delete(&mut txn, &network).unwrap_err();
    assert_eq!((fault.status, fault.kind), (409, "NetworkInUse"));
    txn.remove::<Port>(&port);
    // Ports that the API created itself do not prevent the deletion.
    let own = Internal { device_owner: owner::DISTRIBUTED.into(), ..Internal::on(uuid(&network)) };
    create_internal(&mut txn, own).unwrap();
    delete(&mut txn, &network).unwrap();
    assert!(txn.table::<Network>().is_empty() && txn.table::<Port>().is_empty());
    assert!(txn.get::<Subnet>(&id(9)).is_none() && txn.table::<RbacPolicy>().is_empty());
}

#[test]
fn quotas_hold() {
    let mut outside = Outside::default();
    outside.settings.quotas.set("network", 1);
    let mut txn = txn_with(outside.clone());
    create(&mut txn, &admin(), json!({})).unwrap();
    let fault = create(&mut txn, &admin(), json!({})).unwrap_err();
    assert_eq!((fault.status, fault.kind), (409, "OverQuota"));
    assert!(create(&mut txn, &admin(), json!({"project_id": "q"})).is_ok());
    let (world, _) = txn.finish();
    outside.settings.quotas.set("network", -1);
    assert!(create(&mut again(world, outside), &admin(), json!({})).is_ok());
}

#[test]
fn domains_are_checked() {
    for (text, good) in [
        ("", true),
        ("example.org.", true),
        ("example.org", false),
        (".", false),
        ("-a.org.", false),
        ("a b.org.", false),
        ("x\"y.org.", false),
    ] {
        assert_eq!(domain(text).is_ok(), good, "{text}");
    }
}

#[test]
fn a_filter_by_physical_network_uses_its_link() {
    let query = |text: &str| {
        let query = noun().query(form_urlencoded::parse(text.as_bytes()).into_owned().collect()).unwrap();
        Filters::new(ATTRIBUTES, &query).unwrap()
    };
    let links = Networks::reach(&query("provider:physical_network=phy1"));
    assert_eq!(links, Some(vec![Link::NetworksOnPhysical("phy1".into())]));
    assert_eq!(Networks::reach(&query("provider:physical_network=")), None);
    assert_eq!(Networks::reach(&query("name=x")), None);
}
