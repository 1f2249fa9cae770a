//! What a server may do that is rare: refuse by role, and send very much at once.

mod common;

use common::server::Server;
use common::{meridian, run_args};
use serde_json::{Value, json};

#[test]
fn a_server_without_permission_says_what_it_refused_and_what_to_do() {
    let server = Server::southbound();
    let remote = server.listen_for("ovn-controller");
    let txn = |operation: Value| {
        run_args(&["ovsdb", "txn", "--remote", &remote, "OVN_Southbound", &operation.to_string()])
    };
    for (operation, what, refused) in [
        (
            json!({"op": "insert", "table": "Chassis", "row": {"name": "x"}}),
            "insert, table Chassis",
            "row insertion into table \"Chassis\"",
        ),
        (
            json!({"op": "update", "table": "SB_Global", "where": [], "row": {"nb_cfg": 5}}),
            "update, table SB_Global",
            "modification of table \"SB_Global\"",
        ),
        (
            json!({"op": "delete", "table": "SB_Global", "where": []}),
            "delete, table SB_Global",
            "row deletion from table \"SB_Global\"",
        ),
    ] {
        let err = txn(operation).fails(1, server.dir());
        assert!(err.starts_with(&format!("error: operation 1 ({what}) failed: permission error: ")), "{err}");
        assert!(err.contains("role \"ovn-controller\"") && err.contains(refused), "{err}");
        assert!(err.contains("; nothing was changed\n  try: a remote without a role"), "{err}");
    }
    // Reading is not refused, and another remote of the same server refuses nothing.
    let dump = |remote: &str| {
        run_args(&["ovsdb", "dump", "--remote", remote, "OVN_Southbound", "SB_Global", "-o", "json"]).ok()
    };
    assert_eq!(dump(&remote), dump(&server.remote()));
    let insert =
        json!({"op": "insert", "table": "Chassis", "row": {"name": "x", "encaps": ["named-uuid", "e"]}});
    let encap = json!({"op": "insert", "table": "Encap", "uuid-name": "e", "row": {"type": "geneve", "ip": "192.0.2.1", "chassis_name": "x"}});
    let both = json!([encap, insert]).to_string();
    run_args(&["ovsdb", "txn", "--remote", &server.remote(), "OVN_Southbound", &both]).ok();
}

/// Far above the size from which a message is given away with its memory. That 200 MB are taken too is shown by the
/// tests of `meridian-ovsdb`; through a server and a debug build of the program that takes more than a minute.
#[test]
fn a_message_of_many_megabytes_is_sent_and_taken() {
    const SIZE: usize = 24 << 20;
    let server = Server::northbound();
    let file = server.dir().join("large.json");
    let text = format!(
        r#"{{"op":"insert","table":"Address_Set","row":{{"name":"large","external_ids":["map",[["text","{}"]]]}}}}"#,
        "x".repeat(SIZE)
    );
    std::fs::write(&file, text).unwrap();
    let remote = server.remote();
    let operations = format!("@{}", file.display());
    let timeout = ["--timeout", "300s"];
    run_args(&[&["ovsdb", "txn", "--remote", &remote, "OVN_Northbound", &operations][..], &timeout].concat())
        .ok();

    let mut dump = meridian();
    dump.args(["ovsdb", "dump", "--remote", &remote, "OVN_Northbound", "Address_Set", "-o", "json"]);
    let output = dump.args(timeout).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(output.stdout.len() > SIZE && output.stdout.ends_with(b"}\n"));
}
