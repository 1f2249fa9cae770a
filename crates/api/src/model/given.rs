//! Addresses that responses show in their owner's spelling.
//!
//! Octavia's clients compare strings, so `2001:db8:0:0:0:0:0:1` is returned as it was sent. All other code uses the parsed value.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An address in its owner's spelling.
pub type GivenAddress = Given<IpAddr>;
/// A prefix in its owner's spelling. Host bits may be set; [`ipnet::IpNet::trunc`] removes them.
pub type GivenCidr = Given<IpNet>;

/// A value, and its owner's spelling if that is not the usual one. Two spellings of one value are equal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spelling: Option<Box<str>>,
}

impl<T: FromStr + fmt::Display> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let value: T = text.parse()?;
        let spelling = (value.to_string() != text).then(|| text.into());
        Ok(Given { value, spelling })
    }
}

impl<T> From<T> for Given<T> {
    fn from(value: T) -> Self {
        Given { value, spelling: None }
    }
}

impl<T: fmt::Display> fmt::Display for Given<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spelling {
            Some(spelling) => f.write_str(spelling),
            None => self.value.fmt(f),
        }
    }
}

impl<T: PartialEq> PartialEq for Given<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Given<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owners_spelling_comes_back_and_does_not_count() {
        let long: GivenAddress = "2001:db8:0:0:0:0:0:1".parse().unwrap();
        let short: GivenAddress = "2001:db8::1".parse().unwrap();
        assert_eq!(long, short);
        assert_eq!(
            (long.to_string(), short.to_string()),
            ("2001:db8:0:0:0:0:0:1".into(), "2001:db8::1".into())
        );
        let stored = serde_json::to_string(&long).unwrap();
        assert_eq!(serde_json::from_str::<GivenAddress>(&stored).unwrap().to_string(), long.to_string());
        assert_eq!(serde_json::to_string(&short).unwrap(), r#"{"value":"2001:db8::1"}"#);
        assert!("10.0.0.300".parse::<GivenAddress>().is_err());
        assert_eq!("10.0.0.7/8".parse::<GivenCidr>().unwrap().to_string(), "10.0.0.7/8");
    }
}
