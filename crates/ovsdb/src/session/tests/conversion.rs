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
    // Late messages of the old monitors are ignored.
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
    // The content under the old schema is no longer wanted, but both requests were sent.
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
    // Much later the session reloads in place again.
    rig.pass(Duration::from_secs(1));
    rig.forget();
    rig.update3(103, json!({"T": {uuid(44): {"delete": null}}}));
    assert_eq!(rig.take_actions(), ["monitor_cancel", "monitor_cond_since"]);
    assert_eq!(rig.session.status().counters.repairs, 2);
}

/// Bodies of updates that are no tables of rows, as a faulty server or another program on the connection may send them.
const BROKEN: [&str; 14] = [
    "",
    "5",
    "[]",
    "{",
    "{]",
    "{}}",
    "{},{}",
    r#"{"T":{}},7"#,
    r#"{"T":7}"#,
    r#"{"T":{"no uuid":{}}}"#,
    r#"{"T":{"UUID":7}}"#,
    r#"{"T":{"UUID":{"insert":{"name":"b","n":]}}}}"#,
    r#"{"T":{"UUID":{"insert":{"name":"b","n":2}"x"}}}"#,
    r#"{"T":{"00000000-0000-0000-0000-000000000007":{"insert":{"name":"good","n":7}},"UUID":{"insert":{"n":1,}}}}"#,
];

#[test]
fn a_broken_update_changes_nothing_and_is_repaired_like_one_that_does_not_fit() {
    for broken in BROKEN {
        let mut rig = Rig::clustered(2, |_| {}, &[(1, "a")]);
        let body = broken.replace("UUID", &uuid(2));
        let send = |rig: &mut Rig| {
            let text = format!(
                r#"{{"id":null,"method":"update3","params":["{}","{}",{body}]}}"#,
                rig.monitor(),
                uuid(101)
            );
            rig.text(&text);
        };
        send(&mut rig);
        assert_eq!(rig.take_actions(), ["monitor_cancel", "monitor_cond_since"], "{broken}");
        assert!(rig.events().is_empty() && rig.names() == ["a"], "{broken}");
        assert_eq!(rig.session.status().counters.repairs, 1);
        // The session requests the whole content instead of the changes, so the broken update is not lost.
        let rows = content(&[(1, "a"), (2, "b")]);
        let params = rig.answer("monitor_cond_since", json!([false, uuid(101), rows]));
        assert_eq!((&params[3], rig.names()), (&json!(NIL), vec!["a".to_owned(), "b".into()]), "{broken}");
        send(&mut rig);
        assert_eq!(rig.take_actions(), ["close inconsistent", "dial tcp:h:2"], "{broken}");
        let said = rig.session.status().last_close.unwrap().to_string();
        assert!(said.contains("cannot parse the update of "), "{said}");
    }
}

#[test]
fn a_server_that_only_sends_broken_updates_is_tried_less_and_less_often() {
    let mut rig = Rig::new();
    let mut delays = Vec::new();
    for round in 0..12 {
        rig.sync(member(true, 10), false, 100, content(&[(1, "a")]));
        rig.forget();
        rig.update3(101, json!({"T": 7}));
        rig.answer("monitor_cond_since", json!([false, uuid(101), content(&[(1, "a")])]));
        rig.update3(102, json!({"T": 7}));
        assert_eq!(rig.take_actions(), ["monitor_cancel", "monitor_cond_since", "close inconsistent"]);
        assert_eq!(rig.events().last().unwrap(), "down inconsistent later");
        assert_eq!(rig.session.status().counters.repairs, round + 1);
        let before = rig.now;
        rig.wait();
        assert_eq!(rig.take_actions(), ["dial tcp:h:1"]);
        delays.push(rig.now - before);
    }
    assert!(delays[11] >= Duration::from_secs(4) && delays[0] < Duration::from_secs(1), "{delays:?}");
}

#[test]
fn parameters_that_are_not_those_of_an_update_close_the_connection() {
    for params in [
        r#"["MONITOR"]"#,
        r#"["MONITOR","no uuid",{}]"#,
        r#"["MONITOR",5,{}]"#,
        r#"["MONITOR" "ID",{}]"#,
        r#"["MONITOR","ID"]"#,
        r#"["MONITOR\q","ID",{}]"#,
        "{}",
        "5",
        "null",
    ] {
        let mut rig = Rig::clustered(2, |_| {}, &[(1, "a")]);
        let params = params.replace("MONITOR", &rig.monitor()).replace("ID", &uuid(101));
        rig.text(&format!(r#"{{"id":null,"method":"update3","params":{params}}}"#));
        assert_eq!(rig.take_actions(), ["close protocol", "dial tcp:h:2"], "{params}");
    }
    // Updates of other monitors are ignored.
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    for params in ["[]", "[5,{}]", r#"["other","ID",{}]"#, r#"["other","ID",{"T":7}]"#] {
        let params = params.replace("ID", &uuid(101));
        rig.text(&format!(r#"{{"id":null,"method":"update3","params":{params}}}"#));
    }
    assert!(rig.take_actions().is_empty() && rig.session.is_synced());
    assert_eq!(rig.session.status().counters.strays, 4);
}

#[test]
fn a_whole_database_is_judged_the_same_lent_or_given_away() {
    let good = format!(r#"[false,"{}",{}]"#, uuid(7), content(&[(3, "c")]));
    let cut = good.replace("}]", "]");
    let twice = format!(r#"{good},"result":{good}"#);
    for (result, synced) in
        [(&*good, true), (&cut, false), (&twice, false), ("[false,7,{}]", false), ("null", false)]
    {
        for given in [false, true] {
            let mut rig = Rig::new();
            rig.open();
            rig.answer("set_db_change_aware", json!({}));
            rig.greet(row(json!({})));
            let (id, _) = rig.take("monitor_cond_since");
            rig.forget();
            let text = format!(r#"{{"id":{id},"result":{result},"error":null}}"#);
            match given {
                true => rig.session.handle_message(rig.now, text.into_bytes()),
                false => rig.session.handle_message(rig.now, text.as_bytes()),
            }
            assert_eq!(rig.session.is_synced(), synced, "{given}, {result}");
            assert_eq!(rig.names(), if synced { &["c"][..] } else { &[] }, "{given}, {result}");
            let closed = rig.take_actions().iter().any(|action| action.starts_with("close "));
            assert_eq!(closed, !synced, "{given}, {result}");
        }
    }
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
