//! Request bodies: read up to a limit, parsed, and refused if they are nested too deeply.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::HeaderMap;
use futures_util::StreamExt;
use serde_json::Value;

use crate::Fault;

/// The maximum size of a body. A bulk request for thousands of ports is far smaller.
const MOST: usize = 4 << 20;
/// The bytes of an oversized body that are read and discarded, so that its sender receives the response.
const DISCARDED: usize = 64 << 20;
/// The maximum nesting of objects and lists. It is far below the limit of the parser that reads stored values back.
const DEEPEST: usize = 32;
/// The time limit of a body.
const LONGEST: Duration = Duration::from_secs(30);
/// The time limit of an oversized body.
const UNWANTED: Duration = Duration::from_secs(1);

/// The body as JSON; `null` if it is empty.
pub(super) async fn read(body: Body, headers: &HeaderMap) -> Result<Value, Fault> {
    let announced = headers.get("content-length").and_then(|value| value.to_str().ok()?.parse().ok());
    let mut stream = body.into_data_stream();
    if announced.is_some_and(|size: usize| size > MOST) {
        drain(stream).await;
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
    let reading = async {
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|_| Fault::bad("The body ended before it was complete"))?;
            if bytes.len() + chunk.len() > MOST {
                drain(std::mem::replace(&mut stream, Body::empty().into_data_stream())).await;
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(())
    };
    match tokio::time::timeout(LONGEST, reading).await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(Fault::new(408, "HTTPRequestTimeout", "The body took too long to arrive.")),
    }
    parse(&bytes)
}

/// Reads an oversized body, so that its sender receives the response.
async fn drain(mut stream: BodyDataStream) {
    let reading = async {
        let mut size = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            size += chunk.len();
            if size > DISCARDED {
                break;
            }
        }
    };
    // A slower sender does not receive the response, because it would block one of the places for requests.
    let _ = tokio::time::timeout(UNWANTED, reading).await;
}

fn too_large() -> Fault {
    let text = format!("The body is larger than {MOST} bytes. Split a bulk request into several.");
    Fault::new(413, "HTTPRequestEntityTooLarge", text)
}

pub(super) fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    let malformed = |reason: &dyn std::fmt::Display| {
        Fault::new(400, "MalformedRequestBody", format!("Malformed request body: {reason}"))
    };
    let value: Value = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
    if is_deeper(&value, DEEPEST) {
        return Err(malformed(&format_args!("objects and lists are nested more than {DEEPEST} levels deep")));
    }
    Ok(value)
}

fn is_deeper(value: &Value, than: usize) -> bool {
    match value {
        Value::Array(elements) => than == 0 || elements.iter().any(|element| is_deeper(element, than - 1)),
        Value::Object(fields) => than == 0 || fields.values().any(|field| is_deeper(field, than - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_refused_with_a_reason() {
        for bytes in [
            &b"{"[..],
            b"nope",
            b"{\"a\": 1,}",
            b"\xff\xfe",
            b"{\"a\": 01}",
            b"{} {}",
            b"{\"a\": \"\\ud800\"}",
        ] {
            let fault = parse(bytes).unwrap_err();
            assert_eq!((fault.status, fault.kind), (400, "MalformedRequestBody"), "{bytes:?}");
        }
        assert_eq!(parse(b" \n").unwrap(), Value::Null);
    }

    #[test]
    fn depth_has_an_end() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
        assert!(parse(&nested(DEEPEST)).is_ok());
        for depth in [DEEPEST + 1, 1_000, 1_000_000] {
            assert_eq!(parse(&nested(depth)).unwrap_err().status, 400, "{depth}");
        }
    }
}
