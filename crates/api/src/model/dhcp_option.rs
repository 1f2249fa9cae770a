//! DHCP options of ports: the API's names of OVN's options, and values of OVN's types.
//!
//! A client's string never reaches the Northbound. [`ExtraDhcpOpt::typed`] finds OVN's option and parses the string as its type. The API
//! refuses strings that do not parse, and rows are written from the parsed values.

use ovn::text::dhcp::{DhcpError, DhcpOption, DhcpValue, DhcpVersion};

use super::ExtraDhcpOpt;

/// The API's name, the option's code, and OVN's name.
type KnownName = (&'static str, &'static str, &'static str);

const V4: [KnownName; 33] = [
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
    ("classless-static-route", "121", "classless_static_route"),
    ("tftp-server-address", "150", "tftp_server_address"),
    ("path-prefix", "210", "path_prefix"),
    ("ms-classless-static-route", "249", "ms_classless_static_route"),
    ("wpad", "252", "wpad"),
    ("server-ip-address", "255", "next_server"),
];

const V6: [KnownName; 5] = [
    ("server-id", "2", "server_id"),
    ("ia-addr", "5", "ia_addr"),
    ("dns-server", "23", "dns_server"),
    ("domain-search", "24", "domain_search"),
    ("bootfile-name", "59", "bootfile_name"),
];

/// The names that bare metal uses for the two stages of its boot, in both families.
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

impl ExtraDhcpOpt {
    /// Whether the option turns DHCP off for the port.
    pub fn disables_dhcp(&self) -> bool {
        let value = self.opt_value.as_str();
        self.opt_name.eq_ignore_ascii_case("dhcp_disabled")
            && (value.eq_ignore_ascii_case("true") || value == "1")
    }

    /// Whether the name is one of the stages of a boot, which apply to bare metal only.
    pub fn is_boot_stage(&self) -> bool {
        STAGES.iter().any(|stage| stage.0 == self.opt_name)
    }

    /// OVN's option of this name. Many that clients send are unknown to OVN; those are stored but not written.
    pub fn option(&self) -> Option<&'static DhcpOption> {
        let name = self.opt_name.as_str();
        let (version, known) = match self.ip_version {
            6 => (DhcpVersion::V6, &V6[..]),
            _ => (DhcpVersion::V4, &V4[..]),
        };
        let known = known.iter().find(|known| known.0 == name || (known.1 == name && !name.is_empty()));
        let stage = STAGES.iter().find(|stage| stage.0 == name);
        let name = known.map(|known| known.2).or(stage.map(|stage| stage.1))?;
        DhcpOption::named(version, name).ok()
    }

    /// The option and its value parsed as the option's type, if OVN knows the option.
    pub fn typed(&self) -> Option<(&'static DhcpOption, Result<DhcpValue, DhcpError>)> {
        let option = self.option()?;
        Some((option, option.parse(&self.opt_value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_of_ovns() {
        for (version, names) in [(DhcpVersion::V4, &V4[..]), (DhcpVersion::V6, &V6[..])] {
            for (_, _, name) in names {
                assert!(DhcpOption::named(version, name).is_ok(), "{name}");
            }
            for (_, name) in STAGES {
                assert!(DhcpOption::named(version, name).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn options_by_name_and_by_code() {
        type Written = Option<(&'static str, &'static str)>;
        let cases: [(u8, &str, &str, Written); 14] = [
            (4, "bootfile-name", "pxe.0", Some(("bootfile_name", "\"pxe.0\""))),
            (4, "67", "\"pxe.0\"", Some(("bootfile_name", "\"pxe.0\""))),
            (4, "tftp-server", "192.0.2.66", Some(("tftp_server", "\"192.0.2.66\""))),
            (4, "150", "192.0.2.67", Some(("tftp_server_address", "192.0.2.67"))),
            (4, "tcp-keepalive", "60", Some(("tcp_keepalive_interval", "60"))),
            (4, "domain-search", "a,b", Some(("domain_search_list", "\"a,b\""))),
            (6, "domain-search", "a", Some(("domain_search", "\"a\""))),
            (6, "23", "2620:fe::9", Some(("dns_server", "2620:fe::9"))),
            (4, "121", "10.0.0.0/8,10.0.0.1", Some(("classless_static_route", "{10.0.0.0/8,10.0.0.1}"))),
            (4, "vendor-class", "x", None),
            (6, "mtu", "1400", None),
            (4, "", "x", None),
            (4, "tag:ipxe,67", "x", Some(("bootfile_name", "\"x\""))),
            (6, "tag:!ipxe6,59", "x", Some(("bootfile_name_alt", "\"x\""))),
        ];
        for (ip_version, name, value, expected) in cases {
            let option = ExtraDhcpOpt { opt_name: name.into(), opt_value: value.into(), ip_version };
            let found = option.typed().map(|(option, value)| (option.name(), value.unwrap().to_string()));
            assert_eq!(found.as_ref().map(|(name, value)| (*name, value.as_str())), expected, "{name}");
        }
    }
}
