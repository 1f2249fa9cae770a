//! The parts of API documents (OpenAPI 3.1) that all dialects share: operations, bodies and queries, generated from the tables of
//! attributes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value, json};

use crate::resource::{self, Action, Attribute, Method, Permission};

/// Builds the document of an API from its paths and schemas.
pub(super) fn document(
    title: &str,
    about: &str,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "description": about,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"basic": []}, {}],
    })
}

pub(super) fn act(action: &Action, tag: &str, parameters: &[Value]) -> Value {
    let content = action.body.map(|body| body.schema());
    let answer = (action.status != 204).then(|| json!({"type": "object"}));
    operation(tag, action.about.to_owned(), parameters, content, (action.status, answer))
}

/// Replaces each `*` in an action's path by a parameter.
pub(super) fn templated(path: &str) -> (String, Vec<Value>) {
    let mut parameters = Vec::new();
    let mut name = |segment: &str| {
        if segment != "*" {
            return segment.to_owned();
        }
        let name = format!("argument{}", parameters.len() + 1);
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        format!("{{{name}}}")
    };
    let path = path.split('/').map(&mut name).collect::<Vec<_>>().join("/");
    (path, parameters)
}

pub(super) fn insert(paths: &mut Map<String, Value>, path: &str, method: Method, operation: Value) {
    let slot = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
    slot[method.as_str().to_ascii_lowercase()] = operation;
}

pub(super) fn operation(
    tag: &str,
    summary: String,
    parameters: &[Value],
    content: Option<Value>,
    (status, answer): (u16, Option<Value>),
) -> Value {
    let json_of = |schema: Value| json!({"application/json": {"schema": schema}});
    let mut answered = json!({"description": "Done."});
    if let Some(schema) = answer {
        answered["content"] = json_of(schema);
    }
    let refused = json!({
        "description": "Refused, and why.",
        "content": json_of(json!({"$ref": "#/components/schemas/Fault"})),
    });
    let mut operation = json!({
        "tags": [tag],
        "summary": summary,
        "parameters": parameters,
        "responses": {status.to_string(): answered, "4XX": refused, "503": refused},
    });
    if let Some(schema) = content {
        operation["requestBody"] = json!({"required": true, "content": json_of(schema)});
    }
    operation
}

/// The attributes that a body may contain.
pub(super) fn body(
    attributes: &[Attribute],
    who: impl Fn(&Attribute) -> Permission,
    with_required: bool,
) -> Value {
    let properties: Map<_, _> = attributes
        .iter()
        .filter(|attribute| who(attribute) != Permission::Nobody)
        .map(|attribute| (attribute.name.to_owned(), described(attribute, with_required)))
        .collect();
    let required: Vec<_> =
        attributes.iter().filter(|attribute| with_required && attribute.required).map(|it| it.name).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

pub(super) fn described(attribute: &Attribute, with_preset: bool) -> Value {
    let mut schema = attribute.shape.schema();
    schema["description"] = attribute.about.into();
    if let (true, Some(preset)) = (with_preset, attribute.preset.value()) {
        schema["default"] = preset;
    }
    schema
}

/// The schema of a response. `fields` may omit any key, so none is required.
pub(super) fn shown(attributes: &[Attribute]) -> Value {
    let properties: Map<_, _> = attributes
        .iter()
        .filter(|attribute| attribute.shown != resource::Audience::Never)
        .map(|attribute| (attribute.name.to_owned(), described(attribute, false)))
        .collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

pub(super) fn query(attributes: &[Attribute]) -> Vec<Value> {
    let one = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "query", "required": false, "description": about, "schema": schema});
    let sortable: Vec<_> = attributes.iter().filter(|it| it.sort).map(|it| it.name).collect();
    let mut parameters = vec![
        repeated("fields", "Attributes to show."),
        one("limit", "Size of a page; 0 is no paging.", json!({"type": "integer", "minimum": 0})),
        one("marker", "The id of the last object of the page before.", json!({"type": "string"})),
        one(
            "page_reverse",
            "The page before the marker instead of the one after.",
            json!({"type": "boolean"}),
        ),
        one("sort_key", "What to sort by.", json!({"type": "string", "enum": sortable})),
        one(
            "sort_dir",
            "Which way; as many as there are sort keys.",
            json!({"type": "string", "enum": ["asc", "desc"]}),
        ),
    ];
    if attributes.iter().any(|it| it.name == "tags") {
        let rules = [
            ("tags", "All of these tags, separated by commas."),
            ("tags-any", "Any of these tags."),
            ("not-tags", "Not all of these tags."),
            ("not-tags-any", "None of these tags."),
        ];
        parameters.extend(rules.map(|(name, about)| one(name, about, json!({"type": "string"}))));
    }
    if attributes.iter().any(|it| it.name == "updated_at") {
        let time = json!({"type": "string", "format": "date-time"});
        parameters.push(one("changed_since", "Only what was changed then or later.", time));
    }
    let filters = attributes.iter().filter(|it| it.filter && it.name != "tags");
    parameters.extend(filters.map(|it| repeated(it.name, "Only those with one of these values.")));
    parameters
}

pub(super) fn repeated(name: &str, about: &str) -> Value {
    json!({
        "name": name, "in": "query", "required": false, "description": about, "explode": true,
        "schema": {"type": "array", "items": {"type": "string"}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_paths_become_parameters() {
        let (path, parameters) = templated("bindings/*/activate");
        assert_eq!(path, "bindings/{argument1}/activate");
        assert_eq!(parameters[0]["name"], "argument1");
    }
}
