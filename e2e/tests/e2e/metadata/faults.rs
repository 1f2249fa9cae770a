//! What others break around the metadata agent: a reboot, databases that restart, and leftovers.

use anyhow::{Result, ensure};
use lab::{Lab, eventually};

use super::agent::{Train, kill_haproxy};
use super::site::{A, B, Backend, VMS, WITHIN, daemon, gets_its_own, on, ready, run};

/// A network that no database knows.
const STALE: &str = "cccccccc-2222-3333-4444-555555555555";

pub(super) fn mended() -> Result<()> {
    run(Backend::Builtin, |lab| mend(lab, Backend::Builtin))
}

/// Both networks are served by hv1 before and afterwards.
pub(super) fn mend(lab: &Lab, backend: Backend) -> Result<()> {
    ready(lab, "hv1", &[A, B])?;
    let (hv1, vm) = (lab.chassis("hv1")?, lab.find("vma1")?);
    gets_its_own(&vm, &VMS[0])?;

    println!("the databases restart:");
    let before = on(hv1, "ls -i /run/netns")?;
    let train = Train::start(&vm);
    lab.central("az1")?.daemon("ovsdb-server-sb")?.restart()?;
    ready(lab, "hv1", &[A, B])?;
    hv1.daemon("ovsdb-server")?.restart()?;
    gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;
    let (answers, failures) = train.end()?;
    ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");
    ensure!(on(hv1, "ls -i /run/netns")? == before, "namespaces were made anew");

    println!("ovn-controller ends and starts:");
    hv1.run(&format!("ovn-appctl -t {}/ovn-controller.ctl exit", hv1.dir().display()))?;
    gone(lab)?;
    hv1.daemon("ovn-controller")?.ended(WITHIN)?;
    hv1.daemon("ovn-controller")?.start_again()?;
    ready(lab, "hv1", &[A, B])?;
    gets_its_own(&vm, &VMS[0])?;
    ensure!(on(hv1, "ls -i /run/netns")? == before, "namespaces were made anew");

    println!("the host reboots, as far as namespaces are concerned, and others leave theirs:");
    daemon(lab, "hv1", "metadata-agent")?.kill()?;
    daemon(lab, "hv1", "metadata-proxy")?.kill()?;
    if backend == Backend::Haproxy {
        kill_haproxy(hv1, A)?;
        kill_haproxy(hv1, B)?;
        // The files of a network that went with the reboot.
        for file in ["ovn-metadata-proxy/STALE.conf", "external/pids/STALE.pid.haproxy"] {
            std::fs::write(hv1.dir().join("state").join(file.replace("STALE", STALE)), "1")?;
        }
    }
    for network in [A, B] {
        on(hv1, &format!("ip netns del ovnmeta-{network}"))?;
    }
    // Nobody has a socket there any more, so the devices go with the namespaces.
    eventually(WITHIN, "the devices are gone", || {
        let links = hv1.run("ip -o link show type veth")?;
        ensure!(!links.contains("tapaaaa") && !links.contains("tapbbbb"), "{links}");
        Ok(())
    })?;
    for name in [&format!("ovnmeta-{STALE}"), "qdhcp-1"] {
        on(hv1, &format!("ip netns add {name}"))?;
    }
    // A container that restarts leaves such a file.
    on(hv1, &format!("touch /run/netns/ovnmeta-{A}"))?;
    daemon(lab, "hv1", "metadata-proxy")?.start_again()?;
    daemon(lab, "hv1", "metadata-agent")?.start_again()?;
    gets_its_own(&vm, &VMS[0])?;
    gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;
    ready(lab, "hv1", &[A, B])?;
    eventually(WITHIN, "the stale namespace is gone and the foreign one is there", || {
        let names = on(hv1, "ls /run/netns")?;
        ensure!(!names.contains(STALE) && names.contains("qdhcp-1"), "{names}");
        Ok(())
    })?;
    for dir in ["ovn-metadata-proxy", "external/pids"] {
        for file in std::fs::read_dir(hv1.dir().join("state").join(dir)).into_iter().flatten() {
            let name = file?.file_name();
            ensure!(!name.to_string_lossy().contains(STALE), "{name:?} is left");
        }
    }
    on(hv1, "ip netns del qdhcp-1")?;
    Ok(())
}

/// Waits until OVN does not know the chassis any more.
fn gone(lab: &Lab) -> Result<()> {
    lab.central("az1")?.sb().until(WITHIN, "the Chassis row is gone", |sb| {
        let mut rows = sb.table::<ovn::sb::Chassis>().iter();
        (!rows.any(|(_, row)| row.name == "hv1")).then_some(())
    })
}
