//! `Logical_Switch`: a network.

use ovn::ident::name;
use ovn::nb::LogicalSwitch;
use ovn::text::neutron::key;
use uuid::Uuid;

use super::{Compiled, Look};
use super::{chassis_group, localnet, map, object, text, word};
use crate::model::Network;

/// The switch's row.
pub(super) fn row(look: &Look<'_, '_>, network: Uuid) -> Uuid {
    look.row(network)
}

pub(super) fn compile(look: &Look<'_, '_>, id: Uuid, to: &mut Compiled) {
    let to = &mut to.part;
    let Some(network) = look.network(id) else { return };
    let settings = look.settings();
    let mut other_config = vec![
        ("mcast_snoop", word(settings.igmp_snooping_enable)),
        ("mcast_flood_unregistered", word(settings.igmp_flood_unregistered)),
        ("vlan-passthru", word(false)),
    ];
    if network.segment.is_physical() {
        other_config.push(("fdb_age_threshold", text(settings.fdb_age_threshold)));
    }
    if network.external {
        other_config.push(("broadcast-arps-to-all-routers", word(settings.broadcast_arps_to_all_routers)));
    }
    let switch = LogicalSwitch {
        name: text(name::switch(id)),
        other_config: map(other_config),
        external_ids: map(external_ids(network)),
        ..Default::default()
    };
    to.own(object("network", id), row(look, id), switch);
    localnet::compile(look, network, to);
    chassis_group::compile_external_ports(look, network, to);
}

fn external_ids(network: &Network) -> Vec<(&'static str, ovsdb::Str)> {
    let mut ids = vec![
        (key::NETWORK_NAME, text(&network.name)),
        (key::MTU, text(network.mtu)),
        (key::REVISION, text(network.standard.revision)),
        (key::AVAILABILITY_ZONE_HINTS, text(network.availability_zone_hints.join(","))),
        (key::PROVNET_NETWORK_TYPE, text(network.segment.network_type.as_str())),
    ];
    if let Some(physical) = &network.segment.physical_network {
        ids.push((key::PROVNET_PHYSICAL_NETWORK, text(physical)));
    }
    ids
}
