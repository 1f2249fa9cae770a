//! `Logical_Router_Static_Route.nexthop`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::host_addr::clip;

/// The destination of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nexthop {
    /// A neighbour.
    Ip(IpAddr),
    /// `discard`: the route drops packets.
    Discard,
}

/// The error of a string that is neither an address nor `discard`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an IP address nor \"discard\"")]
pub struct NexthopError(String);

impl From<IpAddr> for Nexthop {
    fn from(ip: IpAddr) -> Self {
        Nexthop::Ip(ip)
    }
}

impl FromStr for Nexthop {
    type Err = NexthopError;

    fn from_str(text: &str) -> Result<Self, NexthopError> {
        match text {
            "discard" => Ok(Nexthop::Discard),
            text => text.parse().map(Nexthop::Ip).map_err(|_| NexthopError(clip(text))),
        }
    }
}

impl fmt::Display for Nexthop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nexthop::Ip(ip) => ip.fmt(f),
            Nexthop::Discard => f.write_str("discard"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Text, strategy};
    use proptest::prelude::*;

    #[test]
    fn forms() {
        for text in ["10.0.0.1", "fd00::1", "discard"] {
            assert_eq!(text.parse::<Nexthop>().unwrap().to_string(), text);
        }
        for text in ["", "Discard", "10.0.0.1/24", "drop"] {
            assert!(text.parse::<Nexthop>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn keeps_text(text in strategy::soup(), ip in strategy::ip()) {
            prop_assert_eq!(Text::<Nexthop>::new(&text).to_string(), text);
            prop_assert_eq!(Nexthop::Ip(ip).to_string().parse(), Ok(Nexthop::Ip(ip)));
        }
    }
}
