//! Bridges, VLANs and patch ports.

use anyhow::{Result, ensure};
use lab::eventually;

use super::site::{PATIENCE, Site, wired};
use crate::weigh::patch_port;

const NOTHING: [&str; 0] = [];

pub(super) fn scenarios() -> Result<()> {
    Site::run("", |site| {
        let a = site.a;
        println!("28, a patch port that comes late and changes its number:");
        site.vsctl(
            a,
            "del-port br-ex patch-provnet-1-to-br-int -- del-port br-int patch-br-int-to-provnet-1",
        )?;
        site.flows(a, &[])?;
        site.nb("lsp-add neutron-pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10'")?;
        site.sb("lsp-bind vm1 ch-a")?;
        let vm1 = wired("172.24.4.10");
        site.is(a, "all but the flows is there", &vm1)?;
        patch_port(a, 7)?;
        site.flows(a, &[7])?;
        site.vsctl(
            a,
            "del-port br-ex patch-provnet-1-to-br-int -- del-port br-int patch-br-int-to-provnet-1",
        )?;
        patch_port(a, 9)?;
        site.flows(a, &[9])?;
        site.is(a, "nothing else has changed", &vm1)?;

        println!("26, a VLAN:");
        site.nb(
            "ls-add neutron-v100 -- lsp-add neutron-v100 provnet-2 -- lsp-set-type provnet-2 localnet
             -- lsp-set-addresses provnet-2 unknown -- lsp-set-options provnet-2 network_name=physnet1
             -- set Logical_Switch_Port provnet-2 tag=100
             -- lsp-add neutron-v100 vmv -- lsp-set-addresses vmv 'fa:16:3e:00:00:05 172.25.0.10'
             -- lr-add neutron-rv -- lrp-add neutron-rv lrp-gwv fa:16:3e:cc:00:01 172.25.0.221/24
             -- lsp-add neutron-v100 gwv -- lsp-set-type gwv router -- lsp-set-addresses gwv router
             -- lsp-set-options gwv router-port=lrp-gwv nat-addresses=router -- lrp-set-gateway-chassis lrp-gwv ch-a 1",
        )?;
        device(site, "br-ex.100", &["169.254.1.100/32", "fd53:d91e:400:7f17::1:64/128"])?;
        site.sb("lsp-bind vmv ch-a -- lsp-bind cr-lrp-gwv ch-a")?;
        let tagged = ["172.25.0.10", "172.25.0.221"]
            .into_iter()
            .flat_map(|ip| [format!("A {ip}"), format!("R {ip} 201"), format!("T {ip} dev br-ex.100")]);
        let neighbour = "N 172.25.0.221 fa:16:3e:cc:00:01 br-ex.100".to_owned();
        let all: Vec<String> = vm1.iter().cloned().chain(tagged).chain([neighbour]).collect();
        site.is(a, "a VM and a gateway on the VLAN", &all)?;
        site.nb("lr-del neutron-rv -- ls-del neutron-v100")?;
        site.is(a, "the flat network is left", &vm1)?;
        eventually(PATIENCE, "the VLAN's device is gone", || {
            ensure!(a.run("ip link show br-ex.100").is_err(), "it is there");
            Ok(())
        })?;

        println!("and one whose name is cut to what the kernel takes:");
        site.vsctl(a, "add-br br-provider -- set bridge br-provider datapath_type=netdev")?;
        site.vsctl(
            a,
            "set open_vswitch . external_ids:ovn-bridge-mappings=physnet1:br-ex,physnet2:br-provider",
        )?;
        site.nb("ls-add neutron-v1001 -- lsp-add neutron-v1001 provnet-3 -- lsp-set-type provnet-3 localnet
             -- lsp-set-addresses provnet-3 unknown -- lsp-set-options provnet-3 network_name=physnet2
             -- set Logical_Switch_Port provnet-3 tag=1001")?;
        device(site, "br-provide.1001", &["169.254.2.233/32"])?;
        site.vsctl(a, "set open_vswitch . external_ids:ovn-bridge-mappings=physnet1:br-ex")?;

        println!("5, the switch and its ports are deleted at once:");
        site.nb("ls-del neutron-pub")?;
        site.is(a, "nothing is left", &NOTHING)
    })
}

/// Waits until a VLAN's device exists, is up, and answers ARP and NDP.
fn device(site: &Site<'_>, name: &str, addresses: &[&str]) -> Result<()> {
    eventually(PATIENCE, &format!("{name} is there"), || {
        let out = site.a.run(&format!("ip address show {name}"))?;
        let missing: Vec<_> = addresses.iter().filter(|address| !out.contains(**address)).collect();
        ensure!(missing.is_empty() && out.contains(",UP"), "{missing:?} are missing:\n{out}");
        for knob in ["ipv4/conf/{}/proxy_arp", "ipv6/conf/{}/proxy_ndp"] {
            let knob = format!("/proc/sys/net/{}", knob.replace("{}", name));
            ensure!(site.a.run(&format!("cat {knob}"))?.trim() == "1", "{knob} is off");
        }
        Ok(())
    })
}
