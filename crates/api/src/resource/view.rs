//! The rendering of objects: attributes in the order of the noun's table, and only those that the caller may see and requested.
//!
//! A noun writes all its attributes into a [`View`], which drops unwanted ones before their values are computed. This keeps visibility
//! rules out of the nouns. It also keeps a list of thousands cheap: the view writes JSON directly into the response. Only filtering and
//! sorting, which compare, use [`Values`].
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Display;

use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Attribute, Audience, Shape};
use crate::Caller;
use crate::model::Standard;

/// A marker for a number that is too large for a [`Value`].
const NUMERAL: &str = "$numeral";

/// An integer for an attribute of shape [`Shape::Count`]. JSON's numbers have no limit, but [`Value`]'s do.
pub fn numeral(number: u128) -> Value {
    match u64::try_from(number) {
        Ok(small) => small.into(),
        Err(_) => Value::Object(Map::from_iter([(NUMERAL.to_owned(), number.to_string().into())])),
    }
}

/// The attributes that a response contains.
#[derive(Clone, Debug)]
pub struct Selection {
    attributes: &'static [Attribute],
    wanted: Box<[bool]>,
}

impl Selection {
    /// The attributes that the caller may see, limited to `fields` unless empty. Unknown fields select nothing.
    pub fn new(attributes: &'static [Attribute], caller: &Caller, fields: &[String]) -> Self {
        let wanted = attributes.iter().map(|attribute| {
            attribute.shown.includes(caller)
                && (fields.is_empty() || fields.iter().any(|field| field == attribute.name))
        });
        Selection { attributes, wanted: wanted.collect() }
    }

    /// Only these attributes, if the caller may see them or if nobody does: the latter exist for filters.
    pub fn only<'n>(
        attributes: &'static [Attribute],
        caller: &Caller,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Self {
        let wanted = attributes.iter().map(|attribute| {
            let hidden = !attribute.shown.includes(caller) && attribute.shown != Audience::Never;
            !hidden && names.clone().any(|name| name == attribute.name)
        });
        Selection { attributes, wanted: wanted.collect() }
    }

    /// Whether an attribute is selected.
    pub fn wants(&self, name: &str) -> bool {
        self.attributes.iter().position(|it| it.name == name).is_some_and(|at| self.wanted[at])
    }

    /// Whether the noun may contain a [`numeral`]. In other nouns an object with such a key is an ordinary object.
    fn counts(&self) -> bool {
        self.attributes.iter().any(|attribute| matches!(attribute.shape, Shape::Count))
    }

    fn size(&self) -> usize {
        self.wanted.iter().filter(|wanted| **wanted).count()
    }
}

/// The attributes of one object while a noun writes them.
#[derive(Debug)]
pub struct View<'s> {
    selection: &'s Selection,
    next: usize,
    to: To,
}

#[derive(Debug)]
enum To {
    /// JSON for a response.
    Text(Vec<u8>),
    /// Values for comparisons.
    Values(Vec<(&'static str, Value)>),
}

/// The initial capacity for one object; most fit, even ports.
const ROOM: usize = 1536;
/// The maximum number of objects for which capacity is reserved in advance.
const MUCH: usize = 10_000;

impl<'s> View<'s> {
    /// An empty view that writes JSON.
    pub fn new(selection: &'s Selection) -> Self {
        Self::after(selection, Vec::with_capacity(ROOM))
    }

    /// An empty view that appends to existing JSON.
    fn after(selection: &'s Selection, mut text: Vec<u8>) -> Self {
        text.push(b'{');
        View { selection, next: 0, to: To::Text(text) }
    }

    /// Collects the attributes that `write` writes as values.
    pub fn values(selection: &'s Selection, write: impl FnOnce(&mut Self)) -> Values {
        let fields = Vec::with_capacity(selection.size());
        let mut view = View { selection, next: 0, to: To::Values(fields) };
        write(&mut view);
        match view.to {
            To::Values(fields) => Values(fields),
            To::Text(_) => unreachable!("it was begun with values"),
        }
    }

    /// The attribute's name from the table, if it is selected. One comparison suffices while the noun writes in the table's order.
    fn wanted(&mut self, name: &str) -> Option<&'static str> {
        let attributes = self.selection.attributes;
        let at = match attributes.get(self.next) {
            Some(attribute) if attribute.name == name => self.next,
            _ => attributes.iter().position(|attribute| attribute.name == name)?,
        };
        self.next = at + 1;
        self.selection.wanted[at].then_some(attributes[at].name)
    }

    /// Writes a value that is cheap to compute.
    pub fn put(&mut self, name: &str, value: impl Serialize) {
        self.put_with(name, || value);
    }

    /// Writes a value, which is computed only if it is selected.
    pub fn put_with<T: Serialize>(&mut self, name: &str, value: impl FnOnce() -> T) {
        let Some(name) = self.wanted(name) else { return };
        match &mut self.to {
            To::Text(text) => write_field(text, name, &value()),
            To::Values(fields) => match serde_json::to_value(value()) {
                Ok(value) => fields.push((name, value)),
                Err(error) => unreachable!("attributes are plain data: {error}"),
            },
        }
    }

    /// Writes a value that may contain a [`numeral`].
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        let Some(name) = self.wanted(name) else { return };
        match &mut self.to {
            To::Text(text) if self.selection.counts() => write_field(text, name, &Exact(value)),
            To::Text(text) => write_field(text, name, value),
            To::Values(fields) => fields.push((name, value.clone())),
        }
    }

    /// Writes a value in its `Display` form.
    pub fn text(&mut self, name: &str, value: &(impl Display + ?Sized)) {
        self.put(name, Text(value));
    }

    /// Writes a value in its `Display` form, or `null`.
    pub fn optional(&mut self, name: &str, value: Option<&impl Display>) {
        self.put(name, value.map(Text));
    }

    /// Writes a list.
    pub fn list<T: Serialize>(&mut self, name: &str, values: impl IntoIterator<Item = T, IntoIter: Clone>) {
        self.put(name, List(values.into_iter()));
    }

    /// Writes a list of values in their `Display` form.
    pub fn texts<T: Display>(&mut self, name: &str, values: impl IntoIterator<Item = T, IntoIter: Clone>) {
        self.list(name, values.into_iter().map(Text));
    }

    /// Writes the id, and the project under both its names.
    pub fn identity(&mut self, id: Uuid, project: &str) {
        self.text("id", &id);
        self.put("tenant_id", project);
        self.put("project_id", project);
    }

    /// Writes the revision, times, description and tags.
    pub fn standard(&mut self, standard: &Standard) {
        self.put("description", standard.description.as_str());
        self.list("tags", &standard.tags);
        self.put("revision_number", standard.revision);
        self.text("created_at", &standard.created_at);
        self.text("updated_at", &standard.updated_at);
    }

    /// Ends the object.
    pub fn finish(self) -> RenderedObject {
        RenderedObject(self.into_text())
    }

    fn into_text(self) -> Vec<u8> {
        match self.to {
            To::Text(mut text) => {
                text.push(b'}');
                text
            }
            To::Values(_) => unreachable!("values are taken where they are begun"),
        }
    }
}

/// Attribute names need no escaping in JSON.
fn write_field(text: &mut Vec<u8>, name: &'static str, value: &impl Serialize) {
    let begin: &[u8] = if text.ends_with(b"{") { b"\"" } else { b",\"" };
    text.extend_from_slice(begin);
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"\":");
    if let Err(error) = value.serialize(&mut serde_json::Serializer::new(text)) {
        unreachable!("attributes are plain data: {error}");
    }
}

/// Serializes a value in its `Display` form.
#[derive(Clone, Copy)]
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Serializes the items of an iterator.
struct List<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// The attributes of one object as values, for comparisons.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    /// The value of one attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// All attributes as a JSON object.
    pub fn into_value(self) -> Value {
        Value::Object(self.0.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// A rendered list: JSON objects with commas between them, in one buffer. Separate buffers for thousands of objects would dominate the cost
/// of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedList {
    text: Vec<u8>,
    /// The offset of each object's end.
    ends: Vec<usize>,
}

impl RenderedList {
    /// An empty list with capacity for so many objects.
    pub fn with_room(objects: usize) -> Self {
        RenderedList { text: Vec::with_capacity(objects.min(MUCH) * ROOM), ends: Vec::with_capacity(objects) }
    }

    /// Adds the object that `write` writes.
    pub fn push(&mut self, selection: &Selection, write: impl FnOnce(&mut View<'_>)) {
        let mut text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            text.push(b',');
        }
        let mut view = View::after(selection, text);
        write(&mut view);
        self.text = view.into_text();
        self.ends.push(self.text.len());
    }

    /// The whole buffer, without brackets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The objects one by one.
    pub fn iter(&self) -> impl Iterator<Item = RenderedObject> + '_ {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        begins.zip(&self.ends).map(|(begin, end)| RenderedObject(self.text[begin..*end].to_vec()))
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// One rendered object: JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedObject(Vec<u8>);

impl RenderedObject {
    /// The JSON bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Parses the JSON.
    pub fn into_value(self) -> Value {
        match serde_json::from_slice(&self.0) {
            Ok(value) => value,
            Err(error) => unreachable!("it was written as JSON: {error}"),
        }
    }
}

/// Serializes a value with each [`numeral`] as a number.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::World;
    use crate::model::Network;
    use crate::report::Report;
    use crate::resource::fixture::network;
    use crate::resource::network::Networks;
    use crate::resource::{NOUNS, Resource, Scene};
    use crate::world::Outside;

    #[test]
    fn names_of_attributes_need_no_escapes() {
        for attribute in NOUNS.iter().flat_map(|noun| noun.attributes()) {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:".contains(&byte);
            assert!(attribute.name.bytes().all(plain), "{}", attribute.name);
        }
    }

    proptest! {
        /// JSON and the values for comparisons agree.
        #[test]
        fn text_and_values_say_the_same(
            name in any::<String>(),
            tags in proptest::collection::btree_set(any::<String>(), 0..3),
            mtu in any::<u32>(),
            fields in proptest::sample::subsequence(vec!["id", "name", "tags", "mtu", "created_at", "subnets"], 0..6),
        ) {
            let mut network = Network { name, mtu, ..network(1, "p") };
            network.standard.tags = tags;
            let caller = Caller::admin("p");
            let (world, report, outside) = (World::default(), Report::default(), Outside::default());
            let scene = Scene { world: &world, report: &report, outside: &outside, caller: &caller, now: jiff::Timestamp::UNIX_EPOCH, parent: None };
            let fields: Vec<_> = fields.into_iter().map(str::to_owned).collect();
            let selection = Selection::new(Networks::attributes(), &caller, &fields);
            let mut view = View::new(&selection);
            Networks::view(&network, &scene, &mut view);
            let values = View::values(&selection, |view| Networks::view(&network, &scene, view));
            prop_assert_eq!(view.finish().into_value(), values.into_value());
        }
    }
}
