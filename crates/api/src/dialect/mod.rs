//! Dialects: the messages, statuses and order of checks of each API.
//!
//! The nouns of all APIs share one engine ([`resource`](crate::resource)). Where OpenStack's services differ, the engine uses the noun's
//! [`Dialect`]. Above all, a refusal of the engine itself is data ([`Refusal`]), and the dialect renders it as a [`Fault`]: Neutron answers
//! "Unrecognized attribute(s) 'x'", Octavia "Unknown attribute for argument pool: x". A fault of a single noun is not in the dialect; the
//! noun creates it with [`Fault::new`].
//!
//! The wire format (paths, error bodies, page links) is in [`HttpDialect`](crate::http::HttpDialect).
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

/// The messages and rules of one API.
pub trait Dialect: Send + Sync {
    /// Renders a refusal that concerns a noun.
    fn refuse(&self, noun: NounNames, refusal: Refusal) -> Fault;
    /// The response for an object that exists but is invisible to the caller.
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
    /// The name in bodies: `security_group`.
    pub name: &'static str,
    /// The fault for an unknown id: its type, and the first word of its message, such as `("NetworkNotFound", "Network")`.
    pub absent: (&'static str, &'static str),
}

/// The response for an object that exists but is invisible to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenObject {
    /// 404, as if it did not exist: the caller does not learn that the id is in use.
    Absent,
    /// 403.
    Forbidden,
}

/// The order in which the engine checks a change. Clients and test suites depend on which of two mistakes is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOrder {
    /// Object (404), permission (403), revision (412), body (400), permission to set these attributes (403). Nouns check quotas themselves.
    /// Neutron's order.
    ObjectFirst,
    /// Body (400), parent and object (404), permission (403), revision (412), permission to set these attributes (403),
    /// quota. Octavia's order.
    BodyFirst,
}
