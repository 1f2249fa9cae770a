//! The request to Nova: `POST /os-server-external-events`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::desired::{Notification, NovaEvent};
use crate::auth::keystone::{AskError, Keystone};

/// The time limit of Nova's response.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum number of events in one request.
const BATCH: usize = 200;

/// The address of Nova and the credentials for it.
#[derive(Clone, Debug)]
pub struct NovaSettings {
    /// The endpoint of its API.
    pub endpoint: NovaEndpoint,
    /// The source of tokens and of the catalog. Without it, requests carry no token.
    pub keystone: Option<Arc<Keystone>>,
    /// PEM certificates of further trusted authorities, besides the system's.
    pub ca_certificates: Option<Vec<u8>>,
}

/// The endpoint of Nova's API.
#[derive(Clone, Debug)]
pub enum NovaEndpoint {
    /// This URL, such as `http://nova:8774/v2.1`.
    Url(Url),
    /// The endpoint in Keystone's catalog.
    Catalog {
        /// The region; any if none.
        region: Option<String>,
        /// `public`, `internal` or `admin`.
        interface: String,
    },
}

impl NovaEndpoint {
    /// Parses a URL. Refuses one with a password, because each failure would log it.
    pub fn parse(text: &str) -> Result<Self, InvalidNovaUrl> {
        let url = Url::parse(text).ok().filter(|url| {
            let is_plain = url.username().is_empty() && url.password().is_none();
            let is_whole = url.query().is_none() && url.fragment().is_none() && !url.path().contains('@');
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && is_whole
        });
        url.map(NovaEndpoint::Url).ok_or(InvalidNovaUrl)
    }
}

/// A string that is not a URL of Nova.
#[derive(Debug, thiserror::Error)]
#[error("it is not a URL of Nova; expected http://HOST:8774/v2.1, without user, password or parameters")]
pub struct InvalidNovaUrl;

/// A client of Nova.
#[derive(Debug)]
pub struct NovaClient {
    http: reqwest::Client,
    settings: NovaSettings,
}

/// A failed request to Nova.
#[derive(Debug, thiserror::Error)]
pub enum NovaError {
    /// The certificates, or the TLS of the system, cannot be used.
    #[error("cannot prepare the connections to Nova")]
    Client(#[source] reqwest::Error),
    /// Keystone gives neither token nor catalog.
    #[error("cannot get a token for Nova")]
    Keystone(#[from] AskError),
    /// Keystone's catalog does not have Nova.
    #[error(
        "Keystone's catalog has no {0} endpoint of a compute service; set server.nova_url, or server.notify_nova = false"
    )]
    NoEndpoint(String),
    /// Nova does not answer.
    #[error("cannot reach Nova")]
    Send(#[from] reqwest::Error),
    /// Nova answers with an error.
    #[error("Nova replied {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; the user server.keystone_username needs the role service or admin there"
        }
        _ => "",
    }
}

/// Nova refused one event.
#[derive(Debug)]
pub(super) struct RefusedEvent(pub(super) u16);

impl std::error::Error for RefusedEvent {}

impl fmt::Display for RefusedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            422 => f.write_str("the instance has no host yet (422)"),
            0 => f.write_str("Nova's reply does not contain it"),
            code => write!(f, "Nova replied {code}"),
        }
    }
}

/// One event in the format of Nova's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ServerEvent {
    name: NovaEvent,
    server_uuid: Uuid,
    tag: Uuid,
    status: &'static str,
}

impl ServerEvent {
    pub(super) fn of(notification: &Notification) -> Option<Self> {
        let (server_uuid, tag) = (notification.instance, notification.port);
        Some(ServerEvent { name: notification.event?, server_uuid, tag, status: "completed" })
    }
}

/// Nova's result for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventOutcome {
    /// Nova accepted the event.
    Accepted,
    /// Nova does not know the instance.
    NoInstance,
    /// Nova refused the event with this code.
    Refused(u16),
}

#[derive(Serialize)]
struct Request<'e> {
    events: &'e [ServerEvent],
}

#[derive(Default, Deserialize)]
struct Answer {
    #[serde(default)]
    events: Vec<AnsweredEvent>,
}

#[derive(Deserialize)]
struct AnsweredEvent {
    name: String,
    server_uuid: Uuid,
    tag: Option<Uuid>,
    code: u16,
}

impl NovaClient {
    /// Creates a client without sending anything.
    pub fn new(settings: NovaSettings) -> Result<Self, NovaError> {
        let mut builder =
            reqwest::Client::builder().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = &settings.ca_certificates {
            for certificate in reqwest::Certificate::from_pem_bundle(pem).map_err(NovaError::Client)? {
                builder = builder.tls_certs_merge([certificate]);
            }
        }
        // Nova without TLS needs no authorities, which a small host may not have.
        if matches!(&settings.endpoint, NovaEndpoint::Url(url) if url.scheme() == "http") {
            builder = builder.tls_certs_only([]);
        }
        Ok(NovaClient { http: builder.build().map_err(NovaError::Client)?, settings })
    }

    /// Sends events, and returns the outcome of each, in their order.
    pub(super) async fn send(&self, events: &[ServerEvent]) -> Result<Vec<EventOutcome>, NovaError> {
        let mut outcomes = Vec::with_capacity(events.len());
        for batch in events.chunks(BATCH) {
            outcomes.extend(self.send_batch(batch).await?);
        }
        Ok(outcomes)
    }

    async fn send_batch(&self, events: &[ServerEvent]) -> Result<Vec<EventOutcome>, NovaError> {
        let mut url = self.url().await?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("os-server-external-events");
        }
        for last in [false, true] {
            let mut request = self.http.post(url.clone()).json(&Request { events });
            if let Some(keystone) = &self.settings.keystone {
                let token = if last { keystone.new_token().await? } else { keystone.token().await? };
                request = request.header("X-Auth-Token", token.expose());
            }
            let response = request.send().await?;
            match response.status() {
                StatusCode::OK => return Ok(vec![EventOutcome::Accepted; events.len()]),
                StatusCode::MULTI_STATUS => return Ok(outcomes(events, &response.json().await?)),
                // Nova knows none of the instances.
                StatusCode::NOT_FOUND if is_novas(response).await => {
                    return Ok(vec![EventOutcome::NoInstance; events.len()]);
                }
                StatusCode::NOT_FOUND => return Err(NovaError::Status(StatusCode::NOT_FOUND)),
                // Our token has expired or was revoked.
                StatusCode::UNAUTHORIZED if !last && self.settings.keystone.is_some() => {}
                status => return Err(NovaError::Status(status)),
            }
        }
        Err(NovaError::Status(StatusCode::UNAUTHORIZED))
    }

    async fn url(&self) -> Result<Url, NovaError> {
        match (&self.settings.endpoint, &self.settings.keystone) {
            (NovaEndpoint::Url(url), _) => Ok(url.clone()),
            (NovaEndpoint::Catalog { region, interface }, Some(keystone)) => {
                let found = keystone.endpoint("compute", interface, region.as_deref()).await?;
                found.ok_or_else(|| NovaError::NoEndpoint(interface.clone()))
            }
            (NovaEndpoint::Catalog { interface, .. }, None) => Err(NovaError::NoEndpoint(interface.clone())),
        }
    }
}

/// Whether a 404 is Nova's own, which names the kind of error, and not one of a wrong URL or of a proxy in between.
async fn is_novas(response: reqwest::Response) -> bool {
    response.json::<serde_json::Value>().await.is_ok_and(|body| body.get("itemNotFound").is_some())
}

fn outcomes(events: &[ServerEvent], answer: &Answer) -> Vec<EventOutcome> {
    let outcome = |event: &ServerEvent| {
        let answered = answer.events.iter().find(|answered| {
            answered.name == event.name.name()
                && answered.server_uuid == event.server_uuid
                && answered.tag == Some(event.tag)
        });
        match answered.map(|answered| answered.code) {
            Some(200) => EventOutcome::Accepted,
            Some(404) => EventOutcome::NoInstance,
            Some(code) => EventOutcome::Refused(code),
            None => EventOutcome::Refused(0),
        }
    };
    events.iter().map(outcome).collect()
}
