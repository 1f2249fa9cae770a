//! `vips`: where clients connect, and the backends there.

use ovn::text::{Backends, Endpoint, Text};
use ovsdb::Map;

use super::backends::backends;
use super::parts::BalancerParts;
use crate::model::RowSlot;

/// The VIPs of a row. An address and port that nobody serves has no entry.
pub(super) fn vips(parts: &BalancerParts<'_>, slot: &RowSlot) -> Map<Text<Endpoint>, Text<Backends>> {
    let mut vips = Vec::new();
    if !parts.balancer.admin_state_up {
        return Map::default();
    }
    for listener in parts.listeners_in(slot).filter(|listener| listener.admin_state_up) {
        let Some(pool) = parts.pool_of(listener).filter(|parts| parts.pool.admin_state_up) else { continue };
        for address in parts.addresses() {
            let backends = backends(&pool.members, address, &|_| false);
            if !backends.0.is_empty() {
                let endpoint = Endpoint::new(address, listener.protocol_port);
                vips.push((Text::from(endpoint), Text::from(backends)));
            }
        }
    }
    vips.into_iter().collect()
}
