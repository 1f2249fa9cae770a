//! Conditions that change while we are connected, and while we are not.

use serde_json::json;

use super::rig::*;
use crate::model::AnyCondition;
use crate::session::*;

const ONLY_1: &str = r#"[["n","==",1]]"#;

#[test]
fn a_change_is_sent_and_in_force_after_what_it_brought() {
    let mut rig = Rig::synced(&[(1, "a"), (2, "b")]);
    let seq = rig.only(1);
    assert_eq!(seq, CondSeq(1));
    rig.update3(0, json!({"T": {uuid(2): {"delete": null}}}));
    let name = rig.monitor();
    let params = rig.answer("monitor_cond_change", json!({}));
    assert_eq!(params.to_string(), format!(r#"["{name}","{name}",{{"T":[{{"where":{ONLY_1}}}]}}]"#));
    assert_eq!(rig.events(), ["changed -b", "condition 1"]);
    assert_eq!(rig.session.status().conditions, CondSeq(1));
    // A row that moves into the condition.
    rig.update3(0, inserted(3, "c"));
    assert_eq!(rig.names(), ["a", "c"]);
}

#[test]
fn one_change_is_under_way_at_a_time() {
    let mut rig = Rig::synced(&[]);
    rig.only(1);
    rig.only(2);
    assert_eq!(rig.only(3), CondSeq(3));
    assert_eq!(rig.take_actions(), ["monitor_cond_change"]);
    rig.answer("monitor_cond_change", json!({}));
    assert_eq!(rig.events(), ["condition 1"]);
    let params = rig.answer("monitor_cond_change", json!({}));
    assert_eq!(params[2]["T"][0]["where"], json!([["n", "==", 3]]), "what was overtaken is never sent");
    assert_eq!(rig.events(), ["condition 3"]);
}

#[test]
fn a_refused_change_leaves_what_was_in_force() {
    let mut rig = Rig::synced(&[(1, "a")]);
    rig.only(1);
    rig.refuse("monitor_cond_change", json!({"error": "unknown column", "details": "No column n."}));
    assert_eq!(rig.events(), ["condition 1 refused: unknown column (No column n.)"]);
    assert!(rig.session.is_synced());
    rig.only(2);
    rig.answer("monitor_cond_change", json!({}));
    assert_eq!(rig.events(), ["condition 2"]);
}

#[test]
fn a_condition_set_before_the_connection_goes_with_the_first_request() {
    let mut rig = Rig::new();
    rig.only(1);
    let params = rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
    assert_eq!(params[2]["T"][0]["where"].to_string(), ONLY_1);
    assert_eq!(
        rig.events(),
        ["connected tcp:h:1", "fit degraded", "changed +a", "synced Fresh", "condition 1"]
    );
    assert!(!rig.actions.contains(&"monitor_cond_change".to_owned()));
}

#[test]
fn a_bad_condition_set_before_the_connection_is_refused_and_the_rest_is_followed() {
    let no_column = json!({"error": "unknown column", "details": "No column n."});
    let mut rig = Rig::new();
    rig.only(1);
    rig.open();
    rig.greet(row(json!({})));
    let params = rig.refuse("monitor_cond_since", no_column.clone());
    assert_eq!(params[2]["T"][0]["where"].to_string(), ONLY_1);
    let params = rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a"), (2, "b")])]));
    assert_eq!(params[2]["T"][0].get("where"), None, "what was in force");
    rig.refuse("monitor_cond_change", no_column.clone());
    assert_eq!(
        rig.events()[2..],
        ["changed +a +b", "synced Fresh", "condition 1 refused: unknown column (No column n.)"]
    );
    assert!(rig.session.is_synced());
    // The history is lost for good.
    rig.eof();
    rig.wait();
    let params = rig.sync(row(json!({})), false, 0, content(&[(1, "a"), (2, "b")]));
    assert_eq!(params[2]["T"][0].get("where"), None);
    rig.forget();

    // The connection breaks before the refusal comes.
    rig.only(2);
    rig.eof();
    rig.wait();
    rig.forget();
    rig.open();
    rig.greet(row(json!({})));
    rig.refuse("monitor_cond_since", no_column.clone());
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a"), (2, "b")])]));
    rig.refuse("monitor_cond_change", no_column);
    assert_eq!(rig.events()[2..], ["synced Reloaded", "condition 2 refused: unknown column (No column n.)"]);
}

#[test]
fn content_that_is_refused_whatever_the_condition_ends_the_connection() {
    let denied = json!({"error": "permission error"});
    let mut rig = Rig::new();
    rig.only(1);
    for _ in 0..2 {
        rig.open();
        rig.greet(row(json!({})));
        rig.refuse("monitor_cond_since", denied.clone());
        rig.refuse("monitor_cond_since", denied.clone());
        assert_eq!(rig.take_actions().last().unwrap(), "close monitor_refused");
        rig.wait();
    }
    // The error did not blame the condition, so the session still wants it.
    let params = rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
    assert_eq!(params[2]["T"][0]["where"].to_string(), ONLY_1);
    assert_eq!(rig.events().last().unwrap(), "condition 1");
}

#[test]
fn a_condition_set_while_the_content_is_under_way_is_a_change_afterwards() {
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({})));
    rig.only(1);
    rig.answer("monitor_cond_since", json!([false, NIL, {}]));
    assert_eq!(rig.events().last().unwrap(), "synced Fresh");
    rig.answer("monitor_cond_change", json!({}));
    assert_eq!(rig.events(), ["condition 1"]);
}

#[test]
fn found_with_conditions_changed_meanwhile_resumes_under_the_old_ones_and_then_changes() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a"), (2, "b")]);
    rig.eof();
    rig.only(1);
    rig.wait();
    rig.forget();
    let params = rig.sync(member(true, 11), true, 101, json!({}));
    assert_eq!(params[3], uuid(100).as_str());
    assert_eq!(params[2]["T"][0].get("where"), None, "what the replica holds");
    assert_eq!(rig.events().last().unwrap(), "synced Resumed");
    rig.update3(101, json!({"T": {uuid(2): {"delete": null}}}));
    rig.answer("monitor_cond_change", json!({}));
    assert_eq!(rig.events(), ["changed -b", "condition 1"]);
}

#[test]
fn found_is_not_asked_for_when_a_change_was_in_flight() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a"), (2, "b")]);
    rig.only(1);
    // The server applied it, but its reply was lost.
    rig.update3(101, json!({"T": {uuid(2): {"delete": null}}}));
    rig.eof();
    rig.wait();
    rig.forget();
    let params = rig.sync(member(true, 11), false, 101, content(&[(1, "a")]));
    assert_eq!(params[3], NIL);
    assert_eq!(params[2]["T"][0]["where"].to_string(), ONLY_1);
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "synced Reloaded", "condition 1"]);
}

#[test]
fn a_resumption_that_is_not_found_loads_and_then_changes() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    rig.eof();
    rig.only(1);
    rig.wait();
    rig.forget();
    rig.sync(member(true, 11), false, 101, content(&[(1, "a"), (2, "b")]));
    rig.update3(101, json!({"T": {uuid(2): {"delete": null}}}));
    rig.answer("monitor_cond_change", json!({}));
    let events = rig.events();
    assert_eq!(events[2..], ["changed +b", "synced Reloaded", "changed -b", "condition 1"]);
}

#[test]
fn a_server_that_knows_no_conditions_has_them_in_force_at_once() {
    let mut rig = Rig::with(1, |config| config.newest_method = Method::Monitor);
    rig.open();
    rig.greet(row(json!({})));
    let params = rig.answer("monitor", json!({}));
    assert_eq!(params[2]["T"][0].get("where"), None);
    rig.forget();
    rig.only(1);
    assert_eq!(rig.events(), ["condition 1"]);
    assert!(rig.take_actions().is_empty());
}

#[test]
fn what_is_in_force_already_needs_nothing() {
    let mut rig = Rig::synced(&[]);
    assert_eq!(rig.session.set_condition(rig.now, "T", AnyCondition::All), CondSeq(0));
    assert!(rig.take_actions().is_empty());
}

#[test]
#[should_panic(expected = "table X is not in the model of d")]
fn a_condition_for_a_table_that_is_not_in_the_model_is_a_mistake_of_the_program() {
    Rig::synced(&[]).session.set_condition(std::time::Instant::now(), "X", AnyCondition::All);
}
