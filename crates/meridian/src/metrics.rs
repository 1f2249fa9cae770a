//! The HTTP endpoint for Prometheus and for health checks: `GET /metrics`, `GET /health`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use listener::Limits;
use listener::http::{HttpSocket, Refusal, RequestBody, Site};
use tokio::net::TcpListener;

use crate::failure::{Exit, Failure, Outcome};
use crate::process::Process;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
/// A scraper needs one connection, and so does a health check. Both send their requests at once, so short time limits suffice.
const LIMITS: Limits = Limits {
    connections: 64,
    per_client: 16,
    first_request: Duration::from_secs(5),
    head: Duration::from_secs(5),
    idle: Duration::from_secs(90),
    answer: Duration::from_secs(10),
};

/// Binds the address, and answers requests until the process ends.
pub(crate) async fn serve(listen: SocketAddr, process: Process) -> Outcome {
    start(bind(listen).await?, process);
    Ok(())
}

/// Binds the address. The kernel queues connections until [`start`].
pub(crate) async fn bind(listen: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(listen).await.map_err(|error| {
        Failure::new(Exit::Local, error)
            .while_(format!("cannot listen on {listen} for metrics"))
            .try_("--metrics-listen with another address, or with port 0 for any")
    })
}

/// Answers requests until the process ends.
pub(crate) fn start(socket: impl Into<HttpSocket>, process: Process) {
    let socket = socket.into();
    if let Ok(address) = socket.local_addr() {
        // The kernel may have chosen the port, so the log names it.
        tracing::info!(%address, "serving metrics");
    }
    let site = Arc::new(MetricsSite(process));
    task::keep("metrics", listener::http::serve(socket, LIMITS, site, std::future::pending()));
}

struct MetricsSite(Process);

impl Site for MetricsSite {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        respond(&request, &self.0)
    }

    fn is_health(&self, uri: &Uri) -> bool {
        uri.path() == "/health"
    }

    fn refuse(&self, refusal: Refusal) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(refusal.text().as_bytes())));
        *response.status_mut() = refusal.status();
        response
    }
}

fn respond(request: &Request<RequestBody>, process: &Process) -> Response<Full<Bytes>> {
    let (status, kind, body) = match request.uri().path() {
        "/metrics" | "/health" if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n".to_owned())
        }
        "/metrics" => (StatusCode::OK, OPENMETRICS, process.metrics()),
        "/health" if process.healthy() => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/health" => {
            let mut why = process.subject().trouble();
            if why.is_empty() {
                let databases = process.subject().databases();
                why = databases.iter().map(|db| format!("{} is {}", db.database, db.state)).collect();
            }
            (StatusCode::SERVICE_UNAVAILABLE, TEXT, why.join("\n") + "\n")
        }
        _ => (StatusCode::NOT_FOUND, TEXT, "available: /metrics and /health\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
