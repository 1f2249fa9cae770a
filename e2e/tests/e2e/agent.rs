//! The BGP agent on two chassis, with a spine that only speaks BGP: the agent does by itself the steps that the tests of `bgp.rs` do by
//! hand.

mod guard;
mod health;
mod moves;
mod restarts;
mod settings;
mod systemd;
mod unit;
mod vlan;
mod zebra;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::chassis::Chassis;
use lab::process::{Daemon, Recipe};
use lab::{Lab, Need, Test, eventually};
use ovn::nb::{LogicalSwitchPort, Nat};
use ovn::text::Text;

use crate::bgp::{SPINE, peering};
use crate::border::{forward, learns, networks, spine, two_borders};

const NEEDS: &[Need] = &[Need::Vrf, Need::Dummy, Need::Vlan];
/// The agent's time limit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn tests() -> Vec<Test> {
    let test = |name, sentence, run| Test::new(name, sentence, NEEDS, run).meridian();
    vec![
        test(
            "agent::everything_is_reached_from_the_spine",
            "with the agent alone, provider VMs (flat, VLAN, IPv6), floating IPs of both kinds, gateways, tenants and load balancers are reached over BGP",
            reached,
        ),
        test(
            "agent::nothing_is_lost_when_parts_restart",
            "kill -9 and restart of the agent, and restarts of the Southbound and the local database, lose no packet; bgpd and edits by others are mended",
            restarts::restarts,
        ),
        test(
            "agent::addresses_follow_their_ports",
            "a VM that migrates and a gateway that fails over take their addresses along, and stale state of another agent goes without a gap",
            moves::moves,
        ),
        test(
            "agent::settings_are_followed",
            "with the privileges of its unit: ports opt out and in, bridge mappings change while it runs, subnets are announced as such, one rule does for many, a stop withdraws if told to, and it is told who does not hear of an address",
            settings::settings,
        ),
        test(
            "agent::no_tenant_takes_the_node_off_the_network",
            "subnets of tenants that are the underlay or have the BGP peer in them, and IPv4-mapped addresses, are refused with their names; the Southbound, the session and all announcements live on, and rules that an earlier version left for them go",
            guard::guard,
        ),
        test(
            "agent::healthy_means_reachable",
            "a NORMAL flow, a peer, a database, a bgpd or a privilege that is missing makes the agent unhealthy, in words; what nobody else manages is mended, and a table that got another number leaves nothing behind",
            health::health,
        ),
        test(
            "agent::a_restarted_zebra_is_noticed",
            "zebra killed and started alone, the announcing device or the VRF renamed: VMs bound afterwards are announced, those that go are withdrawn, and the status says so meanwhile",
            zebra::zebra,
        ),
        Test::new(
            "agent::units_run_under_systemd",
            "the Debian package is installed, and a real systemd runs its units as they are: unprivileged, shut in, ready when all is in place, without a lost packet when they are killed, changed for one another, upgraded and removed",
            NEEDS,
            systemd::units,
        )
        .package(),
    ]
}

/// Spine and chassis speak BGP; the agents' part of the configuration is left to them.
pub(crate) fn fabric(lab: &Lab) -> Result<()> {
    spine(lab, &["hv1", "hv2"], "uplink")?.frr(&["bgpd"], SPINE)?;
    for (n, name) in (1..).zip(["hv1", "hv2"]) {
        lab.chassis(name)?.frr(&["bgpd"], &peering(n))?;
        forward(lab.chassis(name)?)?;
    }
    ["hv1", "hv2"].iter().try_for_each(|name| learns(lab.chassis(name)?, "default"))
}

/// Starts the agent of a chassis with the sample configuration and the paths of the lab.
pub(crate) fn start(hv: &Chassis) -> Result<Arc<Daemon>> {
    let path = configure(hv, "")?;
    hv.meridian("bgp-agent", &["bgp-agent", "--config-dir", &path])
}

/// Writes the configuration of a chassis, with further options.
fn configure(hv: &Chassis, more: &str) -> Result<String> {
    let (dir, name) = (hv.dir().display(), hv.label());
    // The socket is in a directory of its own, if that exists.
    let admin = if hv.dir().join("meridian").is_dir() { "meridian/agent.sock" } else { "agent.sock" };
    let config = format!(
        "# sample configuration that can be adapted based on needs
[DEFAULT]
debug=True
reconcile_interval=120
expose_tenant_networks=True
driver=osp_bgp_driver
ovsdb_connection = unix:{dir}/db.sock
ovs_rundir = {dir}
frr_vty_dir = /run/frr/{name}
rt_tables = {dir}/rt_tables
admin_socket = {dir}/{admin}
ndp_proxy_extra = 2001:db8:24::1@physnet
{more}
"
    );
    let path = hv.dir().join("bgp-agent.conf");
    fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

/// Runs a `meridian` command on the agent's admin socket of a chassis.
pub(crate) fn ask(hv: &Chassis, question: &str) -> Result<String> {
    hv.run(&format!("meridian {question} --socket {}/agent.sock", hv.dir().display()))
}

/// Waits until a command's output has a line with this string, or has none any more.
pub(crate) fn shows(hv: &Chassis, command: &str, words: &str, there: bool) -> Result<()> {
    let what = format!("{}: `{command}` {} {words:?}", hv.label(), if there { "has" } else { "has no more" });
    eventually(PATIENCE, &what, || {
        // A table without routes is none to iproute2.
        let out = hv.run(command).unwrap_or_default();
        ensure!(out.lines().any(|line| line.contains(words)) == there, "it says:\n{out}");
        Ok(())
    })
}

/// Sets an option that the hand-made networks lack: with it, OVN reports translated addresses.
fn tell_of_nat(lab: &Lab) -> Result<()> {
    lab.central("az1")?.nb().change::<LogicalSwitchPort>(
        |port| port.name == "public-lr0",
        |port| {
            port.options.insert("nat-addresses".into(), "router".into());
        },
    )
}

fn reached() -> Result<()> {
    two_borders().run(|lab| {
        fabric(lab)?;
        networks(lab)?;
        tell_of_nat(lab)?;
        let (az1, spine) = (lab.central("az1")?, lab.find("spine")?);
        let (hv1, hv2) = (lab.chassis("hv1")?, lab.chassis("hv2")?);
        az1.write(|net| {
            net.provider("tagged", "provnet-2", "physnet")
                .port_with("provnet-2", |port| port.tag = Some(100))
                .port("vmv", "02:00:00:00:02:12 172.24.100.12");
            net.load_balancer("lb1", "172.24.4.50:80", &["10.0.0.21:80", "10.0.0.22:80"])
                .on_switch("sw0")
                .on_router("lr0");
            net.router("lr0").floating_ip("172.24.4.111", "10.0.0.22");
        })?;
        lab.vm("vmv")
            .on("hv2")
            .mac("02:00:00:00:02:12")
            .ip("172.24.100.12/24")
            .gateway("172.24.100.1")
            .plug()?;
        az1.ready(&["vmv"])?;
        start(hv1)?;
        start(hv2)?;

        println!("provider VMs, flat:");
        learns(&spine, "172.24.4.10")?;
        spine.reaches_from("192.0.2.1", "172.24.4.10")?;
        spine.reaches("172.24.4.11")?;
        lab.find("vmp")?.reaches("172.24.4.11")?;
        println!("provider VMs, IPv6:");
        learns(&spine, "2001:db8:24::10")?;
        spine.reaches_from("2001:db8:ff::1", "2001:db8:24::10")?;
        println!("provider VMs, VLAN:");
        learns(&spine, "172.24.100.12")?;
        spine.reaches_from("192.0.2.1", "172.24.100.12")?;
        println!("the gateway, and a floating IP through it:");
        spine.reaches("172.24.4.100")?;
        learns(&spine, "172.24.4.110")?;
        spine.reaches("172.24.4.110")?;
        println!("a tenant's VM:");
        learns(&spine, "10.0.0.22")?;
        spine.reaches("10.0.0.22")?;
        println!("a load balancer, and all of them by TCP:");
        learns(&spine, "172.24.4.50")?;
        ["vmt", "vmu", "vmp", "vmv"].iter().try_for_each(|vm| lab.find(vm)?.serve(80))?;
        spine.is_served_by("172.24.4.50:80")?;
        for (address, vm) in [
            ("172.24.4.10", "vmp"),
            ("[2001:db8:24::10]", "vmp"),
            ("172.24.100.12", "vmv"),
            ("172.24.4.110", "vmt"),
        ] {
            let by = spine.is_served_by(&format!("{address}:80"))?.by;
            ensure!(by == vm, "{address} is {vm}'s, and {by} has answered");
        }

        println!("a floating IP that moves to its VM's chassis:");
        shows(hv1, "ip address show bgp-nic", "172.24.4.111/32", true)?;
        az1.nb().change::<Nat>(
            |nat| nat.external_ip == Text::new("172.24.4.111"),
            |nat| {
                nat.external_mac = Some(Text::new("02:00:00:00:03:11"));
                nat.logical_port = Some("vmu".into());
            },
        )?;
        shows(hv2, "ip address show bgp-nic", "172.24.4.111/32", true)?;
        shows(hv1, "ip address show bgp-nic", "172.24.4.111/32", false)?;
        spine.reaches("172.24.4.111")?;
        // The server listens on a port of its own, because OVN routes the VM's packets from the load balancer's port through the gateway.
        lab.find("vmu")?.serve(8080)?;
        spine.is_served_by("172.24.4.111:8080")?;

        state(hv1)?;
        words(hv1, hv2)?;
        vlan::vlan_on_a_port(lab)
    })
}

/// Starts the agent of a chassis again with further options.
fn again_with(hv: &Chassis, more: &str) -> Result<()> {
    let agent = hv.daemon("bgp-agent")?;
    agent.stop(PATIENCE)?;
    configure(hv, more)?;
    agent.start_again()
}

/// Checks the state of the gateway's chassis with the output of `ip`.
fn state(hv1: &Chassis) -> Result<()> {
    for (command, lines) in [
        (
            "ip rule",
            &[
                "32000:\tfrom all to 172.24.4.10 lookup 201",
                "32000:\tfrom all to 172.24.4.100 lookup 201",
                "32000:\tfrom all to 10.0.0.0/24 lookup 201",
            ][..],
        ),
        (
            "ip route show table 201",
            &[
                "default dev br-ex scope link",
                "10.0.0.0/24 via 172.24.4.100 dev br-ex",
                "172.24.4.10 dev br-ex scope link",
            ],
        ),
        ("ip neigh show dev br-ex nud permanent", &["172.24.4.100 lladdr 02:00:00:00:01:03 PERMANENT"]),
        ("ip -6 neigh show proxy", &["2001:db8:24::1 dev br-ex"]),
        ("ip address show br-ex", &["inet 169.254.1.1/32", "inet6 fd53:d91e:400:7f17::1:1/128"]),
        ("ip address show br-ex.100", &["inet 169.254.1.100/32", "inet6 fd53:d91e:400:7f17::1:64/128"]),
    ] {
        for line in lines {
            shows(hv1, command, line, true)?;
        }
    }
    let flows = hv1.ofctl("dump-flows", "br-ex", &["cookie=999/-1"])?;
    ensure!(
        flows.matches("priority=900").count() == 2,
        "two flows for the one network that has a port here, not\n{flows}"
    );
    let running = hv1.vtysh("show running-config")?;
    for line in ["import vrf bgp-vrf", "neighbor uplink peer-group"] {
        ensure!(running.contains(line), "FRR's configuration lacks {line:?}:\n{running}");
    }
    let vrf = vrf_stanza(&running)?;
    ensure!(vrf.contains("bgp router-id 172.30.1.1"), "the VRF lacks the router id:\n{vrf}");
    Ok(())
}

/// The agent's own stanza in FRR's configuration: the commands of the VRF's instance.
pub(crate) fn vrf_stanza(running: &str) -> Result<&str> {
    let (_, rest) = running
        .split_once("router bgp 64999 vrf bgp-vrf")
        .with_context(|| format!("no stanza of the VRF:\n{running}"))?;
    Ok(rest.split_once("\nexit\n").map_or(rest, |(stanza, _)| stanza))
}

/// Checks the agent's explanations, status and plan.
fn words(hv1: &Chassis, hv2: &Chassis) -> Result<()> {
    let told = ask(hv1, "explain 172.24.4.10")?;
    for words in [
        "172.24.4.10 is announced by hv1",
        "D1: port vmp of a provider network is bound here",
        "FRR advertises 172.24.4.10 to 100.64.1.0",
    ] {
        ensure!(told.contains(words), "{words:?} is missing in\n{told}");
    }
    let told = ask(hv2, "explain 172.24.4.10")?;
    ensure!(told.contains("is bound to chassis hv1"), "hv2 does not say who announces it:\n{told}");
    let plan = ask(hv1, "plan")?;
    ensure!(plan.contains("nothing to do"), "there is still something to do:\n{plan}");
    let status = ask(hv1, "status")?;
    ensure!(status.contains("bgp: converged") && status.contains("OVN_Southbound: synced"), "{status}");
    for line in
        ["BGP peers: 100.64.1.0 up", "  172.24.4.10: port vmp of a provider network is bound here (D1)"]
    {
        ensure!(status.contains(line), "the status lacks {line:?}:\n{status}");
    }
    let said = hv1.daemon("bgp-agent")?.said();
    for line in [
        "Starting BGP Agent...",
        "Loaded chassis hv1.",
        "BGP Agent Started...",
        "Ensuring VRF configuration for advertising routes",
        "Configuring br-ex default rule and routing tables for each provider network",
        "Found routing table for br-ex with: ['201', 'br-ex']",
        "Sync current routes.",
        "Add BGP route for logical port with ip 172.24.4.10",
        "Add BGP route for FIP with ip 172.24.4.110",
        "Add BGP route for CR-LRP Port 172.24.4.100",
    ] {
        ensure!(said.contains(line), "the log lacks {line:?}:\n{said}");
    }
    Ok(())
}

/// A running `ip monitor`.
pub(crate) struct Monitor(Arc<Daemon>);

impl Monitor {
    pub(crate) fn start(hv: &Chassis) -> Result<Self> {
        let recipe = Recipe::new("ip").args(["monitor", "address", "route", "rule", "link"]);
        hv.start("ip-monitor", recipe).map(Monitor)
    }

    /// The changes so far, of links, addresses, routes and rules.
    pub(crate) fn told(&self) -> String {
        self.0.said()
    }

    fn saw_no_deletion(self) -> Result<()> {
        self.saw_deletions_of(&[])
    }

    /// Asserts that every deletion contains one of these strings.
    fn saw_deletions_of(self, words: &[&str]) -> Result<()> {
        self.0.kill()?;
        let said = self.0.said();
        let stale = |line: &&str| words.iter().any(|word| line.contains(word));
        let deleted = said.lines().filter(|line| line.starts_with("Deleted"));
        let deleted: Vec<&str> = deleted.filter(|line| !stale(line)).collect();
        ensure!(deleted.is_empty(), "the kernel was told to delete:\n{}", deleted.join("\n"));
        Ok(())
    }
}
