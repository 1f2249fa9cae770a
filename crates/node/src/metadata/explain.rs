//! Whose data a request from an address would get, in sentences for an operator.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use metadata_proxy::identity::{IdentityTable, Lookup};
use ovsdb::Uuid;

use super::desired::Decision;

/// Explains an address on all networks of the chassis. The same table answers that the proxy has.
pub(super) fn explain(decision: &Decision, ready: &BTreeSet<Uuid>, ip: IpAddr) -> Vec<String> {
    let mut text = vec![format!("Metadata for {ip} on this chassis:")];
    for (network, ports) in &decision.identities {
        let table = IdentityTable::new(ports.iter().cloned());
        let served = match (decision.desired.networks.contains_key(network), ready.contains(network)) {
            (false, _) => "but the network has no metadata port, so there is no metadata",
            (true, true) => "and the network is ready",
            (true, false) => {
                "but the network is not ready yet; see `meridian plan` and the problems of `meridian status`"
            }
        };
        match table.lookup(ip) {
            Lookup::Instance(instance) => text.push(format!(
                "On network {network} it is instance {} of project {}, {served}.",
                instance.id, instance.project
            )),
            Lookup::Ambiguous => text.push(format!(
                "On network {network} several instances have it, so a request gets 404; give each its own address."
            )),
            // An explanation has no Ethernet address to compare.
            Lookup::ForeignMac(_) | Lookup::Unknown => {}
        }
    }
    if text.len() == 1 {
        let networks = decision.identities.len();
        text.push(format!(
            "No instance on this chassis has {ip}, on none of its {networks} networks, so a request gets 404; see whether \
             OVN has bound the port of the instance here."
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use metadata_proxy::identity::PortIdentity;

    use super::*;

    #[test]
    fn each_network_answers_for_itself() {
        let port = |instance: &str, ip: &str| PortIdentity {
            instance: instance.into(),
            project: "p".into(),
            addresses: [ip.parse().unwrap()].into(),
            macs: BTreeSet::new(),
        };
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let decision = Decision {
            identities: [
                (one, vec![port("vm1", "10.0.0.5"), port("vm2", "10.0.0.6")]),
                (two, vec![port("vm3", "10.0.0.6"), port("vm4", "10.0.0.6")]),
            ]
            .into(),
            ..Decision::default()
        };
        let told = |ip: &str| explain(&decision, &BTreeSet::new(), ip.parse().unwrap())[1..].join(" ");
        assert!(
            told("10.0.0.5")
                .contains("it is instance vm1 of project p, but the network has no metadata port")
        );
        assert!(told("10.0.0.6").contains("instance vm2") && told("10.0.0.6").contains("several instances"));
        assert!(told("10.0.0.7").starts_with("No instance on this chassis has 10.0.0.7"));
    }
}
