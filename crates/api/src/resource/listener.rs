//! Listeners: the protocols and ports that a load balancer's VIPs accept.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Value, json};
use uuid::Uuid;

use super::attribute::{ID, PROJECT_ID, TENANT_ID};
use super::load_balancer::attribute::{
    ADMIN_STATE_UP, CREATED_AT, DESCRIPTION, NAME, OPERATING_STATUS, PROVISIONING_STATUS, TAGS, UPDATED_AT,
    inert, inert_text, show_times,
};
use super::load_balancer::{Reference, aggregate, no_statistics, protocol, status};
use super::{Action, Attribute, Checked, Filters, Preset, Reply, Resource, Scene, Shape, View};
use crate::dialect::octavia::{absent, conflict, invalid_option, validation};
use crate::dialect::{Dialect, Octavia};
use crate::model::{Generation, GivenCidr, Listener, ListenerTimeouts, LoadBalancer, Pool, Standard};
use crate::policy::PolicyTarget;
use crate::world::{Kind, Link, Txn, World};
use crate::{Caller, Fault};

/// The noun `listener`.
#[derive(Debug)]
pub struct Listeners;

const TIMEOUT: Shape = Shape::Nullable(&Shape::Integer { min: 0, max: 2_073_600_000 });
const TEXTS: Shape = Shape::Nullable(&Shape::List { of: &Shape::Text { max: 255 }, max: 100, unique: false });

const fn timeout(name: &'static str, preset: i64) -> Attribute {
    Attribute::new(name, TIMEOUT, "Milliseconds. Shown, not enforced: OVN has no such timeout.")
        .create()
        .update()
        .preset(Preset::Integer(preset))
        .null(Preset::Integer(preset))
}

static ATTRIBUTES: &[Attribute] = &[
    ID,
    NAME,
    DESCRIPTION,
    PROVISIONING_STATUS,
    OPERATING_STATUS,
    ADMIN_STATE_UP,
    Attribute::new("protocol", Shape::OneOf(protocol::LISTENER), "TCP, UDP or SCTP.").required(),
    Attribute::new("protocol_port", Shape::Integer { min: 1, max: 65_535 }, "The port of the VIPs.")
        .required(),
    Attribute::new(
        "connection_limit",
        Shape::Nullable(&Shape::Integer { min: -1, max: i32::MAX as i64 }),
        "Connections at a time. Shown, not enforced: OVN has no such limit.",
    )
    .create()
    .update()
    .preset(Preset::Integer(-1))
    .null(Preset::Integer(-1)),
    inert_text("default_tls_container_ref"),
    inert("sni_container_refs", TEXTS, Preset::List),
    PROJECT_ID,
    TENANT_ID,
    Attribute::new("default_pool_id", Shape::Nullable(&Shape::Uuid), "Who serves.")
        .create()
        .update()
        .preset(Preset::Null)
        .null(Preset::Null),
    inert(
        "l7policies",
        Shape::Nullable(&Shape::List { of: &Shape::Free, max: 0, unique: false }),
        Preset::List,
    ),
    inert("insert_headers", Shape::Nullable(&Shape::Free), Preset::Object),
    CREATED_AT,
    UPDATED_AT,
    Attribute::new(
        "loadbalancers",
        Shape::List { of: &Shape::Free, max: 1, unique: false },
        "Its load balancer.",
    ),
    Attribute::new("loadbalancer_id", Shape::Uuid, "Its load balancer.")
        .required()
        .shown(super::Audience::Never),
    timeout("timeout_client_data", 50_000),
    timeout("timeout_member_connect", 5_000),
    timeout("timeout_member_data", 50_000),
    timeout("timeout_tcp_inspect", 0),
    TAGS,
    inert_text("client_ca_tls_container_ref"),
    inert("client_authentication", Shape::OneOf(&["NONE", "OPTIONAL", "MANDATORY"]), Preset::Text("NONE")),
    inert_text("client_crl_container_ref"),
    Attribute::new(
        "allowed_cidrs",
        Shape::Nullable(&Shape::List { of: &Shape::GivenCidr, max: 1_000, unique: false }),
        "From where clients may connect; null is from everywhere.",
    )
    .create()
    .update()
    .preset(Preset::Null)
    .null(Preset::Null)
    .unsearchable(),
    inert_text("tls_ciphers"),
    inert("tls_versions", TEXTS, Preset::Null),
    inert("alpn_protocols", TEXTS, Preset::Null),
    inert("hsts_max_age", Shape::Nullable(&Shape::Integer { min: 0, max: i32::MAX as i64 }), Preset::Null),
    inert("hsts_include_subdomains", Shape::Bool, Preset::Bool(false)),
    inert("hsts_preload", Shape::Bool, Preset::Bool(false)),
];

/// TLS attributes, which belong only to protocols that OVN does not support.
const TLS: [&str; 8] = [
    "default_tls_container_ref",
    "sni_container_refs",
    "client_ca_tls_container_ref",
    "client_crl_container_ref",
    "tls_ciphers",
    "tls_versions",
    "alpn_protocols",
    "hsts_max_age",
];

static ACTIONS: &[Action] = &[Action::get("stats", "Show counters, which OVN does not have", |_, _| {
    Ok(Reply::Value(no_statistics()))
})];

impl Resource for Listeners {
    type Entity = Listener;
    const DIALECT: &'static dyn Dialect = &Octavia;
    const NAME: &'static str = "listener";
    const COLLECTION: &'static str = "listeners";
    const PATH: &'static str = "listeners";
    const ABSENT: (&'static str, &'static str) = ("", "Listener");
    const TAGGED: bool = false;

    fn attributes() -> &'static [Attribute] {
        ATTRIBUTES
    }

    fn actions() -> &'static [Action] {
        ACTIONS
    }

    fn project(listener: &Listener) -> &str {
        &listener.project
    }

    fn standard(listener: &Listener) -> Option<&Standard> {
        Some(&listener.standard)
    }

    fn standard_mut(listener: &mut Listener) -> Option<&mut Standard> {
        Some(&mut listener.standard)
    }

    fn target_of_new<'w>(
        world: &'w World,
        _caller: &Caller,
        new: &'w Checked,
    ) -> Result<PolicyTarget<'w>, Fault> {
        let whole = aggregate::found(world, new.uuid("loadbalancer_id").unwrap_or_default())?;
        Ok(PolicyTarget::of(&whole.project))
    }

    fn project_of_new<'w>(world: &'w World, new: &'w Checked) -> &'w str {
        let whole = world.get::<LoadBalancer>(&new.uuid("loadbalancer_id").unwrap_or_default());
        whole.map_or(new.project(), |whole| &whole.project)
    }

    fn reach(filters: &Filters) -> Option<Vec<Link>> {
        let ids = filters.uuids("loadbalancer_id")?;
        Some(ids.into_iter().map(|id| Link::Inside(Kind::Listener, id)).collect())
    }

    fn view(listener: &Listener, scene: &Scene<'_>, view: &mut View<'_>) {
        let status = status::of_listener(scene, listener);
        view.text("id", &listener.id);
        view.put("name", &listener.name);
        view.put("description", &listener.standard.description);
        view.put("provisioning_status", status.provisioning.as_str());
        view.put("operating_status", status.operating.as_str());
        view.put("admin_state_up", listener.admin_state_up);
        view.put("protocol", listener.protocol.as_str());
        view.put("protocol_port", listener.protocol_port);
        view.put("connection_limit", listener.connection_limit);
        view.put("default_tls_container_ref", ());
        view.put("sni_container_refs", json!([]));
        view.put("project_id", &listener.project);
        view.put("tenant_id", &listener.project);
        view.optional("default_pool_id", listener.default_pool_id.as_ref());
        view.put("l7policies", json!([]));
        view.put("insert_headers", json!({}));
        show_times(view, &listener.standard, status.provisioning);
        view.put("loadbalancers", [Reference { id: listener.load_balancer_id }]);
        view.text("loadbalancer_id", &listener.load_balancer_id);
        view.put("timeout_client_data", listener.timeouts.client_data);
        view.put("timeout_member_connect", listener.timeouts.member_connect);
        view.put("timeout_member_data", listener.timeouts.member_data);
        view.put("timeout_tcp_inspect", listener.timeouts.tcp_inspect);
        view.list("tags", &listener.standard.tags);
        view.put("client_ca_tls_container_ref", ());
        view.put("client_authentication", "NONE");
        view.put("client_crl_container_ref", ());
        view.put_with("allowed_cidrs", || {
            let cidrs: Vec<_> = listener.allowed_cidrs.iter().map(ToString::to_string).collect();
            (!cidrs.is_empty()).then_some(cidrs)
        });
        for name in ["tls_ciphers", "tls_versions", "alpn_protocols", "hsts_max_age"] {
            view.put(name, ());
        }
        view.put("hsts_include_subdomains", false);
        view.put("hsts_preload", false);
    }

    fn create(txn: &mut Txn, _caller: &Caller, new: &Checked) -> Result<Uuid, Fault> {
        let id = new.uuid("loadbalancer_id").unwrap_or_default();
        check_pool(txn, id, new.text("protocol").unwrap_or_default(), new)?;
        aggregate::check_mutable(txn, id)?;
        let generation = aggregate::begin(txn, id);
        let whole = aggregate::found(txn, id)?.clone();
        let made = make(txn, &whole, new, generation)?;
        aggregate::settle(txn, id)?;
        Ok(made)
    }

    fn update(txn: &mut Txn, _caller: &Caller, id: Uuid, change: &Checked) -> Result<(), Fault> {
        let before = txn.get::<Listener>(&id).cloned().ok_or_else(|| absent("Listener", id))?;
        let whole = aggregate::found(txn, before.load_balancer_id)?.clone();
        check_pool(txn, whole.id, before.protocol.as_str(), change)?;
        aggregate::check_mutable(txn, whole.id)?;
        check_plain(change, before.protocol.as_str())?;
        let cidrs = allowed_cidrs(change, &whole)?;
        let generation = aggregate::begin(txn, whole.id);
        txn.edit::<Listener>(&id, |listener| {
            set(listener, change);
            if change.has("allowed_cidrs") {
                listener.allowed_cidrs = cidrs;
            }
            if change.has("default_pool_id") {
                listener.default_pool_id = change.uuid("default_pool_id");
            }
            listener.generation.changed = generation;
        });
        aggregate::settle(txn, whole.id)
    }

    fn delete(txn: &mut Txn, _caller: &Caller, id: Uuid, _: &Checked) -> Result<(), Fault> {
        let listener = txn.get::<Listener>(&id).cloned().ok_or_else(|| absent("Listener", id))?;
        let whole = listener.load_balancer_id;
        aggregate::check_mutable(txn, whole)?;
        aggregate::begin(txn, whole);
        txn.remove::<Listener>(&id);
        aggregate::settle(txn, whole)
    }
}

/// Creates a listener in a load balancer that is not immutable.
pub(super) fn make(
    txn: &mut Txn,
    whole: &LoadBalancer,
    new: &Checked,
    generation: u64,
) -> Result<Uuid, Fault> {
    let word = new.text("protocol").unwrap_or_default();
    check_pool(txn, whole.id, word, new)?;
    check_plain(new, word)?;
    let (transport, port) = (protocol::transport(word), new.integer("protocol_port").unwrap_or(0));
    let mut others = txn.linked::<Listener>(Link::Inside(Kind::Listener, whole.id));
    if others.any(|other| (other.protocol, other.protocol_port) == (transport, port)) {
        return Err(conflict(format!(
            "Another Listener on this Load Balancer is already using protocol {word} and protocol_port {port}"
        )));
    }
    drop(others);
    let allowed_cidrs = allowed_cidrs(new, whole)?;
    let protocol = protocol::supported(word)?;
    let mut listener = Listener {
        id: txn.new_id(),
        project: whole.project.clone(),
        load_balancer_id: whole.id,
        name: String::new(),
        admin_state_up: true,
        protocol,
        protocol_port: port,
        connection_limit: -1,
        default_pool_id: new.uuid("default_pool_id"),
        timeouts: ListenerTimeouts::default(),
        allowed_cidrs,
        generation: Generation::new(generation),
        standard: new.standard(txn.now()),
    };
    set(&mut listener, new);
    let id = listener.id;
    txn.put(listener);
    Ok(id)
}

/// Applies the attributes of a request that all listeners have.
fn set(listener: &mut Listener, request: &Checked) {
    request.set_text("name", &mut listener.name);
    request.set_bool("admin_state_up", &mut listener.admin_state_up);
    if let Some(limit) = request.integer("connection_limit") {
        listener.connection_limit = limit;
    }
    let timeouts = &mut listener.timeouts;
    for (name, slot) in [
        ("timeout_client_data", &mut timeouts.client_data),
        ("timeout_member_connect", &mut timeouts.member_connect),
        ("timeout_member_data", &mut timeouts.member_data),
        ("timeout_tcp_inspect", &mut timeouts.tcp_inspect),
    ] {
        if let Some(value) = request.integer(name) {
            *slot = value;
        }
    }
}

/// Refuses a default pool of another load balancer or of another protocol.
fn check_pool(world: &World, whole: Uuid, listener: &str, request: &Checked) -> Result<(), Fault> {
    let Some(id) = request.uuid("default_pool_id") else { return Ok(()) };
    let pool = world.get::<Pool>(&id).filter(|pool| pool.load_balancer_id == whole);
    let pool = pool.ok_or_else(|| absent("Pool", id))?;
    protocol::check_match(listener, pool.protocol.as_str())
}

/// Refuses certificates and headers for protocols without them. The protocols that do have them are refused later.
fn check_plain(request: &Checked, protocol: &str) -> Result<(), Fault> {
    if ["HTTP", "HTTPS", "TERMINATED_HTTPS", "PROMETHEUS"].contains(&protocol) {
        return Ok(());
    }
    let is_empty = |value: &Value| match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    };
    if let Some(headers) = request.get("insert_headers").filter(|headers| !is_empty(headers)) {
        return Err(invalid_option(headers, &format!("a {protocol} protocol listener.")));
    }
    let named = TLS.iter().find(|name| request.get(name).is_some_and(|value| !is_empty(value)));
    let authenticates = request.text("client_authentication").is_some_and(|word| word != "NONE");
    match named.or(authenticates.then_some(&"client_authentication")) {
        Some(name) => {
            Err(validation(format_args!("{name} is not allowed on {protocol} protocol listeners.")))
        }
        None => Ok(()),
    }
}

/// The allowed prefixes of a request. Refuses a prefix of a family without a VIP, which would admit nobody.
fn allowed_cidrs(request: &Checked, whole: &LoadBalancer) -> Result<Vec<GivenCidr>, Fault> {
    let list = request.get("allowed_cidrs").and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    let cidrs: Vec<GivenCidr> = texts.filter_map(|text| text.parse().ok()).collect();
    match cidrs.iter().find(|cidr| !whole.serves_family(cidr.value.addr())) {
        Some(cidr) => Err(validation(format_args!(
            "CIDR {cidr} is of another IP version than every VIP of the load balancer."
        ))),
        None => Ok(cidrs),
    }
}
