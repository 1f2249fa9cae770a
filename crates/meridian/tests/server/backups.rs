//! Copies of a server's database: the file of a stopped server, a backup of a running one, and the restore.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use crate::cloud::{Cloud, eventually};
use crate::plant::Plant;

/// Runs a command on the database of a server.
fn meridian(cloud: &Cloud, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command
        .args(words)
        .args(["--data-dir", "."])
        .current_dir(cloud.dir())
        .env("MERIDIAN_CONFIG", "/dev/null");
    command.output().unwrap()
}

#[track_caller]
fn done(out: Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[track_caller]
fn refused(out: Output) -> String {
    assert!(!out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stderr).unwrap()
}

/// The names of the networks in a database file, which must not need a journal beside it.
fn names(file: &Path) -> Vec<String> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let log = format!("{}{suffix}", file.display());
        assert!(!Path::new(&log).exists(), "{log}");
    }
    let database =
        rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut query = database.prepare("SELECT json_extract(body, '$.name') FROM networks ORDER BY 1").unwrap();
    let names = query.query_map([], |row| row.get(0)).unwrap();
    names.collect::<Result<_, _>>().unwrap()
}

fn network(cloud: &Cloud, name: &str) {
    cloud.create("networks", "network", json!({ "name": name }));
    cloud.converged();
}

fn listed(cloud: &Cloud) -> Vec<String> {
    let listed = cloud.get("networks");
    let mut names: Vec<String> = listed["networks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_file_of_a_stopped_server_is_whole() {
    let mut cloud = Cloud::start();
    network(&cloud, "kept");
    assert!(cloud.stop());
    let copy = cloud.dir().join("copy.db");
    fs::copy(cloud.dir().join("api.db"), &copy).unwrap();
    assert!(!cloud.dir().join("api.db-wal").exists(), "the log is in the file");
    assert_eq!(names(&copy), ["kept"]);
}

#[test]
fn a_backup_of_a_running_server_is_restored() {
    let plant = Plant::start();
    let mut cloud = Cloud::on(plant.dir(), &[]);
    network(&cloud, "before");
    let file = cloud.dir().join("backup.db");
    let said = done(meridian(&cloud, &["backup", "backup.db"]));
    assert!(said.contains("after change "), "{said}");
    assert_eq!(names(&file), ["before"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = refused(meridian(&cloud, &["backup", "backup.db"]));
    assert!(again.contains("the file is there already"), "{again}");

    network(&cloud, "after");
    let running = refused(meridian(&cloud, &["restore", "backup.db"]));
    assert!(running.contains(&format!("is in use by process {}", cloud.pid())), "{running}");
    assert!(running.contains("systemctl stop meridian-server"), "{running}");
    assert_eq!(listed(&cloud), ["after", "before"], "nothing happened to it");

    assert!(cloud.stop());
    fs::write(cloud.dir().join("other"), "no database").unwrap();
    let wrong = refused(meridian(&cloud, &["restore", "other"]));
    assert!(wrong.contains("is not a database of the network API"), "{wrong}");
    let said = done(meridian(&cloud, &["restore", "backup.db"]));
    assert!(said.contains("api.db.before-restore"), "{said}");
    assert_eq!(names(&cloud.dir().join("api.db.before-restore")), ["after", "before"]);
    assert_eq!(fs::metadata(cloud.dir().join("api.db")).unwrap().permissions().mode() & 0o777, 0o600);
    cloud.again();
    assert_eq!(listed(&cloud), ["before"]);
    // The row of the network that the backup lacks stays until the operator allows its deletion.
    eventually("it withholds the deletion", || {
        let status = cloud.status().to_string();
        status.contains("deletions-withheld").then_some(())
    });
    assert_eq!(cloud.rows("Logical_Switch").len(), 2);
}

#[test]
fn what_a_killed_server_left_is_in_its_backup() {
    let mut cloud = Cloud::start();
    network(&cloud, "logged");
    cloud.kill();
    assert!(cloud.dir().join("api.db-wal").exists());
    done(meridian(&cloud, &["backup", "backup.db"]));
    assert_eq!(names(&cloud.dir().join("backup.db")), ["logged"]);
    // Restores on a machine without a data directory.
    let empty = tempfile::tempdir().unwrap();
    let data = empty.path().join("data");
    let file = cloud.dir().join("backup.db");
    let words = ["restore", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let out =
        Command::new(env!("CARGO_BIN_EXE_meridian")).args(words).env("MERIDIAN_CONFIG", "/dev/null").output();
    done(out.unwrap());
    assert_eq!(names(&data.join("api.db")), ["logged"]);
}
