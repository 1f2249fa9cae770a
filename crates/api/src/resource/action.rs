//! What can be asked of an object besides show, update and delete: sub-methods and sub-resources.

use std::fmt;

use serde_json::Value;
use uuid::Uuid;

use super::{Permission, Scene, Shape};
use crate::policy::Rule;
use crate::{Caller, Fault, Txn};

/// An HTTP method of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Looks.
    Get,
    /// Makes.
    Post,
    /// Sets.
    Put,
    /// Removes.
    Delete,
}

impl Method {
    /// The word in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }
}

/// One thing that can be asked of an object: `PUT /v2.0/routers/{id}/add_router_interface`.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// The method.
    pub method: Method,
    /// What follows the object's id in the path. A `*` stands for any one segment and becomes an argument.
    pub path: &'static str,
    /// The name of its policy rule: `add_router_interface`.
    pub rule: &'static str,
    /// One sentence for the API document.
    pub about: &'static str,
    /// Who may, among those who see the object. [`Permission::Nobody`] means everybody who sees it.
    pub who: Permission,
    /// Status of the answer.
    pub status: u16,
    /// What its body looks like, if it has one.
    pub body: Option<Shape>,
    /// What it does.
    pub act: Act,
}

/// What an action does.
#[derive(Clone, Copy)]
pub enum Act {
    /// Looks.
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
    /// Who calls.
    pub caller: &'a Caller,
    /// The object's id. Nil for computed nouns, whose ids need not be UUIDs.
    pub id: Uuid,
    /// The id as the path has it.
    pub name: &'a str,
    /// What stood for each `*`.
    pub args: &'a [&'a str],
    /// The body; `null` if there was none.
    pub body: &'a Value,
    /// The query, in order.
    pub query: &'a [(String, String)],
}

/// What an action answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The object as it is now, under its name: `{"router": {...}}`.
    Object,
    /// This.
    Value(Value),
    /// Nothing: an empty body.
    Nothing,
}

impl Action {
    /// An action that changes: `PUT`, 200, for whoever may change the object.
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

    /// An action that looks: `GET`, 200, for whoever sees the object.
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

    /// For these only.
    pub const fn by(self, rule: Rule) -> Self {
        Action { who: Permission::By(rule), ..self }
    }

    /// With another method and status.
    pub const fn with(self, method: Method, status: u16) -> Self {
        Action { method, status, ..self }
    }

    /// With a body of this shape.
    pub const fn body(self, body: Shape) -> Self {
        Action { body: Some(body), ..self }
    }

    /// Under another name in policy.
    pub const fn rule(self, rule: &'static str) -> Self {
        Action { rule, ..self }
    }

    /// The arguments, if the rest of a path is this action's.
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
