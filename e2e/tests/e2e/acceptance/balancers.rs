//! OVN's load balancers.

use anyhow::Result;

use super::northbound;
use super::site::{Site, gateway_and, wired};

/// The rule and the route of the tenant's subnet.
const SUBNET: [&str; 2] = ["R 10.1.0.0/24 201", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex"];
const NOTHING: [&str; 0] = [];

pub(super) fn scenarios() -> Result<()> {
    Site::run("expose_tenant_networks = True", |site| {
        site.sb("lsp-bind cr-lrp-gw1 ch-a")?;
        of_either_database(site)?;
        // The same scenarios with the other database run at the same site, which saves booting a guest.
        northbound::scenarios(site)
    })
}

/// Scenarios 23, 24 and 25, with the gateway on ch-a before and after.
pub(super) fn of_either_database(site: &Site<'_>) -> Result<()> {
    let (a, b) = (site.a, site.b);
    site.is(a, "a gateway and a subnet", &gateway_and(SUBNET))?;

    println!("23, on a provider network:");
    let vip = [&SUBNET.map(String::from)[..], &wired("172.24.4.50")].concat();
    site.nb(
        r#"lb-add 0000-lb1 172.24.4.50:80 10.1.0.5:80
           -- lsp-add neutron-pub vip-port
           -- set Logical_Switch_Port vip-port 'external_ids:"neutron:port_name"="ovn-lb-vip-0000-lb1"' 'external_ids:"neutron:cidrs"="172.24.4.50/24"'
           -- ls-lb-add neutron-pub 0000-lb1"#,
    )?;
    site.is(a, "it has no members", &gateway_and(SUBNET))?;
    site.nb("ls-lb-add neutron-ten 0000-lb1")?;
    site.is(a, "it has members", &gateway_and(&vip))?;
    site.nb("ls-lb-del neutron-ten 0000-lb1")?;
    site.is(a, "the members are gone", &gateway_and(SUBNET))?;
    site.nb("ls-lb-add neutron-ten 0000-lb1")?;
    site.is(a, "they are back", &gateway_and(&vip))?;
    site.nb("lsp-del vip-port")?;
    site.nb("lb-del 0000-lb1")?;
    site.is(a, "it is deleted, its port first", &gateway_and(SUBNET))?;

    by_router(site, &vip)?;

    println!("25, on a tenant network, and a floating IP of it:");
    site.nb(
        r#"lsp-add neutron-ten vip-port
           -- set Logical_Switch_Port vip-port 'external_ids:"neutron:port_name"="ovn-lb-vip-1111-lb2"' 'external_ids:"neutron:cidrs"="10.1.0.50/24"'"#,
    )?;
    let tenant = [&SUBNET[..], &["A 10.1.0.50"]].concat();
    site.is(a, "its address is a tenant's", &gateway_and(&tenant))?;
    site.nb("lr-nat-add neutron-r1 dnat_and_snat 172.24.4.60 10.1.0.50")?;
    let floating: Vec<String> =
        tenant.iter().map(|line| (*line).to_owned()).chain(wired("172.24.4.60")).collect();
    site.is(a, "it has a floating IP", &gateway_and(&floating))?;
    site.bind("cr-lrp-gw1", b)?;
    site.is(a, "the gateway has gone", &NOTHING)?;
    site.is(b, "all of it has come", &gateway_and(&floating))?;
    site.nb("lr-nat-del neutron-r1 dnat_and_snat 172.24.4.60 -- lsp-del vip-port")?;
    site.is(b, "the gateway and its subnet are left", &gateway_and(SUBNET))?;
    site.bind("cr-lrp-gw1", a)?;
    site.is(a, "the gateway is back", &gateway_and(SUBNET))
}

/// The load balancer is on its router alone, and its port has an address of its own: as Octavia has it today. Another router
/// on the same network is none of its.
fn by_router(site: &Site<'_>, vip: &[String]) -> Result<()> {
    println!("24, by its router:");
    let (a, b) = (site.a, site.b);
    site.nb(r#"lr-add neutron-r2 -- lrp-add neutron-r2 lrp-gw2 fa:16:3e:bb:00:01 172.24.4.222/24
           -- lsp-add neutron-pub gw2 -- lsp-set-type gw2 router -- lsp-set-addresses gw2 router
           -- lsp-set-options gw2 router-port=lrp-gw2 nat-addresses=router exclude-lb-vips-from-garp=true
           -- lrp-set-gateway-chassis lrp-gw2 ch-b 1
           -- lb-add 0000-lb1 172.24.4.50:80 10.1.0.5:80
           -- lsp-add neutron-pub vip-port -- lsp-set-addresses vip-port 'fa:16:3e:00:00:50 172.24.4.50'
           -- set Logical_Switch_Port vip-port 'external_ids:"neutron:device_owner"="ovn-lb:vip"'"#)?;
    site.sb("lsp-bind cr-lrp-gw2 ch-b")?;
    let other = [wired("172.24.4.222"), vec!["N 172.24.4.222 fa:16:3e:bb:00:01 br-ex".to_owned()]].concat();
    site.is(b, "another router on the same network", &other)?;
    site.nb("lr-lb-add neutron-r1 0000-lb1")?;
    site.is(a, "its router's gateway is here", &gateway_and(vip))?;
    site.is(b, "it is no matter of the other router", &other)?;
    site.nb("lr-lb-del neutron-r1 0000-lb1 -- lr-lb-add neutron-r2 0000-lb1")?;
    site.is(b, "it has moved to the other router", &[&other[..], &wired("172.24.4.50")].concat())?;
    site.is(a, "it has gone", &gateway_and(SUBNET))?;
    site.nb("lb-del 0000-lb1 -- lsp-del vip-port -- lsp-del gw2 -- lr-del neutron-r2")?;
    site.is(b, "the other router is deleted", &NOTHING)
}
