//! Actions: requests on an object besides show, update and delete, such as sub-methods and sub-resources.

use std::fmt;

use serde_json::Value;
use uuid::Uuid;

use super::{Permission, Scene, Shape};
use crate::policy::Rule;
use crate::{Caller, Fault, Txn};

/// An HTTP method of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates.
    Post,
    /// Replaces or changes.
    Put,
    /// Deletes.
    Delete,
}

impl Method {
    /// The name in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }
}

/// One action on an object: `PUT /v2.0/routers/{id}/add_router_interface`.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// The method.
    pub method: Method,
    /// The path after the object's id. A `*` stands for any one segment and becomes an argument.
    pub path: &'static str,
    /// The name of its policy rule: `add_router_interface`.
    pub rule: &'static str,
    /// One sentence for the API document.
    pub about: &'static str,
    /// The callers, out of those who see the object. [`Permission::Nobody`] means all of them.
    pub who: Permission,
    /// The status of the response.
    pub status: u16,
    /// The shape of its body, if it has one.
    pub body: Option<Shape>,
    /// The function.
    pub act: Act,
}

/// The function of an action.
#[derive(Clone, Copy)]
pub enum Act {
    /// Reads.
    Read(fn(&Scene<'_>, &ActionCall<'_>) -> Result<Reply, Fault>),
    /// Changes.
    Change(fn(&mut Txn, &ActionCall<'_>) -> Result<Reply, Fault>),
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Act::Read(_) => "Read",
            Act::Change(_) => "Change",
        })
    }
}

/// One call of an action.
#[derive(Clone, Copy, Debug)]
pub struct ActionCall<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The object's id. Nil for computed nouns, whose ids need not be UUIDs.
    pub id: Uuid,
    /// The id in the path.
    pub name: &'a str,
    /// The segments that match each `*`.
    pub args: &'a [&'a str],
    /// The body; `null` if it is empty.
    pub body: &'a Value,
    /// The query, in order.
    pub query: &'a [(String, String)],
}

/// The response of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The present object, under its name: `{"router": {...}}`.
    Object,
    /// This JSON.
    Value(Value),
    /// An empty body.
    Nothing,
}

impl Action {
    /// An action that changes: `PUT`, 200, for callers that may change the object.
    pub const fn put(
        path: &'static str,
        about: &'static str,
        change: fn(&mut Txn, &ActionCall<'_>) -> Result<Reply, Fault>,
    ) -> Self {
        Action {
            method: Method::Put,
            path,
            rule: path,
            about,
            who: Permission::Owner,
            status: 200,
            body: None,
            act: Act::Change(change),
        }
    }

    /// An action that reads: `GET`, 200, for callers that see the object.
    pub const fn get(
        path: &'static str,
        about: &'static str,
        read: fn(&Scene<'_>, &ActionCall<'_>) -> Result<Reply, Fault>,
    ) -> Self {
        Action {
            method: Method::Get,
            path,
            rule: path,
            about,
            who: Permission::Nobody,
            status: 200,
            body: None,
            act: Act::Read(read),
        }
    }

    /// Limits the action to the callers of a rule.
    pub const fn by(self, rule: Rule) -> Self {
        Action { who: Permission::By(rule), ..self }
    }

    /// Sets another method and status.
    pub const fn with(self, method: Method, status: u16) -> Self {
        Action { method, status, ..self }
    }

    /// Sets the shape of the body.
    pub const fn body(self, body: Shape) -> Self {
        Action { body: Some(body), ..self }
    }

    /// Sets another name for policy.
    pub const fn rule(self, rule: &'static str) -> Self {
        Action { rule, ..self }
    }

    /// The arguments, if the rest of a path matches this action.
    pub fn matches<'p>(&self, rest: &[&'p str]) -> Option<Vec<&'p str>> {
        let mut args = Vec::new();
        let mut pattern = self.path.split('/');
        for segment in rest {
            match pattern.next()? {
                "*" => args.push(*segment),
                word if word == *segment => {}
                _ => return None,
            }
        }
        pattern.next().is_none().then_some(args)
    }
}
