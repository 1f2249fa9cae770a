//! The two nodes, their networks, and the complete state of a node.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::node::central::Central;
use lab::node::chassis::Chassis;
use lab::process::Daemon;
use lab::rpc::Rpc;
use lab::{Topology, chassis, eventually};
use ovn::sb;
use serde_json::{Value, json};

use crate::agent::vrf_stanza;
use crate::weigh::patch_port;

/// The agent's time limit on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// After this time the agent has received a change of the database and acted on it.
const MOMENT: Duration = Duration::from_millis(150);
/// The state of a gateway port with nothing behind it: scenario 13.
pub(super) const GATEWAY: [&str; 10] = [
    "A 172.24.4.221",
    "A 2001:db8::221",
    "R 172.24.4.221 201",
    "R 2001:db8::221 201",
    "T 172.24.4.221 dev br-ex",
    "T 2001:db8::221 dev br-ex",
    "N 172.24.4.221 fa:16:3e:aa:00:01 br-ex",
    "N 2001:db8::221 fa:16:3e:aa:00:01 br-ex",
    "Y 2001:db8:: br-ex",
    "Y 2001:db8::221 br-ex",
];
/// The operator's configuration of bgpd.
pub(super) const BGPD: &str =
    "router bgp 64999\n bgp router-id 172.30.1.1\n no bgp ebgp-requires-policy\nexit\n";
/// A provider network, a tenant network, and a router between them with a gateway on either chassis.
const NETWORKS: &str = "
    ls-add neutron-pub -- lsp-add neutron-pub provnet-1 -- lsp-set-type provnet-1 localnet
    -- lsp-set-addresses provnet-1 unknown -- lsp-set-options provnet-1 network_name=physnet1
    -- ls-add neutron-ten -- lr-add neutron-r1
    -- lrp-add neutron-r1 lrp-gw1 fa:16:3e:aa:00:01 172.24.4.221/24 2001:db8::221/64
    -- lsp-add neutron-pub gw1 -- lsp-set-type gw1 router -- lsp-set-addresses gw1 router
    -- lsp-set-options gw1 router-port=lrp-gw1 nat-addresses=router exclude-lb-vips-from-garp=true
    -- lrp-set-gateway-chassis lrp-gw1 ch-a 2 -- lrp-set-gateway-chassis lrp-gw1 ch-b 1
    -- lrp-add neutron-r1 lrp-sub1 fa:16:3e:aa:00:02 10.1.0.1/24
    -- lsp-add neutron-ten sub1 -- lsp-set-type sub1 router -- lsp-set-addresses sub1 router
    -- lsp-set-options sub1 router-port=lrp-sub1";

/// The state for one exposed IPv4 or IPv6 address of the provider network.
pub(super) fn wired(ip: &str) -> Vec<String> {
    vec![format!("A {ip}"), format!("R {ip} 201"), format!("T {ip} dev br-ex")]
}

/// A gateway with more behind it.
pub(super) fn gateway_and<S: AsRef<str>>(more: impl IntoIterator<Item = S>) -> Vec<String> {
    let more = more.into_iter().map(|line| line.as_ref().to_owned());
    GATEWAY.map(String::from).into_iter().chain(more).collect()
}

/// Both nodes and the databases.
pub(super) struct Site<'a> {
    pub(super) az1: &'a Central,
    pub(super) a: &'a Chassis,
    pub(super) b: &'a Chassis,
    /// The last expected state of each node, by its name.
    seen: RefCell<BTreeMap<String, BTreeSet<String>>>,
}

impl Site<'_> {
    /// Brings both up, and the agents with further options.
    pub(super) fn run(options: &str, work: impl FnOnce(&Site<'_>) -> Result<()>) -> Result<()> {
        let node = |name| chassis(name).bridge_mapping("physnet1", "br-ex");
        Topology::new().central("az1").chassis(node("ch-a")).chassis(node("ch-b")).run(|lab| {
            let (az1, a, b) = (lab.central("az1")?, lab.chassis("ch-a")?, lab.chassis("ch-b")?);
            let site = Site { az1, a, b, seen: RefCell::default() };
            site.az1.sb().until(PATIENCE, "OVN knows both chassis", |snapshot| {
                (snapshot.table::<sb::Chassis>().len() == 2).then_some(())
            })?;
            // The controllers stop before there are ports to bind or to create patch ports for.
            for hv in [site.a, site.b] {
                hv.daemon("ovn-controller")?.kill()?;
            }
            site.nb(NETWORKS)?;
            for hv in [site.a, site.b] {
                patch_port(hv, 5)?;
                hv.frr(&["bgpd"], BGPD)?;
                hv.sysctl("net.ipv4.ip_forward", "1")?;
                hv.sysctl("net.ipv6.conf.all.forwarding", "1")?;
                site.start(hv, options)?;
            }
            for hv in [site.a, site.b] {
                site.base(hv)?;
            }
            work(&site)
        })
    }

    /// Starts a node's agent with further options, or restarts it with others. The scenarios assume an agent that has been running for a
    /// while. Such an agent does not mistake a gateway that leaves for a database that lost its rows.
    pub(super) fn start(&self, hv: &Chassis, options: &str) -> Result<Arc<Daemon>> {
        let dir = hv.dir().display();
        let config = format!(
            "[DEFAULT]\nbgp_AS = 64999\novsdb_connection = unix:{dir}/db.sock\novs_rundir = {dir}\n\
             frr_vty_dir = /run/frr/{}\nrt_tables = {dir}/rt_tables\nadmin_socket = {dir}/agent.sock\nmass_withdraw_hold = 1\n{options}\n",
            hv.label()
        );
        let path = hv.dir().join("bgp-agent.conf");
        fs::write(&path, config).context("cannot write the configuration")?;
        match hv.daemon("bgp-agent") {
            Err(_) => hv.meridian("bgp-agent", &["bgp-agent", "--config-file", &path.display().to_string()]),
            Ok(agent) => {
                agent.stop(PATIENCE)?;
                agent.start_again()?;
                Ok(agent)
            }
        }
    }

    /// `ovn-nbctl`, until ovn-northd has done its part.
    pub(super) fn nb(&self, words: &str) -> Result<()> {
        self.sh(&format!("ovn-nbctl --wait=sb --db=unix:{}/nb.sock", self.az1.dir().display()), words)
            .map(drop)
    }

    /// `ovn-sbctl`.
    pub(super) fn sb(&self, words: &str) -> Result<String> {
        self.sh(&format!("ovn-sbctl --db=unix:{}/sb.sock", self.az1.dir().display()), words)
    }

    fn sh(&self, command: &str, words: &str) -> Result<String> {
        self.az1.run_args(&["sh", "-c", &format!("{command} {}", words.trim().replace('\n', " "))])
    }

    /// Binds a port to a chassis, from wherever it was, at once.
    pub(super) fn bind(&self, port: &str, hv: &Chassis) -> Result<()> {
        self.sb(&format!("lsp-unbind {port} -- lsp-bind {port} {}", hv.label())).map(drop)
    }

    /// Binds a port to a chassis, after binding and unbinding it there `times` times as fast as the database allows.
    pub(super) fn flap(&self, port: &str, hv: &Chassis, times: usize) -> Result<()> {
        let chassis = self.uuid(hv)?;
        let mut southbound = Rpc::connect(&self.az1.dir().join("sb.sock"))?;
        let mut set = |chassis: Value, up: bool| {
            let set = json!({ "op": "update", "table": "Port_Binding", "where": [["logical_port", "==", port]],
                "row": { "chassis": chassis, "up": up } });
            southbound.transact("OVN_Southbound", vec![set])
        };
        for _ in 0..times {
            set(json!(["uuid", chassis]), true)?;
            set(json!(["set", []]), false)?;
        }
        set(json!(["uuid", chassis]), true)
    }

    pub(super) fn unbind(&self, port: &str) -> Result<()> {
        self.sb(&format!("lsp-unbind {port}")).map(drop)
    }

    /// The UUID of a chassis' row.
    pub(super) fn uuid(&self, hv: &Chassis) -> Result<String> {
        let out = self.sb(&format!("--bare --columns=_uuid find Chassis name={}", hv.label()))?;
        Ok(out.trim().to_owned())
    }

    /// The UUID of a translation's row.
    pub(super) fn nat(&self, external: &str) -> Result<String> {
        let command = format!("ovn-nbctl --db=unix:{}/nb.sock", self.az1.dir().display());
        let out = self.sh(&command, &format!("--bare --columns=_uuid find NAT external_ip={external}"))?;
        Ok(out.trim().to_owned())
    }

    /// `ovs-vsctl` on a node.
    pub(super) fn vsctl(&self, hv: &Chassis, words: &str) -> Result<()> {
        hv.run(&format!("ovs-vsctl --db=unix:{}/db.sock {words}", hv.dir().display())).map(drop)
    }

    /// The state when no port is bound: B in the scenarios.
    pub(super) fn base(&self, hv: &Chassis) -> Result<()> {
        self.is(hv, "nothing is bound", &[""; 0])?;
        eventually(PATIENCE, "what is always there", || {
            for (command, words) in [
                ("ip -d link show bgp-vrf", &["vrf table 10", ",UP"][..]),
                ("ip -d link show bgp-nic", &["dummy", "master bgp-vrf", ",UP"]),
                ("ip address show br-ex", &["169.254.1.1/32", "fd53:d91e:400:7f17::1:1/128"]),
                ("ip route show table 201", &["default dev br-ex scope link"]),
                ("ip -6 route show table 201", &["default dev br-ex"]),
                (
                    "sysctl net.ipv4.conf.br-ex.proxy_arp net.ipv6.conf.br-ex.proxy_ndp",
                    &["proxy_arp = 1", "proxy_ndp = 1"],
                ),
            ] {
                let out = hv.run(command)?;
                let missing: Vec<_> = words.iter().filter(|words| !out.contains(**words)).collect();
                ensure!(missing.is_empty(), "`{command}` lacks {missing:?}:\n{out}");
            }
            stanzas(hv)
        })?;
        self.flows(hv, &[5])
    }

    /// Waits until the flows are those of these patch ports, two each.
    pub(super) fn flows(&self, hv: &Chassis, ports: &[u16]) -> Result<()> {
        eventually(PATIENCE, "the flows are those of the patch ports", || {
            let flows = hv.ofctl("dump-flows", "br-ex", &["cookie=999/-1", "--no-names"])?;
            let of = |port: &u16| flows.matches(&format!("in_port={port} ")).count();
            let all = flows.matches("priority=900").count();
            ensure!(
                ports.iter().all(|port| of(port) == 2) && all == 2 * ports.len(),
                "of {ports:?}:\n{flows}"
            );
            Ok(())
        })
    }

    /// Waits until the state of the node's addresses equals the expectation. If it already did before, either nothing should change, or the
    /// agent has not received the change yet. So the state is checked again after a moment.
    pub(super) fn is<S: AsRef<str>>(&self, hv: &Chassis, when: &str, expected: &[S]) -> Result<()> {
        let expected: BTreeSet<String> = expected.iter().map(|line| line.as_ref().to_owned()).collect();
        let before = self.seen.borrow_mut().insert(hv.label().to_owned(), expected.clone());
        if before.is_none_or(|before| before == expected) && state(hv)? == expected {
            sleep(MOMENT);
        }
        eventually(PATIENCE, &format!("{}: {when}", hv.label()), || {
            let state = state(hv)?;
            let missing: Vec<_> = expected.difference(&state).collect();
            let more: Vec<_> = state.difference(&expected).collect();
            ensure!(missing.is_empty() && more.is_empty(), "missing: {missing:?}, too many: {more:?}");
            Ok(())
        })
    }
}

/// FRR has the agent's part.
fn stanzas(hv: &Chassis) -> Result<()> {
    let running = hv.vtysh("show running-config")?;
    ensure!(running.contains("import vrf bgp-vrf"), "nothing is imported:\n{running}");
    // The id is that of the default instance, though it has no neighbour.
    for line in ["bgp router-id 172.30.1.1", "redistribute connected"] {
        ensure!(vrf_stanza(&running)?.contains(line), "FRR has no {line:?}:\n{running}");
    }
    Ok(())
}

/// The commands of one `ip -batch` for the state of a node. Starting a process takes longer than answering.
const LOOK: &str =
    "address show dev bgp-nic scope global\nrule\nroute show table 201\nneigh show nud permanent\n";
/// The same for IPv6.
const LOOK6: &str = "neigh show proxy\n";

/// Addresses announced (A), rules (R), routes of the bridges' table (T), permanent neighbours (N) and NDP proxies (Y).
fn state(hv: &Chassis) -> Result<BTreeSet<String>> {
    let look = |family: u8, lines: String| -> Result<String> {
        let file = hv.dir().join(format!("look{family}"));
        if !file.exists() {
            fs::write(&file, lines).context("cannot write what is looked at")?;
        }
        Ok(format!("ip -{family} -o -force -batch {}", file.display()))
    };
    let (v4, v6) = (look(4, LOOK.into())?, look(6, [LOOK, LOOK6].concat())?);
    // A table without routes is none to iproute2, a device that is not there has no addresses: both complain.
    let out = hv.run_args(&["sh", "-c", &format!("exec 2> /dev/null; {v4}; {v6}; true")])?;
    Ok(out.lines().filter_map(item).collect())
}

/// A line of `ip` in the notation of the scenarios; `None` for permanent and foreign items.
fn item(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let first = *words.first()?;
    let after = |word: &str| words.iter().skip_while(|have| **have != word).nth(1).copied();
    if let Some(net) = after("inet").or(after("inet6")) {
        return Some(format!("A {}", net.strip_suffix("/32").or(net.strip_suffix("/128")).unwrap_or(net)));
    }
    if after("from").is_some() {
        return (first == "32000:").then_some(format!("R {} {}", after("to")?, after("lookup")?));
    }
    if let Some(mac) = after("lladdr") {
        return Some(format!("N {first} {mac} {}", after("dev")?));
    }
    if words.contains(&"proxy") {
        return Some(format!("Y {first} {}", after("dev")?));
    }
    let via = after("via").map(|via| format!("via {via} ")).unwrap_or_default();
    (first != "default").then_some(format!("T {first} {via}dev {}", after("dev")?))
}
