//! OVSDB on the wire (RFC 7047 and the extensions of ovsdb-server(7)): JSON-RPC 1.0 over an unframed byte stream.
//!
//! Everything here is pure: bytes in, values out. [`FrameSplitter`] splits a stream into JSON texts, [`Message`] classifies a
//! text, [`Cursor`] walks over it, [`Datum`] is the value of a column, [`DatabaseSchema`] the server's description of its tables.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod atom;
mod block;
pub(crate) mod clause;
pub(crate) mod cursor;
pub(crate) mod datum;
pub(crate) mod excerpt;
pub(crate) mod frame;
pub(crate) mod message;
pub(crate) mod scan;
pub(crate) mod schema;
pub(crate) mod value;
pub(crate) mod write;

pub use atom::{Atom, AtomKind, AtomRef, FromAtom, ValueError};
pub use clause::{Clause, Function};
pub use cursor::Cursor;
pub use datum::Datum;
pub use excerpt::Excerpt;
pub use frame::{FrameError, FrameSplitter};
pub use message::{Message, MessageError, notification, refusal, reply, request};
pub use schema::{
    BaseKind, ColumnKind, ColumnSchema, DatabaseSchema, Limits, Reference, SchemaError, TableSchema,
};
pub use write::printed as write_printed;
