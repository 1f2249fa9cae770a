//! `[network]`: the settings of the network API. The keys are those of [`api::settings::Settings`], which knows their types.

use api::settings::Settings;
use toml::de::DeValue;

use super::value::{Field, Value};
use super::{Key, Origin, Problem, Setting};

/// Every key with its value as TOML. Defaults are included, so that `--print-config` shows them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Network(Vec<(&'static str, Setting<Loose>)>);

/// A value whose type `Settings` checks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Loose(Option<toml::Value>);

impl Default for Network {
    fn default() -> Self {
        let defaults = match toml::Table::try_from(Settings::default()) {
            Ok(defaults) => defaults,
            Err(error) => unreachable!("settings are TOML: {error}"),
        };
        let key = |name: &'static str| (name, Setting::default(Loose(defaults.get(name).cloned())));
        Self(Settings::KEYS.iter().map(|(name, _)| key(name)).collect())
    }
}

impl Network {
    pub(super) fn fields(&mut self) -> impl Iterator<Item = (Key, &mut dyn Field)> {
        self.0.iter_mut().zip(Settings::KEYS).map(|((name, setting), (_, doc))| {
            (Key::new("network", name, doc.trim()), setting as &mut dyn Field)
        })
    }

    /// The settings, or all problems with them, each with the origin of the value.
    pub(crate) fn settings(&self) -> Result<Settings, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut table = toml::Table::new();
        for (name, setting) in self.0.iter().filter(|(_, setting)| setting.origin != Origin::Default) {
            let Some(value) = &setting.value.0 else { continue };
            let alone = toml::Table::from_iter([((*name).to_owned(), value.clone())]);
            match toml::Value::Table(alone).try_into::<Settings>() {
                Ok(_) => drop(table.insert((*name).to_owned(), value.clone())),
                Err(error) => {
                    let why = error.message().lines().next().unwrap_or_default().to_owned();
                    problems.push(self.problem(name, &why));
                }
            }
        }
        let settings = match toml::Value::Table(table).try_into::<Settings>() {
            Ok(settings) => settings,
            Err(error) => unreachable!("each value fits alone: {error}"),
        };
        problems.extend(settings.faults().into_iter().map(|(name, why)| self.problem(name, &why)));
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }

    fn problem(&self, name: &str, why: &str) -> Problem {
        let origin = self.0.iter().find(|(key, _)| *key == name).map(|(_, setting)| &setting.origin);
        let place = origin.map(ToString::to_string).unwrap_or_default();
        Problem { place, what: format!("`network.{name}`: {why}") }
    }
}

impl Value for Loose {
    /// A string that parses as a TOML value is that value. Any other string is a TOML string without its quotes.
    fn from_text(text: &str) -> Result<Self, String> {
        let read = toml::from_str::<toml::Table>(&format!("value = {text}"));
        let value = read.ok().and_then(|mut table| table.remove("value"));
        Ok(Self(Some(value.unwrap_or_else(|| text.into()))))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        plain(value).map(|value| Self(Some(value)))
    }

    fn to_toml(&self) -> Option<toml::Value> {
        self.0.clone()
    }
}

fn plain(value: &DeValue<'_>) -> Result<toml::Value, String> {
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
            parsed.map_err(|_| format!("{} is too large", number.as_str()))?.into()
        }
        DeValue::Array(items) => {
            toml::Value::Array(items.iter().map(|item| plain(item.get_ref())).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let members = table.iter().map(|(key, value)| {
                plain(value.get_ref()).map(|value| (key.get_ref().as_ref().to_owned(), value))
            });
            toml::Value::Table(members.collect::<Result<_, _>>()?)
        }
        other => return Err(format!("a {} is not a value of any setting", other.type_str())),
    })
}
