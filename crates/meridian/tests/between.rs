//! Commands behind obstacles: a slow line, a relay, a server that hangs, another cluster.

mod common;

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::server::{Running, Server, eventually, slow_line};
use common::watch::Watch;
use common::{Ran, run_args, signal};
use serde_json::json;

/// Dumps the names of the switches at a remote.
fn dump(remote: &str, rest: &[&str]) -> Ran {
    let args = [
        "ovsdb",
        "dump",
        "--remote",
        remote,
        "OVN_Northbound",
        "Logical_Switch",
        "--columns=name",
        "-o",
        "csv",
    ];
    run_args(&[&args[..], rest].concat())
}

/// Creates switches, each with a long string.
fn fill(server: &Server, count: usize) {
    let text = "x".repeat(1000);
    let insert = |n| json!({"op": "insert", "table": "Logical_Switch", "row": {"name": format!("sw{n}"), "external_ids": ["map", [["text", text]]]}});
    let operations = json!((0..count).map(insert).collect::<Vec<_>>()).to_string();
    run_args(&["ovsdb", "txn", "--remote", &server.remote(), "OVN_Northbound", &operations]).ok();
}

#[test]
fn the_timeout_is_for_silence_and_not_for_slow_answers() {
    let server = Server::northbound();
    fill(&server, 100);
    let line = slow_line(&server.dir().join("slow.sock"), &server.socket(), usize::MAX);
    // The rows are 100 kB and 50 pauses, which is more than the timeout.
    let table = ["OVN_Northbound", "Logical_Switch"];
    let rows = run_args(
        &[&["ovsdb", "dump", "--remote", &line, "--timeout", "2s", "-o", "json"][..], &table].concat(),
    );
    assert_eq!(rows.ok().lines().count(), 100);
    let watch = Watch::at(&line, &["--timeout", "2s", "Logical_Switch"], |_| {});
    for _ in 0..100 {
        watch.row("insert");
    }
    watch.state("synced");
}

#[test]
fn an_answer_that_comes_to_a_halt_is_given_up() {
    let server = Server::northbound();
    fill(&server, 100);
    // The schema passes, and a part of the rows.
    let schema = std::fs::metadata("/usr/share/ovn/ovn-nb.ovsschema").unwrap().len() as usize;
    let line = slow_line(&server.dir().join("halt.sock"), &server.socket(), schema + 20_000);
    let table = ["OVN_Northbound", "Logical_Switch"];
    let ran = run_args(&[&["ovsdb", "dump", "--remote", &line, "--timeout", "2s"][..], &table].concat());
    let err = ran.fails(3, server.dir());
    assert_eq!(
        err,
        "error: unix:DIR/halt.sock did not complete its reply to transact within 2s\n  \
         try: a longer --timeout, or whether the server hangs\n"
    );
    let ran = run_args(&[&["ovsdb", "watch", "--remote", &line, "--timeout", "2s"][..], &table].concat());
    assert!(ran.fails(3, server.dir()).starts_with("error: "));
}

/// A server that answers no request. Now and then it probes the client, as a relay does that has just lost its source.
fn probing(socket: &Path) -> String {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                while client.write_all(br#"{"method":"echo","params":[],"id":"echo"}"#).is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
    });
    format!("unix:{}", socket.display())
}

#[test]
fn probes_are_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let remote = probing(&dir.path().join("s"));
    let err = dump(&remote, &["--timeout", "1s"]).fails(3, dir.path());
    assert!(err.starts_with("error: unix:DIR/s did not answer transact within 1s\n"), "{err}");
}

#[test]
fn a_server_that_hangs_is_told_of_and_waited_for() {
    let server = Server::northbound();
    let watch = Watch::start(&server, &["--probe-interval", "200ms", "Logical_Switch"]);
    watch.state("synced");
    signal("STOP", server.pid());
    let line = watch.state("disconnected");
    assert!(line["reason"].as_str().unwrap().starts_with("the server has been silent for "), "{line}");
    signal("CONT", server.pid());
    watch.state("reconnected");
    server.nbctl(&["ls-add", "sw0"]);
    assert_eq!(watch.row("insert")["new"]["name"], "sw0");
    watch.quiet();
}

/// Starts a relay of a server; returns it with its remote.
fn relay(server: &Server) -> (Running, String) {
    let (socket, control) = (server.dir().join("relay.sock"), server.dir().join("relay.ctl"));
    let relay = Command::new("ovsdb-server")
        .current_dir(server.dir())
        .arg(format!("--remote=punix:{}", socket.display()))
        .arg(format!("--unixctl={}", control.display()))
        .args(["--no-chdir", "-vconsole:off", "-vsyslog:off", "--log-file=relay.log"])
        .arg(format!("relay:OVN_Northbound:{}", server.remote()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let relay = Running(relay);
    eventually("the relay listens", || UnixStream::connect(&socket).is_ok());
    (relay, format!("unix:{}", socket.display()))
}

#[test]
fn a_relay_is_as_good_as_its_source_until_it_has_lost_it() {
    let mut server = Server::northbound();
    let (_relay, remote) = relay(&server);
    eventually("the relay has the database", || dump(&remote, &[]).code == 0);
    let insert = r#"{"op":"insert","table":"Logical_Switch","row":{"name":"through"}}"#;
    run_args(&["ovsdb", "txn", "--remote", &remote, "OVN_Northbound", insert]).ok();
    assert_eq!(dump(&server.remote(), &[]).ok(), "name\r\nthrough\r\n");
    assert_eq!(dump(&remote, &[]).ok(), "name\r\nthrough\r\n");

    let watch = Watch::at(&remote, &["Logical_Switch"], |_| {});
    assert_eq!(watch.row("insert")["new"]["name"], "through");
    watch.state("synced");
    server.nbctl(&["ls-add", "behind"]);
    assert_eq!(watch.row("insert")["new"]["name"], "behind");

    server.kill();
    // A relay takes half a minute to notice that its source is gone.
    eventually("the relay has lost its source", || dump(&remote, &[]).code != 0);
    assert_eq!(
        dump(&remote, &[]).fails(3, server.dir()),
        "error: no server can be used for OVN_Northbound: unix:DIR/relay.sock is a relay that cannot reach the server behind it\n  \
         try: the server behind the relay with --remote, or `meridian ovsdb watch`, which shows what the relay still has\n"
    );
    let late = Watch::at(&remote, &["Logical_Switch"], |_| {});
    let mut had = [late.row("insert"), late.row("insert")].map(|line| line["new"]["name"].clone());
    had.sort_by_key(ToString::to_string);
    assert_eq!(had, ["behind", "through"]);
    late.state("synced");
    server.start();
    eventually("the relay has its source again", || dump(&remote, &[]).code == 0);
    server.nbctl(&["ls-add", "after"]);
    assert_eq!(late.row("insert")["new"]["name"], "after");
}

#[test]
fn a_server_of_another_cluster_or_none_is_refused() {
    let server = Server::northbound();
    let wanted = "11111111-2222-4333-8444-555555555555";
    let remote = format!("cid:{wanted},{}", server.remote());
    assert_eq!(
        dump(&remote, &[]).fails(3, server.dir()),
        format!(
            "error: no server can be used for OVN_Northbound: unix:DIR/nb.sock belongs to no cluster, not to {wanted}\n  \
             try: the remotes of the cluster, or another `cid:`\n"
        )
    );
    let ran = run_args(&["ovsdb", "watch", "--remote", &remote, "OVN_Northbound", "Logical_Switch"]);
    assert!(ran.fails(1, server.dir()).contains(wanted));
}
