//! Who asks: the credentials of a request, and what they say.
//!
//! | back end | credentials | caller |
//! |---|---|---|
//! | [`Auth::open`] | any or none | an administrator |
//! | [`Auth::token`] | one secret in `X-Auth-Token` | an administrator |
//! | [`Auth::basic`] | a user of an htpasswd file | an administrator |
//! | [`Auth::keystone`] | a token of Keystone in `X-Auth-Token` | whoever Keystone says |
//!
//! What a caller may do is decided with the nouns, not here.

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

/// How to say who one is, with users of a file.
const BASIC: &str = "Basic realm=\"meridian\"";

/// How requests say who they are from.
#[derive(Debug)]
pub struct Auth(Kind);

#[derive(Debug)]
enum Kind {
    Open { project: String, trusted_hosts: Vec<String> },
    Token { digest: [u8; 32], project: String },
    Basic { users: Htpasswd, project: String },
    Keystone(Arc<Keystone>),
}

/// Why there is no caller.
#[derive(Debug)]
pub enum Denied {
    /// The credentials are missing or wrong; how to say better ones (`WWW-Authenticate`).
    Unauthorized(&'static str),
    /// They are good, and for something that this API has no use for.
    Forbidden(Fault),
    /// Nobody could be asked about them.
    Unavailable(Fault),
}

/// An API without credentials would be open to more than this machine.
#[derive(Debug, thiserror::Error)]
#[error(
    "listen on {0} without credentials: everybody who reaches it would be administrator. Choose an authentication, listen on \
     127.0.0.1, or insist"
)]
pub struct Exposed(SocketAddr);

impl Auth {
    /// Everybody is administrator, in `project`.
    pub fn open(project: impl Into<String>) -> Self {
        Auth(Kind::Open { project: project.into(), trusted_hosts: Vec::new() })
    }

    /// The same, also by these host names. Requests by other names may be a web page's.
    #[must_use]
    pub fn trusting(mut self, hosts: Vec<String>) -> Self {
        if let Kind::Open { trusted_hosts, .. } = &mut self.0 {
            *trusted_hosts = hosts;
        }
        self
    }

    /// If everybody is administrator, the host names that requests may be sent to.
    pub(crate) fn open_hosts(&self) -> Option<&[String]> {
        match &self.0 {
            Kind::Open { trusted_hosts, .. } => Some(trusted_hosts),
            _ => None,
        }
    }

    /// Whoever knows the token is administrator, in `project`.
    pub fn token(token: &Secret, project: impl Into<String>) -> Self {
        Auth(Kind::Token { digest: digest(token.expose()), project: project.into() })
    }

    /// Every user of a file is administrator, in `project`.
    pub fn basic(users: Htpasswd, project: impl Into<String>) -> Self {
        Auth(Kind::Basic { users, project: project.into() })
    }

    /// Keystone knows.
    pub fn keystone(keystone: impl Into<Arc<Keystone>>) -> Self {
        Auth(Kind::Keystone(keystone.into()))
    }

    /// Refuses an address that more than this machine reaches if no credentials are asked for, unless somebody `insists`.
    pub fn check_listen(&self, address: SocketAddr, insists: bool) -> Result<(), Exposed> {
        let open = matches!(self.0, Kind::Open { .. });
        if open && !insists && !address.ip().to_canonical().is_loopback() {
            Err(Exposed(address))
        } else {
            Ok(())
        }
    }

    /// Who a request is from; `client` is whoever sent it, as far as the network tells.
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
    Fault::unavailable("Too many credentials are being checked. Try again in a moment.")
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}

/// User and password of `Authorization: Basic`.
fn basic(headers: &HeaderMap) -> Option<(String, Secret)> {
    let (scheme, encoded) = text(headers, "authorization")?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, password)| (user.to_owned(), password.into()))
}

/// Secrets are kept and compared as digests, so that neither their length nor a dump tells of them.
fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests;
