//! References between rows, typed by the table that they lead to.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use uuid::Uuid;

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T>(Uuid, PhantomData<fn() -> T>);

        impl<T> $name<T> {
            /// A reference to the row with this UUID, which need not exist.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid, PhantomData)
            }

            /// The row's UUID.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self::new(Uuid::nil())
            }
        }
        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }
        impl<T> Eq for $name<T> {}
        impl<T> PartialOrd for $name<T> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl<T> Ord for $name<T> {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.cmp(&other.0)
            }
        }
        impl<T> Hash for $name<T> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl<T> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl<T> From<Uuid> for $name<T> {
            fn from(uuid: Uuid) -> Self {
                Self::new(uuid)
            }
        }
    };
}

reference! {
    /// A strong reference: the database keeps the row as long as this reference exists. The row may still be missing from a
    /// replica whose conditions exclude it.
    Ref
}

reference! {
    /// A weak reference: the database removes it when the row is deleted.
    Weak
}

impl<T> From<Ref<T>> for Weak<T> {
    fn from(strong: Ref<T>) -> Self {
        Self::new(strong.uuid())
    }
}

impl<T> From<Weak<T>> for Ref<T> {
    fn from(weak: Weak<T>) -> Self {
        Self::new(weak.uuid())
    }
}
