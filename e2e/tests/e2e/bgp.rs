//! Addresses of VMs and routers, reached over BGP alone.

use anyhow::{Result, ensure};
use lab::{Lab, Need, Test};

use crate::border::{
    expose, exposure_vrf, filters, forward, leak, learns, networks, provider_gateway, rule, spine,
    steer_to_kernel, two_borders, unlearns, uplink_families, withdraw,
};

const NEEDS: &[Need] = &[Need::Vrf, Need::Dummy];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new(
            "bgp::exposed_addresses_are_reached_from_the_spine",
            "a VM of a provider network, a floating IP, a router's gateway port and a VM behind it are reached over BGP alone",
            NEEDS,
            exposure,
        ),
        Test::new(
            "bgp::ipv6_addresses_are_reached_from_the_spine",
            "a VM's IPv6 address is reached over BGP, and needs forwarding, proxy NDP and an entry for the subnet's gateway",
            NEEDS,
            exposure_v6,
        ),
        Test::new(
            "bgp::every_step_of_exposure_is_needed",
            "without forwarding, proxy ARP, the rule, the flow, or an address on the bridge, traffic that needs it does not pass",
            NEEDS,
            steps,
        ),
    ]
}

/// What the spine says to both chassis.
pub(crate) const SPINE: &str = "router bgp 65000
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 timers bgp 1 3
 neighbor 100.64.1.1 remote-as 64999
 neighbor 100.64.2.1 remote-as 64999
 neighbor 100.64.1.1 timers connect 1
 neighbor 100.64.2.1 timers connect 1
 address-family ipv4 unicast
  network 192.0.2.1/32
  neighbor 100.64.1.1 activate
  neighbor 100.64.2.1 activate
  neighbor 100.64.1.1 default-originate
  neighbor 100.64.2.1 default-originate
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:ff::1/128
  neighbor 100.64.1.1 activate
  neighbor 100.64.2.1 activate
  neighbor 100.64.1.1 default-originate
  neighbor 100.64.2.1 default-originate
 exit-address-family
";

/// What the `n`-th chassis says to the spine: host routes only, those of the exposure VRF among them.
fn border(n: usize) -> String {
    peering(n) + &leak(n)
}

/// The same without the exposure VRF: what an operator configures.
pub(crate) fn peering(n: usize) -> String {
    format!(
        "{}router bgp 64999
 bgp router-id 172.30.1.{n}
 bgp log-neighbor-changes
 no bgp default ipv4-unicast
 no bgp ebgp-requires-policy
 timers bgp 1 3
 neighbor uplink peer-group
 neighbor uplink remote-as external
 neighbor 100.64.{n}.0 peer-group uplink
 neighbor 100.64.{n}.0 timers connect 1
{}exit
",
        filters(n),
        uplink_families(),
    )
}

/// Both chassis and the spine speak BGP, and each chassis has its default route from it.
pub(crate) fn speak_bgp(lab: &Lab) -> Result<()> {
    spine(lab, &["hv1", "hv2"], "uplink")?.frr(&["bgpd"], SPINE)?;
    for (at, name) in ["hv1", "hv2"].into_iter().enumerate() {
        let hv = lab.chassis(name)?;
        exposure_vrf(hv)?;
        hv.frr(&["bgpd"], &border(at + 1))?;
    }
    for name in ["hv1", "hv2"] {
        learns(lab.chassis(name)?, "default")?;
        provider_gateway(lab.chassis(name)?)?;
    }
    Ok(())
}

fn exposure() -> Result<()> {
    two_borders().run(|lab| {
        networks(lab)?;
        speak_bgp(lab)?;
        let (hv1, hv2, spine) = (lab.chassis("hv1")?, lab.chassis("hv2")?, lab.find("spine")?);
        for hv in [hv1, hv2] {
            forward(hv)?;
            steer_to_kernel(hv)?;
        }
        // A VM of the provider network, from near and far, and back.
        expose(hv1, "172.24.4.10")?;
        learns(&spine, "172.24.4.10")?;
        spine.reaches("172.24.4.10")?;
        spine.reaches_from("192.0.2.1", "172.24.4.10")?;
        lab.find("vmp")?.reaches("192.0.2.1")?;
        // A floating IP, whose VM is on another chassis than the gateway.
        expose(hv1, "172.24.4.110")?;
        spine.reaches("172.24.4.110")?;
        // The gateway port itself. Its router does not answer an ARP request that comes with a foreign address.
        expose(hv1, "172.24.4.100")?;
        hv1.run("ip neigh replace 172.24.4.100 lladdr 02:00:00:00:01:03 dev br-ex nud permanent")?;
        spine.reaches("172.24.4.100")?;
        // A VM behind the router.
        rule(hv1, "add", "10.0.0.0/24")?;
        hv1.run("ip route add 10.0.0.0/24 via 172.24.4.100 dev br-ex table 201 onlink")?;
        hv1.address("bgp-nic", "10.0.0.22/32".parse()?)?;
        learns(&spine, "10.0.0.22")?;
        spine.reaches("10.0.0.22")?;
        // The second chassis, and VMs of one subnet on two chassis.
        expose(hv2, "172.24.4.11")?;
        learns(&spine, "172.24.4.11")?;
        spine.reaches("172.24.4.11")?;
        lab.find("vmp")?.reaches("172.24.4.11")?;
        // And back again.
        withdraw(hv1, "172.24.4.10")?;
        unlearns(&spine, "172.24.4.10")?;
        hv1.daemon("bgpd")?.kill()?;
        unlearns(&spine, "172.24.4.110")
    })
}

fn exposure_v6() -> Result<()> {
    two_borders().run(|lab| {
        networks(lab)?;
        speak_bgp(lab)?;
        let (hv1, spine, vmp) = (lab.chassis("hv1")?, lab.find("spine")?, lab.find("vmp")?);
        let (here, there) = ("2001:db8:ff::1", "2001:db8:24::10");
        // What a neighbour has learned would hide what is missing.
        let forget =
            || vmp.run("ip -6 neigh flush dev eth0").and_then(|_| hv1.run("ip -6 neigh flush dev br-ex"));
        expose(hv1, there)?;
        learns(&spine, there)?;
        forget()?;
        spine.gets_no_answer_from(here, there)?;
        forward(hv1)?;
        forget()?;
        spine.gets_no_answer_from(here, there)?;
        hv1.run("ip -6 neigh add proxy 2001:db8:24::1 dev br-ex")?;
        forget()?;
        spine.reaches_from(here, there)?;
        hv1.sysctl("net.ipv6.conf.br-ex.proxy_ndp", "0")?;
        forget()?;
        spine.gets_no_answer_from(here, there)?;
        hv1.sysctl("net.ipv6.conf.br-ex.proxy_ndp", "1")?;
        forget()?;
        spine.reaches_from(here, there)?;
        vmp.reaches(here)
    })
}

fn steps() -> Result<()> {
    two_borders().run(|lab| {
        networks(lab)?;
        speak_bgp(lab)?;
        let (hv1, hv2, spine) = (lab.chassis("hv1")?, lab.chassis("hv2")?, lab.find("spine")?);
        let (vmp, outside) = (lab.find("vmp")?, "192.0.2.1");
        let forget = || vmp.run("ip neigh flush dev eth0").and_then(|_| hv1.run("ip neigh flush dev br-ex"));
        expose(hv1, "172.24.4.10")?;
        expose(hv2, "172.24.4.11")?;
        learns(&spine, "172.24.4.10")?;
        learns(&spine, "172.24.4.11")?;

        println!("without forwarding:");
        spine.gets_no_answer_from(outside, "172.24.4.10")?;
        forward(hv1)?;
        forward(hv2)?;
        spine.reaches_from(outside, "172.24.4.10")?;

        println!("without the flow, from chassis to chassis:");
        vmp.gets_no_answer("172.24.4.11")?;
        steer_to_kernel(hv1)?;
        steer_to_kernel(hv2)?;
        vmp.reaches("172.24.4.11")?;

        println!("without proxy ARP:");
        hv1.sysctl("net.ipv4.conf.br-ex.proxy_arp", "0")?;
        forget()?;
        spine.gets_no_answer_from(outside, "172.24.4.10")?;
        hv1.sysctl("net.ipv4.conf.br-ex.proxy_arp", "1")?;
        forget()?;
        spine.reaches_from(outside, "172.24.4.10")?;

        println!("without the rule:");
        rule(hv1, "del", "172.24.4.10")?;
        spine.gets_no_answer_from(outside, "172.24.4.10")?;
        rule(hv1, "add", "172.24.4.10")?;
        spine.reaches_from(outside, "172.24.4.10")?;

        println!("without an address on the bridge:");
        hv1.run("ip address del 1.1.1.1/32 dev br-ex")?;
        // With the last address of a device the kernel forgets the routes through it, in every table, and then the table.
        let left = hv1.run("ip route show table 201").unwrap_or_default();
        ensure!(left.trim().is_empty(), "the kernel kept {left}");
        spine.gets_no_answer_from(outside, "172.24.4.10")
    })
}
