//! Chassis options and names. `other_config:ovn-cms-options` holds a chassis's options for the scheduler: a comma-separated
//! list of keywords and `key=value` pairs. `options:requested-chassis` holds the chassis that a port requests: a
//! comma-separated list of names.

use std::fmt;

use smol_str::SmolStr;

use super::host_addr::clip;

/// The option that lets a chassis host gateway ports.
const GATEWAY: &str = "enable-chassis-as-gw";
/// The option that lets a chassis host external (SR-IOV, bare metal) ports.
const EXTERNAL_PORTS: &str = "enable-chassis-as-extport-host";
/// The option that lists availability zones, separated by colons.
const ZONES: &str = "availability-zones";

/// A chassis's CMS options. Unknown ones are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CmsOptions {
    /// Keywords and `key=value` pairs in their order.
    pub entries: Vec<SmolStr>,
}

impl CmsOptions {
    /// Parses a list. Blanks around entries and empty entries are ignored.
    pub fn read(text: &str) -> Self {
        let entries = text.split(',').map(str::trim_ascii).filter(|entry| !entry.is_empty());
        CmsOptions { entries: entries.map(SmolStr::new).collect() }
    }

    /// True if gateway ports may be placed here.
    pub fn is_gateway(&self) -> bool {
        self.entries.iter().any(|entry| entry == GATEWAY)
    }

    /// True if external ports may be placed here.
    pub fn hosts_external_ports(&self) -> bool {
        self.entries.iter().any(|entry| entry == EXTERNAL_PORTS)
    }

    /// The value of a `key=value` entry; of several, the first one.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find_map(|entry| entry.split_once('=').filter(|(k, _)| *k == key).map(|(_, value)| value))
    }

    /// Availability zones of the chassis.
    pub fn availability_zones(&self) -> impl Iterator<Item = &str> {
        self.value(ZONES).unwrap_or("").split(':').filter(|zone| !zone.is_empty())
    }
}

impl fmt::Display for CmsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, entry) in self.entries.iter().enumerate() {
            write!(f, "{}{entry}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// The name of a chassis, or of the host that it is on, in a list of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChassisName(SmolStr);

/// A name that does not fit into a list as one element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a host: it is empty, or has commas, blanks or control characters")]
pub struct ChassisNameError(String);

impl ChassisName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, ChassisNameError> {
        let splits = |c: char| c == ',' || c.is_whitespace() || c.is_control();
        if name.is_empty() || name.contains(splits) {
            return Err(ChassisNameError(clip(name)));
        }
        Ok(ChassisName(SmolStr::new(name)))
    }
}

/// `options:requested-chassis`: the main chassis of the port, and additional ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedChassis(pub Vec<ChassisName>);

impl fmt::Display for RequestedChassis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ChassisName(name)) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_name() {
        let names = ["h1", "h2.example"].map(|name| ChassisName::new(name).unwrap());
        assert_eq!(RequestedChassis(names.into()).to_string(), "h1,h2.example");
        for name in ["", "a,b", "a b", "a\n", "\0"] {
            assert!(ChassisName::new(name).is_err(), "{name:?}");
        }
    }
    use crate::text::strategy;
    use proptest::prelude::*;

    #[test]
    fn words_and_pairs() {
        let options =
            CmsOptions::read("enable-chassis-as-gw, availability-zones=az1:az2::,card-serial-number=1=2,");
        assert!(options.is_gateway() && !options.hosts_external_ports());
        assert_eq!(options.availability_zones().collect::<Vec<_>>(), ["az1", "az2"]);
        assert_eq!(options.value("card-serial-number"), Some("1=2"));
        assert!(!CmsOptions::read("enable-chassis-as-gw-not").is_gateway());
        assert_eq!(CmsOptions::read("").availability_zones().count(), 0);
    }

    proptest! {
        #[test]
        fn round_trip(text in prop_oneof![strategy::soup(), "([a-c=:, ]{0,6},?){0,6}"]) {
            let options = CmsOptions::read(&text);
            prop_assert_eq!(CmsOptions::read(&options.to_string()), options);
        }
    }
}
