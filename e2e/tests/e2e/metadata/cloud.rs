//! A cloud of `meridian server`: it writes all rows, and tells Nova when a port is plugged in. A VM asks for its metadata at that moment,
//! as an instance does that Nova starts then, and its first request has to be answered.
//!
//! One chassis has the built-in listener, the other one haproxy.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use lab::node::Node;
use lab::node::controller::Controller;
use lab::{Lab, Topology, chassis, eventually};
use serde_json::{Value, json};

use super::LEASE;
use super::site::{Backend, INSTANCES, SERVICE, WITHIN, nova, send, start};

/// The API on its own node.
const API: &str = "127.0.0.1:9696";
/// Nova's API there.
const NOVA: &str = "127.0.0.1:8774";
/// The router's address outside.
const GATEWAY: &str = "172.24.4.100";
const GET: &str = "GET /openstack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// VMs reach the service by DHCP, through one router with several networks, and by a route of their own.
pub(super) fn serves_its_instances() -> Result<()> {
    let gateway = chassis("hv1").wired("phy1", "br-ex").setting("ovn-cms-options", "enable-chassis-as-gw");
    Topology::new().central("az1").chassis(gateway).chassis(chassis("hv2")).run(|lab| {
        for (hv, backend) in [("hv1", Backend::Builtin), ("hv2", Backend::Haproxy)] {
            nova(lab.chassis(hv)?)?;
            start(lab.chassis(hv)?, backend)?;
        }
        let cloud = Cloud::start(lab)?;

        // The only address of the subnet is the instance's, so that none is left for the service.
        let full = cloud.network(
            "10.3.0.0/24",
            json!({"allocation_pools": [{"start": "10.3.0.10", "end": "10.3.0.10"}]}),
        )?;
        let lost = cloud.port(&full, 2)?;
        cloud.configure("metadata_ip_on_nodhcp = true")?;
        cloud.api.daemon("server")?.restart()?;
        eventually(WITHIN, "the server answers again", || cloud.call("GET", "networks", &Value::Null))?;

        let [one, two] = [
            cloud.network("10.1.0.0/24", json!({}))?,
            cloud.network("10.2.0.0/24", json!({"enable_dhcp": true}))?,
        ];
        let alone = cloud.network("10.4.0.0/24", json!({"gateway_ip": null}))?;
        cloud.router(&[&full, &one, &two])?;

        println!("each instance asks when Nova is told:");
        cloud.boots(lab, "one", "hv1", &cloud.port(&one, 0)?, |_| Ok(()))?;
        cloud.boots(lab, "two", "hv2", &cloud.port(&two, 1)?, |_| Ok(()))?;
        // Neither DHCP nor a router: the service is on the link.
        cloud.boots(lab, "alone", "hv2", &cloud.port(&alone, 3)?, |vm| {
            vm.run("ip route add 169.254.169.254/32 dev eth0").map(drop)
        })?;

        println!("an instance is set up by DHCP:");
        let port = cloud.port(&two, 4)?;
        let vm = lab.vm("leased").port(&port.id).on("hv1").mac(&port.mac).plug()?;
        lab.central("az1")?.ready(&[&port.id])?;
        fs::write("/run/cloud-dhcp.sh", LEASE)?;
        vm.run("chmod 755 /run/cloud-dhcp.sh")?;
        let lease =
            || vm.run("busybox udhcpc -i eth0 -n -q -f -s /run/cloud-dhcp.sh -O staticroutes -t 5 -T 1");
        let lease = eventually(WITHIN, "it has a lease", lease)?;
        ensure!(lease.contains("169.254.169.254/32"), "{lease}");
        let said = eventually(WITHIN, "it has metadata", || send(&vm, SERVICE.parse()?, GET))?;
        own(&said, 4)?;

        println!("and cloud-init finds its data:");
        cloud_init(&vm, INSTANCES[4].0)?;

        println!("a network without the service, and a host outside:");
        let vm = cloud.plug(lab, "lost", "hv1", &lost)?;
        lab.central("az1")?.ready(&[&lost.id])?;
        eventually(WITHIN, "it reaches its router", || vm.ping("10.3.0.1"))?;
        ensure!(send(&vm, SERVICE.parse()?, GET).is_err(), "another network's namespace answers");
        let outside = lab.external("ext", "phy1", &["172.24.4.1/24"])?;
        eventually(WITHIN, "the host outside reaches the router", || outside.ping(GATEWAY))?;
        outside.route("169.254.169.254/32".parse()?, GATEWAY.parse()?)?;
        ensure!(send(&outside, SERVICE.parse()?, GET).is_err(), "a namespace answers the outside");
        Ok(())
    })
}

/// The configuration of cloud-init: the data, and nothing that would change the guest.
const CLOUD_INIT: &str = "datasource_list: [OpenStack]
datasource: {OpenStack: {max_wait: 60, timeout: 10}}
network: {config: disabled}
preserve_hostname: true
users: []
cloud_init_modules: []
cloud_config_modules: []
cloud_final_modules: []
";

/// Runs cloud-init as a VM does, with files of its own.
fn cloud_init(vm: &Node, instance: &str) -> Result<()> {
    fs::create_dir_all("/etc/cloud/cloud.cfg.d")?;
    fs::write("/etc/cloud/cloud.cfg.d/99_lab.cfg", CLOUD_INIT)?;
    for dir in ["/var/lib/cloud", "/run/cloud-init"] {
        fs::create_dir_all(dir)?;
    }
    // The package's own script, which the lab does not run, would have done so.
    let authorities = "cat /usr/share/ca-certificates/mozilla/*.crt > /etc/ssl/certs/ca-certificates.crt";
    let own = "mount -t tmpfs tmpfs /var/lib/cloud && mount -t tmpfs tmpfs /run/cloud-init && mount -t tmpfs tmpfs /var/log";
    let show = "cat /var/lib/cloud/data/instance-id /var/lib/cloud/instance/datasource /var/lib/cloud/instance/user-data.txt";
    let log = "tail -n 40 /var/log/cloud-init.log";
    let script = format!("{authorities} && {own} && {{ cloud-init init; {show} || {log}; }} 2>&1");
    let said = vm.run_args(&["unshare", "--mount", "sh", "-c", &script])?;
    println!("{said}");
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    ensure!(lines.contains(&instance), "cloud-init has another instance's id, or none");
    ensure!(said.contains("DataSourceOpenStack"), "it found another source");
    ensure!(lines.contains(&format!("# of {instance}").as_str()), "it has other user data");
    Ok(())
}

/// A network and its subnet.
struct Network {
    id: String,
    subnet: String,
}

/// A port of an instance.
struct Port {
    id: String,
    mac: String,
    ip: String,
    instance: usize,
}

/// The API, and the Nova that it tells.
struct Cloud {
    api: Controller,
    nova: Arc<Nova>,
}

impl Cloud {
    fn start(lab: &Lab) -> Result<Cloud> {
        let api = lab.controller("api")?;
        let nova = Arc::<Nova>::default();
        nova.listen(&api)?;
        let cloud = Cloud { api, nova };
        let config = cloud.configure("metadata_ip_on_nodhcp = false")?;
        let data = cloud.api.dir().join("data").display().to_string();
        let databases = ["--nb", "tcp:10.10.0.100:6641", "--sb", "tcp:10.10.0.100:6642"];
        let server = ["--config", &config, "server", "--auth", "none", "--data-dir", &data, "--listen", API];
        cloud.api.meridian("server", &[&server[..], &databases].concat())?;
        eventually(WITHIN, "both metadata agents are alive", || {
            let agents = cloud.call("GET", "agents", &Value::Null)?;
            let agents = agents["agents"].as_array().context("no list")?;
            let is_alive =
                |agent: &&Value| agent["agent_type"] == "OVN Metadata agent" && agent["alive"] == true;
            ensure!(agents.iter().filter(is_alive).count() == 2, "{agents:?}");
            Ok(())
        })?;
        Ok(cloud)
    }

    /// Writes the server's configuration. Nova waits for as long as it takes, so that a namespace that never is ready is seen.
    fn configure(&self, setting: &str) -> Result<String> {
        let path = self.api.dir().join("meridian.toml");
        let text = format!(
            "[server]\nnova_url = \"http://{NOVA}/v2.1\"\n[network]\nmetadata_ready_timeout = 600\n{setting}\n"
        );
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// A network with one subnet, without DHCP unless the options say so.
    fn network(&self, cidr: &str, options: Value) -> Result<Network> {
        let id = self.make("networks", "network", json!({}))?["id"].clone();
        let mut subnet = json!({"network_id": id, "ip_version": 4, "cidr": cidr, "enable_dhcp": false});
        for (key, value) in options.as_object().into_iter().flatten() {
            subnet[key] = value.clone();
        }
        let subnet = self.make("subnets", "subnet", subnet)?;
        Ok(Network { id: text(&id), subnet: text(&subnet["id"]) })
    }

    fn router(&self, networks: &[&Network]) -> Result<()> {
        let external = json!({"router:external": true, "provider:network_type": "flat", "provider:physical_network": "phy1"});
        let external = self.make("networks", "network", external)?["id"].clone();
        let subnet = json!({
            "network_id": external, "ip_version": 4, "cidr": "172.24.4.0/24", "gateway_ip": "172.24.4.1", "enable_dhcp": false,
        });
        self.make("subnets", "subnet", subnet)?;
        let gateway = json!({"network_id": external, "external_fixed_ips": [{"ip_address": GATEWAY}]});
        let router = self.make("routers", "router", json!({"external_gateway_info": gateway}))?;
        for network in networks {
            let path = format!("routers/{}/add_router_interface", text(&router["id"]));
            self.call("PUT", &path, &json!({"subnet_id": network.subnet}))?;
        }
        Ok(())
    }

    fn port(&self, network: &Network, instance: usize) -> Result<Port> {
        let port = json!({
            "network_id": network.id, "device_owner": "compute:nova", "device_id": INSTANCES[instance].0, "project_id": "p1",
        });
        let port = self.make("ports", "port", port)?;
        let ip = text(&port["fixed_ips"][0]["ip_address"]);
        Ok(Port { id: text(&port["id"]), mac: text(&port["mac_address"]), ip, instance })
    }

    fn plug(&self, lab: &Lab, name: &str, hv: &str, port: &Port) -> Result<Arc<Node>> {
        let gateway = format!("{}.1", port.ip.rsplit_once('.').context("no IPv4 address")?.0);
        let vm = lab.vm(name).port(&port.id).on(hv).mac(&port.mac).ip(&format!("{}/24", port.ip));
        vm.gateway(&gateway).plug()
    }

    /// Turns on a VM that asks once, when Nova is told of its port.
    fn boots(
        &self,
        lab: &Lab,
        name: &str,
        hv: &str,
        port: &Port,
        set_up: impl FnOnce(&Node) -> Result<()>,
    ) -> Result<()> {
        let vm = self.plug(lab, name, hv, port)?;
        set_up(&vm)?;
        self.nova.table().waiting.insert(port.id.clone(), vm);
        let first = eventually(WITHIN, &format!("Nova hears of {name}"), || {
            self.nova.table().answers.get(&port.id).cloned().context("not yet")
        })?;
        println!("{name}: {}", first.trim());
        own(&first, port.instance)
    }

    fn make(&self, path: &str, noun: &str, body: Value) -> Result<Value> {
        Ok(self.call("POST", path, &json!({noun: body}))?[noun].clone())
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.api.http(method, API, &format!("/v2.0/{path}"), &body)?;
        serde_json::from_str(&answer).with_context(|| format!("{path} is answered by `{answer}`"))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An answer has the data of an instance.
fn own(answer: &str, instance: usize) -> Result<()> {
    let words = format!("instance {} ", INSTANCES[instance].0);
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.contains(&words), "no {words} but {answer}");
    Ok(())
}

/// A Nova that starts the VM of each port that it hears of: the VM asks before Nova answers.
#[derive(Default)]
struct Nova(Mutex<Instances>);

#[derive(Default)]
struct Instances {
    /// VMs by their port.
    waiting: BTreeMap<String, Arc<Node>>,
    /// The answers to their first requests.
    answers: BTreeMap<String, String>,
}

impl Nova {
    fn table(&self) -> std::sync::MutexGuard<'_, Instances> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(self: &Arc<Nova>, node: &Node) -> Result<()> {
        let listener = node.enter(|| TcpListener::bind(NOVA))?.context("Nova cannot listen")?;
        let nova = Arc::clone(self);
        // Ends with the process, as the guest does.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let nova = Arc::clone(&nova);
                std::thread::spawn(move || while nova.serve(&stream).is_ok() {});
            }
        });
        Ok(())
    }

    fn serve(&self, mut stream: &TcpStream) -> Result<()> {
        let mut lines = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                bail!("the server has closed the connection");
            }
            let line = line.trim().to_lowercase();
            if line.is_empty() {
                break;
            }
            length =
                line.strip_prefix("content-length: ").and_then(|text| text.parse().ok()).unwrap_or(length);
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body)?;
        for event in body["events"].as_array().into_iter().flatten() {
            if event["name"] == "network-vif-plugged" {
                self.first_request(&text(&event["tag"]));
            }
        }
        let answer = body.to_string();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
        write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len())?;
        Ok(())
    }

    fn first_request(&self, port: &str) {
        let asks = eventually(WITHIN, "the VM of the port is there", || {
            self.table().waiting.get(port).cloned().context("not yet")
        });
        // The ports of VMs that are not started this way.
        let Ok(vm) = asks else { return };
        let answer = SERVICE.parse().map_err(anyhow::Error::from).and_then(|to| send(&vm, to, GET));
        let answer = answer.unwrap_or_else(|error| format!("no answer: {error:#}"));
        self.table().answers.insert(port.to_owned(), answer);
    }
}
