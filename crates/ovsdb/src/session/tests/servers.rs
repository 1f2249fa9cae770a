//! Clusters, relays, stale followers, restored databases.

use std::time::Duration;

use serde_json::json;

use super::rig::*;
use crate::session::*;

const S: Duration = Duration::from_secs(1);

#[test]
fn a_leader_that_loses_leadership_is_left_and_the_replica_resumes_elsewhere() {
    let mut rig = Rig::clustered(3, |_| {}, &[(1, "a")]);
    rig.update3(101, inserted(2, "b"));
    rig.server_update(json!({"index": 11}));
    rig.pass(4 * S);
    rig.forget();
    rig.server_update(json!({"leader": false}));
    assert_eq!(rig.take_actions(), ["close not_leader", "dial tcp:h:2"]);
    assert_eq!(rig.events(), ["down not_leader now"]);
    assert_eq!(rig.names(), ["a", "b"]);
    let params = rig.sync(member(true, 12), true, 102, inserted(3, "c"));
    assert_eq!(params[3], uuid(101).as_str());
    assert_eq!(rig.events(), ["connected tcp:h:2", "fit degraded", "changed +c", "synced Resumed"]);
    assert_eq!(rig.names(), ["a", "b", "c"]);
    assert_eq!(rig.session.status().counters.resumes, 1);
}

#[test]
fn followers_are_passed_over_until_there_is_a_leader() {
    let mut rig = Rig::with(3, |_| {});
    for port in 1..=3 {
        rig.open();
        rig.greet(member(false, 5));
        let last = if port == 3 { "down not_leader later" } else { "down not_leader now" };
        assert_eq!(rig.events(), [format!("connected tcp:h:{port}"), last.to_owned()]);
    }
    rig.wait();
    rig.sync(member(true, 6), false, 100, json!({}));
    assert!(rig.session.is_synced());
}

#[test]
fn a_follower_serves_who_does_not_want_the_leader() {
    let mut rig = Rig::with(3, |config| config.leader_only = false);
    rig.sync(member(false, 5), false, 100, content(&[(1, "a")]));
    assert!(rig.session.is_synced());
    rig.forget();
    rig.server_update(json!({"leader": true}));
    rig.server_update(json!({"leader": false}));
    assert!(rig.session.is_synced());
    // Cut off from the others, its data grows old.
    rig.server_update(json!({"connected": false}));
    assert_eq!(rig.take_actions(), ["close cut_off", "dial tcp:h:2"]);
}

#[test]
fn a_member_that_has_not_joined_or_is_cut_off_is_passed_over() {
    for (columns, label) in [
        (json!({"model": "clustered", "schema": ["set", []]}), "close not_ready"),
        (json!({"model": "clustered", "connected": false}), "close cut_off"),
        (json!({"model": "relay", "schema": ["set", []]}), "close not_ready"),
    ] {
        let mut rig = Rig::with(2, |_| {});
        rig.open();
        rig.greet(row(columns));
        let actions = rig.take_actions();
        assert_eq!(actions[actions.len() - 2..], [label, "dial tcp:h:2"]);
    }
}

#[test]
fn a_stale_follower_is_refused() {
    let mut rig = Rig::clustered(2, |config| config.leader_only = false, &[(1, "a")]);
    rig.server_update(json!({"index": 20}));
    rig.forget();
    rig.eof();
    assert_eq!(rig.take_actions(), ["dial tcp:h:2"]);
    rig.open();
    rig.greet(member(false, 19));
    assert!(rig.take_actions().contains(&"close stale".to_owned()));
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains("19") && said.contains("20"), "{said}");
    rig.wait();
    rig.sync(member(false, 20), true, 105, json!({}));
    assert!(rig.session.is_synced());
    assert_eq!(rig.session.status().min_index, 20);
}

#[test]
fn when_all_are_stale_for_long_their_data_is_taken_as_what_there_is() {
    let mut rig = Rig::clustered(2, |config| config.backoff_max = S, &[(1, "a"), (2, "b")]);
    rig.forget();
    rig.eof();
    let begin = rig.now;
    let mut params = None;
    while params.is_none() {
        assert!(rig.now < begin + 70 * S);
        if rig.session.status().progress == Progress::Waiting {
            rig.wait();
        }
        rig.open();
        rig.greet(member(true, 3));
        if rig.session.status().progress == Progress::Loading {
            params = Some(rig.answer("monitor_cond_since", json!([false, uuid(7), content(&[(1, "a")])])));
        }
    }
    assert!(rig.now >= begin + 60 * S, "{:?}", rig.now - begin);
    assert_eq!(params.unwrap()[3], NIL, "nothing is resumed in another history");
    let events = rig.events();
    assert_eq!(events[events.len() - 2..], ["changed -b", "synced Reloaded"]);
    assert_eq!(rig.session.status().min_index, 3);
}

#[test]
fn stale_data_is_never_taken_where_the_limit_is_off() {
    let mut rig = Rig::clustered(1, |config| config.stale_limit = None, &[]);
    rig.eof();
    for _ in 0..100 {
        if rig.session.status().progress == Progress::Waiting {
            rig.wait();
        }
        rig.open();
        rig.greet(member(true, 3));
        assert_eq!(rig.session.status().last_close.unwrap().label(), "stale");
    }
}

#[test]
fn the_time_in_which_no_server_is_reached_says_nothing_about_stale_ones() {
    let mut rig = Rig::clustered(2, |config| config.backoff_max = S, &[(1, "a")]);
    rig.eof();
    rig.open();
    rig.greet(member(true, 3));
    assert_eq!(rig.session.status().last_close.unwrap().label(), "stale");
    let begin = rig.now;
    while rig.now < begin + 70 * S {
        rig.wait();
        rig.closed(CloseReason::Dial("nobody there".into()));
    }
    if rig.session.status().progress == Progress::Waiting {
        rig.wait();
    }
    rig.open();
    rig.greet(member(true, 3));
    assert_eq!(rig.session.status().last_close.unwrap().label(), "stale");
    assert_eq!(rig.session.status().min_index, 10);
}

#[test]
fn a_restored_cluster_is_taken_though_not_every_member_is_there_and_only_one_leads() {
    let mut rig = Rig::clustered(3, |config| config.backoff_max = S, &[(1, "a")]);
    rig.eof();
    let begin = rig.now;
    while rig.session.status().progress != Progress::Loading {
        assert!(rig.now < begin + 70 * S);
        match rig.session.status().progress {
            Progress::Waiting => rig.wait(),
            _ => match rig.session.status().remote.unwrap().to_string().as_str() {
                "tcp:h:1" => rig.closed(CloseReason::Dial("nobody there".into())),
                at => {
                    rig.open();
                    rig.greet(member(at == "tcp:h:2", 3));
                }
            },
        }
    }
    assert!(rig.now >= begin + 60 * S, "{:?}", rig.now - begin);
}

#[test]
fn a_cluster_made_anew_is_taken_at_once() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    rig.eof();
    rig.wait();
    let other = row(json!({"model": "clustered", "index": 1, "cid": ["uuid", uuid(77)]}));
    let params = rig.sync(other, false, 100, content(&[(2, "b")]));
    assert_eq!(params[3], NIL);
    assert_eq!(rig.names(), ["b"]);
    assert_eq!(rig.session.status().min_index, 1);
}

#[test]
fn a_cluster_that_became_a_standalone_server_is_taken_at_once() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    rig.eof();
    rig.wait();
    let params = rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
    assert_eq!(params[3], NIL);
    assert!(rig.session.is_synced());
}

#[test]
fn another_cluster_than_the_configured_one_is_refused() {
    let mut rig = Rig::with(2, |config| config.cluster_id = Some(uuid::Uuid::from_u128(5)));
    rig.open();
    rig.greet(member(true, 3));
    assert!(rig.take_actions().contains(&"close wrong_cluster".to_owned()));
    let said = rig.session.status().last_close.unwrap().to_string();
    assert!(said.contains(CLUSTER) && said.contains(&uuid(5)), "{said}");
}

#[test]
fn another_cluster_may_be_configured_later() {
    let mut rig = Rig::clustered(1, |_| {}, &[(1, "a")]);
    rig.session.set_remotes(rig.now, format!("tcp:h:1,tcp:h:2,cid:{CLUSTER}").parse().unwrap());
    assert_eq!(rig.take_actions(), ["close remotes_changed", "dial tcp:h:1"]);
    rig.sync(member(true, 11), true, 101, json!({}));
    rig.session.set_remotes(rig.now, format!("tcp:h:1,cid:{CLUSTER}").parse().unwrap());
    assert!(rig.session.is_synced(), "the same cluster, and the remote is still among them");
    rig.session.set_remotes(rig.now, format!("tcp:h:1,cid:{}", uuid(5)).parse().unwrap());
    rig.forget();
    rig.open();
    rig.greet(member(true, 12));
    assert!(rig.take_actions().contains(&"close wrong_cluster".to_owned()));
}

#[test]
fn a_relay_serves_though_it_is_never_the_leader() {
    let relay = |connected| row(json!({"model": "relay", "leader": false, "connected": connected}));
    let mut rig = Rig::with(1, |_| {});
    rig.sync(relay(true), false, 100, content(&[(1, "a")]));
    assert_eq!(rig.session.status().server.unwrap().model, StorageModel::Relay);
    // Its source is away: with nowhere else to go its data is better than none.
    rig.server_update(json!({"connected": false}));
    assert!(rig.session.is_synced());
    assert!(!rig.session.status().server.unwrap().connected);
    let mut rig = Rig::with(2, |_| {});
    rig.open();
    rig.greet(relay(false));
    assert!(rig.take_actions().contains(&"close cut_off".to_owned()));
}

#[test]
fn a_database_that_is_removed_ends_the_connection_and_comes_back() {
    let mut rig = Rig::synced(&[(1, "a")]);
    let name = rig.server_monitor();
    rig.notify("update2", json!([name, {"Database": {uuid(1): {"delete": null}}}]));
    assert_eq!(rig.take_actions(), ["close no_database"]);
    assert_eq!(rig.names(), ["a"]);
    rig.wait();
    rig.sync(row(json!({})), false, 0, content(&[(1, "a")]));
    let events = rig.events();
    assert_eq!(events.last().unwrap(), "synced Reloaded");
    assert!(!events.iter().any(|event| event.starts_with("changed")), "{events:?}");
}

#[test]
fn a_malformed_row_of_the_server_closes() {
    let mut rig = Rig::synced(&[]);
    let name = rig.server_monitor();
    rig.notify("update2", json!([name, {"Database": {uuid(1): {"explode": {}}}}]));
    assert_eq!(rig.take_actions(), ["close protocol"]);
}

#[test]
fn an_index_for_each_transaction_is_taken_in_without_a_fuss() {
    let mut rig = Rig::clustered(1, |_| {}, &[]);
    for index in 11..200 {
        rig.server_update(json!({"index": index, "_version": ["uuid", NIL]}));
    }
    assert!(rig.events().is_empty() && rig.take_actions().is_empty());
    assert_eq!(rig.session.status().min_index, 199);
}
