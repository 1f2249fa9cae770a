//! A cloud with two tenant networks behind a router, an external host, and the APIs for load balancers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::Node;
use lab::node::controller::Controller;
use lab::probe::Answer;
use lab::{Lab, Topology, chassis, eventually};
use serde_json::{Value, json};

/// The time limit of waits on a busy machine.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// The addresses of the APIs on their own node.
const NETWORK_API: &str = "127.0.0.1:9696";
const BALANCER_API: &str = "127.0.0.1:9876";

/// The VIPs, and the floating IP of the first.
pub(super) const VIP: &str = "10.0.0.10";
pub(super) const VIP6: &str = "fd00:1::10";
pub(super) const FLOATING: &str = "172.24.4.200";
/// The router's addresses outside, and those of the host there.
const GATEWAY: &str = "172.24.4.100";
const GATEWAY6: &str = "2001:db8:4::100";
pub(super) const OUTSIDE: &str = "172.24.4.1";
pub(super) const OUTSIDE6: &str = "2001:db8:4::1";

/// A VM: its name, chassis, network (1 or 2) and last byte of its addresses.
pub(super) struct Vm(pub(super) &'static str, pub(super) &'static str, pub(super) u8, pub(super) u8);

pub(super) const MEMBERS: [Vm; 2] = [Vm("m1", "hv1", 1, 107), Vm("m2", "hv2", 2, 107)];
pub(super) const CLIENTS: [Vm; 2] = [Vm("c1", "hv2", 1, 11), Vm("c2", "hv1", 2, 11)];

impl Vm {
    /// The IPv4 address of the VM.
    pub(super) fn ip(&self) -> String {
        format!("{}0.0.0.{}", self.2, self.3)
    }

    /// The IPv6 address of the VM.
    pub(super) fn ip6(&self) -> String {
        format!("fd00:{}::{}", self.2, self.3)
    }

    fn mac(&self) -> String {
        format!("02:00:00:00:{:02x}:{:02x}", self.2, self.3)
    }
}

/// Two chassis, the first for gateways.
pub(super) fn topology() -> Topology {
    let gateway = chassis("hv1").wired("phy1", "br-ex").setting("ovn-cms-options", "enable-chassis-as-gw");
    Topology::new().central("az1").chassis(gateway).chassis(chassis("hv2"))
}

/// The cloud.
pub(super) struct Site<'l> {
    lab: &'l Lab,
    api: Controller,
    security_group: String,
    /// Network and its subnets of IPv4 and IPv6, by number from 1.
    networks: Vec<(String, String, String)>,
    external: String,
    router: String,
}

impl<'l> Site<'l> {
    /// Starts the API and creates networks and the router. The external network is on this physical network.
    pub(super) fn start(lab: &'l Lab, physnet: &str) -> Result<Site<'l>> {
        Self::start_with(lab, physnet, "")
    }

    /// Like `start`, with settings of the network API.
    pub(super) fn start_with(lab: &'l Lab, physnet: &str, settings: &str) -> Result<Site<'l>> {
        let api = lab.controller("api")?;
        let config = configure(&api, settings)?;
        let data = api.dir().join("data").display().to_string();
        let listen = ["--listen", NETWORK_API, "--lb-listen", BALANCER_API];
        let databases = ["--nb", "tcp:10.10.0.100:6641", "--sb", "tcp:10.10.0.100:6642"];
        api.meridian(
            "server",
            &[
                &["--config", &config, "server", "--auth", "none", "--data-dir", &data][..],
                &listen,
                &databases,
            ]
            .concat(),
        )?;
        let mut site = Site {
            lab,
            api,
            security_group: String::new(),
            networks: Vec::new(),
            external: String::new(),
            router: String::new(),
        };
        eventually(LONG, "the API knows a chassis for gateways", || {
            let agents = site.network("GET", "agents", &Value::Null)?;
            ensure!(agents.to_string().contains("OVN Controller Gateway agent"), "it knows {agents}");
            Ok(())
        })?;
        site.security_group = site.make("security-groups", "security_group", json!({"name": "open"}))?;
        for family in ["IPv4", "IPv6"] {
            let group = &site.security_group;
            let rule = json!({"security_group_id": group, "direction": "ingress", "ethertype": family});
            site.make("security-group-rules", "security_group_rule", rule)?;
        }
        site.external = site.make(
            "networks",
            "network",
            json!({"router:external": true, "provider:network_type": "flat", "provider:physical_network": physnet}),
        )?;
        let subnet = |network: &str, cidr: &str, gateway: &str| {
            let version = if cidr.contains(':') { 6 } else { 4 };
            let subnet = json!({
                "network_id": network, "ip_version": version, "cidr": cidr, "gateway_ip": gateway, "enable_dhcp": false,
            });
            site.make("subnets", "subnet", subnet)
        };
        subnet(&site.external, "172.24.4.0/24", OUTSIDE)?;
        subnet(&site.external, "2001:db8:4::/64", OUTSIDE6)?;
        let router = site.make(
            "routers",
            "router",
            json!({"external_gateway_info": {
                "network_id": site.external, "external_fixed_ips": [{"ip_address": GATEWAY}, {"ip_address": GATEWAY6}],
            }}),
        )?;
        let mut networks = Vec::new();
        for n in 1..=2 {
            let network = site.make("networks", "network", json!({}))?;
            let v4 = subnet(&network, &format!("{n}0.0.0.0/24"), &format!("{n}0.0.0.1"))?;
            let v6 = subnet(&network, &format!("fd00:{n}::/64"), &format!("fd00:{n}::1"))?;
            for subnet in [&v4, &v6] {
                let path = format!("routers/{router}/add_router_interface");
                site.network("PUT", &path, &json!({"subnet_id": subnet}))?;
            }
            networks.push((network, v4, v6));
        }
        site.networks = networks;
        site.router = router;
        Ok(site)
    }

    /// Starts the server again with other settings of the network API.
    pub(super) fn restart_with(&self, settings: &str) -> Result<()> {
        configure(&self.api, settings)?;
        let server = self.api.daemon("server")?;
        server.stop(LONG)?;
        server.start_again()
    }

    /// Permits traffic to VMs from this prefix only.
    pub(super) fn admit_only(&self, prefix: &str) -> Result<()> {
        let path =
            format!("security-group-rules?direction=ingress&security_group_id={}", self.security_group);
        let rules = self.network("GET", &path, &Value::Null)?;
        for rule in rules["security_group_rules"].as_array().into_iter().flatten() {
            let path = format!("security-group-rules/{}", rule["id"].as_str().unwrap_or_default());
            self.network("DELETE", &path, &Value::Null)?;
        }
        let rule = json!({
            "security_group_id": self.security_group, "direction": "ingress", "ethertype": "IPv4", "remote_ip_prefix": prefix,
        });
        self.make("security-group-rules", "security_group_rule", rule).map(drop)
    }

    /// A second gateway of the router, on another external network, and a host there that routes tenant networks to it.
    pub(super) fn second_outside(&self, physnet: &str) -> Result<Arc<Node>> {
        let flat = json!({"router:external": true, "provider:network_type": "flat", "provider:physical_network": physnet});
        let network = self.make("networks", "network", flat)?;
        let subnet = json!({
            "network_id": network, "ip_version": 4, "cidr": "198.51.100.0/24", "gateway_ip": "198.51.100.1", "enable_dhcp": false,
        });
        self.make("subnets", "subnet", subnet)?;
        let gateway =
            json!({"network_id": network, "external_fixed_ips": [{"ip_address": "198.51.100.100"}]});
        let body = json!({"router": {"external_gateways": [gateway]}});
        self.network("PUT", &format!("routers/{}/add_external_gateways", self.router), &body)?;
        let ext = self.lab.external("ext2", physnet, &["198.51.100.1/24"])?;
        ext.route("10.0.0.0/24".parse()?, "198.51.100.100".parse()?)?;
        Ok(ext)
    }

    /// The host outside, which routes tenant networks to the router.
    pub(super) fn outside(&self) -> Result<Arc<Node>> {
        let addresses = [format!("{OUTSIDE}/24"), format!("{OUTSIDE6}/64")];
        let ext = self.lab.external("ext", "phy1", &addresses.each_ref().map(String::as_str))?;
        ext.route("10.0.0.0/24".parse()?, GATEWAY.parse()?)?;
        ext.route("fd00:1::/64".parse()?, GATEWAY6.parse()?)?;
        Ok(ext)
    }

    /// Plugs VMs in and waits until OVN has them.
    pub(super) fn plug(&self, vms: &[Vm]) -> Result<Vec<Arc<Node>>> {
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for vm in vms {
            let (network, v4, v6) = &self.networks[usize::from(vm.2) - 1];
            let port = json!({
                "network_id": network, "mac_address": vm.mac(), "security_groups": [self.security_group],
                "fixed_ips": [{"subnet_id": v4, "ip_address": vm.ip()}, {"subnet_id": v6, "ip_address": vm.ip6()}],
            });
            let port = self.make("ports", "port", port)?;
            let spec = self.lab.vm(vm.0).port(&port).on(vm.1).mac(&vm.mac());
            let spec = spec.ip(&format!("{}/24", vm.ip())).ip(&format!("{}/64", vm.ip6()));
            nodes.push(
                spec.gateway(&format!("{}0.0.0.1", vm.2)).gateway(&format!("fd00:{}::1", vm.2)).plug()?,
            );
            ports.push(port);
        }
        let names: Vec<&str> = ports.iter().map(String::as_str).collect();
        self.lab.central("az1")?.ready(&names)?;
        Ok(nodes)
    }

    /// Creates a load balancer with both VIPs and these listeners, whose pools are part of the request. Returns its id when OVN has it.
    pub(super) fn balancer(&self, listeners: Value) -> Result<String> {
        let (_, v4, v6) = &self.networks[0];
        let new = json!({
            "vip_subnet_id": v4, "vip_address": VIP, "listeners": listeners,
            "additional_vips": [{"subnet_id": v6, "ip_address": VIP6}],
        });
        let made = self.load_balancing("POST", "loadbalancers", &json!({"loadbalancer": new}))?;
        let id = made["loadbalancer"]["id"].as_str().context("no id")?.to_owned();
        self.applied(&id)?;
        Ok(id)
    }

    /// A listener whose pool has these members, each with attributes of its own, for both IP versions.
    pub(super) fn listener(&self, protocol: &str, port: u16, more: Value, members: &[(&Vm, Value)]) -> Value {
        let mut all = Vec::new();
        for (vm, attributes) in members {
            let (_, v4, v6) = &self.networks[usize::from(vm.2) - 1];
            for (address, subnet) in [(vm.ip(), v4), (vm.ip6(), v6)] {
                let member =
                    json!({"address": address, "protocol_port": port, "subnet_id": subnet, "name": vm.0});
                all.push(merged(member, attributes));
            }
        }
        let pool = json!({
            "name": format!("{protocol}{port}"), "protocol": protocol, "lb_algorithm": "SOURCE_IP_PORT", "members": all,
        });
        let listener = json!({
            "name": format!("{protocol}{port}"), "protocol": protocol, "protocol_port": port,
            "default_pool": merged(pool, &more["pool"]),
        });
        merged(listener, &more["listener"])
    }

    /// A floating IP for the first VIP.
    pub(super) fn floating_ip(&self, balancer: &str) -> Result<()> {
        let shown = self.load_balancing("GET", &format!("loadbalancers/{balancer}"), &Value::Null)?;
        let new = json!({
            "floating_network_id": self.external, "floating_ip_address": FLOATING,
            "port_id": shown["loadbalancer"]["vip_port_id"],
        });
        self.make("floatingips", "floatingip", new).map(drop)
    }

    /// Adds IPv6 addresses of its network to a VM.
    pub(super) fn add_addresses(&self, vm: &Vm, node: &Node, addresses: &[String]) -> Result<()> {
        for address in addresses {
            node.address("eth0", format!("{address}/64").parse()?)?;
        }
        let ports = self.network("GET", &format!("ports?mac_address={}", vm.mac()), &Value::Null)?;
        let path = format!("ports/{}", ports["ports"][0]["id"].as_str().unwrap_or_default());
        let pairs = json!([{"ip_address": format!("fd00:{}::/64", vm.2)}]);
        self.network("PUT", &path, &json!({"port": {"allowed_address_pairs": pairs}}))?;
        self.lab.central("az1")?.sync()
    }

    /// A floating IP for a VM.
    pub(super) fn floating_ip_of(&self, vm: &Vm, address: &str) -> Result<()> {
        let ports = self.network("GET", &format!("ports?mac_address={}", vm.mac()), &Value::Null)?;
        let new = json!({
            "floating_network_id": self.external, "floating_ip_address": address, "port_id": ports["ports"][0]["id"],
            "fixed_ip_address": vm.ip(),
        });
        self.make("floatingips", "floatingip", new).map(drop)
    }

    /// Waits until OVN has a load balancer, and every chassis follows.
    pub(super) fn applied(&self, balancer: &str) -> Result<()> {
        eventually(LONG, "the load balancer is ACTIVE", || {
            let shown = self.load_balancing("GET", &format!("loadbalancers/{balancer}"), &Value::Null)?;
            ensure!(shown["loadbalancer"]["provisioning_status"] == "ACTIVE", "{shown}");
            Ok(())
        })?;
        self.lab.central("az1")?.sync()
    }

    /// The only object of a list with this name.
    pub(super) fn named(&self, path: &str, collection: &str, name: &str) -> Result<Value> {
        let list = self.load_balancing("GET", &format!("{path}?name={name}"), &Value::Null)?;
        list[collection].get(0).cloned().with_context(|| format!("{name} is not in {list}"))
    }

    /// Changes an object of the load balancer API and waits until OVN has the change.
    pub(super) fn change(&self, balancer: &str, path: &str, body: Value) -> Result<()> {
        self.load_balancing("PUT", path, &body)?;
        self.applied(balancer)
    }

    /// Runs a `meridian` command on the server's admin socket.
    pub(super) fn meridian(&self, command: &str) -> Result<String> {
        let socket = self.api.dir().join("data/admin.sock");
        self.api.run(&format!("meridian {command} --socket {}", socket.display()))
    }

    fn make(&self, path: &str, noun: &str, body: Value) -> Result<String> {
        let made = self.network("POST", path, &json!({noun: body}))?;
        Ok(made[noun]["id"].as_str().with_context(|| format!("{made} has no id"))?.to_owned())
    }

    fn network(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.call(method, NETWORK_API, &format!("/v2.0/{path}"), body)
    }

    pub(super) fn load_balancing(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.call(method, BALANCER_API, &format!("/v2/lbaas/{path}"), body)
    }

    fn call(&self, method: &str, server: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.api.http(method, server, path, &body)?;
        match answer.trim() {
            "" => Ok(Value::Null),
            text => serde_json::from_str(text).with_context(|| format!("{path} is answered by `{text}`")),
        }
    }
}

/// Writes the configuration of the server; returns its path.
fn configure(api: &Node, settings: &str) -> Result<String> {
    let path = api.dir().join("meridian.toml");
    std::fs::write(&path, format!("[network]\n{settings}\n")).context("cannot write the configuration")?;
    Ok(path.display().to_string())
}

fn merged(mut object: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

/// Sends this number of requests; returns the number of answers of each server. Repeats the series until every request in it is answered.
pub(super) fn count(
    times: u32,
    what: &str,
    ask: impl Fn() -> Result<Answer>,
) -> Result<BTreeMap<String, u32>> {
    let counted = eventually(LONG, what, || {
        let mut answers = BTreeMap::new();
        for _ in 0..times {
            *answers.entry(ask()?.by).or_insert(0) += 1;
        }
        Ok(answers)
    })?;
    println!("{what}: {counted:?}");
    Ok(counted)
}
