//! DHCP options of a port.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::model::{ExtraDhcpOpt, Port};

/// One option of a request; without a value it removes the option.
#[derive(Clone, Debug, Deserialize)]
struct DhcpOptionRequest {
    opt_name: String,
    #[serde(default)]
    opt_value: Option<String>,
    #[serde(default)]
    ip_version: Option<u8>,
}

/// Parses an option's name.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    // Bare metal uses commas and exclamation marks in names, for the stages of its boot.
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b',' | b'!');
    if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
        return Err(format!("'{text}' is not the name of a DHCP option"));
    }
    Ok(text.to_owned())
}

/// The options of a port after merging those of a request.
pub(super) fn merge(mut options: Vec<ExtraDhcpOpt>, value: &Value) -> Result<Vec<ExtraDhcpOpt>, Fault> {
    let asked: Vec<DhcpOptionRequest> = Vec::deserialize(value).unwrap_or_default();
    let mut seen: Vec<(String, u8)> = Vec::new();
    for DhcpOptionRequest { opt_name, opt_value, ip_version } in asked {
        let ip_version = ip_version.unwrap_or(4);
        let refused = |reason: String| Err(Fault::invalid("extra_dhcp_opts", reason));
        if ip_version == 5 {
            return refused("'5' is not in (4, 6)".into());
        }
        if seen.contains(&(opt_name.clone(), ip_version)) {
            return refused(format!("'{opt_name}' is named twice for IPv{ip_version}"));
        }
        seen.push((opt_name.clone(), ip_version));
        let at = options.iter().position(|it| it.opt_name == opt_name && it.ip_version == ip_version);
        match (at, opt_value) {
            // Options such as `tag:` may have an empty value in dnsmasq; OVN's options may not.
            (_, Some(text)) if text.trim().is_empty() => {
                return refused(format!("the value of '{opt_name}' is empty"));
            }
            (at, Some(opt_value)) => {
                let option = ExtraDhcpOpt { opt_name, opt_value, ip_version };
                check(&option)?;
                match at {
                    Some(at) => options[at] = option,
                    None => options.push(option),
                }
            }
            (Some(at), None) => drop(options.remove(at)),
            (None, None) => {}
        }
    }
    Ok(options)
}

/// Refuses a value that does not have the type that OVN gives the option. Unknown options are not written to OVN, so they may have any
/// value. An address of the other family passes too, because Neutron's clients send one for `server-ip-address`; `desired` then reports a
/// problem for the port.
fn check(extra: &ExtraDhcpOpt) -> Result<(), Fault> {
    match extra.typed() {
        Some((_, Err(_))) if extra.opt_value.parse::<IpAddr>().is_ok() => Ok(()),
        Some((option, Err(error))) => {
            let (name, expected) = (&extra.opt_name, option.kind().expected());
            let reason =
                format!("the value of '{name}' for IPv{} must be {expected}: {error}", extra.ip_version);
            Err(Fault::invalid("extra_dhcp_opts", reason))
        }
        _ => Ok(()),
    }
}

/// The options as JSON, for responses.
pub(super) fn show(port: &Port) -> Value {
    let option = |option: &ExtraDhcpOpt| {
        json!({
            "opt_name": option.opt_name,
            "opt_value": option.opt_value,
            "ip_version": option.ip_version,
        })
    };
    port.extra_dhcp_opts.iter().map(option).collect()
}
