//! The traits and enums of stored nouns, generated from the [`registry`](crate::registry): the key of each noun, and the record of a change
//! of any of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Record, Table, World};

/// A noun of the [`model`](crate::model), as stored in the world.
pub trait Entity:
    Record + Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The type of its key.
    type Key: EntityKey;
    /// The noun.
    const KIND: Kind;

    /// Its key.
    fn key(&self) -> Self::Key;
    #[doc(hidden)]
    fn table(tables: &Tables) -> &Table<Self>;
    #[doc(hidden)]
    fn table_mut(tables: &mut Tables) -> &mut Table<Self>;
    #[doc(hidden)]
    fn row(entity: Arc<Self>) -> Row;
}

/// The key of an entity: a UUID, or a string for nouns without UUIDs.
pub trait EntityKey: Ord + Clone + fmt::Debug + fmt::Display + FromStr + Send + Sync {
    /// The id, for nouns that have ids.
    fn id(&self) -> Option<Uuid>;
}

impl EntityKey for Uuid {
    fn id(&self) -> Option<Uuid> {
        Some(*self)
    }
}

impl EntityKey for String {
    fn id(&self) -> Option<Uuid> {
        None
    }
}

/// One change of one entity.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The entity is new or changed; this is its present state.
    Put(Row),
    /// The entity no longer exists.
    Remove(Kind, String),
}

impl Change {
    /// The noun of the entity.
    pub fn kind(&self) -> Kind {
        match self {
            Change::Put(row) => row.kind(),
            Change::Remove(kind, _) => *kind,
        }
    }
}

/// A stored row that does not decode.
#[derive(Debug, thiserror::Error)]
#[error("read a stored {kind}")]
pub struct RowError {
    kind: Kind,
    source: serde_json::Error,
}

macro_rules! entities {
    ($($noun:ident {
        table: $table:ident, key: $key:ty = $field:ident, since: $since:literal
        $(, columns: $columns:literal)? $(, unit: $unit:path)? $(, touches: $touches:ident)?
    })*) => {
        /// A noun. The name is that of its SQL table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("See [`", stringify!($noun), "`](crate::model::", stringify!($noun), ").")] $noun,)*
        }

        impl Kind {
            /// All nouns; each one after those that it refers to.
            pub const ALL: &[Kind] = &[$(Kind::$noun,)*];

            /// The name of its SQL table.
            pub fn table(self) -> &'static str {
                match self { $(Kind::$noun => stringify!($table),)* }
            }

            /// The schema step that creates its SQL table, counted from 1.
            pub(crate) fn since(self) -> usize {
                match self { $(Kind::$noun => $since,)* }
            }

            /// The definitions of its SQL columns besides `id` and `body`, if the registration generates the step.
            pub(crate) fn column_definitions(self) -> &'static [&'static str] {
                match self { $(Kind::$noun => &[$($columns)?],)* }
            }

            /// Decodes an entity from the output of [`Row::to_json`].
            pub fn read(self, json: &str) -> Result<Row, RowError> {
                match self {
                    $(Kind::$noun => serde_json::from_str::<crate::model::$noun>(json)
                        .map(|entity| Row::$noun(Arc::new(entity)))
                        .map_err(|source| RowError { kind: self, source }),)*
                }
            }

            pub(super) fn remove_from(self, key: &str, world: &mut World) {
                match self {
                    $(Kind::$noun => drop(parsed::<$key>(key).and_then(|key| world.delete::<crate::model::$noun>(&key))),)*
                }
            }
        }

        /// An entity of any noun.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Row {
            $(#[doc = concat!("See [`", stringify!($noun), "`](crate::model::", stringify!($noun), ").")]
            $noun(Arc<crate::model::$noun>),)*
        }

        impl Row {
            /// The noun of the entity.
            pub fn kind(&self) -> Kind {
                match self { $(Row::$noun(_) => Kind::$noun,)* }
            }

            /// Its key as a string.
            pub fn key(&self) -> String {
                match self { $(Row::$noun(entity) => entity.key().to_string(),)* }
            }

            /// Its SQL columns besides `id` and `body`.
            pub(crate) fn columns(&self) -> Vec<(&'static str, crate::store::SqlValue)> {
                match self { $(Row::$noun(entity) => entity.columns(),)* }
            }

            /// The whole entity as JSON.
            pub fn to_json(&self) -> String {
                let json = match self { $(Row::$noun(entity) => serde_json::to_string(&**entity),)* };
                json.unwrap_or_else(|error| unreachable!("entities are plain data: {error}"))
            }

            pub(super) fn put_into(self, world: &mut World) {
                match self { $(Row::$noun(entity) => drop(world.insert(entity)),)* }
            }
        }

        #[doc(hidden)]
        #[derive(Clone, Debug, Default)]
        pub struct Tables {
            $($table: Table<crate::model::$noun>,)*
        }

        impl Tables {
            pub(super) fn is_empty(&self) -> bool {
                $(self.$table.is_empty())&&*
            }
        }

        $(impl Entity for crate::model::$noun {
            type Key = $key;
            const KIND: Kind = Kind::$noun;
            fn key(&self) -> $key {
                Clone::clone(&self.$field)
            }
            fn table(tables: &Tables) -> &Table<Self> {
                &tables.$table
            }
            fn table_mut(tables: &mut Tables) -> &mut Table<Self> {
                &mut tables.$table
            }
            fn row(entity: Arc<Self>) -> Row {
                Row::$noun(entity)
            }
        })*
    };
}

crate::registry::with_nouns!(entities);

fn parsed<K: FromStr>(key: &str) -> Option<K> {
    key.parse().ok()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table())
    }
}
