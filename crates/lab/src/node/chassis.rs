//! A chassis: its own switch (database and daemon), ovn-controller, and a wire to the underlay.

use std::fs;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ipnet::IpNet;
use ovn::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovsdb::{Map, Model, Ref, Str, Transaction, Uuid};

use super::Node;
use crate::db::Db;
use crate::eventually::quietly;
use crate::process::Recipe;
use crate::topology::Datapath;

/// Timeout for a switch to create a device.
const DEVICE: Duration = Duration::from_secs(60);

/// The description of a chassis before it starts. Created by [`chassis`].
#[derive(Clone, Debug)]
pub struct ChassisSpec {
    pub(crate) name: String,
    pub(crate) zone: Option<String>,
    /// Physical network, bridge, and whether the bridge is wired to that network.
    pub(crate) mappings: Vec<(String, String, bool)>,
    pub(crate) settings: Vec<(String, String)>,
}

/// A chassis of this name.
pub fn chassis(name: &str) -> ChassisSpec {
    ChassisSpec { name: name.to_owned(), zone: None, mappings: Vec::new(), settings: Vec::new() }
}

impl ChassisSpec {
    /// Sets the zone of the chassis; by default it is the first.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> ChassisSpec {
        self.zone = Some(zone.to_owned());
        self
    }

    /// Maps a physical network to a bridge without a wire. The kernel routes the packets that leave through it.
    #[must_use]
    pub fn bridge_mapping(mut self, physnet: &str, bridge: &str) -> ChassisSpec {
        self.mappings.push((physnet.to_owned(), bridge.to_owned(), false));
        self
    }

    /// A physical network and the bridge that is wired to it.
    #[must_use]
    pub fn wired(mut self, physnet: &str, bridge: &str) -> ChassisSpec {
        self.mappings.push((physnet.to_owned(), bridge.to_owned(), true));
        self
    }

    /// A setting of ovn-controller: `ovn-is-interconn`, `ovn-monitor-all`, ...
    #[must_use]
    pub fn setting(mut self, key: &str, value: &str) -> ChassisSpec {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A chassis.
#[derive(Debug)]
pub struct Chassis {
    node: Arc<Node>,
    db: Db,
    datapath: Datapath,
    address: Ipv4Addr,
}

impl Deref for Chassis {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Chassis {
    /// Starts the chassis on a node whose wires (`eth0`, and `phys0`, `phys1`, ... to physical networks) exist.
    pub(crate) fn start(
        node: Arc<Node>,
        spec: &ChassisSpec,
        address: Ipv4Addr,
        central: Ipv4Addr,
        datapath: Datapath,
        empty: &Path,
    ) -> Result<Chassis> {
        let dir = node.dir().to_path_buf();
        let at = |name: &str| dir.join(name).display().to_string();
        fs::copy(empty.join("vswitch"), dir.join("conf.db")).context("cannot copy an empty database")?;
        let server = Recipe::new("ovsdb-server")
            .arg("-vconsole:off")
            .arg(at("conf.db"))
            .arg(format!("--remote=punix:{}", at("db.sock")))
            .arg(format!("--unixctl={}", at("ovsdb.ctl")))
            .arg(format!("--log-file={}", node.log("ovsdb").display()))
            .ready(at("db.sock"));
        node.start("ovsdb-server", server)?.ready()?;
        let db = Db::open(&node.netns().runtime, &dir.join("db.sock"), model())?;
        db.commit(&first_rows(spec, address, central, datapath))?;
        let in_dir = |recipe: Recipe| {
            recipe.env("OVS_RUNDIR", at("")).env("OVN_RUNDIR", at("")).env("OVS_DBDIR", at(""))
        };
        let switch = Recipe::new("ovs-vswitchd")
            .arg("-vconsole:off")
            .arg(format!("unix:{}", at("db.sock")))
            .arg(format!("--unixctl={}", at("vswitchd.ctl")))
            .arg(format!("--log-file={}", node.log("vswitchd").display()))
            .ready(at("br-int.mgmt"));
        node.start("ovs-vswitchd", in_dir(switch))?.ready()?;
        let controller = Recipe::new("ovn-controller")
            .arg("-vconsole:off")
            .arg(format!("unix:{}", at("db.sock")))
            .arg(format!("--unixctl={}", at("ovn-controller.ctl")))
            .arg(format!("--log-file={}", node.log("ovn-controller").display()))
            .ready(at("ovn-controller.ctl"));
        let chassis = Chassis { node, db, datapath, address };
        chassis.join_underlay()?;
        chassis.start("ovn-controller", in_dir(controller))?;
        Ok(chassis)
    }

    /// Assigns the tunnel's address to the device that the datapath needs.
    fn join_underlay(&self) -> Result<()> {
        let device = self.datapath.underlay_device();
        let address = IpNet::new(self.address.into(), 24)?;
        // The switch creates its devices shortly after it begins to answer.
        quietly(DEVICE, "the tunnel's device is there", || self.up(device))?;
        self.node.address(device, address)
    }

    /// The switch's database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The tunnel's address.
    pub fn tunnel_ip(&self) -> Ipv4Addr {
        self.address
    }

    /// Adds a device to a bridge. On `br-int`, the name of a logical port binds it.
    pub fn plug(&self, bridge: &str, device: &str, logical_port: Option<&str>) -> Result<()> {
        let (row, before) = self.db.find::<Bridge>(|row| row.name == bridge)?;
        let mut transaction = Transaction::new();
        let external_ids =
            logical_port.map(|port| (Str::new("iface-id"), Str::new(port))).into_iter().collect();
        let port = add_port(&mut transaction, device, "", external_ids);
        let mut after = before.clone();
        after.ports.insert(port);
        self.db.commit(transaction.update(row, &before, &after))
    }

    /// Removes a device from a bridge.
    pub fn unplug(&self, bridge: &str, device: &str) -> Result<()> {
        let (port, _) = self.db.find::<Port>(|row| row.name == device)?;
        self.db.change::<Bridge>(
            |row| row.name == bridge,
            |row| {
                row.ports.remove(&port);
            },
        )
    }

    /// The OpenFlow number of a device, once it has one.
    pub fn ofport(&self, device: &str) -> Result<i64> {
        self.db.until(DEVICE, &format!("{device} of {} has a port number", self.label()), |snapshot| {
            let mut rows = snapshot.table::<Interface>().iter();
            rows.find(|(_, row)| row.name == device).and_then(|(_, row)| row.ofport).filter(|port| *port > 0)
        })
    }

    /// Adds a flow to a bridge.
    pub fn add_flow(&self, bridge: &str, flow: &str) -> Result<()> {
        self.ofctl("add-flow", bridge, &[flow]).map(|_| ())
    }

    /// Deletes flows of a bridge.
    pub fn del_flows(&self, bridge: &str, matching: &str) -> Result<()> {
        self.ofctl("del-flows", bridge, &[matching]).map(|_| ())
    }

    /// Runs an `ovs-ofctl` command on a bridge.
    pub fn ofctl(&self, command: &str, bridge: &str, args: &[&str]) -> Result<String> {
        let bridge = format!("unix:{}", self.dir().join(format!("{bridge}.mgmt")).display());
        let line: Vec<&str> =
            ["ovs-ofctl", "--timeout=20", command, &bridge].into_iter().chain(args.iter().copied()).collect();
        self.run_args(&line)
    }

    /// Runs an `ovs-appctl` command on the switch: `["ofproto/trace", "br-int", "in_port=1,icmp"]`.
    pub fn appctl(&self, words: &[&str]) -> Result<String> {
        let control = self.dir().join("vswitchd.ctl").display().to_string();
        let line: Vec<&str> =
            ["ovs-appctl", "--timeout=20", "-t", &control].into_iter().chain(words.iter().copied()).collect();
        self.run_args(&line)
    }

    /// Disconnects the node from the underlay.
    pub fn cut(&self) -> Result<()> {
        println!("cut {} off", self.label());
        self.down("eth0")
    }

    /// Kills a daemon and starts it again, with the set-up that it needs.
    pub fn restart(&self, daemon: &str) -> Result<()> {
        self.daemon(daemon)?.kill()?;
        self.revive(daemon)
    }

    /// Starts a killed daemon, with the set-up that it needs.
    pub fn revive(&self, daemon: &str) -> Result<()> {
        self.daemon(daemon)?.start_again()?;
        // A restarted switch with the userspace datapath may have created its devices again, without the tunnel's address.
        if daemon == "ovs-vswitchd" && self.datapath == Datapath::Userspace {
            self.join_underlay()
        } else {
            Ok(())
        }
    }

    /// Reconnects the node to the underlay.
    pub fn mend(&self) -> Result<()> {
        self.up("eth0")
    }
}

fn model() -> Model {
    Model::new("Open_vSwitch").table::<OpenVSwitch>().table::<Bridge>().table::<Port>().table::<Interface>()
}

/// The initial content of a switch's database: its bridges, and ovn-controller's settings.
fn first_rows(spec: &ChassisSpec, address: Ipv4Addr, central: Ipv4Addr, datapath: Datapath) -> Transaction {
    let mut transaction = Transaction::new();
    let mut root = OpenVSwitch::default();
    let mappings: Vec<String> =
        spec.mappings.iter().map(|(physnet, bridge, _)| format!("{physnet}:{bridge}")).collect();
    let settings = [
        ("system-id", spec.name.clone()),
        ("hostname", spec.name.clone()),
        ("ovn-remote", format!("tcp:{central}:6642")),
        ("ovn-encap-type", "geneve".to_owned()),
        ("ovn-encap-ip", address.to_string()),
        ("ovn-bridge-datapath-type", datapath.kind().to_owned()),
        ("ovn-bridge-mappings", mappings.join(",")),
    ];
    let settings =
        settings.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(spec.settings.iter().cloned());
    for (key, value) in settings.filter(|(_, value)| !value.is_empty()) {
        root.external_ids.insert(key.into(), value.into());
    }
    // A lab has one CPU and little traffic. More threads, and checking idle flows twice a second, would only cost time.
    for (key, value) in [
        ("n-handler-threads", "1"),
        ("n-revalidator-threads", "1"),
        ("max-revalidator", "5000"),
        ("stats-update-interval", "30000"),
    ] {
        root.other_config.insert(key.into(), value.into());
    }
    let mut bridge = |name: &str, nic: Option<String>, secure: bool| {
        let mut row =
            Bridge { name: name.into(), datapath_type: datapath.kind().into(), ..Bridge::default() };
        row.ports.insert(add_port(&mut transaction, name, "internal", Map::default()));
        if let Some(nic) = nic {
            row.ports.insert(add_port(&mut transaction, &nic, "", Map::default()));
        }
        if secure {
            row.fail_mode = Some("secure".into());
            row.other_config.insert("disable-in-band".into(), "true".into());
        }
        let uuid = Uuid::new_v4();
        transaction.insert(uuid, &row);
        root.bridges.insert(Ref::new(uuid));
    };
    bridge("br-int", None, true);
    if datapath == Datapath::Userspace {
        bridge("br-under", Some("eth0".to_owned()), false);
    }
    let mut wires = 0..;
    for (_, name, wired) in &spec.mappings {
        let nic = wired.then(|| format!("phys{}", wires.next().unwrap_or(0)));
        bridge(name, nic, false);
    }
    transaction.insert(Uuid::new_v4(), &root);
    transaction
}

fn add_port(
    transaction: &mut Transaction,
    device: &str,
    kind: &str,
    external_ids: Map<Str, Str>,
) -> Ref<Port> {
    let (interface, port) = (Uuid::new_v4(), Uuid::new_v4());
    let row = Interface { name: device.into(), kind: kind.into(), external_ids, ..Interface::default() };
    transaction.insert(interface, &row);
    let row = Port {
        name: device.into(),
        interfaces: [Ref::new(interface)].into_iter().collect(),
        ..Port::default()
    };
    transaction.insert(port, &row);
    Ref::new(port)
}
