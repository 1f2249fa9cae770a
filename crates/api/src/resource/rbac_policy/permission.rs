//! The permissions of the stored policies. The `shared` flag of a network stands for the policy that lets all projects use it.

use uuid::Uuid;

use crate::model::{
    FloatingIp, Network, Port, RbacAction, RbacObject, RbacPolicy, Router, Subnet, SubnetPool,
};
use crate::world::{Kind, Link, Txn, World};

/// The target project that means all projects.
pub const EVERYBODY: &str = "*";

/// Whether a project may use an object of another in this way.
pub fn permits(world: &World, object: Uuid, action: RbacAction, project: &str) -> bool {
    policies(world, object, action).any(|policy| {
        policy.target_project == EVERYBODY || (!project.is_empty() && policy.target_project == project)
    })
}

/// Whether a policy names this very project. A policy for all projects does not count here: it lets a project use an object beside all
/// others, and gives it no priority over them.
pub fn names(world: &World, object: Uuid, action: RbacAction, project: &str) -> bool {
    !project.is_empty() && policies(world, object, action).any(|policy| policy.target_project == project)
}

/// Whether all projects may use an object in this way.
pub fn open_to_all(world: &World, object: Uuid, action: RbacAction) -> bool {
    policies(world, object, action).any(|policy| policy.target_project == EVERYBODY)
}

/// Whether a project may have gateways and floating IPs on a network. An external network without a policy is open to all.
pub fn permits_external(world: &World, network: &Network, project: &str) -> bool {
    network.external
        && (permits(world, network.id, RbacAction::AccessAsExternal, project)
            || policies(world, network.id, RbacAction::AccessAsExternal).next().is_none())
}

/// Other projects with a gateway or floating IP on a network, without a permission for it (any more).
pub fn foreign_guests<'w>(world: &'w World, network: &'w Network) -> impl Iterator<Item = &'w str> {
    let gateways = world.linked::<Port>(Link::PortsOfNetwork(network.id)).filter(|port| port.is_gateway());
    let routers = gateways.filter_map(|port| world.get::<Router>(&port.router_id()?));
    let floating = world.linked::<FloatingIp>(Link::FloatingIpsOfNetwork(network.id));
    let guests = routers.map(|it| it.project.as_str()).chain(floating.map(|it| it.project.as_str()));
    guests.filter(move |guest| {
        *guest != network.project
            && !permits_external(world, network, guest)
            && !permits(world, network.id, RbacAction::AccessAsShared, guest)
    })
}

/// Opens an object to all projects, or ends that. [`foreign_users`] then finds projects that use it without permission.
pub fn set_open_to_all(
    txn: &mut Txn,
    object_type: RbacObject,
    object: Uuid,
    action: RbacAction,
    owner: &str,
    open: bool,
) {
    let found: Vec<Uuid> = policies(txn, object, action)
        .filter(|policy| policy.target_project == EVERYBODY)
        .map(|policy| policy.id)
        .collect();
    if !open {
        for id in found {
            txn.remove::<RbacPolicy>(&id);
        }
    } else if found.is_empty() {
        let id = txn.new_id();
        txn.put(RbacPolicy {
            id,
            project: owner.to_owned(),
            object_type,
            object_id: object,
            action,
            target_project: EVERYBODY.to_owned(),
        });
    }
}

/// Removes all policies of an object that is being deleted.
pub fn forget(txn: &mut Txn, object: Uuid) {
    let found: Vec<Uuid> = txn.linked::<RbacPolicy>(Link::PoliciesOfObject(object)).map(|it| it.id).collect();
    for id in found {
        txn.remove::<RbacPolicy>(&id);
    }
}

/// Opens a network to the gateways of all projects, or removes all permissions for gateways on it.
pub fn set_external(txn: &mut Txn, network: Uuid, owner: &str, external: bool) {
    let action = RbacAction::AccessAsExternal;
    if external {
        return set_open_to_all(txn, RbacObject::Network, network, action, owner, true);
    }
    let found: Vec<Uuid> = policies(txn, network, action).map(|policy| policy.id).collect();
    for id in found {
        txn.remove::<RbacPolicy>(&id);
    }
}

/// Projects other than `owner` that use an object as shared, without a permission for it (any more).
pub fn foreign_users<'w>(
    world: &'w World,
    object_type: RbacObject,
    object: Uuid,
    owner: &'w str,
) -> impl Iterator<Item = &'w str> {
    let users: Box<dyn Iterator<Item = &'w str>> = match object_type {
        RbacObject::Network => Box::new(
            world
                .linked::<Port>(Link::PortsOfNetwork(object))
                .map(|port| port.project.as_str())
                .chain(world.linked::<Subnet>(Link::SubnetsOfNetwork(object)).map(|it| it.project.as_str())),
        ),
        RbacObject::SecurityGroup => {
            Box::new(world.linked::<Port>(Link::PortsOfGroup(object)).map(|port| port.project.as_str()))
        }
        RbacObject::Subnetpool => Box::new(
            world.linked::<Subnet>(Link::SubnetsOfPool(object)).map(|subnet| subnet.project.as_str()),
        ),
        RbacObject::AddressScope => Box::new(
            world
                .linked::<SubnetPool>(Link::Inside(Kind::SubnetPool, object))
                .map(|pool| pool.project.as_str()),
        ),
    };
    users.filter(move |user| {
        !user.is_empty() && *user != owner && !permits(world, object, RbacAction::AccessAsShared, user)
    })
}

fn policies(world: &World, object: Uuid, action: RbacAction) -> impl Iterator<Item = &RbacPolicy> {
    world
        .linked::<RbacPolicy>(Link::PoliciesOfObject(object))
        .map(|policy| &**policy)
        .filter(move |policy| policy.action == action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::fixture::{id, network, txn};
    use crate::resource::port::{Internal, create_internal};

    #[test]
    fn everybody_or_one_project() {
        let mut txn = txn();
        let share = |txn: &mut Txn, n, target: &str| {
            txn.put(RbacPolicy {
                id: id(n),
                project: "p".into(),
                object_type: RbacObject::Network,
                object_id: id(1),
                action: RbacAction::AccessAsShared,
                target_project: target.into(),
            });
        };
        let shared = |txn: &Txn, project| permits(txn, id(1), RbacAction::AccessAsShared, project);
        assert!(!shared(&txn, "q"));
        share(&mut txn, 100, "q");
        assert!(shared(&txn, "q") && !shared(&txn, "r") && !shared(&txn, ""));
        assert!(!permits(&txn, id(1), RbacAction::AccessAsExternal, "q"));
        assert!(!open_to_all(&txn, id(1), RbacAction::AccessAsShared));
        for open in [true, true] {
            set_open_to_all(&mut txn, RbacObject::Network, id(1), RbacAction::AccessAsShared, "p", open);
        }
        assert_eq!(txn.linked::<RbacPolicy>(Link::PoliciesOfObject(id(1))).count(), 2);
        assert!(shared(&txn, "r") && open_to_all(&txn, id(1), RbacAction::AccessAsShared));
        set_open_to_all(&mut txn, RbacObject::Network, id(1), RbacAction::AccessAsShared, "p", false);
        assert!(!shared(&txn, "r") && shared(&txn, "q"));
        forget(&mut txn, id(1));
        assert!(!shared(&txn, "q"));
    }

    #[test]
    fn who_uses_a_network_without_permission() {
        let mut txn = txn();
        txn.put(network(1, "p"));
        for project in ["p", "", "q"] {
            create_internal(&mut txn, Internal { project: project.into(), ..Internal::on(id(1)) }).unwrap();
        }
        let users = |txn: &Txn| {
            foreign_users(txn, RbacObject::Network, id(1), "p").map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(users(&txn), ["q"]);
        set_open_to_all(&mut txn, RbacObject::Network, id(1), RbacAction::AccessAsShared, "p", true);
        assert!(users(&txn).is_empty());
    }
}
