//! Serves the API on a socket. [`listener`] decides which connections stay open, and for how long.

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, Uri};
use listener::Limits;
use listener::http::{HttpSocket, Refusal, RequestBody, Site};

use super::{Api, HttpDialect, respond};
use crate::Fault;

/// Serves requests in a dialect until `stop`, and finishes those that have begun.
pub async fn serve(
    socket: impl Into<HttpSocket>,
    api: Arc<Api>,
    dialect: impl HttpDialect,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) {
    listener::http::serve(socket, limits, Arc::new(ApiSite { api, dialect }), stop).await;
}

struct ApiSite<D> {
    api: Arc<Api>,
    dialect: D,
}

impl<D: HttpDialect> Site for ApiSite<D> {
    type Body = Body;

    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        respond(&self.api, &self.dialect, request.map(Body::new)).await
    }

    fn is_health(&self, uri: &Uri) -> bool {
        self.dialect.is_health(uri.path())
    }

    fn refuse(&self, refusal: Refusal) -> Response<Body> {
        let fault = match refusal {
            Refusal::Busy => Fault::unavailable(refusal.text()),
            Refusal::NoHost | Refusal::SeveralHosts => Fault::bad(refusal.text()),
        };
        self.dialect.fault(&fault).into_response(&super::request_id())
    }
}
