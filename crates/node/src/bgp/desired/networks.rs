//! Provider networks: switches with a connection to a physical network that this node has a bridge for.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{HashMap, HashSet};

use ovn::sb::PortBinding;
use ovsdb::{Str, Uuid};
use reconcile::{Class, ObjectId, Problem};
use smol_str::SmolStr;

use super::draft::Draft;
use super::{PatchPort, ProviderBridge};
use crate::ProblemCode;
use crate::bgp::snapshot::Role;
use crate::kernel::tables::BRIDGE_LETTERS;
use crate::kernel::{Dev, vlan_device};
use crate::part::object;

const HIGHEST_TAG: i64 = 4094;

/// A provider network as the kernel meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The physical network.
    pub physnet: SmolStr,
    /// The bridge.
    pub bridge: Dev,
    /// The VLAN, if it is one.
    pub tag: Option<u16>,
    /// The device: the bridge's, or that of the VLAN.
    pub dev: Dev,
}

/// The networks of this node, by switch.
#[derive(Debug, Default)]
pub(super) struct Networks {
    provider: HashMap<Uuid, Network>,
    /// Switches with a physical network, whether this node has it or not.
    physical: HashSet<Uuid>,
}

impl Networks {
    /// The provider network that a switch is, if this node is connected to it.
    pub(super) fn of(&self, switch: Uuid) -> Option<&Network> {
        self.provider.get(&switch)
    }

    /// Whether a switch is a provider network somewhere.
    pub(super) fn is_physical(&self, switch: Uuid) -> bool {
        self.physical.contains(&switch)
    }
}

/// The name of the device of a VLAN of a bridge.
pub fn device_name(bridge: &str, tag: Option<u16>) -> Dev {
    match tag {
        None => bridge.into(),
        Some(tag) => vlan_device(bridge, tag),
    }
}

/// Finds bridges and networks, and enters them in the decision.
pub(super) fn find(draft: &mut Draft<'_>) -> Networks {
    let mappings = draft.snapshot.mappings();
    for problem in &mappings.problems {
        let object = ObjectId::new("setting", "ovn-bridge-mappings");
        let what = format!("{problem}; correct it in the local switch's external_ids");
        draft.report(Problem::warning(object, Class::Refused, ProblemCode::BadBridgeMapping, what));
    }
    let mut bridge_of: HashMap<&str, &str> = HashMap::new();
    for (at, mapping) in mappings.entries.iter().enumerate() {
        if draft.decision.bridges.contains_key(&mapping.bridge) || bridge(draft, &mapping.bridge, at + 1) {
            bridge_of.insert(&mapping.physnet, &mapping.bridge);
        }
    }
    let mut networks = Networks::default();
    let mut localnet_devices: HashMap<Str, Dev> = HashMap::new();
    let snapshot = draft.snapshot;
    let mut localnets: Vec<&PortBinding> = snapshot.ports_as(Role::Localnet).map(|(_, port)| port).collect();
    localnets.sort_by(|a, b| a.logical_port.cmp(&b.logical_port));
    for port in localnets {
        let switch = port.datapath.uuid();
        networks.physical.insert(switch);
        let Some(network) = network(draft, port, &bridge_of) else { continue };
        localnet_devices.insert(port.logical_port.clone(), network.dev.clone());
        draft.decision.networks.insert(network.dev.clone(), network.clone());
        // A switch may have several; this node should have a bridge for one of them only.
        networks.provider.entry(switch).or_insert(network);
    }
    patch_ports(draft, &localnet_devices);
    networks
}

/// Enters a bridge that the local switch has.
fn bridge(draft: &mut Draft<'_>, name: &SmolStr, index: usize) -> bool {
    let Some(row) = draft.snapshot.bridge(name) else {
        let what = "the bridge mappings name it, but Open vSwitch has no such bridge; create it with `ovs-vsctl add-br`. The \
         agent uses it as soon as it exists";
        draft.report(Problem::error(object::device(name), Class::Transient, ProblemCode::NoSuchBridge, what));
        return false;
    };
    let controlled = !row.controller.is_empty() || row.fail_mode.as_deref() == Some("secure");
    // The switch's database forgets it when it restarts, and the switch tells it again when it is back.
    let known = draft.snapshot.before.bridges.get(name).and_then(|bridge| bridge.mac);
    let mac = draft.snapshot.bridge_mac(name).or(known);
    draft
        .decision
        .bridges
        .insert(name.clone(), ProviderBridge { index, mac, controlled, patch_ports: Default::default() });
    // The bridge itself is always there to be met, as flat and VLAN networks may share it.
    true
}

/// The network that a localnet port stands for, if this node is connected to it.
fn network(draft: &mut Draft<'_>, port: &PortBinding, bridge_of: &HashMap<&str, &str>) -> Option<Network> {
    let bad = |draft: &mut Draft<'_>, code, what: &str| {
        let object = ObjectId::new("port", port.logical_port.clone());
        draft.report(Problem::error(object, Class::Refused, code, what));
    };
    let Some(physnet) = port.options.get("network_name") else {
        bad(
            draft,
            ProblemCode::NoPhysicalNetwork,
            "the localnet port has no option network_name; set it in the Northbound database",
        );
        return None;
    };
    let bridge = SmolStr::new(bridge_of.get(physnet.as_str())?);
    let tag = match port.tag {
        None | Some(0) => None,
        Some(tag @ 1..=HIGHEST_TAG) => u16::try_from(tag).ok(),
        Some(tag) => {
            bad(
                draft,
                ProblemCode::BadVlan,
                &format!("the localnet port has VLAN {tag}; there are 1 to {HIGHEST_TAG}"),
            );
            return None;
        }
    };
    let dev = device_name(&bridge, tag);
    match draft.decision.networks.get(&dev) {
        Some(other) if other.bridge != bridge => {
            let what = format!(
                "VLAN {} of {bridge} would need the device {dev}, which is that of {}; rename a bridge so that their first \
                 {BRIDGE_LETTERS} letters differ",
                tag.unwrap_or(0),
                other.bridge
            );
            bad(draft, ProblemCode::DeviceNameTaken, &what);
            None
        }
        _ => Some(Network { physnet: physnet.clone(), bridge, tag, dev }),
    }
}

/// Enters the patch ports of the bridges. What the switch does not tell for now is as it was: the flows are there, and work.
fn patch_ports(draft: &mut Draft<'_>, devices: &HashMap<Str, Dev>) {
    let snapshot = draft.snapshot;
    let mut problems = Vec::new();
    for (name, provider) in &mut draft.decision.bridges {
        let Some(bridge) = snapshot.bridge(name) else { continue };
        let before = snapshot.before.bridges.get(name);
        for (row, localnet, number) in snapshot.patch_ports(bridge) {
            let known = || before?.patch_ports.get(&row)?.number;
            let dev = devices.get(localnet).unwrap_or(name).clone();
            provider.patch_ports.insert(row, PatchPort { number: number.or_else(known), dev });
        }
        if snapshot.bridge_mac(name).is_some() {
            continue;
        }
        let (object, code) = (object::device(name), ProblemCode::NoBridgeMac);
        problems.push(match provider.mac {
            Some(_) => {
                let what = "Open vSwitch reports no MAC address of the bridge now; its flows keep the former one. Check that \
                 ovs-vswitchd is running";
                Problem::warning(object, Class::Transient, code, what)
            }
            None => {
                let what = "Open vSwitch reports no MAC address of the bridge yet, so the agent cannot create its flows and \
                 does not announce addresses that need them; check that ovs-vswitchd is running";
                Problem::error(object, Class::Transient, code, what)
            }
        });
    }
    problems.into_iter().for_each(|problem| draft.report(problem));
}
