//! A part of the server that dies takes the process with it: nobody is told that half a server is healthy.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cloud::PATIENCE;

/// Every task and thread of a server on its own central and SQLite.
const PARTS: [&str; 15] = [
    "election",
    "applied",
    "changes",
    "alarms",
    "agents",
    "neighbours",
    "poke",
    "sight",
    "fleet",
    "placing",
    "northbound",
    "sqlite",
    "metrics",
    "admin",
    "api",
];

#[test]
fn a_panic_in_any_background_task_ends_the_process_with_a_code() {
    for part in PARTS {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["server", "--dev", "--data-dir", ".", "--listen", "127.0.0.1:0"])
            .args(["--metrics-listen", "127.0.0.1:0"])
            .current_dir(dir.path())
            .env("MERIDIAN_CONFIG", "/dev/null")
            .env("MERIDIAN_TEST_PANIC", part)
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{part}: the process lives on without it");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(status.code().is_some_and(|code| code != 0), "{part}: {status}\n{log}");
        assert!(log.contains(&format!("{part} panics because a test asked for it")), "{part}: {log}");
    }
}

/// Work that is started past the supervisor is work whose death nobody notices.
#[test]
fn nothing_is_started_past_the_supervisor() {
    fn look(dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "tests") {
                look(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                for (n, line) in code.lines().enumerate() {
                    let line = line.trim_start();
                    let bare = ["tokio::spawn(", "tokio::task::spawn(", "thread::spawn(", "thread::Builder"];
                    if !line.starts_with("//") && bare.iter().any(|bare| line.contains(bare)) {
                        found.push(format!("{}:{}: {line}", path.display(), n + 1));
                    }
                }
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in ["api", "listener", "meridian", "node", "reconcile"] {
        look(&crates.join(name).join("src"), &mut found);
    }
    assert_eq!(found, Vec::<String>::new(), "use task::spawn, task::keep or task::spawn_thread");
}
