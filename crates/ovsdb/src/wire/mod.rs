//! OVSDB on the wire (RFC 7047 and the extensions of ovsdb-server(7)): JSON-RPC 1.0 over an unframed byte stream.
//!
//! Everything here is pure: bytes in, values out. [`frame`] splits a stream into JSON texts, [`message`] classifies a text,
//! [`cursor`] walks over it, [`datum`] holds the values of columns, [`schema`] the server's description of its tables.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod atom;
mod block;
pub mod clause;
pub mod cursor;
pub mod datum;
pub mod excerpt;
pub mod frame;
pub mod message;
pub(crate) mod scan;
pub mod schema;
pub(crate) mod value;
pub mod write;
