//! The admin socket of a long-running process: a unix socket that only its owner can open, one JSON request per line,
//! one JSON answer per line.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | [`crate::process::Status`] |
//! | `{"request":"metrics"}` | the metrics, as a string |
//! | `{"request":"plan"}` | the changes that its loops would make now: a list of [`reconcile::Preview`] |
//! | `{"request":"allow-deletions"}` | nothing: the server deletes the withheld rows |
//! | `{"request":"explain","subject":"172.24.4.10"}` | `text`, a list of sentences: an agent explains addresses, a server any object |
//! | `{"request":"log-level"}` | the log's directives |
//! | `{"request":"log-level","set":"debug"}` | sets them |
//!
//! An answer is `{"result":...}` or `{"error":"..."}`.

pub(crate) mod client;
pub(crate) mod server;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};

/// The default admin socket of a node's agent, used if its directory exists.
pub(crate) const NODE_SOCKET: &str = "/run/meridian/node.sock";

/// The default admin socket of the metadata agent, used if its directory exists.
pub(crate) const METADATA_SOCKET: &str = "/run/meridian-metadata-agent/admin.sock";

/// The default name of a server's admin socket, within its data directory.
pub(crate) const SERVER_SOCKET: &str = "admin.sock";

/// The default data directory of `meridian server --dev`.
pub(crate) const DEV_DIR: &str = ".meridian";

/// The admin socket that a command connects to: the configured one, or the only one found at the usual paths.
pub(crate) fn socket(config: &Config) -> Outcome<PathBuf> {
    if let Some(path) = &config.admin.socket.value {
        return Ok(path.clone());
    }
    let server = config.server.data_dir.value.join(SERVER_SOCKET);
    let (node, metadata) = (PathBuf::from(NODE_SOCKET), PathBuf::from(METADATA_SOCKET));
    let usual = [node, metadata, server, Path::new(DEV_DIR).join(SERVER_SOCKET)];
    choose(usual.map(|path| {
        let found = std::fs::symlink_metadata(&path).map(drop).map_err(|error| error.kind());
        (path, found)
    }))
}

/// Chooses one of the usual paths, given whether each of them is accessible.
fn choose<const N: usize>(usual: [(PathBuf, Result<(), ErrorKind>); N]) -> Outcome<PathBuf> {
    let list = |paths: &[&PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
    };
    let found: Vec<_> = usual.iter().filter(|(_, found)| found.is_ok()).map(|(path, _)| path).collect();
    let hidden = usual.iter().filter(|(_, found)| *found == Err(ErrorKind::PermissionDenied));
    let hidden: Vec<_> = hidden.map(|(path, _)| path).collect();
    match (found.as_slice(), hidden.as_slice()) {
        // A path that this user may not access belongs to another user's process. It does not make the choice ambiguous.
        ([only], _) => Ok((*only).clone()),
        ([], []) => {
            let all: Vec<_> = usual.iter().map(|(path, _)| path).collect();
            Err(Failure::told(
                Exit::Connect,
                format!("no running Meridian found: there is no {}", list(&all).replace(" and ", ", no ")),
            )
            .try_("starting it, or --socket with the path that it was given with --admin-socket"))
        }
        ([], hidden) => {
            Err(Failure::told(Exit::Local, format!("cannot read {}: permission denied", list(hidden)))
                .try_("the same with sudo, or as the user that Meridian runs as"))
        }
        (several, _) => {
            Err(Failure::told(Exit::Usage, format!("found several Meridian processes: {}", list(several)))
                .try_("--socket with one of them"))
        }
    }
}

/// Limits on the size of a request and of an answer. The metrics of a large process take some hundred kilobytes.
const LONGEST_REQUEST: u64 = 64 * 1024;
const LONGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// A request to the admin socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    Status,
    Metrics,
    Plan,
    AllowDeletions,
    Explain {
        /// An IP address; for a server also a MAC address, a name or an id. Programs of older versions send `ip`.
        #[serde(alias = "ip")]
        subject: String,
    },
    LogLevel {
        /// The directives to apply. Without them the process answers with the current ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Result(serde_json::Value),
    Error(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_chosen_or_the_reason_is_given() {
        use ErrorKind::{NotFound, PermissionDenied};
        let chosen = |found: [Result<(), ErrorKind>; 3]| {
            let paths = ["/a", "/b", "c"].map(PathBuf::from).into_iter().zip(found).collect::<Vec<_>>();
            choose::<3>(paths.try_into().unwrap())
                .map_err(|failure| (failure.code(), failure.report().unwrap()))
        };
        let none = Err(NotFound);
        assert_eq!(chosen([none, Ok(()), none]).unwrap(), Path::new("/b"));
        assert_eq!(chosen([none, Err(PermissionDenied), Ok(())]).unwrap(), Path::new("c"));
        for (found, code, expected) in [
            ([none, none, none], 3, "no running Meridian found: there is no /a, no /b, no c\n"),
            (
                [none, Err(PermissionDenied), none],
                5,
                "cannot read /b: permission denied\n  try: the same with sudo",
            ),
            ([Ok(()), Ok(()), none], 2, "found several Meridian processes: /a and /b\n  try: --socket"),
        ] {
            let (exit, report) = chosen(found).unwrap_err();
            assert!(exit == code && report.contains(expected), "{exit}: {report}");
        }
    }

    #[test]
    fn requests_are_plain_json() {
        for (request, text) in [
            (Request::Status, r#"{"request":"status"}"#),
            (Request::Metrics, r#"{"request":"metrics"}"#),
            (Request::Plan, r#"{"request":"plan"}"#),
            (Request::AllowDeletions, r#"{"request":"allow-deletions"}"#),
            (
                Request::Explain { subject: "10.0.0.1".to_owned() },
                r#"{"request":"explain","subject":"10.0.0.1"}"#,
            ),
            (Request::LogLevel { set: None }, r#"{"request":"log-level"}"#),
            (Request::LogLevel { set: Some("debug".into()) }, r#"{"request":"log-level","set":"debug"}"#),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        let older = serde_json::from_str::<Request>(r#"{"request":"explain","ip":"10.0.0.1"}"#).unwrap();
        assert_eq!(older, Request::Explain { subject: "10.0.0.1".to_owned() });
        assert!(serde_json::from_str::<Request>(r#"{"request":"log-level","sett":"debug"}"#).is_err());
    }
}
