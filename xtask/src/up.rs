//! `cargo xtask up`: an OVN central of one's own, and live what is in it.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use console::style;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::command::{cargo, heading, root, run, target_dir};
use crate::packages::{self, Need};
use central::{Central, Daemon, Database};

/// How long `--check` waits for a row to be shown.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// What `cargo xtask up` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the databases, sockets and logs live; a later run goes on with the same data
    #[arg(long, value_name = "DIR", default_value = ".meridian")]
    data_dir: PathBuf,
    /// Build `meridian` optimised (slower to build)
    #[arg(long)]
    release: bool,
    /// Bring everything up, make sure that a row written with ovn-nbctl is shown, end
    #[arg(long)]
    check: bool,
}

/// The tables shown: those that tell what an operator did and what OVN made of it.
fn tables(database: Database) -> &'static [&'static str] {
    match database {
        Database::Northbound => &[
            "Logical_Switch",
            "Logical_Switch_Port",
            "Logical_Router",
            "Logical_Router_Port",
            "Load_Balancer",
            "NAT",
        ],
        Database::Southbound => &["Chassis", "Datapath_Binding", "Port_Binding"],
    }
}

pub(crate) fn up(args: &Args) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot listen for signals")?;
    }
    packages::ensure(Need::Central)?;
    heading("building meridian");
    let mut build = cargo();
    build.args(["build", "--quiet", "--package", "meridian"]);
    run(if args.release { build.arg("--release") } else { &mut build })?;
    let meridian = target_dir().join(if args.release { "release" } else { "debug" }).join("meridian");

    let dir = root().join(&args.data_dir);
    heading(&format!("starting OVN central in {}", dir.display()));
    let mut central = Central::start(&dir)?;
    let (send, lines) = channel();
    let mut watches = Vec::new();
    for database in [Database::Northbound, Database::Southbound] {
        watches.push(watch(&meridian, &dir, &central, database, send.clone())?);
    }
    if args.check {
        return check(&mut central, &mut watches, &lines);
    }
    explain(&central, &meridian);
    while !stop.load(Ordering::Relaxed) {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok((database, line)) => show(database, &line),
            Err(_) => {
                central.still_running()?;
                watches.iter_mut().try_for_each(Daemon::still_running)?;
            }
        }
    }
    drop(watches);
    drop(central);
    eprintln!("\nended; the data stays in {}", dir.display());
    Ok(())
}

/// Starts `meridian ovsdb watch` and sends on each line it prints.
fn watch(meridian: &Path, dir: &Path, central: &Central, database: Database, send: Lines) -> Result<Daemon> {
    let mut command = Command::new(meridian);
    command.args(["ovsdb", "watch", "--remote", &central.remote(database), database.name()]);
    command.args(tables(database)).stdout(Stdio::piped());
    let name = format!("meridian ovsdb watch of {}", database.name());
    let mut daemon =
        Daemon::start(&name, &mut command, &dir.join(format!("watch-{}.log", database.short())))?;
    let stdout = daemon.take_stdout().context("the watch has no output")?;
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if send.send((database, line)).is_err() {
                break;
            }
        }
    });
    Ok(daemon)
}

type Lines = Sender<(Database, String)>;

fn explain(central: &Central, meridian: &Path) {
    let nb = central.remote(Database::Northbound);
    let command = |text: String| style(text).for_stderr().green().to_string();
    eprintln!("\nOVN is up. In another terminal, change something and see it appear below:\n");
    eprintln!("    {}", command(format!("ovn-nbctl --db={nb} ls-add demo")));
    eprintln!("    {}", command(format!("ovn-nbctl --db={nb} lsp-add demo port1")));
    eprintln!("\nor read a table:\n");
    let sb = central.remote(Database::Southbound);
    let meridian = meridian.display();
    eprintln!("    {}", command(format!("{meridian} ovsdb dump --remote {sb} OVN_Southbound Port_Binding")));
    eprintln!("\nCtrl-C ends it and keeps the data.\n");
}

/// One event, as JSON; on a terminal with the database it came from in front.
fn show(database: Database, line: &str) {
    let mut out = std::io::stdout();
    let prefix =
        if out.is_terminal() { format!("{} ", style(database.short()).cyan()) } else { String::new() };
    // With the reader of a pipe gone there is nobody to tell; the servers run on until a signal comes.
    let _ = writeln!(out, "{prefix}{line}");
}

/// Writes a row as an operator would, and waits until both watches have shown it come and go.
fn check(central: &mut Central, watches: &mut [Daemon], lines: &Receiver<(Database, String)>) -> Result<()> {
    let switch = format!("check-{}", std::process::id());
    let mut seen = |central: &mut Central, event: &str| -> Result<()> {
        let begin = Instant::now();
        let mut waiting = vec![Database::Northbound, Database::Southbound];
        while !waiting.is_empty() {
            if begin.elapsed() > CHECK_LIMIT {
                bail!("no {event} of the row written was shown by the watch of {waiting:?}");
            }
            match lines.recv_timeout(Duration::from_millis(100)) {
                Ok((database, line)) => {
                    show(database, &line);
                    if is_event(&line, event, &switch) {
                        waiting.retain(|other| *other != database);
                    }
                }
                Err(_) => {
                    central.still_running()?;
                    watches.iter_mut().try_for_each(Daemon::still_running)?;
                }
            }
        }
        Ok(())
    };
    central.nbctl(&["ls-add", &switch])?;
    seen(central, "insert")?;
    central.nbctl(&["ls-del", &switch])?;
    seen(central, "delete")?;
    eprintln!("{}", style("up works: a row written was shown by both watches").for_stderr().green());
    Ok(())
}

/// Whether a line of the watch tells of this event on a row that carries the name.
fn is_event(line: &str, event: &str, name: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { return false };
    value["event"] == event && line.contains(name)
}

#[cfg(test)]
mod tests {
    use super::is_event;

    #[test]
    fn events_are_told_apart() {
        let line = r#"{"event":"insert","table":"Logical_Switch","uuid":"x","new":{"name":"check-1"}}"#;
        assert!(is_event(line, "insert", "check-1"));
        assert!(!is_event(line, "delete", "check-1"));
        assert!(!is_event(line, "insert", "check-2"));
        assert!(!is_event("check-1 insert", "insert", "check-1"));
    }
}
