//! The running lab: its nodes, cables and databases, as a test uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use tokio::runtime::Runtime;

use super::trace::Failures;
use super::{Datapath, Topology, controller_address, tunnel_address};
use crate::job::INSIDE;
use crate::link::{End, cable};
use crate::netns::Netns;
use crate::node::Node;
use crate::node::central::Central;
use crate::node::chassis::{Chassis, ChassisSpec};
use crate::node::controller::Controller;
use crate::picture::{self, Addresses, Part, Picture, UNDERLAY};
use crate::rootfs::{EMPTY, SCHEMAS};

/// The MTU has room for 1500 bytes and a tunnel header, because the userspace datapath does not fragment.
const UNDERLAY_MTU: u32 = 1600;

/// A running topology.
#[derive(Debug)]
pub struct Lab {
    // The fields are dropped in this order: clients of daemons before the daemons, and the runtime last, because it runs all connections.
    centrals: BTreeMap<String, Central>,
    chassis: BTreeMap<String, Chassis>,
    nodes: Mutex<Vec<Arc<Node>>>,
    physnets: Mutex<BTreeSet<String>>,
    /// The unanswered traffic, for the report.
    failures: Arc<Failures>,
    /// The number of controllers, for the address of the next one.
    controllers: AtomicU8,
    /// The parts of the lab, for the picture.
    parts: Mutex<Vec<Part>>,
    root: Arc<Netns>,
    datapath: Datapath,
    job: PathBuf,
    runtime: Runtime,
}

impl Lab {
    pub(super) fn start(topology: &Topology) -> Result<Lab> {
        let begin = Instant::now();
        let job = PathBuf::from(INSIDE);
        fs::create_dir_all(job.join("logs")).context("cannot make a folder for logs")?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let root = Arc::new(Netns::own(runtime.handle(), "lab")?);
        let mut lab = Lab {
            centrals: BTreeMap::new(),
            chassis: BTreeMap::new(),
            nodes: Mutex::new(Vec::new()),
            physnets: Mutex::new(BTreeSet::new()),
            failures: Arc::default(),
            controllers: AtomicU8::new(0),
            parts: Mutex::new(Vec::new()),
            root,
            datapath: Datapath::chosen()?,
            job,
            runtime,
        };
        lab.root.bridge(UNDERLAY)?;
        if topology.zones.is_empty() && topology.chassis.is_empty() {
            return Ok(lab);
        }
        let empty = empty_databases()?;
        for zone in &topology.zones {
            let address = topology.zone_address(Some(zone));
            lab.root.address(UNDERLAY, IpNet::new(address.into(), 24)?)?;
        }
        let (centrals, chassis) = std::thread::scope(|scope| {
            let (lab, empty) = (&lab, empty.as_path());
            let centrals: Vec<_> = topology
                .zones
                .iter()
                .map(|zone| scope.spawn(move || lab.start_central(topology, zone, empty)))
                .collect();
            let chassis: Vec<_> = topology
                .chassis
                .iter()
                .enumerate()
                .map(|(at, spec)| scope.spawn(move || lab.start_chassis(topology, at, spec, empty)))
                .collect();
            let centrals = centrals.into_iter().map(joined).collect::<Vec<Result<Central>>>();
            let chassis = chassis.into_iter().map(joined).collect::<Vec<Result<Chassis>>>();
            (centrals, chassis)
        });
        for central in centrals {
            let central = central.context("a zone does not come up")?;
            lab.centrals.insert(central.label().to_owned(), central);
        }
        for chassis in chassis {
            let chassis = chassis.context("a chassis does not come up")?;
            lab.chassis.insert(chassis.label().to_owned(), chassis);
        }
        println!(
            "up: {} and {} after {} ms, {} datapath",
            topology.zones.join(", "),
            lab.chassis.keys().map(|name| name.as_str()).collect::<Vec<_>>().join(", "),
            begin.elapsed().as_millis(),
            lab.datapath.kind()
        );
        Ok(lab)
    }

    fn start_central(&self, topology: &Topology, zone: &str, empty: &Path) -> Result<Central> {
        let node = Arc::new(Node::new(zone, Arc::clone(&self.root), &self.logs(), &self.failures)?);
        self.keep(&node);
        let address = topology.zone_address(Some(zone));
        self.note(Part::Central(zone.to_owned(), address.to_string()));
        Central::start(node, address, empty)
    }

    fn start_chassis(
        &self,
        topology: &Topology,
        at: usize,
        spec: &ChassisSpec,
        empty: &Path,
    ) -> Result<Chassis> {
        let node = self.node(&spec.name)?;
        self.wire(&node, "eth0", UNDERLAY, &format!("ul-{}", spec.name), UNDERLAY_MTU)?;
        let wired = spec.mappings.iter().filter(|(.., wired)| *wired);
        for (at, (physnet, ..)) in wired.enumerate() {
            let bridge = self.physnet(physnet)?;
            self.wire(&node, &format!("phys{at}"), &bridge, &format!("p{at}-{}", spec.name), 1500)?;
        }
        let mapped = |(physnet, bridge, _): &(String, String, bool)| format!("{physnet}:{bridge}");
        let mappings = spec.mappings.iter().map(mapped).collect();
        self.note(Part::Chassis(spec.name.clone(), tunnel_address(at).to_string(), mappings));
        let central = topology.zone_address(spec.zone.as_deref());
        Chassis::start(node, spec, tunnel_address(at), central, self.datapath, empty)
    }

    /// A cable from a node to a bridge of the lab.
    fn wire(&self, node: &Node, device: &str, bridge: &str, port: &str, mtu: u32) -> Result<()> {
        cable(End::new(&self.root, port), End::new(node, device), mtu, Some(bridge))?;
        self.note(Part::Port(picture::End::new(node.label(), device), bridge.to_owned()));
        if self.datapath == Datapath::Userspace {
            self.root.no_offload(port)?;
            node.no_offload(device)?;
        }
        Ok(())
    }

    /// The bridge of a physical network.
    fn physnet(&self, name: &str) -> Result<String> {
        let bridge = format!("br-{name}");
        let mut known = self.physnets.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(name.to_owned()) {
            self.root.bridge(&bridge)?;
        }
        Ok(bridge)
    }

    /// A node with only a namespace: a spine, a client, or a host for a proxy.
    pub fn node(&self, name: &str) -> Result<Arc<Node>> {
        let netns = Arc::new(Netns::make(self.runtime.handle(), name)?);
        let node = Arc::new(Node::new(name, netns, &self.logs(), &self.failures)?);
        self.keep(&node);
        self.note(Part::Node(name.to_owned()));
        Ok(node)
    }

    /// A node on the underlay in addition to chassis and central: for an API server, a database, Keystone.
    pub fn controller(&self, name: &str) -> Result<Controller> {
        let node = self.node(name)?;
        let before = self.controllers.fetch_add(1, Ordering::Relaxed);
        let address = controller_address(before);
        self.wire(&node, "eth0", UNDERLAY, &format!("ul-{name}"), UNDERLAY_MTU)?;
        node.address("eth0", IpNet::new(address.into(), 24)?)?;
        Ok(Controller { node, address })
    }

    /// A node by its name: a VM, an external host, a spine.
    pub fn find(&self, name: &str) -> Result<Arc<Node>> {
        self.nodes()
            .into_iter()
            .find(|node| node.label() == name)
            .with_context(|| format!("there is no node `{name}`"))
    }

    /// A host on a physical network, with these addresses on its `eth0`.
    pub fn external(&self, name: &str, physnet: &str, addresses: &[&str]) -> Result<Arc<Node>> {
        let node = self.node(name)?;
        let bridge = self.physnet(physnet)?;
        self.wire(&node, "eth0", &bridge, &format!("x-{name}"), 1500)?;
        for address in addresses {
            let address =
                address.parse().with_context(|| format!("{address} is no address with a prefix length"))?;
            node.address("eth0", address)?;
        }
        Ok(node)
    }

    /// A cable between two nodes.
    pub fn connect(&self, a: (&Node, &str), b: (&Node, &str)) -> Result<()> {
        cable(End::new(a.0, a.1), End::new(b.0, b.1), 1500, None)?;
        let [a, b] = [a, b].map(|(node, device)| picture::End::new(node.label(), device));
        self.note(Part::Cable(a, b));
        Ok(())
    }

    /// A chassis by its name.
    pub fn chassis(&self, name: &str) -> Result<&Chassis> {
        self.chassis.get(name).with_context(|| format!("there is no chassis `{name}`"))
    }

    /// The central part of a zone.
    pub fn central(&self, zone: &str) -> Result<&Central> {
        self.centrals.get(zone).with_context(|| format!("there is no zone `{zone}`"))
    }

    /// The namespace that has the underlay, the physical networks and the central parts.
    pub fn root(&self) -> &Netns {
        &self.root
    }

    /// The kind of datapath.
    pub fn datapath(&self) -> Datapath {
        self.datapath
    }

    /// The current machines and cables.
    pub fn picture(&self) -> Picture {
        let parts = self.parts();
        let mut addresses = Addresses::new();
        let mut look = |end: &picture::End| {
            // A device that no longer exists has no addresses.
            let found = self.find(&end.node).and_then(|node| node.addresses(&end.device));
            addresses.insert(end.clone(), found.unwrap_or_default());
        };
        for part in &parts {
            match part {
                Part::Vm(name, _) => look(&picture::End::new(name, "eth0")),
                Part::Port(end, _) => look(end),
                Part::Cable(a, b) => [a, b].into_iter().for_each(&mut look),
                Part::Node(_) | Part::Central(..) | Part::Chassis(..) => {}
            }
        }
        Picture::new(&parts, addresses)
    }

    /// The job folder, whose files stay on the host.
    pub fn job(&self) -> &Path {
        &self.job
    }

    pub(super) fn parts(&self) -> Vec<Part> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(super) fn centrals(&self) -> impl Iterator<Item = &Central> {
        self.centrals.values()
    }

    pub(super) fn all_chassis(&self) -> impl Iterator<Item = &Chassis> {
        self.chassis.values()
    }

    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, node: &Arc<Node>) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(node));
    }

    /// Records a part for the picture.
    pub(crate) fn note(&self, part: Part) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    fn logs(&self) -> PathBuf {
        self.job.join("logs")
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Empty databases to copy, because creating one takes a process, and a lab needs many. A guest's root file system has them, a host does
/// not.
fn empty_databases() -> Result<PathBuf> {
    let made = PathBuf::from(EMPTY);
    if made.is_dir() {
        return Ok(made);
    }
    let dir = PathBuf::from("/run/empty");
    fs::create_dir_all(&dir).context("cannot make a folder for empty databases")?;
    let mut makers = Vec::new();
    for (name, schema) in SCHEMAS {
        let maker = Command::new("ovsdb-tool")
            .arg("create")
            .arg(dir.join(name))
            .arg(schema)
            .stdin(Stdio::null())
            .spawn();
        makers.push((name, maker.context("cannot run ovsdb-tool")?));
    }
    for (name, mut maker) in makers {
        let status = maker.wait().context("cannot wait for ovsdb-tool")?;
        ensure!(status.success(), "ovsdb-tool cannot make an empty database {name} ({status})");
    }
    Ok(dir)
}
