//! A three-member cluster and TLS: which member may serve the database, and a leader that dies.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use common::raft::Raft;
use common::server::{LIMIT, Running, eventually};
use common::{Ran, meridian, run, run_args};
use serde_json::Value;

const SCHEMA: &str = "/usr/share/ovn/ovn-nb.ovsschema";

fn tool(args: &[&str]) {
    let output = Command::new("ovsdb-tool").args(args).output().expect("ovsdb-tool is installed");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Dumps the names of the switches at some members.
fn dump(remotes: &str, rest: &[&str]) -> Ran {
    let mut args = vec!["ovsdb", "dump", "--remote", remotes, "OVN_Northbound", "Logical_Switch"];
    args.extend(["--columns=name", "-o", "csv"]);
    args.extend(rest);
    run_args(&args)
}

fn add_switch(remotes: &str, name: &str) {
    let operation = format!(r#"{{"op":"insert","table":"Logical_Switch","row":{{"name":"{name}"}}}}"#);
    eventually("a switch can be added", || {
        run_args(&["ovsdb", "txn", "--remote", remotes, "OVN_Northbound", &operation]).code == 0
    });
}

fn lines(child: &mut Child) -> Receiver<Value> {
    let (send, lines) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let _ = send.send(serde_json::from_str(&line).expect(&line));
        }
    });
    lines
}

#[test]
fn the_leader_speaks_and_a_watch_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Raft::start(dir.path());
    let all = cluster.remotes(&[0, 1, 2]);
    add_switch(&all, "sw0");
    let leader = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
    let followers = cluster.remotes(&others);
    let err = dump(&followers, &[]).fails(3, dir.path());
    assert!(
        err.starts_with("error: no server can be used for OVN_Northbound: ")
            && err.matches("is not the leader").count() == 2
            && err.contains("--no-leader-only"),
        "{err}"
    );
    eventually("a follower has the row", || {
        dump(&followers, &["--no-leader-only"]).ok() == "name\r\nsw0\r\n"
    });
    assert_eq!(dump(&cluster.remotes(&[others[0], leader]), &[]).ok(), "name\r\nsw0\r\n");

    let watch = meridian()
        .args(["ovsdb", "watch", "--remote", &all, "OVN_Northbound", "Logical_Switch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut watch = Running(watch);
    let told = lines(&mut watch.0);
    let next = || {
        let line = told.recv_timeout(LIMIT).expect("a line");
        let event = line["event"].as_str().unwrap().to_owned();
        line["new"]["name"].as_str().map_or(event.clone(), |name| format!("{event} {name}"))
    };
    assert_eq!((next(), next()), ("insert sw0".to_owned(), "synced".to_owned()));
    cluster.kill(leader);
    assert_eq!(next(), "disconnected");
    add_switch(&all, "sw1");
    // The change arrives while catching up, or after that.
    let mut rest = vec![next(), next()];
    rest.sort();
    assert_eq!(rest, ["insert sw1", "reconnected"]);
    add_switch(&all, "sw2");
    assert_eq!(next(), "insert sw2");
}

/// Runs ovs-pki in a directory.
fn pki(dir: &Path, args: &[&str]) {
    let output = Command::new("ovs-pki")
        .current_dir(dir)
        .args([&format!("--dir={}", dir.join("pki").display()), "--log=pki.log", "--force"])
        .args(args)
        .output()
        .expect("ovs-pki is installed");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A Northbound server with a certificate for this name, and its port on 127.0.0.1.
fn tls_server(dir: &Path, name: &str) -> (Running, String) {
    let path = |name: &str| dir.join(name).display().to_string();
    pki(dir, &["init"]);
    pki(dir, &["--unique", "req+sign", name, "switch"]);
    pki(dir, &["req+sign", "client", "switch"]);
    tool(&["create", &path("nb.db"), SCHEMA]);
    let server = Command::new("ovsdb-server")
        .current_dir(dir)
        .arg("--remote=pssl:0:127.0.0.1")
        .arg(format!("--private-key={}", path(&format!("{name}-privkey.pem"))))
        .arg(format!("--certificate={}", path(&format!("{name}-cert.pem"))))
        .arg(format!("--ca-cert={}", path("pki/switchca/cacert.pem")))
        .arg(format!("--unixctl={}", path("ctl")))
        .args(["--no-chdir", "-vconsole:off", "-vsyslog:off", "--log-file=server.log", "nb.db"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Running(server);
    // The server listens at a free port, which its log names.
    let mut port = None;
    eventually("ovsdb-server listens", || {
        let log = std::fs::read_to_string(path("server.log")).unwrap_or_default();
        let line = log
            .lines()
            .find_map(|line| line.split_once("listening on port ").map(|(_, port)| port.to_owned()));
        port = line;
        port.is_some()
    });
    (server, port.unwrap())
}

#[test]
fn names_in_certificates_count_where_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (_server, port) = tls_server(dir.path(), "localhost");
    let (key, certificate, ca) =
        (path("client-privkey.pem"), path("client-cert.pem"), path("pki/switchca/cacert.pem"));
    let dump = |host: &str, names: &[&str], variable: &str| -> Ran {
        let remote = format!("ssl:{host}:{port}");
        let args = ["ovsdb", "dump", "--remote", &remote, "-p", &key, "-c", &certificate, "-C", &ca];
        let table = ["OVN_Northbound", "NAT", "--columns=type", "-o", "csv"];
        let mut command = meridian();
        command.env("MERIDIAN_OVSDB_VERIFY_NAMES", variable).args(args).args(names).args(table);
        command.output().unwrap().into()
    };
    assert_eq!(dump("localhost", &["--verify-names"], "").ok(), "type\r\n");
    assert_eq!(dump("127.0.0.1", &[], "").ok(), "type\r\n");
    assert_eq!(dump("127.0.0.1", &["--no-verify-names"], "true").ok(), "type\r\n");
    for (names, variable) in [(&["--verify-names"][..], ""), (&[], "true")] {
        let err = dump("127.0.0.1", names, variable).fails(3, dir.path());
        let told = format!(
            "error: cannot use TLS with ssl:127.0.0.1:{port}: the server's certificate is for another name"
        );
        assert!(err.starts_with(&told) && err.contains("or --no-verify-names"), "{err}");
    }
    let config = run("--print-config ovsdb dump --verify-names D T").ok();
    assert!(config.contains("verify_names = true  # from --verify-names\n"), "{config}");
}

#[test]
fn tls_with_certificates_of_ovs_pki() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (_server, port) = tls_server(dir.path(), "server");
    let ca = path("pki/switchca/cacert.pem");
    let remote = format!("ssl:127.0.0.1:{port}");
    let (key, certificate) = (path("client-privkey.pem"), path("client-cert.pem"));
    let dump = |tls: &[&str]| {
        let mut args = vec![
            "ovsdb",
            "dump",
            "--remote",
            &remote,
            "OVN_Northbound",
            "NAT",
            "--columns=type",
            "-o",
            "csv",
        ];
        args.extend(tls);
        run_args(&args)
    };
    assert_eq!(dump(&["-p", &key, "-c", &certificate, "-C", &ca]).ok(), "type\r\n");
    let other = path("pki/controllerca/cacert.pem");
    let err = dump(&["-p", &key, "-c", &certificate, "-C", &other]).fails(3, dir.path());
    assert!(
        err.starts_with(&format!("error: cannot use TLS with {remote}: "))
            && err.contains("  try: --private-key"),
        "{err}"
    );
    let watch = ["ovsdb", "watch", "--remote", &remote, "-p", &key, "-c", &certificate, "-C", &other];
    let ran = run_args(&[&watch[..], &["OVN_Northbound", "NAT"]].concat());
    let err = ran.fails(3, dir.path());
    assert!(
        err.starts_with(&format!(
            "error: cannot watch OVN_Northbound at {remote}\n  cause: cannot use TLS with {remote}: "
        )) && err.contains("  try: --private-key, --certificate and --ca-cert of the same CA")
            && err.contains("; or --wait"),
        "{err}"
    );
    let err = dump(&["-p", &certificate, "-c", &certificate, "-C", &ca]).fails(3, dir.path());
    assert!(err.starts_with(&format!("error: cannot prepare TLS for {remote}\n  cause: ")), "{err}");
    let err = dump(&["-p", "/gone", "-c", &certificate, "-C", &ca]).fails(3, dir.path());
    assert!(err.contains("/gone"), "{err}");
    let args = ["ovsdb", "dump", "--remote", "ssl:127.0.0.1:1", "-C", &ca, "OVN_Northbound", "NAT"];
    let err = run_args(&args).fails(3, dir.path());
    assert!(err.contains("`ovsdb-server --remote=pssl:PORT`"), "certificates are not to blame: {err}");
    // The server requires a client certificate, and the client has none.
    let err = dump(&["-C", &ca]).fails(3, dir.path());
    assert!(err.starts_with("error: "), "{err}");
}
