//! Keeps what the node lives by known: what a look finds of it, and where the databases' servers are.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ovsdb::session::Remote;
use reconcile::Handle;
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep, timeout};

use super::{AgentState, lock};
use crate::bgp::reserved::Sources;
use crate::bgp::snapshot::mappings;
use crate::connections::OvnDatabase;
use crate::connections::switch::remote;
use crate::plane::reserved::ReservedPrefixes;
use crate::plane::surroundings::Surroundings;

/// Interval between resolutions of the names of the databases' servers, and time limit of one.
const RESOLVE: Duration = Duration::from_secs(10);
/// Interval between checks whether the configuration names other servers.
const NAMED: Duration = Duration::from_millis(200);

impl AgentState {
    /// The prefixes that are never wired, by what is known now.
    pub(super) fn reserved(&self, sb: Option<&ovsdb::Snapshot>) -> Arc<ReservedPrefixes> {
        let vswitch = self.vswitch.snapshot();
        let look = self.view.as_ref().and_then(|view| view.last());
        let surroundings = look.map_or_else(Surroundings::default, |look| look.surroundings());
        let mut databases = self.servers.borrow().clone();
        databases.extend(self.hosts().iter().filter_map(|(host, _)| host.parse::<IpAddr>().ok()));
        let sources = Sources {
            config: &self.config,
            sb,
            vswitch: &vswitch,
            mappings: &mappings(&vswitch),
            databases: &databases,
            surroundings: &surroundings,
        };
        let now = sources.reserved();
        let mut last = lock(&self.reserved);
        // Those who compare find the same at once.
        if **last != now {
            *last = Arc::new(now);
        }
        Arc::clone(&last)
    }

    /// The hosts and ports of the databases' servers: those of this agent, and those that ovn-controller lives by.
    fn hosts(&self) -> Vec<(String, u16)> {
        let vswitch = self.vswitch.snapshot();
        let controller =
            remote(&vswitch, OvnDatabase::Southbound.setting()).and_then(|text| text.parse().ok());
        let all = self
            .ovn
            .connections()
            .settings()
            .vswitch
            .clone()
            .into_iter()
            .chain(self.ovn.connections().remotes(self.config.source));
        let all = all.chain(controller);
        let hosts = all.flat_map(|remotes| remotes.list).filter_map(|remote| match remote {
            Remote::Unix(_) => None,
            Remote::Tcp(at) | Remote::Ssl(at) => Some((at.host.to_string(), at.port)),
        });
        hosts.collect()
    }
}

/// Has the loop decide again when a look has found that the node lives by something else.
pub(super) async fn follow(shared: Arc<AgentState>, handle: Handle) {
    let Some(mut view) = shared.view.clone() else { return };
    let mut last = None;
    while view.changed().await.is_ok() {
        let now = view.last().map(|look| look.surroundings());
        if now != last {
            last = now;
            handle.wake();
        }
    }
}

/// Resolves the names of the databases' servers, at once when others are named and now and then. What a name stood for stays
/// reserved: the connection may live on. The loop hears of each new address, for it may have wired it already.
pub(super) async fn resolve(shared: Arc<AgentState>, handle: Handle) {
    let (mut named, mut due) = (Vec::new(), Instant::now());
    loop {
        let hosts = shared.hosts();
        if hosts != named || due <= Instant::now() {
            for (host, port) in hosts.iter().filter(|(host, _)| host.parse::<IpAddr>().is_err()) {
                let Ok(Ok(found)) = timeout(RESOLVE, lookup_host((host.as_str(), *port))).await else {
                    continue;
                };
                let found: BTreeSet<IpAddr> = found.map(|address| address.ip()).collect();
                let is_new = shared.servers.send_if_modified(|known| {
                    let before = known.len();
                    known.extend(found);
                    known.len() > before
                });
                if is_new {
                    handle.wake();
                }
            }
            (named, due) = (hosts, Instant::now() + RESOLVE);
        }
        sleep(NAMED).await;
    }
}
