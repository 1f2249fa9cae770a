//! Checks that [`attributes`](super::attributes) has a line for each string that a client can send.
//!
//! The API's own tables list all attributes and actions. A new attribute that accepts a string needs a line there.

use std::collections::BTreeSet;

use api::resource::{NOUNS, Permission, Shape, Verb};
use serde_json::Value;

use super::{Objects, Target, attributes};

/// A string that occurs nowhere else in a body.
const MARK: &str = "the-mark";

/// The paths of the free strings in a value of a shape. Numbers, booleans, ids and keywords do not count, because their shape limits them.
fn texts(path: &str, shape: &Shape, found: &mut BTreeSet<String>) {
    match shape {
        Shape::Nullable(of) | Shape::List { of, .. } => texts(path, of, found),
        Shape::Object(fields) => {
            for field in *fields {
                texts(&format!("{path} {}", field.name), &field.shape, found);
            }
        }
        Shape::Bool | Shape::Uuid | Shape::Integer { .. } | Shape::Count | Shape::OneOf(_) | Shape::Time => {}
        Shape::Text { .. }
        | Shape::Word { .. }
        | Shape::WordOrNumber { .. }
        | Shape::Address
        | Shape::Cidr
        | Shape::GivenAddress
        | Shape::GivenCidr
        | Shape::Mac
        | Shape::Free
        | Shape::Any => drop(found.insert(path.to_owned())),
    }
}

/// The paths at which a body contains the mark.
fn marked(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text == MARK => drop(found.insert(path.to_owned())),
        Value::Array(elements) => elements.iter().for_each(|element| marked(path, element, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| marked(&format!("{path} {key}"), value, found));
        }
        _ => {}
    }
}

#[test]
fn every_text_of_the_api_is_attacked() {
    let mut all = BTreeSet::new();
    for noun in NOUNS {
        for attribute in noun.attributes() {
            let may = |verb, permission| noun.verbs().contains(&verb) && permission != Permission::Nobody;
            // `tenant_id` is an alias of `project_id`. An agent is a chassis, whose description has no row.
            if attribute.name != "tenant_id"
                && noun.name() != "agent"
                && (may(Verb::Create, attribute.create) || may(Verb::Update, attribute.update))
            {
                texts(&format!("{} {}", noun.name(), attribute.name), &attribute.shape, &mut all);
            }
        }
        for action in noun.actions() {
            if let Some(body) = &action.body {
                texts(&format!("{} {}", noun.name(), action.path), body, &mut all);
            }
        }
    }
    let mut attacked = BTreeSet::new();
    for attribute in attributes(&Objects::default()) {
        let subject = match &attribute.target {
            Target::Create { noun: "binding", .. } => "port bindings binding".to_owned(),
            Target::Update { noun, .. } | Target::Create { noun, .. } => (*noun).to_owned(),
            Target::Call { noun, action, .. } => format!("{noun} {action}"),
        };
        marked(&subject, &(attribute.body)(MARK), &mut attacked);
    }
    let is_attacked = |path: &str| {
        // A key of a value with arbitrary keys represents the whole value.
        attacked
            .iter()
            .any(|it| it == path || it.strip_prefix(path).is_some_and(|rest| rest.starts_with(' ')))
    };
    let missing: Vec<_> = all.iter().filter(|path| !is_attacked(path)).collect();
    assert!(missing.is_empty(), "no hostile text is sent as: {missing:#?}");
}
