//! The checks of a server before it accepts requests: it needs an OVN, and it must be able to listen.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cloud::Cloud;
use crate::plant::Plant;

/// `meridian server` in a directory, with the usual sockets of OVN in another one.
fn server(dir: &Path, run_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command
        .args(["server", "--auth", "none", "--data-dir", "data"])
        .args(["--listen", "127.0.0.1:0", "--lb-listen", "none", "--metrics-listen", "127.0.0.1:0"])
        .current_dir(dir)
        .env("MERIDIAN_CONFIG", "/dev/null")
        .env("OVN_RUNDIR", run_dir)
        .env_remove("OVN_NB_DB")
        .env_remove("OVN_SB_DB")
        .stdin(Stdio::null());
    command
}

#[test]
fn a_server_without_an_ovn_does_not_start() {
    let (dir, run_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let refused = || {
        let mut command = server(dir.path(), run_dir.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A server that starts prints its URL, and would run until it is killed.
        if let Some(line) = BufReader::new(child.stdout.take().unwrap()).lines().next() {
            child.kill().unwrap();
            panic!("it started: {line:?}");
        }
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(2));
        assert!(!dir.path().join("data").exists(), "before anything is made");
        String::from_utf8(out.stderr).unwrap()
    };
    let complaint = refused();
    let socket = run_dir.path().join("ovnnb_db.sock");
    for part in ["OVN_Northbound", &socket.display().to_string(), "--nb tcp:", "--dev"] {
        assert!(complaint.contains(part), "{part}: {complaint}");
    }
    let plant = Plant::start();
    symlink(plant.dir().join("nb.sock"), &socket).unwrap();
    let complaint = refused();
    assert!(complaint.contains("OVN_Southbound") && complaint.contains("ovnsb_db.sock"), "{complaint}");
    // With the databases at the usual sockets, no flag has to name them.
    symlink(plant.dir().join("sb.sock"), run_dir.path().join("ovnsb_db.sock")).unwrap();
    let mut child = server(dir.path(), run_dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(child.stdout.take().unwrap()).lines().next();
    child.kill().unwrap();
    child.wait().unwrap();
    let line = line.unwrap().unwrap();
    assert!(line.starts_with("listening on http://"), "{line}");
}

#[test]
fn a_server_that_cannot_listen_does_not_come_near_the_northbound() {
    let ovn = tempfile::tempdir().unwrap();
    let databases = ["nb", "sb"].map(|name| {
        let database = UnixListener::bind(ovn.path().join(format!("{name}.sock"))).unwrap();
        database.set_nonblocking(true).unwrap();
        database
    });
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = ovn.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.display().to_string();
    for (flag, place) in [
        ("--listen", &address),
        ("--lb-listen", &address),
        ("--metrics-listen", &address),
        ("--admin-socket", &file),
    ] {
        let complaint = Cloud::refused(ovn.path(), &[flag, place]);
        assert!(complaint.contains(&format!("cannot listen on {place}")), "{complaint}");
        assert!(complaint.contains(flag), "it says what to do: {complaint}");
        for database in &databases {
            let met = database.accept().map(drop).map_err(|error| error.kind());
            assert_eq!(met, Err(ErrorKind::WouldBlock), "{flag}: the server connected to a database");
        }
    }
}

#[test]
fn a_remote_that_cannot_be_parsed_is_named_by_its_flag() {
    let ovn = tempfile::tempdir().unwrap();
    let complaint = Cloud::refused(ovn.path(), &["--nb", "tpc:nowhere:1"]);
    assert!(complaint.contains("the remote from --nb is invalid"), "{complaint}");
}

#[test]
fn a_directory_in_use_is_not_answered_with_a_package() {
    let cloud = Cloud::start();
    let complaint = cloud.does_not_start();
    assert!(complaint.contains(&format!("is in use by process {}", cloud.pid())), "{complaint}");
    assert!(!complaint.contains("apt-get"), "{complaint}");
}
