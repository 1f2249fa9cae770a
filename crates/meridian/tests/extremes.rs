//! Rare situations: a server that refuses by role or sends very much at once, and a reader that is much too slow.

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::server::{Running, Server, eventually};
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
    // The role permits reading, and another remote of the same server refuses nothing.
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

/// The size is far above the limit from which the client does not copy a message but passes on its memory. The tests of `meridian-ovsdb`
/// show that 200 MB work too; through a server and a debug build of the program that takes more than a minute.
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

#[test]
fn a_slow_reader_of_a_watch_gets_the_sum_of_what_it_missed() {
    const ROWS: usize = 3000;
    let mut server = Server::northbound();
    let file = server.dir().join("ops.json");
    let transact = |server: &Server, ops: Value| {
        std::fs::write(&file, ops.to_string()).unwrap();
        let ops = format!("@{}", file.display());
        run_args(&["ovsdb", "txn", "--remote", &server.remote(), "OVN_Northbound", &ops]).ok();
    };
    let row = |n| json!({"op": "insert", "table": "Logical_Switch", "row": {"name": format!("sw{n}")}});
    transact(&server, (0..ROWS).map(row).collect());

    let admin = server.dir().join("admin.sock").display().to_string();
    let mut command = meridian();
    command.args(["ovsdb", "watch", "--remote", &server.remote(), "--admin-socket", &admin]);
    command.args(["OVN_Northbound", "Logical_Switch"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert!((0..ROWS).all(|_| next()["event"] == "insert"));
    assert_eq!(next(), json!({"event": "synced"}));

    // Nobody reads the pipe. The changes that it does not hold queue up, until there are too many to keep each of them.
    let metric = |name: &str, value: u64| {
        let line = format!("meridian_ovsdb_{name}{{database=\"OVN_Northbound\"}} {value}");
        run_args(&["status", "--socket", &admin, "--metrics"]).ok().lines().any(|found| found == line)
    };
    let mut rounds = 0;
    eventually("the reader lags", || {
        rounds += 1;
        let row = json!({"other_config": ["map", [["round", rounds.to_string()]]]});
        transact(&server, json!({"op": "update", "table": "Logical_Switch", "where": [], "row": row}));
        metric("feed_lags_total", 1)
    });
    server.kill();
    eventually("the loss is noticed", || metric("synced", 0));
    server.start();
    eventually("it is back", || metric("synced", 1));

    // The reader first gets the change that filled the pipe, then the merged one: one line for each row.
    let mut modified = || -> Vec<(Value, Value)> {
        let mut rounds: Vec<_> = (0..ROWS)
            .map(|_| next())
            .inspect(|line| assert_eq!(line["event"], "modify", "{line}"))
            .map(|line| (line["old"]["other_config"].clone(), line["new"]["other_config"].clone()))
            .collect();
        rounds.dedup();
        rounds
    };
    let first = modified();
    assert!(first.len() == 1 && first[0].0 == json!({}), "{first:?}");
    assert_eq!(modified(), [(first[0].1.clone(), json!({"round": rounds.to_string()}))]);
    assert_eq!([next(), next()].map(|line| line["event"].clone()), ["disconnected", "reconnected"]);
}
