//! The ports of routers, parsed. If a row does not parse any more, its last parsed value stays in use: everything behind the port depends
//! on it.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::MacAddr;
use ovn::sb::PortBinding;
use ovn::text::{HostAddr, PortAddresses, Text};
use reconcile::{Class, ObjectId, Problem};

use super::draft::Draft;
use super::malformed::malformed;
use crate::ProblemCode;

/// The parsed row of a router's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterPort {
    /// Its Ethernet address.
    pub mac: Option<MacAddr>,
    /// Its addresses with their prefix lengths, in the order written.
    pub addresses: Vec<HostAddr>,
}

/// Reads a router's port.
pub(super) fn read(draft: &mut Draft<'_>, port: &PortBinding) -> RouterPort {
    let fixed = port.mac.iter().filter_map(Text::value).flat_map(PortAddresses::fixed).copied();
    let mut said = RouterPort { mac: port.ethernet(), addresses: fixed.collect() };
    if let Some(what) = malformed(port) {
        let object = ObjectId::new("port", port.logical_port.clone());
        draft.report(Problem::error(object, Class::Refused, ProblemCode::BadAddresses, what));
        // All that is behind it, and not only its own addresses.
        draft.doubts.of_all();
        if let Some(before) = draft.snapshot.before.router_ports.get(&port.logical_port) {
            said.mac = said.mac.or(before.mac);
            let missing: Vec<_> =
                before.addresses.iter().filter(|host| !said.addresses.contains(host)).copied().collect();
            said.addresses.extend(missing);
        }
    }
    draft.decision.router_ports.insert(port.logical_port.clone(), said.clone());
    said
}
