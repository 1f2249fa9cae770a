//! Parses Octavia's JSON into the objects of the store. Pure.
//!
//! Responses of an API are bytes from outside, so this module checks every value that is written into OVN's rows, like the checks of
//! requests.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::super::document::{BALANCERS, LISTENERS, MEMBERS, MONITORS, POOLS, QUOTAS};
use super::super::{Document, Remark, Takeover};
use super::order::MemberOrder;
use super::shape::{self, CommonAttributes};
use crate::dialect::octavia::PROVIDER;
use crate::model::{
    Algorithm, Generation, HealthMonitor, LbProtocol, Listener, ListenerTimeouts, LoadBalancer, Member,
    MonitorKind, Persistence, Pool, Port, QuotaSet, RowSlot, Subnet, Vip,
};
use crate::resource::load_balancer::status::FIRST_GENERATION;
use crate::resource::load_balancer::{Aggregate, adopt};
use crate::resource::quota::balancer::limit_name;
use crate::world::{Entity, Link, Txn, World};

const NOUN: &str = "loadbalancer";

/// Puts every load balancer that can be imported into `txn`, with its parts.
pub(super) fn balancers(document: &Document, order: &MemberOrder, txn: &mut Txn, takeover: &mut Takeover) {
    let parts = Parts::of(document);
    for value in document.get(BALANCERS) {
        let id = value["id"].as_str().unwrap_or("without an id").to_owned();
        let result =
            read::<shape::OctaviaBalancer>(value).and_then(|source| take_over(&parts, source, order, txn));
        match result {
            Ok(note) => takeover.notes.extend(note.map(|note| format!("{NOUN}/{id}: {note}"))),
            Err(why) => takeover.left_out.push(Remark::new(NOUN, id, why)),
        }
    }
    for (noun, id) in parts.orphans(document) {
        takeover.left_out.push(Remark::new(noun, id, "its load balancer is not in the document"));
    }
}

/// Puts the limits of projects into `txn`, in addition to those of the network API.
pub(super) fn quotas(document: &Document, txn: &mut Txn, takeover: &mut Takeover) {
    for value in document.get(QUOTAS) {
        let source = match read::<shape::OctaviaQuota>(value) {
            Ok(source) => source,
            Err(why) => {
                let project = value["project_id"].as_str().unwrap_or("without a project");
                takeover.left_out.push(Remark::new("quota", project, why));
                continue;
            }
        };
        let set = txn.get::<QuotaSet>(&source.project_id);
        let mut set = set.map_or_else(
            || QuotaSet { project: source.project_id.clone(), limits: BTreeMap::new() },
            |set| QuotaSet::clone(set),
        );
        let limits =
            source.limits.iter().filter_map(|(name, limit)| Some((limit_name(name)?, limit.as_i64()?)));
        set.limits.extend(limits.map(|(name, limit)| (name.to_owned(), limit)));
        txn.put(set);
    }
}

/// The parts by the object that they belong to, as JSON.
struct Parts<'d> {
    listeners: BTreeMap<String, Vec<&'d Value>>,
    pools: BTreeMap<String, Vec<&'d Value>>,
    members: BTreeMap<String, Vec<&'d Value>>,
    monitors: BTreeMap<String, Vec<&'d Value>>,
}

impl<'d> Parts<'d> {
    fn of(document: &'d Document) -> Self {
        let by = |collection: &str, owner: fn(&Value) -> Option<&str>| {
            let mut parts: BTreeMap<String, Vec<&'d Value>> = BTreeMap::new();
            for value in document.get(collection) {
                parts.entry(owner(value).unwrap_or_default().to_owned()).or_default().push(value);
            }
            parts
        };
        Parts {
            listeners: by(LISTENERS, |value| value["loadbalancers"][0]["id"].as_str()),
            pools: by(POOLS, |value| value["loadbalancers"][0]["id"].as_str()),
            members: by(MEMBERS, |value| value["pool_id"].as_str()),
            monitors: by(MONITORS, |value| value["pools"][0]["id"].as_str()),
        }
    }

    /// Parts whose parent is missing in the document.
    fn orphans(&self, document: &Document) -> Vec<(&'static str, String)> {
        let known = |collection: &str| -> BTreeSet<&str> {
            document.get(collection).iter().filter_map(|value| value["id"].as_str()).collect()
        };
        let (balancers, pools) = (known(BALANCERS), known(POOLS));
        let lost = |noun: &'static str, parts: &BTreeMap<String, Vec<&Value>>, owners: &BTreeSet<&str>| {
            let lost = parts.iter().filter(|(owner, _)| !owners.contains(owner.as_str()));
            let lost = lost.flat_map(|(_, parts)| parts);
            lost.map(|part| (noun, part["id"].as_str().unwrap_or("without an id").to_owned()))
                .collect::<Vec<_>>()
        };
        [
            lost("listener", &self.listeners, &balancers),
            lost("pool", &self.pools, &balancers),
            lost("member", &self.members, &pools),
            lost("healthmonitor", &self.monitors, &pools),
        ]
        .concat()
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("cannot parse it: {error}"))
}

/// Parses the parts of one owner. One bad part excludes the whole load balancer.
fn each<T: DeserializeOwned>(
    noun: &str,
    parts: &BTreeMap<String, Vec<&Value>>,
    owner: Uuid,
) -> Result<Vec<T>, String> {
    let parts = parts.get(&owner.to_string()).into_iter().flatten();
    let read = parts.map(|value| {
        let id = value["id"].as_str().unwrap_or("without an id");
        read(value).map_err(|why| format!("its {noun} {id}: {why}"))
    });
    read.collect()
}

fn take_over(
    parts: &Parts<'_>,
    source: shape::OctaviaBalancer,
    order: &MemberOrder,
    txn: &mut Txn,
) -> Result<Option<String>, String> {
    let id = source.common.id;
    if source.provider != PROVIDER {
        return Err(format!("its provider is {:?}; only {PROVIDER:?} can be imported", source.provider));
    }
    if txn.get::<LoadBalancer>(&id).is_some() {
        return Err("the database has it already".to_owned());
    }
    refuse_deleted(&source.common)?;
    let now = txn.now();
    let (vip_network_id, vips) = vips(&source, txn)?;
    let mut whole = LoadBalancer {
        id,
        project: source.common.project_id.clone(),
        name: source.common.name.clone(),
        admin_state_up: source.common.admin_state_up,
        provider: PROVIDER.to_owned(),
        vip_network_id,
        vips,
        rows: vec![RowSlot::FIRST],
        generation: FIRST_GENERATION,
        changed_at: now,
        probed_subnets: BTreeSet::new(),
        members_made: 0,
        deleted: false,
        standard: source.common.standard(txn.now()),
    };
    let mut pools = Vec::new();
    let (mut members, mut monitors) = (Vec::new(), Vec::new());
    for source in each::<shape::OctaviaPool>("pool", &parts.pools, id)? {
        let pool =
            pool(&whole, &source, txn).map_err(|why| format!("its pool {}: {why}", source.common.id))?;
        members.extend(each::<shape::OctaviaMember>("member", &parts.members, pool.id)?);
        for source in each::<shape::OctaviaMonitor>("health monitor", &parts.monitors, pool.id)? {
            let monitor = match monitors.iter().any(|it: &HealthMonitor| it.pool_id == pool.id) {
                true => Err("its pool has another one".to_owned()),
                false => monitor(&pool, &source, txn),
            };
            monitors.push(monitor.map_err(|why| format!("its health monitor {}: {why}", source.common.id))?);
        }
        pools.push(pool);
    }
    members.sort_by_key(|member| {
        let common = &member.common;
        (order.place(common.id), common.created_at(), common.id)
    });
    let members = members.into_iter().map(|source| {
        let member = member(&whole, &source, txn);
        let member = member.map_err(|why| format!("its member {}: {why}", source.common.id))?;
        let ordinal = whole.members_made;
        whole.members_made += 1;
        Ok(Member { ordinal, ..member })
    });
    let members = members.collect::<Result<Vec<_>, String>>()?;
    let mut listeners = Vec::new();
    for source in each::<shape::OctaviaListener>("listener", &parts.listeners, id)? {
        let made = listener(&whole, &source, &pools, txn);
        listeners.push(made.map_err(|why| format!("its listener {}: {why}", source.common.id))?);
    }
    // A port for probes may find no address. Then nothing of this load balancer may stay in the transaction.
    let note = note_of(&pools, &members);
    let aggregate = Aggregate { whole, listeners, pools, members, monitors };
    adopt(txn, aggregate).map_err(|fault| fault.to_string()).map(|()| note)
}

/// Settings that Octavia's OVN provider stores and ignores, and Meridian applies: traffic changes with the first pass.
fn note_of(pools: &[Pool], members: &[Member]) -> Option<String> {
    let differ = |pool: &Pool| {
        let mut weights =
            members.iter().filter(|member| member.pool_id == pool.id).map(|member| member.weight);
        let first = weights.next();
        first == Some(0) || weights.any(|weight| Some(weight) != first)
    };
    let mut effects = Vec::new();
    if pools.iter().any(differ) {
        effects.push("weights of members");
    }
    if members.iter().any(|member| member.backup) {
        effects.push("backup members");
    }
    if pools.iter().any(|pool| pool.persistence.is_some()) {
        effects.push("session persistence");
    }
    let ignored = "take effect with the first pass; Octavia's OVN provider ignores them or a part of them";
    (!effects.is_empty()).then(|| format!("{} {ignored}", effects.join(", ")))
}

/// The VIPs and their network. Their ports must be in the store, because they hold the addresses.
fn vips(source: &shape::OctaviaBalancer, world: &World) -> Result<(Uuid, Vec<Vip>), String> {
    let first = (source.vip_subnet_id, &source.vip_address, source.vip_port_id);
    let further = source.additional_vips.iter().map(|vip| (vip.subnet_id, &vip.ip_address, vip.port_id));
    let mut network = None;
    let mut vips = Vec::new();
    for (subnet, address, port_id) in std::iter::once(first).chain(further) {
        let port = world.get::<Port>(&port_id).ok_or_else(|| {
            format!("its VIP port {port_id} is not in the database; run `meridian import neutron` first")
        })?;
        let address = address.0.clone();
        let fixed = port.fixed_ips.iter().find(|fixed| {
            fixed.ip_address == address.value && subnet.is_none_or(|subnet| fixed.subnet_id == subnet)
        });
        let fixed =
            fixed.ok_or_else(|| format!("its VIP port {port_id} does not have its address {address}"))?;
        if let Some(other) = world.linked::<LoadBalancer>(Link::LoadBalancerOfVipPort(port_id)).next() {
            return Err(format!("load balancer {} has its VIP port {port_id}", other.id));
        }
        if *network.get_or_insert(port.network_id) != port.network_id {
            return Err(format!("its VIP port {port_id} is on another network than its first VIP"));
        }
        let own_port = !ovn::ident::name::is_lb_vip_port(&port.name);
        vips.push(Vip { subnet_id: fixed.subnet_id, address, port_id, own_port });
    }
    Ok((network.unwrap_or_default(), vips))
}

fn protocol(word: &str) -> Result<LbProtocol, String> {
    LbProtocol::parse(word).ok_or_else(|| format!("its protocol is {word}; allowed: TCP, UDP, SCTP"))
}

/// Refuses an object that Octavia is deleting, because the import would restore it.
fn refuse_deleted(common: &CommonAttributes) -> Result<(), String> {
    match common.provisioning_status.as_str() {
        "PENDING_DELETE" | "DELETED" => Err("Octavia is deleting it; wait until it is gone".to_owned()),
        _ => Ok(()),
    }
}

/// Refuses an id that another load balancer has. Without this check the import would take that part from its owner.
fn refuse_known<T: Entity<Key = Uuid>>(common: &CommonAttributes, world: &World) -> Result<(), String> {
    match world.get::<T>(&common.id) {
        Some(_) => Err("another load balancer has a part of this id".to_owned()),
        None => refuse_deleted(common),
    }
}

fn listener(
    whole: &LoadBalancer,
    source: &shape::OctaviaListener,
    pools: &[Pool],
    txn: &Txn,
) -> Result<Listener, String> {
    refuse_known::<Listener>(&source.common, txn)?;
    if let [_, _, ..] = source.loadbalancers.as_slice() {
        return Err("it has several load balancers".to_owned());
    }
    if !source.l7policies.is_empty() {
        return Err("it has L7 policies, which OVN does not have".to_owned());
    }
    let protocol = protocol(&source.protocol)?;
    if let Some(id) = source.default_pool_id {
        let pool = pools.iter().find(|pool| pool.id == id);
        let pool = pool.ok_or_else(|| format!("its default pool {id} is not one of the load balancer's"))?;
        if pool.protocol != protocol {
            return Err(format!("its default pool {id} has another protocol"));
        }
    }
    let presets = ListenerTimeouts::default();
    Ok(Listener {
        id: source.common.id,
        project: whole.project.clone(),
        load_balancer_id: whole.id,
        name: source.common.name.clone(),
        admin_state_up: source.common.admin_state_up,
        protocol,
        protocol_port: source.protocol_port.get(),
        connection_limit: source.connection_limit.unwrap_or(-1),
        default_pool_id: source.default_pool_id,
        timeouts: ListenerTimeouts {
            client_data: source.timeout_client_data.unwrap_or(presets.client_data),
            member_connect: source.timeout_member_connect.unwrap_or(presets.member_connect),
            member_data: source.timeout_member_data.unwrap_or(presets.member_data),
            tcp_inspect: source.timeout_tcp_inspect.unwrap_or(presets.tcp_inspect),
        },
        allowed_cidrs: source.allowed_cidrs.iter().map(|cidr| cidr.0.clone()).collect(),
        generation: Generation::new(FIRST_GENERATION),
        standard: source.common.standard(txn.now()),
    })
}

fn pool(whole: &LoadBalancer, source: &shape::OctaviaPool, txn: &Txn) -> Result<Pool, String> {
    refuse_known::<Pool>(&source.common, txn)?;
    if let [_, _, ..] = source.loadbalancers.as_slice() {
        return Err("it has several load balancers".to_owned());
    }
    if source.tls_enabled {
        return Err("it speaks TLS with its members, which OVN does not".to_owned());
    }
    let algorithms = [Algorithm::SourceIpPort, Algorithm::SourceIp];
    let algorithm = algorithms.into_iter().find(|it| it.as_str() == source.lb_algorithm);
    let algorithm = algorithm.ok_or_else(|| {
        format!("its algorithm is {}; allowed: SOURCE_IP_PORT, SOURCE_IP", source.lb_algorithm)
    })?;
    let persistence = match &source.session_persistence {
        Some(it) if it.kind != "SOURCE_IP" => {
            return Err(format!("its session persistence is {}; allowed: SOURCE_IP", it.kind));
        }
        Some(it) => Some(Persistence {
            timeout: it.persistence_timeout,
            granularity: it.persistence_granularity.as_ref().map(|mask| mask.0.clone()),
        }),
        None => None,
    };
    Ok(Pool {
        id: source.common.id,
        project: whole.project.clone(),
        load_balancer_id: whole.id,
        name: source.common.name.clone(),
        admin_state_up: source.common.admin_state_up,
        protocol: protocol(&source.protocol)?,
        algorithm,
        persistence,
        generation: Generation::new(FIRST_GENERATION),
        standard: source.common.standard(txn.now()),
    })
}

fn member(whole: &LoadBalancer, source: &shape::OctaviaMember, txn: &Txn) -> Result<Member, String> {
    refuse_known::<Member>(&source.common, txn)?;
    let address = source.address.0.clone();
    if let Some(id) = source.subnet_id
        && txn.get::<Subnet>(&id).is_none()
    {
        return Err(format!("its subnet {id} is not in the database; run `meridian import neutron` first"));
    }
    let holds = |id: &Uuid| txn.get::<Subnet>(id).is_some_and(|subnet| subnet.cidr.contains(&address.value));
    let vip_subnet = whole.vips.iter().map(|vip| vip.subnet_id).find(holds);
    Ok(Member {
        id: source.common.id,
        project: whole.project.clone(),
        load_balancer_id: whole.id,
        pool_id: source.pool_id,
        name: source.common.name.clone(),
        admin_state_up: source.common.admin_state_up,
        address,
        protocol_port: source.protocol_port.get(),
        subnet_id: source.subnet_id,
        vip_subnet_id: vip_subnet.unwrap_or(whole.primary_vip().subnet_id),
        weight: source.weight,
        backup: source.backup,
        ordinal: 0,
        generation: Generation::new(FIRST_GENERATION),
        standard: source.common.standard(txn.now()),
    })
}

fn monitor(pool: &Pool, source: &shape::OctaviaMonitor, txn: &Txn) -> Result<HealthMonitor, String> {
    refuse_known::<HealthMonitor>(&source.common, txn)?;
    if let [_, _, ..] = source.pools.as_slice() {
        return Err("it has several pools".to_owned());
    }
    let kinds = [MonitorKind::Tcp, MonitorKind::UdpConnect];
    let kind = kinds.into_iter().find(|it| it.as_str() == source.kind);
    let kind = kind.ok_or_else(|| format!("its type is {}; allowed: TCP, UDP-CONNECT", source.kind))?;
    if !kind.can_probe(pool.protocol) {
        let protocol = pool.protocol.as_str();
        return Err(format!("its type is {}, which OVN does not have for {protocol} pools", source.kind));
    }
    Ok(HealthMonitor {
        id: source.common.id,
        project: pool.project.clone(),
        load_balancer_id: pool.load_balancer_id,
        pool_id: pool.id,
        name: source.common.name.clone(),
        admin_state_up: source.common.admin_state_up,
        kind,
        delay: source.delay,
        timeout: source.timeout,
        max_retries: source.max_retries,
        max_retries_down: source.max_retries_down,
        generation: Generation::new(FIRST_GENERATION),
        standard: source.common.standard(txn.now()),
    })
}
