//! Parses Neutron's JSON into stored types. Pure.
//!
//! Each noun has a struct with the attributes that are read, under Neutron's names, and a function that converts it to our entity or
//! returns the reason why it cannot. An object whose network, subnet, group or router is missing is left out as well.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod address;
mod network;
mod port;
mod router;
mod security;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use uuid::Uuid;

use super::{Document, Remark};
use crate::model::{
    AddressScope, FloatingIp, Network, Port, QuotaSet, RbacPolicy, Router, SecurityGroup, SecurityGroupRule,
    Standard, Subnet, SubnetPool,
};
use crate::world::{Entity, Row};

/// All objects of a cloud that can be imported.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) scopes: Vec<AddressScope>,
    pub(super) pools: Vec<SubnetPool>,
    pub(super) networks: Vec<Network>,
    pub(super) subnets: Vec<Subnet>,
    pub(super) groups: Vec<SecurityGroup>,
    pub(super) rules: Vec<SecurityGroupRule>,
    pub(super) ports: Vec<Port>,
    pub(super) routers: Vec<Router>,
    pub(super) floating_ips: Vec<FloatingIp>,
    pub(super) policies: Vec<RbacPolicy>,
    pub(super) quotas: Vec<QuotaSet>,
    pub(super) left_out: Vec<Remark>,
    pub(super) notes: Vec<String>,
    /// The imported objects by noun and id: most objects refer to others.
    known: BTreeSet<(&'static str, Uuid)>,
    /// The ports that hold addresses of floating IPs.
    holders: BTreeMap<(Uuid, Ipv4Addr), Uuid>,
}

/// Reads a document. Nouns that others refer to come first.
pub(super) fn objects(document: &Document, now: Timestamp) -> Objects {
    let mut objects = Objects::default();
    let reading = Reading { document, now };
    objects.scopes = reading.each(&mut objects, "address_scopes", address::scope);
    objects.pools = reading.each(&mut objects, "subnetpools", address::pool);
    objects.networks = reading.each(&mut objects, "networks", network::network);
    objects.subnets = reading.each(&mut objects, "subnets", address::subnet);
    objects.groups = reading.each(&mut objects, "security_groups", security::group);
    objects.rules = reading.each(&mut objects, "security_group_rules", security::rule);
    // Ports of routers need the routers, and routers are complete only with their gateways.
    objects.routers = reading.each(&mut objects, "routers", router::router);
    objects.ports = reading.each(&mut objects, "ports", port::port);
    port::leave_out_twins(&mut objects);
    router::gateways(&mut objects, document);
    router::holders(&mut objects);
    objects.floating_ips = reading.each(&mut objects, "floatingips", router::floating_ip);
    objects.policies = reading.each(&mut objects, "rbac_policies", security::policy);
    objects.quotas = reading.each(&mut objects, "quotas", security::quota);
    objects
}

impl Objects {
    /// All objects as rows of the store.
    pub(super) fn rows(self) -> Vec<Row> {
        fn of<T: Entity>(entities: Vec<T>) -> impl Iterator<Item = Row> {
            entities.into_iter().map(|entity| T::row(Arc::new(entity)))
        }
        of(self.scopes)
            .chain(of(self.pools))
            .chain(of(self.networks))
            .chain(of(self.subnets))
            .chain(of(self.groups))
            .chain(of(self.rules))
            .chain(of(self.ports))
            .chain(of(self.routers))
            .chain(of(self.floating_ips))
            .chain(of(self.policies))
            .chain(of(self.quotas))
            .collect()
    }

    /// Fails with a reason if an object that another refers to is missing.
    fn needs(&self, noun: &'static str, id: Uuid) -> Result<(), String> {
        if self.known.contains(&(noun, id)) {
            return Ok(());
        }
        Err(format!("its {} {id} is not imported", noun.replace('_', " ")))
    }

    fn leave_out(&mut self, noun: &'static str, id: impl ToString, why: impl Into<String>) {
        self.left_out.push(Remark::new(noun, id, why));
    }

    /// Adds a note that may apply to many objects, but only once.
    fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|known| known == text) {
            self.notes.push(text.to_owned());
        }
    }
}

struct Reading<'d> {
    document: &'d Document,
    now: Timestamp,
}

impl Reading<'_> {
    /// Converts the objects of a collection. An object that fails is left out, with the reason.
    fn each<D: DeserializeOwned, T>(
        &self,
        objects: &mut Objects,
        collection: &str,
        make: impl Fn(&mut Objects, D, Timestamp) -> Result<T, String>,
    ) -> Vec<T> {
        let noun = singular(collection);
        let mut made = Vec::new();
        for value in self.document.get(collection) {
            let read = D::deserialize(value).map_err(|error| format!("cannot parse it: {error}"));
            match read.and_then(|read| make(objects, read, self.now)) {
                Ok(entity) => {
                    let id = value["id"].as_str().and_then(|id| Uuid::try_parse(id).ok());
                    objects.known.extend(id.map(|id| (noun, id)));
                    if belongs_to_nobody(value) {
                        let id = value["id"].as_str().unwrap_or("without an id");
                        objects.note(&format!(
                            "The {} {id} belongs to no project: it counts in no quota, and only an administrator can \
                             change or delete it.",
                            noun.replace('_', " ")
                        ));
                    }
                    made.push(entity);
                }
                Err(why) => {
                    let id = value["id"].as_str().or(value["project_id"].as_str()).unwrap_or("without an id");
                    objects.leave_out(noun, id, why);
                }
            }
        }
        made
    }
}

/// The noun of a collection.
fn singular(collection: &str) -> &'static str {
    match collection {
        "address_scopes" => "address_scope",
        "subnetpools" => "subnetpool",
        "networks" => "network",
        "subnets" => "subnet",
        "security_groups" => "security_group",
        "security_group_rules" => "security_group_rule",
        "ports" => "port",
        "routers" => "router",
        "floatingips" => "floatingip",
        "rbac_policies" => "rbac_policy",
        _ => "quota",
    }
}

/// Whether an object has no project although its kind should have one. Neutron's internal ports have none.
fn belongs_to_nobody(object: &Value) -> bool {
    let is_empty = |key: &str| object[key].as_str().unwrap_or_default().is_empty();
    let is_neutrons = object["device_owner"].as_str().is_some_and(|owner| owner.starts_with("network:"));
    is_empty("project_id") && is_empty("tenant_id") && !is_neutrons
}

/// The attributes of every object. Newer Neutron has the owner as `project_id`, older as `tenant_id`; most have both.
#[derive(Debug, Deserialize)]
struct Common {
    id: Uuid,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    tenant_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default)]
    revision_number: Option<u64>,
    #[serde(default)]
    created_at: Option<Timestamp>,
    #[serde(default)]
    updated_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default, deserialize_with = "or_default")]
    tags: BTreeSet<String>,
}

/// The common attributes in our types.
struct Identity {
    id: Uuid,
    project: String,
    name: String,
    standard: Standard,
}

impl Common {
    fn told(self, now: Timestamp) -> Identity {
        let created_at = self.created_at.unwrap_or(now);
        Identity {
            id: self.id,
            project: self.project_id.or(self.tenant_id).unwrap_or_default(),
            name: self.name,
            standard: Standard {
                revision: self.revision_number.unwrap_or(0),
                created_at,
                updated_at: self.updated_at.unwrap_or(created_at),
                description: self.description,
                tags: self.tags,
            },
        }
    }
}

/// Deserializes null as the default: Neutron uses it for unset values in many places.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Whether a value is neither null, false nor empty.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}
