//! Tests of watch, status, metrics and readiness against a real server.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;

use common::server::{LIMIT, Running, Server, eventually, impostor};
use common::watch::Watch;
use common::{Ran, meridian, run_args, signal};
use serde_json::{Value, json};

#[test]
fn changes_are_told_with_old_and_new() {
    let server = Server::northbound();
    server.nbctl(&["ls-add", "sw0"]);
    let watch = Watch::start(&server, &["Logical_Switch", "Logical_Switch_Port"]);
    let line = watch.row("insert");
    assert_eq!((&line["table"], &line["old"]), (&json!("Logical_Switch"), &Value::Null));
    assert_eq!(line["new"]["name"], "sw0");
    assert_eq!(line["new"]["ports"], json!([]));
    assert_eq!(line["new"]["external_ids"], json!({}));
    assert_eq!(line["new"]["copp"], Value::Null);
    let switch = line["uuid"].clone();
    assert_eq!(watch.next(), json!({"event": "synced"}));

    server.nbctl(&["lsp-add", "sw0", "p0"]);
    let modified = watch.row("modify");
    let inserted = watch.row("insert");
    assert_eq!(modified["uuid"], switch);
    assert_eq!(modified["old"], json!({"ports": []}), "only what changed");
    assert_eq!(modified["new"]["ports"], json!([inserted["uuid"]]));
    assert_eq!(modified["new"]["name"], "sw0", "the whole row");
    assert_eq!((&inserted["table"], &inserted["new"]["name"]), (&json!("Logical_Switch_Port"), &json!("p0")));

    server.nbctl(&["set", "Logical_Switch", "sw0", "external_ids:a=b"]);
    let line = watch.row("modify");
    assert_eq!(
        (&line["old"], &line["new"]["external_ids"]),
        (&json!({"external_ids": {}}), &json!({"a": "b"}))
    );

    server.nbctl(&["ls-del", "sw0"]);
    let line = watch.row("delete");
    assert_eq!((&line["uuid"], &line["new"], &line["old"]["name"]), (&switch, &Value::Null, &json!("sw0")));
    let line = watch.row("delete");
    assert_eq!((&line["table"], &line["old"]["name"]), (&json!("Logical_Switch_Port"), &json!("p0")));
    watch.quiet();
    let ran = watch.end();
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn nothing_is_lost_and_nothing_repeated_through_restarts() {
    let mut server = Server::northbound();
    for name in ["stays", "changes", "goes"] {
        server.nbctl(&["ls-add", name]);
    }
    let watch = Watch::start(&server, &["Logical_Switch"]);
    let mut names: Vec<String> =
        (0..3).map(|_| watch.row("insert")["new"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["changes", "goes", "stays"]);
    watch.state("synced");

    server.change_while_down(&[
        "ls-del",
        "goes",
        "--",
        "set",
        "Logical_Switch",
        "changes",
        "external_ids:seen=no",
        "--",
        "ls-add",
        "comes",
    ]);
    let line = watch.state("disconnected");
    assert!(line["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{line}");
    watch.quiet();
    server.start();
    let mut lines: Vec<(String, String)> = (0..3)
        .map(|_| {
            let line = watch.next();
            let row = if line["new"].is_null() { &line["old"] } else { &line["new"] };
            (line["event"].as_str().unwrap().to_owned(), row["name"].as_str().unwrap().to_owned())
        })
        .collect();
    lines.sort();
    let expected = [("delete", "goes"), ("insert", "comes"), ("modify", "changes")];
    assert_eq!(lines, expected.map(|(event, name)| (event.to_owned(), name.to_owned())));
    assert_eq!(watch.next(), json!({"event": "reconnected"}));

    // No row changed while the server was down, so only the loss of the connection is printed.
    server.kill();
    watch.state("disconnected");
    server.start();
    watch.state("reconnected");
    server.nbctl(&["ls-add", "later"]);
    assert_eq!(watch.row("insert")["new"]["name"], "later");
    watch.quiet();
    assert_eq!(watch.end().code, 0);
}

/// The rows that result from the printed lines. Each line must fit the rows before it.
#[derive(Default)]
struct Model(std::collections::BTreeMap<String, Value>);

impl Model {
    #[track_caller]
    fn apply(&mut self, line: &Value) {
        let Some(uuid) = line["uuid"].as_str() else { return };
        let present = self.0.get(uuid);
        match line["event"].as_str().unwrap() {
            "insert" => assert_eq!(present, None, "inserted twice: {line}"),
            "delete" => assert_eq!(present, Some(&line["old"]), "deleted what was not there: {line}"),
            "modify" => {
                let mut before = line["new"].clone();
                for (column, value) in line["old"].as_object().unwrap() {
                    assert_ne!(&before[column], value, "told as changed and is not: {line}");
                    before[column] = value.clone();
                }
                assert_eq!(present, Some(&before), "does not follow from before: {line}");
            }
            other => panic!("{other}"),
        }
        if line["new"].is_null() {
            self.0.remove(uuid);
        } else {
            self.0.insert(uuid.to_owned(), line["new"].clone());
        }
    }
}

#[test]
fn a_stream_of_changes_through_crashes_adds_up() {
    let mut server = Server::northbound();
    let watch = Watch::start(&server, &["Logical_Switch"]);
    watch.state("synced");
    for round in 0..4 {
        for n in 0..12 {
            let name = format!("sw{}", (round * 5 + n) % 16);
            server.nbctl(&["--may-exist", "ls-add", &name]);
            server.nbctl(&["set", "Logical_Switch", &name, &format!("external_ids:round=r{round}")]);
            if n % 3 == 0 {
                server.nbctl(&["--if-exists", "ls-del", &format!("sw{}", (round + n) % 16)]);
            }
        }
        if round % 2 == 0 {
            // The server dies while changes are in flight, and other changes follow while the watch is disconnected.
            server.change_while_down(&[
                "--if-exists",
                "ls-del",
                "sw3",
                "--",
                "--may-exist",
                "ls-add",
                "back",
            ]);
        } else {
            server.kill();
        }
        server.start();
    }
    server.nbctl(&["ls-add", "last"]);
    let (mut model, mut down, mut last) = (Model::default(), false, false);
    while !last || down {
        let line = watch.next();
        match line["event"].as_str().unwrap() {
            "disconnected" => assert!(!std::mem::replace(&mut down, true), "{line}"),
            "reconnected" => assert!(std::mem::replace(&mut down, false), "{line}"),
            _ => model.apply(&line),
        }
        last |= line["new"]["name"] == "last";
    }
    let remote = server.remote();
    let dump =
        run_args(&["ovsdb", "dump", "--remote", &remote, "OVN_Northbound", "Logical_Switch", "-o", "json"])
            .ok();
    let rows = dump.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let uuid = row.as_object_mut().unwrap().remove("_uuid").unwrap();
        (uuid.as_str().unwrap().to_owned(), row)
    });
    assert_eq!(model.0, rows.collect());
    watch.quiet();
}

#[test]
fn what_cannot_be_watched_is_said_at_once() {
    let server = Server::northbound();
    let dir = server.dir();
    let remote = server.remote();
    let gone = format!("unix:{}/gone.sock", dir.display());
    let fails = |code, args: &[&str]| {
        let mut all = vec!["ovsdb", "watch"];
        all.extend(args);
        run_args(&all).fails(code, dir)
    };
    assert_eq!(
        fails(2, &["--remote", &remote, "OVN_Northbound", "Logical_Swich"]),
        "error: the database OVN_Northbound has no table `Logical_Swich`; did you mean `Logical_Switch`?\n  try: `meridian ovsdb schema OVN_Northbound` for the tables it has\n"
    );
    let err = fails(1, &["--remote", &remote, "OVN_Nortbound", "Logical_Switch"]);
    assert!(
        err.starts_with("error: cannot watch OVN_Nortbound at unix:DIR/nb.sock\n  cause: the server has no database OVN_Nortbound"),
        "{err}"
    );
    let err = fails(3, &["--remote", &gone, "OVN_Northbound", "Logical_Switch"]);
    assert!(
        err.starts_with(
            "error: cannot watch OVN_Northbound at unix:DIR/gone.sock\n  cause: cannot connect to unix:DIR/gone.sock\n"
        ) && err.contains("--wait to wait until it is there"),
        "{err}"
    );
    let err = fails(5, &["--remote", &remote, "--record", "/gone/file", "OVN_Northbound", "Logical_Switch"]);
    assert!(err.starts_with("error: cannot record to /gone/file\n"), "{err}");
    let err =
        fails(5, &["--remote", &remote, "--admin-socket", "/gone/s", "OVN_Northbound", "Logical_Switch"]);
    assert!(err.contains("error: cannot listen on /gone/s for admin requests\n"), "{err}");
    let err = fails(2, &["--remote", &remote, "--metrics-listen", "x", "OVN_Northbound", "Logical_Switch"]);
    assert!(err.contains("--metrics-listen: expected an address and a port"), "{err}");
}

#[test]
fn silence_and_garbage_end_a_watch_that_never_began() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    for (answer, code) in [(Some("HTTP/1.1 400 Bad Request\r\n\r\n"), 4), (None, 3)] {
        let remote = impostor(&socket, answer);
        let err = run_args(&["ovsdb", "watch", "--remote", &remote, "--timeout", "1s", "D", "T"])
            .fails(code, dir.path());
        assert!(err.contains("error: ") && err.contains("  try: ") || code == 4, "{answer:?}: {err}");
    }
}

#[test]
fn with_wait_a_server_may_come_later() {
    let mut server = Server::northbound();
    server.nbctl(&["ls-add", "sw0"]);
    server.kill();
    let watch = Watch::start(&server, &["--wait", "--timeout", "1s", "Logical_Switch"]);
    watch.quiet();
    server.start();
    assert_eq!(watch.row("insert")["new"]["name"], "sw0");
    watch.state("synced");
}

#[test]
fn a_reader_that_leaves_ends_the_watch() {
    let server = Server::northbound();
    let mut child = meridian()
        .args(["ovsdb", "watch", "--remote", &server.remote(), "OVN_Northbound", "Logical_Switch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"event\":\"synced\"}\n");
    drop(out);
    server.nbctl(&["ls-add", "sw0"]);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.err.contains("error:"), "{ran:?}");
}

#[test]
fn a_reader_that_does_not_read_cannot_keep_it_from_ending() {
    let server = Server::northbound();
    let mut command = vec!["--".to_owned()];
    for n in 0..400 {
        command.extend([format!("ls-add sw{n}").as_str(), "--"].join(" ").split(' ').map(str::to_owned));
    }
    server.nbctl(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = Running(
        meridian()
            .args(["ovsdb", "watch", "--remote", &server.remote(), "OVN_Northbound", "Logical_Switch"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut begin = [0; 10];
    child.0.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
    signal("TERM", child.0.id());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

/// Sends one HTTP request; returns the status line and the body.
fn http(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// The address of metrics, from the log line of the watch.
fn metrics_address(watch: &mut Watch) -> String {
    let mut log = BufReader::new(watch.child.0.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the log ended");
        let line: Value = serde_json::from_str(&line).expect(&line);
        if line["message"] == "serving metrics" {
            // The rest of the log must be read too, or the process would block on a full pipe.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return line["address"].as_str().unwrap().to_owned();
        }
    }
}

/// Sends one line to the admin socket; returns the line of the answer.
fn ask(socket: &Path, request: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn metrics_and_status_follow_the_connection() {
    let mut server = Server::northbound();
    for name in ["a", "b"] {
        server.nbctl(&["ls-add", name]);
    }
    let socket = server.dir().join("admin.sock");
    let path = socket.to_str().unwrap().to_owned();
    let listen = ["--metrics-listen", "127.0.0.1:0", "--log-format", "json", "--admin-socket", &path];
    let mut watch = Watch::start(&server, &[&listen[..], &["Logical_Switch", "NAT"]].concat());
    let address = metrics_address(&mut watch);
    for event in ["insert", "insert", "synced"] {
        assert_eq!(watch.next()["event"], event);
    }
    let (head, body) = http(&address, "GET /metrics");
    assert_eq!(head, "HTTP/1.1 200 OK");
    for line in [
        "meridian_ovsdb_synced{database=\"OVN_Northbound\"} 1",
        "meridian_ovsdb_rows{database=\"OVN_Northbound\",table=\"Logical_Switch\"} 2",
        "meridian_ovsdb_rows{database=\"OVN_Northbound\",table=\"NAT\"} 0",
        "meridian_ovsdb_connections_total{database=\"OVN_Northbound\"} 1",
        "meridian_ovsdb_transactions_total{database=\"OVN_Northbound\",outcome=\"committed\"} 0",
        "meridian_watch_events_total{event=\"insert\"} 2",
        "# EOF",
    ] {
        assert!(body.lines().any(|found| found == line), "{line}\nin\n{body}");
    }
    assert_eq!(http(&address, "GET /health"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    assert_eq!(http(&address, "GET /other").0, "HTTP/1.1 404 Not Found");
    assert_eq!(http(&address, "POST /metrics").0, "HTTP/1.1 405 Method Not Allowed");

    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner may ask");
    let status = |rest: &[&str]| {
        let mut args = vec!["status", "--socket", &path];
        args.extend(rest);
        run_args(&args)
    };
    let value: Value = serde_json::from_str(&status(&["--output", "json"]).ok()).unwrap();
    assert_eq!((&value["command"], &value["healthy"]), (&json!("ovsdb watch"), &json!(true)));
    assert_eq!(value["pid"], watch.child.0.id());
    let database = &value["databases"][0];
    assert_eq!(database["state"], "synced");
    assert_eq!(database["remote"], server.remote());
    assert_eq!((&database["reconnects"], &database["last_error"]), (&json!(0), &Value::Null));
    assert_eq!(database["rows"], json!({"Logical_Switch": 2, "NAT": 0}));
    let text = status(&[]).ok();
    assert!(text.contains("healthy, up ") && text.contains("  Logical_Switch: 2 rows\n"), "{text}");
    assert_eq!(status(&["--metrics"]).ok().lines().last(), Some("# EOF"));

    server.kill();
    watch.state("disconnected");
    eventually("the health check fails", || http(&address, "GET /health").0.contains("503"));
    let text = status(&[]).ok();
    assert!(text.contains("not healthy") && text.contains("  last error: "), "{text}");
    server.start();
    watch.state("reconnected");
    eventually("it is healthy again", || http(&address, "GET /health").0.contains("200"));
    let value: Value = serde_json::from_str(&status(&["-o", "json"]).ok()).unwrap();
    let database = &value["databases"][0];
    assert_eq!((&database["reconnects"], &database["last_error"]), (&json!(1), &Value::Null), "it is over");

    assert_eq!(watch.end().code, 0);
    assert!(!socket.exists(), "the socket goes with the process");
    let err = status(&[]).fails(3, server.dir());
    assert!(err.starts_with("error: no process listens on DIR/admin.sock\n  cause: "), "{err}");
}

#[test]
fn the_admin_socket_takes_requests_and_refuses_nonsense() {
    let server = Server::northbound();
    let socket = server.dir().join("admin.sock");
    // The socket file of a dead process.
    drop(UnixListener::bind(&socket).unwrap());
    let path = socket.to_str().unwrap().to_owned();
    let args = ["--admin-socket", &path, "Logical_Switch"];
    let watch = Watch::start(&server, &args);
    watch.state("synced");
    assert_eq!(ask(&socket, r#"{"request":"log-level"}"#), json!({"result": "info"}));
    assert_eq!(
        ask(&socket, r#"{"request":"log-level","set":"ovsdb=debug,warn"}"#),
        json!({"result": "ovsdb=debug,warn"})
    );
    assert_eq!(ask(&socket, r#"{"request":"status"}"#)["result"]["log"], "ovsdb=debug,warn");
    for nonsense in ["{}", "[]", "\u{0}", r#"{"request":"reboot"}"#, r#"{"request":"log-level","set":""}"#] {
        let answer = ask(&socket, nonsense);
        assert!(answer["error"].is_string(), "{nonsense}: {answer}");
    }
    let long = ask(&socket, &"x".repeat(70_000));
    assert_eq!(long, json!({"error": "the request is too long"}));
    let ran = run_args(&["status", "--socket", &path, "--set-log", "a=b=c"]);
    assert!(ran.fails(1, server.dir()).starts_with("error: the process refused: "));
    run_args(&["status", "--socket", &path, "--set-log", "trace"]).ok();

    let mut second = Watch::start(&server, &args);
    assert_eq!(second.child.0.wait().unwrap().code(), Some(5), "another process listens there");
    assert_eq!(
        ask(&socket, r#"{"request":"log-level"}"#),
        json!({"result": "trace"}),
        "the first one still does"
    );
    let file = server.dir().join("file");
    std::fs::write(&file, "precious").unwrap();
    let mut third = Watch::start(&server, &["--admin-socket", file.to_str().unwrap(), "Logical_Switch"]);
    assert_eq!(third.child.0.wait().unwrap().code(), Some(5));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn systemd_is_told() {
    let server = Server::northbound();
    server.nbctl(&["ls-add", "sw0"]);
    let socket = server.dir().join("notify.sock");
    let notified = UnixDatagram::bind(&socket).unwrap();
    notified.set_read_timeout(Some(LIMIT)).unwrap();
    let next = || {
        let mut buffer = [0; 4096];
        let length = notified.recv(&mut buffer).expect("a notification");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let watch = Watch::start_with(&server, &["Logical_Switch"], |command| {
        command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    });
    watch.row("insert");
    watch.state("synced");
    let mut told = Vec::new();
    while !told.iter().any(|text: &String| text.contains("READY=1")) {
        told.push(next());
    }
    assert_eq!(
        told.iter().filter(|text| text.contains("STATUS=connecting to OVN_Northbound")).count(),
        1,
        "{told:?}"
    );
    assert!(told.last().unwrap().contains("STATUS=following OVN_Northbound"), "{told:?}");
    while !next().contains("WATCHDOG=1") {}
    assert_eq!(watch.end().code, 0);
    while !next().contains("STOPPING=1") {}
}

#[test]
fn a_recorded_session_replays_to_the_same_lines() {
    let mut server = Server::northbound();
    server.nbctl(&["ls-add", "sw0"]);
    let file = server.dir().join("recording");
    let name = file.to_str().unwrap().to_owned();
    let watch = Watch::start(&server, &["--record", &name, "Logical_Switch", "Logical_Switch_Port"]);
    let mut printed = vec![watch.next(), watch.state("synced")];
    server.nbctl(&["lsp-add", "sw0", "p0"]);
    printed.extend([watch.next(), watch.next()]);
    server.change_while_down(&["ls-add", "sw1"]);
    printed.push(watch.state("disconnected"));
    server.start();
    printed.extend([watch.row("insert"), watch.state("reconnected")]);
    assert_eq!(watch.end().code, 0);
    server.kill();

    let replay = |file: &str| run_args(&["ovsdb", "replay", file]);
    let replayed: Vec<Value> =
        replay(&name).ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replayed, printed);

    let text = std::fs::read_to_string(&file).unwrap();
    let other = server.dir().join("other");
    let path = other.to_str().unwrap();
    // A recording of a client that monitored other columns.
    let changed = text.replacen(
        "\\\"Logical_Switch_Port\\\":[{\\\"columns\\\":[\\\"addresses\\\"",
        "\\\"Logical_Switch_Port\\\":[{\\\"columns\\\":[\\\"up\\\"",
        1,
    );
    assert_ne!(changed, text);
    std::fs::write(&other, changed).unwrap();
    let err = replay(path).fails(1, server.dir());
    assert!(err.contains("error: the session now acts differently: line "), "{err}");
    std::fs::write(&other, text.replacen("\"in\"", "\"inn\"", 1)).unwrap();
    let err = replay(path).fails(5, server.dir());
    assert!(
        err.starts_with("error: cannot parse line ") && err.contains(" of the recording\n  cause: "),
        "{err}"
    );
    std::fs::write(&other, "").unwrap();
    let err = replay(path).fails(5, server.dir());
    assert!(
        err.starts_with("error: DIR/other is not a recording of a session\n  try: a file made with "),
        "{err}"
    );
    let err = replay("/gone").fails(5, server.dir());
    assert!(err.starts_with("error: cannot read the recording /gone\n  cause: No such file"), "{err}");
}
