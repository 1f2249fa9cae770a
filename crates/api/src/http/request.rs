//! One request whose sender is known, and what every dialect does with a noun: list, show, create, update, delete, replace, act.
//!
//! Here the functions of the engine meet the store. Which paths lead here, which status is answered and what the body looks like
//! is the dialect's.

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

/// One request whose sender is known.
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

/// The ids that a path names: that of the object, and that of the one it is inside of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectPath<'p> {
    pub(super) parent: Option<&'p str>,
    pub(super) id: &'p str,
}

impl<'p> ObjectPath<'p> {
    /// An object that is inside of no other.
    pub(super) fn top(id: &'p str) -> Self {
        ObjectPath { parent: None, id }
    }
}

/// What a view looks at, owned.
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
    /// What is stored and reported now.
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

    /// A page of a list, which `render` brings into the dialect's form. Both happen on another thread.
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

    /// One object, cut down to the fields that the query names.
    pub(super) async fn show(
        self,
        noun: &'static dyn Noun,
        path: ObjectPath<'_>,
    ) -> Result<RenderedObject, Fault> {
        let query = noun.query(self.target.pairs.clone())?;
        let sight = self.sight(path.parent).await?;
        noun.show(&sight.scene(), path.id, &query.fields)
    }

    /// Makes what the body says.
    pub(super) async fn create(
        self,
        noun: &'static dyn Noun,
        parent: Option<&str>,
    ) -> Result<(CreateAnswer, NorthboundWait), Fault> {
        self.change(parent, move |txn, request, body| noun.create(txn, request, body)).await
    }

    /// Changes one object as the body says.
    pub(super) async fn update(
        self,
        noun: &'static dyn Noun,
        path: ObjectPath<'_>,
    ) -> Result<(RenderedObject, NorthboundWait), Fault> {
        let id = path.id.to_owned();
        self.change(path.parent, move |txn, request, body| noun.update(txn, request, &id, body)).await
    }

    /// Removes one object.
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

    /// Makes a collection what the body says.
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

    /// Runs an action on an object, whose path had `args` where the action's has `*`.
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

    /// Runs a change with all that the request says, and waits until the Northbound has it if the request asks for that.
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

/// Whether a change that was to be waited for is in the Northbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NorthboundWait {
    NotAsked,
    Applied,
    TooLong,
}

impl NorthboundWait {
    /// Tells it the client, if the client asked. The change is made either way, so the status stays.
    pub(super) fn mark(self, answer: Answer) -> Answer {
        let name = HeaderName::from_static("x-meridian-wait");
        match self {
            NorthboundWait::NotAsked => answer,
            NorthboundWait::Applied => answer.with(name, "nb"),
            NorthboundWait::TooLong => answer.with(name, "timeout"),
        }
    }
}
