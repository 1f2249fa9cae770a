//! From an open connection to a replica in sync, and the failures on the way.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::*;
use crate::model::Condition;
use crate::replica::Model;
use crate::session::*;

#[test]
fn a_standalone_server_is_greeted_and_loaded() {
    let mut rig = Rig::new();
    assert_eq!(rig.take_actions(), ["dial tcp:h:1"]);
    rig.open();
    assert_eq!(rig.take_actions(), ["set_db_change_aware", "monitor_cond", "get_schema"]);
    let params = rig.greet(row(json!({})));
    assert_eq!(params[0], "_Server");
    assert_eq!(params[2], json!({"Database": [{"where": [["name", "==", "d"]]}]}));
    let params = rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a"), (2, "b")])]));
    assert_eq!(params[0], "d");
    assert_eq!(params[2], json!({"T": [{"columns": ["name", "n"]}]}));
    assert_eq!(params[3], NIL);
    // All changes are reported before `synced`.
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "changed +a +b", "synced Fresh"]);
    assert_eq!(rig.names(), ["a", "b"]);
    let status = rig.session.status();
    assert_eq!(status.progress, Progress::Synced);
    assert_eq!(status.method, Some(Method::CondSince));
    assert_eq!(status.server.unwrap().model, StorageModel::Standalone);
}

#[test]
fn an_empty_database_is_in_sync_without_a_change() {
    let mut rig = Rig::new();
    rig.sync(row(json!({})), false, 0, json!({}));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "synced Fresh"]);
}

#[test]
fn a_server_from_before_2_9_is_asked_for_its_schema_and_monitored_the_old_way() {
    for greeting in [
        json!("unknown method"),
        json!({"error": "unknown database", "details": "monitor_cond request specifies unknown database _Server"}),
    ] {
        let mut rig = Rig::new();
        rig.open();
        rig.refuse("set_db_change_aware", json!("unknown method"));
        rig.refuse("monitor_cond", greeting);
        assert_eq!(rig.session.status().progress, Progress::ReadingSchema);
        let params = rig.answer("get_schema", serde_json::from_str(&schema_text()).unwrap());
        assert_eq!(params, json!(["d"]));
        rig.refuse("monitor_cond_since", json!("unknown method"));
        rig.refuse("monitor_cond", json!("unknown method"));
        let params = rig.answer("monitor", json!({"T": {uuid(1): {"new": {"name": "a", "n": 1}}}}));
        assert_eq!(params[2], json!({"T": [{"columns": ["name", "n"]}]}));
        assert_eq!(params.as_array().unwrap().len(), 3);
        assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "changed +a", "synced Fresh"]);
        let name = rig.monitor();
        rig.notify(
            "update",
            json!([name, {"T": {uuid(1): {"old": {"n": 1}, "new": {"name": "a", "n": 2}}}}]),
        );
        assert_eq!(rig.events(), ["changed ~a"]);
        assert_eq!(rig.session.status().method, Some(Method::Monitor));
        assert_eq!(rig.session.status().server, None);
    }
}

#[test]
fn a_server_without_resumption_is_monitored_with_conditions() {
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({})));
    rig.refuse("monitor_cond_since", json!("unknown method"));
    let params = rig.answer("monitor_cond", content(&[(1, "a")]));
    assert_eq!(params.as_array().unwrap().len(), 3);
    rig.forget();
    let name = rig.monitor();
    rig.notify("update2", json!([name, inserted(2, "b")]));
    assert_eq!(rig.events(), ["changed +b"]);
    // An update of another generation is none of ours.
    rig.notify("update3", json!([name, uuid(9), inserted(3, "c")]));
    rig.notify("update", json!([name, inserted(3, "c")]));
    assert!(rig.events().is_empty());
    assert_eq!(rig.session.status().counters.strays, 2);
}

#[test]
fn a_newest_method_is_kept_to() {
    let mut rig = Rig::with(1, |config| config.newest_method = Method::Cond);
    rig.open();
    rig.greet(row(json!({})));
    rig.answer("monitor_cond", content(&[(1, "a")]));
    assert_eq!(rig.session.status().method, Some(Method::Cond));
}

#[test]
fn a_missing_database_is_named_and_waited_for() {
    let mut rig = Rig::new();
    rig.open();
    rig.answer("monitor_cond", json!({}));
    assert_eq!(
        rig.take_actions(),
        ["dial tcp:h:1", "set_db_change_aware", "monitor_cond", "get_schema", "close no_database"]
    );
    assert_eq!(rig.events(), ["connected tcp:h:1", "down no_database later"]);
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains("no database d"), "{said}");
    rig.wait();
    rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "changed +a", "synced Fresh"]);
}

#[test]
fn an_old_server_without_the_database_or_permission_is_left() {
    for (error, label) in [
        (
            json!({"error": "unknown database", "details": "get_schema request specifies unknown database d"}),
            "no_database",
        ),
        (json!({"error": "permission error"}), "schema_refused"),
        (json!("not today"), "schema_refused"),
    ] {
        let mut rig = Rig::new();
        rig.open();
        rig.refuse("monitor_cond", json!("unknown method"));
        rig.refuse("get_schema", error);
        assert_eq!(rig.events(), ["connected tcp:h:1".to_owned(), format!("down {label} later")]);
    }
}

#[test]
fn a_monitor_that_is_refused_for_what_it_asks_is_not_asked_for_the_old_way() {
    // An old method would accept the request without the condition, which the caller did not ask for.
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({})));
    rig.refuse(
        "monitor_cond_since",
        json!({"error": "unknown column", "details": "No column bad in table T."}),
    );
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "down monitor_refused later"]);
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains("No column bad"), "{said}");
}

#[test]
fn even_the_oldest_method_may_be_refused() {
    let mut rig = Rig::with(1, |config| config.newest_method = Method::Monitor);
    rig.open();
    rig.greet(row(json!({})));
    rig.refuse("monitor", json!("unknown method"));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "down monitor_refused later"]);
}

#[test]
fn a_schema_that_does_not_fit_is_told_once_and_tried_again() {
    let narrow =
        json!({"name": "d", "tables": {"T": {"columns": {"name": {"type": "integer"}}}}}).to_string();
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({"schema": narrow})));
    assert_eq!(rig.events(), ["connected tcp:h:1", "misfit 2", "down misfit later"]);
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains("upgrade"), "{said}");
    rig.wait();
    rig.open();
    rig.greet(row(json!({"schema": narrow})));
    assert_eq!(rig.events(), ["connected tcp:h:1", "down misfit later"]);
    rig.wait();
    rig.sync(row(json!({})), false, 0, json!({}));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "synced Fresh"]);
}

#[test]
fn a_schema_that_cannot_be_read_is_named() {
    for schema in [json!(""), json!([]), json!({"name": "d"})] {
        let mut rig = Rig::new();
        rig.open();
        rig.answer("monitor_cond", row(json!({})));
        rig.answer("get_schema", schema);
        assert_eq!(rig.events(), ["connected tcp:h:1", "down schema_unreadable later"]);
    }
}

/// The messages of a server before it falls silent, closes, or sends garbage: one step further each time.
fn steps() -> Vec<fn(&mut Rig)> {
    vec![
        |_| {},
        |rig| rig.open(),
        |rig| drop(rig.answer("set_db_change_aware", json!({}))),
        |rig| drop(rig.answer("monitor_cond", row(json!({})))),
        |rig| drop(rig.answer("get_schema", serde_json::from_str(&schema_text()).unwrap())),
        |rig| drop(rig.refuse("monitor_cond_since", json!("unknown method"))),
        |rig| drop(rig.refuse("monitor_cond", json!("unknown method"))),
        |rig| drop(rig.answer("monitor", json!({}))),
    ]
}

#[test]
fn a_server_may_hang_up_at_any_step() {
    for broken_after in 0..steps().len() {
        let mut rig = Rig::new();
        for step in &steps()[..=broken_after] {
            step(&mut rig);
        }
        rig.forget();
        rig.eof();
        let events = rig.events();
        assert_eq!(events, ["down eof later"], "step {broken_after}");
        rig.wait();
        assert_eq!(rig.take_actions(), ["dial tcp:h:1"], "step {broken_after}");
        rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
        assert_eq!(rig.names(), ["a"], "step {broken_after}");
    }
}

#[test]
fn a_server_may_fall_silent_at_any_step() {
    for broken_after in 0..steps().len() {
        let mut rig = Rig::new();
        for step in &steps()[..=broken_after] {
            step(&mut rig);
        }
        rig.forget();
        let begin = rig.now;
        while rig.actions.iter().all(|action| !action.starts_with("close")) {
            assert!(rig.now < begin + Duration::from_secs(120), "step {broken_after}");
            rig.wait();
        }
        // A remote that had served for a while is dialled again at once.
        let label = match broken_after {
            0 => "down dial_timeout later",
            7 => "down silent now",
            _ => "down silent later",
        };
        assert_eq!(rig.events(), [label], "step {broken_after}");
        if label.ends_with("later") {
            rig.wait();
        }
        rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
        assert_eq!(rig.names(), ["a"], "step {broken_after}");
    }
}

#[test]
fn garbage_at_any_step_closes_with_a_reason() {
    for broken_after in 1..steps().len() {
        for garbage in
            ["", "[]", "{}", "{\"id\":1", "\u{1}", "{\"id\":[],\"method\":\"update\",\"params\":[]}"]
        {
            let mut rig = Rig::new();
            for step in &steps()[..=broken_after] {
                step(&mut rig);
            }
            rig.forget();
            rig.text(garbage);
            let closed = rig.take_actions();
            // The last one is a request in all but its name: refused, nothing more.
            let expected: &[&str] = if garbage.contains("update") { &[] } else { &["close protocol"] };
            assert_eq!(closed, expected, "step {broken_after}, {garbage:?}");
        }
    }
}

#[test]
fn a_reply_of_the_wrong_shape_closes_with_a_reason() {
    for (step, body, label) in [
        ("monitor_cond", json!([]), "protocol"),
        ("monitor_cond", json!({"Database": 1}), "protocol"),
        ("monitor_cond_since", json!({}), "protocol"),
        ("monitor_cond_since", json!([false, NIL]), "protocol"),
        ("monitor_cond_since", json!([false, NIL, []]), "inconsistent"),
        ("monitor_cond_since", json!([false, NIL, {"T": {"x": {}}}]), "inconsistent"),
    ] {
        let mut rig = Rig::new();
        rig.open();
        if step != "monitor_cond" {
            rig.greet(row(json!({})));
        }
        rig.answer(step, body.clone());
        let last = rig.take_actions().pop();
        assert_eq!(last, Some(format!("close {label}")), "{step} {body}");
    }
}

#[test]
fn replies_in_another_order_and_twice_do_no_harm() {
    let mut rig = Rig::new();
    rig.open();
    let (aware, _) = rig.take("set_db_change_aware");
    let (server, _) = rig.take("monitor_cond");
    rig.say(json!({"id": 999, "result": {}, "error": null}));
    rig.say(json!({"id": "x", "result": {}, "error": null}));
    let schema: Value = serde_json::from_str(&schema_text()).unwrap();
    rig.answer("get_schema", schema);
    assert_eq!(rig.session.status().progress, Progress::Greeting, "the schema alone does not do");
    let reply = json!({"id": server, "result": row(json!({})), "error": null});
    rig.say(reply.clone());
    rig.say(reply.clone());
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a")])]));
    rig.say(reply);
    rig.say(json!({"id": aware, "result": {}, "error": null}));
    rig.say(json!({"id": server, "error": "late"}));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "changed +a", "synced Fresh"]);
    assert_eq!(rig.session.status().counters.strays, 5);
}

#[test]
fn an_update_before_the_reply_is_in_the_reply() {
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({})));
    rig.update3(0, inserted(1, "a"));
    rig.server_update(json!({"index": 3}));
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a")])]));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "changed +a", "synced Fresh"]);
    rig.update3(0, inserted(2, "b"));
    assert_eq!(rig.names(), ["a", "b"]);
}

#[test]
fn the_first_request_carries_the_conditions_of_the_model() {
    let model = Model::new("d").table_where::<Item>(Condition::none());
    let mut rig = Rig::modelled(1, |_| {}, model);
    let params = rig.sync(row(json!({})), false, 0, json!({}));
    assert_eq!(params[2], json!({"T": [{"columns": ["name", "n"], "where": [false]}]}));
}
