//! Tags of objects: the sub-resource `tags`, the same for all nouns that have it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Method, Reply};
use crate::Fault;

/// The maximum number of tags of an object.
pub const MOST: usize = 50;
/// The maximum length of a tag in characters.
const LONGEST: usize = 255;

/// Parses a tag.
pub fn parse(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a tag is not empty".into());
    }
    if text.chars().count() > LONGEST {
        return Err(format!("'{text}' exceeds maximum length of {LONGEST}"));
    }
    if text.contains('\0') {
        return Err("it contains a NUL character".into());
    }
    Ok(text.to_owned())
}

/// Runs one request on the tags of an object, given the method, the tag in the path and the body. Updates `tags` and returns the status and
/// the response.
pub fn apply(
    tags: &mut BTreeSet<String>,
    id: &str,
    method: Method,
    tag: Option<&str>,
    body: &Value,
) -> Result<(u16, Reply), Fault> {
    match (method, tag) {
        (Method::Get, None) => return Ok((200, all(tags))),
        (Method::Get, Some(tag)) => {
            return if tags.contains(tag) { Ok((204, Reply::Nothing)) } else { Err(no_tag(tag, id)) };
        }
        (Method::Put, None) => *tags = listed(body)?,
        (Method::Post, None) => tags.extend(listed(body)?),
        (Method::Delete, None) => tags.clear(),
        (Method::Put, Some(tag)) => {
            tags.insert(parse(tag).map_err(|reason| Fault::invalid("tags", reason))?);
        }
        (Method::Delete, Some(tag)) => {
            if !tags.remove(tag) {
                return Err(no_tag(tag, id));
            }
        }
        (Method::Post, Some(_)) => return Err(Fault::not_allowed()),
    }
    if tags.len() > MOST {
        return Err(Fault::invalid("tags", format!("it has {} tags, and {MOST} is the most", tags.len())));
    }
    Ok(match (method, tag) {
        (Method::Put, None) => (200, all(tags)),
        (Method::Post, None) => (201, all(tags)),
        (Method::Put, Some(_)) => (201, Reply::Nothing),
        _ => (204, Reply::Nothing),
    })
}

fn all(tags: &BTreeSet<String>) -> Reply {
    Reply::Value(json!({"tags": tags}))
}

fn no_tag(tag: &str, id: &str) -> Fault {
    Fault::new(404, "TagNotFound", format!("Tag {tag} for resource {id} could not be found."))
}

fn listed(body: &Value) -> Result<BTreeSet<String>, Fault> {
    let body = body.as_object().ok_or_else(|| Fault::bad("Body contains invalid data"))?;
    if let Some(other) = body.keys().find(|key| *key != "tags") {
        return Err(Fault::bad(format!("Unrecognized attribute(s) '{other}'")));
    }
    let Some(Value::Array(tags)) = body.get("tags") else {
        return Err(Fault::invalid("tags", "a list of tags is expected in the body under 'tags'"));
    };
    let mut checked = BTreeSet::new();
    for tag in tags {
        let text =
            tag.as_str().ok_or_else(|| Fault::invalid("tags", format!("'{tag}' is not a valid string")))?;
        if !checked.insert(parse(text).map_err(|reason| Fault::invalid("tags", reason))?) {
            return Err(Fault::invalid("tags", format!("Duplicate items in the list: '{text}'")));
        }
    }
    Ok(checked)
}
