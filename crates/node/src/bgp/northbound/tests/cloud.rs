//! The fixture of the acceptance scenarios in Northbound rows, and words to change it in.

use std::collections::BTreeMap;

use ovn::PortType;
use ovn::nb::{
    GatewayChassis, HaChassisGroup, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat, NatType, NbGlobal,
};
use ovn::text::Text;
use ovsdb::{Ref, Weak};
use reconcile::Outcome;

use crate::bgp::desired::tests::world::{Body, NB_NEW, ROUTER_MAC, World, id, options, shown};
use crate::bgp::desired::{Decision, decide, wire};
use crate::bgp::northbound::chassis::Own;
use crate::bgp::northbound::{Mirror, model};
use crate::bgp::snapshot::Snapshot;
use crate::connections::OvnDatabase;

/// Rows by name, and the node that looks at them.
pub(crate) struct Cloud {
    pub(crate) schema: &'static str,
    pub(crate) global: BTreeMap<String, NbGlobal>,
    pub(crate) switches: BTreeMap<String, LogicalSwitch>,
    pub(crate) ports: BTreeMap<String, LogicalSwitchPort>,
    pub(crate) routers: BTreeMap<String, LogicalRouter>,
    pub(crate) router_ports: BTreeMap<String, LogicalRouterPort>,
    pub(crate) routes: BTreeMap<String, LogicalRouterStaticRoute>,
    pub(crate) nats: BTreeMap<String, Nat>,
    pub(crate) balancers: BTreeMap<String, LoadBalancer>,
    pub(crate) groups: BTreeMap<String, LoadBalancerGroup>,
    /// Settings of the node, its bridges and what it was told; not its rows.
    pub(crate) node: World,
    pub(crate) hostname: &'static str,
}

impl Cloud {
    /// Two chassis, `ch-a` (us) on `host-a` and `ch-b` on `host-b`; the provider network `neutron-pub`; the router
    /// `neutron-r1` with its gateway on it, hosted nowhere, and the tenant network `neutron-ten` behind it.
    pub(crate) fn new() -> Self {
        let mut cloud = Cloud {
            schema: NB_NEW,
            global: [("NB_Global".to_owned(), NbGlobal::default())].into(),
            switches: BTreeMap::new(),
            ports: BTreeMap::new(),
            routers: BTreeMap::new(),
            router_ports: BTreeMap::new(),
            routes: BTreeMap::new(),
            nats: BTreeMap::new(),
            balancers: BTreeMap::new(),
            groups: BTreeMap::new(),
            node: World::new().with(|config| config.source = OvnDatabase::Northbound),
            hostname: "host-a",
        };
        cloud.switch("neutron-pub").switch("neutron-ten").router("neutron-r1");
        cloud.localnet("provnet-1", "neutron-pub", "physnet1", None);
        cloud.link("gw1", "neutron-r1", "neutron-pub", &[ROUTER_MAC, "172.24.4.221/24", "2001:db8::221/64"]);
        let nat = options([("nat-addresses", "router"), ("exclude-lb-vips-from-garp", "true")]);
        nat.iter().for_each(|(key, value)| _ = cloud.port("gw1").options.insert(key.clone(), value.clone()));
        cloud.router_port("lrp-gw1").gateway_chassis =
            [Ref::<GatewayChassis>::new(id("ch-a")), Ref::new(id("ch-b"))].into();
        cloud.link("sub1", "neutron-r1", "neutron-ten", &["fa:16:3e:aa:00:02", "10.1.0.1/24"]);
        cloud
    }

    pub(crate) fn tenants(mut self) -> Self {
        self.node.config.expose_tenant_networks = true;
        self
    }

    pub(crate) fn switch(&mut self, name: &str) -> &mut Self {
        let row = LogicalSwitch { name: name.into(), ..Default::default() };
        self.switches.insert(name.into(), row);
        self
    }

    pub(crate) fn router(&mut self, name: &str) -> &mut Self {
        let row = LogicalRouter { name: name.into(), ..Default::default() };
        self.routers.insert(name.into(), row);
        self
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        switch: &str,
        kind: PortType,
        addresses: &[&str],
    ) -> &mut LogicalSwitchPort {
        let addresses = addresses.iter().map(|text| Text::new(text)).collect();
        let row = LogicalSwitchPort { name: name.into(), kind, addresses, ..Default::default() };
        self.switches.values_mut().for_each(|switch| _ = switch.ports.remove(&Ref::new(id(name))));
        self.switches.get_mut(switch).unwrap().ports.insert(Ref::new(id(name)));
        self.ports.entry(name.into()).insert_entry(row).into_mut()
    }

    pub(crate) fn vif(&mut self, name: &str, switch: &str, address: &str) -> &mut Self {
        self.add(name, switch, PortType::Vif, &[address]).up = Some(false);
        self
    }

    pub(crate) fn localnet(
        &mut self,
        name: &str,
        switch: &str,
        physnet: &str,
        tag: Option<i64>,
    ) -> &mut Self {
        let row = self.add(name, switch, PortType::Localnet, &["unknown"]);
        row.options = options([("network_name", physnet)]);
        row.tag = tag;
        self
    }

    /// A router's port `lrp-NAME` with its Ethernet address and networks, and the switch's port `NAME`.
    pub(crate) fn link(&mut self, name: &str, router: &str, switch: &str, addresses: &[&str]) -> &mut Self {
        let lrp = format!("lrp-{name}");
        let row = LogicalRouterPort {
            name: lrp.as_str().into(),
            mac: Text::new(addresses[0]),
            networks: addresses[1..].iter().map(|text| Text::new(text)).collect(),
            ..Default::default()
        };
        self.router_ports.insert(lrp.clone(), row);
        self.routers.get_mut(router).unwrap().ports.insert(Ref::new(id(&lrp)));
        self.add(name, switch, PortType::Router, &["router"]).options = options([("router-port", &lrp)]);
        self
    }

    pub(crate) fn port(&mut self, name: &str) -> &mut LogicalSwitchPort {
        self.ports.get_mut(name).unwrap_or_else(|| panic!("there is no port {name}"))
    }

    pub(crate) fn router_port(&mut self, name: &str) -> &mut LogicalRouterPort {
        self.router_ports.get_mut(name).unwrap_or_else(|| panic!("there is no router's port {name}"))
    }

    /// An instance runs on a host.
    pub(crate) fn runs(&mut self, name: &str, host: &str) -> &mut Self {
        let port = self.port(name);
        port.up = Some(true);
        port.external_ids.insert("neutron:host_id".into(), host.into());
        self
    }

    pub(crate) fn requested(&mut self, name: &str, list: &str) -> &mut Self {
        self.port(name).options.insert("requested-chassis".into(), list.into());
        self
    }

    pub(crate) fn external_id(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        self.port(name).external_ids.insert(key.into(), value.into());
        self
    }

    /// northd tells where a gateway is.
    pub(crate) fn hosted(&mut self, router_port: &str, chassis: &str) -> &mut Self {
        self.router_port(router_port).status = options([("hosting-chassis", chassis)]);
        self
    }

    pub(crate) fn ha_gateway(&mut self, router_port: &str) -> &mut Self {
        self.router_port(router_port).ha_chassis_group = Some(Ref::<HaChassisGroup>::new(id("group")));
        self
    }

    pub(crate) fn route(
        &mut self,
        router: &str,
        prefix: &str,
        next_hop: &str,
    ) -> &mut LogicalRouterStaticRoute {
        let row = LogicalRouterStaticRoute {
            ip_prefix: Text::new(prefix),
            nexthop: Text::new(next_hop),
            ..Default::default()
        };
        let name = format!("{prefix} {next_hop}");
        self.routers.get_mut(router).unwrap().static_routes.insert(Ref::new(id(&name)));
        self.routes.entry(name).insert_entry(row).into_mut()
    }

    /// A floating IP at the gateway.
    pub(crate) fn nat(&mut self, router: &str, external: &str) -> &mut Nat {
        let row = Nat {
            external_ip: Text::new(external),
            logical_ip: Text::new("10.1.0.5"),
            kind: NatType::DnatAndSnat,
            ..Default::default()
        };
        self.routers.get_mut(router).unwrap().nat.insert(Ref::new(id(external)));
        self.nats.entry(external.into()).insert_entry(row).into_mut()
    }

    /// A floating IP where its instance is.
    pub(crate) fn distributed(&mut self, router: &str, external: &str, port: &str) -> &mut Self {
        let nat = self.nat(router, external);
        nat.external_mac = Some(Text::new("fa:16:3e:ff:00:01"));
        nat.logical_port = Some(port.into());
        self
    }

    pub(crate) fn balancer(&mut self, name: &str, vips: &[&str]) -> &mut LoadBalancer {
        let vips = vips.iter().map(|vip| (Text::new(vip), Text::new("10.1.0.5:80"))).collect();
        let row = LoadBalancer { name: name.into(), vips, ..Default::default() };
        self.balancers.entry(name.into()).insert_entry(row).into_mut()
    }

    pub(crate) fn on_switch(&mut self, switch: &str, balancer: &str) -> &mut Self {
        self.switches.get_mut(switch).unwrap().load_balancer.insert(Weak::new(id(balancer)));
        self
    }

    pub(crate) fn on_router(&mut self, router: &str, balancer: &str) -> &mut Self {
        self.routers.get_mut(router).unwrap().load_balancer.insert(Weak::new(id(balancer)));
        self
    }

    pub(crate) fn own(&self) -> Own {
        let system_id = self.node.settings["system-id"].as_str().into();
        Own { system_id, hostname: self.hostname.into() }
    }

    pub(crate) fn body(&self) -> Body {
        let mut body = Body::new(self.schema);
        body.add(&self.global);
        body.add(&self.switches);
        body.add(&self.ports);
        body.add(&self.routers);
        body.add(&self.router_ports);
        body.add(&self.routes);
        body.add(&self.nats);
        body.add(&self.balancers);
        body.add(&self.groups);
        body
    }

    /// The rows as operations that insert them.
    pub(crate) fn inserts(&self) -> Vec<serde_json::Value> {
        self.body().inserts()
    }

    pub(crate) fn northbound(&self) -> ovsdb::Snapshot {
        self.body().load(model())
    }

    /// The rows of a mirror that has seen nothing before and omits nothing.
    pub(crate) fn mirrored(&self) -> ovsdb::Snapshot {
        let own = self.own();
        Mirror::of_everything(own.clone()).look(&self.northbound(), &own)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let own = self.own();
        self.seen_by(Mirror::new(own.clone()).look(&self.northbound(), &own))
    }

    /// The node's inputs, with what a mirror made.
    pub(crate) fn seen_by(&self, sb: ovsdb::Snapshot) -> Snapshot {
        Snapshot { sb, ..self.node.snapshot() }
    }

    pub(crate) fn decide(&self) -> Outcome<Decision> {
        decide(&self.snapshot())
    }

    /// The state beside the base, in the form of the scenarios.
    pub(crate) fn state(&self) -> Vec<String> {
        let snapshot = self.snapshot();
        shown(&wire(&snapshot, &decide(&snapshot).value))
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.decide().problems;
        problems.iter().map(|problem| format!("{} {}", problem.object, problem.code)).collect()
    }
}
