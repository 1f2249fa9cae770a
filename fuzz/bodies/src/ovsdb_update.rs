//! The body for updates of all versions, against a replica with typed tables, an index and a table of unknown columns.

use ovn::text::{PortAddresses, Text};
use ovsdb::replica::{Columns, Index, Replica, UpdateVersion};
use ovsdb::wire::DatabaseSchema;
use ovsdb::{Map, Model, Ref, Set, Str, Table};

/// A table with a column of every shape.
#[derive(Clone, Debug, Default, PartialEq, Table)]
#[ovsdb(database = "Fuzz", table = "Port")]
struct Port {
    name: Str,
    number: i64,
    up: Option<bool>,
    mac: Set<Text<PortAddresses>>,
    labels: Map<Str, Str>,
    peers: Set<Ref<Port>>,
}

/// Ports by each key of their labels.
struct ByLabel;

impl Index for ByLabel {
    type Row = Port;
    type Key = Str;

    fn keys(row: &Port, emit: &mut dyn FnMut(Str)) {
        row.labels.keys().cloned().for_each(emit);
    }
}

const SCHEMA: &str = r#"{"name":"Fuzz","version":"1.0.0","tables":{
    "Port":{"columns":{
        "name":{"type":"string"},
        "number":{"type":"integer"},
        "up":{"type":{"key":"boolean","min":0}},
        "mac":{"type":{"key":"string","min":0,"max":"unlimited"}},
        "labels":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
        "peers":{"type":{"key":{"type":"uuid","refTable":"Port"},"min":0,"max":"unlimited"}}}},
    "Note":{"columns":{
        "text":{"type":"string"},
        "weight":{"type":{"key":"real","min":0,"max":3}},
        "scores":{"type":{"key":"string","value":"integer","min":0,"max":"unlimited"}}}}}}"#;

/// Everything the replica can hold: a typed table with an index, and one by the server's schema.
pub(crate) fn model() -> Model {
    Model::new("Fuzz").table::<Port>().index::<ByLabel>().dynamic("Note", Columns::All)
}

/// A load and then notifications, one per line; the first byte chooses their version. For any content, an update is applied as a whole or
/// not at all, and the delta is exactly the difference between the snapshots.
pub fn update(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let version = if first % 2 == 0 { UpdateVersion::V1 } else { UpdateVersion::V2 };
    let mut replica = Replica::new(model());
    let schema = DatabaseSchema::parse(SCHEMA).expect("our own schema");
    replica.fit(&schema).expect("our own table fits our own schema");
    for (at, line) in rest.split(|byte| *byte == b'\n').enumerate() {
        let Ok(body) = std::str::from_utf8(line) else { continue };
        let before = replica.snapshot();
        // Every fourth update arrives as a full load, as after a reconnect. For every other of these, the body passes ownership of the
        // message.
        let result = match at % 8 {
            0 => replica.reload(version, body),
            4 => replica.reload_owned(version, format!("[{body}]"), 1..1 + body.len()),
            _ => replica.apply(version, body),
        };
        let after = replica.snapshot();
        let difference = before.diff(&after);
        match result {
            Ok(delta) => {
                assert_eq!(delta.len(), difference.len(), "{delta:?} against {difference:?}");
                assert_eq!(delta.is_empty(), before.seq() == after.seq());
            }
            Err(_) => assert!(difference.is_empty() && before.seq() == after.seq()),
        }
        for (_, row) in after.table::<Port>().iter() {
            for label in row.labels.keys() {
                assert!(
                    after.lookup::<ByLabel>(label).any(|(_, found)| found == row),
                    "a row its index does not know"
                );
            }
        }
    }
}
