//! Load balancers of the load balancer API. Listeners, pools, members and health monitors are parts of them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod adoption;
pub(super) mod aggregate;
pub(super) mod attribute;
pub mod health;
pub mod monitor_port;
pub(super) mod protocol;
pub mod reason;
pub mod status;
pub mod tree;
pub(super) mod vip;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use self::adoption::{Aggregate, adopt};
use self::attribute::{
    ADMIN_STATE_UP, CREATED_AT, DESCRIPTION, NAME, OPERATING_STATUS, PROVISIONING_STATUS, TAGS, UPDATED_AT,
    show_times,
};
use self::status::{FIRST_GENERATION, Provisioning};
use self::tree::StatusDetail;
use super::attribute::{ID, PROJECT_ID, TENANT_ID};
use super::{
    Act, Action, ActionCall, Attribute, Checked, Field, Method, Noun, Preset, Reply, Resource, Scene, Shape,
    View, health_monitor, listener, member, of, pool,
};
use crate::dialect::octavia::{
    PROVIDER, conflict, unknown_reference, unsupported_action, unsupported_option, validation,
};
use crate::dialect::{Dialect, Octavia};
use crate::model::{Listener, LoadBalancer, Pool, RowSlot, Standard, Vip};
use crate::policy;
use crate::world::{Kind, Link};
use crate::{Caller, Fault, Txn};

/// The nouns of the load balancer API.
pub static NOUNS: &[&dyn Noun] = &[
    of::<LoadBalancers>(),
    of::<listener::Listeners>(),
    of::<pool::Pools>(),
    of::<member::Members>(),
    of::<health_monitor::HealthMonitors>(),
];

/// The noun `loadbalancer`.
#[derive(Debug)]
pub struct LoadBalancers;

const UUID: Shape = Shape::Nullable(&Shape::Uuid);
const FURTHER_VIP: Shape = Shape::Object(&[
    Field::required("subnet_id", Shape::Uuid),
    Field::new("ip_address", Shape::Nullable(&Shape::GivenAddress)),
]);
/// The maximum number of parts of a kind in one request.
const MOST: usize = 5_000;

static ATTRIBUTES: &[Attribute] = &[
    ID,
    NAME,
    DESCRIPTION,
    PROVISIONING_STATUS,
    OPERATING_STATUS,
    ADMIN_STATE_UP,
    PROJECT_ID,
    TENANT_ID,
    CREATED_AT,
    UPDATED_AT,
    Attribute::new(
        "vip_address",
        Shape::Nullable(&Shape::GivenAddress),
        "Where clients connect; chosen if not named.",
    )
    .create(),
    Attribute::new("vip_port_id", UUID, "The port that holds the address; made if not named.").create(),
    Attribute::new("vip_subnet_id", UUID, "The subnet of the address.").create(),
    Attribute::new("vip_network_id", UUID, "The network of the address.").create(),
    Attribute::new(
        "additional_vips",
        Shape::Nullable(&Shape::List { of: &FURTHER_VIP, max: 100, unique: false }),
        "Further addresses, each in a subnet of its own of the same network.",
    )
    .create()
    .preset(Preset::List)
    .unsearchable(),
    Attribute::new(
        "listeners",
        Shape::List { of: &Shape::Free, max: MOST, unique: false },
        "Its listeners; those of a new one may come with it.",
    )
    .create()
    .preset(Preset::List),
    Attribute::new(
        "pools",
        Shape::List { of: &Shape::Free, max: MOST, unique: false },
        "Its pools; those of a new one may come with it.",
    )
    .create()
    .preset(Preset::List),
    Attribute::new("provider", Shape::Nullable(&Shape::Text { max: 64 }), "Who provides it: ovn.").create(),
    Attribute::new("flavor_id", UUID, "There are no flavors.").create(),
    Attribute::new("vip_qos_policy_id", UUID, "There are no QoS policies.")
        .create()
        .update()
        .null(Preset::Null),
    Attribute::new(
        "vip_sg_ids",
        Shape::Nullable(&Shape::List { of: &Shape::Uuid, max: 100, unique: false }),
        "Security groups of the VIP. Not supported by OVN.",
    )
    .create()
    .update()
    .preset(Preset::List)
    .null(Preset::List)
    .unsearchable(),
    Attribute::new("vip_vnic_type", Shape::Text { max: 64 }, "Always normal."),
    TAGS,
    Attribute::new("availability_zone", Shape::Nullable(&Shape::Text { max: 255 }), "There are none.")
        .create(),
];

/// A reference to another object, by its id.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Reference {
    pub(super) id: Uuid,
}

#[derive(Clone, Serialize)]
struct FurtherVip {
    subnet_id: Uuid,
    ip_address: String,
    port_id: Uuid,
}

impl FurtherVip {
    fn of(vip: &Vip) -> Self {
        FurtherVip { subnet_id: vip.subnet_id, ip_address: vip.address.to_string(), port_id: vip.port_id }
    }
}

static ACTIONS: &[Action] = &[
    Action::get("status", "Show the states of a load balancer and all its parts", read_statuses),
    Action::get("statuses", "Show the states of a load balancer and all its parts", read_statuses),
    Action::get("stats", "Show counters, which OVN does not have", |_, _| Ok(Reply::Value(no_statistics()))),
    Action {
        method: Method::Put,
        act: Act::Read(|_, _| Err(unsupported_action("OVN provider does not support loadbalancer failover"))),
        ..Action::get("failover", "Not supported by OVN", |_, _| Ok(Reply::Nothing))
    }
    .by(policy::ADMIN),
];

fn read_statuses(scene: &Scene<'_>, call: &ActionCall<'_>) -> Result<Reply, Fault> {
    let is_verbose =
        call.query.iter().any(|(key, value)| key == "verbose" && value.eq_ignore_ascii_case("true"));
    let detail = if is_verbose { StatusDetail::Verbose } else { StatusDetail::Standard };
    Ok(Reply::Value(tree::statuses(scene, aggregate::found(scene.world, call.id)?, detail)))
}

/// Zeros, because OVN counts nothing.
pub(super) fn no_statistics() -> Value {
    let names = ["active_connections", "bytes_in", "bytes_out", "request_errors", "total_connections"];
    json!({"stats": names.iter().map(|name| (*name, 0)).collect::<std::collections::BTreeMap<_, _>>()})
}

impl Resource for LoadBalancers {
    type Entity = LoadBalancer;
    const DIALECT: &'static dyn Dialect = &Octavia;
    const NAME: &'static str = "loadbalancer";
    const COLLECTION: &'static str = "loadbalancers";
    const PATH: &'static str = "loadbalancers";
    const ABSENT: (&'static str, &'static str) = ("", "Load Balancer");
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn actions() -> &'static [Action] {
        ACTIONS
    }

    fn parameters() -> &'static [Attribute] {
        static ALL: &[Attribute] =
            &[Attribute::new("cascade", Shape::Bool, "Whether the parts of a load balancer go with it.")];
        ALL
    }

    fn project(load_balancer: &LoadBalancer) -> &str {
        &load_balancer.project
    }

    fn standard(load_balancer: &LoadBalancer) -> Option<&Standard> {
        Some(&load_balancer.standard)
    }

    fn standard_mut(load_balancer: &mut LoadBalancer) -> Option<&mut Standard> {
        Some(&mut load_balancer.standard)
    }

    fn view(load_balancer: &LoadBalancer, scene: &Scene<'_>, view: &mut View<'_>) {
        let id = load_balancer.id;
        let status = status::of_load_balancer(scene, load_balancer);
        let vip = load_balancer.primary_vip();
        view.text("id", &id);
        view.put("name", &load_balancer.name);
        view.put("description", &load_balancer.standard.description);
        view.put("provisioning_status", status.provisioning.as_str());
        view.put("operating_status", status.operating.as_str());
        view.put("admin_state_up", load_balancer.admin_state_up);
        view.put("project_id", &load_balancer.project);
        view.put("tenant_id", &load_balancer.project);
        show_times(view, &load_balancer.standard, status.provisioning);
        view.text("vip_address", &vip.address);
        view.text("vip_port_id", &vip.port_id);
        view.text("vip_subnet_id", &vip.subnet_id);
        view.text("vip_network_id", &load_balancer.vip_network_id);
        view.put_with("additional_vips", || {
            load_balancer.vips.iter().skip(1).map(FurtherVip::of).collect::<Vec<_>>()
        });
        view.put_with("listeners", || {
            let listeners = scene.world.linked::<Listener>(Link::Inside(Kind::Listener, id));
            listeners.map(|listener| Reference { id: listener.id }).collect::<Vec<_>>()
        });
        view.put_with("pools", || {
            let pools = scene.world.linked::<Pool>(Link::Inside(Kind::Pool, id));
            pools.map(|pool| Reference { id: pool.id }).collect::<Vec<_>>()
        });
        view.put("provider", &load_balancer.provider);
        view.put("flavor_id", ());
        view.put("vip_qos_policy_id", ());
        view.put("vip_sg_ids", json!([]));
        view.put("vip_vnic_type", "normal");
        view.list("tags", &load_balancer.standard.tags);
        view.put("availability_zone", ());
    }

    fn create(txn: &mut Txn, caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let provider = new.text("provider").unwrap_or(PROVIDER);
        if provider != PROVIDER {
            let text = format!("Provider '{provider}' is not enabled.");
            return Err(Fault::new(400, "", text));
        }
        if new.get("flavor_id").is_some() {
            return Err(validation("Invalid flavor_id."));
        }
        if new.get("availability_zone").is_some() {
            return Err(validation("Invalid availability zone."));
        }
        check_unsupported(new)?;
        let id = txn.new_id();
        let (vip_network_id, vips) = vip::create(txn, caller, id, new)?;
        let load_balancer = LoadBalancer {
            id,
            project: new.project().to_owned(),
            name: new.text("name").unwrap_or_default().to_owned(),
            admin_state_up: new.bool("admin_state_up").unwrap_or(true),
            provider: provider.to_owned(),
            vip_network_id,
            vips,
            rows: vec![RowSlot::FIRST],
            generation: FIRST_GENERATION,
            changed_at: txn.now(),
            probed_subnets: std::collections::BTreeSet::new(),
            members_made: 0,
            deleted: false,
            standard: new.standard(txn.now()),
        };
        txn.put(load_balancer);
        tree::create_parts(txn, caller, id, new)?;
        aggregate::settle(txn, id)?;
        Ok(id)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        check_state(txn, id, &[Provisioning::Active])?;
        check_unsupported(change)?;
        aggregate::begin(txn, id);
        txn.edit::<LoadBalancer>(&id, |whole| {
            change.set_text("name", &mut whole.name);
            change.set_bool("admin_state_up", &mut whole.admin_state_up);
        });
        aggregate::settle(txn, id)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, request: &Checked) -> Result<(), Fault> {
        check_state(txn, id, &[Provisioning::Active, Provisioning::Error])?;
        let has_parts =
            txn.has_linked(Link::Inside(Kind::Listener, id)) || txn.has_linked(Link::Inside(Kind::Pool, id));
        if has_parts && !request.flag("cascade") {
            return Err(validation(format_args!("Cannot delete Load Balancer {id} - it has children")));
        }
        let generation = aggregate::begin(txn, id);
        aggregate::remove_parts(txn, id, generation);
        txn.edit::<LoadBalancer>(&id, |whole| {
            whole.deleted = true;
            whole.rows = Vec::new();
        });
        monitor_port::keep(txn, id)
    }
}

/// Refuses to change or delete a load balancer that is not in one of these states.
fn check_state(txn: &Txn, id: Uuid, states: &[Provisioning]) -> Result<(), Fault> {
    let state = aggregate::provisioning(txn, aggregate::found(txn, id)?);
    match states.contains(&state) {
        true => Ok(()),
        false => {
            let state = state.as_str();
            Err(conflict(format!("Invalid state {state} of loadbalancer resource {id}")))
        }
    }
}

fn check_unsupported(request: &Checked) -> Result<(), Fault> {
    if let Some(id) = request.text("vip_qos_policy_id") {
        return Err(unknown_reference("qos_policy", id));
    }
    match request.get("vip_sg_ids").and_then(Value::as_array) {
        Some(groups) if !groups.is_empty() => {
            Err(unsupported_option("OVN provider does not support vip_sg_ids option"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
