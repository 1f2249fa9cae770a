//! Tests the rules for every noun, on networks.

mod second_dialect;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixture::{again, txn};
use super::network::Networks;
use super::*;
use crate::model::Network;
use crate::report::Report;

fn noun() -> &'static dyn Noun {
    of::<Networks>()
}

fn create(txn: &mut Txn, caller: &Caller, body: Value) -> Result<CreateAnswer, Fault> {
    noun().create(txn, &ChangeRequest::by(caller, &Report::default()), &body)
}

fn one(txn: &mut Txn, caller: &Caller, body: Value) -> Value {
    match create(txn, caller, json!({"network": body})).unwrap() {
        CreateAnswer::One(shown) => shown.into_value(),
        CreateAnswer::Many(_) => panic!("asked for one"),
    }
}

fn id_of(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

fn update(txn: &mut Txn, who: &ChangeRequest<'_>, id: &str, body: Value) -> Result<Value, Fault> {
    noun().update(txn, who, id, &json!({"network": body})).map(RenderedObject::into_value)
}

#[test]
fn every_table_names_each_attribute_once_and_views_write_all_of_them() {
    for noun in NOUNS {
        let names: BTreeSet<_> = noun.attributes().iter().map(|it| it.name).collect();
        assert_eq!(names.len(), noun.attributes().len(), "{} repeats an attribute", noun.name());
    }
    let mut txn = txn();
    let shown = one(&mut txn, &Caller::admin("p"), json!({"name": "n"}));
    let shown: BTreeSet<_> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(shown, noun().attributes().iter().map(|it| it.name).collect());
}

#[test]
fn bodies_that_are_no_bodies_are_refused() {
    let caller = Caller::member("p");
    for (body, text) in [
        (json!([]), "Body contains invalid data"),
        (json!(null), "Body contains invalid data"),
        (json!({"network": []}), "Body contains invalid data"),
        (json!({"networks": {}}), "Body contains invalid data"),
        (json!({"networks": [1]}), "Body contains invalid data"),
        (json!({"networks": []}), "Resources required"),
        (json!({}), "Unable to find 'network' in request body"),
    ] {
        let fault = create(&mut txn(), &caller, body.clone()).unwrap_err();
        assert_eq!((fault.status, fault.message.as_str()), (400, text), "{body}");
    }
}

#[test]
fn bulk_is_all_in_order_bare_or_wrapped() {
    let mut txn = txn();
    let body = json!({"networks": [{"name": "a"}, {"network": {"name": "b"}}]});
    let CreateAnswer::Many(all) = create(&mut txn, &Caller::member("p"), body).unwrap() else {
        panic!("bulk")
    };
    let names: Vec<_> = all.into_iter().map(|it| it.into_value()["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    let body = json!({"networks": [{"name": "a"}, {"name": 5}]});
    assert_eq!(create(&mut txn, &Caller::member("p"), body).unwrap_err().status, 400);
}

#[test]
fn readers_create_nothing_and_strangers_see_nothing() {
    let mut txn = txn();
    let fault = create(&mut txn, &Caller::reader("p"), json!({"network": {}})).unwrap_err();
    assert_eq!(
        (fault.status, fault.message.as_str()),
        (403, "(rule:create_network) is disallowed by policy")
    );
    let id = id_of(&one(&mut txn, &Caller::member("p"), json!({})));
    let report = Report::default();
    for (caller, status) in
        [(Caller::member("q"), 404), (Caller::reader("p"), 403), (Caller::member(""), 404)]
    {
        let who = ChangeRequest::by(&caller, &report);
        assert_eq!(update(&mut txn, &who, &id, json!({})).unwrap_err().status, status, "{caller:?}");
        assert_eq!(noun().delete(&mut txn, &who, &id).unwrap_err().status, status, "{caller:?}");
    }
    let nameless = Caller { project: String::new(), ..Caller::admin("") };
    let fault = create(&mut txn, &nameless, json!({"network": {}})).unwrap_err();
    assert!(fault.message.contains("project_id"), "{fault}");
}

#[test]
fn what_is_no_id_is_not_found() {
    let mut txn = txn();
    let caller = Caller::admin("p");
    let report = Report::default();
    for id in ["net1", "", "10000000-0000-4000-8000-000000000001", "' OR 1=1 --"] {
        let fault = noun().delete(&mut txn, &ChangeRequest::by(&caller, &report), id).unwrap_err();
        assert_eq!((fault.status, fault.kind), (404, "NetworkNotFound"), "{id}");
    }
}

#[test]
fn revisions_grow_with_changes_only() {
    let mut txn = txn();
    let caller = Caller::member("p");
    let report = Report::default();
    let who = ChangeRequest::by(&caller, &report);
    let made = one(&mut txn, &caller, json!({"name": "a"}));
    let id = id_of(&made);
    let same = update(&mut txn, &who, &id, json!({"name": "a"})).unwrap();
    assert_eq!(same["revision_number"], made["revision_number"]);
    let renamed = update(&mut txn, &who, &id, json!({"name": "b"})).unwrap();
    assert_eq!(renamed["revision_number"], made["revision_number"].as_u64().unwrap() + 1);
    let described = update(&mut txn, &who, &id, json!({"description": "d"})).unwrap();
    assert_eq!(described["description"], "d");
    assert_eq!(described["revision_number"], made["revision_number"].as_u64().unwrap() + 2);
}

#[test]
fn scenario_07_if_match_of_an_old_revision_is_refused() {
    let mut txn = txn();
    let caller = Caller::member("p");
    let report = Report::default();
    let made = one(&mut txn, &caller, json!({}));
    let (id, revision) = (id_of(&made), made["revision_number"].as_i64().unwrap());
    let expecting =
        |revision| ChangeRequest { revision: Some(revision), ..ChangeRequest::by(&caller, &report) };
    assert!(update(&mut txn, &expecting(revision), &id, json!({"name": "x"})).is_ok());
    let stale = update(&mut txn, &expecting(revision), &id, json!({"name": "y"})).unwrap_err();
    assert_eq!((stale.status, stale.kind), (412, "RevisionNumberConstraintFailed"));
    assert_eq!(noun().delete(&mut txn, &expecting(revision), &id).unwrap_err().status, 412);
    assert!(noun().delete(&mut txn, &expecting(revision + 1), &id).is_ok());
    assert!(txn.table::<Network>().is_empty());
}

#[test]
fn tags_are_set_added_removed_and_counted_as_changes() {
    let mut txn = txn();
    let caller = Caller::member("p");
    let report = Report::default();
    let who = ChangeRequest::by(&caller, &report);
    let id = id_of(&one(&mut txn, &caller, json!({"tags": ["z"]})));
    let mut ask = |method, args: &[&str], body: Value| {
        noun().set_tags(&mut txn, &who, method, ActionRequest { id: &id, args, body: &body, query: &[] })
    };
    let value = |tags: Value| Reply::Value(json!({"tags": tags}));
    assert_eq!(ask(Method::Put, &[], json!({"tags": ["b", "a"]})), Ok((200, value(json!(["a", "b"])))));
    assert_eq!(ask(Method::Post, &[], json!({"tags": ["c", "a"]})), Ok((201, value(json!(["a", "b", "c"])))));
    assert_eq!(ask(Method::Put, &["d"], Value::Null), Ok((201, Reply::Nothing)));
    assert_eq!(ask(Method::Delete, &["a"], Value::Null), Ok((204, Reply::Nothing)));
    assert_eq!(ask(Method::Delete, &["a"], Value::Null).unwrap_err().kind, "TagNotFound");
    for body in
        [json!({"tags": "a"}), json!({}), json!({"tags": [1]}), json!({"tags": ["a", "a"]}), json!([])]
    {
        assert_eq!(ask(Method::Put, &[], body.clone()).unwrap_err().status, 400, "{body}");
    }
    let many: Vec<_> = (0..51).map(|n| n.to_string()).collect();
    assert_eq!(ask(Method::Put, &[], json!({"tags": many})).unwrap_err().status, 400);
    assert_eq!(ask(Method::Put, &[&"x".repeat(256)], Value::Null).unwrap_err().status, 400);

    let (world, _) = txn.finish();
    let outside = Outside::default();
    let scene = Scene {
        world: &world,
        report: &report,
        outside: &outside,
        caller: &caller,
        now: jiff::Timestamp::UNIX_EPOCH,
        parent: None,
    };
    assert_eq!(noun().tags(&scene, &id, None), Ok((200, value(json!(["b", "c", "d"])))));
    assert_eq!(noun().tags(&scene, &id, Some("b")), Ok((204, Reply::Nothing)));
    assert_eq!(noun().tags(&scene, &id, Some("a")).unwrap_err().kind, "TagNotFound");
    let uuid = Uuid::try_parse(&id).unwrap();
    assert_eq!(world.get::<Network>(&uuid).unwrap().standard.revision, 4);
    let mut txn = again(world, outside);
    let reply = noun().set_tags(
        &mut txn,
        &who,
        Method::Delete,
        ActionRequest { id: &id, args: &[], body: &Value::Null, query: &[] },
    );
    assert_eq!(reply, Ok((204, Reply::Nothing)));
    assert!(txn.get::<Network>(&uuid).unwrap().standard.tags.is_empty());
}

#[test]
fn actions_match_their_paths() {
    fn nothing(_: &mut Txn, _: &ActionCall<'_>) -> Result<Reply, Fault> {
        Ok(Reply::Nothing)
    }
    let action = Action::put("bindings/*/activate", "", nothing);
    assert_eq!(action.matches(&["bindings", "h1", "activate"]), Some(vec!["h1"]));
    for other in [&["bindings"][..], &["bindings", "h1"], &["bindings", "h1", "activate", "x"], &[]] {
        assert_eq!(action.matches(other), None, "{other:?}");
    }
}
