//! `selection_fields`: the packet fields by which OVN chooses a backend for a new connection.

use ovn::nb::SelectionField;
use ovsdb::Set;

use crate::model::{Algorithm, LoadBalancer};
use crate::snapshot::Ability;

/// The hashed fields. Open vSwitch skips fields that a packet does not have, so one list contains the fields of IPv4 and IPv6.
pub(super) fn fields(balancer: &LoadBalancer, algorithm: Algorithm, ability: Ability) -> Set<SelectionField> {
    let serves_ipv6 = balancer.vips.iter().any(|vip| vip.address.value.is_ipv6());
    let mut fields = vec![SelectionField::IpSrc, SelectionField::IpDst];
    match algorithm {
        // Without the IPv6 fields all IPv6 clients of a port would share a backend. Without any field the datapath hashes addresses and
        // ports of both versions.
        Algorithm::SourceIpPort if serves_ipv6 && !ability.ipv6_selection => return Set::default(),
        Algorithm::SourceIpPort => fields.extend([SelectionField::TpSrc, SelectionField::TpDst]),
        Algorithm::SourceIp => {}
    }
    if serves_ipv6 && ability.ipv6_selection {
        fields.extend([SelectionField::Ipv6Src, SelectionField::Ipv6Dst]);
    }
    fields.into_iter().collect()
}
