//! A checked request body: known names, matching shapes, presets filled in, no attribute that the caller may not set.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Attribute, Part, Permission};
use crate::Caller;
use crate::dialect::Refusal;
use crate::model::Standard;
use crate::policy::PolicyTarget;
use crate::resource::Verb;

/// The attributes of a create or update request in their normal form.
///
/// After a create, every attribute with a [`Preset`](super::Preset) has a value; after an update, only the named ones do. The getters
/// return `None` both for an absent value and for `null`; [`Checked::has`] and [`Checked::is_null`] distinguish them. A getter for another
/// type than the attribute's shape returns `None` too.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    values: BTreeMap<&'static str, Value>,
    named: Vec<&'static str>,
    parameters: BTreeMap<&'static str, Value>,
    parent: Option<Uuid>,
    project: String,
}

impl Checked {
    /// Checks the body of a create request, except for permissions: see [`Checked::permit_create`].
    pub fn create(
        attributes: &'static [Attribute],
        caller: &Caller,
        body: &Map<String, Value>,
    ) -> Result<Self, Refusal> {
        known(attributes, body)?;
        for attribute in attributes {
            if attribute.create == Permission::Nobody && body.contains_key(attribute.name) {
                return Err(Refusal::NotCreatable(attribute.name));
            }
            if attribute.required && !body.contains_key(attribute.name) {
                return Err(Refusal::MissingAttribute(attribute.name));
            }
        }
        let mut checked = Self::of(attributes, body, check)?;
        checked.project = owner(caller, body)?;
        for attribute in attributes {
            if let (false, Some(value)) = (checked.has(attribute.name), attribute.preset.value()) {
                checked.values.insert(attribute.name, value);
            }
        }
        Ok(checked)
    }

    /// Checks that the caller may set the attributes of a create request.
    pub fn permit_create(
        &self,
        attributes: &'static [Attribute],
        caller: &Caller,
        target: &PolicyTarget<'_>,
    ) -> Result<(), Refusal> {
        for (attribute, value) in self.named_of(attributes) {
            // A value equal to the preset needs no permission: clients send whole objects.
            if attribute.preset.value().as_ref() == Some(value) {
                continue;
            }
            let part = |part: &&Part| part.is_in(value) && !part.create.permits(caller, target, None);
            if !attribute.create.includes(caller, target, Some(value)) {
                return Err(refused(Verb::Create, attribute, None));
            }
            if let Some(part) = attribute.parts.iter().find(part) {
                return Err(refused(Verb::Create, attribute, Some(part)));
            }
        }
        Ok(())
    }

    /// Checks that the caller may set the attributes of an update.
    pub fn permit_update(
        &self,
        attributes: &'static [Attribute],
        caller: &Caller,
        target: &PolicyTarget<'_>,
    ) -> Result<(), Refusal> {
        for (attribute, value) in self.named_of(attributes) {
            let part = |part: &&Part| part.is_in(value) && !part.update.permits(caller, target, None);
            if !attribute.update.includes(caller, target, Some(value)) {
                return Err(refused(Verb::Update, attribute, None));
            }
            if let Some(part) = attribute.parts.iter().find(part) {
                return Err(refused(Verb::Update, attribute, Some(part)));
            }
        }
        Ok(())
    }

    fn named_of(
        &self,
        attributes: &'static [Attribute],
    ) -> impl Iterator<Item = (&'static Attribute, &Value)> {
        let named = attributes.iter().filter(|attribute| self.named(attribute.name));
        named.filter_map(|attribute| Some((attribute, self.values.get(attribute.name)?)))
    }

    /// Checks the query parameters of a change and ignores undeclared ones.
    pub fn with_parameters(
        mut self,
        declared: &'static [Attribute],
        pairs: &[(String, String)],
    ) -> Result<Self, Refusal> {
        for (key, value) in pairs {
            if let Some(parameter) = declared.iter().find(|it| it.name == key) {
                self.parameters.insert(parameter.name, check(parameter, &value.as_str().into())?);
            }
        }
        Ok(self)
    }

    /// The same request for an object inside of `parent`.
    pub fn inside(self, parent: Option<Uuid>) -> Self {
        Checked { parent, ..self }
    }

    /// Checks the body of an update, except for permissions: see [`Checked::permit_update`]. `null` is checked like any value, unless
    /// [`Attribute::null`] gives it a meaning.
    pub fn update(attributes: &'static [Attribute], body: &Map<String, Value>) -> Result<Self, Refusal> {
        known(attributes, body)?;
        let read_only = |attribute: &&Attribute| {
            attribute.update == Permission::Nobody && body.contains_key(attribute.name)
        };
        if let Some(attribute) = attributes.iter().find(read_only) {
            return Err(Refusal::NotUpdatable(attribute.name));
        }
        Self::of(attributes, body, |attribute, value| match attribute.null.value() {
            Some(meaning) if value.is_null() => Ok(meaning),
            _ => check(attribute, value),
        })
    }

    fn of(
        attributes: &'static [Attribute],
        body: &Map<String, Value>,
        read: impl Fn(&Attribute, &Value) -> Result<Value, Refusal>,
    ) -> Result<Self, Refusal> {
        let mut checked = Checked::default();
        for attribute in attributes {
            if let Some(value) = body.get(attribute.name) {
                checked.values.insert(attribute.name, read(attribute, value)?);
                checked.named.push(attribute.name);
            }
        }
        Ok(checked)
    }

    /// The owner of the new object: the caller's project, or the one that an administrator named.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The parent object from the path, such as the pool of `pools/{id}/members`, for nouns inside of another.
    pub fn parent(&self) -> Option<Uuid> {
        self.parent
    }

    /// The value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<&Value> {
        self.parameters.get(name)
    }

    /// Whether a boolean query parameter is `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.parameter(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether the request named the attribute.
    pub fn named(&self, name: &str) -> bool {
        self.named.contains(&name)
    }

    /// Whether there is a value, including `null`.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether the value is `null`.
    pub fn is_null(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(Value::is_null)
    }

    /// The value, unless it is absent or `null`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// The value as a boolean.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// The value as a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// The value as an integer, if it fits into the type.
    pub fn integer<N: TryFrom<i64>>(&self, name: &str) -> Option<N> {
        self.get(name)?.as_i64()?.try_into().ok()
    }

    /// The value as a UUID.
    pub fn uuid(&self, name: &str) -> Option<Uuid> {
        self.parsed(name)
    }

    /// A string value, parsed as an address, a prefix or a MAC.
    pub fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// The value, deserialized.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.get(name)?).ok()
    }

    /// The description, tags and creation time of a new object.
    pub fn standard(&self, now: Timestamp) -> Standard {
        let mut standard = Standard::new(now, self.text("description").unwrap_or_default());
        standard.tags = self.read("tags").unwrap_or_default();
        standard
    }

    /// Copies a string value into `slot`, if there is one.
    pub fn set_text(&self, name: &str, slot: &mut String) {
        if let Some(text) = self.text(name) {
            text.clone_into(slot);
        }
    }

    /// Copies a boolean value into `slot`, if there is one.
    pub fn set_bool(&self, name: &str, slot: &mut bool) {
        if let Some(value) = self.bool(name) {
            *slot = value;
        }
    }
}

/// The refusal of an attribute, or of a key in it, that the caller may not set.
fn refused(verb: Verb, attribute: &Attribute, part: Option<&Part>) -> Refusal {
    Refusal::ForbiddenAttribute { verb, attribute: attribute.name, part: part.map(|part| part.name) }
}

/// A value in its normal form.
fn check(attribute: &Attribute, value: &Value) -> Result<Value, Refusal> {
    let refused = |reason| Refusal::BadValue {
        attribute: attribute.name.to_owned(),
        value: value.clone(),
        reason,
        misfit: attribute.shape.misfit(value),
    };
    attribute.shape.check(value).map_err(refused)
}

fn known(attributes: &[Attribute], body: &Map<String, Value>) -> Result<(), Refusal> {
    let is_unknown = |key: &&String| !attributes.iter().any(|it| it.name == key.as_str());
    let unknown: Vec<_> = body.keys().filter(is_unknown).cloned().collect();
    if unknown.is_empty() { Ok(()) } else { Err(Refusal::UnknownAttributes(unknown)) }
}

/// The project that will own the new object.
fn owner(caller: &Caller, body: &Map<String, Value>) -> Result<String, Refusal> {
    let [tenant, project] = ["tenant_id", "project_id"].map(|name| body.get(name).and_then(Value::as_str));
    let asked = match (tenant, project) {
        (Some(tenant), Some(project)) if tenant != project => {
            return Err(Refusal::OwnersDiffer);
        }
        (tenant, project) => project.or(tenant),
    };
    match asked {
        Some(asked) if asked != caller.project && !caller.admin && !caller.service => {
            Err(Refusal::ForeignOwner)
        }
        Some(asked) => Ok(asked.to_owned()),
        None => Ok(caller.project.clone()),
    }
}
