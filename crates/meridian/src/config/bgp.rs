//! `[bgp]`: the BGP agent of a node. Its options are those of a `bgp-agent.conf`; what they mean is said by the agent.

use node::bgp::config::{Config, ConfigError, Loaded, OPTIONS, Opt, Pair};
use toml::de::DeValue;

use super::value::{Field, Value};
use super::{Key, Origin, Setting};

/// The options, in the agent's order; a default is here to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Bgp(Vec<(&'static Opt, Setting<Option<Plain>>)>);

/// A value as the agent reads it: text, whatever it is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plain(String);

impl Default for Bgp {
    fn default() -> Self {
        let default =
            |opt: &Opt| Some(opt.default).filter(|text| !text.is_empty()).map(|text| Plain(text.into()));
        Self(OPTIONS.iter().map(|opt| (opt, Setting::default(default(opt)))).collect())
    }
}

impl PartialEq for Bgp {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|(_, setting)| setting).eq(other.0.iter().map(|(_, setting)| setting))
    }
}

impl Bgp {
    pub(super) fn fields(&mut self) -> impl Iterator<Item = (Key, &mut dyn Field)> {
        self.0
            .iter_mut()
            .map(|(opt, setting)| (Key::new("bgp", opt.name, opt.doc), setting as &mut dyn Field))
    }

    /// What the agent is told.
    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        Config::from_pairs(self.0.iter().filter_map(|(opt, setting)| {
            let Plain(value) = setting.value.clone()?;
            let place = match &setting.origin {
                Origin::Default => return None,
                origin => origin.to_string(),
            };
            Some(Pair { section: "bgp".into(), name: opt.name.into(), value, place })
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
