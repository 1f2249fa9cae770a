//! What an API says on the wire: its paths, its error bodies, its documents.

use std::future::Future;

use axum::http::HeaderMap;

use super::Api;
use super::answer::Answer;
use super::request::ApiRequest;
use super::target::{Base, Target};
use crate::Fault;
use crate::resource::Method;
use crate::settings::Settings;

/// An API on the wire. One [`Api`] value may be served in several dialects, each on a listener of its own; they share store,
/// credentials and limits. The words of refusals are not here, but in [`Dialect`](crate::dialect::Dialect).
pub trait HttpDialect: Send + Sync + 'static {
    /// The answer to a request that failed.
    fn fault(&self, fault: &Fault) -> Answer;

    /// The answer, if the target needs no credentials.
    fn open(&self, api: &Api, target: &Target, method: Option<Method>, base: &Base) -> Option<Answer>;

    /// The answer to a request whose sender is known.
    fn answer<'a>(
        &'a self,
        request: ApiRequest<'a>,
    ) -> impl Future<Output = Result<Answer, Fault>> + Send + 'a;

    /// The answer to a client that accepts none of this API's media types.
    fn check_accept(&self, _headers: &HeaderMap, _request_id: &str) -> Option<Answer> {
        None
    }

    /// Whether this path tells load balancers if the server lives. It is answered to everybody, however busy the server is.
    fn is_health(&self, path: &str) -> bool {
        path == "/healthcheck"
    }

    /// Whether `.json` at the end of this path is part of a name. Elsewhere it means nothing.
    fn keeps_suffix(&self, _segments: &[String]) -> bool {
        false
    }

    /// What links begin with, if the operator chose it.
    fn link_prefix<'s>(&self, _settings: &'s Settings) -> Option<&'s str> {
        None
    }
}
