//! From the parts of a path to the function of a noun, and from its outcome to an answer.

use serde_json::{Value, json};

use super::answer::Answer;
use super::document::{refused, resources};
use super::extension;
use super::target::{Base, Target};
use super::{Api, LONGEST_WAIT};
use crate::policy::PolicyTarget;
use crate::resource::{
    self, Act, Action, Asked as Call, Changed, Method, Noun, Precondition, Query, Reply, Scene, Shown, Verb,
    quota,
};
use crate::store::Committed;
use crate::{Caller, Fault, Txn};

/// One request whose sender is known.
pub(super) struct Asked<'a> {
    pub(super) api: &'a Api,
    pub(super) target: &'a Target,
    pub(super) method: Method,
    pub(super) caller: Caller,
    pub(super) body: Value,
    pub(super) revision: Option<u64>,
    pub(super) base: &'a Base,
    pub(super) wait: bool,
}

impl Asked<'_> {
    pub(super) async fn answer(self) -> Result<Answer, Fault> {
        if self.method == Method::Delete && !self.body.is_null() {
            return Err(Fault::bad("Body is not allowed in DELETE"));
        }
        let target = self.target;
        let parts = target.parts();
        let parts = parts.get(1..).unwrap_or_default();
        match parts {
            [] => Ok(if self.method == Method::Get { resources(self.base) } else { refused(&[Method::Get]) }),
            ["extensions", rest @ ..] => self.extensions(rest),
            ["quotas", rest @ ..] => self.quotas(rest).await,
            [path, rest @ ..] => match resource::at_path(path) {
                Some(noun) => self.noun(noun, rest).await,
                None => self.root(parts).await,
            },
        }
    }

    fn extensions(self, rest: &[&str]) -> Result<Answer, Fault> {
        let answer = match rest {
            [] => extension::all(),
            [alias] => extension::one(alias)?,
            _ => return Err(Fault::no_such_path()),
        };
        Ok(if self.method == Method::Get { Answer::json(200, &answer) } else { refused(&[Method::Get]) })
    }

    /// Actions on no object.
    async fn root(self, parts: &[&str]) -> Result<Answer, Fault> {
        let mut allowed = Vec::new();
        for action in resource::ROOT {
            if action.matches(parts).is_some() {
                if action.method == self.method {
                    return self.run_root(action).await;
                }
                allowed.push(action.method);
            }
        }
        if allowed.is_empty() { Err(Fault::no_such_path()) } else { Ok(refused(&allowed)) }
    }

    async fn run_root(self, action: &'static Action) -> Result<Answer, Fault> {
        if !action.who.includes(&self.caller, &PolicyTarget::default(), None) {
            return Err(Fault::forbidden(action.rule));
        }
        let status = action.status;
        let reply = match action.act {
            Act::Read(read) => {
                let world = self.api.store.fresh().await?;
                let (report, outside) = self.seen();
                let scene = Scene { world: &world, report: &report, outside: &outside, caller: &self.caller };
                read(&scene, &call(&self.caller, &self.body))?
            }
            Act::Change(change) => {
                let (caller, body, wait) = (self.caller.clone(), self.body, self.wait);
                commit(self.api, wait, move |txn| change(txn, &call(&caller, &body))).await?.0
            }
        };
        Ok(replied(status, "", reply, None))
    }

    async fn noun(self, noun: &'static dyn Noun, rest: &[&str]) -> Result<Answer, Fault> {
        match *rest {
            [] => self.collection(noun).await,
            [id] if noun.single() => self.object(noun, id).await,
            [id, "tags", ref tag @ ..] if noun.tagged() && tag.len() < 2 => self.tags(noun, id, tag).await,
            [id, ref rest @ ..] if !rest.is_empty() => self.action(noun, id, rest).await,
            _ => Err(Fault::no_such_path()),
        }
    }

    async fn collection(self, noun: &'static dyn Noun) -> Result<Answer, Fault> {
        match self.method {
            Method::Get => self.list(noun).await,
            Method::Post if noun.verbs().contains(&Verb::Create) => {
                let (report, _) = self.seen();
                let (caller, body, revision) = (self.caller, self.body, self.revision);
                let (made, waited) = commit(self.api, self.wait, move |txn| {
                    noun.create(txn, &Precondition { caller: &caller, report: &report, revision }, &body)
                })
                .await?;
                Ok(waited.mark(match made {
                    Changed::One(shown) => Answer::object(201, noun.name(), &shown),
                    Changed::Many(all) => Answer::objects(201, noun.collection(), &all),
                }))
            }
            _ if noun.verbs().contains(&Verb::Create) => Ok(refused(&[Method::Get, Method::Post])),
            _ => Ok(refused(&[Method::Get])),
        }
    }

    async fn list(self, noun: &'static dyn Noun) -> Result<Answer, Fault> {
        let query = Query::new(self.target.pairs.clone())?;
        let mut world = self.api.store.fresh().await?;
        if let Some(prepare) = noun.prepare(&world, &self.caller) {
            let caller = self.caller.clone();
            world = self.api.store.execute(move |txn| prepare(txn, &caller)).await?.world;
        }
        let (report, outside) = self.seen();
        let (caller, base) = (self.caller.clone(), self.base.clone());
        let render = move || {
            let scene = Scene { world: &world, report: &report, outside: &outside, caller: &caller };
            let page = noun.list(&scene, &query)?;
            Ok(Answer::page(noun.collection(), noun.path(), &page, &base))
        };
        self.api.lists.render(render).await?.held(&self.api.lists, &self.caller)
    }

    async fn object(self, noun: &'static dyn Noun, id: &str) -> Result<Answer, Fault> {
        let (report, outside) = self.seen();
        let id = id.to_owned();
        let (caller, body, revision) = (self.caller, self.body, self.revision);
        match self.method {
            Method::Get => {
                let query = Query::new(self.target.pairs.clone())?;
                let world = self.api.store.fresh().await?;
                let scene = Scene { world: &world, report: &report, outside: &outside, caller: &caller };
                Ok(Answer::object(200, noun.name(), &noun.show(&scene, &id, &query.fields)?))
            }
            Method::Put if noun.verbs().contains(&Verb::Update) => {
                let (shown, waited) = commit(self.api, self.wait, move |txn| {
                    noun.update(txn, &Precondition { caller: &caller, report: &report, revision }, &id, &body)
                })
                .await?;
                Ok(waited.mark(Answer::object(200, noun.name(), &shown)))
            }
            Method::Delete if noun.verbs().contains(&Verb::Delete) => {
                let ((), waited) = commit(self.api, self.wait, move |txn| {
                    noun.delete(txn, &Precondition { caller: &caller, report: &report, revision }, &id)
                })
                .await?;
                Ok(waited.mark(Answer::empty(204)))
            }
            _ => {
                let verb = |verb, method| noun.verbs().contains(&verb).then_some(method);
                let changes = [verb(Verb::Update, Method::Put), verb(Verb::Delete, Method::Delete)];
                let allowed: Vec<_> =
                    [Method::Get].into_iter().chain(changes.into_iter().flatten()).collect();
                Ok(refused(&allowed))
            }
        }
    }

    async fn tags(self, noun: &'static dyn Noun, id: &str, tag: &[&str]) -> Result<Answer, Fault> {
        let (report, outside) = self.seen();
        let (caller, body, revision, method) = (self.caller, self.body, self.revision, self.method);
        if method == Method::Get {
            let world = self.api.store.fresh().await?;
            let scene = Scene { world: &world, report: &report, outside: &outside, caller: &caller };
            let (status, reply) = noun.tags(&scene, id, tag.first().copied())?;
            return Ok(replied(status, noun.name(), reply, None));
        }
        let (id, tag): (String, Vec<String>) =
            (id.to_owned(), tag.iter().map(|it| (*it).to_owned()).collect());
        let ((status, reply), waited) = commit(self.api, self.wait, move |txn| {
            let args: Vec<_> = tag.iter().map(String::as_str).collect();
            let who = Precondition { caller: &caller, report: &report, revision };
            noun.set_tags(txn, &who, method, Call { id: &id, args: &args, body: &body })
        })
        .await?;
        Ok(waited.mark(replied(status, noun.name(), reply, None)))
    }

    async fn action(self, noun: &'static dyn Noun, id: &str, rest: &[&str]) -> Result<Answer, Fault> {
        let mut allowed = Vec::new();
        for action in noun.actions() {
            let Some(args) = action.matches(rest) else { continue };
            if action.method != self.method {
                allowed.push(action.method);
                continue;
            }
            return self.act(noun, action, id, &args).await;
        }
        if allowed.is_empty() { Err(Fault::no_such_path()) } else { Ok(refused(&allowed)) }
    }

    async fn act(
        self,
        noun: &'static dyn Noun,
        action: &'static Action,
        id: &str,
        args: &[&str],
    ) -> Result<Answer, Fault> {
        let (report, outside) = self.seen();
        let (caller, body, revision) = (self.caller, self.body, self.revision);
        if let Act::Read(_) = action.act {
            let world = self.api.store.fresh().await?;
            let scene = Scene { world: &world, report: &report, outside: &outside, caller: &caller };
            let reply = noun.look(&scene, action, Call { id, args, body: &body })?;
            let shown = if reply == Reply::Object { Some(noun.show(&scene, id, &[])?) } else { None };
            return Ok(replied(action.status, noun.name(), reply, shown));
        }
        let (id, args): (String, Vec<String>) =
            (id.to_owned(), args.iter().map(|it| (*it).to_owned()).collect());
        let ((reply, shown), waited) = commit(self.api, self.wait, move |txn| {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let who = Precondition { caller: &caller, report: &report, revision };
            noun.act(txn, &who, action, Call { id: &id, args: &args, body: &body })
        })
        .await?;
        Ok(waited.mark(replied(action.status, noun.name(), reply, shown)))
    }

    async fn quotas(self, rest: &[&str]) -> Result<Answer, Fault> {
        let (_, outside) = self.seen();
        let (caller, body, settings) = (self.caller, self.body, &outside.settings);
        if let ([project], Method::Put) = (rest, self.method) {
            let project = (*project).to_owned();
            let (quota, waited) =
                commit(self.api, self.wait, move |txn| quota::update(txn, &caller, &project, &body)).await?;
            return Ok(waited.mark(Answer::json(200, &quota)));
        }
        if let ([project], Method::Delete) = (rest, self.method) {
            let project = (*project).to_owned();
            let ((), waited) =
                commit(self.api, self.wait, move |txn| quota::reset(txn, &caller, &project)).await?;
            return Ok(waited.mark(Answer::empty(204)));
        }
        let world = self.api.store.fresh().await?;
        let answer = match *rest {
            [] => quota::list(&world, settings, &caller)?,
            // Asked by old clients to learn their own project.
            ["tenant"] => json!({"tenant": {"tenant_id": caller.project}}),
            ["project"] => json!({"project": {"project_id": caller.project}}),
            [project] => quota::show(&world, settings, &caller, project)?,
            [project, "default"] => quota::default(settings, &caller, project)?,
            [project, "details"] => quota::details(&world, settings, &caller, project)?,
            _ => return Err(Fault::no_such_path()),
        };
        Ok(match (self.method, rest) {
            (Method::Get, _) => Answer::json(200, &answer),
            (_, [_]) => refused(&[Method::Get, Method::Put, Method::Delete]),
            _ => refused(&[Method::Get]),
        })
    }

    fn seen(&self) -> (crate::report::Report, std::sync::Arc<crate::world::Outside>) {
        (self.api.report.borrow().clone(), self.api.outside.borrow().clone())
    }
}

fn call<'a>(caller: &'a Caller, body: &'a Value) -> resource::Call<'a> {
    resource::Call { caller, id: uuid::Uuid::nil(), name: "", args: &[], body }
}

fn replied(status: u16, name: &str, reply: Reply, shown: Option<Shown>) -> Answer {
    match (reply, shown) {
        (Reply::Value(value), _) => Answer::json(status, &value),
        (Reply::Object, Some(shown)) => Answer::object(status, name, &shown),
        (Reply::Object | Reply::Nothing, _) => Answer::empty(status),
    }
}

/// Whether a change that was to be waited for is in the Northbound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    NotAsked,
    Applied,
    TooLong,
}

impl Waited {
    /// Says so to whoever asked. The change is made either way, so the status stays.
    fn mark(self, answer: Answer) -> Answer {
        let name = axum::http::HeaderName::from_static("x-meridian-wait");
        match self {
            Waited::NotAsked => answer,
            Waited::Applied => answer.with(name, "nb"),
            Waited::TooLong => answer.with(name, "timeout"),
        }
    }
}

/// Runs a change, and waits until the Northbound has it if that was asked for.
async fn commit<T: Send + 'static>(
    api: &Api,
    wait: bool,
    run: impl FnMut(&mut Txn) -> Result<T, Fault> + Send + 'static,
) -> Result<(T, Waited), Fault> {
    let Committed { value, world } = api.store.execute(run).await?;
    if !wait {
        return Ok((value, Waited::NotAsked));
    }
    let mut applied = api.applied.clone();
    let seq = world.seq();
    let waiting = applied.wait_for(|applied| *applied >= seq);
    let outcome = match tokio::time::timeout(LONGEST_WAIT, waiting).await {
        Ok(Ok(_)) => Waited::Applied,
        Ok(Err(_)) | Err(_) => Waited::TooLong,
    };
    Ok((value, outcome))
}
