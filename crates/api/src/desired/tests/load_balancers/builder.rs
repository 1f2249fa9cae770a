//! Builders of load balancers, which maintain generations and rows as the API does.

use jiff::Timestamp;

use crate::desired::tests::scene::{Scene, port, standard};
use crate::model::*;
use crate::resource::fixture::id;
use crate::resource::load_balancer::monitor_port;
use crate::world::{Link, Txn};

/// Changes a load balancer or its parts, increments its generation and updates its rows.
pub(crate) fn change(scene: &mut Scene, n: u128, with: impl FnOnce(&mut Txn, Generation)) {
    scene.edit(|txn| {
        let Some(next) = txn.get::<LoadBalancer>(&id(n)).map(|balancer| balancer.generation + 1) else {
            return;
        };
        with(txn, Generation::new(next));
        let inside = |kind| Link::Inside(kind, id(n));
        let pools: Vec<Pool> =
            txn.linked::<Pool>(inside(crate::world::Kind::Pool)).map(|it| Pool::clone(it)).collect();
        let listeners: Vec<Listener> = txn
            .linked::<Listener>(inside(crate::world::Kind::Listener))
            .map(|it| Listener::clone(it))
            .collect();
        txn.edit::<LoadBalancer>(&id(n), |balancer| {
            balancer.generation = next;
            balancer.rows = RowSlot::assign(&balancer.rows, &RowGroup::needed(&pools, &listeners));
        });
        monitor_port::keep(txn, id(n)).unwrap();
    });
}

/// A load balancer with its VIP port.
pub(crate) fn balancer(scene: &mut Scene, n: u128, network: u128, subnet: u128, vip: &str) {
    let mut vip_port = port(n + 0xf000, network, subnet, vip);
    vip_port.name = ovn::ident::name::lb_vip_port(id(n));
    vip_port.device_owner = ovn::text::neutron::device_owner::LB_VIP.into();
    vip_port.device_id = format!("lb-{}", id(n));
    scene.put(vip_port);
    scene.put(LoadBalancer {
        id: id(n),
        project: "p".into(),
        name: format!("lb{n:x}"),
        admin_state_up: true,
        provider: "ovn".into(),
        vip_network_id: id(network),
        vips: vec![Vip {
            subnet_id: id(subnet),
            address: vip.parse().unwrap(),
            port_id: id(n + 0xf000),
            own_port: false,
        }],
        rows: vec![RowSlot::FIRST],
        generation: 1,
        changed_at: Timestamp::UNIX_EPOCH,
        probed_subnets: std::collections::BTreeSet::new(),
        members_made: 0,
        deleted: false,
        standard: standard(),
    });
}

pub(crate) fn new_pool(balancer: u128, n: u128, protocol: LbProtocol, generation: Generation) -> Pool {
    Pool {
        id: id(n),
        project: "p".into(),
        load_balancer_id: id(balancer),
        name: format!("pool{n:x}"),
        admin_state_up: true,
        protocol,
        algorithm: Algorithm::SourceIpPort,
        persistence: None,
        generation,
        standard: standard(),
    }
}

pub(crate) fn pool(scene: &mut Scene, balancer: u128, n: u128, protocol: LbProtocol) {
    change(scene, balancer, |txn, generation| drop(txn.put(new_pool(balancer, n, protocol, generation))));
}

pub(crate) fn member(scene: &mut Scene, balancer: u128, pool: u128, n: u128, subnet: u128, address: &str) {
    change(scene, balancer, |txn, generation| {
        txn.put(Member {
            id: id(n),
            project: "p".into(),
            load_balancer_id: id(balancer),
            pool_id: id(pool),
            name: format!("member{n:x}"),
            admin_state_up: true,
            address: address.parse().unwrap(),
            protocol_port: 80,
            subnet_id: Some(id(subnet)),
            vip_subnet_id: id(subnet),
            weight: 1,
            backup: false,
            ordinal: u64::try_from(n).unwrap(),
            generation,
            standard: standard(),
        });
    });
}

pub(crate) fn listener(
    scene: &mut Scene,
    balancer: u128,
    n: u128,
    protocol: LbProtocol,
    port: u16,
    pool: Option<u128>,
) {
    change(scene, balancer, |txn, generation| {
        txn.put(Listener {
            id: id(n),
            project: "p".into(),
            load_balancer_id: id(balancer),
            name: format!("listener{n:x}"),
            admin_state_up: true,
            protocol,
            protocol_port: port,
            connection_limit: -1,
            default_pool_id: pool.map(id),
            timeouts: ListenerTimeouts::default(),
            allowed_cidrs: Vec::new(),
            generation,
            standard: standard(),
        });
    });
}

/// A health monitor of a pool, with a probe every five seconds.
pub(crate) fn monitor(scene: &mut Scene, balancer: u128, pool: u128, n: u128, kind: MonitorKind) {
    change(scene, balancer, |txn, generation| {
        txn.put(HealthMonitor {
            id: id(n),
            project: "p".into(),
            load_balancer_id: id(balancer),
            pool_id: id(pool),
            name: format!("monitor{n:x}"),
            admin_state_up: true,
            kind,
            delay: 5,
            timeout: 3,
            max_retries: 2,
            max_retries_down: 4,
            generation,
            standard: standard(),
        });
    });
}
