//! Acceptance scenarios 1 to 13, 19, 22, 36 and 38: ports of provider networks, floating IPs, gateways.

use std::time::Duration;

use super::world::{ROUTER_MAC, World, id, options};
use ovn::PortType;
use ovsdb::{Set, Weak};

const VM1: &[&str] = &["fa:16:3e:00:00:01 172.24.4.10"];
const STATE1: [&str; 3] = ["A 172.24.4.10", "R 172.24.4.10 br-ex", "T 172.24.4.10 dev br-ex"];
const NOTHING: [&str; 0] = [];

/// The state of one exposed IPv4 address of the provider network.
fn wired(ip: &str) -> Vec<String> {
    vec![format!("A {ip}"), format!("R {ip} br-ex"), format!("T {ip} dev br-ex")]
}

fn with_vm1() -> World {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", VM1);
    world
}

#[test]
fn base_with_nothing_bound() {
    let world = World::new();
    assert_eq!(world.state(), NOTHING);
    assert_eq!(world.problems(), NOTHING);
    assert_eq!(
        world.base(),
        [
            "bgp-nic dummy in bgp-vrf",
            "bgp-vrf vrf 10",
            "br-ex bridge",
            "169.254.1.1/32 on br-ex",
            "fd53:d91e:400:7f17::1:1/128 on br-ex",
            "0.0.0.0/0 dev br-ex table br-ex",
            "::/0 dev br-ex table br-ex",
            "net/ipv4/conf/br-ex/proxy_arp",
            "net/ipv6/conf/br-ex/proxy_ndp",
            "F5 br-ex 02:00:00:00:ee:01 br-ex",
        ]
    );
}

#[test]
fn devices_have_the_names_of_the_options() {
    let world = World::new().with(|config| {
        (config.bgp_nic, config.bgp_vrf, config.bgp_vrf_table_id) = ("dummy0".into(), "vrf0".into(), 77);
    });
    assert_eq!(world.base()[..3], ["br-ex bridge", "dummy0 dummy in vrf0", "vrf0 vrf 77"]);
    assert_eq!(world.plane().frr.unwrap().vrf, "vrf0");
}

#[test]
fn scenario_01_provider_vm() {
    let mut world = with_vm1();
    assert_eq!(world.state(), NOTHING);
    world.bind("vm1", "ch-a");
    assert_eq!(world.state(), STATE1);
}

#[test]
fn scenario_02_dual_stack_and_a_second_prefix() {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &["fa:16:3e:00:00:01 172.24.4.10 2001:db8::10 2001:db8:1::10"]);
    world.bind("vm1", "ch-a");
    assert_eq!(
        world.state(),
        [
            "A 172.24.4.10",
            "A 2001:db8::10",
            "A 2001:db8:1::10",
            "R 172.24.4.10 br-ex",
            "R 2001:db8::10 br-ex",
            "R 2001:db8:1::10 br-ex",
            "T 172.24.4.10 dev br-ex",
            "T 2001:db8::10 dev br-ex",
            "T 2001:db8:1::10 dev br-ex",
        ]
    );
}

#[test]
fn scenario_03_port_of_another_chassis() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-b");
    assert_eq!(world.state(), NOTHING);
}

#[test]
fn scenario_04_a_port_counts_when_it_is_up() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-a");
    world.port("vm1").up = Some(false);
    assert_eq!(world.state(), NOTHING);
    world.port("vm1").up = Some(true);
    assert_eq!(world.state(), STATE1);
    world.port("vm1").up = None;
    assert_eq!(world.state(), STATE1, "old servers do not tell");
}

#[test]
fn scenario_05_deleted_ports_and_switches() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-a");
    world.ports.remove("vm1");
    assert_eq!(world.state(), NOTHING);
    let mut world = with_vm1();
    world.bind("vm1", "ch-a").settle();
    for name in ["vm1", "provnet-1", "gw1"] {
        world.ports.remove(name);
    }
    world.datapaths.remove("neutron-pub");
    assert_eq!(world.state(), NOTHING);
    assert_eq!(world.base().len(), World::new().base().len(), "patch port and bridge are still there");
}

/// Scenario 6: what was before does not matter to what is decided.
#[test]
fn scenario_06_flapping_ends_where_it_ends() {
    let mut world = with_vm1();
    for _ in 0..20 {
        world.bind("vm1", "ch-a").settle();
        world.unbind("vm1").settle();
    }
    world.bind("vm1", "ch-a");
    assert_eq!(world.settle(), []);
    assert_eq!(world.state(), STATE1);
}

#[test]
fn scenario_07_live_migration_follows_the_chassis_column_alone() {
    let at = |me: &str, chassis: &str, additional: Option<&str>| {
        let mut world = with_vm1();
        world.settings.insert("system-id".into(), me.into());
        world.bind("vm1", chassis);
        let port = world.port("vm1");
        port.options = options([("requested-chassis", "ch-a,ch-b")]);
        port.additional_chassis =
            additional.map(|chassis| Weak::new(id(chassis))).into_iter().collect::<Set<_>>();
        world.state()
    };
    assert_eq!(at("ch-a", "ch-a", Some("ch-b")), STATE1);
    assert_eq!(at("ch-b", "ch-a", Some("ch-b")), NOTHING);
    assert_eq!(at("ch-a", "ch-b", None), NOTHING);
    assert_eq!(at("ch-b", "ch-b", None), STATE1);
}

#[test]
fn scenario_08_addresses_unknown_to_ovn() {
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &["unknown"]).bind("vm1", "ch-a");
    assert_eq!(world.state(), NOTHING);
    world.external_id("vm1", "neutron:cidrs", "172.24.4.10/24");
    assert_eq!(world.state(), STATE1);
    // Several elements may stand side by side.
    let mut world = World::new();
    world.vif("vm1", "neutron-pub", &[" fa:16:3e:00:00:01 172.24.4.10 ", "unknown"]).bind("vm1", "ch-a");
    assert_eq!(world.state(), STATE1);
}

fn with_fip(me: &str, vm2: &str, gateway: &str) -> World {
    let mut world = World::new();
    world.settings.insert("system-id".into(), me.into());
    world
        .vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"])
        .bind("vm2", vm2)
        .bind("cr-lrp-gw1", gateway);
    world.nat("gw1", &["fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm2\")"]);
    world
}

#[test]
fn scenario_09_distributed_floating_ip() {
    assert_eq!(with_fip("ch-a", "ch-a", "ch-b").state(), wired("172.24.4.199"));
    let there = with_fip("ch-b", "ch-a", "ch-b").state();
    assert!(!there.iter().any(|line| line.contains("172.24.4.199")), "{there:?}");
}

/// Scenario 10: in whichever order VM, chassis and translation go.
#[test]
fn scenario_10_floating_ip_removed() {
    let start = || {
        let mut world = with_fip("ch-a", "ch-a", "ch-b");
        world.settle();
        world
    };
    let mut world = start();
    assert_eq!(world.nat("gw1", &[]).state(), NOTHING);
    let mut world = start();
    assert_eq!(world.unbind("vm2").state(), NOTHING, "the chassis is cleared before the translation goes");
    let mut world = start();
    world.ports.remove("vm2");
    assert_eq!(world.state(), NOTHING, "the port goes before the translation");
    let mut world = start();
    world.nat("gw1", &[]);
    world.ports.remove("vm2");
    assert_eq!(world.state(), NOTHING);
}

#[test]
fn scenario_11_floating_ip_moved_to_another_port() {
    let moved = |me: &str| {
        let mut world = with_fip(me, "ch-a", "ch-b");
        world.unbind("cr-lrp-gw1");
        world.vif("vm3", "neutron-ten", &["fa:16:3e:00:00:03 10.1.0.7"]).bind("vm3", "ch-b");
        world.settle();
        world.nat("gw1", &["fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm3\")"]);
        world.state()
    };
    assert_eq!(moved("ch-a"), NOTHING);
    assert_eq!(moved("ch-b"), wired("172.24.4.199"));
}

#[test]
fn scenario_12_centralized_floating_ip() {
    let mut world = World::new();
    world
        .vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.6"])
        .bind("vm2", "ch-b")
        .bind("cr-lrp-gw1", "ch-a");
    world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(\"cr-lrp-gw1\")"]);
    let state = world.state();
    for line in wired("172.24.4.198") {
        assert!(state.contains(&line), "{line} in {state:?}");
    }
    // With an external MAC and a logical port it moves to the VM's chassis.
    world.nat("gw1", &["fa:16:3e:ff:00:01 172.24.4.198 is_chassis_resident(\"vm2\")"]);
    assert!(!world.state().iter().any(|line| line.contains("172.24.4.198")));
    world.settings.insert("system-id".into(), "ch-b".into());
    assert_eq!(world.state(), wired("172.24.4.198"));
}

const GATEWAY: [&str; 10] = [
    "A 172.24.4.221",
    "A 2001:db8::221",
    "R 172.24.4.221 br-ex",
    "R 2001:db8::221 br-ex",
    "T 172.24.4.221 dev br-ex",
    "T 2001:db8::221 dev br-ex",
    "N 172.24.4.221 fa:16:3e:aa:00:01 br-ex",
    "N 2001:db8::221 fa:16:3e:aa:00:01 br-ex",
    "Y 2001:db8:: br-ex",
    "Y 2001:db8::221 br-ex",
];

#[test]
fn scenario_13_gateway_without_tenants() {
    let mut world = World::new();
    world.vif("vm2", "neutron-ten", &["fa:16:3e:00:00:02 10.1.0.5"]).bind("vm2", "ch-b");
    assert_eq!(world.bind("cr-lrp-gw1", "ch-a").state(), GATEWAY);
}

/// The rows are followed by their options; names are a habit of one cloud.
#[test]
fn names_of_rows_mean_nothing() {
    let mut world = World::new();
    for name in ["lrp-gw1", "cr-lrp-gw1", "gw1"] {
        world.ports.remove(name);
    }
    let mac = format!("{ROUTER_MAC} 172.24.4.221/24 2001:db8::221/64");
    world.row("r1-to-pub", "neutron-r1", PortType::Patch, &[&mac]).options =
        options([("chassis-redirect-port", "r1-redirect"), ("peer", "pub-to-r1")]);
    world.row("r1-redirect", "neutron-r1", PortType::ChassisRedirect, &[&mac]).options =
        options([("distributed-port", "r1-to-pub")]);
    world.row("pub-to-r1", "neutron-pub", PortType::Patch, &["router"]).options =
        options([("peer", "r1-to-pub")]);
    assert_eq!(world.bind("r1-redirect", "ch-a").state(), GATEWAY);
}

#[test]
fn scenario_19_two_gateways_on_one_network() {
    let mut world = World::new();
    world.router("neutron-r2");
    world.gateway("gw2", "neutron-r2", "neutron-pub", "fa:16:3e:bb:00:01 172.24.4.222/24 2001:db8::222/64");
    world.bind("cr-lrp-gw1", "ch-a").bind("cr-lrp-gw2", "ch-a");
    let state = world.state();
    for line in ["Y 2001:db8::222 br-ex", "N 172.24.4.222 fa:16:3e:bb:00:01 br-ex", "Y 2001:db8:: br-ex"] {
        assert!(state.iter().any(|have| have == line), "{line} in {state:?}");
    }
    world.bind("cr-lrp-gw2", "ch-b");
    assert_eq!(world.state(), GATEWAY, "what the other still uses stays");
}

#[test]
fn scenario_22_virtual_ports() {
    let mut world = World::new();
    world.virtual_port("vip2", "neutron-pub", &["fa:16:3e:00:00:77 172.24.4.77"]);
    assert_eq!(world.state(), NOTHING, "nobody has claimed it");
    assert_eq!(world.bind("vip2", "ch-a").state(), wired("172.24.4.77"));
    assert_eq!(world.bind("vip2", "ch-b").state(), NOTHING);
    // IPv6: the kernel answers for it while it is claimed.
    let mut world = World::new();
    world.virtual_port("vip6", "neutron-pub", &["fa:16:3e:00:00:77 2001:db8::77"]).bind("vip6", "ch-a");
    world.external_id("vip6", "neutron:cidrs", "2001:db8::77/64");
    assert_eq!(
        world.state(),
        [
            "A 2001:db8::77",
            "R 2001:db8::77 br-ex",
            "T 2001:db8::77 dev br-ex",
            "Y 2001:db8:: br-ex",
            "Y 2001:db8::77 br-ex"
        ]
    );
    assert_eq!(world.unbind("vip6").state(), NOTHING);
    // A floating IP of a virtual tenant port.
    let mut world = World::new();
    world.virtual_port("vip3", "neutron-ten", &["fa:16:3e:00:00:78 10.1.0.77"]).bind("vip3", "ch-a");
    world.nat("gw1", &["fa:16:3e:ff:00:02 172.24.4.177 is_chassis_resident(\"vip3\")"]);
    assert_eq!(world.state(), wired("172.24.4.177"));
}

/// A router that is on one chassis as a whole has entries without a port.
#[test]
fn gateway_routers() {
    let mut world = World::new();
    world.row("gw9", "neutron-pub", PortType::L3Gateway, &["router"]).options =
        options([("peer", "lrp-gw9")]);
    world.nat("gw9", &["fa:16:3e:cc:00:01 172.24.4.230"]).bind("gw9", "ch-b");
    assert_eq!(world.state(), NOTHING);
    let mut expected = wired("172.24.4.230");
    expected.push("N 172.24.4.230 fa:16:3e:cc:00:01 br-ex".into());
    assert_eq!(world.bind("gw9", "ch-a").state(), expected);
    // On a patch port such an entry belongs to nobody.
    let mut world = World::new();
    assert_eq!(world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.230"]).state(), NOTHING);
}

#[test]
fn scenario_38_opting_out() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-a").external_id("vm1", "meridian:advertise", "false");
    assert_eq!(world.state(), NOTHING);
    world.external_id("vm1", "meridian:advertise", "true");
    assert_eq!(world.state(), STATE1);
    world.port("vm1").options = options([("dynamic-routing-advertise", "false")]);
    assert_eq!(world.state(), NOTHING);
    // The port that a floating IP stands for.
    let mut world = with_fip("ch-a", "ch-a", "ch-b");
    assert_eq!(world.external_id("vm2", "meridian:advertise", "False").state(), NOTHING);
}

/// D7: an address stays while anything wants it.
#[test]
fn an_address_with_two_reasons_stays_with_one() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-a").bind("cr-lrp-gw1", "ch-a");
    world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.10 is_chassis_resident(\"cr-lrp-gw1\")"]);
    let decision = world.decide().value;
    let rules: Vec<_> = decision.addresses[&"172.24.4.10".parse::<std::net::IpAddr>().unwrap()]
        .reasons
        .iter()
        .map(|r| r.rule())
        .collect();
    assert_eq!(rules, ["D1", "D3"]);
    world.unbind("vm1");
    assert!(world.state().iter().any(|line| line == "A 172.24.4.10"));
    world.nat("gw1", &[]);
    assert!(!world.state().iter().any(|line| line == "A 172.24.4.10"));
}

/// Our row in `Chassis` goes, and with it every binding: all stays, then all is still wired but not announced.
#[test]
fn the_chassis_row_may_be_gone_for_a_while() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-a").settle();
    world.chassis.remove("ch-a");
    world.port("vm1").chassis = None;
    world.chassis_missing = Duration::from_secs(29);
    assert_eq!(world.state(), STATE1);
    assert_eq!(world.problems(), ["chassis/ch-a no-chassis"]);
    world.settle();
    world.chassis_missing = Duration::from_secs(30);
    assert_eq!(world.state(), STATE1[1..]);
    world.settle();
    // It comes back, and the ports get their time to be bound again.
    world.chassis.insert("ch-a".into(), ovn::sb::Chassis { name: "ch-a".into(), ..Default::default() });
    world.chassis_missing = Duration::ZERO;
    world.rebinding = true;
    assert_eq!(world.state(), STATE1);
    world.rebinding = false;
    assert_eq!(world.state(), NOTHING);
}

#[test]
fn before_the_end_nothing_is_announced() {
    let mut world = with_vm1();
    world.bind("vm1", "ch-a");
    world.silent = true;
    assert_eq!(world.state(), STATE1[1..]);
}

#[test]
fn many_rules_are_worth_a_word() {
    let mut world = World::new();
    for n in 0..=1000 {
        let name = format!("p{n}");
        let mac = format!("fa:16:3e:02:{:02x}:{:02x} 198.18.{}.{}", n / 256, n % 256, n / 256, n % 256);
        world.vif(&name, "neutron-pub", &[&mac]).bind(&name, "ch-a");
    }
    assert_eq!(world.problems(), ["setting/rule_mode many-rules"]);
    world.config.rule_mode = crate::bgp::config::RuleMode::Aggregate;
    assert_eq!(world.problems(), NOTHING);
}
