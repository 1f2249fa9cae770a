//! Batches against a simulated server: each transaction gets the outcome it would have had alone, in order.

use proptest::prelude::*;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// A transaction of so many operations, each an object with its number; the server below reads `fail`.
fn composed(ops: &[serde_json::Value]) -> ComposedTransaction {
    let label = |op: &serde_json::Value| match op.get("lock").and_then(|lock| lock.as_str()) {
        Some(lock) => Label { kind: OpKind::Assert, target: lock.into(), row: None },
        None => Label { kind: OpKind::Comment, target: Str::default(), row: None },
    };
    let text: Vec<String> = ops.iter().map(ToString::to_string).collect();
    ComposedTransaction { text: text.join(","), labels: ops.iter().map(label).collect() }
}

/// Answers as ovsdb-server does: all or nothing, errors at the operation or behind the last.
#[derive(Default)]
struct Server {
    stored: Vec<u64>,
    batches: usize,
}

impl Server {
    fn execute(&mut self, batch: &str) -> serde_json::Value {
        self.batches += 1;
        let ops: Vec<serde_json::Value> = serde_json::from_str(batch).unwrap();
        let mut results = Vec::new();
        for op in &ops {
            match op.get("fail").and_then(|how| how.as_str()) {
                Some("now") => {
                    results.push(json!({"error": "constraint violation", "details": op["n"]. to_string()}));
                    results.resize(ops.len(), json!(null));
                    return results.into();
                }
                Some("lock") => {
                    results.push(json!({"error": "not owner", "details": ""}));
                    results.resize(ops.len(), json!(null));
                    return results.into();
                }
                _ => results.push(json!({"count": op["n"]})),
            }
        }
        if let Some(op) = ops.iter().find(|op| op.get("fail").is_some()) {
            results.push(json!({"error": "referential integrity violation", "details": op["n"].to_string()}));
            return results.into();
        }
        self.stored.extend(ops.iter().filter_map(|op| op["n"].as_u64()));
        results.into()
    }
}

fn run(group: &mut Group<usize>, server: &mut Server) -> Vec<Settled<usize>> {
    let mut settled = Vec::new();
    while let Some(batch) = group.next_batch() {
        assert!(group.next_batch().is_none(), "one batch at a time");
        let queued = group.waiting.iter().chain(group.parts.iter().flatten());
        assert_eq!(group.queued(), queued.map(|entry| entry.composed.text.len() + 1).sum::<usize>());
        let result = raw(&server.execute(&batch));
        settled.extend(group.answer(Answer::Result(&result)));
    }
    assert!(group.is_empty());
    assert_eq!(group.queued(), 0);
    settled
}

proptest! {
    #[test]
    fn each_gets_its_own_outcome_and_order_is_kept(
        txns in proptest::collection::vec(
            (1usize..4, prop_oneof![6 => Just(None), 1 => Just(Some("now")), 1 => Just(Some("end"))], 0usize..4),
            1..40,
        ),
        most in 1usize..30,
    ) {
        let mut group = Group::new(GroupLimits { ops: most, bytes: 1 << 20 });
        let mut number = 0u64;
        let (mut good, mut fates): (Vec<u64>, Vec<_>) = (Vec::new(), Vec::new());
        for (key, (count, fate, at)) in txns.iter().enumerate() {
            let ops: Vec<_> = (0..*count).map(|op| {
                number += 1;
                match fate {
                    Some(how) if op == at % count => json!({"op": "x", "n": number, "fail": how}),
                    _ => json!({"op": "x", "n": number}),
                }
            }).collect();
            let own: Vec<u64> = ops.iter().map(|op| op["n"].as_u64().unwrap()).collect();
            if fate.is_none() {
                good.extend(&own);
            }
            fates.push((own, fate, at % count));
            group.push(key, composed(&ops));
        }
        let mut server = Server::default();
        let settled = run(&mut group, &mut server);
        prop_assert_eq!(&server.stored, &good, "what is good is stored, in order, once");
        let order: Vec<_> = settled.iter().map(|(key, _)| *key).collect();
        prop_assert_eq!(order, (0..txns.len()).collect::<Vec<_>>(), "answers come in the order of the queue");
        for (key, outcome) in settled {
            let (own, fate, at) = &fates[key];
            match (fate, outcome) {
                (None, Ok(committed)) => {
                    let counts: Vec<_> = committed.results().iter().map(|result| match result {
                        OpResult::Counted(n) => *n,
                        other => panic!("{other}"),
                    }).collect();
                    prop_assert_eq!(&counts, own, "results are its own");
                }
                (Some(how), Err(CommitError::Refused { op, details, .. })) => {
                    prop_assert_eq!(details, own[*at].to_string(), "the failure is its own");
                    prop_assert_eq!(op.map(|(at, _)| at), (*how == "now").then_some(*at));
                }
                (fate, outcome) => prop_assert!(false, "{:?} became {:?}", fate, outcome),
            }
        }
    }
}

fn single(n: u64) -> ComposedTransaction {
    composed(&[json!({"op": "x", "n": n})])
}

#[test]
fn a_batch_is_cut_by_operations_and_bytes_but_never_empty() {
    let mut group = Group::new(GroupLimits { ops: 3, bytes: 1 << 20 });
    (0..7).for_each(|n| group.push(n, single(n as u64)));
    let mut server = Server::default();
    assert_eq!(run(&mut group, &mut server).len(), 7);
    assert_eq!(server.batches, 3);

    let mut group = Group::new(GroupLimits { ops: 1000, bytes: 5 });
    (0..3).for_each(|n| group.push(n, single(n as u64)));
    let mut server = Server::default();
    assert_eq!(run(&mut group, &mut server).len(), 3);
    assert_eq!(server.batches, 3);
}

#[test]
fn one_bad_among_a_thousand_costs_few_round_trips() {
    for (how, most) in [("now", 4), ("end", 22)] {
        let mut group = Group::new(GroupLimits::default());
        for n in 0..1000 {
            let op = if n == 617 { json!({"op":"x","n":n,"fail":how}) } else { json!({"op":"x","n":n}) };
            group.push(n, composed(&[op]));
        }
        let mut server = Server::default();
        let settled = run(&mut group, &mut server);
        assert_eq!(settled.iter().filter(|(_, outcome)| outcome.is_err()).count(), 1);
        assert!(server.batches <= most, "{how}: {} batches", server.batches);
    }
}

#[test]
fn a_lost_lock_fails_all_who_assert_it_at_once() {
    let mut group = Group::new(GroupLimits::default());
    for n in 0..100 {
        let lock =
            if n % 2 == 0 { json!({"op":"assert","lock":"a","fail":"lock"}) } else { json!({"op":"x"}) };
        group.push(n, composed(&[lock, json!({"op":"x","n":n})]));
    }
    let mut server = Server::default();
    let settled = run(&mut group, &mut server);
    let lost: Vec<_> = settled.iter().filter(|(_, outcome)| outcome.is_err()).collect();
    assert_eq!(lost.len(), 50);
    for (key, outcome) in lost {
        assert_eq!(key % 2, 0);
        assert_eq!(outcome.as_ref().unwrap_err(), &CommitError::NotOwner { lock: "a".into() });
    }
    assert_eq!((server.batches, server.stored.len()), (2, 50));
}

#[test]
fn a_lost_connection_leaves_the_sent_unknown_and_the_rest_unsent() {
    let mut group = Group::new(GroupLimits { ops: 2, bytes: 1 << 20 });
    (0..5).for_each(|n| group.push(n, single(n as u64)));
    group.next_batch().unwrap();
    let settled = group.answer(Answer::Lost);
    assert!(matches!(
        settled[..],
        [(0, Err(CommitError::Unknown { .. })), (1, Err(CommitError::Unknown { .. }))]
    ));
    group.next_batch().unwrap();
    let settled = group.answer(Answer::NotSent);
    assert!(matches!(
        settled[..],
        [(2, Err(CommitError::NotConnected)), (3, Err(CommitError::NotConnected))]
    ));
    let settled = group.abandon(|| CommitError::NotConnected);
    assert!(matches!(settled[..], [(4, Err(CommitError::NotConnected))]));
    assert!(group.is_empty());
    assert!(group.answer(Answer::Lost).is_empty(), "an answer to nothing settles nothing");
}

#[test]
fn what_is_to_go_still_is_counted() {
    let size = single(1).text.len() + 1;
    let mut group = Group::new(GroupLimits { ops: 2, bytes: 1 << 20 });
    (0..5).for_each(|n| group.push(n, single(1)));
    assert_eq!(group.queued(), 5 * size);
    group.next_batch().unwrap();
    assert_eq!(group.queued(), 3 * size, "what is on its way is not queued");
    let refused = raw(&json!([{"count": 1}, {"count": 1}, {"error": "constraint violation", "details": ""}]));
    assert!(group.answer(Answer::Result(&refused)).is_empty());
    assert_eq!(group.queued(), 5 * size, "parts are to go again");
    group.next_batch().unwrap();
    assert_eq!(group.queued(), 4 * size);
    assert_eq!(group.abandon(|| CommitError::NotConnected).len(), 4);
    assert_eq!(group.queued(), 0);
}

#[test]
fn what_says_nothing_about_one_is_told_to_all() {
    let whole = raw(&json!({"error": "unknown database", "details": "x"}));
    let cluster = raw(&json!([{"count": 1}, {"count": 1}, {"error": "cluster error", "details": "x"}]));
    let nonsense = raw(&json!([{"count": 1}]));
    for (answer, unknown) in
        [(Answer::Error(&whole), false), (Answer::Result(&cluster), false), (Answer::Result(&nonsense), true)]
    {
        let mut group = Group::new(GroupLimits::default());
        (0..2).for_each(|n| group.push(n, single(n as u64)));
        group.next_batch().unwrap();
        let settled = group.answer(answer);
        assert_eq!(settled.len(), 2);
        for (_, outcome) in settled {
            assert_eq!(matches!(outcome, Err(CommitError::Unknown { .. })), unknown);
        }
        assert!(group.is_empty());
    }
}
