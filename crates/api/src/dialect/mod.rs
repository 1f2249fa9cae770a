//! How an API speaks: its words, statuses and order of checks.
//!
//! Nouns of all APIs share one engine ([`resource`](crate::resource)). Where OpenStack's services differ, the engine asks the
//! [`Dialect`] of the noun. Above all, a refusal of the engine itself is data ([`Refusal`]), and the dialect renders it as a
//! [`Fault`]: Neutron answers "Unrecognized attribute(s) 'x'", Octavia "Unknown attribute for argument pool: x". A fault of one
//! noun alone is no business of a dialect; the noun makes it with [`Fault::new`].
//!
//! The form on the wire (paths, error bodies, page links) is the [`HttpDialect`](crate::http::HttpDialect)'s.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod neutron;
pub mod octavia;
mod refusal;

use crate::Fault;
use crate::resource::list::QueryGrammar;
use crate::resource::quota::Limited;

pub use neutron::Neutron;
pub use octavia::Octavia;
pub use refusal::{Misfit, Refusal};

/// The words and rules of one API.
pub trait Dialect: Send + Sync {
    /// Renders a refusal that concerns a noun.
    fn refuse(&self, noun: NounNames, refusal: Refusal) -> Fault;
    /// The answer about an object that exists and that the caller may not see.
    fn hidden_object(&self) -> HiddenObject;
    /// The order in which the engine checks a change.
    fn check_order(&self) -> CheckOrder;
    /// The grammar of list queries.
    fn query_grammar(&self) -> &'static QueryGrammar;
    /// The quotas of this API.
    fn limited(&self) -> &'static [Limited];
}

/// The names of a noun in refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NounNames {
    /// In bodies: `security_group`.
    pub name: &'static str,
    /// Type of the fault if there is none with an id, and how its text begins: `("NetworkNotFound", "Network")`.
    pub absent: (&'static str, &'static str),
}

/// The answer about an object that exists and that the caller may not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenObject {
    /// As if it did not exist: 404. The caller does not learn that the id is in use.
    Absent,
    /// 403.
    Forbidden,
}

/// The order in which the engine checks a change. Clients and test suites depend on which of two mistakes is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOrder {
    /// Object (404), permission (403), revision (412), body (400), permission to set these attributes (403). Nouns check quotas
    /// by themselves. Neutron's order.
    ObjectFirst,
    /// Body (400), parent and object (404), permission (403), revision (412), permission to set these attributes (403),
    /// quota. Octavia's order.
    BodyFirst,
}
