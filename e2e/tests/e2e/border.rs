//! A border node configured by hand: the settings of a chassis that make addresses of its VMs reachable over BGP alone.
//!
//! Meridian's BGP agent takes these steps by itself. Here they are commands of the kernel's own tools, which documents and tests the basis
//! of the agent, including the effect of a missing step.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lab::node::Node;
use lab::node::chassis::Chassis;
use lab::{Lab, Topology, chassis, eventually};

/// The time limit for a route to propagate.
const ROUTE: Duration = Duration::from_secs(60);
/// The table whose default route leads to the provider bridge.
const TABLE: &str = "201";

/// Two chassis whose provider bridge `br-ex` has no wire. The kernel routes the packets that leave through it.
pub(crate) fn two_borders() -> Topology {
    Topology::new()
        .central("az1")
        .chassis(chassis("hv1").bridge_mapping("physnet", "br-ex"))
        .chassis(chassis("hv2").bridge_mapping("physnet", "br-ex"))
}

/// Creates the spine: a router with a cable (`up1`, `up2`, ...) to each chassis, where its end is named `uplink`. All ends have addresses.
pub(crate) fn spine(lab: &Lab, borders: &[&str], uplink: &str) -> Result<Arc<Node>> {
    let spine = spine_unnumbered(lab, borders, uplink)?;
    for (n, name) in (1..).zip(borders) {
        spine.address(&format!("up{n}"), format!("100.64.{n}.0/31").parse()?)?;
        lab.chassis(name)?.address(uplink, format!("100.64.{n}.1/31").parse()?)?;
    }
    Ok(spine)
}

/// Like `spine`, with addresses on the loopback devices only.
pub(crate) fn spine_unnumbered(lab: &Lab, borders: &[&str], uplink: &str) -> Result<Arc<Node>> {
    let spine = lab.node("spine")?;
    spine.address("lo", "192.0.2.1/32".parse()?)?;
    spine.address("lo", "2001:db8:ff::1/128".parse()?)?;
    spine.sysctl("net.ipv4.ip_forward", "1")?;
    spine.sysctl("net.ipv6.conf.all.forwarding", "1")?;
    for (n, name) in (1..).zip(borders) {
        let border = lab.chassis(name)?;
        lab.connect((&spine, &format!("up{n}")), (border, uplink))?;
        border.address("lo", format!("172.30.1.{n}/32").parse()?)?;
    }
    Ok(spine)
}

/// Creates the VRF for exposed addresses. They are connected there, so that FRR announces them and the kernel does not treat them as its
/// own.
pub(crate) fn exposure_vrf(border: &Chassis) -> Result<()> {
    border.run("ip link add bgp-vrf type vrf table 10")?;
    border.up("bgp-vrf")?;
    border.run("ip link add bgp-nic type dummy")?;
    border.enslave("bgp-nic", Some("bgp-vrf"))?;
    border.up("bgp-nic")
}

/// The provider bridge as the VMs' gateway: an address, proxy ARP and NDP, and a table in which it leads everywhere.
pub(crate) fn provider_gateway(border: &Chassis) -> Result<()> {
    border.up("br-ex")?;
    border.address("br-ex", "1.1.1.1/32".parse()?)?;
    border.address("br-ex", "fd53:d91e:400:7f17::1/128".parse()?)?;
    border.sysctl("net.ipv4.conf.br-ex.proxy_arp", "1")?;
    border.sysctl("net.ipv6.conf.br-ex.proxy_ndp", "1")?;
    border.run(&format!("ip route add default dev br-ex table {TABLE}"))?;
    border.run(&format!("ip -6 route add default dev br-ex table {TABLE}")).map(|_| ())
}

/// Packets are routed and not only received.
pub(crate) fn forward(border: &Chassis) -> Result<()> {
    border.sysctl("net.ipv4.ip_forward", "1")?;
    border.sysctl("net.ipv6.conf.all.forwarding", "1")
}

/// Sends packets between VMs on the provider network to the kernel as well, because the physical network does not switch them.
pub(crate) fn steer_to_kernel(border: &Chassis) -> Result<()> {
    let (mac, port) = (border.mac("br-ex")?, border.ofport("patch-provnet-1-to-br-int")?);
    for family in ["ip", "ipv6"] {
        let flow =
            format!("cookie=0x3e7,priority=900,{family},in_port={port},actions=mod_dl_dst:{mac},NORMAL");
        border.add_flow("br-ex", &flow)?;
    }
    Ok(())
}

/// Announces an address of a VM on this chassis, and routes it into the provider bridge.
pub(crate) fn expose(border: &Chassis, address: &str) -> Result<()> {
    rule(border, "add", address)?;
    let (v6, prefix) = family(address);
    border.run(&format!("ip {v6} route add {address} dev br-ex table {TABLE}"))?;
    border.address("bgp-nic", format!("{address}/{prefix}").parse()?)
}

/// Adds or deletes the rule that sends lookups of an address to the provider bridge's table.
pub(crate) fn rule(border: &Chassis, verb: &str, address: &str) -> Result<()> {
    let (v6, _) = family(address);
    border.run(&format!("ip {v6} rule {verb} pref 32000 to {address} lookup {TABLE}")).map(|_| ())
}

fn family(address: &str) -> (&'static str, u8) {
    if address.contains(':') { ("-6", 128) } else { ("-4", 32) }
}

/// Waits until a node has learned a route by BGP.
pub(crate) fn learns(node: &Node, prefix: &str) -> Result<()> {
    eventually(ROUTE, &format!("{} has {prefix} by BGP", node.label()), || {
        ensure!(has(node, prefix)?, "no such route");
        Ok(())
    })
}

/// Waits until a node has no BGP route to a prefix any more.
pub(crate) fn unlearns(node: &Node, prefix: &str) -> Result<()> {
    eventually(ROUTE, &format!("{} has {prefix} no more", node.label()), || {
        ensure!(!has(node, prefix)?, "the route is still there");
        Ok(())
    })
}

fn has(node: &Node, prefix: &str) -> Result<bool> {
    let v6 = if prefix.contains(':') { "-6" } else { "-4" };
    Ok(node.run(&format!("ip {v6} route show {prefix}"))?.contains("proto bgp"))
}

/// FRR's filters on the `n`-th border. It accepts only a default route from outside, which gets the node's own address as its source, and
/// announces only host routes. Filters take effect at once; by default FRR waits five seconds for further changes.
pub(crate) fn filters(n: usize) -> String {
    format!(
        "zebra route-map delay-timer 0
bgp route-map delay-timer 0
ip prefix-list only-default permit 0.0.0.0/0
ip prefix-list only-host-prefixes permit 0.0.0.0/0 ge 32
ipv6 prefix-list only-default permit ::/0
ipv6 prefix-list only-host-prefixes permit ::/0 ge 128
route-map rm-only-default permit 10
 match ip address prefix-list only-default
 set src 172.30.1.{n}
exit
ip protocol bgp route-map rm-only-default
ip nht resolve-via-default
"
    )
}

/// A border's address families for the peer group `uplink`, for both IP versions.
pub(crate) fn uplink_families() -> String {
    both_families(
        "redistribute connected
  neighbor uplink activate
  neighbor uplink allowas-in origin
  neighbor uplink prefix-list only-host-prefixes out",
    )
}

fn both_families(what: &str) -> String {
    let family = |family: &str| format!(" address-family {family} unicast\n  {what}\n exit-address-family\n");
    family("ipv4") + &family("ipv6")
}

/// Imports the connected routes of the exposure VRF into the default instance.
pub(crate) fn leak(n: usize) -> String {
    format!(
        "router bgp 64999\n{}exit\nrouter bgp 64999 vrf bgp-vrf\n bgp router-id 172.30.1.{n}\n{}exit\n",
        both_families("import vrf bgp-vrf"),
        both_families("redistribute connected")
    )
}

/// The provider network `public` with `vmp` on hv1 and `vmq` on hv2; `vmt` and `vmu` behind the router `lr0`, both on hv2, while the
/// router's gateway is on hv1 and `vmt` has the floating IP 172.24.4.110.
pub(crate) fn networks(lab: &Lab) -> Result<()> {
    let az1 = lab.central("az1")?;
    az1.write(|net| {
        net.provider("public", "provnet-1", "physnet")
            .port("vmp", "02:00:00:00:02:10 172.24.4.10 2001:db8:24::10")
            .port("vmq", "02:00:00:00:02:11 172.24.4.11");
        net.switch("sw0")
            .port("vmt", "02:00:00:00:00:21 10.0.0.21")
            .port("vmu", "02:00:00:00:00:22 10.0.0.22");
        net.router("lr0")
            .join("sw0", "02:00:00:00:01:01", "10.0.0.1/24")
            .join("public", "02:00:00:00:01:03", "172.24.4.100/24")
            .gateway_chassis("lr0-public", "hv1", 20)
            .static_route("0.0.0.0/0", "172.24.4.1")
            .floating_ip("172.24.4.110", "10.0.0.21");
    })?;
    let provider =
        |name: &str, hv: &str, mac: &str, ip: &str| lab.vm(name).on(hv).mac(mac).ip(ip).gateway("172.24.4.1");
    provider("vmp", "hv1", "02:00:00:00:02:10", "172.24.4.10/24")
        .ip("2001:db8:24::10/64")
        .gateway("2001:db8:24::1")
        .plug()?;
    provider("vmq", "hv2", "02:00:00:00:02:11", "172.24.4.11/24").plug()?;
    let tenant =
        |name: &str, mac: &str, ip: &str| lab.vm(name).on("hv2").mac(mac).ip(ip).gateway("10.0.0.1").plug();
    tenant("vmt", "02:00:00:00:00:21", "10.0.0.21/24")?;
    tenant("vmu", "02:00:00:00:00:22", "10.0.0.22/24")?;
    az1.ready(&["vmp", "vmq", "vmt", "vmu"])
}
