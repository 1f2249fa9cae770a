//! Metadata: every VM reaches 169.254.169.254, answered on its own chassis, by a proxy that says which network it asked from.

mod agent;
mod attacks;
mod cloud;
mod faults;
mod many;
mod namespaces;
mod site;
mod spoofing;
mod together;
mod units;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::chassis::Chassis;
use lab::process::Recipe;
use lab::{Lab, Test, Topology, chassis, eventually};
use ovn::PortType;
use ovn::nb::LogicalSwitchPort;
use ovn::sb::PortBinding;
use ovn::text::Text;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "metadata::each_chassis_answers_its_own_vms",
            "VMs on two chassis, one set up by OVN's DHCP, get metadata from their own chassis, which learns who asks and from where",
            &[],
            each_chassis_answers,
        ),
        Test::new(
            "metadata::namespaces_are_built_corrected_and_removed",
            "the namespace of a network gets its devices, addresses and kernel parameters by netlink, is corrected in place, and goes without a trace",
            &[],
            namespaces::built_and_removed,
        ),
        Test::new(
            "metadata::vms_get_their_own_data",
            "VMs of two networks with the same addresses, on two chassis, each get the data of their own instance from the agent and its unprivileged proxy, by IPv4 and IPv6, by a route of their own and through a router, whatever headers they send and whoever's address they take",
            &[],
            agent::own_data,
        )
        .meridian(),
        Test::new(
            "metadata::restarts_lose_no_request",
            "kill -9 and restart of the metadata agent lose no request and change nothing; requests wait while the proxy restarts; ovs-vswitchd restarts",
            &[],
            agent::restarts,
        )
        .meridian(),
        Test::new(
            "metadata::networks_come_and_go_without_a_trace",
            "networks follow their VMs, changes of their port and of others, and a restart of ovn-controller; nothing is left of those that go",
            &[],
            agent::comes_and_goes,
        )
        .meridian(),
        Test::new(
            "metadata::vms_get_their_own_data_through_haproxy",
            "the same as vms_get_their_own_data, with a haproxy in each namespace in the place of the built-in listener",
            &[],
            agent::own_data_through_haproxy,
        )
        .meridian(),
        Test::new(
            "metadata::restarts_lose_no_request_through_haproxy",
            "the same as restarts_lose_no_request, with a haproxy in each namespace, which outlives agent and proxy and is replaced when it dies; then a VM moves as in a_vm_moves_while_it_asks",
            &[],
            agent::restarts_through_haproxy,
        )
        .meridian(),
        Test::new(
            "metadata::networks_come_and_go_without_a_trace_through_haproxy",
            "the same as networks_come_and_go_without_a_trace and faults_are_mended, with a haproxy in each namespace: no process and no file is left",
            &[],
            agent::comes_and_goes_through_haproxy,
        )
        .meridian(),
        Test::new(
            "metadata::an_agent_takes_over_from_haproxy",
            "an agent with sockets of its own takes the place of a haproxy in each namespace; no request is lost, and the haproxies end",
            &[],
            agent::takes_over_from_haproxy,
        )
        .meridian(),
        Test::new(
            "metadata::one_process_runs_both_roles",
            "meridian node takes the place of the metadata agent with BGP beside it, on one connection to each database; BGP is switched off again, and no request is lost",
            &[],
            together::one_process,
        )
        .meridian(),
        Test::new(
            "metadata::a_vm_moves_while_it_asks",
            "a live migration under requests that never stop: the target chassis answers before the VM is there and afterwards; another one is cancelled",
            &[],
            together::live_migration,
        )
        .meridian(),
        Test::new(
            "metadata::a_cloud_serves_its_instances",
            "with rows of the server alone: the first request of each instance, at the moment that Nova is told of its port, gets its data, by DHCP (cloud-init as well), through one router with several networks, and by a route of its own; a network without the service and the outside reach no namespace",
            &[],
            cloud::serves_its_instances,
        )
        .meridian(),
        Test::new(
            "metadata::many_networks_come_and_go",
            "100 networks on one chassis are made and removed, and the agent is killed five times during each; nothing is left of them",
            &[],
            many::come_and_go,
        )
        .memory(1024)
        .meridian(),
        Test::new(
            "metadata::faults_are_mended",
            "restarts of both databases lose no request, ovn-controller may end and start, a reboot's leftovers are replaced, and namespaces of others stay",
            &[],
            faults::mended,
        )
        .meridian(),
        Test::new(
            "metadata::units_run_under_systemd",
            "the Debian package is installed, and a real systemd runs the metadata agent with three capabilities and its proxy with none; restarts lose no request; a wrong configuration starts nothing again and again",
            &[],
            units::run,
        )
        .package(),
    ]
}

const NETWORK: &str = "11111111-2222-3333-4444-555555555555";
const WITHIN: Duration = Duration::from_secs(60);

fn each_chassis_answers() -> Result<()> {
    Topology::new().central("az1").chassis(chassis("hv1")).chassis(chassis("hv2")).run(|lab| {
        let az1 = lab.central("az1")?;
        az1.write(|net| {
            let dhcp = net.dhcp(
                "10.0.0.0/24",
                &[
                    ("server_id", "10.0.0.1"),
                    ("server_mac", "02:00:00:00:01:01"),
                    ("lease_time", "3600"),
                    ("router", "10.0.0.1"),
                    ("classless_static_route", "{169.254.169.254/32,10.0.0.2, 0.0.0.0/0,10.0.0.1}"),
                ],
            );
            net.switch(&format!("neutron-{NETWORK}"))
                .port("vm1", "02:00:00:00:00:11 10.0.0.11")
                .port_with("vm1", |port| port.dhcpv4_options = Some(dhcp))
                .port("vm2", "02:00:00:00:00:12 10.0.0.12")
                .port_with("md", |port| {
                    port.kind = PortType::Localport;
                    port.addresses.insert(Text::new("02:00:00:00:00:02 10.0.0.2"));
                });
        })?;
        let vm1 = lab.vm("vm1").on("hv1").mac("02:00:00:00:00:11").plug()?;
        let vm2 = lab.vm("vm2").on("hv2").mac("02:00:00:00:00:12").ip("10.0.0.12/24").plug()?;
        vm2.route("169.254.169.254/32".parse()?, "10.0.0.2".parse()?)?;
        for name in ["hv1", "hv2"] {
            proxy(lab, lab.chassis(name)?)?;
        }
        az1.ready(&["vm1", "vm2"])?;
        fs::write("/run/dhcp.sh", LEASE)?;
        let lease = || vm1.run("busybox udhcpc -i eth0 -n -q -f -s /run/dhcp.sh -O staticroutes -t 5 -T 1");
        vm1.run("chmod 755 /run/dhcp.sh")?;
        println!("{}", eventually(WITHIN, "vm1 has a lease", lease)?.trim());
        for (vm, ip, hv) in [(&vm1, "10.0.0.11", "hv1"), (&vm2, "10.0.0.12", "hv2")] {
            let ask = || vm.http_get("169.254.169.254:80", "/latest/meta-data/");
            let said = eventually(WITHIN, &format!("{} has metadata", vm.label()), ask)?.to_lowercase();
            println!("{}", said.trim());
            ensure!(said.starts_with(&format!("agent {hv} ")), "another chassis answered: {said}");
            ensure!(said.contains("get /latest/meta-data/"), "another question arrived: {said}");
            ensure!(said.contains(&format!("x-forwarded-for: {ip}")), "who asked is not told: {said}");
            ensure!(said.contains(&format!("x-ovn-network-id: {NETWORK}")), "from where is not told: {said}");
        }
        // A localport is everywhere, so it is bound nowhere and never up.
        let (_, binding) = az1.sb().find::<PortBinding>(|row| row.logical_port == "md")?;
        ensure!(binding.kind == PortType::Localport && binding.chassis.is_none(), "{binding:?}");
        let (_, port) = az1.nb().find::<LogicalSwitchPort>(|row| row.name == "md")?;
        ensure!(port.up != Some(true), "a localport is up");
        Ok(())
    })
}

/// What a DHCP client does with its lease.
const LEASE: &str = "#!/bin/sh
[ \"$1\" = bound ] || exit 0
echo \"lease: $ip, routes $staticroutes\"
ip addr add $ip/24 dev $interface
set -- $staticroutes
while [ $# -ge 2 ]; do ip route add $1 via $2; shift 2; done
";

/// The namespace of a network on a chassis, with a proxy that passes questions on to the chassis' agent.
fn proxy(lab: &Lab, hv: &Chassis) -> Result<()> {
    let node = lab.node(&format!("ovnmeta-{}", hv.label()))?;
    lab.connect((hv, "tap-md0"), (&node, "tap-md1"))?;
    node.run("ip link set tap-md1 address 02:00:00:00:00:02")?;
    node.no_offload("tap-md1")?;
    node.address("tap-md1", "10.0.0.2/24".parse()?)?;
    node.address("tap-md1", "169.254.169.254/32".parse()?)?;
    hv.plug("br-int", "tap-md0", Some("md"))?;
    let socket = node.dir().join("agent.sock");
    agent(hv.label().to_owned(), UnixListener::bind(&socket).context("the agent cannot listen")?);
    let config = node.dir().join("haproxy.cfg");
    fs::write(
        &config,
        format!(
            "global
    maxconn 64
defaults
    mode http
    option http-server-close
    option forwardfor
    timeout http-request 30s
    timeout connect 30s
    timeout client 32s
    timeout server 32s
listen listener
    bind 169.254.169.254:80
    server metadata {}
    http-request add-header X-OVN-Network-ID {NETWORK}
",
            socket.display()
        ),
    )?;
    node.start("haproxy", Recipe::new("haproxy").arg("-db").arg("-f").arg(config.display().to_string()))?;
    Ok(())
}

/// Stands for the metadata agent: tells what it was asked.
fn agent(name: String, listener: UnixListener) {
    let tell = move |mut stream: UnixStream| -> std::io::Result<()> {
        let heard: Vec<String> = BufReader::new(stream.try_clone()?)
            .lines()
            .map_while(|line| line.ok().filter(|line| !line.trim().is_empty()))
            .collect();
        let body = format!("agent {name} was asked: {}\n", heard.join(" | "));
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(&tell);
        }
    });
}
