//! Routers with several gateways, created over the network API: `meridian server` on a node writes the Northbound, two border routers with
//! FRR's bfdd connect to the same external network, and packets show which path they took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::Node;
use lab::node::controller::Controller;
use lab::{Lab, Test, Topology, chassis, eventually};
use ovn::nb::{BfdStatus, LogicalRouterPort};
use ovsdb::Ref;
use serde_json::{Value, json};

use crate::bfd::session;

pub(crate) fn tests() -> Vec<Test> {
    let test = |name, sentence, run| Test::new(name, sentence, &[], run).meridian();
    vec![
        test(
            "multihoming::scenario_60_flows_use_the_gateways_that_live",
            "a router made over the API spreads flows over two gateways on two chassis; a border router that dies takes none of the new ones, and gets its share when it is back",
            borders_come_and_go,
        ),
        test(
            "multihoming::scenario_57_renaming_a_router_loses_nothing",
            "a router is renamed a hundred times while packets pass both of its gateways: none is lost, no router port is made anew",
            renamed,
        ),
    ]
}

/// The time limit of waits on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// The address of the API on its own node.
const API: &str = "127.0.0.1:9696";
/// The server that both borders lead to.
pub(crate) const OUTSIDE: &str = "203.0.113.1:80";
/// The VM's address, behind the router.
const VM: &str = "10.0.0.10/24";
const VM_MAC: &str = "02:00:00:00:00:10";

/// An external network, its border router and the router's address there.
pub(crate) struct Uplink {
    border: &'static str,
    pub(crate) physnet: &'static str,
    pub(crate) cidr: &'static str,
    pub(crate) border_ip: &'static str,
    pub(crate) router_ip: &'static str,
}

pub(crate) const UPLINKS: [Uplink; 2] = [
    Uplink {
        border: "border1",
        physnet: "phy1",
        cidr: "192.0.2.0/24",
        border_ip: "192.0.2.1",
        router_ip: "192.0.2.100",
    },
    Uplink {
        border: "border2",
        physnet: "phy2",
        cidr: "198.51.100.0/24",
        border_ip: "198.51.100.1",
        router_ip: "198.51.100.100",
    },
];

impl Uplink {
    /// The border's side of the session; the other side has OVN's defaults, a packet each second.
    pub(crate) fn bfd(&self) -> String {
        format!(
            "bfd\n peer {} interface eth0\n  detect-multiplier 5\n  no shutdown\n exit\nexit\n",
            self.router_ip
        )
    }

    /// Adds the route back to the VM.
    pub(crate) fn route_back(&self, border: &Node) -> Result<()> {
        border.route("10.0.0.0/24".parse()?, self.router_ip.parse()?)
    }

    /// A router outside, which has the server behind both uplinks.
    pub(crate) fn start(&self, lab: &Lab) -> Result<Arc<Node>> {
        let border = lab.external(self.border, self.physnet, &[&format!("{}/24", self.border_ip)])?;
        border.address("lo", "203.0.113.1/32".parse()?)?;
        self.route_back(&border)?;
        border.frr(&["bfdd"], &self.bfd())?;
        border.serve(80)?;
        Ok(border)
    }
}

/// Two chassis with bridges to both physical networks, and one for VMs alone.
pub(crate) fn topology() -> Topology {
    let gateway = |name: &str| {
        chassis(name)
            .wired("phy1", "br-ex1")
            .wired("phy2", "br-ex2")
            .setting("ovn-cms-options", "enable-chassis-as-gw")
    };
    Topology::new().central("az1").chassis(gateway("hv1")).chassis(gateway("hv2")).chassis(chassis("hv3"))
}

/// A cloud with one router on both uplinks.
struct Cloud {
    api: Controller,
    router: String,
    vm: Arc<Node>,
    borders: [Arc<Node>; 2],
}

impl Cloud {
    fn start(lab: &Lab) -> Result<Cloud> {
        let (az1, api) = (lab.central("az1")?, lab.controller("api")?);
        let data = api.dir().join("data").display().to_string();
        let nb = ["--nb", "tcp:10.10.0.100:6641", "--sb", "tcp:10.10.0.100:6642"];
        api.meridian(
            "server",
            &[&["server", "--auth", "none", "--listen", API, "--data-dir", &data][..], &nb].concat(),
        )?;
        eventually(LONG, "the API knows both gateway chassis", || {
            let agents = call(&api, "GET", "agents", &Value::Null)?;
            let agents = agents["agents"].as_array().context("no list")?;
            let gateways =
                agents.iter().filter(|agent| agent["agent_type"] == "OVN Controller Gateway agent");
            ensure!(gateways.count() == 2, "it knows {agents:?}");
            Ok(())
        })?;
        let create = |noun: &str, body: Value| -> Result<String> {
            let made = call(&api, "POST", &format!("{noun}s"), &json!({noun: body}))?;
            Ok(made[noun]["id"].as_str().context("no id")?.to_owned())
        };
        let mut gateways = Vec::new();
        for uplink in &UPLINKS {
            let network = create(
                "network",
                json!({"router:external": true, "provider:network_type": "flat",
                       "provider:physical_network": uplink.physnet}),
            )?;
            create(
                "subnet",
                json!({"network_id": network, "ip_version": 4, "cidr": uplink.cidr, "enable_dhcp": false}),
            )?;
            gateways.push(json!({"network_id": network, "enable_snat": false,
                                 "external_fixed_ips": [{"ip_address": uplink.router_ip}]}));
        }
        let router = create(
            "router",
            json!({"name": "edge", "enable_default_route_ecmp": true, "enable_default_route_bfd": true}),
        )?;
        let put = |action: &str, body: Value| call(&api, "PUT", &format!("routers/{router}/{action}"), &body);
        put("add_external_gateways", json!({"router": {"external_gateways": gateways}}))?;
        let network = create("network", json!({"name": "tenants"}))?;
        let subnet =
            create("subnet", json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"}))?;
        put("add_router_interface", json!({"subnet_id": subnet}))?;
        let port = create(
            "port",
            json!({"network_id": network, "mac_address": VM_MAC,
                   "fixed_ips": [{"ip_address": VM.trim_end_matches("/24")}]}),
        )?;
        let vm = lab.vm("vm").port(&port).on("hv3").mac(VM_MAC).ip(VM).gateway("10.0.0.1").plug()?;
        let borders = [UPLINKS[0].start(lab)?, UPLINKS[1].start(lab)?];
        az1.ready(&[&port])?;
        Ok(Cloud { api, router, vm, borders })
    }

    /// Waits until the API reports these BFD states of both gateways, in the order of the uplinks, and their routes accordingly. Returns
    /// the chassis of the gateways.
    fn says(&self, sessions: [&str; 2]) -> Result<BTreeSet<String>> {
        eventually(LONG, &format!("the API says that the sessions are {}", sessions.join(" and ")), || {
            let status =
                call(&self.api, "GET", &format!("routers/{}/gateway_status", self.router), &Value::Null)?;
            let gateways = status["gateway_status"].as_array().context("no list")?;
            ensure!(gateways.len() == 2, "{status}");
            let mut on = BTreeSet::new();
            for (uplink, session) in UPLINKS.iter().zip(sessions) {
                let is = |route: &Value| route["nexthop"] == uplink.border_ip && route["bfd"] == session;
                let gateway = gateways.iter().find(|gateway| is(&gateway["routes"][0]));
                let gateway = gateway.with_context(|| status.to_string())?;
                on.insert(gateway["chassis"].as_str().context("not hosted")?.to_owned());
            }
            Ok(on)
        })
    }

    /// Opens connections to the server outside until both borders have answered, or a single one is left to answer.
    fn spread(&self, who: &[&str]) -> Result<BTreeMap<String, u32>> {
        let what = format!("new connections are answered by {}", who.join(" and "));
        eventually(LONG, &what, || {
            let mut answers = BTreeMap::new();
            for _ in 0..24 {
                *answers.entry(self.vm.asks(OUTSIDE)?.by).or_insert(0) += 1;
            }
            println!("24 connections: {answers:?}");
            ensure!(answers.keys().eq(who), "answered by {answers:?}");
            Ok(answers)
        })
    }
}

/// Sends a request to the API from its own node.
fn call(api: &Node, method: &str, path: &str, body: &Value) -> Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = api.http(method, API, &format!("/v2.0/{path}"), &body)?;
    serde_json::from_str(&answer).with_context(|| format!("{path} is answered by `{answer}`"))
}

fn borders_come_and_go() -> Result<()> {
    topology().run(|lab| {
        let cloud = Cloud::start(lab)?;
        let az1 = lab.central("az1")?;
        let [first, second] = UPLINKS;
        session(az1, first.border_ip, BfdStatus::Up)?;
        session(az1, second.border_ip, BfdStatus::Up)?;
        let on = cloud.says(["up", "up"])?;
        ensure!(on.len() == 2, "both gateways are on {on:?}");
        cloud.spread(&["border1", "border2"])?;

        println!("the first border router dies:");
        let mut train = cloud.vm.tcp_train(OUTSIDE);
        train.rolls(3)?;
        let border1 = &cloud.borders[0];
        border1.daemon("bfdd")?.kill()?;
        border1.down("eth0")?;
        session(az1, first.border_ip, BfdStatus::Down)?;
        az1.sync()?;
        cloud.says(["down", "up"])?;
        train.now();
        cloud.spread(&["border2"])?;
        train.rolls(3)?;
        println!("longest gap for new connections while it died: {:?}", train.end()?);

        println!("it comes back:");
        border1.up("eth0")?;
        // The route through the device disappeared with it.
        first.route_back(border1)?;
        border1.daemon("bfdd")?.start_again()?;
        border1.daemon("bfdd")?.ready()?;
        border1.frr_config(&first.bfd())?;
        session(az1, first.border_ip, BfdStatus::Up)?;
        cloud.says(["up", "up"])?;
        cloud.spread(&["border1", "border2"]).map(|_| ())
    })
}

fn renamed() -> Result<()> {
    topology().run(|lab| {
        let cloud = Cloud::start(lab)?;
        let az1 = lab.central("az1")?;
        let ports = || -> BTreeSet<Ref<LogicalRouterPort>> {
            az1.nb().snapshot().table::<LogicalRouterPort>().iter().map(|(row, _)| row).collect()
        };
        let before = ports();
        ensure!(before.len() == 3, "two gateways and an interface, not {}", before.len());
        // Each border is on a network of its own behind the router, reachable only through its gateway.
        let mut trains = Vec::new();
        for uplink in &UPLINKS {
            cloud.vm.reaches(uplink.border_ip)?;
            trains.push(cloud.vm.ping_train(uplink.border_ip)?);
        }
        trains.iter_mut().try_for_each(|train| train.rolls(5))?;
        for n in 0..100 {
            let body = json!({"router": {"name": format!("edge-{n}")}});
            call(&cloud.api, "PUT", &format!("routers/{}", cloud.router), &body)?;
        }
        az1.nb().until(LONG, "the last name is in the Northbound", |snapshot| {
            let mut routers = snapshot.table::<ovn::nb::LogicalRouter>().iter();
            let name = |row: &ovn::nb::LogicalRouter| row.external_ids.get("neutron:router_name").cloned();
            routers.any(|(_, row)| name(row).as_deref() == Some("edge-99")).then_some(())
        })?;
        az1.sync()?;
        for mut train in trains {
            train.now();
            train.rolls(5)?;
            let lost = train.losses()?;
            ensure!(lost == 0, "{lost} packets were lost");
        }
        ensure!(ports() == before, "router ports were made anew");
        Ok(())
    })
}
