//! The metadata agent and its proxy, with packets.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddrV6, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use lab::node::Node;
use lab::node::chassis::Chassis;
use lab::{Lab, eventually};
use ovn::sb::PortBinding;
use ovn::text::Text;
use ovn::vswitch::Interface;

use super::site::{
    A, B, Backend, SERVICE, VMS, WITHIN, configure, daemon, gets_its_own, mac, on, ready, run, send,
};

/// VMs get their own data; nobody gets another one's.
pub(super) fn own_data() -> Result<()> {
    own_data_through(Backend::Builtin)
}

/// The same with a haproxy in each namespace.
pub(super) fn own_data_through_haproxy() -> Result<()> {
    own_data_through(Backend::Haproxy)
}

fn own_data_through(backend: Backend) -> Result<()> {
    run(backend, |lab| {
        ready(lab, "hv1", &[A, B])?;
        ready(lab, "hv2", &[A])?;
        for vm in &VMS {
            gets_its_own(&*lab.find(vm.0)?, vm)?;
        }
        identified(lab)?;
        explained(lab)?;
        attacks(lab)?;
        super::attacks::all(lab, backend)?;
        super::spoofing::all(lab)?;
        ipv6(lab)?;
        routed(lab)?;
        without_an_address(lab)
    })
}

/// E19: a subnet that the metadata port has no address in. The service's address is on the link of its VMs.
fn without_an_address(lab: &Lab) -> Result<()> {
    lab.central("az1")?.nb().change::<ovn::nb::LogicalSwitchPort>(
        |port| port.name == "md-b",
        |port| {
            port.addresses = [Text::new(&mac(B, 2))].into_iter().collect();
            port.external_ids.insert("neutron:cidrs".into(), "".into());
        },
    )?;
    let hv = lab.chassis("hv1")?;
    eventually(WITHIN, "the namespace has a route and no address", || {
        let routes = on(hv, &format!("ip netns exec ovnmeta-{B} ip route"))?;
        let expected = "10.0.0.0/24 dev tapbbbbbbbb-21 proto static scope link src 169.254.169.254";
        ensure!(routes.trim() == expected, "{routes}");
        Ok(())
    })?;
    let vm = lab.find("vmb1")?;
    vm.run("ip route replace 169.254.169.254/32 dev eth0")?;
    gets_its_own(&vm, &VMS[2])
}

/// The agent's keys are those that the agents API reads.
fn identified(lab: &Lab) -> Result<()> {
    let db = "ovn-sbctl --no-leader-only --db=unix:/run/az1/sb.sock";
    let keys = lab.chassis("hv1")?.run(&format!("{db} get Chassis_Private hv1 external_ids"))?;
    let id = ovn::ident::metadata_agent_id("hv1");
    for words in [
        format!("\"neutron:ovn-metadata-id\"=\"{id}\""),
        "\"neutron:ovn-metadata-sb-cfg\"=".into(),
        "\"neutron:ovn-bridge\"=br-int".into(),
    ] {
        ensure!(keys.contains(&words), "{words} is not in {keys}");
    }
    Ok(())
}

/// The agent tells whose data an address would get.
fn explained(lab: &Lab) -> Result<()> {
    let hv = lab.chassis("hv1")?;
    let ask =
        |ip: &str| hv.run(&format!("meridian explain {ip} --socket {}/metadata.sock", hv.dir().display()));
    let both = ask("10.0.0.11")?;
    for vm in VMS.iter().filter(|vm| vm.2 == "hv1" && vm.3 == 11) {
        let words =
            format!("On network {} it is instance {} of project p1, and the network is ready.", vm.1, vm.4);
        ensure!(both.contains(&words), "{words:?} is not in {both}");
    }
    let elsewhere = ask("10.0.0.12")?;
    ensure!(elsewhere.contains("No instance on this chassis has 10.0.0.12"), "{elsewhere}");
    Ok(())
}

fn attacks(lab: &Lab) -> Result<()> {
    let vm = lab.find("vmb1")?;
    let service = SERVICE.parse()?;
    let evil = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.0.0.12\r\nX-Instance-ID: aaaaaaaa-0000-4000-8000-000000000001\r\n\
                X_Instance_ID: aaaaaaaa-0000-4000-8000-000000000001\r\nX-Tenant-ID: p2\r\nX-Metadata-Provider: x\r\n\
                X-OVN-Network-ID: aaaaaaaa-2222-3333-4444-555555555555\r\nX-Neutron-Router-ID: x\r\nForwarded: for=x\r\nConnection: close\r\n\r\n";
    let said = send(&vm, service, evil)?;
    ensure!(said.contains("instance bbbbbbbb-0000-4000-8000-000000000001 "), "{said}");
    for header in ["metadata-provider", "x_instance", "forwarded: for", "router-id", "ovn-network"] {
        ensure!(!said.to_lowercase().contains(header), "{header} reached Nova: {said}");
    }
    // Addresses of VMs of another network, on this chassis and on another one, and one that nobody has.
    let address = |verb: &str, ip: &str| vm.run(&format!("ip addr {verb} {ip}/24 dev eth0"));
    let route = || vm.run("ip route replace 169.254.169.254/32 via 10.0.0.2").map(drop);
    let take =
        |old: &str, new: &str| address("del", old).and_then(|_| address("add", new)).and_then(|_| route());
    let get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut own = "10.0.0.11";
    for strange in ["10.0.0.13", "10.0.0.12", "10.0.0.77"] {
        take(own, strange)?;
        own = strange;
        let said = eventually(WITHIN, &format!("{strange} is answered"), || send(&vm, service, get))?;
        ensure!(said.starts_with("HTTP/1.1 404"), "{strange} got {said}");
    }
    take(own, "10.0.0.11")?;
    gets_its_own(&vm, &VMS[2])?;
    ensure!(
        send(&vm, "10.0.0.2:80".parse()?, "GET / HTTP/1.0\r\n\r\n").is_err(),
        "the port's own address answers"
    );
    let trace = send(&vm, service, "TRACE / HTTP/1.0\r\n\r\n")?;
    ensure!(trace.split(' ').nth(1) == Some("405"), "{trace}");
    Ok(())
}

fn ipv6(lab: &Lab) -> Result<()> {
    let vm = lab.find("vma1")?;
    let index = vm.index("eth0")?;
    let service = SocketAddrV6::new("fe80::a9fe:a9fe".parse()?, 80, 0, index).into();
    let ask = || {
        send(&vm, service, "GET / HTTP/1.1\r\nHost: [fe80::a9fe:a9fe%25eth0]\r\nConnection: close\r\n\r\n")
    };
    let said = eventually(WITHIN, "vma1 has metadata by IPv6", ask)?;
    println!("{}", said.trim());
    ensure!(said.contains("instance aaaaaaaa-0000-4000-8000-000000000001 "), "{said}");
    ensure!(said.contains("x-forwarded-for: fe80::"), "{said}");
    Ok(())
}

/// VMs that know nothing but their default gateway reach the service through their router, each that of its own network.
fn routed(lab: &Lab) -> Result<()> {
    let az1 = lab.central("az1")?;
    az1.write(|net| {
        for (router, network) in [("lr-a", A), ("lr-b", B)] {
            net.router(router)
                .join(&format!("neutron-{network}"), "02:00:00:00:ff:01", "10.0.0.1/24")
                .static_route("169.254.169.254/32", "10.0.0.2")
                .policy(1000, "ip4.dst == 169.254.169.254", Some("10.0.0.2"));
        }
    })?;
    az1.sync()?;
    for vm in VMS.iter().filter(|vm| vm.2 == "hv1") {
        let node = lab.find(vm.0)?;
        node.run("ip route del 169.254.169.254/32")?;
        node.default_route("10.0.0.1".parse()?)?;
        gets_its_own(&node, vm)?;
    }
    Ok(())
}

/// Requests of a VM, one after the other, until they are stopped.
pub(super) struct Train {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(usize, Vec<String>)>,
}

impl Train {
    pub(super) fn start(vm: &Arc<Node>) -> Train {
        let (vm, stop) = (Arc::clone(vm), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut answers, mut failures) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                match vm.http("GET", SERVICE, "/", "") {
                    Ok(_) => answers += 1,
                    Err(error) => failures.push(format!("{error:#}")),
                }
            }
            (answers, failures)
        });
        Train { stop, thread }
    }

    /// The number of answers, and all failures.
    pub(super) fn end(self) -> Result<(usize, Vec<String>)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the requests panicked")
    }
}

/// As often the agent is restarted under requests.
const RESTARTS: usize = 12;

/// Restarts lose no request.
pub(super) fn restarts() -> Result<()> {
    restarts_through(Backend::Builtin)
}

/// The same with a haproxy in each namespace.
pub(super) fn restarts_through_haproxy() -> Result<()> {
    restarts_through(Backend::Haproxy)
}

fn restarts_through(backend: Backend) -> Result<()> {
    run(backend, |lab| {
        ready(lab, "hv1", &[A, B])?;
        let (vm, hv) = (lab.find("vma1")?, lab.chassis("hv1")?);
        gets_its_own(&vm, &VMS[0])?;
        let before = on(hv, "ls -i /run/netns")?;
        let links = hv.run("ip -o link show type veth")?;
        let train = Train::start(&vm);
        for _ in 0..RESTARTS {
            daemon(lab, "hv1", "metadata-agent")?.restart()?;
            eventually(WITHIN, "the agent has converged", || converged(lab, "hv1"))?;
        }
        let (answers, failures) = train.end()?;
        ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");
        println!("{answers} answers over {RESTARTS} restarts of the agent");
        ensure!(on(hv, "ls -i /run/netns")? == before, "the agent made its namespaces anew");
        ensure!(hv.run("ip -o link show type veth")? == links, "the agent changed its devices");
        ready(lab, "hv1", &[A, B])?;

        let train = Train::start(&vm);
        daemon(lab, "hv1", "metadata-proxy")?.kill()?;
        daemon(lab, "hv1", "metadata-proxy")?.start_again()?;
        eventually(WITHIN, "the agent has converged", || converged(lab, "hv1"))?;
        gets_its_own(&vm, &VMS[0])?;
        let (answers, failures) = train.end()?;
        // The request under way is lost with its proxy; those that come meanwhile wait.
        ensure!(failures.len() <= 1, "{answers} answers, failures: {failures:?}");
        ensure!(!failures.iter().any(|failure| failure.contains("refused")), "{failures:?}");
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;

        println!("ovs-vswitchd restarts:");
        hv.daemon("ovs-vswitchd")?.restart()?;
        gets_its_own(&vm, &VMS[0])?;
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;
        ready(lab, "hv1", &[A, B])?;
        ensure!(on(hv, "ls -i /run/netns")? == before, "the agent made its namespaces anew");
        if backend == Backend::Haproxy {
            println!("a haproxy dies:");
            let killed = kill_haproxy(hv, A)?;
            eventually(WITHIN, "another haproxy takes its place", || {
                let now = haproxy(hv, A)?;
                ensure!(now != killed && haproxies()? == 3, "{now}, {} in all", haproxies()?);
                Ok(())
            })?;
            gets_its_own(&vm, &VMS[0])?;
            ready(lab, "hv1", &[A, B])?;
            super::together::moves(lab)?;
        }
        Ok(())
    })
}

/// The process of a network's haproxy.
pub(super) fn haproxy(hv: &Chassis, network: &str) -> Result<i32> {
    let file = hv.dir().join(format!("state/external/pids/{network}.pid.haproxy"));
    Ok(std::fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?.trim().parse()?)
}

/// Ends the haproxy of a network as the kernel does when memory is short.
pub(super) fn kill_haproxy(hv: &Chassis, network: &str) -> Result<i32> {
    let pid = haproxy(hv, network)?;
    hv.run(&format!("kill -9 {pid}"))?;
    Ok(pid)
}

/// An agent with sockets of its own takes the place of haproxies, as it does with those of neutron-ovn-metadata-agent.
pub(super) fn takes_over_from_haproxy() -> Result<()> {
    run(Backend::Haproxy, |lab| {
        ready(lab, "hv1", &[A, B])?;
        let (vm, hv) = (lab.find("vma1")?, lab.chassis("hv1")?);
        gets_its_own(&vm, &VMS[0])?;
        ensure!(haproxies()? == 3, "there are {} haproxies", haproxies()?);
        let before = on(hv, "ls -i /run/netns")?;
        let train = Train::start(&vm);
        configure(hv, Backend::Builtin)?;
        daemon(lab, "hv1", "metadata-agent")?.restart()?;
        eventually(WITHIN, "the haproxies of this chassis are gone", || {
            ensure!(haproxies()? == 1, "there are {} haproxies", haproxies()?);
            converged(lab, "hv1")
        })?;
        let (answers, failures) = train.end()?;
        ensure!(answers > 0 && failures.is_empty(), "{answers} answers, failures: {failures:?}");
        ensure!(on(hv, "ls -i /run/netns")? == before, "namespaces were made anew");
        no_files(hv)?;
        ready(lab, "hv1", &[A, B])?;
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])
    })
}

/// No file of a haproxy is left.
pub(super) fn no_files(hv: &Chassis) -> Result<()> {
    for dir in ["state/ovn-metadata-proxy", "state/external/pids"] {
        let files = std::fs::read_dir(hv.dir().join(dir)).into_iter().flatten().flatten();
        let files: Vec<_> = files.map(|file| file.file_name()).collect();
        ensure!(files.is_empty(), "left in {dir}: {files:?}");
    }
    Ok(())
}

fn converged(lab: &Lab, hv: &str) -> Result<()> {
    let hv = lab.chassis(hv)?;
    let status = hv.run(&format!("meridian status --socket {}/metadata.sock", hv.dir().display()))?;
    ensure!(status.contains("converged") && !status.contains("no-proxy"), "{status}");
    Ok(())
}

/// A network without VMs goes, and comes back; nothing is left of it.
pub(super) fn comes_and_goes() -> Result<()> {
    comes_and_goes_through(Backend::Builtin)
}

/// The same with a haproxy in each namespace.
pub(super) fn comes_and_goes_through_haproxy() -> Result<()> {
    comes_and_goes_through(Backend::Haproxy)
}

fn comes_and_goes_through(backend: Backend) -> Result<()> {
    run(backend, |lab| {
        ready(lab, "hv1", &[A, B])?;
        let (hv1, hv2) = (lab.chassis("hv1")?, lab.chassis("hv2")?);
        match backend {
            Backend::Builtin => {
                let sockets = sockets(hv1)?;
                ensure!(sockets.len() >= 4, "the proxy has no sockets in the namespaces: {sockets:?}");
                ensure!(haproxies()? == 0, "there is a haproxy");
            }
            // Each chassis serves its own networks: two and one.
            Backend::Haproxy => ensure!(haproxies()? == 3, "there are {} haproxies", haproxies()?),
        }
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;
        if backend == Backend::Haproxy {
            super::faults::mend(lab, backend)?;
        }

        println!("a VM is unbound for a moment:");
        let before = on(hv1, "ls -i /run/netns")?;
        hv1.unplug("br-int", "tap-vmb1")?;
        let bound = |is_bound: bool| {
            lab.central("az1")?.sb().until(WITHIN, "the binding of vmb1 has changed", |sb| {
                let row = sb.table::<PortBinding>().iter().find(|(_, row)| row.logical_port == "vmb1")?.1;
                (row.chassis.is_some() == is_bound).then_some(())
            })
        };
        bound(false)?;
        hv1.plug("br-int", "tap-vmb1", Some("vmb1"))?;
        bound(true)?;
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;
        ensure!(on(hv1, "ls -i /run/netns")? == before, "the namespace was made anew");

        println!("it goes:");
        hv1.unplug("br-int", "tap-vmb1")?;
        ready(lab, "hv1", &[A])?;
        eventually(WITHIN, "only one namespace is left", || names(&on(hv1, "ls /run/netns")?, &[A]))?;
        gets_its_own(&*lab.find("vma1")?, &VMS[0])?;
        hv1.plug("br-int", "tap-vmb1", Some("vmb1"))?;
        ready(lab, "hv1", &[A, B])?;
        gets_its_own(&*lab.find("vmb1")?, &VMS[2])?;

        println!(
            "another address and another MTU of the metadata port, and a bridge port that somebody removes:"
        );
        let before = on(hv1, "ls -i /run/netns")?;
        let vma1 = lab.find("vma1")?;
        let mut open =
            vma1.enter(|| TcpStream::connect_timeout(&SERVICE.parse()?, WITHIN).context("connect"))??;
        lab.central("az1")?.nb().change::<ovn::nb::LogicalSwitchPort>(
            |port| port.name == "md-a",
            |port| {
                port.addresses = [Text::new(&format!("{} 10.0.0.3", mac(A, 2)))].into_iter().collect();
                port.external_ids.insert("neutron:cidrs".into(), "10.0.0.3/24".into());
                port.external_ids.insert("neutron:mtu".into(), "1400".into());
            },
        )?;
        eventually(WITHIN, "the devices have another MTU and another address", || {
            let outer = hv1.run("ip link show tapaaaaaaaa-20")?;
            ensure!(outer.contains("mtu 1400"), "{outer}");
            let inner = on(hv1, &format!("ip netns exec ovnmeta-{A} ip addr show tapaaaaaaaa-21"))?;
            ensure!(inner.contains("mtu 1400") && inner.contains(" 10.0.0.3/24 "), "{inner}");
            ensure!(!inner.contains(" 10.0.0.2/24 "), "the old address is left: {inner}");
            Ok(())
        })?;
        vma1.run("ip route replace 169.254.169.254/32 via 10.0.0.3")?;
        open.set_read_timeout(Some(WITHIN))?;
        open.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut said = String::new();
        open.read_to_string(&mut said)?;
        ensure!(said.starts_with("HTTP/1.1 200"), "a connection from before got {said}");
        ensure!(on(hv1, "ls -i /run/netns")? == before, "the namespace was made anew");
        hv1.unplug("br-int", "tapaaaaaaaa-20")?;
        eventually(WITHIN, "the port is back", || hv1.ofport("tapaaaaaaaa-20").map(drop))?;
        gets_its_own(&*lab.find("vma1")?, &VMS[0])?;

        println!("ovn-controller restarts:");
        let before = on(hv1, "ls -i /run/netns")?;
        hv1.restart("ovn-controller")?;
        ready(lab, "hv1", &[A, B])?;
        gets_its_own(&*lab.find("vma1")?, &VMS[0])?;
        ensure!(on(hv1, "ls -i /run/netns")? == before, "namespaces were made anew");

        println!("all VMs go:");
        for (hv, tap) in [(hv1, "tap-vma1"), (hv1, "tap-vma3"), (hv1, "tap-vmb1"), (hv2, "tap-vma2")] {
            hv.unplug("br-int", tap)?;
        }
        for (name, hv) in [("hv1", hv1), ("hv2", hv2)] {
            ready(lab, name, &[])?;
            eventually(WITHIN, "nothing is left", || {
                names(&on(hv, "ls /run/netns")?, &[])?;
                let links = hv.run("ip -o link show")?;
                ensure!(!links.contains("tapaaaa") && !links.contains("tapbbbb"), "{links}");
                let plugged = hv.db().snapshot();
                let mut rows = plugged.table::<Interface>().iter();
                ensure!(
                    !rows.any(|(_, row)| row.name.starts_with("tapaaaa") || row.name.starts_with("tapbbbb"))
                );
                ensure!(sockets(hv)?.is_empty(), "the proxy has sockets: {:?}", sockets(hv)?);
                ensure!(name == "hv1" || haproxies()? == 0, "a haproxy is left");
                no_files(hv)
            })?;
        }
        Ok(())
    })
}

fn names(list: &str, networks: &[&str]) -> Result<()> {
    let there: BTreeSet<&str> = list.split_whitespace().collect();
    let wanted: BTreeSet<String> = networks.iter().map(|network| format!("ovnmeta-{network}")).collect();
    ensure!(there == wanted.iter().map(String::as_str).collect(), "there are {there:?}");
    Ok(())
}

/// The haproxies of all chassis.
fn haproxies() -> Result<usize> {
    let names = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path().join("comm"));
    Ok(names.filter(|path| std::fs::read_to_string(path).is_ok_and(|name| name.trim() == "haproxy")).count())
}

/// The sockets of the proxy that are not in the network of its chassis: they would keep a namespace alive.
pub(super) fn sockets(hv: &Chassis) -> Result<Vec<String>> {
    let pid = hv.daemon("metadata-proxy")?.pid().context("the proxy does not run")?;
    let mut tables = String::new();
    for table in ["unix", "tcp", "tcp6", "udp", "udp6"] {
        tables += &std::fs::read_to_string(format!("/proc/{pid}/net/{table}"))?;
    }
    let known: BTreeSet<&str> = tables.split_ascii_whitespace().collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let target = std::fs::read_link(entry?.path()).unwrap_or_default().display().to_string();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        found.extend(inode.filter(|inode| !known.contains(inode)).map(str::to_owned));
    }
    Ok(found)
}
