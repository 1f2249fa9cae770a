//! Explains load balancers: the chassis that answer for their VIPs, the members behind each listener, and why some do not serve.

use std::net::IpAddr;

use super::super::balancer::{self, name_of};
use crate::model::{FloatingIp, HealthMonitor, Listener, LoadBalancer, Member, Pool, Vip};
use crate::resource::Scene;
use crate::resource::load_balancer::{reason, status};
use crate::world::{Kind, Link};

/// Explains an address: as the VIP of a load balancer, as a floating IP of one, or as a member. Networks of several tenants may
/// use one address, so there may be several explanations.
pub(super) fn explain_address(scene: &Scene<'_>, ip: IpAddr, lines: &mut Vec<String>) {
    let world = scene.world;
    for balancer in world.table::<LoadBalancer>().iter().filter(|balancer| !balancer.deleted) {
        for vip in &balancer.vips {
            let floating = world.linked::<FloatingIp>(Link::FloatingIpsOfPort(vip.port_id));
            let leads = |it: &FloatingIp| it.fixed_ip_address.map(IpAddr::V4) == Some(vip.address.value);
            let floating =
                floating.filter(|it| leads(it)).map(|it| IpAddr::V4(it.floating_ip_address)).next();
            if vip.address.value == ip {
                lines.push(format!("{ip} is a VIP of {}", title(scene, balancer)));
            } else if floating == Some(ip) {
                lines.push(format!(
                    "{ip} is the floating IP of {}, a VIP of {}",
                    vip.address.value,
                    title(scene, balancer)
                ));
            } else {
                continue;
            }
            describe(scene, balancer, vip, floating, lines);
        }
    }
    for member in world.linked::<Member>(Link::MembersWithAddress(ip)) {
        let whole = world.get::<LoadBalancer>(&member.load_balancer_id);
        let whole = whole.map(|balancer| title(scene, balancer)).unwrap_or_default();
        lines.push(format!("{ip} is a member of {whole}"));
        lines.push(of_member(scene, member));
    }
}

/// Explains a load balancer: its VIPs, the chassis that answer, and the members behind each listener.
pub(super) fn explain(scene: &Scene<'_>, balancer: &LoadBalancer, lines: &mut Vec<String>) {
    lines.push(title(scene, balancer));
    lines.extend(reason::of_error(scene, balancer));
    for vip in &balancer.vips {
        let mut floating = scene.world.linked::<FloatingIp>(Link::FloatingIpsOfPort(vip.port_id));
        let floating = floating.find(|it| it.fixed_ip_address.map(IpAddr::V4) == Some(vip.address.value));
        lines.push(format!("its VIP is {}", vip.address.value));
        let floating = floating.map(|it| IpAddr::V4(it.floating_ip_address));
        describe(scene, balancer, vip, floating, lines);
    }
}

fn title(scene: &Scene<'_>, balancer: &LoadBalancer) -> String {
    let both = status::of_load_balancer(scene, balancer);
    let (provisioning, operating) = (both.provisioning.as_str(), both.operating.as_str());
    format!("load balancer {:?} ({}), {provisioning} and {operating}", balancer.name, balancer.id)
}

/// Describes the chassis that answer for a VIP, and the members behind each listener.
fn describe(
    scene: &Scene<'_>,
    balancer: &LoadBalancer,
    vip: &Vip,
    floating: Option<IpAddr>,
    lines: &mut Vec<String>,
) {
    let routers = reason::routers_of_vip(scene.world, balancer, vip);
    let names: Vec<String> = routers.iter().map(|router| name_of(router)).collect();
    let chassis = balancer::chassis(scene, &routers);
    match names.as_slice() {
        [] => lines.extend(reason::unrouted_text(&[vip.address.value])),
        _ => lines.push(format!("clients inside: every chassis answers, as router {}", names.join(", "))),
    }
    match chassis.as_slice() {
        _ if names.is_empty() => {}
        [] => lines.push("clients outside: no chassis hosts a gateway of the router".to_owned()),
        _ => lines.push(format!(
            "clients outside: chassis {} {} the gateway of the router; the BGP agent there, if one runs, announces the address",
            chassis.join(", "),
            if chassis.len() == 1 { "hosts" } else { "host" }
        )),
    }
    lines.extend(floating.map(|address| format!("floating IP {address} leads to it")));
    if !balancer.admin_state_up {
        lines.push("it serves nobody: it is disabled".to_owned());
    }
    for listener in scene.world.linked::<Listener>(Link::Inside(Kind::Listener, balancer.id)) {
        of_listener(scene, listener, lines);
    }
}

fn of_listener(scene: &Scene<'_>, listener: &Listener, lines: &mut Vec<String>) {
    let title = format!("listener {} {}", listener.protocol.as_str(), listener.protocol_port);
    if !listener.admin_state_up {
        lines.push(format!("{title} serves nobody: it is disabled"));
        return;
    }
    let Some(pool) = listener.default_pool_id.and_then(|id| scene.world.get::<Pool>(&id)) else {
        lines.push(format!("{title} serves nobody: it has no pool"));
        return;
    };
    if !pool.admin_state_up {
        lines.push(format!("{title} serves nobody: its pool {} is disabled", pool.id));
        return;
    }
    let mut monitors = scene.world.linked::<HealthMonitor>(Link::Inside(Kind::HealthMonitor, pool.id));
    let probed = match monitors.next() {
        None => "its members are not probed".to_owned(),
        Some(monitor) if !monitor.admin_state_up => "its health monitor is disabled".to_owned(),
        Some(monitor) => format!("OVN probes its members every {} s", monitor.delay.max(1)),
    };
    lines.push(format!("{title} has pool {}; {probed}", pool.id));
    if !listener.allowed_cidrs.is_empty() {
        let allowed: Vec<String> = listener.allowed_cidrs.iter().map(ToString::to_string).collect();
        lines.push(format!("  clients may come from {} only", allowed.join(", ")));
    }
    let mut members: Vec<_> = scene.world.linked::<Member>(Link::Inside(Kind::Member, pool.id)).collect();
    members.sort_by_key(|member| (member.ordinal, member.id));
    if members.is_empty() {
        lines.push("  it has no members".to_owned());
    }
    lines.extend(members.into_iter().map(|member| of_member(scene, member)));
}

fn of_member(scene: &Scene<'_>, member: &Member) -> String {
    let state = status::of_member(scene, member).operating.as_str();
    let endpoint = ovn::text::Endpoint::new(member.address.value, member.protocol_port);
    let port = scene.world.address_holder(member.subnet(), member.address.value);
    let place = port.and_then(|port| scene.report.bound_host(port)).map(|host| format!(" on {host}"));
    let place = place.unwrap_or_default();
    match reason::of_member(scene, member) {
        Some(reason) => format!("  member {endpoint}{place} is {state}: {reason}"),
        None => format!("  member {endpoint}{place} is {state}"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::super::explain;
    use super::*;
    use crate::desired::tests::load_balancers::{
        balancer as put_balancer, change, listener, member, monitor, pool,
    };
    use crate::desired::tests::scene::{N1, NET, S1, SUB, Scene as Small};
    use crate::fleet::Fleet;
    use crate::model::{LbProtocol, MonitorKind};
    use crate::report::{Place, ProbeResult, ProbedBackend};
    use crate::resource::fixture::id;

    /// A load balancer with a member that answers, one that does not, and one without a port.
    fn world() -> Small {
        let mut scene = Small::new();
        put_balancer(&mut scene, 0x100, NET, SUB, "10.0.0.10");
        pool(&mut scene, 0x100, 0x101, LbProtocol::Tcp);
        listener(&mut scene, 0x100, 0x102, LbProtocol::Tcp, 82, Some(0x101));
        for (n, address) in [(0x1a1, "10.0.0.107"), (0x1a2, "10.0.0.108"), (0x1a3, "10.0.0.109")] {
            member(&mut scene, 0x100, 0x101, n, SUB, address);
        }
        for (n, address, result) in
            [(0x51, "10.0.0.107", ProbeResult::Online), (0x52, "10.0.0.108", ProbeResult::Offline)]
        {
            scene.port(n, NET, SUB, address);
            let report = &mut scene.snapshot.report;
            report.set_up(id(n), true);
            report.set_bound(id(n), Some(Place { chassis: "ch1".into(), host: "host-1".into() }));
            let (address, protocol_port) = (address.parse().unwrap(), 80);
            let backend = ProbedBackend { port_id: id(n), address, protocol_port, protocol: LbProtocol::Tcp };
            report.set_probe(backend, Some(result));
        }
        monitor(&mut scene, 0x100, 0x101, 0x103, MonitorKind::Tcp);
        let report = &mut scene.snapshot.report;
        report.set_northbound_read();
        report.set_balancer(id(0x100), id(0x100), Some(100));
        scene
    }

    fn explained(scene: &Small, subject: &str) -> String {
        let (report, fleet) = (&scene.snapshot.report, Fleet::default());
        explain(scene.world(), report, &fleet, Timestamp::UNIX_EPOCH, subject).join("\n")
    }

    #[test]
    fn a_vip_is_explained_down_to_its_members() {
        let mut scene = world();
        let text = explained(&scene, "10.0.0.10");
        assert!(text.contains("nobody answers for 10.0.0.10: no router"), "{text}");
        scene.router(0x40).interface(0x45, 0x40, NET, SUB, "10.0.0.1");
        scene.gateway(0x41, 0x40, N1, S1, "192.0.2.100", &["ch1"]).hosted(0x41, Some("ch1"));
        scene.floating_ip(0x80, "192.0.2.200", Some((0x100 + 0xf000, "10.0.0.10", 0x40)));
        let text = explained(&scene, "10.0.0.10");
        for part in [
            "10.0.0.10 is a VIP of load balancer \"lb100\"",
            "ACTIVE and DEGRADED",
            "every chassis answers, as router router40",
            "chassis ch1 hosts the gateway of the router; the BGP agent there, if one runs, announces the address",
            "floating IP 192.0.2.200 leads to it",
            "OVN probes its members every 5 s",
            "member 10.0.0.107:80 on host-1 is ONLINE",
            "member 10.0.0.108:80 on host-1 is ERROR: it does not answer",
            "member 10.0.0.109:80 is ERROR: no port of its subnet has its address",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(explained(&scene, "192.0.2.200").contains("192.0.2.200 is the floating IP of 10.0.0.10"));
        assert!(explained(&scene, "10.0.0.108").contains("10.0.0.108 is a member of load balancer"));
        let by_id = explained(&scene, &id(0x100).to_string());
        assert!(
            by_id.starts_with("load balancer \"lb100\"") && by_id.contains("every chassis answers"),
            "{by_id}"
        );
        change(&mut scene, 0x100, |txn, _| {
            drop(txn.edit::<Pool>(&id(0x101), |pool| pool.admin_state_up = false))
        });
        assert!(explained(&scene, "10.0.0.10").contains("is disabled"));
    }

    #[test]
    fn a_status_counts_members_and_names_those_that_failed() {
        let scene = world();
        let all = balancer::load_balancers(scene.world(), &scene.snapshot.report, Timestamp::UNIX_EPOCH);
        assert_eq!(all.len(), 1);
        let one = &all[0];
        assert_eq!((one.members.all, one.members.failed, one.members.set_aside), (3, 2, 0));
        assert_eq!((one.provisioning_status.as_str(), one.operating_status.as_str()), ("ACTIVE", "DEGRADED"));
        assert_eq!((one.routers.len(), one.vips[0].floating_ip), (0, None));
        assert!(one.failed[0].reason.contains("does not answer"), "{one:?}");
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Vec<crate::status::LoadBalancerStatus>>(&text).unwrap(), all);
    }
}
