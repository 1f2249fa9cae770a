//! The filters of a list.
//!
//! Values of one key are alternatives; different keys must all match. The empty value matches attributes that are empty or unset.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::query::Query;
use crate::dialect::Refusal;
use crate::resource::{Attribute, Shape, Values};

/// The filters of a list, checked against the noun.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    attributes: Vec<(&'static str, Test)>,
    tags: Vec<(TagRule, BTreeSet<String>)>,
    changed_since: Option<Timestamp>,
}

/// The comparison of an attribute.
#[derive(Clone, Debug)]
enum Test {
    /// Any of these values, in normal form.
    Any(Vec<String>),
    /// An element whose keys all have one of their values: `fixed_ips=ip_address=10.0.0.1`.
    Element(Vec<(String, Vec<String>)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagRule {
    All,
    Any,
    NotAll,
    NotAny,
}

impl Filters {
    /// Parses the filters in a query. Each must be on an attribute that allows filtering.
    pub fn new(attributes: &'static [Attribute], query: &Query) -> Result<Self, Refusal> {
        let mut filters = Filters { changed_since: query.changed_since, ..Filters::default() };
        let mut unknown = Vec::new();
        let find = |name: &str| attributes.iter().find(|it| it.filter && it.name == name);
        let tagged = attributes.iter().any(|it| it.name == "tags");
        if filters.changed_since.is_some() && find("updated_at").is_none() {
            unknown.push("changed_since");
        }
        for (key, value) in &query.filters {
            let rule = match key.as_str() {
                "tags" => Some(TagRule::All),
                "tags-any" => Some(TagRule::Any),
                "not-tags" => Some(TagRule::NotAll),
                "not-tags-any" => Some(TagRule::NotAny),
                _ => None,
            };
            match (rule, find(key)) {
                (Some(rule), _) if tagged => {
                    filters.tags.push((rule, value.split(',').map(str::to_owned).collect()));
                }
                (None, Some(attribute)) => filters.add(attribute, value, query)?,
                _ => unknown.push(key),
            }
        }
        unknown.dedup();
        if !unknown.is_empty() {
            return Err(Refusal::UnknownFilters(unknown.into_iter().map(str::to_owned).collect()));
        }
        match (filters.values("project_id"), filters.values("tenant_id")) {
            (Some(project), Some(tenant)) if project != tenant => Err(Refusal::OwnersDiffer),
            _ => Ok(filters),
        }
    }

    fn add(&mut self, attribute: &'static Attribute, value: &str, query: &Query) -> Result<(), Refusal> {
        let at = self.attributes.iter().position(|(name, _)| *name == attribute.name);
        if let Some(fields) = elements(&attribute.shape) {
            let (key, value) = value.split_once('=').unwrap_or((value, ""));
            let plain = key.strip_suffix("_substr").unwrap_or(key);
            let Some(field) = fields.iter().find(|field| field.name == plain) else {
                let name = attribute.name;
                let reason = format!("'{key}' is not a key to filter {name} by");
                return Err(Refusal::bad_value(name, value, reason));
            };
            let value =
                if plain == key { normal(key, &field.shape, value, query)? } else { value.to_owned() };
            let at = at.unwrap_or_else(|| {
                self.attributes.push((attribute.name, Test::Element(Vec::new())));
                self.attributes.len() - 1
            });
            if let (_, Test::Element(keys)) = &mut self.attributes[at] {
                match keys.iter_mut().find(|(known, _)| known == key) {
                    Some((_, values)) => values.push(value),
                    None => keys.push((key.to_owned(), vec![value])),
                }
            }
            return Ok(());
        }
        let value = normal(attribute.name, &attribute.shape, value, query)?;
        match at.map(|at| &mut self.attributes[at]) {
            Some((_, Test::Any(values))) => values.push(value),
            _ => self.attributes.push((attribute.name, Test::Any(vec![value]))),
        }
        Ok(())
    }

    /// The alternatives for an attribute, if the list is filtered by it.
    pub fn values(&self, name: &str) -> Option<&[String]> {
        self.attributes.iter().find_map(|(known, test)| match test {
            Test::Any(values) if *known == name => Some(values.as_slice()),
            _ => None,
        })
    }

    /// Removes a filter and returns its alternatives.
    pub fn take(&mut self, name: &str) -> Option<Vec<String>> {
        let at = self
            .attributes
            .iter()
            .position(|(known, test)| *known == name && matches!(test, Test::Any(_)))?;
        match self.attributes.swap_remove(at) {
            (_, Test::Any(values)) => Some(values),
            (_, Test::Element(_)) => None,
        }
    }

    /// The alternatives for an attribute with ids. Malformed ids match no object and are omitted.
    pub fn uuids(&self, name: &str) -> Option<Vec<Uuid>> {
        self.values(name).map(|values| values.iter().filter_map(|it| Uuid::try_parse(it).ok()).collect())
    }

    /// The alternatives for one key of the elements of an attribute: `("fixed_ips", "subnet_id")`.
    pub fn element(&self, name: &str, key: &str) -> Option<&[String]> {
        self.attributes.iter().find_map(|(known, test)| match test {
            Test::Element(keys) if *known == name => {
                keys.iter().find(|(known, _)| known == key).map(|(_, values)| values.as_slice())
            }
            _ => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.tags.is_empty() && self.changed_since.is_none()
    }

    /// The attributes that the filters read.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let tags = (!self.tags.is_empty()).then_some("tags");
        let updated_at = self.changed_since.map(|_| "updated_at");
        self.attributes.iter().map(|(name, _)| *name).chain(tags).chain(updated_at)
    }

    /// Whether an object passes. An attribute that the caller does not see counts as unset.
    pub(super) fn admit(&self, shown: &Values) -> bool {
        let attributes = self
            .attributes
            .iter()
            .all(|(name, test)| shown.get(name).is_some_and(|value| test.admits(value)));
        attributes && self.admit_tags(shown) && self.admit_time(shown)
    }

    fn admit_tags(&self, shown: &Values) -> bool {
        if self.tags.is_empty() {
            return true;
        }
        let has: BTreeSet<&str> = match shown.get("tags") {
            Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_str).collect(),
            _ => BTreeSet::new(),
        };
        self.tags.iter().all(|(rule, tags)| {
            let all = tags.iter().all(|tag| has.contains(tag.as_str()));
            let any = tags.iter().any(|tag| has.contains(tag.as_str()));
            match rule {
                TagRule::All => all,
                TagRule::Any => any,
                TagRule::NotAll => !all,
                TagRule::NotAny => !any,
            }
        })
    }

    fn admit_time(&self, shown: &Values) -> bool {
        let Some(since) = self.changed_since else { return true };
        let updated = shown.get("updated_at").and_then(Value::as_str).and_then(|text| text.parse().ok());
        updated.is_some_and(|updated: Timestamp| updated >= since)
    }
}

impl Test {
    fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Test::Any(values), Value::Array(elements)) => {
                (elements.is_empty() && values.iter().any(String::is_empty))
                    || elements.iter().any(|element| values.iter().any(|wanted| equal(element, wanted)))
            }
            (Test::Any(values), value) => values.iter().any(|wanted| equal(value, wanted)),
            (Test::Element(keys), Value::Array(elements)) => {
                elements.iter().any(|element| fits(element, keys))
            }
            (Test::Element(keys), value) => fits(value, keys),
        }
    }
}

fn fits(element: &Value, keys: &[(String, Vec<String>)]) -> bool {
    keys.iter().all(|(key, values)| {
        let part = key.strip_suffix("_substr");
        let Some(value) = element.get(part.unwrap_or(key)) else { return false };
        values.iter().any(|wanted| match part {
            Some(_) => value.as_str().is_some_and(|text| text.contains(wanted.as_str())),
            None => equal(value, wanted),
        })
    })
}

fn equal(value: &Value, wanted: &str) -> bool {
    match value {
        Value::Null => wanted.is_empty(),
        Value::Bool(value) => wanted == if *value { "true" } else { "false" },
        Value::Number(number) => number.to_string() == wanted,
        Value::String(text) => text == wanted,
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// The keys of a list's elements, if they are objects.
fn elements(shape: &Shape) -> Option<&'static [crate::resource::Field]> {
    match shape {
        Shape::Nullable(of) => elements(of),
        Shape::List { of, .. } => elements(of),
        Shape::Object(fields) => Some(fields),
        _ => None,
    }
}

/// A value in the form that responses use. Booleans and numbers must be valid. Other strings may be anything; a malformed one matches no
/// object.
fn normal(name: &str, shape: &Shape, value: &str, query: &Query) -> Result<String, Refusal> {
    match shape {
        Shape::Nullable(_) if value.is_empty() => Ok(String::new()),
        Shape::Nullable(of) => normal(name, of, value, query),
        Shape::List { of, .. } => normal(name, of, value, query),
        Shape::Bool => query.truth(name, value).map(|it| it.to_string()),
        Shape::Integer { .. } => match value.parse::<i64>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(Refusal::bad_value(name, value, format!("'{value}' is not an integer"))),
        },
        Shape::Uuid | Shape::Address | Shape::Cidr | Shape::Mac | Shape::Time => {
            let checked = shape.check(&Value::from(value)).ok();
            Ok(checked.and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_else(|| value.to_owned()))
        }
        _ => Ok(value.to_owned()),
    }
}
