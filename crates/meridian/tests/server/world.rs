//! The cloud of most scenarios: external networks N1 and N2 with their subnets, chassis, and a router. The functions here wait until the
//! Northbound has their change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::{Answer, Cloud, eventually};
use crate::journal::Journal;

/// The chassis of most scenarios.
const CHASSIS: [&str; 3] = ["ch1", "ch2", "ch3"];

/// N1 on phy1 with S1 192.0.2.0/24, N2 on phy2 with S2 198.51.100.0/24, chassis that carry both, and a router R.
pub(crate) struct World {
    pub(crate) cloud: Cloud,
    pub(crate) n1: String,
    pub(crate) n2: String,
    pub(crate) s1: String,
    pub(crate) s2: String,
    pub(crate) router: String,
}

/// The id of an object.
#[track_caller]
pub(crate) fn id(object: &Value) -> String {
    object["id"].as_str().unwrap_or_else(|| panic!("no id: {object}")).to_owned()
}

/// The values of a member of rows, which each row must have.
#[track_caller]
pub(crate) fn each<'a>(rows: &'a [Value], member: &str) -> BTreeSet<&'a str> {
    let text = |row: &'a Value| row[member].as_str().unwrap_or_else(|| panic!("no {member}: {row}"));
    rows.iter().map(text).collect()
}

/// The members of a set of strings as ovn-nbctl prints it: a single member is no array.
pub(crate) fn members(set: &Value) -> BTreeSet<&str> {
    match set {
        Value::Array(members) => members.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

impl World {
    /// A world with three chassis and a router with these attributes.
    pub(crate) fn new(router: Value) -> World {
        Self::on(Cloud::start(), &CHASSIS, router)
    }

    /// A world on a given server with given chassis.
    pub(crate) fn on(cloud: Cloud, chassis: &[&str], router: Value) -> World {
        for name in chassis {
            let options = format!("enable-chassis-as-gw,availability-zones=az-{name}");
            cloud.chassis(name, &["phy1", "phy2"], &options);
        }
        let (n1, s1) = external(&cloud, "1", "phy1", "192.0.2.0/24");
        let (n2, s2) = external(&cloud, "2", "phy2", "198.51.100.0/24");
        // The zones come from the scheduler's view of the chassis.
        eventually("the chassis are known", || {
            let zones = cloud.get("availability_zones");
            (zones["availability_zones"].as_array()?.len() == chassis.len()).then_some(())
        });
        let mut world = World { cloud, n1, n2, s1, s2, router: String::new() };
        world.router = id(&world.create("routers", "router", router));
        world
    }

    /// Creates another external network; returns its id and its subnet's.
    pub(crate) fn external(&self, number: &str, physical: &str, cidr: &str) -> (String, String) {
        external(&self.cloud, number, physical, cidr)
    }

    /// The path of the router.
    pub(crate) fn path(&self) -> String {
        format!("routers/{}", self.router)
    }

    /// The router from the API.
    #[track_caller]
    pub(crate) fn shown(&self) -> Value {
        self.cloud.get(&self.path())["router"].clone()
    }

    /// Creates an object, and waits until OVN has it.
    #[track_caller]
    pub(crate) fn create(&self, path: &str, noun: &str, attributes: Value) -> Value {
        let answer = self.cloud.settle("POST", path, Some(json!({ noun: attributes })));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body[noun].clone()
    }

    /// Changes an object, and waits until OVN has the change.
    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: Value) -> Value {
        let answer = self.cloud.settle("PUT", path, Some(body));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Deletes an object, and waits until OVN has removed it.
    #[track_caller]
    pub(crate) fn delete(&self, path: &str) {
        let answer = self.cloud.settle("DELETE", path, None);
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// Changes the router.
    #[track_caller]
    pub(crate) fn set(&self, attributes: Value) -> Value {
        self.put(&self.path(), json!({ "router": attributes }))["router"].clone()
    }

    /// Changes the router's gateways with `add`, `update` or `remove`.
    #[track_caller]
    pub(crate) fn gateways(&self, method: &str, elements: Value) -> Value {
        let answer = self.ask_gateways(method, elements);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["router"].clone()
    }

    /// Like `gateways` for a request that must be rejected: returns the status, type and message. The router must be unchanged.
    #[track_caller]
    pub(crate) fn refused_gateways(&self, method: &str, elements: Value) -> (u16, String, String) {
        let before = self.shown();
        let refusal = self.ask_gateways(method, elements).refusal();
        assert_eq!(self.shown(), before, "nothing has changed");
        refusal
    }

    fn ask_gateways(&self, method: &str, elements: Value) -> Answer {
        let path = format!("{}/{method}_external_gateways", self.path());
        self.cloud.settle("PUT", &path, Some(json!({"router": {"external_gateways": elements}})))
    }

    /// Waits for this number of default routes; returns them.
    #[track_caller]
    pub(crate) fn routes(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} default routes"), || {
            let routes = self.cloud.rows("Logical_Router_Static_Route");
            (routes.len() == count).then_some(routes)
        })
    }

    /// The API's port with this address.
    #[track_caller]
    pub(crate) fn port_at(&self, address: &str) -> Value {
        let found = self.cloud.get(&format!("ports?fixed_ips=ip_address={address}"));
        let ports = found["ports"].as_array().unwrap();
        assert_eq!(ports.len(), 1, "{address}: {found}");
        ports[0].clone()
    }

    /// The ids of the gateway ports, in the order of the router's list.
    #[track_caller]
    pub(crate) fn gateway_ports(&self) -> Vec<String> {
        addresses(&self.shown()).iter().map(|address| id(&self.port_at(address))).collect()
    }

    /// The Logical_Router_Port of an API port.
    #[track_caller]
    pub(crate) fn router_port(&self, port: &str) -> Value {
        let rows = self.cloud.rows("Logical_Router_Port");
        let found = rows.iter().find(|row| row["name"] == format!("lrp-{port}"));
        found.unwrap_or_else(|| panic!("no lrp-{port} in {rows:?}")).clone()
    }

    /// Creates an internal network with one subnet; returns the ids of both.
    #[track_caller]
    pub(crate) fn internal(&self, name: &str, cidr: &str) -> (String, String) {
        let network = id(&self.create("networks", "network", json!({ "name": name })));
        let subnet =
            json!({"name": format!("{name}-subnet"), "network_id": network, "ip_version": 4, "cidr": cidr});
        (network, id(&self.create("subnets", "subnet", subnet)))
    }

    /// Connects the router to a subnet; returns the port's id.
    #[track_caller]
    pub(crate) fn connect(&self, subnet: &str) -> String {
        let path = format!("{}/add_router_interface", self.path());
        self.put(&path, json!({ "subnet_id": subnet }))["port_id"].as_str().unwrap().to_owned()
    }

    /// Creates an instance's port on an internal network behind the router; returns its id.
    #[track_caller]
    pub(crate) fn instance(&self, name: &str, cidr: &str) -> String {
        let (network, subnet) = self.internal(name, cidr);
        self.connect(&subnet);
        id(&self.create("ports", "port", json!({"network_id": network, "name": "instance"})))
    }

    /// Creates a floating IP of a network for a port.
    #[track_caller]
    pub(crate) fn floating_ip(&self, network: &str, port: &str) -> Value {
        let attributes = json!({"floating_network_id": network, "port_id": port});
        self.create("floatingips", "floatingip", attributes)
    }

    /// A journal of everything that is written to the Northbound from now on.
    pub(crate) fn journal(&self) -> Journal {
        Journal::of(&self.cloud)
    }

    /// The chassis of a gateway port's group, sorted by descending priority.
    #[track_caller]
    pub(crate) fn chassis_of(&self, port: &str) -> Vec<(i64, String)> {
        let groups = self.cloud.rows("HA_Chassis_Group");
        let name = format!("neutron-lrp-{port}");
        let group = groups.iter().find(|group| group["name"] == name);
        let members = members(&group.unwrap_or_else(|| panic!("no {name} in {groups:?}"))["ha_chassis"]);
        let rows = self.cloud.rows("HA_Chassis");
        let mut chassis: Vec<(i64, String)> = rows
            .iter()
            .filter(|row| members.contains(row["_uuid"].as_str().unwrap()))
            .map(|row| (row["priority"].as_i64().unwrap(), row["chassis_name"].as_str().unwrap().to_owned()))
            .collect();
        chassis.sort_unstable();
        chassis.reverse();
        chassis
    }

    /// Asserts that OVN has no rows of gateways.
    #[track_caller]
    pub(crate) fn assert_no_gateway_is_left(&self) {
        let left: Vec<_> = self.cloud.rows("Logical_Router_Port");
        assert!(left.iter().all(|port| port["external_ids"]["neutron:is_ext_gw"] != "True"), "{left:?}");
        for table in ["HA_Chassis_Group", "HA_Chassis", "BFD", "NAT", "Logical_Router_Static_Route"] {
            assert_eq!(self.cloud.rows(table), [] as [Value; 0], "{table}");
        }
        let switches = self.cloud.rows("Logical_Switch_Port");
        let gateways = switches
            .iter()
            .filter(|port| port["external_ids"]["neutron:device_owner"] == "network:router_gateway");
        assert_eq!(gateways.count(), 0, "{switches:?}");
    }
}

/// The addresses of a router's gateways, in the order of the router's list.
#[track_caller]
pub(crate) fn addresses(router: &Value) -> Vec<&str> {
    let gateways = router["external_gateways"].as_array().unwrap();
    gateways.iter().map(|it| it["external_fixed_ips"][0]["ip_address"].as_str().unwrap()).collect()
}

/// Creates an external network with its subnet; returns the ids of both.
pub(crate) fn external(cloud: &Cloud, number: &str, physical: &str, cidr: &str) -> (String, String) {
    let network = cloud.create(
        "networks",
        "network",
        json!({"name": format!("N{number}"), "router:external": true, "provider:network_type": "flat",
               "provider:physical_network": physical}),
    );
    let subnet = cloud.create(
        "subnets",
        "subnet",
        json!({"name": format!("S{number}"), "network_id": network["id"], "ip_version": 4, "cidr": cidr}),
    );
    (id(&network), id(&subnet))
}
