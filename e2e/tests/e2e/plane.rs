//! The data plane of a node on a real kernel: created, kept, taken over, repaired.
//!
//! A veth device plays the provider bridge, because to the kernel's part of the data plane a bridge is just a device.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ipnet::IpNet;
use lab::{Need, Test, eventually};
use node::kernel::{
    Address, Dev, Family, Hop, Knob, Link, Observed, Rule, Select, Sysctl, Table, base_addresses,
};
use node::plane::{self, Config, Plane};
use reconcile::{Desire, Driver, Outcome, Scope, StepResult, Target, Timing};

use crate::guest::run;

const NEEDS: &[Need] = &[Need::Vrf, Need::Dummy, Need::Vlan];
const REPAIR: Duration = Duration::from_secs(30);

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "plane::is_made_as_wanted_and_cleaned",
            "devices, addresses, rules, routes, neighbours and switches become as wanted, and go again; what is not ours stays",
            NEEDS,
            made,
        ),
        Test::new(
            "plane::a_node_is_taken_over_from_ovn_bgp_agent",
            "what ovn-bgp-agent left is used as it is: one rule in its old form is replaced and nothing else is touched",
            NEEDS,
            taken_over,
        ),
        Test::new(
            "plane::drift_is_repaired",
            "whatever somebody deletes or turns off comes back",
            NEEDS,
            drift,
        ),
        Test::new(
            "plane::two_thousand_addresses",
            "two thousand addresses are announced and withdrawn, and what is remembered is what is there though notifications were lost",
            NEEDS,
            many,
        ),
        Test::new(
            "plane::a_drain_holds_up_nothing",
            "what is withdrawn is carried for a while, others are announced meanwhile, and then it goes by itself",
            NEEDS,
            drain,
        ),
    ]
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// A machine with a bridge and another device.
pub(crate) fn machine() -> Result<()> {
    for line in [
        "ip link set lo up",
        "ip link add br-ex type veth peer name far",
        "ip link set far up",
        "ip link add eth9 type veth peer name eth8",
        "ip link set eth9 up",
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    ] {
        run(line)?;
    }
    Ok(())
}

pub(crate) fn open() -> Result<Plane> {
    Ok(Plane::open(Config::new(node::bgp::PORT_MARK))?)
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

fn table() -> Table {
    Table::Bridge("br-ex".into())
}

fn hop(dev: &str, via: Option<&str>) -> Hop {
    Hop { dev: dev.into(), via: via.map(|ip| ip.parse().expect("an address")) }
}

pub(crate) fn base() -> plane::Desired {
    let mut want = plane::Desired::default();
    want.kernel.links.extend([
        (Dev::new("bgp-vrf"), Link::Vrf { table: 10 }),
        ("bgp-nic".into(), Link::Dummy { master: Some("bgp-vrf".into()) }),
    ]);
    device(&mut want, "br-ex", Link::Bridge, None);
    for family in Family::BOTH {
        want.kernel.routes.insert((table(), family.default_net()), hop("br-ex", None));
    }
    want
}

fn device(want: &mut plane::Desired, dev: &str, link: Link, tag: Option<u16>) {
    let dev = Dev::new(dev);
    let (v4, v6) = base_addresses(1, tag);
    want.kernel.links.insert(dev.clone(), link);
    let address = |net: IpNet| Address { dev: dev.clone(), net };
    want.kernel.addresses.extend([
        address(IpNet::from(std::net::IpAddr::V4(v4))),
        address(IpNet::from(std::net::IpAddr::V6(v6))),
    ]);
    want.kernel
        .sysctls
        .extend([Knob::ProxyArp, Knob::ProxyNdp].map(|knob| Sysctl { dev: dev.clone(), knob }));
}

pub(crate) fn expose(want: &mut plane::Desired, host: IpNet, dev: &str) {
    want.kernel.addresses.insert(Address { dev: "bgp-nic".into(), net: host });
    want.kernel.rules.insert(Rule { select: Select::To(host), table: table() });
    want.kernel.routes.insert((table(), host), hop(dev, None));
}

fn subnet(want: &mut plane::Desired, cidr: &str, via: &str, tenant: &str) {
    want.kernel.rules.insert(Rule { select: Select::To(net(cidr)), table: table() });
    want.kernel.routes.insert((table(), net(cidr)), hop("br-ex", Some(via)));
    want.kernel.addresses.insert(Address { dev: "bgp-nic".into(), net: net(tenant) });
}

/// A gateway in both families with a subnet behind it, a VM, a VM on a VLAN, and a subnet that is announced as such.
fn full() -> plane::Desired {
    let mut want = base();
    device(&mut want, "br-ex.100", Link::Vlan { parent: "br-ex".into(), tag: 100 }, Some(100));
    expose(&mut want, net("172.24.4.10/32"), "br-ex");
    expose(&mut want, net("172.24.5.10/32"), "br-ex.100");
    let mac = "fa:16:3e:aa:00:01".parse().expect("a MAC");
    for gateway in ["172.24.4.221/32", "2001:db8::221/128"] {
        expose(&mut want, net(gateway), "br-ex");
        want.kernel.neighbours.insert(("br-ex".into(), net(gateway).addr()), mac);
    }
    want.kernel.proxies.insert(("br-ex".into(), "2001:db8::221".parse().expect("an address")));
    subnet(&mut want, "10.1.0.0/24", "172.24.4.221", "10.1.0.5/32");
    subnet(&mut want, "fd00:1::/64", "2001:db8::221", "fd00:1::5/128");
    want.kernel.routes.insert((Table::Number(10), net("10.1.0.0/24")), hop("bgp-nic", Some("172.24.4.221")));
    want
}

/// Applies all steps until nothing is left; returns them.
async fn settle(plane: &mut Plane, want: &plane::Desired) -> Result<Vec<String>> {
    let mut done = Vec::new();
    for _ in 0..5 {
        let have = plane.observe(Scope::Cached).await?;
        let plan = plane.plan(want, &BTreeSet::new(), &have);
        drop(have);
        if plan.is_empty() {
            ensure!(
                plan.want == plan.have,
                "{} of {} are there and nothing is planned",
                plan.have,
                plan.want
            );
            remembered(plane).await?;
            return Ok(done);
        }
        let applied = plane.apply(&plan).await?;
        for (step, result) in plan.steps.iter().zip(&applied.results) {
            match result {
                StepResult::Done => done.push(step.op.to_string()),
                StepResult::Skipped => bail!("skipped: {}", step.op),
                StepResult::Failed(error) => bail!("{:#}", anyhow::Error::new(error.clone())),
            }
        }
    }
    bail!("still not as wanted; last done: {done:#?}")
}

/// Asserts that the state remembered from notifications equals the real state.
async fn remembered(plane: &mut Plane) -> Result<()> {
    let shape = |seen: &Observed| {
        let rules: Vec<_> = seen.rules.iter().map(|r| (r.select, r.table, r.priority)).collect();
        let routes: Vec<_> =
            seen.routes.iter().map(|r| (r.table, r.dst, r.metric, r.hop.clone(), r.protocol)).collect();
        let rest =
            (&seen.links, &seen.addresses, &seen.neighbours, &seen.proxies, &seen.sysctls, &seen.forwarding);
        format!("{rules:#?}\n{routes:#?}\n{rest:#?}")
    };
    let cached = shape(&plane.observe(Scope::Cached).await?.kernel);
    let fresh = shape(&plane.observe(Scope::Full).await?.kernel);
    if cached != fresh {
        fs::write("/job/remembered", cached)?;
        fs::write("/job/read", fresh)?;
        bail!("what is remembered is not what is there: compare `remembered` and `read` in the job folder");
    }
    Ok(())
}

fn has(command: &str, lines: &[&str]) -> Result<()> {
    let said = run(command)?;
    for line in lines {
        ensure!(
            said.lines().any(|l| l.split_whitespace().eq(line.split_whitespace())),
            "{command}: no {line:?} in\n{said}"
        );
    }
    Ok(())
}

/// All foreign rules, routes and addresses, as text.
fn others() -> Result<String> {
    [
        "ip rule show pref 100",
        "ip route show table 300",
        "ip route show table main",
        "ip -br addr show dev eth9",
        "ip neigh show dev eth9 nud permanent",
        "ip -o addr show dev br-ex to 1.1.1.1",
    ]
    .iter()
    .map(|command| run(command))
    .collect()
}

fn made() -> Result<()> {
    machine()?;
    for line in [
        "ip rule add pref 100 to 172.24.4.10 lookup 300",
        "ip route add 172.24.4.10 dev eth9 table 300",
        "ip addr add 192.0.2.1/24 dev eth9",
        "ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev eth9",
        "ip addr add 1.1.1.1/32 dev br-ex",
    ] {
        run(line)?;
    }
    let theirs = others()?;
    runtime()?.block_on(async {
        let mut plane = open()?;
        let done = settle(&mut plane, &full()).await?;
        println!("{} steps", done.len());
        has(
            "ip rule",
            &[
                "32000: from all to 172.24.4.10 lookup br-ex",
                "32000: from all to 172.24.4.221 lookup br-ex",
                "32000: from all to 10.1.0.0/24 lookup br-ex",
            ],
        )?;
        has(
            "ip -6 rule",
            &["32000: from all to 2001:db8::221 lookup br-ex", "32000: from all to fd00:1::/64 lookup br-ex"],
        )?;
        has(
            "ip route show table br-ex",
            &[
                "default dev br-ex scope link",
                "172.24.4.10 dev br-ex scope link",
                "172.24.5.10 dev br-ex.100 scope link",
                "10.1.0.0/24 via 172.24.4.221 dev br-ex",
            ],
        )?;
        has(
            "ip -6 route show table br-ex",
            &["fd00:1::/64 via 2001:db8::221 dev br-ex metric 1024 pref medium"],
        )?;
        has("ip route show table 10 10.1.0.0/24", &["10.1.0.0/24 via 172.24.4.221 dev bgp-nic"])?;
        has("ip neigh show dev br-ex nud permanent", &["172.24.4.221 lladdr fa:16:3e:aa:00:01 PERMANENT"])?;
        has("ip -6 neigh show proxy", &["2001:db8::221 dev br-ex proxy"])?;
        has("sysctl net.ipv4.conf.br-ex.proxy_arp", &["net.ipv4.conf.br-ex.proxy_arp = 1"])?;
        has("sysctl net/ipv6/conf/br-ex.100/proxy_ndp", &["net.ipv6.conf.br-ex/100.proxy_ndp = 1"])?;
        let addresses = run("ip -br addr show dev bgp-nic")?;
        for ip in [
            "172.24.4.10/32",
            "172.24.5.10/32",
            "172.24.4.221/32",
            "10.1.0.5/32",
            "2001:db8::221/128",
            "fd00:1::5/128",
        ] {
            ensure!(addresses.contains(ip), "no {ip} in {addresses}");
        }
        ensure!(
            run("ip route get 10.1.0.5")?.contains("via 172.24.4.221 dev br-ex table br-ex"),
            "the kernel routes otherwise"
        );
        // Another agent on the same node finds nothing to do.
        ensure!(settle(&mut open()?, &full()).await?.is_empty(), "a restart changes something");
        let aggregate = {
            let mut want = full();
            want.kernel.rules = Family::BOTH
                .map(|family| Rule { select: Select::All(family), table: table() })
                .into_iter()
                .collect();
            want
        };
        settle(&mut plane, &aggregate).await?;
        has("ip rule", &["32000: from all lookup br-ex suppress_prefixlength 0"])?;
        ensure!(
            run("ip route get 10.1.0.5")?.contains("via 172.24.4.221 dev br-ex table br-ex"),
            "aggregate rules route otherwise"
        );
        settle(&mut plane, &full()).await?;
        let done = settle(&mut plane, &base()).await?;
        ensure!(done.iter().any(|step| step == "delete br-ex.100"), "the VLAN device stays: {done:#?}");
        ensure!(!run("ip rule")?.contains("32000:"), "rules are left");
        ensure!(run("ip -br addr show dev bgp-nic")?.matches('/').count() <= 1, "addresses are left");
        ensure!(run("ip -6 neigh show proxy")?.trim().is_empty(), "proxy entries are left");
        // The bridge is no longer mapped: its table is empty, its number stays reserved.
        let mut unmapped = base();
        unmapped.kernel.links.remove("br-ex");
        unmapped.kernel.routes.clear();
        unmapped.kernel.addresses.clear();
        unmapped.kernel.sysctls.clear();
        settle(&mut plane, &unmapped).await?;
        ensure!(run("ip route show table br-ex").unwrap_or_default().trim().is_empty(), "routes are left");
        ensure!(
            fs::read_to_string("/etc/iproute2/rt_tables")?.contains("201 br-ex"),
            "the number is no longer reserved"
        );
        ensure!(others()? == theirs, "what is not ours has changed:\n{theirs}\n{}", others()?);
        Ok(())
    })
}

fn taken_over() -> Result<()> {
    machine()?;
    fs::create_dir_all("/etc/iproute2")?;
    fs::write("/etc/iproute2/rt_tables", "255\tlocal\n254\tmain\n253\tdefault\n0\tunspec\n87 br-ex\n")?;
    for line in [
        "ip link add bgp-vrf type vrf table 10",
        "ip link set bgp-vrf up",
        "ip link add bgp-nic type dummy",
        "ip link set bgp-nic master bgp-vrf up",
        "ip link set br-ex up",
        "ip addr add 169.254.1.1/32 dev br-ex",
        "ip addr add fd53:d91e:400:7f17::1:1/128 dev br-ex",
        "sysctl -qw net.ipv4.conf.br-ex.proxy_arp=1 net.ipv6.conf.br-ex.proxy_ndp=1",
        "ip route add default dev br-ex table 87 proto boot scope link",
        "ip -6 route add default dev br-ex table 87 proto boot",
        "ip route add 172.24.4.10 dev br-ex table 87 proto boot scope link",
        "ip rule add pref 32000 to 172.24.4.10 lookup 87",
        "ip route add 172.24.4.221 dev br-ex table 87 proto boot scope link",
        "ip rule add pref 32000 to 172.24.4.221 lookup 87",
        "ip neigh add 172.24.4.221 lladdr fa:16:3e:aa:00:01 dev br-ex nud permanent",
        "ip route add 10.1.0.0/24 via 172.24.4.221 dev br-ex table 87 proto boot",
        "ip rule add pref 32000 to 10.1.0.1/24 lookup 87",
        "ip addr add 172.24.4.10/32 dev bgp-nic",
        "ip addr add 172.24.4.221/32 dev bgp-nic",
        "ip addr add 10.1.0.5/32 dev bgp-nic",
    ] {
        run(line)?;
    }
    let mut want = base();
    expose(&mut want, net("172.24.4.10/32"), "br-ex");
    expose(&mut want, net("172.24.4.221/32"), "br-ex");
    let mac = "fa:16:3e:aa:00:01".parse()?;
    want.kernel.neighbours.insert(("br-ex".into(), "172.24.4.221".parse()?), mac);
    subnet(&mut want, "10.1.0.0/24", "172.24.4.221", "10.1.0.5/32");
    runtime()?.block_on(async {
        let done = settle(&mut open()?, &want).await?;
        let legacy =
            ["add rule 32000: to 10.1.0.0/24 lookup 87", "delete rule 32000: to 10.1.0.1/24 lookup 87"];
        ensure!(done == legacy, "{done:#?}");
        // A container may lose its file. The agent then finds the table by its content.
        fs::write("/etc/iproute2/rt_tables", "")?;
        let done = settle(&mut open()?, &want).await?;
        ensure!(done == ["reserve table 87 for br-ex in rt_tables"], "{done:#?}");
        Ok(())
    })
}

/// Wants always the same.
struct Always(plane::Desired);

impl Desire for Always {
    type Snapshot = ();
    type Desired = plane::Desired;

    fn desire(&mut self, (): &()) -> Outcome<plane::Desired> {
        Outcome::new(self.0.clone())
    }
}

fn drift() -> Result<()> {
    machine()?;
    let runtime = runtime()?;
    let guard = runtime.enter();
    let plane = open()?;
    let changes = plane.changes();
    let timing = Timing {
        window: Duration::from_millis(5),
        max_delay: Duration::from_millis(50),
        ..Timing::default()
    };
    let driver = Driver::new("plane", timing, || Ok(()), Always(full()), plane);
    let handle = driver.handle();
    changes.into_iter().for_each(|change| handle.follow(change));
    let running = runtime.spawn(driver.run());
    drop(guard);
    let there = |command: &str, line: &str| -> Result<()> {
        let said = run(command)?;
        ensure!(said.contains(line), "no {line:?} in {said}");
        Ok(())
    };
    eventually(REPAIR, "all is made", || there("ip -br addr show dev bgp-nic", "fd00:1::5/128"))?;
    for (harm, look, line) in [
        ("ip rule del pref 32000 to 172.24.4.10", "ip rule", "to 172.24.4.10 lookup"),
        ("ip -6 rule del pref 32000 to fd00:1::/64", "ip -6 rule", "to fd00:1::/64 lookup"),
        ("ip addr del 172.24.4.10/32 dev bgp-nic", "ip addr show dev bgp-nic", "172.24.4.10/32"),
        ("ip route del 10.1.0.0/24 table br-ex", "ip route show table br-ex", "10.1.0.0/24 via"),
        ("ip -6 route flush table br-ex", "ip -6 route show table br-ex", "fd00:1::/64 via"),
        (
            "ip neigh del 172.24.4.221 dev br-ex",
            "ip neigh show dev br-ex",
            "172.24.4.221 lladdr fa:16:3e:aa:00:01 PERMANENT",
        ),
        (
            "ip neigh replace 172.24.4.221 lladdr 02:00:00:00:00:77 dev br-ex",
            "ip neigh show dev br-ex",
            "fa:16:3e:aa:00:01 PERMANENT",
        ),
        ("ip -6 neigh del proxy 2001:db8::221 dev br-ex", "ip -6 neigh show proxy", "2001:db8::221"),
        ("sysctl -qw net.ipv4.conf.br-ex.proxy_arp=0", "sysctl net.ipv4.conf.br-ex.proxy_arp", "= 1"),
        ("ip link set bgp-nic down", "ip -br addr show dev bgp-nic", "2001:db8::221/128"),
        ("ip link set bgp-nic nomaster", "ip link show bgp-nic", "master bgp-vrf"),
        // A device that loses its last address loses its routes, and the kernel sends no notification about them.
        ("ip addr del 169.254.1.1/32 dev br-ex", "ip route show table br-ex", "172.24.4.10 dev br-ex"),
        ("ip link set br-ex down", "ip route show table br-ex", "10.1.0.0/24 via"),
        ("ip link del br-ex.100", "ip route show table br-ex", "172.24.5.10 dev br-ex.100"),
        ("ip link del bgp-nic", "ip -br addr show dev bgp-nic", "10.1.0.5/32"),
        ("ip link del bgp-vrf", "ip link show bgp-nic", "master bgp-vrf"),
    ] {
        run(harm)?;
        let start = Instant::now();
        eventually(REPAIR, &format!("repaired after {harm:?}"), || there(look, line)).context(harm)?;
        println!("{harm}: {} ms", start.elapsed().as_millis());
    }
    handle.stop();
    runtime.block_on(running)?;
    Ok(())
}

fn drain() -> Result<()> {
    machine()?;
    let carried = |ip: &str| -> Result<bool> {
        let (rules, routes) = (run("ip rule")?, run("ip route show table br-ex")?);
        Ok(rules.contains(&format!("to {ip} lookup")) && routes.contains(&format!("{ip} dev br-ex")))
    };
    let with = |hosts: &[&str]| {
        let mut want = plane::Desired { drain: Duration::from_secs(10), ..base() };
        hosts.iter().for_each(|host| expose(&mut want, net(host), "br-ex"));
        want
    };
    runtime()?.block_on(async {
        let mut plane = open()?;
        let mut over = plane.changes().into_iter().last().context("nothing tells of the end of drains")?;
        settle(&mut plane, &with(&["172.24.4.10/32", "172.24.4.11/32"])).await?;
        let done = settle(&mut plane, &with(&["172.24.4.12/32"])).await?;
        ensure!(
            done.iter().filter(|step| step.ends_with("carry it for 10000 ms more")).count() == 2,
            "{done:#?}"
        );
        ensure!(
            carried("172.24.4.10")? && carried("172.24.4.11")? && carried("172.24.4.12")?,
            "a way is gone"
        );
        let announced = run("ip -br addr show dev bgp-nic")?;
        ensure!(announced.contains("172.24.4.12/32") && !announced.contains("172.24.4.10/32"), "{announced}");
        // An address that returns within the drain time still has its path, and keeps it.
        let done = settle(&mut plane, &with(&["172.24.4.11/32", "172.24.4.12/32"])).await?;
        ensure!(done == ["add address 172.24.4.11/32 to bgp-nic"], "{done:#?}");
        over.changed().await?;
        let done = settle(&mut plane, &with(&["172.24.4.11/32", "172.24.4.12/32"])).await?;
        ensure!(done.len() == 2 && done.iter().all(|step| step.contains("172.24.4.10")), "{done:#?}");
        ensure!(!carried("172.24.4.10")? && carried("172.24.4.11")?, "not what it should be");
        Ok(())
    })
}

fn many() -> Result<()> {
    machine()?;
    let mut want = base();
    for n in 0..2000u32 {
        expose(&mut want, net(&format!("172.25.{}.{}/32", n / 250, n % 250)), "br-ex");
    }
    runtime()?.block_on(async {
        let mut plane = open()?;
        settle(&mut plane, &base()).await?;
        let start = Instant::now();
        let done = settle(&mut plane, &want).await?;
        println!("{} steps in {} ms", done.len(), start.elapsed().as_millis());
        let start = Instant::now();
        ensure!(settle(&mut plane, &want).await?.is_empty(), "not the same twice");
        println!("nothing to do in {} ms", start.elapsed().as_millis());
        // More notifications than a socket buffers, while the agent does not read them.
        let routes: String = (0..20000)
            .map(|n| format!("route add 10.{}.{}.0/24 dev eth9 table 300\n", n / 250, n % 250))
            .collect();
        fs::write("/tmp/routes", routes)?;
        run("ip -batch /tmp/routes")?;
        run("ip rule del pref 32000 to 172.25.7.1")?;
        let done = settle(&mut plane, &want).await?;
        ensure!(done == ["add rule 32000: to 172.25.7.1/32 lookup 201"], "{done:#?}");
        run("ip route flush table 300")?;
        settle(&mut plane, &base()).await?;
        ensure!(!run("ip rule")?.contains("32000:"), "rules are left");
        Ok(())
    })
}
