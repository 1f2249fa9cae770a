use super::*;
use crate::text::{Text, strategy};
use proptest::prelude::*;

const MAC: &str = "fa:16:3e:00:00:01";

#[test]
fn addresses_forms() {
    for (text, back) in [
        ("unknown", "unknown"),
        (" router ", "router"),
        ("dynamic", "dynamic"),
        ("dynamic 10.0.0.9 fd00::9", "dynamic 10.0.0.9 fd00::9"),
        ("FA:16:3E:00:00:01 dynamic", "fa:16:3e:00:00:01 dynamic"),
        ("fa:16:3e:00:00:01", "fa:16:3e:00:00:01"),
        ("  fa:16:3e:00:00:01\t10.0.0.4   fd00::4 ", "fa:16:3e:00:00:01 10.0.0.4 fd00::4"),
        (
            "fa:16:3e:aa:00:01 172.24.4.221/24 2001:db8::221/64",
            "fa:16:3e:aa:00:01 172.24.4.221/24 2001:db8::221/64",
        ),
    ] {
        assert_eq!(text.parse::<PortAddresses>().unwrap().to_string(), back, "{text}");
        assert_eq!(Text::<PortAddresses>::new(text).to_string(), text);
    }
}

#[test]
fn addresses_errors() {
    let error = |text: &str| text.parse::<PortAddresses>().unwrap_err();
    assert_eq!(error(" "), AddressesError::Empty);
    assert_eq!(error("unknown x"), AddressesError::Trailing("unknown"));
    assert_eq!(error("router 10.0.0.1"), AddressesError::Trailing("router"));
    assert_eq!(error(&format!("{MAC} dynamic 10.0.0.1")), AddressesError::Trailing("dynamic"));
    assert!(matches!(error("10.0.0.4"), AddressesError::Mac(_)));
    assert!(matches!(error(&format!("{MAC} 10.0.0.4 nonsense")), AddressesError::Ip { position: 2, .. }));
    assert!(matches!(error("VRRPv3"), AddressesError::Mac(_)), "not in this column");
}

#[test]
fn accessors() {
    let fixed: PortAddresses = format!("{MAC} 10.0.0.1/24 fd00::1").parse().unwrap();
    assert_eq!(fixed.mac().unwrap().to_string(), MAC);
    assert_eq!(fixed.ips().map(|ip| ip.to_string()).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
    let dynamic: PortAddresses = "dynamic 10.0.0.9".parse().unwrap();
    assert_eq!((dynamic.mac(), dynamic.ips().count()), (None, 0));
}

#[test]
fn port_security_forms() {
    for text in [
        "fa:16:3e:00:00:01",
        "fa:16:3e:00:00:01 10.0.0.4 10.0.1.0/24 fd00::/64",
        "VRRPv3 fa:16:3e:00:00:01 00:00:5e:00:01:05 10.0.0.9",
        "VRRPv3 fa:16:3e:00:00:01 00:00:5e:00:01:05",
    ] {
        assert_eq!(text.parse::<PortSecurity>().unwrap().to_string(), text);
    }
    assert_eq!("".parse::<PortSecurity>(), Err(AddressesError::Empty));
    assert_eq!(format!("VRRPv3 {MAC}").parse::<PortSecurity>(), Err(AddressesError::Vmac));
    assert!(matches!("VRRPv3 x".parse::<PortSecurity>(), Err(AddressesError::Mac(_))));
    assert!(matches!("unknown".parse::<PortSecurity>(), Err(AddressesError::Mac(_))));
}

fn any_addresses() -> impl Strategy<Value = PortAddresses> {
    let ips = || proptest::collection::vec(strategy::host_addr(), 0..4).prop_map(Vec::into_boxed_slice);
    prop_oneof![
        (strategy::mac(), ips()).prop_map(|(mac, ips)| PortAddresses::Fixed { mac, ips }),
        Just(PortAddresses::Unknown),
        Just(PortAddresses::Router),
        ips().prop_map(|ips| PortAddresses::Dynamic { ips }),
        strategy::mac().prop_map(PortAddresses::MacDynamic),
    ]
}

fn any_security() -> impl Strategy<Value = PortSecurity> {
    let ips = || proptest::collection::vec(strategy::host_addr(), 0..4).prop_map(Vec::into_boxed_slice);
    prop_oneof![
        (strategy::mac(), ips()).prop_map(|(mac, ips)| PortSecurity::Source { mac, ips }),
        (strategy::mac(), strategy::mac(), ips()).prop_map(|(mac, vmac, ips)| PortSecurity::Vrrp {
            mac,
            vmac,
            ips
        }),
    ]
}

proptest! {
    #[test]
    fn addresses_round_trip(value in any_addresses()) {
        prop_assert_eq!(value.to_string().parse::<PortAddresses>().unwrap(), value);
    }

    #[test]
    fn security_round_trip(value in any_security()) {
        prop_assert_eq!(value.to_string().parse::<PortSecurity>().unwrap(), value);
    }

    #[test]
    fn no_panic(text in strategy::soup()) {
        prop_assert_eq!(Text::<PortAddresses>::new(&text).to_string(), &text[..]);
        prop_assert_eq!(Text::<PortSecurity>::new(&text).to_string(), &text[..]);
    }
}
