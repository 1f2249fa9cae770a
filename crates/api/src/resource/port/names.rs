//! Host names of ports.

use std::net::IpAddr;

use serde::Serialize;

use crate::Fault;
use crate::model::Port;

/// Parses a host name: labels of letters, digits and dashes, or an empty string.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() || (text.len() <= 255 && name.split('.').all(label)) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("'{text}' is not a valid DNS name"))
}

/// Checks a host name against the server's domain: a full name, which ends with a dot, must be below it.
pub(super) fn check(name: &str, domain: &str) -> Result<(), Fault> {
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    // With the domain that stands for none, names have no effect.
    if domain.is_empty() || domain == "openstacklocal" {
        return Ok(());
    }
    let refuse = |reason: String| Err(Fault::invalid("dns_name", reason));
    match name.strip_suffix('.') {
        Some(full)
            if full.strip_suffix(&domain).is_none_or(|host| host.len() < 2 || !host.ends_with('.')) =>
        {
            refuse(format!("'{name}' is a full name, and not below the server's dns_domain '{domain}.'"))
        }
        None if !name.is_empty() && name.len() + domain.len() + 2 > 255 => {
            refuse(format!("'{name}' with the server's dns_domain '{domain}.' is longer than 255 characters"))
        }
        _ => Ok(()),
    }
}

/// The DNS names of one address.
#[derive(Serialize)]
pub(super) struct Assignment {
    fqdn: String,
    hostname: String,
    ip_address: IpAddr,
}

/// The DNS names of each address of a port.
pub(super) fn assignment(port: &Port, domain: &str) -> impl Iterator<Item = Assignment> + Clone {
    let name = move |ip_address: IpAddr| {
        let hostname = match port.dns_name.split('.').next() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("host-{}", ip_address.to_string().replace(['.', ':'], "-")),
        };
        let fqdn = match (port.dns_name.strip_suffix('.'), domain.trim_end_matches('.')) {
            (Some(full), _) => format!("{full}."),
            (None, "") => hostname.clone(),
            (None, domain) => format!("{hostname}.{domain}."),
        };
        Assignment { fqdn, hostname, ip_address }
    };
    port.fixed_ips.iter().map(move |fixed| name(fixed.ip_address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_names_are_below_the_servers_domain() {
        let long = "a".repeat(58);
        let long = format!("{long}.{long}.{long}.{long}");
        for (name, domain, is_good) in [
            ("web", "example.org.", true),
            ("web.example.org.", "example.org.", true),
            ("web.example.org.", "Example.org", true),
            ("web.other.org.", "example.org.", false),
            ("example.org.", "example.org.", false),
            (".example.org.", "example.org.", false),
            ("webexample.org.", "example.org.", false),
            ("web.other.org.", "", true),
            ("web.other.org.", "openstacklocal", true),
            ("", "example.org.", true),
            (&long, "example.org.", true),
            (&long, "a-longer-domain.example.org.", false),
        ] {
            assert_eq!(check(name, domain).is_ok(), is_good, "{name} below {domain:?}");
        }
    }
}
