//! The order of a list: sort keys of the request, then the id.

use std::cmp::Ordering;

use serde_json::Value;

use super::query::{Direction, Query};
use crate::Caller;
use crate::dialect::Refusal;
use crate::resource::{Attribute, Selection, View};

/// The sort order of a list.
#[derive(Debug)]
pub(super) struct Order {
    keys: Vec<(String, Direction)>,
    /// Whether the id is among the keys, and then gives its direction.
    by_id: bool,
    id: Direction,
    /// The attributes that sorting needs.
    needed: Selection,
}

/// The sort value of an object for one key. `Nothing` is first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Nothing,
    Truth(bool),
    Number(i64),
    Text(String),
}

impl Order {
    pub(super) fn new(
        attributes: &'static [Attribute],
        caller: &Caller,
        query: &Query,
    ) -> Result<Self, Refusal> {
        let unknown: Vec<_> = query
            .sort
            .iter()
            .map(|(key, _)| key.clone())
            .filter(|key| !attributes.iter().any(|it| it.sort && it.name == key.as_str()))
            .collect();
        if !unknown.is_empty() {
            return Err(Refusal::UnknownSortKeys(unknown));
        }
        // Keys after the id have no effect.
        let end = query.sort.iter().position(|(key, _)| key == "id");
        let id = end.map_or(Direction::Ascending, |at| query.sort[at].1);
        let keys = query.sort[..end.unwrap_or(query.sort.len())].to_vec();
        let needed = Selection::only(attributes, caller, keys.iter().map(|(key, _)| key.as_str()));
        Ok(Order { by_id: keys.is_empty(), keys, id, needed })
    }

    pub(super) fn is_by_id(&self) -> bool {
        self.by_id
    }

    pub(super) fn is_descending(&self) -> bool {
        self.id == Direction::Descending
    }

    pub(super) fn rank(&self, write: impl FnOnce(&mut View<'_>)) -> Vec<Rank> {
        if self.by_id {
            return Vec::new();
        }
        let shown = View::values(&self.needed, write);
        self.keys.iter().map(|(key, _)| Rank::of(shown.get(key))).collect()
    }

    pub(super) fn compare(&self, a: &[Rank], b: &[Rank]) -> Ordering {
        let pairs = a.iter().zip(b).zip(&self.keys);
        pairs.fold(Ordering::Equal, |so_far, ((a, b), (_, direction))| {
            so_far.then_with(|| direction.apply(a.cmp(b)))
        })
    }

    pub(super) fn ids<K: Ord>(&self, a: &K, b: &K) -> Ordering {
        self.id.apply(a.cmp(b))
    }
}

impl Rank {
    fn of(value: Option<&Value>) -> Self {
        match value {
            Some(Value::Bool(value)) => Rank::Truth(*value),
            Some(Value::Number(number)) => {
                number.as_i64().map_or_else(|| Rank::Text(number.to_string()), Rank::Number)
            }
            // Without case, as people expect of names.
            Some(Value::String(text)) => Rank::Text(text.to_uppercase()),
            _ => Rank::Nothing,
        }
    }
}
