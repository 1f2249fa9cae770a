//! The admin socket of a long-running process: a unix socket that only its owner can open, one JSON request per line,
//! one JSON answer per line.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | [`crate::process::Status`] |
//! | `{"request":"metrics"}` | the metrics, as a string |
//! | `{"request":"plan"}` | what its loops would do now: a list of [`reconcile::Preview`] |
//! | `{"request":"allow-deletions"}` | nothing: the server deletes what it has withheld |
//! | `{"request":"explain","ip":"172.24.4.10"}` | why the address is exposed, or why not: [`node::bgp::explain::Explanation`] |
//! | `{"request":"log-level"}` | the log's directives |
//! | `{"request":"log-level","set":"debug"}` | sets them |
//!
//! An answer is `{"result":...}` or `{"error":"..."}`.

pub(crate) mod client;
pub(crate) mod server;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};

/// Where the agent of a node takes requests when nobody says otherwise and the directory is there.
pub(crate) const NODE_SOCKET: &str = "/run/meridian/node.sock";

/// Where a server takes requests when nobody says otherwise, within its data directory.
pub(crate) const SERVER_SOCKET: &str = "admin.sock";

/// Where a server that tries things out keeps its files when nobody says otherwise.
pub(crate) const DEV_DIR: &str = ".meridian";

/// The socket of the process that a command is about: the one that was named, or the only one that is where they usually are.
pub(crate) fn socket(config: &Config) -> Outcome<PathBuf> {
    if let Some(path) = &config.admin.socket.value {
        return Ok(path.clone());
    }
    let server = config.server.data_dir.value.join(SERVER_SOCKET);
    let usual = [PathBuf::from(NODE_SOCKET), server, Path::new(DEV_DIR).join(SERVER_SOCKET)];
    let mut found = usual.into_iter().filter(|path| path.exists());
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (Some(one), Some(other)) => Err(Failure::told(
            Exit::Usage,
            format!("which process is not said: there are {} and {}", one.display(), other.display()),
        )
        .try_("--socket with one of them")),
        (None, _) => Err(Failure::told(Exit::Usage, "which process is not said")
            .try_("--socket with the path that it was given with --admin-socket")),
    }
}

/// The longest request or answer; metrics of a large process are some hundred kilobytes.
const LONGEST_REQUEST: u64 = 64 * 1024;
const LONGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    Status,
    Metrics,
    Plan,
    AllowDeletions,
    Explain {
        ip: IpAddr,
    },
    LogLevel {
        /// Directives to put in place; without, those in place are told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
    },
}

/// The answer.
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
    fn requests_are_plain_json() {
        for (request, text) in [
            (Request::Status, r#"{"request":"status"}"#),
            (Request::Metrics, r#"{"request":"metrics"}"#),
            (Request::Plan, r#"{"request":"plan"}"#),
            (Request::AllowDeletions, r#"{"request":"allow-deletions"}"#),
            (
                Request::Explain { ip: "10.0.0.1".parse().unwrap() },
                r#"{"request":"explain","ip":"10.0.0.1"}"#,
            ),
            (Request::LogLevel { set: None }, r#"{"request":"log-level"}"#),
            (Request::LogLevel { set: Some("debug".into()) }, r#"{"request":"log-level","set":"debug"}"#),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        assert!(serde_json::from_str::<Request>(r#"{"request":"log-level","sett":"debug"}"#).is_err());
    }
}
