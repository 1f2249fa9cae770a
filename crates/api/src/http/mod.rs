//! The API over HTTP: paths, headers, bodies and the wire format of answers. What is asked is decided in
//! [`resource`](crate::resource); who asks, in [`auth`](crate::auth).
//!
//! ```text
//! request ─▶ target (path, query) ─▶ auth ─▶ body ─▶ dispatch ─▶ resource, in a Txn of the store or on its World ─▶ answer
//! ```
//!
//! Paths follow from the table of nouns, so there is one function for all of them instead of a route for each. A panic in a
//! request is a mistake of ours; it answers 500 and ends nothing else.

mod answer;
mod body;
mod browser;
mod dispatch;
mod document;
pub mod extension;
mod lists;
mod openapi;
mod serve;
mod target;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, Method as HttpMethod};
use axum::response::Response;
use task::contain;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use crate::Fault;
use crate::auth::{Auth, Denied};
use crate::report::Report;
use crate::resource::Method;
use crate::store::Store;
use crate::world::Outside;
use answer::Answer;
use target::{Base, Target};

pub use lists::Lists;

pub use listener::Limits;
pub use openapi::document as openapi;
pub use serve::serve;

/// How long a request that asks for it waits until the Northbound has its change.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What requests are answered from.
#[derive(Debug)]
pub struct Api {
    /// Where everything is kept.
    pub store: Store,
    /// What OVN reports back.
    pub report: watch::Receiver<Report>,
    /// The operator's choices and the chassis.
    pub outside: watch::Receiver<Arc<Outside>>,
    /// Who asks.
    pub auth: Auth,
    /// The sequence number of the last change that the Northbound has, for requests that wait for it.
    pub applied: watch::Receiver<u64>,
    /// The rendering of lists.
    pub lists: Lists,
}

/// A name for a request, which its sender and the log have.
fn request_id() -> String {
    format!("req-{}", uuid::Uuid::new_v4())
}

async fn respond(api: &Api, request: Request) -> Response {
    let id = request_id();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let answer = match contain::future(answer(api, request)).await {
        Ok(answer) => answer,
        Err(contain::Panicked(text)) => {
            error!(%id, %method, path, text, "a request made the server panic");
            Answer::fault(&Fault::internal())
        }
    };
    match answer.status {
        500.. => warn!(%id, %method, path, status = answer.status, "request failed"),
        status => debug!(%id, %method, path, status, "request"),
    }
    answer.into_response(&id)
}

async fn answer(api: &Api, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let target = match Target::parse(&parts.uri) {
        Ok(target) => target,
        Err(fault) => return Answer::fault(&fault),
    };
    let method = method(&parts.method);
    let base = Base::of(&parts.headers, api.outside.borrow().settings.network_link_prefix.as_deref());
    if let Some(trusted) = api.auth.open_hosts()
        && target.parts() != ["healthcheck"]
        && let Err(fault) = browser::check(&parts.headers, trusted)
    {
        body::discard(body).await;
        return Answer::fault(&fault);
    }
    if let Some(answer) = document::open(&target, method, &base, api.store.trouble().is_none()) {
        return answer;
    }
    let caller = match api.auth.caller(&parts.headers).await {
        Ok(caller) => caller,
        Err(Denied::Unauthorized(challenge)) => {
            body::discard(body).await;
            return Answer::unauthorized(challenge);
        }
        Err(Denied::Forbidden(fault) | Denied::Unavailable(fault)) => return Answer::fault(&fault),
    };
    let Some(method) = method else {
        return Answer::fault(&Fault::not_allowed());
    };
    let body = match body::read(body, &parts.headers).await {
        Ok(body) => body,
        Err(fault) => return Answer::fault(&fault),
    };
    if api.auth.open_hosts().is_some()
        && !body.is_null()
        && let Err(fault) = browser::check_body(&parts.headers)
    {
        return Answer::fault(&fault);
    }
    let condition = match revision(&parts.headers) {
        Ok(condition) => condition,
        Err(fault) => return Answer::fault(&fault),
    };
    let wait = waits(&parts.headers, &target);
    let asked = dispatch::Asked {
        api,
        target: &target,
        method,
        caller,
        body,
        revision: condition,
        base: &base,
        wait,
    };
    asked.answer().await.unwrap_or_else(|fault| Answer::fault(&fault))
}

fn method(method: &HttpMethod) -> Option<Method> {
    match *method {
        HttpMethod::GET | HttpMethod::HEAD => Some(Method::Get),
        HttpMethod::POST => Some(Method::Post),
        HttpMethod::PUT => Some(Method::Put),
        HttpMethod::DELETE => Some(Method::Delete),
        _ => None,
    }
}

/// The revision that `If-Match` asks for. A condition that is not understood is refused rather than passed over.
fn revision(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(value) = headers.get("if-match") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    if text == "*" {
        return Ok(None);
    }
    let number = text.strip_prefix("revision_number=").and_then(|number| number.parse().ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(Fault::bad("If-Match is expected to be revision_number=N")),
    }
}

/// Whether a change is to be answered only when the Northbound has it.
fn waits(headers: &HeaderMap, target: &Target) -> bool {
    headers.get("x-meridian-wait").is_some_and(|value| value == "nb")
        || target.pairs.iter().any(|(key, value)| key == "wait" && value == "ovn")
}
