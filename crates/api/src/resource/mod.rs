//! The nouns of the API: one file each, and the rules that hold for all of them.
//!
//! A noun is a [`Resource`]: a table of [`Attribute`]s, a view, and what create, update and delete do, as functions of a
//! [`Txn`]. [`Computed`] nouns are read from elsewhere and stored nowhere. [`Noun`] is either kind with its type forgotten;
//! it carries the rules that are the same for all (checks, policy, revisions, bulk, lists), and is all that `http` sees.
//!
//! Each noun belongs to one API, and speaks its [`Dialect`].
//!
//! Nothing here does input or output, and nothing here knows of HTTP beyond the numbers in a [`Fault`].
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

/// What a view may look at.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What is stored.
    pub world: &'a World,
    /// What OVN reports back.
    pub report: &'a Report,
    /// The operator's choices and the chassis.
    pub outside: &'a Outside,
    /// Who asks.
    pub caller: &'a Caller,
    /// The time of the request.
    pub now: Timestamp,
    /// The id of the object that the path names before this one, for nouns that are inside of another.
    pub parent: Option<&'a str>,
}

/// The noun that the paths of another name before it: pools, for `pools/{id}/members`.
pub struct Parent<E> {
    /// The noun.
    pub noun: &'static dyn Noun,
    /// The parent of an object. The model notes the way back: [`Link::Inside`].
    pub of: fn(&E) -> Uuid,
}

// Derived, these would ask the same of the entity.
impl<E> Copy for Parent<E> {}
impl<E> Clone for Parent<E> {
    fn clone(&self) -> Self {
        *self
    }
}

/// A noun that is stored.
///
/// What the caller may see and change is asked before `update`, `delete` and actions run; attributes are checked. Revision
/// and `updated_at` of the object grow by themselves when it comes out changed; a noun that changes its parent too calls
/// [`touch`].
pub trait Resource: 'static {
    /// What is stored.
    type Entity: Entity<Key = Uuid>;
    /// The words and rules of its API.
    const DIALECT: &'static dyn Dialect;
    /// The noun that its paths name before it. A request then reaches only the objects inside of the parent that it names.
    const PARENT: Option<Parent<Self::Entity>> = None;
    /// In bodies: `security_group`.
    const NAME: &'static str;
    /// In answers to lists: `security_groups`.
    const COLLECTION: &'static str;
    /// In paths: `security-groups`.
    const PATH: &'static str;
    /// Type of the fault if there is none with an id, and how its text begins: `("NetworkNotFound", "Network")`.
    const ABSENT: (&'static str, &'static str);
    /// What can be done with it besides looking.
    const VERBS: &'static [Verb] = &[Verb::Create, Verb::Update, Verb::Delete];
    /// Whether it has the sub-resource `tags`.
    const TAGGED: bool = true;

    /// Its attributes, in the order in which views write them.
    fn attributes() -> &'static [Attribute];
    /// What else can be asked of one.
    fn actions() -> &'static [Action] {
        &[]
    }
    /// The query parameters of a change that mean something, such as `cascade`. Others are passed over.
    fn parameters() -> &'static [Attribute] {
        &[]
    }
    /// The owner.
    fn project(entity: &Self::Entity) -> &str;
    /// Revision, times, description, labels, if it has them.
    fn standard(entity: &Self::Entity) -> Option<&Standard>;
    /// The same, to change.
    fn standard_mut(entity: &mut Self::Entity) -> Option<&mut Standard>;

    /// Who may know that it exists.
    const GET: Rule = policy::READER;
    /// Who may make one.
    const CREATE: Rule = policy::MEMBER;
    /// Who may change one.
    const UPDATE: Rule = policy::MEMBER;
    /// Who may remove one.
    const DELETE: Rule = policy::MEMBER;
    /// Who may change its labels.
    const TAGS: Rule = policy::MEMBER;

    /// What the rules look at.
    fn target<'w>(entity: &'w Self::Entity, _world: &'w World) -> PolicyTarget<'w> {
        PolicyTarget::of(Self::project(entity))
    }
    /// The same of one that a request asks for. A fault if what it is to be on is not there for the caller.
    fn target_of_new<'w>(
        _world: &'w World,
        _caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        Ok(PolicyTarget::of(new.project()))
    }
    /// The project that one which a request asks for will belong to.
    fn project_of_new<'w>(_world: &'w World, new: &'w Checked) -> &'w str {
        new.project()
    }
    /// Whether the caller may know that it exists.
    fn visible(entity: &Self::Entity, world: &World, caller: &Caller) -> bool {
        Self::GET.permits(caller, &Self::target(entity, world), None)
    }
    /// Where a filtered list need look: what these links lead to holds all that the filters let through.
    fn reach(_filters: &Filters) -> Option<Vec<Link>> {
        None
    }
    /// Writes all attributes.
    fn view(entity: &Self::Entity, scene: &Scene<'_>, view: &mut View<'_>);

    /// Makes one for [`Checked::project`].
    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault>;
    /// Changes one that is there.
    fn update(txn: &mut Txn, caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault>;
    /// Removes one that is there. `request` has the query parameters and no attributes.
    fn delete(txn: &mut Txn, caller: &Caller, id: Uuid, request: &Checked) -> Result<(), Fault>;
    /// Makes the collection, or what of it is inside of [`Checked::parent`], what `all` says: for nouns with
    /// [`Verb::ReplaceAll`]. Each element is checked as a create request is. The noun checks the quota of those that it makes.
    fn replace_all(
        _txn: &mut Txn,
        _caller: &Caller,
        _all: &[Checked],
        _request: &Checked,
    ) -> Result<(), Fault> {
        Err(Fault::not_allowed())
    }
    /// What has to be made before the caller's list can be read, if anything: some nouns come to be by being looked for.
    fn prepare(_world: &World, _caller: &Caller) -> Option<Preparation> {
        None
    }

    /// A refusal of the engine, in the words of the noun's API.
    fn refuse(refusal: Refusal) -> Fault {
        Self::DIALECT.refuse(NounNames { name: Self::NAME, absent: Self::ABSENT }, refusal)
    }
}

/// The fault if there is none with this id.
pub fn absent<R: Resource>(id: impl std::fmt::Display) -> Fault {
    R::refuse(Refusal::Absent { id: id.to_string() })
}

/// Counts a change of something that belongs to it: an interface of a router, a rule of a group.
pub fn touch<R: Resource>(txn: &mut Txn, id: Uuid) {
    let now = txn.now();
    txn.edit::<R::Entity>(&id, |entity| {
        if let Some(standard) = R::standard_mut(entity) {
            standard.bump(now);
        }
    });
}

/// All nouns, in the order in which documents list them.
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

/// What can be asked of no object: the path is all that follows `/v2.0/`.
pub static ROOT: &[Action] = &[Action::put(
    "meridian/rebalance",
    "Move gateways off chassis that have more than their share",
    |txn, call| agent::rebalance(txn, call.caller).map(Reply::Value),
)
.with(Method::Post, 200)
.by(policy::ADMIN)];

/// The noun that a path names. As in Neutron, a dash and an underscore are the same: clients ask for `floatingip-pools` and for
/// `floatingip_pools`.
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
