//! Passwords, tokens, and URLs that may contain them. Code can use them but not print them.
//!
//! More people read a log, an error or a printed configuration than the file that the secret came from. So these types reveal it only
//! through [`Secret::expose`] and [`SecretUrl::expose`], which are easy to search for.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::net::Ipv4Addr;

use zeroize::Zeroizing;

/// The replacement of a hidden part.
pub const HIDDEN: &str = "[hidden]";

/// A password or a token. Dropping it overwrites its memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The secret itself, for authentication.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::from(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// A URL that may contain a password, or a malformed one. It prints without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(Secret);

impl SecretUrl {
    /// The whole URL.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl<T: Into<Secret>> From<T> for SecretUrl {
    fn from(text: T) -> Self {
        SecretUrl(text.into())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redacted(self.expose()))
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(self.expose()))
    }
}

/// The known schemes of URLs.
const SCHEMES: [&str; 5] = ["http", "https", "postgres", "postgresql", "sqlite"];

/// Parameters whose values are not secret. All other values are hidden.
const SHOWN: [&str; 12] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "user",
];

/// A string without possible passwords, whether or not it is a valid URL. Anything that is not certainly harmless is hidden: people forget
/// to encode `@`, `/` and `?` in a password, and mistype schemes.
pub fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        // Not a URL. A plain name or a path may help to find the mistake.
        let harmless = !text.contains(['@', '=', ':', ' ', '?', '&', '%', '#']);
        return if harmless { text.to_owned() } else { HIDDEN.to_owned() };
    };
    let mut letters = scheme.chars();
    let plain = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    if !plain {
        return HIDDEN.to_owned();
    }
    // With another scheme, the rest may be anything: in `u://s3cret@h` the user could be a secret.
    if !SCHEMES.contains(&scheme) {
        return format!("{scheme}://{HIDDEN}");
    }
    // An `@` may be a part of the password; only the last one certainly ends it.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((who, rest)) => {
            let user = who.split([':', '/', '@', '?', '#', '%', '&']).next().unwrap_or_default();
            // After a `?`, the `@` may also belong to a parameter.
            if who.contains(['?', '#']) {
                return format!("{scheme}://{user}@{HIDDEN}");
            }
            (Some(user), rest)
        }
        None => (None, rest),
    };
    let (address, query) = match rest.split_once(['?', '#']) {
        Some((address, query)) => (address, Some(query)),
        None => (rest, None),
    };
    let (host, path) = match address.find('/') {
        Some(at) => address.split_at(at),
        None => (address, ""),
    };
    let mut out = format!("{scheme}://");
    if let Some(user) = user {
        out.push_str(user);
        out.push('@');
    }
    // `postgres://user:123` is a user and a password without a host. In HTTP URLs, ports are usual and users are not.
    let certain = user.is_some() || scheme.starts_with("http");
    out.push_str(&of_host(host, certain));
    out.push_str(if path.contains([':', '#', '%']) { "/[hidden]" } else { path });
    if let Some(query) = query {
        let pairs: Vec<_> = query.split('&').map(of_pair).collect();
        out.push('?');
        out.push_str(&pairs.join("&"));
    }
    out
}

/// One host, or several as PostgreSQL accepts them, with their ports. Unless it is `certain` that these are hosts, a name and a number may
/// be a user and a password.
fn of_host(hosts: &str, certain: bool) -> String {
    let one = |host: &str| {
        let (name, port) = match host.rsplit_once(':') {
            // An IPv6 address in brackets.
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (host, None),
        };
        let bracketed = name.starts_with('[') && name.ends_with(']');
        let is_host = certain || bracketed || name == "localhost" || name.parse::<Ipv4Addr>().is_ok();
        let name = if name.contains(':') && !bracketed { HIDDEN } else { name };
        match port {
            None => name.to_owned(),
            Some(port) if is_host && port.parse::<u16>().is_ok() => format!("{name}:{port}"),
            Some(_) => format!("{name}:{HIDDEN}"),
        }
    };
    hosts.split(',').map(one).collect::<Vec<_>>().join(",")
}

fn of_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if SHOWN.contains(&name) => pair.to_owned(),
        Some((name @ ("password" | "sslpassword"), _)) => format!("{name}={HIDDEN}"),
        _ => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_keep_what_helps_and_lose_the_password() {
        for (url, shown) in [
            ("postgres://u:s3cret@db.example:5432/m", "postgres://u@db.example:5432/m"),
            ("postgres://u@h/m?sslmode=require", "postgres://u@h/m?sslmode=require"),
            (
                "postgres://u@h/m?password=s3cret&host=%2Frun",
                "postgres://u@h/m?password=[hidden]&host=%2Frun",
            ),
            ("postgres://u:s3@cr/et@h/m", "postgres://u@h/m"),
            ("postgres://u:s3@cr/et?x@h/m", "postgres://u@[hidden]"),
            ("postgres://u@h/m?password=@s3cret", "postgres://u@[hidden]"),
            ("postgress://u:s3cret@h", "postgress://[hidden]"),
            ("u://s3cret@h", "u://[hidden]"),
            ("postgres://u:s3cret", "postgres://u:[hidden]"),
            ("postgres://[::1]:5432/m", "postgres://[::1]:5432/m"),
            ("postgres://u@a:1,b:2/m", "postgres://u@a:1,b:2/m"),
            ("postgres://localhost:5432/m", "postgres://localhost:5432/m"),
            ("postgres://192.0.2.1:5432,192.0.2.2:5432/m", "postgres://192.0.2.1:5432,192.0.2.2:5432/m"),
            ("postgres://u:123", "postgres://u:[hidden]"),
            ("postgres://u:123/m", "postgres://u:[hidden]/m"),
            ("postgresql://u:1,2:3", "postgresql://u:[hidden],2:[hidden]"),
            ("postgres://u:p@h:123456", "postgres://u@h:[hidden]"),
            ("http://keystone:5000/v3", "http://keystone:5000/v3"),
            ("http://admin:s3cret@keystone:5000/v3", "http://admin@keystone:5000/v3"),
            ("host=h password=s3cret", "[hidden]"),
            ("u:s3cret@h", "[hidden]"),
            ("postgres:/u:s3cret@h", "[hidden]"),
            ("foo", "foo"),
            ("/var/lib/x.db", "/var/lib/x.db"),
        ] {
            let url = SecretUrl::from(url);
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), format!("{shown:?}")));
        }
        assert_eq!(format!("{:?}", Secret::from("s3cret")), "[hidden]");
    }

    proptest! {
        /// No position of a password in a URL, valid or mistyped, makes it visible.
        #[test]
        fn a_password_is_shown_nowhere(
            scheme in "postgres|postgresql|postgress|pg|http|https|mysql|sqlite",
            password in "[a-z@/?#:&=%]{0,4}S3CRET[a-z@/?#:&=%]{0,4}",
            shape in 0_usize..8,
            digits in "[1-9][0-9]{5,9}",
        ) {
            let url = SecretUrl::from(format!("{scheme}://user:{digits}").as_str());
            prop_assert!(!url.to_string().contains(&digits), "{}", url);
            let url = match shape {
                0 => format!("{scheme}://user:{password}@host/db"),
                1 => format!("{scheme}://user:{password}@host:5432/db?sslmode=require"),
                2 => format!("{scheme}://user@host/db?password={password}"),
                3 => format!("{scheme}://:{password}@/db?host=%2Frun"),
                4 => format!("{scheme}:/user:{password}@host/db"),
                5 => format!("user:{password}@{scheme}://host"),
                6 => format!("host=h user=u password={password}"),
                _ => format!("{scheme}://user:{password}@host/db?PASSWORD={password}"),
            };
            let shown = SecretUrl::from(url.as_str());
            for text in [shown.to_string(), format!("{shown:?}")] {
                prop_assert!(!text.contains("S3CRET"), "{} shows {}", url, text);
            }
        }
    }
}
