//! The Northbound driver: the agent's decisions do not depend on which database it reads.
//!
//! ovn-northd reports the bindings of the Southbound in the Northbound: `up` of a port, `status:hosting-chassis` of a gateway.

use anyhow::{Result, ensure};

use super::balancers;
use super::site::{GATEWAY, Site, gateway_and, wired};
use crate::agent::ask;

const NOTHING: [&str; 0] = [];
const DRIVER: &str = "driver = nb_ovn_bgp_driver";

/// Scenario 37, on a site with the gateway on ch-a and nothing else.
pub(super) fn scenarios(site: &Site<'_>) -> Result<()> {
    let (a, b) = (site.a, site.b);
    for (hv, host) in [(a, "host-a"), (b, "host-b")] {
        let remote = format!("unix:{}/nb.sock", site.az1.dir().display());
        site.vsctl(
            hv,
            &format!("set open_vswitch . external_ids:ovn-nb-remote={remote} external_ids:hostname={host}"),
        )?;
    }
    println!("37, from the Northbound, a gateway as in 13:");
    site.start(a, DRIVER)?;
    site.start(b, DRIVER)?;
    site.is(a, "tenants are not exposed", &GATEWAY)?;
    let status = ask(a, "status")?;
    ensure!(status.contains("OVN_Northbound"), "the status is not about the Northbound:\n{status}");
    let plan = ask(a, "plan")?;
    ensure!(plan.contains("nothing to do"), "there is still something to do:\n{plan}");
    for (ip, words) in [
        ("172.24.4.221", "D2: it is an address of the router gateway cr-lrp-gw1"),
        ("172.24.4.7", "Nothing in OVN's Northbound database has it"),
    ] {
        let told = ask(a, &format!("explain {ip}"))?;
        ensure!(told.contains(words), "{words:?} is missing in\n{told}");
    }

    println!("floating IPs, distributed and not:");
    site.nb(r#"lsp-add neutron-ten vm2 -- lsp-set-addresses vm2 'fa:16:3e:00:00:02 10.1.0.5'
           -- set Logical_Switch_Port vm2 'external_ids:"neutron:host_id"=host-b'
           -- lr-nat-add neutron-r1 dnat_and_snat 172.24.4.199 10.1.0.5 vm2 fa:16:3e:ff:00:01"#)?;
    site.is(b, "its VM does not run", &NOTHING)?;
    site.sb("lsp-bind vm2 ch-b")?;
    let fip = wired("172.24.4.199");
    site.is(b, "its VM is here", &fip)?;
    site.is(a, "its VM is not here", &GATEWAY)?;
    let distribute = |value: &str| {
        site.nb(&format!(r#"set NB_Global . 'external_ids:"neutron:fip-distributed"={value}'"#))
    };
    distribute("False")?;
    site.is(a, "the gateway is here", &gateway_and(&fip))?;
    site.is(b, "the VM is here", &NOTHING)?;
    let told = ask(b, "explain 172.24.4.199")?;
    ensure!(told.contains("which is bound to chassis ch-a"), "it does not say who announces it:\n{told}");
    distribute("True")?;
    site.is(b, "they are distributed again", &fip)?;
    site.nb("lr-nat-del neutron-r1 dnat_and_snat 172.24.4.199")?;
    site.is(b, "the floating IP is gone", &NOTHING)?;

    println!("a VM that may be on two hosts:");
    site.nb(r#"lsp-add neutron-pub vm1 -- lsp-set-addresses vm1 'fa:16:3e:00:00:01 172.24.4.10'
           -- lsp-set-options vm1 requested-chassis=host-a,host-b
           -- set Logical_Switch_Port vm1 'external_ids:"neutron:host_id"=host-b'"#)?;
    site.is(a, "it does not run", &GATEWAY)?;
    site.sb("lsp-bind vm1 ch-a")?;
    site.is(a, "it runs here", &gateway_and(wired("172.24.4.10")))?;
    site.is(b, "it may come here", &NOTHING)?;
    site.unbind("vm1")?;
    site.is(a, "it is down", &GATEWAY)?;
    site.nb("lsp-set-options vm1 requested-chassis=host-b")?;
    site.sb("lsp-bind vm1 ch-b")?;
    site.is(b, "it has come", &wired("172.24.4.10"))?;
    site.is(a, "it has left", &GATEWAY)?;
    site.nb("lsp-del vm1")?;

    println!("tenants as in 14:");
    for hv in [a, b] {
        site.start(hv, &format!("{DRIVER}\nexpose_tenant_networks = True"))?;
    }
    let tenant = ["R 10.1.0.0/24 201", "T 10.1.0.0/24 via 172.24.4.221 dev br-ex", "A 10.1.0.5"];
    site.is(a, "the gateway is here, the VM is not", &gateway_and(tenant))?;
    site.is(b, "the VM is here, the gateway is not", &NOTHING)?;
    site.nb("lsp-del vm2")?;

    println!("load balancers as in 23 to 25:");
    balancers::of_either_database(site)
}
