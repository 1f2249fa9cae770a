//! Ethernet addresses.
//!
//! OVN writes MAC addresses in lower case with colons and accepts either case; so do we. We refuse dashes and dotted forms,
//! because OVN refuses them, too.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 48-bit Ethernet address. Reads any case, prints lower case.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

/// A string that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an Ethernet address: {reason}")]
pub struct MacError {
    /// The given string.
    pub text: String,
    /// The reason.
    pub reason: &'static str,
}

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// The six bytes in transmission order.
    pub fn octets(self) -> [u8; 6] {
        self.0
    }

    /// True for group addresses (broadcast included), which no interface may own.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// The IPv6 link-local address an interface with this MAC forms by modified EUI-64 (RFC 4291, appendix A). OVN's
    /// router ports advertise themselves from it.
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every cell with an address is printed once when it is read, to compare its form with the canonical one.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b':'; 17];
        for (at, byte) in self.0.iter().enumerate() {
            text[3 * at] = DIGITS[usize::from(byte >> 4)];
            text[3 * at + 1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let fail = |reason| MacError { text: text.chars().take(80).collect(), reason };
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(|| fail("fewer than six parts"))?;
            // OVN's scanner takes one digit as well as two ("0:0:0:0:0:1").
            if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(fail("a part is not one or two hexadecimal digits"));
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| fail("a part is not hexadecimal"))?;
        }
        match parts.next() {
            None => Ok(MacAddr(bytes)),
            Some(_) => Err(fail("more than six parts")),
        }
    }
}

impl Serialize for MacAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_any_case_and_prints_lower() {
        for text in ["FA:16:3E:aA:00:01", "fa:16:3e:aa:0:1"] {
            assert_eq!(text.parse::<MacAddr>().unwrap().to_string(), "fa:16:3e:aa:00:01");
        }
    }

    #[test]
    fn refuses_what_ovn_refuses() {
        for (text, reason) in [
            ("", "a part is not one or two hexadecimal digits"),
            ("fa:16:3e:aa:00", "fewer than six parts"),
            ("fa:16:3e:aa:00:01:02", "more than six parts"),
            ("fa-16-3e-aa-00-01", "a part is not one or two hexadecimal digits"),
            ("fa:16:3e:aa:00:+1", "a part is not one or two hexadecimal digits"),
            ("fa:16:3e:aa:00:001", "a part is not one or two hexadecimal digits"),
            ("fa:16:3e:aa:00:é", "a part is not one or two hexadecimal digits"),
        ] {
            assert_eq!(text.parse::<MacAddr>().unwrap_err().reason, reason, "{text}");
        }
    }

    #[test]
    fn link_local_by_eui64() {
        let mac: MacAddr = "0a:58:cb:cb:00:01".parse().unwrap();
        assert_eq!(mac.link_local().to_string(), "fe80::858:cbff:fecb:1");
        assert!(MacAddr::BROADCAST.is_multicast() && !mac.is_multicast());
    }

    proptest! {
        #[test]
        fn round_trip(bytes: [u8; 6]) {
            let mac = MacAddr(bytes);
            prop_assert_eq!(mac.to_string().parse::<MacAddr>().unwrap(), mac);
            prop_assert_eq!(mac.to_string().to_uppercase().parse::<MacAddr>().unwrap(), mac);
        }

        #[test]
        fn no_panic(text in ".{0,40}") {
            let _ = text.parse::<MacAddr>();
        }
    }
}
