//! The options of one row.

use std::collections::BTreeMap;

use ovsdb::{Map, Str};

use super::{DhcpError, DhcpOption, DhcpValue, DhcpVersion, StaticRoutes};

/// Options with their values. Each is an option of OVN with a value of its type, so no combination of them can break northd's
/// flow: all of them at their maximum length are a sixth of what one OpenFlow action can hold.
#[derive(Clone, Debug)]
pub struct DhcpOptionSet {
    version: DhcpVersion,
    options: BTreeMap<&'static str, DhcpValue>,
}

impl DhcpOptionSet {
    /// An empty set.
    pub fn new(version: DhcpVersion) -> Self {
        DhcpOptionSet { version, options: BTreeMap::new() }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.options.is_empty()
    }

    /// Whether the set contains an option.
    pub fn contains(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// Sets an option and replaces its old value. If the new value is invalid, the old one stays.
    pub fn put(&mut self, name: &str, value: DhcpValue) -> Result<(), DhcpError> {
        let option = DhcpOption::named(self.version, name)?;
        option.check(&value)?;
        self.options.insert(option.name(), value);
        Ok(())
    }

    /// Adds routes to the option's existing ones. If not all of them fit, only the existing ones stay.
    pub fn add_routes(&mut self, name: &str, more: StaticRoutes) -> Result<(), DhcpError> {
        let mut routes = match self.options.get(name) {
            Some(DhcpValue::Routes(routes)) => routes.clone(),
            _ => StaticRoutes::default(),
        };
        routes.0.extend(more.0);
        self.put(name, DhcpValue::Routes(routes))
    }

    /// The cells of the row.
    pub fn to_map(&self) -> Map<Str, Str> {
        let cell = |(name, value): (&&'static str, &DhcpValue)| {
            (Str::new_static(name), smol_str::format_smolstr!("{value}"))
        };
        self.options.iter().map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_options_with_values_of_their_types() {
        let mut set = DhcpOptionSet::new(DhcpVersion::V4);
        assert!(set.is_empty());
        set.put("mtu", DhcpValue::Number(1400)).unwrap();
        assert_eq!(
            set.put("mtu", DhcpValue::Number(70_000)),
            Err(DhcpError::Kind("a number from 0 to 65535"))
        );
        assert_eq!(set.put("offerip", DhcpValue::Number(1)), Err(DhcpError::Unknown("offerip".into())));
        assert!(set.put("mtu", DhcpValue::Flag(true)).is_err());
        let routes =
            |count: usize| StaticRoutes(vec![("10.0.0.1/32".parse().unwrap(), [10, 0, 0, 2].into()); count]);
        set.add_routes("classless_static_route", routes(20)).unwrap();
        assert_eq!(set.add_routes("classless_static_route", routes(9)), Err(DhcpError::Long(261, 255)));
        set.add_routes("classless_static_route", routes(8)).unwrap();
        let cells = set.to_map();
        assert_eq!(cells.get("mtu").map(|value| value.as_str()), Some("1400"));
        assert_eq!(cells.get("classless_static_route").unwrap().matches("10.0.0.1/32,10.0.0.2").count(), 28);
        assert!(set.contains("mtu") && !set.contains("router"));
    }
}
