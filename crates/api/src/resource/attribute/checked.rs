//! A request body after the check: known names, right shapes, presets filled in, nothing the caller may not set.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Attribute, Part, Who};
use crate::model::Standard;
use crate::policy::PolicyTarget;
use crate::{Caller, Fault};

/// The attributes of a create or update request in their normal form.
///
/// After a create every attribute with a [`Preset`](super::Preset) has a value; after an update only those named have one.
/// The getters give `None` both for what is absent and for `null`; [`Checked::has`] and [`Checked::is_null`] tell them
/// apart. A getter of another type than the attribute's shape gives `None` too.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    values: BTreeMap<&'static str, Value>,
    named: Vec<&'static str>,
    project: String,
}

impl Checked {
    /// Checks the body of a create request, but for who may say it: see [`Checked::permit_create`].
    pub fn create(
        attributes: &'static [Attribute],
        caller: &Caller,
        body: &Map<String, Value>,
    ) -> Result<Self, Fault> {
        known(attributes, body)?;
        for attribute in attributes {
            if attribute.create == Who::Nobody && body.contains_key(attribute.name) {
                return Err(Fault::bad(format!("Attribute '{}' not allowed in POST", attribute.name)));
            }
            if attribute.required && !body.contains_key(attribute.name) {
                let name = attribute.name;
                let text = format!("Failed to parse request. Required attribute '{name}' not specified");
                return Err(Fault::bad(text));
            }
        }
        let mut checked = Self::of(attributes, body)?;
        checked.project = owner(caller, body)?;
        for attribute in attributes {
            if let (false, Some(value)) = (checked.has(attribute.name), attribute.preset.value()) {
                checked.values.insert(attribute.name, value);
            }
        }
        Ok(checked)
    }

    /// Whether the caller may name what a create request for a `resource` (such as `network`) names.
    pub fn permit_create(
        &self,
        resource: &str,
        attributes: &'static [Attribute],
        caller: &Caller,
        target: &PolicyTarget<'_>,
    ) -> Result<(), Fault> {
        for (attribute, value) in self.named_of(attributes) {
            // Naming what one would get anyway needs no permission: clients send whole objects.
            if attribute.preset.value().as_ref() == Some(value) {
                continue;
            }
            let part = |part: &&Part| part.is_in(value) && !part.create.permits(caller, target, None);
            if !attribute.create.includes(caller, target, Some(value)) {
                return Err(refused("create", resource, attribute.name, None));
            }
            if let Some(part) = attribute.parts.iter().find(part) {
                return Err(refused("create", resource, attribute.name, Some(part.name)));
            }
        }
        Ok(())
    }

    /// Whether the caller may name what an update of a `resource` names.
    pub fn permit_update(
        &self,
        resource: &str,
        attributes: &'static [Attribute],
        caller: &Caller,
        target: &PolicyTarget<'_>,
    ) -> Result<(), Fault> {
        for (attribute, value) in self.named_of(attributes) {
            let part = |part: &&Part| part.is_in(value) && !part.update.permits(caller, target, None);
            if !attribute.update.includes(caller, target, Some(value)) {
                return Err(refused("update", resource, attribute.name, None));
            }
            if let Some(part) = attribute.parts.iter().find(part) {
                return Err(refused("update", resource, attribute.name, Some(part.name)));
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

    /// Checks the body of an update, but for who may say it: see [`Checked::permit_update`].
    pub fn update(attributes: &'static [Attribute], body: &Map<String, Value>) -> Result<Self, Fault> {
        known(attributes, body)?;
        let read_only =
            |attribute: &&Attribute| attribute.update == Who::Nobody && body.contains_key(attribute.name);
        if let Some(attribute) = attributes.iter().find(read_only) {
            return Err(Fault::bad(format!("Cannot update read-only attribute {}", attribute.name)));
        }
        Self::of(attributes, body)
    }

    fn of(attributes: &'static [Attribute], body: &Map<String, Value>) -> Result<Self, Fault> {
        let mut checked = Checked::default();
        for attribute in attributes {
            if let Some(value) = body.get(attribute.name) {
                let value =
                    attribute.shape.check(value).map_err(|reason| Fault::invalid(attribute.name, reason))?;
                checked.values.insert(attribute.name, value);
                checked.named.push(attribute.name);
            }
        }
        Ok(checked)
    }

    /// The owner of what is created: the caller, or whom an administrator named.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Whether the request itself named the attribute.
    pub fn named(&self, name: &str) -> bool {
        self.named.contains(&name)
    }

    /// Whether there is a value, be it `null`.
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

    /// A truth value.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// A number, if it fits.
    pub fn integer<N: TryFrom<i64>>(&self, name: &str) -> Option<N> {
        self.get(name)?.as_i64()?.try_into().ok()
    }

    /// A UUID.
    pub fn uuid(&self, name: &str) -> Option<Uuid> {
        self.parsed(name)
    }

    /// A text as what it stands for: an address, a prefix, a MAC.
    pub fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// A structure as the type that reads it.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.get(name)?).ok()
    }

    /// Description and labels of what is created, made at `now`.
    pub fn standard(&self, now: Timestamp) -> Standard {
        let mut standard = Standard::new(now, self.text("description").unwrap_or_default());
        standard.tags = self.read("tags").unwrap_or_default();
        standard
    }

    /// Writes a named text into `slot`.
    pub fn set_text(&self, name: &str, slot: &mut String) {
        if let Some(text) = self.text(name) {
            text.clone_into(slot);
        }
    }

    /// Writes a named truth value into `slot`.
    pub fn set_bool(&self, name: &str, slot: &mut bool) {
        if let Some(value) = self.bool(name) {
            *slot = value;
        }
    }
}

/// 403 of an attribute, or of a key inside of it.
fn refused(verb: &str, resource: &str, name: &str, part: Option<&str>) -> Fault {
    let part = part.map(|part| format!(":{part}")).unwrap_or_default();
    Fault::forbidden(format!("{verb}_{resource} and rule:{verb}_{resource}:{name}{part}"))
}

fn known(attributes: &[Attribute], body: &Map<String, Value>) -> Result<(), Fault> {
    let unknown: Vec<_> =
        body.keys().filter(|key| !attributes.iter().any(|it| it.name == key.as_str())).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let names = unknown.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(", ");
    Err(Fault::bad(format!("Unrecognized attribute(s) '{names}'")))
}

/// Whom the new object will belong to.
fn owner(caller: &Caller, body: &Map<String, Value>) -> Result<String, Fault> {
    let [tenant, project] = ["tenant_id", "project_id"].map(|name| body.get(name).and_then(Value::as_str));
    let asked = match (tenant, project) {
        (Some(tenant), Some(project)) if tenant != project => {
            return Err(Fault::bad("'project_id' and 'tenant_id' do not match"));
        }
        (tenant, project) => project.or(tenant),
    };
    match asked {
        Some(asked) if asked != caller.project && !caller.admin && !caller.service => Err(Fault::bad(
            "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin privileges",
        )),
        Some(asked) => Ok(asked.to_owned()),
        None => Ok(caller.project.clone()),
    }
}
