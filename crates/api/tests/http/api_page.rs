//! The page of the guide that lists all requests: `docs/src/api.md`, generated from the API document that the server serves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value};

const HEAD: &str = "# Requests and their attributes

This page is generated from the document that the server serves at `/openapi.json` (OpenAPI 3.1). `tests/http/api_page.rs` of `crates/api`
compares the two; with `MERIDIAN_WRITE_PAGES=1` the test writes the page. The load-balancer API serves a document of its own at the same
path of its port. [Multihomed routers](multihoming.md) and [Run the network API](server.md) describe what the requests do.
";

/// The page for a document.
fn page(document: &Value) -> String {
    let mut requests: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let tag = operation["tags"][0].as_str().unwrap();
            let request = format!("{} {path}", method.to_uppercase());
            requests
                .entry(tag)
                .or_default()
                .push((request, operation["summary"].as_str().unwrap_or_default()));
        }
    }
    let mut out = HEAD.to_owned();
    for (tag, requests) in &requests {
        writeln!(out, "\n## {tag}\n\n| request | |\n|---|---|").unwrap();
        for (request, summary) in requests {
            writeln!(out, "| `{request}` | {} |", cell(summary)).unwrap();
        }
        let bodies = bodies(document, tag);
        if let Some(shown) = attributes(document, tag) {
            writeln!(out, "\n| attribute | type | create | update | |\n|---|---|---|---|---|").unwrap();
            for (name, schema) in shown {
                let may = |method: &str| {
                    let new = bodies.get(method).and_then(|body| body.get(name));
                    let preset = new.and_then(|new| new.get("default")).filter(|preset| !preset.is_null());
                    match (new, preset) {
                        (None, _) => String::new(),
                        (Some(_), None) => "yes".to_owned(),
                        (Some(_), Some(preset)) => format!("yes, default `{preset}`"),
                    }
                };
                let about = cell(schema["description"].as_str().unwrap_or_default());
                let line =
                    format!("| `{name}` | {} | {} | {} | {about} |", kind(schema), may("post"), may("put"));
                writeln!(out, "{line}").unwrap();
            }
        }
    }
    out
}

/// The attributes of the objects of a collection.
fn attributes<'d>(document: &'d Value, tag: &str) -> Option<&'d Map<String, Value>> {
    let lists = document["paths"].as_object()?.values().filter(|methods| methods["get"]["tags"][0] == tag);
    let mut lists =
        lists.map(|methods| &methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]);
    let name = lists.find_map(|schema| schema["properties"][tag]["items"]["$ref"].as_str())?;
    document["components"]["schemas"][name.rsplit('/').next()?]["properties"].as_object()
}

/// The attributes that the bodies of a collection's requests may have, by method.
fn bodies<'d>(document: &'d Value, tag: &str) -> BTreeMap<&'static str, &'d Map<String, Value>> {
    let mut bodies = BTreeMap::new();
    for methods in document["paths"].as_object().unwrap().values() {
        for method in ["post", "put"] {
            let operation = &methods[method];
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let one = schema.get("oneOf").map_or(schema, |all| &all[0]);
            let inner = one["properties"].as_object().and_then(|all| all.values().next());
            let found = inner.and_then(|inner| inner["properties"].as_object());
            if let (true, Some(found)) = (operation["tags"][0] == tag, found) {
                bodies.entry(method).or_insert(found);
            }
        }
    }
    bodies
}

fn kind(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => String::new(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn the_page_lists_every_request_and_attribute_of_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/api.md");
    let page = page(&api::http::openapi_document());
    assert!(page.contains("| `POST /v2.0/routers` |") && page.contains("| `external_gateways` |"), "{page}");
    if std::env::var_os("MERIDIAN_WRITE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(written, page)| written != page);
    assert_eq!(differs, None, "docs/src/api.md is old: run this test with MERIDIAN_WRITE_PAGES=1");
    assert_eq!(
        written.len(),
        page.len(),
        "docs/src/api.md is old: run this test with MERIDIAN_WRITE_PAGES=1"
    );
}
