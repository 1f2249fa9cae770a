//! Networks, subnets, ports and security groups.

use std::sync::Arc;

use ovn::MacAddr;
use ovn::nb::{LogicalSwitch, PortGroup};
use serde_json::json;

use super::scene::*;
use super::*;
use crate::fleet::Fleet;
use crate::model::*;
use crate::resource::fixture::id;
use crate::snapshot::Ability;

#[test]
fn scenario_3_a_provider_network_has_a_localnet_port() {
    let mut scene = Scene::new();
    let rows = rows(scene.edit(|txn| {
        txn.edit::<Network>(&id(N2), |network| {
            network.segment.network_type = NetworkType::Vlan;
            network.segment.segmentation_id = Some(101);
        });
    }));
    let switch = rows.one("Logical_Switch", "name", &format!("neutron-{}", id(N1)));
    assert_eq!(
        switch["other_config"],
        "{broadcast-arps-to-all-routers=true, fdb_age_threshold=300, mcast_flood_unregistered=false, \
         mcast_snoop=false, vlan-passthru=false}"
    );
    assert_eq!(
        switch["external_ids"],
        "{neutron:availability_zone_hints=, neutron:mtu=1500, neutron:network_name=net17, \
         neutron:provnet-network-type=flat, neutron:provnet-physical-network=phy1, neutron:revision_number=0}"
    );
    let internal = rows.one("Logical_Switch", "name", &format!("neutron-{}", id(NET)));
    assert!(!internal["other_config"].contains("fdb_age") && !internal["other_config"].contains("broadcast"));
    let segment = scene.world().get::<Network>(&id(N2)).unwrap().segment.id;
    let localnet = rows.one("Logical_Switch_Port", "name", &format!("provnet-{segment}"));
    assert_eq!((localnet["type"].as_str(), localnet["tag_request"].as_str()), ("localnet", "101"));
    assert_eq!(
        localnet["options"],
        "{localnet_learn_fdb=false, mcast_flood=false, mcast_flood_reports=true, network_name=phy2}"
    );
    assert_eq!(rows.members::<LogicalSwitch>(id(N2), LogicalSwitch::PORTS), [segment]);
    assert_eq!(rows.table("Logical_Switch_Port").len(), 2, "a network of tunnels has none");
}

#[test]
fn scenario_9_pairs_options_and_groups_of_a_port() {
    let mut scene = Scene::new();
    scene.put(group(0x61)).put(group(0x62));
    let mut port = port(0x51, NET, SUB, "10.0.0.5");
    port.security_groups = [id(0x61), id(0x62)].into();
    port.allowed_address_pairs = vec![
        AddressPair { ip_address: "10.0.0.100/32".parse().unwrap(), mac_address: None },
        AddressPair { ip_address: "10.0.9.0/24".parse().unwrap(), mac_address: None },
        AddressPair {
            ip_address: "10.0.0.101/32".parse().unwrap(),
            mac_address: Some(MacAddr([0, 0, 0x5e, 0, 1, 7])),
        },
    ];
    port.extra_dhcp_opts =
        vec![dhcp_option("server-ip-address", "10.0.0.9"), dhcp_option("bootfile-name", "pxelinux.0")];
    scene.put(port.clone());
    let all = rows(&scene);
    let row = all.one("Logical_Switch_Port", "name", &id(0x51).to_string());
    assert_eq!(row["addresses"], "[00:00:5e:00:01:07, fa:16:3e:00:00:51 10.0.0.5]");
    assert_eq!(
        row["port_security"],
        "[00:00:5e:00:01:07 10.0.0.101, fa:16:3e:00:00:51 10.0.0.5 10.0.0.100 10.0.9.0/24]"
    );
    let own: Vec<_> = all
        .table("DHCP_Options")
        .into_iter()
        .filter(|(_, row)| row["external_ids"].contains(&format!("port_id={}", id(0x51))))
        .collect();
    assert_eq!(own.len(), 1);
    assert_eq!(row["dhcpv4_options"], own[0].0.uuid.to_string());
    let options = &own[0].1["options"];
    assert!(options.contains("next_server=10.0.0.9"), "{options}");
    assert!(options.contains("bootfile_name=\"pxelinux.0\""), "{options}");
    assert!(options.contains("router=10.0.0.1"), "{options}");
    let dropped =
        all.table("Port_Group").into_iter().find(|(_, row)| row["name"] == "neutron_pg_drop").unwrap();
    for group in [id(0x61), id(0x62), dropped.0.uuid] {
        assert_eq!(all.members::<PortGroup>(group, PortGroup::PORTS), [id(0x51)]);
    }
    // A port that disables DHCP gets none.
    port.extra_dhcp_opts = vec![dhcp_option("dhcp_disabled", "true")];
    scene.put(port);
    let all = rows(&scene);
    assert!(!all.one("Logical_Switch_Port", "name", &id(0x51).to_string()).contains_key("dhcpv4_options"));
}

#[test]
fn dhcp_options_that_no_type_allows_are_left_out_and_told() {
    let mut scene = Scene::new();
    let mut port = port(0x51, NET, SUB, "10.0.0.5");
    let attack =
        r#"1400); outport = "p"; next(pipeline=egress,table=8); reg0[3] = put_dhcp_opts(offerip = 1.2.3.4"#;
    let many = vec!["10.1.2.3/32,10.0.0.9"; 28].join(",");
    port.extra_dhcp_opts = vec![
        dhcp_option("mtu", attack),
        dhcp_option("67", "\"a\"); drop; x(y = \"b\""),
        dhcp_option("bootfile-name-alt", attack),
        dhcp_option("121", "{10.0.0.0/8,10.0.0.1}); drop; {10.0.0.0/8,10.0.0.1}"),
        dhcp_option("ntp-server", "10.0.0.7,10.0.0.8"),
        dhcp_option("client-id", attack),
        dhcp_option("tag:ipxe,67", "x"),
    ];
    scene.put(port.clone());
    let all = rows(&scene);
    let own = |all: &Rows| {
        let row = all.one("Logical_Switch_Port", "name", &id(0x51).to_string())["dhcpv4_options"].clone();
        let found = all.table("DHCP_Options").into_iter().find(|(id, _)| id.uuid.to_string() == row);
        found.unwrap().1["options"].clone()
    };
    let options = own(&all);
    assert!(options.contains("ntp_server={10.0.0.7, 10.0.0.8}"), "the good ones go on: {options}");
    assert!(options.contains("mtu=1442"), "the subnet's value stays: {options}");
    let written = r#"bootfile_name_alt="1400); outport = \"p\"; next("#;
    assert!(options.contains(written), "a string may say anything, in quotes: {options}");
    assert!(!options.contains("bootfile_name=") && !options.contains("drop"), "{options}");
    assert_eq!(all.problems.len(), 3, "{:?}", all.problems);
    for (problem, name) in all.problems.iter().zip(["mtu", "67", "121"]) {
        assert!(problem.contains("dhcp-option") && problem.contains(&format!("{name:?}")), "{problem}");
    }
    // Routes are added to those of the subnet. Routes beyond the limit of one option are all left out.
    scene.edit(|txn| {
        drop(txn.edit::<Subnet>(&id(SUB), |subnet| {
            let route =
                HostRoute { destination: "10.7.0.0/16".parse().unwrap(), nexthop: [10, 0, 0, 3].into() };
            subnet.host_routes = vec![route];
        }));
    });
    port.extra_dhcp_opts = vec![dhcp_option("121", "10.8.0.0/16,10.0.0.4")];
    scene.put(port.clone());
    let joined = "classless_static_route={10.7.0.0/16,10.0.0.3, 0.0.0.0/0,10.0.0.1, 10.8.0.0/16,10.0.0.4}";
    let all = rows(&scene);
    assert!(own(&all).contains(joined), "{}", own(&all));
    assert_eq!(all.problems, [] as [&str; 0]);
    port.extra_dhcp_opts = vec![dhcp_option("121", &many), dhcp_option("mtu", "1400")];
    scene.put(port.clone());
    let all = rows(&scene);
    let stays = "classless_static_route={10.7.0.0/16,10.0.0.3, 0.0.0.0/0,10.0.0.1}";
    assert!(own(&all).contains(stays) && own(&all).contains("mtu=1400"), "{}", own(&all));
    assert!(all.problems[0].contains("of the 255"), "{:?}", all.problems);
    // If no own option is left, the port uses the subnet's row.
    port.extra_dhcp_opts = vec![dhcp_option("mtu", attack)];
    scene.put(port);
    let all = rows(&scene);
    let subnets = rows(&Scene::new()).table("DHCP_Options").len();
    assert_eq!((all.table("DHCP_Options").len(), all.problems.len()), (subnets, 1));
}

#[test]
fn virtual_router_macs_where_ovn_knows_them() {
    let mut scene = Scene::new();
    let mut port = port(0x51, NET, SUB, "10.0.0.5");
    port.allowed_address_pairs = vec![AddressPair {
        ip_address: "10.0.0.101/32".parse().unwrap(),
        mac_address: Some(MacAddr([0, 0, 0x5e, 0, 1, 7])),
    }];
    scene.put(port).ability(Ability { vrrp: true, ..Default::default() });
    assert_eq!(
        rows(&scene).one("Logical_Switch_Port", "name", &id(0x51).to_string())["port_security"],
        "[00:00:5e:00:01:07 10.0.0.101, VRRPv3 fa:16:3e:00:00:51 00:00:5e:00:01:07 10.0.0.101, \
         fa:16:3e:00:00:51 10.0.0.5]"
    );
}

fn dhcp_option(name: &str, value: &str) -> ExtraDhcpOpt {
    ExtraDhcpOpt { opt_name: name.into(), opt_value: value.into(), ip_version: 4 }
}

#[test]
fn routes_of_a_port_come_on_top_of_its_subnets() {
    let mut scene = Scene::new();
    scene.edit(|txn| {
        txn.edit::<Subnet>(&id(SUB), |subnet| {
            let destination = "10.9.0.0/16".parse().unwrap();
            subnet.host_routes = vec![HostRoute { destination, nexthop: "10.0.0.7".parse().unwrap() }];
        });
    });
    let mut port = port(0x51, NET, SUB, "10.0.0.5");
    for (said, written) in [
        ("{192.168.9.0/24,10.0.0.8}", "{10.9.0.0/16,10.0.0.7, 0.0.0.0/0,10.0.0.1, 192.168.9.0/24,10.0.0.8}"),
        ("192.168.9.0/24,10.0.0.8", "{10.9.0.0/16,10.0.0.7, 0.0.0.0/0,10.0.0.1, 192.168.9.0/24,10.0.0.8}"),
    ] {
        port.extra_dhcp_opts = vec![dhcp_option("classless-static-route", said)];
        scene.put(port.clone());
        let all = rows(&scene);
        let own = |row: &str| row.contains(&format!("port_id={}", id(0x51)));
        let rows = all.table("DHCP_Options");
        let (_, row) = rows.iter().find(|(_, row)| own(&row["external_ids"])).unwrap();
        assert!(row["options"].contains(&format!("classless_static_route={written}, ")), "{row:?}");
    }
}

#[test]
fn any_machine_may_be_behind_a_physical_switch() {
    let mut scene = Scene::new();
    let mut port = port(0x51, NET, SUB, "10.0.0.5");
    for (key, value) in [("vtep-physical-switch", "rack1"), ("vtep-logical-switch", "blue")] {
        port.binding.profile.insert(key.into(), json!(value));
    }
    scene.put(port);
    let all = rows(&scene);
    let row = all.one("Logical_Switch_Port", "name", &id(0x51).to_string());
    assert_eq!((row["type"].as_str(), row["addresses"].as_str()), ("vtep", "unknown"));
    assert!(row["external_ids"].contains("neutron:cidrs=, "), "{row:?}");
    let dropped = all.table("Port_Group")[0].0.uuid;
    assert!(all.members::<PortGroup>(dropped, PortGroup::PORTS).is_empty());
    assert_eq!(row["options"], "{vtep-logical-switch=blue, vtep-physical-switch=rack1}");
    assert!(!row.contains_key("port_security"));
}

/// The type of each kind of port, and the consequences for its row.
#[test]
fn kinds_of_ports() {
    type Change = fn(&mut Port);
    let cases: [(&str, Change, &str, &str, &str, bool); 12] = [
        ("a VIF", |_| {}, "", "fa:16:3e:00:00:51 10.0.0.5", "", true),
        (
            "bound",
            |p| p.binding.host_id = "h1".into(),
            "",
            "fa:16:3e:00:00:51 10.0.0.5",
            "{requested-chassis=h1}",
            true,
        ),
        (
            "migrating",
            |p| {
                p.binding.host_id = "h1".into();
                p.binding.profile.insert("migrating_to".into(), json!("h2"));
            },
            "",
            "fa:16:3e:00:00:51 10.0.0.5",
            "{activation-strategy=rarp, requested-chassis=h1,h2}",
            true,
        ),
        (
            "without port security",
            |p| p.port_security_enabled = false,
            "",
            "[fa:16:3e:00:00:51 10.0.0.5, unknown]",
            "",
            false,
        ),
        (
            "without port security and DHCP",
            |p| {
                p.port_security_enabled = false;
                p.extra_dhcp_opts = vec![dhcp_option("dhcp_disabled", "true")];
            },
            "",
            "unknown",
            "",
            false,
        ),
        ("a router's, of another kind", |p| p.device_owner = "network:ha".into(), "", "unknown", "", false),
        // Instances on other chassis must reach a DHCP agent, so its port is no localport.
        ("a DHCP agent's", |p| p.device_owner = "network:dhcp".into(), "", "unknown", "", false),
        (
            "metadata",
            |p| p.device_owner = owner::DISTRIBUTED.into(),
            "localport",
            "fa:16:3e:00:00:51 10.0.0.5",
            "",
            false,
        ),
        (
            "health monitor",
            |p| p.device_owner = owner::LB_HEALTH_MONITOR.into(),
            "localport",
            "fa:16:3e:00:00:51 10.0.0.5",
            "",
            false,
        ),
        (
            "SR-IOV",
            |p| p.binding.vnic_type = "direct".into(),
            "external",
            "fa:16:3e:00:00:51 10.0.0.5",
            "",
            true,
        ),
        (
            "a smart card",
            |p| {
                p.binding.vnic_type = "direct".into();
                p.binding.profile.insert("capabilities".into(), json!(["switchdev"]));
            },
            "",
            "fa:16:3e:00:00:51 10.0.0.5",
            "",
            true,
        ),
        ("a load balancer's VIP", |p| p.name = "ovn-lb-vip-1".into(), "", "", "", true),
    ];
    for (what, change, kind, addresses, options, secured) in cases {
        let mut scene = Scene::new();
        let mut port = port(0x51, NET, SUB, "10.0.0.5");
        change(&mut port);
        scene.put(port);
        let all = rows(&scene);
        let row = all.one("Logical_Switch_Port", "name", &id(0x51).to_string());
        let get = |column: &str| row.get(column).map_or("", String::as_str);
        assert_eq!((get("type"), get("addresses"), get("options")), (kind, addresses, options), "{what}");
        assert_eq!(!get("port_security").is_empty(), secured, "{what}");
        let dropped = all.table("Port_Group")[0].0.uuid;
        assert_eq!(all.members::<PortGroup>(dropped, PortGroup::PORTS).len(), usize::from(secured), "{what}");
        assert_eq!(get("enabled"), "true");
        assert_eq!(all.members::<LogicalSwitch>(id(NET), LogicalSwitch::PORTS), [id(0x51)]);
    }
}

#[test]
fn an_address_that_others_may_use_is_virtual() {
    let mut scene = Scene::new();
    scene.port(0x51, NET, SUB, "10.0.0.100");
    let mut parent = port(0x52, NET, SUB, "10.0.0.6");
    parent.allowed_address_pairs =
        vec![AddressPair { ip_address: "10.0.0.100/32".parse().unwrap(), mac_address: None }];
    scene.put(parent);
    scene
        .snapshot
        .report
        .set_bound(id(0x52), Some(crate::report::Place { chassis: "ch1".into(), host: "h1".into() }));
    let row = rows(&scene).one("Logical_Switch_Port", "name", &id(0x51).to_string()).clone();
    assert_eq!(row["type"], "virtual");
    assert_eq!(row["options"], format!("{{virtual-ip=10.0.0.100, virtual-parents={}}}", id(0x52)));
    // An ordinary port of an instance keeps its type.
    scene.edit(|txn| drop(txn.edit::<Port>(&id(0x51), |port| port.device_owner = "compute:nova".into())));
    assert!(!rows(&scene).one("Logical_Switch_Port", "name", &id(0x51).to_string()).contains_key("type"));
}

#[test]
fn external_ports_live_where_chassis_say_so_or_where_gateways_are() {
    let mut scene = Scene::new();
    let mut port = port(0x51, N1, S1, "192.0.2.50");
    port.binding.vnic_type = "baremetal".into();
    scene.put(port);
    let all = rows(&scene);
    let group = all.one("HA_Chassis_Group", "name", &format!("neutron-{}", id(N1)));
    assert!(group["external_ids"].contains(&format!("neutron:network_id={}", id(N1))));
    assert_eq!(all.column("HA_Chassis", "priority"), ["32765", "32766", "32767"]);
    let mut fleet = Fleet::clone(&scene.snapshot.fleet);
    fleet.chassis[1].external_ports = true;
    scene.snapshot.fleet = Arc::new(fleet);
    let all = rows(&scene);
    all.one("HA_Chassis_Group", "name", &format!("neutron-extport-{}", id(0x51)));
    assert_eq!(all.column("HA_Chassis", "chassis_name"), ["ch2"]);
}

#[test]
fn what_dhcp_tells() {
    let mut scene = Scene::new();
    scene.put(Port {
        device_owner: owner::DISTRIBUTED.into(),
        device_id: format!("ovnmeta-{}", id(NET)),
        ..port(0x59, NET, SUB, "10.0.0.2")
    });
    scene.edit(|txn| {
        txn.edit::<Subnet>(&id(SUB), |subnet| {
            subnet.dns_nameservers = vec!["8.8.8.8".parse().unwrap(), "8.8.4.4".parse().unwrap()];
            subnet.host_routes = vec![HostRoute {
                destination: "10.9.0.0/16".parse().unwrap(),
                nexthop: "10.0.0.7".parse().unwrap(),
            }];
        });
    });
    let options =
        |scene: &Scene| rows(scene).one("DHCP_Options", "cidr", "10.0.0.0/24").get("options").cloned();
    let mac = scene.world().get::<Subnet>(&id(SUB)).unwrap().dhcp_server_mac;
    assert_eq!(
        options(&scene).unwrap(),
        format!(
            "{{classless_static_route={{169.254.169.254/32,10.0.0.2, 10.9.0.0/16,10.0.0.7, 0.0.0.0/0,10.0.0.1}}, \
             dns_server={{8.8.8.8, 8.8.4.4}}, lease_time=43200, mtu=1442, router=10.0.0.1, server_id=10.0.0.1, \
             server_mac={mac}}}"
        )
    );
    // Without a gateway the metadata port is the DHCP server, and there is no default route.
    scene.edit(|txn| {
        txn.edit::<Subnet>(&id(SUB), |subnet| {
            subnet.gateway_ip = None;
            subnet.host_routes.clear();
            subnet.dns_nameservers = vec!["0.0.0.0".parse().unwrap()];
        });
    });
    assert_eq!(
        options(&scene).unwrap(),
        format!(
            "{{classless_static_route={{169.254.169.254/32,10.0.0.2}}, lease_time=43200, mtu=1442, \
             server_id=10.0.0.2, server_mac={mac}}}"
        )
    );
    // Without either, DHCP has no server.
    scene.settings(|settings| settings.ovn_metadata_enabled = false);
    assert_eq!(options(&scene), None);
    scene.edit(|txn| drop(txn.edit::<Subnet>(&id(SUB), |subnet| subnet.enable_dhcp = false)));
    assert!(rows(&scene).table("DHCP_Options").iter().all(|(_, row)| row["cidr"] != "10.0.0.0/24"));
}

#[test]
fn dhcp_for_ipv6_by_mode() {
    for (mode, options) in [
        (Some(Ipv6Mode::Slaac), None),
        (Some(Ipv6Mode::Dhcpv6Stateless), Some("dhcpv6_stateless=true, ")),
        (Some(Ipv6Mode::Dhcpv6Stateful), Some("")),
        (None, Some("")),
    ] {
        let mut scene = Scene::new();
        let mut subnet = crate::resource::fixture::subnet(0x39, NET, "fd00::/64");
        subnet.ipv6_address_mode = mode;
        let mac = subnet.dhcp_server_mac;
        scene.put(subnet);
        let all = rows(&scene);
        let found: Vec<_> =
            all.table("DHCP_Options").into_iter().filter(|(_, row)| row["cidr"] == "fd00::/64").collect();
        assert_eq!(found.len(), usize::from(options.is_some()), "{mode:?}");
        if let Some(options) = options {
            assert_eq!(found[0].1["options"], format!("{{{options}server_id={mac}}}"), "{mode:?}");
        }
    }
}

#[test]
fn rules_as_matches() {
    let pg = format!("pg_{}", id(0x61)).replace('-', "_");
    let remote = format!("pg_{}", id(0x62)).replace('-', "_");
    let base = SecurityGroupRule {
        id: id(0x71),
        project: "p".into(),
        security_group_id: id(0x61),
        direction: Direction::Ingress,
        ethertype: Ethertype::IPv4,
        protocol: None,
        port_range_min: None,
        port_range_max: None,
        remote_ip_prefix: None,
        remote_group_id: None,
        standard: standard(),
    };
    let with = |change: &dyn Fn(&mut SecurityGroupRule)| {
        let mut rule = base.clone();
        change(&mut rule);
        rule
    };
    let protocol = |name: &str, low, high| {
        let name = name.to_owned();
        move |rule: &mut SecurityGroupRule| {
            rule.protocol = Some(name.clone());
            (rule.port_range_min, rule.port_range_max) = (low, high);
        }
    };
    let ingress = format!("outport == @{pg} && ip4");
    let cases = [
        (with(&|_| {}), ingress.clone()),
        (with(&|r| r.direction = Direction::Egress), format!("inport == @{pg} && ip4")),
        (with(&|r| r.ethertype = Ethertype::IPv6), format!("outport == @{pg} && ip6")),
        (
            with(&|r| r.remote_ip_prefix = Some("10.1.2.3/8".parse().unwrap())),
            format!("{ingress} && ip4.src == 10.0.0.0/8"),
        ),
        (with(&|r| r.remote_group_id = Some(id(0x62))), format!("{ingress} && ip4.src == ${remote}_ip4")),
        (
            with(&|r| {
                r.direction = Direction::Egress;
                r.remote_group_id = Some(id(0x62));
                r.ethertype = Ethertype::IPv6;
            }),
            format!("inport == @{pg} && ip6 && ip6.dst == ${remote}_ip6"),
        ),
        (with(&protocol("tcp", Some(22), Some(22))), format!("{ingress} && tcp && tcp.dst == 22")),
        (
            with(&protocol("6", Some(80), Some(90))),
            format!("{ingress} && tcp && tcp.dst >= 80 && tcp.dst <= 90"),
        ),
        (with(&protocol("udp", None, None)), format!("{ingress} && udp")),
        (
            with(&protocol("icmp", Some(8), Some(0))),
            format!("{ingress} && icmp4 && icmp4.type == 8 && icmp4.code == 0"),
        ),
        (with(&protocol("icmp", None, None)), format!("{ingress} && icmp4")),
        (
            with(&|r| {
                r.ethertype = Ethertype::IPv6;
                r.protocol = Some("ipv6-icmp".into());
                r.port_range_min = Some(128);
            }),
            format!("outport == @{pg} && ip6 && icmp6 && icmp6.type == 128"),
        ),
        (with(&protocol("vrrp", None, None)), format!("{ingress} && ip.proto == 112")),
        (with(&protocol("47", None, None)), format!("{ingress} && ip.proto == 47")),
    ];
    for (rule, matches) in cases {
        let mut scene = Scene::empty();
        scene.put(group(0x61)).put(group(0x62)).put(rule.clone());
        let all = rows(&scene);
        let acl = all.one("ACL", "priority", "1002");
        assert_eq!(acl["match"], matches);
        assert_eq!(acl["action"], "allow-related");
        let direction = if rule.direction == Direction::Ingress { "to-lport" } else { "from-lport" };
        assert_eq!(acl["direction"], direction);
        assert_eq!(all.members::<PortGroup>(id(0x61), PortGroup::ACLS), [id(0x71)]);
        scene.edit(|txn| drop(txn.edit::<SecurityGroup>(&id(0x61), |group| group.stateful = false)));
        assert_eq!(rows(&scene).one("ACL", "priority", "1002")["action"], "allow-stateless");
    }
    // Every protocol name has a match.
    for name in crate::resource::security_group_rule::names() {
        let mut scene = Scene::empty();
        scene.put(group(0x61)).put(with(&|r| {
            r.ethertype = Ethertype::IPv6;
            r.protocol = Some(name.into());
        }));
        let all = rows(&scene);
        assert_eq!((all.table("ACL").len(), all.problems.len()), (3, 0), "{name}: {:?}", all.problems);
    }
    // A protocol without a match allows nothing.
    let mut scene = Scene::empty();
    scene.put(group(0x61)).put(with(&protocol("carrier-pigeon", None, None)));
    let all = rows(&scene);
    assert_eq!(all.table("ACL").len(), 2);
    assert!(all.problems[0].contains("unknown-protocol"), "{:?}", all.problems);
    // Imported rules with impossible ports allow what they allowed in Neutron, and cause a problem.
    for (blind, number) in [
        (protocol("dccp", Some(5), Some(6)), 33),
        (protocol("136", Some(5), Some(6)), 136),
        (protocol("58", Some(128), None), 58),
    ] {
        let mut scene = Scene::empty();
        scene.put(group(0x61)).put(with(&blind));
        let all = rows(&scene);
        assert_eq!(all.one("ACL", "priority", "1002")["match"], format!("{ingress} && ip.proto == {number}"));
        assert!(all.problems[0].contains("unmatched-ports"), "{:?}", all.problems);
    }
}

/// Such names come from an earlier version or an import: the API refuses them.
#[test]
fn names_that_are_none_are_left_out_and_told() {
    let mut scene = Scene::new();
    let hostile = "web\" = 1); drop;";
    scene.edit(|txn| drop(txn.edit::<Network>(&id(NET), |network| network.dns_domain = hostile.into())));
    scene.put(Port { dns_name: "web".into(), ..port(0x51, NET, SUB, "10.0.0.5") });
    scene.put(Port { dns_name: hostile.into(), ..port(0x52, NET, SUB, "10.0.0.6") });
    let mut bound = port(0x53, NET, SUB, "10.0.0.7");
    bound.binding.host_id = "h1,h2".into();
    bound.binding.profile = json!({"parent_name": "x\" || 1", "tag": 5}).as_object().unwrap().clone();
    scene.put(bound);
    let all = rows(&scene);
    let records = &all.table("DNS")[0].1["records"];
    assert_eq!(
        records,
        "{5.0.0.10.in-addr.arpa=web.openstacklocal, web=10.0.0.5, web.openstacklocal=10.0.0.5}"
    );
    let row = all.one("Logical_Switch_Port", "name", &id(0x53).to_string());
    assert!(
        ["options", "parent_name", "tag_request"].iter().all(|column| !row.contains_key(column)),
        "{row:?}"
    );
    let codes = ["dns-domain", "dns-name", "host-name", "binding-profile"];
    for code in codes {
        assert!(all.problems.iter().any(|problem| problem.contains(code)), "{code}: {:?}", all.problems);
    }
    assert_eq!(all.problems.len(), codes.len(), "{:?}", all.problems);
}

#[test]
fn what_no_rule_allows_is_dropped() {
    let all = rows(&Scene::empty());
    assert_eq!(all.one("ACL", "direction", "to-lport")["match"], "outport == @neutron_pg_drop && ip");
    assert_eq!(all.one("ACL", "direction", "from-lport")["match"], "inport == @neutron_pg_drop && ip");
    assert_eq!(all.column("ACL", "priority"), ["1000", "1000"]);
    assert_eq!(all.column("ACL", "action"), ["drop", "drop"]);
}

#[test]
fn names_of_ports() {
    let mut scene = Scene::new();
    scene.edit(|txn| {
        drop(txn.edit::<Network>(&id(NET), |network| network.dns_domain = "Example.org.".into()))
    });
    scene.put(Port { dns_name: "Web".into(), ..port(0x51, NET, SUB, "10.0.0.5") });
    let all = rows(&scene);
    let (row, dns) = all.table("DNS")[0];
    assert_eq!(
        dns["records"],
        "{5.0.0.10.in-addr.arpa=web.openstacklocal, web=10.0.0.5, web.example.org=10.0.0.5, \
         web.openstacklocal=10.0.0.5}"
    );
    assert_eq!(all.members::<LogicalSwitch>(id(NET), LogicalSwitch::DNS_RECORDS), [row.uuid]);
    assert!(!dns.contains_key("options"), "OVN 23.03 has no such column");
    scene.ability(Ability { dns_options: true, ..Default::default() });
    assert_eq!(rows(&scene).table("DNS")[0].1["options"], "{ovn-owned=true}");
}
