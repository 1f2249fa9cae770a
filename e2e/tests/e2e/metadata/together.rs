//! BGP and metadata in one process, and a VM that moves while it asks.

use std::fs;

use anyhow::{Result, ensure};
use lab::process::Recipe;
use lab::{Lab, eventually};
use ovn::nb::LogicalSwitchPort;
use ovn::sb::PortBinding;

use super::agent::Train;
use super::site::{A, B, Backend, VMS, WITHIN, daemon, gets_its_own, mac, on, ready, run};

/// `meridian node` runs both roles on one connection to the Southbound; each can be off.
pub(super) fn one_process() -> Result<()> {
    run(Backend::Builtin, |lab| {
        ready(lab, "hv1", &[A, B])?;
        let (vm, hv) = (lab.find("vma1")?, lab.chassis("hv1")?);
        gets_its_own(&vm, &VMS[0])?;
        let before = on(hv, "ls -i /run/netns")?;
        let train = Train::start(&vm);
        daemon(lab, "hv1", "metadata-agent")?.stop(WITHIN)?;
        let dir = hv.dir().display().to_string();
        let config = format!("{dir}/node.toml");
        configure(&config, &dir, true)?;
        let recipe = Recipe::new("meridian").args(["node", "--config", &config]);
        hv.start("node", recipe.under(["nsenter", &format!("--mount={dir}/mounts/ns")]))?;
        settled(lab, &["bgp", "metadata"])?;
        let status = asked(lab, "status -o json")?;
        let status: serde_json::Value = serde_json::from_str(&status)?;
        let databases: Vec<_> = status["databases"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["database"].as_str())
            .collect();
        ensure!(databases == [Some("Open_vSwitch"), Some("OVN_Southbound")], "connections: {databases:?}");
        let plan = asked(lab, "plan")?;
        ensure!(plan.contains("bgp: ") && plan.contains("metadata: "), "{plan}");
        let told = asked(lab, "explain 10.0.0.11")?;
        ensure!(told.contains("is instance") && told.contains("10.0.0.11 is"), "{told}");
        let metrics = asked(lab, "status --metrics")?;
        for name in [
            "meridian_bgp_addresses",
            "meridian_metadata_ports",
            "meridian_metadata_requests_total{status=\"200\"}",
            "meridian_metadata_sources_total{result=\"known\"}",
            "meridian_metadata_nova_answer_seconds_total",
            "meridian_ovsdb_connections",
        ] {
            ensure!(metrics.contains(name), "{name} is not in {metrics}");
        }

        println!("BGP is switched off:");
        configure(&config, &dir, false)?;
        daemon(lab, "hv1", "node")?.restart()?;
        settled(lab, &["metadata"])?;
        ensure!(!asked(lab, "status")?.contains("bgp: "), "BGP runs");
        let (answers, failures) = train.end()?;
        ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");
        ensure!(on(hv, "ls -i /run/netns")? == before, "namespaces were made anew");
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])
    })
}

fn configure(path: &str, dir: &str, bgp: bool) -> Result<()> {
    let text = format!(
        "[admin]
socket = \"{dir}/node.sock\"
[bgp]
enabled = {bgp}
ovsdb_connection = \"unix:{dir}/db.sock\"
frr_vty_dir = \"{dir}/frr\"
rt_tables = \"{dir}/rt_tables\"
[metadata]
enabled = true
control_socket = \"{dir}/md/control.sock\"
ovsdb_connection = \"unix:{dir}/db.sock\"
teardown_hold = 2
"
    );
    Ok(fs::write(path, text)?)
}

fn asked(lab: &Lab, command: &str) -> Result<String> {
    let hv = lab.chassis("hv1")?;
    hv.run(&format!("meridian {command} --socket {}/node.sock", hv.dir().display()))
}

/// Waits until these roles have run.
fn settled(lab: &Lab, roles: &[&str]) -> Result<()> {
    eventually(WITHIN, &format!("{roles:?} have run"), || {
        let status = asked(lab, "status -o json")?;
        let status: serde_json::Value = serde_json::from_str(&status)?;
        for role in roles {
            let mut components = status["components"].as_array().into_iter().flatten();
            let found = components.find(|one| one["component"] == *role);
            let is_done =
                found.is_some_and(|one| !one["last_success"].is_null() && one["waiting_for"].is_null());
            ensure!(is_done, "{role} has not run: {found:?}");
        }
        Ok(())
    })
}

/// A VM of B moves from hv1 to hv2, and asks all the while.
pub(super) fn live_migration() -> Result<()> {
    run(Backend::Builtin, moves)
}

/// The move in a lab with any front end. The requests never stop: those at the target begin before the VM is there, and those at the
/// source end when it is not there any more. A second move is cancelled.
pub(super) fn moves(lab: &Lab) -> Result<()> {
    ready(lab, "hv1", &[A, B])?;
    ready(lab, "hv2", &[A])?;
    let source = lab.find("vmb1")?;
    gets_its_own(&source, &VMS[2])?;
    let at_source = Train::start(&source);

    println!("the target gets a port that is not active yet:");
    requested(lab, "hv1,hv2")?;
    let target = lab.vm("vmb1-moved").port("vmb1").on("hv2").mac(&mac(B, 11)).ip("10.0.0.11/24").plug()?;
    target.route("169.254.169.254/32".parse()?, "10.0.0.2".parse()?)?;
    ready(lab, "hv2", &[A, B])?;
    gets_its_own(&target, &VMS[2])?;
    let at_target = Train::start(&target);

    println!("the VM is at the target:");
    complete(at_source)?;
    requested(lab, "hv2")?;
    lab.chassis("hv1")?.unplug("br-int", "tap-vmb1")?;
    bound_alone(lab, "hv2")?;
    ready(lab, "hv2", &[A, B])?;
    ready(lab, "hv1", &[A])?;

    println!("a move back is cancelled:");
    requested(lab, "hv2,hv1")?;
    lab.chassis("hv1")?.plug("br-int", "tap-vmb1", Some("vmb1"))?;
    ready(lab, "hv1", &[A, B])?;
    gets_its_own(&source, &VMS[2])?;
    requested(lab, "hv2")?;
    lab.chassis("hv1")?.unplug("br-int", "tap-vmb1")?;
    bound_alone(lab, "hv2")?;
    ready(lab, "hv1", &[A])?;
    ready(lab, "hv2", &[A, B])?;
    complete(at_target)
}

fn complete(train: Train) -> Result<()> {
    let (answers, failures) = train.end()?;
    ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");
    println!("{answers} answers");
    Ok(())
}

/// Waits until the moved port is bound to one chassis and to no other.
fn bound_alone(lab: &Lab, hv: &str) -> Result<()> {
    lab.central("az1")?.sb().until(WITHIN, &format!("the port is bound to {hv} alone"), |sb| {
        let port = sb.table::<PortBinding>().iter().find(|(_, row)| row.logical_port == "vmb1")?.1;
        let name = &sb.get(port.chassis?)?.name;
        (name == hv && port.additional_chassis.is_empty()).then_some(())
    })
}

fn requested(lab: &Lab, chassis: &str) -> Result<()> {
    lab.central("az1")?.nb().change::<LogicalSwitchPort>(
        |port| port.name == "vmb1",
        |port| {
            port.options.insert("requested-chassis".into(), chassis.into());
        },
    )
}
