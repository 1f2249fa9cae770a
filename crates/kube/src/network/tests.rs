use proptest::prelude::*;

use super::*;
use crate::address::{DualStack, nets_overlap};

fn input(subnets: &[&str]) -> Layer2Input {
    Layer2Input {
        path: "spec.layer2.",
        join_field: "joinSubnets",
        mtu: None,
        subnets: subnets.iter().map(|text| text.to_string()).collect(),
        reserved: Vec::new(),
        infrastructure: Vec::new(),
        gateways: Vec::new(),
        join: Vec::new(),
        transit: None,
        is_allocated: true,
        persistent: false,
    }
}

fn name() -> NetworkName {
    NetworkName::of_namespaced("test12", "namespace-scoped")
}

fn key() -> AttachmentKey {
    AttachmentKey::new("test12", "namespace-scoped")
}

fn checked(input: &Layer2Input) -> Layer2Network {
    input.check(name(), &ClusterNetwork::default()).unwrap()
}

#[test]
fn a_definition_is_the_one_of_the_specification() {
    let mut input = input(&["203.203.0.0/16", "2010:100:200::/60"]);
    (input.mtu, input.persistent) = (Some(1400), true);
    let network = checked(&input);
    let text = render_config(&network, &key());
    assert_eq!(
        text,
        "{\"cniVersion\":\"1.1.0\",\"type\":\"ovn-k8s-cni-overlay\",\"name\":\"test12_namespace-scoped\",\
         \"netAttachDefName\":\"test12/namespace-scoped\",\"topology\":\"layer2\",\"role\":\"primary\",\"mtu\":1400,\
         \"subnets\":\"203.203.0.0/16,2010:100:200::/60\",\"joinSubnet\":\"100.65.0.0/16,fd99::/64\",\
         \"transitSubnet\":\"100.88.0.0/16,fd97::/64\",\"allowPersistentIPs\":true}"
    );
    assert_eq!(parse_config(&text, &key(), &ClusterNetwork::default()).unwrap(), Some(network));
}

#[test]
fn names_of_rows_have_no_signs_of_the_match_language() {
    assert_eq!(name().to_string(), "test12_namespace-scoped");
    assert_eq!(name().row_prefix(), "test12_namespace.scoped_");
    assert_eq!(key().row_prefix(), "test12.namespace.scoped_");
    assert_eq!(NetworkName::of_cluster("production").to_string(), "cluster_udn_production");
    assert_eq!(checked(&input(&["10.0.0.0/16"])).switch_name(), "test12_namespace.scoped_ovn_layer2_switch");
}

#[test]
fn foreign_definitions_are_left_alone_and_ours_are_checked() {
    let parse = |text: &str| parse_config(text, &key(), &ClusterNetwork::default());
    for foreign in [
        r#"{"type":"macvlan","name":"x"}"#,
        r#"{"type":"ovn-k8s-cni-overlay","name":"x","topology":"layer3","role":"primary"}"#,
        r#"{"type":"ovn-k8s-cni-overlay","name":"x","topology":"layer2","role":"secondary"}"#,
        "[]",
        "7",
    ] {
        assert_eq!(parse(foreign), Ok(None), "{foreign}");
    }
    let text = |name: &str, key: &str, more: &str| {
        format!(
            "{{\"cniVersion\":\"1.1.0\",\"type\":\"ovn-k8s-cni-overlay\",\"name\":\"{name}\",\"netAttachDefName\":\"{key}\",\
             \"topology\":\"layer2\",\"role\":\"primary\",\"subnets\":\"10.0.0.0/16\"{more}}}"
        )
    };
    let own = "test12/namespace-scoped";
    for (text, words) in [
        ("{".to_owned(), "spec.config: not JSON"),
        (
            text("test12_x", "other/x", ""),
            "netAttachDefName is \"other/x\" and must be \"test12/namespace-scoped\"",
        ),
        (text("a b", own, ""), "\"a b\" is not the name of a network"),
        (text("test12_x", own, ",\"mtu\":\"x\""), "invalid type"),
        (
            text("test12_x", own, ",\"joinSubnet\":\"10.0.0.0/24\""),
            "overlaps with the join subnet 10.0.0.0/24",
        ),
        (text("test12_x", own, ",\"transitSubnet\":\"10.0.1.0/24\""), "transitSubnet: 10.0.1.0/24 overlaps"),
        (text("test12_x", own, ",\"transitSubnet\":\"fd00::/64\""), "not of the same address families"),
    ] {
        let said = parse(&text).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
    let by_hand = parse(&text("test12_x", own, "")).unwrap().unwrap();
    ConfigError::unless_own_name(&by_hand, &key()).unwrap();
    for stolen in ["cluster_udn_production", "other_x", "test12", "test12_", "test1_x", "test123_x"] {
        let network = parse(&text(stolen, own, "")).unwrap().unwrap();
        let said = ConfigError::unless_own_name(&network, &key()).unwrap_err().to_string();
        assert!(said.contains("may not join"), "{said}");
    }
}

#[test]
fn transit_subnets_avoid_those_of_the_network_and_the_cluster() {
    let transit = |subnets: &[&str]| checked(&input(subnets)).transit;
    let dual = |ipv4: Option<&str>, ipv6: Option<&str>| crate::address::DualNet {
        ipv4: ipv4.map(|it| it.parse().unwrap()),
        ipv6: ipv6.map(|it| it.parse().unwrap()),
    };
    assert_eq!(transit(&["203.203.0.0/16"]), dual(Some("100.88.0.0/16"), None));
    assert_eq!(transit(&["100.88.0.0/16", "fd97::/48"]), dual(Some("100.89.0.0/16"), Some("fd97:0:1::/64")));
    assert_eq!(transit(&["100.80.0.0/12"]), dual(Some("100.96.0.0/16"), None));
    let crowded = ClusterNetwork {
        service_subnets: (88..99).map(|n| format!("100.{n}.0.0/16").parse().unwrap()).collect(),
        ..ClusterNetwork::default()
    };
    let error = choose_transit(&crowded, dual(Some("10.0.0.0/16"), None), DualStack::default()).unwrap_err();
    assert!(error.to_string().contains("after 10 tries: the last one, 100.97.0.0/16"), "{error}");
}

#[test]
fn gateway_and_management_port_come_from_the_infrastructure_subnets() {
    let addresses = |infrastructure: &[&str], gateways: &[&str]| {
        let mut input = input(&["10.0.0.0/16"]);
        input.infrastructure = infrastructure.iter().map(|it| it.to_string()).collect();
        input.gateways = gateways.iter().map(|it| it.to_string()).collect();
        let network = checked(&input);
        (network.gateway.ipv4.unwrap().to_string(), network.management.ipv4.unwrap().to_string())
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(addresses(&[], &[]), pair("10.0.0.1/16", "10.0.0.2/16"));
    assert_eq!(addresses(&[], &["10.0.0.9"]), pair("10.0.0.9/16", "10.0.0.2/16"));
    assert_eq!(addresses(&[], &["10.0.0.2"]), pair("10.0.0.2/16", "10.0.0.1/16"));
    assert_eq!(addresses(&["10.0.0.0/30"], &[]), pair("10.0.0.1/16", "10.0.0.2/16"));
    assert_eq!(addresses(&["10.0.5.0/30"], &[]), pair("10.0.5.0/16", "10.0.5.1/16"));
    assert_eq!(addresses(&["10.0.5.0/30"], &["10.0.5.0"]), pair("10.0.5.0/16", "10.0.5.1/16"));
    assert_eq!(addresses(&["10.0.5.7/32", "10.0.6.7/32"], &[]), pair("10.0.5.7/16", "10.0.6.7/16"));
}

#[test]
fn pods_get_no_address_of_the_platform() {
    let mut input = input(&["10.0.0.0/24"]);
    (input.reserved, input.infrastructure) = (vec!["10.0.0.16/28".into()], vec!["10.0.0.32/30".into()]);
    let network = checked(&input);
    for withheld in
        ["10.0.0.0", "10.0.0.255", "10.0.0.20", "10.0.0.32", "10.0.0.33", "10.0.0.35", "10.1.0.1", "fd00::1"]
    {
        assert!(network.is_withheld(withheld.parse().unwrap()), "{withheld}");
    }
    for free in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.15", "10.0.0.36", "10.0.0.254"] {
        assert!(!network.is_withheld(free.parse().unwrap()), "{free}");
    }
    assert!(network.may_be_requested("10.0.0.20".parse().unwrap()));
    assert!(!network.may_be_requested("10.0.0.33".parse().unwrap()));
    assert!(!network.may_be_requested("10.9.0.33".parse().unwrap()));
}

proptest! {
    #[test]
    fn every_accepted_network_survives_its_definition(
        a: u32, length in 8u8..29, v6: Option<u128>, length6 in 16u8..126, mtu in proptest::option::of(1280u32..9000),
        persistent: bool,
    ) {
        let ipv4 = ipnet::Ipv4Net::new(a.into(), length).unwrap();
        let mut input = input(&[&ipv4.to_string()]);
        if let Some(v6) = v6 {
            input.subnets.insert(0, ipnet::Ipv6Net::new(v6.into(), length6).unwrap().to_string());
        }
        (input.mtu, input.persistent) = (mtu, persistent);
        let cluster = ClusterNetwork::default();
        if let Ok(network) = input.check(name(), &cluster) {
            let again = parse_config(&render_config(&network, &key()), &key(), &cluster).unwrap();
            prop_assert_eq!(again, Some(network.clone()));
            let all: Vec<_> = network.subnets.nets().chain(network.join.nets()).chain(network.transit.nets()).collect();
            for (n, one) in all.iter().enumerate() {
                prop_assert!(!all[n + 1..].iter().any(|other| nets_overlap(*one, *other)), "{all:?}");
            }
            for address in network.gateway.addresses().all().chain(network.management.addresses().all()) {
                prop_assert!(network.is_withheld(address));
            }
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,200}", field in "[0-9a-f:./]{0,40}") {
        let cluster = ClusterNetwork::default();
        let _ = parse_config(&text, &key(), &cluster);
        let json = serde_json::json!({
            "cniVersion": text, "type": "ovn-k8s-cni-overlay", "name": "test12_x", "netAttachDefName": key().to_string(),
            "topology": "layer2", "role": "primary", "subnets": field, "joinSubnet": text, "transitSubnet": field,
            "reservedSubnets": field, "infrastructureSubnets": field, "defaultGatewayIPs": field,
        });
        let _ = parse_config(&json.to_string(), &key(), &cluster);
    }
}
