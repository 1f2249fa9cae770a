//! Octavia's dialect on the wire: paths under `/v2` and `/v2/lbaas`, fault bodies, the list of versions, quotas, and features that OVN does
//! not support.
//!
//! The same paths are served under `/load-balancer`, where web servers in front of Octavia usually have them.

mod accept;
mod dispatch;
mod document;
mod nothing;
mod openapi;
mod settling;

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::answer::Answer;
use super::request::ApiRequest;
use super::target::{Base, Target};
use super::{Api, HttpDialect};
use crate::Fault;
use crate::dialect::Octavia;
use crate::resource::Method;

/// The path prefix that web servers in front of Octavia usually add.
const PREFIX: &str = "load-balancer";

impl HttpDialect for Octavia {
    fn fault(&self, found: &Fault) -> Answer {
        fault(found)
    }

    fn open(&self, api: &Api, target: &Target, method: Option<Method>, base: &Base) -> Option<Answer> {
        document::open(target, method, base, api.store.trouble().is_none())
    }

    async fn answer<'a>(&'a self, request: ApiRequest<'a>) -> Result<Answer, Fault> {
        dispatch::answer(request).await
    }

    fn keeps_suffix(&self, segments: &[String]) -> bool {
        segments.last().is_some_and(|last| last == "openapi.json")
    }

    fn check_accept(&self, headers: &HeaderMap, request_id: &str) -> Option<Answer> {
        accept::check(headers, request_id)
    }

    fn is_health(&self, path: &str) -> bool {
        path == "/healthcheck" || path == "/load-balancer/healthcheck"
    }
}

fn fault(Fault { status, message, .. }: &Fault) -> Answer {
    let code = if *status < 500 { "Client" } else { "Server" };
    let body: Value = json!({"faultcode": code, "faultstring": message, "debuginfo": null});
    Answer::json(*status, &body)
}

/// The path without the prefix, and the prefix for links.
fn below_prefix<'p>(parts: &'p [&'p str]) -> (&'static str, &'p [&'p str]) {
    match parts {
        [PREFIX, rest @ ..] => ("/load-balancer", rest),
        rest => ("", rest),
    }
}

/// 405, with the allowed methods.
fn refused(allowed: &[Method]) -> Answer {
    let names: Vec<_> = allowed.iter().map(|method| method.as_str()).collect();
    fault(&Fault::not_allowed()).with(axum::http::header::ALLOW, &names.join(", "))
}

#[cfg(test)]
mod tests;
