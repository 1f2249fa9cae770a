//! The API document (OpenAPI 3.1), made from the tables of nouns: it says what the checks check.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value, json};

use crate::resource::{self, Action, Attribute, Method, Noun, Permission, Verb, quota};

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for noun in resource::NOUNS {
        describe(*noun, &mut paths, &mut schemas);
    }
    for action in resource::ROOT {
        insert(&mut paths, &format!("/v2.0/{}", action.path), action.method, act(action, "meridian", &[]));
    }
    quotas(&mut paths);
    others(&mut paths);
    schemas.insert("Fault".into(), fault());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Meridian network API",
            "description": "OpenStack Networking v2.0 over OVN, with several external gateways per router.",
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

fn describe(noun: &dyn Noun, paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>) {
    let (name, tag) = (noun.name(), noun.collection());
    let collection = format!("/v2.0/{}", noun.path());
    schemas.insert(name.into(), shown(noun.attributes()));
    let one = json!({"$ref": format!("#/components/schemas/{name}")});
    let wrapped = json!({"type": "object", "properties": {name: one}, "required": [name]});
    let many = json!({
        "type": "object",
        "properties": {tag: {"type": "array", "items": one}, format!("{tag}_links"): {"type": "array"}},
        "required": [tag],
    });
    let parameters = query(noun.attributes());
    insert(
        paths,
        &collection,
        Method::Get,
        operation(tag, format!("List {tag}"), &parameters, None, (200, Some(many.clone()))),
    );
    if noun.verbs().contains(&Verb::Create) {
        let new = body(noun.attributes(), |it| it.create, true);
        let content = json!({"oneOf": [
            {"type": "object", "properties": {name: new}, "required": [name]},
            {"type": "object", "properties": {tag: {"type": "array", "items": new, "minItems": 1}}, "required": [tag]},
        ]});
        let answer = json!({"oneOf": [wrapped, many]});
        let create = operation(tag, format!("Create {tag}"), &[], Some(content), (201, Some(answer)));
        insert(paths, &collection, Method::Post, create);
    }
    if !noun.single() {
        return;
    }
    let object = format!("{collection}/{{id}}");
    let id = [json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}})];
    let fields = [id[0].clone(), repeated("fields", "Attributes to show.")];
    insert(
        paths,
        &object,
        Method::Get,
        operation(tag, format!("Show one of {tag}"), &fields, None, (200, Some(wrapped.clone()))),
    );
    if noun.verbs().contains(&Verb::Update) {
        let change = body(noun.attributes(), |it| it.update, false);
        let content = json!({"type": "object", "properties": {name: change}, "required": [name]});
        let parameters = [id[0].clone(), if_match()];
        let update =
            operation(tag, format!("Change one of {tag}"), &parameters, Some(content), (200, Some(wrapped)));
        insert(paths, &object, Method::Put, update);
    }
    if noun.verbs().contains(&Verb::Delete) {
        let parameters = [id[0].clone(), if_match()];
        insert(
            paths,
            &object,
            Method::Delete,
            operation(tag, format!("Delete one of {tag}"), &parameters, None, (204, None)),
        );
    }
    if noun.tagged() {
        tags(paths, &object, tag, &id);
    }
    for action in noun.actions() {
        let (path, arguments) = templated(action.path);
        let parameters: Vec<_> = id.iter().cloned().chain(arguments).collect();
        insert(paths, &format!("{object}/{path}"), action.method, act(action, tag, &parameters));
    }
}

fn act(action: &Action, tag: &str, parameters: &[Value]) -> Value {
    let content = action.body.map(|body| body.schema());
    let answer = (action.status != 204).then(|| json!({"type": "object"}));
    operation(tag, action.about.to_owned(), parameters, content, (action.status, answer))
}

fn tags(paths: &mut Map<String, Value>, object: &str, tag: &str, id: &[Value]) {
    let set = json!({
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255}, "maxItems": 50}},
        "required": ["tags"],
    });
    let all = format!("{object}/tags");
    let say = |about: &str| format!("{about} of one of {tag}");
    let some = Some(set.clone());
    insert(paths, &all, Method::Get, operation(tag, say("Show the tags"), id, None, (200, some.clone())));
    insert(
        paths,
        &all,
        Method::Put,
        operation(tag, say("Replace the tags"), id, some.clone(), (200, some.clone())),
    );
    insert(paths, &all, Method::Post, operation(tag, say("Add to the tags"), id, some.clone(), (201, some)));
    insert(paths, &all, Method::Delete, operation(tag, say("Remove all tags"), id, None, (204, None)));
    let one = format!("{object}/tags/{{tag}}");
    let label = json!({"name": "tag", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 255}});
    let parameters: Vec<_> = id.iter().cloned().chain([label]).collect();
    for (method, about, status) in [
        (Method::Get, "Look for a tag", 204),
        (Method::Put, "Add a tag", 201),
        (Method::Delete, "Remove a tag", 204),
    ] {
        insert(paths, &one, method, operation(tag, say(about), &parameters, None, (status, None)));
    }
}

fn quotas(paths: &mut Map<String, Value>) {
    let project = [json!({"name": "project", "in": "path", "required": true, "schema": {"type": "string"}})];
    let object = || Some(json!({"type": "object"}));
    let mut add = |path: &str, method, about: &str, content, answer| {
        let parameters: &[Value] = if path.contains('{') { &project } else { &[] };
        insert(paths, path, method, operation("quotas", about.to_owned(), parameters, content, answer));
    };
    add("/v2.0/quotas", Method::Get, "List projects with limits of their own", None, (200, object()));
    add("/v2.0/quotas/{project}", Method::Get, "Show the limits of a project", None, (200, object()));
    add(
        "/v2.0/quotas/{project}",
        Method::Put,
        "Set limits of a project",
        Some(quota::body_schema()),
        (200, object()),
    );
    add(
        "/v2.0/quotas/{project}",
        Method::Delete,
        "Put limits of a project back to the defaults",
        None,
        (204, None),
    );
    add("/v2.0/quotas/{project}/default", Method::Get, "Show the default limits", None, (200, object()));
    add(
        "/v2.0/quotas/{project}/details",
        Method::Get,
        "Show how much of its limits a project uses",
        None,
        (200, object()),
    );
}

fn others(paths: &mut Map<String, Value>) {
    let object = || Some(json!({"type": "object"}));
    let mut add = |path: &str, about: &str, parameters: &[Value]| {
        insert(
            paths,
            path,
            Method::Get,
            operation("documents", about.to_owned(), parameters, None, (200, object())),
        );
    };
    add("/", "Show the versions of the API", &[]);
    add("/v2.0/", "Show the resources of the API", &[]);
    add("/v2.0/extensions", "List extensions", &[]);
    let alias = json!({"name": "alias", "in": "path", "required": true, "schema": {"type": "string"}});
    add("/v2.0/extensions/{alias}", "Show an extension", &[alias]);
}

/// A `*` in an action's path is a parameter.
fn templated(path: &str) -> (String, Vec<Value>) {
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

fn insert(paths: &mut Map<String, Value>, path: &str, method: Method, operation: Value) {
    let slot = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
    slot[method.as_str().to_ascii_lowercase()] = operation;
}

fn operation(
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

/// The attributes that a body may have.
fn body(attributes: &[Attribute], who: impl Fn(&Attribute) -> Permission, with_required: bool) -> Value {
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

fn described(attribute: &Attribute, with_preset: bool) -> Value {
    let mut schema = attribute.shape.schema();
    schema["description"] = attribute.about.into();
    if let (true, Some(preset)) = (with_preset, attribute.preset.value()) {
        schema["default"] = preset;
    }
    schema
}

/// What an answer shows. `fields` may leave out anything, so nothing is required.
fn shown(attributes: &[Attribute]) -> Value {
    let properties: Map<_, _> = attributes
        .iter()
        .filter(|attribute| attribute.shown != resource::Audience::Never)
        .map(|attribute| (attribute.name.to_owned(), described(attribute, false)))
        .collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn query(attributes: &[Attribute]) -> Vec<Value> {
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

fn repeated(name: &str, about: &str) -> Value {
    json!({
        "name": name, "in": "query", "required": false, "description": about, "explode": true,
        "schema": {"type": "array", "items": {"type": "string"}},
    })
}

fn if_match() -> Value {
    json!({
        "name": "If-Match", "in": "header", "required": false,
        "description": "Only if the object is at this revision.",
        "schema": {"type": "string", "pattern": "^revision_number=[0-9]+$"},
    })
}

fn fault() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {"NeutronError": {
        "type": "object",
        "properties": {"type": text, "message": text, "detail": text},
        "required": ["type", "message", "detail"],
    }}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_tells_of_every_noun_and_what_may_be_said_to_it() {
        let document = document();
        for noun in resource::NOUNS {
            let path = &document["paths"][format!("/v2.0/{}", noun.path())];
            assert!(path["get"].is_object(), "{}", noun.path());
            assert_eq!(path["post"].is_object(), noun.verbs().contains(&Verb::Create), "{}", noun.path());
            let schema = &document["components"]["schemas"][noun.name()];
            for attribute in noun.attributes() {
                let shown = schema["properties"].get(attribute.name).is_some();
                assert_eq!(shown, attribute.shown != resource::Audience::Never, "{}", attribute.name);
            }
        }
        let post = &document["paths"]["/v2.0/networks"]["post"]["requestBody"]["content"]["application/json"]
            ["schema"];
        let new = &post["oneOf"][0]["properties"]["network"]["properties"];
        assert!(new.get("status").is_none() && new["mtu"]["default"] == 0);
        let put = &document["paths"]["/v2.0/networks/{id}"]["put"]["requestBody"]["content"]["application/json"]
            ["schema"];
        assert!(put["properties"]["network"]["properties"].get("provider:network_type").is_none());
    }

    #[test]
    fn the_document_tells_what_sub_methods_take() {
        let document = document();
        for (path, method, inside) in [
            ("routers/{id}/add_router_interface", "put", "/properties/subnet_id"),
            ("routers/{id}/remove_extraroutes", "put", "/properties/router/properties/routes/items"),
            (
                "routers/{id}/update_external_gateways",
                "put",
                "/properties/router/properties/external_gateways/items/properties/network_id",
            ),
            ("ports/{id}/bindings", "post", "/properties/binding/properties/host"),
            ("subnetpools/{id}/add_prefixes", "put", "/properties/prefixes/items"),
            ("agents/{id}/l3-routers", "post", "/properties/router_id"),
            ("quotas/{project}", "put", "/properties/quota/properties/floatingip"),
        ] {
            let operation = &document["paths"][format!("/v2.0/{path}")][method];
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert!(schema.pointer(inside).is_some_and(Value::is_object), "{path}: {schema}");
        }
        let takes_none = &document["paths"]["/v2.0/ports/{id}/bindings/{argument1}/activate"]["put"];
        assert!(takes_none["requestBody"].is_null());
    }

    #[test]
    fn arguments_in_paths_become_parameters() {
        let (path, parameters) = templated("bindings/*/activate");
        assert_eq!(path, "bindings/{argument1}/activate");
        assert_eq!(parameters[0]["name"], "argument1");
    }
}
