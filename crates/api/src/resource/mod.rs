//! The nouns of the API: what a request may do to each, as functions of a transaction.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod ipam;
pub mod port;
pub mod rbac_policy;

#[cfg(test)]
mod fixture;
