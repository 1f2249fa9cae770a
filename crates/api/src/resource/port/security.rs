//! Port security and security groups: which go together.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::model::{Network, Port};
use crate::resource::Checked;
use crate::resource::security_group;
use crate::world::{Txn, World};

/// Whether OVN believes what a port sends, because the network itself made it.
pub fn is_trusted(device_owner: &str) -> bool {
    device_owner.starts_with("network:")
}

/// Port security of a new port: what is asked for, nothing for ports that are trusted, else the network's.
pub(super) fn of_new(new: &Checked, network: &Network, device_owner: &str) -> bool {
    let unsaid = || network.port_security_enabled && !is_trusted(device_owner);
    new.bool("port_security_enabled").unwrap_or_else(unsaid)
}

/// The groups of a new port: those of the request (null asks for none), or the project's own.
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
    // Whoever makes a port has a default group from then on, even if this port is not under it.
    let own = security_group::ensure_default(txn, new.project());
    Ok(own.filter(|_| enabled && !is_trusted(device_owner)).into_iter().collect())
}

/// The groups that a request names, each there for the caller.
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
    // A stateless rule and a stateful one for the same packet would contradict each other.
    if stateful.len() > 1 {
        return Err(Fault::conflict(
            "SecurityGroupConflict",
            "Error when setting security groups on the port: stateful and stateless security groups cannot be mixed.",
        ));
    }
    Ok(groups)
}

/// Groups and address pairs need port security: without it nothing looks at what a port sends.
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
