//! DNS names, as in records and search lists.

use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

use super::host_addr::clip;

/// Most bytes of a name: 255 on the wire, where each label has its length in front and the root has one.
const LONGEST: usize = 253;

/// A DNS name without the trailing dot. Letters keep their case; comparing names is up to the reader.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(SmolStr);

/// A string that is not a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a DNS name: labels of 1 to 63 letters, digits, '-' and '_', with dots between them, 253 characters at most"
)]
pub struct DomainNameError(String);

impl DomainName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Bytes it takes in a DNS message: a length in front of each label, and the root.
    pub fn encoded_len(&self) -> usize {
        self.0.len() + 2
    }

    /// The name in lower case, which OVN uses for lookups.
    pub fn to_lowercase(&self) -> DomainName {
        DomainName(self.0.to_ascii_lowercase().into())
    }

    /// This name inside of a domain.
    pub fn within(&self, domain: &DomainName) -> Result<DomainName, DomainNameError> {
        format!("{self}.{domain}").parse()
    }
}

impl FromStr for DomainName {
    type Err = DomainNameError;

    fn from_str(text: &str) -> Result<Self, DomainNameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fits);
        if name.len() <= LONGEST && name.split('.').all(label) {
            Ok(DomainName(SmolStr::new(name)))
        } else {
            Err(DomainNameError(clip(text)))
        }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_what_is_none() {
        let long = format!("{}.", ["a".repeat(63).as_str(); 4].join("."));
        for text in ["a", "example.org", "Example.Org.", "_sip._tcp.x", "1-a", &long[2..]] {
            let name: DomainName = text.parse().unwrap();
            assert_eq!(name.as_str(), text.strip_suffix('.').unwrap_or(text));
            assert_eq!(name.as_str().parse(), Ok(name));
        }
        for text in ["", ".", "a..b", ".a", "a b", "a,b", "ü", "a\n", "a\"", "a/b", &"a".repeat(64), &long] {
            assert!(text.parse::<DomainName>().is_err(), "{text:?}");
        }
        let (host, domain) = ("Web".parse::<DomainName>().unwrap(), "example.org".parse().unwrap());
        assert_eq!(host.within(&domain).unwrap().to_lowercase().as_str(), "web.example.org");
        let long: DomainName = long[2..].parse().unwrap();
        assert!(host.within(&long).is_err(), "254 bytes and more are no name");
    }
}
