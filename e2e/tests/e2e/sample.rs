//! The sample configuration for deployments of OVN with BGP, unchanged: iBGP, unnumbered, with a password.

use anyhow::Result;
use lab::{Need, Test};

use crate::border::{
    expose, exposure_vrf, filters, forward, leak, learns, networks, provider_gateway, rule, spine_unnumbered,
    two_borders, unlearns, uplink_families,
};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "bgp::the_sample_configuration_works_as_it_is",
        "FRR's usual sample (iBGP, unnumbered, MD5, graceful shutdown) carries exposed addresses, also with strict reverse path checks",
        &[Need::Vrf, Need::Dummy],
        sample,
    )]
}

/// The other side: reflects routes between the chassis, and is everybody's default route.
const SPINE: &str = "router bgp 64999
 bgp router-id 192.0.2.1
 no bgp default ipv4-unicast
 no bgp ebgp-requires-policy
 neighbor down peer-group
 neighbor down remote-as internal
 neighbor down password foobar
 neighbor down timers 1 3
 neighbor down timers connect 1
 neighbor up1 interface peer-group down
 neighbor up2 interface peer-group down
 address-family ipv4 unicast
  network 192.0.2.1/32
  neighbor down activate
  neighbor down default-originate
  neighbor down route-reflector-client
  neighbor down next-hop-self force
 exit-address-family
";

/// The sample, for the `n`-th chassis; only the timer that retries a connection is shorter.
fn border(n: usize) -> String {
    format!(
        "router bgp 64999
  bgp router-id 172.30.1.{n}
  bgp log-neighbor-changes
  bgp graceful-shutdown
  no bgp default ipv4-unicast
  no bgp ebgp-requires-policy
  neighbor uplink peer-group
  neighbor uplink remote-as internal
  neighbor uplink password foobar
  neighbor uplink timers connect 1
  neighbor enp2s0 interface peer-group uplink
{}{}",
        uplink_families(),
        filters(n)
    )
}

fn sample() -> Result<()> {
    two_borders().run(|lab| {
        networks(lab)?;
        let spine = spine_unnumbered(lab, &["hv1", "hv2"], "enp2s0")?;
        spine.frr(&["bgpd"], SPINE)?;
        for (at, name) in ["hv1", "hv2"].into_iter().enumerate() {
            let hv = lab.chassis(name)?;
            forward(hv)?;
            for device in ["all", "default", "enp2s0", "lo", "br-ex"] {
                hv.sysctl(&format!("net.ipv4.conf.{device}.rp_filter"), "1")?;
            }
            exposure_vrf(hv)?;
            hv.frr(&["bgpd"], &border(at + 1))?;
            hv.frr_config(&leak(at + 1))?;
        }
        let (hv1, hv2, outside) = (lab.chassis("hv1")?, lab.chassis("hv2")?, "192.0.2.1");
        for hv in [hv1, hv2] {
            learns(hv, "default")?;
            provider_gateway(hv)?;
        }
        expose(hv1, "172.24.4.10")?;
        expose(hv2, "172.24.4.11")?;
        for address in ["172.24.4.10", "172.24.4.11"] {
            learns(&spine, address)?;
            spine.reaches_from(outside, address)?;
        }
        // The gateway port and everything behind it is unreachable until it has a permanent neighbour entry.
        expose(hv1, "172.24.4.100")?;
        learns(&spine, "172.24.4.100")?;
        hv1.run("ip neigh replace 172.24.4.100 lladdr 02:00:00:00:01:03 dev br-ex nud permanent")?;
        spine.reaches_from(outside, "172.24.4.100")?;
        rule(hv1, "add", "10.0.0.0/24")?;
        // The kernel accepts this route without `onlink`, because it already has a route to the gateway port.
        hv1.run("ip route add 10.0.0.0/24 via 172.24.4.100 dev br-ex table 201")?;
        hv1.address("bgp-nic", "10.0.0.22/32".parse()?)?;
        spine.reaches_from(outside, "10.0.0.22")?;
        hv1.daemon("bgpd")?.kill()?;
        unlearns(&spine, "172.24.4.10")
    })
}
