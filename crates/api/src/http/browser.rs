//! Detects requests that a web page may have sent without its user's knowledge.
//!
//! An API without credentials on 127.0.0.1 is open to every page in a browser on the same machine, because pages may send requests to any
//! address. Three properties identify such requests; programs do not have them:
//!
//! * `Host` is a name of the page's own that resolves to 127.0.0.1 (DNS rebinding). A name must be `localhost` or a trusted one. An address
//!   is always accepted, because the page would then have come from this server.
//! * `Origin` differs from the request's target, or `Sec-Fetch-Site` reports that.
//! * A body that a browser sends without a preflight request never has a JSON content type.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::Ipv6Addr;

use axum::http::{HeaderMap, header};

use crate::Fault;

/// Refuses a request that may come from a web page. `trusted` are host names besides `localhost`.
pub(super) fn check(headers: &HeaderMap, trusted: &[String]) -> Result<(), Fault> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("\0"));
    let host = text("host");
    if let Some(host) = host
        && !is_own(host, trusted)
    {
        return Err(refused(
            "The Host of the request is not this machine's. Without authentication only IP addresses, localhost and \
             server.trusted_hosts are answered",
        ));
    }
    if let Some(origin) = text("origin") {
        let at = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if at.is_none() || at != host {
            return Err(refused(
                "The Origin of the request is another site. Without authentication no web page is answered",
            ));
        }
    }
    if text("sec-fetch-site").is_some_and(|site| !["same-origin", "none"].contains(&site)) {
        return Err(refused(
            "The request was made by a page of another site. Without authentication no web page is answered",
        ));
    }
    Ok(())
}

/// Refuses a body without a JSON content type.
pub(super) fn check_body(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default()) {
        Some(kind) if is_json(kind) => Ok(()),
        _ => Err(Fault::new(
            415,
            "HTTPUnsupportedMediaType",
            "Without authentication the Content-Type of a body has to be application/json.",
        )),
    }
}

fn refused(text: &str) -> Fault {
    Fault::new(403, "HTTPForbidden", format!("{text}."))
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// Whether no foreign page can reach this server under a `Host`.
fn is_own(host: &str, trusted: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
        }
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<std::net::Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || trusted.iter().any(|trusted| name.eq_ignore_ascii_case(trusted))
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pairs: &[(&'static str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        check(&headers, &["api.example".to_owned()]).map_or_else(|fault| fault.status, |()| 200)
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for good in [
            "127.0.0.1:9696",
            "127.0.0.1",
            "192.0.2.1:80",
            "[::1]:9696",
            "[::1]",
            "localhost:9696",
            "LOCALHOST",
            "localhost.",
            "api.example:9696",
        ] {
            assert_eq!(status(&[("host", good)]), 200, "{good}");
        }
        for bad in [
            "evil.example:9696",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "[evil]",
            "a:b:c",
        ] {
            assert_eq!(status(&[("host", bad)]), 403, "{bad}");
        }
        assert_eq!(status(&[]), 200, "no browser leaves it out");
    }

    #[test]
    fn no_page_of_another_site_is_answered() {
        let host = ("host", "127.0.0.1:9696");
        for (origin, wanted) in [
            ("http://127.0.0.1:9696", 200),
            ("http://127.0.0.1:8080", 403),
            ("http://localhost:9696", 403),
            ("https://evil.example", 403),
            ("null", 403),
            ("", 403),
        ] {
            assert_eq!(status(&[host, ("origin", origin)]), wanted, "{origin}");
        }
        for (site, wanted) in [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403)] {
            assert_eq!(status(&[host, ("sec-fetch-site", site)]), wanted, "{site}");
        }
    }

    #[test]
    fn a_body_has_to_say_that_it_is_json() {
        for (kind, good) in [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("text/plain"), false),
            (Some("application/x-www-form-urlencoded"), false),
            (Some("multipart/form-data; x=application/json"), false),
            (None, false),
        ] {
            let headers = kind.map(|kind| (header::CONTENT_TYPE, kind.parse().unwrap()));
            let outcome = check_body(&headers.into_iter().collect());
            assert_eq!(
                outcome.map_err(|fault| fault.status),
                if good { Ok(()) } else { Err(415) },
                "{kind:?}"
            );
        }
    }
}
