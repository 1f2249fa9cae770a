//! The operator of the tour: a server on a node of its own, the `openstack` command beside it, and commands that are shown as typed.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::demo::Guide;
use lab::node::Node;
use lab::node::controller::Controller;
use lab::{Lab, eventually};
use serde_json::Value;

/// The time limit of waits on a busy machine.
pub(super) const LONG: Duration = Duration::from_secs(90);
/// The addresses of the APIs on their own node.
const NETWORK_API: &str = "127.0.0.1:9696";
const BALANCER_API: &str = "127.0.0.1:9876";

/// A running server and its client.
pub(super) struct Cloud<'a> {
    guide: &'a Guide,
    lab: &'a Lab,
    api: Controller,
    env: Vec<(String, String)>,
}

impl<'a> Cloud<'a> {
    /// Starts the server and waits until it knows this number of chassis that carry gateways.
    pub(super) fn start(lab: &'a Lab, guide: &'a Guide, gateways: usize) -> Result<Cloud<'a>> {
        let api = lab.controller("api")?;
        let data = api.dir().join("data").display().to_string();
        let listen = ["--listen", NETWORK_API, "--lb-listen", BALANCER_API];
        let databases = ["--nb", "tcp:10.10.0.100:6641", "--sb", "tcp:10.10.0.100:6642"];
        guide.types(&format!("meridian server --auth none {}", databases.join(" ")));
        let server = ["server", "--auth", "none", "--data-dir", &data];
        api.meridian("server", &[&server[..], &listen, &databases].concat())?;
        let clouds = api.dir().join("clouds.yaml");
        let text = format!(
            "clouds:\n  meridian:\n    auth_type: none\n    auth: {{endpoint: \"http://{NETWORK_API}\"}}\n    \
             load_balancer_endpoint_override: \"http://{BALANCER_API}\"\n"
        );
        fs::write(&clouds, text).with_context(|| format!("cannot write {}", clouds.display()))?;
        let env =
            [("OS_CLIENT_CONFIG_FILE", clouds.display().to_string()), ("OS_CLOUD", "meridian".to_owned())];
        let env = env.map(|(key, value)| (key.to_owned(), value)).into();
        let cloud = Cloud { guide, lab, api, env };
        eventually(LONG, "the API knows the chassis for gateways", || {
            let agents = cloud.get("agents")?;
            let agents = agents["agents"].as_array().context("no list")?;
            let carries = |agent: &&Value| agent["agent_type"] == "OVN Controller Gateway agent";
            ensure!(agents.iter().filter(carries).count() == gateways, "it knows {agents:?}");
            Ok(())
        })?;
        Ok(cloud)
    }

    /// Types `openstack` commands.
    pub(super) fn openstack(&self, lines: &[&str]) -> Result<()> {
        for line in lines {
            self.guide.types(&format!("openstack {line}"));
        }
        self.api.openstack_lines(&self.env, lines).map(drop)
    }

    /// An attribute of the only object with a name, such as a port's `id`.
    pub(super) fn attribute(&self, collection: &str, name: &str, attribute: &str) -> Result<String> {
        let (api, path) = match collection {
            "loadbalancers" => (BALANCER_API, "v2/lbaas"),
            _ => (NETWORK_API, "v2.0"),
        };
        let answer = self.api.http("GET", api, &format!("/{path}/{collection}?name={name}"), "")?;
        let answer: Value = serde_json::from_str(&answer).with_context(|| answer.clone())?;
        let value = answer[collection][0][attribute].as_str();
        Ok(value.with_context(|| format!("{name} is not among the {collection}: {answer}"))?.to_owned())
    }

    /// Types a `meridian` command for the server, and shows its output.
    pub(super) fn meridian(&self, line: &str) -> Result<String> {
        self.guide.types(&format!("meridian {line}"));
        let socket = self.api.dir().join("data/admin.sock");
        let said = self.api.run(&format!("meridian {line} --socket {}", socket.display()))?;
        self.guide.says(said.trim_end());
        Ok(said)
    }

    /// Waits until `meridian status` of a router has these words, then shows it.
    pub(super) fn becomes(&self, router: &str, words: &str) -> Result<()> {
        let socket = self.api.dir().join("data/admin.sock");
        eventually(LONG, &format!("the status says {words:?}"), || {
            let said =
                self.api.run(&format!("meridian status --router {router} --socket {}", socket.display()))?;
            ensure!(said.contains(words), "it says:\n{said}");
            Ok(())
        })?;
        self.meridian(&format!("status --router {router}")).map(drop)
    }

    /// Turns on the VM of the port with this name.
    pub(super) fn vm(&self, name: &str, hv: &str, last: u8) -> Result<Arc<Node>> {
        let (mac, ip) = (format!("02:00:00:00:00:{last}"), format!("10.0.0.{last}"));
        let port = self.attribute("ports", name, "id")?;
        let vm = self
            .lab
            .vm(name)
            .port(&port)
            .on(hv)
            .mac(&mac)
            .ip(&format!("{ip}/24"))
            .gateway("10.0.0.1")
            .plug()?;
        self.lab.central("az1")?.ready(&[&port])?;
        Ok(vm)
    }

    /// The chassis that carries the only gateway of a router, by the router's id.
    pub(super) fn gateway_chassis(&self, router: &str) -> Result<String> {
        eventually(LONG, "a chassis carries the gateway", || {
            let status = self.get(&format!("routers/{router}/gateway_status"))?;
            let chassis = status["gateway_status"][0]["chassis"].as_str();
            Ok(chassis.with_context(|| status.to_string())?.to_owned())
        })
    }

    fn get(&self, path: &str) -> Result<Value> {
        let answer = self.api.http("GET", NETWORK_API, &format!("/v2.0/{path}"), "")?;
        serde_json::from_str(&answer).with_context(|| format!("{path} is answered by `{answer}`"))
    }
}

/// The command for the port of a VM.
pub(super) fn port(name: &str, last: u8) -> String {
    format!(
        "port create --network inside --fixed-ip ip-address=10.0.0.{last} --mac-address 02:00:00:00:00:{last} {name}"
    )
}

/// Sends requests until exactly these servers have answered among 24 of them, and shows the numbers.
pub(super) fn answer(guide: &Guide, node: &Node, server: &str, who: &[&str]) -> Result<()> {
    let answers = eventually(
        LONG,
        &format!("new connections of {} are answered by {}", node.label(), who.join(" and ")),
        || {
            let mut answers = std::collections::BTreeMap::new();
            for _ in 0..24 {
                *answers.entry(node.asks(server)?.by).or_insert(0) += 1;
            }
            ensure!(answers.keys().eq(who), "answered by {answers:?}");
            Ok(answers)
        },
    )?;
    let told = match who {
        [only] => format!("only {only} answers"),
        all => format!("{} answer", all.join(" and ")),
    };
    guide.says(&format!("24 new connections to {server}: {told} ({answers:?})"));
    Ok(())
}
