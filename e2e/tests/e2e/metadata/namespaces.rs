//! The namespaces of the metadata agent, made by the target itself in a real kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use node::netns::{Namespace, Namespaces, Observed, plan};
use ovn::MacAddr;
use ovsdb::Uuid;

const ONE: Uuid = Uuid::from_u128(0x11111111_2222_3333_4444_555555555555);
/// Shares its first ten characters with the other.
const TWIN: Uuid = Uuid::from_u128(0x11111111_2222_3333_4444_666666666666);

fn want(last: u8) -> Result<Namespace> {
    let mac = MacAddr([2, 0, 0, 0, 0, last]);
    let mut addresses = BTreeSet::new();
    for address in [format!("10.0.1.{last}/24"), "169.254.169.254/32".into(), "fe80::a9fe:a9fe/128".into()] {
        addresses.insert(address.parse()?);
    }
    addresses.insert(format!("{}/64", mac.link_local()).parse()?);
    let on_link = [format!("10.9.{last}.0/24").parse()?].into();
    Ok(Namespace { mac, mtu: Some(1442), addresses, on_link })
}

/// Brings a network to its desired state; returns the number of ops that took.
fn converge(namespaces: &Namespaces, network: Uuid, want: &Namespace) -> Result<usize> {
    let plan = plan::build(network, want, &namespaces.observe()?, &BTreeSet::new());
    for op in &plan.ops {
        println!("{network}: {op}");
        namespaces.apply(network, op).with_context(|| op.to_string())?;
    }
    Ok(plan.ops.len())
}

fn remove(namespaces: &Namespaces, network: Uuid) -> Result<()> {
    for op in plan::tear_down(network, &namespaces.observe()?) {
        namespaces.apply(network, &op).with_context(|| op.to_string())?;
    }
    Ok(())
}

fn run(line: &[&str]) -> Result<String> {
    let (program, args) = line.split_first().context("a command")?;
    let out = std::process::Command::new(program).args(args).output()?;
    ensure!(out.status.success(), "{line:?}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

pub(super) fn built_and_removed() -> Result<()> {
    // A host that forwards must not make its namespaces forward.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    let namespaces = Namespaces::default();
    let before = namespaces.observe()?;
    ensure!(converge(&namespaces, ONE, &want(2)?)? > 0);
    ensure!(
        converge(&namespaces, ONE, &want(2)?)? == 0,
        "a second plan has steps: {:#?}",
        namespaces.observe()?
    );
    let inside = |command: &[&str]| {
        run(&[&["ip", "netns", "exec", "ovnmeta-11111111-2222-3333-4444-555555555555"], command].concat())
    };
    let shown = inside(&["ip", "addr"])?;
    println!("{shown}");
    for words in [
        "tap11111111-21@",
        "02:00:00:00:00:02",
        "10.0.1.2/24",
        "169.254.169.254/32",
        "fe80::a9fe:a9fe/128",
        "mtu 1442",
    ] {
        ensure!(shown.contains(words), "{words} is missing in:\n{shown}");
    }
    ensure!(!shown.contains("tentative"), "duplicates are looked for:\n{shown}");
    ensure!(inside(&["cat", "/proc/sys/net/ipv4/ip_forward"])?.trim() == "0", "the namespace forwards");
    let routes = inside(&["ip", "route"])?;
    ensure!(!routes.contains("default"), "the namespace has a way out: {routes}");
    let on_link = "10.9.2.0/24 dev tap11111111-21 proto static scope link src 169.254.169.254";
    ensure!(routes.contains(on_link), "{routes}");

    // A twin gets other names; both can be there at once.
    ensure!(converge(&namespaces, TWIN, &want(3)?)? > 0);
    ensure!(converge(&namespaces, TWIN, &want(3)?)? == 0 && converge(&namespaces, ONE, &want(2)?)? == 0);

    // Changes in place, by the port and by others.
    let mut moved = want(9)?;
    moved.mtu = Some(1400);
    ensure!(converge(&namespaces, ONE, &moved)? > 0 && converge(&namespaces, ONE, &moved)? == 0);
    inside(&["ip", "addr", "add", "10.99.0.1/24", "dev", "tap11111111-21"])?;
    inside(&["ip", "link", "set", "tap11111111-21", "down"])?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    inside(&["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])?;
    ensure!(converge(&namespaces, ONE, &moved)? > 0);
    // Addresses of IPv6 go with the link, so one more pass may be due.
    converge(&namespaces, ONE, &moved)?;
    ensure!(converge(&namespaces, ONE, &moved)? == 0, "{:#?}", namespaces.observe()?);

    // A foreign namespace and a foreign device stay.
    run(&["ip", "netns", "add", "qdhcp-1"])?;
    remove(&namespaces, ONE)?;
    remove(&namespaces, ONE)?;
    remove(&namespaces, TWIN)?;
    ensure!(namespaces.observe()? == before, "something is left: {:#?}", namespaces.observe()?);
    ensure!(Path::new("/run/netns/qdhcp-1").exists());

    // A file that is no namespace is replaced.
    fs::write(namespaces.path(ONE), "")?;
    ensure!(namespaces.observe()?.broken.contains(&ONE));
    ensure!(converge(&namespaces, ONE, &want(2)?)? > 0 && converge(&namespaces, ONE, &want(2)?)? == 0);
    remove(&namespaces, ONE)?;
    ensure!(namespaces.observe()? == Observed::default().clone() || namespaces.observe()? == before);
    Ok(())
}
