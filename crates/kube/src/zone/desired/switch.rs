//! The layer-2 switch, its ports to router, management port and pods.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ovn::PortType;
use ovn::nb::{LogicalSwitch, LogicalSwitchPort};
use ovn::text::{HostAddr, PortAddresses, PortSecurity, Text};
use ovsdb::{Ref, Set, Str};
use reconcile::{Class, Problem};

use super::{Draft, egress, identity, map, refs, text};
use crate::ident::{LAST_PLATFORM_KEY, MANAGEMENT_PORT_KEY, ROUTER_PORT_KEY};
use crate::zone::ZonePod;
use crate::zone::migration::PodTraffic;

pub(super) fn compile(draft: &mut Draft<'_>, mut ports: Vec<Ref<LogicalSwitchPort>>) {
    ports.push(management_port(draft));
    for pod in &draft.network.pods {
        ports.extend(pod_port(draft, pod));
    }
    let network = &draft.network.network;
    let name = text(draft.names.switch());
    let mut config = vec![
        ("interconn-ts", name.clone()),
        ("requested-tnl-key", text(draft.network.keys.switch)),
        ("mcast_snoop", "true".into()),
        ("mcast_querier", "false".into()),
        ("mcast_flood_unregistered", "true".into()),
    ];
    config.extend(network.subnets.ipv4.map(|net| ("subnet", text(net))));
    config.extend(network.subnets.ipv6.map(|net| ("ipv6_prefix", text(net.network()))));
    let qos_rules = egress::of_switch(draft);
    let switch = LogicalSwitch {
        name,
        qos_rules: refs(qos_rules),
        ports: refs(ports),
        other_config: map(config),
        external_ids: draft.datapath_ids(),
        ..Default::default()
    };
    draft.own("switch", switch);
}

/// The port through which the node itself is on the network. It has the same address and key in every zone, and never leaves one.
fn management_port(draft: &mut Draft<'_>) -> Ref<LogicalSwitchPort> {
    let network = &draft.network.network;
    let ips: Vec<IpAddr> = network.management.addresses().all().collect();
    let row = LogicalSwitchPort {
        name: text(draft.names.management_port(draft.node())),
        addresses: [Text::from(fixed(network.management_mac(), &ips))].into_iter().collect(),
        options: map(platform_keys(draft).management.map(|key| ("requested-tnl-key", text(key)))),
        external_ids: draft.external_ids(),
        ..Default::default()
    };
    draft.own("management", row)
}

/// The tunnel keys of the platform's ports on the switch.
pub(super) struct PlatformKeys {
    pub(super) router: Option<u16>,
    pub(super) management: Option<u16>,
}

/// The keys of the platform's ports. In the old topology pods and gateway routers may have got these keys, and they keep them: OVN
/// would delete and create one of two ports that request the same key. All zones see the same pods and so choose the same keys;
/// if none is left, OVN chooses.
pub(super) fn platform_keys(draft: &Draft<'_>) -> PlatformKeys {
    let pods = draft.network.pods.iter().filter_map(|pod| pod.addresses.tunnel_id);
    let gateways = draft.snapshot.nodes.values().filter_map(|node| node.old_key(&draft.network.network));
    let taken: BTreeSet<u16> = pods.chain(gateways).filter(|key| *key <= LAST_PLATFORM_KEY).collect();
    let free = |first: u16, other: Option<u16>| {
        (first..=LAST_PLATFORM_KEY).find(|key| !taken.contains(key) && Some(*key) != other)
    };
    let router = free(ROUTER_PORT_KEY, None);
    PlatformKeys { router, management: free(MANAGEMENT_PORT_KEY, router) }
}

/// The port of a pod: a VIF in its own zone, a remote port in all others.
fn pod_port(draft: &mut Draft<'_>, pod: &ZonePod) -> Option<Ref<LogicalSwitchPort>> {
    let ips: Vec<IpAddr> = pod.addresses.addresses().map(|net| net.addr()).collect();
    let name = identity::pod_port(&pod.attachment, &pod.namespace, &pod.name);
    let object = identity::of_pod(&name);
    if draft.snapshot.unreadable.contains(&pod.node) {
        draft.out.keep.insert(object);
        return None;
    }
    let Some(key) = pod.addresses.tunnel_id else {
        let message = format!(
            "pod {}/{} has no tunnel key, so its port stays as it is; see that the manager runs",
            pod.namespace, pod.name
        );
        let problem = Problem::error(object, Class::Transient, "pod-without-key", message);
        draft.out.undecided(problem);
        return None;
    };
    // A pod of a node without rows is on no chassis yet.
    let node = draft.snapshot.nodes.get(&pod.node)?;
    let is_local = pod.node == draft.snapshot.local;
    if !is_local && !draft.is_reachable(node) {
        return None;
    }
    let mac = pod.addresses.mac_address;
    let mut options =
        vec![("requested-tnl-key", text(key)), ("requested-chassis", text(node.chassis.as_str()))];
    let mut external_ids = draft.external_ids();
    let attachment = pod.attachment.to_string();
    for (key, value) in
        [(identity::POD, "true"), ("namespace", &pod.namespace), ("k8s.ovn.org/nad", &attachment)]
    {
        external_ids.insert(key.into(), value.into());
    }
    let mut row = LogicalSwitchPort {
        name: name.into(),
        addresses: [Text::from(fixed(mac, &ips))].into_iter().collect(),
        ..Default::default()
    };
    if is_local {
        options.push(("iface-id-ver", Str::from(pod.uid.as_str())));
        let ips = ips.iter().copied().map(HostAddr::from).collect();
        row.port_security = [Text::from(PortSecurity::Source { mac, ips })].into_iter().collect();
    } else {
        row.kind = PortType::Remote;
        external_ids.insert(identity::NODE.into(), pod.node.as_str().into());
    }
    if pod.traffic == PodTraffic::Blocked {
        row.enabled = Some(false);
        row.addresses = Set::default();
    }
    (row.options, row.external_ids) = (map(options), external_ids);
    Some(draft.own_for(object, &format!("pod {}", pod.uid), row))
}

fn fixed(mac: ovn::MacAddr, ips: &[IpAddr]) -> PortAddresses {
    PortAddresses::Fixed { mac, ips: ips.iter().copied().map(HostAddr::from).collect() }
}
