//! `meridian ovsdb replay`: runs a recorded session again, without a server.
//!
//! The inputs of the session are in the recording itself: the remotes that it dialled, and the tables and columns of its first monitor
//! request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ovsdb::Str;
use ovsdb::client::{Difference, ReplayError, Replayed};
use ovsdb::replica::{Columns, Model};
use ovsdb::session::{Event, Remotes, SessionConfig};
use serde::Deserialize;
use serde_json::Value;

use super::events;
use crate::cli::given;
use crate::config::{Config, Override};
use crate::failure::{EXIT_CODES, Exit, Failure, Outcome};

/// Replay a session recorded by `watch --record`
///
/// Runs the session again on the recorded input with the recorded times, and prints the lines that watch printed. The exit code is 1 if the
/// session now behaves differently: that is a bug, or the program or its options have changed.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{}\n\n{EXIT_CODES}", events::FORMAT))]
pub(super) struct Args {
    /// Recording to replay
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// As recorded: connect to any member of a cluster
    #[arg(long)]
    no_leader_only: bool,
    /// As recorded: probe a silent server after this time
    #[arg(long, value_name = "TIME")]
    probe_interval: Option<String>,
    /// As recorded: wait this long for a connection
    #[arg(short = 't', long, value_name = "TIME")]
    timeout: Option<String>,
}

impl Args {
    pub(super) fn overrides(&self) -> Vec<Override> {
        let flags = [
            given("ovsdb.leader_only", "--no-leader-only", self.no_leader_only.then_some("false")),
            given("ovsdb.probe_interval", "--probe-interval", self.probe_interval.clone()),
            given("ovsdb.timeout", "--timeout", self.timeout.clone()),
        ];
        flags.into_iter().flatten().collect()
    }
}

/// The inputs of a recorded session.
#[derive(Debug, Default, PartialEq)]
struct RecordedModel {
    database: String,
    /// The remotes in the order of their first attempt.
    remotes: Vec<String>,
    tables: BTreeMap<String, Vec<String>>,
}

/// The members of a recorded line that matter here.
#[derive(Deserialize)]
struct Line {
    database: Option<String>,
    dial: Option<String>,
    out: Option<String>,
}

impl RecordedModel {
    /// Collects the inputs from a recording. It skips invalid lines, because the replay reports them.
    fn read(lines: impl Iterator<Item = String>) -> Self {
        let mut found = Self::default();
        for line in lines {
            let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
            if let Some(database) = line.database {
                found.database = database;
            }
            if let Some(remote) = line.dial
                && !found.remotes.contains(&remote)
            {
                found.remotes.push(remote);
            }
            if let Some(request) = line.out.filter(|_| found.tables.is_empty()) {
                found.tables = monitored(&request, &found.database).unwrap_or_default();
            }
        }
        found
    }

    fn tables(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    fn model(&self) -> Model {
        self.tables.iter().fold(Model::new(self.database.as_str()), |model, (table, columns)| {
            let columns = columns.iter().map(|name| Str::from(name.as_str())).collect();
            model.dynamic(table.as_str(), Columns::Named(columns))
        })
    }
}

/// The tables and columns of a monitor request for a database, if it is one.
fn monitored(request: &str, database: &str) -> Option<BTreeMap<String, Vec<String>>> {
    let request: Value = serde_json::from_str(request).ok()?;
    if !request["method"].as_str()?.starts_with("monitor") || request["params"][0] != database {
        return None;
    }
    let tables = request["params"][2].as_object()?.iter();
    let columns = |value: &Value| -> Option<Vec<String>> {
        // One request per table, or an array of them.
        let first = value.get(0).unwrap_or(value);
        first["columns"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    };
    tables.map(|(table, value)| Some((table.clone(), columns(value)?))).collect()
}

pub(super) fn run(args: &Args, config: &Config) -> Outcome {
    let recorded = read(&args.file)?;
    let none = || {
        Failure::told(Exit::Local, format!("{} is not a recording of a session", args.file.display()))
            .try_("a file made with `meridian ovsdb watch --record`")
    };
    let remotes: Remotes = recorded.remotes.join(",").parse().map_err(|_| none())?;
    let mut session: SessionConfig = remotes.into();
    session.leader_only = config.ovsdb.leader_only.value;
    session.probe_interval = config.ovsdb.probe_interval.value;
    session.connect_timeout = config.ovsdb.timeout.value;
    session.shuffle = false;
    let replayed = ovsdb::client::replay(&args.file, session, recorded.model()).map_err(|error| {
        let failure = Failure::new(Exit::Local, error);
        failure.try_("a whole file made with `meridian ovsdb watch --record` of this version")
    })?;
    print(&recorded.tables(), &replayed).map_err(Failure::output)?;
    match replayed.difference {
        None => Ok(()),
        Some(difference) => Err(differs(&difference)),
    }
}

fn read(file: &Path) -> Outcome<RecordedModel> {
    let failed = |source| {
        let path = file.to_owned();
        Failure::new(Exit::Local, ReplayError::File { path, source })
    };
    let mut lines = BufReader::new(std::fs::File::open(file).map_err(failed)?).lines();
    let mut problem = None;
    let recorded = RecordedModel::read(std::iter::from_fn(|| match lines.next()? {
        Ok(line) => Some(line),
        Err(error) => {
            problem = Some(error);
            None
        }
    }));
    match problem {
        Some(error) => Err(failed(error)),
        None => Ok(recorded),
    }
}

/// Prints the lines that watch printed.
fn print(tables: &[String], replayed: &Replayed) -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut began, mut synced) = (false, false);
    for event in &replayed.events {
        match event {
            Event::Changed(delta) => events::changes(&mut out, tables, delta, |_| ())?,
            Event::Synced { .. } => {
                events::state(&mut out, if began { "reconnected" } else { "synced" }, None)?;
                (began, synced) = (true, true);
            }
            // Only the first failed attempt after a loss is reported, not each retry.
            Event::Down { reason, .. } if synced => {
                events::state(&mut out, "disconnected", Some(&reason.to_string()))?;
                synced = false;
            }
            _ => {}
        }
    }
    out.flush()
}

fn differs(difference: &Difference) -> Failure {
    let text = |action: &Option<String>| {
        action.as_deref().map_or("nothing".to_owned(), |text| text.chars().take(300).collect())
    };
    let told = format!(
        "the session now acts differently: line {} of the recording has {}, but it did {}",
        difference.line,
        text(&difference.recorded),
        text(&difference.done)
    );
    Failure::told(Exit::Refused, told)
        .try_("the options and the version of Meridian that it was recorded with")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_followed_is_read_from_the_recording() {
        let lines = [
            r#"{"ovsdb_recording":1,"database":"D","seed":7}"#,
            r#"{"at":0,"dial":"unix:/b"}"#,
            r#"{"at":1,"dial":"unix:/a"}"#,
            r#"{"at":2,"dial":"unix:/b"}"#,
            r#"nonsense"#,
            r#"{"at":3,"out":"{\"id\":1,\"method\":\"monitor_cond\",\"params\":[\"_Server\",\"x\",{\"Database\":[{\"columns\":[\"name\"]}]}]}"}"#,
            r#"{"at":4,"out":"{\"id\":2,\"method\":\"monitor_cond_since\",\"params\":[\"D\",\"x\",{\"T\":[{\"columns\":[\"a\",\"b\"]}],\"U\":{\"columns\":[]}},\"0\"]}"}"#,
        ];
        let recorded = RecordedModel::read(lines.into_iter().map(str::to_owned));
        assert_eq!(recorded.database, "D");
        assert_eq!(recorded.remotes, ["unix:/b", "unix:/a"]);
        let columns = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let tables = [("T".to_owned(), columns(&["a", "b"])), ("U".to_owned(), columns(&[]))];
        assert_eq!(recorded.tables, BTreeMap::from(tables));
    }
}
