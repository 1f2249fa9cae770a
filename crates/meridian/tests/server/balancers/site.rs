//! Networks N1 (10.0.0.0/24) and N2 (20.0.0.0/24) on a router R1, with the requests that tests send for load balancers there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::{Answer, Cloud, eventually, raw};
use crate::world::id;

/// A server with networks for load balancers.
pub(super) struct BalancerSite {
    pub(super) cloud: Cloud,
    pub(super) n1: String,
    pub(super) s1: String,
    pub(super) n2: String,
    pub(super) s2: String,
    pub(super) r1: String,
}

impl BalancerSite {
    pub(super) fn new() -> Self {
        Self::on(Cloud::start())
    }

    pub(super) fn on(cloud: Cloud) -> Self {
        let (n1, s1) = crate::site::internal(&cloud, "N1", "10.0.0.0/24");
        let (n2, s2) = crate::site::internal(&cloud, "N2", "20.0.0.0/24");
        let r1 = id(&cloud.create("routers", "router", json!({"name": "R1"})));
        let site = Self { cloud, n1, s1, n2, s2, r1 };
        site.attach(&site.r1, &site.s1);
        site.attach(&site.r1, &site.s2);
        site
    }

    /// Gives a router an interface on a subnet.
    #[track_caller]
    pub(super) fn attach(&self, router: &str, subnet: &str) {
        self.cloud.put(&format!("routers/{router}/add_router_interface"), json!({"subnet_id": subnet}));
    }

    /// Removes the interface of a router on a subnet.
    #[track_caller]
    pub(super) fn detach(&self, router: &str, subnet: &str) {
        self.cloud.put(&format!("routers/{router}/remove_router_interface"), json!({"subnet_id": subnet}));
    }

    /// Sends one request to the load-balancer API; `path` begins below `/v2/lbaas/`.
    #[track_caller]
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let text = body.map(|body| body.to_string());
        let path = format!("/v2/lbaas/{path}");
        raw(self.cloud.load_balancer_url(), &[("X-Auth-Token", "admin")], method, &path, text.as_deref())
    }

    /// The status and message of a request that must be rejected.
    #[track_caller]
    pub(super) fn refusal(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let answer = self.ask(method, path, Some(body));
        let code = if answer.status < 500 { "Client" } else { "Server" };
        assert_eq!(answer.body["faultcode"], code, "{answer:?}");
        assert_eq!(answer.body["debuginfo"], Value::Null, "{answer:?}");
        (answer.status, answer.body["faultstring"].as_str().unwrap().to_owned())
    }

    /// Reads an object or a list.
    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// Creates an object and waits until its load balancer accepts requests again; returns the id.
    #[track_caller]
    pub(super) fn make(&self, path: &str, noun: &str, attributes: Value) -> String {
        let answer = self.ask("POST", path, Some(json!({ noun: attributes })));
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = id(&answer.body[noun]);
        self.settled();
        id
    }

    /// A load balancer with its VIP in a subnet.
    #[track_caller]
    pub(super) fn balancer(&self, name: &str, subnet: &str) -> String {
        self.make("loadbalancers", "loadbalancer", json!({"name": name, "vip_subnet_id": subnet}))
    }

    /// A TCP pool of a load balancer, with `SOURCE_IP_PORT`.
    #[track_caller]
    pub(super) fn pool(&self, name: &str, balancer: &str) -> String {
        let pool = json!({
            "name": name, "loadbalancer_id": balancer, "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT",
        });
        self.make("pools", "pool", pool)
    }

    /// A member of a pool at port 80.
    #[track_caller]
    pub(super) fn member(&self, pool: &str, address: &str, subnet: &str) -> String {
        let member = json!({"address": address, "protocol_port": 80, "subnet_id": subnet});
        self.make(&format!("pools/{pool}/members"), "member", member)
    }

    /// A TCP listener with a pool.
    #[track_caller]
    pub(super) fn listener(&self, balancer: &str, port: u16, pool: &str) -> String {
        let listener = json!({
            "loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": port, "default_pool_id": pool,
        });
        self.make("listeners", "listener", listener)
    }

    /// Changes an object and waits until its load balancer accepts requests again.
    #[track_caller]
    pub(super) fn set(&self, path: &str, body: Value) {
        let answer = self.ask("PUT", path, Some(body));
        assert!([200, 202].contains(&answer.status), "{answer:?}");
        self.settled();
    }

    /// Deletes an object and waits until it is gone.
    #[track_caller]
    pub(super) fn delete(&self, path: &str) {
        let answer = self.ask("DELETE", path, None);
        assert_eq!(answer.status, 204, "{answer:?}");
        let path = path.split('?').next().unwrap();
        eventually("it is gone", || (self.ask("GET", path, None).status == 404).then_some(()));
        self.settled();
    }

    /// Waits until no object of any load balancer is pending or failed.
    #[track_caller]
    pub(super) fn settled(&self) {
        eventually("all is ACTIVE", || self.unsettled().is_empty().then_some(()));
    }

    /// All objects that are not ACTIVE, with their states.
    #[track_caller]
    pub(super) fn unsettled(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut look = |path: &str, collection: &str| {
            for object in self.get(path)[collection].as_array().unwrap() {
                if object["provisioning_status"] != "ACTIVE" {
                    found.insert(format!("{path} {} {}", object["id"], object["provisioning_status"]));
                }
            }
        };
        for collection in ["loadbalancers", "listeners", "pools", "healthmonitors"] {
            look(collection, collection);
        }
        for pool in self.get("pools")["pools"].as_array().unwrap() {
            look(&format!("pools/{}/members", id(pool)), "members");
        }
        found
    }

    /// The Northbound rows of a load balancer; the main row comes first.
    #[track_caller]
    pub(super) fn rows(&self, balancer: &str) -> Vec<Value> {
        let mut rows = self.cloud.rows("Load_Balancer");
        rows.retain(|row| row["name"] == balancer);
        rows.sort_by_key(|row| (row["protocol"].to_string(), row["_uuid"].to_string()));
        rows
    }

    /// The only row of a load balancer.
    #[track_caller]
    pub(super) fn row(&self, balancer: &str) -> Value {
        let rows = self.rows(balancer);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.into_iter().next().unwrap()
    }

    /// The names of the load balancers of a switch or router, by the id of its network or router.
    #[track_caller]
    pub(super) fn on_row(&self, table: &str, object: &str) -> BTreeSet<String> {
        let names: Vec<(Value, String)> = self
            .cloud
            .rows("Load_Balancer")
            .into_iter()
            .map(|row| (row["_uuid"].clone(), row["name"].as_str().unwrap().to_owned()))
            .collect();
        let rows = self.cloud.rows(table);
        let row = rows.iter().find(|row| row["name"] == format!("neutron-{object}")).unwrap();
        let uuids = crate::world::members(&row["load_balancer"]);
        let name = |uuid: &str| names.iter().find(|(known, _)| known == uuid).unwrap().1.clone();
        uuids.into_iter().map(name).collect()
    }

    /// The load balancers of a network's switch.
    #[track_caller]
    pub(super) fn on_network(&self, network: &str) -> BTreeSet<String> {
        self.on_row("Logical_Switch", network)
    }

    /// The load balancers of a router.
    #[track_caller]
    pub(super) fn on_router(&self, router: &str) -> BTreeSet<String> {
        self.on_row("Logical_Router", router)
    }
}

/// A key of the external ids of a row.
pub(super) fn note<'a>(row: &'a Value, key: &str) -> &'a Value {
    &row["external_ids"][key]
}

/// The references of a load balancer to networks, as the row's external ids count them.
#[track_caller]
pub(super) fn ls_refs(row: &Value) -> Value {
    note(row, "ls_refs").as_str().map_or(json!({}), |text| serde_json::from_str(text).unwrap())
}
