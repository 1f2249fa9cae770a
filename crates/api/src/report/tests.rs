//! The report agrees with the replicas after each change.

use std::net::IpAddr;

use jiff::Timestamp;
use ovsdb::Snapshot;
use ovsdb::replica::{Delta, Replica, UpdateVersion};
use ovsdb::wire::DatabaseSchema;
use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::{Judgement, agents, fleet};
use super::*;

const NB: &str = include_str!("../../../ovn/testdata/schema/ovn-nb-23.03.json");
const SB: &str = include_str!("../../../ovn/testdata/schema/ovn-sb-23.03.json");

/// A replica with hand-written updates in place of a server.
struct Told(Replica);

impl Told {
    fn northbound() -> Self {
        Told::new(northbound_model(), NB)
    }

    fn southbound() -> Self {
        Told::new(southbound_model(), SB)
    }

    fn new(model: ovsdb::Model, schema: &str) -> Self {
        let mut replica = Replica::new(model);
        replica.fit(&DatabaseSchema::parse(schema).unwrap()).unwrap();
        replica.reload(UpdateVersion::V2, "{}").unwrap();
        Told(replica)
    }

    fn tell(&mut self, table: &str, row: Uuid, change: &str, columns: Value) -> Delta {
        let update = json!({ table: { row.to_string(): { change: columns } } });
        self.0.apply(UpdateVersion::V2, &update.to_string()).unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn reference(uuid: Uuid) -> Value {
    json!(["uuid", uuid.to_string()])
}

#[test]
fn ports_are_up_when_ovn_says_so() {
    let (mut nb, mut report) = (Told::northbound(), Report::default());
    let port = id(1);
    report.northbound_changed(&nb.tell(
        "Logical_Switch_Port",
        port,
        "insert",
        json!({"name": port.to_string()}),
    ));
    assert!(!report.port_up(port));
    report.northbound_changed(&nb.tell("Logical_Switch_Port", port, "modify", json!({"up": true})));
    assert!(report.port_up(port));
    report.northbound_changed(&nb.tell("Logical_Switch_Port", port, "delete", Value::Null));
    assert!(!report.port_up(port));
}

#[test]
fn sessions_routes_and_translations_come_and_go() {
    let (mut nb, mut report) = (Told::northbound(), Report::default());
    let hop: IpAddr = "192.0.2.1".parse().unwrap();
    report.northbound_changed(&nb.tell(
        "BFD",
        id(1),
        "insert",
        json!({"logical_port": "lrp-a", "dst_ip": "192.0.2.1", "status": "up"}),
    ));
    assert_eq!(report.bfd("lrp-a", hop), Some(BfdState::Up));
    report.northbound_changed(&nb.tell("BFD", id(1), "modify", json!({"status": "down"})));
    assert_eq!(report.bfd("lrp-a", hop), Some(BfdState::Down));
    report.northbound_changed(&nb.tell("BFD", id(1), "delete", Value::Null));
    assert_eq!(report.bfd("lrp-a", hop), None);

    let gateway = id(2);
    let ids = json!(["map", [["neutron:is_ext_gw", "true"], ["meridian:gw_port_id", gateway.to_string()]]]);
    let route = json!({"ip_prefix": "0.0.0.0/0", "nexthop": "192.0.2.1", "external_ids": ids});
    report.northbound_changed(&nb.tell("Logical_Router_Static_Route", id(3), "insert", route));
    assert!(report.route_installed(gateway, hop));
    report.northbound_changed(&nb.tell("Logical_Router_Static_Route", id(3), "delete", Value::Null));
    assert!(!report.route_installed(gateway, hop));

    let nat = json!({"type": "dnat_and_snat", "external_ip": "192.0.2.9", "logical_ip": "10.0.0.9",
        "external_ids": ["map", [["neutron:fip_id", id(5).to_string()]]]});
    report.northbound_changed(&nb.tell("NAT", id(4), "insert", nat));
    assert!(report.fip_active(id(5)));
    report.northbound_changed(&nb.tell("NAT", id(4), "delete", Value::Null));
    assert!(!report.fip_active(id(5)));
}

#[test]
fn gateways_are_where_their_redirect_port_is() {
    let (mut sb, mut report) = (Told::southbound(), Report::default());
    let (gateway, vif, chassis) = (id(1), id(2), id(10));
    // The binding may arrive before its chassis.
    let binding = json!({"logical_port": format!("cr-lrp-{gateway}"), "type": "chassisredirect", "tunnel_key": 1,
        "datapath": reference(id(99)), "chassis": reference(chassis)});
    report.southbound_changed(&sb.tell("Port_Binding", id(20), "insert", binding), Timestamp::UNIX_EPOCH);
    assert_eq!(report.gateway_host(gateway), None);
    let row = json!({"name": "ch1", "hostname": "node1", "encaps": reference(id(98))});
    report.southbound_changed(&sb.tell("Chassis", chassis, "insert", row), Timestamp::UNIX_EPOCH);
    assert_eq!((report.gateway_host(gateway), report.gateway_chassis(gateway)), (Some("node1"), Some("ch1")));
    let binding = json!({"logical_port": vif.to_string(), "tunnel_key": 2, "datapath": reference(id(99)),
        "chassis": reference(chassis)});
    report.southbound_changed(&sb.tell("Port_Binding", id(21), "insert", binding), Timestamp::UNIX_EPOCH);
    assert_eq!(report.bound_host(vif), Some("node1"));
    report.southbound_changed(
        &sb.tell("Chassis", chassis, "modify", json!({"hostname": "node9"})),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!((report.gateway_host(gateway), report.bound_host(vif)), (Some("node9"), Some("node9")));
    report.southbound_changed(
        &sb.tell("Port_Binding", id(20), "modify", json!({"chassis": ["set", []]})),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(report.gateway_host(gateway), None);
    report.southbound_changed(&sb.tell("Chassis", chassis, "delete", Value::Null), Timestamp::UNIX_EPOCH);
    assert_eq!(report.bound_host(vif), None);
}

#[test]
fn agents_are_judged_by_what_they_carried_out_and_when() {
    let mut sb = Told::southbound();
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let chassis = |name: &str, options: &str| {
        json!({"name": name, "hostname": format!("host-{name}"), "encaps": reference(id(98)),
            "other_config": ["map", [["ovn-cms-options", options], ["ovn-bridge-mappings", "phy1:br-ex"]]]})
    };
    sb.tell("Chassis", id(1), "insert", chassis("ch1", "enable-chassis-as-gw,availability-zones=az1:az2"));
    sb.tell("Chassis", id(2), "insert", chassis("ch2", ""));
    let private = |name: &str, row: Option<Uuid>, nb_cfg: i64, ids: Value| {
        json!({"name": name, "chassis": row.map_or(json!(["set", []]), reference), "nb_cfg": nb_cfg,
            "nb_cfg_timestamp": 1_000_000, "external_ids": ids})
    };
    let metadata = json!(["map", [["neutron:ovn-metadata-id", "m1"], ["neutron:ovn-metadata-sb-cfg", "3"]]]);
    sb.tell("Chassis_Private", id(11), "insert", private("ch1", Some(id(1)), 9, metadata));
    sb.tell("Chassis_Private", id(12), "insert", private("ch2", Some(id(2)), 7, json!(["map", []])));
    sb.tell("Chassis_Private", id(13), "insert", private("gone", None, 9, json!(["map", []])));

    let judge = |now: i64| Judgement { now: at(now), nb_cfg: 10, agent_down_time: 75 };
    let alive = |now: i64| -> Vec<(String, bool)> {
        agents(&sb.snapshot(), judge(now), &[]).into_iter().map(|agent| (agent.id, agent.alive)).collect()
    };
    let told = |list: [(&str, bool); 4]| list.map(|(id, alive)| (id.to_owned(), alive)).to_vec();
    assert_eq!(alive(1_010), told([("ch1", true), ("ch2", true), ("gone", false), ("m1", true)]));
    assert_eq!(alive(1_100), told([("ch1", true), ("ch2", false), ("gone", false), ("m1", false)]));

    let agents = agents(&sb.snapshot(), judge(1_100), &[]);
    assert_eq!(agents[0].kind, AgentKind::Gateway);
    assert_eq!(agents[1].kind, AgentKind::Controller);
    assert_eq!(agents[3].kind, AgentKind::Metadata);
    let fleet = fleet(&sb.snapshot(), &agents);
    assert_eq!(fleet.chassis.len(), 2);
    let ch1 = fleet.named("ch1").unwrap();
    assert!(ch1.gateway && ch1.alive && ch1.physical_networks.contains("phy1") && ch1.zones.len() == 2);
    assert!(!fleet.on_host("host-ch2").unwrap().alive);
}

#[test]
fn agents_beside_a_controller_are_judged_by_what_they_report_themselves() {
    let (mut sb, mut report) = (Told::southbound(), Report::default());
    let chassis = json!({"name": "ch1", "hostname": "node1", "encaps": reference(id(98))});
    sb.tell("Chassis", id(1), "insert", chassis);
    let said = |metadata: &str, neutron: &str| {
        json!([
            "map",
            [
                ["neutron:ovn-metadata-id", "m1"],
                ["neutron:ovn-metadata-sb-cfg", metadata],
                ["neutron:ovn-neutron-agent-id", "n1"],
                ["neutron:ovn-neutron-agent-sb-cfg", neutron]
            ]
        ])
    };
    let private = json!({"name": "ch1", "chassis": reference(id(1)), "nb_cfg": 3,
        "nb_cfg_timestamp": 1_000_000, "external_ids": said("3", "3")});
    sb.tell("Chassis_Private", id(11), "insert", private);
    let mut look = |second: i64, nb_cfg: i64, metadata: &str, neutron: &str| -> [bool; 3] {
        // The controller is always alive.
        let now = json!({"nb_cfg": nb_cfg, "nb_cfg_timestamp": second * 1000});
        sb.tell("Chassis_Private", id(11), "modify", now);
        let told =
            sb.snapshot().table::<ovn::sb::ChassisPrivate>().iter().next().unwrap().1.external_ids.clone();
        let new = said(metadata, neutron);
        let changed: Vec<&Value> = new[1]
            .as_array()
            .unwrap()
            .iter()
            .filter(|pair| told.get(pair[0].as_str().unwrap()).map(|it| it.as_str()) != pair[1].as_str())
            .collect();
        if !changed.is_empty() {
            sb.tell("Chassis_Private", id(11), "modify", json!({"external_ids": ["map", changed]}));
        }
        let now = Timestamp::from_second(second).unwrap();
        report.judge_agents(&sb.snapshot(), Judgement { now, nb_cfg, agent_down_time: 75 });
        ["ch1", "m1", "n1"].map(|id| report.agents().iter().any(|agent| agent.id == id && agent.alive))
    };
    assert_eq!(look(1_000, 3, "3", "3"), [true, true, true]);
    assert_eq!(look(1_060, 5, "3", "5"), [true, true, true], "behind, but not for long");
    assert_eq!(look(1_080, 6, "3", "6"), [true, false, true], "the one beside it is silent for 80 seconds");
    assert_eq!(look(1_140, 9, "8", "6"), [true, true, true], "it is back; the other has been silent for 60");
    assert_eq!(look(1_160, 10, "8", "6"), [true, true, false]);
    let heartbeat =
        |id: &str| report.agents().iter().find(|agent| agent.id == id).unwrap().heartbeat.as_second();
    assert_eq!(["ch1", "m1", "n1"].map(heartbeat), [1_160, 1_140, 1_080]);
}

#[test]
fn rows_of_load_balancers_tell_their_generation() {
    let (mut nb, mut report) = (Told::northbound(), Report::default());
    let balancer = id(1);
    let ids = |generation: &str| {
        json!(["map", [["neutron:vip_port_id", id(9).to_string()], ["meridian:revision", generation]]])
    };
    assert!(!report.has_northbound());
    for (row, generation) in [(id(1), "7"), (id(2), "5")] {
        let columns = json!({"name": balancer.to_string(), "external_ids": ids(generation)});
        report.northbound_changed(&nb.tell("Load_Balancer", row, "insert", columns));
    }
    // Features such as port forwarding have load balancers too.
    let foreign = json!({"name": id(3).to_string(), "external_ids": ["map", [["meridian:revision", "1"]]]});
    report.northbound_changed(&nb.tell("Load_Balancer", id(3), "insert", foreign));
    assert!(report.has_northbound());
    assert_eq!((report.balancer(balancer), report.balancer(id(3))), (Some(5), None));
    let before = report.clone();
    report.northbound_changed(&nb.tell("Load_Balancer", id(2), "delete", Value::Null));
    assert_eq!(report.balancer(balancer), Some(7));
    assert!(!report.is_same(&before));
    // OVSDB sends maps as differences.
    let lost = json!({"external_ids": ["map", [["meridian:revision", "7"]]]});
    report.northbound_changed(&nb.tell("Load_Balancer", id(1), "modify", lost));
    assert_eq!(report.balancer(balancer), Some(0), "the row is there, whatever it was made from");
    report.northbound_changed(&nb.tell("Load_Balancer", id(1), "delete", Value::Null));
    assert_eq!(report.balancer(balancer), None);
}

#[test]
fn last_results_of_members_count_until_the_southbound_is_read() {
    let (mut nb, mut report) = (Told::northbound(), Report::default());
    let (up, down, unknown) = (id(0x11), id(0x12), id(0x13));
    let statuses = json!({up.to_string(): "ONLINE", down.to_string(): "ERROR", unknown.to_string(): "OFFLINE", "x": "ERROR"});
    let ids =
        json!(["map", [["neutron:vip_port_id", id(9)], ["neutron:member_status", statuses.to_string()]]]);
    let columns = json!({"name": id(1), "external_ids": ids});
    report.northbound_changed(&nb.tell("Load_Balancer", id(2), "insert", columns));
    let address = "10.0.0.7".parse().unwrap();
    let protocol = crate::model::LbProtocol::Tcp;
    let backend = ProbedBackend { port_id: id(5), address, protocol_port: 80, protocol };
    let results = |report: &Report| [up, down, unknown].map(|member| report.probe_result(member, &backend));
    assert_eq!(results(&report), [Some(ProbeResult::Online), Some(ProbeResult::Offline), None]);
    let mut set = |text: &str, report: &mut Report| {
        let columns = json!({"external_ids": ["map", [["neutron:member_status", text]]]});
        report.northbound_changed(&nb.tell("Load_Balancer", id(2), "modify", columns));
    };
    set("no JSON", &mut report);
    assert_eq!(results(&report)[0], Some(ProbeResult::Online), "a damaged row tells nothing");
    report.set_southbound_read();
    assert_eq!(results(&report), [None; 3]);
    set(&statuses.to_string(), &mut report);
    assert_eq!(results(&report), [None; 3]);
}

#[test]
fn probes_of_backends_come_and_go() {
    let (mut sb, mut report) = (Told::southbound(), Report::default());
    let backend = ProbedBackend {
        port_id: id(5),
        address: "10.0.0.107".parse().unwrap(),
        protocol_port: 80,
        protocol: crate::model::LbProtocol::Tcp,
    };
    let row = json!({"ip": "10.0.0.107", "port": 80, "protocol": "tcp", "logical_port": id(5).to_string(),
        "src_mac": "", "src_ip": "10.0.0.2"});
    report.southbound_changed(&sb.tell("Service_Monitor", id(1), "insert", row), Timestamp::UNIX_EPOCH);
    assert_eq!(report.probe_result(id(6), &backend), Some(ProbeResult::Unknown));
    for (status, expected) in
        [("online", ProbeResult::Online), ("offline", ProbeResult::Offline), ("error", ProbeResult::Offline)]
    {
        let status = json!({ "status": status });
        report
            .southbound_changed(&sb.tell("Service_Monitor", id(1), "modify", status), Timestamp::UNIX_EPOCH);
        assert_eq!(report.probe_result(id(6), &backend), Some(expected));
    }
    let other = ProbedBackend { protocol: crate::model::LbProtocol::Udp, ..backend };
    assert_eq!(report.probe_result(id(6), &other), None);
    report
        .southbound_changed(&sb.tell("Service_Monitor", id(1), "delete", Value::Null), Timestamp::UNIX_EPOCH);
    assert_eq!(report.probe_result(id(6), &backend), None);
}
