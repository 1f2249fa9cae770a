//! dump, schema, txn and locks against a real server.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use common::server::{Server, impostor};
use common::{meridian, run, run_args};
use serde_json::{Value, json};

fn filled() -> Server {
    let server = Server::northbound();
    server.nbctl(&["ls-add", "sw1", "--", "set", "Logical_Switch", "sw1", "external_ids:owner=me"]);
    server.nbctl(&["ls-add", "sw0", "--", "set", "Logical_Switch", "sw0", "external_ids:owner=\"you, too\""]);
    server.nbctl(&["ls-add", "sw2"]);
    server.nbctl(&[
        "lsp-add",
        "sw0",
        "p1",
        "--",
        "lsp-set-addresses",
        "p1",
        "00:00:00:00:00:01 10.0.0.1",
        "router",
    ]);
    server.nbctl(&["lsp-add", "sw0", "p2", "--", "lsp-set-type", "p2", "router"]);
    server.nbctl(&["acl-add", "sw0", "to-lport", "1001", "ip4", "drop"]);
    server.nbctl(&["acl-add", "sw0", "to-lport", "7", "ip6", "allow"]);
    server
}

fn dump(server: &Server, rest: &[&str]) -> common::Ran {
    let remote = server.remote();
    let mut args = vec!["ovsdb", "dump", "--remote", &remote, "OVN_Northbound"];
    args.extend(rest);
    run_args(&args)
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn rows_come_out_as_tables_json_and_csv() {
    let server = filled();
    let out =
        dump(&server, &["Logical_Switch", "--columns", "name,external_ids,ports,copp", "-o", "json"]).ok();
    let ports: Vec<String> = ["p1", "p2"]
        .map(|port| {
            server.nbctl(&[
                "--bare",
                "--columns=_uuid",
                "find",
                "Logical_Switch_Port",
                &format!("name={port}"),
            ])
        })
        .into();
    let mut ports = ports;
    ports.sort();
    assert_eq!(
        json_lines(&out),
        [
            json!({"name": "sw0", "external_ids": {"owner": "you, too"}, "ports": ports, "copp": null}),
            json!({"name": "sw1", "external_ids": {"owner": "me"}, "ports": [], "copp": null}),
            json!({"name": "sw2", "external_ids": {}, "ports": [], "copp": null}),
        ]
    );
    assert!(out.starts_with("{\"name\":\"sw0\",\"external_ids\":"), "columns in the order asked: {out}");
    let out = dump(&server, &["Logical_Switch", "--columns=name,external_ids", "--output=table"]).ok();
    assert_eq!(
        out,
        "name  external_ids\n----  ----------------\nsw0   {owner=you, too}\nsw1   {owner=me}\nsw2   {}\n"
    );
    let out = dump(&server, &["Logical_Switch", "--columns=name,external_ids", "--output=csv"]).ok();
    assert_eq!(
        out,
        "name,external_ids\r\nsw0,\"{\"\"owner\"\":\"\"you, too\"\"}\"\r\nsw1,\"{\"\"owner\"\":\"\"me\"\"}\"\r\nsw2,{}\r\n"
    );
    let out = dump(&server, &["Logical_Switch", "-o", "json"]).ok();
    let row = &json_lines(&out)[0];
    assert!(row["_uuid"].as_str().is_some_and(|uuid| uuid.len() == 36), "{row}");
    assert_eq!(row.as_object().unwrap().len(), 1 + 11, "all columns of 23.03: {row}");
    let out = dump(&server, &["DNS"]).ok();
    assert!(out.starts_with("_uuid  "), "an empty table has its headers: {out}");
    assert_eq!(dump(&server, &["DNS", "-o", "json"]).ok(), "");
}

#[test]
fn the_server_filters() {
    let server = filled();
    let names = |table: &str, column: &str, wheres: &[&str]| -> Vec<String> {
        let mut args = vec![table, "--columns", column, "-o", "csv"];
        for expression in wheres {
            args.extend(["--where", expression]);
        }
        dump(&server, &args).ok().lines().skip(1).map(str::to_owned).collect()
    };
    let port = server.nbctl(&["--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name=p1"]);
    let switch = server.nbctl(&["--bare", "--columns=_uuid", "find", "Logical_Switch", "name=sw1"]);
    for (table, column, wheres, expected) in [
        ("Logical_Switch", "name", vec!["name=sw1"], vec!["sw1"]),
        ("Logical_Switch", "name", vec!["name!=sw1"], vec!["sw0", "sw2"]),
        ("Logical_Switch", "name", vec!["external_ids:owner=me"], vec!["sw1"]),
        ("Logical_Switch", "name", vec!["external_ids:owner!=me"], vec!["sw0", "sw2"]),
        ("Logical_Switch", "name", vec!["external_ids={}"], vec!["sw2"]),
        ("Logical_Switch", "name", vec!["ports=[]"], vec!["sw1", "sw2"]),
        ("Logical_Switch", "name", vec!["ports=[]", "name!=sw2"], vec!["sw1"]),
        ("Logical_Switch", "name", vec![&format!("ports includes {port}")], vec!["sw0"]),
        ("Logical_Switch", "name", vec![&format!("_uuid={switch}")], vec!["sw1"]),
        ("Logical_Switch_Port", "name", vec!["addresses includes router"], vec!["p1"]),
        ("Logical_Switch_Port", "name", vec!["type=\"\""], vec!["p1"]),
        ("Logical_Switch_Port", "name", vec!["tag=[]"], vec!["p1", "p2"]),
        ("Logical_Switch_Port", "name", vec!["tag<5"], vec![]),
        ("ACL", "priority", vec!["priority>=1001"], vec!["1001"]),
        ("ACL", "priority", vec!["priority<1001"], vec!["7"]),
        ("ACL", "priority", vec!["action=drop"], vec!["1001"]),
        ("ACL", "priority", vec![], vec!["7", "1001"]),
    ] {
        assert_eq!(names(table, column, &wheres), expected, "{wheres:?}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    let server = filled();
    let dir = server.dir();
    let fails = |code, args: &[&str]| {
        let remote = server.remote();
        let mut all = vec!["ovsdb", "dump", "--remote", &remote];
        all.extend(args);
        run_args(&all).fails(code, dir)
    };
    assert_eq!(
        fails(1, &["OVN_Nortbound", "Logical_Switch"]),
        "error: unix:DIR/nb.sock has no database `OVN_Nortbound`; did you mean `OVN_Northbound`?\n  try: one of OVN_Northbound, _Server\n"
    );
    assert_eq!(
        fails(2, &["OVN_Northbound", "Logical_Swich"]),
        "error: the database OVN_Northbound has no table `Logical_Swich`; did you mean `Logical_Switch`?\n  try: `meridian ovsdb schema OVN_Northbound` for the tables it has\n"
    );
    assert_eq!(
        fails(2, &["OVN_Northbound", "ACL", "--columns", "priority,mach"]),
        "error: --columns: table ACL has no column `mach`; did you mean `match`?\n"
    );
    assert_eq!(
        fails(2, &["OVN_Northbound", "ACL", "--where", "priority=high"]),
        "error: --where `priority=high`: priority is an integer: `high` is no integer\n  try: `meridian ovsdb schema OVN_Northbound ACL` for its columns\n"
    );
    assert_eq!(
        fails(2, &["OVN_Northbound", "ACL", "--where", "action=dorp"]),
        "error: --where `action=dorp`: action is a string: `dorp` is none of allow, allow-related, allow-stateless, drop, pass, reject\n  try: `meridian ovsdb schema OVN_Northbound ACL` for its columns\n"
            .replace("pass, ", "")
    );
}

#[test]
fn servers_that_cannot_be_reached_are_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let gone = format!("unix:{}/gone.sock", dir.path().display());
    let err = run_args(&["ovsdb", "dump", "--remote", &gone, "D", "T"]).fails(3, dir.path());
    assert_eq!(
        err,
        "error: cannot connect to unix:DIR/gone.sock\n  cause: No such file or directory (os error 2)\n  \
         try: the path that the server was given with --remote=punix:PATH, as a user who may open it\n"
    );
    let err = meridian()
        .args(["ovsdb", "dump", "OVN_Southbound", "Chassis"])
        .env("OVN_RUNDIR", dir.path())
        .output()
        .map(common::Ran::from)
        .unwrap()
        .fails(3, dir.path());
    assert!(
        err.starts_with(
            "error: unix:DIR/ovnsb_db.sock was tried because OVN_RUNDIR names it\n  cause: cannot connect"
        ),
        "{err}"
    );
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let err = run(&format!("ovsdb dump --remote tcp:{closed} D T")).fails(3, dir.path());
    assert!(
        err.starts_with(&format!("error: cannot connect to tcp:{closed}\n  cause: Connection refused")),
        "{err}"
    );
    let err = run("ovsdb dump --remote nonsense D T").fails(2, dir.path());
    assert!(err.contains("the remote from --remote is invalid\n  cause: remote `nonsense`: "), "{err}");
    let err = run("ovsdb dump Unknown_DB T").fails(2, dir.path());
    assert!(
        err.starts_with("error: cannot guess the address of the server of Unknown_DB\n  try: --remote "),
        "{err}"
    );
    let err = run("ovsdb dump --remote ssl:127.0.0.1:1 D T").fails(3, dir.path());
    assert!(err.contains("needs certificates") && err.contains("try: --private-key"), "{err}");
    let err = run("ovsdb dump --remote ssl:127.0.0.1:1 -p k D T").fails(2, dir.path());
    assert!(err.contains("try: --private-key, --certificate and --ca-cert together"), "{err}");
    let err = run(&format!("ovsdb dump --remote {gone},tcp:{closed} D T")).fails(3, dir.path());
    assert!(
        err.starts_with("error: none of the 2 remotes could be used; the last one\n  cause: cannot"),
        "{err}"
    );
    let err = run("ovsdb dump --remote unix:/x --timeout soon D T").fails(2, dir.path());
    assert!(err.contains("--timeout: expected a time as 500ms, 5s or 2m, found `soon`"), "{err}");
}

#[test]
fn the_next_remote_serves_when_the_first_is_gone() {
    let server = filled();
    let remotes = format!("unix:{}/gone.sock", server.dir().display());
    let remote = server.remote();
    let out = run_args(&[
        "ovsdb",
        "dump",
        "--remote",
        &remotes,
        "--remote",
        &remote,
        "OVN_Northbound",
        "Logical_Switch",
        "--columns=name",
        "-o",
        "csv",
    ]);
    assert_eq!(out.ok(), "name\r\nsw0\r\nsw1\r\nsw2\r\n");
}

#[test]
fn garbage_and_silence_end_with_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    for (answer, code, message) in [
        (Some("HTTP/1.1 400 Bad Request\r\n\r\n"), 4, "does not speak OVSDB"),
        (Some("[1,2,3]"), 4, "does not speak OVSDB"),
        (Some("{\"id\":0,\"result\":7,\"error\":null}"), 4, "cannot parse"),
        (Some(""), 3, "closed the connection"),
        (None, 3, "did not answer"),
    ] {
        let remote = impostor(&socket, answer);
        let err = run_args(&["ovsdb", "dump", "--remote", &remote, "--timeout", "500ms", "D", "T"])
            .fails(code, dir.path());
        assert!(err.starts_with("error: ") && err.contains(message), "{answer:?}: {err}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let server = filled();
    let remote = server.remote();
    let mut child = meridian()
        .args(["ovsdb", "dump", "--remote", &remote, "OVN_Northbound", "Logical_Switch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn schemas_are_shown_and_can_be_checked() {
    let server = Server::northbound();
    let remote = server.remote();
    let schema = |rest: &[&str]| {
        let mut args = vec!["ovsdb", "schema", "--remote", &remote, "OVN_Northbound"];
        args.extend(rest);
        run_args(&args)
    };
    let out = schema(&[]).ok();
    assert!(out.lines().any(|line| line.starts_with("NB_Global ") && line.contains(" yes ")), "{out}");
    let out = schema(&["ACL"]).ok();
    assert!(out.lines().any(|line| line.starts_with("priority ") && line.contains("0 to 32767")), "{out}");
    let text = schema(&["--output", "json"]).ok();
    let file = server.dir().join("schema.json");
    std::fs::write(&file, text).unwrap();
    let out = run_args(&["ovsdb", "check-schema", file.to_str().unwrap()]).ok();
    assert!(out.contains("OVN_Northbound 7.0.0 fits"), "{out}");
    let one: Value = serde_json::from_str(&schema(&["ACL", "-o", "json"]).ok()).unwrap();
    assert_eq!(one["tables"].as_object().unwrap().keys().collect::<Vec<_>>(), ["ACL"]);
    assert_eq!(schema(&["Acl"]).code, 2);
}

fn txn(server: &Server, operations: &str) -> common::Ran {
    run_args(&["ovsdb", "txn", "--remote", &server.remote(), "OVN_Northbound", operations])
}

#[test]
fn transactions_succeed_whole_or_not_at_all() {
    let server = Server::northbound();
    let insert =
        |name: &str| format!(r#"{{"op":"insert","table":"Logical_Switch","row":{{"name":"{name}"}}}}"#);
    let out = txn(&server, &format!("[{},{}]", insert("a"), insert("b"))).ok();
    let results: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(results.as_array().unwrap().len(), 2);
    assert_eq!(results[0]["uuid"][0], "uuid");
    assert_eq!(out.lines().count(), 1);

    let ran = txn(
        &server,
        &format!(r#"[{},{{"op":"insert","table":"ACL","row":{{"priority":99999}}}}]"#, insert("c")),
    );
    assert!(ran.out.contains("constraint violation"), "the result is printed too: {ran:?}");
    let err = ran.fails(1, server.dir());
    assert!(
        err.starts_with("error: operation 2 (insert, table ACL) failed: constraint violation: "),
        "{err}"
    );
    assert!(err.contains("; nothing was changed\n"), "{err}");
    assert_eq!(server.nbctl(&["--bare", "--columns=name", "list", "Logical_Switch"]).matches('c').count(), 0);

    let same = r#"[{"op":"insert","table":"Address_Set","row":{"name":"x"}},{"op":"insert","table":"Address_Set","row":{"name":"x"}}]"#;
    let err = txn(&server, same).fails(1, server.dir());
    assert!(err.starts_with("error: the commit failed: constraint violation: "), "{err}");
    let err = txn(&server, r#"{"op":"insert","table":"Nat","row":{}}"#).fails(1, server.dir());
    assert!(err.contains("operation 1 (insert, table Nat) failed: "), "{err}");
    let err = txn(&server, "{").fails(2, server.dir());
    assert!(err.starts_with("error: the operations are not JSON: "), "{err}");

    let file = server.dir().join("ops.json");
    std::fs::write(&file, insert("from-file")).unwrap();
    txn(&server, &format!("@{}", file.display())).ok();
    let mut child = meridian()
        .args(["ovsdb", "txn", "--remote", &server.remote(), "OVN_Northbound", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(insert("from-stdin").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let names = server.nbctl(&["--bare", "--columns=name", "list", "Logical_Switch"]);
    assert!(names.contains("from-file") && names.contains("from-stdin"), "{names}");
    let err = txn(&server, "@/gone").fails(5, server.dir());
    assert!(err.starts_with("error: cannot read /gone\n"), "{err}");
}

#[test]
fn a_transaction_without_an_answer_is_called_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Answers everything but the transaction itself, then closes the connection.
        for answer in
            [r#"{"id":0,"result":[{"rows":[]}],"error":null}"#, r#"{"id":1,"result":["D"],"error":null}"#, ""]
        {
            let mut buffer = [0; 65536];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let remote = format!("unix:{}", socket.display());
    let err = run_args(&["ovsdb", "txn", "--remote", &remote, "D", "[]"]).fails(3, dir.path());
    assert!(
        err.starts_with("error: the server did not reply to the transaction, so it is not known whether it took effect\n  cause: "),
        "{err}"
    );
}

#[test]
fn locks_are_told_held_and_stolen() {
    let server = Server::northbound();
    let remote = server.remote();
    let locks = |rest: &[&str]| {
        let mut args = vec!["ovsdb", "locks", "--remote", &remote];
        args.extend(rest);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let tell = |rest: &[&str]| meridian().args(locks(rest)).output().map(common::Ran::from).unwrap().ok();
    assert_eq!(tell(&["one", "two"]), "one: free\ntwo: free\n");

    let start = |rest: &[&str]| {
        let mut child =
            meridian().args(locks(rest)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map(Result::unwrap))
    };
    let (holder, mut held) = start(&["one", "--hold"]);
    assert_eq!(held.next().as_deref(), Some("one: ours"));
    assert_eq!(
        tell(&["one", "two", "-o", "json"]),
        "{\"lock\":\"one\",\"state\":\"held\"}\n{\"lock\":\"two\",\"state\":\"free\"}\n"
    );

    let (mut waiter, mut waits) = start(&["one", "--hold"]);
    assert_eq!(waits.next().as_deref(), Some("one: waiting"));
    let (mut thief, mut stole) = start(&["one", "--steal"]);
    assert_eq!(stole.next().as_deref(), Some("one: ours"));
    assert_eq!(held.next().as_deref(), Some("one: stolen"));
    let ended = common::Ran::from(holder.wait_with_output().unwrap());
    assert_eq!(ended.fails(1, server.dir()), "error: another client took over the lock one\n");

    common::interrupt(thief.id());
    assert_eq!(stole.next().as_deref(), Some("one: released"));
    assert!(thief.wait().unwrap().success());
    assert_eq!(waits.next().as_deref(), Some("one: ours"));
    common::interrupt(waiter.id());
    assert_eq!(waits.next().as_deref(), Some("one: released"));
    assert!(waiter.wait().unwrap().success());
    assert_eq!(tell(&["one"]), "one: free\n");
}

#[test]
fn a_holder_is_told_when_the_server_goes() {
    let mut server = Server::northbound();
    let mut child = meridian()
        .args(["ovsdb", "locks", "--remote", &server.remote(), "one", "--hold"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one: ours");
    server.kill();
    let ended = common::Ran::from(child.wait_with_output().unwrap());
    let err = ended.fails(3, server.dir());
    assert!(err.starts_with("error: the connection was lost, and the locks with it\n  cause: "), "{err}");
}
