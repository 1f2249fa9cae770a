//! Port security and security groups, and the valid combinations.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{Network, Port};
use crate::resource::Checked;
use crate::resource::security_group;
use crate::world::{Txn, World};

/// Whether OVN trusts the packets of a port, because the network itself created the port.
pub fn is_trusted(device_owner: &str) -> bool {
    device_owner.starts_with("network:")
}

/// The port security of a new port: the requested value; else off for trusted ports, and the network's for others.
pub(super) fn of_new(new: &Checked, network: &Network, device_owner: &str) -> bool {
    let unsaid = || network.port_security_enabled && !is_trusted(device_owner);
    new.bool("port_security_enabled").unwrap_or_else(unsaid)
}

/// The groups of a new port: those of the request (`null` means none), or the project's default group.
pub(super) fn groups_of_new(
    txn: &mut Txn,
    caller: &Caller,
    new: &Checked,
    enabled: bool,
    device_owner: &str,
) -> Result<BTreeSet<Uuid>, Fault> {
    if new.has("security_groups") {
        return asked_groups(txn, caller, new);
    }
    // A project gets its default group with its first port, even if this port is not in it.
    let own = security_group::ensure_default(txn, new.project());
    Ok(own.filter(|_| enabled && !is_trusted(device_owner)).into_iter().collect())
}

/// The groups that a request names; the caller must see each.
pub(super) fn asked_groups(
    world: &World,
    caller: &Caller,
    request: &Checked,
) -> Result<BTreeSet<Uuid>, Fault> {
    let groups: BTreeSet<Uuid> = request.read("security_groups").unwrap_or_default();
    let mut stateful = BTreeSet::new();
    for group in &groups {
        stateful.insert(security_group::usable(world, caller, *group)?.stateful);
    }
    // A stateless and a stateful rule for the same packet would contradict each other.
    if stateful.len() > 1 {
        return Err(Fault::conflict(
            "SecurityGroupConflict",
            "Error when setting security groups on the port: stateful and stateless security groups cannot be mixed.",
        ));
    }
    Ok(groups)
}

/// Checks that groups and address pairs go with port security: without it OVN does not check what a port sends.
pub(super) fn check(port: &Port, groups_named: bool) -> Result<(), Fault> {
    if port.port_security_enabled {
        return Ok(());
    }
    if !port.security_groups.is_empty() {
        return Err(if groups_named {
            Fault::new(
                400,
                "PortSecurityAndIPRequiredForSecurityGroups",
                "Port security must be enabled and port must have an IP address in order to use security groups.",
            )
        } else {
            Fault::conflict(
                "PortSecurityPortHasSecurityGroup",
                "Port has security group associated. Cannot disable port security or IP address until security \
                 group is removed.",
            )
        });
    }
    if !port.allowed_address_pairs.is_empty() {
        return Err(Fault::conflict(
            "AddressPairAndPortSecurityRequired",
            "Port Security must be enabled in order to have allowed address pairs on a port.",
        ));
    }
    Ok(())
}
