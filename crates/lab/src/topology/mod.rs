//! A topology: described, started, used, and reported on if a test fails.
//!
//! ```text
//!   vm1 ─┐                  ┌─ vm2          VMs and external hosts: a namespace each
//!      [hv1: br-int, br-ex, br-under]       chassis: a namespace, a switch and ovn-controller of its own
//!        │          └───────────── physnet ─── ext
//!        └── underlay (10.10.0.0/24) ── central az1, az2, ...
//! ```
//!
//! ```no_run
//! use lab::{Topology, chassis};
//!
//! # fn test() -> anyhow::Result<()> {
//! let topology = Topology::new()
//!     .central("az1")
//!     .chassis(chassis("hv1").wired("physnet", "br-ex"))
//!     .chassis(chassis("hv2").wired("physnet", "br-ex"));
//! topology.run(|lab| {
//!     let az1 = lab.central("az1")?;
//!     az1.write(|net| {
//!         net.switch("sw0").port("vm1", "02:00:00:00:00:11 10.0.0.11");
//!         net.provider("public", "ln-public", "physnet");
//!         net.router("lr0")
//!             .join("sw0", "02:00:00:00:01:01", "10.0.0.1/24")
//!             .join("public", "02:00:00:00:01:02", "172.24.4.100/24")
//!             .gateway_chassis("lr0-public", "hv2", 10)
//!             .floating_ip("172.24.4.110", "10.0.0.11");
//!     })?;
//!     let ext = lab.external("ext", "physnet", &["172.24.4.1/24"])?;
//!     lab.vm("vm1").on("hv1").mac("02:00:00:00:00:11").ip("10.0.0.11/24").gateway("10.0.0.1").plug()?;
//!     az1.ready(&["vm1"])?;
//!     ext.reaches("172.24.4.110")?;
//!     lab.chassis("hv2")?.restart("ovn-controller")?;
//!     ext.reaches("172.24.4.110")
//! })
//! # }
//! ```

mod lab;
mod report;
pub(crate) mod trace;

use std::net::Ipv4Addr;

use anyhow::Result;

pub use lab::Lab;

use crate::job::{Backend, Spec};
use crate::need::Need;
use crate::node::chassis::ChassisSpec;

/// The place where packets are switched: in the kernel or in userspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// In ovs-vswitchd itself, which has its own connection tracking.
    Userspace,
    /// In the kernel, which needs connection tracking zones for OVN.
    Kernel,
}

impl Datapath {
    /// The kernel's datapath, if it has all features that OVN needs.
    fn chosen() -> Result<Datapath> {
        let spec = Spec::inside()?;
        let able = spec.offered.contains(&Need::ConntrackZones) && spec.offered.contains(&Need::OpenVswitch);
        // Only for the guest's kernel the features are known in advance.
        Ok(if spec.backend == Backend::Uml && able { Datapath::Kernel } else { Datapath::Userspace })
    }

    /// The name in the switch's database.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Datapath::Userspace => "netdev",
            Datapath::Kernel => "system",
        }
    }

    /// The device that has the tunnel's address.
    pub(crate) fn underlay_device(self) -> &'static str {
        match self {
            Datapath::Userspace => "br-under",
            Datapath::Kernel => "eth0",
        }
    }
}

/// The machines that start before a test begins. A test adds VMs, external hosts and spines to the running [`Lab`].
#[derive(Clone, Debug, Default)]
pub struct Topology {
    zones: Vec<String>,
    chassis: Vec<ChassisSpec>,
}

impl Topology {
    /// An empty topology.
    pub fn new() -> Topology {
        Topology::default()
    }

    /// The central part of a zone.
    #[must_use]
    pub fn central(mut self, zone: &str) -> Topology {
        self.zones.push(zone.to_owned());
        self
    }

    /// A chassis, see [`chassis`](crate::node::chassis::chassis).
    #[must_use]
    pub fn chassis(mut self, chassis: ChassisSpec) -> Topology {
        self.chassis.push(chassis);
        self
    }

    /// Starts the topology, passes it to a function, and stops it. If the function fails, the state of every node is saved in
    /// the job folder, and the relevant part is printed.
    pub fn run(self, with: impl FnOnce(&Lab) -> Result<()>) -> Result<()> {
        let lab = Lab::start(&self)?;
        // The guard also reports after a panic, because a failed assertion is a failure like any other.
        let guard = report::Guard::new(&lab);
        with(&lab)?;
        guard.fine();
        Ok(())
    }

    fn zone_address(&self, zone: Option<&str>) -> Ipv4Addr {
        let at = zone.and_then(|zone| self.zones.iter().position(|known| known == zone)).unwrap_or(0);
        Ipv4Addr::new(10, 10, 0, 100 + u8::try_from(at).unwrap_or(0))
    }
}

/// The address of the controller after `before` others.
fn controller_address(before: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 10, 0, 200_u8.saturating_add(before))
}

/// The tunnel's address of the chassis that is `at`-th in its topology.
fn tunnel_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 10, 0, 1 + u8::try_from(at).unwrap_or(0))
}
