//! The last look at the data plane, for those who ask: what is announced, and how much of everything there is.

use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::watch;

use super::kind::Counts;
use super::state::{Desired, Observed};
use super::surroundings::Surroundings;
use crate::frr;
use crate::kernel::{self, Address, Own};

/// What one look found.
#[derive(Debug, Clone)]
pub struct Look {
    own: Own,
    kernel: Arc<kernel::Observed>,
    frr: Arc<frr::Observed>,
    /// How many of each kind are wanted, there and to be changed.
    pub counts: Counts,
    /// How many addresses and prefixes were withdrawn a moment ago, and are still carried.
    pub draining: usize,
}

impl Look {
    /// Whether an address or a prefix was announced.
    pub fn announces(&self, prefix: IpNet) -> bool {
        let address = Address { dev: self.own.announce.clone(), net: prefix };
        let mut routes = self.kernel.routes_to(self.own.vrf_table, prefix);
        self.kernel.addresses.contains(&address) || routes.any(|route| self.own.announces_prefix(route))
    }

    /// What the node lives by besides its data plane.
    pub fn surroundings(&self) -> Surroundings {
        Surroundings::new(&self.own.announce, &self.kernel, self.frr.neighbours())
    }
}

/// Where the last look is to be found.
#[derive(Debug, Clone)]
pub struct View(watch::Receiver<Option<Arc<Look>>>);

impl View {
    /// The last look, if there was one.
    pub fn last(&self) -> Option<Arc<Look>> {
        self.0.borrow().clone()
    }

    /// Waits for another look; fails when there will be none.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.0.changed().await
    }
}

/// Where a target leaves its looks.
#[derive(Debug, Default)]
pub(crate) struct Looks(watch::Sender<Option<Arc<Look>>>);

impl Looks {
    pub(crate) fn view(&self) -> View {
        View(self.0.subscribe())
    }

    pub(crate) fn leave(&self, want: &Desired, have: &Observed, counts: Counts) {
        let (kernel, frr) = (Arc::clone(&have.kernel), Arc::clone(&have.frr));
        let own = want.kernel.own.clone();
        self.0.send_replace(Some(Arc::new(Look { own, kernel, frr, counts, draining: have.draining.len() })));
    }
}
