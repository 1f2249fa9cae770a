//! `[bgp]` and `[metadata]`: the roles of a node. Their options are those of a `bgp-agent.conf` and of a
//! `neutron_ovn_metadata_agent.ini`, and the agents read them.

use node::{bgp, metadata};
use toml::de::DeValue;

use super::value::{Field, Value};
use super::{Key, Origin, Setting};

/// The section of a role: whether it runs, and its options in the agent's order. A default is here to be shown.
#[derive(Clone, Debug, PartialEq)]
struct RoleSection {
    name: &'static str,
    enabled: (&'static str, Setting<bool>),
    options: Vec<RoleOption>,
}

#[derive(Clone, Debug, PartialEq)]
struct RoleOption {
    name: &'static str,
    doc: &'static str,
    setting: Setting<Option<Plain>>,
}

/// A value as the agent reads it: text, whatever it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain(String);

/// An option that was set: its name, its value, and the place that says so.
struct GivenOption {
    name: &'static str,
    value: String,
    place: String,
}

impl RoleOption {
    fn new(name: &'static str, doc: &'static str, default: &str) -> Self {
        let default = Some(default).filter(|text| !text.is_empty()).map(|text| Plain(text.into()));
        RoleOption { name, doc, setting: Setting::default(default) }
    }
}

impl RoleSection {
    fn fields(&mut self) -> impl Iterator<Item = (Key, &mut dyn Field)> {
        let RoleSection { name, enabled: (doc, enabled), options } = self;
        let enabled = (Key::new(name, "enabled", doc), enabled as &mut dyn Field);
        let options = options.iter_mut().map(|option| {
            let RoleOption { name: option, doc, setting } = option;
            (Key::new(name, option, doc), setting as &mut dyn Field)
        });
        std::iter::once(enabled).chain(options)
    }

    fn given(&self) -> impl Iterator<Item = GivenOption> {
        self.options.iter().filter_map(|RoleOption { name, setting, .. }| {
            let Plain(value) = setting.value.clone()?;
            let place = match &setting.origin {
                Origin::Default => return None,
                origin => origin.to_string(),
            };
            Some(GivenOption { name, value, place })
        })
    }
}

/// `[bgp]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bgp(RoleSection);

impl Default for Bgp {
    fn default() -> Self {
        let options = bgp::config::OPTIONS.iter().map(|opt| RoleOption::new(opt.name, opt.doc, opt.default));
        let enabled = ("Whether `meridian node` runs the BGP agent", Setting::default(true));
        Bgp(RoleSection { name: "bgp", enabled, options: options.collect() })
    }
}

impl Bgp {
    pub(super) fn fields(&mut self) -> impl Iterator<Item = (Key, &mut dyn Field)> {
        self.0.fields()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.0.enabled.1.value
    }

    /// The agent's configuration.
    pub(crate) fn load(&self) -> Result<bgp::config::Loaded, bgp::config::ConfigError> {
        bgp::config::Config::from_pairs(self.0.given().map(|GivenOption { name, value, place }| {
            bgp::config::Pair { section: "bgp".into(), name: name.into(), value, place }
        }))
    }
}

/// `[metadata]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metadata(RoleSection);

impl Default for Metadata {
    fn default() -> Self {
        let options = metadata::config::OPTIONS;
        let options = options.iter().map(|opt| RoleOption::new(opt.name, opt.doc, opt.default));
        let enabled = ("Whether `meridian node` runs the metadata agent", Setting::default(false));
        Metadata(RoleSection { name: "metadata", enabled, options: options.collect() })
    }
}

impl Metadata {
    pub(super) fn fields(&mut self) -> impl Iterator<Item = (Key, &mut dyn Field)> {
        self.0.fields()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.0.enabled.1.value
    }

    /// The configuration of agent and proxy.
    pub(crate) fn load(&self) -> Result<metadata::config::Loaded, metadata::config::ConfigError> {
        metadata::config::Config::from_pairs(self.0.given().map(|GivenOption { name, value, place }| {
            metadata::config::Pair { group: String::new(), name: name.into(), value, place }
        }))
    }
}

impl Value for Plain {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let text = match value {
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Integer(value) => value.as_str().to_owned(),
            DeValue::String(value) => value.to_string(),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| Self::from_toml(item.get_ref()).map(|Plain(text)| text));
                items.collect::<Result<Vec<_>, _>>()?.join(",")
            }
            other => {
                return Err(format!(
                    "expected text, a number, true or false, or a list, found {}",
                    other.type_str()
                ));
            }
        };
        Ok(Self(text))
    }

    fn to_toml(&self) -> Option<toml::Value> {
        Some(self.0.as_str().into())
    }
}
