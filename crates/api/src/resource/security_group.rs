//! Security groups: sets of rules for ports, and the default group that every project has from its first use on.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::attribute::{
    CREATED_AT, DESCRIPTION, ID, NAME, PROJECT_ID, REVISION_NUMBER, TAGS, TENANT_ID, UPDATED_AT,
};
use super::security_group_rule::{self, SecurityGroupRules};
use super::{Attribute, Checked, Preset, Resource, Scene, Selection, Shape, View, quota, rbac_policy, touch};
use crate::caller::Caller;
use crate::dialect::{Dialect, Neutron};
use crate::fault::Fault;
use crate::model::{Direction, Ethertype, RbacAction, SecurityGroup, SecurityGroupRule, Standard};
use crate::policy::{Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};

/// The name of the group that every project has.
pub const DEFAULT: &str = "default";

/// The number of rules of a new group: all egress, IPv4 and IPv6.
const FIRST_RULES: u64 = 2;

/// Security groups.
#[derive(Debug)]
pub struct SecurityGroups;

const ATTRIBUTES: &[Attribute] = &[
    ID,
    NAME,
    TENANT_ID,
    PROJECT_ID,
    Attribute::new("stateful", Shape::Bool, "Whether replies are let through by connection tracking.")
        .create()
        .update()
        .preset(Preset::Bool(true)),
    Attribute::new("shared", Shape::Bool, "Whether it is shared with the caller's project."),
    Attribute::new(
        "security_group_rules",
        Shape::List { of: &Shape::Any, max: usize::MAX, unique: false },
        "The rules, in full.",
    ),
    DESCRIPTION,
    TAGS,
    REVISION_NUMBER,
    CREATED_AT,
    UPDATED_AT,
];

impl Resource for SecurityGroups {
    type Entity = SecurityGroup;
    const DIALECT: &'static dyn Dialect = &Neutron;
    const NAME: &'static str = "security_group";
    const COLLECTION: &'static str = "security_groups";
    const PATH: &'static str = "security-groups";
    const ABSENT: (&'static str, &'static str) = ("SecurityGroupNotFound", "Security group");
    const GET: Rule = Rule(&[Term::Admin, Term::Reader(Party::Owner), Term::Shared]);

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(group: &SecurityGroup) -> &str {
        &group.project
    }

    fn standard(group: &SecurityGroup) -> Option<&Standard> {
        Some(&group.standard)
    }

    fn standard_mut(group: &mut SecurityGroup) -> Option<&mut Standard> {
        Some(&mut group.standard)
    }

    fn target<'w>(group: &'w SecurityGroup, world: &'w World) -> PolicyTarget<'w> {
        PolicyTarget::shareable(&group.project, world, group.id, false)
    }

    fn view(group: &SecurityGroup, scene: &Scene<'_>, view: &mut View<'_>) {
        view.identity(group.id, &group.project);
        view.text("name", &group.name);
        view.put("stateful", group.stateful);
        view.put_with("shared", || {
            rbac_policy::open_to_all(scene.world, group.id, RbacAction::AccessAsShared)
        });
        view.put_with("security_group_rules", || rules(group, scene));
        view.standard(&group.standard);
    }

    fn create(txn: &mut Txn, _caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let name = new.text("name").unwrap_or_default();
        // Checked before the default group exists, because that does not count against the project's first own group.
        quota::check(txn, Kind::SecurityGroup, new.project(), 1)?;
        ensure_default(txn, new.project());
        if name == DEFAULT {
            return Err(default_exists());
        }
        quota::check(txn, Kind::SecurityGroupRule, new.project(), FIRST_RULES)?;
        let group = SecurityGroup {
            id: txn.new_id(),
            project: new.project().to_owned(),
            name: name.to_owned(),
            stateful: new.bool("stateful").unwrap_or(true),
            is_default: false,
            standard: new.standard(txn.now()),
        };
        Ok(put(txn, group))
    }

    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let group = Arc::clone(found(txn, id)?);
        let renamed = change.text("name").filter(|name| *name != group.name);
        if renamed.is_some() && group.is_default && !caller.admin {
            let message = "Updating default security group not allowed.";
            return Err(Fault::conflict("SecurityGroupCannotUpdateDefault", message));
        }
        if renamed == Some(DEFAULT) && !group.is_default {
            return Err(default_exists());
        }
        // The change would cut tracked connections and leave untracked ones open.
        if change.bool("stateful").is_some_and(|stateful| stateful != group.stateful) {
            unused(txn, id)?;
        }
        txn.edit::<SecurityGroup>(&id, |group| {
            change.set_text("name", &mut group.name);
            change.set_bool("stateful", &mut group.stateful);
        });
        Ok(())
    }

    fn delete(txn: &mut Txn, caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        if found(txn, id)?.is_default && !caller.admin {
            let message = "Insufficient rights for removing default security group.";
            return Err(Fault::conflict("SecurityGroupCannotRemoveDefault", message));
        }
        unused(txn, id)?;
        let own = txn.linked::<SecurityGroupRule>(Link::RulesOfGroup(id)).map(|rule| rule.id);
        let own: Vec<Uuid> = own.collect();
        for rule in own {
            txn.remove::<SecurityGroupRule>(&rule);
        }
        // A rule whose remote group is deleted would match nothing.
        let naming: Vec<_> = txn.linked::<SecurityGroupRule>(Link::RulesNamingGroup(id)).cloned().collect();
        for rule in naming {
            txn.remove::<SecurityGroupRule>(&rule.id);
            touch::<SecurityGroups>(txn, rule.security_group_id);
        }
        rbac_policy::forget(txn, id);
        txn.remove::<SecurityGroup>(&id);
        Ok(())
    }

    /// The first list of a project creates its default group.
    fn prepare(world: &World, caller: &Caller) -> Option<fn(&mut Txn, &Caller) -> Result<(), Fault>> {
        if caller.project.is_empty() || default_of(world, &caller.project).is_some() {
            return None;
        }
        Some(|txn, caller| {
            ensure_default(txn, &caller.project);
            Ok(())
        })
    }
}

/// The group with this id, or 404.
pub fn found(world: &World, id: Uuid) -> Result<&Arc<SecurityGroup>, Fault> {
    world.get::<SecurityGroup>(&id).ok_or_else(|| super::absent::<SecurityGroups>(id))
}

/// The group with this id, or 404 if the caller may not use it for ports and in rules.
pub fn usable<'w>(world: &'w World, caller: &Caller, id: Uuid) -> Result<&'w Arc<SecurityGroup>, Fault> {
    let group = found(world, id)?;
    if SecurityGroups::visible(group, world, caller) || caller.service {
        Ok(group)
    } else {
        Err(super::absent::<SecurityGroups>(id))
    }
}

/// The default group of a project.
pub fn default_of(world: &World, project: &str) -> Option<Uuid> {
    world.linked::<SecurityGroup>(Link::DefaultGroupOf(project.into())).next().map(|group| group.id)
}

/// Creates the default group of a project, unless it exists.
pub fn ensure_default(txn: &mut Txn, project: &str) -> Option<Uuid> {
    if project.is_empty() {
        return None;
    }
    if let Some(id) = default_of(txn, project) {
        return Some(id);
    }
    let group = SecurityGroup {
        id: txn.new_id(),
        project: project.to_owned(),
        name: DEFAULT.to_owned(),
        stateful: true,
        is_default: true,
        standard: Standard::new(txn.now(), "Default security group"),
    };
    Some(put(txn, group))
}

/// Stores a new group with its initial rules.
fn put(txn: &mut Txn, group: SecurityGroup) -> Uuid {
    let (id, is_default, project) = (group.id, group.is_default, group.project.clone());
    txn.put(group);
    for ethertype in [Ethertype::IPv4, Ethertype::IPv6] {
        security_group_rule::put_open(txn, &project, id, Direction::Egress, ethertype, None);
        if is_default {
            security_group_rule::put_open(txn, &project, id, Direction::Ingress, ethertype, Some(id));
        }
    }
    id
}

fn unused(world: &World, id: Uuid) -> Result<(), Fault> {
    if world.has_linked(Link::PortsOfGroup(id)) {
        return Err(Fault::conflict("SecurityGroupInUse", format!("Security Group {id} in use.")));
    }
    Ok(())
}

fn default_exists() -> Fault {
    Fault::conflict("SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
}

fn rules(group: &SecurityGroup, scene: &Scene<'_>) -> Value {
    let selection = Selection::new(SecurityGroupRules::attributes(), scene.caller, &[]);
    let rules = scene.world.linked::<SecurityGroupRule>(Link::RulesOfGroup(group.id));
    let shown = |rule: &Arc<SecurityGroupRule>| {
        View::values(&selection, |view| SecurityGroupRules::view(rule, scene, view)).into_value()
    };
    rules.map(shown).collect()
}

#[cfg(test)]
mod tests;
