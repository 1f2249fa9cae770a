//! Ports of switches that lead to no router: instances, virtual ports, localnet ports.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use ovn::PortType;
use ovn::nb::LogicalSwitchPort;
use ovn::sb::PortBinding;
use ovn::text::neutron::key;
use ovsdb::{Ref, Snapshot, Uuid};

use super::chassis::Chassis;
use super::switch_of;

/// The port binding of a switch's port; nothing where it is gone, or leads to a router.
pub(super) fn row(nb: &Snapshot, row: Uuid, chassis: &mut Chassis<'_>) -> Option<PortBinding> {
    let port = nb.get::<LogicalSwitchPort>(row).filter(|port| port.kind != PortType::Router)?;
    let up = port.up == Some(true);
    // A port has its host long before there is anything; bound is what is up.
    let bound = up && matches!(port.kind, PortType::Vif | PortType::Virtual);
    Some(PortBinding {
        chassis: bound.then(|| chassis.of_host(host(port))),
        up: Some(up),
        ..binding(port, switch_of(nb, row)?)
    })
}

/// The columns that northd copies.
pub(super) fn binding(port: &LogicalSwitchPort, switch: Uuid) -> PortBinding {
    PortBinding {
        logical_port: port.name.clone(),
        kind: port.kind.clone(),
        options: port.options.clone(),
        datapath: Ref::new(switch),
        tag: port.tag,
        mac: port.addresses.clone(),
        external_ids: port.external_ids.clone(),
        ..Default::default()
    }
}

/// The host that a port is on. Of several that may have it, as in a live migration, OVN binds it to the first, and the others
/// have it in addition: they are not to announce it. A virtual port is where its parent is, whatever was asked for.
fn host(port: &LogicalSwitchPort) -> Option<&str> {
    let requested = port.options.get("requested-chassis").filter(|_| port.kind != PortType::Virtual);
    let requested = requested.and_then(|list| first(list));
    requested.or_else(|| first(port.external_ids.get(key::HOST_ID)?))
}

fn first(list: &str) -> Option<&str> {
    list.split(',').map(str::trim_ascii).find(|name| !name.is_empty())
}
