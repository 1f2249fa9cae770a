//! Health monitors: the probes of a pool's members by OVN.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::Value;
use uuid::Uuid;

use super::attribute::{ID, PROJECT_ID, TENANT_ID};
use super::load_balancer::attribute::{
    ADMIN_STATE_UP, CREATED_AT, NAME, OPERATING_STATUS, PROVISIONING_STATUS, TAGS, UPDATED_AT, inert_text,
    show_times,
};
use super::load_balancer::{Reference, aggregate, status};
use super::{Attribute, Audience, Checked, Filters, Preset, Resource, Scene, Shape, View};
use crate::dialect::octavia::{absent, conflict, invalid_option, unsupported_option, validation};
use crate::dialect::{Dialect, Octavia};
use crate::model::{Generation, HealthMonitor, LbProtocol, MonitorKind, Pool, Standard};
use crate::policy::PolicyTarget;
use crate::world::{Kind, Link, Txn, World};
use crate::{Caller, Fault};

/// The noun `healthmonitor`.
#[derive(Debug)]
pub struct HealthMonitors;

const KINDS: &[&str] = &["HTTP", "HTTPS", "PING", "SCTP", "TCP", "TLS-HELLO", "UDP-CONNECT"];
const SECONDS: Shape = Shape::Integer { min: 0, max: i32::MAX as i64 };
const RETRIES: Shape = Shape::Integer { min: 1, max: 10 };
/// The minimum delay between two UDP probes, in seconds.
const LEAST_DATAGRAM_DELAY: u32 = 3;
/// Attributes that belong only to HTTP.
const HTTP: [&str; 5] = ["http_method", "url_path", "expected_codes", "http_version", "domain_name"];

static ATTRIBUTES: &[Attribute] = &[
    ID,
    NAME,
    Attribute::new("type", Shape::OneOf(KINDS), "TCP or UDP-CONNECT.").required(),
    Attribute::new("delay", SECONDS, "Seconds between two probes.").required().update(),
    Attribute::new("timeout", SECONDS, "Seconds for the answer.").required().update(),
    Attribute::new("max_retries", RETRIES, "Answers after which a member serves again.").required().update(),
    Attribute::new("max_retries_down", Shape::Nullable(&RETRIES), "Silences after which it does not.")
        .create()
        .update()
        .preset(Preset::Integer(3))
        .null(Preset::Integer(3)),
    inert_text("http_method"),
    inert_text("url_path"),
    inert_text("expected_codes"),
    ADMIN_STATE_UP,
    PROJECT_ID,
    TENANT_ID,
    Attribute::new("pools", Shape::List { of: &Shape::Free, max: 1, unique: false }, "Its pool."),
    Attribute::new("pool_id", Shape::Uuid, "Its pool.").required().shown(Audience::Never),
    PROVISIONING_STATUS,
    OPERATING_STATUS,
    CREATED_AT,
    UPDATED_AT,
    TAGS,
    Attribute::new("http_version", Shape::Nullable(&Shape::Any), "Not supported by OVN.")
        .create()
        .update()
        .preset(Preset::Null)
        .null(Preset::Null)
        .unsearchable(),
    inert_text("domain_name"),
];

impl Resource for HealthMonitors {
    type Entity = HealthMonitor;
    const DIALECT: &'static dyn Dialect = &Octavia;
    const NAME: &'static str = "healthmonitor";
    const COLLECTION: &'static str = "healthmonitors";
    const PATH: &'static str = "healthmonitors";
    const ABSENT: (&'static str, &'static str) = ("", "Health Monitor");
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn project(monitor: &HealthMonitor) -> &str {
        &monitor.project
    }

    fn standard(monitor: &HealthMonitor) -> Option<&Standard> {
        Some(&monitor.standard)
    }

    fn standard_mut(monitor: &mut HealthMonitor) -> Option<&mut Standard> {
        Some(&mut monitor.standard)
    }

    fn target_of_new<'w>(
        world: &'w World,
        _caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        let id = new.uuid("pool_id").unwrap_or_default();
        let pool = world.get::<Pool>(&id).ok_or_else(|| absent("Pool", id))?;
        Ok(PolicyTarget::of(&pool.project))
    }

    fn project_of_new<'w>(world: &'w World, new: &'w Checked) -> &'w str {
        let pool = world.get::<Pool>(&new.uuid("pool_id").unwrap_or_default());
        pool.map_or(new.project(), |pool| &pool.project)
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        let ids = filters.uuids("pool_id")?;
        Some(ids.into_iter().map(|id| Link::Inside(Kind::HealthMonitor, id)).collect())
    }

    fn view(monitor: &HealthMonitor, scene: &Scene<'_>, view: &mut View<'_>) {
        let status = status::of_health_monitor(scene, monitor);
        view.text("id", &monitor.id);
        view.put("name", &monitor.name);
        view.put("type", monitor.kind.as_str());
        view.put("delay", monitor.delay);
        view.put("timeout", monitor.timeout);
        view.put("max_retries", monitor.max_retries);
        view.put("max_retries_down", monitor.max_retries_down);
        for name in ["http_method", "url_path", "expected_codes"] {
            view.put(name, ());
        }
        view.put("admin_state_up", monitor.admin_state_up);
        view.put("project_id", &monitor.project);
        view.put("tenant_id", &monitor.project);
        view.put("pools", [Reference { id: monitor.pool_id }]);
        view.text("pool_id", &monitor.pool_id);
        view.put("provisioning_status", status.provisioning.as_str());
        view.put("operating_status", status.operating.as_str());
        show_times(view, &monitor.standard, status.provisioning);
        view.list("tags", &monitor.standard.tags);
        view.put("http_version", ());
        view.put("domain_name", ());
    }

    fn create(txn: &mut Txn, _caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let id = new.uuid("pool_id").unwrap_or_default();
        let pool = txn.get::<Pool>(&id).cloned().ok_or_else(|| absent("Pool", id))?;
        aggregate::check_mutable(txn, pool.load_balancer_id)?;
        let generation = aggregate::begin(txn, pool.load_balancer_id);
        let made = make(txn, id, new, generation)?;
        aggregate::mark_pool(txn, id, generation);
        aggregate::settle(txn, pool.load_balancer_id)?;
        Ok(made)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = txn.get::<HealthMonitor>(&id).cloned().ok_or_else(|| absent("Health Monitor", id))?;
        aggregate::check_mutable(txn, before.load_balancer_id)?;
        let mut after = HealthMonitor::clone(&before);
        set(&mut after, change);
        check(before.kind.as_str(), after.delay, change)?;
        after.generation.changed = aggregate::begin(txn, before.load_balancer_id);
        aggregate::mark_pool(txn, before.pool_id, after.generation.changed);
        txn.put(after);
        aggregate::settle(txn, before.load_balancer_id)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let monitor = txn.get::<HealthMonitor>(&id).cloned().ok_or_else(|| absent("Health Monitor", id))?;
        aggregate::check_mutable(txn, monitor.load_balancer_id)?;
        let generation = aggregate::begin(txn, monitor.load_balancer_id);
        txn.remove::<HealthMonitor>(&id);
        aggregate::mark_pool(txn, monitor.pool_id, generation);
        aggregate::settle(txn, monitor.load_balancer_id)
    }
}

/// Creates a health monitor for a pool whose load balancer is not immutable.
pub(super) fn make(txn: &mut Txn, pool: Uuid, new: &Checked, generation: u64) -> Result<Uuid, Fault> {
    let pool = txn.get::<Pool>(&pool).cloned().ok_or_else(|| absent("Pool", pool))?;
    let word = new.text("type").unwrap_or_default();
    check(word, new.integer("delay").unwrap_or(0), new)?;
    if word == MonitorKind::UdpConnect.as_str() && pool.protocol == LbProtocol::Tcp {
        return Err(validation(format_args!(
            "The associated pool protocol is {}, so a health monitor of type {word} is not allowed.",
            pool.protocol.as_str()
        )));
    }
    if txn.has_linked(Link::Inside(Kind::HealthMonitor, pool.id)) {
        return Err(conflict("This pool already has a health monitor"));
    }
    let kind = [MonitorKind::Tcp, MonitorKind::UdpConnect].into_iter().find(|kind| kind.as_str() == word);
    let kind = kind.ok_or_else(|| {
        unsupported_option(format_args!(
            "OVN provider does not support {word} health monitor type. Supported types: UDP-CONNECT, TCP"
        ))
    })?;
    if !kind.can_probe(pool.protocol) {
        let protocol = pool.protocol.as_str();
        return Err(unsupported_option(format_args!(
            "OVN provider does not support {word} health monitors for pools with protocol {protocol}"
        )));
    }
    let mut monitor = HealthMonitor {
        id: txn.new_id(),
        project: pool.project.clone(),
        load_balancer_id: pool.load_balancer_id,
        pool_id: pool.id,
        name: String::new(),
        admin_state_up: true,
        kind,
        delay: 0,
        timeout: 0,
        max_retries: 1,
        max_retries_down: 3,
        generation: Generation::new(generation),
        standard: new.standard(txn.now()),
    };
    set(&mut monitor, new);
    let id = monitor.id;
    txn.put(monitor);
    Ok(id)
}

fn set(monitor: &mut HealthMonitor, request: &Checked) {
    request.set_text("name", &mut monitor.name);
    request.set_bool("admin_state_up", &mut monitor.admin_state_up);
    monitor.delay = request.integer("delay").unwrap_or(monitor.delay);
    monitor.timeout = request.integer("timeout").unwrap_or(monitor.timeout);
    monitor.max_retries = request.integer("max_retries").unwrap_or(monitor.max_retries);
    monitor.max_retries_down = request.integer("max_retries_down").unwrap_or(monitor.max_retries_down);
}

/// Refuses attributes that a probe of this type cannot have.
fn check(word: &str, delay: u32, request: &Checked) -> Result<(), Fault> {
    let is_http = ["HTTP", "HTTPS"].contains(&word);
    if let Some(name) =
        HTTP.iter().find(|name| !is_http && request.get(name).is_some_and(|it| *it != Value::Null))
    {
        return Err(invalid_option(name, &format!("health monitors of type {word}")));
    }
    if word == MonitorKind::UdpConnect.as_str() && delay < LEAST_DATAGRAM_DELAY {
        return Err(validation(format_args!(
            "The request delay value {delay} should be larger than or equal to {LEAST_DATAGRAM_DELAY} for health \
             monitors of type {word}."
        )));
    }
    Ok(())
}
