//! One request of a VM: from its head to the answer.

mod source;
mod turns;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, Uri};
use listener::Client;
use listener::http::{Refusal, RequestBody, Site};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

pub use self::source::SourceCheck;
use self::source::Sources;
use self::turns::Turns;
use crate::counts::Counters;
use crate::identity::IdentityTable;
use crate::neighbours::Neighbours;
use crate::nova::{Nova, NovaFailure, NovaRequest};
use crate::rate::{RateLimits, RateTable};
use crate::request::{self, SharedSecret};
use crate::throttle::LogThrottle;

/// Maximum size of a request's body. The one request that has a body, an instance's password, takes a kilobyte.
const BODY: usize = 64 << 10;

/// The body of an answer.
pub(crate) type AnswerBody = BoxBody<Bytes, std::io::Error>;

/// The parts of the proxy that all networks share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nova: Nova,
    pub(crate) secret: SharedSecret,
    pub(crate) rate: Option<RateLimits>,
    /// The time until which identities may be used.
    pub(crate) valid: Mutex<Option<Instant>>,
    turns: Turns,
    /// Time for a request's body.
    pub(crate) body: Duration,
    check: SourceCheck,
    log: Logs,
    pub(crate) counters: Counters,
}

/// Log lines that VMs can cause.
#[derive(Debug, Default)]
struct Logs {
    /// Nova refused a signature.
    refused: LogThrottle,
    /// A source is not, or may not be, the instance that has its address.
    source: LogThrottle,
}

impl Shared {
    pub(crate) fn new(
        nova: Nova,
        secret: SharedSecret,
        rate: Option<RateLimits>,
        body: Duration,
        check: SourceCheck,
    ) -> Self {
        let (valid, turns, log, counters) = Default::default();
        Shared { nova, secret, rate, valid, turns, body, check, log, counters }
    }

    fn is_valid(&self) -> bool {
        lock(&self.valid).is_some_and(|until| Instant::now() < until)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A network, as its listening sockets answer for it.
#[derive(Debug)]
pub(crate) struct Network {
    id: Uuid,
    shared: Arc<Shared>,
    sources: Sources,
    rate: Option<Mutex<RateTable>>,
}

impl Network {
    pub(crate) fn new(id: Uuid, shared: Arc<Shared>) -> Self {
        let rate = shared.rate.map(|limits| Mutex::new(RateTable::new(limits)));
        Network { id, shared, sources: Sources::default(), rate }
    }

    /// Replaces the identities.
    pub(crate) fn learn(&self, table: Option<IdentityTable>) {
        self.sources.set_table(table);
    }

    /// Replaces the neighbour table.
    pub(crate) fn set_neighbours(&self, neighbours: Option<Neighbours>) {
        self.sources.set_neighbours(neighbours);
    }

    /// Whether no instance is known here.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.table().is_none_or(|table| table.is_empty())
    }

    fn admits(&self, source: IpAddr) -> bool {
        let now = Instant::now().into_std();
        self.rate.as_ref().is_none_or(|rate| lock(rate).admits(source, now))
    }

    /// Answers a request from an address of this network.
    pub(crate) async fn answer_for(
        &self,
        source: IpAddr,
        request: Request<RequestBody>,
    ) -> Response<AnswerBody> {
        let answer = self.forward(source, request).await.unwrap_or_else(short);
        self.shared.counters.answered(answer.status().as_u16());
        answer
    }

    async fn forward(
        &self,
        source: IpAddr,
        request: Request<RequestBody>,
    ) -> Result<Response<AnswerBody>, StatusCode> {
        let target = request::target(request.method(), request.uri())?;
        if !self.admits(source) {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        let instance = self.instance(source)?;
        let headers = request::headers(request.headers(), source, &instance, &self.shared.secret);
        let headers = headers.ok_or(StatusCode::NOT_FOUND)?;
        let method = request.method().clone();
        let body =
            timeout(self.shared.body, body(request)).await.map_err(|_| StatusCode::REQUEST_TIMEOUT)??;
        let turn = self.shared.turns.take(&instance.id).await.ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        let begun = Instant::now();
        let asked = self.shared.nova.ask(&NovaRequest { method, target, headers, body }).await;
        self.shared.counters.asked(asked.as_ref().ok().map(|_| begun.elapsed()));
        let answer = asked.map_err(|failure| match failure {
            NovaFailure::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
            NovaFailure::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            NovaFailure::BrokeOff => StatusCode::BAD_GATEWAY,
        })?;
        if answer.status() == StatusCode::FORBIDDEN
            && let Some(omitted) = self.shared.log.refused.admit(Instant::now().into_std())
        {
            tracing::warn!(
                instance = instance.id,
                omitted,
                "Nova answered 403; see that metadata_proxy_shared_secret is the same here and in Nova's configuration"
            );
        }
        let (head, body) = answer.into_parts();
        // The turn ends with the body.
        let body = body.map_frame(move |frame| {
            let _ = &turn;
            frame
        });
        let mut answer = Response::new(BoxBody::new(body));
        *answer.status_mut() = head.status;
        *answer.headers_mut() = request::answered(&head.headers);
        Ok(answer)
    }
}

/// Reads the body of a request.
async fn body(request: Request<RequestBody>) -> Result<Bytes, StatusCode> {
    let told = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if told.is_some_and(|length: u64| length > BODY as u64) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    match Limited::new(request.into_body(), BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::BAD_REQUEST),
    }
}

impl Site for Network {
    type Body = AnswerBody;

    async fn answer(&self, request: Request<RequestBody>) -> Response<AnswerBody> {
        match request.extensions().get::<Client>().copied() {
            Some(Client::Address(source)) => self.answer_for(source, request).await,
            _ => short(StatusCode::BAD_REQUEST),
        }
    }

    fn is_health(&self, _: &Uri) -> bool {
        false
    }

    fn refuse(&self, refusal: Refusal) -> Response<AnswerBody> {
        short(refusal.status())
    }
}

/// An answer of our own.
pub(crate) fn short(status: StatusCode) -> Response<AnswerBody> {
    let reason = status.canonical_reason().unwrap_or("Error");
    let body = Full::new(Bytes::from(format!("{} {reason}\n", status.as_u16())));
    let mut answer = Response::new(body.map_err(|never: Infallible| match never {}).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}
