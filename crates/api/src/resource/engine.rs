//! The rules that hold for every noun, with the noun's type forgotten.
//!
//! Everything that a request changes happens in one [`Txn`], so a bulk request is all or nothing. The order of checks is the
//! dialect's ([`CheckOrder`](crate::dialect::CheckOrder)). [`stored`](super::stored) and [`computed`](super::computed) are the
//! two kinds of nouns.
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

/// What can be done with a noun besides looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `POST` on the collection.
    Create,
    /// `PUT` on an object.
    Update,
    /// `DELETE` on an object.
    Delete,
    /// `PUT` on the collection: the body has all objects that are to be there afterwards.
    ReplaceAll,
}

/// A request to change something: what it says besides the object's id and the body.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRequest<'a> {
    /// The sender.
    pub caller: &'a Caller,
    /// What OVN reports back; answers show it.
    pub report: &'a Report,
    /// The revision that the object must have.
    pub revision: Option<i64>,
    /// The id of the object that the path names before this one, for nouns that are inside of another.
    pub parent: Option<&'a str>,
    /// The pairs of the query. Nouns declare those that mean something ([`Resource::parameters`](super::Resource::parameters)).
    pub query: &'a [(String, String)],
}

impl<'a> ChangeRequest<'a> {
    /// A request of this caller, on no condition.
    pub fn by(caller: &'a Caller, report: &'a Report) -> Self {
        ChangeRequest { caller, report, revision: None, parent: None, query: &[] }
    }

    pub(super) fn scene<'t>(&'t self, world: &'t World, outside: &'t Outside, now: Timestamp) -> Scene<'t> {
        Scene { world, report: self.report, outside, caller: self.caller, now, parent: self.parent }
    }
}

/// What a create request answers.
#[derive(Clone, Debug, PartialEq)]
pub enum CreateAnswer {
    /// The one object.
    One(RenderedObject),
    /// All objects of a bulk request, in its order.
    Many(Vec<RenderedObject>),
}

/// Something that runs before a list is read.
pub type Preparation = fn(&mut Txn, &Caller) -> Result<(), Fault>;

/// A noun with its type forgotten.
pub trait Noun: Send + Sync {
    /// In bodies.
    fn name(&self) -> &'static str;
    /// In answers to lists.
    fn collection(&self) -> &'static str;
    /// In paths.
    fn path(&self) -> &'static str;
    /// Its attributes.
    fn attributes(&self) -> &'static [Attribute];
    /// What can be done with it.
    fn verbs(&self) -> &'static [Verb];
    /// Whether single ones can be asked for.
    fn single(&self) -> bool {
        true
    }
    /// Whether it has labels.
    fn tagged(&self) -> bool;
    /// What else can be asked of one.
    fn actions(&self) -> &'static [Action];
    /// The rules for this noun, each with its name in Neutron's policy.
    fn rules(&self) -> Vec<(String, Rule)> {
        Vec::new()
    }
    /// The words and rules of its API.
    fn dialect(&self) -> &'static dyn Dialect;
    /// The noun that its paths name before it: `pools` of `pools/{id}/members`.
    fn parent(&self) -> Option<&'static dyn Noun> {
        None
    }
    /// The query parameters of a change that mean something.
    fn parameters(&self) -> &'static [Attribute] {
        &[]
    }
    /// Reads the query of a list or show.
    fn query(&self, pairs: Vec<(String, String)>) -> Result<Query, Fault>;
    /// The id of an object that the caller may see.
    fn find(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault>;
    /// The id of an object that the caller may change.
    fn find_changeable(&self, world: &World, caller: &Caller, id: &str) -> Result<Uuid, Fault>;
    /// What has to be made before the caller's list can be read, if anything.
    fn prepare(&self, world: &World, caller: &Caller) -> Option<Preparation>;

    /// What a list shows.
    fn list(&self, scene: &Scene<'_>, query: &Query) -> Result<Page, Fault>;
    /// One object, cut down to `fields` if there are any.
    fn show(&self, scene: &Scene<'_>, id: &str, fields: &[String]) -> Result<RenderedObject, Fault>;
    /// Makes one or, if the body has the collection's name, many.
    fn create(&self, txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value)
    -> Result<CreateAnswer, Fault>;
    /// Changes one.
    fn update(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        id: &str,
        body: &Value,
    ) -> Result<RenderedObject, Fault>;
    /// Removes one.
    fn delete(&self, txn: &mut Txn, request: &ChangeRequest<'_>, id: &str) -> Result<(), Fault>;
    /// Makes the collection what the body says: creates, changes and removes.
    fn replace_all(&self, txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value) -> Result<(), Fault>;
    /// Answers an action that looks.
    fn look(
        &self,
        scene: &Scene<'_>,
        action: &Action,
        action_request: ActionRequest<'_>,
    ) -> Result<Reply, Fault>;
    /// Runs an action that changes. The object is shown back if the action says so.
    fn act(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        action: &Action,
        action_request: ActionRequest<'_>,
    ) -> Result<(Reply, Option<RenderedObject>), Fault>;
    /// The labels of one.
    fn tags(&self, scene: &Scene<'_>, id: &str, tag: Option<&str>) -> Result<(u16, Reply), Fault>;
    /// Changes the labels of one.
    fn set_tags(
        &self,
        txn: &mut Txn,
        request: &ChangeRequest<'_>,
        method: Method,
        action_request: ActionRequest<'_>,
    ) -> Result<(u16, Reply), Fault>;
}

/// What a request on one object says.
#[derive(Clone, Copy, Debug)]
pub struct ActionRequest<'a> {
    /// The object's id, as the path has it.
    pub id: &'a str,
    /// What stood for each `*` of an action's path.
    pub args: &'a [&'a str],
    /// The body; `null` if there was none.
    pub body: &'a Value,
    /// The query, in order.
    pub query: &'a [(String, String)],
}

impl<'a> ActionRequest<'a> {
    pub(super) fn by(self, caller: &'a Caller, id: Uuid) -> ActionCall<'a> {
        ActionCall { caller, id, name: self.id, args: self.args, body: self.body, query: self.query }
    }
}

/// The one object that a body is about: what stands under the noun's name.
pub(super) fn unwrap<'b>(name: &'static str, body: &'b Value) -> Result<&'b Map<String, Value>, Refusal> {
    let body = body.as_object().ok_or(Refusal::MalformedBody)?;
    match body.get(name) {
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(Refusal::MalformedBody),
        None => Err(Refusal::NoObject { name }),
    }
}
