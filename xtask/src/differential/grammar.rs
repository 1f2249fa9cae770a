//! The attributes of requests with their values, right and wrong ones.
//!
//! A value is JSON in which `$network` stands for an object of that kind, `$parent` for the object that the request is about, `$inside` for
//! a subnet of that network, `$net` for a prefix that no other subnet has, `$ip` for an address outside of a pool.

/// A kind of object.
#[derive(Debug)]
pub(super) struct Noun {
    pub(super) kind: &'static str,
    pub(super) collection: &'static str,
    /// How often there are requests for it.
    pub(super) weight: u32,
    /// Whether it can be updated.
    pub(super) updated: bool,
    /// The kind of its parent, `$parent` in its values.
    pub(super) parent: &'static str,
    /// The body of an ordinary request.
    pub(super) base: &'static str,
    pub(super) attributes: &'static [Attribute],
}

/// An attribute. A name that begins with a brace stands for several: its values are objects.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    pub(super) values: &'static [&'static str],
}

const fn attribute(name: &'static str, values: &'static [&'static str]) -> Attribute {
    Attribute { name, values }
}

const NAME: Attribute = attribute("name", &["\"\"", "\"web\"", "null", "7", "\"ünï\""]);
const DESCRIPTION: Attribute = attribute("description", &["\"\"", "\"words\"", "null", "true"]);
const ADMIN_STATE: Attribute =
    attribute("admin_state_up", &["true", "false", "\"False\"", "0", "null", "\"maybe\""]);
const PROJECT: Attribute = attribute("project_id", &["\"$own_project\"", "\"$other_project\"", "null"]);
const UNKNOWN: Attribute = attribute("colour", &["\"blue\""]);
const SHARED: Attribute = attribute("shared", &["true", "false", "null"]);

pub(super) const NOUNS: &[Noun] = &[
    Noun {
        kind: "network",
        collection: "networks",
        weight: 12,
        updated: true,
        parent: "none",
        base: r#"{"name": "net"}"#,
        attributes: &[
            NAME,
            DESCRIPTION,
            ADMIN_STATE,
            PROJECT,
            UNKNOWN,
            SHARED,
            attribute("mtu", &["1400", "1280", "67", "-1", "100000", "\"1400\"", "null", "\"big\""]),
            attribute("port_security_enabled", &["true", "false", "null"]),
            attribute("router:external", &["true", "false"]),
            attribute("is_default", &["true", "false"]),
            attribute("dns_domain", &["\"example.org.\"", "\"example.org\"", "\"\"", "\"-bad-\"", "null"]),
            attribute("availability_zone_hints", &["[]", "[\"nowhere\"]", "null", "\"az1\""]),
            attribute(
                "{provider}",
                &[
                    r#"{"provider:network_type": "flat", "provider:physical_network": "$physical", "router:external": true}"#,
                    r#"{"provider:network_type": "flat"}"#,
                    r#"{"provider:network_type": "vlan", "provider:physical_network": "phy1", "provider:segmentation_id": 5000}"#,
                    r#"{"provider:network_type": "geneve", "provider:physical_network": "phy1"}"#,
                    r#"{"provider:network_type": "carrier pigeon"}"#,
                    r#"{"provider:physical_network": "phy1"}"#,
                ],
            ),
        ],
    },
    Noun {
        kind: "subnet",
        collection: "subnets",
        weight: 16,
        updated: true,
        parent: "network",
        base: r#"{"network_id": "$parent", "ip_version": 4, "cidr": "$net.0/24", "allocation_pools": [{"start": "$net.10", "end": "$net.99"}]}"#,
        attributes: &[
            NAME,
            DESCRIPTION,
            PROJECT,
            UNKNOWN,
            attribute("enable_dhcp", &["true", "false", "null"]),
            attribute("gateway_ip", &["null", "\"192.0.2.1\"", "\"bogus\"", "\"\""]),
            attribute(
                "dns_nameservers",
                &[
                    "[\"192.0.2.53\"]",
                    "[\"192.0.2.53\", \"192.0.2.53\"]",
                    "[]",
                    "null",
                    "[\"bogus\"]",
                    "\"192.0.2.53\"",
                ],
            ),
            attribute(
                "host_routes",
                &[
                    r#"[{"destination": "192.0.2.0/24", "nexthop": "10.1.0.5"}]"#,
                    "[]",
                    "null",
                    r#"[{"destination": "192.0.2.0/24"}]"#,
                    r#"[{"destination": "192.0.2.7/24", "nexthop": "10.1.0.5"}]"#,
                    r#"[{"destination": "192.0.2.0/24", "nexthop": "fd00::1"}]"#,
                ],
            ),
            attribute(
                "allocation_pools",
                &[
                    "[]",
                    "null",
                    r#"[{"start": "192.0.2.1", "end": "192.0.2.9"}]"#,
                    r#"[{"start": "bogus", "end": "192.0.2.9"}]"#,
                    "[{}]",
                ],
            ),
            attribute(
                "service_types",
                &[
                    "[\"compute:nova\"]",
                    "[\"network:dhcp\", \"compute:nova\"]",
                    "[\"bogus:owner\"]",
                    "null",
                    "[]",
                    "[7]",
                ],
            ),
            attribute("ip_version", &["6", "5", "\"4\"", "null"]),
            attribute(
                "cidr",
                &["\"bogus\"", "\"0.0.0.0/0\"", "null", "\"10.1.0.7/24\"", "\"fd00::/64\"", "\"10.1.0.0\""],
            ),
            attribute("network_id", &["\"$network\"", "\"bogus\"", "null"]),
            attribute("segment_id", &["null"]),
            attribute("use_default_subnetpool", &["true", "false"]),
            attribute(
                "{another}",
                &[
                    r#"{"cidr": "$net.0/24", "allocation_pools": [{"start": "$net.10", "end": "$net.99"}], "gateway_ip": "$net.254"}"#,
                    r#"{"cidr": "$net.0/24", "allocation_pools": [{"start": "$net.10", "end": "$net.99"}], "gateway_ip": "$net.50"}"#,
                    r#"{"cidr": "$net.0/24", "allocation_pools": [{"start": "$net.99", "end": "$net.10"}]}"#,
                    r#"{"cidr": "$net.0/24", "allocation_pools": [{"start": "$net.10", "end": "$net.50"}, {"start": "$net.40", "end": "$net.99"}]}"#,
                    r#"{"cidr": "$net.0/30", "allocation_pools": null}"#,
                    r#"{"cidr": "$net.0/31", "allocation_pools": null}"#,
                    r#"{"cidr": "$net.0/32", "allocation_pools": null}"#,
                ],
            ),
            attribute(
                "{six}",
                &[
                    r#"{"ip_version": 6, "cidr": "$six:/64", "allocation_pools": null}"#,
                    r#"{"ip_version": 6, "cidr": "$six:/64", "allocation_pools": [], "ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"}"#,
                    r#"{"ip_version": 6, "cidr": "$six:/64", "allocation_pools": [], "ipv6_address_mode": "dhcpv6-stateful", "ipv6_ra_mode": "dhcpv6-stateful"}"#,
                    r#"{"ip_version": 6, "cidr": "$six:/64", "allocation_pools": [], "ipv6_address_mode": "dhcpv6-stateless"}"#,
                    r#"{"ip_version": 6, "cidr": "$six:/64", "allocation_pools": [], "ipv6_address_mode": "slaac", "ipv6_ra_mode": "dhcpv6-stateful"}"#,
                    r#"{"ip_version": 6, "cidr": "$six:/80", "allocation_pools": [], "ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"}"#,
                    r#"{"ip_version": 6, "cidr": "$six:/64", "allocation_pools": [], "ipv6_ra_mode": "slaac", "enable_dhcp": false}"#,
                    r#"{"ipv6_ra_mode": "slaac"}"#,
                ],
            ),
            attribute(
                "{pooled}",
                &[
                    r#"{"subnetpool_id": "$subnetpool", "cidr": null, "allocation_pools": []}"#,
                    r#"{"subnetpool_id": "$subnetpool", "prefixlen": 26, "cidr": null, "allocation_pools": []}"#,
                    r#"{"subnetpool_id": "$subnetpool", "prefixlen": 8, "cidr": null, "allocation_pools": []}"#,
                    r#"{"prefixlen": 26}"#,
                ],
            ),
        ],
    },
    Noun {
        kind: "port",
        collection: "ports",
        weight: 22,
        updated: true,
        parent: "network",
        base: r#"{"network_id": "$parent", "name": "port"}"#,
        attributes: &[
            NAME,
            DESCRIPTION,
            ADMIN_STATE,
            PROJECT,
            UNKNOWN,
            attribute(
                "fixed_ips",
                &[
                    "[]",
                    "null",
                    r#"[{"subnet_id": "$inside"}]"#,
                    r#"[{"subnet_id": "$inside"}, {"subnet_id": "$inside"}]"#,
                    r#"[{"ip_address": "$ip"}]"#,
                    r#"[{"subnet_id": "$inside", "ip_address": "$ip"}]"#,
                    r#"[{"ip_address": "192.0.2.7"}]"#,
                    r#"[{"ip_address": "bogus"}]"#,
                    r#"[{"subnet_id": "$subnet"}]"#,
                    "[{}]",
                    "\"none\"",
                ],
            ),
            attribute(
                "mac_address",
                &[
                    "\"$mac\"",
                    "\"02-ab-cd-00-00-02\"",
                    "\"01:00:00:00:00:01\"",
                    "\"00:00:00:00:00:00\"",
                    "\"bogus\"",
                    "null",
                    "\"02:AB:CD:00:00:03\"",
                ],
            ),
            attribute(
                "security_groups",
                &[
                    "[]",
                    "null",
                    "[\"$security_group\"]",
                    "[\"$security_group\", \"$security_group\"]",
                    "[\"bogus\"]",
                ],
            ),
            attribute("port_security_enabled", &["true", "false", "null"]),
            attribute(
                "device_owner",
                &[
                    "\"compute:nova\"",
                    "\"network:dhcp\"",
                    "\"network:router_interface\"",
                    "\"\"",
                    "null",
                    "\"baremetal:none\"",
                ],
            ),
            attribute("device_id", &["\"vm1\"", "\"\"", "null"]),
            attribute(
                "allowed_address_pairs",
                &[
                    r#"[{"ip_address": "192.0.2.7"}]"#,
                    r#"[{"ip_address": "192.0.2.0/24", "mac_address": "02:00:00:00:00:77"}]"#,
                    r#"[{"ip_address": "192.0.2.7"}, {"ip_address": "192.0.2.7"}]"#,
                    r#"[{"ip_address": "bogus"}]"#,
                    r#"[{"mac_address": "02:00:00:00:00:77"}]"#,
                    "[]",
                    "null",
                ],
            ),
            attribute(
                "extra_dhcp_opts",
                &[
                    r#"[{"opt_name": "bootfile-name", "opt_value": "x.0"}]"#,
                    r#"[{"opt_name": "bootfile-name"}]"#,
                    r#"[{"opt_name": "bootfile-name", "opt_value": "x.0", "ip_version": 6}]"#,
                    r#"[{"opt_name": "", "opt_value": "x.0"}]"#,
                    "[]",
                    "null",
                ],
            ),
            attribute("binding:host_id", &["\"ch1.example\"", "\"nowhere\"", "\"\"", "null"]),
            attribute("binding:vnic_type", &["\"normal\"", "\"direct\"", "\"bogus\""]),
            attribute("binding:profile", &["{}", "null", "{\"a\": \"b\"}", "\"x\""]),
            attribute("dns_name", &["\"web\"", "\"\"", "\"web.other.org.\"", "\"-bad\"", "null"]),
            attribute("network_id", &["\"$network\"", "\"bogus\""]),
        ],
    },
    Noun {
        kind: "router",
        collection: "routers",
        weight: 10,
        updated: true,
        parent: "none",
        base: r#"{"name": "router"}"#,
        attributes: &[
            NAME,
            DESCRIPTION,
            ADMIN_STATE,
            PROJECT,
            UNKNOWN,
            attribute(
                "external_gateway_info",
                &[
                    r#"{"network_id": "$external"}"#,
                    r#"{"network_id": "$external", "enable_snat": false}"#,
                    r#"{"network_id": "$external", "external_fixed_ips": [{"ip_address": "$ip"}]}"#,
                    r#"{"network_id": "$external", "external_fixed_ips": [{"ip_address": "192.0.2.9"}]}"#,
                    r#"{"network_id": "$network"}"#,
                    r#"{"network_id": "bogus"}"#,
                    r#"{"enable_snat": true}"#,
                    "{}",
                    "null",
                    "\"none\"",
                ],
            ),
            attribute("ha", &["true", "false"]),
            attribute("distributed", &["true", "false"]),
            attribute("enable_default_route_bfd", &["true", "false", "null"]),
            attribute("enable_default_route_ecmp", &["true", "false", "null"]),
            attribute("availability_zone_hints", &["[]", "[\"az1\"]", "[\"nowhere\"]", "null"]),
            attribute(
                "routes",
                &[
                    "[]",
                    "null",
                    r#"[{"destination": "192.0.2.0/24", "nexthop": "$ip"}]"#,
                    r#"[{"destination": "192.0.2.0/24", "nexthop": "10.251.0.240"}]"#,
                    r#"[{"destination": "192.0.2.0/24", "nexthop": "10.251.0.240"}, {"destination": "192.0.2.0/24", "nexthop": "10.251.0.240"}]"#,
                    r#"[{"destination": "bogus", "nexthop": "10.251.0.240"}]"#,
                    r#"[{"destination": "192.0.2.0/24"}]"#,
                ],
            ),
        ],
    },
    Noun {
        kind: "floatingip",
        collection: "floatingips",
        weight: 9,
        updated: true,
        parent: "external",
        base: r#"{"floating_network_id": "$parent"}"#,
        attributes: &[
            DESCRIPTION,
            PROJECT,
            UNKNOWN,
            attribute("port_id", &["\"$port\"", "\"$port\"", "\"$port\"", "null", "\"bogus\""]),
            attribute("fixed_ip_address", &["\"10.251.0.240\"", "\"bogus\"", "null"]),
            attribute("floating_ip_address", &["\"10.250.0.$octet\"", "\"192.0.2.7\"", "\"bogus\""]),
            attribute("subnet_id", &["\"$subnet\"", "\"bogus\""]),
            attribute("floating_network_id", &["\"$network\"", "\"bogus\"", "null"]),
            attribute("dns_domain", &["\"example.org.\"", "\"no dot\"", "\"\""]),
            attribute("dns_name", &["\"web\"", "\"\""]),
        ],
    },
    Noun {
        kind: "security_group",
        collection: "security-groups",
        weight: 6,
        updated: true,
        parent: "none",
        base: r#"{"name": "group"}"#,
        attributes: &[
            NAME,
            DESCRIPTION,
            PROJECT,
            UNKNOWN,
            attribute("stateful", &["true", "false", "null"]),
            attribute("name", &["\"default\"", "\"Default\""]),
        ],
    },
    Noun {
        kind: "security_group_rule",
        collection: "security-group-rules",
        weight: 12,
        updated: false,
        parent: "security_group",
        base: r#"{"security_group_id": "$parent", "direction": "ingress", "protocol": "tcp", "port_range_min": 80, "port_range_max": 90}"#,
        attributes: &[
            DESCRIPTION,
            PROJECT,
            UNKNOWN,
            attribute("direction", &["\"egress\"", "\"sideways\"", "null"]),
            attribute("ethertype", &["\"IPv4\"", "\"IPv6\"", "\"ipv6\"", "\"IPv5\"", "null"]),
            attribute(
                "protocol",
                &[
                    "\"udp\"",
                    "\"icmp\"",
                    "\"icmpv6\"",
                    "\"ipv6-icmp\"",
                    "\"58\"",
                    "6",
                    "\"256\"",
                    "\"bogus\"",
                    "null",
                    "\"vrrp\"",
                    "\"0\"",
                    "\"any\"",
                    "\"sctp\"",
                ],
            ),
            attribute("port_range_min", &["null", "91", "0", "-1", "70000", "\"80\"", "\"http\""]),
            attribute("port_range_max", &["null", "79", "65535", "-1", "70000"]),
            attribute(
                "remote_ip_prefix",
                &[
                    "\"192.0.2.0/24\"",
                    "\"192.0.2.7/24\"",
                    "\"192.0.2.7\"",
                    "\"fd00::/64\"",
                    "\"bogus\"",
                    "null",
                    "\"0.0.0.0/0\"",
                    "\"\"",
                ],
            ),
            attribute("remote_group_id", &["\"$security_group\"", "\"bogus\"", "null"]),
            attribute(
                "{icmp}",
                &[
                    r#"{"protocol": "icmp", "port_range_min": 8, "port_range_max": 0}"#,
                    r#"{"protocol": "icmp", "port_range_min": 256, "port_range_max": null}"#,
                    r#"{"protocol": "icmp", "port_range_min": null, "port_range_max": 0}"#,
                    r#"{"protocol": "icmp", "port_range_min": 8, "port_range_max": null}"#,
                    r#"{"protocol": null, "port_range_min": null, "port_range_max": null}"#,
                    r#"{"protocol": "vrrp", "port_range_min": null, "port_range_max": null}"#,
                    r#"{"protocol": "58", "ethertype": "IPv6", "port_range_min": null, "port_range_max": null}"#,
                ],
            ),
        ],
    },
    Noun {
        kind: "address_scope",
        collection: "address-scopes",
        weight: 4,
        updated: true,
        parent: "none",
        base: r#"{"name": "scope", "ip_version": 4}"#,
        attributes: &[NAME, PROJECT, UNKNOWN, SHARED, attribute("ip_version", &["6", "5", "\"4\"", "null"])],
    },
    Noun {
        kind: "subnetpool",
        collection: "subnetpools",
        weight: 6,
        updated: true,
        parent: "none",
        base: r#"{"name": "pool", "prefixes": ["10.240.0.0/16"]}"#,
        attributes: &[
            NAME,
            DESCRIPTION,
            PROJECT,
            UNKNOWN,
            SHARED,
            attribute(
                "prefixes",
                &[
                    "[\"10.240.0.0/16\", \"10.241.0.0/16\"]",
                    "[]",
                    "[\"fd00:240::/48\"]",
                    "[\"10.240.0.0/16\", \"fd00:240::/48\"]",
                    "[\"bogus\"]",
                    "null",
                ],
            ),
            attribute("default_prefixlen", &["24", "33", "\"25\"", "null"]),
            attribute("min_prefixlen", &["20", "30", "null", "-1"]),
            attribute("max_prefixlen", &["28", "8", "null"]),
            attribute("default_quota", &["1", "0", "-1", "null"]),
            attribute("is_default", &["true", "false"]),
            attribute("address_scope_id", &["\"$address_scope\"", "null", "\"bogus\""]),
        ],
    },
    Noun {
        kind: "rbac_policy",
        collection: "rbac-policies",
        weight: 6,
        updated: true,
        parent: "network",
        base: r#"{"object_type": "network", "object_id": "$parent", "action": "access_as_shared", "target_tenant": "$other_project"}"#,
        attributes: &[
            PROJECT,
            UNKNOWN,
            attribute("action", &["\"access_as_external\"", "\"access_as_bogus\"", "null"]),
            attribute("target_tenant", &["\"*\"", "\"$own_project\"", "\"\"", "null"]),
            attribute("object_id", &["\"$subnetpool\"", "\"bogus\"", "\"$external\""]),
            attribute("object_type", &["\"router\"", "\"qos_policy\""]),
            attribute(
                "{other}",
                &[
                    r#"{"object_type": "security_group", "object_id": "$security_group"}"#,
                    r#"{"object_type": "address_scope", "object_id": "$address_scope"}"#,
                    r#"{"object_type": "subnetpool", "object_id": "$subnetpool"}"#,
                ],
            ),
        ],
    },
];
