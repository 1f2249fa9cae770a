//! Gateways and floating IPs.

use anyhow::Result;

use super::site::{GATEWAY, Site, gateway_and, wired};

const NOTHING: [&str; 0] = [];
/// A distributed floating IP of vm2.
const DISTRIBUTED: &str = "lr-nat-add neutron-r1 dnat_and_snat 172.24.4.199 10.1.0.5 vm2 fa:16:3e:ff:00:01";
const GONE: &str = "lr-nat-del neutron-r1 dnat_and_snat 172.24.4.199";

pub(super) fn scenarios() -> Result<()> {
    Site::run("", |site| {
        let (a, b) = (site.a, site.b);
        let fip = wired("172.24.4.199");
        println!("13, a gateway, tenants not exposed:");
        site.nb("lsp-add neutron-ten vm2 -- lsp-set-addresses vm2 'fa:16:3e:00:00:02 10.1.0.5'
             -- lsp-add neutron-ten vm3 -- lsp-set-addresses vm3 'fa:16:3e:00:00:03 10.1.0.7'")?;
        site.sb("lsp-bind vm2 ch-b -- lsp-bind cr-lrp-gw1 ch-a")?;
        site.is(a, "the gateway is here", &GATEWAY)?;
        site.is(b, "it is not here", &NOTHING)?;
        site.bind("cr-lrp-gw1", b)?;
        site.bind("vm2", a)?;
        site.is(a, "the gateway has gone", &NOTHING)?;

        println!("9, a distributed floating IP:");
        site.nb(DISTRIBUTED)?;
        site.is(a, "its VM is here", &fip)?;
        site.is(b, "its gateway is here", &GATEWAY)?;

        println!("10, removed, in any order:");
        site.nb(GONE)?;
        site.is(a, "the floating IP is removed", &NOTHING)?;
        site.nb(DISTRIBUTED)?;
        site.is(a, "it is there again", &fip)?;
        site.unbind("vm2")?;
        site.is(a, "the chassis is cleared first", &NOTHING)?;
        site.nb(GONE)?;
        site.sb("lsp-bind vm2 ch-a")?;
        site.nb(DISTRIBUTED)?;
        site.is(a, "it is there once more", &fip)?;
        site.nb("lsp-del vm2")?;
        site.is(a, "the VM goes first", &NOTHING)?;
        site.nb(GONE)?;
        site.nb("lsp-add neutron-ten vm2 -- lsp-set-addresses vm2 'fa:16:3e:00:00:02 10.1.0.5'")?;
        site.sb("lsp-bind vm2 ch-a")?;
        site.is(a, "a VM without a floating IP", &NOTHING)?;

        println!("11, moved to another VM:");
        site.nb(DISTRIBUTED)?;
        site.sb("lsp-bind vm3 ch-b")?;
        site.is(a, "it is vm2's", &fip)?;
        let nat = site.nat("172.24.4.199")?;
        site.nb(&format!("set NAT {nat} logical_ip=10.1.0.7 logical_port=vm3"))?;
        site.is(a, "it is vm3's", &NOTHING)?;
        site.is(b, "it is vm3's", &gateway_and(&fip))?;
        site.nb(GONE)?;

        println!("22, that of a virtual port:");
        site.nb("lsp-add neutron-ten vip3 -- lsp-set-type vip3 virtual -- lsp-set-addresses vip3 'fa:16:3e:00:00:79 10.1.0.77'
             -- lsp-set-options vip3 virtual-ip=10.1.0.77 virtual-parents=vm2,vm3
             -- lr-nat-add neutron-r1 dnat_and_snat 172.24.4.177 10.1.0.77 vip3 fa:16:3e:ff:00:03")?;
        site.is(a, "nobody has claimed the address", &NOTHING)?;
        site.sb("lsp-bind vip3 ch-a")?;
        site.is(a, "somebody here has", &wired("172.24.4.177"))?;
        site.bind("vip3", b)?;
        site.is(a, "somebody elsewhere has", &NOTHING)?;
        site.is(b, "somebody elsewhere has", &gateway_and(wired("172.24.4.177")))?;
        site.nb("lr-nat-del neutron-r1 dnat_and_snat 172.24.4.177 -- lsp-del vip3")?;

        println!("12, a centralized floating IP:");
        site.bind("cr-lrp-gw1", a)?;
        site.nb("lr-nat-add neutron-r1 dnat_and_snat 172.24.4.198 10.1.0.7")?;
        let central = wired("172.24.4.198");
        site.is(a, "the gateway is here, the VM is not", &gateway_and(&central))?;
        site.is(b, "the VM is here", &NOTHING)?;
        let nat = site.nat("172.24.4.198")?;
        site.nb(&format!("set NAT {nat} 'external_mac=\"fa:16:3e:ff:00:02\"' logical_port=vm3"))?;
        site.is(b, "it has become distributed", &central)?;
        site.is(a, "it is distributed", &GATEWAY)?;

        println!("19, two gateways on one network:");
        site.nb(
            "lr-add neutron-r2 -- lrp-add neutron-r2 lrp-gw2 fa:16:3e:bb:00:01 172.24.4.222/24 2001:db8::222/64
             -- lsp-add neutron-pub gw2 -- lsp-set-type gw2 router -- lsp-set-addresses gw2 router
             -- lsp-set-options gw2 router-port=lrp-gw2 nat-addresses=router
             -- lrp-set-gateway-chassis lrp-gw2 ch-a 2 -- lrp-set-gateway-chassis lrp-gw2 ch-b 1",
        )?;
        site.sb("lsp-bind cr-lrp-gw2 ch-a")?;
        let second = GATEWAY
            .map(|line| line.replace("::221", "::222").replace(".221", ".222").replace(":aa:", ":bb:"));
        site.is(
            a,
            "both are here",
            &gateway_and(second.iter().filter(|line| *line != "Y 2001:db8:: br-ex")),
        )?;
        site.bind("cr-lrp-gw2", b)?;
        site.is(a, "one has left, and what both used stays", &GATEWAY)
    })
}
