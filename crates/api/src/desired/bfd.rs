//! `BFD`: sessions that monitor the next hops of default routes.
//!
//! The router whose port a session runs on creates its row, while the router has a route that uses it. The schema has one row for each port
//! and peer. [`sessions`](crate::snapshot::sessions) decides how routers share them.

use std::net::IpAddr;

use ovn::ident::{name, row_uuid};
use ovn::nb::Bfd;
use ovn::target::Part;
use ovn::text::Text;
use ovn::text::neutron::key;
use uuid::Uuid;

use super::look::Look;
use super::{map, object, text};
use crate::model::{Port, Router};

/// The UUID of the row of a port's session to a next hop.
pub fn row(port: Uuid, hop: IpAddr) -> Uuid {
    row_uuid("port", &port.to_string(), &format!("bfd {hop}"))
}

/// The session that a gateway's default route uses; none if the route must not use one yet. Creates the row if the session runs on this
/// port.
pub(super) fn compile(
    look: &Look<'_, '_>,
    router: &Router,
    port: &Port,
    hop: IpAddr,
    to: &mut Part,
) -> Option<Uuid> {
    let session = look.session(port.id, hop);
    let owner = session.map_or(port.id, |session| session.owner);
    let row = look.row(row(owner, hop));
    if owner == port.id {
        let settings = look.settings();
        let bfd = Bfd {
            logical_port: text(name::router_port(port.id)),
            dst_ip: Text::from(hop),
            min_tx: settings.bfd_min_tx.map(i64::from),
            min_rx: settings.bfd_min_rx.map(i64::from),
            detect_mult: settings.bfd_detect_mult.map(i64::from),
            external_ids: map([(key::ROUTER_ID, text(router.id))]),
            ..Default::default()
        };
        to.own(object("router", router.id), row, bfd);
    }
    (!session.is_some_and(|session| session.pending)).then_some(row)
}

/// Whether a port's session must start because other ports wait for it.
pub(super) fn is_starting(look: &Look<'_, '_>, port: &Port, hop: IpAddr) -> bool {
    look.session(port.id, hop).is_some_and(|session| session.starting && session.owner == port.id)
}
