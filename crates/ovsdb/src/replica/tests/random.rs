//! The replica's invariants under random changes, sent in every form.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::server::{Plain, Step, Table as ServerTable, steps, update};
use super::*;

type Cages = BTreeMap<uuid::Uuid, Cage>;

/// The expected view of typed readers.
fn expected(table: &ServerTable) -> Cages {
    table.iter().filter_map(|(id, row)| Some((uuid((*id).into()), row.cage()?))).collect()
}

fn seen(snapshot: &Snapshot) -> Cages {
    snapshot.table::<Cage>().iter().map(|(row, cage)| (row.uuid(), cage.clone())).collect()
}

/// Asserts that every index agrees with a scan of all rows.
fn check_indexes(snapshot: &Snapshot) {
    fn check<I: Index<Row = Cage>>(snapshot: &Snapshot)
    where
        I::Key: std::fmt::Debug,
    {
        let mut scan = BTreeSet::new();
        for (row, cage) in snapshot.table::<Cage>().iter() {
            I::keys(cage, &mut |key| {
                scan.insert((key, row));
            });
        }
        let ranged: Vec<_> = snapshot.range::<I>(..).map(|(key, row, _)| (key.clone(), row)).collect();
        assert!(ranged.iter().eq(&scan), "{ranged:?} is not {scan:?}");
        for (key, _) in &scan {
            let found: Vec<_> = snapshot.lookup::<I>(key).map(|(row, _)| row).collect();
            let all: Vec<_> = scan.iter().filter(|(k, _)| k == key).map(|(_, row)| *row).collect();
            assert_eq!(found, all);
            assert_eq!(snapshot.unique::<I>(key).map(|(row, _)| row), all.first().copied());
            let from: Vec<_> =
                snapshot.range::<I>(key.clone()..).map(|(k, row, _)| (k.clone(), row)).collect();
            assert!(from.iter().eq(scan.iter().filter(|(k, _)| k >= key)));
        }
    }
    check::<ByName>(snapshot);
    check::<ByLabel>(snapshot);
    check::<Near>(snapshot);
}

/// A delta leads from one state to the other and has no change that is none.
fn check_delta(delta: &Delta, before: &Cages, after: &Cages) {
    let mut walked = before.clone();
    let mut last = None;
    for change in delta.table::<Cage>() {
        assert!(last < Some(change.uuid), "in order, each once");
        last = Some(change.uuid);
        assert_ne!(change.before, change.after);
        assert_eq!(walked.get(&change.uuid), change.before.as_deref());
        match &change.after {
            Some(row) => drop(walked.insert(change.uuid, (**row).clone())),
            None => drop(walked.remove(&change.uuid)),
        }
    }
    assert_eq!(&walked, after);
    assert_eq!(delta.is_empty(), before == after);
    assert_eq!(delta.touches::<Cage>(), before != after);
}

/// Rows that did not change are the same allocation.
fn check_shared(before: &Snapshot, after: &Snapshot) {
    for (row, new) in after.table::<Cage>().shared() {
        if let Some(old) = before.table::<Cage>().get(row) {
            assert_eq!(old == new, Arc::ptr_eq(old, new));
        }
    }
}

/// A reload from the middle of a message that is given up.
fn reload_owned(replica: &mut Replica, version: UpdateVersion, body: &str) -> Result<Delta, ApplyError> {
    let text = format!("[true,\"é\",{body}] and more");
    let at = text.find(body).unwrap();
    replica.reload_owned(version, text, at..at + body.len())
}

fn listed(delta: &Delta) -> Vec<Change<Cage>> {
    delta.table::<Cage>().cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_the_servers_table(steps in steps(), wrapped: bool) {
        let mut typed = Replica::new(model());
        let mut dynamic = Replica::new(Model::new("Zoo").dynamic("Cage", Columns::All));
        let (mut server, mut bound) = (ServerTable::new(), 99);
        // The client's content in the model of the server.
        let mut sent = ServerTable::new();
        let mut history = Vec::new();
        for replica in [&mut typed, &mut dynamic] {
            replica.fit(&schema()).unwrap();
            replica.reload(UpdateVersion::V2, "{}").unwrap();
        }
        for step in steps {
            let visible = |server: &ServerTable| -> ServerTable {
                server.iter().filter(|(_, row)| row.number < bound).map(|(id, row)| (*id, row.clone())).collect()
            };
            let before = typed.snapshot();
            let delta = match step {
                Step::Commit(edits) => {
                    for (id, row) in edits {
                        match row {
                            Some(row) => drop(server.insert(id, row)),
                            None => drop(server.remove(&id)),
                        }
                    }
                    continue;
                }
                Step::Condition(new) => {
                    bound = new;
                    continue;
                }
                Step::Refit => {
                    typed.fit(&schema()).unwrap();
                    dynamic.fit(&schema()).unwrap();
                    continue;
                }
                Step::Send(version) => {
                    let now = visible(&server);
                    let body = update(version, &sent, &now, wrapped, false);
                    sent = now;
                    dynamic.apply(version, &body).unwrap();
                    typed.apply(version, &body).unwrap()
                }
                Step::Reload(version) => {
                    sent = visible(&server);
                    let body = update(version, &ServerTable::new(), &sent, wrapped, true);
                    dynamic.reload(version, &body).unwrap();
                    reload_owned(&mut typed, version, &body).unwrap()
                }
            };
            let after = typed.snapshot();
            let want = expected(&sent);
            prop_assert_eq!(seen(&after), want.clone());
            let unreadable: BTreeSet<_> = after.unreadable().map(|row| row.uuid).collect();
            let refused = sent.iter().filter(|(_, row)| row.cage().is_none());
            prop_assert_eq!(unreadable, refused.map(|(id, _)| uuid((*id).into())).collect());
            check_indexes(&after);
            check_delta(&delta, &seen(&before), &want);
            check_shared(&before, &after);
            prop_assert_eq!(listed(&before.diff(&after)), listed(&delta));
            check_dynamic(&dynamic.snapshot(), &sent);
            history.push((after, want, delta));
        }
        // Earlier snapshots are unchanged, and any two of them differ by the deltas between them.
        for (at, (snapshot, want, _)) in history.iter().enumerate() {
            prop_assert_eq!(&seen(snapshot), want);
            check_indexes(snapshot);
            let mut merged: Option<Delta> = None;
            for (newer, _, delta) in &history[at + 1..] {
                merged = Some(match merged {
                    None => delta.clone(),
                    Some(mut merged) => {
                        merged.merge(delta);
                        merged
                    }
                });
                let merged = merged.as_ref().unwrap();
                prop_assert_eq!(listed(&snapshot.diff(newer)), listed(merged));
                prop_assert_eq!(merged.seq(), newer.seq());
            }
        }
    }
}

fn check_dynamic(snapshot: &Snapshot, sent: &ServerTable) {
    let rows = snapshot.dynamic("Cage").unwrap();
    assert_eq!(rows.len(), sent.len());
    for (id, plain) in sent {
        let row = rows.get(uuid((*id).into())).unwrap();
        for (column, value) in plain.columns(false) {
            let datum: crate::wire::datum::Datum = serde_json::from_value(value).unwrap();
            assert_eq!(row.get(&column), Some(&datum), "{column}");
        }
    }
    assert_eq!(Plain::default().columns(false).len(), 6);
}

/// JSON that partly looks like an update.
fn almost_an_update() -> impl Strategy<Value = String> {
    let word = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned);
    let atom = word(&[
        "null",
        "true",
        "7",
        "8",
        "-1",
        "1e99",
        "99999999999999999999",
        "1.5",
        "\"\"",
        "\"x\"",
        "\"\\ud800\"",
        "[\"uuid\",\"x\"]",
        "[\"uuid\",\"00000000-0000-0000-0000-000000000001\"]",
        "[\"named-uuid\",\"x\"]",
        "[]",
        "{}",
    ]);
    let value = atom.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            (word(&["set", "map", "uuid", "bag"]), prop::collection::vec(inner.clone(), 0..4))
                .prop_map(|(tag, items)| format!("[\"{tag}\",[{}]]", items.join(","))),
            prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    });
    let object = |keys: BoxedStrategy<String>, values: BoxedStrategy<String>| {
        prop::collection::vec((keys, values), 0..4).prop_map(|members| {
            let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        })
    };
    let or_any = |strategy: BoxedStrategy<String>, value: &BoxedStrategy<String>| {
        prop_oneof![8 => strategy, 1 => value.clone()].boxed()
    };
    let value = value.boxed();
    let columns = object(
        word(&["name", "type", "number", "pairs", "near", "labels", "n\\u0061me", "area", "?"]).boxed(),
        value.clone(),
    );
    let row = object(
        word(&["initial", "insert", "modify", "delete", "old", "new", "?"]).boxed(),
        or_any(columns.boxed(), &value),
    );
    let rows = object(
        prop_oneof![9 => (0u128..4).prop_map(|n| uuid(n).to_string()), 1 => Just("?".to_owned())].boxed(),
        or_any(row.boxed(), &value),
    );
    object(word(&["Cage", "Note", "?"]).boxed(), or_any(rows.boxed(), &value))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_sent_makes_it_panic_or_half_done(
        bodies in prop::collection::vec((almost_an_update(), any::<bool>(), any::<bool>()), 1..6)
    ) {
        let start = body("Cage", &[(1, r#"{"initial":{"name":"a"}}"#), (2, r#"{"initial":{"pairs":3}}"#)]);
        let mut replica = loaded(&start);
        for (text, first, reload) in bodies {
            let (before, refused) = (replica.snapshot(), |s: &Snapshot| s.unreadable().count());
            let version = if first { UpdateVersion::V1 } else { UpdateVersion::V2 };
            let result = match reload {
                true => reload_owned(&mut replica, version, &text),
                false => replica.apply(version, &text),
            };
            let after = replica.snapshot();
            match result {
                Err(error) => {
                    prop_assert!(!error.to_string().is_empty());
                    prop_assert_eq!((seen(&before), refused(&before)), (seen(&after), refused(&after)));
                    prop_assert_eq!(before.seq(), after.seq());
                }
                Ok(delta) => check_delta_of(&delta, &before, &after),
            }
            check_indexes(&after);
        }
    }
}

fn check_delta_of(delta: &Delta, before: &Snapshot, after: &Snapshot) {
    assert_eq!(listed(&before.diff(after)), listed(delta));
    let notes = |delta: &Delta| delta.dynamic("Note").cloned().collect::<Vec<_>>();
    assert_eq!(notes(&before.diff(after)), notes(delta));
    let readable = |uuid: &uuid::Uuid| after.table::<Cage>().contains(*uuid);
    assert!(!after.unreadable().any(|row| readable(&row.uuid)));
}
