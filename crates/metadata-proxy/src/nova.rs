//! The client of Nova's metadata API.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::tls::NovaTls;

/// Maximum number of idle connections to Nova.
const IDLE: usize = 32;
/// Time after which an idle connection is closed.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// The address of Nova's metadata API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NovaAddress {
    /// Host name, IPv4 address, or IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// TLS, if Nova wants it.
    pub tls: Option<NovaTls>,
}

impl NovaAddress {
    /// The part of a URL that names the server.
    fn authority(&self) -> Option<Authority> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port).parse().ok()
    }
}

/// Timeouts of requests to Nova.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NovaTimeouts {
    /// Of a connection.
    pub connect: Duration,
    /// Of an answer's head, and of each part of its body.
    pub answer: Duration,
}

/// Why Nova gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NovaFailure {
    /// It cannot be reached.
    Unreachable,
    /// It did not answer in time.
    TimedOut,
    /// It broke off.
    BrokeOff,
}

/// A request to Nova.
#[derive(Clone, Debug)]
pub struct NovaRequest {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
    /// All its headers but `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// The client.
#[derive(Clone, Debug)]
pub struct Nova {
    client: legacy::Client<Connector, Full<Bytes>>,
    authority: Authority,
    scheme: Scheme,
    timeouts: NovaTimeouts,
}

/// The configured host is no part of a URL.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a host name or an address")]
pub struct NotAHost(String);

impl Nova {
    /// A client, which does not connect before its first request.
    pub fn new(address: &NovaAddress, timeouts: NovaTimeouts) -> Result<Self, NotAHost> {
        let authority = address.authority().ok_or_else(|| NotAHost(address.host.clone()))?;
        let connector = Connector { address: address.clone(), limit: timeouts.connect };
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.pool_max_idle_per_host(IDLE).pool_idle_timeout(IDLE_FOR).pool_timer(TokioTimer::new());
        let scheme = if address.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        Ok(Nova { client: client.build(connector), authority, scheme, timeouts })
    }

    /// Sends a request and waits for the head of the answer.
    pub async fn ask(&self, request: &NovaRequest) -> Result<Response<NovaBody>, NovaFailure> {
        // A kept connection may have been closed by Nova a moment ago. Nothing is lost by asking again, unless it changes
        // something.
        let again = request.method == Method::GET || request.method == Method::HEAD;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let asked = timeout(self.timeouts.answer, self.client.request(self.request(request)?));
            match asked.await {
                Err(_) => return Err(NovaFailure::TimedOut),
                Ok(Ok(answer)) => return Ok(answer.map(|body| NovaBody::new(body, self.timeouts.answer))),
                Ok(Err(error)) => {
                    tracing::debug!(%error, attempts, "a request to Nova failed");
                    if error.is_connect() {
                        return Err(NovaFailure::Unreachable);
                    }
                    if !again || attempts > 1 {
                        return Err(NovaFailure::BrokeOff);
                    }
                }
            }
        }
    }

    fn request(&self, request: &NovaRequest) -> Result<Request<Full<Bytes>>, NovaFailure> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(request.target.clone());
        let uri = uri.build().map_err(|_| NovaFailure::BrokeOff)?;
        let mut built = Request::new(Full::new(request.body.clone()));
        *built.method_mut() = request.method.clone();
        *built.uri_mut() = uri;
        *built.headers_mut() = request.headers.clone();
        Ok(built)
    }
}

/// The body of Nova's answer, which ends with an error if nothing comes for too long.
#[derive(Debug)]
pub struct NovaBody {
    body: Incoming,
    limit: Duration,
    silence: Pin<Box<Sleep>>,
}

impl NovaBody {
    fn new(body: Incoming, limit: Duration) -> Self {
        NovaBody { body, limit, silence: Box::pin(sleep(limit)) }
    }
}

impl Body for NovaBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                let until = Instant::now() + self.limit;
                self.silence.as_mut().reset(until);
                Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
            }
            Poll::Pending => {
                self.silence.as_mut().poll(cx).map(|()| Some(Err(io::ErrorKind::TimedOut.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Connects to Nova, whatever a request's URL says.
#[derive(Clone, Debug)]
struct Connector {
    address: NovaAddress,
    limit: Duration,
}

impl Service<Uri> for Connector {
    type Response = NovaStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<NovaStream>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Connector { address, limit } = self.clone();
        Box::pin(async move {
            // Names are resolved each time, and all their addresses are tried.
            let resolving = lookup_host((address.host.as_str(), address.port));
            let peers = timeout(limit, resolving).await.map_err(|_| io::ErrorKind::TimedOut)??;
            first(peers, limit, |peer| connect(&address, peer)).await
        })
    }
}

/// Connects to the first address that takes it. Each has its own time: a silent one must not take that of the others.
async fn first<T, F: Future<Output = io::Result<T>>>(
    peers: impl Iterator<Item = SocketAddr>,
    limit: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for peer in peers {
        match timeout(limit, connect(peer)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
        tracing::debug!(error = %last, %peer, "cannot connect to Nova");
    }
    Err(last)
}

async fn connect(address: &NovaAddress, peer: SocketAddr) -> io::Result<NovaStream> {
    let stream = TcpStream::connect(peer).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = &address.tls else { return Ok(NovaStream::Plain(TokioIo::new(stream))) };
    let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(tls.load()?).connect(name, stream).await?;
    Ok(NovaStream::Tls(Box::new(TokioIo::new(stream))))
}

/// A connection to Nova.
#[derive(Debug)]
enum NovaStream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for NovaStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for NovaStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            NovaStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            NovaStream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl hyper::rt::Write for NovaStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            NovaStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            NovaStream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            NovaStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            NovaStream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            NovaStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            NovaStream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_leaves_the_next_one_its_time() {
        let limit = Duration::from_secs(5);
        let peers = || [1, 2, 3].map(|port| SocketAddr::from(([192, 0, 2, 1], port))).into_iter();
        let answering = |at: u16| {
            first(peers(), limit, move |peer| async move {
                match peer.port() {
                    1 => std::future::pending().await,
                    port if port == at => {
                        sleep(Duration::from_secs(1)).await;
                        Ok(port)
                    }
                    _ => Err(io::ErrorKind::ConnectionRefused.into()),
                }
            })
        };
        assert_eq!(answering(2).await.unwrap(), 2);
        assert_eq!(answering(3).await.unwrap(), 3);
        assert_eq!(answering(4).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let none = first(std::iter::empty(), limit, |_| async { Ok(()) }).await;
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
