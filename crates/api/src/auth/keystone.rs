//! Keystone v3: validates tokens and caches the results.
//!
//! A valid token counts for a minute. Then Keystone is asked again, so a revoked token ends within that minute. While Keystone does not
//! answer, its last answer counts for five minutes at most, and never beyond the token's expiry. An invalid token is remembered for some
//! seconds, so that a client with an expired token does not overload Keystone.
//!
//! Only some validations run at once, and clients take turns. So one client's unknown tokens, or a slow Keystone, do not block all
//! requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use listener::Client;
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::json;
use tracing::{debug, warn};

use super::turns::{Room, Turns};
use super::{Denied, digest, too_many};
use crate::secret::{Secret, SecretUrl};
use crate::{BalancerRoles, Caller, Fault};

/// The maximum number of remembered tokens; beyond it the oldest are dropped.
const REMEMBERED: usize = 16_384;
/// The limits of validations and of requests that wait for one. Together they use less than half of the requests that the API's listener
/// admits. A reverse proxy is one client with many users, so one client may have half of the waiting requests.
const ROOM: Room = Room { checks: 128, waiting_per_client: 64, waiting: 256 };

/// The address of Keystone, and the account for it.
#[derive(Clone, Debug)]
pub struct KeystoneSettings {
    /// The URL, `http://host:5000/v3`, with or without the version.
    pub url: SecretUrl,
    /// The account that validates tokens. Without one, each token validates itself, which Keystone allows too.
    pub account: Option<Account>,
    /// PEM certificates of further trusted authorities, besides the system's.
    pub ca_certificates: Option<Vec<u8>>,
    /// The lifetime of cached results.
    pub memory: Memory,
}

impl KeystoneSettings {
    /// Keystone at a URL, where each token validates itself.
    pub fn at(url: impl Into<SecretUrl>) -> Self {
        KeystoneSettings { url: url.into(), account: None, ca_certificates: None, memory: Memory::default() }
    }
}

/// The lifetime of cached results, and the time limit of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// A valid token, without asking again.
    pub fresh: Duration,
    /// A valid token, while Keystone does not answer.
    pub stale: Duration,
    /// An invalid token.
    pub refused: Duration,
    /// The time-out of a request to Keystone.
    pub patience: Duration,
}

impl Default for Memory {
    fn default() -> Self {
        let [fresh, stale, refused, patience] = [60, 300, 5, 10].map(Duration::from_secs);
        Memory { fresh, stale, refused, patience }
    }
}

/// An account of Keystone.
#[derive(Clone)]
pub struct Account {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret,
    /// The name of the user's domain.
    pub user_domain: String,
    /// The name of the project.
    pub project: String,
    /// The name of the project's domain.
    pub project_domain: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Invalid settings for Keystone.
#[derive(Debug, thiserror::Error)]
pub enum KeystoneError {
    /// The URL is malformed.
    #[error("server.keystone_url: \"{0}\" is not a URL of Keystone; expected http://HOST:5000/v3")]
    Url(SecretUrl),
    /// The URL has a user, a password or parameters, which would be sent to every client and logged.
    #[error(
        "server.keystone_url: \"{0}\" may have no user, password or parameters; use keystone_username and keystone_password_file"
    )]
    Credentials(SecretUrl),
    /// The certificates or the system's TLS are unusable.
    #[error("prepare the connections to Keystone")]
    Client(#[source] reqwest::Error),
}

/// A client of Keystone with a cache of tokens.
#[derive(Debug)]
pub struct Keystone {
    client: reqwest::Client,
    tokens: Url,
    challenge: &'static str,
    memory: Memory,
    account: Option<Account>,
    own: tokio::sync::Mutex<Option<OwnToken>>,
    seen: Mutex<HashMap<[u8; 32], Seen>>,
    turns: Arc<Turns>,
}

/// A token of the server's own account.
#[derive(Debug)]
struct OwnToken {
    token: Secret,
    ends: Timestamp,
    /// The services in the catalog of the token.
    catalog: Vec<Service>,
}

/// A service in Keystone's catalog.
#[derive(Debug, Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

/// An endpoint of a service.
#[derive(Debug, Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region_id: Option<String>,
    url: String,
}

/// The cached result for a token.
#[derive(Clone, Debug)]
struct Seen {
    /// The caller, or the reason why there is none.
    caller: Result<Caller, Refusal>,
    at: Instant,
    /// The expiry of the token.
    ends: Timestamp,
}

/// The reason why a token gives no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// Keystone does not know the token, or it has expired.
    Unknown,
    /// The token is for another scope than a project, such as `a domain`.
    Scope(&'static str),
}

#[derive(Deserialize)]
struct Answer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    expires_at: Timestamp,
    user: User,
    #[serde(default)]
    project: Option<Named>,
    /// Set if the token is for a domain itself: a project's domain is inside the project.
    #[serde(default)]
    domain: Option<serde::de::IgnoredAny>,
    /// Set if the token is for the whole deployment.
    #[serde(default)]
    system: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    roles: Vec<Named>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct User {
    id: String,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    name: String,
}

/// A failed request to Keystone.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Keystone does not answer, or its answer does not parse.
    #[error("ask Keystone")]
    Send(#[from] reqwest::Error),
    /// Keystone answered the validation with an error.
    #[error("ask Keystone about a token: it replied {0}")]
    Status(StatusCode),
    /// Keystone refused our account.
    #[error("log in to Keystone: it replied {0}")]
    Login(StatusCode),
}

impl Keystone {
    /// Creates a client without sending anything.
    pub fn new(settings: &KeystoneSettings) -> Result<Self, KeystoneError> {
        let trimmed = settings.url.expose().trim_end_matches('/');
        let versioned = if trimmed.ends_with("/v3") { trimmed.to_owned() } else { format!("{trimmed}/v3") };
        let wrong = || KeystoneError::Url(settings.url.clone());
        let tokens = Url::parse(&format!("{versioned}/auth/tokens")).map_err(|_| wrong())?;
        if !matches!(tokens.scheme(), "http" | "https") || !tokens.has_host() {
            return Err(wrong());
        }
        // A password with a slash ends the host, so the rest of it is in the path, followed by the @.
        let is_in_path = tokens.path().contains('@');
        if !tokens.username().is_empty()
            || tokens.password().is_some()
            || tokens.query().is_some()
            || tokens.fragment().is_some()
            || is_in_path
        {
            return Err(KeystoneError::Credentials(settings.url.clone()));
        }
        let mut builder = reqwest::Client::builder()
            .timeout(settings.memory.patience)
            .redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = &settings.ca_certificates {
            for certificate in reqwest::Certificate::from_pem_bundle(pem).map_err(KeystoneError::Client)? {
                builder = builder.tls_certs_merge([certificate]);
            }
        }
        let challenge = format!("Keystone uri=\"{}\"", versioned.trim_end_matches("/v3"));
        Ok(Keystone {
            client: builder.build().map_err(KeystoneError::Client)?,
            tokens,
            // Leaked once per process, for the header of every 401.
            challenge: challenge.leak(),
            memory: settings.memory,
            account: settings.account.clone(),
            own: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            turns: Turns::new(ROOM),
        })
    }

    pub(super) fn denied(&self) -> Denied {
        Denied::Unauthorized(self.challenge)
    }

    fn refused(&self, refusal: Refusal) -> Denied {
        match refusal {
            Refusal::Unknown => self.denied(),
            Refusal::Scope(of) => {
                let text = format!(
                    "The token is scoped to {of}: the network API takes tokens that are scoped to a project."
                );
                Denied::Forbidden(Fault::new(403, "InvalidScope", text))
            }
        }
    }

    /// The caller of a token; `client` sent the request.
    pub(super) async fn caller(&self, client: Client, token: &str) -> Result<Caller, Denied> {
        let id = digest(token);
        if let Some(answer) = self.current(&id) {
            return answer;
        }
        let Ok(_turn) = self.turns.next(client).await else {
            return self.last_good(&id).ok_or_else(|| Denied::Unavailable(too_many()));
        };
        // Another request with this token may have been answered in the meantime.
        if let Some(answer) = self.current(&id) {
            return answer;
        }
        match self.ask(token).await {
            Ok(answer) => {
                let seen = Seen::of(answer);
                let caller = seen.caller.clone();
                self.remember(id, seen);
                caller.map_err(|refusal| self.refused(refusal))
            }
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "Keystone does not answer");
                self.last_good(&id).ok_or_else(|| {
                    Denied::Unavailable(Fault::unavailable(
                        "Cannot reach the identity service, so the token cannot be checked.",
                    ))
                })
            }
        }
    }

    /// A cached result that needs no new validation.
    fn current(&self, id: &[u8; 32]) -> Option<Result<Caller, Denied>> {
        let seen = self.remembered(id)?;
        let lasts = if seen.caller.is_ok() { self.memory.fresh } else { self.memory.refused };
        (seen.at.elapsed() < lasts).then(|| seen.caller.map_err(|refusal| self.refused(refusal)))
    }

    /// A valid cached result that still counts while Keystone does not answer.
    fn last_good(&self, id: &[u8; 32]) -> Option<Caller> {
        let seen = self.remembered(id)?;
        seen.caller.ok().filter(|_| seen.at.elapsed() < self.memory.stale)
    }

    /// The cached result, unless the token has expired.
    fn remembered(&self, id: &[u8; 32]) -> Option<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        seen.filter(|seen| seen.caller.is_err() || seen.ends > Timestamp::now())
    }

    fn remember(&self, id: [u8; 32], seen: Seen) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.retain(|_, seen| seen.at.elapsed() < self.memory.fresh && seen.caller.is_ok());
        }
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(id, seen);
    }

    /// Validates a token with Keystone; none if it is invalid.
    async fn ask(&self, token: &str) -> Result<Option<Token>, AskError> {
        if self.account.is_none() {
            let response = self.send(token, token).await?;
            return match response.status() {
                // The token also authenticates the request, so an invalid one can fail in either way.
                StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => Ok(None),
                _ => read(response).await.map(Some),
            };
        }
        for last in [false, true] {
            let own = self.own_token(last).await?;
            let response = self.send(own.expose(), token).await?;
            match response.status() {
                StatusCode::NOT_FOUND => return Ok(None),
                // Our own token has expired or was revoked.
                StatusCode::UNAUTHORIZED if !last => {
                    debug!("Keystone rejected the server's token; requesting a new one")
                }
                _ => return read(response).await.map(Some),
            }
        }
        Err(AskError::Status(StatusCode::UNAUTHORIZED))
    }

    async fn send(&self, own: &str, subject: &str) -> Result<reqwest::Response, AskError> {
        let mut url = self.tokens.clone();
        // The catalog is the largest part of the response, and nothing here reads it.
        url.set_query(Some("nocatalog"));
        let request = self.client.get(url);
        Ok(request.header("X-Auth-Token", own).header("X-Subject-Token", subject).send().await?)
    }

    /// Whether the server has an account, which requests to other services need.
    pub fn has_account(&self) -> bool {
        self.account.is_some()
    }

    /// A token of the account, for requests to other services.
    pub async fn token(&self) -> Result<Secret, AskError> {
        self.own_token(false).await
    }

    /// A new token of the account, after a service has refused the old one.
    pub async fn new_token(&self) -> Result<Secret, AskError> {
        self.own_token(true).await
    }

    /// The URL of a service in the catalog, by its type, such as `compute`. None if the catalog has no such endpoint.
    pub async fn endpoint(
        &self,
        service: &str,
        interface: &str,
        region: Option<&str>,
    ) -> Result<Option<Url>, AskError> {
        self.own_token(false).await?;
        let own = self.own.lock().await;
        let services = own.iter().flat_map(|own| &own.catalog).filter(|it| it.kind == service);
        let endpoint = services.flat_map(|it| &it.endpoints).find(|endpoint| {
            endpoint.interface == interface
                && region.is_none_or(|it| endpoint.region_id.as_deref() == Some(it))
        });
        Ok(endpoint.and_then(|endpoint| Url::parse(&endpoint.url).ok()))
    }

    /// A token of our account. Requests one if there is none, if it expires soon or if `new` is set.
    async fn own_token(&self, new: bool) -> Result<Secret, AskError> {
        let mut own = self.own.lock().await;
        let soon = Timestamp::now() + Duration::from_secs(60);
        if let Some(own) = &*own
            && !new
            && own.ends > soon
        {
            return Ok(own.token.clone());
        }
        let Some(account) = &self.account else { return Err(AskError::Login(StatusCode::UNAUTHORIZED)) };
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": account.username, "password": account.password.expose(), "domain": {"name": account.user_domain},
            }}},
            "scope": {"project": {"name": account.project, "domain": {"name": account.project_domain}}},
        }});
        let response = self.client.post(self.tokens.clone()).json(&body).send().await?;
        let status = response.status();
        let subject = response.headers().get("x-subject-token").and_then(|value| value.to_str().ok());
        let Some(token) = subject.filter(|_| status == StatusCode::CREATED).map(Secret::from) else {
            return Err(AskError::Login(status));
        };
        let Token { expires_at: ends, catalog, .. } = response.json::<Answer>().await?.token;
        *own = Some(OwnToken { token: token.clone(), ends, catalog });
        Ok(token)
    }
}

async fn read(response: reqwest::Response) -> Result<Token, AskError> {
    match response.status() {
        StatusCode::OK => Ok(response.json::<Answer>().await?.token),
        status => Err(AskError::Status(status)),
    }
}

impl Seen {
    fn of(token: Option<Token>) -> Self {
        let at = Instant::now();
        match token {
            Some(token) => Seen { ends: token.expires_at, caller: token.caller(), at },
            None => Seen { ends: Timestamp::MAX, caller: Err(Refusal::Unknown), at },
        }
    }
}

impl Token {
    /// The caller with Keystone's roles. Keystone usually lists implied roles too; they are added here in case the operator removed the
    /// implication.
    ///
    /// A role counts in the token's project. An administrator of a domain is not one of the cloud, so tokens for domains and for the system
    /// are refused, like the `scope_types` of Neutron's policies do. A token without scope has no roles.
    fn caller(self) -> Result<Caller, Refusal> {
        let project = match self {
            Token { project: Some(project), .. } => project.id,
            Token { domain: Some(_), .. } => return Err(Refusal::Scope("a domain")),
            Token { system: Some(_), .. } => return Err(Refusal::Scope("the system")),
            Token { .. } => String::new(),
        };
        let has = |role: &str| {
            !project.is_empty() && self.roles.iter().any(|it| it.name.eq_ignore_ascii_case(role))
        };
        let admin = has("admin");
        let manager = admin || has("manager");
        let member = manager || has("member");
        Ok(Caller {
            admin,
            manager,
            member,
            reader: member || has("reader"),
            service: has("service"),
            auditor: false,
            balancer: BalancerRoles {
                admin: has("load-balancer_admin"),
                member: has("load-balancer_member"),
                observer: has("load-balancer_observer"),
                global_observer: has("load-balancer_global_observer"),
                quota_admin: has("load-balancer_quota_admin"),
            },
            user: self.user.id,
            project,
        })
    }
}
