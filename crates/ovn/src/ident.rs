//! The identity of a row: its UUID and its name.
//!
//! **UUIDs.** A row for one API object has that object's id. The UUID of every other row is derived from its purpose:
//! [`row_uuid`]`(kind, id, role)`, a UUIDv5. So the same intent always gives the same row: a restart cannot create a duplicate,
//! two racing writers collide instead of both creating a row, and a lost database gets the same UUIDs when it is rebuilt.
//! `(kind, id, role)` must be unique to the row; the encoding keeps different triples different. In tables without
//! `external_ids` the UUID carries the owner's mark as well: [`marked_uuid`].
//!
//! **Names** are OpenStack's, because other programs look rows up by them. Only this module writes them, so that writer and
//! readers of a prefix cannot diverge.

use uuid::Uuid;

/// Root of our UUIDv5 namespaces. Never change it: every derived UUID in every deployment depends on it.
const ROOT: Uuid = Uuid::from_u128(0x6d65_7269_6469_616e_2d6f_766e_2d69_6431);

/// The root UUID that Neutron's agents use for chassis whose system-id is not a UUID. Metadata agents derive their id from it.
const METADATA_AGENT_ROOT: Uuid = Uuid::from_u128(0xd34b_f9f6_da32_4871_9af8_15a4_626b_41ab);

/// UUID of the row in the role `role` for object `id` of `kind`, for example `row_uuid("router-gateway", port_id,
/// "ha-chassis-group")`.
pub fn row_uuid(kind: &str, id: &str, role: &str) -> Uuid {
    // The lengths in front distinguish ("a", "bc") from ("ab", "c").
    let name = format!("{}:{kind}{}:{id}{role}", kind.len(), id.len());
    Uuid::new_v5(&ROOT, name.as_bytes())
}

/// The bytes of a marked UUID that carry the mark.
const MARK: std::ops::Range<usize> = 10..16;

/// UUID of a row in a table without `external_ids` for our mark: a UUIDv8 whose last six bytes are the fingerprint of `owner`,
/// so that we recognise the row as ours. No random UUID (version 4) has this form.
///
/// The mark is not at the front because ovsdb-server hashes rows by their first four bytes. With equal first bytes, a few
/// thousand rows make it fifty times slower.
pub fn marked_uuid(owner: &str, kind: &str, id: &str, role: &str) -> Uuid {
    let mut bytes = row_uuid(kind, id, role).into_bytes();
    bytes[MARK].copy_from_slice(&fingerprint(owner));
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Whether a UUID is from [`marked_uuid`] with this owner.
pub fn is_marked_uuid(owner: &str, uuid: Uuid) -> bool {
    uuid.get_version_num() == 8 && uuid.as_bytes()[MARK] == fingerprint(owner)
}

fn fingerprint(owner: &str) -> [u8; 6] {
    let [a, b, c, d, e, f, ..] = row_uuid("owner", owner, "fingerprint").into_bytes();
    [a, b, c, d, e, f]
}

/// Id of the metadata agent on a chassis, as Neutron's agent list computes it.
pub fn metadata_agent_id(system_id: &str) -> Uuid {
    let chassis = Uuid::try_parse(system_id)
        .unwrap_or_else(|_| Uuid::new_v5(&METADATA_AGENT_ROOT, system_id.as_bytes()));
    Uuid::new_v5(&chassis, b"metadata_agent")
}

/// Names of rows and of the things that carry them.
pub mod name {
    use uuid::Uuid;

    /// Port group of the default rule: drop all packets that no rule allows.
    pub const DROP_PORT_GROUP: &str = "neutron_pg_drop";

    const NEUTRON: &str = "neutron-";
    const ROUTER_PORT: &str = "lrp-";
    const CHASSIS_REDIRECT: &str = "cr-";
    const PROVIDER: &str = "provnet-";
    const METADATA: &str = "ovnmeta-";
    const LB_VIP: &str = "ovn-lb-vip-";
    const LB_HEALTH_MONITOR: &str = "ovn-lb-hm-";
    const PORT_FORWARDING: &str = "pf-floatingip-";

    /// Logical switch of a network: `neutron-<network>`.
    pub fn switch(network: Uuid) -> String {
        format!("{NEUTRON}{network}")
    }

    /// Logical router: `neutron-<router>`.
    pub fn router(router: Uuid) -> String {
        format!("{NEUTRON}{router}")
    }

    /// The network or router id in `neutron-<id>`.
    pub fn neutron_id(name: &str) -> Option<Uuid> {
        id_after(name, NEUTRON)
    }

    /// Logical router port: `lrp-<port>`.
    pub fn router_port(port: Uuid) -> String {
        format!("{ROUTER_PORT}{port}")
    }

    /// The port id in `lrp-<port>`.
    pub fn router_port_id(name: &str) -> Option<Uuid> {
        id_after(name, ROUTER_PORT)
    }

    /// The port binding of type chassisredirect that northd creates for a distributed gateway port: `cr-<router port>`.
    pub fn chassis_redirect(router_port: &str) -> String {
        format!("{CHASSIS_REDIRECT}{router_port}")
    }

    /// Localnet port of a network segment: `provnet-<segment>`.
    pub fn localnet_port(segment: Uuid) -> String {
        format!("{PROVIDER}{segment}")
    }

    /// The segment's id in `provnet-<segment>`.
    pub fn localnet_segment(name: &str) -> Option<Uuid> {
        id_after(name, PROVIDER)
    }

    /// Chassis group of one gateway port: `neutron-lrp-<port>`. One per port and never one per router; otherwise all gateways
    /// of a router would be on one chassis.
    pub fn gateway_chassis_group(port: Uuid) -> String {
        format!("{NEUTRON}{ROUTER_PORT}{port}")
    }

    /// Chassis group of a network's external ports: `neutron-<network>`.
    pub fn external_ports_chassis_group(network: Uuid) -> String {
        format!("{NEUTRON}{network}")
    }

    /// Chassis group of one external port: `neutron-extport-<port>`.
    pub fn external_port_chassis_group(port: Uuid) -> String {
        format!("{NEUTRON}extport-{port}")
    }

    /// `Gateway_Chassis` row as older deployments have it: `lrp-<port>_<chassis>`.
    pub fn gateway_chassis(router_port: &str, chassis: &str) -> String {
        format!("{router_port}_{chassis}")
    }

    /// Port group of a security group: `pg_<id>` with underscores, since `-` ends a name in a match.
    pub fn port_group(security_group: Uuid) -> String {
        format!("pg_{security_group}").replace('-', "_")
    }

    /// The address set that northd creates for a port group: `<group>_ip4` or `<group>_ip6`.
    pub fn port_group_addresses(port_group: &str, ipv6: bool) -> String {
        format!("{port_group}_ip{}", if ipv6 { 6 } else { 4 })
    }

    /// Address set of an address group: `ag_<id>_ip4` or `ag_<id>_ip6`.
    pub fn address_group(id: Uuid, ipv6: bool) -> String {
        format!("ag_{id}_ip{}", if ipv6 { 6 } else { 4 }).replace('-', "_")
    }

    /// Namespace of a network's metadata, and the device id of its port: `ovnmeta-<network>`.
    pub fn metadata(network: Uuid) -> String {
        format!("{METADATA}{network}")
    }

    /// The network id in `ovnmeta-<network>`.
    pub fn metadata_network(name: &str) -> Option<Uuid> {
        id_after(name, METADATA)
    }

    /// Name of a load balancer's VIP port: `ovn-lb-vip-<lb>`.
    pub fn lb_vip_port(load_balancer: Uuid) -> String {
        format!("{LB_VIP}{load_balancer}")
    }

    /// Name of the port of a further VIP, counted from 1: `ovn-lb-vip-additional-<n>-<lb>`.
    pub fn lb_additional_vip_port(load_balancer: Uuid, n: usize) -> String {
        format!("{LB_VIP}additional-{n}-{load_balancer}")
    }

    /// True for names of VIP ports, first or further.
    pub fn is_lb_vip_port(name: &str) -> bool {
        name.starts_with(LB_VIP)
    }

    /// Name of the port that sends the health checks of a subnet: `ovn-lb-hm-<subnet>`.
    pub fn lb_health_monitor_port(subnet: Uuid) -> String {
        format!("{LB_HEALTH_MONITOR}{subnet}")
    }

    /// The subnet of a port that sends health checks, from its name.
    pub fn lb_health_monitor_subnet(name: &str) -> Option<Uuid> {
        Uuid::try_parse(name.strip_prefix(LB_HEALTH_MONITOR)?).ok()
    }

    /// Whether Neutron created this load balancer for a port forwarding.
    pub fn is_port_forwarding_lb(name: &str) -> bool {
        name.starts_with(PORT_FORWARDING)
    }

    fn id_after(name: &str, prefix: &str) -> Option<Uuid> {
        let id = name.strip_prefix(prefix)?;
        if id.len() == 36 { Uuid::try_parse(id).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn derived_uuids_never_change() {
        // The values are frozen: a change would turn the rows of every existing deployment into foreign ones.
        assert_eq!(row_uuid("router-gateway", "p1", "group").to_string(), FROZEN);
        assert_eq!(row_uuid("router-gateway", "p1", "group").get_version_num(), 5);
    }

    const FROZEN: &str = "df8558d4-39a1-57e4-8c85-5e530ddb7167";

    #[test]
    fn marked_uuids_tell_their_owner() {
        let uuid = marked_uuid("cloud-a", "router", "r1", "neighbour");
        assert!(is_marked_uuid("cloud-a", uuid) && !is_marked_uuid("cloud-b", uuid));
        assert!(!is_marked_uuid("cloud-a", row_uuid("router", "r1", "neighbour")));
        let other = marked_uuid("cloud-a", "router", "r2", "neighbour");
        assert_ne!(uuid.as_bytes()[..4], other.as_bytes()[..4], "ovsdb-server hashes rows by these bytes");
    }

    #[test]
    fn metadata_agent() {
        assert_eq!(metadata_agent_id("ch1").to_string(), "902ae2af-c755-5c53-859c-c466137ed38c");
        let id = "6d657269-6469-616e-2d6f-766e2d696431";
        assert_eq!(metadata_agent_id(id), Uuid::new_v5(&Uuid::try_parse(id).unwrap(), b"metadata_agent"));
    }

    #[test]
    fn names() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let text = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(name::switch(id), format!("neutron-{text}"));
        assert_eq!(name::router_port(id), format!("lrp-{text}"));
        assert_eq!(name::chassis_redirect(&name::router_port(id)), format!("cr-lrp-{text}"));
        assert_eq!(name::localnet_port(id), format!("provnet-{text}"));
        assert_eq!(name::gateway_chassis_group(id), format!("neutron-lrp-{text}"));
        assert_eq!(name::external_port_chassis_group(id), format!("neutron-extport-{text}"));
        assert_eq!(name::gateway_chassis("lrp-1", "ch1"), "lrp-1_ch1");
        assert_eq!(name::port_group(id), "pg_01234567_89ab_cdef_0123_456789abcdef");
        assert_eq!(name::port_group_addresses("pg_a", true), "pg_a_ip6");
        assert_eq!(name::address_group(id, false), "ag_01234567_89ab_cdef_0123_456789abcdef_ip4");
        assert_eq!(name::lb_additional_vip_port(id, 1), format!("ovn-lb-vip-additional-1-{text}"));
        assert_eq!(name::neutron_id(&name::router(id)), Some(id));
        assert_eq!(name::router_port_id(&name::router_port(id)), Some(id));
        assert_eq!(name::metadata_network(&name::metadata(id)), Some(id));
        assert_eq!(name::localnet_segment(&name::localnet_port(id)), Some(id));
        for other in ["neutron-lrp-01234567-89ab-cdef-0123-456789abcdef", "neutron-x", "x", "neutron-"] {
            assert_eq!(name::neutron_id(other), None, "{other}");
        }
        assert!(name::is_lb_vip_port(&name::lb_vip_port(id)) && !name::is_lb_vip_port("ovn-lb-hm-1"));
        assert_eq!(name::lb_health_monitor_subnet(&name::lb_health_monitor_port(id)), Some(id));
        assert_eq!(name::lb_health_monitor_subnet("ovn-lb-hm-1"), None);
        assert!(name::is_port_forwarding_lb("pf-floatingip-1-tcp"));
        let group = name::port_group_addresses(&name::port_group(id), false);
        assert!(crate::text::match_expr::GroupName::new(&group).is_ok());
    }

    proptest! {
        #[test]
        fn different_triples_differ(a in "[a-c:1]{0,3}", b in "[a-c:1]{0,3}", c in "[a-c:1]{0,3}",
                                    d in "[a-c:1]{0,3}", e in "[a-c:1]{0,3}", f in "[a-c:1]{0,3}") {
            prop_assert_eq!(row_uuid(&a, &b, &c) == row_uuid(&d, &e, &f), (a, b, c) == (d, e, f));
        }
    }
}
