//! The API document (OpenAPI 3.1), generated from the tables of nouns, so it agrees with the checks.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value, json};

use crate::http::openapi::{self, act, body, insert, operation, query, repeated, shown, templated};
use crate::resource::{self, Method, Noun, Verb, quota};

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
    let about = "OpenStack Networking v2.0 over OVN, with several external gateways per router.";
    openapi::document("Meridian network API", about, paths, schemas)
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
}
