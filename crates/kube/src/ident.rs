//! Numbers of nodes and networks, and the tunnel keys that follow from them.
//!
//! Every zone must use the same keys: OVN delivers a packet with an unexpected key to the wrong port without an error. So keys
//! follow from allocated numbers and never from the order of a list.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

/// A number that is out of its range, or no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {noun} from {min} to {max}")]
pub struct IdentError {
    text: String,
    noun: &'static str,
    min: u32,
    max: u32,
}

/// Parses a decimal number as this program prints it: no sign, no leading zero, no blanks.
fn parse_decimal(text: &str, noun: &'static str, min: u32, max: u32) -> Result<u32, IdentError> {
    let number = text.parse::<u32>().ok().filter(|number| number.to_string() == text);
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| IdentError {
        text: text.chars().take(40).collect(),
        noun,
        min,
        max,
    })
}

macro_rules! ident {
    ($(#[$doc:meta])* $name:ident($inner:ty), $min:expr, $max:expr, $noun:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The smallest one.
            pub const MIN: $name = $name($min);
            /// The largest one.
            pub const MAX: $name = $name($max);

            /// One of this number, if it is in range.
            pub fn new(number: u32) -> Option<$name> {
                let number = <$inner>::try_from(number).ok()?;
                ($min..=$max).contains(&number).then_some($name(number))
            }

            /// The number.
            pub fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdentError;

            fn from_str(text: &str) -> Result<Self, IdentError> {
                let number = parse_decimal(text, $noun, u32::from($min as $inner), u32::from($max as $inner))?;
                Ok($name(number as $inner))
            }
        }
    };
}

ident! {
    /// The number of a node in its cluster. 0 and 1 are reserved.
    NodeId(u16), 2, 5000, "a node id"
}
ident! {
    /// The number of a network in its cluster. 0 is the default network.
    NetworkId(u16), 1, 4095, "a network id"
}
ident! {
    /// The datapath key of a network's transit router.
    RouterKey(u32), 16_715_779, 16_777_215, "a router's datapath key"
}
ident! {
    /// The tunnel key of a pod's port on its network's switch. The platform's ports have the keys before.
    PodKey(u16), 10, 32_766, "a pod's tunnel key"
}

ident! {
    /// The mark of packets that leave with the addresses of an EgressIP.
    EgressMark(u16), 50_000, 54_999, "the mark of an EgressIP"
}

/// The datapath key of the switch of network 0.
const SWITCH_KEY_BASE: u32 = 16_711_683;
/// The tunnel key of the peer port of node 0.
const PEER_KEY_BASE: u16 = 10;
/// The tunnel key of a transit router's port on its switch, and of the switch's port to it.
pub const ROUTER_PORT_KEY: u16 = 1;
/// The tunnel key of a management port on its switch.
pub const MANAGEMENT_PORT_KEY: u16 = 2;
/// The tunnel key of the port on a transit router that nodes of the old topology use.
pub const UPGRADE_PORT_KEY: u16 = 3;
/// The largest tunnel key that belongs to the platform's own ports.
pub const LAST_PLATFORM_KEY: u16 = 9;

impl NetworkId {
    /// The datapath key of this network's switch.
    pub fn switch_key(self) -> u32 {
        SWITCH_KEY_BASE + u32::from(self.0)
    }
}

impl NodeId {
    /// The tunnel key of this node's peer port on every transit router.
    pub fn peer_port_key(self) -> u16 {
        PEER_KEY_BASE + self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_printed() {
        assert_eq!("2".parse::<NodeId>().unwrap(), NodeId::MIN);
        assert_eq!("5000".parse::<NodeId>().unwrap(), NodeId::MAX);
        for text in ["", "x", "-1", "+2", "02", " 2", "1", "5001", "70000", "99999999999999999999"] {
            let error = text.parse::<NodeId>().unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is not a node id from 2 to 5000"));
        }
    }

    #[test]
    fn keys_follow_from_numbers() {
        assert_eq!(NetworkId::MIN.switch_key(), 16_711_684);
        assert!(NetworkId::MAX.switch_key() < RouterKey::MIN.get(), "switches and routers share a range");
        assert_eq!(NodeId::new(4).unwrap().peer_port_key(), 14);
        assert_eq!(NodeId::MAX.peer_port_key(), 5010);
    }
}
