//! The package's units of the metadata agent and its proxy, under a real systemd with all that they forbid themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use lab::node::systemd::Systemd;
use lab::{Topology, chassis, eventually};

use super::agent::Train;
use super::site::{A, B, VMS, WITHIN, gets_its_own, networks, nova, ready, vms};

const AGENT: &str = "meridian-metadata-agent";
const PROXY: &str = "meridian-metadata-proxy";
const CONFIG: &str = "/etc/neutron/neutron_ovn_metadata_agent.ini";
const COMMON: &str = "/etc/neutron/neutron.conf";
/// The proxy may use the neighbour tables that it is passed, though it may not open any.
const ENFORCED: &str = "[meridian_metadata]\nverify_source_mac = enforce\n";
/// CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_SYS_ADMIN, as the kernel writes them.
const AGENTS: &str = "0000000000201400";
const NONE: &str = "0000000000000000";

pub(super) fn run() -> Result<()> {
    Topology::new().central("az1").chassis(chassis("hv1")).run(|lab| {
        let hv1 = lab.chassis("hv1")?;
        nova(hv1)?;
        networks(lab)?;
        vms(lab, &["hv1"])?;
        // The machine has a place for FRR's sockets, which nobody uses here.
        fs::create_dir_all("/run/frr/hv1")?;
        let machine = Systemd::start(&lab.find("hv1")?)?;
        machine.install_meridian()?;
        fs::create_dir_all("/etc/neutron")?;
        // As some deployments have it: the secret is in Neutron's common file, and options of other programs beside it.
        fs::write(COMMON, "[DEFAULT]\ncore_plugin = ml2\nmetadata_proxy_shared_secret = secret\n")?;
        fs::write(CONFIG, ENFORCED)?;
        for file in [COMMON, CONFIG] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
        }
        let verify =
            "systemd-analyze verify --man=no /usr/lib/systemd/system/meridian-metadata-*.service 2>&1";
        let told = machine.run_args(&["sh", "-c", verify])?;
        ensure!(told.is_empty(), "systemd finds fault with the units:\n{told}");

        println!("both are started:");
        machine.run(&format!("systemctl enable --now {PROXY} {AGENT}"))?;
        ready(lab, "hv1", &[A, B])?;
        let (one, other) = (lab.find("vma1")?, lab.find("vmb1")?);
        gets_its_own(&one, &VMS[0])?;
        gets_its_own(&other, &VMS[2])?;
        privileges(&machine, PROXY, NONE)?;
        privileges(&machine, AGENT, AGENTS)?;
        let root = |unit: &str| anyhow::Ok(user(&machine, unit)? == "0");
        ensure!(root(AGENT)? && !root(PROXY)?, "the proxy is root, or the agent is not");
        let names = machine.run("ls /run/netns")?;
        ensure!(names.contains(&format!("ovnmeta-{A}")), "the host does not see the namespaces: {names}");
        let status = machine.run("meridian status")?;
        ensure!(status.contains("metadata: converged") && !status.contains("problem"), "{status}");

        println!("the agent is restarted, stopped and killed:");
        let train = Train::start(&one);
        machine.run(&format!("systemctl restart {AGENT}"))?;
        machine.run(&format!("systemctl stop {AGENT}"))?;
        gets_its_own(&other, &VMS[2])?;
        machine.run(&format!("systemctl start {AGENT}"))?;
        machine.run(&format!("systemctl kill --signal KILL {AGENT}"))?;
        eventually(WITHIN, "systemd has started the agent again", || {
            let (restarts, state) =
                (machine.property(AGENT, "NRestarts")?, machine.property(AGENT, "ActiveState")?);
            ensure!(restarts == "1" && state == "active", "{restarts} restarts, {state}");
            Ok(())
        })?;
        let (answers, failures) = train.end()?;
        ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");

        println!("the package is upgraded:");
        let train = Train::start(&one);
        machine.install_meridian()?;
        eventually(WITHIN, "agent and proxy run again", || {
            for unit in [AGENT, PROXY] {
                let state = machine.property(unit, "ActiveState")?;
                ensure!(state == "active", "{unit} is {state}");
            }
            Ok(())
        })?;
        ready(lab, "hv1", &[A, B])?;
        let (answers, failures) = train.end()?;
        ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");

        println!("the configuration is wrong, then metadata is switched off, then all is right again:");
        for (text, state) in [
            ("[meridian_metadata]\nverify_source_macs = enforce\n", "failed"),
            ("[ovn]\novn_metadata_enabled = false\n", "active"),
        ] {
            fs::write(CONFIG, text)?;
            for unit in [PROXY, AGENT] {
                // It fails where the unit does.
                let _ = machine.run(&format!("systemctl restart {unit}"));
                eventually(WITHIN, "the unit has settled", || {
                    let now = machine.property(unit, "ActiveState")?;
                    ensure!(now == state, "{unit} is {now}");
                    Ok(())
                })?;
                let restarts = machine.property(unit, "NRestarts")?;
                ensure!(restarts == "0", "{unit} was started again {restarts} times");
            }
        }
        let idle = machine.property(AGENT, "StatusText")?;
        ensure!(idle.contains("metadata is switched off"), "{idle}");
        fs::write(CONFIG, ENFORCED)?;
        machine.run(&format!("systemctl restart {PROXY} {AGENT}"))?;
        gets_its_own(&one, &VMS[0])?;

        println!("the proxy is killed, and the package removed:");
        machine.run(&format!("systemctl kill --signal KILL {PROXY}"))?;
        gets_its_own(&one, &VMS[0])?;
        ready(lab, "hv1", &[A, B])?;
        machine.run("dpkg --force-bad-path --remove meridian")?;
        for unit in [AGENT, PROXY] {
            let state = machine.property(unit, "ActiveState")?;
            ensure!(state == "inactive", "{unit} is {state}");
        }
        Ok(())
    })
}

fn status(machine: &Systemd, unit: &str, key: &str) -> Result<String> {
    let pid = machine.property(unit, "MainPID")?;
    let status = machine.run(&format!("cat /proc/{pid}/status"))?;
    let found = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    Ok(found.with_context(|| format!("no {key} in\n{status}"))?.trim().to_owned())
}

fn user(machine: &Systemd, unit: &str) -> Result<String> {
    Ok(status(machine, unit, "Uid")?.split_whitespace().next().unwrap_or_default().to_owned())
}

/// The capabilities of a unit's process, and no way to more.
fn privileges(machine: &Systemd, unit: &str, capabilities: &str) -> Result<()> {
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        let found = status(machine, unit, set)?;
        ensure!(found == capabilities, "{set} of {unit} is {found} and not {capabilities}");
    }
    ensure!(status(machine, unit, "NoNewPrivs")? == "1", "{unit} may gain privileges");
    ensure!(status(machine, unit, "Seccomp")? == "2", "{unit} may call anything");
    Ok(())
}
