//! The fake agrees with the real ovsdb-server: both get the same requests, and what a client hears must be the same.

mod operations;
mod pair;
mod protocol;
mod random;
