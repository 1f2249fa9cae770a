//! Locks over the life of connections.

use serde_json::json;

use super::rig::*;
use crate::session::*;

fn lock(rig: &mut Rig, name: &str, mode: LockMode) {
    rig.session.lock(rig.now, name, mode);
    rig.pump();
}

#[test]
fn a_lock_is_asked_for_once_the_replica_is_in_sync() {
    let mut rig = Rig::new();
    lock(&mut rig, "l", LockMode::Wait);
    rig.open();
    rig.greet(row(json!({})));
    assert!(!rig.actions.contains(&"lock".to_owned()));
    rig.answer("monitor_cond_since", json!([false, NIL, {}]));
    assert_eq!(rig.answer("lock", json!({"locked": true})), json!(["l"]));
    let events = rig.events();
    assert_eq!(events[events.len() - 2..], ["synced Fresh", "lock l true"]);
    assert_eq!(rig.session.status().locks, ["l"]);
}

#[test]
fn a_lock_that_somebody_else_holds_is_waited_for() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "l", LockMode::Wait);
    lock(&mut rig, "l", LockMode::Wait);
    rig.answer("lock", json!({"locked": false}));
    assert!(rig.events().is_empty());
    rig.notify("locked", json!(["l"]));
    rig.notify("stolen", json!(["l"]));
    rig.notify("locked", json!(["l"]));
    assert_eq!(rig.events(), ["lock l true", "lock l false", "lock l true"]);
    assert_eq!(rig.take_actions(), ["lock"]);
}

#[test]
fn locks_end_with_the_connection_and_are_asked_for_again() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "a", LockMode::Steal);
    lock(&mut rig, "b", LockMode::Wait);
    rig.answer("steal", json!({"locked": true}));
    rig.answer("lock", json!({"locked": false}));
    rig.forget();
    rig.eof();
    assert_eq!(rig.events(), ["lock a false", "down eof later"]);
    rig.wait();
    rig.forget();
    rig.sync(row(json!({})), false, 0, json!({}));
    let asked: Vec<_> =
        rig.take_actions().into_iter().filter(|a| a.contains("lock") || a == "steal").collect();
    assert_eq!(asked, ["lock", "lock"], "nothing is stolen twice");
}

#[test]
fn a_thief_that_is_robbed_asks_again() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "l", LockMode::Steal);
    rig.answer("steal", json!({"locked": true}));
    rig.forget();
    rig.notify("stolen", json!(["l"]));
    assert_eq!(rig.take_actions(), ["unlock", "lock"]);
    rig.answer("unlock", json!({}));
    rig.answer("lock", json!({"locked": false}));
    rig.notify("locked", json!(["l"]));
    assert_eq!(rig.events(), ["lock l false", "lock l true"]);
    assert!(rig.take_actions().is_empty());
}

#[test]
fn a_lock_that_is_waited_for_is_stolen_after_all() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "l", LockMode::Wait);
    rig.answer("lock", json!({"locked": false}));
    rig.forget();
    lock(&mut rig, "l", LockMode::Steal);
    assert_eq!(rig.take_actions(), ["unlock", "steal"]);
    rig.answer("unlock", json!({}));
    rig.answer("steal", json!({"locked": true}));
    assert_eq!(rig.events(), ["lock l true"]);
}

#[test]
fn a_lock_is_given_back() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "l", LockMode::Wait);
    rig.answer("lock", json!({"locked": true}));
    rig.forget();
    rig.session.unlock(rig.now, "l");
    rig.session.unlock(rig.now, "l");
    assert_eq!(rig.take_actions(), ["unlock"]);
    assert_eq!(rig.events(), ["lock l false"]);
    // Wanted again before the reply came; the server takes them in order.
    lock(&mut rig, "l", LockMode::Wait);
    rig.answer("unlock", json!({}));
    rig.answer("lock", json!({"locked": true}));
    assert_eq!(rig.events(), ["lock l true"]);
}

#[test]
fn a_lock_given_back_while_disconnected_is_not_asked_for_again() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "l", LockMode::Wait);
    rig.answer("lock", json!({"locked": true}));
    rig.eof();
    rig.forget();
    rig.session.unlock(rig.now, "l");
    assert!(rig.events().is_empty());
    rig.wait();
    rig.sync(row(json!({})), false, 0, json!({}));
    assert!(!rig.take_actions().iter().any(|action| action.contains("lock")));
}

#[test]
fn a_refused_lock_is_told() {
    let mut rig = Rig::synced(&[]);
    lock(&mut rig, "bad name", LockMode::Wait);
    rig.refuse("lock", json!({"error": "syntax error", "details": "lock request params must be <id>"}));
    assert_eq!(rig.events(), ["lock bad name refused: syntax error (lock request params must be <id>)"]);
    assert!(rig.session.is_synced());
}
