//! Octavia's bookkeeping in `Load_Balancer.external_ids`.
//!
//! Neutron (to centralise members' floating IPs) and BGP agents read these strings, so their syntax is exactly that of
//! Octavia's OVN provider: listeners and pools are keys, members are a list inside a pool's value, counts per network are a
//! JSON map with Python's spacing.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use smol_str::SmolStr;
use uuid::Uuid;

use super::host_addr::clip;

/// The keys with fixed names.
pub mod key {
    /// `True` or `False`.
    pub const ENABLED: &str = "enabled";
    /// Primary VIP, without brackets.
    pub const VIP: &str = "neutron:vip";
    /// Its port.
    pub const VIP_PORT_ID: &str = "neutron:vip_port_id";
    /// Comma list of further VIPs.
    pub const ADDITIONAL_VIPS: &str = "neutron:additional_vips";
    /// Comma list of their ports, same order.
    pub const ADDITIONAL_VIP_PORT_IDS: &str = "neutron:additional_vip_port_ids";
    /// Floating IP of the VIP port.
    pub const VIP_FIP: &str = "neutron:vip_fip";
    /// Comma list of the further VIPs' floating IPs.
    pub const ADDITIONAL_VIP_FIPS: &str = "neutron:additional_vip_fips";
    /// Counts per switch, see [`LsRefs`](super::LsRefs).
    pub const LS_REFS: &str = "ls_refs";
    /// Comma list of router row names.
    pub const LR_REF: &str = "lr_ref";
    /// JSON map from member id to operating status.
    pub const MEMBER_STATUS: &str = "neutron:member_status";
    /// JSON list of health monitor ids.
    pub const HEALTH_MONITORS: &str = "octavia:healthmonitors";
    /// On a health check row: its monitor.
    pub const HEALTH_MONITOR: &str = "octavia:healthmonitor";
    /// On a health check row: its pool.
    pub const POOL_ID: &str = "octavia:pool_id";
    /// On a health check row: its address, without port.
    pub const HM_VIP: &str = "octavia:vip";
}

/// A key of `external_ids` that names a listener or a pool; `:D` at the end means disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Listener or pool.
    pub kind: ObjectKind,
    /// Octavia's id.
    pub id: Uuid,
    /// False if the key ends in `:D`.
    pub enabled: bool,
}

/// The kind of object that an [`ObjectKey`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `listener_<id>`.
    Listener,
    /// `pool_<id>`.
    Pool,
}

/// Value of a listener key: `<port>:pool_<id>`, or `<port>:` without a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerValue {
    /// Port listened on.
    pub port: u16,
    /// Default pool.
    pub pool: Option<Uuid>,
}

/// One member of a pool's value: `member_<id>_<ip>:<port>_<subnet>`. Rows of older providers lack the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Octavia's id.
    pub id: Uuid,
    /// Address, written without brackets.
    pub ip: IpAddr,
    /// Port, after the last colon.
    pub port: u16,
    /// Subnet of the address.
    pub subnet: Option<Uuid>,
}

/// Value of a pool key: members in the order of their creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members(pub Vec<Member>);

/// `ls_refs`: the number of VIPs and members on each switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LsRefs(pub BTreeMap<SmolStr, u32>);

/// The error of a string that is no such key or value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OctaviaError {
    /// Not `listener_<id>` or `pool_<id>`, with or without `:D`.
    #[error("{0:?} names no listener or pool")]
    Key(String),
    /// Not `<port>:` or `<port>:pool_<id>`.
    #[error("{0:?} is no listener value")]
    Listener(String),
    /// Not `member_<id>_<ip>:<port>[_<subnet>]`.
    #[error("{0:?} is no pool member")]
    Member(String),
    /// Not a JSON map from names to counts.
    #[error("{0:?} is no map of counts per switch")]
    LsRefs(String),
}

/// Ids are compared with strings of other rows, so only the usual form with hyphens is accepted.
fn id(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten()
}

fn port(text: &str) -> Option<u16> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

impl FromStr for ObjectKey {
    type Err = OctaviaError;

    fn from_str(text: &str) -> Result<Self, OctaviaError> {
        let (name, enabled) = match text.strip_suffix(":D") {
            Some(name) => (name, false),
            None => (text, true),
        };
        let (kind, rest) = match name.split_once('_') {
            Some(("listener", rest)) => (ObjectKind::Listener, rest),
            Some(("pool", rest)) => (ObjectKind::Pool, rest),
            _ => return Err(OctaviaError::Key(clip(text))),
        };
        let id = id(rest).ok_or_else(|| OctaviaError::Key(clip(text)))?;
        Ok(ObjectKey { kind, id, enabled })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::Listener => "listener",
            ObjectKind::Pool => "pool",
        };
        write!(f, "{kind}_{}{}", self.id, if self.enabled { "" } else { ":D" })
    }
}

impl FromStr for ListenerValue {
    type Err = OctaviaError;

    fn from_str(text: &str) -> Result<Self, OctaviaError> {
        let parse = || {
            let (digits, pool) = text.split_once(':')?;
            let port = port(digits)?;
            let pool = match pool {
                "" => None,
                pool => Some(id(pool.strip_prefix("pool_")?)?),
            };
            Some(ListenerValue { port, pool })
        };
        parse().ok_or_else(|| OctaviaError::Listener(clip(text)))
    }
}

impl fmt::Display for ListenerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pool {
            Some(pool) => write!(f, "{}:pool_{pool}", self.port),
            None => write!(f, "{}:", self.port),
        }
    }
}

impl FromStr for Member {
    type Err = OctaviaError;

    fn from_str(text: &str) -> Result<Self, OctaviaError> {
        let parse = || {
            let mut parts = text.strip_prefix("member_")?.split('_');
            let id_ = id(parts.next()?)?;
            let (ip, digits) = parts.next()?.rsplit_once(':')?;
            // Some writers put IPv6 addresses in brackets.
            let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
            let subnet = match parts.next() {
                None => None,
                Some(subnet) => Some(id(subnet)?),
            };
            match parts.next() {
                None => Some(Member { id: id_, ip: ip.parse().ok()?, port: port(digits)?, subnet }),
                Some(_) => None,
            }
        };
        parse().ok_or_else(|| OctaviaError::Member(clip(text)))
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member_{}_{}:{}", self.id, self.ip, self.port)?;
        match self.subnet {
            Some(subnet) => write!(f, "_{subnet}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Members {
    type Err = OctaviaError;

    fn from_str(text: &str) -> Result<Self, OctaviaError> {
        let items = text.split(',').filter(|_| !text.is_empty());
        items.map(str::parse).collect::<Result<_, _>>().map(Members)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, member) in self.0.iter().enumerate() {
            write!(f, "{}{member}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for LsRefs {
    type Err = OctaviaError;

    fn from_str(text: &str) -> Result<Self, OctaviaError> {
        let map: BTreeMap<String, u32> =
            serde_json::from_str(text).map_err(|_| OctaviaError::LsRefs(clip(text)))?;
        Ok(LsRefs(map.into_iter().map(|(name, count)| (name.into(), count)).collect()))
    }
}

impl fmt::Display for LsRefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, count)) in self.0.iter().enumerate() {
            let name = serde_json::to_string(name.as_str()).map_err(|_| fmt::Error)?;
            write!(f, "{}{name}: {count}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::strategy;
    use proptest::prelude::*;

    const A: &str = "f2ddf7a6-4047-4cc9-97be-1d1a6c47ece9";
    const B: &str = "2d54ec67-c589-473b-bc67-41f3d1331fef";

    #[test]
    fn keys() {
        for text in [format!("listener_{A}"), format!("pool_{A}:D")] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
        }
        assert!(!format!("pool_{A}:D").parse::<ObjectKey>().unwrap().enabled);
        for text in [
            "",
            "pool_",
            "pool",
            "listener_x",
            "ls_refs",
            "neutron:vip",
            &format!("member_{A}"),
            &format!("pool_{A}:E"),
        ] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text}");
        }
        let urn = format!("pool_urn:uuid:{A}");
        assert!(urn.parse::<ObjectKey>().is_err(), "other spellings of an id are no ids here");
    }

    #[test]
    fn listeners() {
        for text in [format!("82:pool_{A}"), "82:".to_owned()] {
            assert_eq!(text.parse::<ListenerValue>().unwrap().to_string(), text);
        }
        for text in ["", ":", "82", "82:x", "82:pool_", "65536:", "+1:"] {
            assert!(text.parse::<ListenerValue>().is_err(), "{text}");
        }
    }

    #[test]
    fn members() {
        let new = format!("member_{A}_10.0.0.107:80_{B}");
        let old = format!("member_{A}_10.0.0.107:80");
        let v6 = format!("member_{A}_fd00::107:80_{B}");
        let text = format!("{new},{old},{v6}");
        let members: Members = text.parse().unwrap();
        assert_eq!(members.to_string(), text);
        assert_eq!(members.0[1].subnet, None);
        assert_eq!((members.0[2].ip.to_string(), members.0[2].port), ("fd00::107".to_owned(), 80));
        assert_eq!("".parse(), Ok(Members::default()));
        for text in [
            "x",
            &format!("{new},"),
            &format!("{new}_x"),
            &format!("member_{A}_10.0.0.107"),
            &format!("member_{A}"),
        ] {
            assert!(text.parse::<Members>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts_have_pythons_spacing() {
        let refs: LsRefs = r#"{"neutron-b":1,"neutron-a":2}"#.parse().unwrap();
        assert_eq!(refs.to_string(), r#"{"neutron-a": 2, "neutron-b": 1}"#);
        assert_eq!(LsRefs::default().to_string(), "{}");
        for text in ["", "[]", r#"{"a": -1}"#, r#"{"a": "b"}"#] {
            assert!(text.parse::<LsRefs>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            members in proptest::collection::vec((any::<u128>(), strategy::ip(), any::<u16>(), any::<Option<u128>>()), 0..4),
            refs in proptest::collection::btree_map("[ -~]{0,6}", any::<u32>(), 0..4),
        ) {
            let member = |(id, ip, port, subnet): (u128, _, _, Option<u128>)| Member {
                id: Uuid::from_u128(id), ip, port, subnet: subnet.map(Uuid::from_u128),
            };
            let members = Members(members.into_iter().map(member).collect());
            prop_assert_eq!(members.to_string().parse::<Members>().unwrap(), members);
            let refs = LsRefs(refs.into_iter().map(|(k, v)| (k.into(), v)).collect());
            prop_assert_eq!(refs.to_string().parse::<LsRefs>().unwrap(), refs);
        }

        #[test]
        fn no_panic(text in strategy::soup(), tail in strategy::soup()) {
            let _ = text.parse::<LsRefs>();
            let _ = text.parse::<ListenerValue>();
            let _ = text.parse::<ObjectKey>();
            let _ = format!("member_{A}_{text}_{tail}").parse::<Members>();
        }
    }
}
