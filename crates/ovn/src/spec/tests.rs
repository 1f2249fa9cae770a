//! Every typed table against the schema of every supported version.

use std::collections::BTreeSet;

use super::*;

// Digests of the schema files of OVN and Open vSwitch (`ovn-nb.ovsschema`, `ovn-sb.ovsschema`, `vswitch.ovsschema`) for the releases in
// their names. They have all tables, columns, types, constraints and indexes of the file, one line per table, without spaces and without
// `cksum`. The tests below compare the digests of the installed versions with the installed files. To add a version, take the file from the
// release and convert it in the same way.
const NB: [(&str, &str); 3] = [
    ("23.03", include_str!("../../testdata/schema/ovn-nb-23.03.json")),
    ("25.03", include_str!("../../testdata/schema/ovn-nb-25.03.json")),
    ("26.03", include_str!("../../testdata/schema/ovn-nb-26.03.json")),
];
const SB: [(&str, &str); 3] = [
    ("23.03", include_str!("../../testdata/schema/ovn-sb-23.03.json")),
    ("25.03", include_str!("../../testdata/schema/ovn-sb-25.03.json")),
    ("26.03", include_str!("../../testdata/schema/ovn-sb-26.03.json")),
];
const VSWITCH: [(&str, &str); 3] = [
    ("3.1", include_str!("../../testdata/schema/vswitch-3.1.json")),
    ("3.5", include_str!("../../testdata/schema/vswitch-3.5.json")),
    ("4.0", include_str!("../../testdata/schema/vswitch-4.0.json")),
];

/// The parts of a model that a schema lacks, as `Table` or `Table.column`. Panics on any mismatch.
fn absent(model: &[TableSpec], schema: &str) -> Vec<String> {
    let schema = DatabaseSchema::parse(schema).unwrap();
    let mut absent = Vec::new();
    let mut misfits = Vec::new();
    for spec in model {
        assert_eq!(spec.database, schema.name);
        match spec.fit(&schema) {
            Ok(None) => absent.push(spec.table.to_owned()),
            Ok(Some(fit)) => {
                absent
                    .extend(fit.absent.iter().map(|at| format!("{}.{}", spec.table, spec.columns[at].name)));
            }
            Err(list) => misfits.extend(list.iter().map(ToString::to_string)),
        }
    }
    assert_eq!(misfits, Vec::<String>::new(), "schema {}", schema.version);
    absent.sort();
    absent
}

#[test]
fn northbound_of_every_version() {
    let model = crate::nb::model();
    assert_eq!(
        absent(model, NB[0].1),
        [
            "ACL.tier",
            "DNS.options",
            "Logical_Router_Policy.bfd_sessions",
            "Logical_Router_Policy.chain",
            "Logical_Router_Policy.jump_chain",
            "Logical_Router_Policy.output_port",
            "Logical_Router_Port.status",
            "Logical_Router_Static_Route.selection_fields",
            "NAT.match",
            "NAT.priority",
        ]
    );
    assert_eq!(absent(model, NB[1].1), ["Logical_Router_Policy.output_port"]);
    assert_eq!(absent(model, NB[2].1), [""; 0]);
}

#[test]
fn southbound_of_every_version() {
    let model = crate::sb::model();
    assert_eq!(
        absent(model, SB[0].1),
        [
            "Advertised_Route",
            "Datapath_Binding.nb_uuid",
            "Datapath_Binding.type",
            "Learned_Route",
            "Load_Balancer.lr_datapath_group",
            "Load_Balancer.ls_datapath_group",
        ]
    );
    assert_eq!(absent(model, SB[1].1), ["Datapath_Binding.nb_uuid", "Datapath_Binding.type"]);
    assert_eq!(absent(model, SB[2].1), [""; 0]);
}

#[test]
fn vswitch_of_every_version() {
    for (_, schema) in VSWITCH {
        assert_eq!(absent(crate::vswitch::model(), schema), [""; 0]);
    }
}

/// A wrong digest would let a table pass that no server has. Each package contains one version of a schema. If there is a digest of that
/// version, it must equal the file; otherwise the test only checks that our tables fit.
#[test]
fn digests_say_what_the_installed_schemas_say() {
    for (file, model, digests) in [
        ("/usr/share/ovn/ovn-nb.ovsschema", crate::nb::model(), NB),
        ("/usr/share/ovn/ovn-sb.ovsschema", crate::sb::model(), SB),
        ("/usr/share/openvswitch/vswitch.ovsschema", crate::vswitch::model(), VSWITCH),
    ] {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{file}: {error}; cargo xtask test installs it"));
        absent(model, &text);
        let installed = DatabaseSchema::parse(&text).unwrap();
        for (release, digest) in digests {
            let digest = DatabaseSchema::parse(digest).unwrap();
            if digest.version != installed.version {
                continue;
            }
            let names = |schema: &DatabaseSchema| schema.tables.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&digest), names(&installed), "{release} {file}");
            for (name, table) in &installed.tables {
                assert_eq!(digest.tables[name], *table, "{release} {file} {name}");
            }
        }
    }
}

#[test]
fn no_column_is_optional_without_need() {
    for (model, schemas) in
        [(crate::nb::model(), NB), (crate::sb::model(), SB), (crate::vswitch::model(), VSWITCH)]
    {
        let missing: BTreeSet<String> =
            schemas.iter().flat_map(|(_, schema)| absent(model, schema)).collect();
        for spec in model {
            assert_eq!(spec.optional, missing.contains(spec.table), "{}", spec.table);
            for column in spec.columns {
                let name = format!("{}.{}", spec.table, column.name);
                assert_eq!(column.optional, missing.contains(&name), "{name}");
            }
        }
    }
}

#[test]
fn a_table_is_listed_once() {
    for model in [crate::nb::model(), crate::sb::model(), crate::vswitch::model()] {
        let names: BTreeSet<&str> = model.iter().map(|spec| spec.table).collect();
        assert_eq!(names.len(), model.len());
    }
}

/// If the schema constrains a column to an enum, our keywords must contain exactly the values of the newest schema, and may contain more
/// for older ones. Otherwise we would write a value that the server rejects.
#[test]
fn words_cover_the_schemas_choices() {
    let cases: [(&str, &str, &str, &[&str]); 12] = [
        (NB[2].1, "ACL", "direction", crate::nb::Direction::KNOWN),
        (NB[2].1, "ACL", "action", crate::nb::AclAction::KNOWN),
        (NB[2].1, "ACL", "severity", crate::nb::Severity::KNOWN),
        (NB[2].1, "Meter", "unit", crate::nb::MeterUnit::KNOWN),
        (NB[2].1, "Load_Balancer", "protocol", crate::nb::LbProtocol::KNOWN),
        (NB[2].1, "Logical_Router_Static_Route", "selection_fields", crate::nb::SelectionField::KNOWN),
        (NB[2].1, "Logical_Router_Static_Route", "policy", crate::nb::RoutePolicy::KNOWN),
        (NB[2].1, "Logical_Router_Policy", "action", crate::nb::PolicyAction::KNOWN),
        (NB[2].1, "NAT", "type", crate::nb::NatType::KNOWN),
        (NB[2].1, "BFD", "status", crate::nb::BfdStatus::KNOWN),
        (SB[2].1, "Datapath_Binding", "type", crate::sb::DatapathType::KNOWN),
        (SB[2].1, "Service_Monitor", "status", crate::sb::MonitorStatus::KNOWN),
    ];
    for (schema, table, column, words) in cases {
        let schema = DatabaseSchema::parse(schema).unwrap();
        let choices = schema.tables[table].columns[column].kind.key.limits().choices.clone().unwrap();
        let ovsdb::wire::Datum::Set(choices) = choices else { panic!("{table}.{column}: choices are a set") };
        let choices: BTreeSet<String> = choices
            .iter()
            .map(|atom| match atom {
                ovsdb::wire::Atom::String(text) => text.to_string(),
                other => panic!("{table}.{column}: {other}"),
            })
            .collect();
        assert_eq!(choices, words.iter().map(|word| (*word).to_owned()).collect(), "{table}.{column}");
    }
}
