//! HTTP over a [`Listener`].

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::time::timeout_at;
use tracing::debug;

use crate::activity::Activity;
use crate::limits::Limits;
use crate::listener::{Client, Connection, Door, Listener};
use crate::table::{RequestPlace, Table};
use crate::tls::{ClientStream, TlsIdentity};

/// Maximum size of a request's head, and of the part of an answer between two writes.
const BUFFER: usize = 128 << 10;
/// How long the listener reads the rest of a body that the service did not read.
const UNWANTED: Duration = Duration::from_secs(1);
/// The maximum number of bytes of it.
const DISCARDED: usize = 64 << 20;

/// A refusal by the listener itself, before the service sees the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An HTTP/1.1 request has no `Host`.
    NoHost,
    /// The request has several `Host` headers.
    SeveralHosts,
    /// The maximum number of requests is in progress.
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

    /// The message for the client.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::NoHost => "The request has no Host header.",
            Refusal::SeveralHosts => "The request has more than one Host header.",
            Refusal::Busy => "Too many requests are in progress. Retry in a moment.",
        }
    }
}

/// The HTTP service behind a listener.
pub trait Site: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;

    /// Answers a request. Its extensions hold the [`Client`] that sent it, and the [`Scheme`] of the socket.
    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Whether a target is a health check, which the listener passes on even when it refuses other requests.
    fn is_health(&self, uri: &Uri) -> bool;

    /// Renders a refusal.
    fn refuse(&self, refusal: Refusal) -> Response<Self::Body>;
}

/// A listening socket for HTTP, encrypted or not.
#[derive(Debug)]
pub struct HttpSocket {
    tcp: TcpListener,
    tls: Option<Arc<TlsIdentity>>,
}

impl HttpSocket {
    /// A socket whose connections begin with a TLS handshake.
    pub fn encrypted(tcp: TcpListener, identity: Arc<TlsIdentity>) -> Self {
        HttpSocket { tcp, tls: Some(identity) }
    }

    /// The address, whose port the kernel may have chosen.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// The scheme of URLs that lead here.
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }
}

impl From<TcpListener> for HttpSocket {
    fn from(tcp: TcpListener) -> Self {
        HttpSocket { tcp, tls: None }
    }
}

impl Door for HttpSocket {
    type Stream = ClientStream;

    async fn next(&self) -> io::Result<(ClientStream, Client)> {
        let (stream, client) = self.tcp.next().await?;
        let stream = match &self.tls {
            Some(tls) => tls.accept(stream),
            None => ClientStream::Plain(stream),
        };
        Ok((stream, client))
    }

    fn prepare(stream: &ClientStream, limits: &Limits) {
        if let Some(stream) = stream.tcp() {
            <TcpListener as Door>::prepare(stream, limits);
        }
    }
}

/// The requests that a listening socket takes.
#[derive(Clone, Debug)]
pub struct Heads {
    /// Maximum size of a request's head.
    pub size: usize,
    /// The scheme of URLs that lead here.
    pub scheme: Scheme,
}

/// Answers requests until `stop`, then finishes the requests in progress.
pub async fn serve<S: Site>(
    socket: impl Into<HttpSocket>,
    limits: Limits,
    site: Arc<S>,
    stop: impl Future<Output = ()> + Send,
) {
    let socket = socket.into();
    let heads = Heads { size: BUFFER, scheme: socket.scheme() };
    serve_door(socket, heads, limits, site, stop).await;
}

/// Like [`serve`], for any socket that accepts connections.
pub async fn serve_door<D, S: Site>(
    door: D,
    heads: Heads,
    limits: Limits,
    site: Arc<S>,
    stop: impl Future<Output = ()> + Send,
) where
    D: Door<Stream: AsyncRead + AsyncWrite + Unpin>,
{
    let Heads { size, scheme } = heads;
    let listener = Listener::new(door, limits);
    // Each connection holds a receiver while it is open.
    let (stopping, _) = watch::channel(false);
    let mut http = http1::Builder::new();
    http.max_buf_size(size);
    listener
        .run(stop, |Connection { stream, activity }| {
            let (site, table) = (Arc::clone(&site), Arc::clone(&listener.table));
            let scheme = scheme.clone();
            let first = Arc::new(Notify::new());
            let until = activity.in_flight_until();
            let begun = Arc::clone(&first);
            let service = service_fn(move |mut request: Request<Incoming>| {
                begun.notify_one();
                request.extensions_mut().insert(scheme.clone());
                let (site, table, activity) = (Arc::clone(&site), Arc::clone(&table), Arc::clone(&activity));
                async move { Ok::<_, Infallible>(answer(&*site, &table, &activity, request).await) }
            });
            let connection = http.serve_connection(TokioIo::new(stream.framed()), service);
            let mut stopping = stopping.subscribe();
            async move {
                let mut connection = pin!(connection);
                let stop = async {
                    // The sender outlives all connections.
                    _ = stopping.wait_for(|stopping| *stopping).await;
                    // hyper would close a connection that has had no request at once. Its client would lose a request in flight.
                    _ = timeout_at(until, first.notified()).await;
                };
                let ended = tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = stop => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    debug!(%error, "a connection ended badly");
                }
            }
        })
        .await;
    stopping.send_replace(true);
    listener.drain(stopping.closed()).await;
}

async fn answer<S: Site>(
    site: &S,
    table: &Arc<Table>,
    activity: &Arc<Activity>,
    mut request: Request<Incoming>,
) -> Response<S::Body> {
    request.extensions_mut().insert(activity.client);
    let _working = Working::begin(activity);
    let mut answer = match admit(site, table, &request) {
        Ok(place) => {
            let unread = Arc::new(Mutex::new(None));
            let body = |body| RequestBody {
                body: Some(body),
                activity: Arc::clone(activity),
                unread: Arc::clone(&unread),
            };
            let answer = site.answer(request.map(body)).await;
            // The work has ended. A client that was rejected before its body was read must not hold a place by sending no more of it.
            drop(place);
            let body = unread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(body) = body {
                discard(body, activity).await;
            }
            answer
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

/// Marks a request as in progress until it is dropped, also if its work is cancelled.
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

/// Reads the rest of a body that the service left unread, so that its sender can read the answer. A slow sender loses it.
async fn discard(mut body: Incoming, activity: &Activity) {
    let reading = async {
        let mut size = 0;
        while size < DISCARDED
            && let Some(Ok(frame)) = poll_fn(|cx| poll(&mut body, activity, cx)).await
        {
            size += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    let _ = tokio::time::timeout(UNWANTED, reading).await;
}

fn poll(
    body: &mut Incoming,
    activity: &Activity,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    let polled = Pin::new(body).poll_frame(cx);
    activity.wants_body(polled.is_pending());
    Poll::Ready(ready!(polled))
}

/// The body of a request. While the service waits for it, the client has to act. The listener discards the unread rest once the answer is
/// known.
#[derive(Debug)]
pub struct RequestBody {
    /// Present until this value is dropped.
    body: Option<Incoming>,
    activity: Arc<Activity>,
    unread: Arc<Mutex<Option<Incoming>>>,
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = unread;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let activity = Arc::clone(&self.activity);
        match &mut self.body {
            Some(body) => poll(body, &activity, cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Incoming::size_hint).unwrap_or_default()
    }
}
