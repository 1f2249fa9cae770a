//! The API over HTTP: paths, headers, bodies and the wire format of responses. [`resource`](crate::resource) runs the requests;
//! [`auth`](crate::auth) finds their callers.
//!
//! ```text
//! request ─▶ target (path, query) ─▶ auth ─▶ body ─▶ dialect ─▶ resource, in a Txn of the store or on its World ─▶ answer
//! ```
//!
//! This module has what all HTTP services share. Their differences (paths, error bodies, page links, documents) are in an [`HttpDialect`];
//! [`neutron`] and [`octavia`] are the two. A panic in a request is a bug of ours; that request gets a 500 and all others continue.

mod answer;
mod body;
mod browser;
mod dialect;
mod lists;
pub mod neutron;
pub mod octavia;
mod openapi;
mod request;
mod serve;
mod target;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::uri::Scheme;
use axum::http::{HeaderMap, Method as HttpMethod};
use axum::response::Response;
use listener::Client;
use task::contain;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use crate::auth::{Auth, Denied};
use crate::report::Report;
use crate::resource::Method;
use crate::store::Store;
use crate::world::Outside;
use crate::{BalancerRoleSet, Fault};

pub use answer::Answer;
pub use dialect::HttpDialect;
pub use listener::Limits;
pub use lists::Lists;
pub use neutron::{extension, openapi::document as openapi_document};
pub use request::ApiRequest;
pub use serve::serve;
pub use target::{Base, Target};

/// Time limit of a request with `wait` for the Northbound to contain its change.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The inputs of requests.
#[derive(Debug)]
pub struct Api {
    /// The store.
    pub store: Store,
    /// OVN's reports.
    pub report: watch::Receiver<Report>,
    /// The settings and the chassis.
    pub outside: watch::Receiver<Arc<Outside>>,
    /// The authentication.
    pub auth: Auth,
    /// The sequence number of the last change in the Northbound, for requests that wait for it.
    pub applied: watch::Receiver<u64>,
    /// The rendering of lists.
    pub lists: Lists,
    /// The roles that count for load balancers.
    pub balancer_roles: BalancerRoleSet,
}

/// The id of a request, for its sender and the log.
fn request_id() -> String {
    format!("req-{}", uuid::Uuid::new_v4())
}

async fn respond(api: &Api, dialect: &impl HttpDialect, request: Request) -> Response {
    let id = request_id();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    if !dialect.is_health(&path)
        && let Some(refusal) = dialect.check_accept(request.headers(), &id)
    {
        debug!(%id, %method, path, status = refusal.status, "request refused");
        return refusal.into_response(&id);
    }
    let answer = match contain::future(answer(api, dialect, request)).await {
        Ok(answer) => answer,
        Err(contain::Panicked(text)) => {
            error!(%id, %method, path, text, "a request panicked");
            dialect.fault(&Fault::internal())
        }
    };
    match answer.status {
        // Not a failure: OVN does not support the request, and any client may send it.
        501 => debug!(%id, %method, path, "request refused"),
        500.. => warn!(%id, %method, path, status = answer.status, "request failed"),
        status => debug!(%id, %method, path, status, "request"),
    }
    answer.into_response(&id)
}

async fn answer(api: &Api, dialect: &impl HttpDialect, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let target = match Target::parse(&parts.uri, |segments| dialect.keeps_suffix(segments)) {
        Ok(target) => target,
        Err(fault) => return dialect.fault(&fault),
    };
    let method = method(&parts.method);
    let encrypted = parts.extensions.get() == Some(&Scheme::HTTPS);
    let base = Base::of(&parts.headers, encrypted, dialect.link_prefix(&api.outside.borrow().settings));
    if let Some(trusted) = api.auth.open_hosts()
        && !dialect.is_health(parts.uri.path())
        && let Err(fault) = browser::check(&parts.headers, trusted)
    {
        return dialect.fault(&fault);
    }
    if let Some(answer) = dialect.open(api, &target, method, &base) {
        return answer;
    }
    let client = parts.extensions.get().copied().unwrap_or(Client::Local);
    let caller = match api.auth.caller(client, &parts.headers).await {
        Ok(caller) => caller,
        Err(Denied::Unauthorized(challenge)) => return Answer::unauthorized(challenge),
        Err(Denied::Forbidden(fault) | Denied::Unavailable(fault)) => return dialect.fault(&fault),
    };
    let Some(method) = method else {
        return dialect.fault(&Fault::not_allowed());
    };
    let body = match body::read(body, &parts.headers).await {
        Ok(body) => body,
        Err(fault) => return dialect.fault(&fault),
    };
    if api.auth.open_hosts().is_some()
        && !body.is_null()
        && let Err(fault) = browser::check_body(&parts.headers)
    {
        return dialect.fault(&fault);
    }
    let condition = match revision(&parts.headers) {
        Ok(condition) => condition,
        Err(fault) => return dialect.fault(&fault),
    };
    let wait = waits(&parts.headers, &target);
    let request =
        ApiRequest { api, target: &target, method, caller, body, revision: condition, base: &base, wait };
    dialect.answer(request).await.unwrap_or_else(|fault| dialect.fault(&fault))
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

/// The revision in `If-Match`. Other conditions are ignored, as in Neutron.
fn revision(headers: &HeaderMap) -> Result<Option<i64>, Fault> {
    let Some(value) = headers.get("if-match") else { return Ok(None) };
    let conditions = value.to_str().unwrap_or_default().split(',');
    let mut revisions = conditions
        .filter_map(|condition| condition.trim().trim_matches('"').strip_prefix("revision_number="));
    let Some(number) = revisions.next() else { return Ok(None) };
    match (number.parse(), revisions.next()) {
        (Ok(number), None) => Ok(Some(number)),
        (Err(_), _) => Err(Fault::senseless("if-match", "the condition must be revision_number=<int>")),
        (_, Some(_)) => Err(Fault::senseless("if-match", "it has several conditions on revision_number")),
    }
}

/// Whether the response should wait until the Northbound contains the change.
fn waits(headers: &HeaderMap, target: &Target) -> bool {
    headers.get("x-meridian-wait").is_some_and(|value| value == "nb")
        || target.pairs.iter().any(|(key, value)| key == "wait" && value == "ovn")
}

#[cfg(test)]
mod tests;
