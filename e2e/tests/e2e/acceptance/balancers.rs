//! OVN's load balancers.

use anyhow::Result;

use super::site::{GATEWAY, Site, gateway_and, wired};

pub(super) fn scenarios() -> Result<()> {
    Site::run("expose_tenant_networks = True", |site| {
        let a = site.a;
        site.sb("lsp-bind cr-lrp-gw1 ch-a")?;
        let subnet = ["R 10.1.0.0/24 201", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex"];
        site.is(a, "a gateway and a subnet", &gateway_and(subnet))?;

        println!("23, on a provider network:");
        let vip = [&subnet.map(String::from)[..], &wired("172.24.4.50")].concat();
        site.nb(
            r#"lb-add 0000-lb1 172.24.4.50:80 10.1.0.5:80
               -- lsp-add neutron-pub vip-port
               -- set Logical_Switch_Port vip-port 'external_ids:"neutron:port_name"="ovn-lb-vip-0000-lb1"' 'external_ids:"neutron:cidrs"="172.24.4.50/24"'
               -- ls-lb-add neutron-pub 0000-lb1"#,
        )?;
        site.is(a, "it has no members", &gateway_and(subnet))?;
        site.nb("ls-lb-add neutron-ten 0000-lb1")?;
        site.is(a, "it has members", &gateway_and(&vip))?;
        site.nb("ls-lb-del neutron-ten 0000-lb1")?;
        site.is(a, "the members are gone", &gateway_and(subnet))?;
        site.nb("ls-lb-add neutron-ten 0000-lb1")?;
        site.is(a, "they are back", &gateway_and(&vip))?;
        site.nb("lsp-del vip-port")?;
        site.nb("lb-del 0000-lb1")?;
        site.is(a, "it is deleted, its port first", &gateway_and(subnet))?;

        println!("25, on a tenant network, and a floating IP of it:");
        site.nb(
            r#"lsp-add neutron-ten vip-port
               -- set Logical_Switch_Port vip-port 'external_ids:"neutron:port_name"="ovn-lb-vip-1111-lb2"' 'external_ids:"neutron:cidrs"="10.1.0.50/24"'"#,
        )?;
        let tenant = [&subnet[..], &["A 10.1.0.50"]].concat();
        site.is(a, "its address is a tenant's", &gateway_and(&tenant))?;
        site.nb("lr-nat-add neutron-r1 dnat_and_snat 172.24.4.60 10.1.0.50")?;
        let floating = tenant.iter().map(|line| (*line).to_owned()).chain(wired("172.24.4.60"));
        site.is(a, "it has a floating IP", &gateway_and(floating))?;
        site.bind("cr-lrp-gw1", site.b)?;
        site.is(a, "the gateway has gone", &[""; 0])?;
        site.nb("lr-nat-del neutron-r1 dnat_and_snat 172.24.4.60 -- lsp-del vip-port -- lrp-del lrp-sub1")?;
        site.is(site.b, "the gateway is alone", &GATEWAY)
    })
}
