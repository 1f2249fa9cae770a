use proptest::prelude::*;

use super::*;
use crate::ident::{NetworkId, NodeId};

/// The value of the text prints as the text again.
fn same<A: Annotation>(text: &str) {
    match A::parse(text) {
        Ok(value) => assert_eq!(value.format(), text, "{}", A::KEY),
        Err(cause) => panic!("{}: {cause}", A::KEY),
    }
}

/// The text is refused with these words, and with the key.
fn refused<A: Annotation>(text: &str, words: &str) {
    let annotations = Annotations::from([(A::KEY.to_owned(), text.to_owned())]);
    match A::read(&annotations) {
        Ok(_) => panic!("{} accepts {text:?}", A::KEY),
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with(&format!("cannot read annotation {}: ", A::KEY)), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
}

#[test]
fn annotations_of_the_specification_are_read_and_printed() {
    same::<NodeId>("2");
    same::<NetworkId>("1");
    same::<TransitPeerSubnet>(r#"{"ipv4":"100.88.0.12/30","ipv6":"fd97::8/127"}"#);
    same::<TransitPeerSubnet>(r#"{"ipv6":"fd97::8/127"}"#);
    same::<TopologyVersion>("2.0");
    same::<GatewayPortKeys>(r#"{"test12_namespace-scoped":"4"}"#);
    same::<ChassisId>("7c4dbf0e-5b9f-4c2f-8b49-0a9b3e2b8f10");
    same::<EncapAddresses>(r#"["172.18.0.3"]"#);
    same::<NodePrimaryAddress>(r#"{"ipv4":"172.18.0.3/16","ipv6":"fc00:f853:ccd:e793::3/64"}"#);
    same::<HostCidrs>(r#"["172.18.0.3/16","fc00:f853:ccd:e793::3/64"]"#);
    same::<MasqueradeSubnet>(r#"{"ipv4":"169.254.0.0/17","ipv6":"fd69::/112"}"#);
    same::<GatewayMtuSupport>("false");
    same::<NetworkNameAnnotation>("test12_namespace-scoped");
    same::<TunnelKeys>("[16711684,16715779]");
    same::<Option<L3GatewayConfig>>(r#"{"default":{"mode":"disabled"}}"#);
    same::<Option<L3GatewayConfig>>(
        r#"{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_node1","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/16","fc00:f853:ccd:e793::3/64"],"next-hops":["172.18.0.1","fc00:f853:ccd:e793::1"],"node-port-enable":"true","vlan-id":"0"}}"#,
    );
}

#[test]
fn a_gateway_may_have_single_fields_or_no_router_outside() {
    let parse = |text: &str| <Option<L3GatewayConfig>>::parse(text).unwrap().unwrap();
    let single = parse(
        r#"{"default":{"mode":"local","bridge-id":"b","interface-id":"i","mac-address":"02:42:ac:12:00:03","ip-address":"172.18.0.3/16","next-hop":"172.18.0.1","vlan-id":"100"}}"#,
    );
    assert_eq!(single.addresses, ["172.18.0.3/16".parse().unwrap()]);
    assert_eq!(single.next_hops, ["172.18.0.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!((single.mode, single.vlan, single.has_node_ports), (GatewayMode::Local, Some(100), false));
    let printed = Some(single.clone()).format();
    assert!(
        printed.contains(r#""ip-address":"172.18.0.3/16""#) && printed.contains(r#""next-hop":"172.18.0.1""#)
    );
    assert_eq!(parse(&printed), single);
    let lonely = parse(
        r#"{"default":{"mode":"shared","bridge-id":"b","interface-id":"i","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/32"],"next-hops":[],"next-hop":""}}"#,
    );
    assert!(lonely.next_hops.is_empty());
}

#[test]
fn hostile_text_is_an_error_that_names_the_key() {
    for text in ["x", "-1", "70000", "1", "", "２"] {
        refused::<NodeId>(text, "is not a node id from 2 to 5000");
    }
    refused::<NetworkId>("0", "is not a network id from 1 to 4095");
    refused::<TransitPeerSubnet>("{}", "neither ipv4 nor ipv6");
    refused::<TransitPeerSubnet>("[]", "neither ipv4 nor ipv6");
    refused::<TransitPeerSubnet>("7", "is not valid");
    refused::<TransitPeerSubnet>(
        r#"{"ipv4":"100.88.0.13/30"}"#,
        "100.88.0.13/30 has host bits; expected 100.88.0.12/30",
    );
    refused::<TransitPeerSubnet>(r#"{"ipv4":"100.88.0.0/16"}"#, "is not a /30 or /31");
    refused::<TransitPeerSubnet>(r#"{"ipv6":"fd97::/64"}"#, "is not a /127");
    refused::<TransitPeerSubnet>(r#"{"ipv4":"100.88.0.0/30","ipv5":"x"}"#, "unknown field");
    refused::<TopologyVersion>("3.0", "is not \"2.0\"");
    refused::<GatewayPortKeys>(r#"{"a":"0"}"#, "is not a tunnel key");
    refused::<GatewayPortKeys>(r#"{"a":4}"#, "invalid type");
    refused::<ChassisId>("a,b", "is not the name of a chassis");
    refused::<EncapAddresses>("[]", "the list is empty");
    refused::<EncapAddresses>(r#"["0.0.0.0"]"#, "is not the address of a machine");
    refused::<HostCidrs>(r#"["172.18.0.3"]"#, "is not valid");
    refused::<GatewayMtuSupport>("yes", "is neither");
    refused::<TunnelKeys>("[1,16715779]", "1 in \"[1,16715779]\" is not a switch's datapath key");
    refused::<TunnelKeys>("[16711684,1]", "is not a router's datapath key");
    refused::<TunnelKeys>("[16711684]", "is not valid");
    refused::<NetworkNameAnnotation>("a b", "is not the name of a network");
    let gateway = |fields: &str| {
        format!(
            r#"{{"default":{{"bridge-id":"b","interface-id":"i","mac-address":"02:42:ac:12:00:03","ip-address":"172.18.0.3/16",{fields}}}}}"#
        )
    };
    refused::<Option<L3GatewayConfig>>(&gateway(r#""mode":"x""#), "is not shared, local or disabled");
    refused::<Option<L3GatewayConfig>>(&gateway(r#""mode":"shared","vlan-id":"4096""#), "is not 0 to 4095");
    refused::<Option<L3GatewayConfig>>(
        &gateway(r#""mode":"shared","node-port-enable":"1""#),
        "is not true or false",
    );
    refused::<Option<L3GatewayConfig>>(&gateway(r#""mode":"shared","next-hop":"x""#), "is not an address");
    refused::<Option<L3GatewayConfig>>(
        r#"{"default":{"mode":"shared","ip-addresses":[]}}"#,
        "it has no address",
    );
    refused::<Option<L3GatewayConfig>>(
        r#"{"default":{"mode":"shared","bridge-id":"b\" || 1","interface-id":"i","mac-address":"02:42:ac:12:00:03","ip-address":"172.18.0.3/16"}}"#,
        "is not a name",
    );
    let long = "x".repeat(100_000);
    refused::<PodNetworks>(&long, "…");
}

#[test]
fn foreign_entries_of_a_pod_stay_as_they_are() {
    let text = r#"{"default":{"ip_addresses":["10.244.1.5/24"],"later":[1,{"x":null}]},"other":7}"#;
    let mut networks = PodNetworks::parse(text).unwrap();
    let ours = PodNetwork {
        ip_addresses: vec!["203.203.0.5/16".parse().unwrap(), "2010:100:200::5/60".parse().unwrap()],
        mac_address: "0a:58:cb:cb:00:05".parse().unwrap(),
        gateway_ips: vec!["203.203.0.1".parse().unwrap(), "2010:100:200::1".parse().unwrap()],
        routes: vec![PodRoute {
            dest: "10.96.0.0/16".parse().unwrap(),
            next_hop: "203.203.0.1".parse().unwrap(),
        }],
        ip_address: None,
        gateway_ip: None,
        ipv6_lla_gateway_ip: Some("fe80::858:cbff:fecb:1".parse().unwrap()),
        tunnel_id: Some(10),
        role: Some("primary".to_owned()),
    };
    networks.set("test12/namespace-scoped", &ours);
    let printed = networks.format();
    assert_eq!(
        printed,
        r#"{"default":{"ip_addresses":["10.244.1.5/24"],"later":[1,{"x":null}]},"other":7,"test12/namespace-scoped":{"gateway_ips":["203.203.0.1","2010:100:200::1"],"ip_addresses":["203.203.0.5/16","2010:100:200::5/60"],"ipv6_lla_gateway_ip":"fe80::858:cbff:fecb:1","mac_address":"0a:58:cb:cb:00:05","role":"primary","routes":[{"dest":"10.96.0.0/16","nextHop":"203.203.0.1"}],"tunnel_id":10}}"#
    );
    let again = PodNetworks::parse(&printed).unwrap();
    assert_eq!(again.get("test12/namespace-scoped"), Some(Ok(ours)));
    assert!(again.get("other").unwrap().unwrap_err().contains("the entry other"));
    assert_eq!(again.get("nothing"), None);
    for (entry, words) in [
        (r#"{"ip_addresses":[],"mac_address":"0a:58:cb:cb:00:05"}"#, "has no address"),
        (
            r#"{"ip_addresses":["10.0.0.1/8","10.0.0.2/8"],"mac_address":"0a:58:cb:cb:00:05"}"#,
            "several addresses",
        ),
        (r#"{"ip_addresses":["10.0.0.1/8"],"mac_address":"ff:ff:ff:ff:ff:ff"}"#, "not the address of a port"),
    ] {
        let networks = PodNetworks::parse(&format!("{{\"a/b\":{entry}}}")).unwrap();
        let said = networks.get("a/b").unwrap().unwrap_err();
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn an_absent_annotation_is_no_error() {
    assert_eq!(NodeId::read(&Annotations::new()), Ok(None));
}

fn read_all(text: &str) {
    let _ = (
        NodeId::parse(text),
        NetworkId::parse(text),
        TransitPeerSubnet::parse(text),
        TopologyVersion::parse(text),
    );
    let _ = (GatewayPortKeys::parse(text), ChassisId::parse(text), EncapAddresses::parse(text));
    let _ = (NodePrimaryAddress::parse(text), HostCidrs::parse(text), MasqueradeSubnet::parse(text));
    let _ = (GatewayMtuSupport::parse(text), <Option<L3GatewayConfig>>::parse(text), TunnelKeys::parse(text));
    if let Ok(networks) = PodNetworks::parse(text) {
        networks.keys().for_each(|key| drop(networks.get(key)));
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}", json in r#"[\[\]{}",:0-9a-f./]{0,60}"#) {
        read_all(&text);
        read_all(&json);
    }

    #[test]
    fn ids_and_keys_survive_their_text(id in 2u32..=5000, network in 1u32..=4095, router in 16_715_779u32..=16_777_215) {
        let id = NodeId::new(id).unwrap();
        prop_assert_eq!(NodeId::parse(&id.format()), Ok(id));
        let keys = TunnelKeys {
            switch: NetworkId::new(network).unwrap().switch_key(),
            router: crate::ident::RouterKey::new(router).unwrap(),
        };
        prop_assert_eq!(TunnelKeys::parse(&keys.format()), Ok(keys));
    }
}
