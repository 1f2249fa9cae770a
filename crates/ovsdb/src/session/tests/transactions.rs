//! Every transaction gets one reply, in the right order, under all faults.

use serde_json::json;

use super::rig::*;
use crate::session::*;

#[test]
fn the_change_comes_before_the_reply() {
    let mut rig = Rig::synced(&[]);
    let txn = rig.session.submit(rig.now, r#" [{"op":"insert"}, {"op":"comment"}] "#.into());
    rig.pump();
    rig.update3(0, inserted(1, "a"));
    let params = rig.answer("transact", json!([{}, {}]));
    assert_eq!(params, json!(["d", {"op": "insert"}, {"op": "comment"}]));
    assert_eq!(rig.events(), ["changed +a".to_owned(), format!("reply {} [{{}},{{}}]", txn.0)]);
    assert_eq!(rig.session.status().outstanding, 0);
}

#[test]
fn an_empty_transaction_is_one_too() {
    let mut rig = Rig::synced(&[]);
    rig.session.submit(rig.now, "[ ]".into());
    rig.pump();
    assert_eq!(rig.answer("transact", json!([])), json!(["d"]));
}

#[test]
fn many_may_be_under_way_and_replies_may_come_in_any_order() {
    let mut rig = Rig::synced(&[]);
    let txns: Vec<_> = (0..5).map(|_| rig.session.submit(rig.now, "[]".into()).0).collect();
    rig.pump();
    assert_eq!(rig.session.status().outstanding, 5);
    for txn in txns.iter().rev() {
        rig.say(json!({"id": txn, "result": [], "error": null}));
        rig.say(json!({"id": txn, "result": ["again"], "error": null}));
    }
    let expected: Vec<_> = txns.iter().rev().map(|txn| format!("reply {txn} []")).collect();
    assert_eq!(rig.events(), expected);
    assert_eq!(rig.session.status().counters.strays, 5);
}

#[test]
fn a_refusal_is_passed_on_as_it_came() {
    let mut rig = Rig::synced(&[]);
    let txn = rig.session.submit(rig.now, "[]".into());
    rig.pump();
    rig.refuse("transact", json!({"error": "permission error"}));
    assert_eq!(rig.events(), [format!(r#"reply {} error {{"error":"permission error"}}"#, txn.0)]);
}

#[test]
fn a_leader_that_loses_leadership_with_a_transaction_under_way_leaves_it_unknown() {
    let mut rig = Rig::clustered(2, |_| {}, &[]);
    let txn = rig.session.submit(rig.now, "[]".into());
    rig.pump();
    rig.forget();
    rig.server_update(json!({"leader": false}));
    assert_eq!(rig.events(), [format!("reply {} lost", txn.0), "down not_leader now".into()]);
    assert_eq!(rig.session.status().counters.lost, 1);
    // Late replies of the closed connection are ignored.
    rig.say(json!({"id": txn.0, "result": [], "error": null}));
    assert!(rig.events().is_empty());
}

#[test]
fn what_never_left_is_told_apart_from_what_is_unknown() {
    let mut rig = Rig::synced(&[]);
    let sent = rig.session.submit(rig.now, "[]".into());
    rig.forget();
    let kept = rig.session.submit(rig.now, "[]".into());
    rig.eof();
    let events = rig.events();
    assert_eq!(
        events,
        [format!("reply {} not sent", kept.0), format!("reply {} lost", sent.0), "down eof later".into()]
    );
    assert!(!rig.take_actions().contains(&"transact".to_owned()));
}

#[test]
fn what_is_submitted_out_of_sync_is_not_sent() {
    let mut rig = Rig::new();
    let first = rig.session.submit(rig.now, "[]".into());
    rig.open();
    let second = rig.session.submit(rig.now, "[]".into());
    rig.greet(row(json!({})));
    let third = rig.session.submit(rig.now, "[]".into());
    let replies: Vec<_> = rig.events().into_iter().filter(|event| event.starts_with("reply")).collect();
    assert_eq!(replies, [first, second, third].map(|txn| format!("reply {} not sent", txn.0)));
    assert!(!rig.take_actions().contains(&"transact".to_owned()));
}

#[test]
fn ids_are_not_used_twice_over_connections() {
    let mut rig = Rig::synced(&[]);
    let old = rig.session.submit(rig.now, "[]".into());
    rig.pump();
    rig.eof();
    rig.wait();
    rig.sync(row(json!({})), false, 0, json!({}));
    let new = rig.session.submit(rig.now, "[]".into());
    rig.forget();
    assert_ne!(old, new);
    rig.say(json!({"id": old.0, "result": [], "error": null}));
    assert!(rig.events().is_empty());
    rig.say(json!({"id": new.0, "result": [], "error": null}));
    assert_eq!(rig.events(), [format!("reply {} []", new.0)]);
    assert_eq!(rig.session.status().counters.transactions, 2);
    assert!(matches!(rig.session.status().last_close, Some(CloseReason::Eof)));
}

#[test]
fn what_is_no_array_is_not_sent() {
    let mut rig = Rig::synced(&[]);
    for text in ["", "{}", "[", "]", "null"] {
        let txn = rig.session.submit(rig.now, text.into());
        assert_eq!(rig.events(), [format!("reply {} not sent", txn.0)], "{text:?}");
    }
    assert!(rig.take_actions().is_empty());
    assert_eq!(rig.session.status().outstanding, 0);
}

#[test]
fn a_session_can_be_moved_to_another_thread() {
    fn movable<T: Send>() {}
    movable::<Session>();
    movable::<Event>();
    movable::<Action>();
}
