//! Acceptance scenario 37: what the Southbound makes of a scenario, the Northbound makes of it as well.

use ovn::PortType;

use super::Cloud;
use crate::bgp::desired::tests::world::{World, options};
use crate::bgp::explain::{Sight, explain};

/// A scenario in both databases' rows.
struct Pair {
    cloud: Cloud,
    world: World,
}

impl Pair {
    fn new(tenants: bool) -> Self {
        let (cloud, world) = (Cloud::new(), World::new());
        if tenants { Self { cloud: cloud.tenants(), world: world.tenants() } } else { Self { cloud, world } }
    }

    fn vif(&mut self, name: &str, switch: &str, address: &str) -> &mut Self {
        self.cloud.vif(name, switch, address);
        self.world.vif(name, switch, &[address]);
        self
    }

    /// An instance on `ch-a` or `ch-b`, which are `host-a` and `host-b`.
    fn runs(&mut self, name: &str, chassis: &str) -> &mut Self {
        self.cloud.runs(name, &chassis.replace("ch-", "host-"));
        self.world.bind(name, chassis);
        self
    }

    fn hosted(&mut self, router_port: &str, chassis: &str) -> &mut Self {
        self.cloud.hosted(router_port, chassis);
        self.world.bind(&format!("cr-{router_port}"), chassis);
        self
    }

    fn external_id(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        self.cloud.external_id(name, key, value);
        self.world.external_id(name, key, value);
        self
    }

    /// The state, which is the same by either.
    fn state(&self) -> Vec<String> {
        let state = self.cloud.state();
        assert_eq!(state, self.world.state());
        state
    }

    fn announced(&self) -> Vec<String> {
        let state = self.state();
        state.iter().filter_map(|line| line.strip_prefix("A ")).map(str::to_owned).collect()
    }
}

const GATEWAY: [&str; 2] = ["172.24.4.221", "2001:db8::221"];

#[test]
fn provider_ports_and_virtual_ones() {
    let mut pair = Pair::new(false);
    pair.vif("vm1", "neutron-pub", "fa:16:3e:00:00:01 172.24.4.10 2001:db8::10");
    assert_eq!(pair.announced(), [""; 0]);
    assert_eq!(pair.runs("vm1", "ch-a").announced(), ["172.24.4.10", "2001:db8::10"]);
    assert_eq!(pair.runs("vm1", "ch-b").announced(), [""; 0]);
    pair.runs("vm1", "ch-a").external_id("vm1", "meridian:advertise", "false");
    assert_eq!(pair.announced(), [""; 0]);

    let mut pair = Pair::new(false);
    pair.vif("vm1", "neutron-pub", "unknown").runs("vm1", "ch-a");
    assert_eq!(pair.external_id("vm1", "neutron:cidrs", "172.24.4.10/24").announced(), ["172.24.4.10"]);

    let mut pair = Pair::new(false);
    pair.cloud.add("vip2", "neutron-pub", PortType::Virtual, &["fa:16:3e:00:00:77 2001:db8::77"]);
    pair.world.virtual_port("vip2", "neutron-pub", &["fa:16:3e:00:00:77 2001:db8::77"]);
    assert_eq!(pair.announced(), [""; 0]);
    assert_eq!(pair.runs("vip2", "ch-a").announced(), ["2001:db8::77"]);
    assert!(pair.state().contains(&"Y 2001:db8::77 br-ex".to_owned()));
}

/// The order in which a live migration is told: only its last step may expose.
#[test]
fn live_migration() {
    let mut cloud = Cloud::new();
    cloud.vif("vm1", "neutron-pub", "fa:16:3e:00:00:01 172.24.4.10").runs("vm1", "host-b");
    let announced = |cloud: &Cloud| cloud.state().len();
    assert_eq!(announced(cloud.requested("vm1", "host-b")), 0);
    assert_eq!(announced(cloud.requested("vm1", "host-b,host-a")), 0, "it is on its way to us");
    cloud.port("vm1").up = Some(false);
    assert_eq!(announced(&cloud), 0);
    cloud.port("vm1").external_ids = Default::default();
    assert_eq!(announced(cloud.requested("vm1", "host-a")), 0);
    cloud.external_id("vm1", "neutron:host_id", "host-a");
    assert_eq!(announced(&cloud), 0);
    cloud.port("vm1").up = Some(true);
    assert_eq!(announced(&cloud), 3, "it has arrived");
    assert_eq!(announced(cloud.requested("vm1", "host-a,host-b")), 3, "it is about to leave");
    cloud.external_id("vm1", "neutron:host_id", "host-b");
    assert_eq!(announced(&cloud), 3, "who is asked for outranks who the cloud thinks has it");
    assert_eq!(announced(cloud.requested("vm1", "host-b")), 0, "it has left");
}

#[test]
fn gateways_subnets_and_tenants() {
    let mut pair = Pair::new(false);
    assert_eq!(pair.hosted("lrp-gw1", "ch-a").announced(), GATEWAY);
    assert_eq!(pair.hosted("lrp-gw1", "ch-b").announced(), [""; 0]);
    let mut pair = Pair::new(true);
    pair.vif("vm2", "neutron-ten", "fa:16:3e:00:00:02 10.1.0.5")
        .runs("vm2", "ch-b")
        .hosted("lrp-gw1", "ch-a");
    assert_eq!(pair.announced(), ["10.1.0.5", GATEWAY[0], GATEWAY[1]]);
    assert!(pair.state().contains(&"T 10.1.0.0/24 via 172.24.4.221 dev br-ex".to_owned()));
    pair.external_id("sub1", "meridian:advertise", "false");
    assert_eq!(pair.announced(), GATEWAY);

    let mut pair = Pair::new(true);
    pair.vif("vm2", "neutron-ten", "fa:16:3e:00:00:02 10.1.0.5").hosted("lrp-gw1", "ch-a");
    pair.cloud.external_id("vm2", "neutron:host_id", "host-b");
    assert_eq!(pair.announced(), GATEWAY, "a host is chosen, but the instance does not run");
    pair.runs("vm2", "ch-b");
    for side in [&mut pair.cloud.node.config, &mut pair.world.config] {
        side.address_scopes = ["S1".into()].into();
    }
    assert_eq!(pair.announced(), GATEWAY);
    pair.external_id("sub1", "neutron:subnet_pool_addr_scope4", "S1");
    pair.external_id("vm2", "neutron:subnet_pool_addr_scope4", "S1");
    assert_eq!(pair.announced(), ["10.1.0.5", GATEWAY[0], GATEWAY[1]]);
}

#[test]
fn floating_ips() {
    let at_vm = "fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm2\")";
    let central = "fa:16:3e:aa:00:01 172.24.4.198 is_chassis_resident(\"cr-lrp-gw1\")";
    let own = "fa:16:3e:aa:00:01 172.24.4.221 is_chassis_resident(\"cr-lrp-gw1\")";
    let mut pair = Pair::new(false);
    pair.vif("vm2", "neutron-ten", "fa:16:3e:00:00:02 10.1.0.5")
        .runs("vm2", "ch-a")
        .hosted("lrp-gw1", "ch-b");
    pair.cloud.distributed("neutron-r1", "172.24.4.199", "vm2").nat("neutron-r1", "172.24.4.198");
    pair.world.nat("gw1", &[at_vm, central, own]);
    assert_eq!(pair.announced(), ["172.24.4.199"]);
    pair.runs("vm2", "ch-b").hosted("lrp-gw1", "ch-a");
    assert_eq!(pair.announced(), ["172.24.4.198", GATEWAY[0], GATEWAY[1]]);
    // The cloud stops to distribute: they move to the gateway.
    let global = pair.cloud.global.get_mut("NB_Global").unwrap();
    global.external_ids = options([("neutron:fip-distributed", "False")]);
    pair.world.nat("gw1", &[&at_vm.replace(":ff:", ":aa:").replace("vm2", "cr-lrp-gw1"), central, own]);
    assert_eq!(pair.announced(), ["172.24.4.198", "172.24.4.199", GATEWAY[0], GATEWAY[1]]);
}

#[test]
fn load_balancers() {
    let mut pair = Pair::new(true);
    pair.hosted("lrp-gw1", "ch-a");
    pair.cloud.add("vip-port", "neutron-pub", PortType::Vif, &[]).up = Some(false);
    pair.world.vif("vip-port", "neutron-pub", &[]);
    pair.external_id("vip-port", "neutron:port_name", "ovn-lb-vip-0000-lb1");
    pair.external_id("vip-port", "neutron:cidrs", "172.24.4.50/24");
    let attach = |pair: &mut Pair, switches: &[&str]| {
        pair.cloud.switches.values_mut().for_each(|switch| switch.load_balancer = Default::default());
        pair.cloud.balancer("0000-lb1", &["172.24.4.50:80"]);
        switches.iter().for_each(|switch| _ = pair.cloud.on_switch(switch, "0000-lb1"));
        let group = pair.world.group("group", switches);
        pair.world.balancer("0000-lb1", &["172.24.4.50:80"]).ls_datapath_group = group;
    };
    attach(&mut pair, &["neutron-pub"]);
    assert_eq!(pair.announced(), GATEWAY);
    attach(&mut pair, &["neutron-pub", "neutron-ten"]);
    assert_eq!(pair.announced(), ["172.24.4.50", GATEWAY[0], GATEWAY[1]]);
    attach(&mut pair, &["neutron-pub"]);
    assert_eq!(pair.announced(), GATEWAY);

    // On a tenant network, and a floating IP of it.
    let mut pair = Pair::new(true);
    pair.hosted("lrp-gw1", "ch-a").vif("vip-port", "neutron-ten", "fa:16:3e:00:00:50 10.1.0.50");
    pair.external_id("vip-port", "neutron:device_owner", "ovn-lb:vip");
    assert_eq!(pair.announced(), ["10.1.0.50", GATEWAY[0], GATEWAY[1]]);
    pair.cloud.nat("neutron-r1", "172.24.4.60");
    let floating = "fa:16:3e:aa:00:01 172.24.4.60 is_chassis_resident(\"cr-lrp-gw1\")";
    let own = "fa:16:3e:aa:00:01 172.24.4.221 is_chassis_resident(\"cr-lrp-gw1\")";
    pair.world.nat("gw1", &[floating, own]);
    assert_eq!(pair.announced(), ["10.1.0.50", "172.24.4.60", GATEWAY[0], GATEWAY[1]]);
}

/// By its router, as Octavia and Neutron's port forwarding tell it; another router on the same network does not expose it.
#[test]
fn load_balancers_of_a_router() {
    for (key, name) in [("lr_ref", "0000-lb1"), ("neutron:router_name", "pf-floatingip-1-tcp")] {
        let mut pair = Pair::new(false);
        pair.hosted("lrp-gw1", "ch-a");
        pair.cloud.balancer(name, &["172.24.4.50:80"]).external_ids = options([(key, "neutron-r1")]);
        let group = pair.world.group("routers", &["neutron-r1"]);
        pair.world.balancer(name, &["172.24.4.50:80"]).lr_datapath_group = group;
        assert_eq!(pair.announced(), ["172.24.4.50", GATEWAY[0], GATEWAY[1]]);
        pair.cloud.balancer(name, &["172.24.4.50:80"]).external_ids = options([(key, "neutron-r2")]);
        assert_eq!(pair.cloud.state().iter().filter(|line| line.contains("172.24.4.50")).count(), 0);
    }
}

#[test]
fn vlans() {
    let mut pair = Pair::new(false);
    pair.cloud.switch("neutron-v100").localnet("provnet-2", "neutron-v100", "physnet1", Some(100));
    pair.world.switch("neutron-v100").localnet("provnet-2", "neutron-v100", "physnet1", Some(100));
    pair.vif("vmv", "neutron-v100", "fa:16:3e:00:00:05 172.25.0.10").runs("vmv", "ch-a");
    assert!(pair.state().contains(&"T 172.25.0.10 dev br-ex.100".to_owned()));
}

/// A router that is on one chassis as a whole.
#[test]
fn a_gateway_router() {
    let mut pair = Pair::new(false);
    pair.cloud.routers.get_mut("neutron-r1").unwrap().options = options([("chassis", "ch-a")]);
    pair.cloud.nat("neutron-r1", "172.24.4.198");
    for name in ["lrp-gw1", "gw1", "lrp-sub1", "sub1"] {
        pair.world.port(name).kind = PortType::L3Gateway;
        pair.world.bind(name, "ch-a");
    }
    pair.world.ports.remove("cr-lrp-gw1");
    pair.world.nat("gw1", &["fa:16:3e:aa:00:01 172.24.4.198 172.24.4.221"]);
    assert_eq!(pair.announced(), ["172.24.4.198", "172.24.4.221"]);
}

/// With the option, subnets whose router translates them on the way out are not exposed.
#[test]
fn translated_subnets() {
    let mut cloud = Cloud::new().tenants();
    let snat = cloud.hosted("lrp-gw1", "ch-a").nat("neutron-r1", "172.24.4.221");
    snat.kind = ovn::nb::NatType::Snat;
    snat.logical_ip = ovn::text::Text::new("10.1.0.0/16");
    let is_exposed = |cloud: &Cloud| cloud.state().iter().any(|line| line == "R 10.1.0.0/24 br-ex");
    assert!(is_exposed(&cloud));
    cloud.node.config.require_snat_disabled = true;
    assert!(!is_exposed(&cloud));
    cloud.nats.get_mut("172.24.4.221").unwrap().logical_ip = ovn::text::Text::new("10.2.0.0/16");
    assert!(is_exposed(&cloud));
}

#[test]
fn bad_rows_cost_themselves() {
    let mut cloud = Cloud::new().tenants();
    cloud.vif("vm1", "neutron-pub", "garbage").runs("vm1", "host-a");
    cloud.vif("vm3", "neutron-pub", "fa:16:3e:00:00:03 172.24.4.12").runs("vm3", "host-a");
    cloud.hosted("lrp-gw1", "ch-a").nat("neutron-r1", "nonsense");
    cloud.nat("neutron-r1", "172.24.4.198");
    cloud.router_port("lrp-sub1").networks = [ovn::text::Text::new("10.1.0.1/99")].into();
    let problems = cloud.problems();
    for expected in ["port/vm1 bad-addresses", "port/gw1 bad-nat-addresses", "port/lrp-sub1 bad-addresses"] {
        assert!(problems.iter().any(|problem| problem == expected), "{expected}: {problems:?}");
    }
    let state = cloud.state();
    for ip in ["172.24.4.12", "172.24.4.198", "172.24.4.221"] {
        assert!(state.contains(&format!("A {ip}")), "{ip}: {state:?}");
    }
}

#[test]
fn explanations_speak_of_the_northbound() {
    let mut cloud = Cloud::new();
    cloud.vif("vm1", "neutron-pub", "fa:16:3e:00:00:01 172.24.4.10").runs("vm1", "host-b");
    let told = |cloud: &Cloud, ip: &str| {
        let all = cloud.seen_by(cloud.mirrored());
        explain(&all, &cloud.decide().value, ip.parse().unwrap(), &Sight::default(), |_| None).text.join(" ")
    };
    let text = told(&cloud, "172.24.4.10");
    assert!(text.contains("port vm1 of a provider network has it, and is bound to chassis host-b"), "{text}");
    cloud.port("vm1").up = Some(false);
    let text = told(&cloud, "172.24.4.10");
    assert!(text.contains("has it, and is not up."), "{text}");
    let text = told(&cloud, "172.24.4.99");
    assert!(text.contains("Nothing in OVN's Northbound database has it"), "{text}");
    let text = told(cloud.hosted("lrp-gw1", "ch-b"), "172.24.4.221");
    assert!(text.contains("the router gateway cr-lrp-gw1 has it, and is bound to chassis ch-b"), "{text}");
}

/// The gateway of the provider network, which the router's default route names: the kernel answers for it, as OVN asks for it.
#[test]
fn the_next_hop_of_the_default_route_is_answered_for() {
    let mut cloud = Cloud::new();
    cloud.route("neutron-r1", "::/0", "2001:db8::1");
    let proxies = |cloud: &Cloud| {
        let state = cloud.state();
        state.iter().filter_map(|line| line.strip_prefix("Y ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(proxies(&cloud), [""; 0], "the gateway is not here");
    cloud.hosted("lrp-gw1", "ch-a");
    let own = ["2001:db8:: br-ex", "2001:db8::221 br-ex"];
    let with = ["2001:db8:: br-ex", "2001:db8::1 br-ex", "2001:db8::221 br-ex"];
    assert_eq!(proxies(&cloud), with);
    for (prefix, next_hop) in [
        ("2001:db8:5::/64", "2001:db8::2"),
        ("::/0", "2001:db8:9::1"),
        ("::/0", "fe80::1"),
        ("::/0", "discard"),
        ("::/0", "x"),
        ("0.0.0.0/0", "172.24.4.1"),
    ] {
        cloud.route("neutron-r1", prefix, next_hop);
        assert_eq!(proxies(&cloud), with, "{prefix} {next_hop}");
    }
    let route = cloud.route("neutron-r1", "::/0", "2001:db8::1");
    route.output_port = Some("lrp-sub1".into());
    assert_eq!(proxies(&cloud), own, "it leaves by another port");
    cloud.route("neutron-r1", "::/0", "2001:db8::1").route_table = "other".into();
    assert_eq!(proxies(&cloud), own, "it is in a table of its own");
}
