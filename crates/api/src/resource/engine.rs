//! The dynamic interface of all nouns, and the rules that hold for each.
//!
//! All changes of a request happen in one [`Txn`], so a bulk request is all or nothing. The dialect determines the order of checks
//! ([`CheckOrder`](crate::dialect::CheckOrder)). [`stored`](super::stored) and [`computed`](super::computed) are the two kinds of nouns.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::list::{Page, Query};
use super::{Action, ActionCall, Attribute, Method, RenderedObject, Reply, Scene};
use crate::dialect::{Dialect, Refusal};
use crate::policy::Rule;
use crate::report::Report;
use crate::world::Outside;
use crate::{Caller, Fault, Txn, World};

/// The changes that a noun supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `POST` on the collection.
    Create,
    /// `PUT` on an object.
    Update,
    /// `DELETE` on an object.
    Delete,
    /// `PUT` on the collection: the body contains all objects that should exist afterwards.
    ReplaceAll,
}

/// A request to change something, without the object's id and the body.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRequest<'a> {
    /// The sender.
    pub caller: &'a Caller,
    /// OVN's reports, for the response.
    pub report: &'a Report,
    /// The revision that the object must have, if any.
    pub revision: Option<i64>,
    /// The id of the parent in the path, for nouns inside of another.
    pub parent: Option<&'a str>,
    /// The key-value pairs of the query. Nouns declare those that they use ([`Resource::parameters`](super::Resource::parameters)).
    pub query: &'a [(String, String)],
}

impl<'a> ChangeRequest<'a> {
    /// A request of this caller without conditions.
    pub fn by(caller: &'a Caller, report: &'a Report) -> Self {
        ChangeRequest { caller, report, revision: None, parent: None, query: &[] }
    }

    pub(super) fn scene<'t>(&'t self, world: &'t World, outside: &'t Outside, now: Timestamp) -> Scene<'t> {
        Scene { world, report: self.report, outside, caller: self.caller, now, parent: self.parent }
    }
}

/// The response to a create request.
#[derive(Clone, Debug, PartialEq)]
pub enum CreateAnswer {
    /// The one object.
    One(RenderedObject),
    /// All objects of a bulk request, in its order.
    Many(Vec<RenderedObject>),
}

/// A change that must run before a list is read.
pub type Preparation = fn(&mut Txn, &Caller) -> Result<(), Fault>;

/// The dynamic interface of a noun.
pub trait Noun: Send + Sync {
    /// The name in bodies.
    fn name(&self) -> &'static str;
    /// The name in list responses.
    fn collection(&self) -> &'static str;
    /// The name in paths.
    fn path(&self) -> &'static str;
    /// Its attributes.
    fn attributes(&self) -> &'static [Attribute];
    /// The supported changes.
    fn verbs(&self) -> &'static [Verb];
    /// Whether paths can name a single object.
    fn single(&self) -> bool {
        true
    }
    /// Whether it has tags.
    fn tagged(&self) -> bool;
    /// Further actions on one object.
    fn actions(&self) -> &'static [Action];
    /// The rules for this noun, each with its name in Neutron's policy.
    fn rules(&self) -> Vec<(String, Rule)> {
        Vec::new()
    }
    /// The dialect of its API.
    fn dialect(&self) -> &'static dyn Dialect;
    /// The parent noun in its paths: `pools` of `pools/{id}/members`.
    fn parent(&self) -> Option<&'static dyn Noun> {
        None
    }
    /// The supported query parameters of a change.
    fn parameters(&self) -> &'static [Attribute] {
        &[]
    }
    /// Parses the query of a list or show.
    fn query(&self, pairs: Vec<(String, String)>) -> Result<Query, Fault>;
    /// The id of an object that the caller may see.
    fn find(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault>;
    /// The id of an object that the caller may change.
    fn find_changeable(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault>;
    /// A change that must run before the caller's list is read, if any.
    fn prepare(&self, world: &World, caller: &Caller) -> Option<Preparation>;

    /// A page of the list.
    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault>;
    /// One object, limited to `fields` unless empty.
    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<RenderedObject, Fault>;
    /// Creates one object or, if the body has the collection's name, many.
    fn create(&self, txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value)
    -> Result<CreateAnswer, Fault>;
    /// Changes one object.
    fn update(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        id: &str,
        body: &Value,
    ) -> Result<RenderedObject, Fault>;
    /// Deletes one object.
    fn delete(&self, txn: &mut Txn, request: &ChangeRequest<'_>, id: &str) -> Result<(), Fault>;
    /// Replaces the collection by the body: creates, changes and deletes objects.
    fn replace_all(&self, txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value) -> Result<(), Fault>;
    /// Runs an action that reads.
    fn look(
        &self,
        scene: &Scene<'_>,
        action: &Action,
        action_request: ActionRequest<'_>,
    ) -> Result<Reply, Fault>;
    /// Runs an action that changes. Returns the object if the action requests that.
    fn act(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        action: &Action,
        action_request: ActionRequest<'_>,
    ) -> Result<(Reply, Option<RenderedObject>), Fault>;
    /// The tags of one object.
    fn tags(&self, scene: &Scene<'_>, id: &str, tag: Option<&str>) -> Result<(u16, Reply), Fault>;
    /// Changes the tags of one object.
    fn set_tags(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        method: Method,
        action_request: ActionRequest<'_>,
    ) -> Result<(u16, Reply), Fault>;
}

/// A request on one object.
#[derive(Clone, Copy, Debug)]
pub struct ActionRequest<'a> {
    /// The object's id from the path.
    pub id: &'a str,
    /// The segments that match each `*` of an action's path.
    pub args: &'a [&'a str],
    /// The body; `null` if it is empty.
    pub body: &'a Value,
    /// The query, in order.
    pub query: &'a [(String, String)],
}

impl<'a> ActionRequest<'a> {
    pub(super) fn by(self, caller: &'a Caller, id: Uuid) -> ActionCall<'a> {
        ActionCall { caller, id, name: self.id, args: self.args, body: self.body, query: self.query }
    }
}

/// The object under the noun's name in a body.
pub(super) fn unwrap<'b>(name: &'static str, body: &'b Value) -> Result<&'b Map<String, Value>, Refusal> {
    let body = body.as_object().ok_or(Refusal::MalformedBody)?;
    match body.get(name) {
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(Refusal::MalformedBody),
        None => Err(Refusal::NoObject { name }),
    }
}
