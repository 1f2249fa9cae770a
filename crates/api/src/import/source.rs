//! A client that reads every collection of Neutron's or Octavia's API, page by page.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::Value;

use super::document::{Document, MEMBERS, NETWORK, POOLS, balancer_collections};
use crate::secret::{Secret, SecretUrl, redacted};

/// The number of objects per request; the server may return fewer.
const PAGE: usize = 500;
/// The time limit of one page. Neutron needs seconds for a few hundred ports.
const PATIENCE: Duration = Duration::from_secs(120);
/// Collections that older versions of Neutron, or those without the extension, do not have.
const OPTIONAL: [&str; 3] = ["address-scopes", "rbac-policies", "subnetpools"];
/// The root paths of the network API and of the load-balancer API.
const NETWORK_ROOT: &str = "v2.0";
const BALANCER_ROOT: &str = "v2.0/lbaas";

/// The credentials for the API.
#[derive(Clone, Default)]
pub enum Credentials {
    /// None: the API treats every caller as an administrator.
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

/// A failed import from an API.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The URL is malformed.
    #[error("\"{0}\" is no URL of an API; expected http://HOST:PORT")]
    Url(SecretUrl),
    /// The certificates or the system's TLS are unusable.
    #[error("prepare the connections to the API")]
    Client(#[source] reqwest::Error),
    /// No answer, or an answer that is not JSON.
    #[error("read {0}")]
    Read(String, #[source] reqwest::Error),
    /// The API answered with an error.
    #[error("read {path}: the API answered {status}: {text}")]
    Refused {
        /// The path of the request.
        path: String,
        /// The status of the response.
        status: StatusCode,
        /// The message of the response.
        text: String,
    },
    /// The response has an unexpected structure.
    #[error("read {0}: the answer has no list {1:?}")]
    Shape(String, &'static str),
}

impl SourceError {
    /// Whether the API answered, but refused the request.
    pub fn is_refusal(&self) -> bool {
        matches!(self, SourceError::Refused { .. })
    }
}

/// A client of the API of a cloud.
#[derive(Debug)]
pub struct Source {
    client: Client,
    base: Url,
    credentials: Credentials,
}

impl Source {
    /// Neutron's API at a URL, with or without `/v2.0`. Sends nothing yet. `ca_certificates` are PEM and trusted besides the system's.
    pub fn network(
        url: &str,
        credentials: Credentials,
        ca_certificates: Option<&[u8]>,
    ) -> Result<Self, SourceError> {
        Self::new(url, NETWORK_ROOT, credentials, ca_certificates)
    }

    /// Octavia's API at a URL, with or without `/v2.0/lbaas` or `/v2/lbaas`; otherwise like [`Source::network`].
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

    /// Reads all objects of a network API.
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

    /// Reads all objects of a load-balancer API. Members are listed by pool without its id, so this adds the id.
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
            // Links exist only if there are more objects. Their host may be unreachable from here, so they are not followed.
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
        // Quotas are keyed by project and have no id for a marker, so they come in one page.
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

/// The message in an error body.
fn reason(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let message = value["NeutronError"]["message"].as_str().or(value["error"]["message"].as_str());
    let message = message.or(value["faultstring"].as_str());
    message.unwrap_or(body).trim().chars().take(300).collect()
}
