//! The request to Nova. It is built from scratch: a header of a VM reaches Nova only if this module names it.
//!
//! A list of forbidden headers would not do. Nova trusts `X-Metadata-Provider` without any signature, and a WSGI server reads
//! `X_Instance_ID` as `X-Instance-ID`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write;
use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, USER_AGENT,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, StatusCode, Uri};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::identity::Instance;

/// Maximum length of a request's target.
const TARGET: usize = 8 << 10;
/// Maximum length of the client's name.
const AGENT: usize = 256;
/// The headers of an answer that reach the VM.
const ANSWERED: [HeaderName; 5] = [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, ETAG, LAST_MODIFIED];

/// The key of the signature, which Nova has as `metadata_proxy_shared_secret`.
#[derive(Clone, Default)]
pub struct SharedSecret(Zeroizing<String>);

impl SharedSecret {
    /// A secret.
    pub fn new(secret: String) -> Self {
        SharedSecret(Zeroizing::new(secret))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The signature of an instance's id, as Nova computes it.
    pub fn sign(&self, instance: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(instance.as_bytes());
        mac.finalize().into_bytes().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl std::fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}

/// Checks the head of a VM's request; returns its path and query, byte for byte.
pub fn target(method: &Method, uri: &Uri) -> Result<PathAndQuery, StatusCode> {
    let forwarded = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS, Method::DELETE];
    if method == Method::CONNECT {
        return Err(StatusCode::BAD_REQUEST);
    }
    if !forwarded.contains(method) {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    // A target with a host of its own could lead elsewhere.
    if uri.scheme().is_some() || uri.authority().is_some() {
        return Err(StatusCode::BAD_REQUEST);
    }
    let target = uri.path_and_query().ok_or(StatusCode::BAD_REQUEST)?;
    if target.as_str().len() > TARGET {
        return Err(StatusCode::URI_TOO_LONG);
    }
    if target.path().starts_with('/') { Ok(target.clone()) } else { Err(StatusCode::BAD_REQUEST) }
}

/// The headers of the request to Nova. `None` if an id is no header value: OVN's database had something else than an id.
pub fn headers(
    from_client: &HeaderMap,
    source: IpAddr,
    instance: &Instance,
    secret: &SharedSecret,
) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    let ours = [
        ("x-forwarded-for", source.to_canonical().to_string()),
        ("x-instance-id", instance.id.clone()),
        ("x-tenant-id", instance.project.clone()),
        ("x-instance-id-signature", secret.sign(&instance.id)),
    ];
    for (name, value) in ours {
        headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).ok()?);
    }
    // An answer that Nova compresses for us would reach clients that did not ask for it.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for name in [ACCEPT, CONTENT_TYPE, USER_AGENT] {
        let value = from_client.get(&name).filter(|value| name != USER_AGENT || value.len() <= AGENT);
        headers.extend(value.map(|value| (name, value.clone())));
    }
    Some(headers)
}

/// The headers of Nova's answer that reach the VM.
pub fn answered(from_nova: &HeaderMap) -> HeaderMap {
    let named = |name: &HeaderName| from_nova.get(name).map(|value| (name.clone(), value.clone()));
    ANSWERED.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1c0e3b2a-1111-4222-8333-444455556666";

    #[test]
    fn signatures_are_novas() {
        for (secret, signature) in [
            ("secret", "56d7bc0da598cc7c4880086f13bdd10725f2450d70823796dfb2b45d3fb6524a"),
            ("", "769b4205aa8d315ba7bcbd0d8f55b79cd0efc2121ea37ddd51de864af5d9f30d"),
        ] {
            assert_eq!(SharedSecret::new(secret.into()).sign(ID), signature);
        }
        assert_eq!(format!("{:?}", SharedSecret::new("secret".into())), "SharedSecret(..)");
    }

    #[test]
    fn no_header_of_a_vm_names_its_source() {
        let mut evil = HeaderMap::new();
        for name in [
            "x-forwarded-for",
            "x-instance-id",
            "x_instance_id",
            "x-tenant-id",
            "x-instance-id-signature",
            "x-metadata-provider",
            "x-metadata-provider-signature",
            "x-ovn-network-id",
            "x-neutron-router-id",
            "forwarded",
            "host",
            "connection",
            "transfer-encoding",
            "content-length",
            "accept-encoding",
            "cookie",
        ] {
            evil.insert(HeaderName::from_static(name), HeaderValue::from_static("evil"));
        }
        evil.insert(ACCEPT, HeaderValue::from_static("text/plain"));
        evil.insert(USER_AGENT, HeaderValue::from_str(&"a".repeat(257)).unwrap());
        let instance = Instance { id: ID.into(), project: "p1".into() };
        let source = "::ffff:10.0.1.5".parse().unwrap();
        let built = headers(&evil, source, &instance, &SharedSecret::new("secret".into())).unwrap();
        let mut shown: Vec<String> =
            built.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        let signature = "56d7bc0da598cc7c4880086f13bdd10725f2450d70823796dfb2b45d3fb6524a";
        assert_eq!(
            shown,
            [
                "accept-encoding: identity".to_owned(),
                "accept: text/plain".into(),
                "x-forwarded-for: 10.0.1.5".into(),
                format!("x-instance-id-signature: {signature}"),
                format!("x-instance-id: {ID}"),
                "x-tenant-id: p1".into(),
            ]
        );
        let bad = Instance { id: "a\r\nb".into(), project: "p1".into() };
        assert_eq!(headers(&evil, source, &bad, &SharedSecret::default()), None);
    }

    #[test]
    fn targets_are_passed_byte_for_byte_or_refused() {
        let check = |method: Method, uri: &str| {
            target(&method, &uri.parse().unwrap()).map(|target| target.to_string()).map_err(|s| s.as_u16())
        };
        for same in ["/", "/latest/../../x", "/%2e%2e/a", "//a", "/a?b=%0d%0a&c", "/a?"] {
            assert_eq!(check(Method::GET, same), Ok(same.to_owned()));
        }
        assert_eq!(check(Method::GET, "http://10.9.9.9/x"), Err(400));
        assert_eq!(check(Method::GET, "*"), Err(400));
        assert_eq!(check(Method::CONNECT, "10.9.9.9:80"), Err(400));
        assert_eq!(check(Method::TRACE, "/"), Err(405));
        assert_eq!(check(Method::GET, &format!("/{}", "a".repeat(9 << 10))), Err(414));
    }

    #[test]
    fn answers_keep_what_describes_their_body() {
        let mut nova = HeaderMap::new();
        for name in ["content-type", "content-encoding", "connection", "server", "set-cookie", "etag"] {
            nova.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        let mut names: Vec<String> = answered(&nova).keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(names, ["content-encoding", "content-type", "etag"]);
    }
}
