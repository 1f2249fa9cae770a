//! Host names of ports.

use std::net::IpAddr;

use serde::Serialize;

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
