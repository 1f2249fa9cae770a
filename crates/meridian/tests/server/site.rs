//! A cloud with two external networks, given chassis and any number of routers, for scenarios about the chassis of gateways and about
//! restarting servers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cloud::{Cloud, eventually};
use crate::world::{external, id, members};

/// The options of a gateway-capable chassis.
pub(crate) const GATEWAY: &str = "enable-chassis-as-gw";

/// External networks N1 on phy1 and N2 on phy2, with subnets 192.0.2.0/24 and 198.51.100.0/24.
pub(crate) struct Site {
    pub(crate) cloud: Cloud,
    pub(crate) n1: String,
    pub(crate) n2: String,
}

/// The chassis of a gateway's group with their priorities, sorted by descending priority.
pub(crate) type Group = Vec<(String, i64)>;

impl Site {
    /// A site on a server, with chassis as (name, physical networks, options).
    pub(crate) fn new(cloud: Cloud, chassis: &[(&str, &[&str], &str)]) -> Site {
        for (name, physical, options) in chassis {
            cloud.chassis(name, physical, options);
        }
        // The default quota is meant for one of many projects.
        let limits =
            json!({"quota": {"router": -1, "port": -1, "floatingip": -1, "network": -1, "subnet": -1}});
        cloud.put("quotas/fake_project_id", limits);
        let (n1, _) = external(&cloud, "1", "phy1", "192.0.2.0/24");
        let (n2, _) = external(&cloud, "2", "phy2", "198.51.100.0/24");
        let site = Site { cloud, n1, n2 };
        site.knows(&chassis.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        site
    }

    /// A site with three chassis that have both physical networks.
    pub(crate) fn with_three(cloud: Cloud) -> Site {
        let both: &[&str] = &["phy1", "phy2"];
        Self::new(cloud, &[("ch1", both, GATEWAY), ("ch2", both, GATEWAY), ("ch3", both, GATEWAY)])
    }

    /// Waits until the server reports exactly these chassis.
    #[track_caller]
    pub(crate) fn knows(&self, names: &[&str]) {
        eventually("the chassis are known", || {
            let fleet = self.cloud.status()["network"]["chassis"].clone();
            let known: BTreeSet<&str> =
                fleet.as_array()?.iter().filter_map(|it| it["name"].as_str()).collect();
            names.iter().all(|name| known.contains(name)).then_some(())
        });
    }

    /// A router with a gateway on each of these networks.
    #[track_caller]
    pub(crate) fn router(&self, attributes: Value, networks: &[&str]) -> String {
        let router = id(&self.cloud.create("routers", "router", attributes));
        if !networks.is_empty() {
            self.gateways(
                "add",
                &router,
                networks.iter().map(|network| json!({"network_id": network})).collect(),
            );
        }
        router
    }

    /// Changes a router's gateways and waits until the Northbound has them; returns the router.
    #[track_caller]
    pub(crate) fn gateways(&self, method: &str, router: &str, elements: Value) -> Value {
        let path = format!("routers/{router}/{method}_external_gateways?wait=ovn");
        self.cloud.put(&path, json!({"router": {"external_gateways": elements}}))["router"].clone()
    }

    /// The gateway ports of a router, the compatibility gateway first. They are found by the addresses in the router.
    #[track_caller]
    pub(crate) fn gateway_ports(&self, router: &str) -> Vec<Value> {
        let shown = self.cloud.get(&format!("routers/{router}"))["router"].clone();
        let filter = format!("ports?device_id={router}&device_owner=network:router_gateway");
        let ports = self.cloud.get(&filter)["ports"].as_array().unwrap().clone();
        let of = |gateway: &Value| {
            let ip = &gateway["external_fixed_ips"][0]["ip_address"];
            ports.iter().find(|port| port["fixed_ips"][0]["ip_address"] == *ip).unwrap().clone()
        };
        shown["external_gateways"].as_array().unwrap().iter().map(of).collect()
    }

    /// The groups of all gateway ports, by port.
    #[track_caller]
    pub(crate) fn groups(&self) -> BTreeMap<String, Group> {
        self.groups_once("the groups can be read", |_| true)
    }

    /// The groups of all gateway ports; `None` if they changed between the two reads.
    fn groups_now(&self) -> Option<BTreeMap<String, Group>> {
        let groups = self.cloud.rows("HA_Chassis_Group");
        let chassis: BTreeMap<String, (String, i64)> = self
            .cloud
            .rows("HA_Chassis")
            .into_iter()
            .map(|row| {
                let name = row["chassis_name"].as_str().unwrap().to_owned();
                (row["_uuid"].as_str().unwrap().to_owned(), (name, row["priority"].as_i64().unwrap()))
            })
            .collect();
        let groups = groups.iter().map(|row| {
            let port = row["name"].as_str().unwrap().strip_prefix("neutron-lrp-").unwrap().to_owned();
            let group = members(&row["ha_chassis"]).into_iter().map(|uuid| chassis.get(uuid).cloned());
            let mut group: Group = group.collect::<Option<_>>()?;
            group.sort_by_key(|(_, priority)| -priority);
            Some((port, group))
        });
        groups.collect()
    }

    /// Waits until the groups are as expected; returns them.
    #[track_caller]
    pub(crate) fn groups_once(
        &self,
        what: &str,
        is: impl Fn(&BTreeMap<String, Group>) -> bool,
    ) -> BTreeMap<String, Group> {
        eventually(what, || self.groups_now().filter(&is))
    }

    /// Binds the gateway of a port to a chassis, as ovn-controller would.
    #[track_caller]
    pub(crate) fn bind(&self, port: &str, chassis: &str) {
        eventually("northd has made the binding", || {
            let bindings = self.cloud.southbound("Port_Binding");
            bindings.iter().any(|row| row["logical_port"] == format!("cr-lrp-{port}")).then_some(())
        });
        self.cloud.sbctl(&format!("lsp-bind cr-lrp-{port} {chassis}"));
    }
}

/// Creates a network with a subnet; returns both ids.
pub(crate) fn internal(cloud: &Cloud, name: &str, cidr: &str) -> (String, String) {
    let network = cloud.create("networks", "network", json!({"name": name}));
    let subnet = json!({"network_id": network["id"], "ip_version": 4, "cidr": cidr});
    (id(&network), id(&cloud.create("subnets", "subnet", subnet)))
}

/// The chassis that hosts the gateway.
pub(crate) fn primary(group: &Group) -> &str {
    &group[0].0
}
