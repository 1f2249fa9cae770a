//! Pools: sets of interchangeable members.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::IpAddr;

use serde_json::{Value, json};
use uuid::Uuid;

use super::attribute::{ID, PROJECT_ID, TENANT_ID};
use super::load_balancer::attribute::{
    ADMIN_STATE_UP, CREATED_AT, DESCRIPTION, NAME, OPERATING_STATUS, PROVISIONING_STATUS, TAGS, UPDATED_AT,
    inert, inert_text, show_times,
};
use super::load_balancer::{Reference, aggregate, protocol, status};
use super::{Attribute, Audience, Checked, Field, Filters, Preset, Resource, Scene, Shape, View};
use crate::dialect::octavia::{absent, conflict, unsupported_option, validation};
use crate::dialect::{Dialect, Octavia};
use crate::model::{
    Algorithm, Generation, HealthMonitor, LbProtocol, Listener, LoadBalancer, Member, Persistence, Pool,
    Standard,
};
use crate::policy::PolicyTarget;
use crate::world::{Kind, Link, Txn, World};
use crate::{Caller, Fault};

/// The noun `pool`.
#[derive(Debug)]
pub struct Pools;

const ALGORITHMS: &[&str] = &["LEAST_CONNECTIONS", "ROUND_ROBIN", "SOURCE_IP", "SOURCE_IP_PORT"];
const TEXTS: Shape = Shape::Nullable(&Shape::List { of: &Shape::Text { max: 255 }, max: 100, unique: false });
const PERSISTENCE: Shape = Shape::Nullable(&Shape::Object(&[
    Field::required("type", Shape::OneOf(&["APP_COOKIE", "HTTP_COOKIE", "SOURCE_IP"])),
    Field::new("cookie_name", Shape::Nullable(&Shape::Text { max: 255 })),
    Field::new("persistence_timeout", Shape::Nullable(&Shape::Integer { min: 0, max: i32::MAX as i64 })),
    Field::new("persistence_granularity", Shape::Nullable(&Shape::GivenAddress)),
]));

static ATTRIBUTES: &[Attribute] = &[
    ID,
    NAME,
    DESCRIPTION,
    PROVISIONING_STATUS,
    OPERATING_STATUS,
    ADMIN_STATE_UP,
    Attribute::new("protocol", Shape::OneOf(protocol::POOL), "TCP, UDP or SCTP.").required(),
    Attribute::new("lb_algorithm", Shape::OneOf(ALGORITHMS), "SOURCE_IP_PORT or SOURCE_IP.")
        .required()
        .update(),
    Attribute::new("session_persistence", PERSISTENCE, "Whether a client stays with its member.")
        .create()
        .update()
        .preset(Preset::Null)
        .null(Preset::Null)
        .unsearchable(),
    PROJECT_ID,
    TENANT_ID,
    Attribute::new(
        "loadbalancers",
        Shape::List { of: &Shape::Free, max: 1, unique: false },
        "Its load balancer.",
    ),
    Attribute::new("loadbalancer_id", Shape::Nullable(&Shape::Uuid), "Its load balancer.")
        .create()
        .shown(Audience::Never),
    Attribute::new(
        "listener_id",
        Shape::Nullable(&Shape::Uuid),
        "The listener whose default pool it becomes.",
    )
    .create()
    .shown(Audience::Never),
    Attribute::new("listeners", Shape::List { of: &Shape::Free, max: 0, unique: false }, "Its listeners."),
    CREATED_AT,
    UPDATED_AT,
    Attribute::new("members", Shape::List { of: &Shape::Free, max: 0, unique: false }, "Its members."),
    Attribute::new("healthmonitor_id", Shape::Nullable(&Shape::Uuid), "Its health monitor."),
    TAGS,
    inert_text("tls_container_ref"),
    inert_text("ca_tls_container_ref"),
    inert_text("crl_container_ref"),
    inert("tls_enabled", Shape::Bool, Preset::Bool(false)),
    inert_text("tls_ciphers"),
    inert("tls_versions", TEXTS, Preset::Null),
    inert("alpn_protocols", TEXTS, Preset::Null),
];

impl Resource for Pools {
    type Entity = Pool;
    const DIALECT: &'static dyn Dialect = &Octavia;
    const NAME: &'static str = "pool";
    const COLLECTION: &'static str = "pools";
    const PATH: &'static str = "pools";
    const ABSENT: (&'static str, &'static str) = ("", "Pool");
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(pool: &Pool) -> &str {
        &pool.project
    }

    fn standard(pool: &Pool) -> Option<&Standard> {
        Some(&pool.standard)
    }

    fn standard_mut(pool: &mut Pool) -> Option<&mut Standard> {
        Some(&mut pool.standard)
    }

    fn target_of_new<'w>(
        world: &'w World,
        _caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        let whole = aggregate::found(world, whole_of_new(world, new)?)?;
        Ok(PolicyTarget::of(&whole.project))
    }

    fn project_of_new<'w>(world: &'w World, new: &'w Checked) -> &'w str {
        let whole = whole_of_new(world, new).ok().and_then(|id| world.get::<LoadBalancer>(&id));
        whole.map_or(new.project(), |whole| &whole.project)
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        let ids = filters.uuids("loadbalancer_id")?;
        Some(ids.into_iter().map(|id| Link::Inside(Kind::Pool, id)).collect())
    }

    fn view(pool: &Pool, scene: &Scene<'_>, view: &mut View<'_>) {
        let status = status::of_pool(scene, pool);
        view.text("id", &pool.id);
        view.put("name", &pool.name);
        view.put("description", &pool.standard.description);
        view.put("provisioning_status", status.provisioning.as_str());
        view.put("operating_status", status.operating.as_str());
        view.put("admin_state_up", pool.admin_state_up);
        view.put("protocol", pool.protocol.as_str());
        view.put("lb_algorithm", pool.algorithm.as_str());
        view.put_with("session_persistence", || pool.persistence.as_ref().map(show_persistence));
        view.put("project_id", &pool.project);
        view.put("tenant_id", &pool.project);
        view.put("loadbalancers", [Reference { id: pool.load_balancer_id }]);
        view.text("loadbalancer_id", &pool.load_balancer_id);
        view.put_with("listeners", || {
            let listeners = scene.world.linked::<Listener>(Link::ListenersOfPool(pool.id));
            listeners.map(|listener| Reference { id: listener.id }).collect::<Vec<_>>()
        });
        show_times(view, &pool.standard, status.provisioning);
        view.put_with("members", || {
            let members = scene.world.linked::<Member>(Link::Inside(Kind::Member, pool.id));
            members.map(|member| Reference { id: member.id }).collect::<Vec<_>>()
        });
        view.put_with("healthmonitor_id", || {
            let mut monitors =
                scene.world.linked::<HealthMonitor>(Link::Inside(Kind::HealthMonitor, pool.id));
            monitors.next().map(|monitor| monitor.id.to_string())
        });
        view.list("tags", &pool.standard.tags);
        for name in ["tls_container_ref", "ca_tls_container_ref", "crl_container_ref"] {
            view.put(name, ());
        }
        view.put("tls_enabled", false);
        for name in ["tls_ciphers", "tls_versions", "alpn_protocols"] {
            view.put(name, ());
        }
    }

    fn create(txn: &mut Txn, _caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let id = whole_of_new(txn, new)?;
        let word = new.text("protocol").unwrap_or_default();
        let listener = new.uuid("listener_id").and_then(|id| txn.get::<Listener>(&id)).cloned();
        if let Some(listener) = &listener {
            protocol::check_match(listener.protocol.as_str(), word)?;
        }
        aggregate::check_mutable(txn, id)?;
        if listener.as_ref().is_some_and(|listener| listener.default_pool_id.is_some()) {
            return Err(conflict("This listener already has a default pool"));
        }
        let generation = aggregate::begin(txn, id);
        let whole = aggregate::found(txn, id)?.clone();
        let made = make(txn, &whole, new, generation)?;
        if let Some(listener) = listener {
            txn.edit::<Listener>(&listener.id, |listener| {
                listener.default_pool_id = Some(made);
                listener.generation.changed = generation;
            });
        }
        aggregate::settle(txn, id)?;
        Ok(made)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = txn.get::<Pool>(&id).cloned().ok_or_else(|| absent("Pool", id))?;
        let whole = before.load_balancer_id;
        aggregate::check_mutable(txn, whole)?;
        let persistence = read_persistence(change, before.protocol.as_str())?;
        check_tls(change)?;
        let algorithm = change.text("lb_algorithm").map(algorithm).transpose()?;
        check_family(txn, aggregate::found(txn, whole)?, algorithm)?;
        let generation = aggregate::begin(txn, whole);
        txn.edit::<Pool>(&id, |pool| {
            change.set_text("name", &mut pool.name);
            change.set_bool("admin_state_up", &mut pool.admin_state_up);
            if change.has("session_persistence") {
                pool.persistence = persistence;
            }
            if let Some(algorithm) = algorithm {
                pool.algorithm = algorithm;
            }
        });
        aggregate::mark_pool(txn, id, generation);
        aggregate::settle(txn, whole)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let whole = txn.get::<Pool>(&id).ok_or_else(|| absent("Pool", id))?.load_balancer_id;
        aggregate::check_mutable(txn, whole)?;
        let generation = aggregate::begin(txn, whole);
        aggregate::remove_pool(txn, id, generation);
        aggregate::settle(txn, whole)
    }
}

/// The load balancer of a new pool: named directly, or through one of its listeners.
fn whole_of_new(world: &World, new: &Checked) -> Result<Uuid, Fault> {
    match (new.uuid("listener_id"), new.uuid("loadbalancer_id")) {
        (Some(id), named) => {
            let listener = world.get::<Listener>(&id).ok_or_else(|| absent("Listener", id))?;
            match named {
                Some(named) if named != listener.load_balancer_id => Err(absent("Listener", id)),
                _ => Ok(listener.load_balancer_id),
            }
        }
        (None, Some(id)) => Ok(id),
        (None, None) => Err(validation("Must provide at least one of: loadbalancer_id, listener_id")),
    }
}

/// Creates a pool in a load balancer that is not immutable.
pub(super) fn make(
    txn: &mut Txn,
    whole: &LoadBalancer,
    new: &Checked,
    generation: u64,
) -> Result<Uuid, Fault> {
    let word = new.text("protocol").unwrap_or_default();
    let persistence = read_persistence(new, word)?;
    let protocol = protocol::supported(word)?;
    check_tls(new)?;
    let algorithm = algorithm(new.text("lb_algorithm").unwrap_or_default())?;
    check_family(txn, whole, Some(algorithm))?;
    let pool = Pool {
        id: txn.new_id(),
        project: whole.project.clone(),
        load_balancer_id: whole.id,
        name: new.text("name").unwrap_or_default().to_owned(),
        admin_state_up: new.bool("admin_state_up").unwrap_or(true),
        protocol,
        algorithm,
        persistence,
        generation: Generation::new(generation),
        standard: new.standard(txn.now()),
    };
    let id = pool.id;
    txn.put(pool);
    Ok(id)
}

/// Refuses to choose members by the addresses of IPv6 clients if OVN cannot hash those: all clients would get one member.
fn check_family(txn: &Txn, whole: &LoadBalancer, algorithm: Option<Algorithm>) -> Result<(), Fault> {
    let is_ipv6 = whole.vips.iter().any(|vip| vip.address.value.is_ipv6());
    let hashes_ipv6 = txn.outside().ability.is_none_or(|ability| ability.ipv6_selection);
    match algorithm {
        Some(Algorithm::SourceIp) if is_ipv6 && !hashes_ipv6 => Err(unsupported_option(
            "OVN provider does not support SOURCE_IP algorithm for an IPv6 VIP before OVN 25.03",
        )),
        _ => Ok(()),
    }
}

fn algorithm(word: &str) -> Result<Algorithm, Fault> {
    let known = [Algorithm::SourceIpPort, Algorithm::SourceIp].into_iter().find(|it| it.as_str() == word);
    known.ok_or_else(|| unsupported_option(format_args!("OVN provider does not support {word} algorithm")))
}

fn check_tls(request: &Checked) -> Result<(), Fault> {
    let enabled = request.bool("tls_enabled") == Some(true);
    let names = ["tls_container_ref", "ca_tls_container_ref", "crl_container_ref", "tls_ciphers"];
    match enabled || names.iter().any(|name| request.get(name).is_some()) {
        true => {
            Err(unsupported_option("OVN provider does not support TLS between load balancer and members"))
        }
        false => Ok(()),
    }
}

/// The session persistence of a request, for a pool of this protocol.
fn read_persistence(request: &Checked, protocol: &str) -> Result<Option<Persistence>, Fault> {
    let Some(asked) = request.get("session_persistence") else { return Ok(None) };
    let kind = asked["type"].as_str().unwrap_or_default();
    let [cookie, timeout, granularity] = ["cookie_name", "persistence_timeout", "persistence_granularity"]
        .map(|name| asked.get(name).filter(|value| !value.is_null()));
    if kind != "APP_COOKIE" && cookie.is_some() {
        return Err(validation(format_args!(
            "Field \"cookie_name\" can only be specified with session persistence of type \"APP_COOKIE\", not {kind}."
        )));
    }
    let is_datagram = [LbProtocol::Udp, LbProtocol::Sctp].iter().any(|it| it.as_str() == protocol);
    if !is_datagram && (timeout.is_some() || granularity.is_some()) {
        return Err(validation(
            "persistence_timeout and persistence_granularity are only for pools of protocol UDP and SCTP.",
        ));
    }
    let timeout = match timeout.and_then(Value::as_i64).map(u16::try_from).transpose() {
        Ok(timeout) => timeout,
        Err(_) => return Err(validation("persistence_timeout cannot be greater than 65535 seconds.")),
    };
    if kind != "SOURCE_IP" {
        return Err(unsupported_option(format_args!(
            "OVN provider does not support {kind} session persistence. Only SOURCE_IP type is supported."
        )));
    }
    let granularity: Option<crate::model::GivenAddress> =
        granularity.and_then(Value::as_str).and_then(|text| text.parse().ok());
    let is_host = |mask: IpAddr| match mask {
        IpAddr::V4(mask) => mask.to_bits() == u32::MAX,
        IpAddr::V6(mask) => mask.to_bits() == u128::MAX,
    };
    if granularity.as_ref().is_some_and(|mask| !is_host(mask.value)) {
        return Err(unsupported_option(
            "OVN provider does not support a persistence_granularity other than a single address",
        ));
    }
    Ok(Some(Persistence { timeout, granularity }))
}

fn show_persistence(persistence: &Persistence) -> Value {
    json!({
        "type": "SOURCE_IP",
        "cookie_name": null,
        "persistence_timeout": persistence.timeout,
        "persistence_granularity": persistence.granularity.as_ref().map(ToString::to_string),
    })
}
