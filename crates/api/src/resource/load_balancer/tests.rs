//! Sends requests to the engine, with a Northbound that applies changes when the test calls for it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::model::{HealthMonitor, LbProtocol, Member, Port, QuotaSet};
use crate::report::{AppliedGeneration, ProbeResult, ProbedBackend, Report};
use crate::resource::fixture::{Desk, id, network, subnet};
use crate::resource::port::Ports;
use crate::resource::{ChangeRequest, CreateAnswer, Noun, Page, RenderedObject, of};
use crate::world::{Outside, World};

mod lists;
mod monitor_ports;
mod order;
mod requests;
mod states;

const START: i64 = 1_800_000_000;

/// A world with the network 1 and its subnets 2 (10.0.0.0/24), 3 (fd00::/64), and the network 4 with subnet 5 (10.1.0.0/24).
struct Cloud {
    world: World,
    report: Report,
    outside: Outside,
    caller: Caller,
    now: i64,
    requests: u64,
}

type Refused = (u16, String);

impl Cloud {
    fn new() -> Self {
        let mut desk = Desk::new();
        desk.run(|txn| {
            txn.put(network(1, "p"));
            txn.put(network(4, "p"));
            txn.put(subnet(2, 1, "10.0.0.0/24"));
            txn.put(subnet(3, 1, "fd00::/64"));
            txn.put(subnet(5, 4, "10.1.0.0/24"));
            Ok(())
        })
        .unwrap();
        let caller = Caller::member("p");
        let report = Report::default();
        Cloud { world: desk.world, report, outside: desk.outside, caller, now: START, requests: 0 }
    }

    /// A cloud with a load balancer that the Northbound has applied.
    fn with_balancer() -> (Self, String) {
        let mut cloud = Cloud::new();
        let made = cloud.create("loadbalancers", json!({"vip_subnet_id": id(2)})).unwrap();
        cloud.apply();
        (cloud, text(&made["id"]))
    }

    /// Lets the Northbound apply all changes.
    fn apply(&mut self) {
        self.report.set_northbound_read();
        for whole in self.world.table::<LoadBalancer>().iter() {
            let generation = (!whole.deleted).then_some(whole.generation);
            self.report.set_balancer(whole.id, whole.id, generation);
        }
    }

    fn run<T>(
        &mut self,
        (parent, query): (Option<&str>, &str),
        request: impl FnOnce(&mut Txn, &ChangeRequest<'_>) -> Result<T, Fault>,
    ) -> Result<T, Refused> {
        self.requests += 1;
        let now = Timestamp::from_second(self.now).unwrap();
        let mut txn = Txn::new(self.world.clone(), now, self.requests, self.outside.clone().into());
        let query: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let by = ChangeRequest { parent, query: &query, ..ChangeRequest::by(&self.caller, &self.report) };
        let answer = request(&mut txn, &by).map_err(|fault| (fault.status, fault.message))?;
        self.world = txn.finish().0;
        Ok(answer)
    }

    fn create(&mut self, path: &str, body: Value) -> Result<Value, Refused> {
        let (parent, noun) = noun(path);
        let body = json!({noun.name(): body});
        match self.run((parent, ""), |txn, by| noun.create(txn, by, &body))? {
            CreateAnswer::One(object) => Ok(object.into_value()),
            CreateAnswer::Many(_) => panic!("one was asked for"),
        }
    }

    /// Creates an object that the Northbound then applies.
    fn make(&mut self, path: &str, body: Value) -> String {
        let made = self.create(path, body).unwrap();
        self.apply();
        text(&made["id"])
    }

    fn update(&mut self, path: &str, id: &str, body: Value) -> Result<Value, Refused> {
        let (parent, noun) = noun(path);
        let body = json!({noun.name(): body});
        self.run((parent, ""), |txn, by| noun.update(txn, by, id, &body)).map(RenderedObject::into_value)
    }

    fn delete(&mut self, path: &str, id: &str, query: &str) -> Result<(), Refused> {
        let (parent, noun) = noun(path);
        self.run((parent, query), |txn, by| noun.delete(txn, by, id))
    }

    fn replace(&mut self, path: &str, query: &str, body: Value) -> Result<(), Refused> {
        let (parent, noun) = noun(path);
        self.run((parent, query), |txn, by| noun.replace_all(txn, by, &body))
    }

    fn look<T>(&self, parent: Option<&str>, look: impl FnOnce(&Scene<'_>) -> T) -> T {
        look(&Scene {
            world: &self.world,
            report: &self.report,
            outside: &self.outside,
            caller: &self.caller,
            now: Timestamp::from_second(self.now).unwrap(),
            parent,
        })
    }

    fn show(&self, path: &str, id: &str) -> Result<Value, Refused> {
        let (parent, noun) = noun(path);
        let shown = self.look(parent, |scene| noun.show(scene, id, &[]));
        shown.map(RenderedObject::into_value).map_err(|fault| (fault.status, fault.message))
    }

    fn page(&self, path: &str, query: &str) -> Result<Page, Refused> {
        let (parent, noun) = noun(path);
        let found = noun
            .query(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
            .and_then(|query| self.look(parent, |scene| noun.list(scene, &query)));
        found.map_err(|fault| (fault.status, fault.message))
    }

    fn names(&self, path: &str, query: &str) -> Vec<String> {
        let page = self.page(path, query).unwrap();
        page.items.iter().map(|item| text(&item.into_value()["name"])).collect()
    }

    /// Both statuses of an object.
    fn states(&self, path: &str, id: &str) -> (String, String) {
        let shown = self.show(path, id).unwrap();
        (text(&shown["provisioning_status"]), text(&shown["operating_status"]))
    }

    /// Creates a port of subnet 2 with this address. Returns it as a probed backend.
    fn backend(&mut self, address: &str, protocol_port: u16) -> ProbedBackend {
        let address: std::net::IpAddr = address.parse().unwrap();
        let new = json!({"port": {"network_id": id(1), "fixed_ips": [{"ip_address": address}]}});
        let made = self.run((None, ""), |txn, by| of::<Ports>().create(txn, by, &new)).unwrap();
        let CreateAnswer::One(port) = made else { panic!("one was asked for") };
        let port_id = text(&port.into_value()["id"]).parse().unwrap();
        ProbedBackend { port_id, address, protocol_port, protocol: LbProtocol::Tcp }
    }

    fn whole(&self, id: &str) -> LoadBalancer {
        LoadBalancer::clone(self.world.get::<LoadBalancer>(&id.parse().unwrap()).unwrap())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// The noun of `pools` or of `pools/{id}/members`.
fn noun(path: &str) -> (Option<&str>, &'static dyn Noun) {
    let parts: Vec<&str> = path.split('/').collect();
    let (parent, last) = match parts.as_slice() {
        [_, parent, last] => (Some(*parent), *last),
        _ => (None, path),
    };
    (parent, *NOUNS.iter().find(|noun| noun.path() == last).expect("no such noun"))
}

fn pool(whole: &str) -> Value {
    json!({"loadbalancer_id": whole, "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT"})
}

fn listener(whole: &str, port: u16) -> Value {
    json!({"loadbalancer_id": whole, "protocol": "TCP", "protocol_port": port})
}

fn states(provisioning: &str, operating: &str) -> (String, String) {
    (provisioning.to_owned(), operating.to_owned())
}
