//! The network most tests use: three chassis, two tenant switches behind a router, and a provider network.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab::{Lab, Topology, chassis};

/// A zone with three chassis that are wired to the physical network.
pub(crate) fn three_chassis() -> Topology {
    ["hv1", "hv2", "hv3"].into_iter().fold(Topology::new().central("az1"), |topology, name| {
        topology.chassis(chassis(name).wired("physnet", "br-ex"))
    })
}

/// Creates `vm1` and `vm2` on `sw0` and `vm3` on `sw1`, each on a chassis of its own. The router `lr0` connects the switches; its gateway
/// is on the provider network `public`, on hv1, or on hv2 if hv1 is down. The host `ext` is on that network outside.
pub(crate) fn tenants(lab: &Lab) -> Result<()> {
    let az1 = lab.central("az1")?;
    az1.write(|net| {
        net.switch("sw0")
            .port("vm1", "02:00:00:00:00:11 10.0.0.11")
            .port("vm2", "02:00:00:00:00:12 10.0.0.12");
        net.switch("sw1").port("vm3", "02:00:00:00:00:13 10.0.1.13");
        net.provider("public", "ln-public", "physnet");
        net.router("lr0")
            .join("sw0", "02:00:00:00:01:01", "10.0.0.1/24")
            .join("sw1", "02:00:00:00:01:02", "10.0.1.1/24")
            .join("public", "02:00:00:00:01:03", "172.24.4.100/24")
            .gateway_chassis("lr0-public", "hv1", 20)
            .gateway_chassis("lr0-public", "hv2", 10)
            .static_route("0.0.0.0/0", "172.24.4.1")
            .snat("172.24.4.100", "10.0.0.0/16")
            .floating_ip("172.24.4.110", "10.0.0.12");
    })?;
    lab.external("ext", "physnet", &["172.24.4.1/24"])?;
    lab.vm("vm1").on("hv1").mac("02:00:00:00:00:11").ip("10.0.0.11/24").gateway("10.0.0.1").plug()?;
    lab.vm("vm2").on("hv2").mac("02:00:00:00:00:12").ip("10.0.0.12/24").gateway("10.0.0.1").plug()?;
    lab.vm("vm3").on("hv3").mac("02:00:00:00:00:13").ip("10.0.1.13/24").gateway("10.0.1.1").plug()?;
    az1.ready(&["vm1", "vm2", "vm3"])
}

/// Only starts the network and prints how long that took, for `cargo xtask bench lab`.
pub(crate) fn comes_up() -> Result<()> {
    let begin = Instant::now();
    three_chassis().run(|lab| {
        tenants(lab)?;
        println!("ready after {} ms", begin.elapsed().as_millis());
        Ok(())
    })
}

/// Brings it up and leaves it alone; for `cargo xtask bench lab`.
pub(crate) fn idles() -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        // Daemons still learn neighbours and write logs after the start.
        std::thread::sleep(Duration::from_secs(5));
        println!("idle in {}", lab.job().display());
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })
}

/// Runs the same network until `look` returns, for an interactive shell.
pub(crate) fn for_shell(look: &dyn Fn(&Lab) -> Result<()>) -> Result<()> {
    three_chassis().run(|lab| {
        tenants(lab)?;
        look(lab)
    })
}
