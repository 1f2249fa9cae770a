//! Tenant networks behind a gateway.

use anyhow::{Result, ensure};

use super::site::{GATEWAY, Site, gateway_and, wired};

const NOTHING: [&str; 0] = [];
/// The rule and the route of the first subnet.
const SUBNET1: [&str; 2] = ["R 10.1.0.0/24 201", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex"];
const SUBNET2: [&str; 2] = ["R 10.2.0.0/24 201", "T 10.2.0.0/24 via 172.24.4.221 dev br-ex"];
const HOST_AND_TENANTS: &str = "expose_tenant_networks = True";
/// The number of VMs behind the gateway that fails over.
const VMS: usize = 50;

pub(super) fn scenarios() -> Result<()> {
    Site::run(HOST_AND_TENANTS, |site| {
        let (a, b) = (site.a, site.b);
        println!("14, a subnet and a VM in it:");
        site.nb("lsp-add neutron-ten vm2 -- lsp-set-addresses vm2 'fa:16:3e:00:00:02 10.1.0.5'")?;
        site.sb("lsp-bind vm2 ch-b -- lsp-bind cr-lrp-gw1 ch-a")?;
        let first = [&SUBNET1[..], &["A 10.1.0.5"]].concat();
        site.is(a, "the gateway is here, the VM is not", &gateway_and(&first))?;
        site.is(b, "the VM is here, the gateway is not", &NOTHING)?;

        println!("38, opting out:");
        site.nb(r#"set Logical_Switch_Port sub1 'external_ids:"meridian:advertise"="false"'"#)?;
        site.is(a, "the subnet is not to be announced", &GATEWAY)?;
        site.nb(r#"remove Logical_Switch_Port sub1 external_ids '"meridian:advertise"'"#)?;
        site.is(a, "it is again", &gateway_and(&first))?;

        println!("15, a subnet that is attached in two steps:");
        site.nb("lrp-add neutron-r1 lrp-sub2 fa:16:3e:aa:00:03 10.2.0.1/24")?;
        site.is(a, "a router's port that leads nowhere", &gateway_and(&first))?;
        site.nb(
            "ls-add neutron-ten2 -- lsp-add neutron-ten2 sub2 -- lsp-set-type sub2 router -- lsp-set-addresses sub2 router
             -- lsp-set-options sub2 router-port=lrp-sub2
             -- lsp-add neutron-ten2 vm4 -- lsp-set-addresses vm4 'fa:16:3e:00:00:04 10.2.0.5'",
        )?;
        site.sb("lsp-bind vm4 ch-b")?;
        let second = [&SUBNET2[..], &["A 10.2.0.5"]].concat();
        site.is(a, "the second subnet is attached", &gateway_and([&first[..], &second].concat()))?;

        println!("16, a second prefix of a router's port:");
        let networks = |list: &str| site.nb(&format!("set Logical_Router_Port lrp-sub1 'networks={list}'"));
        let sixth = ["R fd00:1::/64 201", "T fd00:1::/64 via 2001:db8::221 dev br-ex"];
        networks(r#""10.1.0.1/24","fd00:1::1/64""#)?;
        site.is(a, "it has both", &gateway_and([&first[..], &second, &sixth].concat()))?;
        networks(r#""fd00:1::1/64""#)?;
        site.is(a, "it has the second alone", &gateway_and([&second[..], &sixth].concat()))?;
        networks(r#""10.1.0.1/24""#)?;
        site.is(a, "it has the first alone", &gateway_and([&first[..], &second].concat()))?;

        filters(site, &first, &second)?;
        failover(site)?;

        println!("17, a subnet is detached:");
        site.nb("lrp-del lrp-sub1")?;
        let left = second.iter().map(|line| (*line).to_owned());
        let outside = [wired("172.24.4.198"), wired("172.24.4.10")].concat();
        site.is(
            a,
            "the other one stays, the load balancer has no members any more",
            &gateway_and(left.chain(outside)),
        )?;
        println!("and the router deleted, with all that hangs on it:");
        site.nb("lr-del neutron-r1")?;
        site.is(a, "the provider VM is left", &wired("172.24.4.10"))?;
        site.nb("lsp-del vm1")?;
        site.base(a)
    })
}

/// Scenarios 20, 21 and 36: other settings, each with a new start.
fn filters(site: &Site<'_>, first: &[&str], second: &[&str]) -> Result<()> {
    let a = site.a;
    println!("36, subnets announced as such:");
    site.start(a, "expose_tenant_networks = True\nadvertisement_method_tenant_networks = subnet")?;
    site.is(a, "no address of a tenant is announced", &gateway_and([SUBNET1, SUBNET2].concat()))?;
    let routes = a.run("ip route show table 10")?;
    for subnet in ["10.1.0.0/24 via 172.24.4.221 dev bgp-nic", "10.2.0.0/24 via 172.24.4.221 dev bgp-nic"] {
        ensure!(routes.contains(subnet), "{subnet} is not announced:\n{routes}");
    }
    let running = a.vtysh("show running-config")?;
    for line in ["redistribute connected", "redistribute kernel"] {
        ensure!(running.contains(line), "{line:?} is missing:\n{running}");
    }

    println!("21, address scopes:");
    let scope = |port: &str, scope: &str| {
        format!(
            r#"set Logical_Switch_Port {port} 'external_ids:"neutron:subnet_pool_addr_scope4"="{scope}"'"#
        )
    };
    let scopes = [scope("sub1", "S1"), scope("vm2", "S1"), scope("sub2", "S2"), scope("vm4", "S2")];
    site.nb(&scopes.join(" -- "))?;
    site.start(a, "expose_tenant_networks = True\naddress_scopes = S1")?;
    site.is(a, "only the first subnet has the scope", &gateway_and(first))?;
    let routes = a.run("ip route show table 10").unwrap_or_default();
    ensure!(!routes.contains("10.1.0.0/24 via"), "the subnet is still announced as such:\n{routes}");

    println!("20, globally routed IPv6 alone:");
    site.nb(
        r#"set Logical_Router_Port lrp-sub1 'networks="10.1.0.1/24","fd00:1::1/64","2620:0:860::1/64"'"#,
    )?;
    site.start(a, "expose_ipv6_gua_tenant_networks = True")?;
    let global = ["R 2620:0:860::/64 201", "T 2620:0:860::/64 via 2001:db8::221 dev br-ex"];
    site.is(a, "one prefix of three is global", &gateway_and(global))?;

    site.nb(r#"set Logical_Router_Port lrp-sub1 'networks="10.1.0.1/24"'"#)?;
    site.start(a, HOST_AND_TENANTS)?;
    site.is(a, "all as before", &gateway_and([first, second].concat()))
}

/// Scenario 18: when a gateway fails over, its floating IP, subnets, their VMs and a load balancer leave with it. Ports that are bound here
/// stay.
fn failover(site: &Site<'_>) -> Result<()> {
    println!("18, a gateway fails over:");
    let (a, b) = (site.a, site.b);
    let vms: Vec<(String, String)> =
        (0..VMS).map(|n| (format!("many{n}"), format!("10.1.0.{}", 100 + n))).collect();
    let ports = vms.iter().enumerate().map(|(n, (name, ip))| {
        format!(" -- lsp-add neutron-ten {name} -- lsp-set-addresses {name} 'fa:16:3e:00:01:{n:02x} {ip}'")
    });
    site.nb(&format!(
        "lsp-add neutron-pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10'
         -- lr-nat-add neutron-r1 dnat_and_snat 172.24.4.198 10.1.0.5
         -- lb-add 0000-lb1 172.24.4.50:80 10.1.0.5:80 -- ls-lb-add neutron-pub 0000-lb1 -- ls-lb-add neutron-ten 0000-lb1 {}",
        ports.collect::<String>()
    ))?;
    let binds = vms.iter().map(|(name, _)| format!(" -- lsp-bind {name} ch-b"));
    site.sb(&format!("lsp-bind vm1 ch-a {}", binds.collect::<String>()))?;
    let (own, moving) = (wired("172.24.4.10"), {
        let tenants = ["A 10.1.0.5".to_owned(), "A 10.2.0.5".to_owned()].into_iter();
        let many = vms.iter().map(|(_, ip)| format!("A {ip}"));
        let subnets = [SUBNET1, SUBNET2].concat().into_iter().map(String::from);
        let outside = [wired("172.24.4.198"), wired("172.24.4.50")].concat();
        gateway_and(tenants.chain(many).chain(subnets).chain(outside))
    });
    let both = [own.clone(), moving.clone()].concat();
    site.is(a, "all is here", &both)?;
    site.bind("cr-lrp-gw1", b)?;
    site.is(a, "what was bound here is left", &own)?;
    site.is(b, "all has come", &moving)?;
    println!("back and forth:");
    for _ in 0..5 {
        site.flap("cr-lrp-gw1", a, 1)?;
        site.flap("cr-lrp-gw1", b, 1)?;
    }
    site.is(b, "it came to rest there", &moving)?;
    site.is(a, "and not here", &own)?;
    site.bind("cr-lrp-gw1", a)?;
    site.is(a, "all is here again", &both)?;
    site.is(b, "and nothing there", &NOTHING)
}
