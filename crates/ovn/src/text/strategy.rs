//! Generators shared by the property tests of the small languages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::HostAddr;
use crate::mac::MacAddr;

pub(crate) fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

pub(crate) fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits))),
    ]
}

pub(crate) fn host_addr() -> impl Strategy<Value = HostAddr> {
    (ip(), any::<Option<u8>>()).prop_map(|(addr, len)| {
        let max = if addr.is_ipv4() { 32 } else { 128 };
        HostAddr { addr, len: len.map(|len| len % (max + 1)) }
    })
}

/// A string that resembles the language often enough to reach deep into its parser.
pub(crate) fn soup() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("fa:16:3e:00:00:01".to_owned()),
        Just("dynamic".to_owned()),
        Just("unknown".to_owned()),
        Just("router".to_owned()),
        Just("VRRPv3".to_owned()),
        Just("is_chassis_resident(\"".to_owned()),
        Just("\")".to_owned()),
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}(/[0-9.]{0,4})?",
        "\\[?[0-9a-f:]{2,12}\\]?(:[0-9]{0,6})?",
        "[ -~]{0,8}",
        ".{0,6}",
    ];
    (
        proptest::collection::vec(token, 0..6),
        prop_oneof![Just(" "), Just(","), Just(":"), Just("_"), Just("")],
    )
        .prop_map(|(tokens, glue)| tokens.join(glue))
}
