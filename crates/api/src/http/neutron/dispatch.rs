//! Maps the path of a request to a function of a noun, and its outcome to a response.

use serde_json::{Value, json};

use super::document::{refused, resources};
use super::{extension, page};
use crate::http::answer::Answer;
use crate::http::request::{ApiRequest, ObjectPath};
use crate::policy::PolicyTarget;
use crate::resource::{
    self, Act, Action, ActionCall, ActionRequest, ChangeRequest, CreateAnswer, Method, Noun, Verb, quota,
};
use crate::{Caller, Fault, Txn};

/// Answers a request whose path is below `/v2.0`.
pub(super) async fn answer(request: ApiRequest<'_>) -> Result<Answer, Fault> {
    if request.method == Method::Delete && !request.body.is_null() {
        return Err(Fault::bad("Body is not allowed in DELETE"));
    }
    let parts = request.target.parts();
    let parts = parts.get(1..).unwrap_or_default();
    let is_get = request.method == Method::Get;
    match parts {
        [] => Ok(if is_get { resources(request.base) } else { refused(&[Method::Get]) }),
        ["extensions", rest @ ..] => extensions(is_get, rest),
        ["quotas", rest @ ..] => quotas(request, rest).await,
        [path, rest @ ..] => match resource::at_path(path) {
            Some(noun) => on_noun(request, noun, rest).await,
            None => root(request, parts).await,
        },
    }
}

fn extensions(is_get: bool, rest: &[&str]) -> Result<Answer, Fault> {
    let answer = match rest {
        [] => extension::all(),
        [alias] => extension::one(alias)?,
        _ => return Err(Fault::no_such_path()),
    };
    Ok(if is_get { Answer::json(200, &answer) } else { refused(&[Method::Get]) })
}

/// Runs actions that belong to no object.
async fn root(request: ApiRequest<'_>, parts: &[&str]) -> Result<Answer, Fault> {
    let mut allowed = Vec::new();
    for action in resource::ROOT {
        if action.matches(parts).is_some() {
            if action.method == request.method {
                return run_root(request, action).await;
            }
            allowed.push(action.method);
        }
    }
    if allowed.is_empty() { Err(Fault::no_such_path()) } else { Ok(refused(&allowed)) }
}

async fn run_root(request: ApiRequest<'_>, action: &'static Action) -> Result<Answer, Fault> {
    if !action.who.includes(&request.caller, &PolicyTarget::default(), None) {
        return Err(Fault::forbidden(action.rule));
    }
    let reply = match action.act {
        Act::Read(read) => {
            let sight = request.sight(None).await?;
            read(&sight.scene(), &call(&request.caller, &request.body))?
        }
        Act::Change(change) => {
            let run = move |txn: &mut Txn, by: &ChangeRequest<'_>, body: &Value| {
                change(txn, &call(by.caller, body))
            };
            request.change(None, run).await?.0
        }
    };
    Ok(Answer::reply(action.status, "", reply, None))
}

fn call<'a>(caller: &'a Caller, body: &'a Value) -> ActionCall<'a> {
    ActionCall { caller, id: uuid::Uuid::nil(), name: "", args: &[], body, query: &[] }
}

async fn on_noun(request: ApiRequest<'_>, noun: &'static dyn Noun, rest: &[&str]) -> Result<Answer, Fault> {
    match *rest {
        [] => on_collection(request, noun).await,
        [id] if noun.single() => on_object(request, noun, id).await,
        [id, "tags", ref tag @ ..] if noun.tagged() && tag.len() < 2 => {
            on_tags(request, noun, id, tag.first().copied()).await
        }
        [id, ref rest @ ..] if !rest.is_empty() => on_action(request, noun, id, rest).await,
        _ => Err(Fault::no_such_path()),
    }
}

async fn on_collection(request: ApiRequest<'_>, noun: &'static dyn Noun) -> Result<Answer, Fault> {
    match request.method {
        Method::Get => request.list(noun, None, move |found, base| page(noun, found, base)).await,
        Method::Post if noun.verbs().contains(&Verb::Create) => {
            let (made, wait) = request.create(noun, None).await?;
            Ok(wait.mark(match made {
                CreateAnswer::One(object) => Answer::object(201, noun.name(), &object),
                CreateAnswer::Many(objects) => Answer::objects(201, noun.collection(), &objects),
            }))
        }
        _ if noun.verbs().contains(&Verb::Create) => Ok(refused(&[Method::Get, Method::Post])),
        _ => Ok(refused(&[Method::Get])),
    }
}

async fn on_object(request: ApiRequest<'_>, noun: &'static dyn Noun, id: &str) -> Result<Answer, Fault> {
    let path = ObjectPath::top(id);
    match request.method {
        Method::Get => Ok(Answer::object(200, noun.name(), &request.show(noun, path).await?)),
        Method::Put if noun.verbs().contains(&Verb::Update) => {
            let (object, wait) = request.update(noun, path).await?;
            Ok(wait.mark(Answer::object(200, noun.name(), &object)))
        }
        Method::Delete if noun.verbs().contains(&Verb::Delete) => {
            Ok(request.delete(noun, path).await?.mark(Answer::empty(204)))
        }
        _ => {
            let verb = |verb, method| noun.verbs().contains(&verb).then_some(method);
            let changes = [verb(Verb::Update, Method::Put), verb(Verb::Delete, Method::Delete)];
            let allowed: Vec<_> = [Method::Get].into_iter().chain(changes.into_iter().flatten()).collect();
            Ok(refused(&allowed))
        }
    }
}

async fn on_tags(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    id: &str,
    tag: Option<&str>,
) -> Result<Answer, Fault> {
    let method = request.method;
    if method == Method::Get {
        let sight = request.sight(None).await?;
        let (status, reply) = noun.tags(&sight.scene(), id, tag)?;
        return Ok(Answer::reply(status, noun.name(), reply, None));
    }
    let (id, tag) = (id.to_owned(), tag.map(str::to_owned));
    let change = move |txn: &mut Txn, by: &ChangeRequest<'_>, body: &Value| {
        let args: Vec<_> = tag.iter().map(String::as_str).collect();
        noun.set_tags(txn, by, method, ActionRequest { id: &id, args: &args, body, query: by.query })
    };
    let ((status, reply), wait) = request.change(None, change).await?;
    Ok(wait.mark(Answer::reply(status, noun.name(), reply, None)))
}

async fn on_action(
    request: ApiRequest<'_>,
    noun: &'static dyn Noun,
    id: &str,
    rest: &[&str],
) -> Result<Answer, Fault> {
    let mut allowed = Vec::new();
    for action in noun.actions() {
        let Some(args) = action.matches(rest) else { continue };
        if action.method != request.method {
            allowed.push(action.method);
            continue;
        }
        let (reply, object, wait) = request.act(noun, action, ObjectPath::top(id), &args).await?;
        return Ok(wait.mark(Answer::reply(action.status, noun.name(), reply, object.as_ref())));
    }
    if allowed.is_empty() { Err(Fault::no_such_path()) } else { Ok(refused(&allowed)) }
}

async fn quotas(request: ApiRequest<'_>, rest: &[&str]) -> Result<Answer, Fault> {
    let method = request.method;
    if let ([project], Method::Put) = (rest, method) {
        let project = (*project).to_owned();
        let set = move |txn: &mut Txn, by: &ChangeRequest<'_>, body: &Value| {
            quota::update(txn, by.caller, &project, body)
        };
        let (quota, wait) = request.change(None, set).await?;
        return Ok(wait.mark(Answer::json(200, &quota)));
    }
    if let ([project], Method::Delete) = (rest, method) {
        let project = (*project).to_owned();
        let reset =
            move |txn: &mut Txn, by: &ChangeRequest<'_>, _: &Value| quota::reset(txn, by.caller, &project);
        return Ok(request.change(None, reset).await?.1.mark(Answer::empty(204)));
    }
    let sight = request.sight(None).await?;
    let (world, caller, settings) = (sight.scene().world, &request.caller, &sight.scene().outside.settings);
    let answer = match *rest {
        [] => quota::list(world, settings, caller)?,
        // Old clients request this to learn their own project.
        ["tenant"] => json!({"tenant": {"tenant_id": caller.project}}),
        ["project"] => json!({"project": {"project_id": caller.project}}),
        [project] => quota::show(world, settings, caller, project)?,
        [project, "default"] => quota::default(settings, caller, project)?,
        [project, "details"] => quota::details(world, settings, caller, project)?,
        _ => return Err(Fault::no_such_path()),
    };
    Ok(match (method, rest) {
        (Method::Get, _) => Answer::json(200, &answer),
        (_, [_]) => refused(&[Method::Get, Method::Put, Method::Delete]),
        _ => refused(&[Method::Get]),
    })
}
