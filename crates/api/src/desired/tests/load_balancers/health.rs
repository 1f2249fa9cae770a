//! Health monitors: their rows, the source ports of probes, and the results.

use super::*;
use crate::report::{ProbeResult, ProbedBackend};
use crate::resource::load_balancer::monitor_port;

const MONITOR: u128 = 0x103;
/// The ports of the two members.
const VMS: [(u128, &str); 2] = [(0x51, "10.0.0.107"), (0x52, "20.0.0.107")];

/// A served load balancer whose members are ports, with a health monitor.
fn monitored() -> Scene {
    let mut scene = serving();
    scene.port(VMS[0].0, NET, SUB, VMS[0].1).port(VMS[1].0, NET2, SUB2, VMS[1].1);
    monitor(&mut scene, LB1, POOL, MONITOR, MonitorKind::Tcp);
    scene
}

fn source(scene: &Scene, subnet: u128) -> Option<String> {
    monitor_port::of(scene.world(), id(subnet)).map(|(_, address)| address.to_string())
}

fn backend((port, address): (u128, &str)) -> ProbedBackend {
    ProbedBackend {
        port_id: id(port),
        address: address.parse().unwrap(),
        protocol_port: 80,
        protocol: LbProtocol::Tcp,
    }
}

fn probed(scene: &mut Scene, vm: (u128, &str), result: Option<ProbeResult>) -> Rows {
    scene.snapshot.report.set_probe(backend(vm), result);
    rows(scene)
}

fn statuses(all: &Rows, balancer: u128) -> Vec<String> {
    let text = key(all, balancer, "neutron:member_status").unwrap();
    let map: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    map.into_values().collect()
}

#[test]
fn scenario_44_each_vip_and_listener_has_its_check() {
    let mut scene = monitored();
    listener(&mut scene, LB1, 0x104, LbProtocol::Tcp, 83, Some(POOL));
    scene.floating_ip(0x80, "192.0.2.200", Some((LB1 + 0xf000, "10.0.0.10", R)));
    let all = rows(&scene);
    let checks = all.table("Load_Balancer_Health_Check");
    assert_eq!(
        all.column("Load_Balancer_Health_Check", "vip"),
        ["10.0.0.10:82", "10.0.0.10:83", "192.0.2.200:82", "192.0.2.200:83"]
    );
    for (uuid, check) in &checks {
        assert_eq!(check["options"], "{failure_count=4, interval=5, success_count=2, timeout=3}");
        let ids = ["octavia:healthmonitor", "octavia:pool_id"].map(|key| all.external_id(uuid, key));
        assert_eq!(ids, [Some(id(MONITOR).to_string()), Some(id(POOL).to_string())]);
        let vip = all.external_id(uuid, "octavia:vip").unwrap();
        assert!(check["vip"].starts_with(&format!("{vip}:")), "{vip} {check:?}");
        assert!(row(&all, LB1)["health_check"].contains(&uuid.uuid.to_string()));
    }
    let [one, two] = [SUB, SUB2].map(|subnet| source(&scene, subnet).unwrap());
    assert_eq!(
        row(&all, LB1)["ip_port_mappings"],
        format!("{{10.0.0.107={}:{one}, 20.0.0.107={}:{two}}}", id(0x51), id(0x52))
    );
    assert_eq!(key(&all, LB1, "octavia:healthmonitors"), Some(format!("[\"{}\"]", id(MONITOR))));
    assert_eq!(all.problems, [""; 0]);
    // The source ports of probes are on every chassis.
    let (source, _) = monitor_port::of(scene.world(), id(SUB)).unwrap();
    let port = all.one("Logical_Switch_Port", "name", &source.id.to_string());
    assert_eq!(port["type"], "localport");
    assert!(!port.contains_key("port_security"));
    // Without a listener there is no check.
    for n in [LISTENER, 0x104] {
        change(&mut scene, LB1, |txn, _| drop(txn.remove::<Listener>(&id(n))));
    }
    let all = rows(&scene);
    assert!(all.table("Load_Balancer_Health_Check").is_empty());
    assert!(!row(&all, LB1).contains_key("ip_port_mappings"));
}

#[test]
fn scenario_45_results_are_written_for_other_programs() {
    let mut scene = monitored();
    assert_eq!(statuses(&rows(&scene), LB1), ["OFFLINE", "OFFLINE"], "no result yet");
    use ProbeResult::{Offline, Online, Unknown};
    for (results, expected) in [
        ([Some(Online), Some(Online)], ["ONLINE", "ONLINE"]),
        ([Some(Online), Some(Offline)], ["ONLINE", "ERROR"]),
        ([Some(Offline), Some(Offline)], ["ERROR", "ERROR"]),
        ([Some(Unknown), None], ["OFFLINE", "OFFLINE"]),
        ([Some(Online), Some(Online)], ["ONLINE", "ONLINE"]),
    ] {
        for (vm, result) in VMS.into_iter().zip(results) {
            probed(&mut scene, vm, result);
        }
        let all = rows(&scene);
        assert_eq!(statuses(&all, LB1), expected);
        assert_eq!(
            row(&all, LB1)["vips"],
            "{10.0.0.10:82=10.0.0.107:80,20.0.0.107:80}",
            "OVN itself leaves failed members out"
        );
    }
}

#[test]
fn scenario_46_load_balancers_share_backends_and_results() {
    let mut scene = monitored();
    balancer(&mut scene, LB2, NET, SUB, "10.0.0.11");
    pool(&mut scene, LB2, 0x201, LbProtocol::Tcp);
    member(&mut scene, LB2, 0x201, 0x2a1, SUB, "10.0.0.107");
    listener(&mut scene, LB2, 0x202, LbProtocol::Tcp, 80, Some(0x201));
    monitor(&mut scene, LB2, 0x201, 0x203, MonitorKind::Tcp);
    let port = monitor_port::of(scene.world(), id(SUB)).unwrap().0.id;
    let all = probed(&mut scene, VMS[0], Some(ProbeResult::Offline));
    assert_eq!(
        (statuses(&all, LB1).remove(0), statuses(&all, LB2).remove(0)),
        ("ERROR".into(), "ERROR".into())
    );
    // The mappings and the port of the other load balancer stay.
    change(&mut scene, LB1, |txn, _| drop(txn.remove::<HealthMonitor>(&id(MONITOR))));
    let all = rows(&scene);
    assert!(!row(&all, LB1).contains_key("ip_port_mappings") && !row(&all, LB1).contains_key("health_check"));
    assert!(row(&all, LB2)["ip_port_mappings"].starts_with(&format!("{{10.0.0.107={}", id(0x51))));
    assert_eq!(statuses(&all, LB1), ["NO_MONITOR", "NO_MONITOR"]);
    assert_eq!(monitor_port::of(scene.world(), id(SUB)).unwrap().0.id, port);
    assert_eq!(source(&scene, SUB2), None);
}

#[test]
fn scenario_47_a_member_without_a_port_has_failed() {
    let mut scene = monitored();
    for vm in VMS {
        probed(&mut scene, vm, Some(ProbeResult::Online));
    }
    let all = rows(scene.edit(|txn| drop(txn.remove::<Port>(&id(0x52)))));
    assert_eq!(statuses(&all, LB1), ["ONLINE", "ERROR"]);
    assert!(!row(&all, LB1)["ip_port_mappings"].contains("20.0.0.107"));
    assert!(all.problems.len() == 1 && all.problems[0].contains("no port"), "{:?}", all.problems);
    let all = rows(scene.port(0x52, NET2, SUB2, "20.0.0.107"));
    assert_eq!((statuses(&all, LB1), all.problems.len()), (vec!["ONLINE".into(), "ONLINE".into()], 0));
    let all = rows(scene.edit(|txn| drop(txn.edit::<Port>(&id(0x52), |port| port.admin_state_up = false))));
    assert_eq!(statuses(&all, LB1), ["ONLINE", "ERROR"]);
    assert!(all.problems[0].contains("disabled"), "{:?}", all.problems);
}

#[test]
fn scenario_48_a_disabled_monitor_probes_nothing() {
    let mut scene = monitored();
    let edit = |scene: &mut Scene, with: fn(&mut HealthMonitor)| {
        change(scene, LB1, |txn, _| drop(txn.edit::<HealthMonitor>(&id(MONITOR), with)));
        rows(scene)
    };
    let all = edit(&mut scene, |monitor| (monitor.delay, monitor.timeout) = (9, 0));
    let check = all.one("Load_Balancer_Health_Check", "vip", "10.0.0.10:82");
    assert_eq!(check["options"], "{failure_count=4, interval=9, success_count=2, timeout=1}");
    probed(&mut scene, VMS[0], Some(ProbeResult::Offline));
    let all = edit(&mut scene, |monitor| monitor.admin_state_up = false);
    assert!(all.table("Load_Balancer_Health_Check").is_empty());
    assert!(!row(&all, LB1).contains_key("health_check") && !row(&all, LB1).contains_key("ip_port_mappings"));
    assert_eq!(statuses(&all, LB1), ["NO_MONITOR", "NO_MONITOR"]);
}

#[test]
fn backup_members_serve_while_the_others_fail() {
    let mut scene = monitored();
    change(&mut scene, LB1, |txn, _| drop(txn.edit::<Member>(&id(0x1a2), |member| member.backup = true)));
    let vips = |all: &Rows| row(all, LB1)["vips"].clone();
    assert_eq!(vips(&rows(&scene)), "{10.0.0.10:82=10.0.0.107:80}");
    let all = probed(&mut scene, VMS[0], Some(ProbeResult::Offline));
    assert_eq!(vips(&all), "{10.0.0.10:82=10.0.0.107:80,20.0.0.107:80}");
    let all = probed(&mut scene, VMS[0], Some(ProbeResult::Online));
    assert_eq!(vips(&all), "{10.0.0.10:82=10.0.0.107:80}");
}

#[test]
fn a_server_that_starts_without_the_southbound_keeps_backups_in_service() {
    let mut scene = monitored();
    change(&mut scene, LB1, |txn, _| drop(txn.edit::<Member>(&id(0x1a2), |member| member.backup = true)));
    let vips = |scene: &Scene| row(&rows(scene), LB1)["vips"].clone();
    scene.snapshot.report.set_last_result(id(0x1a1), Some(ProbeResult::Offline));
    assert_eq!(vips(&scene), "{10.0.0.10:82=10.0.0.107:80,20.0.0.107:80}");
    assert_eq!(statuses(&rows(&scene), LB1)[0], "ERROR", "what other programs read stays");
    // The Southbound's results count from its first answer on.
    scene.snapshot.report.set_southbound_read();
    assert_eq!(vips(&scene), "{10.0.0.10:82=10.0.0.107:80}");
}

#[test]
fn ipv6_members_are_mapped_in_brackets() {
    let mut scene = serving();
    scene.put(fixture::subnet(0x37, NET, "fd00::/64"));
    scene.port(0x53, NET, 0x37, "fd00::107");
    change(&mut scene, LB1, |txn, _| {
        let address = "fd00::10".parse().unwrap();
        let further = Vip { subnet_id: id(0x37), address, port_id: id(0xf999), own_port: false };
        txn.edit::<LoadBalancer>(&id(LB1), |it| it.vips.push(further));
    });
    member(&mut scene, LB1, POOL, 0x1a3, 0x37, "fd00::107");
    monitor(&mut scene, LB1, POOL, MONITOR, MonitorKind::Tcp);
    let all = rows(&scene);
    assert!(all.column("Load_Balancer_Health_Check", "vip").contains(&"[fd00::10]:82".to_owned()));
    let source = source(&scene, 0x37).unwrap();
    assert_eq!(
        row(&all, LB1)["ip_port_mappings"],
        format!("{{[fd00::107]={}:[{source}]}}", id(0x53)),
        "the others are no ports"
    );
}
