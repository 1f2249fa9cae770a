//! `Port_Binding.nat_addresses`, and the option `nat-addresses` that northd derives it from.
//!
//! northd writes one element per (MAC, resident port): the addresses to announce from the chassis of that port. Elements of
//! gateway routers have no resident port, because such a router is wholly on one chassis.
//!
//! northd writes the port's name between double quotes without escapes. So the parser takes everything between the first `("`
//! and a `")` at the end of the string.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use smol_str::SmolStr;

use super::addresses::{AddressesError, Tail, ips};
use super::host_addr::HostAddr;
use crate::mac::MacAddr;

const RESIDENT: &str = "is_chassis_resident(";

/// One element of `nat_addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NatAddresses {
    /// `router`, in the Northbound option only: all addresses that the peer router port translates.
    Router,
    /// `MAC IP... [is_chassis_resident("PORT")]`.
    Announce {
        /// The MAC address that answers for the IPs.
        mac: MacAddr,
        /// External NAT addresses, load balancer VIPs, router addresses.
        ips: Box<[HostAddr]>,
        /// The port whose chassis announces the addresses; without one, the chassis of the port binding itself.
        resident: Option<SmolStr>,
    },
}

/// A string that is not an element of `nat_addresses`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NatAddressesError {
    /// The MAC or an IP before the predicate is wrong.
    #[error("reading the announced addresses")]
    Addresses(#[source] AddressesError),
    /// `is_chassis_resident(` is not followed by a quoted name and a closing parenthesis at the end of the string.
    #[error("is_chassis_resident needs one quoted port name and nothing after it")]
    Predicate,
}

impl NatAddresses {
    /// The announced addresses.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let ips: &[HostAddr] = match self {
            NatAddresses::Router => &[],
            NatAddresses::Announce { ips, .. } => ips,
        };
        ips.iter().map(|ip| ip.addr)
    }
}

impl FromStr for NatAddresses {
    type Err = NatAddressesError;

    fn from_str(text: &str) -> Result<Self, NatAddressesError> {
        let (addresses, resident) = match text.split_once(RESIDENT) {
            None => (text, None),
            Some((addresses, rest)) => {
                let name = rest
                    .trim_ascii_end()
                    .strip_prefix('"')
                    .and_then(|rest| rest.strip_suffix("\")"))
                    .ok_or(NatAddressesError::Predicate)?;
                (addresses, Some(SmolStr::new(name)))
            }
        };
        let mut words = addresses.split_ascii_whitespace();
        let fail = NatAddressesError::Addresses;
        let first = words.next().ok_or(fail(AddressesError::Empty))?;
        if first == "router" && resident.is_none() {
            return match words.next() {
                None => Ok(NatAddresses::Router),
                Some(_) => Err(fail(AddressesError::Trailing("router"))),
            };
        }
        let mac = first.parse().map_err(|e| fail(AddressesError::Mac(e)))?;
        Ok(NatAddresses::Announce { mac, ips: ips(words).map_err(fail)?, resident })
    }
}

impl fmt::Display for NatAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NatAddresses::Router => f.write_str("router"),
            NatAddresses::Announce { mac, ips, resident } => {
                write!(f, "{mac}{}", Tail(ips))?;
                match resident {
                    Some(port) => write!(f, " {RESIDENT}\"{port}\")"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Text, strategy};
    use proptest::prelude::*;

    #[test]
    fn elements_seen_in_the_southbound() {
        let (mac, ips, resident) = read("fa:16:3e:ff:00:01 172.24.4.199 is_chassis_resident(\"vm2\")");
        assert_eq!(
            (mac.as_str(), ips.as_str(), resident.as_deref()),
            ("fa:16:3e:ff:00:01", "172.24.4.199", Some("vm2"))
        );
        let (_, ips, resident) =
            read("fa:16:3e:aa:00:01 172.24.4.198 172.24.4.50 is_chassis_resident(\"cr-lrp-gw1\")");
        assert_eq!((ips.as_str(), resident.as_deref()), ("172.24.4.198,172.24.4.50", Some("cr-lrp-gw1")));
        let (_, ips, resident) = read("fa:16:3e:aa:00:01 172.24.4.230");
        assert_eq!((ips.as_str(), resident), ("172.24.4.230", None), "gateway routers write no predicate");
        let (_, _, resident) = read("fa:16:3e:aa:00:01 is_chassis_resident(\"a \"b\") c\")");
        assert_eq!(resident.as_deref(), Some("a \"b\") c"), "names are not escaped");
        assert_eq!("router".parse(), Ok(NatAddresses::Router));
    }

    fn read(text: &str) -> (String, String, Option<String>) {
        match text.parse().unwrap() {
            NatAddresses::Announce { mac, ips, resident } => (
                mac.to_string(),
                ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
                resident.map(String::from),
            ),
            NatAddresses::Router => panic!("router"),
        }
    }

    #[test]
    fn errors() {
        let error = |text: &str| text.parse::<NatAddresses>().unwrap_err();
        for text in ["", "x 10.0.0.1", "fa:16:3e:00:00:01 x", "router x"] {
            assert!(matches!(error(text), NatAddressesError::Addresses(_)), "{text}");
        }
        for text in [
            "fa:16:3e:00:00:01 10.0.0.1 is_chassis_resident(vm)",
            "fa:16:3e:00:00:01 10.0.0.1 is_chassis_resident(\"vm\"",
            "fa:16:3e:00:00:01 10.0.0.1 is_chassis_resident(\"",
            "fa:16:3e:00:00:01 10.0.0.1 is_chassis_resident(\"vm\") x",
        ] {
            assert_eq!(error(text), NatAddressesError::Predicate, "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            mac in strategy::mac(),
            ips in proptest::collection::vec(strategy::host_addr(), 0..4),
            resident in proptest::option::of("[ -~]{0,12}"),
        ) {
            let value = NatAddresses::Announce { mac, ips: ips.into(), resident: resident.map(SmolStr::from) };
            prop_assert_eq!(value.to_string().parse::<NatAddresses>().unwrap(), value);
        }

        #[test]
        fn no_panic(text in strategy::soup()) {
            prop_assert_eq!(Text::<NatAddresses>::new(&text).to_string(), &text[..]);
        }
    }
}
