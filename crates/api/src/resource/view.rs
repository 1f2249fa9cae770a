//! What an answer shows of an object: attributes in the order of the noun's table, only those that the caller sees and
//! asked for.
//!
//! A noun writes all its attributes into a [`View`]; what is not wanted is dropped before it is made. That keeps the nouns
//! free of "who sees what", and a list of thousands cheap.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Display;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Attribute, Shape};
use crate::Caller;
use crate::model::Standard;

/// Stands for a number that is too large for a [`Value`].
const NUMERAL: &str = "$numeral";

/// A whole number for an attribute of shape [`Shape::Count`]: JSON's numbers have no limit, but [`Value`]'s do.
pub fn numeral(number: u128) -> Value {
    match u64::try_from(number) {
        Ok(small) => small.into(),
        Err(_) => Value::Object(Map::from_iter([(NUMERAL.to_owned(), number.to_string().into())])),
    }
}

/// Which attributes an answer shows.
#[derive(Clone, Debug)]
pub struct Selection {
    attributes: &'static [Attribute],
    wanted: Box<[bool]>,
}

impl Selection {
    /// What the caller sees, cut down to `fields` if there are any. Unknown fields select nothing.
    pub fn new(attributes: &'static [Attribute], caller: &Caller, fields: &[String]) -> Self {
        let wanted = attributes.iter().map(|attribute| {
            attribute.shown.includes(caller)
                && (fields.is_empty() || fields.iter().any(|field| field == attribute.name))
        });
        Selection { attributes, wanted: wanted.collect() }
    }

    /// What the caller sees of these attributes and no others.
    pub fn only<'n>(
        attributes: &'static [Attribute],
        caller: &Caller,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Self {
        let wanted = attributes.iter().map(|attribute| {
            attribute.shown.includes(caller) && names.clone().any(|name| name == attribute.name)
        });
        Selection { attributes, wanted: wanted.collect() }
    }

    /// Whether an attribute is shown.
    pub fn wants(&self, name: &str) -> bool {
        self.attributes.iter().position(|it| it.name == name).is_some_and(|at| self.wanted[at])
    }

    fn size(&self) -> usize {
        self.wanted.iter().filter(|wanted| **wanted).count()
    }
}

/// The attributes of one object, being collected.
#[derive(Debug)]
pub struct View<'s> {
    selection: &'s Selection,
    next: usize,
    fields: Vec<(&'static str, Value)>,
}

impl<'s> View<'s> {
    /// An empty one.
    pub fn new(selection: &'s Selection) -> Self {
        View { selection, next: 0, fields: Vec::with_capacity(selection.size()) }
    }

    /// The attribute's name in the table, if it is wanted. Writing in the table's order makes this one comparison.
    fn wanted(&mut self, name: &str) -> Option<&'static str> {
        let attributes = self.selection.attributes;
        let at = match attributes.get(self.next) {
            Some(attribute) if attribute.name == name => self.next,
            _ => attributes.iter().position(|attribute| attribute.name == name)?,
        };
        self.next = at + 1;
        self.selection.wanted[at].then_some(attributes[at].name)
    }

    /// Shows a value that costs nothing to make.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.put_with(name, || value.into());
    }

    /// Shows a value that is made only if it is wanted.
    pub fn put_with(&mut self, name: &str, value: impl FnOnce() -> Value) {
        if let Some(name) = self.wanted(name) {
            self.fields.push((name, value()));
        }
    }

    /// Shows something by its text.
    pub fn text(&mut self, name: &str, value: &(impl Display + ?Sized)) {
        self.put_with(name, || Value::String(value.to_string()));
    }

    /// Shows something by its text, or `null`.
    pub fn optional(&mut self, name: &str, value: Option<&impl Display>) {
        self.put_with(name, || value.map(ToString::to_string).into());
    }

    /// Shows many things by their texts.
    pub fn texts<T: Display>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        self.put_with(name, || values.into_iter().map(|value| Value::String(value.to_string())).collect());
    }

    /// Shows an id and the owner under both its names.
    pub fn identity(&mut self, id: Uuid, project: &str) {
        self.text("id", &id);
        self.text("tenant_id", project);
        self.text("project_id", project);
    }

    /// Shows revision, times, description and labels.
    pub fn standard(&mut self, standard: &Standard) {
        self.text("description", standard.description.as_str());
        self.texts("tags", &standard.tags);
        self.put("revision_number", standard.revision);
        self.text("created_at", &standard.created_at);
        self.text("updated_at", &standard.updated_at);
    }

    /// What was collected.
    pub fn finish(self) -> Shown {
        let counts =
            self.selection.attributes.iter().any(|attribute| matches!(attribute.shape, Shape::Count));
        Shown { fields: self.fields, counts }
    }
}

/// The attributes of one object as an answer shows them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    fields: Vec<(&'static str, Value)>,
    /// Whether some of them may be [`numeral`]s. Elsewhere an object is an object, whatever its keys.
    counts: bool,
}

impl Shown {
    /// One attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(name, _)| *name)
    }

    /// As a JSON object.
    pub fn into_value(self) -> Value {
        Value::Object(self.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            match self.counts {
                true => map.serialize_entry(name, &Exact(value))?,
                false => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// A value whose [`numeral`]s are written as numbers.
struct Exact<'v>(&'v Value);

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(elements) => serializer.collect_seq(elements.iter().map(Exact)),
            Value::Object(map) => {
                let digits = map.get(NUMERAL).and_then(Value::as_str).filter(|it| it.parse::<u128>().is_ok());
                match digits.and_then(|digits| RawValue::from_string(digits.to_owned()).ok()) {
                    Some(number) => number.serialize(serializer),
                    None => serializer.collect_map(map.iter().map(|(key, value)| (key, Exact(value)))),
                }
            }
            plain => plain.serialize(serializer),
        }
    }
}
