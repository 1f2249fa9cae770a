//! The HTTP endpoint for Prometheus and for health checks: `GET /metrics`, `GET /health`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::failure::{Exit, Failure, Outcome};
use crate::process::Process;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many may be connected; a scraper needs one.
const MOST_CLIENTS: usize = 32;

/// Listens, and answers until the process ends. Returns the address, which matters when port 0 was asked for.
pub(crate) async fn serve(listen: SocketAddr, process: Process) -> Outcome<SocketAddr> {
    let failed = |error| {
        Failure::new(Exit::Local, error)
            .while_(format!("cannot listen on {listen} for metrics"))
            .try_("another address with --metrics-listen, or port 0 for any")
    };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tracing::info!(%address, "serving metrics");
    tokio::spawn(accept(listener, process));
    Ok(address)
}

async fn accept(listener: TcpListener, process: Process) {
    let places = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: others may end soon.
                tracing::warn!(%error, "cannot take a metrics connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let process = process.clone();
        tokio::spawn(async move {
            let _place = place;
            let respond = service_fn(move |request| {
                let response = respond(&request, &process);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            if let Err(error) = http.serve_connection(TokioIo::new(stream), respond).await {
                tracing::debug!(%error, "a metrics connection ended badly");
            }
        });
    }
}

fn respond(request: &Request<Incoming>, process: &Process) -> Response<Full<Bytes>> {
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
        _ => (StatusCode::NOT_FOUND, TEXT, "there are /metrics and /health\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
