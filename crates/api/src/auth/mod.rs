//! Authentication: the credentials of a request, and the caller that they give.
//!
//! | back end | credentials | caller |
//! |---|---|---|
//! | [`Auth::open`] | any or none | an administrator |
//! | [`Auth::token`] | one secret in `X-Auth-Token` | an administrator |
//! | [`Auth::basic`] | a user of an htpasswd file | an administrator |
//! | [`Auth::keystone`] | a token of Keystone in `X-Auth-Token` | the token's user and roles |
//!
//! The nouns decide what a caller may do, not this module.

pub mod htpasswd;
pub mod keystone;
mod turns;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listener::Client;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::secret::Secret;
use crate::{Caller, Fault};
use htpasswd::Htpasswd;
use keystone::Keystone;
pub use turns::TooManyChecks;

/// The challenge of HTTP Basic authentication.
const BASIC: &str = "Basic realm=\"meridian\"";

/// The authentication of an API.
#[derive(Debug)]
pub struct Auth(Kind);

#[derive(Debug)]
enum Kind {
    Open { project: String, trusted_hosts: Vec<String> },
    Token { digest: [u8; 32], project: String },
    Basic { users: Htpasswd, project: String },
    Keystone(Arc<Keystone>),
}

/// A failed authentication.
#[derive(Debug)]
pub enum Denied {
    /// The credentials are missing or wrong. Contains the challenge (`WWW-Authenticate`).
    Unauthorized(&'static str),
    /// The credentials are valid, but not for this API.
    Forbidden(Fault),
    /// The credentials could not be checked.
    Unavailable(Fault),
}

/// The refusal to serve an API without credentials to more than this machine.
#[derive(Debug, thiserror::Error)]
#[error(
    "listen on {0} without credentials: every client that reaches it would be administrator. Set server.auth, listen on \
     127.0.0.1, or set server.allow_remote_noauth"
)]
pub struct ExposedWithoutAuth(SocketAddr);

impl Auth {
    /// Every caller is an administrator, in `project`.
    pub fn open(project: impl Into<String>) -> Self {
        Auth(Kind::Open { project: project.into(), trusted_hosts: Vec::new() })
    }

    /// Accepts requests with these host names too. Requests with other names may come from a web page.
    #[must_use]
    pub fn trusting(mut self, hosts: Vec<String>) -> Self {
        if let Kind::Open { trusted_hosts, .. } = &mut self.0 {
            *trusted_hosts = hosts;
        }
        self
    }

    /// The trusted host names, if the API needs no credentials.
    pub(crate) fn open_hosts(&self) -> Option<&[String]> {
        match &self.0 {
            Kind::Open { trusted_hosts, .. } => Some(trusted_hosts),
            _ => None,
        }
    }

    /// A caller with the token is an administrator, in `project`.
    pub fn token(token: &Secret, project: impl Into<String>) -> Self {
        Auth(Kind::Token { digest: digest(token.expose()), project: project.into() })
    }

    /// Every user of a file is an administrator, in `project`.
    pub fn basic(users: Htpasswd, project: impl Into<String>) -> Self {
        Auth(Kind::Basic { users, project: project.into() })
    }

    /// Keystone validates the token.
    pub fn keystone(keystone: impl Into<Arc<Keystone>>) -> Self {
        Auth(Kind::Keystone(keystone.into()))
    }

    /// Refuses a non-loopback address if the API needs no credentials, unless the operator `insists`.
    pub fn check_listen(&self, address: SocketAddr, insists: bool) -> Result<(), ExposedWithoutAuth> {
        let open = matches!(self.0, Kind::Open { .. });
        if open && !insists && !address.ip().to_canonical().is_loopback() {
            Err(ExposedWithoutAuth(address))
        } else {
            Ok(())
        }
    }

    /// The caller of a request; `client` is its sender, as far as the network shows.
    pub async fn caller(&self, client: Client, headers: &HeaderMap) -> Result<Caller, Denied> {
        match &self.0 {
            Kind::Open { project, .. } => Ok(Caller::admin(project)),
            Kind::Token { digest: expected, project } => match text(headers, "x-auth-token") {
                Some(token) if bool::from(digest(token).ct_eq(expected)) => Ok(Caller::admin(project)),
                _ => Err(Denied::Unauthorized("Token")),
            },
            Kind::Basic { users, project } => match basic(headers) {
                Some((user, password)) => match users.verify(client, &user, password.expose()).await {
                    Ok(true) => Ok(Caller { user, ..Caller::admin(project) }),
                    Ok(false) => Err(Denied::Unauthorized(BASIC)),
                    Err(TooManyChecks) => Err(Denied::Unavailable(too_many())),
                },
                None => Err(Denied::Unauthorized(BASIC)),
            },
            Kind::Keystone(keystone) => match text(headers, "x-auth-token") {
                Some(token) => keystone.caller(client, token).await,
                None => Err(keystone.denied()),
            },
        }
    }
}

fn too_many() -> Fault {
    Fault::unavailable("Too many credentials are being checked. Retry in a moment.")
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}

/// The user and password of `Authorization: Basic`.
fn basic(headers: &HeaderMap) -> Option<(String, Secret)> {
    let (scheme, encoded) = text(headers, "authorization")?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, password)| (user.to_owned(), password.into()))
}

/// Secrets are stored and compared as digests, so that comparisons do not reveal their length, nor a dump the secrets.
fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests;
