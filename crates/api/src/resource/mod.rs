//! The nouns of the API: one file each, and the rules that hold for all of them.
//!
//! A noun is a [`Resource`]: a table of [`Attribute`]s, a view, and what create, update and delete do, as functions of a
//! [`Txn`]. [`Computed`] nouns are read from elsewhere and stored nowhere. [`Noun`] is either kind with its type forgotten;
//! it carries the rules that are the same for all (checks, policy, revisions, bulk, lists), and is all that `http` sees.
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
pub mod interface;
pub mod ip_availability;
pub mod ipam;
pub mod list;
pub mod metadata_port;
pub mod network;
pub mod port;
pub mod quota;
pub mod rbac_policy;
pub mod router;
pub mod security_group;
pub mod security_group_rule;
pub mod service_provider;
pub mod subnet;
pub mod subnet_pool;
pub mod tags;
pub mod view;

use uuid::Uuid;

use crate::model::Standard;
use crate::policy::{self, PolicyTarget, Rule};
use crate::report::Report;
use crate::world::{Entity, Link, Outside};
use crate::{Caller, Fault, Txn, World};

pub use action::{Act, Action, Call, Method, Reply};
pub use attribute::{Attribute, Checked, Field, Part, Preset, Shape, Shown as ShownTo, Who};
pub use computed::Computed;
pub use engine::{Asked, Changed, Noun, Precondition, Preparation, Verb, of};
pub use list::{Filters, Page, Query};
pub use view::{Selection, Shown, ShownList, Values, View};

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
}

/// A noun that is stored.
///
/// What the caller may see and change is asked before `update`, `delete` and actions run; attributes are checked. Revision
/// and `updated_at` of the object grow by themselves when it comes out changed; a noun that changes its parent too calls
/// [`touch`].
pub trait Resource: 'static {
    /// What is stored.
    type Entity: Entity<Key = Uuid>;
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
    /// Removes one that is there.
    fn delete(txn: &mut Txn, caller: &Caller, id: Uuid) -> Result<(), Fault>;
    /// What has to be made before the caller's list can be read, if anything: some nouns come to be by being looked for.
    fn prepare(_world: &World, _caller: &Caller) -> Option<Preparation> {
        None
    }
}

/// The fault if there is none with this id.
pub fn absent<R: Resource>(id: impl std::fmt::Display) -> Fault {
    Fault::absent(R::ABSENT.0, R::ABSENT.1, id)
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

/// The noun that a path names.
pub fn at_path(path: &str) -> Option<&'static dyn Noun> {
    NOUNS.iter().copied().find(|noun| noun.path() == path)
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
