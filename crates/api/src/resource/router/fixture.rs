//! A small cloud with the external networks and chassis of the acceptance scenarios. Tests send requests to its nouns as `http` does.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::fleet::Chassis;
use crate::model::{FloatingIp, Network, NetworkType, Placement, Port, Router, Subnet};
use crate::report::Report;
use crate::resource::fixture::{again, id, network, subnet};
use crate::resource::{Act, ActionRequest, ChangeRequest, CreateAnswer, Reply, Scene, at_path};
use crate::settings::Settings;
use crate::world::{Outside, Txn, World};

/// External network on phy1, with S1 192.0.2.0/24 and its gateway .1.
pub(crate) const N1: u128 = 0x11;
/// External network on phy2, with S2 198.51.100.0/24 and its gateway .1.
pub(crate) const N2: u128 = 0x12;
/// External network whose subnet overlaps with S1.
pub(crate) const N3: u128 = 0x13;
/// Internal network of project `p`, with S4 10.0.4.0/24.
pub(crate) const N4: u128 = 0x14;
/// Internal network of project `p`, with S5 10.0.5.0/24 and the IPv6 subnets S6 and S7.
pub(crate) const N5: u128 = 0x15;
/// Subnet of [`N1`].
pub(crate) const S1: u128 = 0x21;
/// Subnet of [`N2`].
pub(crate) const S2: u128 = 0x22;
/// Subnet of [`N4`].
pub(crate) const S4: u128 = 0x24;
/// Subnet of [`N5`].
pub(crate) const S5: u128 = 0x25;
/// IPv6 subnet of [`N5`].
pub(crate) const S6: u128 = 0x26;
/// IPv6 subnet of [`N5`].
pub(crate) const S7: u128 = 0x27;

/// The cloud.
pub(crate) struct Cloud {
    pub(crate) world: World,
    pub(crate) outside: Outside,
    pub(crate) report: Report,
    pub(crate) caller: Caller,
    luck: u64,
}

impl Cloud {
    /// A cloud with the networks above and chassis ch1 to ch3, which carry both physical networks. The caller is an administrator of `p`.
    pub(crate) fn new() -> Self {
        let mut outside = Outside { settings: Settings::default(), ..Outside::default() };
        outside.fleet.chassis = (1..=3).map(|n| chassis(&format!("ch{n}"))).collect();
        let report = Report::default();
        let mut cloud =
            Cloud { world: World::default(), outside, report, caller: Caller::admin("p"), luck: 0 };
        cloud.put_all(
            [external(N1, "phy1"), external(N2, "phy2"), external(N3, "phy1")],
            [network(N4, "p"), network(N5, "p")],
        );
        for (n, of, cidr) in [
            (S1, N1, "192.0.2.0/24"),
            (S2, N2, "198.51.100.0/24"),
            (0x23, N3, "192.0.2.128/25"),
            (S4, N4, "10.0.4.0/24"),
            (S5, N5, "10.0.5.0/24"),
            (S6, N5, "2001:db8:6::/64"),
            (S7, N5, "2001:db8:7::/64"),
        ] {
            let mut subnet = subnet(n, of, cidr);
            subnet.project = if [N4, N5].contains(&of) { "p" } else { "admin" }.into();
            cloud.add_subnet(subnet);
        }
        cloud
    }

    fn put_all<const A: usize, const B: usize>(&mut self, first: [Network; A], second: [Network; B]) {
        let networks: Vec<Network> = first.into_iter().chain(second).collect();
        self.change(|txn| {
            networks.into_iter().for_each(|network| drop(txn.put(network)));
            Ok(())
        })
        .unwrap();
    }

    /// Adds a subnet with its effects on gateways, as the API does.
    pub(crate) fn try_subnet(&mut self, subnet: Subnet) -> Result<(), Fault> {
        self.change(|txn| {
            let id = subnet.id;
            txn.put(subnet);
            crate::resource::gateway::subnet_added(txn, id)
        })
    }

    pub(crate) fn add_subnet(&mut self, subnet: Subnet) {
        self.try_subnet(subnet).unwrap();
    }

    /// Runs a change, which has no effect if it fails.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Txn) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut txn = again(self.world.clone(), self.outside.clone());
        self.luck += 1;
        *txn.chance() = fastrand::Rng::with_seed(self.luck);
        let answer = change(&mut txn)?;
        let (world, _) = txn.finish();
        self.world = world;
        self.check_invariants();
        Ok(answer)
    }

    /// The invariants after every change.
    fn check_invariants(&self) {
        for router in self.world.table::<Router>().iter() {
            let gateways = crate::resource::gateway::of_router(&self.world, router);
            assert_eq!(
                router.gw_port_id,
                gateways.first().map(|port| port.id),
                "compatibility gateway of {router:?}"
            );
            let ordinals: BTreeSet<_> = gateways.iter().map(|port| port.gateway_ordinal).collect();
            assert_eq!(ordinals.len(), gateways.len(), "ages of gateways differ");
            for port in gateways {
                assert_eq!((port.project.as_str(), port.name.as_str()), ("", ""));
                assert!(
                    !port.port_security_enabled && port.security_groups.is_empty() && port.admin_state_up
                );
            }
        }
        // The references and unique keys of the store.
        for floating in self.world.table::<FloatingIp>().iter() {
            let has = |port: &Port, ip: Option<Ipv4Addr>| {
                port.fixed_ips.iter().any(|fixed| Some(fixed.ip_address) == ip.map(IpAddr::from))
            };
            let holder = self.world.get::<Port>(&floating.floating_port_id).unwrap();
            assert!(has(holder, Some(floating.floating_ip_address)), "{floating:?} on {holder:?}");
            if let Some(port) = floating.port_id {
                let port = self.world.get::<Port>(&port).unwrap();
                assert!(has(port, floating.fixed_ip_address), "{floating:?} to {port:?}");
            }
            assert!(floating.router_id.is_none_or(|router| self.world.get::<Router>(&router).is_some()));
        }
        for placement in self.world.table::<Placement>().iter() {
            assert!(self.world.get::<Port>(&placement.port_id).is_some_and(|port| port.is_gateway()));
        }
    }

    fn who(&self) -> (Caller, Report) {
        (self.caller.clone(), self.report.clone())
    }

    /// Runs requests on the cloud as another caller.
    pub(crate) fn by<T>(&mut self, caller: Caller, ask: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.caller, caller);
        let answer = ask(self);
        self.caller = before;
        answer
    }

    /// `POST /{path}`. Returns the object.
    pub(crate) fn create(&mut self, path: &str, body: Value) -> Result<Value, Fault> {
        let noun = at_path(path).unwrap();
        let (caller, report) = self.who();
        let body = json!({noun.name(): body});
        match self.change(|txn| noun.create(txn, &ChangeRequest::by(&caller, &report), &body))? {
            CreateAnswer::One(shown) => Ok(shown.into_value()),
            CreateAnswer::Many(_) => unreachable!("one was asked for"),
        }
    }

    /// `PUT /{path}/{id}`. Returns the object.
    pub(crate) fn update(&mut self, path: &str, id: impl ToString, body: Value) -> Result<Value, Fault> {
        let noun = at_path(path).unwrap();
        let (caller, report) = self.who();
        let body = json!({noun.name(): body});
        let id = id.to_string();
        self.change(|txn| noun.update(txn, &ChangeRequest::by(&caller, &report), &id, &body))
            .map(|it| it.into_value())
    }

    /// `DELETE /{path}/{id}`.
    pub(crate) fn delete(&mut self, path: &str, id: impl ToString) -> Result<(), Fault> {
        let noun = at_path(path).unwrap();
        let (caller, report) = self.who();
        let id = id.to_string();
        self.change(|txn| noun.delete(txn, &ChangeRequest::by(&caller, &report), &id))
    }

    /// `GET /{path}/{id}`.
    pub(crate) fn show(&self, path: &str, id: impl ToString) -> Result<Value, Fault> {
        at_path(path).unwrap().show(&self.scene(), &id.to_string(), &[]).map(|it| it.into_value())
    }

    /// Runs an action of an object, given its method and the path after the id, such as `PUT add_router_interface`.
    pub(crate) fn act(
        &mut self,
        path: &str,
        id: impl ToString,
        action: &str,
        body: Value,
    ) -> Result<Value, Fault> {
        let noun = at_path(path).unwrap();
        let (method, rest) = action.split_once(' ').unwrap();
        let rest: Vec<&str> = rest.split('/').collect();
        let found = noun
            .actions()
            .iter()
            .filter(|action| action.method.as_str() == method)
            .find_map(|action| Some((action, action.matches(&rest)?)));
        let (action, args) = found.unwrap();
        let id = id.to_string();
        let asked = ActionRequest { id: &id, args: &args, body: &body, query: &[] };
        let (reply, object) = match action.act {
            Act::Read(_) => (noun.look(&self.scene(), action, asked)?, None),
            Act::Change(_) => {
                let (caller, report) = self.who();
                self.change(|txn| noun.act(txn, &ChangeRequest::by(&caller, &report), action, asked))?
            }
        };
        Ok(match (reply, object) {
            (Reply::Object, Some(object)) => object.into_value(),
            (Reply::Value(value), _) => value,
            _ => Value::Null,
        })
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            world: &self.world,
            report: &self.report,
            outside: &self.outside,
            caller: &self.caller,
            now: jiff::Timestamp::UNIX_EPOCH,
            parent: None,
        }
    }

    /// Creates a router without gateways and interfaces.
    pub(crate) fn router(&mut self) -> Uuid {
        let shown = self.create("routers", json!({"name": "r"})).unwrap();
        shown["id"].as_str().unwrap().parse().unwrap()
    }

    /// Runs one of the three sub-methods for gateways. Returns the router.
    pub(crate) fn gateways(&mut self, verb: &str, router: Uuid, gateways: Value) -> Result<Value, Fault> {
        let body = json!({"router": {"external_gateways": gateways}});
        self.act("routers", router, &format!("PUT {verb}_external_gateways"), body)
    }

    /// Creates a router with gateways on networks.
    pub(crate) fn router_on(&mut self, networks: &[u128]) -> Uuid {
        let router = self.router();
        let gateways = networks.iter().map(|network| json!({"network_id": id(*network)})).collect();
        self.gateways("add", router, gateways).unwrap();
        router
    }

    /// The gateway ports of a router, the compatibility gateway first.
    pub(crate) fn gateway_ports(&self, router: Uuid) -> Vec<Port> {
        let router = self.world.get::<Router>(&router).unwrap();
        crate::resource::gateway::of_router(&self.world, router)
            .into_iter()
            .map(|port| Port::clone(port))
            .collect()
    }

    /// Attaches a subnet to a router.
    pub(crate) fn attach(&mut self, router: Uuid, subnet: u128) -> Result<Value, Fault> {
        self.act("routers", router, "PUT add_router_interface", json!({"subnet_id": id(subnet)}))
    }

    /// Creates a port of project `p` on a network.
    pub(crate) fn port(&mut self, network: u128, addresses: &[&str]) -> Uuid {
        use crate::resource::ipam::FixedIpRequest;
        use crate::resource::port::{Internal, create_internal};
        let fixed = |text: &&str| FixedIpRequest { subnet_id: None, ip_address: Some(text.parse().unwrap()) };
        let internal = Internal {
            project: "p".into(),
            fixed_ips: Some(addresses.iter().map(fixed).collect()),
            ..Internal::on(id(network))
        };
        self.change(|txn| create_internal(txn, internal)).unwrap().id
    }
}

/// An external network.
pub(crate) fn external(n: u128, physical: &str) -> Network {
    let mut network = network(n, "admin");
    network.external = true;
    network.segment.network_type = NetworkType::Flat;
    network.segment.physical_network = Some(physical.into());
    network.segment.segmentation_id = None;
    network.mtu = 1500;
    network
}

/// A gateway chassis that carries both physical networks.
pub(crate) fn chassis(name: &str) -> Chassis {
    Chassis {
        name: name.into(),
        hostname: format!("host-{name}"),
        gateway: true,
        physical_networks: ["phy1".into(), "phy2".into()].into(),
        alive: true,
        ..Chassis::default()
    }
}

/// The JSON of a gateway on a network with addresses.
pub(crate) fn gateway(network: u128, addresses: &[&str]) -> Value {
    let fixed: Vec<Value> = addresses.iter().map(|address| json!({"ip_address": address})).collect();
    json!({"network_id": id(network), "external_fixed_ips": fixed})
}

/// Checks the status and type of a fault. Returns its message.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Fault>, status: u16, kind: &str) -> String {
    let fault = answer.unwrap_err();
    assert_eq!((fault.status, fault.kind), (status, kind), "{fault}");
    fault.message
}
