//! Values in the form of clients, in the form that OVN reads, and rejected ones.

use proptest::prelude::*;

use super::*;
use crate::text::dhcp::{DhcpOption, DhcpVersion};
use crate::text::strategy;

fn written(version: DhcpVersion, name: &str, text: &str) -> Result<String, DhcpError> {
    DhcpOption::named(version, name)?.parse(text).map(|value| value.to_string())
}

#[test]
fn values_that_clients_send() {
    for (name, text, expected) in [
        ("mtu", "1400", "1400"),
        ("mtu", " 0576 ", "576"),
        ("lease_time", "4294967295", "4294967295"),
        ("default_ttl", "255", "255"),
        ("ip_forward_enable", "1", "1"),
        ("ip_forward_enable", "False", "0"),
        ("server_id", "10.0.0.1", "10.0.0.1"),
        ("router", "10.0.0.1", "10.0.0.1"),
        ("router", "{10.0.0.1}", "{10.0.0.1}"),
        ("ntp_server", "10.0.0.1,10.0.0.2", "{10.0.0.1, 10.0.0.2}"),
        ("ntp_server", "{10.0.0.1 10.0.0.2,}", "{10.0.0.1, 10.0.0.2}"),
        ("bootfile_name", "pxe.0", r#""pxe.0""#),
        ("bootfile_name", r#""pxe.0""#, r#""pxe.0""#),
        (
            "bootfile_name",
            "http://[fd00::1]/${net0/mac}?a=b;c#d",
            r#""http://[fd00::1]/${net0/mac}?a=b;c#d""#,
        ),
        ("bootfile_name", r#"a"b\c"#, r#""a\"b\\c""#),
        ("tftp_server", "192.0.2.66", r#""192.0.2.66""#),
        ("domain_search_list", "a.example, b.example.", r#""a.example,b.example""#),
        ("domain_search_list", r#""a,b""#, r#""a,b""#),
        ("classless_static_route", "10.0.0.0/8,10.0.0.1", "{10.0.0.0/8,10.0.0.1}"),
        (
            "classless_static_route",
            "{10.1.2.3/8,10.0.0.1, 0.0.0.0/0,10.0.0.2}",
            "{10.0.0.0/8,10.0.0.1, 0.0.0.0/0,10.0.0.2}",
        ),
        ("server_mac", "FA:16:3E:00:00:01", "fa:16:3e:00:00:01"),
    ] {
        assert_eq!(written(DhcpVersion::V4, name, text).as_deref(), Ok(expected), "{name}: {text}");
    }
    for (name, text, expected) in [
        ("server_id", "fa:16:3e:00:00:01", "fa:16:3e:00:00:01"),
        ("dns_server", "2001:db8::1", "2001:db8::1"),
        ("dns_server", "2001:db8::1,::ffff:192.0.2.1", "{2001:db8::1, ::ffff:192.0.2.1}"),
        ("domain_search", "example.org", r#""example.org""#),
        ("bootfile_name", "http://[fd00::1]/x", r#""http://[fd00::1]/x""#),
        ("dhcpv6_stateless", "true", "true"),
    ] {
        assert_eq!(written(DhcpVersion::V6, name, text).as_deref(), Ok(expected), "{name}: {text}");
    }
}

#[test]
fn values_that_are_refused() {
    let attack =
        r#"1400); outport = "p"; next(pipeline=egress,table=8); reg0[3] = put_dhcp_opts(offerip = 1.2.3.4"#;
    let long = "x".repeat(256);
    let routes = vec!["10.1.2.3/32,10.0.0.1"; 29].join(",");
    for (version, name, text) in [
        (DhcpVersion::V4, "mtu", attack),
        (DhcpVersion::V4, "mtu", "65536"),
        (DhcpVersion::V4, "mtu", "+1"),
        (DhcpVersion::V4, "mtu", "-1"),
        (DhcpVersion::V4, "mtu", "0x10"),
        (DhcpVersion::V4, "mtu", ""),
        (DhcpVersion::V4, "tcp_ttl", "256"),
        (DhcpVersion::V4, "lease_time", "4294967296"),
        (DhcpVersion::V4, "ip_forward_enable", "2"),
        (DhcpVersion::V4, "server_id", "{10.0.0.1, 10.0.0.2}"),
        (DhcpVersion::V4, "server_id", "10.0.0.1, 10.0.0.2"),
        (DhcpVersion::V4, "server_id", "fd00::1"),
        (DhcpVersion::V4, "router", "{}"),
        (DhcpVersion::V4, "router", ","),
        (DhcpVersion::V4, "router", "10.0.0.1)"),
        (DhcpVersion::V4, "router", "{10.0.0.1"),
        (DhcpVersion::V4, "router", "{fd00::1}"),
        (DhcpVersion::V4, "router", "10.0.0.0/8"),
        (DhcpVersion::V4, "classless_static_route", "{10.0.0.0/8,10.0.0.1}); drop; {"),
        (DhcpVersion::V4, "classless_static_route", "{}"),
        (DhcpVersion::V4, "classless_static_route", "10.0.0.0/8"),
        (DhcpVersion::V4, "classless_static_route", &routes),
        (DhcpVersion::V4, "bootfile_name", &long),
        (DhcpVersion::V4, "bootfile_name", "a\0b"),
        (DhcpVersion::V4, "bootfile_name", r#""a" ); drop; ""#),
        (DhcpVersion::V4, "bootfile_name", "\""),
        (DhcpVersion::V4, "domain_search_list", "a b\"c"),
        (DhcpVersion::V4, "domain_search_list", ","),
        (DhcpVersion::V4, "server_mac", "x"),
        (DhcpVersion::V4, "offerip", "10.0.0.1"),
        (DhcpVersion::V4, "vendor_class", "x"),
        (DhcpVersion::V6, "dns_server", "10.0.0.1"),
        (DhcpVersion::V6, "server_id", "10.0.0.1"),
        (DhcpVersion::V6, "mtu", "1400"),
    ] {
        assert!(written(version, name, text).is_err(), "{name}: {text}");
    }
    assert_eq!(written(DhcpVersion::V4, "mtu", "x").unwrap_err(), DhcpError::Number("x".into(), 65535));
    assert_eq!(written(DhcpVersion::V4, "path_prefix", &long).unwrap_err(), DhcpError::Long(256, 255));
}

proptest! {
    /// Every accepted value is written so that it parses to the same value, and writing it again changes nothing.
    #[test]
    fn round_trip(text in prop_oneof![strategy::soup(), "\\PC{0,20}", "[{\"]?[0-9a-z., ]{0,20}[}\"]?"]) {
        for version in [DhcpVersion::V4, DhcpVersion::V6] {
            for option in DhcpOption::all(version) {
                let Ok(value) = option.parse(&text) else { continue };
                prop_assert!(option.check(&value).is_ok());
                let printed = value.to_string();
                prop_assert_eq!(option.parse(&printed), Ok(value), "{}: {:?} -> {:?}", option.name(), text, printed);
            }
        }
    }
}
