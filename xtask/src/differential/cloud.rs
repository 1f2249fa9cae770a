//! The two servers, one Keystone for both, and the callers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use central::Daemon;
use lab::keystone::Keystone;
use serde_json::{Value, json};

use super::names::Side;
use super::northbound;
use super::requests::Caller;
use crate::command::heading;
use crate::neutron::{Neutron, PACKAGES, add_chassis};
use crate::server::Server;

/// All collections, those first that can be deleted first.
pub(super) const COLLECTIONS: [&str; 10] = [
    "floatingips",
    "routers",
    "ports",
    "subnets",
    "rbac-policies",
    "networks",
    "subnetpools",
    "address-scopes",
    "security-group-rules",
    "security-groups",
];

/// The password of every caller.
const PASSWORD: &str = "secret";
/// Timeout of a request: the real Neutron takes seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The settings that differ from the defaults of both in the same way.
const SETTINGS: &str = "[network]\nmetadata_ip_on_nodhcp = false\ndns_domain = \"meridian.test.\"\n\
                        quotas = { network = -1, subnet = -1, port = -1, router = -1, rbac_policy = -1, \
                        security_group = -1, security_group_rule = -1, floatingip = -1 }\n";

/// An answer of one server.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn succeeded(&self) -> bool {
        self.status < 300
    }

    /// The status, with the type of an error.
    pub(super) fn outcome(&self) -> String {
        let kind = self.body["NeutronError"]["type"].as_str().filter(|kind| !kind.is_empty());
        kind.map_or_else(|| self.status.to_string(), |kind| format!("{} {kind}", self.status))
    }

    /// The body in few words.
    pub(super) fn words(&self) -> String {
        let message = self.body["NeutronError"]["message"].as_str();
        let text = message.map_or_else(|| self.body.to_string(), str::to_owned);
        format!("{} {}", self.status, text.chars().take(400).collect::<String>())
    }

    /// The object that it describes.
    pub(super) fn object(&self) -> Option<&Value> {
        self.body.as_object()?.values().next().filter(|value| value["id"].is_string())
    }
}

/// Both servers. They end with their value.
pub(super) struct Cloud {
    tokens: BTreeMap<Caller, String>,
    projects: BTreeMap<Caller, String>,
    urls: [String; 2],
    sockets: [PathBuf; 2],
    agent: ureq::Agent,
    server: Daemon,
    _neutron: Neutron,
    _keystone: Keystone,
}

impl Cloud {
    /// Starts everything in a directory.
    pub(super) fn start(meridian: &Path, dir: &Path) -> Result<Cloud> {
        heading("Keystone, with five callers");
        let keystone = Keystone::start(&dir.join("keystone"))?;
        let mut projects = BTreeMap::new();
        let mut tokens = BTreeMap::new();
        let (one, two, service) =
            (keystone.project("one")?, keystone.project("two")?, keystone.project("services")?);
        for (caller, role, project, name) in [
            (Caller::Service, "service", &service, "services"),
            (Caller::Alice, "member", &one, "one"),
            (Caller::Bob, "member", &two, "two"),
            (Caller::Rita, "reader", &one, "one"),
        ] {
            let user = keystone.user(caller.name(), PASSWORD)?;
            keystone.grant(role, &user, project)?;
            projects.insert(caller, project.clone());
            tokens.insert(caller, keystone.token(caller.name(), PASSWORD, name)?);
        }
        let admin = keystone.admin_token()?;
        let about = keystone.about(&admin)?;
        let project = about["token"]["project"]["id"].as_str().context("the administrator has no project")?;
        projects.insert(Caller::Admin, project.to_owned());
        tokens.insert(Caller::Admin, admin);

        let config = dir.join("meridian.toml");
        let auth = format!("[server]\nauth = \"keystone\"\nkeystone_url = \"{}\"\n", keystone.url());
        fs::write(&config, format!("{auth}{SETTINGS}"))?;
        heading("meridian server");
        let server = Server::start(meridian, &dir.join("server"), &dir.join("server.log"), |command| {
            command.arg("--config").arg(&config)
        })?;
        let southbound = dir.join("server/ovn/sb.sock");
        add_chassis(&format!("unix:{}", southbound.display()), 1..4)?;
        heading(PACKAGES[0]);
        let home = dir.join("neutron");
        fs::create_dir_all(&home)?;
        let neutron = Neutron::start(&home, &settings(&keystone))?;
        let agent = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT));
        Ok(Cloud {
            tokens,
            projects,
            urls: [server.url.clone(), neutron.url.clone()],
            sockets: [dir.join("server/ovn/nb.sock"), home.join("ovn/nb.sock")],
            agent: agent.build().into(),
            server: server.daemon,
            _neutron: neutron,
            _keystone: keystone,
        })
    }

    pub(super) fn projects(&self) -> BTreeMap<Caller, String> {
        self.projects.clone()
    }

    /// Sends a request to one server; `path` begins after `/v2.0/`.
    pub(super) fn send(
        &self,
        side: Side,
        caller: Caller,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<Answer> {
        let url = format!("{}/v2.0/{path}", self.urls[side as usize]);
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(&url)
            .header("X-Auth-Token", &self.tokens[&caller])
            .header("Accept", "application/json");
        let sent = match body {
            None => self.agent.run(request.body(())?),
            Some(body) => {
                self.agent.run(request.header("Content-Type", "application/json").body(body.to_owned())?)
            }
        };
        let mut answer = sent.with_context(|| format!("{side:?} does not answer {method} {url}"))?;
        let text = answer.body_mut().read_to_string()?;
        let body = if text.trim().is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or(json!(text))
        };
        Ok(Answer { status: answer.status().as_u16(), body })
    }

    /// The Northbound of a server, after everything that was asked of it.
    pub(super) fn northbound(&self, side: Side) -> Result<Value> {
        if side == Side::Ours {
            let quota = json!({"quota": {"network": -1}}).to_string();
            let barrier = self.send(side, Caller::Admin, "PUT", "quotas/barrier?wait=ovn", Some(&quota))?;
            if !barrier.succeeded() {
                bail!("our server does not write the Northbound: {}", barrier.words());
            }
        }
        northbound::northbound(&self.sockets[side as usize])
    }

    /// Deletes every object on both servers.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.server.still_running()?;
        for side in Side::BOTH {
            // An object may depend on one that is deleted after it, so this goes round until nothing is left.
            for _ in 0..4 {
                if self.clear_once(side)? == 0 {
                    break;
                }
            }
            let left = self.clear_once(side)?;
            if left > 0 {
                bail!("{side:?} keeps {left} objects that should be deleted");
            }
        }
        Ok(())
    }

    /// Deletes what can be deleted; returns the number of objects that were there, except the default groups of security.
    fn clear_once(&self, side: Side) -> Result<usize> {
        let send =
            |method: &str, path: &str, body: Option<&str>| self.send(side, Caller::Admin, method, path, body);
        let mut count = 0;
        for collection in COLLECTIONS {
            if collection == "security-group-rules" {
                // They go with their groups.
                continue;
            }
            let all = send("GET", collection, None)?;
            let all = all
                .body
                .as_object()
                .and_then(|body| body.values().next()?.as_array())
                .cloned()
                .unwrap_or_default();
            for object in all {
                let id = object["id"].as_str().context("an object without an id")?;
                // Listing groups creates the default group of the caller's project again.
                if collection != "security-groups" || object["name"] != "default" {
                    count += 1;
                }
                match object["device_owner"].as_str() {
                    Some("network:router_interface" | "network:router_interface_distributed") => {
                        let path = format!(
                            "routers/{}/remove_router_interface",
                            object["device_id"].as_str().unwrap_or_default()
                        );
                        send("PUT", &path, Some(&json!({ "port_id": id }).to_string()))?;
                    }
                    Some("network:router_gateway" | "network:floatingip") => continue,
                    _ => {}
                }
                if collection == "routers" {
                    let plain = json!({"router": {"routes": [], "external_gateway_info": {}}}).to_string();
                    send("PUT", &format!("routers/{id}"), Some(&plain))?;
                }
                send("DELETE", &format!("{collection}/{id}"), None)?;
            }
        }
        Ok(count)
    }
}

/// Neutron's settings, besides the addresses of its databases.
fn settings(keystone: &Keystone) -> String {
    format!(
        "[DEFAULT]\n\
         auth_strategy = keystone\n\
         dns_domain = meridian.test.\n\
         [keystone_authtoken]\n\
         auth_type = password\n\
         interface = public\n\
         www_authenticate_uri = {url}\n\
         auth_url = {url}\n\
         username = admin\n\
         password = {password}\n\
         project_name = admin\n\
         user_domain_name = Default\n\
         project_domain_name = Default\n\
         region_name = {region}\n\
         service_token_roles_required = true\n\
         [quotas]\n\
         quota_rbac_policy = -1\n\
         quota_security_group = -1\n\
         quota_security_group_rule = -1\n\
         quota_floatingip = -1\n\
         [ml2]\n\
         extension_drivers = port_security,dns\n\
         [ml2_type_vlan]\n\
         network_vlan_ranges = phy1:100:199\n\
         [ovn]\n\
         ovn_metadata_enabled = true\n",
        url = keystone.url(),
        password = keystone.admin_password(),
        region = keystone.region(),
    )
}
