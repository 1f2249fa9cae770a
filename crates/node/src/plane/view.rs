//! The last look at the data plane, for those who ask: what is announced, and how much of everything there is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::watch;

use super::state::{Desired, Observed};
use super::surroundings::Surroundings;
use crate::flows;
use crate::frr::{self, FrrReplies};
use crate::kernel::{self, Address, Dev, Own};
use crate::part::kind::Counts;

/// The result of one observation.
#[derive(Debug, Clone)]
pub struct Look {
    own: Own,
    kernel: Arc<kernel::Observed>,
    frr: Arc<frr::Observed>,
    /// The BGP neighbours, as bgpd told last: while it is silent, its sessions may come back at any moment.
    neighbours: BTreeSet<IpAddr>,
    flows: Arc<flows::Observed>,
    /// The bridges with patch ports into the overlay.
    bridges: BTreeSet<Dev>,
    /// The counts of each kind: desired, in place, and pending.
    pub counts: Counts,
    /// The number of recently withdrawn addresses and prefixes whose packets are still forwarded.
    pub draining: usize,
}

impl Look {
    /// Whether an address or a prefix was announced.
    pub fn announces(&self, prefix: IpNet) -> bool {
        let address = Address { dev: self.own.announce.clone(), net: prefix };
        let mut routes = self.kernel.routes_to(self.own.vrf_table, prefix);
        self.kernel.addresses.contains(&address) || routes.any(|route| self.own.announces_prefix(route))
    }

    /// FRR.
    pub fn frr(&self) -> &frr::Observed {
        &self.frr
    }

    /// The bridges with patch ports into the overlay, and what was seen of their flows.
    pub fn bridges(&self) -> BTreeMap<&Dev, Option<&flows::Seen>> {
        self.bridges.iter().map(|bridge| (bridge, self.flows.get(bridge))).collect()
    }

    /// The node's own network besides its data plane.
    pub fn surroundings(&self) -> Surroundings {
        Surroundings::new(&self.own.announce, &self.kernel, self.neighbours.clone())
    }
}

/// A reader of the last observation.
#[derive(Debug, Clone)]
pub struct View {
    looks: watch::Receiver<Option<Arc<Look>>>,
    answering: watch::Receiver<FrrReplies>,
}

impl View {
    /// The last look, if there was one.
    pub fn last(&self) -> Option<Arc<Look>> {
        self.looks.borrow().clone()
    }

    /// The times of FRR's replies.
    pub fn answering(&self) -> FrrReplies {
        *self.answering.borrow()
    }

    /// Waits for another look; fails when there will be none.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.looks.changed().await
    }
}

/// The place where a target publishes its observations.
#[derive(Debug)]
pub(crate) struct Looks {
    looks: watch::Sender<Option<Arc<Look>>>,
    answering: watch::Receiver<FrrReplies>,
}

impl Looks {
    /// Nothing was looked at yet, and this is how FRR answers.
    pub(crate) fn new(answering: watch::Receiver<FrrReplies>) -> Self {
        Looks { looks: watch::Sender::default(), answering }
    }

    pub(crate) fn view(&self) -> View {
        View { looks: self.looks.subscribe(), answering: self.answering.clone() }
    }

    pub(crate) fn leave(&self, want: &Desired, have: &Observed, counts: Counts) {
        let (kernel, frr) = (Arc::clone(&have.kernel), Arc::clone(&have.frr));
        let (own, flows) = (want.kernel.own.clone(), Arc::clone(&have.flows));
        let bridges = want.flows.iter().filter(|(_, bridge)| !bridge.ports.is_empty());
        let bridges = bridges.map(|(name, _)| name.clone()).collect();
        let draining = have.draining.len();
        let before = || self.looks.borrow().as_ref().map(|look| look.neighbours.clone()).unwrap_or_default();
        let neighbours = frr.neighbours().unwrap_or_else(before);
        let look = Look { own, kernel, frr, neighbours, flows, bridges, counts, draining };
        self.looks.send_replace(Some(Arc::new(look)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frr::BgpdState;
    use crate::frr::config::parse;

    #[test]
    fn neighbours_are_known_while_bgpd_is_silent() {
        let looks = Looks::new(watch::channel(FrrReplies::default()).1);
        let see = |frr: frr::Observed| {
            let (kernel, ports, flows, draining) = Default::default();
            let have = Observed { kernel, ports, flows, frr: Arc::new(frr), draining };
            looks.leave(&Desired::default(), &have, Counts::default());
            looks.view().last().unwrap().surroundings().neighbours
        };
        let bgpd = |text: &str| frr::Observed::Bgpd(BgpdState { tree: parse(text), ..BgpdState::default() });
        let silent = || frr::Observed::Silent("it is gone".into());
        let known = |ips: &[&str]| ips.iter().map(|ip| ip.parse().unwrap()).collect::<BTreeSet<IpAddr>>();
        assert_eq!(see(silent()), known(&[]));
        let told = "router bgp 64999\n neighbor 10.10.0.1 remote-as 64999\n neighbor fabric peer-group\n\
                    router bgp 64999 vrf x\n neighbor 2001:db8::1 remote-as external\n";
        assert_eq!(see(bgpd(told)), known(&["10.10.0.1", "2001:db8::1"]));
        assert_eq!(see(silent()), known(&["10.10.0.1", "2001:db8::1"]));
        assert_eq!(see(silent()), known(&["10.10.0.1", "2001:db8::1"]));
        assert_eq!(see(bgpd("router bgp 64999\n")), known(&[]));
    }
}
