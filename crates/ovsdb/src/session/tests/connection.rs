//! The order and times of attempts at remotes.

use std::time::Duration;

use serde_json::json;

use super::rig::*;
use crate::session::*;

const S: Duration = Duration::from_secs(1);

fn refused() -> CloseReason {
    CloseReason::Dial("connection refused".into())
}

#[test]
fn all_remotes_are_tried_before_there_is_a_delay() {
    let mut rig = Rig::with(3, |_| {});
    rig.closed(refused());
    rig.closed(refused());
    rig.closed(refused());
    assert_eq!(rig.take_actions(), ["dial tcp:h:1", "dial tcp:h:2", "dial tcp:h:3"]);
    assert_eq!(rig.events(), ["down dial now", "down dial now", "down dial later"]);
    rig.session.handle_timeout(rig.now);
    assert!(rig.take_actions().is_empty(), "too early does no harm");
    rig.wait();
    assert_eq!(rig.take_actions(), ["dial tcp:h:1"]);
}

#[test]
fn it_never_gives_up_and_the_delays_stay_in_their_limits() {
    let mut rig = Rig::new();
    for round in 0..500 {
        rig.closed(refused());
        let delay = rig.session.next_timeout().unwrap() - rig.now;
        assert!(delay >= Duration::from_millis(125) && delay <= 8 * S, "{round}: {delay:?}");
        assert!(round < 6 || delay >= 4 * S, "{round}: {delay:?}");
        rig.wait();
    }
    assert_eq!(rig.session.status().counters.dials, 501);
    assert_eq!(rig.session.status().failed_rounds, 500);
}

#[test]
fn a_connection_that_served_for_a_while_is_tried_again_at_once_and_first() {
    let mut rig = Rig::with(3, |_| {});
    rig.closed(refused());
    rig.sync(row(json!({})), false, 0, json!({}));
    for _ in 0..3 {
        rig.pass(4 * S);
        rig.session.handle_activity(rig.now);
    }
    rig.forget();
    rig.eof();
    assert_eq!(rig.take_actions(), ["dial tcp:h:2"]);
    assert_eq!(rig.events(), ["down eof now"]);
    // It is not there: the others, and it loses its preference.
    rig.closed(refused());
    assert_eq!(rig.take_actions(), ["dial tcp:h:1"]);
    rig.closed(refused());
    rig.closed(refused());
    rig.wait();
    assert_eq!(rig.take_actions(), ["dial tcp:h:3", "dial tcp:h:1"]);
}

#[test]
fn a_server_that_hangs_up_right_after_the_content_is_not_stormed() {
    let mut rig = Rig::new();
    let mut waited = Duration::ZERO;
    for _ in 0..10 {
        rig.sync(row(json!({})), false, 0, json!({}));
        rig.eof();
        waited += rig.session.next_timeout().unwrap() - rig.now;
        rig.wait();
    }
    assert!(waited > 20 * S, "{waited:?}");
}

#[test]
fn a_connection_that_does_not_come_about_is_given_up() {
    let mut rig = Rig::with(2, |_| {});
    rig.pass(4 * S);
    assert_eq!(rig.take_actions(), ["dial tcp:h:1"]);
    rig.pass(S);
    assert_eq!(rig.take_actions(), ["close dial_timeout", "dial tcp:h:2"]);
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains("5s"), "{said}");
}

#[test]
fn a_session_without_remotes_says_so_and_waits_for_some() {
    let mut rig = Rig::with(0, |_| {});
    assert!(rig.take_actions().is_empty());
    assert_eq!(rig.events(), ["down no_remotes later"]);
    assert!(rig.session.next_timeout().is_some());
    rig.wait();
    assert!(rig.session.next_timeout().is_some());
    rig.session.set_remotes(rig.now, "tcp:h:7".parse().unwrap());
    assert_eq!(rig.take_actions(), ["dial tcp:h:7"]);
}

#[test]
fn changed_remotes_keep_a_connection_that_is_still_among_them() {
    let mut rig = Rig::synced(&[]);
    rig.session.set_remotes(rig.now, "tcp:h:9,tcp:h:1".parse().unwrap());
    assert!(rig.take_actions().is_empty() && rig.session.is_synced());
    rig.session.set_remotes(rig.now, "tcp:h:9".parse().unwrap());
    assert_eq!(rig.take_actions(), ["close remotes_changed", "dial tcp:h:9"]);
    // The remotes change again before the driver sees the first request to connect, so it never sees that one.
    rig.session.set_remotes(rig.now, "tcp:h:8".parse().unwrap());
    rig.session.set_remotes(rig.now, "tcp:h:7".parse().unwrap());
    assert_eq!(rig.take_actions(), ["close remotes_changed", "dial tcp:h:7"]);
}

#[test]
fn a_reconnection_can_be_asked_for_and_prefers_another_remote() {
    let mut rig = Rig::with(2, |_| {});
    rig.sync(row(json!({})), false, 0, json!({}));
    rig.pass(9 * S);
    rig.forget();
    rig.session.reconnect(rig.now);
    assert_eq!(rig.take_actions(), ["close asked", "dial tcp:h:2"]);
    rig.closed(refused());
    rig.closed(refused());
    rig.forget();
    rig.session.reconnect(rig.now);
    assert_eq!(rig.take_actions(), ["dial tcp:h:1"], "waiting is cut short");
}

#[test]
fn what_the_driver_says_at_the_wrong_time_does_no_harm() {
    let mut rig = Rig::new();
    rig.closed(refused());
    rig.forget();
    rig.open();
    rig.closed(CloseReason::Eof);
    rig.text("{}");
    rig.session.handle_activity(rig.now);
    assert!(rig.events().is_empty() && rig.take_actions().is_empty());
    rig.wait();
    rig.text("{}");
    rig.sync(row(json!({})), false, 0, json!({}));
    rig.open();
    assert!(rig.session.is_synced());
}

#[test]
fn every_reason_has_a_word_and_a_sentence() {
    let reasons = [
        refused(),
        CloseReason::Io("x".into()),
        CloseReason::Protocol("x".into()),
        CloseReason::SchemaRefused("x".into()),
        CloseReason::Inconsistent("x".into()),
        CloseReason::NoRemotes,
        CloseReason::Refused(Refusal::NotLeader),
    ];
    let words: std::collections::BTreeSet<_> = reasons.iter().map(CloseReason::label).collect();
    assert_eq!(words.len(), reasons.len());
    assert!(reasons.iter().all(|reason| reason.to_string().len() > 10));
}
