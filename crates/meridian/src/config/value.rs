//! Parsers and printers for the values of keys.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::secret::SecretUrl;
use toml::de::DeValue;

use super::{Origin, Setting};

/// The value of a key.
pub(super) trait Value: Sized {
    /// Parses a string from the environment or a flag. The error names the expected form.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Parses a value of the file. Most values are strings there too.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            None => Err(format!("expected a string, found {}", article(value.type_str()))),
        }
    }

    /// The value as TOML; `None` if the key is not set.
    fn to_toml(&self) -> Option<toml::Value>;
}

/// A field of the configuration that holds a value of any type.
pub(super) trait Field {
    fn set_text(&mut self, text: &str, origin: Origin) -> Result<(), String>;
    fn set_toml(&mut self, value: &DeValue<'_>, origin: Origin) -> Result<(), String>;
    fn to_toml(&self) -> Option<toml::Value>;
    fn origin(&self) -> &Origin;
}

impl<T: Value> Field for Setting<T> {
    fn set_text(&mut self, text: &str, origin: Origin) -> Result<(), String> {
        *self = Self { value: T::from_text(text)?, origin };
        Ok(())
    }

    fn set_toml(&mut self, value: &DeValue<'_>, origin: Origin) -> Result<(), String> {
        *self = Self { value: T::from_toml(value)?, origin };
        Ok(())
    }

    fn to_toml(&self) -> Option<toml::Value> {
        self.value.to_toml()
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }
}

fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

impl Value for String {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn to_toml(&self) -> Option<toml::Value> {
        Some(self.as_str().into())
    }
}

/// A list: an array of strings in the file, or a string with commas in any source.
impl Value for Vec<String> {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let expected = |found: &DeValue<'_>| {
            format!("expected a string or an array of strings, found {}", article(found.type_str()))
        };
        match value {
            DeValue::String(text) => Self::from_text(text),
            DeValue::Array(items) => items
                .iter()
                .map(|item| {
                    item.get_ref().as_str().map(str::to_owned).ok_or_else(|| expected(item.get_ref()))
                })
                .collect(),
            other => Err(expected(other)),
        }
    }

    fn to_toml(&self) -> Option<toml::Value> {
        Some(self.clone().into())
    }
}

impl Value for PathBuf {
    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("expected a path, found nothing".into()) } else { Ok(text.into()) }
    }

    fn to_toml(&self) -> Option<toml::Value> {
        Some(self.to_string_lossy().into_owned().into())
    }
}

impl Value for SocketAddr {
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            format!("expected an address and a port as 127.0.0.1:9697 or [::1]:9697, found `{text}`")
        })
    }

    fn to_toml(&self) -> Option<toml::Value> {
        Some(self.to_string().into())
    }
}

/// The address of a socket that an operator may turn off with `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionalListen {
    /// The address to listen at.
    At(SocketAddr),
    /// The socket is turned off.
    Off,
}

impl OptionalListen {
    /// The address, if the socket is turned on.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::At(address) => Some(address),
            Self::Off => None,
        }
    }
}

impl Value for OptionalListen {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Off),
            _ => text.parse().map(Self::At).map_err(|_| {
                format!(
                    "expected an address and a port as 127.0.0.1:9876 or [::1]:9876, or none, found `{text}`"
                )
            }),
        }
    }

    fn to_toml(&self) -> Option<toml::Value> {
        match self {
            Self::At(address) => address.to_toml(),
            Self::Off => Some("none".into()),
        }
    }
}

impl Value for SecretUrl {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    /// Omits the password.
    fn to_toml(&self) -> Option<toml::Value> {
        Some(self.to_string().into())
    }
}

impl<T: Value> Value for Option<T> {
    fn from_text(text: &str) -> Result<Self, String> {
        T::from_text(text).map(Some)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        T::from_toml(value).map(Some)
    }

    fn to_toml(&self) -> Option<toml::Value> {
        self.as_ref().and_then(T::to_toml)
    }
}

impl Value for bool {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("expected true or false, found `{text}`")),
        }
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| format!("expected true or false, found {}", article(value.type_str())))
    }

    fn to_toml(&self) -> Option<toml::Value> {
        Some((*self).into())
    }
}

impl Value for usize {
    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("expected a number from 1, found `{text}`"))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Integer(number) => Self::from_text(number.as_str()),
            other => Err(format!("expected a number, found {}", article(other.type_str()))),
        }
    }

    fn to_toml(&self) -> Option<toml::Value> {
        i64::try_from(*self).ok().map(Into::into)
    }
}

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Reads `500ms`, `5s`, `2m`, `1h`, or seconds as a bare number.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time as 500ms, 5s or 2m, found `{text}`");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" => 1_000,
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(wrong)?,
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).map(Duration::from_millis).ok_or_else(wrong)
}

impl Value for Duration {
    fn from_text(text: &str) -> Result<Self, String> {
        parse_duration(text)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Integer(seconds) => parse_duration(seconds.as_str()),
            DeValue::String(text) => parse_duration(text),
            other => {
                Err(format!("expected a time as \"5s\" or seconds, found {}", article(other.type_str())))
            }
        }
    }

    fn to_toml(&self) -> Option<toml::Value> {
        let ms = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        // Zero means "off" for the keys that allow it, in any unit.
        let unit = UNITS.iter().rev().find(|(name, factor)| *name != "m" && *name != "h" && ms % factor == 0);
        Some(match unit {
            Some((name, factor)) => format!("{}{name}", ms / factor).into(),
            None => format!("{ms}ms").into(),
        })
    }
}

/// Defines an enum whose values are keywords.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
        pub(crate) enum $name {
            $($(#[$vdoc])* #[value(name = $word)] $variant),+
        }

        impl $name {
            /// The keyword of this value.
            pub(crate) fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl Value for $name {
            fn from_text(text: &str) -> Result<Self, String> {
                const WORDS: &[&str] = &[$($word),+];
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => {
                        let hint = crate::nearest::hint(text, WORDS.iter().copied());
                        Err(format!("`{text}` is none of {}{hint}", WORDS.join(", ")))
                    }
                }
            }

            fn to_toml(&self) -> Option<toml::Value> {
                Some(self.word().into())
            }
        }
    };
}

words! {
    /// The log level.
    Level { Off = "off", Error = "error", Warn = "warn", Info = "info", Debug = "debug", Trace = "trace" }
}

impl Level {
    /// The level that is `steps` more verbose.
    pub(crate) fn raised(self, steps: u8) -> Self {
        const ALL: [Level; 6] =
            [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
        let at = ALL.iter().position(|level| *level == self).unwrap_or(0);
        ALL[(at + usize::from(steps)).min(ALL.len() - 1)]
    }
}

words! {
    /// The format of log lines.
    LogFormat {
        /// For people
        Human = "human",
        /// One JSON object per line
        Json = "json",
    }
}

words! {
    /// The cases in which output is coloured.
    Colour {
        /// On terminals, unless NO_COLOR is set
        Auto = "auto",
        /// Always
        Always = "always",
        /// Never
        Never = "never",
    }
}

words! {
    /// The set of Keystone roles that the policy of the load-balancer API uses.
    BalancerRoleMode {
        /// admin, member and reader
        General = "general",
        /// admin and Octavia's own load-balancer_admin, _member, _observer, _global_observer and _quota_admin
        Octavia = "octavia",
    }
}

words! {
    /// The authentication of the APIs' clients.
    AuthMode {
        /// No authentication: every client is administrator
        None = "none",
        /// One shared token
        Token = "token",
        /// Name and password
        Basic = "basic",
        /// Tokens of Keystone
        Keystone = "keystone",
    }
}

words! {
    /// The interface of an endpoint in Keystone's catalog.
    Interface {
        /// For all users
        Public = "public",
        /// For services of the cloud
        Internal = "internal",
        /// For operators
        Admin = "admin",
    }
}

words! {
    /// How peer subnets follow from a transit subnet.
    PeerSchemeMode {
        /// /30 for IPv4
        Seed = "seed",
        /// /31 for IPv4, as ovn-kubernetes has it
        Upstream = "upstream",
    }
}

words! {
    /// How rows of layer-2 networks are named.
    RowNaming {
        /// As in the design: ovn_cluster_router
        Seed = "seed",
        /// As ovn-kubernetes does: transit_router
        Upstream = "upstream",
    }
}

words! {
    /// The program that gives EgressIPs their nodes.
    EgressAssignerMode {
        /// Another one, such as ovn-kubernetes
        Other = "other",
        /// The manager
        Manager = "manager",
    }
}

words! {
    /// Where a node's peer subnets come from.
    PeerSourceMode {
        /// From its id
        Derived = "derived",
        /// From an allocator
        Allocated = "allocated",
    }
}
