//! Documents without credentials: versions and health.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{below_prefix, fault, openapi, refused};
use crate::Fault;
use crate::http::answer::Answer;
use crate::http::target::{Base, Target};
use crate::resource::Method;

/// The minor number of the last version, v2.0, v2.1 and so on. Clients derive the supported features from it.
const LAST_MINOR: u8 = 30;

static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());

/// The response, if the target needs no credentials. `serves` is false while the server cannot answer requests at all.
pub(super) fn open(target: &Target, method: Option<Method>, base: &Base, serves: bool) -> Option<Answer> {
    let parts = target.parts();
    let (prefix, rest) = below_prefix(&parts);
    let answer = match rest {
        [] => Answer::json(200, &versions(base, prefix)),
        ["healthcheck"] if serves => Answer::json(200, &versions(base, prefix)),
        // A load balancer that reads this uses another server. Only the operator may see the cause.
        ["healthcheck"] => Answer::text(503, "the database does not reply"),
        ["openapi.json"] => Answer::bytes(200, OPENAPI.clone()),
        ["v2" | "v2.0"] => Answer::json(200, &"v2"),
        ["v2" | "v2.0", ..] => return None,
        _ => return Some(fault(&Fault::no_such_path())),
    };
    Some(if method == Some(Method::Get) { answer } else { refused(&[Method::Get]) })
}

fn versions(base: &Base, prefix: &str) -> Value {
    let href = base.link(&format!("{prefix}/v2"));
    let version = |minor: u8| {
        let status = if minor == LAST_MINOR { "CURRENT" } else { "SUPPORTED" };
        json!({
            "id": format!("v2.{minor}"),
            "status": status,
            "updated": "2016-12-11T00:00:00Z",
            "links": [{"href": href, "rel": "self"}],
        })
    };
    json!({"versions": (0..=LAST_MINOR).map(version).collect::<Vec<_>>()})
}
