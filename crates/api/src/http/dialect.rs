//! The wire format of an API: its paths, error bodies and documents.

use std::future::Future;

use axum::http::HeaderMap;

use super::Api;
use super::answer::Answer;
use super::request::ApiRequest;
use super::target::{Base, Target};
use crate::Fault;
use crate::resource::Method;
use crate::settings::Settings;

/// The wire format of one API. One [`Api`] value may be served in several dialects, each on a listener of its own; they share the store,
/// the credentials and the limits. The messages of refusals are in [`Dialect`](crate::dialect::Dialect).
pub trait HttpDialect: Send + Sync + 'static {
    /// The response to a failed request.
    fn fault(&self, fault: &Fault) -> Answer;

    /// The response, if the target needs no credentials.
    fn open(&self, api: &Api, target: &Target, method: Option<Method>, base: &Base) -> Option<Answer>;

    /// The response to an authenticated request.
    fn answer<'a>(
        &'a self,
        request: ApiRequest<'a>,
    ) -> impl Future<Output = Result<Answer, Fault>> + Send + 'a;

    /// The response to a client that accepts none of this API's media types.
    fn check_accept(&self, _headers: &HeaderMap, _request_id: &str) -> Option<Answer> {
        None
    }

    /// Whether this is the path for health checks of load balancers. Every client may read it, however busy the server is.
    fn is_health(&self, path: &str) -> bool {
        path == "/healthcheck"
    }

    /// Whether `.json` at the end of this path is a part of a name. Elsewhere it is ignored.
    fn keeps_suffix(&self, _segments: &[String]) -> bool {
        false
    }

    /// The prefix of links, if the operator set one.
    fn link_prefix<'s>(&self, _settings: &'s Settings) -> Option<&'s str> {
        None
    }
}
