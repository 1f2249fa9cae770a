//! `cargo xtask record`: records the rows and answers of a real Neutron, for the tests of `meridian import neutron`.
//!
//! A Neutron with an OVN central of its own gets requests for a cloud with every kind of object that our server has
//! (`cloud.json`). Each request has a name for its object, by which later ones refer to it (`$name`). Chassis are only rows, so
//! this module writes the reports of their controllers into the Southbound. Then it saves the answers of Neutron's API and its
//! Northbound next to the tests, and runs the tests on them: they import, start our server, and compare both.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use central::{Daemon, Database, find_program};
use lab::rpc::Rpc;
use serde_json::{Value, json};

use crate::bench::ScratchDir;
use crate::command::{cargo, heading, output, root, run, target_dir};
use crate::neutron::{Neutron, PACKAGES};

/// The directory of recordings.
const KEPT: &str = "crates/meridian/tests/server/recorded";
/// The requests.
const CLOUD: &str = include_str!("cloud.json");
/// Limit for Neutron to notice a change, or to repair its own rows.
const PATIENCE: Duration = Duration::from_secs(180);
/// Time without a change after which the Northbound counts as settled. Neutron repairs row by row, with pauses of seconds.
const QUIET: Duration = Duration::from_secs(20);

/// Age of a change below which Neutron's repair ignores it: one minute.
const RECENT: Duration = Duration::from_secs(65);

/// The options of `cargo xtask record`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only the tests, on the last recording
    #[arg(long)]
    compare: bool,
}

pub(crate) fn record(args: &Args) -> Result<()> {
    if !args.compare {
        record_anew()?;
    }
    heading("import it, start our server on it, compare");
    run(cargo().args(["nextest", "run", "--package", "meridian", "--test", "server", "recorded::"]))
}

fn record_anew() -> Result<()> {
    heading("building meridian");
    run(cargo().args(["build", "--quiet", "--package", "meridian"]))?;
    let scratch = ScratchDir::new()?;
    let dir = scratch.0.join("neutron");
    fs::create_dir_all(&dir)?;
    let policy = dir.join("policy.yaml");
    // Kept to services otherwise, and nobody has a role here.
    fs::write(&policy, "\"create_port:binding:profile\": \"\"\n")?;
    heading(PACKAGES[0]);
    let neutron = Neutron::start(&dir, &settings(&policy))?;
    let mut southbound = Rpc::connect(&dir.join("ovn/sb.sock"))?;
    let mut northbound = Rpc::connect(&dir.join("ovn/nb.sock"))?;
    let chassis = chassis(&mut southbound)?;
    heading("a cloud");
    play(&neutron.url)?;
    bind(&neutron, &chassis, &mut northbound, &mut southbound)?;
    heading("what Neutron mends by itself");
    std::thread::sleep(RECENT);
    mend(&neutron, &dir, &mut northbound)?;
    heading("the recording");
    let kept = root().join(KEPT);
    fs::create_dir_all(&kept)?;
    let remote = neutron.remote(Database::Northbound);
    let mut save = Command::new(target_dir().join("debug/meridian"));
    save.args([
        "import",
        "neutron",
        "--dry-run",
        "--leave-out",
        "--from",
        &neutron.url,
        "--nb",
        &remote,
        "--save",
    ]);
    output(save.arg(kept.join("api.json")).env("MERIDIAN_CONFIG", "/dev/null"))?;
    let mut backup = Command::new(find_program("ovsdb-client")?);
    let rows = output(backup.args(["backup", &remote, Database::Northbound.name()]))?;
    fs::write(kept.join("northbound.db"), rows)?;
    Ok(())
}

/// Neutron's settings, besides the addresses of its databases. The tests configure our server alike.
fn settings(policy: &Path) -> String {
    format!(
        "[DEFAULT]\n\
         service_plugins = ovn-router,qos,port_forwarding\n\
         dns_domain = cloud.example.\n\
         [oslo_policy]\n\
         policy_file = {}\n\
         [ml2]\n\
         extension_drivers = port_security,dns_domain_ports,qos\n\
         [ml2_type_vlan]\n\
         network_vlan_ranges = phy1:100:199,phy2:100:199\n\
         [ovn]\n\
         ovn_metadata_enabled = true\n\
         dns_servers = 192.0.2.53\n",
        policy.display()
    )
}

/// Completes the chassis rows with the reports of their controllers; returns the rows by host name.
fn chassis(southbound: &mut Rpc) -> Result<BTreeMap<String, Value>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now = u64::try_from(now.as_millis())?;
    let mut hosts = BTreeMap::new();
    for row in select(southbound, Database::Southbound, "Chassis", &["_uuid", "name", "hostname"])? {
        let more = json!(["map", [["datapath-type", "system"], ["iface-types", "geneve,vxlan,internal"]]]);
        let ops = json!([
            "OVN_Southbound",
            {"op": "mutate", "table": "Chassis", "where": [["_uuid", "==", row["_uuid"]]],
             "mutations": [["other_config", "insert", more]]},
            // Ahead of every question whether they are alive.
            {"op": "insert", "table": "Chassis_Private",
             "row": {"name": row["name"], "chassis": row["_uuid"], "nb_cfg": 1_000_000, "nb_cfg_timestamp": now}},
        ]);
        transact(southbound, ops)?;
        hosts.insert(text(&row["hostname"])?.to_owned(), row["_uuid"].clone());
    }
    Ok(hosts)
}

/// Sends the requests, one after the other.
fn play(url: &str) -> Result<()> {
    let requests: Vec<(String, String, String, Value)> = serde_json::from_str(CLOUD)?;
    let mut made = BTreeMap::new();
    for (name, method, path, body) in requests {
        let (path, body) = (named(&path, &made), named(&body.to_string(), &made));
        let answer = ask(&method, &format!("{url}/v2.0/{path}"), &body)
            .with_context(|| format!("{method} {path} {body}"))?;
        let object = answer.as_object().and_then(|answer| answer.values().next());
        if let (false, Some(id)) = (name.is_empty(), object.and_then(|object| object["id"].as_str())) {
            made.insert(name, id.to_owned());
        }
    }
    Ok(())
}

/// Replaces names of objects in a string by their ids.
fn named(text: &str, made: &BTreeMap<String, String>) -> String {
    let mut parts = text.split('$');
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        all += made.get(name).map_or(name, String::as_str);
        all += rest;
    }
    all
}

fn ask(method: &str, url: &str, body: &str) -> Result<Value> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .build()
        .into();
    let request = ureq::http::Request::builder().method(method).uri(url);
    let mut answer = match method {
        "GET" => agent.run(request.body(())?),
        _ => agent.run(request.header("Content-Type", "application/json").body(body.to_owned())?),
    }?;
    let text = answer.body_mut().read_to_string()?;
    if !answer.status().is_success() {
        bail!("Neutron answered {}: {text}", answer.status());
    }
    Ok(serde_json::from_str(&text)?)
}

/// Binds ports and gateways to the chassis that Neutron chose, and waits until Neutron has noticed.
fn bind(
    neutron: &Neutron,
    chassis: &BTreeMap<String, Value>,
    northbound: &mut Rpc,
    southbound: &mut Rpc,
) -> Result<()> {
    let ports = || ask("GET", &format!("{}/v2.0/ports", neutron.url), "");
    let mut bindings = Vec::new();
    for port in ports()?["ports"].as_array().into_iter().flatten() {
        if let (Some(chassis), "ovs") =
            (chassis.get(text(&port["binding:host_id"])?), text(&port["binding:vif_type"])?)
        {
            bindings.push((text(&port["id"])?.to_owned(), chassis.clone()));
        }
    }
    let mut names = BTreeMap::new();
    for row in select(southbound, Database::Southbound, "Chassis", &["_uuid", "name"])? {
        names.insert(text(&row["name"])?.to_owned(), row["_uuid"].clone());
    }
    let members =
        select(northbound, Database::Northbound, "HA_Chassis", &["_uuid", "chassis_name", "priority"])?;
    let groups = select(northbound, Database::Northbound, "HA_Chassis_Group", &["_uuid", "ha_chassis"])?;
    for port in
        select(northbound, Database::Northbound, "Logical_Router_Port", &["name", "ha_chassis_group"])?
    {
        let group = groups.iter().find(|group| group["_uuid"] == port["ha_chassis_group"]);
        let in_group = |row: &&Value| group.is_some_and(|group| refers(&group["ha_chassis"], &row["_uuid"]));
        let first = members.iter().filter(in_group).max_by_key(|row| row["priority"].as_i64());
        if let Some(first) = first {
            bindings
                .push((format!("cr-{}", text(&port["name"])?), names[text(&first["chassis_name"])?].clone()));
        }
    }
    for (port, chassis) in &bindings {
        let row = json!({"chassis": chassis, "up": true});
        let update = json!({"op": "update", "table": "Port_Binding", "where": [["logical_port", "==", port]], "row": row});
        transact(southbound, json!(["OVN_Southbound", update]))?;
    }
    let begin = Instant::now();
    loop {
        let ports = ports()?;
        let waits = |port: &&Value| {
            let bound = port["binding:vif_type"] == "ovs" && port["status"] != "ACTIVE";
            let gateway = bindings.iter().any(|(name, _)| {
                Some(name.as_str()) == port["id"].as_str().map(|id| format!("cr-lrp-{id}")).as_deref()
            });
            bound || (gateway && port["binding:host_id"] == "")
        };
        let late: Vec<&Value> = ports["ports"].as_array().into_iter().flatten().filter(waits).collect();
        if late.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            bail!("Neutron does not see that ports are bound: {late:?}");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Runs Neutron's maintenance in addition to its API, as an installation does, until it has nothing left to repair.
fn mend(neutron: &Neutron, dir: &Path, northbound: &mut Rpc) -> Result<()> {
    let mut command = neutron.program("neutron-ovn-maintenance-worker");
    command.stdout(Stdio::null());
    let _worker =
        Daemon::start("neutron-ovn-maintenance-worker", &mut command, &dir.join("maintenance.log"))?;
    let begin = Instant::now();
    let (mut last, mut since) = (Vec::new(), Instant::now());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let mut now = Vec::new();
        for table in [
            "Logical_Switch",
            "Logical_Switch_Port",
            "Logical_Router",
            "Logical_Router_Port",
            "NAT",
            "DHCP_Options",
        ] {
            now.extend(select(northbound, Database::Northbound, table, &["_uuid", "_version"])?);
        }
        let global = select(northbound, Database::Northbound, "NB_Global", &["external_ids"])?;
        let begun =
            global.iter().any(|row| row["external_ids"].to_string().contains("neutron:fip-distributed"));
        if now != last || !begun {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > QUIET {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            bail!(
                "Neutron's maintenance does not come to an end; see {}",
                dir.join("maintenance.log").display()
            );
        }
    }
}

fn select(rpc: &mut Rpc, database: Database, table: &str, columns: &[&str]) -> Result<Vec<Value>> {
    let op = json!({"op": "select", "table": table, "where": [], "columns": columns});
    let mut reply = transact(rpc, json!([database.name(), op]))?;
    match reply[0]["rows"].take() {
        Value::Array(rows) => Ok(rows),
        _ => bail!("the rows of {table} are not there: {reply}"),
    }
}

fn transact(rpc: &mut Rpc, ops: Value) -> Result<Value> {
    let reply = rpc.call("transact", ops)?;
    let failed = reply.as_array().into_iter().flatten().any(|result| result.get("error").is_some());
    if failed { bail!("a transaction failed: {reply}") } else { Ok(reply) }
}

/// Whether a set of references contains a row.
fn refers(set: &Value, row: &Value) -> bool {
    set == row || set[1].as_array().is_some_and(|rows| rows.contains(row))
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cloud_names_only_what_it_has_made() {
        let requests: Vec<(String, String, String, Value)> = serde_json::from_str(CLOUD).unwrap();
        let mut made = BTreeMap::new();
        for (name, _, path, body) in requests {
            let asked = format!("{path} {body}");
            let known = named(&asked, &made);
            let uses = asked.matches('$').count();
            assert_eq!(known.matches("<made>").count(), uses, "{asked}");
            if !name.is_empty() {
                assert!(made.insert(name.clone(), "<made>".to_owned()).is_none(), "{name} twice");
            }
        }
        assert!(made.len() > 40);
    }
}
