//! Every rule is checked twice: as CEL, evaluated here as a new API server does, and in Rust.

use kube::core::cel::{validate_cel, validate_cel_update};
use serde_json::{Value, json};

use super::*;
use crate::network::{ClusterNetwork, NetworkName, describe_problems};

fn network(layer2: Value) -> UserDefinedNetwork {
    let spec = json!({ "topology": "Layer2", "layer2": layer2 });
    UserDefinedNetwork::new("blue", serde_json::from_value(spec).unwrap())
}

/// The problems of the Rust rules in one line; nothing without any.
fn rust(network: &UserDefinedNetwork) -> String {
    let cluster = ClusterNetwork {
        service_subnets: vec!["10.96.0.0/16".parse().unwrap()],
        ..ClusterNetwork::default()
    };
    let layer2 = network.spec.layer2.as_ref().unwrap();
    let checked = layer2.input("spec.layer2.").check(NetworkName::of_namespaced("ns", "blue"), &cluster);
    checked.err().map(|problems| describe_problems(&problems)).unwrap_or_default()
}

/// Fields that both refuse, the field that Rust names, and the words of the schema.
const REFUSED: &[(&str, &str, &str)] = &[
    (r#"{"role":"Primary"}"#, "spec.layer2.subnets: missing", "subnets is required"),
    (
        r#"{"role":"Primary","subnets":["203.203.0.0/99"]}"#,
        "spec.layer2.subnets: \"203.203.0.0/99\" is not",
        "must be subnets such as",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/8","11.0.0.0/8"]}"#,
        "spec.layer2.subnets: two subnets of one",
        "different address families",
    ),
    (
        r#"{"role":"Primary","mtu":1000,"subnets":["fd01::/64"]}"#,
        "spec.layer2.mtu: 1000 is less than 1280",
        "at least 1280",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"defaultGatewayIPs":["10.1.0.1"]}"#,
        "spec.layer2.defaultGatewayIPs: 10.1.0.1 is not inside",
        "defaultGatewayIPs must be inside of subnets",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"defaultGatewayIPs":["10.0"]}"#,
        "spec.layer2.defaultGatewayIPs: \"10.0\" is not an address",
        "must be addresses such as",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"defaultGatewayIPs":["10.0.0.1","10.0.0.3"]}"#,
        "two addresses of one family",
        "of different address families",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"reservedSubnets":["10.1.0.0/24"]}"#,
        "spec.layer2.reservedSubnets: 10.1.0.0/24 is not inside",
        "reservedSubnets must be inside",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"reservedSubnets":["10.0.1.1/24"]}"#,
        "spec.layer2.reservedSubnets: 10.0.1.1/24 has host bits",
        "reservedSubnets must be subnets without host bits",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"infrastructureSubnets":["10.1.0.0/24"]}"#,
        "spec.layer2.infrastructureSubnets: 10.1.0.0/24 is not inside",
        "infrastructureSubnets must be inside",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"infrastructureSubnets":["10.0.1.1/24"]}"#,
        "has host bits",
        "infrastructureSubnets must be subnets without",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"infrastructureSubnets":["10.0.1.0/24"],"reservedSubnets":["10.0.1.128/25"]}"#,
        "overlaps with the reserved",
        "must not overlap",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"infrastructureSubnets":["10.0.1.0/24"],"defaultGatewayIPs":["10.0.0.1"]}"#,
        "not inside of the infrastructure subnets",
        "inside of infrastructureSubnets",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"joinSubnets":["100.65.0.0/16","100.66.0.0/16"]}"#,
        "spec.layer2.joinSubnets: two subnets of one",
        "two joinSubnets must be of different",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"joinSubnets":["x"]}"#,
        "spec.layer2.joinSubnets: \"x\" is not a subnet",
        "joinSubnets must be subnets such as",
    ),
    (
        r#"{"role":"Primary","ipam":{"mode":"Disabled"}}"#,
        "spec.layer2.ipam.mode: Disabled is for secondary",
        "a primary network needs ipam.mode Enabled",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"ipam":{"mode":"Disabled","lifecycle":"Persistent"}}"#,
        "spec.layer2.ipam.mode: Disabled",
        "lifecycle needs mode Enabled",
    ),
];

/// Fields that only Rust can refuse: the schema does not know the cluster, or has no words for them.
const REFUSED_BY_RUST: &[(&str, &str)] = &[
    (r#"{"role":"Primary","subnets":["100.0.0.0/8"]}"#, "overlaps with the join subnet 100.65.0.0/16"),
    (
        r#"{"role":"Primary","subnets":["10.96.4.0/24"]}"#,
        "overlaps with the cluster's service subnet 10.96.0.0/16",
    ),
    (
        r#"{"role":"Primary","subnets":["169.254.0.0/24"]}"#,
        "overlaps with the masquerade subnet 169.254.0.0/17",
    ),
    (r#"{"role":"Primary","subnets":["10.0.0.0/30"]}"#, "10.0.0.0/30 has no address for a pod"),
    (r#"{"role":"Primary","subnets":["fd01::/127"]}"#, "fd01::/127 has no address for a pod"),
    (r#"{"role":"Primary","subnets":["::ffff:10.0.0.0/112"]}"#, "is an IPv4 subnet in IPv6 form"),
    (
        r#"{"role":"Primary","mtu":70000,"subnets":["10.0.0.0/16"]}"#,
        "spec.layer2.mtu: 70000 is not from 576 to 65536",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"defaultGatewayIPs":["10.0.255.255"]}"#,
        "first or last address",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"infrastructureSubnets":["10.0.1.1/32"]}"#,
        "no room for the IPv4 gateway",
    ),
    (
        r#"{"role":"Primary","subnets":["10.0.0.0/16"],"joinSubnets":["10.96.0.0/24"]}"#,
        "spec.layer2.joinSubnets: 10.96.0.0/24 overlaps with the cluster's",
    ),
];

const ACCEPTED: &[&str] = &[
    r#"{"role":"Primary","subnets":["203.203.0.0/16","2010:100:200::/60"]}"#,
    r#"{"role":"Primary","subnets":["2010:100:200::/60","203.203.0.0/16"],"mtu":1280}"#,
    r#"{"role":"Primary","subnets":["10.0.0.0/29"],"mtu":576,"ipam":{"lifecycle":"Persistent"}}"#,
    r#"{"role":"Primary","subnets":["100.88.0.0/16"],"joinSubnets":["100.70.0.0/16"]}"#,
    r#"{"role":"Primary","subnets":["10.0.0.0/16"],"reservedSubnets":["10.0.1.0/24"],"infrastructureSubnets":["10.0.2.0/30"],"defaultGatewayIPs":["10.0.2.1"]}"#,
];

#[test]
fn schema_and_rust_refuse_the_same_fields() {
    for (fields, field, words) in REFUSED {
        let network = network(serde_json::from_str(fields).unwrap());
        let said = rust(&network);
        assert!(said.contains(field), "Rust says {said:?} of {fields}");
        let said = validate_cel(&network).expect_err(fields).to_string();
        assert!(said.contains(words), "the schema says {said:?} of {fields}");
    }
    for (fields, words) in REFUSED_BY_RUST {
        let said = rust(&network(serde_json::from_str(fields).unwrap()));
        assert!(said.contains(words), "Rust says {said:?} of {fields}");
    }
    for fields in ACCEPTED {
        let network = network(serde_json::from_str(fields).unwrap());
        assert_eq!(rust(&network), "", "{fields}");
        validate_cel(&network).unwrap_or_else(|error| panic!("{fields}: {error}"));
    }
}

#[test]
fn schema_ties_fields_to_the_topology_and_to_the_role() {
    let refused = |spec: Value| {
        let network = UserDefinedNetwork::new("blue", serde_json::from_value(spec).unwrap());
        validate_cel(&network).unwrap_err().to_string()
    };
    assert!(refused(json!({ "topology": "Layer2" })).contains("layer2 belongs to topology Layer2"));
    let layer2 = json!({ "role": "Primary", "subnets": ["10.0.0.0/16"] });
    assert!(refused(json!({ "topology": "Layer3", "layer2": layer2 })).contains("layer2 belongs to"));
    assert!(refused(json!({ "topology": "Localnet" })).contains("is for ClusterUserDefinedNetworks"));
    for field in ["joinSubnets", "reservedSubnets", "infrastructureSubnets"] {
        let layer2 = json!({ "role": "Secondary", "subnets": ["10.0.0.0/16"], field: ["10.0.0.0/24"] });
        let said = refused(json!({ "topology": "Layer2", "layer2": layer2 }));
        assert!(said.contains(&format!("{field} is for primary networks")), "{said}");
    }
    let layer2 =
        json!({ "role": "Secondary", "subnets": ["10.0.0.0/16"], "defaultGatewayIPs": ["10.0.0.1"] });
    assert!(
        refused(json!({ "topology": "Layer2", "layer2": layer2 }))
            .contains("defaultGatewayIPs is for primary")
    );
}

#[test]
fn schema_lets_nobody_change_a_network() {
    let old = network(json!({ "role": "Primary", "subnets": ["10.0.0.0/16"] }));
    let new = network(json!({ "role": "Primary", "subnets": ["10.1.0.0/16"] }));
    validate_cel_update(&old, &old).unwrap();
    let said = validate_cel_update(&new, &old).unwrap_err().to_string();
    assert!(said.contains("layer2 cannot be changed"), "{said}");
}

#[test]
fn definitions_keep_other_topologies_and_show_useful_columns() {
    for definition in definitions().iter().take(2) {
        let version = &definition.spec.versions[0];
        let schema = serde_json::to_string(&version.schema).unwrap();
        assert!(schema.contains("\"x-kubernetes-preserve-unknown-fields\":true"), "{schema}");
        let columns: Vec<&str> =
            version.additional_printer_columns.iter().flatten().map(|column| column.name.as_str()).collect();
        assert_eq!(columns, ["Topology", "Role", "Subnets", "Created", "Reason", "Message", "Age"]);
        assert!(version.subresources.as_ref().is_some_and(|it| it.status.is_some()));
    }
    let names: Vec<String> =
        definitions().into_iter().map(|definition| definition.metadata.name.unwrap()).collect();
    assert_eq!(
        names,
        [
            "userdefinednetworks.k8s.ovn.org",
            "clusteruserdefinednetworks.k8s.ovn.org",
            "network-attachment-definitions.k8s.cni.cncf.io",
            "ipamclaims.k8s.cni.cncf.io",
            "egressips.k8s.ovn.org"
        ]
    );
}
