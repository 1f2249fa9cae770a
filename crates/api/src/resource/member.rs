//! Members: the servers of a pool.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use uuid::Uuid;

use super::attribute::{ID, PROJECT_ID, TENANT_ID};
use super::load_balancer::aggregate::{self, UnsupportedLast};
use super::load_balancer::attribute::{
    ADMIN_STATE_UP, CREATED_AT, NAME, OPERATING_STATUS, PROVISIONING_STATUS, TAGS, UPDATED_AT, show_times,
};
use super::load_balancer::{status, vip};
use super::pool::Pools;
use super::{Attribute, Checked, Parent, Preset, Resource, Scene, Shape, Verb, View, of, quota};
use crate::dialect::octavia::{absent, conflict, invalid_option, unsupported_option, validation};
use crate::dialect::{Dialect, Octavia};
use crate::model::{Generation, GivenAddress, LoadBalancer, Member, Pool, Standard, Subnet};
use crate::policy::{Party, PolicyTarget, Rule, Term};
use crate::world::{Kind, Link, Txn, World};
use crate::{Caller, Fault};

/// The noun `member`.
#[derive(Debug)]
pub struct Members;

/// The address of the metadata service. A member there would let a tenant reach it.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

static ATTRIBUTES: &[Attribute] = &[
    ID,
    NAME,
    OPERATING_STATUS,
    PROVISIONING_STATUS,
    ADMIN_STATE_UP,
    Attribute::new("address", Shape::GivenAddress, "Where it listens.").required(),
    Attribute::new("protocol_port", Shape::Integer { min: 1, max: 65_535 }, "Its port.").required(),
    Attribute::new(
        "weight",
        Shape::Nullable(&Shape::Integer { min: 0, max: 256 }),
        "Its share of connections.",
    )
    .create()
    .update()
    .preset(Preset::Integer(1))
    .null(Preset::Integer(1)),
    Attribute::new("backup", Shape::Nullable(&Shape::Bool), "Serves only while no other member can.")
        .create()
        .update()
        .preset(Preset::Bool(false))
        .null(Preset::Bool(false)),
    Attribute::new(
        "subnet_id",
        Shape::Nullable(&Shape::Uuid),
        "The subnet it is in; that of the VIP if null.",
    )
    .create()
    .preset(Preset::Null),
    PROJECT_ID,
    TENANT_ID,
    CREATED_AT,
    UPDATED_AT,
    Attribute::new("monitor_address", Shape::Nullable(&Shape::GivenAddress), "Not supported by OVN.")
        .create()
        .update()
        .preset(Preset::Null)
        .null(Preset::Null),
    Attribute::new(
        "monitor_port",
        Shape::Nullable(&Shape::Integer { min: 1, max: 65_535 }),
        "Not supported by OVN.",
    )
    .create()
    .update()
    .preset(Preset::Null)
    .null(Preset::Null),
    TAGS,
    Attribute::new("vnic_type", Shape::Text { max: 64 }, "Always normal."),
    Attribute::new("request_sriov", Shape::Nullable(&Shape::Bool), "Not supported by OVN.")
        .create()
        .preset(Preset::Bool(false))
        .shown(super::Audience::Never)
        .unsearchable(),
];

impl Resource for Members {
    type Entity = Member;
    const DIALECT: &'static dyn Dialect = &Octavia;
    const PARENT: Option<Parent<Member>> = Some(Parent { noun: of::<Pools>(), of: |member| member.pool_id });
    const NAME: &'static str = "member";
    const COLLECTION: &'static str = "members";
    const PATH: &'static str = "members";
    const ABSENT: (&'static str, &'static str) = ("", "Member");
    const VERBS: &'static [Verb] = &[Verb::Create, Verb::Update, Verb::Delete, Verb::ReplaceAll];
    const TAGGED: bool = false;
    const GET: Rule = Rule(&[Term::Admin, Term::Service, Term::Reader(Party::Owner)]);

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn parameters() -> &'static [Attribute] {
        static ALL: &[Attribute] =
            &[Attribute::new("additive_only", Shape::Bool, "Whether members that are not named stay.")];
        ALL
    }

    fn project(member: &Member) -> &str {
        &member.project
    }

    fn standard(member: &Member) -> Option<&Standard> {
        Some(&member.standard)
    }

    fn standard_mut(member: &mut Member) -> Option<&mut Standard> {
        Some(&mut member.standard)
    }

    fn target_of_new<'w>(
        world: &'w World,
        _caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        Ok(PolicyTarget::of(Self::project_of_new(world, new)))
    }

    fn project_of_new<'w>(world: &'w World, new: &'w Checked) -> &'w str {
        let pool = world.get::<Pool>(&new.parent().unwrap_or_default());
        pool.map_or(new.project(), |pool| &pool.project)
    }

    fn view(member: &Member, scene: &Scene<'_>, view: &mut View<'_>) {
        let status = status::of_member(scene, member);
        view.text("id", &member.id);
        view.put("name", &member.name);
        view.put("operating_status", status.operating.as_str());
        view.put("provisioning_status", status.provisioning.as_str());
        view.put("admin_state_up", member.admin_state_up);
        view.text("address", &member.address);
        view.put("protocol_port", member.protocol_port);
        view.put("weight", member.weight);
        view.put("backup", member.backup);
        view.optional("subnet_id", member.subnet_id.as_ref());
        view.put("project_id", &member.project);
        view.put("tenant_id", &member.project);
        show_times(view, &member.standard, status.provisioning);
        view.put("monitor_address", ());
        view.put("monitor_port", ());
        view.list("tags", &member.standard.tags);
        view.put("vnic_type", "normal");
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let pool = new.parent().unwrap_or_default();
        let whole = whole_of(txn, pool)?;
        aggregate::check_mutable(txn, whole.id)?;
        let generation = aggregate::begin(txn, whole.id);
        let made = make(txn, caller, pool, new, generation)?;
        aggregate::mark_pool(txn, pool, generation);
        aggregate::settle(txn, whole.id)?;
        Ok(made)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = txn.get::<Member>(&id).cloned().ok_or_else(|| absent("Member", id))?;
        aggregate::check_mutable(txn, before.load_balancer_id)?;
        check_monitor(change)?;
        let generation = aggregate::begin(txn, before.load_balancer_id);
        txn.edit::<Member>(&id, |member| {
            set(member, change);
            member.generation.changed = generation;
        });
        aggregate::mark_pool(txn, before.pool_id, generation);
        aggregate::settle(txn, before.load_balancer_id)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let member = txn.get::<Member>(&id).cloned().ok_or_else(|| absent("Member", id))?;
        aggregate::check_mutable(txn, member.load_balancer_id)?;
        let generation = aggregate::begin(txn, member.load_balancer_id);
        txn.remove::<Member>(&id);
        aggregate::mark_pool(txn, member.pool_id, generation);
        aggregate::settle(txn, member.load_balancer_id)
    }

    /// Members are identified by address and port.
    fn replace_all(txn: &mut Txn, caller: &Caller, all: &[Checked], request: &Checked) -> Result<(), Fault> {
        let pool = request.parent().unwrap_or_default();
        let whole = whole_of(txn, pool)?;
        let there = txn.linked::<Member>(Link::Inside(Kind::Member, pool));
        let there: BTreeMap<(IpAddr, u16), Arc<Member>> =
            there.map(|member| ((member.address.value, member.protocol_port), Arc::clone(member))).collect();
        let wanted: BTreeSet<(IpAddr, u16)> = all.iter().map(key_of).collect();
        let removed: Vec<Uuid> = match request.flag("additive_only") {
            true => Vec::new(),
            false => {
                there.iter().filter(|(key, _)| !wanted.contains(key)).map(|(_, member)| member.id).collect()
            }
        };
        // Octavia's order of checks: quota, state of the load balancer, each member, capabilities of the provider.
        let added: Vec<&Checked> = all.iter().filter(|new| !there.contains_key(&key_of(new))).collect();
        if let Some(more) = added.len().checked_sub(removed.len()).filter(|more| *more > 0) {
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            quota::check_objects(txn, quota::balancer::LIMITED, Kind::Member, &whole.project, more)
                .map_err(Self::refuse)?;
        }
        aggregate::check_mutable(txn, whole.id)?;
        if let Some((address, port)) = repeated(all) {
            return Err(validation(format_args!(
                "Member {address} with protocol_port {port} is in the request more than once."
            )));
        }
        let mut unsupported = UnsupportedLast::default();
        let mut changed = Vec::new();
        for (new, member) in all.iter().filter_map(|new| Some((new, there.get(&key_of(new))?))) {
            unsupported.pass(check_monitor(new))?;
            let mut after = Member::clone(member);
            set(&mut after, new);
            after.standard.tags = new.read("tags").unwrap_or_default();
            if after != **member {
                changed.push(after);
            }
        }
        if added.is_empty() && changed.is_empty() && removed.is_empty() {
            return unsupported.finish();
        }
        let generation = aggregate::begin(txn, whole.id);
        for id in removed {
            txn.remove::<Member>(&id);
        }
        for mut member in changed {
            member.generation.changed = generation;
            member.standard.bump(txn.now());
            txn.put(member);
        }
        for new in added {
            unsupported.pass(make(txn, caller, pool, new, generation))?;
        }
        unsupported.finish()?;
        aggregate::mark_pool(txn, pool, generation);
        aggregate::settle(txn, whole.id)
    }
}

fn whole_of(world: &World, pool: Uuid) -> Result<Arc<LoadBalancer>, Fault> {
    let pool = world.get::<Pool>(&pool).ok_or_else(|| absent("Pool", pool))?;
    aggregate::found(world, pool.load_balancer_id).cloned()
}

/// The address and port that several members of a request have.
fn repeated(all: &[Checked]) -> Option<(IpAddr, u16)> {
    let mut seen = BTreeSet::new();
    all.iter().map(key_of).find(|key| !seen.insert(*key))
}

fn key_of(new: &Checked) -> (IpAddr, u16) {
    let address: Option<GivenAddress> = new.parsed("address");
    let address = address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |given| given.value);
    (address, new.integer("protocol_port").unwrap_or(0))
}

/// Creates a member in a pool whose load balancer is not immutable.
pub(super) fn make(
    txn: &mut Txn,
    caller: &Caller,
    pool: Uuid,
    new: &Checked,
    generation: u64,
) -> Result<Uuid, Fault> {
    let whole = whole_of(txn, pool)?;
    let (address, port) = key_of(new);
    if address == METADATA {
        return Err(invalid_option(address, "member address"));
    }
    if new.bool("request_sriov") == Some(true) {
        return Err(invalid_option("True", "request_sriov"));
    }
    let subnet_id = new.uuid("subnet_id");
    if let Some(id) = subnet_id {
        vip::usable_subnet(txn, caller, id)?;
    }
    let is_same = |other: &Member| (other.address.value, other.protocol_port) == (address, port);
    // Found by address, because a pool may have thousands of members.
    if txn.linked::<Member>(Link::MembersWithAddress(address)).any(|it| it.pool_id == pool && is_same(it)) {
        return Err(conflict(format!(
            "Another member on this pool is already using ip {address} on protocol_port {port}"
        )));
    }
    check_monitor(new)?;
    if !whole.serves_family(address) {
        return Err(unsupported_option(
            "OVN provider does not support mixing IPv4/IPv6 configuration within the same Load Balancer.",
        ));
    }
    let vip_subnet = whole
        .vips
        .iter()
        .map(|vip| vip.subnet_id)
        .find(|id| txn.get::<Subnet>(id).is_some_and(|subnet| subnet.cidr.contains(&address)));
    if subnet_id.is_none() && vip_subnet.is_none() {
        return Err(unsupported_option(
            "Subnet is required, since the address of the member is not in the subnet of the VIP.",
        ));
    }
    let ordinal = aggregate::next_ordinal(txn, whole.id);
    let mut member = Member {
        id: txn.new_id(),
        project: whole.project.clone(),
        load_balancer_id: whole.id,
        pool_id: pool,
        name: String::new(),
        admin_state_up: true,
        address: new.parsed("address").unwrap_or_else(|| address.into()),
        protocol_port: port,
        subnet_id,
        vip_subnet_id: vip_subnet.unwrap_or(whole.primary_vip().subnet_id),
        weight: 1,
        backup: false,
        ordinal,
        generation: Generation::new(generation),
        standard: new.standard(txn.now()),
    };
    set(&mut member, new);
    let id = member.id;
    txn.put(member);
    Ok(id)
}

/// Applies the attributes of a request that all members have.
fn set(member: &mut Member, request: &Checked) {
    request.set_text("name", &mut member.name);
    request.set_bool("admin_state_up", &mut member.admin_state_up);
    request.set_bool("backup", &mut member.backup);
    if let Some(weight) = request.integer("weight") {
        member.weight = weight;
    }
}

fn check_monitor(request: &Checked) -> Result<(), Fault> {
    match ["monitor_address", "monitor_port"].iter().any(|name| request.get(name).is_some()) {
        true => Err(unsupported_option(
            "OVN Load Balancer does not support different member monitor address or port.",
        )),
        false => Ok(()),
    }
}
