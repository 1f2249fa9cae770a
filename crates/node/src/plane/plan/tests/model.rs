//! A data plane in memory, which does to its state what the kernel and Open vSwitch do, side effects included.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use ovn::MacAddr;
use reconcile::{Applied, ObjectId, Plan, Step, StepResult};

use crate::flows::{self, Bridge, Seen, SeenFlow};
use crate::frr;
use crate::kernel::observed::{Kind, is_host, protocol, retain};
use crate::kernel::tables::RtTables;
use crate::kernel::{
    self, Address, Dev, Family, Hop, Knob, Link, Rule, SeenLink, SeenRoute, SeenRule, Select, Sysctl, Table,
};
use crate::plane::preconditions::Ground;
use crate::plane::{Act, Desired, Observed, Op, VlanDevice};
use crate::ports::{self, SeenPort};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 1]);

/// The exposed addresses: each of eight nowhere, on br-ex, on its VLAN or on br-x; the first two of them are gateways, each
/// with a subnet behind it.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) hosts: Vec<Option<usize>>,
    pub(crate) subnets: Vec<bool>,
    pub(crate) aggregate: bool,
    pub(crate) bridges: usize,
    pub(crate) vlan_device: VlanDevice,
}

const PLACES: [(&str, &str); 3] = [("br-ex", "br-ex"), ("br-ex", "br-ex.100"), ("br-x", "br-x")];

fn host(ip: IpAddr) -> IpNet {
    IpNet::from(ip)
}

/// The desired state for a choice.
pub(crate) fn desired(choice: &Choice) -> Desired {
    let mut want = Desired { vlan_device: choice.vlan_device, ..Desired::default() };
    let kernel = &mut want.kernel;
    kernel.links.extend([
        (Dev::new("bgp-vrf"), Link::Vrf { table: 10 }),
        ("bgp-nic".into(), Link::Dummy { master: Some("bgp-vrf".into()) }),
    ]);
    for (index, (bridge, dev)) in (1..).zip(PLACES) {
        if bridge == "br-x" && choice.bridges < 2 {
            continue;
        }
        let link = match bridge == dev {
            true => Link::Bridge,
            false => Link::Vlan { parent: bridge.into(), tag: 100 },
        };
        kernel.links.insert(dev.into(), link);
        let (v4, v6) = kernel::base_addresses(index, None);
        kernel.addresses.extend([v4.into(), v6.into()].map(|ip| Address { dev: dev.into(), net: host(ip) }));
        kernel.sysctls.extend([Knob::ProxyArp, Knob::ProxyNdp].map(|knob| Sysctl { dev: dev.into(), knob }));
        let table = Table::Bridge(bridge.into());
        if bridge == dev {
            for family in Family::BOTH {
                let hop = Hop { dev: dev.into(), via: None };
                kernel.routes.insert((table.clone(), family.default_net()), hop);
                if choice.aggregate {
                    kernel.rules.insert(Rule { select: Select::All(family), table: table.clone() });
                }
            }
        }
        let flows =
            want.flows.entry(bridge.into()).or_insert(Bridge { mac: Some(MAC), ..Default::default() });
        flows.ports.insert(4 + index as u32, dev.into());
    }
    for (n, place) in choice.hosts.iter().enumerate() {
        let Some(place) = place.filter(|place| *place < 2 || choice.bridges > 1) else { continue };
        let ip: IpAddr = match n {
            6.. => format!("2001:db8::{n}").parse().unwrap(),
            _ => format!("172.24.4.{n}").parse().unwrap(),
        };
        expose_as(&mut want, ip, place, choice.aggregate);
        if let (0..2, true) = (n, choice.subnets.get(n) == Some(&true)) {
            let (bridge, dev) = PLACES[place];
            let table = Table::Bridge(bridge.into());
            let net: IpNet = format!("10.{}.0.0/24", n + 1).parse().unwrap();
            let kernel = &mut want.kernel;
            kernel.neighbours.insert((dev.into(), ip), MAC);
            kernel.routes.insert((table.clone(), net), Hop { dev: dev.into(), via: Some(ip) });
            if !choice.aggregate {
                kernel.rules.insert(Rule { select: Select::To(net), table });
            }
            let tenant = format!("10.{}.0.5/32", n + 1).parse().unwrap();
            kernel.addresses.insert(Address { dev: "bgp-nic".into(), net: tenant });
        }
        if let IpAddr::V6(v6) = ip {
            want.kernel.proxies.insert((PLACES[place].1.into(), v6));
        }
    }
    want
}

/// Exposes one more address.
pub(super) fn expose(want: &mut Desired, ip: IpAddr, place: usize) {
    expose_as(want, ip, place, false);
}

fn expose_as(want: &mut Desired, ip: IpAddr, place: usize, aggregate: bool) {
    let (bridge, dev) = PLACES[place];
    let table = Table::Bridge(bridge.into());
    let kernel = &mut want.kernel;
    kernel.addresses.insert(Address { dev: "bgp-nic".into(), net: host(ip) });
    kernel.routes.insert((table.clone(), host(ip)), Hop { dev: dev.into(), via: None });
    if !aggregate {
        kernel.rules.insert(Rule { select: Select::To(host(ip)), table });
    }
}

/// bgpd once it was told everything.
pub(crate) fn told_frr() -> frr::Observed {
    let families = |line: &str| {
        let family = |name: &str| format!(" address-family {name} unicast\n  {line}\n exit-address-family\n");
        family("ipv4") + &family("ipv6")
    };
    let text = format!(
        "router bgp 64999\n{}exit\nrouter bgp 64999 vrf bgp-vrf\n{}exit\n",
        families("import vrf bgp-vrf"),
        families("redistribute connected")
    );
    let sessions = [("100.64.1.0".to_owned(), true)].into();
    frr::Observed::Bgpd(frr::BgpdState { tree: frr::config::parse(&text), sessions, ..Default::default() })
}

/// The data plane.
#[derive(Debug, Clone)]
pub(crate) struct World {
    kernel: kernel::Observed,
    ports: ports::Observed,
    /// Whether the kernel has no 8021q.
    without_vlans: bool,
    flows: flows::Observed,
    pub(crate) frr: frr::Observed,
    /// Withdrawn addresses whose packets are still forwarded, until a test advances the time.
    pub(crate) draining: BTreeSet<IpAddr>,
}

impl World {
    /// Two bridges, as Open vSwitch makes them, with their numbers.
    pub(crate) fn bare() -> Self {
        let mut kernel =
            kernel::Observed { names: RtTables::parse("201 br-ex\n202 br-x\n"), ..Default::default() };
        for (index, dev) in (1..).zip(["br-ex", "br-x", "eth0"]) {
            kernel.links.insert(dev.into(), SeenLink { index, kind: Kind::Other, up: true, master: None });
        }
        kernel.forwarding.extend(Family::BOTH);
        let flows =
            ["br-ex", "br-x"].map(|bridge| (Dev::new(bridge), Seen::Flows(Default::default()))).into();
        let frr = frr::Observed::Silent("not asked".into());
        let ports = ports::Observed::default();
        World { kernel, ports, without_vlans: false, flows, frr, draining: BTreeSet::new() }
    }

    /// The same on a kernel that has no 8021q, or one that has.
    pub(crate) fn without_vlans(self, without_vlans: bool) -> Self {
        World { without_vlans, ..self }
    }

    /// The world in which all that is wanted is there and nothing else.
    pub(crate) fn made(want: &Desired) -> Self {
        Self::made_on(want, false)
    }

    /// The same on a kernel that may have no 8021q.
    pub(super) fn made_on(want: &Desired, without_vlans: bool) -> Self {
        let mut world = World::bare().without_vlans(without_vlans);
        for (dev, link) in &want.kernel.links {
            match link {
                Link::Vlan { parent, tag } if without_vlans || want.vlan_device == VlanDevice::Internal => {
                    world.add_port(dev, parent, *tag, MAC);
                    world.kernel(&kernel::Op::SetUp { dev: dev.clone() });
                }
                _ => _ = world.kernel(&kernel::Op::AddLink { dev: dev.clone(), link: link.clone() }),
            }
        }
        let number = |table: &Table| if *table == Table::Bridge("br-x".into()) { 202 } else { 201 };
        let want_kernel = &want.kernel;
        let kernel = &mut world.kernel;
        kernel.addresses.clone_from(&want_kernel.addresses);
        kernel
            .rules
            .extend(want_kernel.rules.iter().map(|r| SeenRule::plain(r.select, number(&r.table), 32000)));
        let routes = want_kernel.routes.iter();
        kernel.routes.extend(routes.map(|((t, dst), hop)| SeenRoute::plain(number(t), *dst, hop.clone())));
        kernel.neighbours.clone_from(&want_kernel.neighbours);
        kernel.proxies.clone_from(&want_kernel.proxies);
        kernel.wrote.neighbours = want_kernel.neighbours.keys().cloned().collect();
        kernel.wrote.proxies.clone_from(&want_kernel.proxies);
        kernel.sysctls.clone_from(&want_kernel.sysctls);
        for (name, bridge) in &want.flows {
            let flows = bridge.ports.keys().flat_map(|port| bridge.flows_of(*port)).map(SeenFlow::plain);
            world.flows.insert(name.clone(), Seen::Flows(flows.collect::<BTreeSet<_>>().into()));
        }
        world
    }

    pub(crate) fn observed(&self) -> Observed {
        Observed {
            kernel: Arc::new(self.kernel.clone()),
            ports: Arc::new(self.ports.clone()),
            flows: Arc::new(self.flows.clone()),
            frr: Arc::new(self.frr.clone()),
            draining: Arc::new(self.draining.clone()),
        }
    }

    /// Loses things, as if others had removed them.
    pub(crate) fn lose(&mut self, which: u64) {
        let mut n = 0;
        let mut stays = || {
            n += 1;
            which.rotate_left(n) & 5 != 5
        };
        let ports: Vec<Dev> = self.ports.ours.keys().filter(|_| !stays()).cloned().collect();
        ports.iter().for_each(|dev| self.drop_port(dev));
        let mut stays = || {
            n += 1;
            which.rotate_left(n) & 5 != 5
        };
        retain(&mut self.kernel.addresses, |_| stays());
        retain(&mut self.kernel.rules, |_| stays());
        retain(&mut self.kernel.routes, |_| stays());
        retain(&mut self.kernel.neighbours, |_| stays());
        retain(&mut self.kernel.sysctls, |_| stays());
        for seen in self.flows.values_mut() {
            if let Seen::Flows(flows) = seen {
                flows.retain(|_| stays());
            }
        }
    }

    pub(crate) fn add_foreign(&mut self) {
        let link = SeenLink { index: 98, kind: Kind::Other, up: true, master: None };
        self.kernel.links.insert("br-ex.51".into(), link);
        self.ports.others.insert("br-ex.51".into());
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let address = |dev: &str, text: &str| Address { dev: dev.into(), net: net(text) };
        let eth0 = || Hop { dev: "eth0".into(), via: None };
        let br_ex = || Hop { dev: "br-ex".into(), via: None };
        let kernel = &mut self.kernel;
        kernel.addresses.extend([
            address("eth0", "192.0.2.1/32"),
            address("bgp-nic", "fe80::1/64"),
            address("bgp-nic", "198.51.100.1/24"),
            address("br-ex", "1.1.1.1/32"),
        ]);
        kernel.rules.extend([
            SeenRule::plain(Select::To(net("172.24.4.3/32")), 201, 100),
            SeenRule::plain(Select::To(net("172.24.4.3/32")), 300, 32000),
            // From, fwmark, iif or a protocol: what our rules never ask for.
            SeenRule { select: None, ..SeenRule::plain(Select::All(Family::V4), 201, 32000) },
        ]);
        kernel.routes.extend([
            SeenRoute::plain(300, net("172.24.4.3/32"), eth0()),
            SeenRoute::plain(10, net("1.0.0.0/8"), eth0()),
            SeenRoute { hop: None, ..SeenRoute::plain(201, net("203.0.113.0/25"), eth0()) },
            SeenRoute {
                protocol: protocol::STATIC,
                ..SeenRoute::plain(201, net("203.0.113.128/25"), br_ex())
            },
        ]);
        kernel.neighbours.insert(("br-ex".into(), "203.0.113.9".parse().unwrap()), MAC);
        kernel.proxies.insert(("br-ex".into(), "2001:db8:99::9".parse().unwrap()));
        kernel.neighbours.insert(("eth0".into(), "192.0.2.9".parse().unwrap()), MAC);
        kernel.proxies.insert(("eth0".into(), "2001:db8::9".parse().unwrap()));
        let vlan = Kind::Vlan { parent: Some("br-ex".into()), tag: 50 };
        kernel.links.insert("br-ex.50".into(), SeenLink { index: 99, kind: vlan, up: true, master: None });
    }

    /// The foreign objects.
    pub(crate) fn foreign(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let k = &self.kernel;
        let base = |a: &Address| match a.net.addr() {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.segments()[0] == 0xfd53,
        };
        let ours = |a: &Address| (a.dev == "bgp-nic" && is_host(a.net)) || base(a);
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        (
            k.addresses.iter().filter(|a| !ours(a)).cloned().collect::<Vec<_>>(),
            k.rules
                .iter()
                .filter(|r| r.priority != 32000 || r.table == 300 || r.select.is_none())
                .cloned()
                .collect::<Vec<_>>(),
            k.routes
                .iter()
                .filter(|r| r.table == 300 || r.table == 10 || net("203.0.113.0/24").contains(&r.dst))
                .cloned()
                .collect::<Vec<_>>(),
            k.neighbours
                .keys()
                .filter(|(dev, ip)| dev == "eth0" || net("203.0.113.0/24").contains(ip))
                .cloned()
                .collect::<Vec<_>>(),
            k.proxies
                .iter()
                .filter(|(dev, ip)| dev == "eth0" || ip.segments()[2] == 0x99)
                .cloned()
                .collect::<Vec<_>>(),
            k.links
                .keys()
                .filter(|dev| ["br-ex.50", "br-ex.51", "eth0"].contains(&dev.as_str()))
                .cloned()
                .collect::<Vec<_>>(),
        )
    }

    pub(crate) fn announced(&self) -> impl Iterator<Item = IpAddr> {
        let ours = |a: &&Address| a.dev == "bgp-nic" && is_host(a.net);
        self.kernel.addresses.iter().filter(ours).map(|a| a.net.addr())
    }

    /// Adds what an agent of another day has left: an announcement with its way, a rule in an old form, a flow of no port.
    pub(crate) fn add_stale(&mut self) {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let kernel = &mut self.kernel;
        kernel.rules.extend([
            SeenRule::plain(Select::To(net("172.24.4.99/32")), 201, 32000),
            SeenRule::plain(Select::To(net("10.1.0.1/24")), 201, 32000),
        ]);
        let hop = Hop { dev: "br-ex".into(), via: None };
        kernel.routes.insert(SeenRoute::plain(201, net("172.24.4.99/32"), hop));
        if kernel.links.contains_key("bgp-nic") {
            kernel.addresses.insert(Address { dev: "bgp-nic".into(), net: net("172.24.4.99/32") });
        }
        let gateway: IpAddr = "172.24.4.99".parse().unwrap();
        kernel.neighbours.insert(("br-ex".into(), gateway), MacAddr([2; 6]));
        if let Some(Seen::Flows(flows)) = self.flows.get_mut("br-ex") {
            let flow = flows::Bridge { mac: Some(MAC), ..Default::default() }.flows_of(33);
            flows.extend(flow.map(SeenFlow::plain));
        }
    }

    /// Gives tables other names.
    pub(crate) fn name_tables(&mut self, file: &str) {
        self.kernel.names = RtTables::parse(file);
    }

    /// Adds a VRF of somebody else.
    pub(crate) fn add_vrf(&mut self, dev: &str, table: u32) {
        let link = SeenLink { index: 97, kind: Kind::Vrf(table), up: true, master: None };
        self.kernel.links.insert(dev.into(), link);
    }

    /// Deletes a device.
    pub(crate) fn drop_device(&mut self, dev: &str) {
        self.kernel(&kernel::Op::DelLink { dev: dev.into() });
    }

    /// Whether a bridge has all the flows that are wanted of it.
    pub(crate) fn has_flows(&self, wanted: &flows::Desired) -> bool {
        wanted.iter().all(|(bridge, wanted)| {
            let Some(Seen::Flows(seen)) = self.flows.get(bridge) else { return false };
            let flows = wanted.ports.keys().flat_map(|port| wanted.flows_of(*port));
            flows.into_iter().all(|flow| seen.iter().any(|seen| seen.flow == Some(flow)))
        })
    }

    /// Announced addresses without a way.
    pub(crate) fn stranded(&self) -> BTreeSet<IpAddr> {
        self.announced().filter(|ip| !self.has_way(*ip)).collect()
    }

    /// Whether packets for an address are led anywhere, found the long way round.
    pub(crate) fn has_way(&self, ip: IpAddr) -> bool {
        let catches = |rule: &SeenRule, ip: IpAddr| match rule.select {
            _ if rule.priority != 32000 || ![201, 202].contains(&rule.table) => false,
            Some(Select::To(net)) => net.contains(&ip),
            Some(Select::All(family)) => family == Family::of_ip(ip),
            None => false,
        };
        let leads = |table: u32, ip: IpAddr| {
            let fits = |r: &SeenRoute| r.table == table && r.dst.prefix_len() > 0 && r.dst.contains(&ip);
            self.kernel.routes.iter().any(fits)
        };
        self.kernel.rules.iter().any(|rule| catches(rule, ip) && leads(rule.table, ip))
    }

    /// Takes the steps of a plan as the target does: phase by phase, what is not allowed and what follows a failure left out.
    pub(crate) fn run(
        &mut self,
        plan: &Plan<Op>,
        fails: &dyn Fn(&Step<Op>) -> bool,
        after: &mut dyn FnMut(&World, &Op),
    ) -> Applied {
        let mut results = Vec::with_capacity(plan.steps.len());
        let mut stopped: BTreeSet<&ObjectId> = BTreeSet::new();
        for batch in plan.steps.chunk_by(|a, b| a.op.phase == b.op.phase) {
            let (kernel, flows) = (self.kernel.clone(), self.flows.clone());
            let mut ground = Ground::new(&kernel, &flows);
            let allowed: Vec<bool> =
                batch.iter().map(|step| !stopped.contains(&step.object) && ground.allows(&step.op)).collect();
            for (step, allowed) in batch.iter().zip(allowed) {
                if !allowed || fails(step) || !self.act(&step.op.act) {
                    stopped.insert(&step.object);
                    results.push(StepResult::Skipped);
                } else {
                    results.push(StepResult::Done);
                    self.note_drain(&step.op);
                    after(self, &step.op);
                }
            }
        }
        Applied { results }
    }

    fn note_drain(&mut self, op: &Op) {
        if let Some(ip) = op.announced() {
            self.draining.remove(&ip);
        }
        self.draining.extend(op.withdrawn().filter(|_| !op.drain.is_zero()));
    }

    fn act(&mut self, act: &Act) -> bool {
        match act {
            Act::Kernel(op) => return self.kernel(op),
            Act::Port(ports::Op::Add { dev, bridge, tag, mac }) => {
                return self.add_port(dev, bridge, *tag, *mac);
            }
            Act::Port(ports::Op::Correct { dev, port, .. }) => {
                let Some(seen) = self.ports.ours.get_mut(dev) else { return false };
                (seen.tag, seen.mac, seen.internal) = (Some(port.tag), port.mac, true);
            }
            Act::Port(ports::Op::Delete { dev, .. }) => self.drop_port(dev),
            Act::Flow(flows::Op::Add { bridge, flow }) => {
                let Some(Seen::Flows(flows)) = self.flows.get_mut(bridge) else { return false };
                flows.retain(|seen| {
                    seen.flow.is_none_or(|f| (f.in_port, f.family) != (flow.in_port, flow.family))
                });
                flows.insert(SeenFlow::plain(*flow));
            }
            Act::Flow(flows::Op::AddNormal { bridge }) => {
                let Some(Seen::Flows(seen)) = self.flows.get_mut(bridge) else { return false };
                seen.normal = flows::NormalFlow::There;
            }
            Act::Flow(flows::Op::Delete { bridge, seen }) => {
                let Some(Seen::Flows(flows)) = self.flows.get_mut(bridge) else { return false };
                flows.remove(seen);
            }
            Act::Frr(_) => self.frr = told_frr(),
        }
        true
    }

    /// Open vSwitch adds a port, and with it a device that is down.
    fn add_port(&mut self, dev: &Dev, bridge: &Dev, tag: u16, mac: MacAddr) -> bool {
        if self.kernel.links.contains_key(dev) || self.ports.ours.contains_key(dev) {
            return false;
        }
        let uuid = ovsdb::Uuid::nil();
        let rows = ports::state::Rows { bridge: uuid.into(), port: uuid.into(), interface: uuid.into() };
        let (tag, mac) = (Some(tag), Some(mac));
        let port = SeenPort { bridge: bridge.clone(), tag, mac, internal: true, error: None, rows };
        self.ports.ours.insert(dev.clone(), port);
        let link = SeenLink { index: 60, kind: Kind::Other, up: false, master: None };
        self.kernel.links.insert(dev.clone(), link);
        true
    }

    fn drop_port(&mut self, dev: &Dev) {
        self.ports.ours.remove(dev);
        self.kernel(&kernel::Op::DelLink { dev: dev.clone() });
    }

    /// Whether the kernel would take it, and what it does.
    fn kernel(&mut self, op: &kernel::Op) -> bool {
        let kernel = &mut self.kernel;
        let there = |dev: &Dev| kernel.links.contains_key(dev);
        match op {
            kernel::Op::NameTable { table, bridge } => kernel.names.insert(*table, bridge.clone()),
            kernel::Op::AddLink { link: Link::Vlan { .. }, .. } if self.without_vlans => {
                kernel.lacks_vlans = true;
                return false;
            }
            kernel::Op::AddLink { dev, link } => {
                let (kind, master) = match link {
                    Link::Vrf { table } => (Kind::Vrf(*table), None),
                    Link::Dummy { master } => (Kind::Dummy, master.clone()),
                    Link::Vlan { parent, tag } => {
                        (Kind::Vlan { parent: Some(parent.clone()), tag: *tag }, None)
                    }
                    Link::Bridge | Link::Port { .. } => return there(dev),
                };
                kernel.links.insert(dev.clone(), SeenLink { index: 50, kind, up: true, master });
            }
            kernel::Op::SetUp { dev } => kernel.links.get_mut(dev).unwrap().up = true,
            kernel::Op::SetMaster { dev, master } => {
                kernel.links.get_mut(dev).unwrap().master = Some(master.clone());
            }
            kernel::Op::DelLink { dev } => {
                kernel.links.remove(dev);
                retain(&mut kernel.addresses, |a: &Address| a.dev != *dev);
                retain(&mut kernel.routes, |r: &SeenRoute| r.hop.as_ref().is_none_or(|hop| hop.dev != *dev));
                retain(&mut kernel.neighbours, |((d, _), _): &((Dev, IpAddr), MacAddr)| d != dev);
                retain(&mut kernel.proxies, |(d, _): &(Dev, std::net::Ipv6Addr)| d != dev);
                retain(&mut kernel.sysctls, |s: &Sysctl| s.dev != *dev);
            }
            kernel::Op::AddAddress(a) => {
                return there(&a.dev) && kernel.addresses.insert(a.clone()).is_none();
            }
            kernel::Op::DelAddress(a) => {
                kernel.addresses.remove(a);
                let v4 = |a: &Address| Family::of(a.net) == Family::V4;
                if v4(a) && !kernel.addresses.iter().any(|other| other.dev == a.dev && v4(other)) {
                    let lost = |r: &SeenRoute| {
                        Family::of(r.dst) == Family::V4 && r.hop.as_ref().is_some_and(|hop| hop.dev == a.dev)
                    };
                    retain(&mut kernel.routes, |r: &SeenRoute| !lost(r));
                }
            }
            kernel::Op::SetSysctl(sysctl) => {
                return there(&sysctl.dev) && kernel.sysctls.insert(sysctl.clone()).is_none();
            }
            kernel::Op::SetRoute { table, dst, hop } => {
                // A next hop must be on a route of the same table.
                let known =
                    |via: IpAddr| kernel.routes.iter().any(|r| r.table == *table && r.dst.contains(&via));
                if !there(&hop.dev) || hop.via.is_some_and(|via| !known(via)) {
                    return false;
                }
                let new = SeenRoute::plain(*table, *dst, hop.clone());
                retain(&mut kernel.routes, |r: &SeenRoute| {
                    (r.table, r.dst, r.metric) != (*table, *dst, new.metric)
                });
                kernel.routes.insert(new);
            }
            kernel::Op::DelRoute(route) => drop(kernel.routes.remove(route)),
            kernel::Op::AddRule { select, table, priority } => {
                kernel.rules.insert(SeenRule::plain(*select, *table, *priority));
            }
            kernel::Op::DelRule(rule) => drop(kernel.rules.remove(rule)),
            kernel::Op::SetNeighbour { dev, ip, mac } => {
                if !there(dev) {
                    return false;
                }
                kernel.neighbours.insert((dev.clone(), *ip), *mac);
                kernel.wrote.neighbours.insert((dev.clone(), *ip));
            }
            kernel::Op::DelNeighbour { dev, ip } => drop(kernel.neighbours.remove(&(dev.clone(), *ip))),
            kernel::Op::AddProxy { dev, ip } => {
                kernel.wrote.proxies.insert((dev.clone(), *ip));
                return there(dev) && kernel.proxies.insert((dev.clone(), *ip)).is_none();
            }
            kernel::Op::DelProxy { dev, ip } => drop(kernel.proxies.remove(&(dev.clone(), *ip))),
        }
        true
    }
}
