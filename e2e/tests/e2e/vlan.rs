//! A provider network with a VLAN tag: the kernel has a VLAN device on the provider bridge.

use anyhow::Result;
use lab::{Need, Test};

use crate::border::{forward, spine, steer_to_kernel, two_borders};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new(
        "provider::vlan_networks_are_routed_by_the_kernel",
        "VMs of a tagged provider network are reached from the spine and from each other through a VLAN device on the bridge",
        &[Need::Vlan],
        vlan,
    )]
}

fn vlan() -> Result<()> {
    two_borders().run(|lab| {
        let (az1, spine) = (lab.central("az1")?, spine(lab, &["hv1", "hv2"], "uplink")?);
        az1.write(|net| {
            net.provider("public", "provnet-1", "physnet")
                .port_with("provnet-1", |port| port.tag = Some(100))
                .port("vm1", "02:00:00:00:02:11 172.24.100.11")
                .port("vm2", "02:00:00:00:02:12 172.24.100.12");
        })?;
        for n in [1, 2] {
            let mac = format!("02:00:00:00:02:1{n}");
            let (ip, hv) = (format!("172.24.100.1{n}"), format!("hv{n}"));
            lab.vm(&format!("vm{n}"))
                .on(&hv)
                .mac(&mac)
                .ip(&format!("{ip}/24"))
                .gateway("172.24.100.1")
                .plug()?;
            let hv = lab.chassis(&hv)?;
            forward(hv)?;
            hv.default_route(format!("100.64.{n}.0").parse()?)?;
            spine.route(format!("{ip}/32").parse()?, format!("100.64.{n}.1").parse()?)?;
            hv.up("br-ex")?;
            hv.run("ip link add link br-ex name br-ex.100 type vlan id 100")?;
            hv.up("br-ex.100")?;
            hv.address("br-ex.100", "169.254.0.1/32".parse()?)?;
            hv.sysctl("net.ipv4.conf.br-ex/100.proxy_arp", "1")?;
            hv.run(&format!("ip rule add pref 32000 to {ip} lookup 201"))?;
            hv.run(&format!("ip route add {ip} dev br-ex.100 scope link table 201"))?;
        }
        az1.ready(&["vm1", "vm2"])?;
        for name in ["hv1", "hv2"] {
            steer_to_kernel(lab.chassis(name)?)?;
        }
        spine.reaches_from("192.0.2.1", "172.24.100.11")?;
        spine.reaches_from("192.0.2.1", "172.24.100.12")?;
        lab.find("vm1")?.reaches("172.24.100.12")
    })
}
