//! The target of a request: the segments of its path, its query, and the base of links.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use axum::http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;

use crate::Fault;

/// A decoded path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The segments of the path, without empty ones at the end and without a `.json`.
    pub(super) segments: Vec<String>,
    /// Whether the path ended with a slash.
    pub(super) slash: bool,
    /// The key-value pairs of the query, in order.
    pub(super) pairs: Vec<(String, String)>,
}

impl Target {
    /// Parses a path and a query. `keeps_suffix` returns whether a `.json` at the end is a part of a name.
    pub(super) fn parse(uri: &Uri, keeps_suffix: impl Fn(&[String]) -> bool) -> Result<Self, Fault> {
        let path = uri.path();
        let slash = path.ends_with('/');
        let mut segments = Vec::new();
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let decoded = percent_decode_str(segment)
                .decode_utf8()
                .map_err(|_| Fault::bad("The path is not UTF-8 when it is decoded"))?;
            segments.push(decoded.into_owned());
        }
        let keeps = keeps_suffix(&segments);
        if let Some(last) = segments.last_mut().filter(|_| !keeps)
            && last.len() > ".json".len()
            && let Some(plain) = last.strip_suffix(".json")
        {
            *last = plain.to_owned();
        }
        let query = uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Ok(Target { segments, slash, pairs })
    }

    /// The segments as string slices, for pattern matching.
    pub(super) fn parts(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }
}

/// The beginning of links: `http://host:9696`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base(String);

impl Base {
    /// The operator's prefix, or else the address that the request used. A malformed host is never copied into links.
    pub(super) fn of(headers: &HeaderMap, encrypted: bool, prefix: Option<&str>) -> Self {
        if let Some(prefix) = prefix {
            return Base(prefix.trim_end_matches('/').to_owned());
        }
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let scheme = match text("x-forwarded-proto") {
            _ if encrypted => "https",
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
            _ => "http",
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_[]".contains(&byte);
        let host = text("host").filter(|host| !host.is_empty() && host.bytes().all(plain));
        Base(format!("{scheme}://{}", host.unwrap_or("localhost")))
    }

    /// The link for a path.
    pub(super) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Neutron;
    use crate::http::HttpDialect;

    fn parse(uri: &str) -> Result<Target, Fault> {
        Target::parse(&uri.parse().unwrap(), |segments| Neutron.keeps_suffix(segments))
    }

    fn parsed(uri: &str) -> Target {
        parse(uri).unwrap()
    }

    #[test]
    fn paths_are_decoded_and_lose_what_carries_no_meaning() {
        for (uri, segments, slash) in [
            ("/", &[][..], true),
            ("/v2.0", &["v2.0"], false),
            ("/v2.0/", &["v2.0"], true),
            ("/v2.0/networks/", &["v2.0", "networks"], true),
            ("/v2.0//networks", &["v2.0", "networks"], false),
            ("/v2.0/quotas/p/details.json", &["v2.0", "quotas", "p", "details"], false),
            ("/v2.0/networks/7/tags/a.json", &["v2.0", "networks", "7", "tags", "a.json"], false),
            ("/v2.0/networks/7/tags.json", &["v2.0", "networks", "7", "tags"], false),
            ("/v2.0/.json", &["v2.0", ".json"], false),
            ("/v2.0/extensions/Availability%20Zone", &["v2.0", "extensions", "Availability Zone"], false),
            ("/openapi.json", &["openapi.json"], false),
            ("/v2.0/networks/..%2F..%2Fetc", &["v2.0", "networks", "../../etc"], false),
        ] {
            let target = parsed(uri);
            assert_eq!((target.parts().as_slice(), target.slash), (segments, slash), "{uri}");
        }
        assert_eq!(parse("/v2.0/%ff").unwrap_err().status, 400);
    }

    #[test]
    fn queries_keep_order_and_repeats() {
        let pairs = parsed("/v2.0/ports?a=1&b=x%20y&a=2&c").pairs;
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x y"), ("a", "2"), ("c", "")]);
    }

    #[test]
    fn links_begin_with_what_the_request_says_or_the_operator_chose() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            headers
        };
        for (pairs, prefix, base) in [
            (&[("host", "10.0.0.1:9696")][..], None, "http://10.0.0.1:9696/"),
            (&[("host", "[::1]:9696"), ("x-forwarded-proto", "https")], None, "https://[::1]:9696/"),
            (&[("host", "a"), ("x-forwarded-proto", "javascript")], None, "http://a/"),
            (&[("host", "a\"><script>")], None, "http://localhost/"),
            (&[], None, "http://localhost/"),
            (&[("host", "a")], Some("https://api.example/net/"), "https://api.example/net/"),
        ] {
            assert_eq!(Base::of(&headers(pairs), false, prefix).link("/"), base, "{pairs:?}");
        }
        assert_eq!(Base::of(&headers(&[("host", "a")]), true, None).link("/"), "https://a/");
    }
}
