//! The default limits of a project without limits of its own.
//!
//! An operator's file names only the limits to change; the others keep these defaults. Otherwise a file that raises one limit would remove
//! all others.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Each resource with a limit, and its default; -1 means no limit.
const DEFAULTS: [(&str, i64); 14] = [
    ("address_scope", 100),
    ("floatingip", 50),
    ("network", 100),
    ("port", 500),
    ("port_fixed_ip", 16),
    ("rbac_policy", 10),
    ("router", 10),
    ("router_gateway", 20),
    ("router_route", 30),
    ("security_group", 10),
    ("security_group_rule", 100),
    ("shared_address", 100),
    ("subnet", 100),
    ("subnetpool", 100),
];

/// The default limits by resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefaultQuotas(BTreeMap<String, i64>);

impl Default for DefaultQuotas {
    fn default() -> Self {
        DefaultQuotas(DEFAULTS.into_iter().map(|(resource, limit)| (resource.into(), limit)).collect())
    }
}

impl DefaultQuotas {
    /// All resources with a limit.
    pub fn resources() -> impl Iterator<Item = &'static str> {
        DEFAULTS.into_iter().map(|(resource, _)| resource)
    }

    /// The limit of a resource; negative means none.
    pub fn limit(&self, resource: &str) -> i64 {
        self.0.get(resource).copied().unwrap_or(-1)
    }

    /// Sets one limit.
    pub fn set(&mut self, resource: &str, limit: i64) {
        self.0.insert(resource.to_owned(), limit);
    }
}

impl<'de> Deserialize<'de> for DefaultQuotas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let mut quotas = DefaultQuotas::default();
        for (resource, limit) in BTreeMap::<String, i64>::deserialize(deserializer)? {
            if !quotas.0.contains_key(&resource) {
                let known = DefaultQuotas::resources().collect::<Vec<_>>().join(", ");
                return Err(D::Error::custom(format!("`{resource}` has no quota; expected one of {known}")));
            }
            if !(-1..=i64::from(i32::MAX)).contains(&limit) {
                let text =
                    format!("the quota of {resource} is {limit}; a number is expected, or -1 for no limit");
                return Err(D::Error::custom(text));
            }
            quotas.set(&resource, limit);
        }
        Ok(quotas)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_that_is_named_leaves_the_others_as_they_are() {
        let quotas: DefaultQuotas = serde_json::from_value(json!({"router": 100, "port": -1})).unwrap();
        assert_eq!((quotas.limit("router"), quotas.limit("port")), (100, -1));
        let others = DefaultQuotas::resources().filter(|it| !["router", "port"].contains(it));
        let defaults = DefaultQuotas::default();
        for resource in others {
            assert_eq!(quotas.limit(resource), defaults.limit(resource), "{resource}");
            assert!(quotas.limit(resource) > 0, "{resource} has no limit by default");
        }
    }

    #[test]
    fn unknown_resources_and_senseless_limits_are_refused() {
        for (value, names) in [
            (json!({"ruoter": 1}), ["ruoter", "router_route"]),
            (json!({"router": -2}), ["router", "-1"]),
            (json!({"router": 1_i64 << 40}), ["router", "-1"]),
        ] {
            let why = serde_json::from_value::<DefaultQuotas>(value).unwrap_err().to_string();
            assert!(names.iter().all(|name| why.contains(name)), "{why}");
        }
    }
}
