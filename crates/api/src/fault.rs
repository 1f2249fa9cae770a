//! Errors of requests: a status, a type that clients match on, and a message.
//!
//! The types are Neutron's class names because clients and test suites match on them. This file has only the faults that several nouns use;
//! a fault of a single noun is created in its file, with [`Fault::new`]. The wire format is in `http`.

use std::fmt;

/// The error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// HTTP status.
    pub status: u16,
    /// Neutron's class name, such as `NetworkInUse`.
    pub kind: &'static str,
    /// The cause, for people.
    pub message: String,
}

impl Fault {
    /// A fault of any kind.
    pub fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Fault { status, kind, message: message.into() }
    }

    /// 400, a bad request in general: `HTTPBadRequest`.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "HTTPBadRequest", message)
    }

    /// 400, Neutron's message for an invalid value: `Invalid input for <attribute>. Reason: <reason>.`
    pub fn invalid(attribute: &str, reason: impl fmt::Display) -> Self {
        Self::bad(format!("Invalid input for {attribute}. Reason: {reason}."))
    }

    /// 400, Neutron's message for an inconsistent request: `Bad <resource> request: <message>.`
    pub fn senseless(resource: &str, message: impl fmt::Display) -> Self {
        Self::new(400, "BadRequest", format!("Bad {resource} request: {message}."))
    }

    /// 400, Neutron's message for contradictory attributes: `Invalid input for operation: <message>.`
    pub fn input(message: impl fmt::Display) -> Self {
        Self::new(400, "InvalidInput", format!("Invalid input for operation: {message}."))
    }

    /// 404, an unknown object: `Network <id> could not be found.`
    pub fn absent(kind: &'static str, what: &str, id: impl fmt::Display) -> Self {
        Self::new(404, kind, format!("{what} {id} could not be found."))
    }

    /// 404, an unknown path.
    pub fn no_such_path() -> Self {
        Self::new(404, "HTTPNotFound", "The resource could not be found.")
    }

    /// 405, a method that the path does not support.
    pub fn not_allowed() -> Self {
        Self::new(405, "HTTPMethodNotAllowed", "The method is not allowed for this resource.")
    }

    /// 412, another revision than the request expected.
    pub fn revised(expected: i64, present: u64) -> Self {
        let text = format!("Constrained to {expected}, but current revision is {present}");
        Self::new(412, "RevisionNumberConstraintFailed", text)
    }

    /// 403, a denied rule: `(rule:<rule>) is disallowed by policy`.
    pub fn forbidden(rule: impl fmt::Display) -> Self {
        Self::new(403, "PolicyNotAuthorized", format!("(rule:{rule}) is disallowed by policy"))
    }

    /// 409, with a type of its own.
    pub fn conflict(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(409, kind, message)
    }

    /// 500, a bug of ours. The message has no details; the log does.
    pub fn internal() -> Self {
        let text = "Request Failed: internal server error while processing your request.";
        Self::new(500, "HTTPInternalServerError", text)
    }

    /// 503, while the database does not reply.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.kind, self.message)
    }
}

impl std::error::Error for Fault {}
