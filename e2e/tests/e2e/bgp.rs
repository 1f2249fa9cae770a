//! The steps that make an address reachable over BGP alone, done by hand. The agent does all of them (`agent`).

use anyhow::{Context, Result, ensure};
use lab::{Lab, Need, Test};

use crate::border::{
    expose, exposure_vrf, forward, leak, learns, networks, provider_gateway, rule, spine, steer_to_kernel,
    two_borders,
};

const NEEDS: &[Need] = &[Need::Vrf, Need::Dummy];

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "bgp::every_step_of_exposure_is_needed",
        "without forwarding, proxy ARP or NDP, the rule, the flow, or an address on the bridge, traffic that needs it does not pass",
        NEEDS,
        steps,
    )]
}

/// The spine's configuration towards both chassis.
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

/// The configuration of the `n`-th chassis towards the spine: it announces host routes only, including those of the exposure VRF.
fn border(n: usize) -> String {
    peering(n) + &leak(n)
}

/// The sample that an operator starts from, as the documentation and the package have it.
const SAMPLE: &str = include_str!("../../../packaging/examples/frr.conf");

/// The part without the exposure VRF, which an operator configures: the sample with the addresses of this chassis. Only timers are shorter,
/// and filters take effect at once. By default FRR waits five seconds for further changes of a filter.
pub(crate) fn peering(n: usize) -> String {
    let sample = SAMPLE
        .replace("172.30.1.1", &format!("172.30.1.{n}"))
        .replace("100.64.1.0", &format!("100.64.{n}.0"));
    format!(
        "zebra route-map delay-timer 0
bgp route-map delay-timer 0
{sample}router bgp 64999
 bgp log-neighbor-changes
 timers bgp 1 3
 neighbor 100.64.{n}.0 timers connect 1
exit
"
    )
}

/// The line that the sample asks to add so that tenants' prefixes are announced.
pub(crate) fn tenants_let_out() -> Result<&'static str> {
    let (_, rest) =
        SAMPLE.split_once("= subnet, also the tenants' prefixes:\n! ").context("the sample does not tell")?;
    rest.lines().next().context("the sample ends")
}

/// Configures BGP between both chassis and the spine, from which each chassis learns its default route.
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

fn steps() -> Result<()> {
    two_borders().run(|lab| {
        networks(lab)?;
        speak_bgp(lab)?;
        let (hv1, hv2, spine) = (lab.chassis("hv1")?, lab.chassis("hv2")?, lab.find("spine")?);
        let (vmp, outside) = (lab.find("vmp")?, "192.0.2.1");
        let (outside6, vmp6) = ("2001:db8:ff::1", "2001:db8:24::10");
        // Learned neighbours would hide a missing step.
        let forget = || vmp.run("ip neigh flush dev eth0").and_then(|_| hv1.run("ip neigh flush dev br-ex"));
        expose(hv1, "172.24.4.10")?;
        expose(hv1, vmp6)?;
        expose(hv2, "172.24.4.11")?;
        learns(&spine, "172.24.4.10")?;
        learns(&spine, vmp6)?;
        learns(&spine, "172.24.4.11")?;

        println!("without forwarding:");
        spine.gets_no_answer_from(outside, "172.24.4.10")?;
        spine.gets_no_answer_from(outside6, vmp6)?;
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

        println!("without an entry for the subnet's gateway, and without proxy NDP:");
        spine.gets_no_answer_from(outside6, vmp6)?;
        hv1.run("ip -6 neigh add proxy 2001:db8:24::1 dev br-ex")?;
        forget()?;
        spine.reaches_from(outside6, vmp6)?;
        hv1.sysctl("net.ipv6.conf.br-ex.proxy_ndp", "0")?;
        forget()?;
        spine.gets_no_answer_from(outside6, vmp6)?;
        hv1.sysctl("net.ipv6.conf.br-ex.proxy_ndp", "1")?;
        forget()?;
        spine.reaches_from(outside6, vmp6)?;

        println!("without the rule:");
        rule(hv1, "del", "172.24.4.10")?;
        spine.gets_no_answer_from(outside, "172.24.4.10")?;
        rule(hv1, "add", "172.24.4.10")?;
        spine.reaches_from(outside, "172.24.4.10")?;

        println!("without an address on the bridge:");
        hv1.run("ip address del 1.1.1.1/32 dev br-ex")?;
        // When a device loses its last address, the kernel deletes the routes through it in every table, and then the table.
        let left = hv1.run("ip route show table 201").unwrap_or_default();
        ensure!(left.trim().is_empty(), "the kernel kept {left}");
        spine.gets_no_answer_from(outside, "172.24.4.10")
    })
}
