//! The nouns: which there are, how each is keyed, and how a change of any of them is written down.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{
    AddressScope, Adopted, AgentSetting, FloatingIp, Link, Network, Placement, Port, QuotaSet, RbacPolicy,
    Router, SecurityGroup, SecurityGroupRule, Subnet, SubnetPool, Table, World,
};

/// A noun of the [`model`](crate::model) as the world keeps it.
pub trait Entity:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// What tells two of them apart.
    type Key: Ord + Clone + fmt::Debug + fmt::Display + FromStr + Send + Sync;
    /// Which noun it is.
    const KIND: Kind;

    /// Its key.
    fn key(&self) -> Self::Key;
    /// Where it can be found from.
    fn links(&self, note: &mut dyn FnMut(Link, Uuid));
    /// The addresses it takes: subnet, address, port.
    fn addresses(&self, _note: &mut dyn FnMut(Uuid, IpAddr, Uuid)) {}
    /// The gateway load it is: physical network, chassis, rank from 0 for the highest priority.
    fn loads(&self, _note: &mut dyn FnMut(&str, &str, u8)) {}
    /// The project whose quota it counts in.
    fn counted_in(&self) -> Option<&str>;

    #[doc(hidden)]
    fn table(tables: &Tables) -> &Table<Self>;
    #[doc(hidden)]
    fn table_mut(tables: &mut Tables) -> &mut Table<Self>;
    #[doc(hidden)]
    fn row(entity: Arc<Self>) -> Row;
}

/// One change of one entity.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is new, or as this now.
    Put(Row),
    /// It is gone.
    Remove(Kind, String),
}

impl Change {
    /// Which noun is concerned.
    pub fn kind(&self) -> Kind {
        match self {
            Change::Put(row) => row.kind(),
            Change::Remove(kind, _) => *kind,
        }
    }
}

/// A row that cannot be read back.
#[derive(Debug, thiserror::Error)]
#[error("read a stored {kind}")]
pub struct RowError {
    kind: Kind,
    source: serde_json::Error,
}

macro_rules! entities {
    ($($noun:ident, $table:ident, $key:ty, |$e:ident| $of:expr;)*) => {
        /// Which noun. The name is that of its SQL table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = concat!("See [`", stringify!($noun), "`](crate::model::", stringify!($noun), ").")] $noun,)*
        }

        impl Kind {
            /// Every noun, in an order in which none comes before what it refers to.
            pub const ALL: &[Kind] = &[$(Kind::$noun,)*];

            /// The name of its SQL table.
            pub fn table(self) -> &'static str {
                match self { $(Kind::$noun => stringify!($table),)* }
            }

            /// Reads an entity back from what [`Row::to_json`] gave.
            pub fn read(self, json: &str) -> Result<Row, RowError> {
                match self {
                    $(Kind::$noun => serde_json::from_str::<$noun>(json)
                        .map(|entity| Row::$noun(Arc::new(entity)))
                        .map_err(|source| RowError { kind: self, source }),)*
                }
            }

            pub(super) fn remove_from(self, key: &str, world: &mut World) {
                match self {
                    $(Kind::$noun => drop(parsed::<$key>(key).and_then(|key| world.delete::<$noun>(&key))),)*
                }
            }
        }

        /// An entity of any noun.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Row {
            $(#[doc = concat!("See [`", stringify!($noun), "`](crate::model::", stringify!($noun), ").")]
            $noun(Arc<$noun>),)*
        }

        impl Row {
            /// Which noun it is.
            pub fn kind(&self) -> Kind {
                match self { $(Row::$noun(_) => Kind::$noun,)* }
            }

            /// Its key, as text.
            pub fn key(&self) -> String {
                match self { $(Row::$noun(entity) => entity.key().to_string(),)* }
            }

            /// The whole of it.
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
            $($table: Table<$noun>,)*
        }

        impl Tables {
            pub(super) fn is_empty(&self) -> bool {
                $(self.$table.is_empty())&&*
            }
        }

        $(impl Entity for $noun {
            type Key = $key;
            const KIND: Kind = Kind::$noun;
            fn key(&self) -> $key {
                let $e = self;
                $of
            }
            fn links(&self, note: &mut dyn FnMut(Link, Uuid)) {
                self.note_links(note);
            }
            fn addresses(&self, note: &mut dyn FnMut(Uuid, IpAddr, Uuid)) {
                self.note_addresses(note);
            }
            fn loads(&self, note: &mut dyn FnMut(&str, &str, u8)) {
                self.note_loads(note);
            }
            fn counted_in(&self) -> Option<&str> {
                self.quota_project()
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

entities! {
    AddressScope, address_scopes, Uuid, |e| e.id;
    SubnetPool, subnetpools, Uuid, |e| e.id;
    Network, networks, Uuid, |e| e.id;
    Subnet, subnets, Uuid, |e| e.id;
    SecurityGroup, security_groups, Uuid, |e| e.id;
    SecurityGroupRule, security_group_rules, Uuid, |e| e.id;
    Port, ports, Uuid, |e| e.id;
    Router, routers, Uuid, |e| e.id;
    FloatingIp, floatingips, Uuid, |e| e.id;
    RbacPolicy, rbac_policies, Uuid, |e| e.id;
    Placement, placements, Uuid, |e| e.port_id;
    QuotaSet, quotas, String, |e| e.project.clone();
    AgentSetting, agent_settings, String, |e| e.agent.clone();
    Adopted, adopted_rows, Uuid, |e| e.ours;
}

fn parsed<K: FromStr>(key: &str) -> Option<K> {
    key.parse().ok()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table())
    }
}
