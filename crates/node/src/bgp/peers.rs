//! FRR's view of an announced address: its route, and the peers that got it.
//!
//! Asked on demand, for `meridian explain`; nothing is decided by it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde::Serialize;
use serde_json::Value;

use crate::frr::VtyError;
use crate::frr::vty::Vty;

/// FRR's view of a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeerReport {
    /// Peers of the default instance with an established session for the address family.
    pub established: BTreeSet<String>,
    /// All peers of the default instance for the address family.
    pub peers: BTreeSet<String>,
    /// Whether the default instance has a route for the prefix.
    pub known: bool,
    /// Peers that it is advertised to.
    pub advertised_to: BTreeSet<String>,
}

impl PeerReport {
    /// Asks bgpd on its socket in `dir`.
    pub async fn ask(dir: &Path, prefix: IpNet) -> Result<Self, VtyError> {
        let family = if prefix.addr().is_ipv4() { "ipv4" } else { "ipv6" };
        let mut vty = Vty::open(dir, "bgpd").await?;
        let summary = vty.ask(&format!("show bgp {family} unicast summary json")).await?.text;
        let route = vty.ask(&format!("show bgp {family} unicast {prefix} json")).await?.text;
        Ok(Self::read(&summary, &route))
    }

    /// Reads bgpd's answers; what is not there counts as nothing.
    pub fn read(summary: &str, route: &str) -> Self {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let (summary, route) = (json(summary), json(route));
        // Some versions put the address family around the peers.
        let families = ["ipv4Unicast", "ipv6Unicast"].map(|family| &summary[family]["peers"]);
        let peers = [&summary["peers"]].into_iter().chain(families).filter_map(Value::as_object).flatten();
        let mut heard = Self::default();
        for (peer, about) in peers {
            heard.peers.insert(peer.clone());
            if about["state"] == "Established" {
                heard.established.insert(peer.clone());
            }
        }
        heard.known = route["paths"].as_array().is_some_and(|paths| !paths.is_empty());
        heard.advertised_to =
            route["advertisedTo"].as_object().into_iter().flatten().map(|(peer, _)| peer.clone()).collect();
        heard
    }

    /// The meaning for an address that we announce, as a sentence.
    pub fn told(&self, ip: IpAddr) -> String {
        let list = |peers: &BTreeSet<String>| peers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if !self.advertised_to.is_empty() {
            return format!("FRR advertises {ip} to {}.", list(&self.advertised_to));
        }
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        if self.peers.is_empty() {
            return format!(
                "FRR has no peer for {family}, so {ip} does not reach the fabric; configure one in FRR's default instance."
            );
        }
        if self.established.is_empty() {
            return format!(
                "FRR has no established peer for {family}, so {ip} does not reach the fabric; of its peers {} none is up.",
                list(&self.peers)
            );
        }
        if !self.known {
            return format!(
                "FRR's default instance has no route for {ip}: check that `import vrf` and `redistribute connected` are in its \
                 configuration (see `meridian status`)."
            );
        }
        format!(
            "FRR has {ip} but advertises it to none of {}: an outbound prefix-list, route-map or filter drops it, or the peers announced it themselves.",
            list(&self.established)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(summary: &str, route: &str) -> String {
        PeerReport::read(summary, route).told("172.24.4.10".parse().unwrap())
    }

    #[test]
    fn what_keeps_others_from_hearing() {
        let up = r#"{"routerId":"172.30.1.1","peers":{"100.64.1.0":{"state":"Established"},"100.64.2.0":{"state":"Active"}}}"#;
        let down = r#"{"ipv4Unicast":{"peers":{"100.64.1.0":{"state":"Active"}}}}"#;
        let route =
            r#"{"prefix":"172.24.4.10/32","paths":[{"valid":true}],"advertisedTo":{"100.64.1.0":{}}}"#;
        let filtered = r#"{"prefix":"172.24.4.10/32","paths":[{"valid":true}]}"#;
        assert_eq!(told(up, route), "FRR advertises 172.24.4.10 to 100.64.1.0.");
        assert!(told(up, filtered).contains("to none of 100.64.1.0: an outbound prefix-list"));
        assert!(told(up, "{}").contains("no route for 172.24.4.10"));
        assert!(told(down, filtered).contains("no established peer for IPv4"));
        assert!(told("{}", filtered).contains("FRR has no peer for IPv4"));
        assert!(told("nonsense", "% Unknown command").contains("no peer"));
    }
}
