//! The nouns of the API: one file each, and the rules that hold for all of them.
//!
//! A noun is a [`Resource`]: a table of [`Attribute`]s, a view, and create, update and delete as functions of a [`Txn`]. [`Computed`] nouns
//! are not stored. [`Noun`] is the dynamic interface of both kinds. It applies the common rules (checks, policy, revisions, bulk, lists),
//! and `http` uses nothing else.
//!
//! Each noun belongs to one API and uses its [`Dialect`].
//!
//! Nothing here does IO or depends on HTTP, beyond the status codes in a [`Fault`].
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod action;
pub mod address_scope;
pub mod agent;
pub mod attribute;
pub mod availability_zone;
pub mod binding;
pub mod computed;
mod engine;
pub mod extra_route;
pub mod floating_ip;
pub mod gateway;
pub mod health_monitor;
pub mod interface;
pub mod ip_availability;
pub mod ipam;
pub mod list;
pub mod listener;
pub mod load_balancer;
pub mod member;
pub mod metadata_port;
pub mod network;
pub mod pool;
pub mod port;
pub mod quota;
pub mod rbac_policy;
pub mod router;
pub mod security_group;
pub mod security_group_rule;
pub mod service_provider;
mod stored;
pub mod subnet;
pub mod subnet_pool;
pub mod tags;
pub mod view;

use jiff::Timestamp;
use uuid::Uuid;

use crate::dialect::{Dialect, NounNames, Refusal};
use crate::model::Standard;
use crate::policy::{self, PolicyTarget, Rule};
use crate::report::Report;
use crate::world::{Entity, Link, Outside};
use crate::{Caller, Fault, Txn, World};

pub use action::{Act, Action, ActionCall, Method, Reply};
pub use attribute::{Attribute, Audience, Checked, Field, Part, Permission, Preset, Shape};
pub use computed::Computed;
pub use engine::{ActionRequest, ChangeRequest, CreateAnswer, Noun, Preparation, Verb};
pub use list::{Filters, Page, Query};
pub use stored::of;
pub use view::{RenderedList, RenderedObject, Selection, Values, View};

/// The inputs of a view.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The stored state.
    pub world: &'a World,
    /// OVN's reports.
    pub report: &'a Report,
    /// The settings and the chassis.
    pub outside: &'a Outside,
    /// The caller.
    pub caller: &'a Caller,
    /// The time of the request.
    pub now: Timestamp,
    /// The id of the parent in the path, for nouns inside of another.
    pub parent: Option<&'a str>,
}

/// The parent noun in a noun's paths: pools, for `pools/{id}/members`.
pub struct Parent<E> {
    /// The noun.
    pub noun: &'static dyn Noun,
    /// The parent of an object. The model declares the opposite direction: [`Link::Inside`].
    pub of: fn(&E) -> Uuid,
}

// A derive would require these traits of the entity too.
impl<E> Copy for Parent<E> {}
impl<E> Clone for Parent<E> {
    fn clone(&self) -> Self {
        *self
    }
}

/// A noun that is stored.
///
/// The engine checks attributes, visibility and permissions before `update`, `delete` and actions run. It increments the object's revision
/// and `updated_at` if the object changed. A noun that changes its parent too calls [`touch`].
pub trait Resource: 'static {
    /// The stored type.
    type Entity: Entity<Key = Uuid>;
    /// The dialect of its API.
    const DIALECT: &'static dyn Dialect;
    /// The parent noun in its paths. A request then reaches only the objects inside of the parent that it names.
    const PARENT: Option<Parent<Self::Entity>> = None;
    /// The name in bodies: `security_group`.
    const NAME: &'static str;
    /// The name in list responses: `security_groups`.
    const COLLECTION: &'static str;
    /// The name in paths: `security-groups`.
    const PATH: &'static str;
    /// The fault for an unknown id: its type, and the first word of its message, such as `("NetworkNotFound", "Network")`.
    const ABSENT: (&'static str, &'static str);
    /// The verbs besides reading.
    const VERBS: &'static [Verb] = &[Verb::Create, Verb::Update, Verb::Delete];
    /// Whether it has the sub-resource `tags`.
    const TAGGED: bool = true;

    /// Its attributes, in the order in which views write them.
    fn attributes() -> &'static [Attribute];
    /// Further actions on one object.
    fn actions() -> &'static [Action] {
        &[]
    }
    /// The query parameters of a change, such as `cascade`. The engine ignores others.
    fn parameters() -> &'static [Attribute] {
        &[]
    }
    /// The project that owns an object.
    fn project(entity: &Self::Entity) -> &str;
    /// The revision, times, description and tags, if the noun has them.
    fn standard(entity: &Self::Entity) -> Option<&Standard>;
    /// Mutable access to the same.
    fn standard_mut(entity: &mut Self::Entity) -> Option<&mut Standard>;

    /// The rule for knowing that an object exists.
    const GET: Rule = policy::READER;
    /// The rule for creating one.
    const CREATE: Rule = policy::MEMBER;
    /// The rule for changing one.
    const UPDATE: Rule = policy::MEMBER;
    /// The rule for deleting one.
    const DELETE: Rule = policy::MEMBER;
    /// The rule for changing its tags.
    const TAGS: Rule = policy::MEMBER;

    /// The properties of an object that the rules check.
    fn target<'w>(entity: &'w Self::Entity, _world: &'w World) -> PolicyTarget<'w> {
        PolicyTarget::of(Self::project(entity))
    }
    /// The same properties for an object to be created. Fails if the caller does not see the objects that it refers to.
    fn target_of_new<'w>(
        _world: &'w World,
        _caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        Ok(PolicyTarget::of(new.project()))
    }
    /// The project of an object to be created.
    fn project_of_new<'w>(_world: &'w World, new: &'w Checked) -> &'w str {
        new.project()
    }
    /// Whether the caller may know that an object exists.
    fn visible(entity: &Self::Entity, world: &World, caller: &Caller) -> bool {
        Self::GET.permits(caller, &Self::target(entity, world), None)
    }
    /// Links that together contain every object that passes the filters, so that a list need not scan all. `None` scans all.
    fn reach(_filters: &Filters) -> Option<Vec<Link>> {
        None
    }
    /// Writes all attributes into a view.
    fn view(entity: &Self::Entity, scene: &Scene<'_>, view: &mut View<'_>);

    /// Creates an object for [`Checked::project`].
    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault>;
    /// Changes an existing object.
    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault>;
    /// Deletes an existing object. `request` contains the query parameters and no attributes.
    fn delete(txn: &mut Txn, caller: &Caller, id: Uuid, request: &Checked) -> Result<(), Fault>;
    /// Replaces the collection, or the part inside of [`Checked::parent`], by `all`, for nouns with [`Verb::ReplaceAll`]. The engine checks
    /// each element like a create request. The noun checks the quota for new objects.
    fn replace_all(
        _txn: &mut Txn,
        _caller: &Caller,
        _all: &[Checked],
        _request: &Checked,
    ) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }
    /// A change that a list requires first, if any. For example, a project's default security group is created by its first list.
    fn prepare(_world: &World, _caller: &Caller) -> Option<Preparation> {
        None
    }

    /// Renders a refusal of the engine in the dialect of the noun's API.
    fn refuse(refusal: Refusal) -> Fault {
        Self::DIALECT.refuse(NounNames { name: Self::NAME, absent: Self::ABSENT }, refusal)
    }
}

/// The fault for an unknown id.
pub fn absent<R: Resource>(id: impl std::fmt::Display) -> Fault {
    R::refuse(Refusal::Absent { id: id.to_string() })
}

/// Increments the revision of an object because something inside of it changed: an interface of a router, a rule of a group.
pub fn touch<R: Resource>(txn: &mut Txn, id: Uuid) {
    let now = txn.now();
    txn.edit::<R::Entity>(&id, |entity| {
        if let Some(standard) = R::standard_mut(entity) {
            standard.bump(now);
        }
    });
}

/// All nouns of Neutron's API, in the order of documents.
pub static NOUNS: &[&dyn Noun] = &[
    of::<network::Networks>(),
    of::<subnet::Subnets>(),
    of::<subnet_pool::SubnetPools>(),
    of::<port::Ports>(),
    of::<router::Routers>(),
    of::<floating_ip::FloatingIps>(),
    of::<security_group::SecurityGroups>(),
    of::<security_group_rule::SecurityGroupRules>(),
    of::<address_scope::AddressScopes>(),
    of::<rbac_policy::RbacPolicies>(),
    computed::of::<agent::Agents>(),
    computed::of::<availability_zone::AvailabilityZones>(),
    computed::of::<floating_ip::FloatingIpPools>(),
    computed::of::<ip_availability::NetworkIpAvailabilities>(),
    computed::of::<service_provider::ServiceProviders>(),
];

/// Actions on no object: the path is all that follows `/v2.0/`.
pub static ROOT: &[Action] = &[Action::put(
    "meridian/rebalance",
    "Move gateways off chassis that have more than their share",
    |txn, call| agent::rebalance(txn, call.caller).map(Reply::Value),
)
.with(Method::Post, 200)
.by(policy::ADMIN)];

/// The noun of a path. As in Neutron, a dash and an underscore are the same: clients use both `floatingip-pools` and `floatingip_pools`.
pub fn at_path(path: &str) -> Option<&'static dyn Noun> {
    let same = |one: u8, other: u8| one == other || matches!((one, other), (b'-', b'_') | (b'_', b'-'));
    let is_path = |noun: &&dyn Noun| {
        let known = noun.path();
        known.len() == path.len() && known.bytes().zip(path.bytes()).all(|(one, other)| same(one, other))
    };
    NOUNS.iter().copied().find(is_path)
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
