//! The announcements of this node, and the peers that hear them, as an operator reads them.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::config::Advertisement;
use super::desired::Decision;
use crate::frr;

/// An address or a prefix that this node announces, and the rule for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The prefix; that of a single address has all bits.
    pub prefix: IpNet,
    /// Whether it was announced at the last observation.
    pub in_place: bool,
    /// The number of the rule, such as `D1`.
    pub rule: String,
    /// The rule in words.
    pub because: String,
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Announcement { prefix, in_place, rule, because } = self;
        if prefix.prefix_len() == prefix.max_prefix_len() {
            write!(f, "{}", prefix.addr())?;
        } else {
            write!(f, "{prefix}")?;
        }
        write!(f, ": {because} ({rule}){}", if *in_place { "" } else { "; not announced yet" })
    }
}

/// A BGP neighbour of FRR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its address, or the device of an unnumbered session.
    pub name: String,
    /// Whether the session is established.
    pub up: bool,
}

/// All announcements of a decision, in the order of their addresses. None while the agent keeps silent. `in_place` tells whether a prefix
/// was announced at the last observation.
pub fn announcements(
    decision: &Decision,
    advertisement: Advertisement,
    in_place: impl Fn(IpNet) -> bool,
) -> Vec<Announcement> {
    if decision.silence.is_some() {
        return Vec::new();
    }
    let of = |prefix: IpNet, rule: &str, because: String| Announcement {
        prefix,
        in_place: in_place(prefix),
        rule: rule.to_owned(),
        because,
    };
    let addresses = decision.addresses.iter().filter_map(|(ip, address): (&IpAddr, _)| {
        let reason = address.reasons.first()?;
        Some(of((*ip).into(), reason.rule(), reason.to_string()))
    });
    let subnets = decision.subnets.iter().filter(|_| advertisement == Advertisement::Subnet);
    let subnets = subnets.map(|(net, subnet)| {
        let because = format!(
            "router port {} is behind the gateway {}, which is bound here",
            subnet.port, subnet.gateway
        );
        of(*net, "D4", because)
    });
    addresses.chain(subnets).collect()
}

/// The BGP neighbours that FRR reported last; none while it does not answer.
pub fn peers(frr: &frr::Observed) -> Vec<Peer> {
    match frr {
        frr::Observed::Silent(_) => Vec::new(),
        frr::Observed::Bgpd(state) => {
            state.sessions.iter().map(|(name, up)| Peer { name: name.clone(), up: *up }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bgp::desired::tests::world::World;
    use crate::bgp::desired::{Silence, decide};

    #[test]
    fn all_that_is_announced_is_listed_with_its_rule_and_nothing_in_silence() {
        let mut world = World::new().tenants();
        world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10"]).bind("vm1", "ch-a");
        world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("vm2", "ch-b");
        world.bind("cr-lrp-gw1", "ch-a");
        let here = |prefix: IpNet| prefix.addr().to_string() == "172.24.4.10";
        let listed = |world: &World, advertisement| -> Vec<String> {
            let decision = decide(&world.snapshot()).value;
            announcements(&decision, advertisement, here).iter().map(ToString::to_string).collect()
        };
        let hosts = listed(&world, Advertisement::Host);
        for line in [
            "172.24.4.10: port vm1 of a provider network is bound here (D1)",
            "172.24.4.221: it is an address of the router gateway cr-lrp-gw1, which is bound here (D2); not announced yet",
            "10.1.0.5: port vm2 is in a tenant subnet behind the router gateway cr-lrp-gw1, which is bound here (D5); \
             not announced yet",
        ] {
            assert!(hosts.contains(&line.to_owned()), "{line} is not in {hosts:#?}");
        }
        world.config.advertisement = Advertisement::Subnet;
        let subnets = listed(&world, Advertisement::Subnet);
        assert!(
            subnets.iter().any(|line| line.starts_with("10.1.0.0/24: router port ") && line.contains("(D4)")),
            "{subnets:#?}"
        );

        let mut decision = decide(&world.snapshot()).value;
        decision.silence = Some(Silence::Stopping);
        assert_eq!(announcements(&decision, Advertisement::Host, here), []);
    }

    #[test]
    fn peers_are_up_or_down_and_unknown_while_frr_is_silent() {
        let sessions = [("100.64.1.0".to_owned(), true), ("uplink".to_owned(), false)].into();
        let state = frr::BgpdState { sessions, ..frr::BgpdState::default() };
        let told: Vec<_> =
            peers(&frr::Observed::Bgpd(state)).into_iter().map(|peer| (peer.name, peer.up)).collect();
        assert_eq!(told, [("100.64.1.0".to_owned(), true), ("uplink".to_owned(), false)]);
        assert_eq!(peers(&frr::Observed::Silent("no bgpd".into())), []);
    }

    #[test]
    fn an_announcement_names_its_address_and_its_rule_in_words() {
        let mut one = Announcement {
            prefix: "172.24.4.10/32".parse().unwrap(),
            in_place: true,
            rule: "D1".into(),
            because: "port vmp of a provider network is bound here".into(),
        };
        assert_eq!(one.to_string(), "172.24.4.10: port vmp of a provider network is bound here (D1)");
        one.in_place = false;
        one.prefix = "fd00::/64".parse().unwrap();
        assert_eq!(
            one.to_string(),
            "fd00::/64: port vmp of a provider network is bound here (D1); not announced yet"
        );
    }
}
