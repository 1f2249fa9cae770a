//! JSON-RPC 1.0 messages, as OVSDB uses them in both directions.
//!
//! The body (`params`, `result`) stays undecoded text: the sender of a request knows the type of its reply.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

/// A message from the peer.
#[derive(Debug)]
pub enum Message<'a> {
    /// A message that needs a reply with the same id.
    Request {
        /// Any JSON value; it must be returned unchanged.
        id: &'a RawValue,
        /// The method of the request.
        method: Cow<'a, str>,
        /// Its arguments.
        params: &'a RawValue,
    },
    /// A message that needs no reply.
    Notification {
        /// The method of the notification.
        method: Cow<'a, str>,
        /// Its arguments.
        params: &'a RawValue,
    },
    /// The answer to a request of ours.
    Reply {
        /// The id of our request.
        id: &'a RawValue,
        /// The answer.
        result: &'a RawValue,
    },
    /// The error of a request of ours.
    Error {
        /// The id of our request.
        id: &'a RawValue,
        /// The error: an object with `error` and `details`, or just a string.
        error: &'a RawValue,
    },
}

/// The error of data that is not a JSON-RPC 1.0 message.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The data is not JSON, or not an object of the right form.
    #[error("the peer sent a message that is not JSON-RPC")]
    Malformed(#[source] serde_json::Error),
    /// The data is JSON but neither request, notification nor reply.
    #[error("the peer sent JSON that is neither request, notification nor reply")]
    Shapeless,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A present member, including `null`, because a reply may be `null`.
fn even_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// A present member that is not `null`.
fn given(value: Option<&RawValue>) -> Option<&RawValue> {
    value.filter(|v| v.get() != "null")
}

impl<'a> Message<'a> {
    /// Classifies a JSON text.
    pub fn parse(text: &'a [u8]) -> Result<Self, MessageError> {
        // serde would take an array for the envelope's members in order.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(MessageError::Shapeless);
        }
        let envelope: Envelope<'a> = serde_json::from_slice(text).map_err(MessageError::Malformed)?;
        match (envelope.method, given(envelope.id)) {
            (Some(method), id) => {
                let params = envelope.params.ok_or(MessageError::Shapeless)?;
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            (None, Some(id)) => match (given(envelope.error), envelope.result) {
                (Some(error), _) => Ok(Self::Error { id, error }),
                (None, Some(result)) => Ok(Self::Reply { id, result }),
                (None, None) => Err(MessageError::Shapeless),
            },
            (None, None) => Err(MessageError::Shapeless),
        }
    }
}

/// The id and the result of a reply in the exact form that servers write, `{"id":1,"result":...,"error":null}`. It is recognised by its
/// beginning and its end, without parsing the result, which may be the content of a whole database. `None` for any other form, which
/// [`Message::parse`] handles.
pub(crate) fn plain_reply(text: &str) -> Option<(u64, &str)> {
    let (id, rest) = text.strip_prefix(r#"{"id":"#)?.split_once(',')?;
    let result = rest.strip_prefix(r#""result":"#)?.strip_suffix(r#","error":null}"#)?;
    // Rust parses numbers more leniently than JSON, for example `+7`.
    let id = Some(id).filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((id.parse().ok()?, result))
}

/// The method and the parameters of an update in the exact form that servers write.
pub(crate) fn plain_update(text: &[u8]) -> Option<(&str, &str)> {
    let rest = text.strip_prefix(br#"{"id":null,"method":""#)?;
    let rest = std::str::from_utf8(rest).ok()?;
    let told =
        |method: &'static str| Some((method, rest.strip_prefix(method)?.strip_prefix(r#"","params":"#)?));
    let (method, params) = ["update3", "update2", "update"].into_iter().find_map(told)?;
    let params = params.strip_suffix('}')?;
    // With another member after the parameters, the message is not in the form that servers write.
    params.ends_with(']').then_some((method, params))
}

/// A request as JSON. Its id is a number, because replies are matched by it.
pub fn request(id: u64, method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Request<'a, P> {
        id: u64,
        method: &'a str,
        params: P,
    }
    encode(&Request { id, method, params })
}

/// The reply to a request of the peer's.
pub fn reply(id: &RawValue, result: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Reply<'a, R> {
        id: &'a RawValue,
        result: R,
        error: (),
    }
    encode(&Reply { id, result, error: () })
}

/// The error reply to a request of the peer.
pub fn refusal(id: &RawValue, error: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Refusal<'a, R> {
        id: &'a RawValue,
        result: (),
        error: R,
    }
    encode(&Refusal { id, result: (), error })
}

/// A notification as JSON.
pub fn notification(method: &str, params: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        id: (),
        method: &'a str,
        params: P,
    }
    encode(&Notification { id: (), method, params })
}

fn encode(message: &impl Serialize) -> String {
    // Our own types: their maps have string keys and they never fail to serialise.
    serde_json::to_string(message).expect("a message of ours is serialisable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_reply_is_taken_apart_from_both_ends() {
        assert_eq!(plain_reply(r#"{"id":7,"result":[{}],"error":null}"#), Some((7, "[{}]")));
        assert_eq!(
            plain_reply(r#"{"id":7,"result":"\",\"error\":null","error":null}"#).map(|(id, _)| id),
            Some(7)
        );
        for other in [
            r#"{"id":7,"error":null,"result":[{}]}"#,
            r#"{"id":"7","result":[{}],"error":null}"#,
            r#"{"id":7,"result":null,"error":{}}"#,
            r#"{"id":null,"method":"update","params":[]}"#,
            r#"{"id":7,"result":[],"error":null} "#,
            r#"{"id":+7,"result":[],"error":null}"#,
            r#"{"id":-7,"result":[],"error":null}"#,
            r#"{"id":,"result":[],"error":null}"#,
            r#"{"id":99999999999999999999,"result":[],"error":null}"#,
        ] {
            assert_eq!(plain_reply(other), None, "{other}");
        }
    }

    #[test]
    fn a_plain_update_is_too() {
        let plain = |text: &'static str| plain_update(text.as_bytes());
        let update = r#"{"id":null,"method":"update3","params":["m","id",{}]}"#;
        assert_eq!(plain(update), Some(("update3", r#"["m","id",{}]"#)));
        assert_eq!(plain(r#"{"id":null,"method":"update","params":[]}"#), Some(("update", "[]")));
        for other in [
            r#"{"id":null,"method":"update9","params":[]}"#,
            r#"{"id":null,"method":"locked","params":["x"]}"#,
            r#"{"id":1,"method":"update3","params":[]}"#,
            r#"{"method":"update3","params":[],"id":null}"#,
            r#"{"id":null,"method":"update3","params":{}}"#,
            r#"{"id":null,"method":"update3","params":[],"more":1}"#,
            r#"{"id":null,"method":"update3","params":[]"#,
        ] {
            assert_eq!(plain(other), None, "{other}");
        }
        assert_eq!(plain_update(b"{\"id\":null,\"method\":\"update\",\"params\":[\xff]}"), None);
    }

    #[test]
    fn each_shape_is_told_apart() {
        let kind = |text: &str| match Message::parse(text.as_bytes()) {
            Ok(Message::Request { method, .. }) => format!("request {method}"),
            Ok(Message::Notification { method, .. }) => format!("notification {method}"),
            Ok(Message::Reply { id, result }) => format!("reply {id} {result}"),
            Ok(Message::Error { id, error }) => format!("error {id} {error}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(kind(r#"{"id":"echo","method":"echo","params":[]}"#), "request echo");
        assert_eq!(kind(r#"{"id":null,"method":"upd\u0061te","params":[]}"#), "notification update");
        assert_eq!(kind(r#"{"id":7,"result":{},"error":null}"#), "reply 7 {}");
        assert_eq!(kind(r#"{"result":null,"id":7,"error":null}"#), "reply 7 null");
        assert_eq!(kind(r#"{"id":7,"result":null,"error":{"error":"x"}}"#), r#"error 7 {"error":"x"}"#);
        assert!(kind("{}").contains("neither"));
        assert!(kind(r#"{"method":"echo","id":1}"#).contains("neither"));
        assert!(kind(r#"{"id":1"#).contains("not JSON-RPC"));
        assert!(kind(r#"[1,"echo",[]]"#).contains("neither"));
    }

    #[test]
    fn ours_parse_as_what_they_are() {
        let text = request(3, "echo", &["x"]);
        assert_eq!(text, r#"{"id":3,"method":"echo","params":["x"]}"#);
        let id = serde_json::value::to_raw_value("abc").unwrap();
        assert_eq!(reply(&id, &1), r#"{"id":"abc","result":1,"error":null}"#);
        assert_eq!(refusal(&id, &"no"), r#"{"id":"abc","result":null,"error":"no"}"#);
        assert_eq!(notification("cancel", &[1]), r#"{"id":null,"method":"cancel","params":[1]}"#);
    }
}
