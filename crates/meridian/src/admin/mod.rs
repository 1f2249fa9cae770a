//! The admin socket of a long-running process: a unix socket that only its owner can open, one JSON request per line,
//! one JSON answer per line.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | [`crate::process::Status`] |
//! | `{"request":"metrics"}` | the metrics, as a string |
//! | `{"request":"log-level"}` | the log's directives |
//! | `{"request":"log-level","set":"debug"}` | sets them |
//!
//! An answer is `{"result":...}` or `{"error":"..."}`.

pub(crate) mod client;
pub(crate) mod server;

use serde::{Deserialize, Serialize};

/// The longest request or answer; metrics of a large process are some hundred kilobytes.
const LONGEST_REQUEST: u64 = 64 * 1024;
const LONGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    Status,
    Metrics,
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
            (Request::LogLevel { set: None }, r#"{"request":"log-level"}"#),
            (Request::LogLevel { set: Some("debug".into()) }, r#"{"request":"log-level","set":"debug"}"#),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        assert!(serde_json::from_str::<Request>(r#"{"request":"log-level","sett":"debug"}"#).is_err());
    }
}
