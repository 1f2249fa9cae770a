//! Static documents: versions, health, the API document.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{fault, openapi};
use crate::Fault;
use crate::http::answer::Answer;
use crate::http::target::{Base, Target};
use crate::resource::Method;

static OPENAPI: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());

/// The response, if the target needs no credentials. `serves` is false while the server cannot answer requests at all.
pub(super) fn open(target: &Target, method: Option<Method>, base: &Base, serves: bool) -> Option<Answer> {
    let answer = match target.parts().as_slice() {
        [] => Answer::json(200, &json!({"versions": [version(base)]})),
        // With a slash it is the list of resources, which needs credentials. Without one it lets clients discover the version of an
        // endpoint that was registered with it.
        ["v2.0"] if !target.slash => Answer::json(200, &json!({"version": version(base)})),
        ["healthcheck"] if serves => Answer::text(200, "OK"),
        // A load balancer that reads this uses another server. Only the operator may see the cause.
        ["healthcheck"] => Answer::text(503, "the database does not reply"),
        ["openapi.json"] => Answer::bytes(200, OPENAPI.clone()),
        ["v2.0", ..] => return None,
        _ => return Some(fault(&Fault::no_such_path())),
    };
    Some(if method == Some(Method::Get) { answer } else { refused(&[Method::Get]) })
}

fn version(base: &Base) -> Value {
    json!({"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": base.link("/v2.0/")}]})
}

/// `GET /v2.0/`: the resources that clients look for here.
pub(super) fn resources(base: &Base) -> Answer {
    let resource = |name: &str, collection: &str| {
        let link = json!({"rel": "self", "href": base.link(&format!("/v2.0/{collection}"))});
        json!({"name": name, "collection": collection, "links": [link]})
    };
    let all =
        [("network", "networks"), ("subnet", "subnets"), ("subnetpool", "subnetpools"), ("port", "ports")]
            .map(|(name, collection)| resource(name, collection));
    Answer::json(200, &json!({"resources": all}))
}

/// 405, with the allowed methods.
pub(super) fn refused(allowed: &[Method]) -> Answer {
    let names: Vec<_> = allowed.iter().map(|method| method.as_str()).collect();
    fault(&Fault::not_allowed()).with(axum::http::header::ALLOW, &names.join(", "))
}
