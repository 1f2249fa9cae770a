//! DHCP options that a port has of its own, in OVN's words. Those that OVN has no word for are left out.

use ovn::text::dhcp::QuotedText;
use ovsdb::Str;

use super::dhcp::STATIC_ROUTES;
use super::text;
use crate::model::Port;

/// The API's name, the option's code, and what OVN calls it.
type Known = (&'static str, &'static str, &'static str);

const V4: [Known; 33] = [
    ("netmask", "1", "netmask"),
    ("router", "3", "router"),
    ("dns-server", "6", "dns_server"),
    ("log-server", "7", "log_server"),
    ("lpr-server", "9", "lpr_server"),
    ("domain-name", "15", "domain_name"),
    ("swap-server", "16", "swap_server"),
    ("ip-forward-enable", "19", "ip_forward_enable"),
    ("policy-filter", "21", "policy_filter"),
    ("default-ttl", "23", "default_ttl"),
    ("mtu", "26", "mtu"),
    ("router-discovery", "31", "router_discovery"),
    ("router-solicitation", "32", "router_solicitation"),
    ("arp-timeout", "35", "arp_cache_timeout"),
    ("ethernet-encap", "36", "ethernet_encap"),
    ("tcp-ttl", "37", "tcp_ttl"),
    ("tcp-keepalive", "38", "tcp_keepalive_interval"),
    ("nis-server", "41", "nis_server"),
    ("ntp-server", "42", "ntp_server"),
    ("lease-time", "51", "lease_time"),
    ("server-id", "54", "server_id"),
    ("T1", "58", "T1"),
    ("T2", "59", "T2"),
    ("tftp-server", "66", "tftp_server"),
    ("bootfile-name", "67", "bootfile_name"),
    ("bootfile-name-alt", "", "bootfile_name_alt"),
    ("domain-search", "119", "domain_search_list"),
    ("classless-static-route", "121", STATIC_ROUTES),
    ("tftp-server-address", "150", "tftp_server_address"),
    ("path-prefix", "210", "path_prefix"),
    ("ms-classless-static-route", "249", "ms_classless_static_route"),
    ("wpad", "252", "wpad"),
    ("server-ip-address", "255", "next_server"),
];

const V6: [Known; 5] = [
    ("server-id", "2", "server_id"),
    ("ia-addr", "5", "ia_addr"),
    ("dns-server", "23", "dns_server"),
    ("domain-search", "24", "domain_search"),
    ("bootfile-name", "59", "bootfile_name"),
];

/// What bare metal says of the two stages of its boot, in either family.
const STAGES: [(&str, &str); 8] = [
    ("tag:ipxe,bootfile-name", "bootfile_name"),
    ("tag:ipxe,67", "bootfile_name"),
    ("tag:!ipxe,bootfile-name", "bootfile_name_alt"),
    ("tag:!ipxe,67", "bootfile_name_alt"),
    ("tag:ipxe6,bootfile-name", "bootfile_name"),
    ("tag:ipxe6,59", "bootfile_name"),
    ("tag:!ipxe6,bootfile-name", "bootfile_name_alt"),
    ("tag:!ipxe6,59", "bootfile_name_alt"),
];

/// Options whose value is a string, which northd wants in quotes.
const QUOTED: [&str; 7] = [
    "bootfile_name",
    "bootfile_name_alt",
    "domain_name",
    "domain_search_list",
    "path_prefix",
    "tftp_server",
    "wpad",
];

/// The options of a port for one family; none if it wants no DHCP at all.
pub(super) fn of_port(port: &Port, version: u8) -> Option<Vec<(Str, Str)>> {
    let mut all = Vec::new();
    for option in port.extra_dhcp_opts.iter().filter(|option| option.ip_version == version) {
        let (name, value) = (option.opt_name.as_str(), option.opt_value.as_str());
        if name.eq_ignore_ascii_case("dhcp_disabled") && (value.eq_ignore_ascii_case("true") || value == "1")
        {
            return None;
        }
        let known = if version == 4 { &V4[..] } else { &V6[..] };
        let known = known.iter().find(|known| known.0 == name || (known.1 == name && !name.is_empty()));
        let stage =
            STAGES.iter().filter(|_| port.binding.vnic_type == "baremetal").find(|stage| stage.0 == name);
        if let Some(name) = known.map(|known| known.2).or(stage.map(|stage| stage.1)) {
            all.push((Str::new_static(name), written(name, value)));
        }
    }
    Some(all)
}

fn written(name: &str, value: &str) -> Str {
    let within = |open: char, close: char| value.starts_with(open) && value.ends_with(close);
    if QUOTED.contains(&name) && !within('"', '"') {
        return text(QuotedText(value.to_owned()));
    }
    if name == STATIC_ROUTES && !within('{', '}') {
        return text(format_args!("{{{value}}}"));
    }
    Str::new(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtraDhcpOpt;

    #[test]
    fn options_by_name_and_by_code() {
        type Written = Option<(&'static str, &'static str)>;
        let cases: [(u8, &str, &str, &str, Written); 15] = [
            (4, "normal", "bootfile-name", "pxe.0", Some(("bootfile_name", "\"pxe.0\""))),
            (4, "normal", "67", "\"pxe.0\"", Some(("bootfile_name", "\"pxe.0\""))),
            (4, "normal", "tftp-server", "192.0.2.66", Some(("tftp_server", "\"192.0.2.66\""))),
            (4, "normal", "150", "192.0.2.67", Some(("tftp_server_address", "192.0.2.67"))),
            (4, "normal", "tcp-keepalive", "60", Some(("tcp_keepalive_interval", "60"))),
            (4, "normal", "domain-search", "a,b", Some(("domain_search_list", "\"a,b\""))),
            (6, "normal", "domain-search", "a", Some(("domain_search", "a"))),
            (6, "normal", "23", "2620:fe::9", Some(("dns_server", "2620:fe::9"))),
            (4, "normal", "121", "10.0.0.0/8,10.0.0.1", Some((STATIC_ROUTES, "{10.0.0.0/8,10.0.0.1}"))),
            (4, "normal", "vendor-class", "x", None),
            (6, "normal", "mtu", "1400", None),
            (4, "normal", "", "x", None),
            (4, "normal", "tag:ipxe,67", "x", None),
            (4, "baremetal", "tag:ipxe,67", "x", Some(("bootfile_name", "\"x\""))),
            (6, "baremetal", "tag:!ipxe6,59", "x", Some(("bootfile_name_alt", "\"x\""))),
        ];
        for (ip_version, vnic_type, name, value, expected) in cases {
            let mut port = crate::desired::tests::scene::port(0x51, 0x10, 0x20, "10.0.0.5");
            port.binding.vnic_type = vnic_type.into();
            port.extra_dhcp_opts =
                vec![ExtraDhcpOpt { opt_name: name.into(), opt_value: value.into(), ip_version }];
            let found = of_port(&port, ip_version).unwrap();
            let found = found.first().map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(found, expected, "{name}");
            assert_eq!(of_port(&port, 10 - ip_version), Some(Vec::new()), "{name}");
        }
    }
}
