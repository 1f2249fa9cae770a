//! PID 1 of a User Mode Linux guest: from the bare kernel to a running test, and to power-off.

use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::termios::{SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};

use super::mounts::{enter, host_folder, mount_at, overlay, settle, usual, write};
use super::{fail, supervise};
use crate::guest::tools;
use crate::job::{INSIDE, OPENSTACK, Spec};

/// The kernel modules of a lab, loaded at once. The kernel cannot load them on demand, because it searches the wrong root.
const MODULES: &[&str] = &[
    "overlay",
    "8021q",
    "bridge",
    "dummy",
    "geneve",
    "nf_conntrack",
    "nf_nat",
    "openvswitch",
    "sch_netem",
    "tun",
    "veth",
    "vrf",
];

pub(super) fn main() -> Result<ExitCode> {
    if let Err(error) = run() {
        // The error goes to the console and to the job folder, because either may be unreadable.
        eprintln!("the guest failed: {error:#}");
        let _ = fail(&error.context("the guest could not be made ready"));
    }
    nix::unistd::sync();
    // The call returns only on failure, because it turns the guest off.
    let never = reboot(RebootMode::RB_POWER_OFF).context("cannot turn the guest off")?;
    match never {}
}

fn run() -> Result<()> {
    mount_at("proc", Path::new("/proc"), "")?;
    mount_at("sysfs", Path::new("/sys"), "")?;
    let spec = Spec::inside()?;
    load(&spec)?;
    let scratch = Path::new("/run");
    mount_at("tmpfs", scratch, "mode=755")?;
    let root = overlay(Path::new("/"), scratch)?;
    mount_at("devtmpfs", &root.join("dev"), "")?;
    usual(&root)?;
    // With the old mount call, the option is the whole path on the host; mount(8) would pass it differently.
    mount_at("hostfs", &root.join(INSIDE.trim_start_matches('/')), "/")?;
    if Path::new(INSIDE).join(tools::OPENSTACK).symlink_metadata().is_ok() {
        host_folder(tools::OPENSTACK, &root.join(OPENSTACK.trim_start_matches('/')))?;
    }
    enter(&root)?;
    settle()?;
    // The kernel must not load modules either. It would run modprobe for the name of each bridge before the bridge exists: thirty processes
    // for three chassis, a third of a second.
    write("/proc/sys/kernel/modprobe", "\n")?;
    // An oops must stop the guest, or it would go unnoticed.
    write("/proc/sys/kernel/panic_on_oops", "1")?;
    let console = if spec.task.on_terminal() { open("/dev/tty0")? } else { plain("/dev/tty1")? };
    let done = supervise(&spec, Some(&console));
    let _ = tcdrain(&console);
    done
}

/// Loads the modules. A custom kernel may have them built in without listing them; if one is missing, a test fails.
fn load(spec: &Spec) -> Result<()> {
    let out = Command::new("/usr/sbin/modprobe")
        .arg("-a")
        .args(MODULES)
        .stdin(Stdio::null())
        .output()
        .context("cannot run modprobe")?;
    if !out.status.success() && !spec.env.contains_key("LAB_KERNEL") {
        bail!("cannot load the kernel's modules: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}

fn open(path: &str) -> Result<File> {
    File::options().read(true).write(true).open(path).with_context(|| format!("cannot open {path}"))
}

/// Opens a terminal that passes bytes unchanged.
fn plain(path: &str) -> Result<File> {
    let file = open(path)?;
    let mut settings = tcgetattr(&file).with_context(|| format!("{path} is no terminal"))?;
    cfmakeraw(&mut settings);
    tcsetattr(&file, SetArg::TCSANOW, &settings).with_context(|| format!("cannot make {path} plain"))?;
    Ok(file)
}
