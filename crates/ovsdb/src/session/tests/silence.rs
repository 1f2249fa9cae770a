//! Probes, patience and answers to the server's own probes.

use std::time::Duration;

use serde_json::json;

use super::rig::*;
use crate::session::*;

const S: Duration = Duration::from_secs(1);

#[test]
fn a_quiet_server_that_answers_probes_is_kept() {
    let mut rig = Rig::synced(&[]);
    for _ in 0..10 {
        rig.wait();
        assert_eq!(rig.take_actions(), ["echo"]);
        rig.answer("echo", json!([]));
    }
    assert!(rig.session.is_synced());
    assert_eq!(rig.session.status().counters.probes, 10);
    assert!(rig.events().is_empty());
}

#[test]
fn a_server_that_hangs_is_left_after_a_probe() {
    let mut rig = Rig::synced(&[(1, "a")]);
    rig.pass(5 * S);
    rig.pass(5 * S);
    assert_eq!(rig.take_actions()[..2], ["echo", "close silent"]);
    assert_eq!(rig.events()[0], "down silent now");
    assert_eq!(rig.names(), ["a"], "the replica stays");
}

#[test]
fn a_big_reply_that_trickles_in_is_life() {
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({})));
    rig.forget();
    for _ in 0..100 {
        rig.pass(4 * S);
        rig.session.handle_activity(rig.now);
    }
    assert!(rig.take_actions().is_empty(), "not even a probe");
    rig.answer("monitor_cond_since", json!([false, NIL, {}]));
    assert!(rig.session.is_synced());
    assert_eq!(rig.session.status().counters.last_load, 400 * S);
}

#[test]
fn a_server_that_composes_the_first_content_gets_its_time() {
    let mut rig = Rig::new();
    rig.open();
    rig.greet(row(json!({})));
    rig.forget();
    rig.pass(5 * S);
    assert_eq!(rig.take_actions(), ["echo"]);
    rig.pass(50 * S);
    assert!(rig.take_actions().is_empty());
    rig.answer("monitor_cond_since", json!([false, NIL, {}]));
    assert!(rig.session.is_synced());
    // From now on it has no excuse.
    rig.forget();
    rig.pass(5 * S);
    rig.pass(5 * S);
    assert_eq!(rig.take_actions()[..2], ["echo", "close silent"]);
}

#[test]
fn a_client_that_was_busy_for_long_asks_before_it_leaves() {
    let mut rig = Rig::synced(&[]);
    rig.pass(3600 * S);
    assert_eq!(rig.take_actions(), ["echo"]);
    rig.answer("echo", json!([]));
    assert!(rig.session.is_synced());
}

#[test]
fn without_probes_a_quiet_connection_stays_for_ever() {
    let mut rig = Rig::with(1, |config| config.probe_interval = Duration::ZERO);
    rig.open();
    assert!(rig.session.next_timeout().is_some(), "the handshake is limited all the same");
    rig.greet(row(json!({})));
    rig.answer("monitor_cond_since", json!([false, NIL, {}]));
    rig.forget();
    assert_eq!(rig.session.next_timeout(), None);
    rig.pass(100_000 * S);
    assert!(rig.session.is_synced() && rig.take_actions().is_empty());
}

#[test]
fn the_servers_probes_are_answered_at_any_time() {
    let mut rig = Rig::new();
    rig.open();
    rig.say(json!({"id": "echo", "method": "echo", "params": []}));
    rig.greet(row(json!({})));
    rig.say(json!({"id": {"a": [1]}, "method": "echo", "params": ["x", 1]}));
    rig.answer("monitor_cond_since", json!([false, NIL, {}]));
    for n in 0..1000 {
        rig.say(json!({"id": n, "method": "echo", "params": []}));
    }
    assert_eq!(rig.others.len(), 1002);
    assert_eq!(rig.others[0], json!({"id": "echo", "result": [], "error": null}));
    assert_eq!(rig.others[1], json!({"id": {"a": [1]}, "result": ["x", 1], "error": null}));
    assert!(rig.session.is_synced());
}

#[test]
fn unknown_requests_are_refused_and_unknown_notifications_passed_over() {
    let mut rig = Rig::synced(&[]);
    rig.say(json!({"id": 7, "method": "dance", "params": []}));
    assert_eq!(rig.others, [json!({"id": 7, "result": null, "error": "unknown method"})]);
    rig.notify("weather", json!(["rain"]));
    rig.notify("update9", json!({}));
    rig.notify("monitor_canceled", json!([["not", "ours"]]));
    rig.notify("monitor_canceled", json!([""]));
    rig.notify("monitor_canceled", json!({}));
    rig.notify("locked", json!(["nothing"]));
    assert!(rig.events().is_empty() && rig.session.is_synced());
    assert_eq!(rig.session.status().counters.strays, 6);
}

#[test]
fn status_counts_what_happened() {
    let mut rig = Rig::synced(&[]);
    rig.closed(CloseReason::Io("reset".into()));
    let status = rig.session.status();
    assert_eq!((status.counters.dials, status.counters.connections, status.counters.closes), (1, 1, 1));
    assert_eq!(status.progress, Progress::Waiting);
    assert_eq!(status.failed_rounds, 1);
    assert_eq!(status.last_close, Some(CloseReason::Io("reset".into())));
    rig.pass(S);
    assert_eq!(rig.session.status().counters.dials, 2);
}
