//! The localnet port of a network on a physical network: it connects the switch to a bridge of each chassis.

use ovn::PortType;
use ovn::ident::name;
use ovn::nb::{LogicalSwitch, LogicalSwitchPort};
use ovn::target::Part;
use ovn::text::neutron::key;
use ovn::text::{PortAddresses, Text};
use ovsdb::Set;

use super::look::Look;
use super::{map, object, switch, text, word};
use crate::model::{Network, NetworkType};

pub(super) fn compile(look: &Look<'_, '_>, network: &Network, to: &mut Part) {
    let segment = &network.segment;
    let Some(physical) = segment.physical_network.as_ref().filter(|_| segment.is_physical()) else { return };
    let settings = look.settings();
    let vlan = segment.segmentation_id.filter(|_| segment.network_type == NetworkType::Vlan);
    let port = LogicalSwitchPort {
        name: text(name::localnet_port(segment.id)),
        kind: PortType::Localnet,
        addresses: Set::from([Text::from(PortAddresses::Unknown)]),
        // northd writes `tag` itself.
        tag_request: vlan.map(i64::from),
        options: map([
            ("network_name", text(physical)),
            ("mcast_flood_reports", word(settings.igmp_flood_reports)),
            ("mcast_flood", word(settings.igmp_flood)),
            ("localnet_learn_fdb", word(settings.localnet_learn_fdb)),
        ]),
        external_ids: map([(key::PROVNET_PHYSICAL_NETWORK, text(physical))]),
        ..Default::default()
    };
    let (object, row) = (object("network", network.id), look.row(segment.id));
    to.own(object.clone(), row, port);
    to.member::<LogicalSwitch>(object, switch::row(look, network.id), LogicalSwitch::PORTS, row);
}
