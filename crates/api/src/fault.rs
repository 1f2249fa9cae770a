//! How a request fails: a status, a type that clients match on, and a sentence.
//!
//! Types are Neutron's class names because clients and test suites look for them. Here are only the shapes that several
//! nouns need; a fault of one noun is made where it is found, with [`Fault::new`]. The wire format lives in `http`.

use std::fmt;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// HTTP status.
    pub status: u16,
    /// Neutron's class name, such as `NetworkInUse`.
    pub kind: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

impl Fault {
    /// A fault of any kind.
    pub fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Fault { status, kind, message: message.into() }
    }

    /// 400 of a plain bad request: `HTTPBadRequest`.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "HTTPBadRequest", message)
    }

    /// 400 with Neutron's words for a value that does not fit: `Invalid input for <attribute>. Reason: <reason>.`
    pub fn invalid(attribute: &str, reason: impl fmt::Display) -> Self {
        Self::bad(format!("Invalid input for {attribute}. Reason: {reason}."))
    }

    /// 400 with Neutron's words for a request that makes no sense: `Bad <resource> request: <message>.`
    pub fn senseless(resource: &str, message: impl fmt::Display) -> Self {
        Self::new(400, "BadRequest", format!("Bad {resource} request: {message}."))
    }

    /// 400 with Neutron's words for attributes that do not fit each other: `Invalid input for operation: <message>.`
    pub fn input(message: impl fmt::Display) -> Self {
        Self::new(400, "InvalidInput", format!("Invalid input for operation: {message}."))
    }

    /// 404 of an object: `Network <id> could not be found.`
    pub fn absent(kind: &'static str, what: &str, id: impl fmt::Display) -> Self {
        Self::new(404, kind, format!("{what} {id} could not be found."))
    }

    /// 404 of a path.
    pub fn no_such_path() -> Self {
        Self::new(404, "HTTPNotFound", "The resource could not be found.")
    }

    /// 405 of a method that a path does not have.
    pub fn not_allowed() -> Self {
        Self::new(405, "HTTPMethodNotAllowed", "The method is not allowed for this resource.")
    }

    /// 412 of a change that was conditional on a revision.
    pub fn revised(expected: i64, present: u64) -> Self {
        let text = format!("Constrained to {expected}, but current revision is {present}");
        Self::new(412, "RevisionNumberConstraintFailed", text)
    }

    /// 403 of a rule: `(rule:<rule>) is disallowed by policy`.
    pub fn forbidden(rule: impl fmt::Display) -> Self {
        Self::new(403, "PolicyNotAuthorized", format!("(rule:{rule}) is disallowed by policy"))
    }

    /// 409 with a type of its own.
    pub fn conflict(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(409, kind, message)
    }

    /// 500 of a mistake of ours. Says nothing of it: the log does.
    pub fn internal() -> Self {
        let text = "Request Failed: internal server error while processing your request.";
        Self::new(500, "HTTPInternalServerError", text)
    }

    /// 503 while the database does not answer.
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
