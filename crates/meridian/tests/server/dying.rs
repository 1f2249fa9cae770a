//! If a part of the server dies, the process exits. Otherwise half a server would report itself healthy.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cloud::PATIENCE;
use crate::two_servers::{certificates, postgres};

/// Every task and thread that a server on its own central and SQLite needs for its whole life.
const LASTING: [&str; 17] = [
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
    "balancer-removal",
    "metadata-ports",
    "adopted",
    "northbound",
    "sqlite",
    "metrics",
    "admin",
];

/// How a part of the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Panic,
    /// The part returns, as if its work were done.
    End,
}

/// Asserts that a server whose part ends exits with an error code and names that part.
fn dies(part: &str, death: Death, options: &[&str]) {
    dies_within(&tempfile::tempdir().unwrap(), part, death, options);
}

/// Like `dies`, with files in the server's directory.
fn dies_within(dir: &tempfile::TempDir, part: &str, death: Death, options: &[&str]) {
    let (variable, said) = match death {
        Death::Panic => ("MERIDIAN_TEST_PANIC", format!("{part} panics because a test asked for it")),
        Death::End => ("MERIDIAN_TEST_END", format!("the background task {part} has ended by itself")),
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["server", "--dev", "--data-dir", ".", "--listen", "127.0.0.1:0"])
        .args(["--lb-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
        .args(options)
        .current_dir(dir.path())
        .env("MERIDIAN_CONFIG", "/dev/null")
        .env(variable, part)
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
            panic!("{part}, {death:?}: the process lives on without it");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(status.code().is_some_and(|code| code != 0), "{part}, {death:?}: {status}\n{log}");
    assert!(log.contains(&said), "{part}, {death:?}: {log}");
}

#[test]
fn a_panic_in_any_background_task_ends_the_process_with_a_code() {
    for part in LASTING.into_iter().chain(["network-api", "load-balancer-api"]) {
        dies(part, Death::Panic, &[]);
    }
}

#[test]
fn a_background_task_that_returns_ends_the_process_with_a_code() {
    for part in LASTING {
        dies(part, Death::End, &[]);
    }
}

#[test]
fn the_tasks_of_a_server_on_postgresql_are_watched_too() {
    let (postgres, _dir) = postgres();
    let url = postgres.url("meridian");
    for (part, death) in [("writer", Death::Panic), ("writer", Death::End), ("postgres", Death::Panic)] {
        dies(part, death, &["--database", &url]);
    }
}

#[test]
fn the_task_that_renews_certificates_is_watched_too() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), "localhost");
    let keys = "[server]\ntls_cert = \"pg.pem\"\ntls_key = \"pg.key\"\n";
    fs::write(dir.path().join("meridian.toml"), keys).unwrap();
    for death in [Death::Panic, Death::End] {
        dies_within(&dir, "certificate", death, &["--config", "meridian.toml"]);
    }
}

/// A task that is started without the supervisor would end unnoticed.
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
                    // A scope joins its threads, so none of them runs in the background.
                    let is_joined = line.contains(".spawn_scoped(");
                    if !line.starts_with("//") && !is_joined && bare.iter().any(|bare| line.contains(bare)) {
                        found.push(format!("{}:{}: {line}", path.display(), n + 1));
                    }
                }
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in ["api", "listener", "meridian", "node", "ovn", "reconcile"] {
        look(&crates.join(name).join("src"), &mut found);
    }
    assert_eq!(found, Vec::<String>::new(), "use the functions of the crate task");
}
