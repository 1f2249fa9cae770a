//! Worlds to decide from: the fixture of the acceptance scenarios, and words to change it in.
//!
//! Rows have the shapes that ovn-northd writes. They go through the real replica with the real schemas, so that a shape that
//! no server would send is refused here as well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ovn::PortType;
use ovn::sb::{Chassis, DatapathBinding, Encap, LoadBalancer, LogicalDpGroup, PortBinding};
use ovn::text::Text;
use ovn::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovsdb::replica::{Replica, UpdateVersion};
use ovsdb::wire::DatabaseSchema;
use ovsdb::{Map, Model, Ref, Set, Str, Table, Uuid, Weak};
use reconcile::{Outcome, Problem};
use serde_json::{Map as Object, Value, json};

use crate::bgp::config::Config;
use crate::bgp::desired::{Decision, decide, wire};
use crate::bgp::reserved::Sources;
use crate::bgp::snapshot::{Snapshot, mappings, southbound_model};
use crate::connections::switch;
use crate::kernel::{Link, Select, Table as RoutingTable};
use crate::plane;
use crate::plane::surroundings::Surroundings;

macro_rules! schema {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../ovn/testdata/schema/", $file))
    };
}

pub(crate) const OLD: &str = schema!("ovn-sb-23.03.json");
pub(crate) const NEW: &str = schema!("ovn-sb-26.03.json");
pub(crate) const NB_OLD: &str = schema!("ovn-nb-23.03.json");
pub(crate) const NB_NEW: &str = schema!("ovn-nb-26.03.json");
pub(crate) const VSWITCH: &str = schema!("vswitch-3.1.json");

pub(crate) const ROUTER_MAC: &str = "fa:16:3e:aa:00:01";

/// The UUID of whatever has this name.
pub(crate) fn id(name: &str) -> Uuid {
    ovn::ident::row_uuid("test", name, "")
}

pub(crate) fn options<const N: usize>(pairs: [(&str, &str); N]) -> Map<Str, Str> {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

pub(crate) struct World {
    pub(crate) schema: &'static str,
    pub(crate) chassis: BTreeMap<String, Chassis>,
    pub(crate) datapaths: BTreeMap<String, DatapathBinding>,
    pub(crate) ports: BTreeMap<String, PortBinding>,
    pub(crate) balancers: BTreeMap<String, LoadBalancer>,
    pub(crate) groups: BTreeMap<String, LogicalDpGroup>,
    pub(crate) settings: BTreeMap<String, String>,
    /// Bridges with their MACs.
    pub(crate) bridges: BTreeMap<String, Option<String>>,
    /// Patch ports: bridge, localnet port, OpenFlow number.
    pub(crate) patches: BTreeMap<String, (String, Option<i64>)>,
    /// Ports that we added for VLANs, with their bridges.
    pub(crate) vlan_ports: BTreeMap<String, String>,
    pub(crate) config: Config,
    /// Tunnel ends of chassis.
    pub(crate) encaps: BTreeMap<String, Encap>,
    /// Other ends of the tunnels that ovn-controller made in the local switch.
    pub(crate) tunnels: Vec<&'static str>,
    /// Servers of databases.
    pub(crate) databases: BTreeSet<IpAddr>,
    pub(crate) surroundings: Surroundings,
    pub(crate) chassis_missing: Duration,
    pub(crate) rebinding: bool,
    pub(crate) silent: bool,
    pub(crate) before: Arc<Decision>,
}

impl World {
    /// The fixture: two chassis, of which `ch-a` is us; the provider network `neutron-pub`; the router `neutron-r1` with its
    /// gateway on it, bound nowhere, and the tenant network `neutron-ten` behind it.
    pub(crate) fn new() -> Self {
        let mut world = World {
            schema: NEW,
            chassis: BTreeMap::new(),
            datapaths: BTreeMap::new(),
            ports: BTreeMap::new(),
            balancers: BTreeMap::new(),
            groups: BTreeMap::new(),
            settings: [("system-id", "ch-a"), ("ovn-bridge-mappings", "physnet1:br-ex")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            bridges: [("br-ex".to_owned(), Some("02:00:00:00:ee:01".to_owned()))].into(),
            patches: [("provnet-1".to_owned(), ("br-ex".to_owned(), Some(5)))].into(),
            vlan_ports: BTreeMap::new(),
            config: Config::default(),
            encaps: BTreeMap::new(),
            tunnels: Vec::new(),
            databases: BTreeSet::new(),
            surroundings: Surroundings::default(),
            chassis_missing: Duration::ZERO,
            rebinding: false,
            silent: false,
            before: Arc::default(),
        };
        for name in ["ch-a", "ch-b"] {
            world.chassis.insert(name.into(), Chassis { name: name.into(), ..Default::default() });
        }
        world.switch("neutron-pub").switch("neutron-ten").router("neutron-r1");
        world.localnet("provnet-1", "neutron-pub", "physnet1", None);
        world.gateway(
            "gw1",
            "neutron-r1",
            "neutron-pub",
            &format!("{ROUTER_MAC} 172.24.4.221/24 2001:db8::221/64"),
        );
        world.inner("sub1", "neutron-r1", "neutron-ten", "fa:16:3e:aa:00:02 10.1.0.1/24");
        world
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn tenants(self) -> Self {
        self.with(|config| config.expose_tenant_networks = true)
    }

    fn datapath(&mut self, name: &str, kind: &str) -> &mut Self {
        let external_ids = options([("name", name), (kind, &id(&format!("nb-{name}")).to_string())]);
        let row = DatapathBinding {
            tunnel_key: self.datapaths.len() as i64 + 1,
            external_ids,
            ..Default::default()
        };
        self.datapaths.insert(name.into(), row);
        self
    }

    pub(crate) fn switch(&mut self, name: &str) -> &mut Self {
        self.datapath(name, "logical-switch")
    }

    pub(crate) fn router(&mut self, name: &str) -> &mut Self {
        self.datapath(name, "logical-router")
    }

    pub(crate) fn row(
        &mut self,
        name: &str,
        datapath: &str,
        kind: PortType,
        mac: &[&str],
    ) -> &mut PortBinding {
        let row = PortBinding {
            logical_port: name.into(),
            kind,
            datapath: Ref::new(id(datapath)),
            tunnel_key: self.ports.len() as i64 + 1,
            mac: mac.iter().map(|text| Text::new(text)).collect(),
            ..Default::default()
        };
        self.ports.entry(name.to_owned()).insert_entry(row).into_mut()
    }

    /// A port of an instance, bound nowhere.
    pub(crate) fn vif(&mut self, name: &str, switch: &str, mac: &[&str]) -> &mut Self {
        self.row(name, switch, PortType::Vif, mac).up = Some(false);
        self
    }

    pub(crate) fn virtual_port(&mut self, name: &str, switch: &str, mac: &[&str]) -> &mut Self {
        self.row(name, switch, PortType::Virtual, mac).up = Some(false);
        self
    }

    pub(crate) fn localnet(
        &mut self,
        name: &str,
        switch: &str,
        physnet: &str,
        tag: Option<i64>,
    ) -> &mut Self {
        let row = self.row(name, switch, PortType::Localnet, &["unknown"]);
        row.options = options([("network_name", physnet)]);
        row.tag = tag;
        self
    }

    /// A gateway port of a router, as `lrp-NAME`, `cr-lrp-NAME` and the switch's `NAME`.
    pub(crate) fn gateway(&mut self, name: &str, router: &str, switch: &str, mac: &str) -> &mut Self {
        let (lrp, cr) = (format!("lrp-{name}"), format!("cr-lrp-{name}"));
        self.row(&lrp, router, PortType::Patch, &[mac]).options =
            options([("chassis-redirect-port", &cr), ("peer", name)]);
        self.row(&cr, router, PortType::ChassisRedirect, &[mac]).options =
            options([("distributed-port", &lrp)]);
        self.row(name, switch, PortType::Patch, &["router"]).options = options([("peer", &lrp)]);
        self
    }

    /// A router's port on a tenant network, as `lrp-NAME` and the switch's `NAME`.
    pub(crate) fn inner(&mut self, name: &str, router: &str, switch: &str, mac: &str) -> &mut Self {
        let lrp = format!("lrp-{name}");
        self.row(&lrp, router, PortType::Patch, &[mac]).options = options([("peer", name)]);
        self.row(name, switch, PortType::Patch, &["router"]).options = options([("peer", &lrp)]);
        self
    }

    pub(crate) fn port(&mut self, name: &str) -> &mut PortBinding {
        self.ports.get_mut(name).unwrap_or_else(|| panic!("there is no port {name}"))
    }

    pub(crate) fn bind(&mut self, name: &str, chassis: &str) -> &mut Self {
        let port = self.port(name);
        (port.chassis, port.up) = (Some(Weak::new(id(chassis))), Some(true));
        self
    }

    pub(crate) fn unbind(&mut self, name: &str) -> &mut Self {
        let port = self.port(name);
        (port.chassis, port.up) = (None, Some(false));
        self
    }

    pub(crate) fn nat(&mut self, port: &str, entries: &[&str]) -> &mut Self {
        self.port(port).nat_addresses = entries.iter().map(|text| Text::new(text)).collect();
        self
    }

    pub(crate) fn external_id(&mut self, port: &str, key: &str, value: &str) -> &mut Self {
        self.port(port).external_ids.insert(key.into(), value.into());
        self
    }

    pub(crate) fn group(&mut self, name: &str, members: &[&str]) -> Option<Ref<LogicalDpGroup>> {
        let datapaths: Set<_> = members.iter().map(|name| Weak::new(id(name))).collect();
        self.groups.insert(name.into(), LogicalDpGroup { datapaths });
        Some(Ref::new(id(name)))
    }

    pub(crate) fn balancer(&mut self, name: &str, vips: &[&str]) -> &mut LoadBalancer {
        let vips = vips.iter().map(|vip| (Text::new(vip), Text::new("10.1.0.5:80"))).collect();
        let row = LoadBalancer { name: name.into(), vips, ..Default::default() };
        self.balancers.entry(name.to_owned()).insert_entry(row).into_mut()
    }

    pub(crate) fn southbound(&self) -> Body {
        let mut sb = Body::new(self.schema);
        sb.add(&self.chassis);
        sb.add(&self.datapaths);
        sb.add(&self.ports);
        sb.add(&self.balancers);
        sb.add(&self.groups);
        sb.add(&self.encaps);
        sb
    }

    fn vswitch(&self) -> Body {
        let mut vswitch = Body::new(VSWITCH);
        let external_ids =
            self.settings.iter().map(|(key, value)| (Str::from(key.as_str()), Str::from(value.as_str())));
        let bridges: Set<_> = self.bridges.keys().map(|name| Ref::new(id(name))).collect();
        let settings = OpenVSwitch { bridges, external_ids: external_ids.collect(), ..Default::default() };
        vswitch.add(&BTreeMap::from([("Open_vSwitch".to_owned(), settings)]));
        let mut bridges: BTreeMap<String, Bridge> = BTreeMap::new();
        let (mut ports, mut interfaces) = (BTreeMap::new(), BTreeMap::new());
        for (name, mac) in &self.bridges {
            let own = Set::from([Ref::new(id(name))]);
            bridges.insert(
                name.clone(),
                Bridge { name: name.as_str().into(), ports: own, ..Default::default() },
            );
            let interfaces_of = Set::from([Ref::new(id(name))]);
            let own = Port { name: name.as_str().into(), interfaces: interfaces_of, ..Default::default() };
            ports.insert(name.clone(), own);
            let mac_in_use = mac.as_ref().map(|mac| Text::new(mac));
            let own = Interface {
                name: name.as_str().into(),
                mac_in_use,
                ofport: Some(65534),
                ..Default::default()
            };
            interfaces.insert(name.clone(), own);
        }
        for remote in &self.tunnels {
            let name = format!("ovn-{remote}");
            let tunnel = Interface {
                name: name.as_str().into(),
                kind: "geneve".into(),
                options: options([("remote_ip", *remote)]),
                ..Default::default()
            };
            interfaces.insert(name, tunnel);
        }
        for (localnet, (bridge, ofport)) in &self.patches {
            let name = format!("patch-{localnet}-to-br-int");
            let port = Port {
                name: name.as_str().into(),
                interfaces: Set::from([Ref::new(id(&name))]),
                external_ids: options([("ovn-localnet-port", localnet)]),
                ..Default::default()
            };
            let interface = Interface {
                name: name.as_str().into(),
                kind: "patch".into(),
                ofport: *ofport,
                ..Default::default()
            };
            bridges.get_mut(bridge).unwrap().ports.insert(Ref::new(id(&name)));
            ports.insert(name.clone(), port);
            interfaces.insert(name, interface);
        }
        for (name, bridge) in &self.vlan_ports {
            let port = Port {
                name: name.as_str().into(),
                interfaces: Set::from([Ref::new(id(name))]),
                external_ids: options([("meridian:owner", "bgp-vlan")]),
                ..Default::default()
            };
            bridges.get_mut(bridge).unwrap().ports.insert(Ref::new(id(name)));
            ports.insert(name.clone(), port);
            let interface =
                Interface { name: name.as_str().into(), kind: "internal".into(), ..Default::default() };
            interfaces.insert(name.clone(), interface);
        }
        vswitch.add(&bridges);
        vswitch.add(&ports);
        vswitch.add(&interfaces);
        vswitch
    }

    /// The Southbound rows as operations that insert them.
    pub(crate) fn southbound_rows(&self) -> Vec<Value> {
        let mut ops: Vec<Value> =
            self.chassis.keys().flat_map(|name| Self::chassis_rows(name, id(name))).collect();
        ops.extend(self.southbound().inserts().into_iter().filter(|op| op["table"] != "Chassis"));
        ops
    }

    /// A chassis and its tunnel end.
    pub(crate) fn chassis_rows(name: &str, row: Uuid) -> Vec<Value> {
        let [a, b, ..] = row.into_bytes();
        let encap = json!({ "type": "geneve", "ip": format!("10.0.{a}.{b}"), "chassis_name": name });
        let chassis = json!({ "name": name, "hostname": format!("{name}.example"), "encaps": ["named-uuid", format!("e{}", row.simple())] });
        vec![
            json!({ "op": "insert", "table": "Encap", "row": encap, "uuid-name": format!("e{}", row.simple()) }),
            json!({ "op": "insert", "table": "Chassis", "row": chassis, "uuid": row.to_string() }),
        ]
    }

    /// The local switch's rows as operations that insert them.
    pub(crate) fn vswitch_rows(&self) -> Vec<Value> {
        self.vswitch().inserts()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let (sb, vswitch) =
            (self.southbound().load(southbound_model()), self.vswitch().load(switch::model()));
        let sources = Sources {
            config: &self.config,
            sb: Some(&sb),
            vswitch: &vswitch,
            mappings: &mappings(&vswitch),
            databases: &self.databases,
            surroundings: &self.surroundings,
        };
        let reserved = Arc::new(sources.reserved());
        Snapshot {
            sb,
            vswitch,
            reserved,
            rivals: BTreeSet::new(),
            config: Arc::new(self.config.clone()),
            chassis_missing: self.chassis_missing,
            guard: false,
            rebinding: self.rebinding,
            silent: self.silent,
            before: Arc::clone(&self.before),
        }
    }

    pub(crate) fn decide(&self) -> Outcome<Decision> {
        decide(&self.snapshot())
    }

    /// Decides, and remembers that for the next time.
    pub(crate) fn settle(&mut self) -> Vec<Problem> {
        let outcome = self.decide();
        self.before = Arc::new(outcome.value);
        outcome.problems
    }

    pub(crate) fn plane(&self) -> plane::Desired {
        let snapshot = self.snapshot();
        wire(&snapshot, &decide(&snapshot).value)
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.decide().problems;
        problems.iter().map(|problem| format!("{} {}", problem.object, problem.code)).collect()
    }

    /// The state beside the base, in the form of the scenarios.
    pub(crate) fn state(&self) -> Vec<String> {
        shown(&self.plane())
    }

    /// The same with base and flows.
    pub(crate) fn base(&self) -> Vec<String> {
        base(&self.plane())
    }
}

/// The scenarios' words: A an announced address, R a rule, T a route, N a neighbour, Y an NDP proxy entry.
pub(crate) fn shown(plane: &plane::Desired) -> Vec<String> {
    let kernel = &plane.kernel;
    let mut lines = Vec::new();
    for address in kernel.addresses.iter().filter(|address| address.dev == kernel.own.announce) {
        lines.push(format!("A {}", address.net.addr()));
    }
    for rule in &kernel.rules {
        match rule.select {
            Select::To(net) => lines.push(format!("R {} {}", host(net), rule.table)),
            Select::All(family) => lines.push(format!("R all {family:?} {}", rule.table)),
        }
    }
    for ((table, net), hop) in kernel.routes.iter().filter(|((_, net), _)| net.prefix_len() > 0) {
        let table = match table {
            RoutingTable::Bridge(_) => String::new(),
            RoutingTable::Number(number) => format!(" table {number}"),
        };
        lines.push(format!("T {} {hop}{table}", host(*net)));
    }
    for ((dev, ip), mac) in &kernel.neighbours {
        lines.push(format!("N {ip} {mac} {dev}"));
    }
    for (dev, ip) in &kernel.proxies {
        lines.push(format!("Y {ip} {dev}"));
    }
    lines
}

fn host(net: ipnet::IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() }
}

fn base(plane: &plane::Desired) -> Vec<String> {
    let kernel = &plane.kernel;
    let mut lines = Vec::new();
    for (dev, link) in &kernel.links {
        lines.push(match link {
            Link::Vrf { table } => format!("{dev} vrf {table}"),
            Link::Dummy { master } => format!("{dev} dummy in {}", master.as_deref().unwrap_or("nothing")),
            Link::Vlan { parent, tag } => format!("{dev} vlan {tag} of {parent}"),
            Link::Bridge => format!("{dev} bridge"),
            Link::Port { bridge } => format!("{dev} port of {bridge}"),
        });
    }
    for address in kernel.addresses.iter().filter(|address| address.dev != kernel.own.announce) {
        lines.push(format!("{} on {}", address.net, address.dev));
    }
    for ((table, net), hop) in kernel.routes.iter().filter(|((_, net), _)| net.prefix_len() == 0) {
        lines.push(format!("{net} {hop} table {table}"));
    }
    lines.extend(kernel.sysctls.iter().map(|sysctl| sysctl.path()));
    for (bridge, flows) in &plane.flows {
        let mac = flows.mac.iter();
        lines.extend(mac.flat_map(|mac| {
            flows.ports.iter().map(move |(port, dev)| format!("F{port} {bridge} {mac} {dev}"))
        }));
    }
    lines
}

/// A schema, read once: that takes far longer than deciding does.
fn parsed(text: &'static str) -> &'static DatabaseSchema {
    static READ: [LazyLock<DatabaseSchema>; 5] = [
        LazyLock::new(|| DatabaseSchema::parse(OLD).unwrap()),
        LazyLock::new(|| DatabaseSchema::parse(NEW).unwrap()),
        LazyLock::new(|| DatabaseSchema::parse(VSWITCH).unwrap()),
        LazyLock::new(|| DatabaseSchema::parse(NB_OLD).unwrap()),
        LazyLock::new(|| DatabaseSchema::parse(NB_NEW).unwrap()),
    ];
    let at = [OLD, NEW, VSWITCH, NB_OLD, NB_NEW].iter().position(|known| *known == text);
    &READ[at.expect("one of the schemas above")]
}

/// The reply to a monitor request.
pub(crate) struct Body {
    schema: &'static DatabaseSchema,
    tables: Object<String, Value>,
}

impl Body {
    pub(crate) fn new(schema: &'static str) -> Self {
        Self { schema: parsed(schema), tables: Object::new() }
    }

    pub(crate) fn add<T: Table>(&mut self, rows: &BTreeMap<String, T>) {
        let columns = &self.schema.tables[T::TABLE].columns;
        let rows: Object<String, Value> = rows
            .iter()
            .map(|(name, row)| {
                let cells = T::COLUMNS.iter().enumerate().filter(|(_, spec)| columns.contains_key(spec.name));
                let cells: Object<String, Value> =
                    cells.map(|(at, spec)| (spec.name.to_owned(), json!(row.datum(at)))).collect();
                (id(name).to_string(), json!({ "initial": cells }))
            })
            .collect();
        self.tables.insert(T::TABLE.to_owned(), Value::Object(rows));
    }

    /// The rows as operations that insert them; columns that are at their defaults or written by the server are left out.
    pub(crate) fn inserts(self) -> Vec<Value> {
        let mut ops = Vec::new();
        for (table, rows) in &self.tables {
            for (row, cells) in rows.as_object().into_iter().flatten() {
                let cells: Object<String, Value> = cells["initial"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(_, value)| **value != json!(["set", []]))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                ops.push(json!({ "op": "insert", "table": table, "row": cells, "uuid": row }));
            }
        }
        ops
    }

    pub(crate) fn load(self, model: Model) -> ovsdb::Snapshot {
        self.load_into(&mut Replica::new(model))
    }

    /// Loads the rows into a replica, which keeps the rows that are equal already.
    pub(crate) fn load_into(self, replica: &mut Replica) -> ovsdb::Snapshot {
        replica.fit(self.schema).unwrap();
        replica.reload(UpdateVersion::V2, &Value::Object(self.tables).to_string()).unwrap();
        let snapshot = replica.snapshot();
        let unreadable: Vec<_> = snapshot.unreadable().map(|row| format!("{row:?}")).collect();
        assert_eq!(unreadable, [""; 0]);
        snapshot
    }
}
