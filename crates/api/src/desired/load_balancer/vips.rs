//! `vips`: the addresses and ports for clients, and their backends.

use ovn::text::{Backends, Endpoint, Text};
use ovsdb::Map;

use super::backends::backends;
use super::parts::{BalancerParts, PoolParts};
use crate::model::{Listener, Member, RowSlot};

/// An address and port to which clients connect.
pub(super) struct Frontend<'p, 'w> {
    pub(super) endpoint: Endpoint,
    backends: Backends,
    pub(super) listener: &'w Listener,
    /// The pool of the backends.
    pub(super) pool: &'p PoolParts<'w>,
}

/// The frontends of a row. A listener without backends for an address has no frontend there.
pub(super) fn frontends<'p, 'w>(parts: &'p BalancerParts<'w>, slot: &RowSlot) -> Vec<Frontend<'p, 'w>> {
    let mut frontends = Vec::new();
    if !parts.balancer.admin_state_up {
        return frontends;
    }
    for listener in parts.listeners_in(slot).filter(|listener| listener.admin_state_up) {
        let Some(pool) = parts.pool_of(listener).filter(|parts| parts.pool.admin_state_up) else { continue };
        for address in parts.addresses() {
            let has_failed = |member: &Member| pool.health_of(member).is_failed();
            let backends = backends(&pool.members, address, &has_failed);
            if !backends.0.is_empty() {
                let endpoint = Endpoint::new(address, listener.protocol_port);
                frontends.push(Frontend { endpoint, backends, listener, pool });
            }
        }
    }
    frontends
}

/// The column `vips`.
pub(super) fn vips(frontends: &[Frontend<'_, '_>]) -> Map<Text<Endpoint>, Text<Backends>> {
    let entry = |front: &Frontend<'_, '_>| (Text::from(front.endpoint), Text::from(front.backends.clone()));
    frontends.iter().map(entry).collect()
}
