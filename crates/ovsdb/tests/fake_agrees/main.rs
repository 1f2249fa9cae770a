//! The fake agrees with the real ovsdb-server: both get the same requests, and a client must receive the same from both.

mod operations;
mod pair;
mod protocol;
mod random;
