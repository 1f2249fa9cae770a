//! The files that operators apply follow from the code.

use kubernetes::crd::definitions;
use serde_json::json;

/// The definitions of our resources.
const PACKAGED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/kubernetes/definitions.json");

#[test]
fn packaged_definitions_are_these() {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": definitions() });
    let text = format!("{}\n", serde_json::to_string_pretty(&list).unwrap());
    let packaged = std::fs::read_to_string(PACKAGED).unwrap_or_default();
    if packaged != text {
        let new = std::env::temp_dir().join("definitions.json");
        std::fs::write(&new, text).unwrap();
        panic!("packaging/kubernetes/definitions.json is out of date; copy {} there", new.display());
    }
}
