//! A reference model of a server: its rows before and after, and the format of its updates.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map as Object, Value, json};

use super::*;

/// A row as plain values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plain {
    pub(super) name: String,
    pub(super) kind: Option<String>,
    pub(super) number: i64,
    pub(super) pairs: BTreeSet<i64>,
    pub(super) near: BTreeSet<u8>,
    pub(super) labels: BTreeMap<String, String>,
}

pub(super) type Table = BTreeMap<u8, Plain>;

impl Plain {
    /// The row as its struct; `None` if the struct rejects it.
    pub(super) fn cage(&self) -> Option<Cage> {
        self.pairs.iter().all(|n| n % 2 == 0).then(|| Cage {
            name: self.name.as_str().into(),
            kind: self.kind.as_deref().map(Str::from),
            number: self.number,
            pairs: self.pairs.iter().copied().map(Even).collect(),
            near: self.near.iter().map(|n| Ref::new(uuid((*n).into()))).collect(),
            labels: self.labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect(),
            area: None,
        })
    }

    /// All columns as the server writes them. It usually sends a set of one element bare; with `wrapped`, as a set, which is also valid.
    pub(super) fn columns(&self, wrapped: bool) -> Object<String, Value> {
        let near = self.near.iter().map(reference).collect();
        let pairs = self.labels.iter().map(|(k, v)| json!([k, v])).collect::<Vec<_>>();
        [
            ("name", json!(self.name)),
            ("type", set(self.kind.iter().map(|k| json!(k)).collect(), wrapped)),
            ("number", json!(self.number)),
            ("pairs", set(self.pairs.iter().map(|n| json!(n)).collect(), wrapped)),
            ("near", set(near, wrapped)),
            ("labels", json!(["map", pairs])),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
    }

    /// The content of `modify`: differences of sets and maps, the new value of others.
    fn modified(&self, to: &Plain, wrapped: bool) -> Object<String, Value> {
        let mut columns = changed(&self.columns(wrapped), &to.columns(wrapped), |_, new| new);
        let mut differ = |name: &str, value: Value| {
            if let Some(column) = columns.get_mut(name) {
                *column = value;
            }
        };
        let pairs = self.pairs.symmetric_difference(&to.pairs).map(|n| json!(n)).collect();
        differ("pairs", set(pairs, wrapped));
        differ("near", set(self.near.symmetric_difference(&to.near).map(reference).collect(), wrapped));
        let gone = self.labels.iter().filter(|(k, _)| !to.labels.contains_key(*k));
        let put = to.labels.iter().filter(|(k, v)| self.labels.get(*k) != Some(v));
        differ("labels", json!(["map", gone.chain(put).map(|(k, v)| json!([k, v])).collect::<Vec<_>>()]));
        columns
    }
}

fn reference(n: &u8) -> Value {
    json!(["uuid", uuid((*n).into()).to_string()])
}

fn set(items: Vec<Value>, wrapped: bool) -> Value {
    match <[Value; 1]>::try_from(items) {
        Ok([item]) if !wrapped => item,
        Ok(item) => json!(["set", item]),
        Err(items) => json!(["set", items]),
    }
}

fn changed(
    old: &Object<String, Value>,
    new: &Object<String, Value>,
    side: impl Fn(Value, Value) -> Value,
) -> Object<String, Value> {
    let differs = old.iter().filter(|(name, value)| new[*name] != **value);
    differs.map(|(name, value)| (name.clone(), side(value.clone(), new[name].clone()))).collect()
}

/// The body of the update from one table to the other. With `initial`, the body of the reply to a monitor request.
pub(super) fn update(
    version: UpdateVersion,
    from: &Table,
    to: &Table,
    wrapped: bool,
    initial: bool,
) -> String {
    let mut rows = Object::new();
    for id in from.keys().chain(to.keys()).collect::<BTreeSet<_>>() {
        let said = match (version, from.get(id), to.get(id)) {
            (_, before, after) if before == after => continue,
            (UpdateVersion::V1, before, after) => {
                let old = before.map(|before| match after {
                    Some(after) => changed(&before.columns(wrapped), &after.columns(wrapped), |old, _| old),
                    None => before.columns(wrapped),
                });
                let new = after.map(|after| after.columns(wrapped));
                let sides = [("old", old), ("new", new)].into_iter();
                sides.filter_map(|(side, row)| Some((side.to_owned(), Value::Object(row?)))).collect()
            }
            (UpdateVersion::V2, None, Some(after)) => {
                let blank = Plain::default().columns(wrapped);
                let columns: Object<_, _> = after
                    .columns(wrapped)
                    .into_iter()
                    .filter(|(name, value)| blank[name] != *value)
                    .collect();
                json!({ if initial { "initial" } else { "insert" }: columns })
            }
            (UpdateVersion::V2, Some(before), Some(after)) => {
                json!({ "modify": before.modified(after, wrapped) })
            }
            (UpdateVersion::V2, _, None) => json!({ "delete": null }),
        };
        rows.insert(uuid((*id).into()).to_string(), said);
    }
    if rows.is_empty() { json!({}) } else { json!({ "Cage": rows }) }.to_string()
}

pub(super) fn plain() -> impl Strategy<Value = Plain> {
    let word = || prop::sample::select(vec!["", "a", "b", "a name that is longer than 23 bytes"]);
    let label = || (prop::sample::select(vec!["x", "y", "z", "a key that is longer than 23 bytes"]), word());
    (
        word(),
        prop::option::of(word()),
        0i64..6,
        prop::collection::btree_set(prop_oneof![9 => (0i64..4).prop_map(|n| 2 * n), 1 => Just(7)], 0..4),
        prop::collection::btree_set(0u8..8, 0..3),
        prop::collection::vec(label(), 0..4),
    )
        .prop_map(|(name, kind, number, pairs, near, labels)| Plain {
            name: name.into(),
            kind: kind.map(Into::into),
            number,
            pairs,
            near,
            labels: labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
        })
}

/// An event of a server and its client.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A transaction: rows put or taken out.
    Commit(Vec<(u8, Option<Plain>)>),
    /// The client's condition becomes `number < bound`.
    Condition(i64),
    /// The server sends its pending changes.
    Send(UpdateVersion),
    /// The connection was lost and everything is sent anew.
    Reload(UpdateVersion),
    /// The schema is compared again, as after a reconnect.
    Refit,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let version = || prop::sample::select(vec![UpdateVersion::V1, UpdateVersion::V2]);
    let commit = prop::collection::vec((0u8..8, prop::option::weighted(0.8, plain())), 1..4);
    prop::collection::vec(
        prop_oneof![
            6 => commit.prop_map(Step::Commit),
            1 => (0i64..8).prop_map(Step::Condition),
            5 => version().prop_map(Step::Send),
            2 => version().prop_map(Step::Reload),
            1 => Just(Step::Refit),
        ],
        1..40,
    )
}
