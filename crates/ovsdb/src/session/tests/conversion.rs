//! The schema changes while we are connected; updates that do not fit.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::*;

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_standalone_server_cancels_monitors_and_its_row_lags_behind() {
    let mut rig = Rig::synced(&[(1, "a")]);
    let (old, server) = (rig.monitor(), rig.server_monitor());
    rig.notify("monitor_canceled", json!([old]));
    assert_eq!(rig.take_actions(), ["monitor_cancel", "set_db_change_aware", "monitor_cond", "get_schema"]);
    assert_eq!(rig.answer("monitor_cancel", json!({})), json!([server]));
    assert!(!rig.session.is_synced());
    assert_ne!(rig.server_monitor(), server);
    rig.answer("monitor_cond", row(json!({})));
    rig.answer("get_schema", schema(&wider_schema_text()));
    let params = rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a"), (2, "b")])]));
    assert_eq!(params[2], json!({"T": [{"columns": ["name", "n", "note"]}]}));
    assert_eq!(rig.events(), ["fit exact", "changed +b", "synced Reloaded"]);
    assert_ne!(rig.monitor(), old);
    // Other news of a row that still lags behind, and then its own, change nothing.
    rig.forget();
    rig.server_update(json!({"index": 3}));
    rig.server_update(json!({"schema": wider_schema_text()}));
    rig.answer("get_schema", schema(&wider_schema_text()));
    assert_eq!(rig.take_actions(), ["get_schema"]);
    // What comes late for the old monitors concerns nobody.
    rig.notify("update3", json!([old, NIL, inserted(3, "c")]));
    rig.notify("monitor_canceled", json!([old]));
    assert!(rig.events().is_empty() && rig.take_actions().is_empty() && rig.session.is_synced());
}

#[test]
fn a_cluster_cancels_and_then_tells_the_schema() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    let (old, server) = (rig.monitor(), rig.server_monitor());
    rig.notify("monitor_canceled", json!([old]));
    let told = json!({"schema": wider_schema_text(), "index": 11});
    rig.notify("update2", json!([server, {"Database": {uuid(1): {"modify": told}}}]));
    let mut columns = json!({"model": "clustered", "cid": ["uuid", CLUSTER]});
    columns.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
    rig.answer("monitor_cond", row(columns));
    rig.answer("get_schema", schema(&wider_schema_text()));
    let params = rig.answer("monitor_cond_since", json!([false, uuid(101), content(&[(1, "a")])]));
    assert_eq!(params[3], NIL, "other columns: nothing to resume");
    assert_eq!(rig.events(), ["fit exact", "synced Reloaded"]);
}

#[test]
fn a_schema_that_changes_again_while_the_content_is_under_way_is_followed() {
    let mut rig = Rig::synced(&[(1, "a")]);
    let old = rig.monitor();
    rig.notify("monitor_canceled", json!([old]));
    rig.answer("monitor_cond", row(json!({})));
    rig.server_update(json!({"index": 5}));
    rig.answer("get_schema", schema(&schema_text()));
    rig.server_update(json!({"schema": wider_schema_text()}));
    rig.answer("get_schema", schema(&wider_schema_text()));
    // The content under the old schema is no longer wanted; both were asked for.
    let (stale, _) = rig.take("monitor_cond_since");
    rig.say(json!({"id": stale, "error": {"error": "unknown column"}}));
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a")])]));
    assert!(rig.session.is_synced());
    assert_eq!(rig.events(), ["fit degraded", "fit exact", "synced Reloaded"]);
}

#[test]
fn a_canceled_monitor_of_the_server_itself_is_made_again() {
    let mut rig = Rig::synced(&[(1, "a")]);
    let server = rig.server_monitor();
    rig.notify("monitor_canceled", json!([server]));
    rig.answer("monitor_cond", row(json!({})));
    rig.answer("get_schema", schema(&schema_text()));
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a")])]));
    assert_eq!(rig.events(), ["fit degraded", "synced Reloaded"]);
}

#[test]
fn a_schema_that_changes_without_canceled_monitors_is_followed_too() {
    let mut rig = Rig::synced(&[(1, "a")]);
    let old = rig.monitor();
    rig.server_update(json!({"schema": wider_schema_text()}));
    assert!(rig.session.is_synced());
    rig.answer("get_schema", schema(&wider_schema_text()));
    assert_eq!(rig.take_actions(), ["get_schema", "monitor_cancel", "monitor_cond_since"]);
    assert_eq!(rig.refuse("monitor_cancel", json!("unknown monitor")), json!([old]));
    rig.notify("update3", json!([old, NIL, inserted(3, "c")]));
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a")])]));
    assert_eq!(rig.events(), ["fit exact", "synced Reloaded"]);
    assert_eq!(rig.names(), ["a"]);
}

#[test]
fn the_same_schema_in_other_words_is_no_change() {
    let mut rig = Rig::synced(&[(1, "a")]);
    let spaced = schema_text().replace(':', " : ");
    rig.server_update(json!({"schema": spaced}));
    rig.answer("get_schema", schema(&schema_text()));
    assert_eq!(rig.take_actions(), ["get_schema"]);
    assert!(rig.session.is_synced());
}

#[test]
fn a_conversion_to_something_that_does_not_fit_keeps_the_replica() {
    let mut rig = Rig::synced(&[(1, "a")]);
    rig.server_update(json!({"schema": "something"}));
    rig.answer("get_schema", json!({"name": "d", "tables": {}}));
    assert_eq!(rig.events(), ["misfit 1", "down misfit later"]);
    assert_eq!(rig.names(), ["a"]);
    rig.wait();
    rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "synced Reloaded"]);
}

#[test]
fn transactions_and_locks_survive_a_conversion_on_the_same_connection() {
    let mut rig = Rig::synced(&[(1, "a")]);
    rig.session.lock(rig.now, "l", crate::session::LockMode::Wait);
    rig.pump();
    rig.answer("lock", json!({"locked": true}));
    let txn = rig.session.submit(rig.now, "[]".into());
    rig.pump();
    rig.forget();
    let old = rig.monitor();
    rig.notify("monitor_canceled", json!([old]));
    rig.refuse("transact", json!("canceled"));
    assert_eq!(rig.events(), [format!("reply {} error \"canceled\"", txn.0)]);
    let refused = rig.session.submit(rig.now, "[]".into());
    assert_eq!(rig.events(), [format!("reply {} not sent", refused.0)]);
    rig.answer("monitor_cond", row(json!({})));
    rig.answer("get_schema", schema(&wider_schema_text()));
    rig.answer("monitor_cond_since", json!([false, NIL, content(&[(1, "a")])]));
    assert_eq!(rig.events(), ["fit exact", "synced Reloaded"]);
    assert!(!rig.actions.contains(&"lock".to_owned()));
    assert_eq!(rig.session.status().locks, ["l"]);
}

#[test]
fn an_update_that_does_not_fit_is_repaired_in_place_and_the_second_one_elsewhere() {
    let mut rig = Rig::clustered(2, |_| {}, &[(1, "a")]);
    rig.update3(101, json!({"T": {uuid(9): {"modify": {"n": 3}}}}));
    assert_eq!(rig.take_actions(), ["monitor_cancel", "monitor_cond_since"]);
    let params = rig.answer("monitor_cond_since", json!([false, uuid(101), content(&[(1, "a"), (9, "i")])]));
    assert_eq!(params[3], NIL);
    assert_eq!(rig.events(), ["changed +i", "synced Reloaded"]);
    rig.update3(102, inserted(9, "again"));
    assert_eq!(rig.take_actions(), ["close inconsistent", "dial tcp:h:2"]);
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains("table T, row"), "{said}");
    let params = rig.sync(member(true, 12), false, 102, content(&[(1, "a")]));
    assert_eq!(params[3], NIL);
    // Much later it is tried in place again.
    rig.pass(Duration::from_secs(1));
    rig.forget();
    rig.update3(103, json!({"T": {uuid(44): {"delete": null}}}));
    assert_eq!(rig.take_actions(), ["monitor_cancel", "monitor_cond_since"]);
    assert_eq!(rig.session.status().counters.repairs, 2);
}

#[test]
fn a_resumption_that_does_not_fit_loads_everything() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    rig.eof();
    rig.wait();
    rig.forget();
    rig.sync(member(true, 12), true, 105, inserted(1, "twice"));
    assert!(!rig.session.is_synced());
    let params = rig.answer("monitor_cond_since", json!([false, uuid(105), content(&[(1, "a")])]));
    assert_eq!(params[3], NIL);
    assert_eq!(rig.events(), ["connected tcp:h:1", "fit degraded", "synced Reloaded"]);
}
