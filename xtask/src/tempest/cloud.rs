//! The cloud under test: Keystone, `meridian server --dev` that authenticates with it, three chassis, and an external network.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use central::{Daemon, Database, find_program};
use lab::keystone::Keystone;
use serde_json::{Value, json};

use crate::command::output;
use crate::server::Server;

/// The server's settings, as in upstream's own jobs. Our default for `metadata_ip_on_nodhcp` takes an address in subnets without DHCP,
/// which the tests of IP availability do not expect; `false` is Neutron's behaviour.
const NETWORK: &str = "[network]\n\
     metadata_ip_on_nodhcp = false\n\
    dns_domain = \"meridian.test.\"\n\
    quotas = { router = 100, floatingip = 500, security_group = 150, security_group_rule = 1000 }\n";

/// A running cloud. It ends with its value.
pub(super) struct Cloud {
    pub(super) keystone: Keystone,
    /// The id of the external network.
    pub(super) public_network: String,
    server: RefCell<Daemon>,
}

impl Cloud {
    /// Starts everything in a directory.
    pub(super) fn start(meridian: &Path, dir: &Path) -> Result<Cloud> {
        let keystone = Keystone::start(&dir.join("keystone"))?;
        let config = dir.join("meridian.toml");
        let auth = format!("[server]\nauth = \"keystone\"\nkeystone_url = \"{}\"\n", keystone.url());
        fs::write(&config, format!("{auth}{NETWORK}"))?;
        let log = dir.join("server.log");
        let server = Server::start(meridian, &dir.join("server"), &log, |command| {
            command.arg("--config").arg(&config)
        })?;
        let Server { daemon, url, load_balancer_url } = server;
        let service = keystone.service("network", "meridian")?;
        keystone.endpoint(&service, "public", &url)?;
        let service = keystone.service("load-balancer", "octavia")?;
        keystone.endpoint(&service, "public", &load_balancer_url)?;
        let ovn = dir.join("server/ovn");
        add_chassis(&ovn.join("sb.sock"))?;
        admit_ipv6_fields(&ovn.join("nb.sock"), dir)?;
        let token = keystone.admin_token()?;
        let public_network = external_network(&url, &token)?;
        Ok(Cloud { keystone, public_network, server: RefCell::new(daemon) })
    }

    /// An error if the server has ended.
    pub(super) fn still_running(&self) -> Result<()> {
        self.server.borrow_mut().still_running()
    }
}

/// Adds three chassis, two of them for gateways, with the rows by which ovn-controller reports that it lives.
fn add_chassis(socket: &Path) -> Result<()> {
    let sbctl = |words: &str| {
        let mut command = Command::new(find_program("ovn-sbctl")?);
        output(
            command.arg(format!("--db=unix:{}", socket.display())).arg("--timeout=60").args(words.split(' ')),
        )
    };
    for n in 1..=3 {
        let name = format!("ch{n}");
        sbctl(&format!("chassis-add {name} geneve 127.0.0.{n}"))?;
        let options = if n < 3 { "enable-chassis-as-gw" } else { "" };
        sbctl(&format!(
            "set Chassis {name} hostname={name}.example other_config:ovn-cms-options=\"{options}\" \
             other_config:ovn-bridge-mappings=\"public:br-ex\""
        ))?;
        let uuid = sbctl(&format!("--bare --columns=_uuid find Chassis name={name}"))?;
        sbctl(&format!("create Chassis_Private name={name} chassis={}", uuid.trim()))?;
    }
    Ok(())
}

/// Converts the Northbound to a schema in which load balancers may hash IPv6 addresses, as from OVN 25.03 on. Otherwise the tests of
/// `SOURCE_IP` with IPv6 VIPs would skip themselves on a host with an older OVN.
fn admit_ipv6_fields(socket: &Path, dir: &Path) -> Result<()> {
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(Database::Northbound.schema())?)?;
    let fields = &mut schema["tables"]["Load_Balancer"]["columns"]["selection_fields"];
    let names = fields["type"]["key"]["enum"][1].as_array_mut();
    let names = names.context("the schema names no selection_fields of load balancers")?;
    for name in ["ipv6_src", "ipv6_dst"] {
        if !names.contains(&json!(name)) {
            names.push(json!(name));
        }
    }
    let path = dir.join("ipv6.ovsschema");
    fs::write(&path, schema.to_string())?;
    let mut convert = Command::new(find_program("ovsdb-client")?);
    output(convert.arg("convert").arg(format!("unix:{}", socket.display())).arg(&path)).map(drop)
}

/// Creates the external network for the gateways of all projects' routers; returns its id.
fn external_network(url: &str, token: &str) -> Result<String> {
    let post = |path: &str, body: Value| -> Result<Value> {
        let request = ureq::post(&format!("{url}/v2.0/{path}")).header("X-Auth-Token", token);
        let mut answer = request.content_type("application/json").send(body.to_string())?;
        Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
    };
    let network = json!({"network": {
        "name": "public", "router:external": true, "is_default": true,
        "provider:network_type": "flat", "provider:physical_network": "public",
    }});
    let network = post("networks", network).context("cannot create the external network")?;
    let id = network["network"]["id"].as_str().context("the external network has no id")?.to_owned();
    for (version, cidr) in [(4, "172.24.4.0/22"), (6, "2001:db8::/64")] {
        let subnet = json!({"subnet": {
            "network_id": id, "ip_version": version, "cidr": cidr, "enable_dhcp": false,
        }});
        post("subnets", subnet).with_context(|| format!("cannot create the external subnet {cidr}"))?;
    }
    Ok(id)
}
