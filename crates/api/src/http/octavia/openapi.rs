//! The API document of the load-balancer API, generated from its table of nouns.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::{Map, Value, json};

use crate::http::openapi::{
    act, body, document as whole, insert, operation, query, repeated, shown, templated,
};
use crate::resource::{Method, Noun, Verb, load_balancer, quota};

/// The document.
pub(super) fn document() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for noun in load_balancer::NOUNS {
        describe(*noun, &mut paths, &mut schemas);
    }
    quotas(&mut paths);
    others(&mut paths);
    schemas.insert("Fault".into(), fault());
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        // OVN does not support many requests of this API.
        operation["responses"]["501"] = operation["responses"]["4XX"].clone();
    }
    whole("Meridian load-balancer API", "OpenStack Load Balancing v2 over OVN.", paths, schemas)
}

fn in_path(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
}

fn describe(noun: &dyn Noun, paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>) {
    let (name, tag) = (noun.name(), noun.collection());
    let inside: Vec<Value> = noun.parent().map(|_| in_path("parent")).into_iter().collect();
    let collection = match noun.parent() {
        Some(parent) => format!("/v2/lbaas/{}/{{parent}}/{}", parent.path(), noun.path()),
        None => format!("/v2/lbaas/{}", noun.path()),
    };
    schemas.insert(name.into(), shown(noun.attributes()));
    let one = json!({"$ref": format!("#/components/schemas/{name}")});
    let many = json!({
        "type": "object",
        "properties": {tag: {"type": "array", "items": one}, format!("{tag}_links"): {"type": "array"}},
        "required": [tag, format!("{tag}_links")],
    });
    let wrapped = json!({"type": "object", "properties": {name: one}, "required": [name]});
    let list: Vec<Value> = inside.iter().cloned().chain(query(noun.attributes())).collect();
    let listing = operation(tag, format!("List {tag}"), &list, None, (200, Some(many)));
    insert(paths, &collection, Method::Get, listing);
    let new = body(noun.attributes(), |it| it.create, true);
    let content = json!({"type": "object", "properties": {name: new}, "required": [name]});
    // The response to a new load balancer contains all its parts.
    let made = Some(json!({"type": "object"}));
    let create = operation(tag, format!("Create one of {tag}"), &inside, Some(content), (201, made));
    insert(paths, &collection, Method::Post, create);
    if noun.verbs().contains(&Verb::ReplaceAll) {
        let all = json!({
            "type": "object", "properties": {tag: {"type": "array", "items": new}}, "required": [tag],
        });
        let parameters: Vec<Value> = inside.iter().cloned().chain(parameters(noun)).collect();
        let replace = operation(tag, format!("Replace all {tag}"), &parameters, Some(all), (202, None));
        insert(paths, &collection, Method::Put, replace);
    }
    let object = format!("{collection}/{{id}}");
    let id: Vec<Value> = inside.iter().cloned().chain([in_path("id")]).collect();
    let fields: Vec<Value> = id.iter().cloned().chain([repeated("fields", "Attributes to show.")]).collect();
    let show = operation(tag, format!("Show one of {tag}"), &fields, None, (200, Some(wrapped.clone())));
    insert(paths, &object, Method::Get, show);
    let change = body(noun.attributes(), |it| it.update, false);
    let content = json!({"type": "object", "properties": {name: change}, "required": [name]});
    let update = operation(tag, format!("Change one of {tag}"), &id, Some(content), (200, Some(wrapped)));
    insert(paths, &object, Method::Put, update);
    let delete = operation(tag, format!("Delete one of {tag}"), &id, None, (204, None));
    insert(paths, &object, Method::Delete, delete);
    for action in noun.actions() {
        let (path, arguments) = templated(action.path);
        let parameters: Vec<_> = id.iter().cloned().chain(arguments).collect();
        insert(paths, &format!("{object}/{path}"), action.method, act(action, tag, &parameters));
    }
}

/// The query parameters of changes.
fn parameters(noun: &dyn Noun) -> impl Iterator<Item = Value> {
    let one = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "query", "required": false, "description": about, "schema": schema});
    noun.parameters().iter().map(move |it| one(it.name, it.about, it.shape.schema()))
}

fn quotas(paths: &mut Map<String, Value>) {
    let project = [in_path("project")];
    let object = || Some(json!({"type": "object"}));
    let mut add = |path: &str, method, about: &str, content, answer| {
        let parameters: &[Value] = if path.contains('{') { &project } else { &[] };
        let path = format!("/v2/lbaas/{path}");
        insert(paths, &path, method, operation("quotas", about.to_owned(), parameters, content, answer));
    };
    add("quotas", Method::Get, "List projects with limits of their own", None, (200, object()));
    add("quotas/defaults", Method::Get, "Show the default limits", None, (200, object()));
    add("quotas/{project}", Method::Get, "Show the limits of a project", None, (200, object()));
    let content = json!({
        "type": "object", "required": ["quota"],
        "properties": {"quota": body(quota::balancer::ATTRIBUTES, |it| it.update, false)},
    });
    add("quotas/{project}", Method::Put, "Set limits of a project", Some(content), (202, object()));
    add("quotas/{project}", Method::Delete, "Put limits back to the defaults", None, (202, None));
    add("quotas/{project}/default", Method::Get, "Show the default limits", None, (200, object()));
}

fn others(paths: &mut Map<String, Value>) {
    let object = || Some(json!({"type": "object"}));
    let empty = |path: &str| format!("/v2/lbaas/{path}");
    let collections = [
        "providers",
        "flavors",
        "flavorprofiles",
        "availabilityzones",
        "availabilityzoneprofiles",
        "l7policies",
    ];
    for path in collections {
        let list = operation("others", format!("List {path}"), &[], None, (200, object()));
        insert(paths, &empty(path), Method::Get, list);
    }
    let versions =
        operation("documents", "Show the versions of the API".to_owned(), &[], None, (200, object()));
    insert(paths, "/", Method::Get, versions);
    let amphorae =
        operation("others", "List amphorae; there are none".to_owned(), &[], None, (200, object()));
    insert(paths, "/v2/octavia/amphorae", Method::Get, amphorae);
}

fn fault() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {"faultcode": text, "faultstring": text, "debuginfo": {"type": "null"}},
        "required": ["faultcode", "faultstring", "debuginfo"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_tells_of_every_noun() {
        let document = document();
        for path in ["loadbalancers", "listeners", "pools", "pools/{parent}/members", "healthmonitors"] {
            let collection = &document["paths"][format!("/v2/lbaas/{path}")];
            assert!(collection["get"].is_object() && collection["post"].is_object(), "{path}");
            let object = &document["paths"][format!("/v2/lbaas/{path}/{{id}}")];
            assert!(object["put"].is_object() && object["delete"].is_object(), "{path}");
        }
        assert!(document["paths"]["/v2/lbaas/pools/{parent}/members"]["put"].is_object(), "a batch");
        assert!(document["paths"]["/v2/lbaas/loadbalancers/{id}/status"]["get"].is_object());
        let member = &document["components"]["schemas"]["member"]["properties"];
        assert!(member["weight"].is_object());
    }
}
