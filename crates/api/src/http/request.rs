//! An authenticated request, and the operations that every dialect runs on nouns: list, show, create, update, delete, replace, act.
//!
//! Here the engine meets the store. The dialect chooses the paths that lead here, the status and the body of the response.

use std::sync::Arc;

use axum::http::HeaderName;
use jiff::Timestamp;
use serde_json::Value;

use super::answer::Answer;
use super::target::{Base, Target};
use super::{Api, LONGEST_WAIT};
use crate::report::Report;
use crate::resource::{
    Act, Action, ActionRequest, ChangeRequest, CreateAnswer, Method, Noun, Page, RenderedObject, Reply, Scene,
};
use crate::store::Committed;
use crate::world::{Outside, World};
use crate::{Caller, Fault, Txn};

/// An authenticated request.
#[derive(Debug)]
pub struct ApiRequest<'a> {
    pub(super) api: &'a Api,
    pub(super) target: &'a Target,
    pub(super) method: Method,
    pub(super) caller: Caller,
    pub(super) body: Value,
    pub(super) revision: Option<i64>,
    pub(super) base: &'a Base,
    pub(super) wait: bool,
}

/// The ids in a path: that of the object, and that of its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPath<'p> {
    pub(super) parent: Option<&'p str>,
    pub(super) id: &'p str,
}

impl<'p> ObjectPath<'p> {
    /// An object without a parent.
    pub(super) fn top(id: &'p str) -> Self {
        ObjectPath { parent: None, id }
    }
}

/// The inputs of a view, owned.
pub(super) struct Sight {
    world: World,
    report: Report,
    outside: Arc<Outside>,
    caller: Caller,
    parent: Option<String>,
    now: Timestamp,
}

impl Sight {
    pub(super) fn scene(&self) -> Scene<'_> {
        Scene {
            world: &self.world,
            report: &self.report,
            outside: &self.outside,
            caller: &self.caller,
            now: self.now,
            parent: self.parent.as_deref(),
        }
    }
}

impl ApiRequest<'_> {
    /// The stored and the reported state now.
    pub(super) async fn sight(&self, parent: Option<&str>) -> Result<Sight, Fault> {
        let world = self.api.store.fresh().await?;
        Ok(self.sight_of(world, parent))
    }

    fn sight_of(&self, world: World, parent: Option<&str>) -> Sight {
        Sight {
            world,
            report: self.api.report.borrow().clone(),
            outside: self.outside(),
            caller: self.caller.clone(),
            parent: parent.map(str::to_owned),
            now: Timestamp::now(),
        }
    }

    pub(super) fn outside(&self) -> Arc<Outside> {
        self.api.outside.borrow().clone()
    }

    /// A page of a list, which `render` converts to the dialect's format. Both happen on another thread.
    pub(super) async fn list(
        self,
        noun: &'static dyn Noun,
        parent: Option<&str>,
        render: impl FnOnce(&Page, &Base) -> Answer + Send + 'static,
    ) -> Result<Answer, Fault> {
        let query = noun.query(self.target.pairs.clone())?;
        let mut world = self.api.store.fresh().await?;
        if let Some(prepare) = noun.prepare(&world, &self.caller) {
            let caller = self.caller.clone();
            world = self.api.store.execute(move |txn| prepare(txn, &caller)).await?.world;
        }
        let (sight, base) = (self.sight_of(world, parent), self.base.clone());
        let render = move || Ok(render(&noun.list(&sight.scene(), &query)?, &base));
        self.api.lists.render(render).await?.held(&self.api.lists, &self.caller)
    }

    /// One object, limited to the fields in the query.
    pub(super) async fn show(
        self,
        noun: &'static dyn Noun,
        path: ObjectPath<'_>,
    ) -> Result<RenderedObject, Fault> {
        let query = noun.query(self.target.pairs.clone())?;
        let sight = self.sight(path.parent).await?;
        noun.show(&sight.scene(), path.id, &query.fields)
    }

    /// Creates the objects of the body.
    pub(super) async fn create(
        self,
        noun: &'static dyn Noun,
        parent: Option<&str>,
    ) -> Result<(CreateAnswer, NorthboundWait), Fault> {
        self.change(parent, move |txn, request, body| noun.create(txn, request, body)).await
    }

    /// Applies the body to an object.
    pub(super) async fn update(
        self,
        noun: &'static dyn Noun,
        path: ObjectPath<'_>,
    ) -> Result<(RenderedObject, NorthboundWait), Fault> {
        let id = path.id.to_owned();
        self.change(path.parent, move |txn, request, body| noun.update(txn, request, &id, body)).await
    }

    /// Deletes an object.
    pub(super) async fn delete(
        self,
        noun: &'static dyn Noun,
        path: ObjectPath<'_>,
    ) -> Result<NorthboundWait, Fault> {
        let id = path.id.to_owned();
        let change =
            move |txn: &mut Txn, request: &ChangeRequest<'_>, _: &Value| noun.delete(txn, request, &id);
        Ok(self.change(path.parent, change).await?.1)
    }

    /// Replaces a collection by the body.
    pub(super) async fn replace_all(
        self,
        noun: &'static dyn Noun,
        parent: Option<&str>,
    ) -> Result<NorthboundWait, Fault> {
        let replace = move |txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value| {
            noun.replace_all(txn, request, body)
        };
        Ok(self.change(parent, replace).await?.1)
    }

    /// Runs an action on an object; `args` are the segments that match each `*` in the action's path.
    pub(super) async fn act(
        self,
        noun: &'static dyn Noun,
        action: &'static Action,
        path: ObjectPath<'_>,
        args: &[&str],
    ) -> Result<(Reply, Option<RenderedObject>, NorthboundWait), Fault> {
        if let Act::Read(_) = action.act {
            let sight = self.sight(path.parent).await?;
            let request = ActionRequest { id: path.id, args, body: &self.body, query: &self.target.pairs };
            let reply = noun.look(&sight.scene(), action, request)?;
            let object = match reply {
                Reply::Object => Some(noun.show(&sight.scene(), path.id, &[])?),
                Reply::Value(_) | Reply::Nothing => None,
            };
            return Ok((reply, object, NorthboundWait::NotAsked));
        }
        let id = path.id.to_owned();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let change = move |txn: &mut Txn, request: &ChangeRequest<'_>, body: &Value| {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            noun.act(txn, request, action, ActionRequest { id: &id, args: &args, body, query: request.query })
        };
        let ((reply, object), wait) = self.change(path.parent, change).await?;
        Ok((reply, object, wait))
    }

    /// Runs a change, and waits for the Northbound to contain it if the request has `wait`.
    pub(super) async fn change<T: Send + 'static>(
        self,
        parent: Option<&str>,
        mut run: impl FnMut(&mut Txn, &ChangeRequest<'_>, &Value) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(T, NorthboundWait), Fault> {
        let report = self.api.report.borrow().clone();
        let (caller, body, revision, wait) = (self.caller, self.body, self.revision, self.wait);
        let (parent, query) = (parent.map(str::to_owned), self.target.pairs.clone());
        let run = move |txn: &mut Txn| {
            let (parent, query) = (parent.as_deref(), query.as_slice());
            run(txn, &ChangeRequest { caller: &caller, report: &report, revision, parent, query }, &body)
        };
        let Committed { value, world } = self.api.store.execute(run).await?;
        if !wait {
            return Ok((value, NorthboundWait::NotAsked));
        }
        let mut applied = self.api.applied.clone();
        let seq = world.seq();
        let waiting = applied.wait_for(|applied| *applied >= seq);
        let outcome = match tokio::time::timeout(LONGEST_WAIT, waiting).await {
            Ok(Ok(_)) => NorthboundWait::Applied,
            Ok(Err(_)) | Err(_) => NorthboundWait::TooLong,
        };
        Ok((value, outcome))
    }
}

/// The outcome of waiting for the Northbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NorthboundWait {
    NotAsked,
    Applied,
    TooLong,
}

impl NorthboundWait {
    /// Adds the outcome as a header, if the client waited. The change is made in any case, so the status stays.
    pub(super) fn mark(self, answer: Answer) -> Answer {
        let name = HeaderName::from_static("x-meridian-wait");
        match self {
            NorthboundWait::NotAsked => answer,
            NorthboundWait::Applied => answer.with(name, "nb"),
            NorthboundWait::TooLong => answer.with(name, "timeout"),
        }
    }
}
