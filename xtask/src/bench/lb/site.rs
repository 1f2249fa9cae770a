//! A cloud with a load-balancer API: its requests, and the cost of what they set off in all of its processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::meter::{family, family_cpu_seconds};
use serde_json::{Value, json};

use crate::bench::journal::Journal;

/// The project of every caller of an API without credentials.
const PROJECT: &str = "fake_project_id";
/// The limit for one request, and for an object to become `ACTIVE`.
const PATIENCE: Duration = Duration::from_secs(900);
/// The limit for all processes to come to rest. Some of the peer's never do.
const SETTLE: Duration = Duration::from_secs(5);
/// The pause between two questions for a state, as a share of the time that has passed. A fixed pause would either measure itself or load
/// a slow peer.
const PAUSE: f64 = 0.1;

/// A cloud with one network.
pub(super) struct Site {
    agent: ureq::Agent,
    /// The load-balancer API, down to the collections.
    url: String,
    /// The Northbound's file.
    northbound: PathBuf,
    subnet: String,
}

/// The cost of an operation, until it is `ACTIVE`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) seconds: f64,
    /// CPU seconds of all processes of the cloud, until they are at rest.
    pub(super) cpu: f64,
    /// Transactions in the Northbound, without those that only touch `NB_Global`.
    pub(super) transactions: usize,
    /// Bytes by which the Northbound's file has grown.
    pub(super) growth: u64,
}

impl Site {
    /// Creates a network with room for every member at the network API.
    pub(super) fn new(network_url: &str, balancer_url: &str, northbound: &Path) -> Result<Site> {
        let agent =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        let mut site = Site {
            agent: agent.into(),
            url: format!("{network_url}/v2.0"),
            northbound: northbound.to_owned(),
            subnet: String::new(),
        };
        let network = site.create("networks", "network", json!({"name": "bench"}))?;
        let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/16"});
        site.subnet = site.create("subnets", "subnet", subnet)?;
        site.url = format!("{balancer_url}/v2/lbaas");
        Ok(site)
    }

    /// Creates an object and returns its id.
    pub(super) fn create(&self, path: &str, noun: &str, object: Value) -> Result<String> {
        let answer = self.ask("POST", path, Some(&json!({ noun: object })))?;
        Ok(answer[noun]["id"].as_str().with_context(|| format!("no id in {answer}"))?.to_owned())
    }

    /// Creates a load balancer.
    pub(super) fn create_balancer(&self) -> Result<String> {
        let balancer = json!({"name": "bench", "vip_subnet_id": self.subnet, "project_id": PROJECT});
        self.create("loadbalancers", "loadbalancer", balancer)
    }

    /// Creates a load balancer with a listener and a pool, and returns its id and the pool's.
    pub(super) fn create_tree(&self) -> Result<(String, String)> {
        let balancer = self.create_balancer()?;
        self.wait_active(&balancer)?;
        let listener = json!({"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 80});
        let listener = self.create("listeners", "listener", listener)?;
        self.wait_active(&balancer)?;
        let pool = json!({"listener_id": listener, "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT"});
        let pool = self.create("pools", "pool", pool)?;
        self.wait_active(&balancer)?;
        Ok((balancer, pool))
    }

    /// The attributes of a member.
    pub(super) fn member(&self, n: usize) -> Value {
        let address = format!("10.0.{}.{}", 100 + n / 200, 10 + n % 200);
        json!({"address": address, "protocol_port": 80, "subnet_id": self.subnet})
    }

    /// Sends a request, which must succeed.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let (status, answer) = self.try_ask(method, path, body)?;
        ensure!((200..300).contains(&status), "{method} {path} was answered {status}: {answer}");
        Ok(answer)
    }

    fn try_ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.url);
        // Octavia without credentials passes the token on, and refuses a request without one.
        let request = ureq::http::Request::builder().method(method).uri(url).header("X-Auth-Token", "bench");
        let mut answer = match body {
            Some(body) => {
                self.agent.run(request.header("Content-Type", "application/json").body(body.to_string())?)
            }
            None => self.agent.run(request.body(())?),
        }
        .with_context(|| format!("{method} {path}"))?;
        let text = answer.body_mut().with_config().limit(64 << 20).read_to_string()?;
        let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? };
        Ok((answer.status().as_u16(), value))
    }

    /// Waits until a load balancer takes further requests.
    pub(super) fn wait_active(&self, balancer: &str) -> Result<()> {
        self.wait(|| {
            let answer = self.ask("GET", &format!("loadbalancers/{balancer}"), None)?;
            match answer["loadbalancer"]["provisioning_status"].as_str() {
                Some("ACTIVE") => Ok(true),
                Some("ERROR") => bail!("load balancer {balancer} is in ERROR"),
                _ => Ok(false),
            }
        })
    }

    /// Waits until a load balancer is gone.
    pub(super) fn wait_gone(&self, balancer: &str) -> Result<()> {
        self.wait(|| {
            let (status, answer) = self.try_ask("GET", &format!("loadbalancers/{balancer}"), None)?;
            ensure!(answer["loadbalancer"]["provisioning_status"] != "ERROR", "{balancer} is in ERROR");
            Ok(status == 404)
        })
    }

    fn wait(&self, mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
        let begin = Instant::now();
        while !is_done()? {
            ensure!(begin.elapsed() < PATIENCE, "nothing happens for {PATIENCE:?}");
            std::thread::sleep(begin.elapsed().mul_f64(PAUSE).max(Duration::from_millis(1)));
        }
        Ok(())
    }

    /// Runs an operation and returns its cost.
    pub(super) fn cost(&self, operation: impl FnOnce() -> Result<()>) -> Result<Cost> {
        settle()?;
        let mut journal = Journal::from_here(&self.northbound)?;
        let (length, cpu) = (self.length()?, cpu()?);
        let begin = Instant::now();
        operation()?;
        let seconds = begin.elapsed().as_secs_f64();
        settle()?;
        let cpu = super::site::cpu()? - cpu;
        let records = journal.read()?;
        let transactions =
            records.iter().filter(|rows| rows.keys().any(|table| table != "NB_Global")).count();
        let growth = self.length()?.checked_sub(length).context("the Northbound's file was compacted")?;
        Ok(Cost { seconds, cpu, transactions, growth })
    }

    fn length(&self) -> Result<u64> {
        Ok(std::fs::metadata(&self.northbound)?.len())
    }
}

/// CPU seconds of all processes that this one has started. The two clouds run one after the other, so these are the one cloud's.
fn cpu() -> Result<f64> {
    let mut processes = family(std::process::id(), None)?;
    processes.remove(&std::process::id());
    family_cpu_seconds(&processes)
}

/// Waits until all processes are at rest.
fn settle() -> Result<()> {
    let begin = Instant::now();
    let (mut before, mut quiet) = (cpu()?, 0);
    while quiet < 3 && begin.elapsed() < SETTLE {
        std::thread::sleep(Duration::from_millis(30));
        let now = cpu()?;
        quiet = if now - before < 0.002 { quiet + 1 } else { 0 };
        before = now;
    }
    Ok(())
}
