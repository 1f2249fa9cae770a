//! HTTP over a [`Listener`].

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tracing::debug;

use crate::activity::Activity;
use crate::limits::Limits;
use crate::listener::{Connection, Listener};
use crate::table::{RequestPlace, Table};

/// The most that is kept of a head, and of an answer between two writes.
const BUFFER: usize = 128 << 10;

/// A refusal that no service has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A request of HTTP/1.1 has no `Host`.
    NoHost,
    /// It has several.
    SeveralHosts,
    /// As many requests are being worked on as may be.
    Busy,
}

impl Refusal {
    /// The status to answer with.
    pub fn status(self) -> StatusCode {
        match self {
            Refusal::NoHost | Refusal::SeveralHosts => StatusCode::BAD_REQUEST,
            Refusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What to say.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::NoHost => "The request has no Host header.",
            Refusal::SeveralHosts => "The request has more than one Host header.",
            Refusal::Busy => "Too many requests are being worked on. Try again in a moment.",
        }
    }
}

/// What is served.
pub trait Site: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;

    /// Answers a request.
    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Whether a target is a health check, which is answered also when no other request is.
    fn is_health(&self, uri: &Uri) -> bool;

    /// The answer for a refusal.
    fn refuse(&self, refusal: Refusal) -> Response<Self::Body>;
}

/// Answers requests until `stop`; requests that have begun are finished.
pub async fn serve<S: Site>(
    listener: TcpListener,
    limits: Limits,
    site: Arc<S>,
    stop: impl Future<Output = ()> + Send,
) {
    let listener = Listener::new(listener, limits);
    let under_way = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.max_buf_size(BUFFER);
    listener
        .run(stop, |Connection { stream, activity }| {
            let (site, table) = (Arc::clone(&site), Arc::clone(&listener.table));
            let service = service_fn(move |request| {
                let (site, table, activity) = (Arc::clone(&site), Arc::clone(&table), Arc::clone(&activity));
                async move { Ok::<_, Infallible>(answer(&*site, &table, &activity, request).await) }
            });
            let connection = http.serve_connection(TokioIo::new(stream.framed()), service);
            let connection = under_way.watch(connection);
            async move {
                if let Err(error) = connection.await {
                    debug!(%error, "a connection ended badly");
                }
            }
        })
        .await;
    listener.drain(under_way.shutdown()).await;
}

async fn answer<S: Site>(
    site: &S,
    table: &Arc<Table>,
    activity: &Arc<Activity>,
    request: Request<Incoming>,
) -> Response<S::Body> {
    let _working = Working::begin(activity);
    let mut answer = match admit(site, table, &request) {
        Ok(_place) => {
            let body = |body| RequestBody { body, activity: Arc::clone(activity) };
            site.answer(request.map(body)).await
        }
        Err(refusal) => {
            let mut answer = site.refuse(refusal);
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            answer
        }
    };
    if activity.is_last() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn admit<S: Site>(
    site: &S,
    table: &Arc<Table>,
    request: &Request<Incoming>,
) -> Result<Option<RequestPlace>, Refusal> {
    match request.headers().get_all(HOST).iter().count() {
        0 if request.version() == Version::HTTP_11 => return Err(Refusal::NoHost),
        0 | 1 => {}
        _ => return Err(Refusal::SeveralHosts),
    }
    if site.is_health(request.uri()) {
        return Ok(None);
    }
    table.begin_request().map(Some).ok_or(Refusal::Busy)
}

/// The work on a request, which may also be dropped half-way.
struct Working<'a>(&'a Activity);

impl<'a> Working<'a> {
    fn begin(activity: &'a Activity) -> Self {
        activity.begin();
        Working(activity)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// The body of a request. While it is waited for, it is the client's turn.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    activity: Arc<Activity>,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.activity.wants_body(polled.is_pending());
        Poll::Ready(ready!(polled))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
