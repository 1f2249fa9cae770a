//! The API of Neutron or Octavia as a client sees it: every collection, page by page.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::Value;

use super::document::{Document, MEMBERS, NETWORK, POOLS, balancer_collections};
use crate::secret::{Secret, SecretUrl, redacted};

/// How many objects are asked for at a time; the server may give fewer.
const PAGE: usize = 500;
/// How long one page may take. Neutron needs seconds for a few hundred ports.
const PATIENCE: Duration = Duration::from_secs(120);
/// Collections that an older Neutron, or one without the extension, does not have.
const OPTIONAL: [&str; 3] = ["address-scopes", "rbac-policies", "subnetpools"];
/// Where the network API begins, and where the load-balancer API does.
const NETWORK_ROOT: &str = "v2.0";
const BALANCER_ROOT: &str = "v2.0/lbaas";

/// How we show who we are.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Not at all: the API takes everybody for an administrator.
    #[default]
    None,
    /// A token.
    Token(Secret),
    /// A user with a password.
    Basic(String, Secret),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Token(_) => "Token",
            Credentials::Basic(..) => "Basic",
        })
    }
}

/// Why a cloud could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The URL is none.
    #[error("\"{0}\" is no URL of an API; expected http://HOST:PORT")]
    Url(SecretUrl),
    /// The certificates or the TLS of the system cannot be used.
    #[error("prepare the connections to the API")]
    Client(#[source] reqwest::Error),
    /// Nobody answers, or not with JSON.
    #[error("read {0}")]
    Read(String, #[source] reqwest::Error),
    /// The API refuses.
    #[error("read {path}: the API answered {status}: {text}")]
    Refused {
        /// What was asked for.
        path: String,
        /// The answer's status.
        status: StatusCode,
        /// What it said.
        text: String,
    },
    /// The answer is of another shape.
    #[error("read {0}: the answer has no list {1:?}")]
    Shape(String, &'static str),
}

impl SourceError {
    /// Whether the API was reached and refused us.
    pub fn is_refusal(&self) -> bool {
        matches!(self, SourceError::Refused { .. })
    }
}

/// The API that a cloud is read from.
#[derive(Debug)]
pub struct Source {
    client: Client,
    base: Url,
    credentials: Credentials,
}

impl Source {
    /// Neutron's API at a URL, with or without `/v2.0`; nothing is sent yet. `ca_certificates` in PEM are trusted besides the
    /// system's.
    pub fn network(
        url: &str,
        credentials: Credentials,
        ca_certificates: Option<&[u8]>,
    ) -> Result<Self, SourceError> {
        Self::new(url, NETWORK_ROOT, credentials, ca_certificates)
    }

    /// Octavia's API at a URL, with or without `/v2.0/lbaas` or `/v2/lbaas`; as [`Source::network`].
    pub fn balancers(
        url: &str,
        credentials: Credentials,
        ca_certificates: Option<&[u8]>,
    ) -> Result<Self, SourceError> {
        Self::new(url, BALANCER_ROOT, credentials, ca_certificates)
    }

    fn new(
        url: &str,
        root: &str,
        credentials: Credentials,
        ca_certificates: Option<&[u8]>,
    ) -> Result<Self, SourceError> {
        let wrong = || SourceError::Url(url.into());
        let trimmed = url.trim_end_matches('/').trim_end_matches("/lbaas");
        let trimmed = trimmed.trim_end_matches("/v2.0").trim_end_matches("/v2");
        let base = Url::parse(&format!("{trimmed}/{root}/")).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(wrong());
        }
        let mut builder = Client::builder().timeout(PATIENCE);
        if let Some(pem) = ca_certificates {
            for certificate in reqwest::Certificate::from_pem_bundle(pem).map_err(SourceError::Client)? {
                builder = builder.tls_certs_merge([certificate]);
            }
        }
        let client = builder.build().map_err(SourceError::Client)?;
        Ok(Source { client, base, credentials })
    }

    /// Reads all that a network API has.
    pub async fn read_network(&self) -> Result<Document, SourceError> {
        let mut document = Document::of_network();
        for (path, collection) in NETWORK {
            match self.collection(path, collection).await {
                Ok(objects) => document.add(collection, objects),
                Err(SourceError::Refused { status: StatusCode::NOT_FOUND, .. })
                    if OPTIONAL.contains(&path) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(document)
    }

    /// Reads all that a load-balancer API has. Members are listed by their pool and do not name it, so its id is added.
    pub async fn read_balancers(&self) -> Result<Document, SourceError> {
        let mut document = Document::of_balancers();
        for (path, collection) in balancer_collections() {
            document.add(collection, self.collection(path, collection).await?);
        }
        let pools = document.get(POOLS).iter().filter_map(|pool| pool["id"].as_str());
        let pools: Vec<String> = pools.map(str::to_owned).collect();
        for pool in pools {
            // The id becomes a part of a path.
            if !pool.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(SourceError::Shape("pools".to_owned(), "ids"));
            }
            let mut members = self.collection(&format!("pools/{pool}/{MEMBERS}"), MEMBERS).await?;
            members.iter_mut().filter_map(Value::as_object_mut).for_each(|member| {
                member.insert("pool_id".to_owned(), pool.clone().into());
            });
            document.add(MEMBERS, members);
        }
        Ok(document)
    }

    async fn collection(&self, path: &str, collection: &'static str) -> Result<Vec<Value>, SourceError> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let last = all.last().and_then(|object| object["id"].as_str()).map(str::to_owned);
            let mut answer = self.page(path, last.as_deref()).await?;
            let Some(Value::Array(objects)) = answer.get_mut(collection).map(Value::take) else {
                return Err(SourceError::Shape(path.to_owned(), collection));
            };
            // Links are there only if there is more; their host may be one that we do not reach, so they are not followed.
            let links = answer.get(format!("{collection}_links")).and_then(Value::as_array);
            let more = links.is_some_and(|links| links.iter().any(|link| link["rel"] == "next"));
            let done = !more || objects.is_empty();
            all.extend(objects);
            if done {
                return Ok(all);
            }
        }
    }

    async fn page(&self, path: &str, after: Option<&str>) -> Result<Value, SourceError> {
        let mut url = self.base.join(path).map_err(|_| SourceError::Url(path.into()))?;
        // Quotas are keyed by project, have no id that could be a marker, and come all at once.
        if path != "quotas" {
            let mut query = url.query_pairs_mut();
            query.append_pair("limit", &PAGE.to_string());
            if let Some(id) = after {
                query.append_pair("marker", id);
            }
        }
        let told = redacted(url.as_str());
        let answer = self.authorized(self.client.get(url)).send().await;
        let answer = answer.map_err(|error| SourceError::Read(told.clone(), error.without_url()))?;
        let status = answer.status();
        if status != StatusCode::OK {
            let text = answer.text().await.unwrap_or_default();
            return Err(SourceError::Refused { path: path.to_owned(), status, text: reason(&text) });
        }
        answer.json().await.map_err(|error| SourceError::Read(told, error.without_url()))
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.credentials {
            Credentials::None => request,
            Credentials::Token(token) => request.header("X-Auth-Token", token.expose()),
            Credentials::Basic(user, password) => request.basic_auth(user, Some(password.expose())),
        }
    }
}

/// What an error's body says, without its wrapping.
fn reason(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let message = value["NeutronError"]["message"].as_str().or(value["error"]["message"].as_str());
    let message = message.or(value["faultstring"].as_str());
    message.unwrap_or(body).trim().chars().take(300).collect()
}
