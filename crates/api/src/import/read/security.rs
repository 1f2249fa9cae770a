//! Security groups and their rules, RBAC policies and quotas.

use std::collections::BTreeMap;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Common, Identity, Objects, says_something};
use crate::model::{
    Direction, Ethertype, QuotaSet, RbacAction, RbacObject, RbacPolicy, SecurityGroup, SecurityGroupRule,
};
use crate::resource::quota::is_limited;
use crate::resource::security_group::DEFAULT;

#[derive(Debug, Deserialize)]
pub(super) struct GroupRead {
    #[serde(flatten)]
    common: Common,
    #[serde(default)]
    stateful: Option<bool>,
}

pub(super) fn group(_: &mut Objects, read: GroupRead, now: Timestamp) -> Result<SecurityGroup, String> {
    let Identity { id, project, name, standard } = read.common.told(now);
    Ok(SecurityGroup {
        id,
        project,
        // Neutron reserves this name for one group of a project, the default group.
        is_default: name == DEFAULT,
        name,
        stateful: read.stateful.unwrap_or(true),
        standard,
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct RuleRead {
    #[serde(flatten)]
    common: Common,
    security_group_id: Uuid,
    direction: Direction,
    ethertype: Ethertype,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    port_range_min: Option<u16>,
    #[serde(default)]
    port_range_max: Option<u16>,
    #[serde(default)]
    remote_ip_prefix: Option<IpNet>,
    #[serde(default)]
    remote_group_id: Option<Uuid>,
    #[serde(default)]
    remote_address_group_id: Value,
}

pub(super) fn rule(
    objects: &mut Objects,
    read: RuleRead,
    now: Timestamp,
) -> Result<SecurityGroupRule, String> {
    // Without the address group, the rule would allow all sources.
    if says_something(&read.remote_address_group_id) {
        return Err("it allows an address group".into());
    }
    for group in [Some(read.security_group_id), read.remote_group_id].into_iter().flatten() {
        objects.needs("security_group", group)?;
    }
    let Identity { id, project, standard, .. } = read.common.told(now);
    Ok(SecurityGroupRule {
        id,
        project,
        security_group_id: read.security_group_id,
        direction: read.direction,
        ethertype: read.ethertype,
        protocol: read.protocol,
        port_range_min: read.port_range_min,
        port_range_max: read.port_range_max,
        remote_ip_prefix: read.remote_ip_prefix,
        remote_group_id: read.remote_group_id,
        standard,
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct PolicyRead {
    #[serde(flatten)]
    common: Common,
    object_type: String,
    object_id: Uuid,
    action: RbacAction,
    #[serde(default)]
    target_tenant: Option<String>,
    #[serde(default)]
    target_project_id: Option<String>,
}

pub(super) fn policy(objects: &mut Objects, read: PolicyRead, now: Timestamp) -> Result<RbacPolicy, String> {
    let object_type = serde_json::from_value::<RbacObject>(Value::String(read.object_type.clone()))
        .map_err(|_| format!("it is about a {}", read.object_type))?;
    let noun = match object_type {
        RbacObject::Network => "network",
        RbacObject::SecurityGroup => "security_group",
        RbacObject::Subnetpool => "subnetpool",
        RbacObject::AddressScope => "address_scope",
    };
    objects.needs(noun, read.object_id)?;
    let Identity { id, project, .. } = read.common.told(now);
    Ok(RbacPolicy {
        id,
        project,
        object_type,
        object_id: read.object_id,
        action: read.action,
        target_project: read.target_tenant.or(read.target_project_id).ok_or("it names no target")?,
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct QuotaRead {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

pub(super) fn quota(_: &mut Objects, read: QuotaRead, _: Timestamp) -> Result<QuotaSet, String> {
    let project = ["project_id", "tenant_id"].iter().find_map(|key| read.all.get(*key)?.as_str());
    let project = project.ok_or("it names no project")?.to_owned();
    let limits = read.all.iter().filter(|(name, _)| is_limited(name));
    let limits = limits.filter_map(|(name, value)| Some((name.clone(), value.as_i64()?))).collect();
    Ok(QuotaSet { project, limits })
}
