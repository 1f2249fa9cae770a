//! `meridian ovsdb locks`: checks whether locks are free, holds them, or steals them.
//!
//! The protocol has no call that lists locks. To find out whether a lock is free, the command requests it and releases it again.

use std::collections::BTreeSet;
use std::time::Duration;

use ovsdb::client::Rpc;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::connection::{self, Target, failure};
use crate::cli::{json as to_json, print};
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Check whether locks are free; hold them or steal them
///
/// OVSDB cannot list locks, so the command requests each by name and releases it at once. A lock belongs to one server process: in a
/// cluster, use the leader.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// The names of the locks, e.g. ovn_northd
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Wait for the locks and keep them until SIGINT or SIGTERM
    #[arg(long)]
    hold: bool,
    /// Steal the locks from their owners and keep them until SIGINT or SIGTERM
    #[arg(long, conflicts_with = "hold")]
    steal: bool,
    /// Use the server of this database, to guess the --remote and to find the leader
    #[arg(long, value_name = "DATABASE")]
    database: Option<String>,
    /// Print the result in this format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    output: Output,
    #[command(flatten)]
    connection: connection::ConnectionArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        self.connection.overrides()
    }

    fn say(&self, name: &str, state: &str) -> Outcome {
        print(&match self.output {
            Output::Text => format!("{name}: {state}\n"),
            Output::Json => to_json(&json!({"lock": name, "state": state})) + "\n",
        })
    }
}

pub(super) async fn run(args: &Args, config: &Config) -> Outcome {
    let database = args.database.as_deref();
    let mut rpc = Target::new(&config.ovsdb, database)?.open(database).await?;
    if args.hold || args.steal {
        return hold(args, config, &mut rpc).await;
    }
    for name in &args.names {
        let free = ask(&mut rpc, "lock", name).await?;
        rpc.call("unlock", &[name]).await.map_err(failure)?;
        args.say(name, if free { "free" } else { "held" })?;
    }
    Ok(())
}

/// Requests a lock. Returns whether this client owns it now.
async fn ask(rpc: &mut Rpc, method: &str, name: &str) -> Outcome<bool> {
    let answer = rpc.call(method, &[name]).await.map_err(failure)?;
    answer
        .get("locked")
        .and_then(Value::as_bool)
        .ok_or_else(|| Failure::told(Exit::Protocol, format!("the server answered {method} with `{answer}`")))
}

async fn hold(args: &Args, config: &Config, rpc: &mut Rpc) -> Outcome {
    let local = |error| Failure::new(Exit::Local, error).while_("cannot listen for signals");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(local)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(local)?;
    let mut ours = BTreeSet::new();
    for name in &args.names {
        let granted = ask(rpc, if args.steal { "steal" } else { "lock" }, name).await?;
        args.say(name, if granted { "ours" } else { "waiting" })?;
        if granted {
            ours.insert(name.clone());
        }
    }
    // A lock lasts as long as its connection, so an idle connection is probed too. Otherwise a dead server would go unnoticed.
    let silence = match config.ovsdb.probe_interval.value {
        Duration::ZERO => Duration::from_secs(3600),
        interval => interval,
    };
    loop {
        let note = tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            note = rpc.note(silence) => note,
        };
        let lost = |failure: Failure| failure.while_("the connection was lost, and the locks with it");
        let Some(note) = note.map_err(failure).map_err(lost)? else {
            rpc.call("echo", &json!([])).await.map_err(failure).map_err(lost)?;
            continue;
        };
        let name = serde_json::from_str::<Vec<String>>(note.params.get())
            .ok()
            .and_then(|names| names.into_iter().next());
        match (note.method.as_str(), name) {
            // The server repeats `locked` to the owner when another client stops waiting for the lock.
            ("locked", Some(name)) if ours.contains(&name) => {}
            ("locked", Some(name)) => {
                args.say(&name, "ours")?;
                ours.insert(name);
            }
            ("stolen", Some(name)) => {
                args.say(&name, "stolen")?;
                return Err(Failure::told(
                    Exit::Refused,
                    format!("another client took over the lock {name}"),
                ));
            }
            _ => {}
        }
    }
    for name in &args.names {
        rpc.call("unlock", &[name]).await.map_err(failure)?;
        args.say(name, "released")?;
    }
    Ok(())
}
