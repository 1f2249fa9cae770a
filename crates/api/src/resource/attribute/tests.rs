//! Tables of shapes and bodies.

use serde_json::{Map, Value, json};

use super::*;
use crate::dialect::{Dialect, Neutron, NounNames, Refusal};
use crate::{Fault, policy};

const ROUTE: Shape = Shape::Object(&[
    Field::required("destination", Shape::Cidr),
    Field::new("nexthop", Shape::Nullable(&Shape::Address)),
]);

#[test]
fn shapes_bring_values_into_their_normal_form() {
    let uuid = "0a8b7c6d-0000-4000-8000-00000000abcd";
    for (shape, given, normal) in [
        (Shape::Bool, json!("True"), json!(true)),
        (Shape::Bool, json!(0), json!(false)),
        (Shape::Integer { min: 1, max: 9 }, json!("7"), json!(7)),
        (Shape::Uuid, json!(uuid.to_uppercase()), json!(uuid)),
        (Shape::Address, json!("FE80:0::1"), json!("fe80::1")),
        (Shape::Mac, json!("FA:16:3E:00:00:01"), json!("fa:16:3e:00:00:01")),
        (Shape::Nullable(&Shape::Uuid), Value::Null, Value::Null),
        (Shape::OneOf(&["a", "b"]), json!("b"), json!("b")),
        (
            Shape::List { of: &ROUTE, max: 2, unique: true },
            json!([{"destination": "10.0.0.0/8", "nexthop": "10.0.0.1"}]),
            json!([{"destination": "10.0.0.0/8", "nexthop": "10.0.0.1"}]),
        ),
    ] {
        assert_eq!(shape.check(&given), Ok(normal), "{shape:?} {given}");
    }
}

#[test]
fn shapes_say_what_is_wrong() {
    for (shape, given, reason) in [
        (Shape::Bool, json!("maybe"), "'maybe' cannot be converted to boolean"),
        (Shape::Bool, json!(2), "'2' cannot be converted to boolean"),
        (Shape::Bool, json!([]), "'[]' cannot be converted to boolean"),
        (Shape::Text { max: 3 }, json!("äöüß"), "'äöüß' exceeds maximum length of 3"),
        (Shape::Text { max: 3 }, json!(5), "'5' is not a valid string"),
        (Shape::Text { max: 3 }, json!("a\0"), "it contains a NUL character"),
        (Shape::Text { max: 3 }, Value::Null, "'null' is not a valid string"),
        (Shape::Integer { min: 1, max: 9 }, json!(10), "'10' is too large - must be no larger than '9'"),
        (Shape::Integer { min: 1, max: 9 }, json!(0), "'0' is too small - must be at least '1'"),
        (Shape::Integer { min: 1, max: 9 }, json!(1.5), "'1.5' is not an integer"),
        (Shape::Integer { min: 1, max: 9 }, json!(1e300), "'1e+300' is not an integer"),
        (Shape::Integer { min: 1, max: 9 }, json!(u64::MAX), "'18446744073709551615' is not an integer"),
        (Shape::Uuid, json!("name"), "'name' is not a valid UUID"),
        // Forms that the library accepts, but the API does not.
        (
            Shape::Uuid,
            json!("0a8b7c6d000040008000000000000000"),
            "'0a8b7c6d000040008000000000000000' is not a valid UUID",
        ),
        (Shape::OneOf(&["a", "b"]), json!("c"), "'c' is not in ('a', 'b')"),
        (Shape::Address, json!("1.2.3"), "'1.2.3' is not a valid IP address"),
        (Shape::Cidr, json!("1.2.3.4"), "'1.2.3.4' is not a valid IP subnet"),
        (Shape::Mac, json!("12"), "'12' is not a valid MAC address"),
        (Shape::Free, json!([]), "'[]' is not a dictionary"),
        (Shape::Free, json!({"a": [{"b": "x\0"}]}), "it contains a NUL character"),
        (Shape::Free, json!({"a": {"\0": 1}}), "it contains a NUL character"),
        (Shape::List { of: &Shape::Bool, max: 1, unique: false }, json!({}), "'{}' is not a list"),
        (
            Shape::List { of: &Shape::Bool, max: 1, unique: false },
            json!([true, true]),
            "it has 2 elements, and 1 is the most",
        ),
        (
            Shape::List { of: &Shape::Bool, max: 9, unique: true },
            json!([true, "true"]),
            "Duplicate items in the list: 'true'",
        ),
        (ROUTE, json!({"nexthop": null}), "'destination' is missing in it"),
        (ROUTE, json!({"destination": "x"}), "destination: 'x' is not a valid IP subnet"),
        (ROUTE, json!({"a": 1}), "'a' is not one of its keys ('destination', 'nexthop')"),
    ] {
        assert_eq!(shape.check(&given), Err(reason.to_owned()), "{shape:?} {given}");
    }
    let long = "x".repeat(10_000);
    let reason = Shape::Text { max: 255 }.check(&json!(long)).unwrap_err();
    assert!(reason.len() < 400, "a long value is cut in the text: {}", reason.len());
}

static TABLE: &[Attribute] = &[
    ID,
    TENANT_ID,
    PROJECT_ID,
    NAME,
    Attribute::new("mode", Shape::OneOf(&["a", "b"]), "Must be said.").required(),
    Attribute::new("shared", Shape::Bool, "For administrators.")
        .create_by(policy::ADMIN)
        .update_by(policy::ADMIN)
        .preset(Preset::Bool(false)),
    Attribute::new("host", Shape::Text { max: 9 }, "For services.")
        .create_by(policy::ADMIN_OR_SERVICE)
        .update_by(policy::ADMIN_OR_SERVICE),
    DESCRIPTION,
    TAGS,
];

fn body(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn member() -> Caller {
    Caller::member("p")
}

/// Renders a refusal in Neutron's dialect.
fn refuse(refusal: Refusal) -> Fault {
    Neutron.refuse(NounNames { name: "thing", absent: ("ThingNotFound", "Thing") }, refusal)
}

fn create(caller: &Caller, body: &Map<String, Value>) -> Result<Checked, Fault> {
    let checked = Checked::create(TABLE, caller, body).map_err(refuse)?;
    checked.permit_create(TABLE, caller, &PolicyTarget::of("p")).map_err(refuse)?;
    Ok(checked)
}

fn update(caller: &Caller, body: &Map<String, Value>) -> Result<Checked, Fault> {
    let checked = Checked::update(TABLE, body).map_err(refuse)?;
    checked.permit_update(TABLE, caller, &PolicyTarget::of("p")).map_err(refuse)?;
    Ok(checked)
}

#[test]
fn a_create_body_gets_presets_and_an_owner() {
    let new = create(&member(), &body(json!({"mode": "a", "shared": false}))).unwrap();
    assert_eq!((new.text("mode"), new.text("name"), new.bool("shared")), (Some("a"), Some(""), Some(false)));
    assert_eq!(new.project(), "p");
    assert!(new.named("shared") && !new.named("name") && !new.has("host"));
    let other = body(json!({"mode": "a", "tenant_id": "q", "project_id": "q", "tags": ["x"]}));
    let new = create(&Caller::admin("p"), &other).unwrap();
    assert_eq!(new.project(), "q");
    assert_eq!(new.standard(jiff::Timestamp::UNIX_EPOCH).tags.len(), 1);
}

#[test]
fn bad_create_bodies_are_refused() {
    for (given, status, text) in [
        (json!({"mode": "a", "z": 1, "y": 2}), 400, "Unrecognized attribute(s) 'y, z'"),
        (json!({"mode": "a", "id": "x"}), 400, "Attribute 'id' not allowed in POST"),
        (json!({}), 400, "Failed to parse request. Required attribute 'mode' not specified"),
        (json!({"mode": "c"}), 400, "Invalid input for mode. Reason: 'c' is not in ('a', 'b')."),
        (
            json!({"mode": "a", "tenant_id": "p", "project_id": "q"}),
            400,
            "'project_id' and 'tenant_id' do not match",
        ),
        (
            json!({"mode": "a", "project_id": "q"}),
            400,
            "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin privileges",
        ),
        (
            json!({"mode": "a", "shared": true}),
            403,
            "(rule:create_thing and rule:create_thing:shared) is disallowed by policy",
        ),
        (
            json!({"mode": "a", "host": "h"}),
            403,
            "(rule:create_thing and rule:create_thing:host) is disallowed by policy",
        ),
        (json!({"mode": "a", "tags": [""]}), 400, "Invalid input for tags. Reason: a tag is not empty."),
    ] {
        let fault = create(&member(), &body(given.clone())).unwrap_err();
        assert_eq!((fault.status, fault.message.as_str()), (status, text), "{given}");
    }
}

#[test]
fn bad_update_bodies_are_refused() {
    for (given, status, text) in [
        (json!({"mode": "b"}), 400, "Cannot update read-only attribute mode"),
        (json!({"tags": []}), 400, "Cannot update read-only attribute tags"),
        (json!({"tenant_id": "p"}), 400, "Cannot update read-only attribute tenant_id"),
        (json!({"x": 1}), 400, "Unrecognized attribute(s) 'x'"),
        (
            json!({"shared": false}),
            403,
            "(rule:update_thing and rule:update_thing:shared) is disallowed by policy",
        ),
    ] {
        let fault = update(&member(), &body(given.clone())).unwrap_err();
        assert_eq!((fault.status, fault.message.as_str()), (status, text), "{given}");
    }
    let service = Caller { service: true, member: false, ..member() };
    let change = update(&service, &body(json!({"host": "h"}))).unwrap();
    assert_eq!(change.text("host"), Some("h"));
    assert!(!change.has("name"), "an update has only what it names");
}

#[test]
fn schemas_of_what_may_be_null_say_so() {
    assert_eq!(Shape::Nullable(&Shape::Uuid).schema(), json!({"type": ["string", "null"], "format": "uuid"}));
    let words = Shape::Nullable(&Shape::OneOf(&["a"])).schema();
    assert_eq!(words, json!({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}));
    const EITHER: Shape = Shape::WordOrNumber { format: "x", parse: |text| Ok(text.to_owned()) };
    assert_eq!(Shape::Nullable(&EITHER).schema()["type"], json!(["string", "integer", "null"]));
}
