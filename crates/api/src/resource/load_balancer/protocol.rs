//! The protocols of the API. OVN supports three of them.

use crate::Fault;
use crate::dialect::octavia::{unsupported_option, validation};
use crate::model::LbProtocol;

/// The protocols of listeners.
pub(in crate::resource) const LISTENER: &[&str] =
    &["HTTP", "HTTPS", "PROMETHEUS", "SCTP", "TCP", "TERMINATED_HTTPS", "UDP"];
/// The protocols of pools.
pub(in crate::resource) const POOL: &[&str] = &["HTTP", "HTTPS", "PROXY", "PROXYV2", "SCTP", "TCP", "UDP"];

/// The protocol, if OVN supports it.
pub(in crate::resource) fn supported(word: &str) -> Result<LbProtocol, Fault> {
    LbProtocol::parse(word)
        .ok_or_else(|| unsupported_option(format_args!("OVN provider does not support {word} protocol")))
}

/// The transport of a listener's protocol. Two listeners with one transport cannot share a port.
pub(in crate::resource) fn transport(listener: &str) -> LbProtocol {
    LbProtocol::parse(listener).unwrap_or(LbProtocol::Tcp)
}

/// Refuses a pool behind a listener of another protocol.
pub(in crate::resource) fn check_match(listener: &str, pool: &str) -> Result<(), Fault> {
    let fits = match listener {
        "TCP" => ["TCP", "HTTP", "HTTPS", "PROXY", "PROXYV2"].contains(&pool),
        "HTTP" => ["HTTP", "PROXY", "PROXYV2"].contains(&pool),
        "HTTPS" => ["HTTPS", "PROXY", "PROXYV2", "TCP"].contains(&pool),
        "TERMINATED_HTTPS" => ["HTTP", "HTTPS", "PROXY", "PROXYV2"].contains(&pool),
        other => other == pool,
    };
    let text =
        || format!("The pool protocol '{pool}' is invalid while the listener protocol is '{listener}'.");
    if fits { Ok(()) } else { Err(validation(text())) }
}
