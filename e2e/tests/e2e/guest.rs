//! The basis of all other tests: a guest boots and has the expected system.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use lab::job::{Backend, Spec};
use lab::{Need, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "guest::boots",
            "a guest boots, and a test in it is root on a system of its own",
            &[],
            boots,
        ),
        Test::new(
            "guest::sees_of_the_host_its_job_folder",
            "a guest's view of the host's files begins at its job folder",
            &[],
            shut_in,
        ),
        Test::new(
            "guest::has_the_devices_of_a_border_router",
            "a guest has VRF, dummy and VLAN devices, whatever the host's kernel lacks",
            &[Need::Vrf, Need::Dummy, Need::Vlan, Need::Netem],
            devices,
        ),
    ]
}

fn boots() -> Result<()> {
    ensure!(fs::read_to_string("/proc/sys/kernel/hostname")?.trim() == "lab", "another machine's name");
    // The root file system is writable, and the next guest does not see the changes.
    fs::write("/etc/hostname", "lab\n").context("the root file system is not writable")?;
    ensure!(Path::new("/job/job.json").is_file(), "no job folder");
    fs::write("/job/note", "from the inside").context("the job folder is not writable")?;
    ensure!(!Path::new("/home/lab-was-here").exists(), "not a fresh system");
    fs::write("/home/lab-was-here", "")?;
    println!("ready: {}", run("uname -r")?.trim());
    println!("{}", run("ovn-nbctl --version")?.lines().next().unwrap_or_default());
    run("ping -c 1 -W 5 127.0.0.1").map(|_| ())
}

fn shut_in() -> Result<()> {
    if Spec::inside()?.backend == Backend::Native {
        // The guest has another root, and only the job folder is mounted from outside.
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let seen: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        ensure!(
            seen.iter().all(|at| ["/", "/dev", "/job", "/proc", "/run", "/sys", "/tmp"]
                .iter()
                .any(|ours| at == ours)
                || at.starts_with("/dev/")),
            "{seen:?}"
        );
        return Ok(());
    }
    // Every Linux has /etc, so if the host's own tree could be reached this would work.
    ensure!(run("mount -t hostfs -o hostfs=/etc none /mnt").is_err(), "the host's /etc was mounted");
    run("mount -t hostfs -o hostfs=/ none /mnt")?;
    ensure!(Path::new("/mnt/job.json").is_file(), "the job folder is not where the host's tree begins");
    Ok(())
}

fn devices() -> Result<()> {
    for line in [
        "ip link add red type vrf table 10",
        "ip link add nic type dummy",
        "ip link set nic master red",
        "ip link add left type veth peer name right",
        "ip link add link left name left.100 type vlan id 100",
        "tc qdisc add dev right root netem delay 1ms",
        "ip tuntap add dev tap0 mode tap",
    ] {
        run(line)?;
    }
    Ok(())
}

/// Runs a command line without a shell; returns its output.
pub(crate) fn run(line: &str) -> Result<String> {
    let mut words = line.split(' ');
    let out = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output()
        .with_context(|| format!("cannot run `{line}`"))?;
    ensure!(out.status.success(), "`{line}` failed: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
