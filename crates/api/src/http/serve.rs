//! The API on a socket. Which connections are kept, and for how long, is decided by [`listener`].

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, Uri};
use listener::Limits;
use listener::http::{Refusal, RequestBody, Site};
use tokio::net::TcpListener;

use super::answer::Answer;
use super::{Api, respond};
use crate::Fault;

/// Answers requests until `stop`; requests that have begun are finished.
pub async fn serve(
    listener: TcpListener,
    api: Arc<Api>,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) {
    listener::http::serve(listener, limits, Arc::new(ApiSite(api)), stop).await;
}

struct ApiSite(Arc<Api>);

impl Site for ApiSite {
    type Body = Body;

    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        respond(&self.0, request.map(Body::new)).await
    }

    fn is_health(&self, uri: &Uri) -> bool {
        uri.path() == "/healthcheck"
    }

    fn refuse(&self, refusal: Refusal) -> Response<Body> {
        let fault = match refusal {
            Refusal::Busy => Fault::unavailable(refusal.text()),
            Refusal::NoHost | Refusal::SeveralHosts => Fault::bad(refusal.text()),
        };
        Answer::fault(&fault).into_response(&super::request_id())
    }
}
